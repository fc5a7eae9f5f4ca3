/**
 * plain-neighbours: the neighbours of a user's latest items (calibrated/neighbours.ts) and nothing else.
 *
 *   score(u, i) = 6·f_0 + f_1      users without latest items: how often i was met
 */

import { grown, nextCapacity } from "../../ids/growth.ts"
import { Neighbours } from "../calibrated/neighbours.ts"
import { checkPairs, type Pairs, type PlainRanker } from "./model.ts"

const LATEST = 10

export class PlainNeighbours implements PlainRanker {
  readonly #neighbours = new Neighbours()
  /** By user, the latest first. */
  readonly #latest = new Map<number, number[]>()
  /** The same before what was observed and not learned. */
  readonly #before = new Map<number, number[]>()
  #counts = new Float64Array(64)

  get heldBytes(): number {
    return this.#neighbours.heldBytes + this.#counts.byteLength + 4 * LATEST * this.#latest.size
  }

  learn(pairs: Pairs): void {
    checkPairs(pairs)
    for (let r = 0; r < pairs.length; r++) {
      const [user, item] = [pairs.user[r], pairs.item[r]]
      if (item >= this.#counts.length) this.#counts = grown(this.#counts, nextCapacity(this.#counts.length, item + 1))
      this.#counts[item]++
      const latest = this.#latest.get(user) ?? []
      this.#neighbours.count(item, latest, { length: latest.length })
      this.#latest.set(user, [item, ...latest.slice(0, LATEST - 1)])
    }
  }

  observe(user: number, item: number): void {
    const latest = this.#latest.get(user) ?? []
    if (!this.#before.has(user)) this.#before.set(user, latest)
    this.#latest.set(user, [item, ...latest.slice(0, LATEST - 1)])
  }

  unobserve(): void {
    for (const [user, latest] of this.#before) this.#latest.set(user, latest)
    this.#before.clear()
  }

  scores(out: Float64Array, user: number): void {
    out.fill(0)
    const latest = this.#latest.get(user) ?? []
    if (!this.#neighbours.open(latest, latest.length)) {
      out.set(this.#counts.subarray(0, Math.min(out.length, this.#counts.length)))
      return
    }
    for (let item = 0; item < out.length; item++)
      if (this.#neighbours.score(item)) out[item] = 6 * this.#neighbours.scores[0] + this.#neighbours.scores[1]
  }
}
