/** Writes numbers and texts in as few bytes as they need: the format of records in the journal and in a cluster. */

import { DessError } from "../errors.ts"

export class ByteWriter {
  #bytes: Buffer
  #length = 0

  constructor(capacity = 256) {
    this.#bytes = Buffer.allocUnsafe(capacity)
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, this.#length + count))
    this.#bytes.copy(grown, 0, 0, this.#length)
    this.#bytes = grown
  }

  byte(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#length++] = value
  }

  /** A whole number from 0 to 2⁵³ − 1, seven bits to a byte, lowest first. */
  whole(value: number): void {
    this.#reserve(8)
    let rest = value
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#bytes[this.#length++] = (rest % 0x80) | 0x80
    this.#bytes[this.#length++] = rest
  }

  /** A whole number of either sign. */
  signed(value: number): void {
    this.whole(value < 0 ? -2 * value - 1 : 2 * value)
  }

  float32(value: number): void {
    this.#reserve(4)
    this.#length = this.#bytes.writeFloatLE(value, this.#length)
  }

  float64(value: number): void {
    this.#reserve(8)
    this.#length = this.#bytes.writeDoubleLE(value, this.#length)
  }

  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** Bytes with their length before them. */
  block(bytes: Uint8Array): void {
    this.whole(bytes.length)
    this.raw(bytes)
  }

  /** A text with its length before it. */
  text(value: string): void {
    this.block(Buffer.from(value))
  }

  /** What was written; a view until the next write. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}

export class ByteReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  #take(count: number): number {
    const at = this.#at
    if (!(at + count <= this.#bytes.length))
      throw new DessError(
        "INVALID_DATA",
        `record: expected ${count} more bytes, got ${this.#bytes.length - at}: it is cut short`,
      )
    this.#at += count
    return at
  }

  byte(): number {
    return this.#bytes[this.#take(1)]
  }

  whole(): number {
    let [value, unit] = [0, 1]
    for (;;) {
      const byte = this.byte()
      value += (byte & 0x7f) * unit
      if (byte < 0x80) return value
      unit *= 0x80
      if (unit > 2 ** 56) throw new DessError("INVALID_DATA", "record: expected a number below 2⁵³, got a larger one")
    }
  }

  signed(): number {
    const value = this.whole()
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2
  }

  float32(): number {
    return this.#bytes.readFloatLE(this.#take(4))
  }

  float64(): number {
    return this.#bytes.readDoubleLE(this.#take(8))
  }

  /** A view of the bytes read from. */
  raw(count: number): Buffer {
    const at = this.#take(count)
    return this.#bytes.subarray(at, at + count)
  }

  block(): Buffer {
    return this.raw(this.whole())
  }

  text(): string {
    return this.block().toString()
  }

  rest(): Buffer {
    return this.raw(this.#bytes.length - this.#at)
  }
}
