import { describe, expect, it } from "vitest"
import { discountFor, type RegretBoundOptions, regretBound, regretRate } from "../../src/policies/regret-bound.ts"

const options: RegretBoundOptions = {
  length: 1000,
  dimension: 2,
  discount: 0.99,
  variation: 3,
  largestReward: 0.8,
  smallestReward: 0.4,
  window: 5,
  ridge: 0.1,
  confidence: 0.01,
  parameterBound: 1.5,
  contextBound: 0.9,
  subgaussian: 0.5,
}

describe("the regret bound", () => {
  it("is Theorem 1, term by term", () => {
    const { length: L, dimension: d, discount: g, variation: B, largestReward: k, smallestReward: c } = options
    const [D, r, S, U] = [5, 0.1, 1.5, 0.9]
    const beta =
      Math.sqrt(r) * S +
      0.5 * Math.sqrt(2 * Math.log(100) + d * Math.log(1 + (U ** 2 * (1 - g ** (2 * L))) / (r * d * (1 - g ** 2))))
    const first =
      ((Math.sqrt(32 * Math.max(1, U ** 2 / r)) * k) / c) *
      beta *
      Math.sqrt(d * L) *
      Math.sqrt(L * Math.log(1 / g) + Math.log(1 + (U ** 2 * (1 - g ** L)) / (r * d * (1 - g))))
    const second = ((8 * k ** 2 * S * U ** 3 * g ** D) / (c * r * (1 - g))) * L
    const third = ((8 * k ** 2 * S * U ** 4 * g ** D) / (c * r ** 1.5 * (1 - g) ** 1.5)) * L
    const fourth = ((4 * k ** 2 * U * D) / (c * Math.sqrt(r))) * Math.sqrt(d / (1 - g)) * B
    const fifth = ((4 * k ** 2 * U ** 2 * D) / (c * r)) * (Math.sqrt(d) / (1 - g)) * B
    const bound = regretBound(options)
    const near = (got: number, want: number) => expect(Math.abs(got / want - 1)).toBeLessThan(1e-12)
    near(bound.estimation, first)
    near(bound.forgotten, second + third)
    near(bound.drift, fourth + fifth)
    near(bound.total, first + second + third + fourth + fifth)
  })

  it("looks back ln L/(1−γ) when no window is given", () => {
    const { window: _, ...rest } = options
    expect(regretBound(rest)).toEqual(regretBound({ ...rest, window: Math.ceil(Math.log(1000) / (1 - 0.99)) }))
  })

  it("grows like d^{9/10}·B^{1/5}·L^{4/5}, up to logarithms, under Corollary 1's discount", () => {
    const ratio = (length: number) => {
      const { window: _, ...rest } = options
      const discount = discountFor(options.variation, options.dimension, length)
      return regretBound({ ...rest, length, discount }).total / regretRate(options.variation, options.dimension, length)
    }
    // Ten times the stream is 6.3 times the rate; the bound may add only logarithms to that, never a power.
    for (let length = 1e4; length <= 1e9; length *= 10) {
      const growth = ratio(10 * length) / ratio(length)
      expect(growth, `length ${length}`).toBeGreaterThan(0.8)
      expect(growth, `length ${length}`).toBeLessThan(1.35)
    }
  })

  it("gives Corollary 1's discount and rate", () => {
    expect(discountFor(10, 3, 1_000_000)).toBeCloseTo(1 - (10 / (Math.sqrt(3) * 1e6)) ** 0.4, 13)
    expect(discountFor(0, 3, 100)).toBe(1)
    expect(regretRate(32, 1, 1)).toBeCloseTo(2, 12)
    expect(regretRate(1, 1, 100_000)).toBeCloseTo(10_000, 7)
    expect(regretRate(1, 1024, 1)).toBeCloseTo(512, 9)
  })

  it("asks for a slower discount the less the parameters vary", () => {
    let last = 0
    for (let variation = 100; variation > 0.001; variation /= 3) {
      const discount = discountFor(variation, 2, 10_000)
      expect(discount).toBeGreaterThan(last)
      expect(discount).toBeLessThan(1)
      last = discount
    }
  })

  it("is refused for numbers outside its assumptions", () => {
    expect(() => discountFor(-1, 2, 10)).toThrow(/variation: expected a number from 0, got -1/)
    expect(() => discountFor(1, 0, 10)).toThrow(/dimension/)
    expect(() => discountFor(1, 2, 0)).toThrow(/length/)
    expect(() => discountFor(100, 1, 100)).toThrow(/expected less than/)
    expect(() => regretRate(Number.NaN, 1, 1)).toThrow(/variation/)
    expect(() => regretBound({ ...options, discount: 1 })).toThrow(/discount: expected a number between 0 and 1, got 1/)
    expect(() => regretBound({ ...options, smallestReward: 0 })).toThrow(/rewards/)
    expect(() => regretBound({ ...options, largestReward: 0.1 })).toThrow(/rewards/)
    expect(() => regretBound({ ...options, window: 0 })).toThrow(/window/)
  })
})
