/**
 * How often ids come back: events per segment of ids met so often before (f) and not met for so long (τ, in segments of
 * 500 events), learned from the stream itself, since pauses differ by orders of magnitude from one stream to another.
 *
 *   rate(f, τ) = hits / (looks + 100)      cells of ⌊log₄ f⌋ × ⌊log₂ τ⌋; both counts halve every 500 segments
 *
 * A look is an id found in that cell for one segment; a hit is an event, in that segment, of an id that was in it. Where
 * processes share their ids, each looks at its own and all counts add up.
 */

import { exp } from "../kernels/math.ts"
import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"

const HALF_LIFE = 500
/** Looks that say nothing: a cell hardly looked at promises little. */
const DOUBT = 100
const PAUSES = 16
/** No count of another process is larger. */
const MOST = 1e12
const CELLS = 16 * PAUSES
/** All cells of hits, then of looks; of users, then of items. */
const LOOKS = 2 * CELLS
const NONE = new Float64Array(0)
const FROM: Record<Side, number> = { user: 0, item: CELLS }

export class Returns {
  readonly #counts = new Float64Array(2 * LOOKS)
  /** What was counted since evidence was last written, where it is. */
  #since: Float64Array | undefined

  hit(side: Side, frequency: number, idle: number): void {
    this.#count(FROM[side] + cellOf(frequency, idle), 1)
  }

  /** `weight`: id-segments this look stands for. */
  look(side: Side, frequency: number, p: { idle: number; weight: number }): void {
    this.#count(LOOKS + FROM[side] + cellOf(frequency, p.idle), p.weight)
  }

  #count(at: number, by: number): void {
    this.#counts[at] += by
    if (this.#since) this.#since[at] += by
  }

  /** Lets time pass. */
  advanceTime(segments: number): void {
    const kept = exp((-Math.LN2 * segments) / HALF_LIFE)
    for (const counts of [this.#counts, this.#since ?? NONE])
      for (let at = 0; at < counts.length; at++) counts[at] *= kept
  }

  rate(side: Side, frequency: number, idle: number): number {
    const at = FROM[side] + cellOf(frequency, idle)
    return this.#counts[at] / (this.#counts[LOOKS + at] + DOUBT)
  }

  record(): void {
    this.#since = new Float64Array(this.#counts.length)
  }

  /** What was counted since, cell by cell. */
  writeEvidence(out: Packer): void {
    const since = this.#since ?? NONE
    const cells = Array.from(since.keys()).filter((at) => since[at] > 0)
    out.set(cells)
    for (const at of cells) out.double(since[at])
    since.fill(0)
  }

  readEvidence(from: Unpacker): () => void {
    const cells = from.set(this.#counts.length - 1)
    const counts = readCounts(from, cells.length)
    return () => {
      for (let c = 0; c < cells.length; c++) this.#counts[cells[c]] += counts[c]
    }
  }

  writeAll(out: Packer): void {
    for (const count of this.#counts) out.double(count)
  }

  readAll(from: Unpacker): () => void {
    const counts = readCounts(from, this.#counts.length)
    return () => this.#counts.set(counts)
  }

  save(state: State): void {
    state.put("counts", this.#counts)
  }

  load(state: State): void {
    this.#counts.set(state.take("counts", Float64Array))
  }
}

function readCounts(from: Unpacker, length: number): Float64Array {
  const counts = from.doubles(length)
  for (const count of counts) if (!(count >= 0 && count <= MOST)) throw from.damaged(`counts from 0 to ${MOST}`, count)
  return counts
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
