/**
 * Negatives of the calibrated recipe: half of them uniform over the items seen, half what was met lately, so that a model
 * learns what tells a positive both from anything and from what is popular these days. Q corrects for it (sequence.ts).
 *
 *   Q(i) = ½/|seen| + ½·(times i is among the last 4,000 positives)/(how many those are)
 */

import type { History } from "../ids/history.ts"
import { log } from "../kernels/math.ts"
import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"

const WINDOW = 4000
const UNIFORM = 0.5
/** Draws for one negative before it is left out: the user has met nearly all that is popular. */
const TRIES = 20

export class NegativeMixture {
  readonly #random: Random
  /** The last positives, in a ring. */
  #ring: number[] = []
  #oldest = 0
  readonly #counts = new Map<number, number>()

  constructor(seed: number) {
    this.#random = new Random(seed, "negatives")
  }

  /** Takes in a positive. */
  add(item: number): void {
    this.#counts.set(item, (this.#counts.get(item) ?? 0) + 1)
    if (this.#ring.length < WINDOW) {
      this.#ring.push(item)
      return
    }
    const gone = this.#ring[this.#oldest]
    this.#ring[this.#oldest] = item
    this.#oldest = (this.#oldest + 1) % WINDOW
    const left = (this.#counts.get(gone) ?? 0) - 1
    if (left > 0) this.#counts.set(gone, left)
    else this.#counts.delete(gone)
  }

  /** log Q of an item, `seen` being how many there are. */
  logChance(item: number, seen: number): number {
    const lately = this.#ring.length === 0 ? 0 : (this.#counts.get(item) ?? 0) / this.#ring.length
    return log(UNIFORM / seen + (1 - UNIFORM) * lately)
  }

  /** Writes up to `count` items outside a user's history from `out[at]`; returns how many. */
  draw(history: History, user: number, out: { items: Int32Array; at: number; count: number }): number {
    const { seen } = history
    const met = history.of(user).length
    if (met >= seen.length) return 0
    const rest = met > 0.9 * seen.length ? seen.filter((item) => !history.has(user, item)) : undefined
    const random = this.#random
    let drawn = 0
    for (let n = 0; n < out.count; n++)
      for (let tries = 0; tries < TRIES; tries++) {
        const from = rest ?? (random.next() < UNIFORM ? seen : this.#ring)
        const item = from[random.integer(from.length)]
        if (history.has(user, item)) continue
        out.items[out.at + drawn++] = item
        break
      }
    return drawn
  }

  forget(items: ReadonlySet<number>): void {
    const kept = [...this.#ring.slice(this.#oldest), ...this.#ring.slice(0, this.#oldest)]
    this.#fill(kept.filter((item) => !items.has(item)))
  }

  /** Starts over with positives, oldest first. */
  #fill(items: Iterable<number>): void {
    this.#ring = []
    this.#oldest = 0
    this.#counts.clear()
    for (const item of items) this.add(item)
  }

  save(state: State): void {
    this.#random.save(state)
    state.put("ring", Int32Array.from(this.#ring))
    state.set("oldest", this.#oldest)
  }

  load(state: State): void {
    this.#random.load(state)
    this.#fill(state.take("ring", Int32Array))
    this.#oldest = state.get<number>("oldest")
  }
}
