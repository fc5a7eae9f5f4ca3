/**
 * What every user has met, as counts of distinct feature vectors, and IND from it.
 *
 *   S = Σ F = nQ      n²‖F_v − Q‖² = n²‖F_v‖² − 2n·F_vᵀS + ‖S‖²      IND = Σ_v count_v·‖F_v − Q‖ / n
 *
 * Per distinct vector of the user the product F_vᵀS is kept. When IND is asked for after each event, as for a user still
 * growing, one row of the table of inner products brings them up to date, one addition each.
 * After events without that question, or with too many vectors for the table, they are taken anew from S.
 */

import type { State } from "../kernels/state.ts"
import type { FeatureVectors } from "./feature-vectors.ts"
import { grown, nextCapacity } from "./growth.ts"
import { Lists } from "./lists.ts"

/** Below this share of ‖F‖² + ‖Q‖² the expanded square has lost too many digits: take the differences. */
const CANCELLATION = 1e-6

const FRESH = 0
const STALE = -1

/** A feature vector by its nonzero entries, and how often it was met. */
export interface VectorCount {
  entries: { column: number; value: number }[]
  count: number
}

export class UserHistories {
  /** S, one row of columns per user. */
  sums: Float64Array<ArrayBuffer>
  /** n: how many of the user's events had features. */
  featured = new Uint32Array(64)
  readonly #vectors: FeatureVectors
  readonly #exact: boolean
  /** Four cells per distinct vector: its number, its count, and over the other two the inner product in float64. */
  readonly #entries = new Lists()
  #products: Float64Array
  /** What the user's products do not know of yet: nothing, one vector (its number + 1), or more. */
  #pending = new Int32Array(64)

  constructor(vectors: FeatureVectors, exact: boolean) {
    this.#vectors = vectors
    this.#exact = exact
    this.sums = new Float64Array(64 * vectors.columns)
    this.#products = new Float64Array(this.#entries.cells.buffer)
  }

  get bytes(): number {
    return this.sums.byteLength + this.featured.byteLength + this.#entries.bytes + this.#pending.byteLength
  }

  /** Drops what a user has met. */
  forget(user: number): void {
    if (user >= this.featured.length) return
    this.#entries.clear(user)
    this.featured[user] = 0
    this.#pending[user] = FRESH
    this.sums.fill(0, user * this.#vectors.columns, (user + 1) * this.#vectors.columns)
  }

  /** What a user has met: distinct vectors and how often each. */
  of(user: number): VectorCount[] {
    const { cells, start } = this.#entries
    const found: VectorCount[] = []
    for (let c = 0; c < this.#entries.count(user); c += 4)
      found.push({ entries: this.#vectors.entriesOf(cells[start[user] + c]), count: cells[start[user] + c + 1] })
    return found
  }

  /** Takes up what a user has met, as `of` gives it, in place of what was here. */
  put(user: number, met: readonly VectorCount[]): void {
    this.forget(user)
    this.reserve(user)
    const { columns } = this.#vectors
    for (const { entries, count } of met) {
      this.#append(user, this.#vectors.numberOf(entries))
      this.#entries.cells[this.#entries.start[user] + this.#entries.count(user) - 3] = count
      for (const { column, value } of entries) this.sums[user * columns + column] += count * value
      this.featured[user] += count
    }
    this.#pending[user] = STALE
  }

  save(state: State): void {
    state.put("sums", this.sums)
    state.put("featured", this.featured)
    state.put("pending", this.#pending)
    this.#entries.save(state.at("entries"))
  }

  load(state: State): void {
    this.sums = state.take("sums", Float64Array).slice()
    this.featured = state.take("featured", Uint32Array).slice()
    this.#pending = state.take("pending", Int32Array).slice()
    this.#entries.load(state.at("entries"))
    this.#products = new Float64Array(this.#entries.cells.buffer)
  }

  /** Makes room for a user. */
  reserve(user: number): void {
    if (user < this.featured.length) return
    const capacity = nextCapacity(this.featured.length, user + 1)
    this.featured = grown(this.featured, capacity)
    this.#pending = grown(this.#pending, capacity)
    this.sums = grown(this.sums, capacity * this.#vectors.columns)
  }

  /** Counts one more meeting of the user with a vector. */
  add(user: number, vector: number): void {
    const { start, column, value, columns } = this.#vectors
    const entries = this.#entries
    const cells = entries.cells
    const count = entries.count(user)
    let at = count === 0 ? 0 : entries.start[user]
    const end = at + count
    while (at < end && cells[at] !== vector) at += 4
    if (at < end) cells[at + 1] += 1
    else this.#append(user, vector)
    const sums = this.sums
    const row = user * columns
    const last = start[vector + 1]
    for (let t = start[vector]; t < last; t++) sums[row + column[t]] += value[t]
    this.featured[user] += 1
    this.#pending[user] = this.#pending[user] === FRESH ? vector + 1 : STALE
  }

  /** IND of the user. */
  diversity(user: number): number {
    const entries = this.#entries
    const count = entries.count(user)
    if (count <= 4) return 0
    const { norm, gram, stride, columns } = this.#vectors
    const { cells } = entries
    const products = this.#products
    const row = user * columns
    const n = this.featured[user]
    const twice = 2 * n
    const square = n * n
    let sumNorm = 0
    for (let c = 0; c < columns; c++) sumNorm += this.sums[row + c] * this.sums[row + c]
    const digits = this.#exact ? Number.POSITIVE_INFINITY : CANCELLATION
    const begin = entries.start[user]
    const end = begin + count
    const pending = this.#pending[user]
    if (gram === undefined || pending === STALE) {
      for (let k = begin; k < end; k += 4) products[(k >> 1) + 1] = this.#product(cells[k], row)
    } else if (pending !== FRESH) {
      const added = (pending - 1) * stride
      for (let k = begin; k < end; k += 4) products[(k >> 1) + 1] += gram[added + cells[k]]
    }
    let total = 0
    for (let k = begin; k < end; k += 4) {
      const vector = cells[k]
      const whole = square * norm[vector] + sumNorm
      let spread = whole - twice * products[(k >> 1) + 1]
      if (spread < digits * whole) spread = this.#spread(vector, row, n)
      total += cells[k + 1] * Math.sqrt(spread)
    }
    this.#pending[user] = FRESH
    return total / square
  }

  /** A new entry, its product that of S before the event. */
  #append(user: number, vector: number): void {
    const entries = this.#entries
    const count = entries.count(user)
    entries.append(user, vector)
    entries.append(user, 1)
    entries.append(user, 0)
    entries.append(user, 0)
    if (this.#products.buffer !== entries.cells.buffer) this.#products = new Float64Array(entries.cells.buffer)
    const at = entries.start[user] + count
    this.#products[(at >> 1) + 1] = this.#product(vector, user * this.#vectors.columns)
  }

  /** F_vᵀS, four entries at a time. */
  #product(vector: number, row: number): number {
    const { start, column, value } = this.#vectors
    const sums = this.sums
    const last = start[vector + 1]
    let even = 0
    let odd = 0
    for (let t = start[vector]; t < last; t += 4) {
      even += value[t] * sums[row + column[t]] + value[t + 2] * sums[row + column[t + 2]]
      odd += value[t + 1] * sums[row + column[t + 1]] + value[t + 3] * sums[row + column[t + 3]]
    }
    return even + odd
  }

  /** n²‖F_v − S/n‖² column by column. */
  #spread(vector: number, row: number, n: number): number {
    const { start, column, value, columns } = this.#vectors
    const sums = this.sums
    const last = start[vector + 1]
    let t = start[vector]
    let square = 0
    for (let c = 0; c < columns; c++) {
      let difference = -sums[row + c]
      if (t < last && column[t] === c) {
        difference += n * value[t]
        t += 1
      }
      square += difference * difference
    }
    return square
  }
}
