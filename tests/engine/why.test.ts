/** Scores that mean something, and what speaks for an item. */

import { afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
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

test("why names the user's items that speak for one, and shares that add up to 1", async () => {
  await learned()
  const list = await recommender.recommend("u1", { why: true })
  const history = recommender.history("u1")
  expect(Object.values(list[0].why?.parts ?? {}).reduce((sum, share) => sum + share, 0)).toBeCloseTo(1, 6)
  for (const { why } of list) {
    const { parts, items } = why ?? { parts: {}, items: [] }
    // Nothing raises the last ones: they are only less bad than the rest.
    const whole = Object.values(parts).reduce((sum, share) => sum + share, 0)
    expect(whole === 0 ? 1 : whole).toBeCloseTo(1, 6)
    for (const share of Object.values(parts)) expect(share).toBeGreaterThanOrEqual(0)
    expect(parts).toMatchObject({ boost: 0, again: 0 })
    for (const { item } of items) expect(history).toContain(item)
    for (let i = 1; i < items.length; i++) expect(items[i].share).toBeLessThanOrEqual(items[i - 1].share)
    const sum = items.reduce((total, { share }) => total + share, 0)
    const { latest = 0, neighbours = 0 } = parts as { latest?: number; neighbours?: number }
    expect(sum).toBeLessThanOrEqual(latest + neighbours + 1e-9)
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
  expect(list.some(({ why }) => why?.parts.again === 1)).toBe(true)
  const [nobody] = await recommender.recommend("nobody", { why: true })
  expect(nobody.why).toMatchObject({ parts: { popularity: 1 }, items: [] })
})

test("why is refused where the model cannot tell, and when it is no truth value", async () => {
  await learned({ task: "binary" })
  await expect(recommender.recommend("u1", { why: true })).rejects.toThrow(/why: expected the top-k task/)
  await expect(recommender.recommend("u1", { why: "yes" as never })).rejects.toThrow(/why/)
})
