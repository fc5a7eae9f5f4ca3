/**
 * The idempotency keys that came last, in memory: an event that is sent again is mostly sent soon, and is recognised
 * without the disk. Every key has one slot, which a later key may take; a key that is not here is looked up on disk.
 */

/** A power of two. */
const MOST_PLACES = 2 ** 18
const BYTES_PER_PLACE = 24

export class RecentKeys {
  readonly #places: number
  /** Four words of a key's hash at a place, and its order of acceptance. */
  #words = new Uint32Array(0)
  #orders = new Float64Array(0)

  constructor(mostBytes = Number.POSITIVE_INFINITY) {
    const places = Math.min(MOST_PLACES, mostBytes / BYTES_PER_PLACE)
    this.#places = 2 ** Math.max(0, Math.floor(Math.log2(places)))
  }

  /** Bytes of memory. */
  get bytes(): number {
    return this.#words.byteLength + this.#orders.byteLength
  }

  add(hash: Uint8Array, order: number): void {
    if (this.#orders.length === 0) {
      this.#words = new Uint32Array(4 * this.#places)
      this.#orders = new Float64Array(this.#places).fill(-1)
    }
    const place = this.#placeOf(hash)
    for (let n = 0; n < 4; n++) this.#words[4 * place + n] = wordAt(hash, n)
    this.#orders[place] = order
  }

  /** The order of a key; undefined where it is not known here. */
  find(hash: Uint8Array): number | undefined {
    if (this.#orders.length === 0) return undefined
    const place = this.#placeOf(hash)
    if (this.#orders[place] < 0) return undefined
    for (let n = 0; n < 4; n++) if (this.#words[4 * place + n] !== wordAt(hash, n)) return undefined
    return this.#orders[place]
  }

  #placeOf(hash: Uint8Array): number {
    return wordAt(hash, 0) & (this.#places - 1)
  }
}

function wordAt(hash: Uint8Array, n: number): number {
  const at = 4 * n
  return (hash[at] | (hash[at + 1] << 8) | (hash[at + 2] << 16) | (hash[at + 3] << 24)) >>> 0
}
