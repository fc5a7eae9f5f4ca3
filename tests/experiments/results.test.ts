/** The results folder: what survives a kill, and what is refused. */

import { appendFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { RESULTS_FILE, ResultsFolder, readResults } from "../../src/experiments/results.ts"
import { SeriesRecorder } from "../../src/experiments/series.ts"
import type { SegmentReport } from "../../src/learning/report.ts"
import { makeRecord } from "../support/experiments.ts"

const FOLDER = mkdtempSync(join(tmpdir(), "dess-results-"))
afterAll(() => rmSync(FOLDER, { recursive: true }))

const fresh = () => mkdtempSync(join(FOLDER, "r-"))
const fileOf = (folder: string) => join(folder, RESULTS_FILE)

/** A folder with two finished cells. */
function filled(): string {
  const directory = fresh()
  const folder = new ResultsFolder(directory)
  for (const seed of [1, 2]) folder.append(makeRecord({ method: "dess-fre", seed, value: 0.6 }))
  folder.close()
  return directory
}

test("records come back as they were written, the later of a cell in place of the earlier", () => {
  const directory = filled()
  const records = readResults(directory)
  expect(records).toEqual([1, 2].map((seed) => makeRecord({ method: "dess-fre", seed, value: 0.6 })))
  const folder = new ResultsFolder(directory)
  folder.append({ ...records[0], status: "failed", message: "no luck" })
  folder.close()
  expect(readResults(directory).map(({ cell, status }) => [cell.seed, status])).toEqual([
    [2, "done"],
    [1, "failed"],
  ])
})

test("a last line cut off anywhere is dropped, and the file goes on from the last whole line", () => {
  const whole = readFileSync(fileOf(filled()))
  const first = whole.indexOf(10) + 1
  for (const length of [first + 1, first + 57, whole.length - 2, whole.length - 1]) {
    const directory = fresh()
    writeFileSync(fileOf(directory), whole.subarray(0, length))
    expect(readResults(directory)).toHaveLength(1)
    expect(readFileSync(fileOf(directory))).toHaveLength(length)
    const folder = new ResultsFolder(directory)
    expect(folder.records.size).toBe(1)
    folder.append(makeRecord({ method: "dess-fre", seed: 2, value: 0.6 }))
    folder.close()
    expect(readFileSync(fileOf(directory))).toEqual(whole)
  }
})

test("a line in the middle that is no record is refused with its number", () => {
  const directory = filled()
  for (const line of ["{half", "17", '{"key":"x"}']) {
    const text = readFileSync(fileOf(filled()), "utf8")
    writeFileSync(fileOf(directory), `${line}\n${text}`)
    expect(() => readResults(directory)).toThrow(/results\.jsonl line 1: expected a record of dess compare, got/)
    expect(() => new ResultsFolder(directory)).toThrow(/line 1/)
  }
})

test("a folder of another version, one without results and one that cannot be written are refused", () => {
  const directory = filled()
  appendFileSync(
    fileOf(directory),
    `${JSON.stringify({ ...makeRecord({ method: "x", value: 1 }), version: "0.0.9" })}\n`,
  )
  const refusal = /expected results of dess \d+\.\d+\.\d+\S*, got "0\.0\.9"; choose another folder/
  expect(() => readResults(directory)).toThrow(refusal)
  expect(() => new ResultsFolder(directory)).toThrow(refusal)
  expect(() => new ResultsFolder(directory)).toThrow(refusal)
  expect(() => readResults(fresh())).toThrow(/results folder: expected results\.jsonl of dess compare in it/)
  writeFileSync(join(directory, "file"), "")
  expect(() => new ResultsFolder(join(directory, "file", "deeper"))).toThrow(/expected one that can be written/)
})

test("one comparison at a time writes; a lock left by a dead process is taken over", () => {
  const directory = filled()
  const folder = new ResultsFolder(directory)
  expect(() => new ResultsFolder(directory)).toThrow(/one dess compare at a time, got process \d+ at work/)
  folder.close()
  writeFileSync(join(directory, "lock"), "4194399")
  new ResultsFolder(directory).close()
})

test.runIf(process.platform === "linux")("a full disk is told as such", () => {
  const directory = fresh()
  symlinkSync("/dev/full", fileOf(directory))
  const folder = new ResultsFolder(directory)
  const append = () => folder.append(makeRecord({ method: "dess-fre", value: 0.6 }))
  expect(append).toThrow(/got a full disk; finished cells are kept, free some space and run the same command again/)
  folder.close()
})

test("a series has at most 200 points, with rates weighted by test rows and counts at their ends", () => {
  const recorder = new SeriesRecorder()
  for (let t = 1; t <= 401; t++)
    recorder.add({
      interactions: 10 * t,
      testRows: t % 2 === 1 ? 3 : 1,
      testUsers: 0,
      accuracy: t % 2,
      loss: 0.25,
      meanSize: { user: t, item: 2 },
      embeddingBytes: 8 * t,
      rowBytes: { user: 3 * t, item: 5 * t },
      regret: t < 3 ? null : { user: t, item: 0 },
    } as SegmentReport)
  const series = recorder.series()
  expect(series.interactions).toHaveLength(134)
  expect(series.interactions.slice(0, 2)).toEqual([30, 60])
  expect(series.interactions.at(-1)).toBe(4010)
  expect(series.accuracy?.[0]).toBeCloseTo(6 / 7, 5)
  expect(series.accuracy?.[1]).toBeCloseTo(3 / 5, 5)
  expect(series.userSize[1]).toBe(6)
  expect(series.userRegret?.slice(0, 2)).toEqual([3, 6])
  expect(series.recall).toBeUndefined()
  expect(recorder.series(500).userRegret?.slice(0, 3)).toEqual([0, 0, 3])
})
