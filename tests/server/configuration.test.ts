import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { tryOptions } from "../../src/engine/try-options.ts"
import { configure, describeConfiguration, recommenderOptions, SETTINGS } from "../../src/server/configuration.ts"
import { SettingsSchema } from "../../src/server/settings.ts"
import { createCheck } from "../../src/server/validate.ts"
import { removeFolder, temporaryFolder } from "../support/service.ts"

const folder = temporaryFolder()
afterAll(() => removeFolder(folder))

function configFile(content: unknown): string {
  const file = join(folder, `${Math.floor(performance.now() * 1e3)}.json`)
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content))
  return file
}

test("flags come before the environment, that before the file, and that before the defaults", () => {
  const config = configFile({ $schema: "x", port: 1, queue: 1000, segment: 10, memoryBudget: "1MB" })
  const environment = { DESS_CONFIG: config, DESS_PORT: "2", DESS_QUEUE: "2000", DESS_SIZES: "2,4" }
  const { settings } = configure({ port: "3", "gorse-read-types": "read, seen" }, environment)
  expect(settings).toMatchObject({ port: 3, queue: 2000, segment: 10, memoryBudget: "1MB", sizes: [2, 4] })
  expect(settings).toMatchObject({ host: "127.0.0.1", gorseReadTypes: ["read", "seen"] })
})

test("a value outside its domain is refused by the name it was given under", () => {
  expect(() => configure({ port: "70000" }, {})).toThrow(/^--port: expected .*got 70000/)
  expect(() => configure({ port: "many" }, {})).toThrow(/^--port: expected .*got "many"/)
  expect(() => configure({}, { DESS_TASK: "guess" })).toThrow(
    /^DESS_TASK: expected .*topk, binary, multiclass, got "guess"/,
  )
  expect(() => configure({}, { DESS_DELAY: "soon" })).toThrow(/^DESS_DELAY: /)
  expect(() => configure({ config: configFile({ queue: "1" }) }, {})).toThrow(/^config file queue: expected/)
  expect(() => configure({ config: configFile({ writeKey: "x" }) }, {})).toThrow(/config file: .*"writeKey"/)
  expect(() => configure({ config: configFile("{") }, {})).toThrow(/config file: expected JSON/)
  expect(() => configure({ config: join(folder, "none.json") }, {})).toThrow(/ENOENT/)
  expect(() => configure({ "rating-scale": "5-1" }, {})).toThrow(/rating scale/)
  expect(() => configure({}, { DESS_MEMORY_BUDGT: "1MB" })).toThrow(/environment: .*"DESS_MEMORY_BUDGT"/)
})

test("sizes and durations may be plain numbers in flags and variables, too", () => {
  const { settings } = configure({ delay: "100", "memory-budget": "5000000" }, { DESS_IDLE_LEAVE: "60000" })
  expect(settings).toMatchObject({ delay: 100, memoryBudget: 5_000_000, idleLeave: 60_000 })
})

test("what opening would refuse is found without opening", async () => {
  const directory = join(folder, "tried")
  await (await Recommender.open({ directory, method: "dess-cv", features: ["a", "b"], threads: 1 })).close()
  expect((await tryOptions({ directory, segment: 100 })).run.method).toBe("dess-cv")
  await expect(tryOptions({ directory, features: ["a"] })).rejects.toThrow(/features: expected .*created with/)
  await expect(tryOptions({ memoryBudget: 10 })).rejects.toThrow(/memory budget: expected at least/)
  await expect(tryOptions({ directory: configFile({}) })).rejects.toThrow(/directory: expected a folder/)
  await expect(tryOptions({ method: "magic" })).rejects.toThrow(/method/)
})

test("the published schema accepts what the settings accept, and --check shows every setting", () => {
  const check = createCheck(SettingsSchema, "config")
  check({ port: 80, memoryBudget: "256MB", delay: 100, sizes: [2, 4], keepJournal: "all" })
  expect(() => check({ prot: 80 })).toThrow(/prot/)
  expect(() => check({ port: "80" })).toThrow(/port/)
  for (const { name, description } of SETTINGS) expect(description, name).not.toBe("")
})

test("the recommender gets its options under its own names", () => {
  const { settings } = configure(
    { "rating-scale": "1-10", "idle-leave": "30d", "idempotency-keys": "5", directory: "d" },
    {},
  )
  expect(recommenderOptions(settings)).toEqual({
    directory: "d",
    scale: { min: 1, max: 10 },
    idle: { leave: "30d" },
    keys: 5,
  })
})

test("a source is Postgres, and --check shows its address without the password, wherever that stands", async () => {
  const table = { "source-table": "purchases" }
  for (const source of ["http://db/shop", "db/shop"])
    expect(() => configure({ ...table, source }, {})).toThrow(/source: expected pattern "\^postgres/)
  for (const source of ["postgres://ada:se@cret@db:5433/shop", "postgresql://db/shop?user=ada&password=se@cret"]) {
    const configuration = configure({ ...table, source }, {})
    const shown = JSON.stringify(
      describeConfiguration(configuration, await tryOptions(recommenderOptions(configuration.settings))),
    )
    expect(shown).toMatch(/"source":"postgres(ql)?:\/\/(…@)?db(:5433)?\/shop"/)
    expect(shown).not.toMatch(/cret|ada/)
  }
})
