/** Numbers one after the other in bytes, little-endian: what travels between processes, row by row. */

import { DessError, show } from "../errors.ts"

export class Packer {
  #bytes = new Uint8Array(256)
  #view = new DataView(this.#bytes.buffer)
  #at = 0

  byte(value: number): void {
    const at = this.#room(1)
    this.#view.setUint8(at, value)
  }

  short(value: number): void {
    const at = this.#room(2)
    this.#view.setUint16(at, value, true)
  }

  /** A whole number from 0, small ones in few bytes: seven bits each, the last without the high bit. */
  count(value: number): void {
    let rest = value
    while (rest >= 128) {
      this.byte((rest % 128) + 128)
      rest = Math.floor(rest / 128)
    }
    this.byte(rest)
  }

  float(value: number): void {
    const at = this.#room(4)
    this.#view.setFloat32(at, value, true)
  }

  double(value: number): void {
    const at = this.#room(8)
    this.#view.setFloat64(at, value, true)
  }

  floats(values: ArrayLike<number>): void {
    const at = this.#room(4 * values.length)
    const view = this.#view
    for (let i = 0; i < values.length; i++) view.setFloat32(at + 4 * i, values[i], true)
  }

  /** Whole numbers from 0 as a set: how many, and ascending, each as what it is more than the one before. */
  set(values: Iterable<number>): void {
    const sorted = Float64Array.from(values).sort()
    this.count(sorted.length)
    let before = 0
    for (const value of sorted) {
      this.count(value - before)
      before = value
    }
  }

  /** Bytes as they are. */
  bytes(bytes: Uint8Array): void {
    const at = this.#room(bytes.length)
    this.#bytes.set(bytes, at)
  }

  /** What was written so far, a copy. */
  done(): Uint8Array {
    return this.#bytes.slice(0, this.#at)
  }

  #room(length: number): number {
    const at = this.#at
    this.#at += length
    if (this.#at > this.#bytes.length) {
      const wider = new Uint8Array(Math.max(this.#at, 2 * this.#bytes.length))
      wider.set(this.#bytes)
      this.#bytes = wider
      this.#view = new DataView(wider.buffer)
    }
    return at
  }
}

/** Reads what a packer wrote, and refuses what none could have written. */
export class Unpacker {
  readonly name: string
  readonly #view: DataView
  #at = 0

  /** `name`: what the bytes are, for messages. */
  constructor(bytes: Uint8Array, name: string) {
    this.name = name
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  byte(): number {
    return this.#view.getUint8(this.#take(1))
  }

  short(): number {
    return this.#view.getUint16(this.#take(2), true)
  }

  count(most = Number.MAX_SAFE_INTEGER): number {
    let [value, scale] = [0, 1]
    for (let n = 0; ; n++) {
      const byte = this.byte()
      value += (byte & 127) * scale
      if (value > most || n > 7) throw this.damaged(`a whole number up to ${most}`, value)
      if (byte < 128) return value
      scale *= 128
    }
  }

  float(): number {
    return this.#finite(this.#view.getFloat32(this.#take(4), true))
  }

  double(): number {
    return this.#finite(this.#view.getFloat64(this.#take(8), true))
  }

  floats(length: number): Float32Array {
    const at = this.#take(4 * length)
    const view = this.#view
    const values = new Float32Array(length)
    for (let i = 0; i < length; i++) values[i] = this.#finite(view.getFloat32(at + 4 * i, true))
    return values
  }

  doubles(length: number): Float64Array {
    this.#check(8 * length)
    return Float64Array.from({ length }, () => this.double())
  }

  /** Every value up to `most`, ascending. */
  set(most: number): number[] {
    const length = this.count()
    this.#check(length)
    let value = 0
    return Array.from({ length }, (_, n) => {
      const more = this.count(most - value)
      if (n > 0 && more === 0) throw this.damaged("every number once", value)
      value += more
      return value
    })
  }

  /** Refuses bytes left over. */
  end(): void {
    if (this.#at !== this.#view.byteLength) throw this.damaged(`${this.#at} bytes`, this.#view.byteLength)
  }

  damaged(expected: string, got: unknown): DessError {
    return new DessError("INVALID_DATA", `${this.name}: expected ${expected}, got ${show(got)}; the bytes are damaged`)
  }

  #finite(value: number): number {
    if (!Number.isFinite(value)) throw this.damaged("finite numbers", value)
    return value
  }

  #check(length: number): void {
    if (this.#at + length > this.#view.byteLength)
      throw this.damaged(`at least ${this.#at + length} bytes`, this.#view.byteLength)
  }

  #take(length: number): number {
    this.#check(length)
    const at = this.#at
    this.#at += length
    return at
  }
}
