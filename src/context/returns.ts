/**
 * How often ids come back: events per segment of ids met so often before (f) and not met for so long (τ, in segments of
 * 500 events), learned from the stream itself, since pauses differ by orders of magnitude from one stream to another.
 *
 *   rate(f, τ) = hits / (looks + 100)      cells of ⌊log₄ f⌋ × ⌊log₂ τ⌋; both counts halve every 500 segments
 *
 * A hit is an event of an id in that cell before the segment; a look is an id found in it for one segment.
 */

import { exp } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"

const HALF_LIFE = 500
/** Looks that say nothing: a cell hardly looked at promises little. */
const DOUBT = 100
const PAUSES = 16

export class Returns {
  readonly #hits = pair()
  readonly #looks = pair()

  hit(side: Side, frequency: number, idle: number): void {
    this.#hits[side][cellOf(frequency, idle)]++
  }

  /** `weight`: id-segments this look stands for. */
  look(side: Side, frequency: number, p: { idle: number; weight: number }): void {
    this.#looks[side][cellOf(frequency, p.idle)] += p.weight
  }

  /** Lets time pass. */
  pass(segments: number): void {
    const kept = exp((-Math.LN2 * segments) / HALF_LIFE)
    for (const counts of [this.#hits, this.#looks])
      for (const side of ["user", "item"] as const)
        for (let cell = 0; cell < counts[side].length; cell++) counts[side][cell] *= kept
  }

  rate(side: Side, frequency: number, idle: number): number {
    const cell = cellOf(frequency, idle)
    return this.#hits[side][cell] / (this.#looks[side][cell] + DOUBT)
  }

  save(state: State): void {
    for (const side of ["user", "item"] as const) {
      state.put(`hits.${side}`, this.#hits[side])
      state.put(`looks.${side}`, this.#looks[side])
    }
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) {
      this.#hits[side].set(state.take(`hits.${side}`, Float64Array))
      this.#looks[side].set(state.take(`looks.${side}`, Float64Array))
    }
  }
}

function pair(): Record<Side, Float64Array> {
  return { user: new Float64Array(16 * PAUSES), item: new Float64Array(16 * PAUSES) }
}

function cellOf(frequency: number, idle: number): number {
  const row = frequencyClass(frequency)
  const pause = Math.min(1 << 20, Math.max(1, Math.round(idle)))
  const column = Math.min(PAUSES - 1, 31 - Math.clz32(pause))
  return PAUSES * row + column
}

/** ⌊log₄ f⌋, 0 to 15. */
export function frequencyClass(frequency: number): number {
  return (31 - Math.clz32(Math.max(1, frequency))) >> 1
}
