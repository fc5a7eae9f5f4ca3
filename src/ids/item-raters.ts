/**
 * Who has met every item, and POD from it: the mean of ‖Q_u − P‖ over the raters, Q_u = S_u/n_u as it is now, P their mean.
 *
 * The reference keeps every rater and takes POD again at every event. The fast form keeps a uniform sample of at most
 * `reservoir` raters and takes POD again, when asked, while there are no more than 32 raters and after that when they have
 * grown by a quarter since the last time: at most 32 rows, or about five, per event however long the stream.
 */

import type { State } from "../kernels/state.ts"
import { Columns } from "./columns.ts"
import { Lists } from "./lists.ts"
import type { UserHistories } from "./user-histories.ts"

const ALWAYS = 32
/** In the place of a rater that was forgotten: the sample keeps its length. */
const GONE = -1

export interface ItemRatersOptions {
  columns: number
  exact: boolean
  reservoir: number
  seed: number
}

export class ItemRaters {
  readonly #histories: UserHistories
  readonly #columns: number
  readonly #exact: boolean
  readonly #reservoir: number
  readonly #seed: number
  /** Per item the raters kept, a user once per occurrence. */
  readonly #raters = new Lists()
  /** POD as last taken, and the item's frequency then. */
  readonly #measured = new Columns({ pod: "f64", frequency: "u32" })
  /** Q of the raters of one item, and P. */
  #means: Float64Array<ArrayBuffer>
  readonly #center: Float64Array

  constructor(histories: UserHistories, options: ItemRatersOptions) {
    const { columns, exact, reservoir, seed } = options
    this.#histories = histories
    this.#columns = columns
    this.#exact = exact
    this.#reservoir = exact ? Number.POSITIVE_INFINITY : reservoir
    this.#seed = seed | 0
    this.#means = new Float64Array(64 * columns)
    this.#center = new Float64Array(columns)
  }

  get bytes(): number {
    return this.#raters.bytes + this.#measured.bytes
  }

  /** Makes room for an item. */
  reserve(item: number): void {
    this.#measured.reserve(item)
  }

  /**
   * Adds the rater of the item's `frequency`-th event: reservoir sampling (Vitter's algorithm R).
   * The draw is a hash of seed, item and frequency, so there is no generator to save.
   */
  add(item: number, user: number, frequency: number): void {
    if (frequency <= this.#reservoir) {
      this.#raters.append(item, user)
      return
    }
    const slot = Math.floor((draw(this.#seed, item, frequency) / 4294967296) * frequency)
    if (slot < this.#reservoir) this.#raters.cells[this.#raters.start[item] + slot] = user
  }

  /** Drops an item's raters. */
  forgetItem(item: number): void {
    this.#raters.clear(item)
    this.#measured.clear(item)
  }

  /** Takes users out of every item's raters. */
  forgetUsers(users: ReadonlySet<number>): void {
    const { cells, start, lengths, reach } = this.#raters
    for (let item = 0; item < reach; item++)
      for (let k = start[item]; k < start[item] + lengths[item]; k++) if (users.has(cells[k])) cells[k] = GONE
  }

  /** POD as last taken, and the item's frequency then. */
  of(item: number): { pod: number; frequency: number } {
    if (item >= this.#measured.length) return { pod: 0, frequency: 0 }
    const { pod, frequency } = this.#measured.at
    return { pod: pod[item], frequency: frequency[item] }
  }

  /** Sets a POD measured elsewhere, for an item whose raters are not known here. */
  put(item: number, pod: number, frequency: number): void {
    this.reserve(item)
    if (this.#raters.count(item) > 1) return
    this.#measured.at.pod[item] = pod
    this.#measured.at.frequency[item] = frequency
  }

  save(state: State): void {
    this.#measured.save(state)
    this.#raters.save(state.at("raters"))
  }

  load(state: State): void {
    this.#measured.load(state)
    this.#raters.load(state.at("raters"))
  }

  /** POD of the item, which has been met `frequency` times. */
  diversity(item: number, frequency: number): number {
    this.reserve(item)
    const measured = this.#measured.at
    const before = measured.frequency[item]
    const due = frequency > before && (frequency <= ALWAYS || 4 * frequency >= 5 * before)
    if (due || this.#exact) {
      measured.pod[item] = this.#measure(item)
      measured.frequency[item] = frequency
    }
    return measured.pod[item]
  }

  #measure(item: number): number {
    const columns = this.#columns
    const kept = this.#raters.count(item)
    if (kept <= 1) return this.#measured.at.pod[item]
    if (this.#means.length < kept * columns) this.#means = new Float64Array(2 * kept * columns)
    const means = this.#means
    const center = this.#center
    const histories = this.#histories
    const cells = this.#raters.cells
    const begin = this.#raters.start[item]
    const end = begin + kept
    let raters = 0
    center.fill(0)
    for (let k = begin; k < end; k++) {
      const user = cells[k]
      const n = user === GONE ? 0 : histories.featured(user)
      if (n === 0) continue
      const share = 1 / n
      const from = histories.rowOf(user)
      const { sums } = histories
      const to = raters * columns
      for (let c = 0; c < columns; c++) {
        const mean = share * sums[from + c]
        means[to + c] = mean
        center[c] += mean
      }
      raters += 1
    }
    if (raters <= 1) return 0
    for (let c = 0; c < columns; c++) center[c] /= raters
    let total = 0
    for (let r = 0; r < raters; r++) {
      const from = r * columns
      let square = 0
      for (let c = 0; c < columns; c++) {
        const difference = means[from + c] - center[c]
        square += difference * difference
      }
      total += Math.sqrt(square)
    }
    return total / raters
  }
}

/** 32 bits from three numbers (murmur3's mixing). */
function draw(seed: number, item: number, count: number): number {
  let h = seed
  h = Math.imul(h ^ Math.imul(item, 0xcc9e2d51), 0x1b873593)
  h ^= h >>> 15
  h = Math.imul(h ^ Math.imul(count, 0x85ebca6b), 0xc2b2ae35)
  h ^= h >>> 13
  h = Math.imul(h, 0x85ebca6b)
  h ^= h >>> 16
  h = Math.imul(h, 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}
