/**
 * The distinct feature vectors of the items met so far, numbered as they appear, nonzero entries only.
 * Many items share a vector (ML-1M: 3,883 films, 301 genre vectors), so a user's history is a short list of
 * vector numbers with counts.
 */

import { DessError, show } from "../errors.ts"
import type { Floats } from "../kernels/kernels.ts"
import type { State } from "../kernels/state.ts"
import type { ItemFeatures } from "../types.ts"
import { grown, nextCapacity } from "./growth.ts"

/** Item features in either width; `ItemFeatures` is one. */
export interface FeatureMatrix extends Omit<ItemFeatures, "values"> {
  values: Float32Array | Float64Array
}

/** The most vectors a table of inner products is kept for: 32 MB. */
const GRAM_LIMIT = 2048

const bits = new DataView(new ArrayBuffer(8))

export class FeatureVectors {
  readonly columns: number
  /** How many distinct vectors there are. */
  count = 0
  /**
   * Entries of vector v: `column[t]`, `value[t]` for t from `start[v]` to `start[v + 1] − 1`, columns ascending, filled
   * up with zeros of column 0 to a multiple of four, so that a loop over them can take four at a time.
   */
  start = new Int32Array(65)
  column = new Int32Array(256)
  value = new Float64Array(256)
  /** ‖F_v‖² */
  norm = new Float64Array(64)
  /** Inner products of all pairs, `stride` numbers per row; undefined once there are more than 2,048 vectors. */
  gram: Float64Array<ArrayBuffer> | undefined = new Float64Array(64 * 64)
  stride = 64

  readonly #table: FeatureMatrix
  /** One vector, every column. */
  readonly #dense: Float64Array
  /** Vector number + 1 by item, 0 where the item has no entry so far. */
  #byItem = new Int32Array(64)
  /** Open addressing, vector number + 1 by hash, 0 for empty. */
  #slots = new Int32Array(128)
  #hashes = new Int32Array(64)

  constructor(table: FeatureMatrix) {
    const columns = table.columns.length
    if (columns === 0) {
      throw new DessError("INVALID_ARGUMENT", "feature columns: expected at least one, got none")
    }
    if (table.values.length < table.present.length * columns) {
      throw new DessError(
        "INVALID_DATA",
        `feature values: expected ${table.present.length} rows of ${columns}, got ${table.values.length} numbers`,
      )
    }
    this.columns = columns
    this.#table = table
    this.#dense = new Float64Array(columns)
  }

  /** The number of the item's vector, or −1 while the item has no entry. */
  of(item: number): number {
    if (item >= this.#byItem.length) {
      this.#byItem = grown(this.#byItem, nextCapacity(this.#byItem.length, item + 1))
    }
    const known = this.#byItem[item]
    if (known > 0) return known - 1
    const { present } = this.#table
    if (item >= present.length || present[item] === 0) return -1
    const { values, columns: names } = this.#table
    const row = item * this.columns
    for (let c = 0; c < this.columns; c++)
      if (!Number.isFinite(values[row + c]))
        throw new DessError(
          "INVALID_DATA",
          `feature ${show(names[c])} of item ${item}: expected a finite number, got ${show(values[row + c])}`,
        )
    const vector = this.#find(values, row)
    this.#byItem[item] = vector + 1
    return vector
  }

  /** Drops what is known of an item, whose number may stand for another from now on, or whose features changed. */
  forget(item: number): void {
    if (item < this.#byItem.length) this.#byItem[item] = 0
  }

  /** The table of inner products and the hash are made anew by `load`. */
  save(state: State): void {
    const { count } = this
    state.put("start", this.start.slice(0, count + 1))
    state.put("column", this.column.slice(0, this.start[count]))
    state.put("value", this.value.slice(0, this.start[count]))
    state.put("hashes", this.#hashes.slice(0, count))
    state.put("byItem", this.#byItem)
  }

  load(state: State): void {
    const start = state.take("start", Int32Array)
    const count = start.length - 1
    const capacity = nextCapacity(64, count)
    const entries = nextCapacity(256, start[count] + this.columns + 3)
    this.start = new Int32Array(capacity + 1)
    this.start.set(start)
    this.column = new Int32Array(entries)
    this.column.set(state.take("column", Int32Array))
    this.value = new Float64Array(entries)
    this.value.set(state.take("value", Float64Array))
    this.#hashes = new Int32Array(capacity)
    this.#hashes.set(state.take("hashes", Int32Array))
    this.#byItem = state.take("byItem", Int32Array).slice()
    this.norm = new Float64Array(capacity)
    this.gram = new Float64Array(64 * 64)
    this.stride = 64
    for (let v = 0; v < count; v++) {
      for (let t = start[v]; t < start[v + 1]; t++) this.norm[v] += this.value[t] * this.value[t]
      this.#multiply(v)
    }
    this.count = count
    this.#slots = new Int32Array(Math.max(64, nextCapacity(64, count)))
    this.#rehash()
  }

  get bytes(): number {
    return (
      this.start.byteLength +
      this.column.byteLength +
      this.value.byteLength +
      this.norm.byteLength +
      (this.gram?.byteLength ?? 0) +
      this.#byItem.byteLength +
      this.#slots.byteLength +
      this.#hashes.byteLength
    )
  }

  /** The nonzero entries of a vector. */
  entriesOf(vector: number): { column: number; value: number }[] {
    const entries: { column: number; value: number }[] = []
    for (let t = this.start[vector]; t < this.start[vector + 1]; t++)
      if (this.value[t] !== 0) entries.push({ column: this.column[t], value: this.value[t] })
    return entries
  }

  /** The number of the vector with these entries, a new one for a vector not met before. */
  numberOf(entries: readonly { column: number; value: number }[]): number {
    const values = new Float64Array(this.columns)
    for (const { column, value } of entries) values[column] = value
    return this.#find(values, 0)
  }

  #find(values: Floats, row: number): number {
    const columns = this.columns
    let hash = 0x811c9dc5
    for (let c = 0; c < columns; c++) {
      const x = values[row + c]
      if (x === 0) continue
      bits.setFloat64(0, x)
      hash = Math.imul(hash ^ c, 0x01000193)
      hash = Math.imul(hash ^ bits.getInt32(0), 0x01000193)
      hash = Math.imul(hash ^ bits.getInt32(4), 0x01000193)
      hash ^= hash >>> 15
    }
    const mask = this.#slots.length - 1
    let slot = hash & mask
    for (; this.#slots[slot] !== 0; slot = (slot + 1) & mask) {
      const vector = this.#slots[slot] - 1
      if (this.#hashes[vector] === hash && this.#equals(vector, values, row)) return vector
    }
    const vector = this.#add(values, row, hash)
    this.#slots[slot] = vector + 1
    if (this.count * 2 > this.#slots.length) this.#rehash()
    return vector
  }

  #equals(vector: number, values: Floats, row: number): boolean {
    let t = this.start[vector]
    const end = this.start[vector + 1]
    for (let c = 0; c < this.columns; c++) {
      const x = values[row + c]
      if (x === 0) continue
      if (t === end || this.column[t] !== c || this.value[t] !== x) return false
      t += 1
    }
    return t === end || this.value[t] === 0
  }

  #add(values: Floats, row: number, hash: number): number {
    const vector = this.count
    if (vector === this.norm.length) {
      const capacity = 2 * vector
      this.start = grown(this.start, capacity + 1)
      this.norm = grown(this.norm, capacity)
      this.#hashes = grown(this.#hashes, capacity)
    }
    let end = this.start[vector]
    const furthest = end + this.columns + 3
    if (furthest > this.column.length) {
      const capacity = nextCapacity(this.column.length, furthest)
      this.column = grown(this.column, capacity)
      this.value = grown(this.value, capacity)
    }
    let norm = 0
    for (let c = 0; c < this.columns; c++) {
      const x = values[row + c]
      if (x === 0) continue
      this.column[end] = c
      this.value[end] = x
      end += 1
      norm += x * x
    }
    this.start[vector + 1] = (end + 3) & ~3
    this.norm[vector] = norm
    this.#hashes[vector] = hash
    this.count = vector + 1
    this.#multiply(vector)
    return vector
  }

  /** Adds the row and the column of a new vector to the inner products. */
  #multiply(vector: number): void {
    if (this.gram === undefined) return
    if (vector === GRAM_LIMIT) {
      this.gram = undefined
      return
    }
    if (vector === this.stride) {
      const wider = new Float64Array(4 * this.gram.length)
      for (let v = 0; v < vector; v++) {
        wider.set(this.gram.subarray(v * vector, (v + 1) * vector), 2 * v * vector)
      }
      this.gram = wider
      this.stride = 2 * vector
    }
    const { gram, stride, start, column, value } = this
    const dense = this.#dense
    dense.fill(0)
    for (let t = start[vector]; t < start[vector + 1]; t++) dense[column[t]] += value[t]
    for (let v = 0; v <= vector; v++) {
      let product = 0
      for (let t = start[v]; t < start[v + 1]; t++) product += value[t] * dense[column[t]]
      gram[v * stride + vector] = product
      gram[vector * stride + v] = product
    }
  }

  #rehash(): void {
    const slots = new Int32Array(2 * this.#slots.length)
    const mask = slots.length - 1
    for (let vector = 0; vector < this.count; vector++) {
      let slot = this.#hashes[vector] & mask
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = vector + 1
    }
    this.#slots = slots
  }
}
