/**
 * Properties of items, as lists are filtered by them: a column per property. Numbers are float64; texts and booleans are
 * numbered, each value once; lists are numbers of values. A long text has no place here (it is kept with the title).
 */

import type { State } from "../kernels/state.ts"
import type { Properties, PropertyValue } from "./types.ts"

export type Scalar = string | number | boolean

/** Longer texts are kept and given back, and cannot be filtered by. */
export const LONGEST_TEXT = 128
/** Names of properties there may be. */
export const MOST_NAMES = 256
/** Approximate overhead of a value in the map of values, and of a list. */
const VALUE_BYTES = 64
const LIST_BYTES = 64
/** What a value of an item has among its kin (newcomers.ts). */
const USE_BYTES = 16

/** A value in the table of values: numbers and texts that look alike are two. */
const keyOf = (value: Scalar) => (typeof value === "string" ? `"${value}` : String(value))

export class PropertyColumn {
  /** NaN: no number. */
  numbers = new Float64Array(0)
  /** 0: neither a text nor a boolean; else the place of the value, from 1. */
  codes = new Uint32Array(0)
  readonly lists = new Map<number, number[]>()
  /** By place; undefined where nobody has it any more. Place 0 is empty. */
  readonly values: (Scalar | undefined)[] = [undefined]
  readonly #places = new Map<string, number>()
  readonly #uses: number[] = [0]
  readonly #free: number[] = []
  /** Items with a value, and of them those with a number. */
  count = 0
  numberCount = 0
  #valueBytes = 0
  #useCount = 0
  #listBytes = 0
  /** Changes with every change, and is never the same in two columns. */
  version = 0

  get bytes(): number {
    return (
      this.numbers.byteLength + this.codes.byteLength + this.#valueBytes + this.#listBytes + USE_BYTES * this.#useCount
    )
  }

  has(item: number): boolean {
    return item < this.numbers.length ? !Number.isNaN(this.numbers[item]) || this.#coded(item) : this.#coded(item)
  }

  #coded(item: number): boolean {
    return (item < this.codes.length && this.codes[item] !== 0) || this.lists.has(item)
  }

  /** Whether any item has a value of a type. */
  hasType(type: "string" | "number" | "boolean"): boolean {
    return (type === "number" && this.numberCount > 0) || this.values.some((value) => typeof value === type)
  }

  /** The code of a value of texts, booleans and lists; undefined where no item has it. */
  codeOf(value: Scalar): number | undefined {
    return this.#places.get(keyOf(value))
  }

  /** The values of an item, as texts of which equal ones are equal values. */
  keys(item: number): string[] {
    if (item < this.numbers.length && !Number.isNaN(this.numbers[item])) return [keyOf(this.numbers[item])]
    return this.codedKeys(item)
  }

  /** The same of texts, booleans and lists alone. */
  codedKeys(item: number): string[] {
    const codes = item < this.codes.length && this.codes[item] !== 0 ? [this.codes[item]] : (this.lists.get(item) ?? [])
    return codes.map((code) => keyOf(this.values[code] as Scalar))
  }

  /** Whether an item has this very value. */
  holds(item: number, value: PropertyValue): boolean {
    if (typeof value === "number") return item < this.numbers.length && this.numbers[item] === value
    if (typeof value !== "object") return item < this.codes.length && this.values[this.codes[item]] === value
    const codes = this.lists.get(item)
    const given = [...new Set(value)].filter(isCoded)
    return codes?.length === given.length && given.every((one, n) => one === this.values[codes[n]])
  }

  set(item: number, value: PropertyValue): void {
    this.clear(item)
    this.count++
    if (typeof value === "number") {
      if (item >= this.numbers.length) {
        const wider = new Float64Array(widened(item)).fill(Number.NaN)
        wider.set(this.numbers)
        this.numbers = wider
      }
      this.numbers[item] = value
      this.numberCount++
    } else if (typeof value === "object") {
      const codes = [...new Set(value)].filter(isCoded).map((one) => this.#take(one))
      this.lists.set(item, codes)
      this.#listBytes += LIST_BYTES + 8 * codes.length
    } else {
      if (item >= this.codes.length) {
        const wider = new Uint32Array(widened(item))
        wider.set(this.codes)
        this.codes = wider
      }
      this.codes[item] = this.#take(value)
    }
  }

  clear(item: number): void {
    if (!this.has(item)) return
    this.count--
    if (item < this.numbers.length && !Number.isNaN(this.numbers[item])) {
      this.numbers[item] = Number.NaN
      this.numberCount--
    }
    if (item < this.codes.length && this.codes[item] !== 0) {
      this.#release(this.codes[item])
      this.codes[item] = 0
    }
    const list = this.lists.get(item)
    if (!list) return
    for (const code of list) this.#release(code)
    this.lists.delete(item)
    this.#listBytes -= LIST_BYTES + 8 * list.length
  }

  #take(value: Scalar): number {
    const key = keyOf(value)
    let code = this.#places.get(key)
    if (code === undefined) {
      code = this.#free.pop() ?? this.values.length
      this.values[code] = value
      this.#places.set(key, code)
      this.#uses[code] = 0
      this.#valueBytes += VALUE_BYTES + 2 * key.length
    }
    this.#uses[code]++
    this.#useCount++
    return code
  }

  #release(code: number): void {
    this.#useCount--
    if (--this.#uses[code] > 0) return
    const key = keyOf(this.values[code] as Scalar)
    this.#places.delete(key)
    this.#valueBytes -= VALUE_BYTES + 2 * key.length
    this.values[code] = undefined
    this.#free.push(code)
  }

  save(state: State): void {
    state.put("numbers", this.numbers.slice())
    state.put("codes", this.codes.slice())
    state.put("lists", Uint32Array.from([...this.lists].flatMap(([item, codes]) => [item, codes.length, ...codes])))
    state.set(
      "values",
      this.values.map((value) => value ?? null),
    )
  }

  load(state: State): void {
    const saved = state.get<(Scalar | null)[]>("values")
    const lists = state.take("lists", Uint32Array)
    const codes = state.take("codes", Uint32Array)
    const numbers = state.take("numbers", Float64Array)
    for (let item = 0; item < numbers.length; item++) if (!Number.isNaN(numbers[item])) this.set(item, numbers[item])
    for (let item = 0; item < codes.length; item++) if (codes[item] !== 0) this.set(item, saved[codes[item]] as Scalar)
    for (let at = 0; at < lists.length; at += 2 + lists[at + 1]) {
      const some = lists.subarray(at + 2, at + 2 + lists[at + 1])
      this.set(
        lists[at],
        Array.from(some, (code) => saved[code] as string | number),
      )
    }
  }
}

/** Capacity in items: a power of two, so that bytes follow from the largest index alone. */
function widened(item: number): number {
  return Math.max(64, 2 ** Math.ceil(Math.log2(item + 1)))
}

function isCoded(value: PropertyValue): boolean {
  return typeof value !== "string" || value.length <= LONGEST_TEXT
}

export class ItemProperties {
  readonly #columns = new Map<string, PropertyColumn>()
  #clock = 0

  /** Bytes needed: a function of what was put. */
  get bytes(): number {
    let bytes = 0
    for (const column of this.#columns.values()) bytes += column.bytes
    return bytes
  }

  get names(): Iterable<string> {
    return this.#columns.keys()
  }

  /** Undefined for a property that no item has. */
  find(name: string): PropertyColumn | undefined {
    return this.#columns.get(name)
  }

  /** Sets all properties of an item; those not given are gone. */
  set(item: number, properties: Properties = {}): void {
    for (const [name, column] of this.#columns) {
      if (Object.hasOwn(properties, name) || !column.has(item)) continue
      column.clear(item)
      this.#changed(name, column)
    }
    for (const [name, value] of Object.entries(properties)) {
      let column = this.#columns.get(name)
      if (column?.holds(item, value)) continue
      if (!isCoded(value)) {
        if (!column?.has(item)) continue
        column.clear(item)
      } else {
        if (!column && this.#columns.size >= MOST_NAMES) continue
        column ??= new PropertyColumn()
        this.#columns.set(name, column)
        column.set(item, value)
      }
      this.#changed(name, column)
    }
  }

  #changed(name: string, column: PropertyColumn): void {
    column.version = ++this.#clock
    if (column.count === 0) this.#columns.delete(name)
  }

  save(state: State): void {
    state.set("names", [...this.#columns.keys()])
    let at = 0
    for (const column of this.#columns.values()) column.save(state.at(String(at++)))
  }

  load(state: State): void {
    if (!state.has("names")) return
    state.get<string[]>("names").forEach((name, at) => {
      const column = new PropertyColumn()
      column.load(state.at(String(at)))
      column.version = ++this.#clock
      this.#columns.set(name, column)
    })
  }
}
