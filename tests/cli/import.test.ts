import { createHash } from "node:crypto"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest"
import { exportCommand } from "../../src/cli/export.ts"
import { importCommand, Times } from "../../src/cli/import.ts"
import { openContents } from "../../src/engine/contents.ts"
import { readCreated } from "../../src/engine/directory.ts"
import { Recommender } from "../../src/engine/open.ts"

const folder = mkdtempSync(join(tmpdir(), "dess-import-"))
let directory = ""
let count = 0
let told = ""
let printed = ""
beforeAll(() => {
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    told += String(text)
    return true
  })
  vi.spyOn(console, "log").mockImplementation((text) => {
    printed += `${text}\n`
  })
})
afterEach(() => {
  told = ""
  printed = ""
})
afterAll(() => {
  vi.restoreAllMocks()
  rmSync(folder, { recursive: true, force: true })
})

function fileOf(lines: readonly string[], name = "rows.csv"): string {
  directory = join(folder, `directory ${++count}`)
  const file = join(folder, name)
  writeFileSync(file, `${lines.join("\n")}\n`)
  return file
}

const rows = (length: number) => Array.from({ length }, (_, n) => `u${n % 90},i${n % 47},4,${1_700_000_000 + n}`)

async function accepted(): Promise<number> {
  const recommender = await Recommender.open({ directory })
  const { events } = recommender.status()
  await recommender.close()
  return events.accepted
}

test("says which columns it takes for what and which it does not read", async () => {
  const file = fileOf(["customer_id;sku;country;created_at", "ada;dune;de;2024-01-02 10:00:00"])
  await importCommand([file, "--directory", directory, "--columns", "user=customer_id,item=sku"])
  expect(told).toContain(
    'columns: user from "customer_id", item from "sku", timestamp from "created_at"; not read: "country"',
  )
  expect(printed).toMatch(/^1 events taken/)
})

test("a file whose row 3,001 is bad takes nothing, does not even make the directory, and names the line", async () => {
  const lines = ["user,item,rating,timestamp", ...rows(5000)]
  lines[3001] = "u1,i1,nine,1700000000"
  const file = fileOf(lines)
  await expect(importCommand([file, "--directory", directory])).rejects.toThrow(
    /rating: expected a number, got "nine" \(.*rows\.csv, line 3002\); nothing was taken/,
  )
  expect(existsSync(directory)).toBe(false)
  // What only the recommender would refuse: a rating outside the scale, a time in the future, an empty id.
  for (const bad of ["u1,i1,9,1700000000", "u1,i1,4,99999999999", ",i1,4,1700000000", "u1,i1,4"]) {
    lines[3001] = bad
    writeFileSync(file, `${lines.join("\n")}\n`)
    await expect(importCommand([file, "--directory", directory])).rejects.toThrow(
      /line 3002\).*; nothing was taken \(--skip-bad/,
    )
    expect(existsSync(directory)).toBe(false)
  }
})

test("--skip-bad takes all but the bad rows, and says how many and which", async () => {
  const lines = ["user,item,rating,timestamp", ...rows(3000)]
  lines[17] = "u1,i1,nine,1700000000"
  lines[18] = "u1,i1"
  const file = fileOf(lines)
  await importCommand([file, "--directory", directory, "--skip-bad", "--json"])
  expect(JSON.parse(printed)).toMatchObject({ rows: 2998, accepted: 2998, bad: 2 })
  for (const line of [18, 19]) expect(told).toMatch(new RegExp(`passed over: .*line ${line}\\)`))
  expect(await accepted()).toBe(2998)
})

test("a second try doubles nothing; --again takes it once more", async () => {
  const file = fileOf(["user,item,rating,timestamp", ...rows(4500)])
  await importCommand([file, "--directory", directory])
  await importCommand([file, "--directory", directory])
  expect(printed).toMatch(/4,500 events taken.*\n0 events taken, 4,500 known already/)
  expect(await accepted()).toBe(4500)
  await importCommand([file, "--directory", directory, "--skip-bad"])
  expect(await accepted()).toBe(4500)
  await importCommand([file, "--directory", directory, "--again"])
  expect(await accepted()).toBe(9000)
})

test("a file that was taken is not taken once more because its columns are named otherwise, but for --again", async () => {
  const file = fileOf(["user,item,rating,timestamp", ...rows(40)])
  await importCommand([file, "--directory", directory])
  const others = [file, "--directory", directory, "--columns", "user=item,item=user"]
  await expect(importCommand(others)).rejects.toThrow(/--columns, --type and --as it was taken with before, got others/)
  expect(await accepted()).toBe(40)
  await importCommand([...others, "--again"])
  expect(await accepted()).toBe(80)
  await importCommand(others)
  expect(await accepted()).toBe(80)
})

test("rows that repeat others count once, and a sentence says why", async () => {
  const file = fileOf(["user,item,type,timestamp", ...["1", "1", "2"].map((time) => `ada,dune,view,${time}`)])
  await importCommand([file, "--directory", directory, "--types", '{"view":1}'])
  expect(printed).toMatch(/^2 events taken, 1 known already/)
  expect(told).toContain("dess: 1 of the rows repeat the user, item, type and time of another, and count once\n")
})

test("an import that was interrupted goes on where it stopped", async () => {
  const file = fileOf(["user,item,rating,timestamp", ...rows(4500)])
  // As it is after the first batch of 2,000: those events, and how far the file was taken.
  const hashOf = (data: string | Buffer) => createHash("sha256").update(data).digest("hex")
  const name = `import:${hashOf(readFileSync(file)).slice(0, 32)}`
  const reading = hashOf(JSON.stringify([undefined, undefined, undefined])).slice(0, 8)
  const recommender = await Recommender.open({ directory })
  const events = rows(2000).map((row) => {
    const [user, item, rating, timestamp] = row.split(",")
    return { user, item, rating: Number(rating), timestamp: Number(timestamp) }
  })
  await recommender.observe(events, { source: { name, position: `2000 ${reading}` } })
  await recommender.close()
  await importCommand([file, "--directory", directory])
  expect(printed).toMatch(/^2,500 events taken, 2,000 known already/)
  expect(await accepted()).toBe(4500)
})

test.each(["\t", ";", "|", "::"])("takes rows separated by %j", async (separator) => {
  const file = fileOf(["user,item,rating,timestamp", ...rows(20)].map((row) => row.replaceAll(",", separator)))
  await importCommand([file, "--directory", directory])
  expect(printed).toMatch(/^20 events taken/)
})

test("takes MovieLens' files without a header", async () => {
  const file = fileOf(rows(20).map((row) => row.replaceAll(",", "::").replace("u", "").replace("i", "")))
  await importCommand([file, "--directory", directory])
  expect(printed).toMatch(/^20 events taken/)
})

test("a directory is created as asked for", async () => {
  const file = fileOf(["user,item,rating", "ada,dune,8"])
  const words = ["--method", "uniform-16", "--rating-scale", "0-10", "--like-threshold", "6", "--task", "binary"]
  await importCommand([file, "--directory", directory, ...words])
  expect(readCreated(directory)).toMatchObject({
    method: "uniform-16",
    task: "binary",
    scale: { min: 0, max: 10 },
    likeThreshold: 3,
  })
})

test("--type names the column of the types as in dess run, --as gives a type to events without one", async () => {
  const file = fileOf(["user,item,what", "ada,dune,view", "bob,solaris,"])
  await importCommand([file, "--directory", directory, "--type", "what", "--as", "purchase"])
  expect(told).toContain('type from "what"')
  const recommender = await Recommender.open({ directory })
  const { feedback } = await recommender.feedback()
  await recommender.close()
  expect(feedback.map(({ user, type }) => `${user} ${type}`).sort()).toEqual(["ada view", "bob purchase"])
  await expect(importCommand([file, "--directory", directory, "--type", "purchase"])).rejects.toThrow(
    /type column: expected "purchase", got "user", "item", "what" .*--as <type> gives every event one; nothing was taken$/,
  )
})

test("takes what dess run takes: a MovieLens folder with its titles, lines of JSON with changing keys, clicks only", async () => {
  const home = join(folder, "ml")
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, "ratings.dat"), rows(20).join("\n").replaceAll(",", "::").concat("\n"))
  writeFileSync(join(home, "movies.dat"), "i1::Dune: Part::Two (2024)::Drama|Sci-Fi\n")
  directory = join(folder, `directory ${++count}`)
  await importCommand([home, "--items", "--directory", directory])
  await importCommand([home, "--directory", directory])
  expect(printed).toMatch(/^1 items taken.*\n20 events taken/)
  expect(told).toContain("columns: user from column 1, item from column 2, rating from column 3")
  const recommender = await Recommender.open({ directory })
  expect(recommender.item("i1")).toMatchObject({ title: "Dune: Part::Two (2024)", categories: ["Drama", "Sci-Fi"] })
  await recommender.close()

  const json = fileOf(
    ['{"user":"ada","item":"dune"}', '{"user":7,"item":"solaris","rating":4.3,"weight":2}', "[]"],
    "lines.ndjson",
  )
  await importCommand([json, "--directory", directory, "--skip-bad", "--json"])
  expect(JSON.parse(printed.split("\n").at(-2) ?? "")).toMatchObject({ accepted: 2, bad: 1 })
  const contents = await openContents(directory)
  const events = []
  for await (const event of contents.events()) events.push(event)
  await contents.close()
  expect(events).toMatchObject([{ user: "ada" }, { user: "7", item: "solaris", rating: 4.3, weight: 2 }])
  expect(events[0].rating).toBeUndefined()

  const shown = fileOf(["user_id,video_id,is_click,time_ms", "a,x,1,1700000000000", "a,y,0,1700000001000"])
  await importCommand([shown, "--directory", directory])
  expect(told).toContain("is_click: rows from 1 on count, 1 others are left out")
  expect(await accepted()).toBe(1)
})

test("--columns key=… names a key per row: other files with the same rows double nothing either", async () => {
  const file = fileOf(["order,user,item", "1,ada,dune", "2,ada,dune", "3,bob,dune"])
  await importCommand([file, "--directory", directory, "--columns", "key=order"])
  writeFileSync(file, "order,user,item\n2,ada,dune\n4,bob,solaris\n")
  await importCommand([file, "--directory", directory, "--columns", "key=order"])
  expect(printed).toMatch(/^3 events taken.*\n1 events taken, 1 known already/)
})

test("a file that is larger than what is sorted at once is taken span by span, in order of time", () => {
  const times = new Times()
  const all = Array.from({ length: 300_000 }, (_, n) => (n * 7919) % 100_003)
  for (const time of all) times.take(time)
  const spans = times.spans(50_000)
  expect(spans).toHaveLength(6)
  const counts = spans.map(([from, to]) => all.filter((time) => time >= from && time < to).length)
  expect(counts.reduce((sum, length) => sum + length)).toBe(300_000)
  expect(Math.max(...counts)).toBeLessThan(52_000)
  for (const [at, [from]] of spans.entries()) expect(from).toBe(at === 0 ? Number.NEGATIVE_INFINITY : spans[at - 1][1])
  // A time that most events have makes one large span, and no empty one.
  const same = new Times()
  for (const time of [2, ...Array.from({ length: 1000 }, () => 1), 3]) same.take(time)
  expect(same.spans(10).every(([from, to]) => from < to)).toBe(true)
})

test.each([
  [["--url", "http://127.0.0.1:1", "--method", "uniform-16"], /--method: expected with --directory only/],
  [["--url", "http://127.0.0.1:1", "--rating-scale", "0-10"], /--rating-scale: expected with --directory only/],
  [["--url", "http://127.0.0.1:1", "--types", "{}"], /--types: expected with --directory only/],
  [["--directory", "none", "--items", "--as", "view"], /--as: expected with events, got it with --items/],
  [["--directory", "none", "--items", "--type", "kind"], /--type: expected with events, got it with --items/],
])("refuses options that would change nothing: %s", async (words, message) => {
  await expect(importCommand([fileOf(["user,item", "ada,dune"]), ...words])).rejects.toThrow(message)
})

test("a directory that is there keeps what it was created with", async () => {
  const file = fileOf(["user,item,rating", "ada,dune,4"])
  await importCommand([file, "--directory", directory])
  for (const words of [
    ["--method", "uniform-16"],
    ["--rating-scale", "0-10"],
    ["--like-threshold", "2"],
    ["--task", "binary"],
  ])
    await expect(importCommand([file, "--directory", directory, ...words])).rejects.toThrow(/expected .*got/)
  expect(await accepted()).toBe(1)
})

test("dess export --lists writes everybody's list, as recommend gives it", async () => {
  const file = fileOf(["user,item,rating,timestamp", ...rows(3000)])
  await importCommand([file, "--directory", directory])
  const out = join(folder, "lists.ndjson")
  await exportCommand([out, "--lists", "--count", "3", "--directory", directory])
  expect(printed).toMatch(/270 rows of lists written/)
  const written = readFileSync(out, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
  const recommender = await Recommender.open({ directory })
  const list = await recommender.recommend("u7", { count: 3 })
  await recommender.close()
  expect(written.filter(({ user }) => user === "u7")).toEqual(
    list.map(({ item, score }, at) => ({ user: "u7", rank: at + 1, item, score })),
  )
  await expect(exportCommand([out, "--lists", "--directory", join(folder, "none")])).rejects.toThrow(
    /directory: expected/,
  )
  await expect(exportCommand([out, "--lists", "--items", "--directory", directory])).rejects.toThrow(/got both/)
})

test("events are taken in order of time, whatever the order of the file, and a second try doubles nothing", async () => {
  const file = fileOf([
    "user,item,timestamp",
    "ada,c,1700000003",
    "ada,a,1700000001",
    "bob,a,1700000000",
    "ada,b,1700000002",
  ])
  await importCommand([file, "--directory", directory])
  expect(told).toMatch(/not in order of time: they are taken by their time/)
  const recommender = await Recommender.open({ directory })
  expect(recommender.history("ada")).toEqual(["c", "b", "a"])
  await recommender.close()
  await importCommand([file, "--directory", directory])
  expect(printed).toMatch(/0 events taken, 4 known already/)
})

test("types that a directory keeps are checked before the first row is taken", async () => {
  const good = fileOf(["user,item,type", ...Array.from({ length: 30 }, (_, n) => `u${n},i${n},view`)])
  await importCommand([good, "--directory", directory, "--types", '{"view":0.2,"purchase":1}'])
  const lines = ["user,item,type", ...Array.from({ length: 5000 }, (_, n) => `u${n},i${n % 50},purchase`)]
  lines[4001] = "u1,i1,gift"
  const file = join(folder, "gifts.csv")
  writeFileSync(file, `${lines.join("\n")}\n`)
  await expect(importCommand([file, "--directory", directory])).rejects.toThrow(
    /event type: expected .*"gift" \(.*gifts\.csv, line 4002\); nothing was taken/,
  )
  expect(await accepted()).toBe(30)
})

test("how far it is, in per cent and with the time left, is told while a file is checked, sorted and taken", async () => {
  const file = fileOf(["user,item,rating,timestamp", ...rows(100_000).reverse()])
  const clock = vi.spyOn(performance, "now")
  let now = 0
  clock.mockImplementation(() => (now += 400))
  try {
    await importCommand([file, "--directory", directory])
  } finally {
    clock.mockRestore()
  }
  for (const label of ["checking", "sorting part 1 of 1", "import"])
    expect(told).toMatch(new RegExp(`dess: ${label} [█░]+ +\\d+ %, [\\d,]+, [\\d,]+/s, (\\d+ min )?\\d+ s left`))
})
