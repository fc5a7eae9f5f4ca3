import { createHash } from "node:crypto"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { crc32, deflateRawSync, gzipSync } from "node:zlib"
import { afterAll, afterEach, describe, expect, it, vi } from "vitest"
import { prepareCommand } from "../../src/cli/prepare.ts"
import { openDuck } from "../../src/datasets/duck.ts"
import type { Manifest } from "../../src/datasets/manifest.ts"
import { type DataStream, type OpenOptions, openData } from "../../src/datasets/open.ts"
import { type PrepareOptions, prepareData } from "../../src/datasets/prepare.ts"
import { PUBLISHED } from "../../src/datasets/publishers.ts"
import { completeGrid } from "../../src/experiments/grid.ts"
import { Random } from "../../src/kernels/random.ts"

const home = mkdtempSync(join(tmpdir(), "dess-prepare-"))
afterAll(() => rmSync(home, { recursive: true }))

let made = 0

function fresh(): string {
  return join(home, String(made++))
}

/** Writes a folder of files and returns its path. */
function folder(files: Record<string, string | Uint8Array>): string {
  const path = fresh()
  mkdirSync(path)
  for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content)
  return path
}

function file(content: string | Uint8Array, name = "data.csv"): string {
  return join(folder({ [name]: content }), name)
}

/** A zip archive as publishers make them; `wide` says its lengths as archives of more than 4 GiB do (zip64). */
function zip(files: Record<string, string | Uint8Array>, { wide = false } = {}): Buffer {
  const bodies: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [name, content] of Object.entries(files)) {
    const bytes = Buffer.from(content)
    const packed = deflateRawSync(bytes)
    const header = Buffer.alloc(30)
    header.writeUInt32LE(0x04034b50, 0)
    header.writeUInt16LE(8, 8)
    header.writeUInt32LE(crc32(bytes), 14)
    header.writeUInt32LE(packed.length, 18)
    header.writeUInt32LE(bytes.length, 22)
    header.writeUInt16LE(name.length, 26)
    bodies.push(header, Buffer.from(name), packed)
    const entry = Buffer.alloc(46)
    entry.writeUInt32LE(0x02014b50, 0)
    header.copy(entry, 10, 8, 30)
    entry.writeUInt32LE(offset, 42)
    const extra = Buffer.alloc(wide ? 28 : 0)
    if (wide) {
      for (const at of [20, 24, 42]) entry.writeUInt32LE(0xffffffff, at)
      entry.writeUInt16LE(extra.length, 30)
      extra.writeUInt32LE(0x180001)
      for (const [k, value] of [bytes.length, packed.length, offset].entries())
        extra.writeBigUInt64LE(BigInt(value), 4 + 8 * k)
    }
    directory.push(entry, Buffer.from(name), extra)
    offset += 30 + name.length + packed.length
  }
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  const [count, length] = [Object.keys(files).length, Buffer.concat(directory).length]
  const ends = [end]
  if (wide) {
    end.fill(0xff, 8, 20)
    const record = Buffer.alloc(56)
    record.writeUInt32LE(0x06064b50)
    for (const [k, value] of [count, count, length, offset].entries())
      record.writeBigUInt64LE(BigInt(value), 24 + 8 * k)
    const locator = Buffer.alloc(20)
    locator.writeUInt32LE(0x07064b50)
    locator.writeBigUInt64LE(BigInt(offset + length), 8)
    ends.unshift(record, locator)
  } else {
    end.writeUInt16LE(count, 10)
    end.writeUInt32LE(length, 12)
    end.writeUInt32LE(offset, 16)
  }
  return Buffer.concat([...bodies, ...directory, ...ends])
}

async function prepare(
  from: string,
  options: Partial<PrepareOptions> = {},
): Promise<{ out: string; manifest: Manifest }> {
  const out = options.out ?? fresh()
  const steps = prepareData(from, { threads: 1, ...options, out })
  for (;;) {
    const { value, done } = await steps.next()
    if (done) return { out, manifest: value }
  }
}

async function prepareAndOpen(from: string, options: Partial<PrepareOptions> = {}): Promise<DataStream> {
  return openData((await prepare(from, options)).out)
}

type Row = [string, string, number, number]

async function rows(stream: DataStream): Promise<Row[]> {
  const out: Row[] = []
  for await (const batch of stream.batches()) {
    for (let i = 0; i < batch.length; i++) {
      const names = [stream.userName(batch.user[i]), stream.itemName(batch.item[i])] as const
      out.push([...names, batch.rating[i], batch.timestamp[i]])
    }
  }
  return out
}

/** Everything there is to know about a stream. */
async function contents(stream: DataStream) {
  const { name: _, batches, userName, itemName, itemTitle, ...rest } = stream
  const titles = Array.from({ length: stream.items }, (_, index) => itemTitle?.(index))
  return { ...rest, rows: await rows(stream), titles }
}

/** The code and message of a refusal; what was to be made must not be there. */
async function refusal(from: string, options: Partial<PrepareOptions> = {}): Promise<string> {
  const out = options.out ?? fresh()
  const before = existsSync(out) ? readdirSync(out) : undefined
  const error: unknown = await prepare(from, { ...options, out }).catch((reason: unknown) => reason)
  const { code, message } = error as { code: string; message: string }
  expect(existsSync(out) ? readdirSync(out) : undefined).toEqual(before)
  expect(readdirSync(home).filter((name) => name.includes("partial"))).toEqual([])
  return `${code} ${message}`
}

/** A MovieLens folder with ties, repeats, disorder, an item without genres and one without an entry. */
function movielens(seed: number): Record<string, string> {
  const random = new Random(seed, "movielens")
  const ratings = Array.from({ length: 400 }, () => {
    const [user, item] = [1 + random.integer(30), 1 + random.integer(50)]
    return `${user},${item},${(1 + random.integer(10)) / 2},${1_000_000_000 + random.integer(60)}`
  })
  const movies = Array.from({ length: 48 }, (_, i) => {
    const genres = ["Drama", "Comedy", "Sci-Fi"].filter(() => random.integer(2) === 1)
    return `${i + 1},"Title ${i + 1}, The",${genres.join("|") || "(no genres listed)"}`
  })
  return {
    "ratings.csv": `userId,movieId,rating,timestamp\n${ratings.join("\n")}\n`,
    "movies.csv": `movieId,title,genres\n${movies.join("\n")}\n`,
  }
}

describe("a prepared folder", () => {
  it.each<OpenOptions>([{}, { limit: 37 }, { limit: 10_000 }])(
    "gives the stream its source gives, opened with %j",
    async (options) => {
      const source = folder(movielens(1))
      const { out } = await prepare(source)
      expect(await contents(await openData(out, options))).toEqual(await contents(await openData(source, options)))
    },
  )

  it("can be read twice, and shuffled by seed", async () => {
    const { out } = await prepare(folder(movielens(2)))
    const inOrder = await openData(out)
    expect(await rows(inOrder)).toEqual(await rows(inOrder))
    const shuffled = await openData(out, { order: "shuffled", seed: 5 })
    const sorted = (list: Row[]) => list.map((row) => row.join(" ")).sort()
    expect(sorted(await rows(shuffled))).toEqual(sorted(await rows(inOrder)))
    expect(await rows(shuffled)).not.toEqual(await rows(inOrder))
    expect(await rows(shuffled)).toEqual(await rows(await openData(out, { order: "shuffled", seed: 5 })))
    const titles = (stream: DataStream) =>
      new Map(Array.from({ length: stream.items }, (_, i) => [stream.itemName(i), stream.itemTitle?.(i)]))
    expect(titles(shuffled)).toEqual(titles(inOrder))
    const vectors = ({ features, items, itemName }: DataStream) =>
      new Map(
        Array.from({ length: items }, (_, i) => [
          itemName(i),
          [features?.present[i], features?.values.slice(3 * i, 3 * i + 3)],
        ]),
      )
    expect(vectors(shuffled)).toEqual(vectors(inOrder))
  })

  it("is the same, byte for byte, when it is made again", async () => {
    const source = folder(movielens(3))
    const [first, second] = [await prepare(source), await prepare(source, { threads: 2 })]
    expect(second.manifest).toEqual(first.manifest)
    for (const [name, { sha256 }] of Object.entries(first.manifest.files)) {
      expect(
        createHash("sha256")
          .update(readFileSync(join(second.out, name)))
          .digest("hex"),
      ).toBe(sha256)
    }
  })

  it("holds every row and every name of more than fit in one piece", async () => {
    const path = `${fresh()}.parquet`
    const duck = await openDuck({ memoryBytes: 1e9, threads: 1, temporary: fresh() })
    await duck.run(
      `COPY (SELECT 'u' || r AS "user", 'i' || r % 210000 AS item, 3 AS rating, r AS ts FROM range(300000) t(r)) TO '${path}'`,
    )
    duck.close()
    const stream = await prepareAndOpen(path)
    expect([stream.interactions, stream.users, stream.items]).toEqual([300_000, 300_000, 210_000])
    let row = 0
    for await (const batch of stream.batches()) {
      for (let i = 0; i < batch.length; i++, row++) {
        if (batch.user[i] !== row || batch.item[i] !== row % 210_000 || batch.timestamp[i] !== row)
          expect.fail(`row ${row}`)
      }
    }
    expect(row).toBe(300_000)
    expect([stream.userName(299_999), stream.itemName(209_999)]).toEqual(["u299999", "i209999"])
  })

  it("says in its manifest what it holds and how it came to be", async () => {
    const source = file("user,item,rating,timestamp\na,x,8,10\nb,x,2,20\n")
    const { manifest } = await prepare(source, { ratingScale: { min: 0, max: 10 }, likeThreshold: 6 })
    expect(manifest).toMatchObject({
      format: "dess-data",
      version: 1,
      name: "data",
      source: { from: source, form: "text", bytes: 45 },
      ...{ interactions: 2, users: 2, items: 1, firstTimestamp: 10, lastTimestamp: 20 },
      ratingScale: { min: 0, max: 10 },
      likeThreshold: 6,
      filters: { dedupe: "none", minRatings: 1, kCore: 1 },
      dropped: { duplicates: 0, minRatings: 0, kCore: 0 },
    })
    expect(Object.keys(manifest.files)).toEqual(["interactions.parquet", "items.parquet", "users.parquet"])
  })

  it("has the name of the published set, wherever its file and the folder lie, and a grid calls it so", async () => {
    const source = file("A2SUAM1J3GNN3B,B00004CWX1,5.0,10\n", "ratings_Books.csv")
    const { manifest, out } = await prepare(source)
    expect(manifest.name).toBe("amazon-books")
    expect(completeGrid({ data: [out, { path: out, name: "mine" }] }).data.map(({ name }) => name)).toEqual([
      "amazon-books",
      "mine",
    ])
  })

  it("keeps the declared scale and threshold, lets the threshold be changed and the scale not", async () => {
    const source = file("user,item,rating,timestamp\na,x,8,10\n")
    const { out } = await prepare(source, { ratingScale: { min: 0, max: 10 }, likeThreshold: 6 })
    const stream = await openData(out)
    expect(await rows(stream)).toEqual([["a", "x", 4, 10]])
    expect(stream.likeThreshold).toBe(3)
    expect((await openData(out, { likeThreshold: 9 })).likeThreshold).toBe(4.5)
    await expect(openData(out, { ratingScale: { min: 0, max: 5 } })).rejects.toThrow(
      /expected 0-10, as it was prepared/,
    )
    expect((await prepare(source, { ratingScale: { min: 0, max: 10 } })).manifest.likeThreshold).toBe(7)
  })

  it("is not taken for whole when a file is short, gone or of another version", async () => {
    const { out } = await prepare(folder(movielens(4)))
    const { name, ...manifest } = JSON.parse(readFileSync(join(out, "manifest.json"), "utf8")) as Manifest
    truncateSync(join(out, "interactions.parquet"), 100)
    await expect(openData(out)).rejects.toThrow(/expected \d+ bytes, got 100 .*interactions.parquet.*dess prepare/)
    rmSync(join(out, "users.parquet"))
    rmSync(join(out, "interactions.parquet"))
    await expect(openData(out)).rejects.toThrow(/got no file/)
    writeFileSync(join(out, "manifest.json"), JSON.stringify({ ...manifest, name, version: 9 }))
    await expect(openData(out)).rejects.toThrow(/expected "dess-data" version 1, got "dess-data" version 9/)
    rmSync(join(out, "manifest.json"))
    await expect(openData(out)).rejects.toMatchObject({ code: "NOT_FOUND" })
  })

  it("never replaces other files, and an older folder only when asked to", async () => {
    const source = folder(movielens(5))
    const taken = folder({ "letters.txt": "mine" })
    expect(await refusal(source, { out: taken })).toMatch(/INVALID_ARGUMENT out: expected a new or empty folder/)
    expect(await refusal(source, { out: taken, replace: true })).toMatch(/expected a new or empty folder/)
    expect(await refusal(source, { out: join(taken, "letters.txt", "x") })).toMatch(
      /INVALID_ARGUMENT out: expected a folder/,
    )
    const { out } = await prepare(source)
    expect(await refusal(source, { out })).toMatch(/--replace makes it anew/)
    const { manifest } = await prepare(source, { out, replace: true, kCore: 5 })
    expect((await openData(out)).interactions).toBe(manifest.interactions)
    expect(await refusal(out)).toMatch(/expected data as published, got a folder made by dess prepare/)
  })

  it("leaves nothing behind when it is interrupted", async () => {
    const lines = Array.from({ length: 200_000 }, (_, i) => `u${i % 900},i${i % 700},3,${i}`)
    const controller = new AbortController()
    const out = fresh()
    const steps = prepareData(file(`user,item,rating,timestamp\n${lines.join("\n")}\n`), {
      out,
      signal: controller.signal,
    })
    await steps.next()
    controller.abort()
    const drain = async () => {
      while ((await steps.next()).done !== true);
    }
    await expect(drain()).rejects.toMatchObject({ code: "INTERRUPTED" })
    expect(existsSync(out)).toBe(false)
    expect(readdirSync(home).filter((name) => name.includes("partial"))).toEqual([])
  })
})

describe("forms that circulate", () => {
  const wanted: Row[] = [
    ["A2SUAM1J3GNN3B", "B00004CWX1", 5, 1_000_000_000],
    ["A3KDZT1ATDLH0Q", "0439886341", 3, 1_000_000_001],
  ]
  const table = (cells: (row: Row) => unknown[], separator = ",") =>
    `${wanted.map((row) => cells(row).join(separator)).join("\n")}\n`
  const objects = (make: (row: Row) => object) => `${wanted.map((row) => JSON.stringify(make(row))).join("\n")}\n`

  it.each<[string, string, string | Uint8Array]>([
    ["Amazon 2014, user first", "ratings_Books.csv", table(([u, i, r, t]) => [u, i, r.toFixed(1), t])],
    ["Amazon 2018, item first", "Books.csv", table(([u, i, r, t]) => [i, u, r.toFixed(1), t])],
    [
      "Amazon 2018 reviews",
      "Books.json.gz",
      gzipSync(
        objects(([reviewerID, asin, overall, unixReviewTime]) => ({
          overall,
          verified: true,
          reviewTime: "05 1, 2005",
          reviewerID,
          asin,
          style: { "Format:": "Hardcover" },
          unixReviewTime,
        })),
      ),
    ],
    [
      "Amazon 2023 ratings",
      "Books.csv.gz",
      gzipSync(`user_id,parent_asin,rating,timestamp\n${table(([u, i, r, t]) => [u, i, r.toFixed(1), t * 1000])}`),
    ],
    [
      "Amazon 2023 reviews",
      "Books.jsonl",
      objects(([user_id, parent_asin, rating, t]) => ({
        rating,
        title: "ok",
        asin: "variant",
        parent_asin,
        user_id,
        timestamp: t * 1000,
      })),
    ],
    [
      "RecBole",
      "books.inter",
      `user_id:token\titem_id:token\trating:float\ttimestamp:float\n${table((row) => row, "\t")}`,
    ],
  ])("%s", async (_, name, content) => {
    expect(await rows(await prepareAndOpen(file(content, name)))).toEqual(wanted)
  })

  it.each(["class", "categories", "category"])("RecBole with items: %s by the word", async (column) => {
    const source = folder({
      "ml.inter":
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t10\t4\t5\n1\t20\t4\t6\n1\t30\t4\t7\n",
      "ml.item": `item_id:token\tmovie_title:token_seq\t${column}:token_seq\n10\tToy Story\tComedy Animation\n20\tOther\t\n30\tThird\t(no genres listed)\n`,
    })
    const stream = await prepareAndOpen(source)
    expect(stream.features?.columns).toEqual(["Animation", "Comedy"])
    expect([...(stream.features?.present ?? [])]).toEqual([1, 0, 0])
    expect(stream.itemTitle?.(0)).toBe("Toy Story")
    expect(await contents(await openData(join(source, "ml.inter")))).toEqual(await contents(stream))
  })

  it("Parquet in parts, with times as times", async () => {
    const path = folder({})
    const duck = await openDuck({ memoryBytes: 1e9, threads: 1, temporary: fresh() })
    const [first, second] = wanted.map(
      ([u, i, r, t]) =>
        `SELECT '${u}' AS user_id, '${i}' AS asin, ${r}::TINYINT AS stars, make_timestamp(${t}::BIGINT * 1000000) AS date`,
    )
    await duck.run(`COPY (${second}) TO '${path}/part-0.parquet'`)
    await duck.run(`COPY (${first}) TO '${path}/part-1.parquet'`)
    duck.close()
    expect(await rows(await prepareAndOpen(path))).toEqual(wanted)
  })

  it("CSV packed by zstd", async () => {
    const path = fresh()
    const duck = await openDuck({ memoryBytes: 1e9, threads: 1, temporary: fresh() })
    // Bytes of every kind that UTF-8 has: é is two from 0xa0 on, 日 has one below.
    const values = wanted.map(([u, i, r, t]) => `('${u}é日😀', '${i}', ${r}, ${t})`).join(", ")
    await duck.run(
      `COPY (SELECT * FROM (VALUES ${values}) t("user", item, rating, ts)) TO '${path}.csv.zst' (FORMAT csv, HEADER, COMPRESSION zstd)`,
    )
    duck.close()
    expect(await rows(await prepareAndOpen(`${path}.csv.zst`))).toEqual(
      wanted.map(([u, ...rest]) => [`${u}é日😀`, ...rest]),
    )
  })

  it("Latin-1, which the manifest and a note on stderr say", async () => {
    const source = file(Buffer.from("user,item,rating,timestamp\ncaf\xe9,1,4,5\n", "latin1"))
    const noted = vi.spyOn(process.stderr, "write").mockReturnValue(true)
    vi.spyOn(console, "log").mockReturnValue()
    const out = fresh()
    await prepareCommand([source, "--out", out])
    expect(noted.mock.calls.join("")).toMatch(/data\.csv is not UTF-8 and is read as Latin-1/)
    vi.restoreAllMocks()
    const { source: said } = JSON.parse(readFileSync(join(out, "manifest.json"), "utf8")) as Manifest
    expect(said.encoding).toBe("latin-1")
    expect((await rows(await openData(out)))[0][0]).toBe("café")
  })

  it("MovieLens 100k, as a zip of a folder with other files, in the form of large ones too", async () => {
    const files = {
      "u.data": "196\t242\t3\t881250949\n186\t302\t3\t891717742\n",
      "u.genre": "unknown|0\nAction|1\nWar|2\n",
      "u.item": Buffer.from(
        "242|Kolya (1996)|24-Jan-1997||http://x|0|1|1\n302|Am\xe9lie|01-Jan-1997||http://y|0|1|0\n",
        "latin1",
      ),
    }
    const packed = {
      ...Object.fromEntries(Object.entries(files).map(([name, content]) => [`ml-100k/${name}`, content])),
      "ml-100k/u1.base": "broken",
      "__MACOSX/ml-100k/._u.data": "broken",
      "ml-100k/empty": "",
    }
    for (const wide of [false, true]) {
      const { out, manifest } = await prepare(file(zip(packed, { wide }), "ml-100k.zip"))
      expect(manifest.name).toBe("ml-100k")
      expect(await contents(await openData(out))).toEqual(await contents(await openData(folder(files))))
    }
  })

  it("MovieLens with the tag genome: its scores are the features, in the order of the tags", async () => {
    const stream = await prepareAndOpen(
      folder({
        "ratings.csv": "userId,movieId,rating,timestamp\n1,7,4,10\n1,9,4,20\n",
        "movies.csv": "movieId,title,genres\n7,Seven,Drama\n9,Nine,Comedy\n",
        "genome-tags.csv": 'tagId,tag\n1,dark\n2,"funny, very"\n',
        "genome-scores.csv": "movieId,tagId,relevance\n9,2,0.25\n9,1,0.5\n5,1,1\n5,2,1\n",
      }),
    )
    expect(stream.features?.columns).toEqual(["dark", "funny, very"])
    expect([...(stream.features?.values ?? [])]).toEqual([0, 0, 0.5, 0.25])
    expect([...(stream.features?.present ?? [])]).toEqual([0, 1])
    expect(stream.itemTitle?.(1)).toBe("Nine")
  })

  it("anything else with its columns named", async () => {
    const source = file("when;who;what;how\n10;a;x;3\n", "log.txt")
    const columns = { user: "who", item: "what", rating: "how", timestamp: "when" }
    expect(await rows(await prepareAndOpen(source, { columns }))).toEqual([["a", "x", 3, 10]])
    expect(await refusal(source)).toMatch(/user column: expected one of userid, .* got "when", "who", "what", "how"/)
  })
})

describe("filters", () => {
  it("keep the last or the first of repeated pairs, later in the file winning a tie", async () => {
    const source = file("user,item,rating,timestamp\na,x,1,10\na,x,2,30\na,x,3,30\na,y,4,20\na,x,5,10\n")
    expect(await rows(await prepareAndOpen(source, { dedupe: "last" }))).toEqual([
      ["a", "y", 4, 20],
      ["a", "x", 3, 30],
    ])
    expect(await rows(await prepareAndOpen(source, { dedupe: "first" }))).toEqual([
      ["a", "x", 1, 10],
      ["a", "y", 4, 20],
    ])
    expect((await prepare(source, { dedupe: "last" })).manifest.dropped.duplicates).toBe(3)
  })

  it("leave out users with few ratings once, and take the core again and again, as the plain loops do (seeded)", async () => {
    for (let seed = 1; seed <= 5; seed++) {
      const random = new Random(seed, "core")
      const all: Row[] = Array.from({ length: 150 }, (_, t) => {
        const [user, item] = [random.integer(40), random.integer(40)]
        return [`u${Math.floor((user * user) / 40)}`, `i${Math.floor((item * item) / 40)}`, 3, t]
      })
      const few = (list: Row[], side: 0 | 1, least: number) =>
        list.filter((row) => list.filter((other) => other[side] === row[side]).length >= least)
      const once = few(all, 0, 4)
      let core = once
      for (let before = -1; before !== core.length; ) {
        before = core.length
        core = few(few(core, 0, 3), 1, 3)
      }
      const source = file(`user,item,rating,timestamp\n${all.map((row) => row.join(",")).join("\n")}\n`)
      const { out, manifest } = await prepare(source, { minRatings: 4, kCore: 3 })
      expect(await rows(await openData(out)), `seed ${seed}`).toEqual(core)
      expect(manifest.dropped, `seed ${seed}`).toEqual({
        duplicates: 0,
        minRatings: 150 - once.length,
        kCore: once.length - core.length,
      })
    }
  })

  it("that leave nothing are refused", async () => {
    expect(await refusal(folder(movielens(6)), { kCore: 1000 })).toMatch(
      /INVALID_DATA filters: expected to leave interactions/,
    )
    expect(await refusal(folder(movielens(6)), { kCore: 1.5 })).toMatch(
      /INVALID_ARGUMENT k-core: expected a whole number/,
    )
  })
})

describe("bad input", () => {
  it("is refused with file, line, expected and got, as when it is read directly", async () => {
    const head = "userId,movieId,rating,timestamp\n1,2,3,100\n"
    expect(await refusal(file(`${head}1,2,abc,100\n`))).toMatch(
      /INVALID_DATA rating: expected a number, got "abc" \(.*data.csv, line 3\)/,
    )
    expect(await refusal(file(`${head}1,2,8,100\n`))).toMatch(
      /expected a number from 0 to 5, got "8".*--rating-scale 0-10/,
    )
    expect(await refusal(file(`${head}1,2`))).toMatch(/line: expected 4 fields, got 2: "1 2" \(.*line 3\)/)
    expect(await refusal(file("a,a,item,rating,timestamp\n"))).toMatch(
      /column names: expected each once, got "a" twice/,
    )
    expect(await refusal(file("user,item,rating,timestamp\n"))).toMatch(/expected interactions, got none/)
    expect(await refusal(file(""))).toMatch(/got an empty file/)
    expect(await refusal(file('[\n {"user":1,"item":2,"rating":3,"timestamp":4}]', "data.json"))).toMatch(
      /UNSUPPORTED data file: expected JSON lines, one object a line, got a JSON array \(.*data.json\)/,
    )
    expect(await refusal(file(Buffer.from(`\ufeff${head}`, "utf16le")))).toMatch(/expected UTF-8 text, got UTF-16/)
    expect(await refusal(folder({ "notes.md": "?" }))).toMatch(/NOT_FOUND data folder: expected ratings.dat/)
  })

  it("a Parquet file that is cut off, or lacks a column, or holds a bad rating", async () => {
    const path = fresh()
    const duck = await openDuck({ memoryBytes: 1e9, threads: 1, temporary: fresh() })
    await duck.run(
      `COPY (SELECT 'u' AS "user", 'i' AS item, 3 AS rating, 7 AS ts UNION ALL SELECT 'u', 'i', 9, 7) TO '${path}.parquet'`,
    )
    await duck.run(`COPY (SELECT 'u' AS "user", 3 AS rating, 7 AS ts) TO '${path}-short.parquet'`)
    duck.close()
    expect(await refusal(`${path}.parquet`)).toMatch(/rating: expected a number from 0 to 5, got 9 \(.*row 2\)/)
    expect(await refusal(`${path}-short.parquet`)).toMatch(/item column: expected one of/)
    truncateSync(`${path}.parquet`, 60)
    expect(await refusal(`${path}.parquet`)).toMatch(/^INVALID_DATA data: DuckDB cannot read it/)
  })

  it("a zip that is cut off, damaged, encrypted, or holds no ratings", async () => {
    const whole = zip({ "ml/ratings.csv": `userId,movieId,rating,timestamp\n${"1,2,3,100\n".repeat(500)}` })
    expect(await refusal(file(whole.subarray(0, whole.length - 30), "a.zip"))).toMatch(
      /INVALID_DATA zip file: expected a whole archive, got no list of files at its end; is the download complete/,
    )
    const flipped = Buffer.from(whole)
    flipped[60] ^= 0x55
    expect(await refusal(file(flipped, "a.zip"))).toMatch(/got ml\/ratings.csv damaged \(.*a.zip\)/)
    const central = whole.indexOf(Buffer.from([0x50, 0x4b, 1, 2]))
    const wrongSum = Buffer.from(whole)
    wrongSum[central + 16] ^= 1
    expect(await refusal(file(wrongSum, "a.zip"))).toMatch(/got ml\/ratings.csv damaged/)
    for (const length of [10, 100_000]) {
      const wrongLength = Buffer.from(whole)
      wrongLength.writeUInt32LE(length, central + 24)
      expect(await refusal(file(wrongLength, "a.zip"))).toMatch(/got ml\/ratings.csv damaged/)
    }
    const otherMethod = Buffer.from(whole)
    otherMethod[central + 10] = 14
    expect(await refusal(file(otherMethod, "a.zip"))).toMatch(/got ml\/ratings.csv packed by method 14, which is not/)
    const noHeader = Buffer.from(whole)
    noHeader.writeUInt32LE(7, central + 42)
    expect(await refusal(file(noHeader, "a.zip"))).toMatch(/got ml\/ratings.csv damaged/)
    const noList = Buffer.from(whole)
    noList[central] ^= 1
    expect(await refusal(file(noList, "a.zip"))).toMatch(/got a damaged list of files/)
    const locked = Buffer.from(whole)
    locked[central + 8] |= 1
    expect(await refusal(file(locked, "a.zip"))).toMatch(/got ml\/ratings.csv encrypted/)
    expect(await refusal(file(zip({ "x/readme.md": "?" }), "a.zip"))).toMatch(
      /NOT_FOUND data folder: expected ratings.dat.* got none \(.*a.zip\)/,
    )
    expect(await refusal(file(zip({ "a/ratings.csv": "user", "b/ratings.csv": "user" }), "a.zip"))).toMatch(
      /expected each file once/,
    )
    const bad = zip({ "../../ratings.csv": "userId,movieId,rating,timestamp\n1,2,x,4\n" })
    expect(await refusal(file(bad, "a.zip"))).toMatch(
      /rating: expected a number, got "x" \(.*a.zip\/ratings.csv, line 2\)/,
    )
  })

  it("a tag genome with gaps", async () => {
    const source = folder({
      "ratings.csv": "userId,movieId,rating,timestamp\n1,7,4,10\n",
      "movies.csv": "movieId,title,genres\n7,Seven,Drama\n",
      "genome-tags.csv": "tagId,tag\n1,dark\n2,funny\n",
      "genome-scores.csv": "movieId,tagId,relevance\n7,2,0.25\n",
    })
    expect(await refusal(source)).toMatch(
      /tag genome: expected 2 scores for every movie.* got other counts for 1 movies/,
    )
  })

  it.runIf(process.platform === "linux")("a full disk", async () => {
    const duck = await openDuck({ memoryBytes: 1e9, threads: 1, temporary: fresh() })
    await expect(duck.run("COPY (SELECT r FROM range(1000) t(r)) TO '/dev/full' (FORMAT parquet)")).rejects.toThrow(
      /^disk: expected room for the result, got "IO Error.*No space left/,
    )
    duck.close()
  })
})

describe("a data set known by name", () => {
  const archive = zip({ "ml-100k/u.data": "196\t242\t3\t881250949\n" })
  const sum = createHash("md5").update(archive).digest("hex")
  let server: Server | undefined
  afterEach(() => server?.close())

  /** Serves these files; of "broken off" only the beginning comes. */
  async function serve(files: Record<string, string | Buffer>): Promise<{ mirror: string; asked: string[] }> {
    const asked: string[] = []
    server = createServer((request, response) => {
      const name = (request.url ?? "").replace("/sets/", "")
      asked.push(name)
      const body = files[name]
      if (body === "broken off") {
        response.writeHead(200, { "content-length": 1000 })
        response.write(body, () => response.destroy())
      } else if (body === undefined) response.writeHead(404, { connection: "close" }).end("nothing here")
      else response.writeHead(200, { "content-length": Buffer.byteLength(body) }).end(body)
    })
    await new Promise<void>((ready) => server?.listen(0, "127.0.0.1", ready))
    return { mirror: `http://127.0.0.1:${(server.address() as AddressInfo).port}/sets/`, asked }
  }

  it("is fetched, checked and kept for the next time", async () => {
    const { mirror, asked } = await serve({
      "ml-latest-small.zip": archive,
      "ml-latest-small.zip.md5": `MD5 (ml-latest-small.zip) = ${sum}\n`,
    })
    const downloads = fresh()
    const { manifest } = await prepare("ml-latest-small", { mirror, downloads })
    expect(manifest).toMatchObject({
      name: "ml-latest-small",
      interactions: 1,
      source: { from: PUBLISHED["ml-latest-small"] },
    })
    expect(asked).toEqual(["ml-latest-small.zip", "ml-latest-small.zip.md5"])
    await prepare("ml-latest-small", { mirror, downloads })
    expect(asked).toHaveLength(2)
    expect(readdirSync(downloads)).toEqual(["ml-latest-small.zip"])
  })

  it("is kept when its checksum does not come", async () => {
    const { mirror, asked } = await serve({ "ml-latest-small.zip": archive, "ml-latest-small.zip.md5": "broken off" })
    const downloads = fresh()
    const { manifest } = await prepare("ml-latest-small", { mirror, downloads })
    expect(manifest.interactions).toBe(1)
    expect(asked).toEqual(["ml-latest-small.zip", "ml-latest-small.zip.md5"])
    expect(readdirSync(downloads)).toEqual(["ml-latest-small.zip"])
  })

  it("reports the progress of the download", async () => {
    const { mirror } = await serve({ "ml-latest-small.zip": archive })
    const steps = prepareData("ml-latest-small", { out: fresh(), mirror, downloads: fresh() })
    const first = await steps.next()
    expect(first.value).toEqual({ phase: "download", done: archive.length, total: archive.length })
    await steps.return(undefined as never)
  })

  it("is refused and not kept when its checksum is another", async () => {
    const { mirror } = await serve({
      "ml-latest-small.zip": archive,
      "ml-latest-small.zip.md5": `${"0".repeat(32)}  ml-latest-small.zip\n`,
    })
    const downloads = fresh()
    expect(await refusal("ml-latest-small", { mirror, downloads })).toMatch(
      new RegExp(`INVALID_DATA .*expected MD5 0{32}, got ${sum}`),
    )
    expect(readdirSync(downloads)).toEqual([])
  })

  it("is refused and not kept when it is not the file whose SHA-256 is known", async () => {
    const { mirror } = await serve({ "ml-100k.zip": archive })
    const downloads = fresh()
    expect(await refusal("ml-100k", { mirror, downloads })).toMatch(
      /INVALID_DATA download of ml-100k: expected SHA-256 50d2a982\w+, got \w+; try again/,
    )
    expect(readdirSync(downloads)).toEqual([])
  })

  it("without network says which file to fetch and where to put it", async () => {
    const downloads = fresh()
    const { mirror } = await serve({})
    expect(await refusal("ml-20m", { mirror, downloads })).toMatch(/NOT_FOUND .*expected the file, got "status 404"/)
    await new Promise((closed) => server?.close(closed))
    const told = await refusal("ml-20m", { mirror, downloads })
    expect(told).toMatch(/NOT_FOUND download of http:.*ml-20m.zip: expected the file, got .*ECONNREFUSED/)
    expect(told).toContain(`put it at ${join(downloads, "ml-20m.zip")} and run the command again`)
  })

  it("is refused and not kept when it breaks off", async () => {
    const { mirror } = await serve({ "ml-1m.zip": "broken off" })
    const downloads = fresh()
    expect(await refusal("ml-1m", { mirror, downloads })).toMatch(
      /NOT_FOUND download of .*ml-1m.zip: expected the file, got/,
    )
    expect(readdirSync(downloads)).toEqual([])
  })

  it("that is unknown is refused with the names there are", async () => {
    expect(await refusal("ml-30m")).toBe(
      'NOT_FOUND source: expected a file, a folder or one of ml-100k, ml-1m, ml-10m, ml-20m, ml-25m, ml-latest, ml-latest-small, amazon-books, amazon-cds, amazon-2023-books, amazon-2023-cds, amazon-2023-video-games, gowalla, brightkite, yambda-50m-likes, yambda-50m-listens, yambda-5b-likes, got "ml-30m"',
    )
  })
})

describe("dess prepare", () => {
  afterEach(() => vi.restoreAllMocks())

  async function command(...args: string[]): Promise<string> {
    const said: string[] = []
    vi.spyOn(console, "log").mockImplementation((text: string) => said.push(text))
    await prepareCommand(args)
    return said.join("\n")
  }

  it("prints what it made, as text or as JSON", async () => {
    const source = file("user,item,rating,timestamp\na,x,8,1000000000\na,x,8,1000000001\n")
    const [first, second] = [fresh(), fresh()]
    const text = await command(source, "--out", first, "--rating-scale", "0-10", "--dedupe", "last")
    expect(text).toContain(
      "data: 1 interactions of 1 users with 1 items, 2001-09-09 to 2001-09-09\nleft out: 1 repeated\n",
    )
    expect(text).toContain(
      "ratings from 0 to 10; a like is more than 7\nitem features: none, so dess-fre rather than dess-cv\n",
    )
    const json = JSON.parse(
      await command(source, "--out", second, "--rating-scale", "0-10", "--like-threshold", "5", "--json"),
    ) as object
    expect(json).toMatchObject({ out: second, interactions: 2, users: 1, items: 1, likeThreshold: 5, features: null })
    expect(existsSync(dirname(second))).toBe(true)
  })

  it("explains itself, and refuses what it does not know", async () => {
    expect(await command("--help")).toContain("dess prepare ml-20m --out data/ml-20m")
    await expect(command()).rejects.toThrow(/source: expected one file, folder or name, got nothing/)
    await expect(command("x.csv")).rejects.toThrow(/--out: expected the folder to make, got nothing/)
    await expect(command("x.csv", "--out", "y", "--k-core", "many")).rejects.toThrow(
      /--k-core: expected a number, got "many"/,
    )
    await expect(command("x.csv", "--out", "y", "--columns", "a=b")).rejects.toThrow(/columns: expected user=<name>/)
    await expect(command("x.csv", "--out", "y", "--dedupe", "some")).rejects.toThrow(
      /dedupe: expected last, first or none/,
    )
    await expect(command("x.csv", "--out", "y", "--colums", "a=b")).rejects.toThrow(/--colums/)
  })
})
