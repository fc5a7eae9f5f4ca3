import { writeFileSync } from "node:fs"
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
  { user: "7", item: "🦊|x" },
]

test.each(["csv", "ndjson", "parquet"])("events and items go into %s and come back as they were", async (ending) => {
  const [one, two] = [join(folder, `one-${ending}`), join(folder, `two-${ending}`)]
  const source = join(folder, `source-${ending}.ndjson`)
  writeFileSync(source, EVENTS.map((event) => JSON.stringify(event)).join("\n"))
  const imported = await said(() => importCommand([source, "--directory", one, "--features", "a,b", "--json"]))
  expect(JSON.parse(imported)).toMatchObject({ rows: 3, accepted: 3 })
  const catalogue = [
    { item: "dune", categories: ["space", "sand"], hidden: false, features: [1, 0.5] },
    { item: "solaris", categories: [], hidden: true, features: null },
  ]
  writeFileSync(source, catalogue.map((entry) => JSON.stringify(entry)).join("\n"))
  expect(await said(() => importCommand([source, "--items", "--directory", one]))).toContain("2 items taken")

  const [events, items] = [join(folder, `events.${ending}`), join(folder, `items.${ending}`)]
  expect(await said(() => exportCommand([events, "--directory", one]))).toContain("3 events written")
  expect(await said(() => exportCommand([items, "--items", "--directory", one]))).toContain("2 items written")
  await said(() => importCommand([items, "--items", "--directory", two, "--features", "a,b"]))
  await said(() => importCommand([events, "--directory", two]))

  const recommender = await Recommender.open({ directory: two, threads: 1 })
  const back: object[] = []
  for await (const event of recommender.events()) back.push(event)
  expect(back).toMatchObject(EVENTS)
  expect([...recommender.items()].sort((a, b) => (a.item < b.item ? -1 : 1))).toMatchObject(catalogue)
  await recommender.close()
})
