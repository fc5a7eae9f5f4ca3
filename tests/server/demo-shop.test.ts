/** The simulated shop of the demo. */

import { expect, test } from "vitest"
import type { ServedRecommender } from "../../src/engine/types.ts"
import { createDemoFeed } from "../../src/server/demo-feed.ts"
import { GENRES, happenings, listFilms } from "../../src/server/demo-shop.ts"

test("every film has a title of its own and one genre", () => {
  const films = listFilms()
  expect(films).toHaveLength(588)
  expect(new Set(films.map(({ title }) => title)).size).toBe(films.length)
  expect(new Set(films.flatMap(({ categories }) => categories))).toEqual(new Set(GENRES))
})

test("events are the same at every start, nobody takes a film twice, and tastes differ", () => {
  const take = (count: number) => {
    const events = happenings()
    return Array.from({ length: count }, () => events.next().value)
  }
  const events = take(20_000)
  expect(take(100)).toEqual(events.slice(0, 100))
  expect(new Set(events.map(({ user, item }) => `${user} ${item}`)).size).toBe(events.length)
  const genreOf = new Map(listFilms().map(({ item, categories = [] }) => [item, categories[0]]))
  const byUser = new Map<unknown, typeof events>()
  for (const event of events) byUser.set(event.user, [...(byUser.get(event.user) ?? []), event])
  const shares = [...byUser.values()]
    .filter((own) => own.length >= 30)
    .map((own) => {
      const counts = GENRES.map((genre) => own.filter(({ item }) => genreOf.get(item) === genre).length)
      return Math.max(...counts) / own.length
    })
  expect(shares.length).toBeGreaterThan(100)
  expect(shares.reduce((sum, share) => sum + share) / shares.length).toBeGreaterThan(0.4)
})

test("says what it feeds: all of it, the rest after a restart, or how it goes on", async () => {
  const stopped = AbortSignal.abort()
  const said: string[] = []
  for (const accepted of [0, 40_000, 60_000]) {
    const recommender = { putItems: async () => 0, status: () => ({ events: { accepted, queue: 0 } }) }
    await createDemoFeed().run(recommender as unknown as ServedRecommender, {
      ...{ rate: 100, signal: stopped },
      say: (text) => said.push(text.replace("feeding a simulated film shop: ", "")),
    })
  }
  expect(said).toEqual([
    "its first 50,000 events at once, then 100 per second",
    "the rest of its first 50,000 events at once, then 100 per second",
    "it goes on with 100 per second",
  ])
})
