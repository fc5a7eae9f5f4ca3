/**
 * What a stateful class hands over so that another can go on from the same bits: named typed arrays, and what JSON can
 * hold. Exactly what a safetensors file takes. `save` may put views of live memory: write or copy a state before its
 * owner moves on.
 */

import { DessError } from "../errors.ts"

export type StateArray = Float32Array | Float64Array | Int32Array | Uint32Array | Uint16Array | Uint8Array

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

export class State {
  /** By full name: "learner.user.table.16.numbers". */
  readonly arrays: Map<string, StateArray>
  readonly values: Map<string, Json>
  readonly #prefix: string

  constructor(arrays: Map<string, StateArray> = new Map(), values: Map<string, Json> = new Map(), prefix = "") {
    this.arrays = arrays
    this.values = values
    this.#prefix = prefix
  }

  /** The same state below a name. */
  at(name: string): State {
    return new State(this.arrays, this.values, `${this.#prefix}${name}.`)
  }

  put(name: string, array: StateArray): void {
    this.arrays.set(this.#prefix + name, array)
  }

  set(name: string, value: Json): void {
    this.values.set(this.#prefix + name, value)
  }

  has(name: string): boolean {
    return this.arrays.has(this.#prefix + name) || this.values.has(this.#prefix + name)
  }

  /** The array of that name; one of another kind or none is a damaged state. */
  take<T extends StateArray>(name: string, kind: { new (length: number): T; readonly name: string }): T {
    const array = this.arrays.get(this.#prefix + name)
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
