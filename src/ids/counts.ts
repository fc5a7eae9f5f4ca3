/** How often each id was met: exact, in a column of 4 bytes, or in small numbers. */

import type { State } from "../kernels/state.ts"
import { Columns } from "./columns.ts"
import type { SmallNumbers } from "./small-numbers.ts"

export interface Counts {
  get(id: number): number
  set(id: number, count: number): void
  /** Counts one more event; returns how many there are then. */
  add(id: number): number
  clear(id: number): void
  readonly bytes: number
  save(state: State): void
  load(state: State): void
}

export class CountColumn implements Counts {
  readonly #columns = new Columns({ frequency: "u32" })

  get(id: number): number {
    return id < this.#columns.length ? this.#columns.at.frequency[id] : 0
  }

  set(id: number, count: number): void {
    this.#columns.reserve(id)
    this.#columns.at.frequency[id] = count
  }

  add(id: number): number {
    this.#columns.reserve(id)
    return ++this.#columns.at.frequency[id]
  }

  clear(id: number): void {
    this.#columns.clear(id)
  }

  get bytes(): number {
    return this.#columns.bytes
  }

  save(state: State): void {
    this.#columns.save(state)
  }

  load(state: State): void {
    this.#columns.load(state)
  }
}

/** What a small number holds, and one more. */
const FULL = 65_536
/** Bytes an entry of a map takes, about. */
const ENTRY = 48

/** Few ids are met 65,536 times: how often they were beyond what a small number holds is kept in a map. */
export class SmallCounts implements Counts {
  readonly #numbers: SmallNumbers
  readonly #times = new Map<number, number>()

  constructor(numbers: SmallNumbers) {
    this.#numbers = numbers
  }

  get(id: number): number {
    const count = this.#numbers.get(id)
    return this.#times.size === 0 ? count : count + FULL * (this.#times.get(id) ?? 0)
  }

  set(id: number, count: number): void {
    this.#numbers.set(id, count % FULL)
    if (count >= FULL) this.#times.set(id, Math.floor(count / FULL))
    else this.#times.delete(id)
  }

  add(id: number): number {
    const count = this.#numbers.add(id)
    if (count === 0) this.#times.set(id, (this.#times.get(id) ?? 0) + 1)
    return this.#times.size === 0 ? count : count + FULL * (this.#times.get(id) ?? 0)
  }

  clear(id: number): void {
    this.#numbers.clear(id)
    this.#times.delete(id)
  }

  get bytes(): number {
    return this.#numbers.bytes + ENTRY * this.#times.size
  }

  save(state: State): void {
    this.#numbers.save(state)
    state.put("often", Uint32Array.from(this.#times.keys()))
    state.put("times", Float64Array.from(this.#times.values()))
  }

  load(state: State): void {
    this.#numbers.load(state)
    const times = state.take("times", Float64Array)
    this.#times.clear()
    state.take("often", Uint32Array).forEach((id, k) => {
      this.#times.set(id, times[k])
    })
  }
}
