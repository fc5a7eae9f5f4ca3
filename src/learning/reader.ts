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
  /** Rows that are read where they lie, the turns their frame had been through, and the last segment whose items they hold. */
  rows?: { tables: Record<Side, SharedTable>; frame: SharedFrame; turns: number; through?: Int32Array | undefined }
}

/** Who asks: a user, known or not, and what it has done that rows may not hold yet. */
export interface Asker {
  user: number | undefined
  /** Known items liked after a segment, oldest first; those before it are in the user's row. */
  recent?: ((segment: number) => readonly number[]) | undefined
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
  /**
   * Where a user's latest items count before they are learned: what `scores`, or with items `scoresOf`, would give if those
   * that rows do not hold yet stood for the user.
   */
  readonly follow?: ((asker: Asker, items?: ArrayLike<number>) => Float32Array) | undefined
  /** What `scores` would give after somebody had done something with known items; nothing is kept of it. */
  preview?(asker: Asker, trials: readonly LabelledTrial[]): Float32Array
  /** Cosines between a known item and every item. */
  nearest(item: number): Float32Array
  /** Known users; in the order of their indices. */
  users(): Int32Array
  /** Cosines between a known user and some known users. */
  nearestUsers(user: number, others: Int32Array): Float32Array
}
