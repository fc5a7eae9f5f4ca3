/** What the models of the calibrated recipe have in common: rows of varying size, learned event by event. */

import { liftPlace } from "../../kernels/codes.ts"
import type { Address, Floats } from "../../kernels/kernels.ts"
import { Random } from "../../kernels/random.ts"
import type { Side } from "../../types.ts"
import type { EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch, PassResult, SizedModel } from "../model.ts"
import type { Bits, Lift } from "../row-packing.ts"
import type { Fusion } from "./fusion.ts"
import type { Neighbours } from "./neighbours.ts"

export interface RowOptions {
  /** Sizes of the vectors by rung, from 0 or more; they rise, or the bits do. */
  sizes: readonly number[]
  /** Bits of a number, by rung. Default 32. */
  bits?: readonly Bits[]
  /** Which of them a new id gets. */
  start: number
  seed: number
  /** Whether rows have notes of how often and when an id was met. */
  notes?: boolean
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
/** What an item's logit is made of. */
export interface ItemParts {
  bias: number
  /** Of the user's own vector. */
  taste: number
  /** Of each of its latest items, the latest first, and how near the item is to each. */
  inputs: number[]
  near: number[]
  neighbours: number
}

export interface RowModel extends SizedModel {
  readonly bits: readonly Bits[]
  readonly seed: number
  readonly heads: Record<Side, number>
  readonly vectors: Record<Side, number>
  /** Events an id learns a rung from before it is judged by it. */
  readonly warmupEvents: number
  /** Numbers of no id. */
  readonly global: Float64Array
  /** The largest size at which a product of two rows has learned numbers on both sides. */
  readonly width: number
  /** Moves an id to another size: up to what it was lifted with (`cold`: all numbers new), down by leaving numbers off. */
  resize(side: Side, id: number, p: { step: number; cold?: boolean }): void
  /** What `resize` does to the head of a row that keeps nothing of its vector. */
  renew(side: Side, row: Float32Array): void
  /** Whether numbers can be a row of a side: those of another process are asked about. */
  accepts(side: Side, row: ArrayLike<number>): boolean
  /** Gives the items a user's row names other indices; those without one are left out. */
  renumber?(row: Float32Array, indexOf: (item: number) => number | undefined): void
  /** Learns rows in order; `losses` are from before each was learned. `touched` takes the items whose rows changed. */
  train(batch: ModelBatch, rungs?: RungLosses, touched?: { add(item: number): void }): PassResult
  /** Items that also stand for a user, oldest first: they move when it learns. */
  latestOf?(user: number): number[]
  /** Has items stand for a user as its latest, oldest first, without learning from them. */
  addLatest?(user: number, items: readonly number[]): void
  /** Of a user's latest items, the log of the odds that each comes next and nothing new; undefined where nobody comes back. */
  repeatOdds?(user: number): Map<number, number> | undefined
  /** What goes into the logits of items. */
  partsOf?(user: number, items: readonly number[]): ItemParts[]
  /** The segment that is learned now, and the last one whose items stand for users: readers see that with the rows. */
  segment?: number
  readonly through?: Int32Array
  /** What a user is multiplied with items by: a view until the next call. */
  combined(user: number): Floats
  /** The same where rows of the items that stand for it are elsewhere; `inputOf` as below. */
  combinedBy?(user: number, inputOf: (item: number) => Floats): Floats
  /**
   * Writes the same of a user's row that is in no table; returns how many numbers it has. `inputOf`: what an item counts as,
   * empty where it has no row. The row may be overwritten meanwhile.
   */
  combineRow(out: Float64Array, from: { row: Float32Array; step: number }, inputOf: (item: number) => Floats): number
  /** What a user's logits start from, before an item's biases, one an output: a view until the next call. */
  baseOf(user: number): Float64Array
  /** What a product counts for, one an output. */
  readonly slopes: Float64Array
  /** What is counted of items beside their rows, and what it weighs. */
  readonly neighbours?: Neighbours
  readonly fusion?: Fusion
  /** Adds what neighbours say to logits of a user and items. */
  addNeighbours?(out: Float32Array | Float64Array, user: number, items: ArrayLike<number>): void
  /** The same to logits of all items below a limit, which stand by item in the memory of the kernels that neighbours use. */
  addNeighboursTo?(to: Address, limit: number, user: number): void
  readonly noise: ItemNoise
  /** What number k of ε is multiplied by. */
  readonly fade: Float64Array
  /** Logits [items×outputs] of a user and items, all of which have rows. */
  logitsOf(out: Float32Array | Float64Array, user: number, items: ArrayLike<number>): void
  /** Makes items ready for the logits of many users, until it trains again: faster, and held beside the rows. */
  rank?(items: ArrayLike<number>): (out: Float64Array, user: number) => void
}

/** What is left of a number at least when it is packed: an accumulator may be that much below its start. */
export const ROUNDED = 0.999

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
    return liftPlace(item)
  }
}

/** What the tables of a model keep an item's first vector relative to. */
export function liftOf(noise: ItemNoise, fade: number): Lift {
  return { numbers: noise.numbers.map((number) => fade * number), tail: noise.tail }
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

/** Σ of squares of what the last rung of an id's first vector holds beyond what the id would be lifted with in its place. */
export function rungEnergy(model: RowModel, side: Side, id: number): number {
  const table = model.tables[side]
  const step = table.step(id)
  if (step === 0) return 0
  const { noise, fade, sizes } = model
  const row = new Float32Array(table.size(id))
  table.read(id, row, 0)
  const at = model.heads[side]
  const tail = noise.tail(id)
  let sum = 0
  for (let k = sizes[step - 1]; k < sizes[step]; k++) {
    const number = side === "user" ? row[at + k] : row[at + k] - fade[k] * noise.numbers[tail + k]
    sum += number * number
  }
  return sum
}
