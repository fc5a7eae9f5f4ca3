/**
 * The embedding input: ids in, full-width vectors out, gradient back in. Hard methods lift a row of the id's size
 * (ladder), soft methods mix several (mixture), fixed sizes hand the row on as it is (plain). Models, loop and service
 * see only this interface.
 */

import { DessError } from "../../errors.ts"
import { type Address, type Kernels, NONE } from "../../kernels/kernels.ts"
import { type AdamOptions, biasCorrection, biasCorrections } from "../../kernels/parameters.ts"
import type { EmbeddingTable } from "../embedding-table.ts"
import type { Distinct } from "./distinct.ts"

/** The distinct ids of a batch in working memory, from `place` until the memory is released. */
export interface Placed {
  readonly distinct: Distinct
  readonly count: number
  /** How often each distinct id occurs, as floats. */
  readonly weights: Address
  /** Rows of the batch, Σ weights. */
  readonly total: number
}

export interface EmbeddingInput<P extends Placed = Placed> {
  readonly table: EmbeddingTable
  /** Everything held per id, `table` first. */
  readonly tables: readonly EmbeddingTable[]
  readonly width: number
  /** Brings the rows of a batch's distinct ids into working memory; only those placed for training can be stepped. */
  place(distinct: Distinct, training?: boolean): P
  /** Queues the pass from rows to vectors [count×width]; with `training` from batch statistics. */
  forward(placed: P, training: boolean): Address
  /** Queues the way back from the vectors' gradient to rows and dense parameters. */
  backward(placed: P, dVectors: Address): void
  /** Queues one optimizer step on the rows. */
  step(placed: P, adam: AdamOptions): void
  /** After `run`: copies the stepped rows back into the table. */
  commit(placed: P): void
  /** Where the gradient of distinct id `d`'s row stands. */
  rowGradient(placed: P, d: number): Address
}

/** Puts the distinct ids' counts into working memory. */
export function placeCounts(kernels: Kernels, distinct: Distinct): Placed {
  const count = distinct.ids.length
  const weights = kernels.allocate(count)
  kernels.floats.set(distinct.counts, weights)
  return { distinct, count, weights, total: distinct.index.length }
}

/** Rows of equal size that stand together in working memory. */
export interface RowGroup {
  /** Ids from … to−1 of the distinct ids. */
  from: number
  to: number
  /** Their numbers. */
  value: Address
  gradient: Address
  /** Whether they are placed to be stepped. */
  training: boolean
  /** Their first and second moments, row by row, from the step on. */
  moments: Address
}

/** A group with the table and the distinct ids it comes from. */
export interface GroupOfTable {
  table: EmbeddingTable
  ids: Int32Array
  group: RowGroup
}

/** The rows of one table whose ids are `ids[from]` … `ids[to − 1]`, all of one size. */
interface RowChoice {
  table: EmbeddingTable
  ids: Int32Array
  from: number
  to: number
}

/** Brings the numbers of rows into working memory, to `value`. */
export function placeRows(kernels: Kernels, choice: RowChoice & { value: Address }, training: boolean): RowGroup {
  const { table, ids, from, to, value } = choice
  const group: RowGroup = { from, to, value, gradient: NONE, training, moments: NONE }
  if (from === to) return group
  const columns = table.size(ids[from])
  if (training && !table.moments)
    throw new DessError("INVALID_ARGUMENT", "rows placed for training: expected a table with moments, got one without")
  const f = kernels.floats
  for (let d = from; d < to; d++) table.read(ids[d], f, value + (d - from) * columns)
  return group
}

/**
 * Brings in what only a step needs, moments and step counts, and queues Adam on a group of rows, each with its own count
 * (lazy: rows that are not in the batch stay as they are).
 */
export function stepRows(kernels: Kernels, input: GroupOfTable, adam: AdamOptions): void {
  const { table, ids, group } = input
  const rows = group.to - group.from
  if (rows === 0) return
  if (!group.training)
    throw new DessError(
      "INVALID_ARGUMENT",
      "optimizer step: expected rows placed for training, got rows placed to read",
    )
  const columns = table.size(ids[group.from])
  const moments = kernels.allocate(2 * rows * columns)
  const corrections = kernels.allocate(2 * rows)
  group.moments = moments
  const f = kernels.floats
  const { beta1, beta2 } = adam
  const [known1, known2] = [biasCorrections(beta1), biasCorrections(beta2)]
  for (let r = 0; r < rows; r++) {
    const step = table.readMoments(ids[group.from + r], f, moments + 2 * r * columns) + 1
    f[corrections + 2 * r] = step < known1.length ? known1[step] : biasCorrection(beta1, step)
    f[corrections + 2 * r + 1] = step < known2.length ? known2[step] : biasCorrection(beta2, step)
  }
  const { value, gradient } = group
  const places = { value, gradient, first: moments, second: moments + columns, momentStride: 2 * columns }
  kernels.adam({ ...places, corrections, rows, columns, ...adam })
}

/** Copies a stepped group back into the table. */
export function commitRows(kernels: Kernels, input: GroupOfTable): void {
  const { table, ids, group } = input
  if (group.from === group.to) return
  const f = kernels.floats
  const columns = table.size(ids[group.from])
  for (let r = 0; r < group.to - group.from; r++)
    table.write(ids[group.from + r], f, group.value + r * columns, group.moments + r * 2 * columns)
}
