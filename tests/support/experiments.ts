/** Records of runs that never were, for tests of what is made of them. */

import type { RunSummary } from "../../src/experiments/cell-run.ts"
import { type Cell, cellKey } from "../../src/experiments/cells.ts"
import { type DoneRecord, packageVersion } from "../../src/experiments/results.ts"
import type { Series } from "../../src/experiments/series.ts"
import type { Task } from "../../src/types.ts"

export interface Made {
  method: string
  data?: string
  task?: Task
  model?: Cell["model"]
  seed?: number
  /** Accuracy, or recall. */
  value: number
  bytes?: number
  /** random-grow: what it was matched with. */
  match?: string
  /** Where it departs from the tests' setting. */
  setting?: Partial<Cell["setting"]>
}

/** A cell in the tests' setting. */
export function makeCell(made: Omit<Made, "value">): Cell {
  const { method, data = "toy", task = "binary", model = "ncf", seed = 1, match, setting } = made
  return {
    data: { name: data, path: `/nowhere/${data}`, bytes: 1 },
    task,
    model,
    method,
    seed,
    ...(match === undefined ? {} : { match: [match] }),
    setting: {
      preset: "paper",
      recipe: "paper",
      protocol: "split",
      order: "time",
      segment: 500,
      sizes: [2, 4],
      k: 10,
      negatives: 4,
      limit: null,
      ...setting,
    },
  }
}

/** A finished run with the given measure; everything else follows from it. */
export function makeRecord(made: Made): DoneRecord {
  const cell = makeCell(made)
  const { value, bytes = 1000, match } = made
  const decides = /^dess-|-grow$/.test(cell.method)
  const measures =
    cell.task === "topk" ? { recall: value, ndcg: value / 2, k: 10 } : { accuracy: value, loss: 1 - value }
  const result: RunSummary = {
    ...{ method: cell.method, preset: "paper", recipe: "paper", task: cell.task, model: cell.model },
    ...{ protocol: "split", order: "time", seed: cell.seed, data: cell.data.name },
    interactions: 10_000,
    segments: 20,
    ...measures,
    ...(cell.task === "topk" ? {} : { majorityAccuracy: 0.5 }),
    lastQuarter: measures,
    embeddingBytes: bytes,
    embeddingBytesOverTime: { user: bytes / 4, item: bytes / 4 },
    rowBytes: bytes,
    rowBytesOverTime: { user: bytes / 4, item: bytes / 4 },
    heldBytes: 3 * bytes,
    memory: { rows: 0, indicators: 0, met: 0 },
    meanSize: { user: 3, item: 2.5 },
    meanSizeOverTime: { user: 2.5, item: 2.2 },
    sizeHistogram: { user: { 2: 1, 4: 1 }, item: { 2: 3, 4: 1 } },
    regret: decides ? { user: 120, item: 60 } : null,
    growShare: decides ? { user: 0.5, item: 0.5 } : null,
    milliseconds: { policy: decides ? 2 : 0, growth: 1, train: 5, inference: 0.5 },
    interactionsPerSecond: 20_000,
    peakRssBytes: 1e8,
  }
  return {
    key: cellKey(cell),
    version: packageVersion(),
    status: "done",
    cell,
    milliseconds: 1000,
    machine: "a machine",
    result,
    series: makeSeries(value, cell.task, decides),
    ...(match === undefined
      ? {}
      : { match: { method: match, probability: { user: 0.1, item: 0.1 }, targetBytes: bytes / 2, bytes: bytes / 2 } }),
  }
}

function makeSeries(value: number, task: Task, decides: boolean): Series {
  const steps = Array.from({ length: 20 }, (_, i) => i + 1)
  const rate = steps.map((i) => value - 0.1 / i)
  return {
    interactions: steps.map((i) => 500 * i),
    ...(task === "topk" ? { recall: rate, ndcg: rate } : { accuracy: rate, loss: rate.map((y) => 1 - y) }),
    userSize: steps.map((i) => (decides ? 2 + i / 20 : 3)),
    itemSize: steps.map((i) => (decides ? 2 + i / 40 : 2.5)),
    embeddingBytes: steps.map((i) => 50 * i),
    ...(decides ? { userRegret: steps.map((i) => 6 * i), itemRegret: steps.map((i) => 3 * i) } : {}),
  }
}

/** The same for several seeds; the value of each is given. */
export function makeRecords(made: Omit<Made, "value" | "seed">, values: readonly number[]): DoneRecord[] {
  return values.map((value, i) => makeRecord({ ...made, value, seed: i + 1 }))
}
