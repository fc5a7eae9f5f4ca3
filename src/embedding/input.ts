/**
 * The embedding input: ids in, full-width vectors out, gradient back in. Hard methods lift a row of the id's size
 * (ladder), soft methods mix several (mixture), fixed sizes hand the row on as it is (plain). Models, loop and service
 * see only this interface.
 */

import type { Address, Kernels } from "../kernels/kernels.ts"
import { power } from "../kernels/math.ts"
import type { AdamOptions } from "../kernels/parameters.ts"
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
  /** Copies the rows of a batch's distinct ids into working memory. */
  place(distinct: Distinct): P
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

/** Rows of equal size that stand together in working memory, on their way through an optimizer step. */
export interface RowGroup {
  /** Ids from … to−1 of the distinct ids. */
  from: number
  to: number
  value: Address
  gradient: Address
  first: Address
  second: Address
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
  const columns = table.size(ids[group.from])
  group.first = kernels.allocate(rows * columns)
  group.second = kernels.allocate(rows * columns)
  const corrections = kernels.allocate(2 * rows)
  const f = kernels.floats
  for (let r = 0; r < rows; r++) {
    const id = ids[group.from + r]
    table.readMoments(id, f, { first: group.first + r * columns, second: group.second + r * columns })
    const steps = table.steps(id) + 1
    f[corrections + 2 * r] = 1 / (1 - power(adam.beta1, steps))
    f[corrections + 2 * r + 1] = 1 / (1 - power(adam.beta2, steps))
  }
  const { value, gradient, first, second } = group
  kernels.adam({ value, gradient, first, second, corrections, rows, columns, ...adam })
}

/** Copies a stepped group back into the table. */
export function commitRows(kernels: Kernels, input: { table: EmbeddingTable; ids: Int32Array; group: RowGroup }): void {
  const { table, ids, group } = input
  const f = kernels.floats
  for (let d = group.from; d < group.to; d++) {
    const offset = (d - group.from) * table.size(ids[d])
    table.write(ids[d], f, { value: group.value + offset, first: group.first + offset, second: group.second + offset })
  }
}
