/** What a check is, and what all of them need. */

import { runStream } from "../learning/loop.ts"
import type { RunOptions } from "../learning/options.ts"
import type { SegmentReport } from "../learning/report.ts"
import { synthetic } from "../stream/synthetic/synthetic.ts"

/** A sentence that has to hold; `run` throws where it does not. */
export interface Check {
  name: string
  run(): void | Promise<void>
}

export const SEEDS = [1, 2, 3]

/** The figures of a short run, segment by segment, without its times. */
export async function figuresOf(options: RunOptions): Promise<(number | null)[][]> {
  const stream = synthetic({ interactions: 1200, users: 60, items: 80, seed: 3 })
  const figures: (number | null)[][] = []
  for await (const report of runStream(stream, { segment: 150, threads: 1, ...options })) figures.push(flat(report))
  return figures
}

function flat({ accuracy, loss, recall, ndcg, embeddingBytes, trainLoss }: SegmentReport): (number | null)[] {
  return [accuracy ?? null, loss ?? null, recall ?? null, ndcg ?? null, embeddingBytes, trainLoss]
}
