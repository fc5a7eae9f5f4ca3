/** Types and weights of events: what they teach, what they leave out, and that a replay gives the same bits. */

import { cpSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"
import { useDirectories } from "../support/directories.ts"

beforeAll(buildCommand)
const { folder } = useDirectories()
const opened: Recommender[] = []
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

const TYPES = { view: 0.2, cart: 0.5, purchase: 1, skip: -1 }
/** Segments close at 100 events or by `drain`. */
const OPTIONS: RecommenderOptions = { threads: 1, seed: 3, segment: 100, delay: "24h" }

async function open(options: RecommenderOptions): Promise<Recommender> {
  const recommender = await Recommender.open({ ...OPTIONS, ...options })
  opened.push(recommender)
  return recommender
}

const itemsOf = (list: readonly { item: string }[]) => list.map(({ item }) => item)

/** Everybody looks at items 0 to 9 far more often than at 10 to 19, and buys only those. */
function plant(): Event[] {
  const random = new Random(7, "shop")
  const events: Event[] = []
  for (let n = 0; n < 6000; n++) {
    const user = `u${random.integer(150)}`
    const isLooking = random.next() < 0.8
    const item = `i${isLooking ? random.integer(10) : 10 + random.integer(10)}`
    const type = isLooking ? "view" : "purchase"
    events.push({ user, item, type, timestamp: 1_700_000_000 + n })
  }
  return events
}

test("lists of a planted stream prefer what is bought where purchases weigh more, and what is looked at where they do not", async () => {
  const shares: Record<string, number> = {}
  for (const [name, types] of Object.entries({
    weighed: { view: 0.05, purchase: 1 },
    even: { view: 1, purchase: 1 },
  })) {
    const recommender = await open({ types, leaveOut: [] })
    await recommender.observe(plant())
    await recommender.drain()
    const list = itemsOf(await recommender.recommend({ items: ["i3", "i14"], count: 10, seen: true }))
    shares[name] = list.filter((item) => Number(item.slice(1)) >= 10).length
  }
  expect(shares.weighed).toBeGreaterThanOrEqual(8)
  expect(shares.even).toBeLessThanOrEqual(2)
})

test("a purchase and a skip leave an item out, a view does not, and seen says otherwise for one list", async () => {
  const recommender = await open({ types: TYPES })
  const others = Array.from({ length: 8 }, (_, i) => ({ user: "eve", item: `x${i}`, type: "view" }))
  await recommender.observe(others)
  await recommender.observe([
    { user: "ada", item: "looked", type: "view" },
    { user: "ada", item: "bought", type: "view" },
    { user: "ada", item: "bought", type: "purchase" },
    { user: "ada", item: "bought", type: "view" },
    { user: "ada", item: "skipped", type: "skip" },
    { user: "ada", item: "plain" },
  ])
  for (const learn of [false, true]) {
    if (learn) await recommender.drain()
    const list = async (seen?: boolean) =>
      itemsOf(await recommender.recommend("ada", { count: 100, ...(seen !== undefined && { seen }) })).filter(
        (item) => !item.startsWith("x"),
      )
    expect(await list()).toEqual(["looked"])
    expect(await list(false)).toEqual([])
    expect((await list(true)).sort()).toEqual(["bought", "looked", "plain", "skipped"])
  }
  expect(recommender.history("ada").sort()).toEqual(["bought", "looked", "plain", "skipped"])
})

test("without types a view hides an item as ever", async () => {
  const recommender = await open({})
  await recommender.observe([
    { user: "ada", item: "looked", type: "view" },
    { user: "eve", item: "other" },
  ])
  expect(itemsOf(await recommender.recommend("ada"))).toEqual(["other"])
})

test("events of a configured type count again, but for one sent twice; without types the second is a duplicate", async () => {
  const event = { user: "ada", item: "dune", type: "view" }
  for (const types of [TYPES, undefined]) {
    const recommender = await open({ types })
    await recommender.observe({ ...event, timestamp: 1_700_000_000 })
    expect(await recommender.observe({ ...event, timestamp: 1_700_000_000 })).toMatchObject({ duplicates: 1 })
    expect(await recommender.observe({ ...event, timestamp: 1_700_000_060 })).toMatchObject({ accepted: types ? 1 : 0 })
    expect((await recommender.feedback({ user: "ada" })).feedback).toHaveLength(1)
  }
})

test("a weight of its own comes before the type's, and dislikes push an item down", async () => {
  const score = async (event: Partial<Event>) => {
    const recommender = await open({ types: TYPES, leaveOut: [] })
    const random = new Random(5, "weights")
    const timestamp = 1_700_000_000
    const before = Array.from({ length: 300 }, (_, n) => ({
      ...{ user: `u${random.integer(30)}`, item: `i${random.integer(12)}`, type: "cart" },
      timestamp: timestamp + n,
    }))
    const after = Array.from({ length: 40 }, (_, n) => ({
      ...{ user: `u${n % 30}`, item: "i5", ...event },
      timestamp: timestamp + 1000 + n,
    }))
    // In one call: however slow the machine is, segments end at the same events.
    await recommender.observe([...before, ...after])
    await recommender.drain()
    const list = await recommender.recommend({ items: ["i1", "i2"], count: 12, seen: true })
    return list.findIndex(({ item }) => item === "i5")
  }
  expect(await score({ type: "skip" })).toBeGreaterThan(await score({ type: "purchase" }))
  expect(await score({ type: "purchase", weight: -1 })).toBe(await score({ type: "skip" }))
})

test("ratings weigh: one of 5 teaches more than one of 4, and that more than a click", async () => {
  const scoreOf = async (rating: number | undefined) => {
    const recommender = await open({ method: "fixed-8" })
    const events = Array.from({ length: 90 }, (_, n) => ({ user: `u${n % 9}`, item: `i${n % 10}` }))
    await recommender.observe(events)
    await recommender.observe({ user: "ada", item: "i3", ...(rating !== undefined && { rating }) })
    await recommender.drain()
    return (await recommender.predict("u1", "i3")).score
  }
  const [five, four, none] = [await scoreOf(5), await scoreOf(4), await scoreOf(undefined)]
  expect(five).toBeGreaterThan(four)
  expect(four).toBeGreaterThan(none)
})

/** Random events of all kinds. */
function mixed(random: Random, count: number, types: Record<string, number>): Event[] {
  const names = Object.keys(types)
  return Array.from({ length: count }, (_, n) => {
    const base = { user: `u${random.integer(40)}`, item: `i${random.integer(60)}`, timestamp: 1_700_000_000 + n }
    const what = random.next()
    if (what < 0.6) return { ...base, type: names[random.integer(names.length)] }
    if (what < 0.7) return { ...base, weight: random.integer(41) / 10 - 2 }
    return what < 0.85 ? { ...base, rating: 1 + random.integer(5) } : base
  })
}

test("a replay gives the same bits, with types, weights and a configuration that changed on the way", async () => {
  for (let seed = 1; seed <= 3; seed++) {
    const random = new Random(seed, "replay")
    const directory = folder()
    const other = { view: 0.4, purchase: 2, like: 1 }
    const first = await open({ directory, types: TYPES })
    await first.observe(mixed(random, 450, TYPES))
    await first.close()
    const second = (await open({ directory, types: other, leaveOut: ["purchase", "view"] })) as LiveRecommender
    await expect(second.observe({ user: "u1", item: "i1", type: "cart" })).rejects.toThrow(/view, purchase, like/)
    await second.observe(mixed(random, 450, other))
    const hash = await second.hash()
    const lists = await Promise.all([1, 2, 3].map((user) => second.recommend(`u${user}`)))
    await second.close()
    const copy = folder()
    cpSync(directory, copy, { recursive: true })
    for (const name of readdirSync(copy)) if (name.includes("snapshot")) rmSync(join(copy, name), { recursive: true })
    for (const path of [copy, directory]) {
      // Types that are not given are those of before.
      const again = (await open({ directory: path })) as LiveRecommender
      expect(await again.hash(), `seed ${seed}`).toBe(hash)
      expect(await Promise.all([1, 2, 3].map((user) => again.recommend(`u${user}`)))).toEqual(lists)
      await expect(again.observe({ user: "u1", item: "i1", type: "cart" })).rejects.toThrow(/view, purchase, like/)
      await again.close()
    }
  }
})

test("an export has type and weight of every event", async () => {
  const directory = folder()
  const recommender = await open({ directory, types: TYPES })
  await recommender.observe([
    { user: "ada", item: "dune", type: "view", timestamp: 1 },
    { user: "ada", item: "dune", type: "purchase", timestamp: 2 },
    { user: "ada", item: "solaris", weight: 0.3, timestamp: 3 },
  ])
  const found = []
  for await (const event of recommender.events()) found.push(event)
  expect(found).toEqual([
    { user: "ada", item: "dune", type: "view", weight: 0.2, timestamp: 1 },
    { user: "ada", item: "dune", type: "purchase", timestamp: 2 },
    { user: "ada", item: "solaris", weight: 0.3, timestamp: 3 },
  ])
})

test("what cannot be is refused by name, and nothing is taken", async () => {
  const recommender = await open({ types: TYPES })
  const event = { user: "ada", item: "dune" }
  const bad: [unknown, RegExp][] = [
    [{ ...event, type: "buy" }, /event type: expected one of view, cart, purchase, skip, got "buy"/],
    [{ ...event, weight: "1" }, /event weight: expected a number from −10 to 10, got "1"/],
    [{ ...event, weight: Number.NaN }, /event weight/],
    [{ ...event, weight: 11 }, /event weight/],
    [{ ...event, wieght: 1 }, /event: expected user, item, .* got "wieght"/],
    [[event, { ...event, type: "buy" }], /event 1/],
  ]
  for (const [given, message] of bad) await expect(recommender.observe(given as Event)).rejects.toThrow(message)
  const guest = { items: [{ item: "dune", type: "buy" }] }
  await expect(recommender.recommend(guest)).rejects.toThrow(/expected one of view/)
  await expect(recommender.recommend({ items: [{ item: "dune", wieght: 1 } as never] })).rejects.toThrow(/guest item/)
  expect(recommender.status().events.accepted).toBe(0)
  expect(recommender.has("user", "ada")).toBe(false)
  const refused: [RecommenderOptions, RegExp][] = [
    [{ types: { view: "1" as never } }, /weight of type "view": expected a number/],
    [{ types: ["view"] as never }, /types: expected an object/],
    [{ types: new Map([["view", 1]]) as never }, /types: expected an object, got \[object Map\]/],
    [{ types: TYPES, leaveOut: ["buy"] }, /leaveOut: expected types of view, cart, purchase, skip, got "buy"/],
    [{ leaveOut: ["view"] }, /leaveOut: expected with types only/],
  ]
  for (const [options, message] of refused) await expect(Recommender.open(options)).rejects.toThrow(message)
})

test("a type may have any name, and weights are told as they were given", async () => {
  const types = JSON.parse('{"__proto__": 0.2, "constructor": 0.1}')
  const recommender = await open({ types })
  expect(recommender.types?.weights).toEqual(types)
  expect(Object.keys(recommender.types?.weights ?? {})).toEqual(["__proto__", "constructor"])
  await recommender.observe({ user: "ada", item: "dune", type: "__proto__" })
  await expect(recommender.observe({ user: "ada", item: "dune", type: "toString" })).rejects.toThrow(/expected one of/)
})

test("wrong types at a restart are refused and those before stay; right ones take their place", async () => {
  const directory = folder()
  const events = [
    { user: "ada", item: "looked at", type: "view" },
    { user: "ada", item: "bought", type: "purchase" },
  ]
  const first = await open({ directory, types: TYPES })
  await first.observe(events)
  await first.close()
  const wrong: unknown[] = [Number.NaN, Number.POSITIVE_INFINITY, "1", null, 11]
  for (const view of wrong)
    await expect(Recommender.open({ ...OPTIONS, directory, types: { view } as never })).rejects.toThrow(
      /expected a number/,
    )
  await expect(Recommender.open({ ...OPTIONS, directory, types: null as never })).rejects.toThrow(/types: expected/)
  const second = await open({ directory })
  await expect(second.observe({ ...events[0], type: "buy" })).rejects.toThrow(
    /expected one of view, cart, purchase, skip/,
  )
  expect(itemsOf(await second.recommend("ada"))).toEqual(["looked at"])
  await second.close()
  const third = await open({ directory, types: { buy: 1 } })
  await expect(third.observe(events)).rejects.toThrow(/expected one of buy, got "view"/)
  expect(await third.observe({ ...events[0], type: "buy" })).toMatchObject({ accepted: 1 })
  expect(third.status().events.accepted).toBe(3)
})

test("a guest's items have types: a view is not left out, a purchase is, a skip says nothing is liked", async () => {
  const recommender = await open({ types: TYPES })
  await recommender.observe(plant().map(({ type: _, ...event }) => ({ ...event, type: "view" })))
  await recommender.drain()
  const list = itemsOf(
    await recommender.recommend({
      items: [{ item: "i1", type: "view" }, { item: "i2", type: "purchase" }, { item: "i3", type: "skip" }, "i4"],
      count: 20,
    }),
  )
  expect(list).toContain("i1")
  for (const item of ["i2", "i3", "i4"]) expect(list).not.toContain(item)
})
