/**
 * isgd and isgd-<k>: incremental matrix factorization of positives alone (Vinagre, Jorge and Gama, UMAP 2014). One step per
 * event, one pass, no negatives.
 *
 *   e = 1 − ⟨p_u, q_i⟩      p_u ← p_u + 0.05·(e·q_i − 0.01·p_u)      q_i ← q_i + 0.05·(e·p_u − 0.01·q_i), p_u as it was
 *   score(u, i) = 1 − |1 − ⟨p_u, q_i⟩|      the nearer to 1 the better, as in the paper; 0 for an item never met
 *
 * Without a number k = 10. Vectors start at N(0, 0.1). Users without events are ranked by how often items were met.
 * What is observed and not learned moves its user's vector alone.
 */

import { grown, nextCapacity } from "../../ids/growth.ts"
import { Random } from "../../kernels/random.ts"
import { checkPairs, type Pairs, type PlainRanker } from "./model.ts"

const RATE = 0.05
const L2 = 0.01
const START = 0.1

export class Isgd implements PlainRanker {
  readonly #width: number
  readonly #seed: number
  readonly #users = new Map<number, Float64Array>()
  readonly #items = new Map<number, Float64Array>()
  /** Vectors before what was observed and not learned; none for users that were new. */
  readonly #before = new Map<number, Float64Array | undefined>()
  #counts = new Float64Array(64)

  constructor({ width, seed = 1 }: { width: number; seed?: number }) {
    this.#width = width
    this.#seed = seed
  }

  get heldBytes(): number {
    return this.#counts.byteLength + 8 * this.#width * (this.#users.size + this.#items.size)
  }

  learn(pairs: Pairs): void {
    checkPairs(pairs)
    for (let r = 0; r < pairs.length; r++) {
      const item = pairs.item[r]
      if (item >= this.#counts.length) this.#counts = grown(this.#counts, nextCapacity(this.#counts.length, item + 1))
      this.#counts[item]++
      const [p, q] = [this.#vector("user", pairs.user[r]), this.#vector("item", item)]
      const e = 1 - dot(p, q)
      for (let f = 0; f < p.length; f++) {
        const [pf, qf] = [p[f], q[f]]
        p[f] = pf + RATE * (e * qf - L2 * pf)
        q[f] = qf + RATE * (e * pf - L2 * qf)
      }
    }
  }

  observe(user: number, item: number): void {
    const q = this.#items.get(item)
    if (!q) return
    if (!this.#before.has(user)) this.#before.set(user, this.#users.get(user)?.slice())
    const p = this.#vector("user", user)
    const e = 1 - dot(p, q)
    for (let f = 0; f < p.length; f++) p[f] += RATE * (e * q[f] - L2 * p[f])
  }

  unobserve(): void {
    for (const [user, vector] of this.#before) {
      if (vector) this.#users.set(user, vector)
      else this.#users.delete(user)
    }
    this.#before.clear()
  }

  scores(out: Float64Array, user: number): void {
    out.fill(0)
    const p = this.#users.get(user)
    if (!p) {
      out.set(this.#counts.subarray(0, Math.min(out.length, this.#counts.length)))
      return
    }
    for (const [item, q] of this.#items) if (item < out.length) out[item] = 1 - Math.abs(1 - dot(p, q))
  }

  /** An id's start depends on the seed and the id alone. */
  #vector(side: "user" | "item", id: number): Float64Array {
    const vectors = side === "user" ? this.#users : this.#items
    const known = vectors.get(id)
    if (known) return known
    const random = new Random(this.#seed, "isgd", side, id)
    const drawn = Float64Array.from({ length: this.#width }, () => START * random.normal())
    vectors.set(id, drawn)
    return drawn
  }
}

function dot(p: Float64Array, q: Float64Array): number {
  let sum = 0
  for (let f = 0; f < p.length; f++) sum += p[f] * q[f]
  return sum
}
