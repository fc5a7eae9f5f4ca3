import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { afterAll, describe, expect, it } from "vitest"
import { textFile } from "../../src/datasets/bytes.ts"
import { type DataStream, type OpenOptions, openData } from "../../src/datasets/open.ts"
import { readRecords, recordTexts } from "../../src/datasets/records.ts"
import { Random } from "../../src/kernels/random.ts"

const home = mkdtempSync(join(tmpdir(), "dess-datasets-"))
afterAll(() => rmSync(home, { recursive: true }))

let made = 0

/** Writes a folder of files and returns its path. */
function folder(files: Record<string, string | Uint8Array>): string {
  const path = join(home, String(made++))
  mkdirSync(path)
  for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content)
  return path
}

function file(content: string | Uint8Array, name = "data.csv"): string {
  return join(folder({ [name]: content }), name)
}

/** Every interaction by its outside names. */
function rows(stream: DataStream): [string, string, number, number][] {
  const out: [string, string, number, number][] = []
  for (const batch of stream.batches() as Iterable<import("../../src/types.ts").InteractionBatch>) {
    for (let i = 0; i < batch.length; i++) {
      const names = [stream.userName(batch.user[i]), stream.itemName(batch.item[i])] as const
      out.push([...names, batch.rating[i], batch.timestamp[i]])
    }
  }
  return out
}

async function readRows(content: string | Uint8Array, options: OpenOptions = {}, name = "data.csv") {
  return rows(await openData(file(content, name), options))
}

/** The message and code of the refusal of a file. */
async function refusal(content: string | Uint8Array, options: OpenOptions = {}, name = "data.csv"): Promise<string> {
  const error: unknown = await openData(file(content, name), options).then(
    () => new Error("was not refused"),
    (reason: unknown) => reason,
  )
  const { code, message } = error as { code?: string; message: string }
  return `${code} ${message.replaceAll(home, "")}`
}

const MOVIES = "1::Toy Story (1995)::Animation|Comedy\n2::Am\xe9lie (2001)::Romance|Comedy\n3::Unlisted (1999)::\n"

describe("a MovieLens folder", () => {
  it("is read with ratings.dat, latin-1 titles and genres as sorted 0/1 columns", async () => {
    const path = folder({
      "ratings.dat": "7::2::5::978300760\n7::1::3::978300700\n8::3::4::978300800\n",
      "movies.dat": Buffer.from(MOVIES, "latin1"),
    })
    const stream = await openData(path)
    expect(rows(stream)).toEqual([
      ["7", "1", 3, 978300700],
      ["7", "2", 5, 978300760],
      ["8", "3", 4, 978300800],
    ])
    expect(stream.features?.columns).toEqual(["Animation", "Comedy", "Romance"])
    expect([...(stream.features?.values ?? [])]).toEqual([1, 1, 0, 0, 1, 1, 0, 0, 0])
    expect([...(stream.features?.present ?? [])]).toEqual([1, 1, 0])
    expect(stream.itemTitle?.(1)).toBe("Amélie (2001)")
    expect([stream.interactions, stream.users, stream.items]).toEqual([3, 2, 3])
  })

  it("is read with ratings.csv and quoted titles, and (no genres listed) is no entry", async () => {
    const path = folder({
      "ratings.csv": "userId,movieId,rating,timestamp\n1,11,4.0,964982703\n1,12,0.5,964982704\n",
      "movies.csv": `movieId,title,genres\n11,"American President, The (1995) ""cut""",Comedy|Drama\n12,X,(no genres listed)\n`,
    })
    const stream = await openData(path)
    expect(stream.itemTitle?.(0)).toBe('American President, The (1995) "cut"')
    expect([...(stream.features?.present ?? [])]).toEqual([1, 0])
    expect(stream.features?.columns).toEqual(["Comedy", "Drama"])
  })

  it("is read as MovieTweetings: ratings.csv with movies.dat, imdb ids with their zeros, ratings halved", async () => {
    const path = folder({
      "ratings.csv": "userId,imdbId,rating,timestamp\n1,0444778,8,1362062624\n1,444778,0,1362062625\n",
      "movies.dat": "0444778::Barfuss (2005)::Comedy\n",
    })
    const stream = await openData(path, { ratingScale: { min: 0, max: 10 }, likeThreshold: 6 })
    expect(rows(stream).map((row) => row.slice(1, 3))).toEqual([
      ["0444778", 4],
      ["444778", 0],
    ])
    expect([...(stream.features?.present ?? [])]).toEqual([1, 0])
    expect(stream.likeThreshold).toBe(3)
  })

  it("is read as MovieLens 100k: u.data with u.item and u.genre", async () => {
    const path = folder({
      "u.data": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n",
      "u.genre": "unknown|0\nAction|1\nWar|2\n\n",
      "u.item": "242|Kolya (1996)|24-Jan-1997||http://x|0|1|1\n302|L.A.|01-Jan-1997||http://y|1|0|0\n",
    })
    const stream = await openData(path)
    expect(stream.features?.columns).toEqual(["Action", "War"])
    expect([...(stream.features?.values ?? [])]).toEqual([1, 1, 0, 0])
    expect([...(stream.features?.present ?? [])]).toEqual([1, 0])
    expect(stream.itemTitle?.(0)).toBe("Kolya (1996)")
  })

  it("has the genres of MovieLens 100k by their places where u.genre is missing", async () => {
    const flags = (...set: number[]) => Array.from({ length: 19 }, (_, g) => (set.includes(g) ? 1 : 0)).join("|")
    const path = folder({
      "u.data": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n",
      "u.item": `242|Kolya|24-Jan-1997||http://x|${flags(1, 18)}\n302|L.A.|01-Jan-1997||http://y|${flags(0)}\n`,
    })
    const { features } = await openData(path)
    expect(features?.columns).toEqual(["Action", "Western"])
    expect([...(features?.present ?? [])]).toEqual([1, 0])
    const short = folder({ "u.data": "1\t2\t3\t881250949\n", "u.item": "2|Kolya|24-Jan-1997||http://x|0|1\n" })
    await expect(openData(short)).rejects.toThrow(/item line: expected id\|title\|…\|19 flags, .*u\.item, line 1/)
  })

  it("is the same stream whether the folder or its ratings file is named", async () => {
    const path = folder({ "ratings.dat": "7::2::5::978300760\n", "movies.dat": Buffer.from(MOVIES, "latin1") })
    const [whole, single] = [await openData(path), await openData(join(path, "ratings.dat"))]
    expect(single.name).toBe(whole.name)
    expect(single.features).toEqual(whole.features)
  })

  it("has no features where no file has them", async () => {
    const stream = await openData(folder({ "ratings.dat": "7::2::5::978300760\n" }))
    expect(stream.features).toBeUndefined()
  })

  it("without ratings, or that is not there, is refused", async () => {
    await expect(openData(folder({ "movies.dat": MOVIES }))).rejects.toThrow(
      /expected ratings.dat, ratings.csv, u.data/,
    )
    await expect(openData(join(home, "nowhere"))).rejects.toMatchObject({ code: "NOT_FOUND" })
  })

  it("with a broken item line is refused with its line", async () => {
    const path = folder({ "ratings.dat": "7::2::5::978300760\n", "movies.dat": "1::Toy Story::Comedy\n2::half" })
    await expect(openData(path)).rejects.toThrow(/expected id::title::genres, got "2::half" \(.*movies.dat, line 2\)/)
  })
})

describe("a file with a header", () => {
  const four: [string, string, number, number][] = [
    ["a", "x", 4, 100],
    ["b", "y", 2.5, 200],
  ]

  it.each([
    ["MovieLens names", "userId,movieId,rating,timestamp\na,x,4,100\nb,y,2.5,200\n"],
    ["Amazon names and other columns", "reviewerID,style,asin,overall,unixReviewTime\na,?,x,4,100\nb,?,y,2.5,200\n"],
    [
      "names of Amazon's review tables, dates as dates",
      "customer_id\tproduct_id\tstar_rating\treview_date\na\tx\t4\t1970-01-01 00:01:40\nb\ty\t2.5\t1970-01-01 00:03:20\n",
    ],
    ["names of Book-Crossing", "User-ID;ISBN;Book-Rating;unix_timestamp\na;x;4;100\nb;y;2.5;200\n"],
    ["parent_asin before asin", "user_id,asin,parent_asin,rating,timestamp\na,q,x,4,100\nb,q,y,2.5,200\n"],
    ["tabs", "uid\titem\tstars\tts\na\tx\t4\t100\nb\ty\t2.5\t200\n"],
    ["semicolons and spaces", "user; item; score; time\na; x; 4; 100\nb; y; 2.5; 200\n"],
    ["RecBole types", "user_id:token\titem_id:token\trating:float\ttimestamp:float\na\tx\t4\t100\nb\ty\t2.5\t200\n"],
    ["quotes", '"user","item","rating","timestamp"\n"a","x","4","100"\n"b","y",2.5,200\n'],
    ["quoted tabs", '"user"\t"item"\t"rating"\t"timestamp"\n"a"\t"x"\t"4"\t"100"\n"b"\t"y"\t2.5\t200\n'],
    ["a line end inside quotes", 'user,item,text,rating,timestamp\na,x,"one\ntwo, ""three""",4,100\nb,y,,2.5,200\n'],
    ["CRLF", "user,item,rating,timestamp\r\na,x,4,100\r\nb,y,2.5,200\r\n"],
    ["a byte order mark", "\ufeffuser,item,rating,timestamp\na,x,4,100\nb,y,2.5,200\n"],
    ["no line end at the end", "user,item,rating,timestamp\na,x,4,100\nb,y,2.5,200"],
    ["blank lines", "\n\nuser,item,rating,timestamp\n\na,x,4,100\r\n\r\nb,y,2.5,200\n\n\n"],
    ["out of order", "user,item,rating,timestamp\nb,y,2.5,200\na,x,4,100\n"],
    ["exponents and signs", "user,item,rating,timestamp\na,x,+4e0,1e2\nb,y,25e-1,200.0\n"],
    [
      "JSON lines",
      '{"user_id":"a","asin":"x","rating":4,"timestamp":100}\n{"user_id":"b","asin":"y","rating":"2.5","timestamp":"200"}\n',
    ],
  ])("is read with %s", async (_, content) => {
    expect(await readRows(content)).toEqual(four)
  })

  it("is read from gzip, whatever its name", async () => {
    expect(await readRows(gzipSync("user,item,rating,timestamp\na,x,4,100\nb,y,2.5,200\n"), {}, "x.gz")).toEqual(four)
  })

  it("takes milliseconds, microseconds and dates for what they are", async () => {
    const times = ["978300760", "978300760000", "978300760000000", "2000-12-31 22:12:40", "2000-12-31T23:12:40+01:00"]
    const content = `user,item,rating,timestamp\n${times.map((time) => `a,x,3,${time}`).join("\n")}\n`
    expect(new Set((await readRows(content)).map((row) => row[3]))).toEqual(new Set([978300760]))
  })

  it("takes columns by the names and places given", async () => {
    const content = "who,what,much,when,rating\na,x,4,100,9\nb,y,2.5,200,9\n"
    const columns = { user: "who", item: "2", rating: "much", timestamp: "when" }
    expect(await readRows(content, { columns })).toEqual(four)
  })

  it("keeps equal times in the order of the file, shuffles by seed, and stops at the limit", async () => {
    const lines = Array.from({ length: 50 }, (_, i) => `u${i},x,3,100`)
    const content = `user,item,rating,timestamp\n${lines.join("\n")}\n`
    const users = async (options: OpenOptions) => (await readRows(content, options)).map((row) => row[0])
    const inOrder = lines.map((line) => line.slice(0, line.indexOf(",")))
    expect(await users({})).toEqual(inOrder)
    expect(await users({ limit: 7 })).toEqual(inOrder.slice(0, 7))
    const shuffled = await users({ order: "shuffled", seed: 3 })
    expect(shuffled).not.toEqual(inOrder)
    expect([...shuffled].sort()).toEqual([...inOrder].sort())
    expect(await users({ order: "shuffled", seed: 3 })).toEqual(shuffled)
  })

  it("keeps its seams where the chunks of the file end (seeded)", async () => {
    const random = new Random(5, "seams")
    const lines: string[] = []
    const expected: [string, string, number, number][] = []
    for (let i = 0; i < 60_000; i++) {
      const user = "é".repeat(random.integer(4)) + random.integer(500)
      const item = `"${"q".repeat(random.integer(30))},""${random.integer(900)}"`
      lines.push(`${user},${item},3.5,${i}`)
      expected.push([user, item.slice(1, -1).replaceAll('""', '"'), 3.5, i])
    }
    expect(await readRows(`user,item,rating,timestamp\r\n${lines.join("\r\n")}`)).toEqual(expected)
  })
})

describe("a file without a header", () => {
  const users = ["A2SUAM1J3GNN3B", "A3KDZT1ATDLH0Q"]
  const items = ["B00004CWX1", "0439886341"]

  it.each([
    ["user, item", [0, 1]],
    ["item, user", [1, 0]],
  ])("is told to be Amazon's in the order %s", async (_, order) => {
    const line = (k: number) => [...order.map((o) => [users[k], items[k]][o]), "5.0", 1e9 + k].join(",")
    expect(await readRows(`${line(0)}\n${line(1)}\n`)).toEqual([
      [users[0], items[0], 5, 1e9],
      [users[1], items[1], 5, 1e9 + 1],
    ])
  })

  it("is refused when its columns could be anything, and read when they are named by place", async () => {
    const content = "1,2,5,100\n3,4,5,200\n"
    expect(await refusal(content)).toMatch(/INVALID_DATA columns: expected a header.*--columns user=1,item=2/)
    const columns = { user: "2", item: "1", rating: "3", timestamp: "4" }
    expect(await readRows(content, { columns })).toEqual([
      ["2", "1", 5, 100],
      ["4", "3", 5, 200],
    ])
  })
})

describe("bad input is refused with file, line, expected and got", () => {
  const head = "userId,movieId,rating,timestamp\n1,2,3,100\n"
  it.each<[string, string | Uint8Array, string]>([
    ["an empty file", "", "data file: expected a header and interactions, got an empty file (/data.csv)"],
    ["a header only", "userId,movieId,rating,timestamp\n", "data file: expected interactions, got none (/data.csv)"],
    ["a rating that is no number", `${head}1,2,abc,100\n`, 'rating: expected a number, got "abc" (/data.csv, line 3)'],
    ["an empty rating", `${head}1,2,,100\n`, 'rating: expected a number, got "" (/data.csv, line 3)'],
    [
      "a rating of another scale",
      `${head}1,2,8,100\n`,
      'rating: expected a number from 0 to 5, got "8" (/data.csv, line 3); if the file is on another scale, declare it, for instance --rating-scale 0-10',
    ],
    [
      "a time that is none",
      `${head}1,2,3,soon\n`,
      'timestamp: expected seconds or milliseconds since 1970, or a date such as 2013-02-28 14:38:27, got "soon" (/data.csv, line 3)',
    ],
    ["a negative time", `${head}1,2,3,-5\n`, 'got "-5" (/data.csv, line 3)'],
    ["an empty user", `${head},2,3,100\n`, 'user: expected an id, got "" (/data.csv, line 3)'],
    ["an empty item", `${head}1,,3,100\n`, 'item: expected an id, got "" (/data.csv, line 3)'],
    ["a half line at the end", `${head}1,2,4`, 'line: expected 4 fields, got 3: "1 2 4" (/data.csv, line 3)'],
    [
      "a line cut in its last number",
      `${head}1,2,4,10`,
      'timestamp: expected 3 digits as in the line before, got "10" on a last line without an end (/data.csv, line 3)',
    ],
    ["a line too long", `${head}1,2,4,100,7\n`, "line: expected 4 fields, got 5"],
    [
      "a missing column",
      "userId,rating,timestamp\n1,2,3\n",
      'item column: expected one of movieid, itemid, item, iid, parentasin, asin, …, got "userId", "rating", "timestamp" (/data.csv, line 1); name it with --columns item=<name>',
    ],
    [
      "a column twice",
      "userId,movieId,rating,rating,timestamp\n1,2,3,3,9\n",
      'column names: expected each once, got "rating" twice (/data.csv, line 1)',
    ],
    [
      "two columns of one meaning",
      "userId,user_id,movieId,rating,timestamp\n1,2,3,3,9\n",
      'user column: expected one, got "userId", "user_id"',
    ],
    [
      "a quote never closed",
      `${head}1,"2,3,100\n1,2,3,100\n`,
      "is a quote opened and never closed? (/data.csv, line 3)",
    ],
    [
      "text after a quote",
      `${head}1,"2"2,3,100\n`,
      'expected a delimiter after the closing quote, got "2" (/data.csv, line 3)',
    ],
    [
      "a binary file",
      Buffer.concat([Buffer.from(head), Buffer.from([1, 0, 2])]),
      "data file: expected text, got a NUL byte (/data.csv, line 3)",
    ],
    [
      "UTF-16",
      Buffer.from(`\ufeff${head}`, "utf16le"),
      "data file: expected UTF-8 text, got UTF-16 (/data.csv); save it as UTF-8",
    ],
    ["half a gzip file", gzipSync(head).subarray(0, 30), "data file: expected a whole compressed file, got"],
    [
      "JSON that is none",
      '{"user":1,"item":2,"rating":3,"timestamp":4}\n{"user":',
      'line: expected a JSON object, got "{\\"user\\":" (/data.csv, line 2)',
    ],
    [
      "JSON without a value",
      '{"user":1,"item":2,"rating":3,"timestamp":4}\n{"user":1}\n',
      "item: expected an id, got undefined (/data.csv, line 2)",
    ],
  ])("%s", async (_, content, message) => {
    const refused = await refusal(content)
    expect(refused.replace(/\/\d+\/data/g, "/data")).toContain(message)
    expect(refused).toMatch(/^INVALID_DATA/)
  })

  it("a zip file, which dess prepare reads, and what only begins like Parquet", async () => {
    expect(await refusal(Buffer.from("PK\x03\x04xxxx"))).toMatch(/^UNSUPPORTED .*expected text, got zip.*dess prepare/)
    expect(await refusal(Buffer.from("PAR1xxxx"))).toMatch(/^INVALID_DATA .*Parquet/)
  })

  it("a column named by hand that is not there, and one column for two roles", async () => {
    expect(await refusal(head, { columns: { user: "who" } })).toMatch(/user column: expected "who", got "userId"/)
    expect(await refusal(head, { columns: { user: "movieId" } })).toMatch(/one for both user and item/)
  })

  it("a like threshold off the scale", async () => {
    expect(await refusal(head, { likeThreshold: 5 })).toMatch(/^INVALID_ARGUMENT like threshold: expected .* below 5/)
  })
})

it("records longer than the reader's patience are refused, not swallowed", async () => {
  const path = file(`a,b\n"${"x".repeat(18 << 20)}`)
  const read = async () => {
    for await (const block of readRecords(textFile(path), { delimiter: ",", quoted: true })) recordTexts(block, 0)
  }
  await expect(read()).rejects.toThrow(/never closed\? \(.*line 2\)/)
})

describe("the encoding of a file", () => {
  const HEADER = "user,item,rating,timestamp\n"
  const row = (user: string) => `${user},1,4,5\n`
  const latin1 = (text: string) => Buffer.from(text, "latin1")

  it("is Latin-1 where no byte beyond ASCII is UTF-8, and the stream says so", async () => {
    const stream = await openData(file(latin1(HEADER + row("caf\xe9") + row("bob") + row("caf\xe9"))))
    expect(rows(stream).map(([user]) => user)).toEqual(["café", "bob", "café"])
    expect([stream.users, stream.encoding]).toEqual([2, "latin-1"])
    expect((await openData(file(HEADER + row("café") + row("日")))).encoding).toBeUndefined()
  })

  it("is one for all lines: a second one is refused with its line, however far apart the two are", async () => {
    const utf8 = Buffer.from(row("café"))
    const other = latin1(row("caf\xe9"))
    const many = Buffer.from(row("bob").repeat(200_000))
    const head = Buffer.from(HEADER)
    expect(await refusal(Buffer.concat([head, utf8, other]))).toMatch(
      /^INVALID_DATA data file: expected one encoding, got UTF-8 on line 2 and bytes that are not on line 3 \(.*data\.csv, line 3\); save it/,
    )
    expect(await refusal(Buffer.concat([head, other, many, utf8]))).toMatch(
      /got UTF-8 on line 200003 and bytes that are not on line 2 \(.*, line 200003\)/,
    )
    expect(await refusal(Buffer.concat([head, utf8, many, other]))).toMatch(/UTF-8 on line 2 .* not on line 200003/)
    const json = (user: string) => `{"user":"${user}","item":"1","rating":4,"timestamp":5}\n`
    const lines = Buffer.concat([Buffer.from(json("café")), latin1(json("caf\xe9"))])
    expect(await refusal(lines, {}, "data.jsonl")).toMatch(/UTF-8 on line 1 and bytes that are not on line 2/)
  })

  it("is detected from the quoted field, not from what unescaping leaves of it", async () => {
    const text = HEADER + row('"a""é"') + row('"""日"""')
    expect((await readRows(text)).map(([user]) => user)).toEqual(['a"é', '"日"'])
  })
})
