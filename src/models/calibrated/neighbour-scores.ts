/**
 * What neighbours say of all items at once: the rows of a user's latest items are summed up and fused in the kernels, by the
 * items they name.
 */

import type { Address, Kernels } from "../../kernels/kernels.ts"
import { SCORERS } from "../../kernels/layout.ts"

/** Items there is room for at first. */
const LEAST = 1024

/** Words of a row, the scorer they count for, and how much. */
export interface NeighbourRow {
  words: Int32Array
  scorer: number
  factor: number
}

export class NeighbourScores {
  readonly #kernels: Kernels
  /** Below this nothing is kept, above it the values of codes, and by item its slot and the roots of its rows' totals. */
  readonly #base: Address
  readonly #valuesOfCodes: ArrayLike<number>
  #values: Address = 0
  #slots: Address = 0
  #roots: Address = 0
  /** Items there is room for. */
  #limit = 0
  #isOutdated = false

  /** `kernels`: its own, `values`: by code. */
  constructor(kernels: Kernels, values: ArrayLike<number>) {
    this.#kernels = kernels
    this.#valuesOfCodes = values
    this.#base = kernels.mark()
    this.#enlarge(LEAST)
  }

  /** Totals are to be read again. */
  outdate(): void {
    this.#isOutdated = true
  }

  #enlarge(least: number): void {
    const k = this.#kernels
    k.release(this.#base)
    this.#limit = Math.max(least, 2 * this.#limit)
    this.#values = k.allocate(this.#valuesOfCodes.length)
    this.#slots = k.allocate(this.#limit)
    this.#roots = k.allocate(2 * this.#limit)
    k.floats.set(this.#valuesOfCodes, this.#values)
    k.ints.fill(0, this.#slots, this.#slots + this.#limit)
    this.#isOutdated = true
  }

  /** Adds Σ w_k·f_k of the items that rows name to `out`; `totalOf`: R of an item's rows, soon or right after. */
  add(
    out: Float32Array | Float64Array,
    items: ArrayLike<number>,
    p: { rows: readonly NeighbourRow[]; weights: ArrayLike<number>; totalOf: (item: number, kind: number) => number },
  ): void {
    const k = this.#kernels
    const mark = k.mark()
    const words = p.rows.reduce((sum, row) => sum + row.words.length, 0)
    const [counts, first, named, sums] = [2, words, words, SCORERS * words].map((length) => k.allocate(length))
    let at = first
    for (const row of p.rows) {
      k.ints.set(row.words, at)
      at += row.words.length
    }
    const rows = p.rows.map((row) => ({ length: row.words.length, scorer: row.scorer, factor: row.factor }))
    k.sumWords({
      ...{ out: counts, words: first, items: named, sums, rows },
      ...{ values: this.#values, slots: this.#slots, limit: this.#limit },
    })
    k.run()
    const [count, largest] = [k.ints[counts], k.ints[counts + 1]]
    if (largest > this.#limit) {
      this.#enlarge(largest)
      this.add(out, items, p)
      return
    }
    this.#readRoots(named, count, p.totalOf)
    // The words are done with.
    const fused = first
    k.fuseLogs({ out: fused, sums, items: named, roots: this.#roots, count, weights: p.weights })
    k.run()
    this.#addNamed(out, items, { named, fused, count })
    k.release(mark)
  }

  /** (1 + R)^¼ of the items named, as far as it is not known. */
  #readRoots(named: Address, count: number, totalOf: (item: number, kind: number) => number): void {
    const { floats: f, ints } = this.#kernels
    const roots = this.#roots
    if (this.#isOutdated) f.fill(Number.NaN, roots, roots + 2 * this.#limit)
    this.#isOutdated = false
    for (let t = 0; t < count; t++) {
      const item = ints[named + t]
      const root = roots + 2 * item
      if (!Number.isNaN(f[root])) continue
      for (let kind = 0; kind < 2; kind++) f[root + kind] = Math.sqrt(Math.sqrt(1 + totalOf(item, kind)))
    }
  }

  #addNamed(
    out: Float32Array | Float64Array,
    items: ArrayLike<number>,
    { named, fused, count }: { named: Address; fused: Address; count: number },
  ): void {
    const { floats: f, ints } = this.#kernels
    const slots = this.#slots
    // Mostly an item stands at its own index.
    let others = 0
    for (let t = 0; t < count; t++) {
      const item = ints[named + t]
      if (items[item] === item) out[item] += f[fused + t]
      else others++
    }
    for (let i = 0; others > 0 && i < items.length; i++) {
      const slot = items[i] < this.#limit && items[i] !== i ? ints[slots + items[i]] : 0
      if (slot > 0) out[i] += f[fused + slot - 1]
    }
    for (let t = 0; t < count; t++) ints[slots + ints[named + t]] = 0
  }
}
