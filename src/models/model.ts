/** What goes into every model, what comes out of it, and what models with rows of varying size have in common. */

import type { State } from "../kernels/state.ts"
import type { Side, Task } from "../types.ts"
import type { EmbeddingTable } from "./embedding-table.ts"

export const DEFAULT_SIZES: readonly number[] = [2, 4, 8, 16, 64, 128]
/** The calibrated recipe has a rung more: from 16 to 64 numbers is too far where rungs are to pay for themselves. */
export const CALIBRATED_SIZES: readonly number[] = [2, 4, 8, 16, 32, 64, 128]

/** Columns of a batch: ids and labels (0 or 1; a class from 0 to 4). */
export interface ModelBatch {
  user: ArrayLike<number>
  item: ArrayLike<number>
  label: ArrayLike<number>
  /** Where negatives are not uniform: the log of each row's chance to be drawn as one, NaN for an own row of label 0. */
  logChance?: ArrayLike<number>
  /** How many events each row counts as, 0 or more; a positive's counts for its negatives. Left out: 1. */
  weight?: ArrayLike<number>
  /** Whether people may come back to items. */
  repeats?: boolean
}

/** What a pass gives, copied out of working memory. */
export interface PassResult {
  /** [rows×outputs] */
  logits: Float64Array
  /** The task's loss of every row. */
  losses: Float64Array
}

/** A model whose rows differ in size from id to id. */
export interface SizedModel {
  readonly task: Task
  readonly outputs: number
  /** Sizes of the vectors, by step. */
  readonly sizes: readonly number[]
  readonly tables: Record<Side, EmbeddingTable>
  /** 4 × the biases and vector numbers of live rows. */
  readonly embeddingBytes: number
  readonly heldBytes: number
  /** Bytes kept of ids beside their rows. */
  readonly besideBytes?: number
  /** Numbers of the vectors of one side. */
  vectorNumbers(side: Side): number
  /** Gives an id a row; false if it has one. */
  meetOne(side: Side, id: number): boolean
  /** Moves an id to another size. `cold`: a larger row starts over. */
  resize(side: Side, id: number, p: { step: number; cold?: boolean }): void
  /** Drops rows of ids; returns the users whose rows changed by that. */
  forget(side: Side, ids: ReadonlySet<number>): number[]
  /** Logits and task losses of rows; nothing is learned. */
  predict(batch: ModelBatch): PassResult
  /** Takes an event into a user's row that is learned later; `unobserve` takes back all such, as training does. */
  observe?(user: number, item: number): void
  unobserve?(): void
  save(state: State): void
  load(state: State): void
}
