/** Equal memory for random-grow: the replay against real runs. */

import { describe, expect, test } from "vitest"
import { matchProbability } from "../../src/learning/equal-memory.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { SIDES } from "../support/model-state.ts"
import { record, runAll } from "../support/runs.ts"

const STREAM = record({ interactions: 2000, users: 120, items: 300 })
const BASE: RunOptions = { threads: 1, sizes: [2, 4, 8, 16], segment: 200 }

describe("random-grow at equal memory", () => {
  test.each<[string, RunOptions]>([
    ["dess-cv", { method: "dess-cv", recipe: "paper" }],
    ["dess-fre, prequential, another seed", { method: "dess-fre", recipe: "paper", protocol: "prequential", seed: 7 }],
    ["dess-fre, top-k", { method: "dess-fre", recipe: "paper", task: "topk", limit: 1200 }],
    ["uniform-4, calibrated top-k", { method: "uniform-4", bits: "32", task: "topk", limit: 1200 }],
  ])("is within 2 % of the time-averaged bytes of %s on each side", async (_, options) => {
    const { result } = await runAll(STREAM, { ...BASE, ...options })
    const target = result.embeddingBytesOverTime
    const { probability, bytes, holds } = await matchProbability(STREAM, { ...BASE, ...options }, target)
    expect(holds).toEqual({ user: "equal", item: "equal" })
    const real = await runAll(STREAM, { ...BASE, ...options, method: "random-grow", probability })
    for (const side of SIDES) {
      expect(probability[side]).toBeGreaterThan(0)
      expect(probability[side]).toBeLessThan(1)
      expect(real.result.embeddingBytesOverTime[side] / target[side]).toBeGreaterThan(0.98)
      expect(real.result.embeddingBytesOverTime[side] / target[side]).toBeLessThan(1.02)
      expect(real.result.embeddingBytesOverTime[side], "the replay tells the run's bytes").toBe(bytes[side])
    }
  })

  test("finds the way back to a run of random-grow itself, whatever its probabilities", async () => {
    for (const probability of [
      { user: 0.05, item: 0.9 },
      { user: 0.5, item: 0.25 },
    ]) {
      const options = { ...BASE, method: "random-grow", probability }
      const { result } = await runAll(STREAM, options)
      const { bytes } = await matchProbability(STREAM, options, result.embeddingBytesOverTime)
      for (const side of SIDES)
        expect(Math.abs(bytes[side] / result.embeddingBytesOverTime[side] - 1)).toBeLessThan(0.02)
    }
  })

  test("never growing is matched by the probability 0, exactly", async () => {
    const { result } = await runAll(STREAM, { ...BASE, method: "never-grow" })
    const target = result.embeddingBytesOverTime
    expect(await matchProbability(STREAM, BASE, target)).toEqual({
      probability: { user: 0, item: 0 },
      bytes: target,
      holds: { user: "equal", item: "equal" },
    })
  })

  test("a calibrated dess that holds less than every id at the first size is answered with 0, and that is more", async () => {
    const dear = await runAll(STREAM, { ...BASE, method: "dess-fre", price: 1 })
    const never = await runAll(STREAM, { ...BASE, method: "never-grow" })
    const target = dear.result.embeddingBytesOverTime
    const { probability, bytes, holds } = await matchProbability(STREAM, BASE, target)
    expect(probability).toEqual({ user: 0, item: 0 })
    expect(holds).toEqual({ user: "more", item: "more" })
    for (const side of SIDES) expect(target[side]).toBeLessThan(0.5 * bytes[side])
    expect(bytes).toEqual(never.result.embeddingBytesOverTime)
  })

  test("a target out of reach is answered with the most random-grow can hold", async () => {
    const { probability, bytes, holds } = await matchProbability(STREAM, BASE, { user: 1e9, item: 1e9 })
    expect(holds).toEqual({ user: "less", item: "less" })
    const all = await runAll(STREAM, { ...BASE, method: "random-grow", probability: { user: 1, item: 1 } })
    for (const side of SIDES) expect(probability[side]).toBeGreaterThan(0.99)
    expect(bytes).toEqual(all.result.embeddingBytesOverTime)
  })
})
