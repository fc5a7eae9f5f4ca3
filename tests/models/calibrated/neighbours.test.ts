/** The neighbours of items: against counts kept in a Map, and what leaving, saving and a limit do. */

import { describe, expect, test } from "vitest"
import { Random } from "../../../src/kernels/random.ts"
import { State } from "../../../src/kernels/state.ts"
import { Neighbours } from "../../../src/models/calibrated/neighbours.ts"
import { neighbourScores } from "../../support/neighbour-scores.ts"

/** C and R of rows, without limits. */
class Counted {
  readonly weights = new Map<string, number>()
  readonly totals = new Map<number, number>()

  count(item: number, latest: readonly number[]): void {
    latest.slice(0, 10).forEach((j, a) => {
      if (j === item) return
      if (a === 0) this.#add(2 * j + 1, item, 1)
      else {
        this.#add(2 * j, item, 0.9 ** a)
        this.#add(2 * item, j, 0.2 * 0.9 ** a)
      }
    })
  }

  #add(j: number, i: number, g: number): void {
    this.weights.set(`${j} ${i}`, this.weight(j, i) + g)
    this.totals.set(j, this.total(j) + g)
  }

  weight(j: number, i: number): number {
    return this.weights.get(`${j} ${i}`) ?? 0
  }

  total(j: number): number {
    return this.totals.get(j) ?? 0
  }
}

/** Events of users who go from item to item nearby; both get them. */
function wander(p: { events: number; items: number; seed: number; into: Neighbours; counted?: Counted }): number[][] {
  const random = new Random(p.seed, "wander")
  const trails: number[][] = Array.from({ length: 20 }, () => [])
  for (let n = 0; n < p.events; n++) {
    const user = random.integer(trails.length)
    const near = trails[user][0] ?? random.integer(p.items)
    const item = random.next() < 0.7 ? (near + 1 + random.integer(5)) % p.items : random.integer(p.items)
    p.into.count(item, trails[user], { length: trails[user].length })
    p.counted?.count(item, trails[user])
    trails[user] = [item, ...trails[user].slice(0, 19)]
  }
  return trails
}

const near = (a: number, b: number, share: number) => Math.abs(a - b) <= share * Math.max(1e-6, Math.abs(b))

describe("neighbours", () => {
  test.each([1, 2, 3])("count as a Map does on average while rows have room, to 2 in a hundred, seed %i", (seed) => {
    const [neighbours, counted] = [new Neighbours(), new Counted()]
    wander({ events: 4000, items: 60, seed, into: neighbours, counted })
    let [kept, said, squares, strong] = [0, 0, 0, 0]
    for (let j = 0; j < 120; j++) {
      expect(near(neighbours.total(j), counted.total(j), 1e-4), `total ${j}, seed ${seed}`).toBe(true)
      for (let i = 0; i < 60; i++) {
        const [c, want] = [neighbours.weight(j, i), counted.weight(j, i)]
        kept += c
        said += want
        if (want < 5) continue
        strong++
        squares += (c / want - 1) ** 2
      }
    }
    expect(Math.abs(kept / said - 1), `seed ${seed}`).toBeLessThan(0.02)
    expect(strong).toBeGreaterThan(200)
    expect(Math.sqrt(squares / strong), "steps of 4 %, as often up as down").toBeLessThan(0.2)
  })

  test("keep the strongest of a row that overflows, and what they weigh but for chance", () => {
    const [neighbours, counted] = [new Neighbours(), new Counted()]
    wander({ events: 60_000, items: 700, seed: 5, into: neighbours, counted })
    let [kept, strong, sum, want, dropped] = [0, 0, 0, 0, 0]
    for (let j = 0; j < 1400; j += 3) {
      const row = Array.from({ length: 700 }, (_, i) => i).sort((a, b) => counted.weight(j, b) - counted.weight(j, a))
      row.slice(0, 5).forEach((i) => {
        strong++
        sum += neighbours.weight(j, i)
        want += counted.weight(j, i)
        if (neighbours.weight(j, i) > 0.5 * counted.weight(j, i)) kept++
      })
      for (const i of row) if (counted.weight(j, i) > 0 && neighbours.weight(j, i) === 0) dropped++
    }
    expect(kept / strong).toBeGreaterThan(0.99)
    expect(sum / want).toBeGreaterThan(0.97)
    expect(sum / want).toBeLessThan(1.01)
    expect(dropped, "rows overflow").toBeGreaterThan(100)
  })

  test("a row goes from process to process as it is, whatever was in its place", () => {
    const [one, two] = [new Neighbours(), new Neighbours()]
    wander({ events: 40_000, items: 700, seed: 6, into: one })
    wander({ events: 4_000, items: 700, seed: 7, into: two })
    for (let j = 0; j < 1400; j += 3) {
      two.put(j, one.entries(j))
      expect([...two.entries(j).weights].sort()).toEqual([...one.entries(j).weights].sort())
      expect(two.total(j)).toBe(one.total(j))
    }
  })

  test("halve a row of much, and go on", () => {
    const neighbours = new Neighbours()
    for (let n = 0; n < 70_000; n++) neighbours.add(1, 2 + (n % 3), 1)
    expect(neighbours.total(1)).toBeLessThan(40_000)
    const { total, weights } = neighbours.entries(1)
    expect([...weights.keys()].sort()).toEqual([2, 3, 4])
    expect(
      near(
        [...weights.values()].reduce((sum, c) => sum + c, 0),
        total,
        0.3,
      ),
    ).toBe(true)
  })

  test("indices whose words would be floats that are no numbers are counted, saved and read as others", () => {
    const [one, two] = [new Neighbours(), new Neighbours()]
    const items = [0x7fffff, 0x800000, 0xfffffd, 0xfffffe]
    for (let n = 0; n < 20_000; n++) for (const i of items) one.add(3, i, 1)
    const state = new State()
    one.save(state)
    two.load(state)
    for (const i of items) {
      expect(two.weight(3, i)).toBe(one.weight(3, i))
      expect(one.weight(3, i)).toBeGreaterThan(4_000)
    }
    one.add(3, 0xffffff, 1)
    expect(one.weight(3, 0xffffff)).toBe(0)
  })

  test("say of all items at once what they say of each, and leave nothing behind", () => {
    const neighbours = new Neighbours()
    const trails = wander({ events: 3000, items: 80, seed: 7, into: neighbours })
    for (const trail of trails) {
      expect(neighbours.open(trail, trail.length)).toBe(true)
      const items = Array.from({ length: 80 }, (_, i) => i)
      const weights = [0.5, 2, 1, 0.7]
      const each = items.map((i) => {
        const said = neighbours.score(i)
        const scores = [...neighbours.scores]
        for (const [k, want] of neighbourScores(neighbours, trail, i).entries()) expect(scores[k]).toBeCloseTo(want, 10)
        expect(said).toBe(scores.some((f) => f > 0))
        return scores.reduce((sum, f, k) => sum + weights[k] * f, 0)
      })
      for (let times = 0; times < 2; times++) {
        const all = new Float64Array(80).fill(1)
        neighbours.addScores(all, items, weights)
        for (const i of items) expect(Math.abs(1 + each[i] - all[i])).toBeLessThan(1e-5)
      }
      expect(Math.max(...each)).toBeGreaterThan(0)
    }
  })

  test("an item that leaves is in no row, and the others stay", () => {
    const neighbours = new Neighbours()
    wander({ events: 3000, items: 50, seed: 9, into: neighbours })
    const kept = neighbours.weight(7, 4)
    const gone = new Set([7, 8, 30])
    neighbours.forget(gone)
    for (const item of gone) {
      for (const row of neighbours.rowsOf(item)) expect(neighbours.total(row)).toBe(0)
      for (let j = 0; j < 100; j++) expect(neighbours.weight(j, item)).toBe(0)
    }
    expect(kept).toBeGreaterThan(0)
    expect(neighbours.weight(7, 4)).toBe(kept)
  })

  test("go on from a saved state to the same bits", () => {
    const [one, two] = [new Neighbours(), new Neighbours()]
    wander({ events: 2000, items: 400, seed: 11, into: one })
    const state = new State()
    one.save(state)
    two.load(state)
    for (const into of [one, two]) wander({ events: 2000, items: 400, seed: 12, into })
    for (let j = 0; j < 800; j++) expect(two.entries(j)).toEqual(one.entries(j))
  })

  test("hold no more bytes than they may", () => {
    const neighbours = new Neighbours()
    neighbours.mostBytes = 100_000
    wander({ events: 20_000, items: 3000, seed: 13, into: neighbours })
    expect(neighbours.heldBytes).toBeLessThanOrEqual(100_000)
    expect(neighbours.heldBytes).toBeGreaterThan(50_000)
  })
})
