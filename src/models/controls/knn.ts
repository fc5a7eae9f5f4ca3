/**
 * plain-knn (method §8): incremental item–item cosine.
 *
 *   C_ij   how often i was met by a user who has j among his last 200 distinct items, or the other way round
 *   n_i    training pairs of i
 *   score(u, i) = Σ_j C_ij/√((n_i + 1)(n_j + 1)) over u's last 50 distinct items j
 *
 * A user without such items is ranked by popularity: score(u, i) = n_i.
 * C is symmetric with an empty diagonal. An item met again counts again and becomes the user's latest.
 * Each row of C is a small hash table until a plain column is smaller.
 */

import { grown, nextCapacity } from "../../ids/growth.ts"
import { Lists } from "../../ids/lists.ts"
import { checkPairs, type Pairs, type PlainRanker } from "./model.ts"

const REMEMBERED = 200
const ASKED = 50

export class PlainKnn implements PlainRanker {
  #counts = new Float64Array(64)
  /** One more than the largest item index met. */
  #items = 0
  readonly #rows: CountRow[] = []
  /** Per user the last distinct items, oldest first. */
  readonly #recent = new Lists()

  get heldBytes(): number {
    let bytes = this.#counts.byteLength + this.#recent.bytes
    for (const row of this.#rows) bytes += row.bytes
    return bytes
  }

  learn(pairs: Pairs): void {
    checkPairs(pairs)
    for (let r = 0; r < pairs.length; r++) this.#add(pairs.user[r], pairs.item[r])
  }

  scores(out: Float64Array, user: number): void {
    out.fill(0)
    const counts = this.#counts
    const known = Math.min(out.length, this.#items)
    const recent = this.#recent
    const count = recent.count(user)
    if (count === 0) {
      out.set(counts.subarray(0, known))
      return
    }
    const end = recent.start[user] + count
    for (let k = end - Math.min(count, ASKED); k < end; k++) {
      const j = recent.cells[k]
      this.#rows[j].addTo(out, 1 / Math.sqrt(counts[j] + 1))
    }
    for (let i = 0; i < known; i++) out[i] /= Math.sqrt(counts[i] + 1)
  }

  #add(user: number, item: number): void {
    while (this.#items <= item) {
      this.#rows.push(new CountRow())
      this.#items += 1
    }
    if (item >= this.#counts.length) {
      this.#counts = grown(this.#counts, nextCapacity(this.#counts.length, item + 1))
    }
    this.#counts[item] += 1
    const recent = this.#recent
    const count = recent.count(user)
    const row = this.#rows[item]
    let found = -1
    for (let k = 0; k < count; k++) {
      const j = recent.cells[recent.start[user] + k]
      if (j === item) {
        found = k
        continue
      }
      row.increment(j, this.#items)
      this.#rows[j].increment(item, this.#items)
    }
    if (found >= 0) recent.remove(user, found)
    else if (count === REMEMBERED) recent.remove(user, 0)
    recent.append(user, item)
  }
}

/** Counts by item: open addressing (keys are item + 1, 0 for empty), or a plain column once that is not larger. */
class CountRow {
  #keys: Int32Array<ArrayBuffer> | undefined = new Int32Array(8)
  #counts = new Uint32Array(8)
  #used = 0

  get bytes(): number {
    return this.#counts.byteLength + (this.#keys?.byteLength ?? 0)
  }

  increment(item: number, items: number): void {
    const keys = this.#keys
    if (keys === undefined) {
      if (item >= this.#counts.length) this.#counts = grown(this.#counts, nextCapacity(this.#counts.length, items))
      this.#counts[item] += 1
      return
    }
    const slot = find(keys, item)
    this.#counts[slot] += 1
    if (keys[slot] !== 0) return
    keys[slot] = item + 1
    this.#used += 1
    if (2 * this.#used > keys.length) this.#enlarge(keys, items)
  }

  /** out[i] += weight·C_i */
  addTo(out: Float64Array, weight: number): void {
    const keys = this.#keys
    const counts = this.#counts
    if (keys === undefined) {
      const known = Math.min(out.length, counts.length)
      for (let i = 0; i < known; i++) out[i] += weight * counts[i]
      return
    }
    for (let slot = 0; slot < keys.length; slot++) {
      const item = keys[slot] - 1
      if (item >= 0 && item < out.length) out[item] += weight * counts[slot]
    }
  }

  #enlarge(keys: Int32Array, items: number): void {
    const counts = this.#counts
    const capacity = 2 * keys.length
    const plain = 2 * capacity >= items
    const nextKeys = plain ? undefined : new Int32Array(capacity)
    const next = new Uint32Array(plain ? nextCapacity(keys.length, items) : capacity)
    for (let slot = 0; slot < keys.length; slot++) {
      if (keys[slot] === 0) continue
      const item = keys[slot] - 1
      if (nextKeys === undefined) {
        next[item] = counts[slot]
      } else {
        const to = find(nextKeys, item)
        nextKeys[to] = keys[slot]
        next[to] = counts[slot]
      }
    }
    this.#keys = nextKeys
    this.#counts = next
  }
}

/** The slot of the item, or the empty one it would take. */
function find(keys: Int32Array, item: number): number {
  const mask = keys.length - 1
  let slot = (Math.imul(item + 1, 0x9e3779b1) >>> 7) & mask
  while (keys[slot] !== 0 && keys[slot] !== item + 1) slot = (slot + 1) & mask
  return slot
}
