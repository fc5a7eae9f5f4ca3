/** Short streams that can be edited, and runs along them with the clock left out. */

import { runStream } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import type { RunResult, SegmentReport } from "../../src/learning/report.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import type { Stream } from "../../src/stream/stream.ts"
import { type SyntheticOptions, synthetic } from "../../src/stream/synthetic/synthetic.ts"
import type { InteractionBatch, ItemFeatures, Segment } from "../../src/types.ts"

export interface RecordedStream extends Stream {
  readonly interactions: number
  readonly features: ItemFeatures
  readonly batch: InteractionBatch
}

/** The embedded stream, written down. */
export function record(options: SyntheticOptions): RecordedStream {
  const { features, batches, interactions } = synthetic({ ...options, batchLength: options.interactions ?? 1 })
  const [batch] = batches()
  return streamOf({ ...batch, length: interactions }, features)
}

function streamOf(batch: InteractionBatch, features: ItemFeatures): RecordedStream {
  return { name: "recorded", interactions: batch.length, features, batch, batches: () => [batch] }
}

/** The same stream with some of its numbers changed; the original stays as it is. */
export function edit(stream: RecordedStream, change: (batch: InteractionBatch) => void): RecordedStream {
  const { length, user, item, rating, timestamp } = stream.batch
  const copy = {
    length,
    user: user.slice(),
    item: item.slice(),
    rating: rating.slice(),
    timestamp: timestamp.slice(),
  }
  change(copy)
  return streamOf(copy, stream.features)
}

export async function segmentsOf(stream: Stream, length: number): Promise<Segment[]> {
  const segments: Segment[] = []
  for await (const segment of cutSegments(stream.batches(), { length })) segments.push(segment)
  return segments
}

/** Runs to the end. One thread and small sizes unless told otherwise. */
export async function runAll(
  stream: Stream,
  options: RunOptions,
): Promise<{ reports: SegmentReport[]; result: RunResult }> {
  const run = runStream(stream, { threads: 1, sizes: [2, 4, 8], segment: 200, ...options })
  const reports: SegmentReport[] = []
  for (;;) {
    const { value, done } = await run.next()
    if (done) return { reports, result: value }
    reports.push(value)
  }
}

const CLOCK = new Set(["milliseconds", "interactionsPerSecond", "peakRssBytes"])

/** The text of what was measured, without what a clock or the machine says. */
export function untimed(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) => (CLOCK.has(key) ? undefined : inner))
}
