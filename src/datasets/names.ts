/** Outside ids as bytes → dense numbers. Ids stay text: "0444778" and "444778" are two items. */

import { decodeText } from "./records.ts"

/** An open-addressed table over one arena of bytes: no string is made for an id that is already known. */
export class ByteNames {
  #arena = Buffer.alloc(1 << 16)
  #offsets = new Float64Array(1024)
  #hashes = new Int32Array(1024)
  #slots = new Int32Array(2048)
  #count = 0

  get count(): number {
    return this.#count
  }

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
      if (this.#hashes[index] === hash && this.#equals(index, bytes, start, end)) return index
    }
    slots[slot] = this.#add(bytes, start, end, hash) + 1
    if (2 * this.#count > slots.length) this.#rehash()
    return this.#count - 1
  }

  /** All ids as text, by number. */
  texts(): string[] {
    const texts: string[] = new Array(this.#count)
    for (let i = 0; i < this.#count; i++) {
      texts[i] = decodeText(this.#arena.subarray(this.#offsets[i], this.#offsets[i + 1]))
    }
    return texts
  }

  #equals(index: number, bytes: Buffer, start: number, end: number): boolean {
    const arena = this.#arena
    let at = this.#offsets[index]
    if (this.#offsets[index + 1] - at !== end - start) return false
    for (let p = start; p < end; p++) if (arena[at++] !== bytes[p]) return false
    return true
  }

  #add(bytes: Buffer, start: number, end: number, hash: number): number {
    const index = this.#count++
    const at = this.#offsets[index]
    while (at + end - start > this.#arena.length) this.#arena = Buffer.concat([this.#arena], 2 * this.#arena.length)
    if (this.#count === this.#offsets.length) {
      const offsets = new Float64Array(2 * this.#offsets.length)
      offsets.set(this.#offsets)
      this.#offsets = offsets
      const hashes = new Int32Array(offsets.length)
      hashes.set(this.#hashes)
      this.#hashes = hashes
    }
    bytes.copy(this.#arena, at, start, end)
    this.#hashes[index] = hash
    this.#offsets[index + 1] = at + end - start
    return index
  }

  #rehash(): void {
    const slots = new Int32Array(4 * this.#slots.length)
    const mask = slots.length - 1
    for (let i = 0; i < this.#count; i++) {
      let slot = this.#hashes[i] & mask
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = i + 1
    }
    this.#slots = slots
  }
}
