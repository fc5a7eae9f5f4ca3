/**
 * Lists of whole numbers, one per id, in one pool.
 * A list lives in a chunk of 1, 2, 3, 4, 6, 8, 12, … cells; a full chunk is exchanged for the next size and left for reuse.
 * Loops read `cells` from `start[id]` for `lengths[id]` cells; the arrays may be exchanged by the next `append`.
 */

import type { State } from "../kernels/state.ts"
import { Columns, enlarged, growable, growableFrom } from "./columns.ts"

/** Cells of a chunk, by its size: 1, then 2 and 3 times every power of two. */
const CELLS = Uint32Array.from({ length: 56 }, (_, size) => (size === 0 ? 1 : (3 - (size % 2)) << ((size - 1) >> 1)))

export class Lists {
  cells = growable("i32", 1024)
  /** `size`: 1 + that of the chunk, 0 for an id without one. */
  readonly #ids = new Columns({ start: "u32", length: "u32", size: "u8" })
  /** The first free chunk of each size, −1 for none; a free chunk's first cell points to the next. */
  #free = new Int32Array(CELLS.length).fill(-1)
  #used = 0

  get start(): Uint32Array {
    return this.#ids.at.start
  }

  get lengths(): Uint32Array {
    return this.#ids.at.length
  }

  /** Ids from here on have never had a list. */
  get reach(): number {
    return this.#ids.length
  }

  /** How many numbers the id's list holds; 0 for an id never met. */
  count(id: number): number {
    return id < this.#ids.length ? this.#ids.at.length[id] : 0
  }

  /** Adds a number at the end of the id's list. */
  append(id: number, value: number): void {
    this.#ids.reserve(id)
    const { length: lengths, size, start } = this.#ids.at
    const length = lengths[id]
    if (size[id] === 0 || length === CELLS[size[id] - 1]) this.#enlarge(id)
    this.cells[start[id] + length] = value
    lengths[id] = length + 1
  }

  /** Puts a number at `position`; those from there on move down. */
  insert(id: number, position: number, value: number): void {
    this.append(id, value)
    const at = this.start[id] + position
    const last = this.start[id] + this.lengths[id] - 1
    if (at === last) return
    this.cells.copyWithin(at + 1, at, last)
    this.cells[at] = value
  }

  /** Takes away the numbers that are not kept; the others move up. */
  keep(id: number, kept: (value: number) => boolean): void {
    const count = this.count(id)
    if (count === 0) return
    const { cells } = this
    const from = this.start[id]
    let to = from
    for (let c = from; c < from + count; c++) if (kept(cells[c])) cells[to++] = cells[c]
    this.lengths[id] = to - from
    if (to === from) this.clear(id)
  }

  /** Takes away the number at `position`; the later ones move up. */
  remove(id: number, position: number): void {
    const start = this.start[id]
    this.cells.copyWithin(start + position, start + position + 1, start + this.lengths[id])
    this.lengths[id] -= 1
    if (this.lengths[id] === 0) this.clear(id)
  }

  /** Keeps the first `length` numbers of the id's list. */
  truncate(id: number, length: number): void {
    this.lengths[id] = length
  }

  /** The id's numbers: a view until the next change. */
  of(id: number): Int32Array {
    const count = this.count(id)
    const from = count === 0 ? 0 : this.start[id]
    return this.cells.subarray(from, from + count)
  }

  /** Empties the id's list and leaves its chunk for reuse. */
  clear(id: number): void {
    if (id >= this.#ids.length) return
    const { size, start } = this.#ids.at
    if (size[id] === 0) return
    this.#release(start[id], size[id] - 1)
    this.#ids.clear(id)
  }

  save(state: State): void {
    state.set("used", this.#used)
    state.put("cells", this.cells.subarray(0, this.#used))
    state.put("free", this.#free)
    this.#ids.save(state)
  }

  load(state: State): void {
    this.#used = state.get<number>("used")
    this.cells = growableFrom("i32", state.take("cells", Int32Array))
    this.#free = state.take("free", Int32Array).slice()
    this.#ids.load(state)
  }

  get bytes(): number {
    return 4 * this.#used + this.#ids.bytes
  }

  #release(start: number, size: number): void {
    this.cells[start] = this.#free[size]
    this.#free[size] = start
  }

  #enlarge(id: number): void {
    const { size, start } = this.#ids.at
    const old = size[id] - 1
    const from = start[id]
    const to = this.#allocate(old + 1)
    if (old >= 0) {
      this.cells.copyWithin(to, from, from + CELLS[old])
      this.#release(from, old)
    }
    start[id] = to
    size[id] = old + 2
  }

  #allocate(size: number): number {
    const free = this.#free[size]
    if (free >= 0) {
      this.#free[size] = this.cells[free]
      return free
    }
    const start = this.#used
    this.#used += CELLS[size]
    this.cells = enlarged(this.cells, this.#used)
    return start
  }
}
