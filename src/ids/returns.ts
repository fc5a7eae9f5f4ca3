/**
 * How often ids come back: events per turn of ids met so often before (f) and not met for this long (τ, in turns), learned
 * from the stream itself, since pauses differ by orders of magnitude from one stream to another.
 *
 *   rate(f, τ) = burst·hits / (looks + 10)      cells of ⌊log₄ f⌋ × ⌊log₂ 8τ⌋; both counts halve every 100 turns
 *
 * A look is an id found in that cell for one turn; a hit is an event of an id that was in it. Who comes back after a turn
 * or more is met several times at once: burst is the number of events for each such return (1 for shorter pauses), 12 at
 * most. For those, hits and looks are summed from their pause up to a longer one, whichever gives the most: who always
 * comes back after a month is worth waiting for after a week. Where processes share their ids, each looks at its own and
 * all counts add up.
 */

import { exp } from "../kernels/math.ts"
import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"

/** Turns. */
const HALF_LIFE = 100
/** Looks (ids found for a turn) that say nothing: a cell hardly looked at promises little, on a site of any size. */
const DOUBT = 10
const PAUSES = 16
/** Pauses up to this many turns are of one class. */
const SHORTEST = 1 / 8
/** The first class of pauses of a turn and more. */
const LONG = 3
/** Events of a return that count: who comes back without a row has learned one again after as many. */
const MOST_BURST = 12
/** No count of another process is larger. */
const MOST = 1e12
const CELLS = 16 * PAUSES
/** All cells of hits, then of looks; of users, then of items. */
const LOOKS = 2 * CELLS
const NONE = new Float64Array(0)
const FROM: Record<Side, number> = { user: 0, item: CELLS }

export class Returns {
  readonly #counts = new Float64Array(2 * LOOKS)
  /** Counts since evidence was last written. */
  #since: Float64Array | undefined
  /** Events for each return, as of when time passed last. */
  readonly #bursts: Record<Side, number> = { user: 1, item: 1 }

  hit(side: Side, frequency: number, idle: number): void {
    this.#count(FROM[side] + cellOf(frequency, idle), 1)
  }

  /** `weight`: for how many ids, and turns, this look stands. */
  look(side: Side, frequency: number, p: { idle: number; weight: number }): void {
    this.#count(LOOKS + FROM[side] + cellOf(frequency, p.idle), p.weight)
  }

  #count(at: number, by: number): void {
    this.#counts[at] += by
    if (this.#since) this.#since[at] += by
  }

  /** Lets time pass. */
  advanceTime(turns: number): void {
    const kept = exp((-Math.LN2 * turns) / HALF_LIFE)
    for (const counts of [this.#counts, this.#since ?? NONE])
      for (let at = 0; at < counts.length; at++) counts[at] *= kept
    this.#measureBursts()
  }

  #measureBursts(): void {
    for (const side of SIDES) {
      const [from, counts] = [FROM[side], this.#counts]
      let [all, returns] = [0, 0]
      for (let at = 0; at < CELLS; at++) {
        all += counts[from + at]
        if (at % PAUSES >= LONG) returns += counts[from + at]
      }
      this.#bursts[side] = returns > 0 ? Math.min(MOST_BURST, all / returns) : 1
    }
  }

  /** Of an id away for a turn or more: the best mean over any time to come, since who holds numbers holds them until then. */
  rate(side: Side, frequency: number, idle: number): number {
    const counts = this.#counts
    const cell = cellOf(frequency, idle)
    const from = FROM[side] + cell
    if (cell % PAUSES < LONG) return counts[from] / (counts[LOOKS + from] + DOUBT)
    const end = from - (cell % PAUSES) + PAUSES
    let [hits, looks, best] = [0, DOUBT, 0]
    for (let at = from; at < end; at++) {
      hits += counts[at]
      looks += counts[LOOKS + at]
      if (hits > best * looks) best = hits / looks
    }
    return this.#bursts[side] * best
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
    for (const side of SIDES) out.double(this.#bursts[side])
  }

  readAll(from: Unpacker): () => void {
    const counts = readCounts(from, this.#counts.length)
    const [user, item] = readCounts(from, SIDES.length)
    return () => {
      this.#counts.set(counts)
      this.#bursts.user = user
      this.#bursts.item = item
    }
  }

  save(state: State): void {
    state.put("counts", this.#counts)
    state.put("bursts", Float64Array.of(this.#bursts.user, this.#bursts.item))
  }

  load(state: State): void {
    this.#counts.set(state.take("counts", Float64Array))
    const bursts = state.take("bursts", Float64Array)
    this.#bursts.user = bursts[0]
    this.#bursts.item = bursts[1]
  }
}

function readCounts(from: Unpacker, length: number): Float64Array {
  const counts = from.doubles(length)
  for (const count of counts) if (!(count >= 0 && count <= MOST)) throw from.damaged(`counts from 0 to ${MOST}`, count)
  return counts
}

function cellOf(frequency: number, idle: number): number {
  const row = frequencyClass(frequency)
  const pause = Math.min(1 << 20, Math.max(1, idle / SHORTEST))
  const column = Math.min(PAUSES - 1, 31 - Math.clz32(pause))
  return PAUSES * row + column
}

/** ⌊log₄ f⌋, 0 to 15. */
function frequencyClass(frequency: number): number {
  return (31 - Math.clz32(Math.max(1, frequency))) >> 1
}
