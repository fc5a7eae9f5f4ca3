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
    const met: number[] = []
    this.#before(segment, (_side, _id, at) => met.push(at))
    if (met.length === 0) return chosen
    const limit = Uint32Array.from(met).sort()[Math.min(count, met.length) - 1]
    let rest = Math.min(count, met.length) - met.reduce((earlier, at) => earlier + (at < limit ? 1 : 0), 0)
    this.#before(segment, (side, id, at) => {
      if (at < limit || (at === limit && rest-- > 0)) chosen[side].push(id)
    })
    return chosen
  }

  /** Every id met last before a segment. */
  #before(segment: number, each: (side: Side, id: number, met: number) => void): void {
    for (const side of ["user", "item"] as const) {
      const [last, met] = [this.#last[side], this.#segment[side]]
      for (let id = 0; id < last.length; id++) if (last[id] !== 0 && met[id] < segment) each(side, id, met[id])
    }
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

function toSecond(milliseconds: number): number {
  return Math.max(1, Math.floor(milliseconds / 1000))
}
