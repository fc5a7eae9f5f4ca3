/** Deleted items, notes, and which build learned. */

import { readdirSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect, test } from "vitest"
import { readSnapshot, writeSnapshot } from "../../src/engine/snapshots.ts"
import type { Json } from "../../src/kernels/state.ts"
import { LEARNING } from "../../src/learning/version.ts"
import { buildCommand } from "../support/command.ts"
import { exported, filesWith, randomEvents, useDirectories } from "../support/directories.ts"

const { folder, open, powerCut } = useDirectories()
beforeAll(buildCommand)

describe.each(["memory", "directory"])("deleted items, in %s", (kind) => {
  test("are in no list, catalogue, history or model, and come back as new", async () => {
    const recommender = await open(kind === "memory" ? undefined : folder(), { features: ["a"], method: "dess-cv" })
    await recommender.putItems({ item: "item 3", features: [1], categories: ["c"], hidden: false })
    await recommender.observe(randomEvents(200, 1))
    await recommender.drain()
    await recommender.observe({ user: "user 1", item: "item 3", type: "like" })
    const { known } = recommender.status().items
    expect(await recommender.deleteItems(["item 3", "item 4", "item 3", "never heard of"])).toBe(2)
    expect(await recommender.deleteItems("item 3")).toBe(0)
    await recommender.drain()
    expect(recommender.status().items.known).toBe(known - 2)
    for (const item of ["item 3", "item 4"]) {
      expect(recommender.item(item)).toBeUndefined()
      expect(recommender.has("item", item)).toBe(false)
      await expect(recommender.similar(item)).rejects.toMatchObject({ code: "NOT_FOUND" })
      for (let user = 0; user < 20; user++) expect(recommender.history(`user ${user}`)).not.toContain(item)
    }
    const list = await recommender.recommend("user 1", { count: 1000, seen: true })
    expect(list.map(({ item }) => item)).not.toContain("item 3")
    expect((await recommender.feedback({ user: "user 1" })).feedback).toEqual([])
    // Whoever gets an index has nothing of the item before: no features, events or size.
    await recommender.observe([{ user: "user 1", item: "another" }])
    await recommender.observe([{ user: "user 1", item: "item 3" }])
    await recommender.drain()
    for (const item of ["another", "item 3"]) {
      expect(recommender.item(item)).toMatchObject({ categories: [], hasFeatures: false, events: 1 })
      expect((await recommender.explain("item", item)).indicators.frequency).toBe(1)
    }
  })
})

test("deleted items are as deleted after a restart, with and without a snapshot", async () => {
  const directory = folder()
  const recommender = await open(directory, { features: ["a"], method: "dess-cv" })
  await recommender.putItems([1, 2, 3].map((n) => ({ item: `item ${n}`, features: [n] })))
  await recommender.observe(randomEvents(100, 1))
  // In the open segment, too.
  await recommender.deleteItems(["item 1", "item 2", "item 5"])
  await recommender.observe([...randomEvents(30, 2), { user: "user 1", item: "another" }])
  await recommender.deleteItems("item 7")
  await recommender.drain()
  const [hash, items] = [await recommender.hash(), recommender.ids("item", { count: 100 })]
  const { accepted, learned } = recommender.status().events
  expect(learned).toBe(accepted)
  const copy = powerCut(directory)
  await recommender.close()
  for (const place of [copy, directory]) {
    const again = await open(place)
    expect(await again.hash()).toBe(hash)
    expect(again.ids("item", { count: 100 })).toEqual(items)
    expect(again.status().events).toMatchObject({ accepted, learned: accepted, queue: 0 })
    const told = (await exported(again)).map((text) => (JSON.parse(text) as { item: string }).item)
    expect(told.filter((item) => item === "another")).toHaveLength(1)
  }
})

test("notes are kept, replaced, taken away and listed from behind one on, also after a crash and a restart", async () => {
  const directory = folder()
  let recommender = await open(directory)
  const ids = Array.from({ length: 30 }, (_, n) => `id ${n} 漢`)
  await recommender.putNotes("user", ids.map((id) => ({ id, note: { labels: { n: [id] }, comment: "c" } }))) // biome-ignore format: one call
  await recommender.putNotes("item", [{ id: "id 1 漢", note: { comment: "of an item", timestamp: "2020" } }])
  await recommender.putNotes("user", [
    { id: ids[3], note: { comment: "another" } },
    { id: ids[4], note: null },
  ])
  const check = () => {
    expect(recommender.note("user", ids[3])).toEqual({ comment: "another" })
    expect(recommender.note("user", ids[4])).toBeUndefined()
    expect(recommender.note("user", ids[5])).toEqual({ labels: { n: [ids[5]] }, comment: "c" })
    expect(recommender.note("item", "id 1 漢")).toEqual({ comment: "of an item", timestamp: "2020" })
    const all = [...recommender.notedIds("user")]
    expect([...all].sort()).toEqual(ids.filter((id) => id !== ids[4]).sort())
    expect([...recommender.notedIds("user", all[9])]).toEqual(all.slice(10))
    expect(recommender.has("user", ids[3]), "a note is no event").toBe(false)
  }
  check()
  await recommender.abandon()
  recommender = await open(directory)
  check()
  await recommender.close()
  recommender = await open(directory)
  check()
  const deep = JSON.parse(`${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}`)
  await expect(recommender.putNotes("user", [{ id: "a", note: { labels: deep } }])).rejects.toThrow(
    "labels and comment: expected what JSON can hold",
  )
  await expect(recommender.putNotes("user", [{ id: "a", note: { comment: "x".repeat(5000) } }])).rejects.toThrow(
    /expected at most 4096 characters/,
  )
  expect(await recommender.forget(ids[5])).toMatchObject({ found: true, status: "done" })
  expect(recommender.note("user", ids[5])).toBeUndefined()
  await recommender.close()
  expect(filesWith(directory, `"${ids[5]}"`)).toEqual([])
})

test("a state that another build learned: status names that build from then on", async () => {
  const directory = folder()
  const first = await open(directory)
  await first.observe(randomEvents(50, 1))
  expect(first.status().built).toBeUndefined()
  await first.close()
  const [name] = readdirSync(directory).filter((one) => one.startsWith("snapshot-"))
  const state = readSnapshot(join(directory, name))
  const engine = state.get("engine") as Record<string, Json>
  expect(engine.build).toMatchObject({ learning: LEARNING })
  state.set("engine", { ...engine, build: { version: "0.0.9", learning: "before" } })
  writeSnapshot(join(directory, name), state)
  const second = await open(directory)
  expect(second.status().built).toEqual({ version: "0.0.9", learning: "before" })
  await second.observe(randomEvents(50, 2))
  await second.close()
  // The state stays one of two pieces, however often it is opened.
  expect((await open(directory)).status().built).toEqual({ version: "0.0.9", learning: "before" })
})
