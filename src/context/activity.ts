/**
 * How often each id is met these days: a count that halves every 20 segments' worth of events (10,000).
 *
 *   c ← c·2^{−(t − t_last)/H} + 1      rate(t) = c·2^{−(t − t_last)/H}·ln 2/H      t in segments of 500 events
 */

import { exp } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"
import { grown, nextCapacity } from "./growth.ts"

const HALF_LIFE = 20
const LN2 = Math.LN2

export class Activity {
  readonly #count: Record<Side, Float64Array> = { user: new Float64Array(64), item: new Float64Array(64) }
  readonly #last: Record<Side, Float64Array> = { user: new Float64Array(64), item: new Float64Array(64) }

  meet(side: Side, id: number, time: number): void {
    if (id >= this.#count[side].length) {
      const capacity = nextCapacity(this.#count[side].length, id + 1)
      this.#count[side] = grown(this.#count[side], capacity)
      this.#last[side] = grown(this.#last[side], capacity)
    }
    this.#count[side][id] = this.#decayed(side, id, time) + 1
    this.#last[side][id] = time
  }

  /** Events per segment to be expected of an id. */
  rate(side: Side, id: number, time: number): number {
    return id < this.#count[side].length ? (this.#decayed(side, id, time) * LN2) / HALF_LIFE : 0
  }

  #decayed(side: Side, id: number, time: number): number {
    const count = this.#count[side][id]
    return count === 0 ? 0 : count * exp((-LN2 * (time - this.#last[side][id])) / HALF_LIFE)
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids) if (id < this.#count[side].length) this.#count[side][id] = 0
  }

  save(state: State): void {
    for (const side of ["user", "item"] as const) {
      state.put(`count.${side}`, this.#count[side])
      state.put(`last.${side}`, this.#last[side])
    }
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) {
      this.#count[side] = state.take(`count.${side}`, Float64Array).slice()
      this.#last[side] = state.take(`last.${side}`, Float64Array).slice()
    }
  }
}
