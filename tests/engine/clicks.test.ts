/** A click counts in the next list, learned or not; the same for somebody without an id. */

import { afterEach, beforeAll, expect, test } from "vitest"
import { weighRows } from "../../src/engine/event-types.ts"
import { Recommender } from "../../src/engine/open.ts"
import { completeOptions } from "../../src/engine/options.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { Run } from "../../src/learning/loop.ts"
import type { SequenceModel } from "../../src/models/calibrated/sequence.ts"
import { buildCommand } from "../support/command.ts"
import { useDirectories } from "../support/directories.ts"
import { neighbourScores } from "../support/neighbour-scores.ts"

beforeAll(buildCommand)
const { folder } = useDirectories()
let recommender: Recommender
afterEach(() => recommender.close())

/** Segments close by `drain` only. */
const OPTIONS: RecommenderOptions = {
  ...{ task: "topk", method: "fixed-8", threads: 1, seed: 4 },
  ...{ segment: 10_000, delay: "24h", likeThreshold: 3 },
}

/** The recommender as it would be if nothing were spread over threads: a run, plain lists, and the formula. */
class Plain {
  readonly #run = new Run(completeOptions(OPTIONS).run)
  readonly #indices = { user: new Map<string, number>(), item: new Map<string, number>() }
  readonly #likes = new Map<number, number[]>()
  readonly #met = new Map<number, Set<number>>()
  #open: { user: number; item: number; rating: number }[] = []
  #segments = 0

  #index(side: "user" | "item", name: string): number {
    const indices = this.#indices[side]
    if (!indices.has(name)) indices.set(name, indices.size)
    return indices.get(name) as number
  }

  observe(events: readonly Event[]): void {
    for (const { user: userName, item: itemName, rating: given = Number.NaN } of events) {
      const rating = Number.isNaN(given) ? 5 : given
      const [user, item] = [this.#index("user", String(userName)), this.#index("item", String(itemName))]
      this.#open.push({ user, item, rating: given })
      if (rating > 3) this.#likes.set(user, [...(this.#likes.get(user) ?? []), item])
      this.#met.set(user, (this.#met.get(user) ?? new Set()).add(item))
    }
  }

  learn(): void {
    const rows = this.#open
    if (rows.length === 0) return
    this.#open = []
    const given = Float32Array.from(rows, ({ rating }) => rating)
    const weight = new Float32Array(rows.length).fill(1)
    this.#run.step({
      user: Int32Array.from(rows, ({ user }) => user),
      item: Int32Array.from(rows, ({ item }) => item),
      rating: given.map((rating) => (Number.isNaN(rating) ? 5 : rating)),
      weight: weighRows({ rating: given, weight, stays: new Uint8Array(rows.length) }, completeOptions(OPTIONS).run),
      timestamp: new Float64Array(rows.length),
      ...{ length: rows.length, trainLength: rows.length, index: this.#segments++, time: 0 },
    })
  }

  /** Names and scores of all items with a row that are not left out, best first; undefined where there is nothing to go by. */
  list(user: string | undefined, given: readonly string[], seen: boolean): Map<string, number> | undefined {
    const model = (this.#run.learner as unknown as { model: SequenceModel }).model
    const { user: users, item: items } = model.tables
    const index = user === undefined ? undefined : this.#indices.user.get(user)
    const guest = given.flatMap((name) => this.#indices.item.get(name) ?? [])
    const likes = [...(index === undefined ? [] : (this.#likes.get(index) ?? [])), ...guest].slice(-20).reverse()
    const hasRow = index !== undefined && users.has(index)
    if (!hasRow && !likes.some((item) => items.has(item))) return undefined
    const x = new Float64Array(8)
    if (hasRow) for (let k = 0; k < 8; k++) x[k] = users.numbersOf(index)[users.placeOf(index) + 21 + k]
    const scale = Math.sqrt(likes.reduce((sum, _, a) => sum + 0.9 ** a, 0))
    likes.forEach((item, a) => {
      if (!items.has(item)) return
      const y = items.placeOf(item) + 4 + 8
      for (let k = 0; k < 8; k++) x[k] += (0.9 ** a / scale) * items.numbersOf(item)[y + k]
    })
    const out = new Set(seen ? [] : [...(index === undefined ? [] : (this.#met.get(index) ?? [])), ...guest])
    const scores = new Map<string, number>()
    let all = 0
    for (const [name, item] of this.#indices.item) {
      if (!items.has(item)) continue
      const [numbers, at] = [items.numbersOf(item), items.placeOf(item)]
      let z = numbers[at]
      for (let k = 0; k < 8; k++) z += x[k] * numbers[at + 4 + k]
      const { neighbours, fusion } = model
      if (neighbours)
        for (const [k, f] of neighbourScores(neighbours, likes, item).entries()) z += fusion.weights[k] * f
      all += Math.exp(z)
      if (!out.has(item)) scores.set(name, Math.exp(z))
    }
    for (const [name, power] of scores) scores.set(name, power / all)
    return scores
  }
}

test("lists are those of a plain model that has every click, whatever is learned when (8 seeds)", async () => {
  for (let seed = 1; seed <= 8; seed++) {
    const random = new Random(seed, "clicks")
    recommender = await Recommender.open(OPTIONS)
    const plain = new Plain()
    let asked = 0
    for (let step = 0; step < 120; step++) {
      const where = `seed ${seed}, step ${step}`
      const action = random.integer(10)
      if (action < 4) {
        // Few users and items, so that clicks repeat; now and then somebody or something new, and dislikes.
        const events = Array.from({ length: 1 + random.integer(step < 10 ? 60 : 4) }, () => ({
          user: `user ${random.integer(4 + (step >> 2))}`,
          item: `item ${random.integer(12 + (step >> 1))}`,
          ...(random.integer(3) === 0 ? { rating: 1 + random.integer(5) } : {}),
        }))
        await recommender.observe(events)
        plain.observe(events)
      } else if (action === 4) {
        await recommender.drain()
        plain.learn()
      } else {
        const isGuest = random.integer(3) === 0
        const seen = random.integer(2) === 0
        const user = isGuest ? undefined : `user ${random.integer(6 + (step >> 2))}`
        const items = isGuest ? Array.from({ length: random.integer(30) }, () => `item ${random.integer(80)}`) : []
        const options = { count: 1000, seen }
        const list =
          user === undefined ? recommender.recommend({ items, ...options }) : recommender.recommend(user, options)
        const got = (await list).filter(({ source }) => source === "model")
        const want = plain.list(user, items, seen) ?? new Map<string, number>()
        expect(got.map(({ item }) => item).sort(), where).toEqual([...want.keys()].sort())
        for (const { item, score } of got) expect(score, `${where}, ${item}`).toBeCloseTo(want.get(item) as number, 4)
        for (let i = 1; i < got.length; i++) expect(got[i - 1].score).toBeGreaterThanOrEqual(got[i].score)
        if (user !== undefined && got.length > 0) {
          const one = got[random.integer(got.length)]
          expect((await recommender.predict(user, one.item)).score, where).toBeCloseTo(one.score, 5)
        }
        asked += got.length
      }
    }
    expect(asked).toBeGreaterThan(100)
    await recommender.close()
  }
})

/** Two tastes, all of it learned: even users click on even items. */
async function openTaught(options: RecommenderOptions = {}): Promise<void> {
  recommender = await Recommender.open({ ...OPTIONS, ...options })
  const random = new Random(1, "clicks test")
  for (let round = 0; round < 10; round++) {
    await recommender.observe(
      Array.from({ length: 400 }, () => {
        const user = random.integer(40)
        return { user: `user ${user}`, item: `item ${2 * random.integer(30) + (user % 2)}` }
      }),
    )
    await recommender.drain()
  }
}

const names = async (list: Promise<{ item: string }[]>) => (await list).map(({ item }) => item)
const isOdd = (item: string) => Number(item.slice(5)) % 2 === 1

test("a new user gets a list of the model from the first click on, the same as a guest with that click", async () => {
  await openTaught()
  expect((await recommender.recommend("new"))[0].source).toBe("trending")
  await recommender.observe({ user: "new", item: "item 7" })
  const list = await recommender.recommend("new", { count: 10 })
  expect(list.every(({ source, item }) => source === "model" && item !== "item 7")).toBe(true)
  expect(list.filter(({ item }) => isOdd(item)).length).toBeGreaterThanOrEqual(8)
  expect(list).toEqual(await recommender.recommend({ items: ["item 7"], count: 10 }))
  expect(recommender.status().events.queue).toBe(1)
  // A dislike is left out, and says nothing.
  await recommender.observe({ user: "new", item: list[0].item, rating: 1 })
  expect(await recommender.recommend("new", { count: 9 })).toEqual(list.slice(1))
})

test("the order of clicks counts, the latest most; options hold for guests, and unknown items are passed over", async () => {
  await openTaught()
  const [odd, even] = [
    ["item 1", "item 3", "item 5"],
    ["item 2", "item 4", "item 6"],
  ]
  const share = async (items: string[]) =>
    (await names(recommender.recommend({ items, count: 20 }))).filter(isOdd).length
  expect(await share([...even, ...odd])).toBeGreaterThan(await share([...odd, ...even]))
  const all = await names(recommender.recommend({ items: odd, count: 12 }))
  expect(all).toHaveLength(12)
  for (const item of odd) expect(all).not.toContain(item)
  expect(await names(recommender.recommend({ items: [...odd, "nobody's"], offset: 2, count: 10 }))).toEqual(
    all.slice(2),
  )
  expect(await names(recommender.recommend({ items: odd, exclude: [all[0]], count: 11 }))).toEqual(all.slice(1))
  expect(await names(recommender.recommend({ items: odd, only: [all[3], all[1]] }))).toEqual([all[1], all[3]])
  expect(await names(recommender.recommend({ items: odd, seen: true, count: 60 }))).toContain("item 3")
  expect((await recommender.recommend({ items: [] }))[0].source).toBe("trending")
  expect((await recommender.recommend({ items: ["nobody's"] }))[0].source).toBe("trending")
})

test("what is no guest is refused", async () => {
  await openTaught()
  const refused = async (guest: unknown) =>
    expect(recommender.recommend(guest as never), JSON.stringify(guest)).rejects.toMatchObject({
      code: expect.stringMatching(/^INVALID_/),
    })
  await refused({})
  await refused({ items: "item 1" })
  await refused({ items: [null] })
  await refused({ items: [""] })
  await refused({ items: ["item 1"], counts: 3 })
  await refused({ items: ["item 1"], after: "0.1-1" })
  await refused({ items: ["item 1"], count: 0 })
  await refused({ items: Array.from({ length: 10_001 }, () => "item 1") })
  await refused(null)
})

test.each(["binary", "multiclass"] as const)(
  "%s: a guest gets a list by the items liked, without them",
  async (task) => {
    recommender = await Recommender.open({ sizes: [2, 4, 8], threads: 1, segment: 200, seed: 4, task })
    const random = new Random(1, "clicks test")
    for (let round = 0; round < 10; round++)
      await recommender.observe(
        Array.from({ length: 400 }, () => {
          const [user, item] = [random.integer(40), random.integer(60)]
          return { user: `user ${user}`, item: `item ${item}`, rating: (user + item) % 2 === 0 ? 5 : 1 }
        }),
      )
    await recommender.drain()
    const items = ["item 1", "item 3", "item 5", "item 7", "item 9"]
    const list = await recommender.recommend({ items, count: 12 })
    const trials = items.map((item) => ({ item }))
    expect(list).toEqual(await recommender.preview("stranger", trials, { count: 12 }))
    for (const item of items) expect(list.map((entry) => entry.item)).not.toContain(item)
    const [first, second] = [list[4].item, list[2].item]
    expect(await names(recommender.recommend({ items, only: [first, second] }))).toEqual([second, first])
  },
)

test("clicks that wait count after a crash, too, and are not counted twice once they are learned", async () => {
  const directory = folder()
  await openTaught({ directory })
  const clicks = ["item 7", "item 9", "item 9"]
  for (const item of clicks) await recommender.observe({ user: "new", item })
  await recommender.observe(clicks.map((item) => ({ user: "user 2", item })))
  const lists = async () => [await recommender.recommend("new"), await recommender.recommend("user 2")]
  const before = await lists()
  expect(before[0]).toEqual(await recommender.recommend({ items: clicks }))
  await (recommender as LiveRecommender).abandon()
  recommender = await Recommender.open({ ...OPTIONS, directory })
  expect(recommender.status().events.queue).toBe(6)
  expect(await lists()).toEqual(before)
  await recommender.drain()
  const learned = await lists()
  expect(learned).not.toEqual(before)
  await recommender.close()
  recommender = await Recommender.open({ ...OPTIONS, directory })
  expect(await lists()).toEqual(learned)
})

test("a user who is erased and an item that is deleted leave nothing behind of clicks that wait", async () => {
  await openTaught({ directory: folder() })
  for (const item of ["item 1", "item 3", "item 5"]) await recommender.observe({ user: "new", item })
  await recommender.deleteItems?.("item 3")
  const list = await recommender.recommend("new")
  expect(list.map(({ item }) => item)).not.toContain("item 3")
  // Chances of the rest grow once the model has given up its row.
  const names = (some: readonly { item: string }[]) => some.map(({ item }) => item)
  expect(names(list)).toEqual(names(await recommender.recommend({ items: ["item 1", "item 5"] })))
  // Another item may get the index.
  await recommender.observe({ user: "other", item: "item new" })
  expect(await recommender.recommend("new", { exclude: ["item new"] })).toEqual(
    await recommender.recommend({ items: ["item 1", "item 5"], exclude: ["item new"] }),
  )
  await recommender.forget("new")
  expect((await recommender.recommend("new"))[0].source).toBe("trending")
  await recommender.observe({ user: "new", item: "item 2" })
  expect(await recommender.recommend("new")).toEqual(await recommender.recommend({ items: ["item 2"] }))
  await recommender.drain()
  expect((await recommender.recommend("new"))[0].source).toBe("model")
})

test("what waits is counted among the bytes and freed when it is learned", async () => {
  await openTaught()
  const bytes = () => recommender.status().memory.parts.journal
  const before = bytes()
  for (let n = 0; n < 4; n++)
    await recommender.observe(Array.from({ length: 2000 }, (_, i) => ({ user: `user ${i % 40}`, item: `item ${n}` })))
  expect(bytes()).toBeGreaterThan(before + 8000 * 64)
  await recommender.drain()
  expect(bytes()).toBe(before)
})

test("a list that lasts has what is popular of late before what a session is about, and says for whom", async () => {
  recommender = await Recommender.open(OPTIONS)
  // Everybody takes the hit; those who begin with a theme go on with it.
  const events: Event[] = []
  for (let n = 0; n < 60; n++) {
    const theme = n % 2 === 0 ? "red" : "blue"
    events.push({ user: `user ${n}`, item: `${theme} 1` }, { user: `user ${n}`, item: `${theme} 2` })
    if (n % 3 > 0) events.push({ user: `user ${n}`, item: "hit" })
    if (n % 5 === 0) events.push({ user: `user ${n}`, item: `${theme} 3` })
  }
  await recommender.observe(events)
  await recommender.drain()
  const guest = { items: ["red 1", "red 2"], count: 10 }
  const [next, lasting] = [await recommender.recommend(guest), await recommender.recommend({ ...guest, lasting: true })]
  const place = (list: typeof next, item: string) => list.findIndex((one) => one.item === item)
  expect(next.map(({ item }) => item).sort()).toEqual(lasting.map(({ item }) => item).sort())
  expect(place(lasting, "hit")).toBe(0)
  expect(place(lasting, "red 3")).toBeLessThan(place(lasting, "blue 3"))
  const known = new Map(next.map(({ item, score }) => [item, Math.log(score / (1 - score))]))
  const gap = (list: typeof next) => {
    const of = (item: string) => list.find((one) => one.item === item)?.score as number
    return Math.log(of("red 3") / (1 - of("red 3"))) - Math.log(of("blue 3") / (1 - of("blue 3")))
  }
  // As popular as each other: a third of what the model says is left.
  expect(gap(lasting)).toBeCloseTo(((known.get("red 3") as number) - (known.get("blue 3") as number)) / 3, 1)
  await expect(recommender.recommend({ ...guest, lasting: 1 as unknown as boolean })).rejects.toThrow(
    "lasting: expected true or false, got 1",
  )
})

test("a list that lasts is refused where scores are no chances of being next", async () => {
  recommender = await Recommender.open({ task: "binary", threads: 1 })
  await expect(recommender.recommend("ada", { lasting: true })).rejects.toThrow("lasting: expected with the top-k task")
})
