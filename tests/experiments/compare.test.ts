/** A comparison from the inside: who waits for whom, what is kept, what is tried again. The runs are make-believe. */

import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, test } from "vitest"
import type { CellJob, CellOutcome } from "../../src/experiments/cell-run.ts"
import { runCell } from "../../src/experiments/cell-run.ts"
import { expandGrid } from "../../src/experiments/cells.ts"
import { type CompareOptions, compare } from "../../src/experiments/compare.ts"
import { completeGrid, type Grid } from "../../src/experiments/grid.ts"
import type { CellRunner } from "../../src/experiments/processes.ts"
import { buildReport } from "../../src/experiments/report.ts"
import { RESULTS_FILE, readResults } from "../../src/experiments/results.ts"
import { makeRecord } from "../support/experiments.ts"

const FOLDER = mkdtempSync(join(tmpdir(), "dess-compare-"))
afterAll(() => rmSync(FOLDER, { recursive: true }))

const GRID: Grid = { methods: ["fixed-8", "dess-fre"], seeds: 2, sizes: [2, 4] }

/** Pretends to run; notes who was run and how many at a time. */
function pretend(outcome: (job: CellJob) => CellOutcome | Promise<CellOutcome> = succeed) {
  const seen = { jobs: [] as CellJob[], atOnce: 0, most: 0 }
  const runner: CellRunner = async (job) => {
    seen.jobs.push(job)
    seen.most = Math.max(seen.most, ++seen.atOnce)
    await new Promise((resolve) => setTimeout(resolve, 1))
    seen.atOnce--
    return outcome(job)
  }
  return { seen, runner }
}

function succeed({ cell, reference }: CellJob): CellOutcome {
  const bytes = 1000 + cell.seed
  const { result, series } = makeRecord({ method: cell.method, seed: cell.seed, value: 0.6, bytes })
  const probability = { user: 0.1, item: 0.1 }
  const match = reference && { method: reference.method, probability, targetBytes: reference.bytes.user * 2, bytes: 1 }
  return { status: "done", result, series, ...(match ? { match } : {}) }
}

const run = (runner: CellRunner, options: CompareOptions = {}, grid = GRID) =>
  compare(grid, { runCell: runner, ...options })

describe("a comparison", () => {
  test("runs every cell once, as many at a time as asked for, and returns them in the grid's order", async () => {
    for (const jobs of [1, 3, 64]) {
      const { seen, runner } = pretend()
      const { records, cells, computed, kept, interrupted } = await run(runner, { jobs })
      expect(records.map(({ cell }) => [cell.method, cell.seed])).toEqual(
        expandGrid(completeGrid(GRID)).map(({ method, seed }) => [method, seed]),
      )
      expect({ cells, computed, kept, interrupted }).toEqual({
        cells: records.length,
        computed: records.length,
        kept: 0,
        interrupted: false,
      })
      expect(seen.most).toBe(Math.min(jobs, seen.most))
      expect(seen.most).toBeGreaterThan(jobs === 1 ? 0 : 1)
    }
  })

  test("gives random-grow the memory of the same seed's first DESS run, which it waits for", async () => {
    const slowDess = pretend(async (job) => {
      if (job.cell.method.startsWith("dess")) await new Promise((resolve) => setTimeout(resolve, 30))
      return succeed(job)
    })
    const { records } = await run(slowDess.runner, { jobs: 16 })
    const matched = slowDess.seen.jobs.filter(({ cell }) => cell.method === "random-grow")
    expect(matched.map(({ cell, reference }) => [cell.seed, reference])).toEqual([
      [1, { method: "dess-fre", bytes: { user: 1001 / 4, item: 1001 / 4 } }],
      [2, { method: "dess-fre", bytes: { user: 1002 / 4, item: 1002 / 4 } }],
    ])
    expect(records.filter(({ match }) => match).map(({ match }) => match?.method)).toEqual(["dess-fre", "dess-fre"])
  })

  test("matches the next DESS method where the first cannot work on the data, and does not count that as a failure", async () => {
    const grid: Grid = { ...GRID, methods: ["dess-cv", "dess-fre"], seeds: 1 }
    const noFeatures = pretend((job) =>
      job.cell.method === "dess-cv" ? { status: "unsupported", message: "no features" } : succeed(job),
    )
    const out = join(FOLDER, "unsupported")
    const { records } = await run(noFeatures.runner, { out }, grid)
    expect(records.find(({ cell }) => cell.method === "random-grow")?.match?.method).toBe("dess-fre")
    expect(records.map(({ status }) => status).filter((status) => status !== "done")).toEqual(["unsupported"])
    const again = pretend()
    expect(await run(again.runner, { out }, grid)).toMatchObject({ computed: 0, kept: records.length })
    const alone = await run(noFeatures.runner, {}, { ...grid, methods: ["dess-cv"] })
    expect(alone.records.find(({ cell }) => cell.method === "random-grow")?.status).toBe("unsupported")
  })

  test("records a failure with its message, lets the others go on, and tries it again the next time", async () => {
    const out = join(FOLDER, "failing")
    const bad = pretend((job) => {
      if (job.cell.method === "dess-fre" && job.cell.seed === 2) throw new Error("no luck")
      return job.cell.method === "fixed-8" ? { status: "failed", message: "never" } : succeed(job)
    })
    const first = await run(bad.runner, { out, jobs: 2 })
    const failures = first.records.filter(({ status }) => status === "failed")
    expect(failures.map(({ cell, message }) => [cell.method, cell.seed, message])).toEqual([
      ["fixed-8", 1, "never"],
      ["fixed-8", 2, "never"],
      ["dess-fre", 2, "no luck"],
      ["random-grow", 2, "the run it is to be matched with, dess-fre, failed"],
    ])
    const good = pretend()
    const kept: string[] = []
    const second = await run(good.runner, {
      out,
      onCell: (record, wasKept) => {
        if (wasKept) kept.push(record.key)
      },
    })
    expect(good.seen.jobs).toHaveLength(4)
    expect(second).toMatchObject({ computed: 4, kept: first.records.length - 4 })
    expect(kept).toHaveLength(second.kept)
    expect(second.records.every(({ status }) => status === "done")).toBe(true)
  })

  test("runs anew what a build ran that learns otherwise, and the report says where runs of two stand together", async () => {
    const out = join(FOLDER, "builds")
    const { records } = await run(pretend().runner, { out })
    const { learning } = records[0].provenance?.versions ?? {}
    expect(learning).toMatch(/^\d+$/)
    const lines = readFileSync(join(out, RESULTS_FILE), "utf8").trimEnd().split("\n")
    const [first, second, ...rest] = lines.map((line) => JSON.parse(line))
    first.provenance.versions.learning = "1"
    // Kept before it was written down.
    delete second.provenance.versions.learning
    writeFileSync(
      join(out, RESULTS_FILE),
      [first, second, ...rest].map((record) => `${JSON.stringify(record)}\n`).join(""),
    )
    expect(buildReport(readResults(out), { figures: false }).facts[0]).toMatch(
      new RegExp(`learning 1 and ${learning} and unknown: builds that learn differently`),
    )
    const again = pretend()
    expect(await run(again.runner, { out })).toMatchObject({ computed: 1, kept: lines.length - 1 })
    expect(again.seen.jobs.map(({ cell }) => [cell.method, cell.seed])).toEqual([[first.cell.method, first.cell.seed]])
    expect(buildReport(records, { figures: false }).facts[0]).toMatch(new RegExp(`, learning ${learning}\\.$`))
  })

  test("stops at once when aborted, keeps what is finished and goes on from there", async () => {
    const out = join(FOLDER, "stopped")
    const controller = new AbortController()
    const hanging: CellRunner = (job, { signal }) => {
      if (job.cell.method !== "plain-bias") return Promise.resolve(succeed(job))
      return new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve({ status: "failed", message: "killed" }))
        setTimeout(() => controller.abort(), 20)
      })
    }
    const first = await run(hanging, { out, jobs: 1, signal: controller.signal })
    expect(first.interrupted).toBe(true)
    expect(first.records.map(({ cell }) => cell.method)).toEqual(["fixed-8", "dess-fre", "fixed-128", "fixed-222"])
    const { runner } = pretend()
    expect(await run(runner, { out })).toMatchObject({ kept: 4, interrupted: false })
    const lines = readFileSync(join(out, RESULTS_FILE), "utf8").trimEnd().split("\n")
    expect(lines).toHaveLength(first.cells)
  })

  test.runIf(process.platform === "linux")(
    "ends with a clear error when the disk is full, and starts nothing more",
    async () => {
      const out = mkdtempSync(join(FOLDER, "full-"))
      symlinkSync("/dev/full", join(out, RESULTS_FILE))
      const { seen, runner } = pretend()
      await expect(run(runner, { out, jobs: 2 })).rejects.toThrow(
        /results folder .*: expected room .*, got a full disk/,
      )
      expect(seen.jobs).toHaveLength(2)
      expect(existsSync(join(out, "lock"))).toBe(false)
    },
  )

  test("refuses jobs and threads that are no counts", async () => {
    const { runner } = pretend()
    await expect(run(runner, { jobs: 0 })).rejects.toThrow("jobs: expected a whole number from 1, got 0")
    await expect(run(runner, { threads: 1.5 })).rejects.toThrow("threads: expected a whole number from 1, got 1.5")
  })
})

test("a matched random-grow comes within 2 % of the bytes it is to have", async () => {
  const grid: Grid = {
    methods: ["dess-fre"],
    data: [{ path: "synthetic", interactions: 4000 }],
    seeds: 1,
    sizes: [2, 4, 8],
    segment: 200,
    recipes: ["paper"],
  }
  const cells = expandGrid(completeGrid(grid))
  const cellOf = (method: string) => cells.find((cell) => cell.method === method)!
  const dess = await runCell({ cell: cellOf("dess-fre"), threads: 1 })
  if (dess.status !== "done") throw new Error("expected a finished run")
  const reference = { method: "dess-fre", bytes: dess.result.embeddingBytesOverTime }
  const random = await runCell({ cell: cellOf("random-grow"), threads: 1, reference })
  if (random.status !== "done" || !random.match) throw new Error("expected a matched run")
  expect(random.match.targetBytes).toBe(reference.bytes.user + reference.bytes.item)
  expect(Math.abs(random.match.bytes / random.match.targetBytes - 1)).toBeLessThan(0.02)
  for (const side of ["user", "item"] as const)
    expect(Math.abs(random.result.embeddingBytesOverTime[side] / reference.bytes[side] - 1)).toBeLessThan(0.02)
})
