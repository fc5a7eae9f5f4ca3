/** What the loop drives: something that prepares itself for a segment, learns a batch and is tested on one. */

import type { ModelBatch, PassResult } from "../models/model.ts"
import type { Segment, Side } from "../types.ts"
import type { Outlook } from "./outlook.ts"

export interface SideStatus {
  /** Ids seen so far, in training or test rows. */
  seen: number
  /** Numbers held for them, and how many ids hold how many. */
  numbers: number
  histogram: Record<string, number>
}

export interface LearnerStatus {
  user: SideStatus
  item: SideStatus
  embeddingBytes: number
  heldBytes: number
}

/** What happened before the training step of a segment. */
export interface Preparation {
  /** Regret of this segment's round; undefined for a learner that makes no decisions. */
  regret?: Record<Side, number>
  /** Arms played in the round: how many, and how many of them grew. */
  played?: Record<Side, { all: number; grown: number }>
  /** Decisions taken: how many ids, and how many of them grew. */
  decided?: Record<Side, { all: number; grown: number }>
  milliseconds: { policy: number; growth: number }
}

/** Scores candidates for one user at a time, in the order of `items`. */
export interface Ranker {
  readonly items: Int32Array
  scores(user: number): Float64Array
  release(): void
}

export interface Learner {
  /** Steps 1 to 3 of method.md §3: learn the policy on the last segment, decide, grow. `deciding`: the rows whose ids are decided on. */
  prepare(segment: Segment, labels: Float64Array, deciding: number): Preparation
  train(batch: ModelBatch): PassResult
  test(batch: ModelBatch): PassResult
  /** Scores of candidate items, for as long as the learner does not train. */
  rank(items: readonly number[]): Ranker
  status(): LearnerStatus
  /** What its size policy thinks of every context, where it has one that says. */
  outlook?(): Outlook | undefined
  close(): void
}
