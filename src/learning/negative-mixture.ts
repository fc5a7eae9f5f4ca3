/**
 * Negatives of the calibrated recipe: half uniform over the items seen, half items met recently, so that a model
 * learns to tell a positive from any item and from currently popular ones. Q corrects for it (sequence.ts).
 *
 *   Q(i) = ½/|seen| + ½·(times i is among the last 4,000 positives)/(how many those are)
 */

import { enlarged, growable } from "../ids/columns.ts"
import type { History } from "../ids/history.ts"
import { log } from "../kernels/math.ts"
import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"

const WINDOW = 4000
const UNIFORM = 0.5
/** Draws for one negative before it is left out: the user has met nearly all that is popular. */
const TRIES = 20
/** Items a user has met at most for them to be marked; more are searched in. */
const MARKED = 512

export class NegativeMixture {
  readonly #random: Random
  /** The last positives, in a ring, and how many they are. */
  readonly #ring = new Int32Array(WINDOW)
  #length = 0
  #oldest = 0
  /** By item: how often it is among them. */
  #counts = growable("u16")
  /** log Q by that number, where it is known for as many items as there are now; NaN where not. */
  readonly #logs = new Float64Array(WINDOW + 1)
  #logsSeen = 0
  /** By item: 1 where the user drawn for last has met it. */
  #marks = new Uint8Array(0)

  constructor(seed: number) {
    this.#random = new Random(seed, "negatives")
  }

  /** Takes in a positive. */
  add(item: number): void {
    this.#logsSeen = 0
    this.#counts = enlarged(this.#counts, item + 1)
    this.#counts[item]++
    if (this.#length < WINDOW) {
      this.#ring[this.#length++] = item
      return
    }
    this.#counts[this.#ring[this.#oldest]]--
    this.#ring[this.#oldest] = item
    this.#oldest = (this.#oldest + 1) % WINDOW
  }

  /** log Q of an item, `seen` being how many there are. */
  logChance(item: number, seen: number): number {
    const logs = this.#logs
    if (seen !== this.#logsSeen) {
      logs.fill(Number.NaN)
      this.#logsSeen = seen
    }
    const count = item < this.#counts.length ? this.#counts[item] : 0
    if (Number.isNaN(logs[count])) {
      const lately = this.#length === 0 ? 0 : count / this.#length
      logs[count] = log(UNIFORM / seen + (1 - UNIFORM) * lately)
    }
    return logs[count]
  }

  /** Writes items other than a positive: where people come back, what they have met is no less a negative. */
  drawOthers({ seen }: History, positive: number, out: { items: Int32Array; at: number; count: number }): number {
    if (seen.length < 2) return 0
    const random = this.#random
    let drawn = 0
    for (let n = 0; n < out.count; n++)
      for (let tries = 0; tries < TRIES; tries++) {
        const from = random.next() < UNIFORM ? seen : this.#ring
        const item = from[random.integer(from.length)]
        if (item === positive) continue
        out.items[out.at + drawn++] = item
        break
      }
    return drawn
  }

  /** Writes up to `count` items outside a user's history from `out[at]`; returns how many. */
  draw(history: History, user: number, out: { items: Int32Array; at: number; count: number }): number {
    const { seen } = history
    const met = history.of(user)
    if (met.length >= seen.length) return 0
    const isNear = met.length > 0.9 * seen.length
    const pool = isNear ? seen.filter((item) => !history.has(user, item)) : seen
    const marks = met.length <= MARKED ? this.#mark(history, met) : undefined
    const { items, at, count } = out
    const random = this.#random
    let drawn = 0
    for (let n = 0; n < count; n++)
      for (let tries = 0; tries < TRIES; tries++) {
        const isUniform = isNear || random.next() < UNIFORM
        const item = isUniform ? pool[random.integer(pool.length)] : this.#ring[random.integer(this.#length)]
        if (marks ? marks[item] === 1 : history.has(user, item)) continue
        items[at + drawn++] = item
        break
      }
    for (let i = 0; marks && i < met.length; i++) marks[met[i]] = 0
    return drawn
  }

  /** Marks the items a user has met: they are looked up many times. */
  #mark(history: History, met: Int32Array): Uint8Array {
    if (this.#marks.length < history.reach) this.#marks = new Uint8Array(2 * history.reach)
    const marks = this.#marks
    for (let i = 0; i < met.length; i++) marks[met[i]] = 1
    return marks
  }

  forget(items: ReadonlySet<number>): void {
    const kept = [...this.#ring.subarray(this.#oldest, this.#length), ...this.#ring.subarray(0, this.#oldest)]
    this.#fill(kept.filter((item) => !items.has(item)))
  }

  /** Starts over with positives, oldest first. */
  #fill(items: Iterable<number>): void {
    this.#counts.fill(0)
    this.#length = 0
    this.#oldest = 0
    for (const item of items) this.add(item)
  }

  save(state: State): void {
    this.#random.save(state)
    state.put("ring", this.#ring.slice(0, this.#length))
    state.set("oldest", this.#oldest)
  }

  load(state: State): void {
    this.#random.load(state)
    this.#fill(state.take("ring", Int32Array))
    this.#oldest = state.get<number>("oldest")
  }
}
