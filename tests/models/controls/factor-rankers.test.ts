/** The controls isgd and ease: their definitions, what they share with the other rankers, and a stream they must learn. */

import { describe, expect, test } from "vitest"
import { Random } from "../../../src/kernels/random.ts"
import { Ease } from "../../../src/models/controls/ease.ts"
import { invert } from "../../../src/models/controls/inverse.ts"
import { Isgd } from "../../../src/models/controls/isgd.ts"
import type { Pairs, PlainRanker } from "../../../src/models/controls/model.ts"
import { PlainPopular } from "../../../src/models/controls/popular.ts"

type Row = [user: number, item: number]

const RANKERS: [string, () => PlainRanker][] = [
  ["isgd", () => new Isgd({ width: 10, seed: 3 })],
  ["ease", () => new Ease({ items: 100 })],
]

function pairs(rows: Row[]): Pairs {
  return { length: rows.length, user: Int32Array.from(rows, (r) => r[0]), item: Int32Array.from(rows, (r) => r[1]) }
}

function ask(ranker: PlainRanker, user: number, items: number): number[] {
  const out = new Float64Array(items).fill(-7)
  ranker.scores(out, user)
  return [...out]
}

/** Users of two tastes over items of two kinds; the first kind is met far more often, as four users of five like it. */
function planted(count: number): Row[] {
  const random = new Random(5, "planted")
  return Array.from({ length: count }, () => {
    const user = random.integer(100)
    const kind = user % 5 === 0 ? 1 : 0
    return [user, 20 * kind + random.integer(20)]
  })
}

/** (A)⁻¹ by Gauss and Jordan. */
function plainInverse(a: number[][]): number[][] {
  const n = a.length
  const rows = a.map((row, i) => [...row, ...row.map((_, j) => (i === j ? 1 : 0))])
  for (let i = 0; i < n; i++) {
    const pivot = rows[i][i]
    rows[i] = rows[i].map((value) => value / pivot)
    for (let r = 0; r < n; r++) {
      const factor = rows[r][i]
      if (r !== i) rows[r] = rows[r].map((value, c) => value - factor * rows[i][c])
    }
  }
  return rows.map((row) => row.slice(n))
}

describe.each(RANKERS)("%s", (_, create) => {
  test("ranks by what was met for a user without events, and writes no more than it is asked for", () => {
    const ranker = create()
    const rows: Row[] = [...planted(600), [3, 70]]
    ranker.learn(pairs(rows))
    const counts = Array.from({ length: 90 }, (_, item) => rows.filter((row) => row[1] === item).length)
    expect(ask(ranker, 999, 90)).toEqual(counts)
    expect(ask(ranker, 999, 7)).toEqual(counts.slice(0, 7))
    expect(ask(ranker, 3, 7)).toEqual(ask(ranker, 3, 90).slice(0, 7))
    expect(ask(ranker, 3, 90)[50]).toBe(0)
    expect(ranker.heldBytes).toBeGreaterThan(0)
  })

  test("takes back what was observed: scores and what is learned later are the same to the bit", () => {
    const [ranker, other] = [create(), create()]
    for (const one of [ranker, other]) one.learn(pairs(planted(600)))
    const before = ask(ranker, 5, 40)
    for (const item of [2, 3, 2]) ranker.observe?.(5, item)
    ranker.observe?.(777, 4)
    expect(ask(ranker, 5, 40)).not.toEqual(before)
    expect(ask(ranker, 777, 40)).not.toEqual(ask(other, 777, 40))
    ranker.unobserve?.()
    expect(ranker.heldBytes).toBe(other.heldBytes)
    for (const user of [5, 777]) expect(ask(ranker, user, 40)).toEqual(ask(other, user, 40))
    const more = planted(1200).slice(600)
    for (const one of [ranker, other]) one.learn(pairs(more))
    for (const user of [5, 6, 777]) expect(ask(ranker, user, 40)).toEqual(ask(other, user, 40))
  })

  test("finds the items of a user's kind where popularity does not", () => {
    const rows = planted(2000)
    const [ranker, popular] = [create(), new PlainPopular()]
    for (const one of [ranker, popular]) one.learn(pairs(rows))
    const hits = (one: PlainRanker) => {
      let count = 0
      for (let user = 0; user < 100; user += 5) {
        const scores = ask(one, user, 40)
        const top = [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, 10)
        count += top.filter((item) => item >= 20).length
      }
      return count / 200
    }
    expect(hits(popular)).toBeLessThan(0.1)
    expect(hits(ranker)).toBeGreaterThan(0.5)
  })

  test("refuses negative ids and short columns", () => {
    expect(() => create().learn(pairs([[0, -1]]))).toThrow(/expected indices from 0, got 0 and -1/)
    expect(() => create().learn({ ...pairs([[0, 0]]), length: 3 })).toThrow(/expected columns of 3 rows, got 1/)
  })
})

describe("isgd", () => {
  test("one event moves both vectors as defined", () => {
    const isgd = new Isgd({ width: 6, seed: 9 })
    const drawn = (side: string) => {
      const random = new Random(9, "isgd", side, 0)
      return Array.from({ length: 6 }, () => 0.1 * random.normal())
    }
    const dot = (a: number[], b: number[]) => a.reduce((sum, value, f) => sum + value * b[f], 0)
    let [p, q] = [drawn("user"), drawn("item")]
    for (let step = 0; step < 200; step++) {
      isgd.learn(pairs([[0, 0]]))
      const e = 1 - dot(p, q)
      const next = p.map((value, f) => value + 0.05 * (e * q[f] - 0.01 * value))
      q = q.map((value, f) => value + 0.05 * (e * p[f] - 0.01 * value))
      p = next
      expect(ask(isgd, 0, 1)[0]).toBeCloseTo(1 - Math.abs(1 - dot(p, q)), 12)
    }
    expect(ask(isgd, 0, 1)[0]).toBeGreaterThan(0.9)
  })

  test("depends on its seed", () => {
    const [one, two] = [1, 2].map((seed) => new Isgd({ width: 10, seed }))
    for (const isgd of [one, two]) isgd.learn(pairs(planted(100)))
    expect(ask(one, 5, 40)).not.toEqual(ask(two, 5, 40))
  })
})

describe("ease", () => {
  test("is the closed form over the items with most events, to 1e-6", () => {
    const random = new Random(11, "ease")
    const rows = Array.from({ length: 700 }, (): Row => [random.integer(60), Math.floor(30 * random.next() ** 2)])
    const ease = new Ease({ items: 12, lambda: 4 })
    ease.learn(pairs(rows))
    const counts = Array.from({ length: 30 }, (_, item) => rows.filter((row) => row[1] === item).length)
    const kept = [...counts.keys()].sort((a, b) => counts[b] - counts[a] || a - b).slice(0, 12)
    const met = (user: number, item: number) => (rows.some(([u, i]) => u === user && i === item) ? 1 : 0)
    const users = [...Array(60).keys()]
    const gram = kept.map((i) =>
      kept.map((j) => users.reduce((sum, u) => sum + met(u, i) * met(u, j), i === j ? 4 : 0)),
    )
    const p = plainInverse(gram)
    for (const user of users.slice(0, 20)) {
      const scores = ask(ease, user, 30)
      kept.forEach((item, i) => {
        const want = kept.reduce((sum, j, row) => sum - (row === i ? 0 : (met(user, j) * p[row][i]) / p[i][i]), 0)
        expect(Math.abs(scores[item] - want)).toBeLessThan(1e-6)
      })
      for (let item = 0; item < 30; item++) if (!kept.includes(item)) expect(scores[item]).toBe(0)
    }
  })

  test("fits anew after 500 events and after a tenth more, not between", () => {
    const ease = new Ease({ items: 100 })
    const rows = planted(8000)
    const popular = new PlainPopular()
    const learn = (from: number, to: number) => {
      for (const one of [ease, popular]) one.learn(pairs(rows.slice(from, to)))
    }
    learn(0, 499)
    expect(ask(ease, 5, 40)).toEqual(ask(popular, 5, 40))
    learn(499, 7000)
    // User 555 is unknown to the fit, so its scores change with the weights alone.
    const probe = () => {
      ease.observe(555, 3)
      const scores = ask(ease, 555, 40)
      ease.unobserve()
      return scores
    }
    const fitted = probe()
    learn(7000, 7699)
    expect(probe()).toEqual(fitted)
    learn(7699, 7700)
    expect(probe()).not.toEqual(fitted)
  })

  test("the inverse times the matrix is the identity, to 1e-10", () => {
    const random = new Random(2, "inverse")
    for (const n of [1, 2, 5, 33]) {
      const x = Array.from({ length: n + 3 }, () => Array.from({ length: n }, () => random.normal()))
      const a = Array.from({ length: n * n }, (_, at) => {
        const [i, j] = [Math.floor(at / n), at % n]
        return x.reduce((sum, row) => sum + row[i] * row[j], i === j ? 1 : 0)
      })
      const inverse = invert(Float64Array.from(a), n)
      for (let i = 0; i < n; i++)
        for (let j = 0; j < n; j++) {
          let sum = 0
          for (let k = 0; k < n; k++) sum += a[i * n + k] * inverse[k * n + j]
          expect(Math.abs(sum - (i === j ? 1 : 0))).toBeLessThan(1e-10)
        }
    }
  })
})
