/**
 * The idempotency keys that came last, in memory: an event that is sent again is mostly sent soon, and is recognised
 * without the disk. Every key has one place, which a later one may take; whoever is not here is looked up as before.
 */

/** A power of two. */
const PLACES = 2 ** 18

export class RecentKeys {
  /** Four words of a key's hash at a place, and its order of acceptance. */
  #words = new Uint32Array(0)
  #orders = new Float64Array(0)

  /** Bytes of memory. */
  get bytes(): number {
    return this.#words.byteLength + this.#orders.byteLength
  }

  add(hash: Uint8Array, order: number): void {
    if (this.#orders.length === 0) {
      this.#words = new Uint32Array(4 * PLACES)
      this.#orders = new Float64Array(PLACES).fill(-1)
    }
    const place = placeOf(hash)
    for (let n = 0; n < 4; n++) this.#words[4 * place + n] = wordAt(hash, n)
    this.#orders[place] = order
  }

  /** The order of a key; undefined where it is not known here. */
  find(hash: Uint8Array): number | undefined {
    if (this.#orders.length === 0) return undefined
    const place = placeOf(hash)
    if (this.#orders[place] < 0) return undefined
    for (let n = 0; n < 4; n++) if (this.#words[4 * place + n] !== wordAt(hash, n)) return undefined
    return this.#orders[place]
  }
}

const placeOf = (hash: Uint8Array) => wordAt(hash, 0) & (PLACES - 1)

function wordAt(hash: Uint8Array, n: number): number {
  const at = 4 * n
  return (hash[at] | (hash[at + 1] << 8) | (hash[at + 2] << 16) | (hash[at + 3] << 24)) >>> 0
}
