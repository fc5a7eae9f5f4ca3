/** The simulated shop of the demo. */

import { expect, test } from "vitest"
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
