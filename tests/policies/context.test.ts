import { describe, expect, it } from "vitest"
import { Random } from "../../src/kernels/random.ts"
import { createContext } from "../../src/policies/context.ts"

describe("a context vector", () => {
  it("is the scaled logarithm of the frequency, the scaled diversity and a constant, over √d", () => {
    const out = new Float64Array(5).fill(-1)
    const context = createContext({ kind: "cv", constant: true, featureColumns: 16 })
    context.write(out, 1, 99, 1)
    expect(context.dimension).toBe(3)
    const root = Math.sqrt(3)
    expect(out[0]).toBe(-1)
    expect(out[1]).toBeCloseTo(Math.log(100) / Math.log(10_001) / root, 14)
    expect(out[2]).toBeCloseTo(0.25 / root, 14)
    expect(out[3]).toBeCloseTo(1 / root, 14)
    expect(out[4]).toBe(-1)
  })

  it("of kind fre does not look at the diversity", () => {
    const out = new Float64Array(2)
    const context = createContext({ kind: "fre", constant: false, frequencyCap: 9 })
    context.write(out, 0, 3, 123)
    expect(context.dimension).toBe(1)
    expect(out[0]).toBeCloseTo(Math.log(4) / Math.log(10), 14)
    expect(out[1]).toBe(0)
    context.write(out, 0, 9, 0)
    expect(out[0]).toBeCloseTo(1, 14)
  })

  it("never has a norm above 1, for any frequency and diversity", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = new Random(seed, "context")
      const context = createContext({
        kind: random.next() < 0.5 ? "fre" : "cv",
        constant: random.next() < 0.5,
        frequencyCap: 1 + random.integer(20_000),
        featureColumns: 1 + random.integer(30),
      })
      const out = new Float64Array(context.dimension)
      context.write(out, 0, random.integer(10 ** random.integer(8)), 10 * random.next())
      expect(Math.hypot(...out), `seed ${seed}`).toBeLessThanOrEqual(1 + 1e-12)
      for (const x of out) expect(x, `seed ${seed}`).toBeGreaterThanOrEqual(0)
    }
  })

  it("is refused for an unknown kind, a cap that is not positive, or a cv without feature columns", () => {
    const kind = "both" as "cv"
    expect(() => createContext({ kind, constant: true })).toThrow(/expected "fre" or "cv", got "both"/)
    for (const frequencyCap of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => createContext({ kind: "fre", constant: true, frequencyCap })).toThrow(/frequencyCap/)
    }
    for (const featureColumns of [undefined, 0, 1.5]) {
      expect(() => createContext({ kind: "cv", constant: true, featureColumns })).toThrow(/featureColumns/)
    }
  })
})
