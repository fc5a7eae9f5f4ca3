/** Long questions are answered in pieces, with the same answers. */

import { afterEach, expect, test } from "vitest"
import { Catalogue } from "../../src/engine/catalogue.ts"
import { Recommender } from "../../src/engine/open.ts"
import { Reading } from "../../src/engine/reading.ts"
import { Turns } from "../../src/engine/turns.ts"
import type { Reader } from "../../src/learning/reader.ts"

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** Works for a while without giving way. */
function hold(milliseconds: number): void {
  const end = performance.now() + milliseconds
  while (performance.now() < end);
}

/** A reader of this many users whose every call holds the event loop for a millisecond. */
function openSlowReading(users: number) {
  const catalogue = new Catalogue(3.5)
  for (let id = 0; id < users; id++) catalogue.names.user.set(id, `u${id}`)
  catalogue.names.item.set(0, "i0")
  const reader = {
    outputs: 1,
    items: Int32Array.of(0),
    knows: (_side: string, id: number) => id < users,
    users: () => Int32Array.from({ length: users }, (_, id) => id),
    nearestUsers(_user: number, others: Int32Array) {
      hold(1)
      return Float32Array.from(others, (id) => 1 / (1 + id))
    },
    scoresOf(user: number, items: ArrayLike<number>) {
      hold(1)
      return Float32Array.from(items, () => user / 1000)
    },
  } as unknown as Reader
  return new Reading(catalogue, { reader, explain: async () => undefined })
}

/** How often others got a turn until it was done. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0
  let done = false
  work.finally(() => {
    done = true
  })
  while (!done) {
    await new Promise((resolve) => setImmediate(resolve))
    turns++
  }
  return turns
}

test("a scan of many users gives way every few milliseconds, and finds the nearest", async () => {
  const reading = openSlowReading(80_000)
  const asked = reading.similarUsers("u7", { count: 3 })
  // 40 pieces of a millisecond, in slices of four.
  expect(await turnsDuring(asked)).toBeGreaterThan(6)
  expect((await asked).map(({ user }) => user)).toEqual(["u0", "u1", "u2"])
})

test("predictions for many users give way every few milliseconds", async () => {
  const reading = openSlowReading(100)
  const pairs = Array.from({ length: 1000 }, (_, i) => ({ user: `u${i % 100}`, item: i % 3 === 0 ? "nobody's" : "i0" }))
  const asked = reading.predictAll(pairs)
  expect(await turnsDuring(asked)).toBeGreaterThan(15)
  expect(await asked).toEqual(pairs.map((pair) => reading.predict(pair)))
})

test("one long calculation runs at a time, in order, also after one that failed", async () => {
  const turns = new Turns()
  const said: string[] = []
  const work = (name: string) =>
    turns.run(async () => {
      said.push(`${name} begins`)
      await new Promise((resolve) => setImmediate(resolve))
      said.push(`${name} ends`)
      if (name === "a") throw new Error("a failed")
    })
  const [a] = await Promise.allSettled([work("a"), work("b"), work("c")])
  expect(a.status).toBe("rejected")
  expect(said).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"])
})

test.each([
  ["topk", "calibrated"],
  ["multiclass", "calibrated"],
  ["binary", "paper"],
] as const)("predictions at once are those of the pairs one by one, to the bit (%s, %s)", async (task, recipe) => {
  const recommender = await Recommender.open({ task, recipe, segment: 100, delay: 20, threads: 1 })
  closing.push(() => recommender.close())
  const events = Array.from({ length: 600 }, (_, i) => ({
    user: `u${(i * 7) % 31}`,
    item: `i${(i * i) % 47}`,
    rating: 1 + (i % 5),
  }))
  await recommender.observe(events)
  await recommender.drain()
  await new Promise((resolve) => setTimeout(resolve, 300))
  const pairs = Array.from({ length: 900 }, (_, i) => ({ user: `u${(i * 5) % 33}`, item: `i${i % 50}` }))
  const together = await recommender.predict(pairs)
  const alone = await Promise.all(pairs.map(({ user, item }) => recommender.predict(user, item)))
  expect(together).toEqual(alone)
  expect(together.some(({ known }) => known.user && known.item)).toBe(true)
})
