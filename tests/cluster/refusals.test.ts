/** What is wrong is refused alike by the library, over HTTP and by a cluster's reader, with a clear error; nothing changes. */

import { expect, test } from "vitest"
import { ClusterRecommender } from "../../src/cluster/reader.ts"
import { Recommender } from "../../src/engine/open.ts"
import type { ServedRecommender } from "../../src/engine/types.ts"
import { closing, open } from "../support/cluster.ts"
import { describeWithRedis, eventually } from "../support/redis.ts"
import { openService } from "../support/service.ts"
import { ITEMS } from "../support/shop.ts"

const TYPES = { view: 0.2, purchase: 1, skip: -1 }
const ENDLESS = Number.POSITIVE_INFINITY
const many = (count: number) => Array.from({ length: count }, (_, n) => n)
let deep: object = { price: 1 }
for (let n = 0; n < 1000; n++) deep = n % 2 ? { not: deep } : { any: [deep] }

const rules: [string, unknown][] = [
  ["an unknown field", { cuont: 3 }],
  ...[0, -1, 1.5, 1e9, "3", null, Number.NaN, ENDLESS].map((count): [string, unknown] => [`count ${count}`, { count }]),
  ...[-1, 0.5, 1e9, "3", null].map((offset): [string, unknown] => [`offset ${offset}`, { offset }]),
  ...[-0.1, 1.1, "1", null, Number.NaN, ENDLESS].map((n): [string, unknown] => [`diversity ${n}`, { diversity: n }]),
  ["a filter on a property nobody has", { filter: { colour: "red" } }],
  ["a filter on what objects have", { filter: { constructor: "red" } }],
  ["a filter of another type", { filter: { price: "cheap" } }],
  ["a filter that is null", { filter: null }],
  ["a filter that is a list", { filter: [] }],
  ["a range without end", { filter: { price: { lt: ENDLESS } } }],
  ["10,000 conditions", { filter: { any: many(10_000).map((price) => ({ price })) } }],
  ["10,000 values", { filter: { price: { in: many(10_000) } } }],
  ["10,000 boosts", { boost: many(10_000).map((price) => ({ filter: { price }, by: 2 })) }],
  ["a filter 1,000 deep", { filter: deep }],
  ...[0, -1, Number.NaN, ENDLESS, "2", null, 1e9].map((by): [string, unknown] => [
    `a boost by ${by}`,
    { boost: [{ filter: {}, by }] },
  ]),
  ["a boost without a filter", { boost: [{ by: 2 }] }],
  ["a boost that is no list", { boost: { filter: {}, by: 2 } }],
  ["a cap on a category by its name", { cap: { "kind 1": 2 } }],
  ...[0, -1, 1.5, "2", null].map((category): [string, unknown] => [`a cap of ${category}`, { cap: { category } }]),
  ["a million ids to exclude", { exclude: many(1e6).map(String) }],
  ["exclude of what is no id", { exclude: [{}] }],
  ["only a text", { only: "item 1" }],
  ["10,001 ids", { only: many(10_001).map(String) }],
  ["categories that are numbers", { categories: [3] }],
  ["an include nobody knows", { include: ["price"] }],
]
const own: [string, unknown][] = [
  ["why is a text", { why: "yes" }],
  ["seen is a number", { seen: 1 }],
  ["lasting is a text", { lasting: "true" }],
  ...[-1, 1.5, "1", 1e9].map((fresh): [string, unknown] => [`fresh ${fresh}`, { fresh }]),
]
const event = { user: "ada", item: "item 1" }
const events: [string, unknown][] = [
  ["an unknown field", { ...event, wieght: 1 }],
  ["an unknown type", { ...event, type: "buy" }],
  ["a type objects have", { ...event, type: "constructor" }],
  ...["1", Number.NaN, ENDLESS, -ENDLESS, null, [], 10.1].map((weight): [string, unknown] => [
    `a weight of ${weight}`,
    { ...event, weight },
  ]),
  ["a rating that is a text", { ...event, rating: "5" }],
  ["a user that is an object", { ...event, user: {} }],
  ["no item", { user: "ada" }],
]
const entries: [string, unknown][] = [
  ["an unknown field", { item: "item 1", name: "x" }],
  ["a title over 4 KB", { item: "item 1", title: "x".repeat(5000) }],
  ["a title of many bytes", { item: "item 1", title: "\u{1F600}".repeat(2000) }],
  [
    "over 4 KB in all",
    { item: "item 1", properties: Object.fromEntries(many(60).map((n) => [`p${n}`, "x".repeat(100)])) },
  ],
  ["over 4 KB of categories", { item: "item 1", categories: many(60).map((n) => `${n}`.padEnd(100, "x")) }],
  ["a broken category", { item: "item 1", categories: ["\ud83d"] }],
  ["a price without end", { item: "item 1", properties: { price: ENDLESS } }],
  ["a property of another kind", { item: "item 1", properties: { price: { from: 1 } } }],
  ["a list of lists", { item: "item 1", properties: { tags: [["a"]] } }],
  ["a date that is none", { item: "item 1", expires: "soon" }],
  ["a date before all", { item: "item 1", expires: -1 }],
  ["hidden is a text", { item: "item 1", hidden: "yes" }],
  ["categories are a text", { item: "item 1", categories: "kind 1" }],
]

interface Wrong {
  what: string
  ask(live: ServedRecommender): Promise<unknown>
  method: string
  path: string
  body: unknown
}

const call = (what: string, ask: Wrong["ask"], [method, path, body]: [string, string, unknown]): Wrong => ({
  ...{ what, ask, method, path, body },
})
const lists = (what: string, given: unknown): Wrong[] => [
  call(`${what}: a user's list`, (live) => live.recommend("ada", given as object), [
    "POST",
    "/v1/users/ada/recommendations",
    given,
  ]),
  call(`${what}: a guest's list`, (live) => live.recommend({ items: ["item 2"], ...(given as object) }), [
    "POST",
    "/v1/recommendations",
    { items: ["item 2"], ...(given as object) },
  ]),
]
const WRONG: Wrong[] = [
  ...[...rules, ...own].flatMap(([what, given]) => lists(what, given)),
  ...rules.flatMap(([what, given]) => [
    call(`${what}: similar`, (live) => live.similar("item 2", given as object), [
      "POST",
      "/v1/items/item%202/similar",
      given,
    ]),
    call(`${what}: popular`, (live) => live.popular(given as object), ["POST", "/v1/popular", given]),
    call(`${what}: new`, (live) => live.newest(given as object), ["POST", "/v1/new", given]),
  ]),
  ...events.map(([what, given]) =>
    call(`an event with ${what}`, (live) => live.observe([{ user: "eve", item: "x" }, given as never]), [
      "POST",
      "/v1/interactions",
      [{ user: "eve", item: "x" }, given],
    ]),
  ),
  ...entries.map(([what, given]) =>
    call(`an item with ${what}`, (live) => live.putItems([{ item: "x" }, given as never]), [
      "PUT",
      "/v1/items",
      [{ item: "x" }, given],
    ]),
  ),
  call("a user merged with itself", (live) => live.merge("ada", "ada"), [
    "POST",
    "/v1/users/ada/merge",
    { guest: "ada" },
  ]),
]

/** JSON as somebody may send it: what is no number there as a text, what is too large as 1e309. */
const toJson = (body: unknown) =>
  JSON.stringify(body, (_, value: unknown) =>
    typeof value === "number" && !Number.isFinite(value) ? (Number.isNaN(value) ? "NaN" : `\u0001${value}`) : value,
  ).replace(/"\\u0001(-?)Infinity"/g, "$11e309")

/** Everything that could have changed. */
async function stateOf(live: ServedRecommender): Promise<unknown> {
  const { users, items, events } = live.status()
  return [users, items, events, live.item("item 1"), live.history("ada"), await live.popular({ count: 100 })]
}

const isClear = {
  code: expect.stringMatching(/^INVALID_/),
  message: expect.stringMatching(/expected .*(got|more)/s),
}

async function fill(live: ServedRecommender): Promise<void> {
  await live.putItems(ITEMS)
  await live.observe(many(40).map((n) => ({ user: n % 2 ? "ada" : "bob", item: `item ${n % 9}`, type: "view" })))
}

async function expectRefusals(live: ServedRecommender): Promise<void> {
  const before = await stateOf(live)
  for (const { what, ask } of WRONG) await expect.soft((async () => ask(live))(), what).rejects.toMatchObject(isClear)
  expect(await stateOf(live)).toEqual(before)
}

test("by the library", async () => {
  const live = await Recommender.open({ threads: 1, types: TYPES })
  closing.push(() => live.close())
  await fill(live)
  await live.drain()
  await expectRefusals(live)
})

test("over HTTP", async () => {
  const service = await openService({ flags: { types: JSON.stringify(TYPES) } })
  closing.push(() => service.stop())
  await service.call("PUT", "/v1/items", { body: ITEMS })
  const before = await service.call("GET", "/v1/popular?count=100")
  for (const { what, method, path, body } of WRONG) {
    const { status, body: problem } = await service.call(method, path, { body: toJson(body) })
    // A million ids are more than a body may have.
    expect.soft([400, 413], `${what}: ${status}`).toContain(status)
    expect.soft(problem, what).toMatchObject({ message: expect.stringMatching(/expected .*(got|more)/s) })
  }
  const deeper = `{"filter":${'{"not":'.repeat(100_000)}{}${"}".repeat(100_000)}}`
  expect((await service.call("POST", "/v1/popular", { body: deeper })).status).toBe(400)
  expect((await service.call("GET", "/v1/popular?count=100")).body).toEqual(before.body)
  expect((await service.call("GET", "/v1/status")).body).toMatchObject({ events: { accepted: 0 } })
  expect(service.errors).toEqual([])
})

describeWithRedis("by a cluster's reader", (redis) => {
  test("the same", async () => {
    const recommender = { task: "topk", types: TYPES } as const
    const cluster = await open(redis(), { recommender, partitions: 1 })
    const own = { prefix: cluster.keys.prefix, partitions: 1, recommender }
    const reader = await ClusterRecommender.open(await open(redis(), own))
    closing.push(() => reader.close())
    await fill(reader)
    await eventually("items", () => reader.item("item 59") !== undefined)
    await eventually("counts", () => reader.status().events.accepted === 40)
    await expectRefusals(reader)
    // Nor does anybody who reads all of it again find what was refused.
    const other = await ClusterRecommender.open(await open(redis(), own))
    closing.push(() => other.close())
    expect(other.has("item", "item 59")).toBe(true)
    expect(other.has("item", "x")).toBe(false)
  })
})
