/** Distinct ids in the order they were added. Cleared and filled again, it leaves nothing to collect. */

/** Ids there is room for at first; the table has twice as many places. */
const FIRST = 512

export class DistinctIds {
  #ids = new Int32Array(FIRST)
  /** Open addressing: 1 + where an id stands, 0 for a free place. */
  #places = new Int32Array(2 * FIRST)
  #length = 0

  /** Those added: a view until the next change. */
  get ids(): Int32Array {
    return this.#ids.subarray(0, this.#length)
  }

  /** The place of an id, or the free one it would have. */
  #placeOf(id: number): number {
    const last = this.#places.length - 1
    let place = (Math.imul(id, 0x9e3779b1) >>> 7) & last
    while (this.#places[place] !== 0 && this.#ids[this.#places[place] - 1] !== id) place = (place + 1) & last
    return place
  }

  has(id: number): boolean {
    return this.#places[this.#placeOf(id)] !== 0
  }

  add(id: number): void {
    const place = this.#placeOf(id)
    if (this.#places[place] !== 0) return
    this.#ids[this.#length++] = id
    this.#places[place] = this.#length
    if (this.#length === this.#ids.length) this.#grow()
  }

  #grow(): void {
    const ids = this.#ids
    this.#ids = new Int32Array(2 * ids.length)
    this.#ids.set(ids)
    this.#places = new Int32Array(2 * this.#ids.length)
    for (let i = 0; i < this.#length; i++) this.#places[this.#placeOf(ids[i])] = i + 1
  }

  clear(): void {
    this.#places.fill(0)
    this.#length = 0
  }
}
