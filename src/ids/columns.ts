/**
 * What is known of ids, as columns of numbers. A set of columns is declared once; growing, forgetting, saving, loading
 * and counting bytes follow from the declaration. 0 means that nothing is known.
 *
 *   const columns = new Columns({ frequency: "u32", last: "f32" })
 *   columns.reserve(id)
 *   columns.at.frequency[id]++        `at` has new arrays after `reserve`: do not keep them across it
 *
 * A column grows in place: its addresses are reserved once, and the system gives memory to the pages that are written to.
 * So nothing is ever copied, no old copy waits to be collected, and room to spare costs nothing.
 */

import type { State, StateArray } from "../kernels/state.ts"

const KINDS = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f32: Float32Array,
  f64: Float64Array,
} as const

export type Kind = keyof typeof KINDS

export interface Arrays {
  u8: Uint8Array
  u16: Uint16Array
  u32: Uint32Array
  i32: Int32Array
  f32: Float32Array
  f64: Float64Array
}

/** Numbers a column first has room for. */
const FIRST = 64
/** Addresses reserved for a column, in numbers; one that outgrows them moves. */
const RESERVED = 1 << 27

/** Memory that other threads can be given; a page in a browser may have none, and no threads either. */
export function newBuffer(bytes: number, most = bytes): SharedArrayBuffer {
  if (typeof SharedArrayBuffer !== "function") return new ArrayBuffer(bytes) as unknown as SharedArrayBuffer
  return new SharedArrayBuffer(bytes, { maxByteLength: most })
}

/** An array of zeros that `enlarged` can grow in place, up to `reserved` numbers. */
export function growable<K extends Kind>(kind: K, length = FIRST, reserved = RESERVED): Arrays[K] {
  const { BYTES_PER_ELEMENT: bytes } = KINDS[kind]
  const most = bytes * Math.max(reserved, 2 * length)
  const make = KINDS[kind] as unknown as new (buffer: SharedArrayBuffer, at: number, length: number) => Arrays[K]
  return new make(newBuffer(bytes * length, most), 0, length)
}

/** The same array with room for `needed` numbers or more, twice as many at least; zeros behind. */
export function enlarged<A extends Arrays[Kind]>(array: A, needed: number): A {
  if (needed <= array.length) return array
  const length = Math.max(FIRST, needed, 2 * array.length)
  const kind = array.constructor as new (buffer: SharedArrayBuffer, at: number, length: number) => A
  const buffer = array.buffer as SharedArrayBuffer
  const bytes = length * array.BYTES_PER_ELEMENT
  if (buffer.growable && bytes <= buffer.maxByteLength) {
    if (bytes > buffer.byteLength) buffer.grow(bytes)
    return new kind(buffer, 0, length)
  }
  const moved = new kind(newBuffer(bytes, 4 * bytes), 0, length)
  moved.set(array)
  return moved
}

/** A copy of an array that can grow in place. */
export function growableFrom<K extends Kind>(kind: K, numbers: Arrays[K]): Arrays[K] {
  const array = growable(kind, Math.max(FIRST, numbers.length))
  array.set(numbers)
  return array
}

export class Columns<D extends Readonly<Record<string, Kind>>> {
  readonly #kinds: D
  readonly #names: (keyof D & string)[]
  /** Bytes an id takes. */
  readonly width: number
  /** By name; replaced where `reserve` needs more room. */
  at: { [N in keyof D]: Arrays[D[N]] }
  /** Ids from here on have never had a place. */
  length = 0
  #capacity = FIRST

  constructor(kinds: D) {
    this.#kinds = kinds
    this.#names = Object.keys(kinds)
    this.width = this.#names.reduce((sum, name) => sum + KINDS[kinds[name]].BYTES_PER_ELEMENT, 0)
    this.at = this.#make((name) => growable(kinds[name]))
  }

  #make(array: (name: keyof D & string) => Arrays[Kind]): typeof this.at {
    return Object.fromEntries(this.#names.map((name) => [name, array(name)])) as typeof this.at
  }

  /** Makes a place for an id. */
  reserve(id: number): void {
    if (id < this.length) return
    this.length = id + 1
    if (id < this.#capacity) return
    this.at = this.#make((name) => enlarged(this.at[name], id + 1))
    this.#capacity = this.at[this.#names[0]].length
  }

  /** Drops what is known of an id. */
  clear(id: number): void {
    if (id >= this.length) return
    for (const name of this.#names) this.at[name][id] = 0
  }

  get bytes(): number {
    return this.width * this.length
  }

  save(state: State): void {
    for (const name of this.#names) state.put(name, this.at[name].subarray(0, this.length) as StateArray)
  }

  load(state: State): void {
    const loaded = this.#make((name) => {
      const kind = this.#kinds[name]
      return growableFrom(kind, state.take<StateArray>(name, KINDS[kind] as never) as Arrays[Kind] as never)
    })
    this.at = loaded
    this.length = state.take<StateArray>(this.#names[0], KINDS[this.#kinds[this.#names[0]]] as never).length
    this.#capacity = loaded[this.#names[0]].length
  }
}
