/** Controls that hold given bytes: what they hold, and whom they give it to. */

import { describe, expect, test } from "vitest"
import type { RunOptions } from "../../src/learning/options.ts"
import { SIDES } from "../support/model-state.ts"
import { record, runAll } from "../support/runs.ts"

const STREAM = record({ interactions: 4000, users: 150, items: 300, seed: 2 })
const BASE: RunOptions = { sizes: [2, 4, 8, 16], segment: 200 }

describe("random-grow that follows another run", () => {
  test.each<[string, RunOptions]>([
    ["dess-fre", { method: "dess-fre" }],
    ["dess-fre, top-k", { method: "dess-fre", task: "topk", limit: 2000, price: 1e-3 }],
    ["one that takes nearly everything back", { method: "dess-fre", price: 1 }],
    ["always-grow", { method: "always-grow" }],
    ["uniform-8@8, multiclass", { method: "uniform-8@8", task: "multiclass" }],
  ])("holds the bytes of %s at every segment, to 1 %", async (_, { price, ...options }) => {
    const other = await runAll(STREAM, { ...BASE, ...options, ...(price === undefined ? {} : { price }) })
    const curve = (side: "user" | "item") => other.reports.map(({ rowBytes }) => rowBytes[side])
    const interactions = other.reports.map((report) => report.interactions)
    const follow = { interactions, user: curve("user"), item: curve("item") }
    const { task = "binary", limit } = options
    const random = await runAll(STREAM, {
      ...{ ...BASE, task, follow, method: "random-grow", ...(limit && { limit }) },
    })
    // A uniform method may hold what the ladder of random-grow, which has 8 and 16 bits in ranking, has no rung for.
    random.reports.forEach((report, t) => {
      for (const side of SIDES) {
        const target = follow[side][t]
        expect(Math.abs(report.rowBytes[side] / target - 1), `segment ${t + 1}, ${side}s`).toBeLessThan(0.01)
      }
    })
  })

  test("is told apart by its seed, and the same with the same", async () => {
    const follow = { interactions: [4000], user: [4000], item: [8000] }
    const run = (seed: number) => runAll(STREAM, { ...BASE, method: "random-grow", follow, seed })
    const [one, same, other] = [await run(1), await run(1), await run(2)]
    expect(same.result.loss).toBe(one.result.loss)
    expect(other.result.loss).not.toBe(one.result.loss)
  })

  test("refuses to follow where it takes nothing back", () => {
    const follow = { interactions: [1], user: [1], item: [1] }
    const run = runAll(STREAM, { ...BASE, method: "random-grow", recipe: "paper", follow })
    return expect(run).rejects.toThrow(/^follow: expected with method random-grow, recipe calibrated only/)
  })
})

describe.each(["prune", "sample"])("%s-<kB>", (name) => {
  test.each(["binary", "multiclass", "topk"] as const)("stays within its budget, and uses it: %s", async (task) => {
    const all = await runAll(STREAM, { ...BASE, task, method: "always-grow" })
    const least = await runAll(STREAM, { ...BASE, task, method: "dess-fre", price: 1e6 })
    const budget = Math.ceil((all.result.rowBytes + 2 * least.result.rowBytes) / 3000)
    const { reports, result } = await runAll(STREAM, { ...BASE, task, method: `${name}-${budget}` })
    // What is drawn is within the budget on average.
    const spare = name === "sample" ? 1.08 : 1
    for (const { rowBytes } of reports) expect(rowBytes.user + rowBytes.item).toBeLessThan(spare * 1000 * budget)
    expect(result.rowBytes).toBeGreaterThan(0.8 * 1000 * budget)
    const sizes = Object.keys(result.sizeHistogram.user).filter((size) => result.sizeHistogram.user[size] > 0)
    // In ranking the bits may differ alone.
    if (task !== "topk") expect(sizes.length, "sizes differ").toBeGreaterThan(1)
  })

  test("is refused with the paper recipe, and without a number", async () => {
    await expect(runAll(STREAM, { ...BASE, method: `${name}-9`, recipe: "paper" })).rejects.toThrow(
      `method ${name}-9: expected with the calibrated recipe, got the paper one`,
    )
    await expect(runAll(STREAM, { ...BASE, method: `${name}-0` })).rejects.toThrow(/^method: expected one of/)
  })
})

describe("hash-<rows>", () => {
  test.each(["binary", "multiclass", "topk"] as const)("learns, and holds no more than its rows: %s", async (task) => {
    const few = await runAll(STREAM, { ...BASE, task, method: "hash-40@8" })
    const many = await runAll(STREAM, { ...BASE, task, method: "hash-5000@8" })
    const full = await runAll(STREAM, { ...BASE, task, method: "hash-5000" })
    const numbers = few.reports.map((report) => report.numbers)
    expect(numbers[numbers.length - 1], "all of its rows are in use").toEqual(numbers[numbers.length - 4])
    expect(few.result.rowBytes).toBeLessThan(many.result.rowBytes)
    expect(many.result.rowBytes).toBeLessThan(0.5 * full.result.rowBytes)
    const quality = (run: typeof few) => (task === "topk" ? (run.result.ndcg ?? 0) : -(run.result.loss ?? 9))
    expect(quality(many)).toBeGreaterThan(quality(few))
  })

  test("with rows enough for nobody to share is near a uniform size", async () => {
    const hashed = await runAll(STREAM, { ...BASE, method: "hash-99999" })
    const uniform = await runAll(STREAM, { ...BASE, method: "uniform-16" })
    expect(Math.abs((hashed.result.loss ?? 0) - (uniform.result.loss ?? 1))).toBeLessThan(0.002)
  })
})
