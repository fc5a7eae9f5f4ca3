/** What a run reports: one report per segment, and the figures of the whole. Every number is defined in docs/method/method.md. */

import type { Side } from "../types.ts"

export interface Milliseconds {
  policy: number
  growth: number
  train: number
  inference: number
}

/**
 * Rating tasks have accuracy and loss, the top-k task recall and ndcg; null where nothing was tested. Beside them what
 * they are to be compared with: always the majority class, or one list for all users of what most have met; and the most
 * that recall can be, as a list of k cannot hold more than k of a user's items.
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
  recallCeiling?: number | null
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

/** Lists of length k, one for every target; hr, ndcg and mrr are means over targets, `users` over users' means. */
export interface NextQuality {
  hr: number
  ndcg: number
  mrr: number
  users: { hr: number; ndcg: number; mrr: number }
  /** Share of the items that stand in some list. */
  coverage: number
  /** Share of the places in lists that items outside the most popular fifth at the cut have. */
  tail: number
}

/** Protocol next: parameters as at the cut, and learning on. */
export interface NextResult {
  events: number
  users: number
  items: number
  targets: number
  every: number
  frozen: NextQuality
  online: NextQuality
}

export interface RunResult extends Measures {
  /** Protocol next; recall and ndcg are the online ones then. */
  next?: NextResult
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
  /** Share of the loss of biases alone that vectors save lately; rating prediction with a search. */
  vectorsSave?: number
  /** Share of the arms played that were "grow". */
  growShare: Record<Side, number> | null
  /** Mean per segment, the first segments (warm-up) left out. */
  milliseconds: Milliseconds
  interactionsPerSecond: number
}
