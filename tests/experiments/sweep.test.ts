/** The search over options: what is tried, what it is chosen by, and what it is measured on. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { DessError } from "../../src/errors.ts"
import { type CellOutcome, runCell } from "../../src/experiments/cell-run.ts"
import { readResults } from "../../src/experiments/results.ts"
import { candidatesOf, restOf, sweep } from "../../src/experiments/sweep.ts"
import { makeRecord } from "../support/experiments.ts"

const home = mkdtempSync(join(tmpdir(), "dess-sweep-"))
afterAll(() => rmSync(home, { recursive: true }))

test("all combinations of a method's own options are candidates; those of others leave it as it is", () => {
  const check = (text: string) => {
    if (/fixed.*price/.test(text)) throw new DessError("INVALID_ARGUMENT", "no")
  }
  const space = { price: ["0", "1"], bits: ["8", "16"] }
  expect(candidatesOf("dess-fre", space, check).texts).toEqual([
    ...["dess-fre:price=0:bits=8", "dess-fre:price=0:bits=16", "dess-fre:price=1:bits=8", "dess-fre:price=1:bits=16"],
  ])
  const { texts, foreign } = candidatesOf("fixed-16", space, check)
  expect(texts).toEqual(["fixed-16:bits=8", "fixed-16:bits=16"])
  expect([...foreign]).toEqual([["price", "no"]])
})

test("a value that a method refuses of its own option is an error, and so is an option of no method", async () => {
  const grid = { data: [{ path: "synthetic", interactions: 400 }], methods: ["dess-fre", "plain-bias"], seeds: 1 }
  const refused = async (space: Record<string, string[]>) => sweep(grid, space, { out: join(home, "refused") })
  await expect(refused({ price: ["0.01", "cheap"] })).rejects.toThrow(/^dess-fre: .*"cheap"/)
  await expect(refused({ prise: ["0.01"] })).rejects.toThrow(/^vary: expected an option of some method, got "prise"/)
})

test("nothing before the cut counts in what is reported", () => {
  const record = makeRecord({ method: "dess-fre", value: 0.5 })
  const series = {
    ...record.series!,
    interactions: [100, 200, 300, 400],
    accuracy: [0, 0, 1, 0.5],
    weights: [20, 20, 20, 60],
  }
  expect(restOf({ ...record, series } as never, "accuracy", 200)).toBeCloseTo(0.625, 12)
  expect(restOf({ ...record, series } as never, "accuracy", 150)).toBeCloseTo(0.625, 12)
})

test("candidates see the first part with one seed, the chosen ones the whole stream with all, and budgets are told", async () => {
  const grid = { data: [{ path: "synthetic", interactions: 4000 }], methods: ["dess-fre", "plain-bias"], seeds: 2 }
  const run = (job: Parameters<typeof runCell>[0]): Promise<CellOutcome> => runCell(job)
  const found = await sweep(grid, { price: ["0", "0.01"] }, { out: home, validation: 0.4, runCell: run })
  expect(found).toMatchObject({ measure: "accuracy", cut: 1600, interactions: 4000 })
  expect(found.tuned.map(({ method, budget, report }) => [method, budget, report?.seeds])).toEqual([
    ["dess-fre", 2, 2],
    ["plain-bias", 1, 2],
  ])
  expect(found.tuned.map(({ foreign }) => foreign)).toEqual([[], ["price"]])
  const tried = readResults(join(home, "validation"))
  expect(tried.map(({ cell, result }) => [cell.seed, result?.interactions])).toEqual([
    [1, 1600],
    [1, 1600],
    [1, 1600],
  ])
  const best = tried
    .filter(({ cell }) => cell.method.startsWith("dess-fre"))
    .sort((a, b) => (b.result?.accuracy ?? 0) - (a.result?.accuracy ?? 0))[0]
  expect(found.tuned[0].validation).toBe(best.result?.accuracy)
  expect(readResults(join(home, "report")).every(({ result }) => result?.interactions === 4000)).toBe(true)
}, 60_000)
