/** Which items each user has met, and which items there are: what sampling and masking need in the top-k task. */

import { Random } from "../kernels/random.ts"

export class History {
  readonly #items: Set<number>[] = []
  /** Items seen so far, in order of first sight. */
  readonly seen: number[] = []
  readonly #known = new Set<number>()

  /** Takes in rows in order. */
  add(user: ArrayLike<number>, item: ArrayLike<number>): void {
    for (let r = 0; r < user.length; r++) {
      const items = this.#items[user[r]] ?? new Set<number>()
      this.#items[user[r]] = items
      items.add(item[r])
      if (this.#known.has(item[r])) continue
      this.#known.add(item[r])
      this.seen.push(item[r])
    }
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
}

const EMPTY: ReadonlySet<number> = new Set()

/** Draws negatives uniformly from the items seen so far that are not in the user's history. */
export class NegativeSampler {
  readonly #random: Random

  constructor(seed: number) {
    this.#random = new Random(seed, "negatives")
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
