/**
 * What neighbours say of all items at once: the rows of a user's latest items are summed up and fused in the kernels, by the
 * items they name.
 */

import { type Address, type Kernels, NONE, type WordRow } from "../../kernels/kernels.ts"
import { SCORERS } from "../../kernels/layout.ts"

/** Items there is room for at first. */
const LEAST = 1024

interface Said {
  rows: readonly WordRow[]
  weights: ArrayLike<number>
  /** R of an item's rows, soon or right after. */
  totalOf(item: number, kind: number): number
}

export class NeighbourScores {
  readonly kernels: Kernels
  /** Where rows may be written. */
  readonly rows: Address
  /** The values of codes; by 1 + item its slot, and by item the roots of its rows' totals. */
  readonly #values: Address
  #slots: Address = 0
  #roots: Address = 0
  /** Items there is room for. */
  #limit = 0
  #isOutdated = false

  /** `values`: by code, `words`: of all rows. */
  constructor(kernels: Kernels, { values, words }: { values: ArrayLike<number>; words: number }) {
    this.kernels = kernels
    this.#values = kernels.allocate(values.length)
    kernels.floats.set(values, this.#values)
    this.rows = kernels.allocate(words)
    this.reserve(LEAST)
  }

  /** Totals are to be read again. */
  outdate(): void {
    this.#isOutdated = true
  }

  /** Makes room for so many items: memory that was too little stays with the kernels. */
  reserve(items: number): void {
    if (items <= this.#limit) return
    const k = this.kernels
    this.#limit = Math.max(items, 2 * this.#limit)
    this.#slots = k.allocate(this.#limit + 1)
    this.#roots = k.allocate(2 * this.#limit)
    k.ints.fill(0, this.#slots, this.#slots + this.#limit + 1)
    this.#isOutdated = true
  }

  /** Adds Σ w_k·f_k to the scores of items. */
  add(out: Float32Array | Float64Array, items: ArrayLike<number>, said: Said): void {
    let limit = 0
    for (let i = 0; i < items.length; i++) if (items[i] >= limit) limit = items[i] + 1
    this.reserve(limit)
    const k = this.kernels
    const mark = k.mark()
    const summed = this.#sum(this.#limit, said)
    k.fuseLogs({ ...summed, to: NONE })
    k.run()
    this.#addNamed(out, items, summed)
    k.release(mark)
  }

  /** The same for scores of all items below a limit there is room for, which stand in the kernels' memory. */
  addTo(to: Address, limit: number, said: Said): void {
    const k = this.kernels
    const mark = k.mark()
    k.fuseLogs({ ...this.#sum(limit, said), to })
    k.run()
    k.release(mark)
  }

  /** Sums up what rows say. */
  #sum(limit: number, { rows, weights, totalOf }: Said) {
    const k = this.kernels
    const [values, slots, roots] = [this.#values, this.#slots, this.#roots]
    let words = 1
    for (const { length } of rows) words += length
    const [out, items, sums] = [k.allocate(words), k.allocate(words), k.allocate(SCORERS * words)]
    if (this.#isOutdated) k.floats.fill(Number.NaN, roots, roots + 2 * this.#limit)
    this.#isOutdated = false
    k.sumWords({ out, values, slots, items, sums, roots, limit, rows })
    k.run()
    const count = k.ints[out]
    if (k.ints[out + 1] > 0) this.#readRoots(items, count, totalOf)
    return { out, sums, items, roots, slots, count, weights }
  }

  /** (1 + R)^¼ of the items named, as far as it is not known. */
  #readRoots(named: Address, count: number, totalOf: Said["totalOf"]): void {
    const { floats: f, ints } = this.kernels
    for (let t = 0; t < count; t++) {
      const item = ints[named + t]
      const root = this.#roots + 2 * item
      if (!Number.isNaN(f[root])) continue
      for (let kind = 0; kind < 2; kind++) f[root + kind] = Math.sqrt(Math.sqrt(1 + totalOf(item, kind)))
    }
  }

  #addNamed(
    out: Float32Array | Float64Array,
    items: ArrayLike<number>,
    named: { items: Address; out: Address; count: number },
  ): void {
    const { floats: f, ints } = this.kernels
    const slots = this.#slots + 1
    // Mostly an item stands at its own index.
    let others = 0
    for (let t = 0; t < named.count; t++) {
      const item = ints[named.items + t]
      if (items[item] === item) out[item] += f[named.out + t]
      else others++
    }
    for (let i = 0; others > 0 && i < items.length; i++) {
      const slot = items[i] === i ? 0 : ints[slots + items[i]]
      if (slot > 0) out[i] += f[named.out + slot - 1]
    }
    for (let t = 0; t < named.count; t++) ints[slots + ints[named.items + t]] = 0
  }
}
