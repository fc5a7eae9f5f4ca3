/**
 * The reading side of a live learner. A learner publishes versions; a reader, on another thread, scores with the last
 * one. What a version keeps of its items is written straight into the reader's working memory (a region). The rest is
 * small, or has changed little since the version before, and is sent.
 */

import type { StateArray } from "../kernels/state.ts"
import type { SharedFrame } from "../models/calibrated/frame.ts"
import type { SharedTable } from "../models/embedding-table.ts"
import type { Side } from "../types.ts"

/** A stretch of memory that writer and reader see: `floats[at]` to `floats[at + length − 1]`. */
export interface SharedRegion {
  floats: Float32Array
  at: number
  length: number
}

/** A version, but for what stands in the region. */
export interface Published {
  /** Items that can be scored; scores come in this order. Left out where rows are read where they lie. */
  items?: Int32Array
  arrays: Record<string, StateArray>
  /** Rows that are read where they lie, and the turns their frame had been through. */
  rows?: { tables: Record<Side, SharedTable>; frame: SharedFrame; turns: number }
}

export interface LabelledTrial {
  item: number
  /** 0 or 1; several outputs: the class. */
  label: number
}

export interface Reader {
  /** Items of the version. */
  readonly items: Int32Array
  /** Logits per pair. */
  readonly outputs: number
  /** What is kept of items for scoring them. */
  readonly packedBytes: number
  /** Reserves a region of so many numbers or more. */
  reserve(length: number): SharedRegion
  /** Goes over to a version written to a region. */
  apply(published: Published, region: SharedRegion): void
  knows(side: Side, id: number): boolean
  /** Logits [items×outputs] of a known user and every item. */
  scores(user: number): Float32Array
  /** Logits [items×outputs] of a known user and some known items. */
  scoresOf(user: number, items: ArrayLike<number>): Float32Array
  /** What `scores` would give after a user, known or not, had done something with known items; nothing is kept of it. */
  preview?(user: number | undefined, trials: readonly LabelledTrial[]): Float32Array
  /** Cosines between a known item and every item. */
  nearest(item: number): Float32Array
  /** Known users; in the order of their indices. */
  users(): Int32Array
  /** Cosines between a known user and some known users. */
  nearestUsers(user: number, others: Int32Array): Float32Array
}
