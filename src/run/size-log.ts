/** When and why each id got the sizes it had: what `explain` shows. The last ten changes of an id, 24 bytes each. */

import { Lists } from "../context/lists.ts"
import type { State } from "../kernels/state.ts"
import type { PolicyScores } from "../search/policy.ts"
import type { Side } from "../types.ts"

/** Changes kept per id; of more the oldest goes. */
const KEPT = 10
/** Cells of a change: segment, second, step and reason, and three numbers as their bits. */
const CELLS = 6

/**
 * met: the first event. grown: the policy thought the next size worth it. explored: it did not yet, but could not rule it
 * out. released: the last rung earned too little. idle: no event for long. budget: others needed the room.
 * elsewhere: another process that shares the rows decided.
 */
export const REASONS = ["met", "grown", "explored", "released", "idle", "budget", "elsewhere"] as const
export type Reason = (typeof REASONS)[number]

/** What the policy thought of the rung that was taken or let go. */
export interface ArmScores {
  /** Upper confidence bounds of both arms. */
  keep: number
  grow: number
  /** What growing earns as far as measured, without the allowance for not knowing. */
  estimate: number
}

export interface SizeChange {
  segment: number
  /** When the segment was closed, in milliseconds since 1970, whole seconds; 0 where that is not known. */
  time: number
  step: number
  why: Reason
  /** Undefined where no policy with bounds decided. */
  scores?: ArmScores | undefined
}

const SCORED = 1 << 16
const float = new Float32Array(1)
const bits = new Int32Array(float.buffer)

const toBits = (number: number): number => {
  float[0] = number
  return bits[0]
}

const fromBits = (cell: number): number => {
  bits[0] = cell
  return float[0]
}

export class SizeLog {
  readonly #changes: Record<Side, Lists> = { user: new Lists(), item: new Lists() }

  add(side: Side, id: number, { segment, time, step, why, scores }: SizeChange): void {
    const changes = this.#changes[side]
    if (changes.count(id) === CELLS * KEPT) for (let c = 0; c < CELLS; c++) changes.remove(id, 0)
    changes.append(id, segment)
    changes.append(id, Math.floor(time / 1000))
    changes.append(id, step | (REASONS.indexOf(why) << 8) | (scores ? SCORED : 0))
    for (const number of [scores?.keep, scores?.grow, scores?.estimate]) changes.append(id, toBits(number ?? 0))
  }

  /** Oldest first. */
  of(side: Side, id: number): SizeChange[] {
    const { cells, start } = this.#changes[side]
    const found: SizeChange[] = []
    for (let c = 0; c < this.#changes[side].count(id); c += CELLS) {
      const [segment, second, what, ...numbers] = cells.subarray(start[id] + c, start[id] + c + CELLS)
      const [keep, grow, estimate] = numbers.map(fromBits)
      found.push({
        segment,
        // Unsigned: seconds go on after 2038.
        time: 1000 * (second >>> 0),
        step: what & 255,
        why: REASONS[(what >> 8) & 255],
        ...(what & SCORED ? { scores: { keep, grow, estimate } } : {}),
      })
    }
    return found
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids) this.#changes[side].clear(id)
  }

  save(state: State): void {
    for (const side of ["user", "item"] as const) this.#changes[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) this.#changes[side].load(state.at(side))
  }
}

/** Why a row grew: the measured best, or to find out. */
export function whyGrown(scores: PolicyScores | undefined): Reason {
  return scores && scores.means.grow <= scores.means.keep ? "explored" : "grown"
}

export function toArmScores(scores: PolicyScores | undefined): ArmScores | undefined {
  return scores && { keep: scores.keep, grow: scores.grow, estimate: scores.means.grow }
}
