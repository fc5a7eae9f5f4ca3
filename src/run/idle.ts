/**
 * Which ids may go: at which segment each was met last, and when, in whole seconds of the segments' own time, so that a
 * replay decides the same. Looks at a few hundred ids per segment in turn; a full search happens only when room is short.
 */

import { grown, nextCapacity } from "../context/growth.ts"
import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"

export interface Limits {
  /** The most the tables may hold. */
  bytes?: number | undefined
  /** Milliseconds without an event after which an id loses a step of its size, and once more after as long again. */
  shrinkAfter?: number | undefined
  /** Milliseconds without an event after which an id leaves. */
  leaveAfter?: number | undefined
  /** Users that leave are kept elsewhere and come back as they were: they leave before anybody gives up a vector. */
  usersReturn?: boolean
}

/** Ids looked at per side and segment. */
const SCAN = 256

export class Idle {
  /** Second of the last event, 0 for an id that is not here. */
  readonly #last: Record<Side, Uint32Array> = { user: new Uint32Array(64), item: new Uint32Array(64) }
  /** Second of the last event or shrink. */
  readonly #rest: Record<Side, Uint32Array> = { user: new Uint32Array(64), item: new Uint32Array(64) }
  /** Segment of the last event. */
  readonly #segment: Record<Side, Uint32Array> = { user: new Uint32Array(64), item: new Uint32Array(64) }
  readonly #cursor: Record<Side, number> = { user: 0, item: 0 }

  /** Notes that ids were met. */
  meet(side: Side, ids: ArrayLike<number>, at: { milliseconds: number; segment: number }): void {
    const second = toSecond(at.milliseconds)
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]
      if (id >= this.#last[side].length) {
        const capacity = nextCapacity(this.#last[side].length, id + 1)
        this.#last[side] = grown(this.#last[side], capacity)
        this.#rest[side] = grown(this.#rest[side], capacity)
        this.#segment[side] = grown(this.#segment[side], capacity)
      }
      this.#last[side][id] = second
      this.#rest[side][id] = second
      this.#segment[side][id] = at.segment
    }
  }

  /** Of the next few ids those that have been idle for long enough. Those to shrink are noted as shrunk. */
  due(side: Side, milliseconds: number, limits: Limits): { shrink: number[]; leave: number[] } {
    const now = toSecond(milliseconds)
    const [shrink, leave]: [number[], number[]] = [[], []]
    const [last, rest] = [this.#last[side], this.#rest[side]]
    const { shrinkAfter = Number.POSITIVE_INFINITY, leaveAfter = Number.POSITIVE_INFINITY } = limits
    for (let n = Math.min(SCAN, last.length); n > 0; n--) {
      const id = this.#cursor[side]
      this.#cursor[side] = (id + 1) % last.length
      if (last[id] === 0) continue
      if ((now - last[id]) * 1000 > leaveAfter) leave.push(id)
      else if ((now - rest[id]) * 1000 > shrinkAfter) {
        shrink.push(id)
        rest[id] = now
      }
    }
    return { shrink, leave }
  }

  /** The `count` ids of both sides met longest ago, all of them before `segment`. */
  longest(count: number, segment: number): Record<Side, number[]> {
    const chosen: Record<Side, number[]> = { user: [], item: [] }
    // The segment of the last one chosen, by its upper 16 bits, then by the lower.
    const upper = find(this.#counts(segment), count)
    const lower = find(this.#counts(segment, upper.bucket), count - upper.before)
    const limit = 2 ** 16 * upper.bucket + lower.bucket
    let rest = count - upper.before - lower.before
    for (const side of ["user", "item"] as const) {
      const [last, met] = [this.#last[side], this.#segment[side]]
      for (let id = 0; id < last.length; id++) {
        const at = met[id]
        if (at > limit || at >= segment || last[id] === 0) continue
        if (at < limit || rest-- > 0) chosen[side].push(id)
      }
    }
    return chosen
  }

  /** Ids met last before `segment`, counted by the upper 16 bits of when that was; of those of one such, by the lower. */
  #counts(segment: number, upper?: number): Uint32Array {
    const counts = new Uint32Array(1 << 16)
    for (const side of ["user", "item"] as const) {
      const [last, met] = [this.#last[side], this.#segment[side]]
      for (let id = 0; id < last.length; id++) {
        const at = met[id]
        if (at >= segment || last[id] === 0) continue
        if (upper === undefined) counts[at >>> 16]++
        else if (at >>> 16 === upper) counts[at & 0xffff]++
      }
    }
    return counts
  }

  /** Second of an id's last event, 0 for one that is not here. */
  lastOf(side: Side, id: number): number {
    return id < this.#last[side].length ? this.#last[side][id] : 0
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids)
      if (id < this.#last[side].length) {
        this.#last[side][id] = 0
        this.#rest[side][id] = 0
      }
  }

  save(state: State): void {
    for (const side of ["user", "item"] as const) {
      state.put(`last.${side}`, this.#last[side])
      state.put(`rest.${side}`, this.#rest[side])
      state.put(`segment.${side}`, this.#segment[side])
      state.set(`cursor.${side}`, this.#cursor[side])
    }
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) {
      this.#last[side] = state.take(`last.${side}`, Uint32Array).slice()
      this.#rest[side] = state.take(`rest.${side}`, Uint32Array).slice()
      this.#segment[side] = state.take(`segment.${side}`, Uint32Array).slice()
      this.#cursor[side] = state.get<number>(`cursor.${side}`)
    }
  }
}

/** The bucket that holds the `count`-th of all counted, or the last of them, and how many are in those before it. */
function find(counts: Uint32Array, count: number): { bucket: number; before: number } {
  let before = 0
  for (let bucket = 0; bucket < counts.length; bucket++) {
    if (before + counts[bucket] >= count) return { bucket, before }
    before += counts[bucket]
  }
  return { bucket: counts.length - 1, before }
}

function toSecond(milliseconds: number): number {
  return Math.max(1, Math.floor(milliseconds / 1000))
}
