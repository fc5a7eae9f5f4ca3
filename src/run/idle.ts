/**
 * Which ids may go: at which segment each was met last, and when, in whole seconds of the stream's own clock, so that a
 * replay decides the same. Looks through all ids whenever that clock has moved by a sixteenth of the shortest limit.
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

/** The shortest limit is divided by this: milliseconds between two searches for idle ids, and between two ticks. */
const SEARCHES_PER_LIMIT = 16
/** Milliseconds: times are kept in whole seconds. */
const SHORTEST_TICK = 1000
/** Milliseconds: one hour. */
const LONGEST_TICK = 3_600_000
/** Ticks: a step of the clock that is longer is a jump. At a sixteenth of the shortest limit each, a quarter of it. */
const TICKS_TO_A_JUMP = 4
/** Ids of a side that shrink or leave at one step at most; the search goes on from there at the next. */
export const MOST_AT_ONCE = 65_536

/** Milliseconds of the shorter idle limit; undefined without idle limits. */
function shortestLimit({ shrinkAfter, leaveAfter }: Limits): number | undefined {
  if (shrinkAfter === undefined && leaveAfter === undefined) return undefined
  return Math.min(shrinkAfter ?? Number.POSITIVE_INFINITY, leaveAfter ?? Number.POSITIVE_INFINITY)
}

/** Milliseconds between two searches for idle ids. */
function searchMilliseconds(shortest: number): number {
  return Math.max(SHORTEST_TICK, shortest / SEARCHES_PER_LIMIT)
}

/** How often time has to advance where no events come, in milliseconds; undefined without idle limits. */
export function tickMilliseconds(limits: Limits): number | undefined {
  const shortest = shortestLimit(limits)
  return shortest === undefined ? undefined : Math.min(LONGEST_TICK, searchMilliseconds(shortest))
}

/** The largest step of the clock believed at once: a quarter of the shortest limit, at least 4 s; undefined without idle limits. */
export function toleranceMilliseconds(limits: Limits): number | undefined {
  const shortest = shortestLimit(limits)
  return shortest === undefined ? undefined : TICKS_TO_A_JUMP * searchMilliseconds(shortest)
}

export class Idle {
  /** Second of the last event, 0 for an id that is not here. */
  readonly #last: Record<Side, Uint32Array> = { user: new Uint32Array(64), item: new Uint32Array(64) }
  /** Second of the last event or shrink. */
  readonly #rest: Record<Side, Uint32Array> = { user: new Uint32Array(64), item: new Uint32Array(64) }
  /** Segment of the last event. */
  readonly #segment: Record<Side, Uint32Array> = { user: new Uint32Array(64), item: new Uint32Array(64) }
  /** Where a search that stopped half-way goes on; 0 where none did. */
  readonly #cursor: Record<Side, number> = { user: 0, item: 0 }
  /** Milliseconds when the last search of each side began. */
  readonly #searched: Record<Side, number> = { user: 0, item: 0 }

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

  /** Ids that have been idle for long enough, where it is time for a search. Those to shrink are noted as shrunk. */
  due(side: Side, milliseconds: number, limits: Limits): { shrink: number[]; leave: number[] } {
    const [shrink, leave]: [number[], number[]] = [[], []]
    const shortest = shortestLimit(limits)
    if (shortest === undefined) return { shrink, leave }
    if (this.#cursor[side] === 0) {
      if (Math.abs(milliseconds - this.#searched[side]) < searchMilliseconds(shortest)) return { shrink, leave }
      this.#searched[side] = milliseconds
    }
    const now = toSecond(milliseconds)
    const [last, rest] = [this.#last[side], this.#rest[side]]
    const [leaveBefore, shrinkBefore] = [secondsBefore(now, limits.leaveAfter), secondsBefore(now, limits.shrinkAfter)]
    let id = this.#cursor[side]
    for (let found = 0; id < last.length && found < MOST_AT_ONCE; id++) {
      const met = last[id]
      if (met >= leaveBefore && rest[id] >= shrinkBefore) continue
      if (met === 0) continue
      found++
      if (met < leaveBefore) leave.push(id)
      else {
        shrink.push(id)
        rest[id] = now
      }
    }
    this.#cursor[side] = id < last.length ? id : 0
    return { shrink, leave }
  }

  /** The clock jumped: ids met at a segment of doubt (`from` or later) count as just met, and nobody was met later than now. */
  rebase(milliseconds: number, from: number): void {
    const now = toSecond(milliseconds)
    for (const side of ["user", "item"] as const) {
      const [last, rest, met] = [this.#last[side], this.#rest[side], this.#segment[side]]
      for (let id = 0; id < last.length; id++) {
        if (last[id] === 0) continue
        if (met[id] >= from || last[id] > now) last[id] = now
        if (met[id] >= from || rest[id] > now) rest[id] = now
      }
    }
  }

  /** Milliseconds of the latest event noted, 0 where there is none. */
  get latest(): number {
    let latest = 0
    for (const side of ["user", "item"] as const)
      for (const second of this.#last[side]) if (second > latest) latest = second
    return 1000 * latest
  }

  /** The `count` ids of both sides met longest ago, all of them before `segment`. */
  longest(count: number, segment: number): Record<Side, number[]> {
    const chosen: Record<Side, number[]> = { user: [], item: [] }
    // The segment of the last one chosen, by its upper 16 bits, then by the lower.
    const upper = find(this.#counts(segment), count)
    const lower = find(this.#counts(segment, upper.bucket), count - upper.before)
    const limit = 65_536 * upper.bucket + lower.bucket
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
      if (this.#searched[side] !== 0) state.set(`searched.${side}`, this.#searched[side])
    }
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) {
      this.#last[side] = state.take(`last.${side}`, Uint32Array).slice()
      this.#rest[side] = state.take(`rest.${side}`, Uint32Array).slice()
      this.#segment[side] = state.take(`segment.${side}`, Uint32Array).slice()
      this.#cursor[side] = state.get<number>(`cursor.${side}`)
      this.#searched[side] = state.has(`searched.${side}`) ? state.get<number>(`searched.${side}`) : 0
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

/** Who was met before this second has been idle for longer than a limit; nobody where there is none. */
function secondsBefore(now: number, limit: number | undefined): number {
  return limit === undefined ? 0 : Math.max(0, Math.ceil(now - limit / 1000))
}

function toSecond(milliseconds: number): number {
  return Math.max(1, Math.floor(milliseconds / 1000))
}
