/** The statistics of the tables against textbook values and closed forms. */

import { describe, expect, test } from "vitest"
import {
  blockTest,
  clusterTest,
  holm,
  incompleteBeta,
  mean,
  pairedTest,
  standardDeviation,
  studentTails,
} from "../../src/experiments/statistics.ts"
import { Random } from "../../src/kernels/random.ts"

describe("Student's t", () => {
  test("gives the two-sided critical values of the printed tables to 1e-6", () => {
    const table = [
      [1, 12.706204736, 0.05],
      [2, 4.30265273, 0.05],
      [4, 2.776445105, 0.05],
      [4, 4.604094871, 0.01],
      [4, 8.610301581, 0.001],
      [9, 2.262157163, 0.05],
      [30, 2.042272456, 0.05],
      [100, 1.983971519, 0.05],
      [1000, 2.580754698, 0.01],
    ]
    for (const [degrees, t, p] of table) {
      expect(studentTails(t, degrees)).toBeCloseTo(p, 6)
      expect(studentTails(-t, degrees)).toBeCloseTo(p, 6)
    }
    expect(studentTails(0, 4)).toBe(1)
    expect(studentTails(Number.POSITIVE_INFINITY, 4)).toBe(0)
  })

  test("agrees with the closed forms for 1 and 2 degrees of freedom to 1e-12", () => {
    for (let t = -30; t <= 30; t += 0.37) {
      expect(studentTails(t, 1)).toBeCloseTo(1 - (2 / Math.PI) * Math.atan(Math.abs(t)), 12)
      expect(studentTails(t, 2)).toBeCloseTo(1 - Math.abs(t) / Math.sqrt(2 + t * t), 12)
    }
  })

  test("stands on an incomplete beta function that has its closed forms and its symmetry", () => {
    for (const x of [0, 0.001, 0.2, 0.5, 0.77, 0.999, 1])
      for (const a of [0.5, 1, 2.5, 12]) {
        expect(incompleteBeta(x, a, 1)).toBeCloseTo(x ** a, 12)
        expect(incompleteBeta(x, 1, a)).toBeCloseTo(1 - (1 - x) ** a, 12)
        expect(incompleteBeta(x, a, 3.3) + incompleteBeta(1 - x, 3.3, a)).toBeCloseTo(1, 12)
      }
  })
})

describe("the paired test", () => {
  test("gives R's answer for its sleep data", () => {
    const first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2]
    const second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    const test = pairedTest(first, second)
    expect(test?.difference).toBeCloseTo(-1.58, 10)
    expect(test?.t).toBeCloseTo(-4.062128, 6)
    expect(test?.degrees).toBe(9)
    expect(test?.p).toBeCloseTo(0.00283289, 8)
  })

  test("gives no p value for one seed, and handles differences without noise", () => {
    expect(pairedTest([1], [2])).toBeUndefined()
    expect(pairedTest([1, 2], [1])).toBeUndefined()
    expect(pairedTest([1, 2, 3], [1, 2, 3])).toMatchObject({ difference: 0, t: 0, p: 1 })
    expect(pairedTest([2, 3, 4], [1, 2, 3])).toMatchObject({ difference: 1, p: 0 })
  })
})

test("mean and standard deviation are those of the sample", () => {
  expect(mean([2, 4, 4, 4, 5, 5, 7, 9])).toBe(5)
  expect(standardDeviation([2, 4, 4, 4, 5, 5, 7, 9])).toBeCloseTo(Math.sqrt(32 / 7), 12)
  expect(standardDeviation([3])).toBe(0)
})

describe("Holm's correction", () => {
  test("is that of the worked example of Holm's step-down procedure", () => {
    const close = holm([0.01, 0.04, 0.03, 0.005]).map((p) => Number(p.toFixed(10)))
    expect(close).toEqual([0.03, 0.06, 0.06, 0.02])
  })

  test("never lowers a p, never passes 1, and keeps the order", () => {
    const random = new Random("holm", 1)
    for (let t = 0; t < 50; t++) {
      const ps = Array.from({ length: 1 + random.integer(12) }, () => random.next())
      const adjusted = holm(ps)
      for (const [i, p] of ps.entries()) expect(adjusted[i] >= p && adjusted[i] <= 1).toBe(true)
      for (const [i, p] of ps.entries())
        for (const [j, q] of ps.entries()) if (p < q) expect(adjusted[i]).toBeLessThanOrEqual(adjusted[j])
    }
  })
})

/** Steps of an AR(1) process around a mean: neighbours are alike. */
function walk(n: number, p: { mean: number; alike: number; seed: number }): number[] {
  const random = new Random("walk", p.seed)
  let state = 0
  return Array.from({ length: n }, () => {
    state = p.alike * state + Math.sqrt(1 - p.alike ** 2) * random.normal()
    return p.mean + state
  })
}

describe("the test over blocks of the stream", () => {
  const ones = (n: number) => new Array<number>(n).fill(1)

  test("finds no difference about as often as it says where neighbours are alike, which a test of single pieces does not", () => {
    const trials = 200
    let [blocks, pieces] = [0, 0]
    for (let seed = 0; seed < trials; seed++) {
      const values = walk(200, { mean: 0, alike: 0.5, seed })
      if (blockTest(values, ones(200))!.p < 0.05) blocks++
      if (clusterTest(values, ones(200))!.p < 0.05) pieces++
    }
    // 5 % is what is meant; blocks of ∛n leave some likeness, single pieces nearly all of it.
    expect(blocks / trials).toBeLessThan(0.17)
    expect(pieces / trials).toBeGreaterThan(blocks / trials + 0.05)
  })

  test("finds a difference that is there, with an interval around it", () => {
    const test = blockTest(walk(200, { mean: 1, alike: 0.5, seed: 1 }), ones(200))!
    expect(test.p).toBeLessThan(0.001)
    expect(test.low).toBeGreaterThan(0.4)
    expect(test.low).toBeLessThan(test.difference)
    expect(test.high).toBeGreaterThan(test.difference)
  })

  test("is the same every time, and says nothing of fewer than ten pieces", () => {
    const values = walk(50, { mean: 0.2, alike: 0.3, seed: 3 })
    expect(blockTest(values, ones(50))).toEqual(blockTest(values, ones(50)))
    expect(blockTest(values.slice(0, 9), ones(9))).toBeUndefined()
  })
})

test("the test over users is a paired t-test where each has one row", () => {
  const [a, b] = [walk(40, { mean: 0.3, alike: 0, seed: 5 }), walk(40, { mean: 0, alike: 0, seed: 6 })]
  const users = clusterTest(
    a.map((value, i) => value - b[i]),
    new Array<number>(40).fill(1),
  )!
  const rows = pairedTest(a, b)!
  expect(users.difference).toBeCloseTo(rows.difference, 12)
  expect(users.p).toBeCloseTo(rows.p, 10)
})
