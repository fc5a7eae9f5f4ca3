/**
 * The embedding input: ids in, full-width vectors out, gradient back in. Hard methods lift a row of the id's size
 * (ladder), soft methods mix several (mixture), fixed sizes hand the row on as it is (plain). Models, loop and service
 * see only this interface.
 */

import { DessError } from "../errors.ts"
import { type Address, type Kernels, NONE } from "../kernels/kernels.ts"
import { type AdamOptions, biasCorrection, biasCorrections } from "../kernels/parameters.ts"
import type { Distinct } from "./distinct.ts"
import type { EmbeddingTable } from "./table.ts"

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
  /** Rows placed for training also come whole: numbers, first moments, second moments, as in the table. */
  whole: Address
  /** Optimizer steps each of those has taken. */
  steps: Uint32Array
}

const NO_STEPS = new Uint32Array(0)

/** The rows of one table whose ids are `ids[from]` … `ids[to − 1]`, all of one size. */
interface RowChoice {
  table: EmbeddingTable
  ids: Int32Array
  from: number
  to: number
}

/**
 * Brings rows into working memory, their numbers to `value`. For training they come whole, in one copy each, because
 * what a row costs is to be fetched; the numbers are then queued to be moved to their place.
 */
export function placeRows(kernels: Kernels, choice: RowChoice & { value: Address }, training: boolean): RowGroup {
  const { table, ids, from, to, value } = choice
  const group: RowGroup = { from, to, value, gradient: NONE, whole: NONE, steps: NO_STEPS }
  if (from === to) return group
  const columns = table.size(ids[from])
  if (!training) {
    for (let d = from; d < to; d++) table.read(ids[d], kernels.floats, value + (d - from) * columns)
    return group
  }
  if (!table.moments)
    throw new DessError("INVALID_ARGUMENT", "rows placed for training: expected a table with moments, got one without")
  const stride = 3 * columns
  const whole = kernels.allocate((to - from) * stride)
  const steps = new Uint32Array(to - from)
  const f = kernels.floats
  for (let r = 0; r < steps.length; r++) steps[r] = table.readAll(ids[from + r], f, whole + r * stride)
  kernels.copyRows({ out: value, input: whole, rows: to - from, columns, inputStride: stride })
  return { ...group, whole, steps }
}

/** Queues Adam on a group of rows, each with its own step count (lazy: rows that are not in the batch stay as they are). */
export function stepRows(
  kernels: Kernels,
  input: { table: EmbeddingTable; ids: Int32Array; group: RowGroup },
  adam: AdamOptions,
): void {
  const { table, ids, group } = input
  const rows = group.to - group.from
  if (rows === 0) return
  if (group.whole === NONE)
    throw new DessError(
      "INVALID_ARGUMENT",
      "optimizer step: expected rows placed for training, got rows placed to read",
    )
  const columns = table.size(ids[group.from])
  const corrections = kernels.allocate(2 * rows)
  const f = kernels.floats
  const { beta1, beta2 } = adam
  const [known1, known2] = [biasCorrections(beta1), biasCorrections(beta2)]
  for (let r = 0; r < rows; r++) {
    const step = group.steps[r] + 1
    f[corrections + 2 * r] = step < known1.length ? known1[step] : biasCorrection(beta1, step)
    f[corrections + 2 * r + 1] = step < known2.length ? known2[step] : biasCorrection(beta2, step)
  }
  const { gradient, whole: value } = group
  const moments = { first: value + columns, second: value + 2 * columns, stride: 3 * columns }
  kernels.adam({ value, gradient, ...moments, corrections, rows, columns, ...adam })
}

/** Copies a stepped group back into the table. */
export function commitRows(kernels: Kernels, input: { table: EmbeddingTable; ids: Int32Array; group: RowGroup }): void {
  const { table, ids, group } = input
  if (group.from === group.to) return
  const f = kernels.floats
  const stride = 3 * table.size(ids[group.from])
  for (let d = group.from; d < group.to; d++) table.write(ids[d], f, group.whole + (d - group.from) * stride)
}
