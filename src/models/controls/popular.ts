/**
 * plain-popular and plain-trending (method §8): an item's score is its count of training pairs, the same for every user.
 * Trending multiplies all counts by 0.97 before each segment.
 */

import { DessError, show } from "../../errors.ts"
import { grown, nextCapacity } from "../../ids/growth.ts"
import { checkPairs, type Pairs, type PlainRanker } from "./model.ts"

export interface PlainPopularOptions {
  /** What a count keeps per segment: 1 for plain-popular, 0.97 for plain-trending. */
  decay?: number
}

export const TRENDING_DECAY = 0.97

export class PlainPopular implements PlainRanker {
  readonly #decay: number
  #counts = new Float64Array(64)

  constructor(options: PlainPopularOptions = {}) {
    const { decay = 1 } = options
    if (!(decay > 0 && decay <= 1)) {
      throw new DessError("INVALID_ARGUMENT", `decay: expected a number above 0 and up to 1, got ${show(decay)}`)
    }
    this.#decay = decay
  }

  get heldBytes(): number {
    return this.#counts.byteLength
  }

  learn(pairs: Pairs): void {
    checkPairs(pairs)
    if (this.#decay < 1) {
      const counts = this.#counts
      for (let i = 0; i < counts.length; i++) counts[i] *= this.#decay
    }
    for (let r = 0; r < pairs.length; r++) {
      const item = pairs.item[r]
      if (item >= this.#counts.length) {
        this.#counts = grown(this.#counts, nextCapacity(this.#counts.length, item + 1))
      }
      this.#counts[item] += 1
    }
  }

  scores(out: Float64Array): void {
    const known = Math.min(out.length, this.#counts.length)
    out.set(this.#counts.subarray(0, known))
    out.fill(0, known)
  }
}
