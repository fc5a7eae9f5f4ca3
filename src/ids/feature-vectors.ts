/**
 * The distinct feature vectors of the items met so far, numbered as they appear, nonzero entries only.
 * Many items share a vector (ML-1M: 3,883 films, 301 genre vectors), so a user's history is a short list of
 * vector numbers with counts.
 */

import { DessError, show } from "../errors.ts"
import type { Floats } from "../kernels/kernels.ts"
import type { State } from "../kernels/state.ts"
import type { ItemFeatures } from "../types.ts"
import { Columns, enlarged, growable, growableFrom } from "./columns.ts"

/** Item features in either width; `ItemFeatures` is one. */
export interface FeatureMatrix extends Omit<ItemFeatures, "values"> {
  values: Float32Array | Float64Array
}

const bits = new DataView(new ArrayBuffer(8))

export class FeatureVectors {
  readonly columns: number
  /** How many distinct vectors there are. */
  count = 0
  /**
   * Entries of vector v: `column[t]`, `value[t]` for t from `start[v]` to `start[v + 1] − 1`, columns ascending, filled
   * up with zeros of column 0 to a multiple of four, so that a loop over them can take four at a time.
   */
  start = growable("i32")
  column = growable("i32")
  value = growable("f64")
  /** ‖F_v‖² */
  norm = growable("f64")

  readonly #table: FeatureMatrix
  /** Vector number + 1 by item, 0 where the item has no entry so far. */
  readonly #byItem = new Columns({ vector: "u32" })
  /** Open addressing, vector number + 1 by hash, 0 for empty. */
  #slots = new Int32Array(128)
  #hashes = growable("i32")

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
  }

  /** The number of the item's vector, or −1 while the item has no entry. */
  of(item: number): number {
    this.#byItem.reserve(item)
    const known = this.#byItem.at.vector[item]
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
    this.#byItem.at.vector[item] = vector + 1
    return vector
  }

  /** Drops what is known of an item, whose number may stand for another from now on, or whose features changed. */
  forget(item: number): void {
    this.#byItem.clear(item)
  }

  /** The hash is made again by `load`. */
  save(state: State): void {
    const { count } = this
    state.put("start", this.start.slice(0, count + 1))
    state.put("column", this.column.slice(0, this.start[count]))
    state.put("value", this.value.slice(0, this.start[count]))
    state.put("hashes", this.#hashes.slice(0, count))
    this.#byItem.save(state.at("byItem"))
  }

  load(state: State): void {
    const start = state.take("start", Int32Array)
    const count = start.length - 1
    this.start = growableFrom("i32", start)
    this.column = growableFrom("i32", state.take("column", Int32Array))
    this.value = growableFrom("f64", state.take("value", Float64Array))
    this.#hashes = growableFrom("i32", state.take("hashes", Int32Array))
    this.#byItem.load(state.at("byItem"))
    this.norm = growable("f64", count + 1)
    for (let v = 0; v < count; v++)
      for (let t = start[v]; t < start[v + 1]; t++) this.norm[v] += this.value[t] * this.value[t]
    this.count = count
    let slots = 64
    while (slots < count) slots *= 2
    this.#rehash(2 * slots)
  }

  get bytes(): number {
    const { count } = this
    return 12 * this.start[count] + 16 * count + 4 + this.#byItem.bytes + this.#slots.byteLength
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
    if (this.count * 2 > this.#slots.length) this.#rehash(2 * this.#slots.length)
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
    this.start = enlarged(this.start, vector + 2)
    this.norm = enlarged(this.norm, vector + 1)
    this.#hashes = enlarged(this.#hashes, vector + 1)
    let end = this.start[vector]
    this.column = enlarged(this.column, end + this.columns + 3)
    this.value = enlarged(this.value, end + this.columns + 3)
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
    return vector
  }

  #rehash(length: number): void {
    const slots = new Int32Array(length)
    const mask = slots.length - 1
    for (let vector = 0; vector < this.count; vector++) {
      let slot = this.#hashes[vector] & mask
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = vector + 1
    }
    this.#slots = slots
  }
}
