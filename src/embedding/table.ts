/**
 * Rows of different sizes. One slab a size, made of chunks of a few dozen kilobytes; a row is its numbers, their two
 * Adam moments and a step count. Freed rows are reused at once: the slab's last row moves into the hole, so the free
 * rows are always the tail of the last chunk, and a chunk that falls empty is given back. Held beyond the live rows is
 * therefore less than one chunk a size, whatever happened before.
 *
 * Slabs are plain typed arrays outside Wasm memory: a table may be larger than 4 GiB, and only the rows of a batch are
 * copied into the working memory.
 */

import { DessError, show } from "../errors.ts"
import type { Floats } from "../kernels/kernels.ts"
import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"

export interface TableOptions {
  /** Strictly increasing; 0 is a size. */
  sizes: readonly number[]
  /** Which size a new id gets. */
  start?: number
  /** Names the random stream the rows of new ids are drawn from. */
  seed?: string | number
  /** Standard deviation of a new row's numbers. */
  deviation?: number
  precision?: "single" | "double"
  /** Without, rows have no moments. Default true. */
  moments?: boolean
  /** Bytes a slab grows by; smaller chunks hold fewer free rows. */
  chunkBytes?: number
}

const CHUNK_BYTES = 49_152
const ABSENT = 255

/** Where a row's numbers and moments are: `numbers[at]`, `numbers[at + size]`, `numbers[at + 2·size]`. */
interface Chunk {
  numbers: Floats
  steps: Uint32Array
  owners: Int32Array
}

/** Copies numbers between arrays: a loop for short rows, a block copy (50 ns to start, and a view to collect) for long ones. */
function copy(target: Floats, at: number, source: Floats, from: number, count: number): void {
  if (count >= 48) {
    target.set(source.subarray(from, from + count), at)
    return
  }
  let i = 0
  // Unrolled because V8 does not: half the time.
  for (; i + 4 <= count; i += 4) {
    target[at + i] = source[from + i]
    target[at + i + 1] = source[from + i + 1]
    target[at + i + 2] = source[from + i + 2]
    target[at + i + 3] = source[from + i + 3]
  }
  for (; i < count; i++) target[at + i] = source[from + i]
}

class Slab {
  readonly size: number
  readonly #precision: "single" | "double"
  /** Numbers from one row to the next. */
  readonly stride: number
  readonly shift: number
  readonly mask: number
  readonly chunks: Chunk[] = []
  live = 0

  constructor(size: number, precision: "single" | "double", p: { moments: boolean; chunkBytes: number }) {
    const { moments, chunkBytes } = p
    this.size = size
    this.stride = moments ? 3 * size : size
    this.#precision = precision
    this.shift = Math.max(4, 31 - Math.clz32(chunkBytes / ((moments ? 12 : 4) * size + 8)))
    this.mask = (1 << this.shift) - 1
  }

  get chunkBytes(): number {
    const numberBytes = this.#precision === "double" ? 8 : 4
    return (1 << this.shift) * (this.stride * numberBytes + 8)
  }

  /** A cleared row for `owner`; returns its slot. */
  take(owner: number): number {
    const slot = this.live
    if (slot >> this.shift === this.chunks.length) {
      const rows = 1 << this.shift
      const length = this.stride * rows
      this.chunks.push({
        numbers: this.#precision === "double" ? new Float64Array(length) : new Float32Array(length),
        steps: new Uint32Array(rows),
        owners: new Int32Array(rows),
      })
    }
    this.live++
    const chunk = this.chunks[slot >> this.shift]
    const row = slot & this.mask
    chunk.numbers.fill(0, row * this.stride, (row + 1) * this.stride)
    chunk.steps[row] = 0
    chunk.owners[row] = owner
    return slot
  }

  clear(): void {
    this.chunks.length = 0
    this.live = 0
  }

  /** Frees a slot; returns the id whose row moved into it, or −1. */
  give(slot: number): number {
    this.live--
    const last = this.live
    let moved = -1
    if (slot !== last) {
      const from = this.chunks[last >> this.shift]
      const to = this.chunks[slot >> this.shift]
      const { stride } = this
      const source = (last & this.mask) * stride
      const target = (slot & this.mask) * stride
      for (let i = 0; i < stride; i++) to.numbers[target + i] = from.numbers[source + i]
      to.steps[slot & this.mask] = from.steps[last & this.mask]
      moved = from.owners[last & this.mask]
      to.owners[slot & this.mask] = moved
    }
    if ((last & this.mask) === 0) this.chunks.pop()
    return moved
  }
}

export class EmbeddingTable {
  readonly sizes: readonly number[]
  /** The step a new id gets. */
  start: number
  readonly precision: "single" | "double"
  /** Whether rows have moments, and so can be stepped. */
  readonly moments: boolean
  readonly #seed: string | number
  readonly #deviation: number
  readonly #slabs: Slab[]
  #class = new Uint8Array(0)
  #slot = new Int32Array(0)
  #count = 0

  constructor(options: TableOptions) {
    const {
      sizes,
      start = 0,
      seed = 0,
      deviation = 1,
      precision = "single",
      moments = true,
      chunkBytes = CHUNK_BYTES,
    } = options
    checkSizes(sizes)
    if (!Number.isInteger(start) || start < 0 || start >= sizes.length)
      throw new DessError(
        "INVALID_ARGUMENT",
        `table start: expected a step from 0 to ${sizes.length - 1}, got ${show(start)}`,
      )
    this.sizes = [...sizes]
    this.start = start
    this.precision = precision
    this.moments = moments
    this.#seed = seed
    this.#deviation = deviation
    this.#slabs = sizes.map((size) => new Slab(size, precision, { moments, chunkBytes }))
  }

  /** How many ids have a row. */
  get count(): number {
    return this.#count
  }

  /** The top step of the sizes. */
  get top(): number {
    return this.sizes.length - 1
  }

  has(id: number): boolean {
    return this.#class[id] < ABSENT
  }

  /** The step of an id's size: 0 is the smallest. */
  step(id: number): number {
    if (!this.has(id))
      throw new DessError("NOT_FOUND", `embedding row: expected an id that has been met, got ${show(id)}`)
    return this.#class[id]
  }

  size(id: number): number {
    return this.sizes[this.step(id)]
  }

  /** Rows of each size. */
  histogram(): number[] {
    return this.#slabs.map((slab) => slab.live)
  }

  /** Numbers in live rows. */
  get numbers(): number {
    return this.#slabs.reduce((sum, slab) => sum + slab.live * slab.size, 0)
  }

  /** 4 × the numbers of live rows (method.md §9). */
  get embeddingBytes(): number {
    return 4 * this.numbers
  }

  /** Everything held: slab capacity with moments, counts and owners, and the id maps. */
  get heldBytes(): number {
    const slabs = this.#slabs.reduce((sum, slab) => sum + slab.chunks.length * slab.chunkBytes, 0)
    return slabs + this.#class.byteLength + this.#slot.byteLength
  }

  /** Gives an id a row when it has none, and says whether it had none: `start` numbers drawn N(0, deviation²) from a stream of the id's own. */
  ensure(id: number): boolean {
    if (this.has(id)) return false
    if (!Number.isInteger(id) || id < 0 || id > 0x7ffffffe)
      throw new DessError("INVALID_ARGUMENT", `embedding id: expected a whole number from 0, got ${show(id)}`)
    this.reserve(id)
    this.#place(id, this.start)
    this.#draw(id)
    this.#count++
    return true
  }

  #draw(id: number): void {
    if (this.#deviation === 0) return
    const random = new Random(this.#seed, "row", id, this.#class[id])
    const slab = this.#slabs[this.#class[id]]
    const { numbers } = slab.chunks[this.#slot[id] >> slab.shift]
    const at = (this.#slot[id] & slab.mask) * slab.stride
    for (let i = 0; i < slab.size; i++) numbers[at + i] = this.#deviation * random.normal()
  }

  /** Makes a place for ids up to `id`, at once: id by id the places to spare would add up. */
  reserve(id: number): void {
    if (id < this.#class.length) return
    const capacity = this.#roomFor(id)
    const classes = new Uint8Array(capacity).fill(ABSENT)
    classes.set(this.#class)
    this.#class = classes
    const slots = new Int32Array(capacity)
    slots.set(this.#slot)
    this.#slot = slots
  }

  /** Ids the maps have room for once `id` is among them. */
  #roomFor(id: number): number {
    return Math.max(id + 1, Math.ceil(this.#class.length * 1.25), 64)
  }

  #place(id: number, step: number): void {
    this.#slot[id] = this.#slabs[step].take(id)
    this.#class[id] = step
  }

  #vacate(id: number): void {
    const slot = this.#slot[id]
    const moved = this.#slabs[this.#class[id]].give(slot)
    if (moved >= 0) this.#slot[moved] = slot
    this.#class[id] = ABSENT
  }

  /** Forgets an id: its row is free and the next `ensure` starts anew. */
  free(id: number): void {
    this.step(id)
    this.#vacate(id)
    this.#count--
  }

  /** Refuses numbers an id's row of the given step cannot take. */
  checkNumbers(id: number, step: number, source: Floats, at: number): void {
    this.step(id)
    if (!Number.isInteger(step) || step < 0 || step > this.top)
      throw new DessError("INVALID_ARGUMENT", `embedding step: expected 0 to ${this.top}, got ${show(step)}`)
    const round = this.precision === "double" ? Number : Math.fround
    for (let i = 0; i < this.sizes[step]; i++)
      if (!Number.isFinite(round(source[at + i])))
        throw new DessError("NUMERIC", `embedding row of id ${id}: expected finite numbers, got ${source[at + i]}`)
  }

  /** Moves an id to another step with the given numbers, fresh moments and no steps taken. */
  replace(id: number, step: number, source: Floats, at: number): void {
    this.checkNumbers(id, step, source, at)
    this.#vacate(id)
    this.#place(id, step)
    const slab = this.#slabs[step]
    const { numbers } = slab.chunks[this.#slot[id] >> slab.shift]
    const target = (this.#slot[id] & slab.mask) * slab.stride
    for (let i = 0; i < slab.size; i++) numbers[target + i] = source[at + i]
  }

  /** Moves an id one step up to a fresh row, random (the paper's "without warm initialisation") or zero. */
  growCold(id: number, initial: "cold" | "zero" = "cold"): void {
    const step = this.step(id)
    this.#checkGrow(id, step)
    this.#vacate(id)
    this.#place(id, step + 1)
    if (initial === "cold") this.#draw(id)
  }

  /** Refuses a step past the top. */
  #checkGrow(id: number, step: number): void {
    if (step >= this.top)
      throw new DessError(
        "INVALID_ARGUMENT",
        `grow of id ${id}: expected a size below the top ${this.sizes[this.top]}, it is there already`,
      )
  }

  /** Copies a row's numbers out. */
  read(id: number, target: Floats, at: number): void {
    const slab = this.#slabs[this.step(id)]
    const slot = this.#slot[id]
    copy(target, at, slab.chunks[slot >> slab.shift].numbers, (slot & slab.mask) * slab.stride, slab.size)
  }

  /** Copies a row's first and second moments, where it has them, out, one after the other; returns the steps it has taken. */
  readMoments(id: number, target: Floats, at: number): number {
    const slab = this.#slabs[this.step(id)]
    const slot = this.#slot[id]
    const { numbers, steps } = slab.chunks[slot >> slab.shift]
    copy(target, at, numbers, (slot & slab.mask) * slab.stride + slab.size, slab.stride - slab.size)
    return steps[slot & slab.mask]
  }

  /** Copies a row's numbers (from `at`) and moments (from `momentsAt`) in, after an optimizer step. */
  write(id: number, source: Floats, at: number, momentsAt: number): void {
    const slab = this.#slabs[this.step(id)]
    const slot = this.#slot[id]
    const { numbers, steps } = slab.chunks[slot >> slab.shift]
    const place = (slot & slab.mask) * slab.stride
    copy(numbers, place, source, at, slab.size)
    copy(numbers, place + slab.size, source, momentsAt, slab.stride - slab.size)
    steps[slot & slab.mask]++
  }

  /** Optimizer steps a row has taken since it got its size. */
  steps(id: number): number {
    const slab = this.#slabs[this.step(id)]
    return slab.chunks[this.#slot[id] >> slab.shift].steps[this.#slot[id] & slab.mask]
  }

  /** The array an id's numbers stand in, until rows are added, moved or freed … */
  numbersOf(id: number): Floats {
    return this.#slabs[this.#class[id]].chunks[this.#slot[id] >> this.#slabs[this.#class[id]].shift].numbers
  }

  /** … and from where. */
  placeOf(id: number): number {
    const slab = this.#slabs[this.#class[id]]
    return (this.#slot[id] & slab.mask) * slab.stride
  }

  /** Bytes of an id's row with its moments, count and owner. */
  rowBytes(id: number): number {
    const slab = this.#slabs[this.step(id)]
    return slab.chunkBytes >> slab.shift
  }

  /** Bytes a table like this one with only `rows[s]` rows of step s and ids up to `id` would hold. */
  bytesFor(rows: ArrayLike<number>, id: number): number {
    let bytes = 5 * Math.max(id + 1, 64)
    this.#slabs.forEach((slab, s) => {
      bytes += ((rows[s] + slab.mask) >> slab.shift) * slab.chunkBytes
    })
    return bytes
  }

  /** How many more bytes would be held with `added[s]` more rows of step s, and room for ids up to `id`. */
  bytesToAdd(added: ArrayLike<number>, id: number): number {
    let bytes = 0
    this.#slabs.forEach((slab, s) => {
      const chunks = (slab.live + added[s] + slab.mask) >> slab.shift
      bytes += Math.max(0, chunks - slab.chunks.length) * slab.chunkBytes
    })
    return bytes + (id < this.#class.length ? 0 : 5 * (this.#roomFor(id) - this.#class.length))
  }

  /** Rows in slot order, size by size. */
  save(state: State): void {
    state.set("room", this.#class.length)
    for (const slab of this.#slabs) {
      const at = state.at(String(slab.size))
      const { live, stride, shift } = slab
      const numbers = this.precision === "double" ? new Float64Array(live * stride) : new Float32Array(live * stride)
      const steps = new Uint32Array(live)
      const owners = new Int32Array(live)
      slab.chunks.forEach((chunk, c) => {
        const from = c << shift
        const rows = Math.min(live - from, 1 << shift)
        numbers.set(chunk.numbers.subarray(0, rows * stride), from * stride)
        steps.set(chunk.steps.subarray(0, rows), from)
        owners.set(chunk.owners.subarray(0, rows), from)
      })
      at.put("numbers", numbers)
      at.put("steps", steps)
      at.put("owners", owners)
    }
  }

  /** Takes up rows of a table of the same sizes; what was here before is dropped. */
  load(state: State): void {
    const room = state.get<number>("room")
    this.#class = new Uint8Array(room).fill(ABSENT)
    this.#slot = new Int32Array(room)
    this.#count = 0
    this.#slabs.forEach((slab, step) => {
      slab.clear()
      const at = state.at(String(slab.size))
      const kind = this.precision === "double" ? Float64Array : Float32Array
      const numbers = at.take<Floats>("numbers", kind)
      const steps = at.take("steps", Uint32Array)
      const owners = at.take("owners", Int32Array)
      if (numbers.length !== owners.length * slab.stride || steps.length !== owners.length)
        throw new DessError("INVALID_DATA", `rows of size ${slab.size}: expected columns of one length, got others`)
      for (let r = 0; r < owners.length; r++) {
        const id = owners[r]
        if (!(id >= 0 && id < room) || this.#class[id] !== ABSENT)
          throw new DessError("INVALID_DATA", `rows of size ${slab.size}: expected ids below ${room} once, got ${id}`)
        this.#place(id, step)
        const chunk = slab.chunks[r >> slab.shift]
        const to = (r & slab.mask) * slab.stride
        copy(chunk.numbers, to, numbers, r * slab.stride, slab.stride)
        chunk.steps[r & slab.mask] = steps[r]
      }
      this.#count += owners.length
    })
  }

  /** No id from here on has a row. */
  get reach(): number {
    return this.#class.length
  }

  /** Every id with a row, in index order. */
  *ids(): Generator<number> {
    for (let id = 0; id < this.#class.length; id++) if (this.#class[id] !== ABSENT) yield id
  }
}

/** Refuses sizes that are not strictly increasing whole numbers. */
export function checkSizes(sizes: readonly number[]): void {
  const fine =
    sizes.length > 0 &&
    sizes.length < 200 &&
    sizes.every((size, i) => Number.isInteger(size) && size >= 0 && size <= 65_536 && (i === 0 || size > sizes[i - 1]))
  if (!fine || sizes[sizes.length - 1] === 0)
    throw new DessError(
      "INVALID_ARGUMENT",
      `sizes: expected strictly increasing whole numbers up to 65536 such as 2,4,8,16,64,128, got ${show(sizes)}`,
    )
}
