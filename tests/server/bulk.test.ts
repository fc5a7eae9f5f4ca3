import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, test, vi } from "vitest"
import { exportCommand } from "../../src/cli/export.ts"
import { importCommand } from "../../src/cli/import.ts"
import { Recommender } from "../../src/engine/open.ts"
import { removeFolder, temporaryFolder } from "../support/service.ts"

const folder = temporaryFolder()
afterAll(() => removeFolder(folder))

/** What a command prints. */
async function said(command: () => Promise<void>): Promise<string> {
  const log = vi.spyOn(console, "log").mockImplementation(() => {})
  try {
    await command()
    return log.mock.calls.flat().join("\n")
  } finally {
    log.mockRestore()
  }
}

const EVENTS = [
  { user: "ada", item: "dune", rating: 5, timestamp: 1700000000 },
  { user: 'a "quoted", one', item: "solaris", rating: 1.5, timestamp: 1700000060.25 },
  { user: "7", item: "🦊|x", rating: 4.7 },
  { user: "8", item: "🦊|x" },
]

test.each(["csv", "ndjson", "parquet"])("events and items go into %s and come back as they were", async (ending) => {
  const [one, two] = [join(folder, `one-${ending}`), join(folder, `two-${ending}`)]
  const source = join(folder, `source-${ending}.ndjson`)
  writeFileSync(source, EVENTS.map((event) => JSON.stringify(event)).join("\n"))
  const imported = await said(() => importCommand([source, "--directory", one, "--features", "a,b", "--json"]))
  expect(JSON.parse(imported)).toMatchObject({ rows: 4, accepted: 4 })
  const catalogue = [
    { item: "dune", categories: ["space", "sand"], hidden: false, features: [1, 0.5] },
    { item: "solaris", categories: [], hidden: true, features: null },
  ]
  writeFileSync(source, catalogue.map((entry) => JSON.stringify(entry)).join("\n"))
  expect(await said(() => importCommand([source, "--items", "--directory", one]))).toContain("2 items taken")

  const [events, items] = [join(folder, `events.${ending}`), join(folder, `items.${ending}`)]
  expect(await said(() => exportCommand([events, "--directory", one]))).toContain("4 events written")
  expect(await said(() => exportCommand([items, "--items", "--directory", one]))).toContain("2 items written")
  await said(() => importCommand([items, "--items", "--directory", two, "--features", "a,b"]))
  await said(() => importCommand([events, "--directory", two]))

  const recommender = await Recommender.open({ directory: two, threads: 1 })
  const back: object[] = []
  for await (const event of recommender.events()) back.push(event)
  expect(back).toMatchObject(EVENTS)
  expect(back[2]).toHaveProperty("rating", 4.7)
  expect([...recommender.items()].sort((a, b) => (a.item < b.item ? -1 : 1))).toMatchObject(catalogue)
  await recommender.close()
})

test("a file that is imported again counts once, with keys and without", async () => {
  const directory = join(folder, "twice")
  const [plain, keyed] = [join(folder, "plain.csv"), join(folder, "keyed.csv")]
  writeFileSync(plain, "user,item\nada,dune\n")
  writeFileSync(keyed, "user,item,key\nada,dune,k1\nbob,dune,k2\n")
  for (const [file, rows] of [
    [keyed, 2],
    [plain, 1],
  ] as const) {
    expect(await said(() => importCommand([file, "--directory", directory]))).toContain(`${rows} events taken`)
    expect(await said(() => importCommand([file, "--directory", directory]))).toContain(`${rows} known already`)
  }
})

const filesOf = (directory: string) =>
  Object.fromEntries(
    readdirSync(directory).map((name) => [name, readFileSync(join(directory, name)).toString("latin1")]),
  )

test("an export after a crash changes nothing: the next one gives the same", async () => {
  const [directory, copy] = [join(folder, "crashed"), join(folder, "crashed-copy")]
  const recommender = await Recommender.open({ directory, threads: 1, segment: 40, sizes: [2, 4], delay: "1h" })
  const events = (n: number) => Array.from({ length: 60 }, (_, e) => ({ user: `u${e % 9}`, item: `i${(e * n) % 17}` }))
  await recommender.observe(events(1))
  await recommender.snapshot()
  await recommender.observe(events(2))
  cpSync(directory, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") })
  await recommender.close()
  const before = filesOf(copy)
  const [one, two] = [join(folder, "first.csv"), join(folder, "second.csv")]
  expect(await said(() => exportCommand([one, "--directory", copy]))).toContain("120 events written")
  expect(filesOf(copy)).toEqual(before)
  expect(await said(() => exportCommand([two, "--directory", copy]))).toContain("120 events written")
  expect(readFileSync(two, "utf8")).toBe(readFileSync(one, "utf8"))
})

test("an export says when earlier events are no longer kept, and where it cannot write", async () => {
  const directory = join(folder, "short-memory")
  const recommender = await Recommender.open({ directory, threads: 1, sizes: [2, 4], keepJournal: "snapshots" })
  const file = join(folder, "short-memory.csv")
  const warned = vi.spyOn(process.stderr, "write").mockImplementation(() => true)
  try {
    await recommender.observe({ user: "ada", item: "dune" })
    await recommender.snapshot()
    await recommender.close()
    expect(await said(() => exportCommand([file, "--directory", directory]))).toContain("1 events written")
    expect(warned.mock.calls.join()).not.toContain("are not there")
    const again = await Recommender.open({ directory, threads: 1, sizes: [2, 4], keepJournal: "snapshots" })
    await again.observe({ user: "bob", item: "dune" })
    await again.snapshot()
    await again.close()
    expect(await said(() => exportCommand([file, "--directory", directory]))).toContain("1 events written")
    expect(warned.mock.calls.join()).toContain("are not there")
    const told = await said(() => exportCommand([file, "--directory", directory, "--json"]))
    expect(JSON.parse(told)).toEqual({ file, rows: 1, isWhole: false })
  } finally {
    warned.mockRestore()
  }
  const nowhere = join(folder, "no such folder", "out.csv")
  await expect(exportCommand([nowhere, "--directory", directory])).rejects.toThrow(
    /file: expected one that can be written/,
  )
})

test("an export of what is not a recommender's directory is refused, and leaves nothing in it", async () => {
  const directory = join(folder, "mistyped")
  mkdirSync(directory)
  const file = join(folder, "nothing.csv")
  for (const wrong of [directory, join(folder, "nowhere")])
    await expect(exportCommand([file, "--directory", wrong])).rejects.toThrow(/directory: expected a recommender's/)
  expect(readdirSync(directory)).toEqual([])
  expect(readdirSync(folder)).not.toContain("nothing.csv")
})
