/** plain-recent-<n>: an item's score is how often it is among the last n training pairs, the same for every user. */

import { grown, nextCapacity } from "../../ids/growth.ts"
import { checkPairs, type Pairs, type PlainRanker } from "./model.ts"

export class PlainRecent implements PlainRanker {
  /** The last pairs' items, in a ring. */
  readonly #ring: Int32Array
  #learned = 0
  #counts = new Float64Array(64)

  constructor(pairs: number) {
    this.#ring = new Int32Array(pairs)
  }

  get heldBytes(): number {
    return this.#ring.byteLength + this.#counts.byteLength
  }

  learn(pairs: Pairs): void {
    checkPairs(pairs)
    for (let r = 0; r < pairs.length; r++) {
      const item = pairs.item[r]
      if (item >= this.#counts.length) this.#counts = grown(this.#counts, nextCapacity(this.#counts.length, item + 1))
      const place = this.#learned++ % this.#ring.length
      if (this.#learned > this.#ring.length) this.#counts[this.#ring[place]]--
      this.#ring[place] = item
      this.#counts[item]++
    }
  }

  scores(out: Float64Array): void {
    const known = Math.min(out.length, this.#counts.length)
    out.set(this.#counts.subarray(0, known))
    out.fill(0, known)
  }
}
