/** Items that were put and nobody meets: when they go, and when they stay. */

import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest"
import { Catalogue } from "../../src/engine/catalogue.ts"
import { Recommender } from "../../src/engine/open.ts"
import type { RecommenderOptions } from "../../src/engine/types.ts"
import { buildCommand } from "../support/command.ts"

const HOUR = 3_600_000
const DAY = 24 * HOUR
const START = Date.UTC(2027, 0, 1)
const folders: string[] = []

beforeAll(() => {
  buildCommand()
}, 120_000)
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] })
  vi.setSystemTime(START)
})
afterEach(() => {
  vi.useRealTimers()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "dess-lifetimes-"))
  folders.push(path)
  return path
}

const open = (directory: string, options: RecommenderOptions = {}) =>
  Recommender.open({ directory, threads: 1, sizes: [2, 4], ...options })

/** Lets time pass in steps, with an event at each: a reading of the clock. */
async function pass(recommender: Recommender, milliseconds: number, step = 6 * HOUR): Promise<void> {
  for (let done = 0; done < milliseconds; done += step) {
    vi.setSystemTime(Date.now() + step)
    await recommender.observe({ user: "ada", item: "dune" })
    await recommender.drain()
  }
  // What is found at a reading is journalled behind it.
  await recommender.drain()
}

const there = (recommender: Recommender) => recommender.ids("item").sort()

test("with an idle limit an item leaves that long after it was put or met last, also over restarts", async () => {
  const directory = folder()
  const options: RecommenderOptions = { idle: { leave: "4d" }, features: ["a"] }
  let recommender = await open(directory, options)
  await recommender.putItems([
    { item: "never", title: "Never met", categories: ["lamps"], features: [1] },
    { item: "again", categories: ["lamps"] },
    { item: "met" },
  ])
  await pass(recommender, 2 * DAY)
  await recommender.putItems({ item: "again", properties: { price: 3 } })
  await recommender.observe({ user: "bob", item: "met" })
  await recommender.close()
  recommender = await open(directory, options)
  expect(there(recommender)).toEqual(["again", "dune", "met", "never"])
  await pass(recommender, 3 * DAY)
  expect(there(recommender), "put and never met: 5 days ago").toEqual(["again", "dune", "met"])
  expect(recommender.item("never")).toBeUndefined()
  expect((await recommender.newest({ categories: ["lamps"] })).map(({ item }) => item)).toEqual(["again"])
  await pass(recommender, 2 * DAY)
  expect(there(recommender), "put or met 5 days ago").toEqual(["dune"])
  const hash = await (recommender as Recommender & { hash(): Promise<string> }).hash()
  await recommender.close()
  // From the first record on it is the same.
  for (const name of readdirSync(directory)) if (name.startsWith("snapshot")) rmSync(join(directory, name))
  recommender = await open(directory, options)
  expect(there(recommender)).toEqual(["dune"])
  expect(await (recommender as Recommender & { hash(): Promise<string> }).hash()).toBe(hash)
  // A new item may have the place.
  await recommender.putItems({ item: "new" })
  expect(recommender.item("new")).toMatchObject({ title: null, categories: [], hasFeatures: false, events: 0 })
  await recommender.close()
}, 60_000)

test("an item is deleted a day after it expired; without a limit and without expires it stays", async () => {
  const directory = folder()
  const recommender = await open(directory)
  await recommender.putItems([
    { item: "old", expires: START + DAY },
    { item: "later", expires: START + 400 * DAY },
    { item: "catalogue" },
  ])
  await pass(recommender, 1.5 * DAY)
  expect(there(recommender)).toContain("old")
  await recommender.putItems({ item: "old", title: "Once more" })
  await pass(recommender, DAY)
  expect(there(recommender)).toEqual(["catalogue", "dune", "later"])
  await pass(recommender, 10 * DAY)
  expect(there(recommender)).toEqual(["catalogue", "dune", "later"])
  await recommender.close()
}, 60_000)

test("a clock that is wrong for a moment deletes nothing, nor does one that was wrong when an item was put", async () => {
  const directory = folder()
  const options: RecommenderOptions = { idle: { leave: "4d" } }
  const recommender = await open(directory, options)
  await recommender.putItems([{ item: "a" }, { item: "b", expires: START + 30 * DAY }])
  await pass(recommender, 12 * HOUR)
  const right = Date.now()
  vi.setSystemTime(right + 120 * DAY)
  await recommender.observe({ user: "ada", item: "dune" })
  await recommender.putItems({ item: "c" })
  await recommender.drain()
  vi.setSystemTime(right)
  await pass(recommender, 12 * HOUR)
  expect(there(recommender)).toEqual(["a", "b", "c", "dune"])
  await recommender.close()
}, 60_000)

test("a limit that comes later counts from then on", async () => {
  const directory = folder()
  let recommender = await open(directory)
  await recommender.putItems({ item: "a" })
  await pass(recommender, 10 * DAY)
  await recommender.close()
  recommender = await open(directory, { idle: { leave: "4d" } })
  await pass(recommender, 3 * DAY)
  expect(there(recommender)).toEqual(["a", "dune"])
  await pass(recommender, 2 * DAY)
  expect(there(recommender)).toEqual(["dune"])
  await recommender.close()
}, 60_000)

test("in memory, too", async () => {
  const recommender = await Recommender.open({ idle: { leave: "4d" }, threads: 1, sizes: [2, 4] })
  await recommender.putItems({ item: "a", categories: ["lamps"] })
  await pass(recommender, 5 * DAY)
  expect(there(recommender)).toEqual(["dune"])
  await recommender.close()
}, 60_000)

test("a category that no item has any more is not kept", () => {
  const catalogue = new Catalogue(0)
  for (let n = 0; n < 1000; n++) {
    const item = { categories: [`only ${n}`], hidden: false, features: null }
    catalogue.put(7, item)
  }
  expect(catalogue.categoryCount).toBe(1)
  catalogue.put(7, null)
  expect(catalogue.categoryCount).toBe(0)
})
