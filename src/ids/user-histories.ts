/**
 * What every user has met, as counts of distinct feature vectors, and IND from it.
 *
 *   S = Σ F = nQ      n²‖F_v − Q‖² = n²‖F_v‖² − 2n·F_vᵀS + ‖S‖²      IND = Σ_v count_v·‖F_v − Q‖ / n
 *
 * A user's vectors are a list of their numbers in order of first sight, each followed by −count where it was met more
 * than once. S is kept from the second event on: that of one event is its vector.
 */

import type { State } from "../kernels/state.ts"
import { Columns, enlarged, growable, growableFrom } from "./columns.ts"
import type { FeatureVectors } from "./feature-vectors.ts"
import { Lists } from "./lists.ts"

/** Below this share of ‖F‖² + ‖Q‖² the expanded square has lost too many digits: take the differences. */
const CANCELLATION = 1e-6

/** A feature vector by its nonzero entries, and how often it was met. */
export interface VectorCount {
  entries: { column: number; value: number }[]
  count: number
}

export class UserHistories {
  /** S in rows of columns, found by `rowOf`. The first row is for users with one event, made when asked for. */
  sums: Float64Array
  readonly #vectors: FeatureVectors
  readonly #exact: boolean
  /** `featured`: n, how many of the user's events had features. `row`: of S, 0 for none. */
  readonly #users = new Columns({ featured: "u32", row: "u32" })
  readonly #entries = new Lists()
  #rows = 1
  /** Rows of users that were forgotten. */
  #free: number[] = []

  constructor(vectors: FeatureVectors, exact: boolean) {
    this.#vectors = vectors
    this.#exact = exact
    this.sums = growable("f64", 64 * vectors.columns)
  }

  get bytes(): number {
    return this.#users.bytes + this.#entries.bytes + 8 * this.#vectors.columns * this.#rows + 4 * this.#free.length
  }

  /** n: how many of the user's events had features. */
  featured(user: number): number {
    return user < this.#users.length ? this.#users.at.featured[user] : 0
  }

  /** Where S of a user with events begins in `sums`; until the next question. */
  rowOf(user: number): number {
    const row = this.#users.at.row[user]
    if (row !== 0) return row * this.#vectors.columns
    this.sums.fill(0, 0, this.#vectors.columns)
    this.#addTo(0, this.#entries.cells[this.#entries.start[user]], 1)
    return 0
  }

  /** Drops what a user has met. */
  forget(user: number): void {
    if (user >= this.#users.length) return
    const row = this.#users.at.row[user]
    if (row !== 0) this.#free.push(row)
    this.#entries.clear(user)
    this.#users.clear(user)
  }

  /** What a user has met: distinct vectors and how often each. */
  of(user: number): VectorCount[] {
    const cells = this.#entries.of(user)
    const found: VectorCount[] = []
    for (let c = 0; c < cells.length; c++)
      if (cells[c] < 0) found[found.length - 1].count = -cells[c]
      else found.push({ entries: this.#vectors.entriesOf(cells[c]), count: 1 })
    return found
  }

  /** Replaces what a user has met, in the form `of` gives. */
  put(user: number, met: readonly VectorCount[]): void {
    this.forget(user)
    this.reserve(user)
    const featured = met.reduce((sum, { count }) => sum + count, 0)
    this.#users.at.featured[user] = featured
    if (featured > 1) this.#giveRow(user)
    for (const { entries, count } of met) {
      const vector = this.#vectors.numberOf(entries)
      this.#entries.append(user, vector)
      if (count > 1) this.#entries.append(user, -count)
      if (featured > 1) this.#addTo(this.rowOf(user), vector, count)
    }
  }

  save(state: State): void {
    state.put("sums", this.sums.subarray(0, this.#rows * this.#vectors.columns))
    state.put("free", Int32Array.from(this.#free))
    this.#users.save(state.at("users"))
    this.#entries.save(state.at("entries"))
  }

  load(state: State): void {
    const sums = state.take("sums", Float64Array)
    this.sums = growableFrom("f64", sums)
    this.#rows = sums.length / this.#vectors.columns
    this.#free = Array.from(state.take("free", Int32Array))
    this.#users.load(state.at("users"))
    this.#entries.load(state.at("entries"))
  }

  /** Makes room for a user. */
  reserve(user: number): void {
    this.#users.reserve(user)
  }

  /** Counts one more meeting of the user with a vector. */
  add(user: number, vector: number): void {
    const { featured, row } = this.#users.at
    if (featured[user] === 1 && row[user] === 0) {
      const first = this.#entries.cells[this.#entries.start[user]]
      this.#giveRow(user)
      this.#addTo(row[user] * this.#vectors.columns, first, 1)
    }
    this.#count(user, vector)
    featured[user] += 1
    if (row[user] !== 0) this.#addTo(row[user] * this.#vectors.columns, vector, 1)
  }

  #count(user: number, vector: number): void {
    const entries = this.#entries
    const { cells } = entries
    const count = entries.count(user)
    const begin = count === 0 ? 0 : entries.start[user]
    const end = begin + count
    let at = begin
    while (at < end && cells[at] !== vector) at++
    if (at === end) entries.append(user, vector)
    else if (at + 1 < end && cells[at + 1] < 0) cells[at + 1]--
    else entries.insert(user, at + 1 - begin, -2)
  }

  /** Gives a user a row of zeros. */
  #giveRow(user: number): void {
    const { columns } = this.#vectors
    const row = this.#free.pop() ?? this.#rows++
    this.sums = enlarged(this.sums, this.#rows * columns)
    this.sums.fill(0, row * columns, (row + 1) * columns)
    this.#users.at.row[user] = row
  }

  #addTo(row: number, vector: number, count: number): void {
    const { start, column, value } = this.#vectors
    const { sums } = this
    const last = start[vector + 1]
    for (let t = start[vector]; t < last; t++) sums[row + column[t]] += count * value[t]
  }

  /** IND of the user. */
  diversity(user: number): number {
    const entries = this.#entries
    const count = entries.count(user)
    const { cells } = entries
    const begin = count === 0 ? 0 : entries.start[user]
    if (count <= 1 || (count === 2 && cells[begin + 1] < 0)) return 0
    const { norm, columns } = this.#vectors
    const { sums } = this
    const row = this.rowOf(user)
    const n = this.#users.at.featured[user]
    const twice = 2 * n
    const square = n * n
    let sumNorm = 0
    for (let c = 0; c < columns; c++) sumNorm += sums[row + c] * sums[row + c]
    const digits = this.#exact ? Number.POSITIVE_INFINITY : CANCELLATION
    const end = begin + count
    let total = 0
    for (let k = begin; k < end; k++) {
      const vector = cells[k]
      const times = k + 1 < end && cells[k + 1] < 0 ? -cells[++k] : 1
      const whole = square * norm[vector] + sumNorm
      let spread = whole - twice * this.#product(vector, row)
      if (spread < digits * whole) spread = this.#spread(vector, row, n)
      total += times * Math.sqrt(spread)
    }
    return total / square
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
