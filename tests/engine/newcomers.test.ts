/** New items: they stand where items like them stand, and places may be kept for them. */

import { afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { rebuild } from "../../src/engine/rebuild.ts"
import type { RecommenderOptions, RecommendOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"
import { useDirectories } from "../support/directories.ts"

beforeAll(buildCommand)
const { folder } = useDirectories()
let recommender: Recommender
afterEach(() => recommender.close())

const OPTIONS: RecommenderOptions = { threads: 1, seed: 3, segment: 100, delay: "24h" }
const GENRES = ["horror", "comedy", "western"]

/** 60 films of three genres; everybody has one. */
async function open(options: RecommenderOptions = {}): Promise<void> {
  recommender = await Recommender.open({ ...OPTIONS, ...options })
  const random = new Random(5, "genres")
  await recommender.putItems(Array.from({ length: 60 }, (_, i) => ({ item: `i${i}`, categories: [GENRES[i % 3]] })))
  await recommender.observe(
    Array.from({ length: 3000 }, () => {
      const user = random.integer(90)
      return { user: `u${user}`, item: `i${3 * random.integer(20) + (user % 3)}` }
    }),
  )
  await recommender.drain()
}

const placeOf = async (user: string, item: string) =>
  (await recommender.recommend(user, { count: 100, seen: true })).findIndex((one) => one.item === item)

test("a new film stands in the middle of its genre for those who like it and at the end for others; without a genre last", async () => {
  await open()
  await recommender.putItems([{ item: "new horror", categories: ["horror"] }, { item: "new thing" }])
  for (const user of ["u0", "u3", "u30"]) {
    expect(await placeOf(user, "new horror")).toBeGreaterThan(3)
    expect(await placeOf(user, "new horror")).toBeLessThan(20)
    expect(await placeOf(user, "new thing")).toBe(61)
  }
  for (const user of ["u1", "u2"]) expect(await placeOf(user, "new horror")).toBeGreaterThan(19)
  const known = await recommender.predict("u0", "i1")
  const [best] = await recommender.recommend("u0", { count: 1, seen: true })
  const { score } = (await recommender.recommend("u0", { only: ["new horror"] }))[0]
  expect(score).toBeGreaterThan(known.score)
  expect(score).toBeLessThan(best.score)
})

test("where only a few hits are settled, what nobody has met does not stand among them", async () => {
  recommender = await Recommender.open(OPTIONS)
  const names = (what: string, count: number) => Array.from({ length: count }, (_, i) => `${what} ${i}`)
  const [hits, known, unknown] = [names("hit", 3), names("known", 30), names("unknown", 60)]
  await recommender.putItems([...hits, ...known, ...unknown].map((item) => ({ item, categories: ["horror"] })))
  const random = new Random(7, "hits")
  await recommender.observe(
    Array.from({ length: 400 }, () => {
      const of = random.integer(2) === 0 ? hits : known
      return { user: `u${random.integer(60)}`, item: of[random.integer(of.length)] }
    }),
  )
  await recommender.drain()
  for (const user of ["u1", "u2", "u3"]) {
    const list = (await recommender.recommend(user, { count: 100, seen: true })).map(({ item }) => item)
    const first = list.findIndex((item) => unknown.includes(item))
    expect(list.slice(0, first), user).toEqual(expect.arrayContaining(hits))
  }
})

test("with every event its own counts for more: one that only lovers of comedies like goes to them", async () => {
  await open()
  await recommender.putItems({ item: "odd", categories: ["horror"] })
  const before = [await placeOf("u0", "odd"), await placeOf("u1", "odd")]
  for (let n = 0; n < 19; n++) await recommender.observe({ user: `u${3 * n + 1}`, item: "odd" })
  await recommender.drain()
  const after = [await placeOf("u0", "odd"), await placeOf("u88", "odd")]
  expect(after[0]).toBeGreaterThan(before[0])
  expect(after[1]).toBeLessThan(before[1])
})

test("fresh keeps the last places for new items, each in turn, and the list is as long as asked for", async () => {
  await open({ directory: folder() })
  const names = Array.from({ length: 12 }, (_, i) => `new ${i}`)
  await recommender.putItems(names.map((item) => ({ item, categories: ["horror"] })))
  const shown = new Set<string>()
  for (let n = 0; n < 30; n++) {
    const list = await recommender.recommend(`u${3 * n}`, { fresh: 2, seen: true })
    expect(list).toHaveLength(10)
    expect(new Set(list.map(({ item }) => item)).size).toBe(10)
    for (const { item } of list.slice(-2)) {
      expect(names).toContain(item)
      shown.add(item)
    }
  }
  expect(shown.size).toBe(12)
  // Nobody took them up, one apart: it has its events and is new no more.
  for (let n = 0; n < 25; n++) await recommender.observe({ user: `v${n}`, item: "new 3" })
  await recommender.drain()
  for (let n = 0; n < 20; n++)
    expect(
      (await recommender.recommend(`u${3 * n}`, { fresh: 2, seen: true })).slice(-2).map(({ item }) => item),
    ).not.toContain("new 3")
})

test("a place stays with what it costs too much to take it from, and is given further down", async () => {
  await open()
  await recommender.putItems({ item: "new comedy", categories: ["comedy"] })
  const ask = async (user: string, options: RecommendOptions = {}) =>
    (await recommender.recommend(user, { count: 5, seen: true, ...options })).map(({ item }) => item)
  for (let n = 0; n < 3; n++) {
    expect(await ask(`u${3 * n}`, { fresh: 1 })).toEqual(await ask(`u${3 * n}`))
    expect((await ask(`u${3 * n + GENRES.indexOf("comedy")}`, { fresh: 1 })).at(-1)).toBe("new comedy")
  }
  // Page by page it comes once, where the others are as unlikely, and stays on its page.
  const pages: string[][] = []
  for (let page = 0; page < 13; page++) pages.push(await ask("u0", { fresh: 1, offset: 5 * page }))
  expect(new Set(pages.flat()).size).toBe(61)
  expect(pages.flat()).toHaveLength(61)
  const page = pages.findIndex((items) => items.includes("new comedy"))
  expect(page).toBeGreaterThan(1)
  expect(pages[page].at(-1)).toBe("new comedy")
})

test("an item that nothing is known of gets its turn at a place that is kept, and only there", async () => {
  await open()
  const names = Array.from({ length: 4 }, (_, i) => `new ${i}`)
  await recommender.putItems(names.map((item) => ({ item, categories: ["horror"] })))
  const before = await recommender.recommend("u0", { count: 64, seen: true })
  await recommender.putItems([{ item: "thing" }, { item: "hidden thing", hidden: true }, { item: "other thing" }])
  const ordinary = await recommender.recommend("u0", { count: 66, seen: true })
  expect(ordinary.slice(0, 64)).toEqual(before)
  expect(ordinary.slice(64).map(({ item, source }) => [item, source])).toEqual([
    ["other thing", "new"],
    ["thing", "new"],
  ])
  const places = new Map<string, number>()
  for (let n = 0; n < 60; n++) {
    const list = await recommender.recommend(`u${n}`, { fresh: 1, seen: true, why: true })
    const { item, source, score, why } = list[9]
    places.set(item, (places.get(item) ?? 0) + 1)
    if (!item.endsWith("thing")) continue
    expect([source, score]).toEqual(["new", 0])
    expect(Object.values(why?.parts ?? { none: 1 }).every((part) => part === 0)).toBe(true)
  }
  expect([...places.keys()].sort()).toEqual([...names, "other thing", "thing"])
  // It keeps to rules, and goes once it was taken up.
  const last = async (options: RecommendOptions) =>
    (await recommender.recommend("u0", { fresh: 9, seen: true, ...options })).map(({ item }) => item)
  for (const options of [
    { exclude: ["thing"] },
    { only: [...names, "i1", "i2"] },
    { filter: { category: "horror" } },
  ] as RecommendOptions[])
    expect(await last(options)).not.toContain("thing")
  expect(await last({ only: ["thing", "i1"] })).toEqual(["i1", "thing"])
  expect(new Set(await last({ offset: 10 })).size).toBe(10)
  for (let n = 0; n < 5; n++) await recommender.observe({ user: `v${n}`, item: "thing" })
  await recommender.drain()
  for (let n = 0; n < 20; n++) expect((await last({ count: 4, fresh: 1 })).at(-1)).not.toBe("thing")
})

test("where nothing is known of any new item, they have the places in turn", async () => {
  for (const task of ["topk", "binary"] as const) {
    await open({ task })
    await recommender.putItems(["a", "b", "c"].map((item) => ({ item })))
    const places: (string | undefined)[] = []
    for (let n = 0; n < 6; n++) places.push((await recommender.recommend("u0", { fresh: 1, seen: true })).at(-1)?.item)
    expect(places, task).toEqual(["a", "b", "c", "a", "b", "c"])
    await recommender.close()
  }
})

test("every page has its own new items, and only those of the page count as shown", async () => {
  await open()
  const names = Array.from({ length: 12 }, (_, i) => `new ${i}`)
  await recommender.putItems(names.map((item) => ({ item, categories: ["horror"] })))
  const ask = async (options: RecommendOptions) =>
    (await recommender.recommend("u0", { seen: true, ...options })).map(({ item }) => item)
  const old = (await ask({ count: 60 })).filter((item) => !names.includes(item))
  const pages = [await ask({ count: 5, fresh: 2 }), await ask({ count: 5, fresh: 2, offset: 5 })]
  for (const page of pages) expect(page.filter((item) => names.includes(item))).toEqual(page.slice(-2))
  expect(new Set(pages.flat()).size).toBe(10)
  expect(pages.flat().filter((item) => !names.includes(item))).toEqual(old.slice(0, 6))
  // More places than the page has: one is given, and the next list has the next.
  const first = await ask({ count: 1, fresh: 9 })
  expect(await ask({ count: 1, fresh: 9, counted: false })).toEqual(await ask({ count: 1, fresh: 9 }))
  const shown = new Set([...pages.flat(), ...first, ...(await ask({ count: 1, fresh: 9 }))])
  expect(names.filter((item) => shown.has(item))).toHaveLength(6)
})

test("pages with fresh are disjoint and make up the one list there is when nothing counts as shown", async () => {
  await open()
  const names = Array.from({ length: 15 }, (_, i) => `new ${i}`)
  await recommender.putItems(names.map((item, i) => ({ item, categories: [i % 2 === 0 ? "horror" : "comedy"] })))
  for (let seed = 1; seed <= 12; seed++) {
    const random = new Random(seed, "pages")
    const options: RecommendOptions = { count: 2 + random.integer(6), fresh: 1 + random.integer(3) }
    if (random.integer(2) === 0) options.seen = true
    if (random.integer(3) === 0) options.cap = { category: 4 + random.integer(20) }
    if (random.integer(3) === 0) options.diversity = 0.5
    if (random.integer(3) === 0) options.exclude = ["new 1", "i3"]
    const user = `u${random.integer(60)}`
    const items = [`i${random.integer(60)}`, `i${random.integer(60)}`]
    const ask = async (counted: boolean) => {
      const pages: string[][] = []
      for (let page = 0; page < 8; page++) {
        const asked = { ...options, counted, offset: page * (options.count as number) }
        const list =
          seed % 4 === 0 ? await recommender.recommend({ items, ...asked }) : await recommender.recommend(user, asked)
        pages.push(list.map(({ item }) => item))
        // Others are shown new items meanwhile.
        if (counted && seed % 2 === 0) await recommender.recommend("u5", { fresh: 3 })
      }
      return pages
    }
    const long = await ask(false)
    const pages = await ask(true)
    const all = pages.flat()
    expect(new Set(all).size, `seed ${seed}`).toBe(all.length)
    expect(all.filter((item) => names.includes(item)).length, `seed ${seed}`).toBeGreaterThan(0)
    const old = (list: string[]) => list.filter((item) => !names.includes(item))
    expect(
      pages.map((page) => page.length),
      `seed ${seed}`,
    ).toEqual(long.map((page) => page.length))
    expect(pages[0], `seed ${seed}`).toEqual(long[0])
    if (seed % 2 === 1) expect(pages, `seed ${seed}`).toEqual(long)
    // Without a cap, what is new takes no place from another.
    if (options.cap === undefined && options.diversity === undefined)
      expect(old(all), `seed ${seed}`).toEqual(old(long.flat()).slice(0, old(all).length))
  }
})

test("fresh keeps to rules and what is left out, and bad numbers are refused", async () => {
  await open()
  await recommender.putItems([
    { item: "a", categories: ["horror"] },
    { item: "b", categories: ["comedy"] },
  ])
  const list = await recommender.recommend("u0", { fresh: 2, filter: { category: "comedy" }, seen: true })
  expect(list.map(({ item }) => item)).not.toContain("a")
  expect(list.at(-1)?.item).toBe("b")
  const without = await recommender.recommend("u0", { fresh: 2, exclude: ["a"], seen: true })
  expect(without.map(({ item }) => item)).not.toContain("a")
  for (const fresh of [-1, 1.5, "2"])
    await expect(recommender.recommend("u0", { fresh: fresh as number })).rejects.toThrow(/fresh/)
})

test("a brand or a vector in common does as well as a genre, and numbers do not", async () => {
  await open({ features: ["x", "y", "z"] })
  const vectors = [
    [1, 0, 0.1],
    [0, 1, 0.1],
    [-1, 0, 1],
  ]
  await recommender.putItems(
    Array.from({ length: 60 }, (_, i) => ({
      item: `i${i}`,
      properties: { brand: `brand ${i % 3}`, price: 5 },
      features: vectors[i % 3],
    })),
  )
  await recommender.putItems([
    { item: "of brand 0", properties: { brand: "brand 0" } },
    { item: "like the first", features: [0.99, 0.01, 0.1] },
    { item: "of the same price", properties: { price: 5 } },
  ])
  for (const item of ["of brand 0", "like the first"]) {
    for (const user of ["u0", "u3", "u30"]) expect(await placeOf(user, item), item).toBeLessThan(22)
    for (const user of ["u1", "u2"]) expect(await placeOf(user, item), item).toBeGreaterThan(19)
  }
  expect(await placeOf("u0", "of the same price")).toBe(62)
})

test("places given to new items count after a restart, and in a rebuilt directory", async () => {
  const directory = folder()
  await open({ directory })
  const names = Array.from({ length: 3 }, (_, i) => `new ${i}`)
  await recommender.putItems(names.map((item) => ({ item, categories: ["horror"] })))
  const newOf = async () => (await recommender.recommend("u0", { fresh: 1, seen: true })).at(-1)?.item
  const order: (string | undefined)[] = []
  for (let n = 0; n < 6; n++) order.push(await newOf())
  expect(new Set(order).size).toBe(3)
  await recommender.close()
  const rebuilt = folder()
  await rebuild({ directory, out: rebuilt, options: OPTIONS })
  for (const path of [directory, rebuilt]) {
    recommender = await Recommender.open({ ...OPTIONS, directory: path })
    // All had two places: it goes on as if nothing had happened.
    expect(await Promise.all([newOf(), newOf(), newOf()])).toEqual(order.slice(0, 3))
    expect(await newOf()).toBe(order[3])
    await recommender.close()
  }
})
