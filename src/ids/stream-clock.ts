/**
 * The time a stream believes it is, from readings of a wall clock that may be wrong for a while.
 *
 *   a step of at most the tolerance      believed at once
 *   a larger one                         a suspicion: time stands still until many readings in a row agree with it
 *
 * Readings agree while none falls behind the suspicion's first; one near the believed time ends the suspicion. Of the
 * last three the middle one is then believed, so that one wrong reading never counts. Nothing but readings decides: a
 * replay believes the same.
 */

import type { State } from "../kernels/state.ts"

/** Events that have to agree, over readings in a row: waiting for them costs idle ids nothing but a longer stay. */
const AGREEING_EVENTS = 100
/** Readings without events that have to agree where events are few: half of the shortest limit, at a sixteenth each. */
const AGREEING_TICKS = 8
/** Readings that have to agree whatever their events: with three, the middle one is right if one is wrong. */
const AGREEING_READINGS = 3

/** A jump that is not believed yet. */
type Suspicion = {
  /** Milliseconds of its first reading, of the last one, and of the one before that. */
  first: number
  last: number
  before: number
  readings: number
  events: number
  ticks: number
}

export class StreamClock {
  /** Milliseconds: the largest step believed at once. */
  tolerance: number
  /** Whether the last reading made a suspicion the believed time. */
  jumped = false
  #time: number | undefined
  /** The time believed before the last small step: the step of a wrong reading is undone as easily as it was believed. */
  #before = 0
  /** Whether any reading agreed with the believed time. */
  #confirmed = false
  #suspicion: Suspicion | undefined

  constructor(tolerance: number) {
    this.tolerance = tolerance
  }

  /** The believed time in milliseconds; undefined before the first reading. */
  get time(): number | undefined {
    return this.#time
  }

  /** Whether the believed time may be wrong: a suspicion is open, or only one reading was taken. */
  get doubtful(): boolean {
    return !this.#confirmed || this.#suspicion !== undefined
  }

  /** Takes a reading, with the number of events that came with it; returns the believed time. */
  read(milliseconds: number, events: number): number {
    this.jumped = false
    if (this.#time === undefined) {
      this.#time = milliseconds
      this.#before = milliseconds
      return milliseconds
    }
    if (this.#isNear(milliseconds, this.#time) || this.#isNear(milliseconds, this.#before)) {
      this.#confirmed = true
      this.#suspicion = undefined
      this.#before = this.#time
      this.#time = milliseconds
      return milliseconds
    }
    const suspicion = this.#suspicion
    if (!suspicion || milliseconds < suspicion.first - this.tolerance) {
      this.#suspicion = suspicionOf(milliseconds, events)
      return this.#time
    }
    const middle = middleOf(suspicion.before, suspicion.last, milliseconds)
    suspicion.before = suspicion.last
    suspicion.last = milliseconds
    suspicion.readings++
    suspicion.events += events
    if (events === 0) suspicion.ticks++
    if (isAgreed(suspicion)) {
      this.jumped = true
      this.#confirmed = true
      const near = this.#isNear(milliseconds, middle)
      this.#suspicion = near ? undefined : suspicionOf(milliseconds, events)
      this.#time = near ? milliseconds : middle
      this.#before = this.#time
    }
    return this.#time
  }

  #isNear(milliseconds: number, other: number): boolean {
    return Math.abs(milliseconds - other) <= this.tolerance
  }

  save(state: State): void {
    state.set("time", this.#time ?? null)
    state.set("before", this.#before)
    state.set("confirmed", this.#confirmed)
    state.set("suspicion", this.#suspicion ? { ...this.#suspicion } : null)
  }

  load(state: State): void {
    this.#time = state.get<number | null>("time") ?? undefined
    this.#before = state.get<number>("before")
    this.#confirmed = state.get<boolean>("confirmed")
    const suspicion = state.get<Suspicion | null>("suspicion")
    this.#suspicion = suspicion ? { ...suspicion } : undefined
  }
}

function suspicionOf(milliseconds: number, events: number): Suspicion {
  const at = { first: milliseconds, last: milliseconds, before: milliseconds }
  return { ...at, readings: 1, events, ticks: events === 0 ? 1 : 0 }
}

function isAgreed({ readings, events, ticks }: Suspicion): boolean {
  return readings >= AGREEING_READINGS && (events >= AGREEING_EVENTS || ticks >= AGREEING_TICKS)
}

function middleOf(a: number, b: number, c: number): number {
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
}
