/**
 * ease and ease-<n>: item–item weights in closed form (EASE^R; Steck, WWW 2019), over the n items with most events.
 *
 *   X_ui = 1 where u has met i      P = (XᵀX + λI)⁻¹, λ = 500      B_ji = −P_ji/P_ii, B_ii = 0
 *   score(u, i) = Σ_j B_ji over the items j of u; 0 for items that are not among the n
 *
 * Without a number n = 1,000. All users and events count the same, however old. P is computed again once the events are a tenth more than at the last
 * time, and 500 at least: its cost is ½·n³ products. Items of a user count at once, learned or not.
 * A user with none of the n items is ranked by how often items were met.
 */

import { grown, nextCapacity } from "../../ids/growth.ts"
import { invert } from "./inverse.ts"
import { checkPairs, type Pairs, type PlainRanker } from "./model.ts"

const LAMBDA = 500
/** Events between two fits: this many, and this share of those before. */
const LEAST = 500
const SHARE = 0.1

export class Ease implements PlainRanker {
  readonly #most: number
  readonly #lambda: number
  readonly #met = new Map<number, Set<number>>()
  /** Observed and not learned: user and item. */
  #observed: [user: number, item: number][] = []
  #counts = new Float64Array(64)
  #events = 0
  #fitted = 0
  /** The items of the last fit, by place, and 1 + the place by item. */
  #items = new Int32Array(0)
  #places = new Int32Array(0)
  /** B by rows j. */
  #weights = new Float32Array(0)
  #pairs = 0

  constructor({ items, lambda = LAMBDA }: { items: number; lambda?: number }) {
    this.#most = items
    this.#lambda = lambda
  }

  get heldBytes(): number {
    const columns = [this.#counts, this.#items, this.#places, this.#weights]
    return columns.reduce((sum, { byteLength }) => sum + byteLength, 4 * this.#pairs)
  }

  learn(pairs: Pairs): void {
    checkPairs(pairs)
    for (let r = 0; r < pairs.length; r++) {
      const item = pairs.item[r]
      if (item >= this.#counts.length) this.#counts = grown(this.#counts, nextCapacity(this.#counts.length, item + 1))
      this.#counts[item]++
      this.#meet(pairs.user[r], item)
    }
    this.#events += pairs.length
    if (this.#events - this.#fitted >= Math.max(LEAST, SHARE * this.#fitted)) this.#fit()
  }

  observe(user: number, item: number): void {
    if (this.#meet(user, item)) this.#observed.push([user, item])
  }

  unobserve(): void {
    for (const [user, item] of this.#observed) {
      this.#met.get(user)?.delete(item)
      this.#pairs--
    }
    this.#observed = []
  }

  scores(out: Float64Array, user: number): void {
    out.fill(0)
    const sums = this.#sums(user)
    if (!sums) {
      out.set(this.#counts.subarray(0, Math.min(out.length, this.#counts.length)))
      return
    }
    for (let i = 0; i < sums.length; i++) if (this.#items[i] < out.length) out[this.#items[i]] = sums[i]
  }

  /** Σ_j B_ji by place; undefined where no item of the user has one. */
  #sums(user: number): Float64Array | undefined {
    const n = this.#items.length
    let sums: Float64Array | undefined
    for (const j of this.#met.get(user) ?? []) {
      const place = (this.#places[j] ?? 0) - 1
      if (place < 0) continue
      sums ??= new Float64Array(n)
      for (let i = 0; i < n; i++) sums[i] += this.#weights[place * n + i]
    }
    return sums
  }

  /** False where the user has met the item before. */
  #meet(user: number, item: number): boolean {
    const met = this.#met.get(user) ?? new Set()
    if (met.has(item)) return false
    met.add(item)
    this.#pairs++
    this.#met.set(user, met)
    return true
  }

  #fit(): void {
    this.#fitted = this.#events
    const counts = this.#counts
    const known = [...counts.keys()].filter((item) => counts[item] > 0)
    known.sort((a, b) => counts[b] - counts[a] || a - b)
    this.#items = Int32Array.from(known.slice(0, this.#most))
    this.#places = new Int32Array(counts.length)
    this.#items.forEach((item, place) => {
      this.#places[item] = place + 1
    })
    const n = this.#items.length
    const inverse = invert(this.#gram(n), n)
    this.#weights = new Float32Array(n * n)
    for (let j = 0; j < n; j++)
      for (let i = 0; i < n; i++) if (i !== j) this.#weights[j * n + i] = -inverse[j * n + i] / inverse[i * n + i]
  }

  /** The lower triangle of XᵀX + λI, row-major. */
  #gram(n: number): Float64Array {
    const gram = new Float64Array(n * n)
    for (let i = 0; i < n; i++) gram[i * n + i] = this.#lambda
    for (const met of this.#met.values()) {
      const places = Int32Array.from(met, (item) => this.#places[item] - 1).filter((place) => place >= 0)
      places.sort()
      for (let a = 0; a < places.length; a++) {
        const row = places[a] * n
        for (let b = 0; b <= a; b++) gram[row + places[b]]++
      }
    }
    return gram
  }
}
