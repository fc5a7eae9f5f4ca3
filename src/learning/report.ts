/** What a run reports: one report per segment, and the figures of the whole. Every number is defined in docs/method.md. */

import type { Side } from "../types.ts"

export interface Milliseconds {
  policy: number
  growth: number
  train: number
  inference: number
}

/**
 * Rating tasks have accuracy and loss, the top-k task recall and ndcg; null where nothing was tested. Beside them what
 * they are to be compared with: always the majority class, or one list for all users of what most have met.
 */
export interface Measures {
  accuracy?: number | null
  loss?: number | null
  majorityAccuracy?: number | null
  recall?: number | null
  ndcg?: number | null
  popularRecall?: number | null
  popularNdcg?: number | null
  k?: number
}

export interface SegmentReport extends Measures {
  /** From 1. */
  segment: number
  /** So far. */
  interactions: number
  testRows: number
  testUsers: number
  trainLoss: number
  /** Per seen id. */
  meanSize: Record<Side, number>
  /** Held in all vectors; some models have two of its size for an id. */
  numbers: Record<Side, number>
  sizeHistogram: Record<Side, Record<string, number>>
  embeddingBytes: number
  /** What rows take, in the bits they have, with everything that stands in them. */
  rowBytes: Record<Side, number>
  heldBytes: number
  /** So far; null for methods that decide nothing. */
  regret: Record<Side, number> | null
  /** In this segment: arms played while learning, and ids decided on. */
  played: Record<Side, { all: number; grown: number }> | null
  decided: Record<Side, { all: number; grown: number }> | null
  milliseconds: Milliseconds
}

export interface RunResult extends Measures {
  interactions: number
  segments: number
  lastQuarter: Measures
  embeddingBytes: number
  /** Mean over the segments. */
  embeddingBytesOverTime: Record<Side, number>
  /** At the end, both sides, and the mean over the segments. */
  rowBytes: number
  rowBytesOverTime: Record<Side, number>
  heldBytes: number
  /** Bytes at the end: rows, what is kept of ids beside them, and what users have met, where the task keeps it. */
  memory: { rows: number; indicators: number; met: number }
  meanSize: Record<Side, number>
  meanSizeOverTime: Record<Side, number>
  sizeHistogram: Record<Side, Record<string, number>>
  regret: Record<Side, number> | null
  /** Share of the arms played that were "grow". */
  growShare: Record<Side, number> | null
  /** Mean per segment, the first segments (warm-up) left out. */
  milliseconds: Milliseconds
  interactionsPerSecond: number
}
