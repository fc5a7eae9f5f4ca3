/**
 * Lists of whole numbers, one per id, in one pool.
 * A list lives in a chunk of 2^k cells; a full chunk is exchanged for one of twice the size and left for reuse.
 * Loops read `cells` from `start[id]` for `lengths[id]` cells; both arrays may be exchanged by the next `append`.
 */

import type { State } from "../kernels/state.ts"
import { grown, nextCapacity } from "./growth.ts"

/** log2 of the smallest chunk: four cells. */
const SMALLEST = 2

export class Lists {
  cells = new Int32Array(1024)
  start = new Int32Array(64)
  lengths = new Int32Array(64)
  /** log2 of the chunk's cells, 0 for an id without a chunk. */
  #order = new Uint8Array(64)
  /** The first free chunk of each order, −1 for none; a free chunk's first cell points to the next. */
  #free = new Int32Array(32).fill(-1)
  #used = 0

  /** How many numbers the id's list holds; 0 for an id never met. */
  count(id: number): number {
    return id < this.lengths.length ? this.lengths[id] : 0
  }

  /** Adds a number at the end of the id's list. */
  append(id: number, value: number): void {
    if (id >= this.start.length) this.#reserve(id)
    const length = this.lengths[id]
    const order = this.#order[id]
    if (order === 0 || length === 1 << order) this.#enlarge(id)
    this.cells[this.start[id] + length] = value
    this.lengths[id] = length + 1
  }

  /** Takes away the number at `position`; the later ones move up. */
  remove(id: number, position: number): void {
    const start = this.start[id]
    this.cells.copyWithin(start + position, start + position + 1, start + this.lengths[id])
    this.lengths[id] -= 1
  }

  /** Empties the id's list and leaves its chunk for reuse. */
  clear(id: number): void {
    const order = id < this.start.length ? this.#order[id] : 0
    if (order === 0) return
    this.cells[this.start[id]] = this.#free[order]
    this.#free[order] = this.start[id]
    this.#order[id] = 0
    this.lengths[id] = 0
    this.start[id] = 0
  }

  save(state: State): void {
    state.set("used", this.#used)
    state.put("cells", this.cells)
    state.put("start", this.start)
    state.put("lengths", this.lengths)
    state.put("order", this.#order)
    state.put("free", this.#free)
  }

  load(state: State): void {
    this.#used = state.get<number>("used")
    this.cells = state.take("cells", Int32Array).slice()
    this.start = state.take("start", Int32Array).slice()
    this.lengths = state.take("lengths", Int32Array).slice()
    this.#order = state.take("order", Uint8Array).slice()
    this.#free = state.take("free", Int32Array).slice()
  }

  get bytes(): number {
    return (
      this.cells.byteLength +
      this.start.byteLength +
      this.lengths.byteLength +
      this.#order.byteLength +
      this.#free.byteLength
    )
  }

  #reserve(id: number): void {
    const capacity = nextCapacity(this.start.length, id + 1)
    this.start = grown(this.start, capacity)
    this.lengths = grown(this.lengths, capacity)
    this.#order = grown(this.#order, capacity)
  }

  #enlarge(id: number): void {
    const old = this.#order[id]
    const order = old === 0 ? SMALLEST : old + 1
    const from = this.start[id]
    const to = this.#allocate(order)
    if (old !== 0) {
      this.cells.copyWithin(to, from, from + (1 << old))
      this.cells[from] = this.#free[old]
      this.#free[old] = from
    }
    this.start[id] = to
    this.#order[id] = order
  }

  #allocate(order: number): number {
    const free = this.#free[order]
    if (free >= 0) {
      this.#free[order] = this.cells[free]
      return free
    }
    const start = this.#used
    this.#used += 1 << order
    if (this.#used > this.cells.length) this.cells = grown(this.cells, nextCapacity(this.cells.length, this.#used))
    return start
  }
}
