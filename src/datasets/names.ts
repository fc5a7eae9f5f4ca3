/** Outside ids as bytes → dense numbers. Ids stay text: "0444778" and "444778" are two items. */

import { decodeText } from "./encoding.ts"

/** Texts by number, packed end to end. */
export class NameArena {
  #bytes = Buffer.allocUnsafe(1 << 16)
  #offsets = new Float64Array(1024)
  #count = 0

  get count(): number {
    return this.#count
  }

  /** Adds `bytes[start … end-1]` and returns its number. */
  add(bytes: Buffer, start: number, end: number): number {
    const index = this.#count++
    const at = this.#offsets[index]
    while (at + end - start > this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], 2 * this.#bytes.length)
    if (this.#count === this.#offsets.length) {
      const offsets = new Float64Array(2 * this.#count)
      offsets.set(this.#offsets)
      this.#offsets = offsets
    }
    bytes.copy(this.#bytes, at, start, end)
    this.#offsets[index + 1] = at + end - start
    return index
  }

  /** Adds a text and returns its number. */
  addText(text: string): number {
    const bytes = Buffer.from(text)
    return this.add(bytes, 0, bytes.length)
  }

  /** Whether text `index` is `bytes[start …]`, to its full length. The caller knows that the lengths agree. */
  matches(index: number, bytes: Buffer, start: number): boolean {
    const own = this.#bytes
    const end = this.#offsets[index + 1]
    for (let p = this.#offsets[index], q = start; p < end; p++, q++) if (own[p] !== bytes[q]) return false
    return true
  }

  length(index: number): number {
    return this.#offsets[index + 1] - this.#offsets[index]
  }

  text(index: number): string {
    return decodeText(this.#bytes.subarray(this.#offsets[index], this.#offsets[index + 1]))
  }

  texts(): string[] {
    return Array.from({ length: this.#count }, (_, index) => this.text(index))
  }
}

/** An open-addressed table over an arena: no string is made for an id that is already known. */
export class NameTable {
  readonly names = new NameArena()
  #hashes = new Int32Array(1024)
  #slots = new Int32Array(2048)
  #scratch = Buffer.allocUnsafe(1 << 12)

  /** The number of the id in `bytes[start … end-1]`, a new one when it has not been met. */
  intern(bytes: Buffer, start: number, end: number): number {
    let hash = 0x811c9dc5 // FNV-1a
    for (let p = start; p < end; p++) hash = Math.imul(hash ^ bytes[p], 0x01000193)
    hash ^= hash >>> 15
    const slots = this.#slots
    const mask = slots.length - 1
    let slot = hash & mask
    for (; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const index = slots[slot] - 1
      if (this.#hashes[index] !== hash || this.names.length(index) !== end - start) continue
      if (this.names.matches(index, bytes, start)) return index
    }
    const index = this.names.add(bytes, start, end)
    if (index === this.#hashes.length) {
      const hashes = new Int32Array(2 * index)
      hashes.set(this.#hashes)
      this.#hashes = hashes
    }
    this.#hashes[index] = hash
    slots[slot] = index + 1
    if (2 * (index + 1) > slots.length) this.#rehash()
    return index
  }

  /** The number of an id given as text. */
  internText(text: string): number {
    // A character takes at most three bytes of UTF-8.
    if (3 * text.length > this.#scratch.length) this.#scratch = Buffer.allocUnsafe(6 * text.length)
    return this.intern(this.#scratch, 0, this.#scratch.write(text))
  }

  #rehash(): void {
    const slots = new Int32Array(4 * this.#slots.length)
    const mask = slots.length - 1
    for (let i = 0; i < this.names.count; i++) {
      let slot = this.#hashes[i] & mask
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = i + 1
    }
    this.#slots = slots
  }
}
