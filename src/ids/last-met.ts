/**
 * When each id was met last, 2 bytes an id: in sixteenths of a turn, of which as many are told apart as 2 bytes can. Time goes
 * round every 4,096 turns. Who goes through the ids (`look`) says so of those away for half of that: they are taken to be
 * away for just as long.
 *
 * A turn is as many events as it takes to meet every id once, were all met equally often.
 */

import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import type { SmallNumbers } from "./small-numbers.ts"

/** Of a turn: what pauses are told apart by (returns.ts) is twice as long. */
const TICKS = 16
/** Ticks of a round; 0 is kept for ids never met. */
const ROUND = 65_535
const LONGEST = ROUND >> 1
/** What seems to be longer ago is yet to come: rows of a segment are not looked at in the order of time. */
const AHEAD = 49_152

export class LastMet {
  readonly #ticks: Record<Side, SmallNumbers>

  constructor(ticks: Record<Side, SmallNumbers>) {
    this.#ticks = ticks
  }

  /** Returns turns since the id was met before; infinite for one that never was. */
  meet(side: Side, id: number, time: number): number {
    const now = tickOf(time)
    const ticks = since(this.#ticks[side].set(id, now), now)
    return ticks < 0 ? Number.POSITIVE_INFINITY : ticks / TICKS
  }

  /** Turns since an id was met last; infinite for one that never was. */
  idle(side: Side, id: number, time: number): number {
    const ticks = this.#since(side, id, time)
    return ticks < 0 ? Number.POSITIVE_INFINITY : ticks / TICKS
  }

  /** Time at which an id was met last; 0 for one that never was. */
  of(side: Side, id: number, time: number): number {
    const ticks = this.#since(side, id, time)
    return ticks < 0 ? 0 : Math.max(0, Math.floor(time * TICKS) - ticks) / TICKS
  }

  /** Ticks since an id was met; −1 for one that never was. */
  #since(side: Side, id: number, time: number): number {
    return since(this.#ticks[side].get(id), tickOf(time))
  }

  /** Looks at an id, before time has gone round. */
  look(side: Side, id: number, time: number): void {
    if (this.#since(side, id, time) > LONGEST) this.meet(side, id, time - LONGEST / TICKS)
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids) this.#ticks[side].clear(id)
  }

  get bytes(): number {
    return this.#ticks.user.bytes + this.#ticks.item.bytes
  }

  save(state: State): void {
    for (const side of SIDES) this.#ticks[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of SIDES) this.#ticks[side].load(state.at(side))
  }
}

/** What is kept of a time. */
function tickOf(time: number): number {
  return 1 + (Math.floor(time * TICKS) % ROUND)
}

/** Ticks from one that was kept to now; −1 where none was. */
function since(kept: number, now: number): number {
  if (kept === 0) return -1
  const ticks = kept > now ? now - kept + ROUND : now - kept
  return ticks >= AHEAD ? 0 : ticks
}
