/**
 * When and why each id got the sizes it had: what `explain` shows. The last ten changes of an id; where the policy decides
 * several rungs in a segment, the last of them.
 *
 * Most ids were met and never changed: that is one number, segment and step; the time is that of the segment, which all
 * ids met in it share. Other changes take two cells, three more with scores, one more with a time of their own.
 */

import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { Columns } from "./columns.ts"
import { Lists } from "./lists.ts"

/** Changes kept per id; of more the oldest goes. */
const KEPT = 10
/** Steps and segments that fit into the number of a first event. */
const STEPS = 16
const SEGMENTS = (1 << 28) - 1

/**
 * met: the first event. grown: the policy thought the next size worth it. explored: it did not yet, but could not rule it
 * out. released: the last rung earned too little. idle: no event for long. budget: others needed the room.
 * elsewhere: another process that shares the rows decided.
 */
export const REASONS = ["met", "grown", "explored", "released", "idle", "budget", "elsewhere"] as const
export type Reason = (typeof REASONS)[number]

/** Those that the policy decides. */
const DECIDED = REASONS.indexOf("released")

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

/**
 * The first cell of a change: its segment in the low 22 bits, reason, step, and which cells follow: the segment, where it
 * needs more, a time of its own, and three scores of 21 bits each.
 */
const SEGMENT_BITS = 22
const LONG_SEGMENT = (1 << SEGMENT_BITS) - 1
const WHY = 22
const STEP = 25
const LONGEST_STEP = 15
const SCORED = 1 << 29
const TIMED = 1 << 30
/** Bits of a float32 that a score leaves out: a ten-thousandth of it. */
const LEFT_OUT = 11

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/** The upper 21 bits of a number. */
const toBits = (number: number): number => {
  float[0] = number
  return bits[0] >>> LEFT_OUT
}

const fromBits = (upper: number): number => {
  bits[0] = upper << LEFT_OUT
  return float[0]
}

const isLong = (what: number): boolean => (what & LONG_SEGMENT) === LONG_SEGMENT

const reasonOf = (what: number): number => (what >>> WHY) & 7

/** The segment of the change that begins at a cell. */
const segmentOf = (cells: Int32Array, c: number): number => (isLong(cells[c]) ? cells[c + 1] : cells[c] & LONG_SEGMENT)

/** Cells of a change, by its first. */
const cellsOf = (what: number): number => 1 + (isLong(what) ? 2 : 0) + (what & TIMED ? 1 : 0) + (what & SCORED ? 2 : 0)

class SideLog {
  /** 1 + STEPS·segment + step of the first event, 0 where that is not known, or among the changes. */
  readonly met = new Columns({ met: "u32" })
  readonly changes = new Lists()
}

export class SizeLog {
  readonly #sides: Record<Side, SideLog> = { user: new SideLog(), item: new SideLog() }
  /** By segment: the second it was closed. */
  readonly #segments = new Columns({ second: "u32" })

  add(side: Side, id: number, change: SizeChange): void {
    const { met, changes } = this.#sides[side]
    const { segment, step, scores } = change
    const why = REASONS.indexOf(change.why)
    const second = Math.floor(change.time / 1000)
    const timed = !this.#isTimeOf(segment, second)
    met.reserve(id)
    const first = met.at.met[id] === 0 && changes.count(id) === 0
    if (first && why === 0 && !scores && !timed && step < STEPS && segment < SEGMENTS) {
      met.at.met[id] = 1 + STEPS * segment + step
      return
    }
    this.#makeRoom(side, id, { segment, why })
    const long = segment >= LONG_SEGMENT || step > LONGEST_STEP
    const what = (long ? LONG_SEGMENT : segment) | (why << WHY) | ((long ? 0 : step) << STEP)
    changes.append(id, what | (scores ? SCORED : 0) | (timed ? TIMED : 0))
    if (long) {
      changes.append(id, segment)
      changes.append(id, step)
    }
    if (timed) changes.append(id, second)
    if (!scores) return
    const [keep, grow, estimate] = [scores.keep, scores.grow, scores.estimate].map(toBits)
    // 21 + 11 bits, 10 + 21.
    changes.append(id, keep | (grow << 21))
    changes.append(id, (grow >>> 11) | (estimate << 10))
  }

  /** When a segment was closed, if known: in milliseconds, rounded to seconds; otherwise 0. */
  timeOf(segment: number): number {
    return segment < this.#segments.length ? 1000 * this.#segments.at.second[segment] : 0
  }

  /** Whether a second is that of its segment; the first one given is. */
  #isTimeOf(segment: number, second: number): boolean {
    const segments = this.#segments
    if (segment >= segments.length) {
      segments.reserve(segment)
      segments.at.second[segment] = second
    }
    return segments.at.second[segment] === second
  }

  /** Drops what a change takes the place of: the policy's last of the same segment, or the oldest where all are kept. */
  #makeRoom(side: Side, id: number, { segment, why }: { segment: number; why: number }): void {
    const { met, changes } = this.#sides[side]
    const cells = changes.of(id)
    let [count, last] = [met.at.met[id] === 0 ? 0 : 1, 0]
    for (let c = 0; c < cells.length; c += cellsOf(cells[c])) [count, last] = [count + 1, c]
    const isDecided = (reason: number) => reason > 0 && reason <= DECIDED
    const what = cells[last]
    if (cells.length > 0 && isDecided(why) && isDecided(reasonOf(what)) && segmentOf(cells, last) === segment)
      changes.truncate(id, last)
    else if (count === KEPT && met.at.met[id] !== 0) met.at.met[id] = 0
    else if (count === KEPT) for (let c = cellsOf(cells[0]); c > 0; c--) changes.remove(id, 0)
  }

  /** Oldest first. */
  of(side: Side, id: number): SizeChange[] {
    const { met, changes } = this.#sides[side]
    const { second } = this.#segments.at
    const found: SizeChange[] = []
    const first = id < met.length ? met.at.met[id] : 0
    if (first > 0) {
      const segment = Math.floor((first - 1) / STEPS)
      found.push({ segment, time: 1000 * second[segment], step: (first - 1) % STEPS, why: "met" })
    }
    const cells = changes.of(id)
    for (let c = 0; c < cells.length; c += cellsOf(cells[c])) {
      const what = cells[c]
      let at = c + 1
      const segment = segmentOf(cells, c)
      const step = isLong(what) ? cells[c + 2] : (what >>> STEP) & LONGEST_STEP
      if (isLong(what)) at += 2
      // Unsigned: seconds go on after 2038.
      const time = 1000 * (what & TIMED ? cells[at++] >>> 0 : second[segment])
      const change: SizeChange = { segment, time, step, why: REASONS[reasonOf(what)] }
      if (what & SCORED) {
        const [first, last] = [cells[at], cells[at + 1]]
        const grow = (first >>> 21) | ((last & 1023) << 11)
        change.scores = {
          keep: fromBits(first & 0x1fffff),
          grow: fromBits(grow),
          estimate: fromBits((last >>> 10) & 0x1fffff),
        }
      }
      found.push(change)
    }
    return found
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids) {
      this.#sides[side].met.clear(id)
      this.#sides[side].changes.clear(id)
    }
  }

  get bytes(): number {
    const sides = Object.values(this.#sides)
    return sides.reduce((sum, { met, changes }) => sum + met.bytes + changes.bytes, this.#segments.bytes)
  }

  save(state: State): void {
    this.#segments.save(state.at("segments"))
    for (const side of SIDES) {
      this.#sides[side].met.save(state.at(`${side}.met`))
      this.#sides[side].changes.save(state.at(`${side}.changes`))
    }
  }

  load(state: State): void {
    this.#segments.load(state.at("segments"))
    for (const side of SIDES) {
      this.#sides[side].met.load(state.at(`${side}.met`))
      this.#sides[side].changes.load(state.at(`${side}.changes`))
    }
  }
}
