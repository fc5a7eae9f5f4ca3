/** Scores that mean something, and what speaks for an item. */

import { afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { Event, Recommendation, RecommenderOptions, Why } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"

beforeAll(buildCommand)
let recommender: Recommender
afterEach(() => recommender.close())

/** Everybody likes items of their own colour, of three; 60 items. */
function colours(count: number): Event[] {
  const random = new Random(5, "colours")
  return Array.from({ length: count }, () => {
    const user = random.integer(90)
    return { user: `u${user}`, item: `i${3 * random.integer(20) + (user % 3)}` }
  })
}

async function learned(options: RecommenderOptions = {}): Promise<Recommender> {
  recommender = await Recommender.open({ threads: 1, seed: 3, segment: 100, delay: "24h", ...options })
  await recommender.observe(colours(1500))
  await recommender.drain()
  return recommender
}

const isOfColour = (item: string, colour: number) => Number(item.slice(1)) % 3 === colour

test("scores are chances: with everything met they add up to 1, fall along the list, and are what predict gives", async () => {
  await learned()
  for (const user of ["u1", "u2", "u33"]) {
    const list = await recommender.recommend(user, { count: 60, seen: true })
    expect(list).toHaveLength(60)
    expect(list.reduce((sum, { score }) => sum + score, 0)).toBeCloseTo(1, 4)
    for (let i = 1; i < list.length; i++) expect(list[i].score).toBeLessThanOrEqual(list[i - 1].score)
    const predicted = await recommender.predict(list.map(({ item }) => ({ user, item })))
    predicted.forEach(({ score }, i) => {
      expect(score).toBeCloseTo(list[i].score, 3)
    })
    const own = list.filter(({ item }) => isOfColour(item, Number(user.slice(1)) % 3))
    expect(own.reduce((sum, { score }) => sum + score, 0)).toBeGreaterThan(0.7)
    const some = await recommender.recommend(user, {
      count: 5,
      seen: true,
      only: list.slice(20, 25).map(({ item }) => item),
    })
    some.forEach(({ score }, i) => {
      expect(score).toBeCloseTo(list[20 + i].score, 6)
    })
  }
})

test("an item nobody knows is predicted below the good ones and above the bad ones", async () => {
  await learned()
  const list = await recommender.recommend("u1", { count: 60, seen: true })
  const { score, known } = await recommender.predict("u1", "unheard of")
  expect(known).toEqual({ user: true, item: false })
  expect(score).toBeCloseTo(1 / 61, 6)
  expect(score).toBeLessThan(list[5].score)
  expect(score).toBeGreaterThan(list[50].score)
})

test("predict gives what a list says, of what may come back and of what was put and not met, too", async () => {
  await learned({ types: { view: 0.2, buy: 1 }, leaveOut: [] })
  const put = ["i1", "i4", "i7", "new"].map((item) => ({ item, categories: ["red"] }))
  await recommender.putItems([...put, { item: "alone" }])
  // People look at things twice.
  const views = colours(400).flatMap((event, n) =>
    [0, 0.5].map((more) => ({ ...event, type: "view", timestamp: n + more })),
  )
  await recommender.observe(views)
  await recommender.drain()
  await recommender.observe(["i3", "i9", "unheard of"].map((item) => ({ user: "u1", item, type: "view" })))
  const list = await recommender.recommend("u1", { count: 70, seen: true })
  const ofModel = list.filter(({ source }) => source === "model")
  expect(ofModel.map(({ item }) => item)).toEqual(expect.arrayContaining(["unheard of", "new", "i3", "i4", "i2"]))
  const predicted = await recommender.predict(ofModel.map(({ item }) => ({ user: "u1", item })))
  predicted.forEach(({ score }, i) => {
    expect(score / ofModel[i].score, ofModel[i].item).toBeCloseTo(1, 4)
  })
  // Of the others nothing is known.
  const { score, known } = await recommender.predict("u1", "alone")
  expect(score).toBeCloseTo(1 / 61, 6)
  expect(known).toEqual({ user: true, item: false })
})

test("chances are kept within a factor of three: of events that come next, what was given a chance of p happens in about p of all cases", async () => {
  await learned()
  const random = new Random(9, "next")
  let [expected, hits, asked] = [0, 0, 0]
  for (let n = 0; n < 300; n++) {
    const user = random.integer(90)
    const item = `i${3 * random.integer(20) + (user % 3)}`
    const list = await recommender.recommend(`u${user}`, { count: 5, seen: true })
    for (const one of list) {
      expected += one.score
      if (one.item === item) hits++
    }
    asked++
  }
  expect(asked).toBe(300)
  expect(hits / expected).toBeGreaterThan(1 / 3)
  expect(hits / expected).toBeLessThan(3)
})

const sumOf = (parts: Why["parts"]) => Object.values(parts).reduce((sum, part) => sum + part, 0)
const logit = (score: number) => Math.log(score / (1 - score))

/** Of every item of the model the parts add up to the log of its score's odds; returns their parts. */
function expectSums(list: readonly Recommendation[], what: string): Why["parts"][] {
  return list.flatMap(({ item, score, source, why }) => {
    if (source !== "model") {
      expect(why, `${what}: ${item}`).toEqual({ parts: NO_PARTS, items: [] })
      return []
    }
    const { parts } = why as Why
    expect(Math.abs(sumOf(parts) - logit(score)), `${what}: ${item} ${JSON.stringify(parts)} ${score}`).toBeLessThan(
      0.0002,
    )
    return [parts]
  })
}

const NO_PARTS = { taste: 0, recency: 0, neighbours: 0, popularity: 0, new: 0, again: 0, boost: 0, base: 0 }

test("parts of why add up to the log of a score's odds within .0002: users, guests, boosts, lists that last, new items", async () => {
  await learned()
  await recommender.putItems([
    ...Array.from({ length: 60 }, (_, n) => ({ item: `i${n}`, categories: [`colour ${n % 3}`] })),
    { item: "unmet", categories: ["colour 1"] },
    { item: "met once", categories: ["colour 1"] },
  ])
  await recommender.observe({ user: "u2", item: "met once" })
  await recommender.drain()
  const all = { why: true, seen: true, count: 100 }
  const boost = [{ filter: { category: "colour 1" }, by: 3 }]
  for (const lasting of [false, true])
    for (const user of ["u1", "u2", "u33"]) {
      const parts = expectSums(await recommender.recommend(user, { ...all, lasting }), `${user} ${lasting}`)
      for (const name of ["taste", "recency", "neighbours", "popularity"] as const)
        expect(Math.max(...parts.map((one) => Math.abs(one[name]))), name).toBeGreaterThan(0.05)
      expect(parts.every(({ boost, again }) => boost === 0 && again === 0)).toBe(true)
      const boosted = expectSums(await recommender.recommend(user, { ...all, lasting, boost }), `${user} boosted`)
      expect(boosted.filter((one) => Math.abs(one.boost - Math.log(3)) < 1e-6)).toHaveLength(22)
    }
  const list = await recommender.recommend("u1", all)
  const partsOf = (id: string) => list.find(({ item }) => item === id)?.why?.parts
  expect(partsOf("unmet")).toMatchObject({ taste: 0, recency: 0, neighbours: 0, popularity: 0 })
  expect(partsOf("unmet")?.new).not.toBe(0)
  expect(partsOf("met once")?.new).toBeGreaterThan(0)
  expect(partsOf("i1")?.new).toBe(0)
  const guest = expectSums(await recommender.recommend({ items: ["i1", "i2", "i4"], ...all }), "a guest")
  expect(guest.length).toBeGreaterThan(50)
})

test("what the latest item says is recency: one more click moves that and neighbours, not taste", async () => {
  await learned()
  const of = async (items: string[]) => {
    const list = await recommender.recommend({ items, only: ["i7"], why: true })
    return list[0].why?.parts as Why["parts"]
  }
  const [one, other] = [await of(["i1"]), await of(["i2"])]
  expect(one.taste).toBe(other.taste)
  expect(one.popularity).toBe(other.popularity)
  expect(one.recency).toBeGreaterThan(other.recency)
})

test("why names the user's items that speak for one, most first", async () => {
  await learned()
  const list = await recommender.recommend("u1", { why: true })
  const history = recommender.history("u1")
  expect(list[0].why?.items.length).toBeGreaterThan(0)
  for (const { why } of list) {
    const { items } = why as Why
    for (const { item, adds } of items) {
      expect(history).toContain(item)
      expect(adds).toBeGreaterThan(0)
    }
    for (let i = 1; i < items.length; i++) expect(items[i].adds).toBeLessThanOrEqual(items[i - 1].adds)
  }
  expect((await recommender.recommend("u1"))[0]).not.toHaveProperty("why")
})

test("of a guest's items those of the item's colour speak for it, and a boost has its share", async () => {
  await learned()
  await recommender.putItems({ item: "i7", categories: ["seven"] })
  const list = await recommender.recommend({
    items: ["i1", "i2", "i4"],
    why: true,
    count: 20,
    boost: [{ filter: { category: "seven" }, by: 5 }],
  })
  const own = list.filter(({ item }) => isOfColour(item, 1)).slice(0, 5)
  expect(own.length).toBeGreaterThan(2)
  const first = own.map(({ why }) => why?.items[0]?.item)
  expect(first.filter((item) => item === "i1" || item === "i4").length).toBeGreaterThan(first.length / 2)
  const boosted = list.find(({ item }) => item === "i7")
  expect(boosted?.why?.parts.boost).toBeGreaterThan(0)
})

test("what comes back says so, and somebody without a known item is shown what is popular", async () => {
  await learned({ types: { view: 1 }, leaveOut: [] })
  for (let n = 0; n < 200; n++)
    await recommender.observe({ user: `u${n % 5}`, item: `i${n % 7}`, type: "view", timestamp: 1e9 + n })
  await recommender.drain()
  const list = await recommender.recommend("u1", { why: true, count: 60 })
  const again = expectSums(list, "u1").filter((parts) => parts.again !== 0)
  expect(again.length).toBeGreaterThan(0)
  for (const parts of again) expect(parts).toEqual({ ...NO_PARTS, again: parts.again })
  const [nobody] = await recommender.recommend("nobody", { why: true })
  expect(nobody).toMatchObject({ source: "trending", why: { parts: NO_PARTS, items: [] } })
})

test("why is refused where the model cannot tell, and when it is no truth value", async () => {
  await learned({ task: "binary" })
  await expect(recommender.recommend("u1", { why: true })).rejects.toThrow(/why: expected the top-k task/)
  await expect(recommender.recommend("u1", { why: "yes" as never })).rejects.toThrow(/why/)
})
