/**
 * When items that were put are deleted by themselves: neither put nor met for the idle limit to leave, or a day after
 * they expired. Without such a limit, and without `expires`, they stay. Time is that of the stream, so that a clock that
 * is wrong for a moment deletes nothing. What is found here is deleted by records of the journal: a replay does not ask.
 */

import { type Limits, toleranceMilliseconds } from "../ids/idle.ts"
import { StreamClock } from "../ids/stream-clock.ts"
import type { State } from "../kernels/state.ts"

/** Seconds after `expires`: until then it can be put again with all that is known of it. */
const GRACE = 86_400
/** Milliseconds: the largest step of the clock that is believed at once where no idle limit says so. */
const TOLERANCE = 6 * 3_600_000
/** What is kept of an item, about. */
const ENTRY_BYTES = 40
/** The second of an item that was put or met when the time was in doubt. */
const NOT_KNOWN = 0

export class ItemLifetimes {
  readonly #clock = new StreamClock(TOLERANCE)
  /** Second of the last put or event, where there is a limit. */
  readonly #used = new Map<number, number>()
  readonly #unknown = new Set<number>()
  #leaveAfter: number | undefined

  get bytes(): number {
    return ENTRY_BYTES * this.#used.size
  }

  /** Seconds, where the time is known. */
  get now(): number | undefined {
    return this.#clock.time === undefined || this.#clock.doubtful ? undefined : Math.floor(this.#clock.time / 1000)
  }

  /** Keeps to a limit from now on. Of items that were put before there was one it is as if they were put now. */
  limit(limits: Limits, items: Iterable<number>): void {
    const { leaveAfter } = limits
    this.#clock.tolerance = toleranceMilliseconds(limits) ?? TOLERANCE
    const isFirst = this.#leaveAfter === undefined
    this.#leaveAfter = leaveAfter
    if (leaveAfter === undefined) {
      this.#used.clear()
      this.#unknown.clear()
    } else if (isFirst) for (const item of items) if (!this.#used.has(item)) this.use(item)
  }

  /** Whether events are to be told of. */
  get isLimited(): boolean {
    return this.#leaveAfter !== undefined
  }

  /** An item that was put is put again, or met. */
  use(item: number): void {
    if (this.#leaveAfter === undefined) return
    const { now } = this
    this.#used.set(item, now ?? NOT_KNOWN)
    if (now === undefined) this.#unknown.add(item)
    else this.#unknown.delete(item)
  }

  drop(item: number): void {
    this.#used.delete(item)
    this.#unknown.delete(item)
  }

  /** Takes a reading of the clock, with the number of events that came with it. */
  read(milliseconds: number, events: number): void {
    this.#clock.read(milliseconds, events)
    const { now } = this
    if (now === undefined) return
    for (const item of this.#unknown) this.#used.set(item, now)
    this.#unknown.clear()
    // The clock went back.
    if (this.#clock.jumped) for (const [item, second] of this.#used) if (second > now) this.#used.set(item, now)
  }

  /** Whether an item's time is over. */
  isOver(item: number, expires: number | undefined): boolean {
    const { now } = this
    if (now === undefined) return false
    if (expires !== undefined && now > expires + GRACE) return true
    const used = this.#used.get(item)
    return this.#leaveAfter !== undefined && used !== undefined && now - used > this.#leaveAfter / 1000
  }

  save(state: State): void {
    this.#clock.save(state.at("clock"))
    state.put("items", Uint32Array.from(this.#used.keys()))
    state.put("seconds", Float64Array.from(this.#used.values()))
  }

  load(state: State): void {
    this.#clock.load(state.at("clock"))
    const [items, seconds] = [state.take("items", Uint32Array), state.take("seconds", Float64Array)]
    items.forEach((item, n) => {
      this.#used.set(item, seconds[n])
      if (seconds[n] === NOT_KNOWN) this.#unknown.add(item)
    })
  }
}
