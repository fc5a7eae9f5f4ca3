/**
 * Rows of different sizes, in an array that grows in place (ids/columns.ts), or several: one can have 4 GiB. They are cut
 * into chunks of equal length; a chunk holds rows of one size and, when it falls empty, those of any other. A row is its owner, where it has
 * moments a step count, or two small notes, its numbers and their two Adam moments. Freed rows are reused at once: the last row of the size
 * moves into the hole, so the free rows are always the tail of its last chunk. Held beyond the live rows is therefore
 * less than one chunk a size, whatever happened before.
 *
 * Another thread may read the rows while they change (`share`, `readFrom`). Each number is whole at any time. While rows
 * move, the guard is odd, and it differs afterwards: who reads looks at it before and after (`readGuarded`), and reads again.
 *
 * Rows of a step may be packed (row-packing.ts). To be worked on in place they are opened: unpacked into the first array,
 * which then is kept for that, and packed again when they are closed.
 *
 * The array lies outside Wasm memory: a table may be larger than 4 GiB, and only the rows of a batch are copied into the
 * working memory.
 */

import { DessError, show } from "../errors.ts"
import { Columns, enlarged, growable, newBuffer } from "../ids/columns.ts"
import type { Floats } from "../kernels/kernels.ts"
import { Random } from "../kernels/random.ts"
import type { State, StateArray, StateKind } from "../kernels/state.ts"
import { BITS, type Bits, type PackedBuffer, type PackingOptions, RowPacking } from "./row-packing.ts"

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
  /** How rows without moments are packed; without, they are not. */
  packing?: PackingOptions
  /** Whether rows without moments, in single precision, have two whole numbers below 65,536 before them, for others to use. */
  notes?: boolean
}

/** Numbers of a chunk; of one row, where that is more. */
const CHUNK = 2048
/** The same where rows are packed, in 4 bytes: there are more sizes, and fewer bytes. */
const PACKED_CHUNK = 256
/** Before an opened row's owner: where its packed row stands. */
const OPENED = 2
/** Numbers that are saved at a time. */
const SLICE = 65_536
/** Bytes an array may have. */
const LONGEST = 4_294_967_296

/** Tries to read a row before the other thread is given time. */
const SPINS = 64

/** What another thread needs to read the rows. */
export interface SharedTable {
  arrays: SharedArrayBuffer[]
  steps: SharedArrayBuffer
  places: SharedArrayBuffer
  guard: SharedArrayBuffer
}

type Words = Floats | Int32Array

function packedBuffer(buffer: ArrayBufferLike, bytes: number): PackedBuffer {
  return { halves: new Uint16Array(buffer, 0, bytes / 2), bytes: new Int8Array(buffer, 0, bytes) }
}

/** Copies numbers between arrays: a loop for short rows, a block copy (50 ns to start, and a view to collect) for long ones. */
function copy(target: Words, at: number, source: Words, from: number, count: number): void {
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

/** The rows of one size. */
interface Rows {
  size: number
  /** Numbers from one row to the next, what stands before them included. */
  stride: number
  perChunk: number
  /** Where each chunk begins. */
  chunks: number[]
  live: number
}

export class EmbeddingTable {
  readonly sizes: readonly number[]
  /** The step a new id gets. */
  start: number
  readonly precision: "single" | "double"
  /** Whether rows have moments, and so can be stepped. */
  readonly moments: boolean
  /** Whether rows have notes. */
  readonly notes: boolean
  readonly #seed: string | number
  readonly #deviation: number
  /** Numbers of a chunk. */
  readonly #chunk: number
  /** Words before a row's numbers: the owner, and before it the step count of rows with moments, or notes. */
  readonly #before: number
  readonly #rows: Rows[]
  /** By id: 1 + its step, 0 where there is no row, and where its numbers begin. */
  readonly #ids = new Columns({ step: "u8", place: "u32" })
  #steps = this.#ids.at.step
  #places = this.#ids.at.place
  /** A place is one of array `place >>> shift`, at `place & mask`. */
  readonly #shift: number
  readonly #mask: number
  readonly #arrays: Floats[] = []
  /** The same memory as whole numbers, and as packed rows. */
  readonly #ints: Int32Array[] = []
  readonly #buffers: PackedBuffer[] = []
  readonly #packing: RowPacking | undefined
  /** Ids whose packed rows are open, how many, and where the next one would stand. */
  #opened = new Int32Array(64)
  #openCount = 0
  #openEnd = 0
  /** What is packed or unpacked at the moment: one object each, for speed. */
  readonly #row = { id: 0, step: 0, place: 0, stochastic: false }
  readonly #work = { numbers: new Float32Array(0) as Floats, at: 0, stochastic: true }
  /** Where the next chunk would be, and chunks that are free. */
  #end = 0
  #free: number[] = []
  /** Chunks that hold rows. */
  #chunks = 0
  #count = 0
  #guard = new Int32Array(newBuffer(4), 0, 1)
  #isShared = false
  #isChanging = false
  /** Whose rows these are, where they are another thread's. */
  #source: SharedTable | undefined

  constructor(options: TableOptions) {
    const {
      sizes,
      start = 0,
      seed = 0,
      deviation = 1,
      precision = "single",
      moments = true,
      packing,
      notes = false,
    } = options
    checkRungs(sizes, packing?.bits)
    if (!Number.isInteger(start) || start < 0 || start >= sizes.length)
      throw new DessError(
        "INVALID_ARGUMENT",
        `table start: expected a step from 0 to ${sizes.length - 1}, got ${show(start)}`,
      )
    this.sizes = [...sizes]
    this.start = start
    this.precision = precision
    this.moments = moments
    this.notes = notes
    this.#seed = seed
    this.#deviation = deviation
    this.#before = moments || notes ? 2 : 1
    if (packing?.bits.some((bits) => bits !== 32)) this.#packing = new RowPacking(sizes, packing)
    const words = this.#packing?.bytes.map((bytes) => Math.ceil(bytes / 4)) ?? sizes
    const strides = words.map((length) => this.#before + (moments ? 3 : 1) * length)
    this.#chunk = Math.max(this.#packing ? PACKED_CHUNK : CHUNK, ...strides)
    this.#rows = strides.map((stride, step) => {
      return { size: sizes[step], stride, perChunk: Math.floor(this.#chunk / stride), chunks: [], live: 0 }
    })
    this.#shift = precision === "double" ? 29 : 30
    this.#mask = (1 << this.#shift) - 1
    if (this.#packing) this.#end = this.#mask + 1
  }

  /** Whether rows of a step stand packed unless they are open. */
  #isPacked(step: number): boolean {
    return this.#packing?.isPacked(step) === true
  }

  /** Whether an id's row is packed now, so that `numbersOf` cannot be used. */
  isClosed(id: number): boolean {
    return this.#packing !== undefined && this.#isPacked(this.#steps[id] - 1) && this.#places[id] >>> this.#shift > 0
  }

  get #numberBytes(): number {
    return this.precision === "double" ? 8 : 4
  }

  /** The whole number in a place. */
  #int(place: number): number {
    const at = place & this.#mask
    return this.#ints[place >>> this.#shift][this.precision === "double" ? 2 * at : at]
  }

  #setInt(place: number, value: number): void {
    const at = place & this.#mask
    this.#ints[place >>> this.#shift][this.precision === "double" ? 2 * at : at] = value
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
    if (this.#source && id >= this.#steps.length) this.#look()
    // A row in an array that was added since the last `share` is not there yet.
    return this.#steps[id] > 0 && this.#places[id] >>> this.#shift < this.#arrays.length
  }

  /** The step of an id's size: 0 is the smallest. */
  step(id: number): number {
    if (!this.has(id))
      throw new DessError("NOT_FOUND", `embedding row: expected an id that has been met, got ${show(id)}`)
    return this.#steps[id] - 1
  }

  size(id: number): number {
    return this.sizes[this.step(id)]
  }

  /** Rows of each size. */
  histogram(): number[] {
    return this.#rows.map(({ live }) => live)
  }

  /** Rows of a step. */
  rowsOf(step: number): number {
    return this.#rows[step].live
  }

  /** Numbers in live rows. */
  get numbers(): number {
    return this.#rows.reduce((sum, { live, size }) => sum + live * size, 0)
  }

  /** Bytes of live rows with everything that stands in them. */
  get liveBytes(): number {
    return this.#rows.reduce((sum, { live, stride }) => sum + live * stride * this.#numberBytes, 0)
  }

  /** What a row of each step takes, in numbers of 4 bytes. */
  get costs(): readonly number[] {
    return this.#packing?.bytes.map((bytes) => bytes / 4) ?? this.sizes
  }

  /** 4 × the numbers of live rows (method.md §9). */
  get embeddingBytes(): number {
    return 4 * this.numbers
  }

  get #chunkBytes(): number {
    return this.#chunk * this.#numberBytes
  }

  /** Everything held: chunks with moments, counts and owners, and what leads from ids to rows. */
  get heldBytes(): number {
    return this.#chunks * this.#chunkBytes + this.#ids.bytes
  }

  /** Bytes of chunks that hold no rows now: memory that rows once took stays with the table. */
  get freeBytes(): number {
    return this.#free.length * this.#chunkBytes
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
    if (this.#deviation === 0 || this.#isPacked(this.step(id))) return
    const random = new Random(this.#seed, "row", id, this.step(id))
    const [numbers, at] = [this.numbersOf(id), this.placeOf(id)]
    for (let i = 0; i < this.size(id); i++) numbers[at + i] = this.#deviation * random.normal()
  }

  /** Makes a place for ids up to `id`. */
  reserve(id: number): void {
    this.#ids.reserve(id)
    this.#steps = this.#ids.at.step
    this.#places = this.#ids.at.place
  }

  /** Gives an id a cleared row of a step. */
  #place(id: number, step: number): void {
    const rows = this.#rows[step]
    if (rows.live === rows.chunks.length * rows.perChunk) rows.chunks.push(this.#takeChunk())
    const place = this.#placeOfRow(rows, rows.live++)
    const from = (place & this.#mask) - this.#before
    this.#arrays[place >>> this.#shift].fill(0, from, from + rows.stride)
    this.#setInt(place - 1, id)
    this.#places[id] = place
    this.#steps[id] = step + 1
  }

  #takeChunk(): number {
    this.#chunks++
    return this.#free.pop() ?? this.#newChunk()
  }

  #newChunk(): number {
    // No chunk lies in two arrays.
    if ((this.#end & this.#mask) + this.#chunk > this.#mask)
      this.#end = ((this.#end >>> this.#shift) + 1) * (this.#mask + 1)
    if (this.#end + this.#chunk > LONGEST)
      throw new DessError("UNSUPPORTED", `embedding rows: expected up to ${4 * LONGEST} bytes of one side, got more`)
    const begin = this.#end
    this.#end += this.#chunk
    this.#provide(begin >>> this.#shift, (begin & this.#mask) + this.#chunk)
    return begin
  }

  /** Makes an array, and those before it, as long as needed. */
  #provide(n: number, needed: number): void {
    if (n > 0 && this.#arrays.length < n) this.#provide(n - 1, 0)
    const array = this.#arrays[n] ?? this.#newArray()
    if (n === this.#arrays.length || needed > array.length) this.#setArray(n, enlarged(array, needed))
  }

  #setArray(n: number, array: Floats): void {
    const { buffer, byteLength } = array
    this.#arrays[n] = array
    this.#ints[n] = new Int32Array(buffer, 0, byteLength / 4)
    if (this.#packing) this.#buffers[n] = packedBuffer(buffer, byteLength)
  }

  #newArray(): Floats {
    const [first, most] = [this.#chunk, LONGEST / this.#numberBytes]
    return this.precision === "double" ? growable("f64", first, most) : growable("f32", first, most)
  }

  #placeOfRow({ chunks, perChunk, stride }: Rows, row: number): number {
    return chunks[Math.floor(row / perChunk)] + (row % perChunk) * stride + this.#before
  }

  /** The last row of the size moves into the place of the id's. */
  #vacate(id: number): void {
    if (this.#openCount > 0) throw new DessError("UNSUPPORTED", "embedding rows: expected none open, got some")
    const rows = this.#rows[this.#steps[id] - 1]
    const [place, before] = [this.#places[id], this.#before]
    rows.live--
    const last = this.#placeOfRow(rows, rows.live)
    if (last !== place) {
      const moved = this.#int(last - 1)
      const [from, to] = [(last & this.#mask) - before, (place & this.#mask) - before]
      const [source, target] = [this.#arrays[last >>> this.#shift], this.#arrays[place >>> this.#shift]]
      if (source === target) target.copyWithin(to, from, from + rows.stride)
      else target.set(source.subarray(from, from + rows.stride), to)
      this.#places[moved] = place
    }
    this.#steps[id] = 0
    this.#places[id] = 0
    if (rows.live % rows.perChunk > 0) return
    this.#free.push(rows.chunks.pop() as number)
    this.#chunks--
  }

  /**
   * Gives memory of free chunks back once it is more than a share of what is held: chunks at the end move into free ones, and the array is
   * replaced by a shorter one. Not where other threads read, nor where there are several arrays.
   */
  giveBack(share = 0): void {
    const home = this.#packing ? 1 : 0
    const base = home * (this.#mask + 1)
    const isOne = this.#arrays.length === home + 1 && this.#end > base && (this.#end - 1) >>> this.#shift === home
    if (this.#free.length <= share * this.#chunks || this.#isShared || !isOne || this.#openCount > 0) return
    const [array, end] = [this.#arrays[home], base + this.#chunks * this.#chunk]
    const free = this.#free.filter((begin) => begin < end)
    for (const rows of this.#rows)
      rows.chunks.forEach((begin, c) => {
        if (begin < end) return
        const to = free.pop() as number
        array.copyWithin(to - base, begin - base, begin - base + this.#chunk)
        rows.chunks[c] = to
        const last = Math.min(rows.live, (c + 1) * rows.perChunk)
        for (let row = c * rows.perChunk; row < last; row++) {
          const place = this.#placeOfRow(rows, row)
          this.#places[this.#int(place - 1)] = place
        }
      })
    this.#free = []
    this.#end = end
    const length = Math.max(this.#chunk, end - base)
    const kept = this.precision === "double" ? growable("f64", length, 8 * length) : growable("f32", length, 8 * length)
    kept.set(array.subarray(0, length))
    this.#setArray(home, kept)
  }

  /** Carries out a change that readers in other threads see as a whole or not at all. */
  guarded<T>(change: () => T): T {
    if (!this.#isShared || this.#isChanging) return change()
    this.#isChanging = true
    Atomics.add(this.#guard, 0, 1)
    try {
      return change()
    } finally {
      Atomics.add(this.#guard, 0, 1)
      this.#isChanging = false
    }
  }

  /** Forgets an id: its row is free and the next `ensure` starts over. */
  free(id: number): void {
    this.step(id)
    this.guarded(() => this.#vacate(id))
    this.#count--
  }

  /** Refuses numbers an id's row of the given step cannot take. */
  checkNumbers(id: number, step: number, source: Floats, at: number): void {
    this.step(id)
    if (!Number.isInteger(step) || step < 0 || step > this.top)
      throw new DessError("INVALID_ARGUMENT", `embedding step: expected 0 to ${this.top}, got ${show(step)}`)
    const isDouble = this.precision === "double"
    for (let i = 0; i < this.sizes[step]; i++)
      if (!Number.isFinite(isDouble ? source[at + i] : Math.fround(source[at + i])))
        throw new DessError("NUMERIC", `embedding row of id ${id}: expected finite numbers, got ${source[at + i]}`)
  }

  /** Moves an id to another step with the given numbers, fresh moments and no steps taken. */
  replace(id: number, step: number, source: Floats, at: number): void {
    this.checkNumbers(id, step, source, at)
    this.guarded(() => {
      const notes = this.notesOf(id)
      this.#vacate(id)
      this.#place(id, step)
      this.putNotes(id, notes)
      this.#put(id, source, at)
    })
  }

  /** Moves an id one step up to a fresh row, random (the paper's "without warm initialisation") or zero. */
  growCold(id: number, initial: "cold" | "zero" = "cold"): void {
    const step = this.step(id)
    this.#checkGrow(id, step)
    this.guarded(() => {
      this.#vacate(id)
      this.#place(id, step + 1)
      if (initial === "cold") this.#draw(id)
    })
  }

  /** Refuses a step past the top. */
  #checkGrow(id: number, step: number): void {
    if (step >= this.top)
      throw new DessError(
        "INVALID_ARGUMENT",
        `grow of id ${id}: expected a size below the top ${this.sizes[this.top]}, it is there already`,
      )
  }

  /** Copies numbers into a row, rounded to the nearest where it is packed. */
  #put(id: number, source: Floats, at: number): void {
    const step = this.#steps[id] - 1
    if (!this.isClosed(id)) copy(this.numbersOf(id), this.placeOf(id), source, at, this.sizes[step])
    else this.#pack(id, this.#places[id], { numbers: source, at })
  }

  /** Packs numbers into a place. */
  #pack(id: number, place: number, p: { numbers: Floats; at: number; stochastic?: boolean }): void {
    const row = this.#row
    row.id = id
    row.step = this.#steps[id] - 1
    row.place = place & this.#mask
    row.stochastic = p.stochastic === true
    this.#packing?.pack(this.#buffers[place >>> this.#shift], row, p)
  }

  #unpack(id: number, place: number, out: { numbers: Floats; at: number }): void {
    const row = this.#row
    row.id = id
    row.step = this.#steps[id] - 1
    row.place = place & this.#mask
    this.#packing?.unpack(this.#buffers[place >>> this.#shift], row, out)
  }

  /** Copies a row's numbers out. */
  read(id: number, target: Floats, at: number): void {
    const step = this.step(id)
    const numbers = this.numbersOf(id)
    if (!this.isClosed(id)) copy(target, at, numbers, this.placeOf(id), this.sizes[step])
    else this.#unpack(id, this.#places[id], { numbers: target, at })
  }

  /** Words of 4 bytes a row of a step stands in, packed or not; of rows without moments. */
  wordsOf(step: number): number {
    return this.#rows[step].stride - this.#before
  }

  /** Copies the words of a closed row out as they are. */
  copyWords(id: number, target: Int32Array, at: number, count = this.wordsOf(this.#steps[id] - 1)): void {
    const place = this.#places[id]
    copy(target, at, this.#ints[place >>> this.#shift], place & this.#mask, count)
  }

  /** Copies them back. */
  putWords(id: number, source: Int32Array, at: number, count = this.wordsOf(this.#steps[id] - 1)): void {
    const place = this.#places[id]
    const [target, to] = [this.#ints[place >>> this.#shift], place & this.#mask]
    const guards = this.#isShared && !this.#isChanging
    if (guards) Atomics.add(this.#guard, 0, 1)
    copy(target, to, source, at, count)
    if (guards) Atomics.add(this.#guard, 0, 1)
  }

  /** Writes the whole numbers a row starts with into a copy of its words, at a place of a buffer. */
  writeWhole(id: number, into: { floats: Float32Array; bytes: Int8Array; place: number }, numbers: Int32Array): void {
    const step = this.#steps[id] - 1
    if (this.#packing?.isPacked(step)) this.#packing.writeWhole(into, step, numbers)
    else for (let k = 0; k < numbers.length; k++) into.floats[into.place + k] = numbers[k]
  }

  #bufferOf(id: number): PackedBuffer {
    return this.#buffers[this.#places[id] >>> this.#shift]
  }

  /** Copies the whole numbers a row starts with out; rows whose packing knows of them. */
  readWhole(id: number, target: { [k: number]: number }, count: number): void {
    if (this.isClosed(id)) {
      this.#packing?.readWhole(this.#bufferOf(id), { step: this.#steps[id] - 1, place: this.placeOf(id) }, target)
      return
    }
    const [numbers, at] = [this.numbersOf(id), this.placeOf(id)]
    for (let k = 0; k < count; k++) target[k] = numbers[at + k]
  }

  /** Number k of a row, one of its head. */
  headOf(id: number, k: number): number {
    if (!this.isClosed(id)) return this.numbersOf(id)[this.placeOf(id) + k]
    return (this.#packing as RowPacking).readHead(this.#bufferOf(id), { place: this.placeOf(id) }, k)
  }

  /** Σ x_k·d_k over the first numbers of a closed row's first vector, d what it holds beyond what it is lifted with. */
  product(id: number, x: { numbers: Floats; at: number; length: number }): number {
    const row = { step: this.#steps[id] - 1, place: this.placeOf(id) }
    return (this.#packing as RowPacking).product(this.#bufferOf(id), row, x)
  }

  /** Writes what would be left of a vector of an open row, its numbers from `at` on, cut to a step of fewer bits. */
  cut(id: number, p: { at: number; isFirst: boolean; step: number; numbers?: Floats }, out: Float64Array): void {
    const { at, isFirst: lifted, step, numbers = this.numbersOf(id) } = p
    this.#packing?.cut(numbers, { at, id, lifted, step }, out)
  }

  /**
   * Unpacks the packed ones of some ids' rows, so that `numbersOf` and `placeOf` lead to their numbers until `close`. Ids
   * without a row are left out. Returns how many were open before.
   */
  open(ids: ArrayLike<number>): number {
    const before = this.#openCount
    if (!this.#packing) return before
    for (let i = 0; i < ids.length; i++) if (this.#steps[ids[i]] > 0 && this.isClosed(ids[i])) this.#openOne(ids[i])
    return before
  }

  #openOne(id: number): void {
    const [home, at] = [this.#places[id], this.#openEnd + OPENED]
    this.#openEnd = at + this.sizes[this.#steps[id] - 1]
    this.#provide(0, this.#openEnd)
    const work = this.#work
    work.numbers = this.#arrays[0]
    work.at = at
    this.#unpack(id, home, work)
    this.#ints[0][at - OPENED] = home
    this.#ints[0][at - 1] = id
    if (this.#openCount === this.#opened.length) {
      const more = new Int32Array(2 * this.#openCount)
      more.set(this.#opened)
      this.#opened = more
    }
    this.#opened[this.#openCount++] = id
    this.#relocate(id, at)
  }

  /** Packs open rows again, changed ones by stochastic rounding, and lets their places lead there; not the first `keep`. */
  close({ changed, keep = 0 }: { changed: boolean; keep?: number }): void {
    if (keep >= this.#openCount) return
    const end = this.#places[this.#opened[keep]] - OPENED
    for (let i = keep; i < this.#openCount; i++) {
      const id = this.#opened[i]
      if (this.#isShared) this.guarded(() => this.#closeOne(id, changed))
      else this.#closeOne(id, changed)
    }
    this.#openCount = keep
    this.#openEnd = end
  }

  #closeOne(id: number, changed: boolean): void {
    const at = this.#places[id]
    const home = this.#ints[0][at - OPENED] >>> 0
    if (changed) {
      const work = this.#work
      work.numbers = this.#arrays[0]
      work.at = at
      this.#pack(id, home, work)
    }
    this.#places[id] = home
  }

  /** From now on an id's row is read elsewhere. */
  #relocate(id: number, place: number): void {
    if (!this.#isShared) this.#places[id] = place
    else
      this.guarded(() => {
        this.#places[id] = place
      })
  }

  /** One of the two notes of an id's row; 0 for an id without one. */
  note(id: number, k: 0 | 1): number {
    if (!(this.#steps[id] > 0)) return 0
    const place = this.#standsAt(id) - 2
    return (this.#ints[place >>> this.#shift][place & this.#mask] >>> (16 * k)) & 0xffff
  }

  /** Sets a note; returns what it was. */
  setNote(id: number, k: 0 | 1, value: number): number {
    const place = this.#standsAt(id) - 2
    const [ints, at] = [this.#ints[place >>> this.#shift], place & this.#mask]
    const both = ints[at]
    ints[at] = (both & (0xffff << (16 - 16 * k))) | (value << (16 * k))
    return (both >>> (16 * k)) & 0xffff
  }

  /** Makes a note one more, round to 0 after 65,535; returns what it is then. */
  addNote(id: number, k: 0 | 1): number {
    const place = this.#standsAt(id) - 2
    const [ints, at, shift] = [this.#ints[place >>> this.#shift], place & this.#mask, 16 * k]
    const note = ((ints[at] >>> shift) + 1) & 0xffff
    ints[at] = (ints[at] & (0xffff << (16 - shift))) | (note << shift)
    return note
  }

  /** Both notes, to be put before another row of the id; 0 where rows have none. */
  notesOf(id: number): number {
    return this.notes ? this.#int(this.#standsAt(id) - 2) : 0
  }

  putNotes(id: number, notes: number): void {
    if (this.notes) this.#setInt(this.#standsAt(id) - 2, notes)
  }

  /** Where an id's row stands, open or not. */
  #standsAt(id: number): number {
    const place = this.#places[id]
    return this.#packing && place >>> this.#shift === 0 ? this.#ints[0][place - OPENED] >>> 0 : place
  }

  /** Copies a row's first and second moments, where it has them, out, one after the other; returns the steps it has taken. */
  readMoments(id: number, target: Floats, at: number): number {
    const size = this.size(id)
    copy(target, at, this.numbersOf(id), this.placeOf(id) + size, this.moments ? 2 * size : 0)
    return this.steps(id)
  }

  /** Copies a row's numbers (from `at`) and moments (from `momentsAt`) in, after an optimizer step. */
  write(id: number, source: Floats, at: number, momentsAt: number): void {
    const size = this.size(id)
    this.#put(id, source, at)
    if (!this.moments) return
    const [numbers, to, place] = [this.numbersOf(id), this.placeOf(id), this.#places[id]]
    copy(numbers, to + size, source, momentsAt, 2 * size)
    this.#setInt(place - 2, this.#int(place - 2) + 1)
  }

  /** Optimizer steps a row with moments has taken since it got its size. */
  steps(id: number): number {
    this.step(id)
    return this.moments ? this.#int(this.#places[id] - 2) : 0
  }

  /** The array an id's numbers stand in, until rows are added, moved, opened or freed; not those of a closed row … */
  numbersOf(id: number): Floats {
    return this.#arrays[this.#arrayOf(id)]
  }

  /** Which array an id's row stands in; another thread's is looked at again where it does not reach that far. */
  #arrayOf(id: number): number {
    const place = this.#places[id]
    const n = place >>> this.#shift
    if (this.#source && !((place & this.#mask) + this.sizes[this.top] < this.#arrays[n]?.length)) this.#look()
    return n
  }

  /** The same memory as whole numbers. */
  intsOf(id: number): Int32Array {
    return this.#ints[this.#arrayOf(id)]
  }

  /** … and from where. */
  placeOf(id: number): number {
    return this.#places[id] & this.#mask
  }

  /** Bytes of a row of a step. */
  stepBytes(step: number): number {
    return this.#rows[step].stride * this.#numberBytes
  }

  /** Bytes of an id's row with its moments, count and owner. */
  rowBytes(id: number): number {
    return this.#rows[this.step(id)].stride * this.#numberBytes
  }

  /** Bytes a table like this one with only `rows[s]` rows of step s and ids up to `id` would hold. */
  bytesFor(rows: ArrayLike<number>, id: number): number {
    return this.#rows.reduce(
      (sum, { perChunk }, s) => sum + Math.ceil(rows[s] / perChunk) * this.#chunkBytes,
      this.#ids.width * (id + 1),
    )
  }

  /** How many more bytes would be held with `added[s]` more rows of step s, and places for ids up to `id`. */
  bytesToAdd(added: ArrayLike<number>, id: number): number {
    let chunks = -this.#chunks
    for (let s = 0; s < this.#rows.length; s++) {
      const { live, perChunk } = this.#rows[s]
      chunks += Math.ceil((live + added[s]) / perChunk)
    }
    return chunks * this.#chunkBytes + this.#ids.width * Math.max(0, id + 1 - this.#ids.length)
  }

  /** Rows in the order they stand in, size by size. */
  save(state: State): void {
    state.set("reach", this.#ids.length)
    if (this.#free.length > 0) state.set("free", this.#free.length)
    this.#rows.forEach((rows, step) => {
      const at = state.at(this.#name(step))
      const width = rows.stride - this.#before
      const arrays = this.#isPacked(step) ? this.#ints : this.#arrays
      this.#slice(at, "numbers", { rows, kind: this.#kindOf(step), width }, (out, to, place) =>
        copy(out as Floats, to, arrays[place >>> this.#shift], place & this.#mask, width),
      )
      this.#slice(at, "steps", { rows, kind: Uint32Array, width: 1 }, (out, to, place) => {
        out[to] = this.#before === 2 ? this.#int(place - 2) : 0
      })
      this.#slice(at, "owners", { rows, kind: Int32Array, width: 1 }, (out, to, place) => {
        out[to] = this.#int(place - 1)
      })
    })
  }

  /** What rows of a step are saved under. */
  #name(step: number): string {
    const bits = this.#isPacked(step) ? `@${this.#packing?.bits[step]}` : ""
    return `${this.sizes[step]}${bits}`
  }

  /** What numbers of a step are saved as: packed ones four bytes at a time. */
  #kindOf(step: number): typeof Int32Array | typeof Float32Array | typeof Float64Array {
    return this.#isPacked(step) ? Int32Array : this.precision === "double" ? Float64Array : Float32Array
  }

  /** Puts an array of this many numbers a row, to be made some rows at a time. */
  #slice(
    state: State,
    name: string,
    p: { rows: Rows; kind: StateKind; width: number },
    write: (out: StateArray, at: number, place: number) => void,
  ): void {
    const { rows, kind, width } = p
    const { live } = rows
    const atOnce = Math.max(1, Math.min(live, Math.floor(SLICE / Math.max(1, width))))
    const pieces = function* (this: EmbeddingTable) {
      const out = new kind(atOnce * width)
      for (let from = 0; from < live; from += atOnce) {
        const count = Math.min(atOnce, live - from)
        for (let r = 0; r < count; r++) write(out, r * width, this.#placeOfRow(rows, from + r))
        yield out.subarray(0, count * width)
      }
    }
    state.putSliced(name, { kind, length: live * width, pieces: pieces.bind(this) })
  }

  /** Takes up rows of a table of the same sizes; what was here before is dropped. */
  load(state: State): void {
    this.guarded(() => this.#load(state))
  }

  #load(state: State): void {
    const reach = state.get<number>("reach")
    for (let id = 0; id < this.#ids.length; id++) this.#ids.clear(id)
    if (reach > 0) this.reserve(reach - 1)
    this.#count = 0
    for (const rows of this.#rows) {
      this.#free.push(...rows.chunks)
      this.#chunks -= rows.chunks.length
      rows.chunks = []
      rows.live = 0
    }
    this.#rows.forEach((rows, step) => {
      const at = state.at(this.#name(step))
      const width = rows.stride - this.#before
      const packed = this.#isPacked(step)
      const numbers = at.take<StateArray>("numbers", this.#kindOf(step) as never) as Words
      const steps = at.take("steps", Uint32Array)
      const owners = at.take("owners", Int32Array)
      if (numbers.length !== owners.length * width || steps.length !== owners.length)
        throw new DessError("INVALID_DATA", `rows of size ${rows.size}: expected columns of one length, got others`)
      for (let r = 0; r < owners.length; r++) {
        const id = owners[r]
        if (!(id >= 0 && id < reach) || this.#steps[id] !== 0)
          throw new DessError("INVALID_DATA", `rows of size ${rows.size}: expected ids below ${reach} once, got ${id}`)
        this.#place(id, step)
        const place = this.#places[id]
        copy((packed ? this.#ints : this.#arrays)[place >>> this.#shift], place & this.#mask, numbers, r * width, width)
        if (this.#before === 2) this.#setInt(this.#places[id] - 2, steps[r])
      }
      this.#count += owners.length
    })
    const free = state.has("free") ? state.get<number>("free") : 0
    while (this.#free.length < free) this.#free.push(this.#newChunk())
  }

  /** No id from here on has a row. */
  get reach(): number {
    return this.#source ? this.#steps.length : this.#ids.length
  }

  /** Every id with a row, in index order. */
  *ids(): Generator<number> {
    if (this.#source) this.#look()
    for (let id = 0; id < this.reach; id++) if (this.#steps[id] > 0) yield id
  }

  /** From now on another thread may read the rows. To be asked again when there are more: memory may be added. */
  share(): SharedTable {
    this.#isShared = true
    this.#provide(this.#packing ? 1 : 0, 0)
    const { step, place } = this.#ids.at
    return {
      arrays: this.#arrays.map(({ buffer }) => buffer as SharedArrayBuffer),
      steps: step.buffer as SharedArrayBuffer,
      places: place.buffer as SharedArrayBuffer,
      guard: this.#guard.buffer as SharedArrayBuffer,
    }
  }

  /** The rows of a table of the same kind in another thread, instead of own ones: to be read, and not changed. */
  readFrom(source: SharedTable): void {
    this.#source = source
    this.#guard = new Int32Array(source.guard, 0, 1)
    this.#look()
  }

  /** Sees all there is now. */
  #look(): void {
    const { arrays, steps, places } = this.#source as SharedTable
    const length = Math.min(steps.byteLength, places.byteLength / 4)
    this.#steps = new Uint8Array(steps, 0, length)
    this.#places = new Uint32Array(places, 0, length)
    const double = this.precision === "double"
    arrays.forEach((buffer, n) => {
      const { byteLength: bytes } = buffer
      this.#arrays[n] = double ? new Float64Array(buffer, 0, bytes / 8) : new Float32Array(buffer, 0, bytes / 4)
      this.#ints[n] = new Int32Array(buffer, 0, bytes / 4)
      if (this.#packing) this.#buffers[n] = packedBuffer(buffer, bytes)
    })
  }

  /** Lets the thread that changes the rows go on. */
  rest(): void {
    Atomics.wait(this.#guard, 0, this.guard, 0.05)
  }

  /** Changes whenever rows move; odd while they do. */
  get guard(): number {
    return this.#source ? Atomics.load(this.#guard, 0) : 0
  }
}

/** Reads rows of a table that another thread changes: again, as long as rows moved meanwhile. */
export function readGuarded<T>(table: EmbeddingTable, read: () => T): T {
  for (let tries = 1; ; tries++) {
    // The other thread may be waiting for this one's processor.
    if (tries % SPINS === 0) table.rest()
    const { guard } = table
    if (guard % 2 !== 0) continue
    try {
      const value = read()
      if (table.guard === guard) return value
    } catch (error) {
      if (table.guard === guard) throw error
    }
  }
}

/** Refuses rungs whose numbers do not rise, nor their bits where the numbers stay. */
export function checkRungs(sizes: readonly number[], bits?: readonly Bits[]): void {
  checkSizes(bits ? [...new Set(sizes)] : sizes)
  const isHigher = (i: number) => sizes[i] > sizes[i - 1] || bits === undefined || bits[i] > bits[i - 1]
  const fine = bits?.every((one, i) => BITS.includes(one) && (i === 0 || (one >= bits[i - 1] && isHigher(i))))
  if (bits && (!fine || bits.length !== sizes.length))
    throw new DessError(
      "INVALID_ARGUMENT",
      `rungs: expected rising numbers in 8, 16 or 32 bits that never fall, got ${show(sizes.map((size, i) => `${size}@${bits[i]}`))}`,
    )
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
