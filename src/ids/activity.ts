/**
 * How often each id is met these days: a count that halves every 5 turns. A turn is as many events as it takes to meet
 * every id once, were all met equally often.
 *
 *   c ← c·2^{−(t − t_last)/H} + 1      rate(t) = c·2^{−(t − t_last)/H}·ln 2/H      t in turns
 *
 * Kept in float32: a time of ten thousand turns is known to a thousandth of one.
 */

import { exp } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { Columns } from "./columns.ts"

/** Turns: an id of the mean rate is met so often in it, on a site of any size. */
const HALF_LIFE = 5
const LN2 = Math.LN2
export interface Met {
  count: number
  last: number
}

const metColumns = () => new Columns({ count: "f32", last: "f32" })

export class Activity {
  readonly #met: Record<Side, ReturnType<typeof metColumns>> = { user: metColumns(), item: metColumns() }

  meet(side: Side, id: number, time: number): void {
    const met = this.#met[side]
    met.reserve(id)
    const { count, last } = met.at
    // Rounded as it is kept, so that roundings never add up: time passes from one kept time to the next.
    const now = Math.fround(time)
    count[id] = decay(count[id], now - last[id]) + 1
    last[id] = now
  }

  /** Events per turn to be expected of an id. */
  rate(side: Side, id: number, time: number): number {
    const met = this.#met[side]
    if (id >= met.length) return 0
    return (decay(met.at.count[id], time - met.at.last[id]) * LN2) / HALF_LIFE
  }

  /** Time since an id was met last; infinite for one that never was. Nothing is met at time 0. */
  idle(side: Side, id: number, time: number): number {
    const met = this.#met[side]
    const last = id < met.length ? met.at.last[id] : 0
    return last > 0 ? time - last : Number.POSITIVE_INFINITY
  }

  /** What is kept of an id: its count, as of when it was met last. */
  of(side: Side, id: number): Met {
    const met = this.#met[side]
    return id < met.length ? { count: met.at.count[id], last: met.at.last[id] } : { count: 0, last: 0 }
  }

  put(side: Side, id: number, { count, last }: Met): void {
    const met = this.#met[side]
    met.reserve(id)
    met.at.count[id] = count
    met.at.last[id] = last
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
    for (const id of ids) this.#met[side].clear(id)
  }

  get bytes(): number {
    return this.#met.user.bytes + this.#met.item.bytes
  }

  save(state: State): void {
    for (const side of SIDES) this.#met[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of SIDES) this.#met[side].load(state.at(side))
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
  return count === 0 || time === 0 ? count : count * exp((-LN2 * time) / HALF_LIFE)
}
