/** What if a user did something: a list, and nothing else has changed. */

import { afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveReport, RecommenderOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"

beforeAll(buildCommand)
let recommender: Recommender
afterEach(() => recommender.close())

/** Forty users of two tastes and sixty items: odd users like odd items and dislike even ones. */
async function openTaught(options: RecommenderOptions): Promise<void> {
  recommender = await Recommender.open({ sizes: [2, 4, 8], threads: 1, segment: 200, seed: 4, ...options })
  const random = new Random(1, "preview test")
  for (let round = 0; round < 10; round++)
    await recommender.observe(
      Array.from({ length: 400 }, () => {
        const [user, item] = [random.integer(40), random.integer(60)]
        return { user: `user ${user}`, item: `item ${item}`, rating: (user + item) % 2 === 0 ? 5 : 1 }
      }),
    )
  await recommender.drain()
}

const isOdd = ({ item }: { item: string }) => Number(item.slice(5)) % 2 === 1
const odd = [1, 3, 5, 7, 9].map((n) => ({ item: `item ${n}` }))

test("an unknown user who likes odd items would be shown odd items, and stays unknown", async () => {
  await openTaught({ task: "topk" })
  const before = await recommender.recommend("stranger")
  const list = await recommender.preview("stranger", odd, { count: 12 })
  expect(list).toHaveLength(12)
  expect(list.every(({ source }) => source === "model")).toBe(true)
  expect(list.filter(isOdd).length).toBeGreaterThanOrEqual(9)
  for (const { item } of odd) expect(list.map((entry) => entry.item)).not.toContain(item)
  expect(recommender.has("user", "stranger")).toBe(false)
  expect(await recommender.recommend("stranger")).toEqual(before)
})

test.each(["topk", "binary", "multiclass"] as const)(
  "%s: every score is the same to the bit after a preview, of a known user and of a stranger",
  async (task) => {
    await openTaught({ task })
    const pairs = Array.from({ length: 40 }, (_, u) => ({ user: `user ${u}`, item: `item ${u}` }))
    const scores = async () => [
      await recommender.predict(pairs),
      await recommender.recommend("user 3", { count: 60, seen: true }),
      await recommender.similar("item 3"),
    ]
    const before = await scores()
    const trials = [...odd, { item: "item 2", rating: 0 }]
    const list = await recommender.preview("user 3", trials, { count: 60 })
    expect(list).not.toEqual(await recommender.recommend("user 3", { count: 60 }))
    await recommender.preview("stranger", trials)
    expect(await scores()).toEqual(before)
  },
)

test("unknown items change nothing, and what cannot be previewed is refused", async () => {
  await openTaught({ task: "binary" })
  expect(await recommender.preview("user 3", [{ item: "nowhere" }])).toEqual(await recommender.recommend("user 3"))
  await expect(recommender.preview("user 3", [{ item: "item 1", rating: 99 }])).rejects.toThrow(/rating/)
  await expect(recommender.preview("user 3", new Array(101).fill(odd[0]))).rejects.toThrow(/at most 100/)
  await recommender.close()
  await openTaught({ task: "binary", recipe: "paper", method: "never-grow", model: "mf" })
  await expect(recommender.preview("user 3", odd)).rejects.toMatchObject({ code: "UNSUPPORTED" })
})

test("a listener that asks for them gets the last reports first, the newest with the policy's bounds", async () => {
  await openTaught({ task: "topk" })
  const heard: LiveReport[] = []
  for await (const report of recommender.reports(undefined, { last: 3 })) if (heard.push(report) === 3) break
  const newest = recommender.status().last
  expect(heard.map(({ segment }) => segment)).toEqual([2, 1, 0].map((n) => (newest?.segment ?? 0) - n))
  expect(heard[0].outlook).toBeNull()
  expect(heard[2]).toEqual(newest)
  const { frequencies = [], diversities = [], user } = heard[2].outlook ?? {}
  expect(frequencies.length).toBeGreaterThan(2)
  expect(user?.grow).toHaveLength(frequencies.length * diversities.length)
  expect(user?.grow.every(Number.isFinite)).toBe(true)
})
