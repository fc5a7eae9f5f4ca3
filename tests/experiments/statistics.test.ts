/** The statistics of the tables against textbook values and closed forms. */

import { describe, expect, test } from "vitest"
import { incompleteBeta, mean, pairedTest, standardDeviation, studentTails } from "../../src/experiments/statistics.ts"

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
