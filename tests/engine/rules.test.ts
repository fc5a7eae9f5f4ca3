/** Rules of lists: random ones against a plain oracle, and what is refused. */

import { beforeAll, describe, expect, test } from "vitest"
import type {
  Filter,
  GuestOptions,
  ListOptions,
  Properties,
  Recommendation,
  RecommendOptions,
} from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"
import { useDirectories } from "../support/directories.ts"

const { open } = useDirectories()
beforeAll(buildCommand)

interface Item {
  item: string
  categories: string[]
  properties: Properties
}

const ITEMS = 90

function randomItems(random: Random): Item[] {
  return Array.from({ length: ITEMS }, (_, n) => {
    const properties: Record<string, string | number | boolean | (string | number)[]> = {}
    if (random.next() < 0.9) properties.price = random.integer(40) / 2
    if (random.next() < 0.9) properties.brand = `b${random.integer(6)}`
    if (random.next() < 0.7) properties.inStock = random.next() < 0.7
    if (random.next() < 0.5) properties.tags = Array.from({ length: random.integer(4) }, () => `t${random.integer(5)}`)
    if (random.next() < 0.6) properties.size = random.next() < 0.5 ? random.integer(4) : `s${random.integer(3)}`
    const categories = ["c0", "c1", "c2", "c3"].filter(() => random.next() < 0.35)
    return { item: `item ${n}`, categories, properties }
  })
}

function randomFilter(random: Random, depth = 0): Filter {
  const kind = random.integer(depth < 2 ? 9 : 6)
  const deeper = () => Array.from({ length: 1 + random.integer(3) }, () => randomFilter(random, depth + 1))
  if (kind === 0) return { price: { lte: random.integer(20) } }
  if (kind === 1) return { price: { gt: random.integer(10), lt: 10 + random.integer(10) } }
  if (kind === 2) return { brand: random.next() < 0.5 ? `b${random.integer(6)}` : { in: ["b1", "b2", "b3"] } }
  if (kind === 3) return { inStock: random.next() < 0.8, category: { in: ["c0", "c1", "c2"] } }
  if (kind === 4) return { tags: { eq: `t${random.integer(5)}` } }
  if (kind === 5) return { size: random.next() < 0.5 ? random.integer(4) : { gte: `s${random.integer(3)}` } }
  if (kind === 6) return { not: randomFilter(random, depth + 1) }
  return kind === 7 ? { any: deeper() } : { all: deeper() }
}

/** What a filter means, said once more. */
function passes(filter: Filter, item: Item): boolean {
  return Object.entries(filter).every(([name, rule]) => {
    if (name === "not") return !passes(rule as Filter, item)
    if (name === "any") return (rule as Filter[]).some((one) => passes(one, item))
    if (name === "all") return (rule as Filter[]).every((one) => passes(one, item))
    const own = name === "category" ? item.categories : (item.properties[name] ?? [])
    return [own].flat().some((value) => {
      if (typeof rule !== "object") return value === rule
      return Object.entries(rule as Record<string, string | number>).every(([word, bound]) => {
        if (word === "eq") return value === bound
        if (word === "in") return (bound as unknown as unknown[]).includes(value)
        if (typeof value !== typeof bound) return false
        const [a, b] = [value as number, bound as number]
        return { lt: a < b, lte: a <= b, gt: a > b, gte: a >= b }[word]
      })
    })
  })
}

function randomRules(random: Random, items: readonly Item[]): ListOptions {
  const some = (share: number) => items.filter(() => random.next() < share).map(({ item }) => item)
  const rules: ListOptions = { count: 1 + random.integer(30) }
  if (random.next() < 0.3) rules.offset = random.integer(10)
  if (random.next() < 0.3) rules.exclude = some(0.3)
  if (random.next() < 0.3) rules.only = some(0.6)
  if (random.next() < 0.3) rules.categories = ["c1", "c3"]
  if (random.next() < 0.6) rules.filter = randomFilter(random)
  if (random.next() < 0.4)
    rules.boost = Array.from({ length: 1 + random.integer(3) }, () => ({
      filter: randomFilter(random),
      by: 2 ** (random.integer(7) - 3),
    }))
  if (random.next() < 0.5) rules.cap = random.next() < 0.5 ? { category: 1 + random.integer(4) } : { brand: 2, tags: 3 }
  if (random.next() < 0.3) rules.diversity = random.integer(5) / 4
  return rules
}

function qualifies({ exclude = [], only, categories, filter }: ListOptions, item: Item): boolean {
  if (exclude.includes(item.item) || (only && !only.includes(item.item))) return false
  if (categories && !categories.some((name) => item.categories.includes(name))) return false
  return !filter || passes(filter, item)
}

/** Of a list, the items that may still come without breaking a cap. */
function fits(cap: Readonly<Record<string, number>>, list: readonly Item[], item: Item): boolean {
  const valuesOf = (one: Item, name: string) =>
    name === "category" ? one.categories : [one.properties[name] ?? []].flat()
  return Object.entries(cap).every(([name, most]) =>
    [...new Set(valuesOf(item, name))].every(
      (value) => list.filter((one) => valuesOf(one, name).includes(value as never)).length < most,
    ),
  )
}

const logit = (p: number) => Math.log(p / (1 - p))

describe.each([1, 2, 3])("random rules, seed %i", (seed) => {
  test("hold in every kind of list, which is as long as asked for where that many qualify", async () => {
    const random = new Random(seed, "rules test")
    const recommender = await open(undefined)
    const items = randomItems(random)
    const byName = new Map(items.map((item) => [item.item, item]))
    await recommender.putItems(items)
    const events = Array.from({ length: 900 }, (_, n) => {
      const user = random.integer(30)
      const item = (user % 3) * 25 + random.integer(25)
      return { user: `user ${user}`, item: `item ${item}`, timestamp: 1_700_000_000 + n }
    })
    await recommender.observe(events)
    await recommender.drain()
    const kinds: Record<string, (rules: RecommendOptions) => Promise<Recommendation[]>> = {
      user: (rules) => recommender.recommend("user 1", rules),
      "what was met": (rules) => recommender.recommend("user 2", { ...rules, seen: true }),
      stranger: (rules) => recommender.recommend("nobody", rules),
      guest: (rules) => recommender.recommend({ items: ["item 3", "item 30"], ...rules } as GuestOptions),
      similar: (rules) => recommender.similar("item 7", rules),
      "similar to one nobody met": (rules) => recommender.similar(`item ${ITEMS - 1}`, rules),
      popular: (rules) => recommender.popular(rules),
      new: (rules) => recommender.newest(rules),
    }
    for (const [kind, list] of Object.entries(kinds)) {
      const all = await list({ count: 1000 })
      for (let n = 0; n < 40; n++) {
        const rules = randomRules(random, items)
        const what = `seed ${seed}, ${kind}: ${JSON.stringify(rules)}`
        const { count = 10, offset = 0, cap = {} } = rules
        const found = await list({ ...rules, offset: 0, count: offset + count })
        expect(await list(rules), what).toEqual(found.slice(offset))
        const itemOf = ({ item }: Recommendation) => byName.get(item) as Item
        const candidates = all.filter((one) => qualifies(rules, itemOf(one)))
        // Each qualifies, stands once, and caps hold.
        expect(new Set(found.map(({ item }) => item)).size, what).toBe(found.length)
        found.forEach((one, at) => {
          expect(
            candidates.some(({ item }) => item === one.item),
            what,
          ).toBe(true)
          expect(fits(cap, found.slice(0, at).map(itemOf), itemOf(one)), what).toBe(true)
        })
        // As many as asked for, or all that can be.
        const others = candidates.filter(({ item }) => !found.some((one) => one.item === item))
        if (found.length < offset + count)
          for (const one of others) expect(fits(cap, found.map(itemOf), itemOf(one)), what).toBe(false)
        if (!rules.cap) expect(found.length, what).toBe(Math.min(offset + count, candidates.length))
        // Best first.
        if (!rules.boost && !rules.diversity) {
          const greedy: Recommendation[] = []
          for (const one of candidates)
            if (greedy.length < offset + count && fits(cap, greedy.map(itemOf), itemOf(one))) greedy.push(one)
          // A few items are scored by their rows, all by what is packed of them: scores differ a little.
          const namesIf = (list: Recommendation[]) => (rules.only ? list.map(({ item }) => item) : list)
          expect(namesIf(found), what).toEqual(namesIf(greedy))
        }
        if (rules.boost && !rules.diversity)
          for (const one of found) {
            const by = rules.boost.reduce(
              (product, { filter, by }) => (passes(filter, itemOf(one)) ? product * by : product),
              1,
            )
            const before = all.find(({ item }) => item === one.item)?.score as number
            if (one.source === "trending") expect(one.score / before, what).toBeCloseTo(by, 4)
            if (one.source === "model" && kind.startsWith("similar"))
              expect(one.score, what).toBeCloseTo(before > 0 ? before * by : before / by, 4)
            else if (one.source === "model" && Math.abs(logit(before)) < 6)
              expect(logit(one.score) - logit(before), what).toBeCloseTo(Math.log(by), 1)
          }
      }
    }
  }, 60_000)
})

describe("rules that are wrong", () => {
  const conditions = Array.from({ length: 10_000 }, (_, n) => ({ price: n }))
  let deep: Filter = { price: 1 }
  for (let n = 0; n < 20; n++) deep = { not: deep }
  const cyclic: Record<string, unknown> = {}
  cyclic.not = cyclic
  const wrong: [string, unknown][] = [
    ["an unknown option", { filters: {} }],
    ["a filter that is a text", { filter: "price < 3" }],
    ["a filter on a property nobody has", { filter: { colour: "red" } }],
    ["a cap on a property nobody has", { cap: { colour: 1 } }],
    ["a boost on a property nobody has", { boost: [{ filter: { colour: "red" }, by: 2 }] }],
    ["a text for a number", { filter: { price: "cheap" } }],
    ["an unknown comparison", { filter: { price: { below: 3 } } }],
    ["two kinds of comparison", { filter: { price: { eq: 3, lt: 4 } } }],
    ["a list of values without in", { filter: { price: [1, 2] } }],
    ["a number that is not finite", { filter: { price: { lt: Number.NaN } } }],
    ["null", { filter: { price: null } }],
    ["any of nothing", { filter: { any: [] } }],
    ["a range of categories", { filter: { category: { lt: "x" } } }],
    ["10,000 conditions", { filter: { any: conditions } }],
    ["10,000 boosts", { boost: conditions.map((filter) => ({ filter, by: 2 })) }],
    ["a filter too deep", { filter: deep }],
    ["a filter in itself", { filter: cyclic }],
    ["a boost that is no number", { boost: [{ filter: {}, by: "2" }] }],
    ["a boost below zero", { boost: [{ filter: {}, by: -1 }] }],
    ["a boost with an unknown field", { boost: [{ filter: {}, by: 2, to: 3 }] }],
    ["a cap of zero", { cap: { category: 0 } }],
    ["a cap that is no object", { cap: 2 }],
    ["diversity above 1", { diversity: 2 }],
    ["an include nobody knows", { include: ["events"] }],
    ["a filter that is a Map", { filter: new Map([["price", 3]]) }],
    ["a filter that is a date", { filter: new Date() }],
    ["a boost of a Map", { boost: [{ filter: new Map([["price", 3]]), by: 2 }] }],
    ["a cap that is a Map", { cap: new Map([["category", 1]]) }],
    ["exclude that is no list", { exclude: "dune" }],
    ["exclude that is null", { exclude: null }],
    ["only that is null", { only: null }],
    ["only that is an empty text", { only: "" }],
    ["include that is null", { include: null }],
    ["categories with a hole", { categories: Array(2) }],
    ["seen that is a text", { seen: "yes" }],
    ["a count that is a text", { count: "3" }],
  ]
  test("are refused by every kind of list with a clear error, and nothing changes", async () => {
    const recommender = await open(undefined)
    await recommender.putItems([{ item: "dune", properties: { price: 3 } }, { item: "solaris" }])
    for (const [what, given] of wrong) {
      const rules = given as ListOptions
      const lists = [
        () => recommender.recommend("ada", rules),
        () => recommender.recommend({ items: [], ...rules }),
        () => recommender.similar("dune", rules),
        () => recommender.popular(rules),
        () => recommender.newest(rules),
      ]
      for (const list of lists)
        await expect(list(), what).rejects.toMatchObject({
          code: expect.stringMatching(/^INVALID_/),
          message: expect.stringMatching(/expected .*(got|more)/),
        })
    }
    expect(await recommender.popular()).toHaveLength(2)
  })
})

test("rules follow what is put: an item out of stock is gone from the next list of every kind", async () => {
  const recommender = await open(undefined)
  await recommender.putItems(
    ["a", "b", "c"].map((item) => ({ item, title: item.toUpperCase(), properties: { inStock: true } })),
  )
  await recommender.observe([..."abcabc"].map((item, n) => ({ user: `user ${n}`, item })))
  await recommender.drain()
  const rules: ListOptions = { filter: { inStock: true }, include: ["title", "properties"] }
  const titles = async () => (await recommender.similar("a", rules)).map(({ title }) => title).sort()
  expect(await titles()).toEqual(["B", "C"])
  await recommender.putItems({ item: "b", properties: { inStock: false } })
  expect(await titles()).toEqual(["C"])
  expect((await recommender.popular(rules)).map(({ item }) => item).sort()).toEqual(["a", "c"])
  expect((await recommender.newest({ filter: { inStock: false } }))[0]).toMatchObject({ item: "b", source: "new" })
  await recommender.putItems({ item: "d", properties: { inStock: true } })
  expect(await recommender.newest(rules)).toHaveLength(3)
})

test("boosts hold while what they go by stays as it is, and follow it when it changes", async () => {
  const recommender = await open(undefined)
  const put = (item: string, brand: string, tags: string[], price: number) =>
    recommender.putItems({ item, properties: { brand, tags, price } })
  await put("a", "Lux", ["sale"], 1)
  await put("b", "Nova", ["new"], 1)
  const boost = [{ filter: { any: [{ brand: "Lux" }, { tags: "gift" }] }, by: 100 }]
  const first = async () => (await recommender.newest({ boost, filter: { price: { lt: 9 } } }))[0].item
  expect(await first()).toBe("a")
  await put("b", "Nova", ["new"], 2)
  expect(await first()).toBe("a")
  await put("a", "Nova", ["sale"], 2)
  expect(await first()).toBe("b")
  await put("a", "Nova", ["sale", "gift"], 2)
  expect(await first()).toBe("a")
  await put("a", "Nova", ["sale", "gift"], 9)
  expect(await first()).toBe("b")
})

test("many boosts together stay numbers: the list is whole, its order that of one boost, its reasons add up", async () => {
  const recommender = await open(undefined)
  const items = Array.from({ length: 40 }, (_, n) => ({ item: `item ${n}`, properties: { isEven: n % 2 === 0 } }))
  await recommender.putItems(items)
  await recommender.observe(
    Array.from({ length: 900 }, (_, n) => ({ user: `user ${n % 30}`, item: `item ${(7 * n + (n >> 5)) % 30}` })),
  )
  await recommender.drain()
  for (const by of [1000, 0.001]) {
    const boostOf = (times: number) => Array.from({ length: times }, () => ({ filter: { isEven: true }, by }))
    const rules = { count: 40, boost: boostOf(100) }
    const lists = {
      user: await recommender.recommend("user 3", { ...rules, seen: true, why: true }),
      lasting: await recommender.recommend("user 3", { ...rules, seen: true, lasting: true }),
      similar: await recommender.similar("item 39", { ...rules, count: 39 }),
      popular: await recommender.popular(rules),
      new: await recommender.newest(rules),
    }
    for (const [kind, list] of Object.entries(lists)) {
      expect(list, kind).toHaveLength(rules.count - (kind === "similar" ? 1 : 0))
      for (const { score, item } of list) expect(Number.isFinite(score), `${kind}: ${item}`).toBe(true)
    }
    for (const { why, score, source } of lists.user.filter(({ source }) => source === "model")) {
      const sum = Object.values(why?.parts ?? {}).reduce((all, part) => all + part, 0)
      expect(Math.abs(sum - Math.log(score / (1 - score))), source).toBeLessThan(0.001)
    }
    const twice = await recommender.recommend("user 3", { count: 40, seen: true, boost: boostOf(2) })
    expect(lists.user.map(({ item }) => item)).toEqual(twice.map(({ item }) => item))
  }
})

test("what a filter names without a value is refused, whatever was asked for before", async () => {
  const recommender = await open(undefined)
  const day = new Date(0)
  await recommender.putItems({ item: "dune", properties: { inStock: true, price: 3, day: day.toJSON() } })
  const pairs: [object, object][] = [
    [{}, { inStock: undefined }],
    [{ price: { lte: 5 } }, { price: { lte: 5, gte: undefined } }],
    [{ day: day.toJSON() }, { day }],
  ]
  for (const [filter, odd] of pairs) {
    expect(await recommender.popular({ filter: filter as Filter })).toHaveLength(1)
    await expect(recommender.popular({ filter: odd as Filter })).rejects.toThrow(/filter\.\w+: expected/)
  }
})

test("diversity keeps what is alike apart, from not at all to as far as it goes", async () => {
  const recommender = await open(undefined)
  const items = Array.from({ length: 40 }, (_, n) => ({
    item: `item ${n}`,
    categories: [n < 30 ? "many" : `few ${n % 5}`],
  }))
  await recommender.putItems(items)
  const count = async (diversity: number) => {
    const list = await recommender.popular({ diversity, include: ["categories"] })
    return new Set(list.flatMap(({ categories = [] }) => categories)).size
  }
  await recommender.observe(
    items.flatMap(({ item }, n) =>
      n < 30
        ? [
            { user: "a", item },
            { user: "b", item },
          ]
        : [{ user: "a", item }],
    ),
  )
  await recommender.drain()
  expect(await count(0)).toBe(1)
  expect(await count(1)).toBe(6)
  expect(await count(0.7)).toBeGreaterThan(1)
})

test("what is misspelt is refused wherever the library takes an object", async () => {
  const recommender = await open(undefined)
  await recommender.observe({ user: "ada", item: "dune" })
  const odd = { cuont: 3 } as never
  const calls: [string, () => unknown][] = [
    ["observe", () => recommender.observe({ user: "ada", item: "dune", ...(odd as object) })],
    ["observe options", () => recommender.observe({ user: "ada", item: "dune" }, odd)],
    ["putItems", () => recommender.putItems({ item: "dune", ...(odd as object) })],
    ["recommend", () => recommender.recommend("ada", odd)],
    ["guest", () => recommender.recommend({ items: [], ...(odd as object) })],
    [
      "guest with options beside",
      () => (recommender.recommend as (...all: unknown[]) => unknown)({ items: [] }, { count: 3 }),
    ],
    ["similar", () => recommender.similar("dune", odd)],
    ["similarUsers", () => recommender.similarUsers("ada", odd)],
    ["popular", () => recommender.popular(odd)],
    ["newest", () => recommender.newest(odd)],
    ["preview", () => recommender.preview("ada", [{ item: "dune", ...(odd as object) }])],
    ["preview options", () => recommender.preview("ada", [{ item: "dune" }], odd)],
    ["predict", () => recommender.predict([{ user: "ada", item: "dune", ...(odd as object) }])],
    ["explain", () => recommender.explain("user", "ada", odd)],
    ["search", () => recommender.search("dune", odd)],
    ["ids", async () => recommender.ids("item", odd)],
    ["history", async () => recommender.history("ada", odd)],
    ["feedback", () => recommender.feedback(odd)],
    ["reports", async () => recommender.reports(undefined, odd)],
    ["notes", () => recommender.putNotes("user", [{ id: "ada", note: null, ...(odd as object) }])],
    ["a note that is none", () => recommender.putNotes("user", [null as never])],
    ["replace", () => recommender.observe({ user: "ada", item: "dune", type: "view" }, { replace: "yes" as never })],
  ]
  for (const [name, call] of calls)
    await expect((async () => call())(), name).rejects.toMatchObject({ code: expect.stringMatching(/^INVALID_/) })
  for (const options of [null, 5, []] as never[])
    for (const list of [
      () => recommender.recommend("ada", options),
      () => recommender.similar("dune", options),
      () => recommender.popular(options),
      () => recommender.search("dune", options),
      () => recommender.observe({ user: "ada", item: "dune" }, options),
    ])
      await expect((async () => list())(), `${list} ${options}`).rejects.toMatchObject({ code: "INVALID_ARGUMENT" })
})
