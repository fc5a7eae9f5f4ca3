/** A run that is saved, loaded into a fresh one and continued goes on to the same bits. */

import { describe, expect, test } from "vitest"
import { hashState } from "../../src/engine/safetensors.ts"
import { State } from "../../src/kernels/state.ts"
import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import type { SegmentReport } from "../../src/learning/report.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"
import type { Segment } from "../../src/types.ts"
import { copyState } from "../support/states.ts"

const LIVE = { testUsers: 4, smallestBatch: 32, remembered: 100 }
const stream = synthetic({ interactions: 1500, users: 60, items: 90, seed: 5 })

/** Segments of many lengths, a single row among them, with a time each. */
async function segments(): Promise<Segment[]> {
  const found: Segment[] = []
  for await (const segment of cutSegments(stream.batches(), { length: 120 })) {
    const cuts = found.length % 3 === 1 ? [0, 1, 20, segment.length] : [0, segment.length]
    for (let c = 0; c + 1 < cuts.length; c++) {
      const [from, to] = [cuts[c], cuts[c + 1]]
      const part = {
        user: segment.user.slice(from, to),
        item: segment.item.slice(from, to),
        rating: segment.rating.slice(from, to),
        timestamp: segment.timestamp.slice(from, to),
      }
      const index = found.length
      found.push({
        ...part,
        length: to - from,
        index,
        trainLength: to - from,
        time: 1_700_000_000_000 + index * 60_000,
      })
    }
  }
  return found
}

function open(options: RunOptions): Run {
  const run = new Run({ ...options, protocol: "prequential", threads: 1, live: LIVE }, stream.features)
  run.learner.live?.limit({ shrinkAfter: 240_000, leaveAfter: 900_000 }, 500)
  return run
}

function saved(run: Run): State {
  const state = new State()
  run.save(state)
  return state
}

/** A report without what time it took. */
function plain(report: SegmentReport) {
  const { milliseconds: _, ...rest } = report
  return rest
}

const METHODS = [
  "dess-cv",
  "dess-fre",
  "dess-fre-cold",
  "esapn",
  "random-grow",
  "never-grow",
  "always-grow",
  "uniform-8",
  "fixed-8",
]
const cases = METHODS.flatMap((method) =>
  (["binary", "multiclass", "topk"] as const).flatMap((task) =>
    (method === "dess-cv"
      ? (["ncf", "mf", "distance"] as const)
      : method === "esapn"
        ? (["ncf"] as const)
        : (["ncf", "mf"] as const)
    ).map((model) => ({
      method,
      task,
      model,
    })),
  ),
)

describe("a saved run, loaded into a fresh one, gives the same reports and the same state to the bit", () => {
  test.each(cases)("$method, $task, $model", async (options) => {
    const all = (await segments()).slice(0, 14)
    const run = open({ ...options, sizes: [2, 4, 8], seed: 3 })
    for (const segment of all.slice(0, 8)) run.step(segment)
    run.forget("user", new Set([all[7].user[0], all[3].user[1]]))
    const state = copyState(saved(run))
    const other = open({ ...options, sizes: [2, 4, 8], seed: 3 })
    other.load(state)
    expect(hashState(saved(other))).toBe(hashState(saved(run)))
    for (const segment of all.slice(8)) {
      expect(plain(other.step(segment))).toEqual(plain(run.step(segment)))
      expect(other.left).toEqual(run.left)
    }
    expect(hashState(saved(other))).toBe(hashState(saved(run)))
    run.close()
    other.close()
  })
})

describe("a run that is not measured, with or without its other threads, gives the same state to the bit", () => {
  test.each([
    { model: "ncf", task: "topk" },
    { model: "mf", task: "topk" },
    { model: "ncf", task: "binary" },
  ] as const)("$model, $task", async (options) => {
    const all = (await segments()).slice(0, 14)
    const [run, quick] = [1, 2].map((threads) => {
      const one = new Run({ ...options, method: "dess-fre", protocol: "prequential", threads, live: LIVE })
      one.learner.live?.limit({ leaveAfter: 900_000 }, 500)
      return one
    })
    let [tested, alsoTested] = [0, 0]
    all.forEach((segment, s) => {
      if (quick.learner.live) quick.learner.live.alone = s % 2 === 0
      tested += run.step(segment).testRows
      alsoTested += quick.step(segment, { unmeasured: s < 9 }).testRows
    })
    if (options.task === "topk") expect(alsoTested).toBeLessThan(tested)
    expect(hashState(saved(quick))).toBe(hashState(saved(run)))
    run.close()
    quick.close()
  })
})

test("a state of other options is refused", async () => {
  const run = open({ method: "dess-fre", sizes: [2, 4, 8] })
  const [first] = await segments()
  run.step(first)
  const other = open({ method: "dess-fre", sizes: [2, 4, 16] })
  expect(() => other.load(copyState(saved(run)))).toThrow(/state .*expected/)
  run.close()
  other.close()
})

test("soft methods and plain controls say that they cannot be saved", () => {
  for (const method of ["darts", "plain-bias"]) {
    const run = new Run({ method, live: LIVE, threads: 1 })
    expect(() => saved(run)).toThrow(/method: expected one that can be saved/)
    run.close()
  }
})
