/** Cuts a stream into segments D_1 … D_T: a training part, then a test part, in order. The last may be shorter. */

import type { InteractionBatch, Segment } from "../types.ts"
import { checkRange, checkWhole } from "./check.ts"
import { emptyBatch } from "./columns.ts"

export interface SegmentOptions {
  length?: number
  /** The share of a segment that is for training: ⌊share · length⌋ rows, but at least one. */
  trainShare?: number
  /** Stop after this many interactions. */
  limit?: number
}

/** Segments of fresh arrays from batches of any length. */
export function cutSegments(
  batches: AsyncIterable<InteractionBatch> | Iterable<InteractionBatch>,
  options: SegmentOptions = {},
): AsyncGenerator<Segment, void, undefined> {
  const { length = 500, trainShare = 0.8, limit } = options
  checkWhole("segment length", length, 1)
  checkRange("train share", trainShare, [0, 1])
  if (limit !== undefined) checkWhole("limit", limit, 1)
  return cut(batches, { length, trainShare, limit: limit ?? Number.POSITIVE_INFINITY })
}

async function* cut(
  batches: AsyncIterable<InteractionBatch> | Iterable<InteractionBatch>,
  { length, trainShare, limit }: Required<SegmentOptions>,
): AsyncGenerator<Segment, void, undefined> {
  let rest = limit
  let index = 0
  let filled = 0
  let next = emptyBatch(Math.min(length, rest))
  for await (const batch of batches) {
    for (let from = 0; from < batch.length; ) {
      const rows = Math.min(batch.length - from, next.length - filled)
      copyRows(next, filled, { batch, from, rows })
      from += rows
      filled += rows
      if (filled < next.length) continue
      rest -= filled
      yield segmentOf(next, index++, trainShare)
      if (rest === 0) return
      filled = 0
      next = emptyBatch(Math.min(length, rest))
    }
  }
  if (filled === 0) return
  const last = emptyBatch(filled)
  copyRows(last, 0, { batch: next, from: 0, rows: filled })
  yield segmentOf(last, index, trainShare)
}

function copyRows(
  into: InteractionBatch,
  at: number,
  { batch, from, rows }: { batch: InteractionBatch; from: number; rows: number },
): void {
  into.user.set(batch.user.subarray(from, from + rows), at)
  into.item.set(batch.item.subarray(from, from + rows), at)
  into.rating.set(batch.rating.subarray(from, from + rows), at)
  into.timestamp.set(batch.timestamp.subarray(from, from + rows), at)
}

function segmentOf(batch: InteractionBatch, index: number, trainShare: number): Segment {
  // The crumb undoes roundings such as 0.29 · 100 = 28.999….
  return { ...batch, index, trainLength: Math.max(1, Math.floor(trainShare * batch.length + 1e-9)) }
}
