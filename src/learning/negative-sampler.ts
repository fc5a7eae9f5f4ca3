/** Negatives of the paper's recipe: uniform over the items seen that the user has not met. */

import type { History } from "../ids/history.ts"
import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"

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
    const met = history.of(user).length
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
