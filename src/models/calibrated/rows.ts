/** What the models of the calibrated recipe have in common: rows of varying size, learned event by event. */

import type { Floats } from "../../kernels/kernels.ts"
import { Random } from "../../kernels/random.ts"
import type { State } from "../../kernels/state.ts"
import type { Side, Task } from "../../types.ts"
import type { EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch, PassResult } from "../model.ts"

export interface RowOptions {
  /** Sizes of the vectors, strictly increasing, from 0 or more. */
  sizes: readonly number[]
  /** Which of them a new id gets. */
  start: number
  seed: number
}

/**
 * What each rung was worth: losses of every own row of a batch before it was learned, with the numbers of one side cut to
 * each size up to the one held [rows×sizes]. An item's second vector counts, too, where it stood for a user
 * (sequence.ts), so there a row's losses may hold those of other rows.
 */
export interface RungLosses extends Record<Side, Float64Array> {
  /** Rows of the batch that are not judged: 0; without it all are. */
  rows?: Uint8Array
}

/** A row is a head of fixed length, which starts with an item's biases, and one or more vectors of the id's size. */
export interface RowModel {
  readonly task: Task
  readonly outputs: number
  readonly sizes: readonly number[]
  readonly seed: number
  readonly tables: Record<Side, EmbeddingTable>
  readonly heads: Record<Side, number>
  readonly vectors: Record<Side, number>
  /** Events an id learns a rung from before it is judged by it. */
  readonly warmupEvents: number
  /** Numbers of no id. */
  readonly global: Float64Array
  /** 4 × the biases and vector numbers of live rows. */
  readonly embeddingBytes: number
  readonly heldBytes: number
  /** Numbers of the vectors of one side. */
  vectorNumbers(side: Side): number
  /** The largest size at which a product of two rows has learned numbers on both sides. */
  readonly width: number
  /** Gives an id a row; false if it has one. */
  meetOne(side: Side, id: number): boolean
  /** Moves an id to another size: up to what it was lifted with (`cold`: all numbers anew), down by leaving numbers off. */
  resize(side: Side, id: number, p: { step: number; cold?: boolean }): void
  /** What `resize` does to the head of a row that keeps nothing of its vector. */
  renew(side: Side, row: Float32Array): void
  /** Whether numbers can be a row of a side: those of another process are asked about. */
  accepts(side: Side, row: ArrayLike<number>): boolean
  /** Gives the items a user's row names other indices; those without one are left out. */
  renumber?(row: Float32Array, indexOf: (item: number) => number | undefined): void
  /** Drops rows of ids; returns the users whose rows changed by that. */
  forget(side: Side, ids: ReadonlySet<number>): number[]
  /** Learns rows in order; `losses` are from before each was learned. `touched` takes the items whose rows changed. */
  train(batch: ModelBatch, rungs?: RungLosses, touched?: { add(item: number): void }): PassResult
  /** Items that also stand for a user, oldest first: they move when it learns. */
  latestOf?(user: number): number[]
  /** What a user is multiplied with items by: a view until the next call. */
  combined(user: number): Floats
  /** What a user's logits start from, before an item's biases, one an output: a view until the next call. */
  baseOf(user: number): Float64Array
  /** What a product counts for, one an output. */
  readonly slopes: Float64Array
  readonly noise: ItemNoise
  /** What number k of ε is multiplied by. */
  readonly fade: Float64Array
  /** Logits and task losses of rows; nothing is learned. */
  predict(batch: ModelBatch): PassResult
  /** Logits [items×outputs] of a user and items, all of which have rows. */
  logitsOf(out: Float32Array | Float64Array, user: number, items: ArrayLike<number>): void
  save(state: State): void
  load(state: State): void
}

/** Normal numbers ε is read from: item i's start at a place its index is hashed to. */
export const NOISE_PLACES = 16_384

/** ε: the numbers an item is lifted with, drawn once and for all from its index. */
export class ItemNoise {
  readonly numbers: Float32Array

  constructor(seed: number, top: number, deviation: number) {
    this.numbers = new Float32Array(NOISE_PLACES + top)
    const random = new Random(seed, "factor")
    for (let k = 0; k < this.numbers.length; k++) this.numbers[k] = deviation * random.normal()
  }

  /** Where ε(i) starts. */
  tail(item: number): number {
    return (Math.imul(item + 1, 0x9e3779b1) >>> 18) & (NOISE_PLACES - 1)
  }
}

/** The largest size that rows of a side hold. */
export function largestSize(model: { tables: RowModel["tables"]; sizes: readonly number[] }, side: Side): number {
  const rows = model.tables[side].histogram()
  for (let step = rows.length - 1; step > 0; step--) if (rows[step] > 0) return model.sizes[step]
  return model.sizes[0]
}

/** Drops the rows of ids that have one. */
export function freeRows(table: EmbeddingTable, ids: Iterable<number>): void {
  for (const id of ids) if (table.has(id)) table.free(id)
}
