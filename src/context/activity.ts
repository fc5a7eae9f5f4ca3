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

export interface Met {
  count: number
  last: number
}

export class Activity {
  readonly #count: Record<Side, Float64Array> = { user: new Float64Array(64), item: new Float64Array(64) }
  readonly #last: Record<Side, Float64Array> = { user: new Float64Array(64), item: new Float64Array(64) }

  meet(side: Side, id: number, time: number): void {
    this.#reserve(side, id)
    this.#count[side][id] = this.#decayed(side, id, time) + 1
    this.#last[side][id] = time
  }

  /** Events per segment to be expected of an id. */
  rate(side: Side, id: number, time: number): number {
    return id < this.#count[side].length ? (this.#decayed(side, id, time) * LN2) / HALF_LIFE : 0
  }

  /** Time since an id was met last; infinite for one that never was. Nothing is met at time 0. */
  idle(side: Side, id: number, time: number): number {
    const last = this.#last[side][id] ?? 0
    return last > 0 ? time - last : Number.POSITIVE_INFINITY
  }

  #decayed(side: Side, id: number, time: number): number {
    return decay(this.#count[side][id], time - this.#last[side][id])
  }

  #reserve(side: Side, id: number): void {
    if (id < this.#count[side].length) return
    const capacity = nextCapacity(this.#count[side].length, id + 1)
    this.#count[side] = grown(this.#count[side], capacity)
    this.#last[side] = grown(this.#last[side], capacity)
  }

  /** What is kept of an id: its count, as of when it was met last. */
  of(side: Side, id: number): Met {
    const there = id < this.#count[side].length
    return there ? { count: this.#count[side][id], last: this.#last[side][id] } : { count: 0, last: 0 }
  }

  put(side: Side, id: number, met: Met): void {
    this.#reserve(side, id)
    this.#count[side][id] = met.count
    this.#last[side][id] = met.last
  }

  /** Adds what an id was met elsewhere. */
  add(side: Side, id: number, met: Met): void {
    if (met.count > 0) this.put(side, id, addMet(this.of(side, id), met))
  }

  /** What an id was met since `before`. */
  since(side: Side, id: number, before: Met): Met {
    const now = this.of(side, id)
    return { count: Math.max(0, now.count - countAt(before, now.last)), last: now.last }
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids)
      if (id < this.#count[side].length) {
        this.#count[side][id] = 0
        this.#last[side][id] = 0
      }
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

/** Both together. */
export function addMet(a: Met, b: Met): Met {
  if (a.count === 0 || b.count === 0) return a.count === 0 ? b : a
  const last = Math.max(a.last, b.last)
  return { count: countAt(a, last) + countAt(b, last), last }
}

/** A count as it is at a later time. */
function countAt({ count, last }: Met, time: number): number {
  return decay(count, time - last)
}

function decay(count: number, time: number): number {
  return count === 0 ? 0 : count * exp((-LN2 * time) / HALF_LIFE)
}
