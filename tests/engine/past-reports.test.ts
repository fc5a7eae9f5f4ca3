/** Charts after a restart: the last reports are kept in snapshots. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { PastReports } from "../../src/engine/past-reports.ts"
import type { LiveReport } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"

const folder = mkdtempSync(join(tmpdir(), "dess-reports-"))
beforeAll(buildCommand)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function lastReports(recommender: Recommender, count: number): Promise<LiveReport[]> {
  const heard: LiveReport[] = []
  for await (const report of recommender.reports(undefined, { last: count })) if (heard.push(report) === count) break
  return heard
}

test("the last reports are there after a restart, and new ones follow them", { timeout: 60_000 }, async () => {
  const directory = join(folder, "kept")
  const open = () => Recommender.open({ directory, sizes: [2, 4], threads: 1, segment: 100, seed: 4 })
  const random = new Random(1, "past reports test")
  const events = () =>
    Array.from({ length: 500 }, () => ({ user: `u${random.integer(30)}`, item: `i${random.integer(40)}` }))
  const first = await open()
  await first.observe(events())
  await first.drain()
  const before = await lastReports(first, 5)
  await first.close()

  const second = await open()
  const after = await lastReports(second, 5)
  expect(after.map(({ segment, interactions, time }) => ({ segment, interactions, time }))).toEqual(
    before.map(({ segment, interactions, time }) => ({ segment, interactions, time })),
  )
  // What the policy thinks, of the newest only.
  expect(before.map(({ outlook }) => outlook !== null)).toEqual([false, false, false, false, true])
  expect(after.map(({ outlook }) => outlook?.frequencies)).toEqual(before.map(({ outlook }) => outlook?.frequencies))
  for (const [i, { trainLoss }] of after.entries()) expect(trainLoss).toBeCloseTo(before[i].trainLoss, 5)
  await second.observe(events())
  await second.drain()
  expect((await lastReports(second, 10)).map(({ segment }) => segment)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  await second.close()
})

test("a snapshot has the newest 300 of them, in less than 60 kB", () => {
  const random = new Random(2, "past reports test")
  const past = new PastReports()
  const sizes = () => Object.fromEntries([0, 2, 4, 8, 16, 32, 64, 128].map((size) => [size, random.integer(5000)]))
  for (let segment = 1; segment <= 400; segment++)
    past.push({
      ...{ segment, interactions: 500 * segment, trainLoss: random.next(), recall: random.next() },
      ...{ ndcg: random.next(), popularRecall: random.next(), popularNdcg: random.next(), time: 1.7e12 + segment },
      sizeHistogram: { user: sizes(), item: sizes() },
    } as unknown as LiveReport)
  const saved = past.save()
  expect(saved.length).toBeLessThan(60_000)
  const taken = new PastReports()
  taken.load(saved)
  expect(taken.last(1000).map(({ segment }) => segment)).toEqual(Array.from({ length: 300 }, (_, i) => 101 + i))
})
