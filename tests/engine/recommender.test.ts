/** The contract of a recommender, in memory and with a directory. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, describe, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import { DessError } from "../../src/errors.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"

const SMALL: RecommenderOptions = { model: "mf", sizes: [2, 4, 8], threads: 1, delay: 30, seed: 4 }
const opened: Recommender[] = []
const folders: string[] = []

// The training thread runs what was built.
beforeAll(buildCommand)

afterEach(async () => {
  for (const recommender of opened.splice(0)) await recommender.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

async function open(options: RecommenderOptions = {}): Promise<Recommender> {
  const recommender = await Recommender.open({ ...SMALL, ...options })
  opened.push(recommender)
  return recommender
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "dess-engine-"))
  folders.push(path)
  return path
}

/** Twenty users of two tastes and thirty items: odd users meet odd items. */
function events(count: number, seed = 1): Event[] {
  const random = new Random(seed, "engine test")
  return Array.from({ length: count }, (_, n) => {
    const user = random.integer(20)
    return { user: `user ${user}`, item: `item ${2 * random.integer(15) + (user % 2)}`, timestamp: 1_700_000_000 + n }
  })
}

describe.each(["memory", "directory"])("a recommender in %s", (kind) => {
  const place = (): RecommenderOptions => (kind === "memory" ? {} : { directory: folder() })

  test("learns, and gives exactly the asked number of items, none of them met before", async () => {
    const recommender = await open(place())
    expect(await recommender.observe(events(300))).toEqual({ accepted: 300, duplicates: 0 })
    await recommender.drain()
    const met = new Set(recommender.history("user 3"))
    expect(met.size).toBeGreaterThan(3)
    const list = await recommender.recommend("user 3", { count: 12 })
    expect(list).toHaveLength(12)
    expect(new Set(list.map(({ item }) => item)).size).toBe(12)
    for (const { item, source, score } of list) {
      expect(met.has(item)).toBe(false)
      expect(source).toBe("model")
      expect(score).toBeGreaterThan(0)
    }
    const all = await recommender.recommend("user 3", { count: 1000 })
    expect(all).toHaveLength(30 - met.size)
    expect((await recommender.recommend("user 3", { count: 1000, seen: true })).length).toBe(30)
    const paged = [
      ...(await recommender.recommend("user 3", { count: 5 })),
      ...(await recommender.recommend("user 3", { count: 7, offset: 5 })),
    ]
    expect(paged).toEqual(list)
  })

  test("an item just met is gone from the list at once", async () => {
    const recommender = await open(place())
    await recommender.observe(events(200))
    await recommender.drain()
    const [{ item }] = await recommender.recommend("user 1", { count: 1 })
    await recommender.observe({ user: "user 1", item })
    expect((await recommender.recommend("user 1", { count: 100 })).some((other) => other.item === item)).toBe(false)
  })

  test("gives an unknown user what is trending, then what is new", async () => {
    const recommender = await open(place())
    await recommender.observe([
      { user: "a", item: "often" },
      { user: "b", item: "often" },
      { user: "a", item: "once" },
      { user: "a", item: "hated", rating: 1 },
    ])
    await recommender.putItems([{ item: "older" }, { item: "newer" }])
    const list = await recommender.recommend("nobody", { count: 10 })
    expect(list.map(({ item, source }) => [item, source])).toEqual([
      ["often", "trending"],
      ["once", "trending"],
      ["newer", "new"],
      ["older", "new"],
      ["hated", "new"],
    ])
  })

  test("keeps to exclude, only, categories and hidden", async () => {
    const recommender = await open(place())
    await recommender.observe(events(200))
    await recommender.putItems([
      { item: "item 0", categories: ["even", "zero"] },
      { item: "item 2", categories: ["even"] },
      { item: "item 4", categories: ["even"], hidden: true },
    ])
    await recommender.drain()
    const names = async (options: object) =>
      (await recommender.recommend("nobody", { count: 100, ...options })).map(({ item }) => item).sort()
    expect(await names({ categories: ["even"] })).toEqual(["item 0", "item 2"])
    expect(await names({ categories: ["zero", "none"] })).toEqual(["item 0"])
    expect(await names({ only: ["item 2", "item 4", "item 6", "unheard"] })).toEqual(["item 2", "item 6"])
    expect(await names({ only: ["item 2", "item 6"], exclude: ["item 6"] })).toEqual(["item 2"])
    expect(await names({})).not.toContain("item 4")
    await recommender.putItems({ item: "item 4", hidden: false })
    expect(await names({ categories: ["even"] })).toEqual(["item 0", "item 2", "item 4"])
    expect(recommender.item("item 4")).toMatchObject({ categories: ["even"], hidden: false })
  })

  test("takes an event with a key once, also from the same call", async () => {
    const recommender = await open(place())
    const event = { user: "ada", item: "dune", key: "k1" }
    expect(await recommender.observe([event, event])).toEqual({ accepted: 1, duplicates: 1 })
    expect(await recommender.observe(event)).toEqual({ accepted: 0, duplicates: 1 })
    expect(await recommender.observe({ ...event, key: "k2" })).toEqual({ accepted: 1, duplicates: 0 })
    expect(recommender.status().events).toMatchObject({ accepted: 2, duplicates: 2 })
  })

  test("forgets a user", async () => {
    const recommender = await open(place())
    await recommender.observe(events(200))
    await recommender.drain()
    await recommender.observe({ user: "user 5", item: "item 1" })
    const own = events(200).filter(({ user }) => user === "user 5").length + 1
    const receipt = await recommender.forget("user 5")
    expect(receipt).toMatchObject({ user: "user 5", found: true, row: true })
    expect(receipt.history).toBeGreaterThan(3)
    expect(receipt.events).toBe(kind === "memory" ? 0 : own)
    expect(recommender.has("user", "user 5")).toBe(false)
    expect(recommender.history("user 5")).toEqual([])
    await expect(recommender.explain("user", "user 5")).rejects.toMatchObject({ code: "NOT_FOUND" })
    expect((await recommender.recommend("user 5")).every(({ source }) => source !== "model")).toBe(true)
    expect(await recommender.forget("user 5")).toMatchObject({ found: false, events: 0 })
    await recommender.observe({ user: "user 5", item: "item 3" })
    expect(recommender.history("user 5")).toEqual(["item 3"])
  })

  test("reports every segment, and its status adds up", async () => {
    const recommender = await open({ ...place(), segment: 50, delay: "1h" })
    const reports = recommender.reports()
    await recommender.observe(events(125))
    await recommender.drain()
    for (const [segment, size] of [50, 50, 25].entries()) {
      const { value } = await reports.next()
      expect(value).toMatchObject({ segment: segment + 1, events: size })
      expect(value.heldBytes).toBeGreaterThan(0)
    }
    const status = recommender.status()
    expect(status.state).toBe("learning")
    expect(status.events).toEqual({ accepted: 125, duplicates: 0, learned: 125, queue: 0 })
    expect(status.segments).toBe(3)
    expect(status.users).toEqual({ known: 20, held: 20 })
    expect(status.freshness?.last).toBeGreaterThan(0)
    expect(status.journal === null).toBe(kind === "memory")
    await recommender.close()
    expect(await reports.next()).toEqual({ value: undefined, done: true })
    await expect(recommender.observe({ user: 1, item: 2 })).rejects.toMatchObject({ code: "CLOSED" })
    await expect(recommender.recommend(1)).rejects.toMatchObject({ code: "CLOSED" })
  })
})

describe("predict, similar, explain", () => {
  test("the model finds the two tastes", async () => {
    const recommender = await open({ task: "binary", segment: 40, model: "ncf" })
    const random = new Random(3, "tastes")
    for (let n = 0; n < 20; n++) {
      const some = Array.from({ length: 400 }, () => {
        const [user, item] = [random.integer(16), random.integer(20)]
        return { user, item, rating: user % 2 === item % 2 ? 5 : 1 }
      })
      await recommender.observe(some)
    }
    await recommender.drain()
    const pairs = Array.from({ length: 16 * 20 }, (_, i) => ({ user: i % 16, item: Math.floor(i / 16) }))
    const predictions = await recommender.predict(pairs)
    const right = predictions.filter(({ score }, i) => score > 0.5 === (pairs[i].user % 2 === pairs[i].item % 2))
    expect(right.length / pairs.length).toBeGreaterThan(0.9)
    expect(predictions[0].known).toEqual({ user: true, item: true })
    const near = await recommender.similar(4, { count: 5 })
    expect(near).toHaveLength(5)
    expect(near.filter(({ item }) => Number(item) % 2 === 0).length).toBeGreaterThanOrEqual(4)
    const [first] = await recommender.recommend(4, { count: 1, seen: true })
    expect(first.score).toBeCloseTo((await recommender.predict(4, first.item)).score, 6)
  })

  test("similar to an item is first what is met soon after it, then what has a vector near to it", async () => {
    const recommender = await open({ task: "topk", segment: 40 })
    const random = new Random(8, "after")
    // Whoever meets an even item meets the next odd one at once.
    for (let n = 0; n < 1500; n++) {
      const [user, item] = [`u${random.integer(60)}`, 2 * random.integer(15)]
      await recommender.observe([item, item + 1].map((one) => ({ user, item: `i${one}` })))
    }
    await recommender.drain()
    for (const item of [0, 8, 28]) {
      const near = await recommender.similar(`i${item}`, { count: 29 })
      expect(near[0].item).toBe(`i${item + 1}`)
      expect(near[0].score).toBeGreaterThan(1 + 2 * (near[1].score - 1))
      expect(near.map(({ item: name }) => name)).not.toContain(`i${item}`)
      const scores = near.filter(({ source }) => source === "model").map(({ score }) => score)
      expect(scores).toEqual(scores.toSorted((a, b) => b - a))
    }
    // Met once after another: that is no reason to stand above 1.
    await recommender.observe(["i0", "rare"].map((item) => ({ user: "once", item })))
    await recommender.drain()
    const rare = (await recommender.similar("i0", { count: 40 })).find(({ item }) => item === "rare")
    expect(rare === undefined || rare.score < 1 || rare.source !== "model").toBe(true)
  })

  test("an unknown pair gets the average, multiclass a rating with its probabilities", async () => {
    const recommender = await open({ task: "multiclass" })
    await recommender.observe(Array.from({ length: 100 }, (_, n) => ({ user: n % 5, item: n % 7, rating: 4 })))
    await recommender.drain()
    const unknown = await recommender.predict("x", "y")
    expect(unknown.known).toEqual({ user: false, item: false })
    expect(unknown.score).toBeCloseTo(3.95, 1)
    const known = await recommender.predict(1, 1)
    expect(known.probabilities).toHaveLength(5)
    expect(known.probabilities?.reduce((sum, p) => sum + p, 0)).toBeCloseTo(1, 6)
    expect(known.score).toBeGreaterThan(1)
  })

  test("explain shows size, history, indicators, bounds and bytes", async () => {
    const recommender = await open({ features: ["a", "b"], method: "dess-cv", segment: 20, sizes: [2, 64, 128] })
    await recommender.putItems(
      Array.from({ length: 30 }, (_, i) => ({ item: `item ${i}`, features: [i % 2, 1 - (i % 2)] })),
    )
    await recommender.observe(events(40))
    await recommender.drain()
    const { history, ...rest } = await recommender.explain("user", "user 7")
    expect(rest).toMatchObject({
      id: "user 7",
      side: "user",
      indicators: { frequency: events(40).filter(({ user }) => user === "user 7").length },
    })
    expect(rest.size).toBeGreaterThanOrEqual(2)
    expect(rest.bytes).toBeGreaterThan(8)
    expect(history[0]).toEqual({ segment: 1, time: expect.any(Number), size: 64, why: "met", scores: null })
    if (rest.size < 128) expect(rest.bounds?.grow).toBeGreaterThan(0)
    expect((await recommender.explain("item", "item 3")).entry).toMatchObject({ item: "item 3", hasFeatures: true })
    await expect(recommender.explain("item", "nothing")).rejects.toMatchObject({ code: "NOT_FOUND" })
  })
})

describe("validation", () => {
  test("hostile ids are ids like any other", async () => {
    const recommender = await open()
    const names = ["__proto__", "constructor", "👩‍🚀", "a\0b", "../../etc/passwd", "x".repeat(512), "\n", "toString"]
    await recommender.observe(
      names.flatMap((user, i) =>
        names.slice(0, 4).map((item) => ({ user, item, key: `${user.slice(0, 20)} ${item} ${i}` })),
      ),
    )
    await recommender.drain()
    for (const name of names) expect(recommender.has("user", name)).toBe(true)
    expect(recommender.has("user", "hasOwnProperty")).toBe(false)
    expect(recommender.status().users.known).toBe(names.length)
    expect((await recommender.recommend("__proto__", { seen: true })).map(({ item }) => item).sort()).toEqual(
      names.slice(0, 4).sort(),
    )
  })

  const ok = { user: "u", item: "i" }
  const bad: [string, unknown, RegExp][] = [
    ["no object", 7, /event: expected an object/],
    ["no user", { item: "i" }, /interaction user: expected/],
    ["an empty id", { ...ok, user: "" }, /interaction user: expected/],
    ["a long id", { ...ok, item: "x".repeat(10_000) }, /interaction item: expected .* got 10000 characters/],
    ["half an emoji", { ...ok, user: "\ud83d" }, /user: expected a well-formed text/],
    ["NaN as id", { ...ok, user: Number.NaN }, /interaction user: expected/],
    ["an object as id", { ...ok, user: {} }, /interaction user: expected/],
    ["a NaN rating", { ...ok, rating: Number.NaN }, /rating: expected a number from 0 to 5/],
    ["a huge rating", { ...ok, rating: 1e308 }, /rating: expected a number from 0 to 5/],
    ["a text rating", { ...ok, rating: "5" }, /rating: expected a number from 0 to 5/],
    ["a negative time", { ...ok, timestamp: -1 }, /timestamp: expected/],
    ["a future time", { ...ok, timestamp: Date.now() / 1000 + 10 * 86_400 }, /timestamp: expected at most a day/],
    ["an infinite time", { ...ok, timestamp: Number.POSITIVE_INFINITY }, /timestamp: expected/],
    ["a long key", { ...ok, key: "k".repeat(10_000) }, /event key: expected/],
    ["an empty key", { ...ok, key: "" }, /event key: expected/],
    ["half an emoji in a key", { ...ok, key: "\ud83d" }, /event key: expected a well-formed text/],
    ["half an emoji in a comment", { ...ok, comment: "\ud83d" }, /event comment: expected a well-formed text/],
  ]
  test("what is not an event is refused, and nothing of the array is taken", async () => {
    const recommender = await open()
    for (const [name, event, message] of bad) {
      await expect(recommender.observe([ok, event as Event]), name).rejects.toThrow(message)
      await expect(recommender.observe([ok, event as Event]), name).rejects.toMatchObject({ code: "INVALID_DATA" })
    }
    expect(recommender.status().events.accepted).toBe(0)
    expect(recommender.has("user", "u")).toBe(false)
  })

  test("whatever is thrown at it comes back as a DessError or an answer, and it goes on", async () => {
    const recommender = await open({ features: ["a", "b"] })
    await recommender.observe(events(100))
    const random = new Random(8, "fuzz")
    const hostile = { toString: () => { throw new Error("hostile") } } // biome-ignore format: one line says it
    const pool: unknown[] = [
      undefined, null, true, Number.NaN, 1e308, -1, 0, "", "__proto__", "x".repeat(10_000), "👩‍🚀", "\ud83d", 1n, [], {},
      hostile, new Date(), () => 1, Symbol("s"), [[]], "user 1", "item 1", 5, 3.5, ["item 1"], [null], new Map(),
    ] // biome-ignore format: a pool
    const pick = () => pool[random.integer(pool.length)]
    const names = ["user", "item", "rating", "timestamp", "key", "type", "comment", "features", "categories", "hidden"]
    const others = ["count", "offset", "exclude", "only", "seen", "replace", "after"]
    // Seldom all of them: a name nobody knows is refused before anything else is looked at.
    const object = () =>
      Object.fromEntries([...names, ...others].filter(() => random.next() < 0.3).map((name) => [name, pick()]))
    const any = recommender as unknown as Record<string, (...args: unknown[]) => unknown>
    let refused = 0
    for (let n = 0; n < 1500; n++) {
      const method = [
        "observe",
        "recommend",
        "similar",
        "predict",
        "explain",
        "putItems",
        "item",
        "has",
        "ids",
        "history",
        "feedback",
        "retract",
        "similarUsers",
      ][n % 13]
      const first = random.next() < 0.5 ? pick() : [object(), object()]
      const second = random.next() < 0.5 && method !== "recommend" && method !== "similar" ? pick() : object()
      try {
        await any[method](first, method === "ids" || method === "history" ? object() : second)
      } catch (error) {
        refused++
        expect(error, `seed 8, call ${n}, ${method}`).toBeInstanceOf(DessError)
      }
    }
    expect(refused).toBeGreaterThan(500)
    await recommender.drain()
    expect(recommender.status().state).toBe("learning")
    expect(await recommender.recommend("user 1", { count: 3 })).toHaveLength(3)
  })

  test("unknown options, and options of another type, are refused", async () => {
    for (const options of [
      { memorybudget: "1MB" },
      { idle: "30d" },
      { idle: { leavee: "1s" } },
      { keepJournal: "no" },
      { likeThreshold: 5 },
      { likeThreshold: 11, scale: { min: 1, max: 10 } },
      { directory: import.meta.filename },
      null,
    ])
      await expect(Recommender.open(options as never), JSON.stringify(options)).rejects.toMatchObject({
        name: "DessError",
        code: "INVALID_ARGUMENT",
      })
    const recommender = await open()
    await expect(recommender.recommend("a", { cuont: 3 } as never)).rejects.toThrow(
      /options: expected count, .*"cuont"/,
    )
    await expect(recommender.observe(ok, null as never)).rejects.toThrow(/options: expected an object/)
  })

  test("the like threshold counts on the scale of the ratings", async () => {
    const recommender = await open({ scale: { min: 1, max: 10 }, likeThreshold: 7, task: "binary" })
    await recommender.observe([6, 7, 8, 10].map((rating) => ({ user: "u", item: `i${rating}`, rating })))
    const trending = (await recommender.recommend("stranger")).filter(({ source }) => source === "trending")
    expect(trending.map(({ item }) => item).sort()).toEqual(["i10", "i8"])
  })

  test("more events at once than the queue holds are refused for good", async () => {
    const recommender = await open({ queue: 500, segment: 500 })
    await expect(recommender.observe(new Array(501).fill(ok))).rejects.toMatchObject({ code: "INVALID_ARGUMENT" })
  })

  test("too much at once, bad counts and bad items are refused", async () => {
    const recommender = await open({ features: ["a"] })
    await expect(recommender.observe(new Array(10_001).fill(ok))).rejects.toThrow(/events: expected at most 10000/)
    await expect(recommender.recommend("u", { count: 0 })).rejects.toThrow(/count: expected/)
    await expect(recommender.recommend("u", { count: 1e9 })).rejects.toThrow(/count: expected/)
    await expect(recommender.similar("unheard")).rejects.toMatchObject({ code: "NOT_FOUND" })
    await expect(recommender.putItems({ item: "i", features: [1, 2] })).rejects.toThrow(/features: expected 1 numbers/)
    await expect(recommender.putItems({ item: "i", features: [Number.NaN] })).rejects.toThrow(
      /features: expected numbers/,
    )
    await expect(recommender.putItems({ item: "i", categories: [""] })).rejects.toThrow(/categories: expected/)
    await expect(recommender.snapshot()).rejects.toThrow(/snapshot: expected a recommender with a directory/)
  })

  test("more than the queue holds is refused as busy, and taken later", async () => {
    const recommender = await open({ segment: 10, queue: 20, delay: "1h" })
    await recommender.observe(events(15))
    const more = recommender.observe(events(10))
    await expect(more).rejects.toMatchObject({ code: "BUSY" })
    await recommender.drain()
    expect(await recommender.observe(events(10))).toEqual({ accepted: 10, duplicates: 0 })
  })

  test.each([
    [{ method: "darts" }, /method: expected one that can be saved/],
    [{ method: "plain-knn" }, /method: expected one that can be saved/],
    [{ method: "nonsense" }, /method: expected one of/],
    [{ method: "dess-cv" }, /dess-cv: expected items with features/],
    [{ memoryBudget: "1KB" }, /memory budget: expected at least/],
    [{ memoryBudget: "lots" }, /memory budget: expected bytes or a text/],
    [{ delay: "soon" }, /delay: expected milliseconds or a text/],
    [{ features: [] }, /features: expected 1 to/],
  ])("open refuses %o", async (options, message) => {
    await expect(Recommender.open({ ...SMALL, ...options })).rejects.toThrow(message)
  })
})

test("the budget holds, idle users leave, and their place is given to others", async () => {
  const recommender = await open({ memoryBudget: "400KB", segment: 250, task: "binary", method: "fixed-16" })
  for (let n = 0; n < 40; n++) {
    const some = Array.from({ length: 250 }, (_, i) => ({
      user: `user ${n * 150 + i}`,
      item: `item ${i}`,
      rating: i % 6,
    }))
    await recommender.observe(some)
    await recommender.drain()
    const { memory, last } = recommender.status()
    expect(last).not.toHaveProperty("failed")
    expect(memory.fixed).toBeGreaterThan(0)
    expect(Object.values(memory.parts).reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(400 * 1024)
  }
  const { users, memory } = recommender.status()
  expect(memory.left.user).toBeGreaterThan(1000)
  expect(users.known).toBeLessThan(6100 - 1000)
  expect(recommender.has("user", "user 0")).toBe(false)
  expect(recommender.has("user", "user 6000")).toBe(true)
})
