/**
 * What a stateful class hands over so that another can go on from the same bits: named typed arrays, and what JSON can
 * hold. Exactly what a safetensors file takes. `save` may put views of live memory: write or copy a state before its
 * owner moves on.
 */

import { DessError } from "../errors.ts"

export type StateArray = Float32Array | Float64Array | Int32Array | Uint32Array | Uint16Array | Uint8Array

/** A kind of array. */
export interface StateKind {
  new (length: number): StateArray
  new (buffer: ArrayBuffer, at: number, length: number): StateArray
  readonly BYTES_PER_ELEMENT: number
}

/** An array that is made when it is written, piece by piece. A piece is a view until the next. */
export interface SlicedArray {
  readonly kind: StateKind
  readonly length: number
  pieces(): Iterable<StateArray>
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

export class State {
  /** By full name: "learner.user.table.16.numbers". */
  readonly arrays: Map<string, StateArray>
  readonly values: Map<string, Json>
  /** Arrays that are large and not in one piece; a state that was read has none. */
  readonly sliced: Map<string, SlicedArray>
  readonly #prefix: string

  constructor(
    arrays: Map<string, StateArray> = new Map(),
    values: Map<string, Json> = new Map(),
    { prefix, sliced }: { prefix: string; sliced: Map<string, SlicedArray> } = { prefix: "", sliced: new Map() },
  ) {
    this.arrays = arrays
    this.values = values
    this.sliced = sliced
    this.#prefix = prefix
  }

  /** The same state below a name. */
  at(name: string): State {
    const { arrays, values, sliced } = this
    return new State(arrays, values, { prefix: `${this.#prefix}${name}.`, sliced })
  }

  put(name: string, array: StateArray): void {
    this.arrays.set(this.#prefix + name, array)
  }

  /** Puts an array that is made when it is written. */
  putSliced(name: string, array: SlicedArray): void {
    this.sliced.set(this.#prefix + name, array)
  }

  set(name: string, value: Json): void {
    this.values.set(this.#prefix + name, value)
  }

  has(name: string): boolean {
    const full = this.#prefix + name
    return this.arrays.has(full) || this.values.has(full) || this.sliced.has(full)
  }

  /** The array of that name; one of another kind or none is a damaged state. */
  take<T extends StateArray>(name: string, kind: { new (length: number): T; readonly name: string }): T {
    const sliced = this.sliced.get(this.#prefix + name)
    const array = sliced ? wholeOf(sliced) : this.arrays.get(this.#prefix + name)
    if (array instanceof kind) return array
    const got = array === undefined ? "none" : array.constructor.name
    throw new DessError("INVALID_DATA", `state ${this.#prefix}${name}: expected a ${kind.name}, got ${got}`)
  }

  get<T extends Json = Json>(name: string): T {
    const value = this.values.get(this.#prefix + name)
    if (value !== undefined) return value as T
    throw new DessError("INVALID_DATA", `state ${this.#prefix}${name}: expected a value, got none`)
  }
}

/** A sliced array in one piece. */
function wholeOf({ kind, length, pieces }: SlicedArray): StateArray {
  const whole = new kind(length)
  let at = 0
  for (const piece of pieces()) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
