/** Titles, properties, expiry and hiding of items: kept, found, exported, deleted, counted. */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect, test } from "vitest"
import { exportCommand } from "../../src/cli/export.ts"
import type { ItemEntry } from "../../src/engine/types.ts"
import { buildCommand } from "../support/command.ts"
import { randomEvents, useDirectories } from "../support/directories.ts"

const { folder, open, powerCut } = useDirectories()
beforeAll(buildCommand)

const LAMP = {
  title: "Blue lamp – größer",
  categories: ["lights"],
  properties: { price: 12.5, inStock: true, brand: "Lux", tags: ["blue", 7] },
}

describe.each(["memory", "directory"])("an item, in %s", (kind) => {
  const start = () => open(kind === "memory" ? undefined : folder())

  test("is put as a merge patch: what is left out stays, null takes away, a property at a time", async () => {
    const recommender = await start()
    await recommender.putItems({ item: "lamp", ...LAMP, expires: "2200-01-01T00:00Z" })
    const whole = { item: "lamp", ...LAMP, expires: Date.UTC(2200, 0), hidden: false, hasFeatures: false, events: 0 }
    expect(recommender.item("lamp")).toEqual(whole)
    // Both at once: neither takes back what the other said.
    await Promise.all([
      recommender.putItems({ item: "lamp", properties: { inStock: false, brand: null } }),
      recommender.putItems({ item: "lamp", properties: { price: 9 }, hidden: true }),
      recommender.putItems([
        { item: "lamp", title: null },
        { item: "lamp", expires: null },
      ]),
    ])
    const properties = { price: 9, inStock: false, tags: ["blue", 7] }
    expect(recommender.item("lamp")).toEqual({ ...whole, title: null, properties, expires: null, hidden: true })
    await recommender.putItems({ item: "lamp", properties: null })
    expect(recommender.item("lamp")?.properties).toEqual({})
  })

  test("is found by every word in id, title or categories, those that begin with the query first, in pages", async () => {
    const recommender = await start()
    await recommender.putItems([
      { item: "a1", title: "Old blue lamp" },
      { item: "a2", title: "Blue lamp", categories: ["Lights"] },
      { item: "blue-3", categories: ["sofas"] },
      { item: "a4", title: "Red lamp" },
    ])
    const find = async (query: string, page = {}) => (await recommender.search(query, page)).map(({ item }) => item)
    expect(await find("BLUE")).toEqual(["a2", "blue-3", "a1"])
    expect(await find("BLUE", { offset: 1, count: 1 })).toEqual(["blue-3"])
    expect(await find("lights blue")).toEqual(["a2"])
    expect(await find("nothing such")).toEqual([])
    await expect(recommender.search(" ")).rejects.toMatchObject({ code: "INVALID_ARGUMENT" })
  })

  test("that is deleted is gone with title, properties and filters by them", async () => {
    const recommender = await start()
    await recommender.putItems([
      { item: "lamp", ...LAMP },
      { item: "sofa", title: "Sofa" },
    ])
    expect(await recommender.deleteItems("lamp")).toBe(1)
    expect(recommender.item("lamp")).toBeUndefined()
    expect(await recommender.search("lamp")).toEqual([])
    await recommender.putItems({ item: "new" })
    expect(recommender.item("new")).toMatchObject({ title: null, properties: {}, categories: [] })
  })

  test("stands in no list while hidden or once its time is over, and is learned all the same", async () => {
    const recommender = await start()
    await recommender.observe(randomEvents(300, 1))
    const soon = Date.now() + 500
    await recommender.putItems([
      { item: "item 1", hidden: true },
      { item: "item 2", expires: 1000 },
      { item: "item 3", expires: soon },
    ])
    await recommender.observe([1, 2, 3].map((n) => ({ user: "new", item: `item ${n}` })))
    await recommender.drain()
    const list = async () => (await recommender.recommend("nobody", { count: 1000 })).map(({ item }) => item)
    if (Date.now() < soon - 50) expect(await list()).toContain("item 3")
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, soon + 5 - Date.now())))
    const after = await list()
    for (const n of [1, 2, 3]) expect(after).not.toContain(`item ${n}`)
    expect((await recommender.explain("item", "item 1")).indicators.frequency).toBeGreaterThan(0)
    await recommender.putItems({ item: "item 3", expires: null })
    expect(await list()).toContain("item 3")
  })

  const wrong: [string, unknown][] = [
    ["an unknown field", { item: "lamp", name: "x" }],
    ["a title that is no text", { item: "lamp", title: 7 }],
    ["a title too long", { item: "lamp", title: "x".repeat(513) }],
    ["properties that are a list", { item: "lamp", properties: [1] }],
    ["a property that is an object", { item: "lamp", properties: { size: { x: 1 } } }],
    ["a property that is no finite number", { item: "lamp", properties: { price: Number.NaN } }],
    ["a name that filters use otherwise", { item: "lamp", properties: { any: 1 } }],
    ["a date that is none", { item: "lamp", expires: "tomorrow" }],
    ["a date after the year 9999", { item: "lamp", expires: "+010000-01-01T00:00Z" }],
    ["seconds that are none", { item: "lamp", expires: 1e300 }],
    ["half a surrogate pair in a category", { item: "lamp", categories: ["\ud83d"] }],
    ["a hole in a list", { item: "lamp", properties: { tags: Array(2) } }],
    ["a hole in categories", { item: "lamp", categories: Array(2) }],
    ["properties in a map", { item: "lamp", properties: new Map([["price", 1]]) }],
    ["more than 4 KB", { item: "lamp", properties: { text: "x".repeat(4100) } }],
    [
      "more than 4 KB of categories",
      { item: "new", categories: Array.from({ length: 40 }, (_, n) => `${n}`.repeat(60)) },
    ],
    [
      "300 names",
      { item: "lamp", properties: Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`p${n}`, 1])) },
    ],
  ]
  test("is refused with what is wrong in any way, and nothing changes", async () => {
    const recommender = await start()
    await recommender.putItems({ item: "lamp", ...LAMP })
    const before = recommender.item("lamp")
    for (const [what, entry] of wrong) {
      const put = recommender.putItems([{ item: "other", title: "Other" }, entry as ItemEntry])
      await expect(put, what).rejects.toMatchObject({ code: expect.stringMatching(/^INVALID_/) })
      expect(recommender.item("lamp"), what).toEqual(before)
      expect(recommender.has("item", "other"), what).toBe(false)
    }
  })
})

test("an item may have 4,096 bytes of title, categories and properties, whatever else is said of it, and not one more", async () => {
  const recommender = await open(undefined)
  const ofLength = (length: number) => ({
    ...{ item: "😀", title: "😀", categories: ["é"], expires: 253_402_300_799, hidden: true },
    properties: { text: "x".repeat(length) },
  })
  const { title, categories, properties } = ofLength(0)
  const most = 4096 - Buffer.byteLength(JSON.stringify({ title, categories, properties }))
  const tooLong = recommender.putItems(ofLength(most + 1))
  await expect(tooLong).rejects.toThrow('item "😀": expected title, categories and properties of at most 4096 bytes')
  await recommender.putItems(ofLength(most))
  expect(recommender.item("😀")).toMatchObject({ ...ofLength(most), expires: Date.UTC(9999, 11, 31, 23, 59, 59) })
})

test("titles and properties are there after a power cut and after a restart, and are exported", async () => {
  const directory = folder()
  const recommender = await open(directory)
  const items = Array.from({ length: 300 }, (_, n) => ({
    item: `item ${n}`,
    title: `Title ${n}`,
    properties: { price: n, tags: [`t${n % 3}`] },
  }))
  await recommender.putItems(items)
  await recommender.observe(randomEvents(200, 1))
  await recommender.deleteItems("item 5")
  await recommender.snapshot()
  await recommender.putItems({ item: "item 6", title: "Later", properties: { price: 0.5 } })
  const expected = recommender.item("item 6")
  const cut = await open(powerCut(directory))
  expect(cut.item("item 6")).toEqual(expected)
  expect(cut.item("item 7")).toMatchObject({ title: "Title 7", properties: { price: 7, tags: ["t1"] } })
  await recommender.close()
  const file = join(folder(), "items.ndjson")
  await exportCommand([file, "--items", "--directory", directory, "--json"])
  const rows = readFileSync(file, "utf8").trim().split("\n")
  const row = rows.map((line) => JSON.parse(line)).find(({ item }) => item === "item 6")
  expect(row.title).toBe("Later")
  expect(JSON.parse(row.properties)).toEqual({ price: 0.5, tags: ["t0"] })
  const again = await open(directory)
  expect(again.item("item 6")).toEqual(expected)
  expect(again.item("item 5")?.title ?? null).toBeNull()
})

test("what is kept of items is counted, stays on disk but for properties, and leaves half of the budget", async () => {
  const long = "x".repeat(3000)
  const items = Array.from({ length: 4000 }, (_, n) => ({
    item: `item ${n}`,
    title: `Title ${n}`,
    properties: { price: n, text: long },
  }))
  const memory = await open(undefined)
  await memory.putItems(items)
  expect(memory.status().memory.parts.lookup).toBeGreaterThan(4000 * 3000)
  const disk = await open(folder())
  for (let from = 0; from < 4000; from += 500) await disk.putItems(items.slice(from, from + 500))
  await disk.snapshot()
  expect(disk.status().memory.parts.lookup).toBeLessThan(9_000_000)
  expect(disk.item("item 3999")?.properties).toEqual({ price: 3999, text: long })
  const small = await open(undefined, { memoryBudget: "16MB" })
  const put = async () => {
    for (let from = 0; from < 4000; from += 500) await small.putItems(items.slice(from, from + 500))
  }
  await expect(put()).rejects.toMatchObject({ code: "INVALID_ARGUMENT", message: expect.stringMatching(/budget/) })
  expect(small.status().memory.parts.lookup).toBeLessThan(12_000_000)
  expect(small.item("item 0")?.title).toBe("Title 0")
  // What is known can still be changed, and taken away.
  await small.putItems({ item: "item 0", hidden: true, properties: { price: 5 } })
  expect(small.item("item 0")).toMatchObject({ hidden: true, properties: { price: 5 } })
  await expect(put()).rejects.toThrow(/budget/)
  // One call alone is refused where it would be too much.
  for (const directory of [undefined, folder()]) {
    const other = await open(directory, { memoryBudget: "16MB" })
    const kept = () => other.status().memory.parts.items + other.status().memory.parts.lookup
    const before = kept()
    const lists = Array.from({ length: 1500 }, (_, n) => ({
      item: `item ${n}`,
      properties: Object.fromEntries(
        Array.from({ length: 16 }, (_, p) => [`p${p}`, Array.from({ length: 64 }, (_, v) => (n + v) % 97)]),
      ),
    }))
    await expect(other.putItems(lists)).rejects.toThrow(/budget/)
    expect(kept()).toBeLessThan(before + 100_000)
    expect(other.has("item", "item 0")).toBe(false)
  }
})
