/** Which ids a batch has, each with a number of its own: a small hash table that is used again. */

export class Slots {
  /** By slot. */
  ids = new Int32Array(64)
  count = 0
  /** 1 + slot, 0 where nothing is. */
  #places = new Int32Array(256)
  #mask = 255

  /** Starts over; room for about this many ids, and for more where they come. */
  begin(expected: number): void {
    this.count = 0
    this.#setPlaces(expected)
  }

  #setPlaces(expected: number): void {
    const length = Math.max(256, 4 << (31 - Math.clz32(Math.max(1, expected))))
    if (length > this.#places.length) this.#places = new Int32Array(length)
    else this.#places.fill(0, 0, length)
    this.#mask = length - 1
  }

  /** The slot of an id; `count` rises where it is new. */
  add(id: number): number {
    const [places, mask] = [this.#places, this.#mask]
    let at = (Math.imul(id + 1, 0x9e3779b1) >>> 7) & mask
    for (; places[at] !== 0; at = (at + 1) & mask) if (this.ids[places[at] - 1] === id) return places[at] - 1
    if (this.count === this.ids.length) {
      const ids = new Int32Array(2 * this.count)
      ids.set(this.ids)
      this.ids = ids
    }
    this.ids[this.count++] = id
    places[at] = this.count
    if (2 * this.count > mask) this.#rehash()
    return this.count - 1
  }

  #rehash(): void {
    const ids = this.ids.slice(0, this.count)
    this.begin(ids.length)
    for (const id of ids) this.add(id)
  }
}
