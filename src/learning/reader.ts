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

/** A version, except what is in the shared region. */
export interface Published {
  /** Items that can be scored; scores come in this order. Left out where rows are read where they lie. */
  items?: Int32Array
  arrays: Record<string, StateArray>
  /**
   * Rows that are read where they lie, what is counted of items beside them, the turns their frame had been through, and the
   * last segment whose items they hold.
   */
  rows?: {
    tables: Record<Side, SharedTable>
    neighbours?: SharedTable
    frame: SharedFrame
    turns: number
    through?: Int32Array | undefined
  }
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
  /** Whether the item may still be recommended. */
  stays?: boolean
}

/** What raises an item's logit above the mean of other items. */
export interface ItemLifts {
  /** The mean logit of other items, without what neighbours say. */
  base: number
  /** Whether the item has a row; without one nothing raises it. */
  isKnown: boolean
  /** The user's own vector. */
  taste: number
  /** What each of the latest items says. */
  latest: { item: number; lift: number }[]
  neighbours: number
  /** How near it is to each of the latest items. */
  near: { item: number; lift: number }[]
  /** The item's bias. */
  popularity: number
  /** Whether it is scored by how likely the user is to come back to it. */
  again: boolean
}

export interface Powers {
  top: number
  sum: number
  maxima: Float32Array
}

export interface Reader {
  /** Items of the version. */
  readonly items: Int32Array
  /** Logits per pair. */
  readonly outputs: number
  /** What is kept of items for scoring them. */
  readonly packedBytes: number
  /** Reserves a region of this many numbers or more. */
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
   * that rows do not hold yet stood for the user. Of all items a view until the next call.
   */
  readonly follow?: ((asker: Asker, items?: ArrayLike<number>) => Float32Array) | undefined
  /** Why some known items are ranked up for a user, where the model can say. */
  readonly lifts?: ((asker: Asker, items: readonly number[]) => ItemLifts[]) | undefined
  /** Logits of a user's latest items that are not in the version, where users come back to items. */
  comeBack?(asker: Asker): Map<number, number>
  /** What `scores` would give after hypothetical events with known items; nothing is kept. */
  preview?(asker: Asker, trials: readonly LabelledTrial[]): Float32Array
  /** Of logits, the largest of all and of every 16, and Σ e^(logit − the largest): a view until the next call. There with `follow`. */
  sumPowers?(logits: Float32Array): Powers
  /** Cosines between a known item and every item, or some known ones. */
  nearest(item: number, others?: Int32Array): Float32Array
  /** The same among a few known items, whose vectors are read once: from one's place among them to its cosines. */
  among?(items: Int32Array): (place: number) => Float32Array
  /** How likely items are met soon after an item, of those that were more than once; where the model counts that. */
  readonly following?: ((item: number) => ReadonlyMap<number, number>) | undefined
  /** Known users; in the order of their indices. */
  users(): Int32Array
  /** Cosines between a known user and some known users. */
  nearestUsers(user: number, others: Int32Array): Float32Array
}
