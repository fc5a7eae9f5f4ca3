/** Which items each user has met, and which items there are: what sampling and masking need in the top-k task. */

import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"

export class History {
  readonly #items: Set<number>[] = []
  /** Items seen so far, in order of first sight. */
  readonly seen: number[] = []
  readonly #known = new Set<number>()
  /** By item: how many users have met it. */
  readonly #users = new Map<number, number>()

  /** Takes in rows in order. */
  add(user: ArrayLike<number>, item: ArrayLike<number>): void {
    for (let r = 0; r < user.length; r++) {
      const items = this.#items[user[r]] ?? new Set<number>()
      this.#items[user[r]] = items
      if (!items.has(item[r])) this.#count(item[r], 1)
      items.add(item[r])
      this.meet(item[r])
    }
  }

  /** Takes in an item. */
  meet(item: number): void {
    if (this.#known.has(item)) return
    this.#known.add(item)
    this.seen.push(item)
  }

  /** Takes up what a user has met, in place of what was here; the items need not be there. */
  put(user: number, items: Iterable<number>): void {
    this.#clear(user)
    this.#items[user] = new Set(items)
    for (const item of this.#items[user]) this.#count(item, 1)
  }

  /** Leaves an item out of those seen; users have met it all the same. */
  leaveOut(item: number): void {
    if (this.#known.delete(item)) this.seen.splice(this.seen.indexOf(item), 1)
  }

  knows(item: number): boolean {
    return this.#known.has(item)
  }

  has(user: number, item: number): boolean {
    return this.#items[user]?.has(item) ?? false
  }

  of(user: number): ReadonlySet<number> {
    return this.#items[user] ?? EMPTY
  }

  /** Items seen, those met by most users first; of equals the earlier seen. */
  byPopularity(): number[] {
    const { length } = this.seen
    // Numbers sort faster than pairs: the count, then the place.
    const keys = Float64Array.from(this.seen, (item, i) => i - (this.#users.get(item) ?? 0) * length).sort()
    return Array.from(keys, (key) => this.seen[((key % length) + length) % length])
  }

  #count(item: number, change: number): void {
    this.#users.set(item, (this.#users.get(item) ?? 0) + change)
  }

  #clear(user: number): void {
    for (const item of this.of(user)) this.#count(item, -1)
    delete this.#items[user]
  }

  /** Drops users, or items from everywhere. */
  forget(side: Side, ids: ReadonlySet<number>): void {
    if (side === "user") {
      for (const user of ids) this.#clear(user)
      return
    }
    // The shorter of the two is looked through: many items may leave at once.
    for (const items of this.#items) {
      if (!items) continue
      const among: ReadonlySet<number> = items.size < ids.size ? items : ids
      for (const item of among) if (ids.has(item)) items.delete(item)
    }
    for (const item of ids) {
      this.#known.delete(item)
      this.#users.delete(item)
    }
    const rest = this.seen.filter((item) => !ids.has(item))
    this.seen.length = 0
    for (const item of rest) this.seen.push(item)
  }

  save(state: State): void {
    const counts = Int32Array.from(this.#items, (items) => items?.size ?? 0)
    const all = new Int32Array(counts.reduce((sum, count) => sum + count, 0))
    let at = 0
    for (const items of this.#items) if (items) for (const item of items) all[at++] = item
    state.put("seen", Int32Array.from(this.seen))
    state.put("counts", counts)
    state.put("items", all)
  }

  load(state: State): void {
    const counts = state.take("counts", Int32Array)
    const all = state.take("items", Int32Array)
    this.#items.length = 0
    this.#items.length = counts.length
    this.#known.clear()
    this.#users.clear()
    for (const item of all) this.#count(item, 1)
    this.seen.length = 0
    for (let user = 0, from = 0; user < counts.length; user++) {
      if (counts[user] > 0) this.#items[user] = new Set(all.subarray(from, from + counts[user]))
      from += counts[user]
    }
    for (const item of state.take("seen", Int32Array)) {
      this.seen.push(item)
      this.#known.add(item)
    }
  }
}

const EMPTY: ReadonlySet<number> = new Set()

/** Draws negatives uniformly from the items seen so far that are not in the user's history. */
export class NegativeSampler {
  readonly #random: Random

  constructor(seed: number) {
    this.#random = new Random(seed, "negatives")
  }

  save(state: State): void {
    this.#random.save(state)
  }

  load(state: State): void {
    this.#random.load(state)
  }

  /** Writes `count` items for a user from `out[at]`; returns how many there were to draw (0 when the user has met all). */
  draw(history: History, user: number, out: { items: Int32Array; at: number; count: number }): number {
    const { seen } = history
    const met = history.of(user).size
    if (met >= seen.length) return 0
    // Rejection is quick while most items are unmet; for a user who has met nearly all, choose among the rest.
    const rest = met > 0.9 * seen.length ? seen.filter((item) => !history.has(user, item)) : undefined
    for (let n = 0; n < out.count; n++) {
      let item = rest ? rest[this.#random.integer(rest.length)] : seen[this.#random.integer(seen.length)]
      while (!rest && history.has(user, item)) item = seen[this.#random.integer(seen.length)]
      out.items[out.at + n] = item
    }
    return out.count
  }
}
