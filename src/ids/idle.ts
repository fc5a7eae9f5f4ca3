/**
 * Which ids may go: at which segment each was met last, and when, in whole seconds of the stream's own clock, so that a
 * replay decides the same. Looks through all ids whenever that clock has moved by a sixteenth of the shortest limit.
 * Only what the limits ask for is kept: 4 bytes an id for a budget, 8 for a limit to leave, 12 for one to shrink.
 */

import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { Columns } from "./columns.ts"
import type { ProcessPrices } from "./process-bytes.ts"

export interface Limits {
  /** The most the tables may hold; with prices for it, the most they and the rest of the process may. */
  bytes?: number | undefined
  process?: ProcessPrices
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

/** What is known of one side, as far as the limits ask for it. */
interface SideTimes {
  /** Second of the last event, 0 for an id that is not here; with idle limits. */
  last?: Column | undefined
  /** Second of the last event or shrink; where ids shrink. */
  rest?: Column | undefined
  /** 1 + the segment of the last event, 0 for an id that is not here; with any limit. */
  segment?: Column | undefined
}

const column = () => new Columns({ value: "u32" })
type Column = ReturnType<typeof column>

const NAMES = ["last", "rest", "segment"] as const

export class Idle {
  readonly #times: Record<Side, SideTimes> = { user: {}, item: {} }
  /** Where a search that stopped half-way goes on; 0 where none did. */
  readonly #cursor: Record<Side, number> = { user: 0, item: 0 }
  /** Milliseconds when the last search of each side began. */
  readonly #searched: Record<Side, number> = { user: 0, item: 0 }
  /** Ids by when they were met last, to count with. */
  readonly #counts = new Uint32Array(1 << 16)

  /**
   * Keeps what limits need and nothing else; nothing for a budget alone where others know who is idle. Of ids that are here already, and of which that was not kept, it is as if they
   * were met now, before any segment. Says whether times were made up so.
   */
  keep(
    limits: Limits,
    p: { milliseconds: number; here: (side: Side) => Iterable<number>; budgetAlone?: boolean },
  ): boolean {
    const timed = shortestLimit(limits) !== undefined
    const ordered = timed || (limits.bytes !== undefined && p.budgetAlone !== false)
    const needed = { last: timed, rest: limits.shrinkAfter !== undefined, segment: ordered }
    let madeUp = false
    for (const side of SIDES) {
      const times = this.#times[side]
      for (const name of NAMES) {
        if (needed[name] === (times[name] !== undefined)) continue
        times[name] = needed[name] ? column() : undefined
        const { [name]: kept, last } = times
        if (!kept) continue
        for (const id of p.here(side)) {
          kept.reserve(id)
          // The columns of times are made in this order.
          if (name === "segment") kept.at.value[id] = 1
          else if (name === "rest") kept.at.value[id] = last && id < last.length ? last.at.value[id] : 0
          else kept.at.value[id] = toSecond(p.milliseconds)
          madeUp ||= name === "last"
        }
      }
    }
    return madeUp
  }

  /** Notes that ids were met. */
  meet(side: Side, ids: ArrayLike<number>, at: { milliseconds: number; segment: number }): void {
    const { last, rest, segment } = this.#times[side]
    if (!segment) return
    const second = toSecond(at.milliseconds)
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i]
      segment.reserve(id)
      segment.at.value[id] = 1 + at.segment
      last?.reserve(id)
      if (last) last.at.value[id] = second
      rest?.reserve(id)
      if (rest) rest.at.value[id] = second
    }
  }

  /** Ids that have been idle for long enough, where it is time for a search. Those to shrink are noted as shrunk. */
  due(side: Side, milliseconds: number, limits: Limits): { shrink: number[]; leave: number[] } {
    const [shrink, leave]: [number[], number[]] = [[], []]
    const { last, rest } = this.#times[side]
    const shortest = shortestLimit(limits)
    if (shortest === undefined || !last) return { shrink, leave }
    if (this.#cursor[side] === 0) {
      if (Math.abs(milliseconds - this.#searched[side]) < searchMilliseconds(shortest)) return { shrink, leave }
      this.#searched[side] = milliseconds
    }
    const now = toSecond(milliseconds)
    const [leaveBefore, shrinkBefore] = [secondsBefore(now, limits.leaveAfter), secondsBefore(now, limits.shrinkAfter)]
    const [seconds, rests] = [last.at.value, (rest ?? last).at.value]
    let id = this.#cursor[side]
    for (let found = 0; id < last.length && found < MOST_AT_ONCE; id++) {
      const met = seconds[id]
      if (met >= leaveBefore && rests[id] >= shrinkBefore) continue
      if (met === 0) continue
      found++
      if (met < leaveBefore) leave.push(id)
      else {
        shrink.push(id)
        rests[id] = now
      }
    }
    this.#cursor[side] = id < last.length ? id : 0
    return { shrink, leave }
  }

  /** The clock jumped: ids met at a segment of doubt (`from` or later) count as just met, and nobody was met later than now. */
  rebase(milliseconds: number, from: number): void {
    const now = toSecond(milliseconds)
    for (const side of SIDES) {
      const { last, rest, segment } = this.#times[side]
      if (!last || !segment) continue
      const [seconds, met] = [last.at.value, segment.at.value]
      for (let id = 0; id < last.length; id++) {
        if (seconds[id] === 0) continue
        const doubtful = met[id] > from
        if (doubtful || seconds[id] > now) seconds[id] = now
        if (rest && (doubtful || rest.at.value[id] > now)) rest.at.value[id] = now
      }
    }
  }

  /** Milliseconds of the latest event noted, 0 where there is none. */
  get latest(): number {
    let latest = 0
    for (const side of SIDES) {
      const { last } = this.#times[side]
      for (let id = 0; last && id < last.length; id++) latest = Math.max(latest, last.at.value[id])
    }
    return 1000 * latest
  }

  /** Whether it knows in which order ids were met. */
  get isOrdered(): boolean {
    return this.#times.user.segment !== undefined
  }

  /** The `count` ids met longest ago, all of them before `segment`; of all, or of those that may be chosen. */
  longest(
    count: number,
    segment: number,
    mayBe: (side: Side, id: number) => boolean = () => true,
  ): Record<Side, number[]> {
    const chosen: Record<Side, number[]> = { user: [], item: [] }
    // The segment of the last one chosen, by its upper 16 bits, then by the lower.
    const counts = this.#counts.fill(0)
    this.#eachBefore(segment, mayBe, (at) => counts[at >>> 16]++)
    const upper = find(counts, count)
    counts.fill(0)
    this.#eachBefore(segment, mayBe, (at) => {
      if (at >>> 16 === upper.bucket) counts[at & 0xffff]++
    })
    const lower = find(counts, count - upper.before)
    const limit = 65_536 * upper.bucket + lower.bucket
    let rest = count - upper.before - lower.before
    this.#eachBefore(segment, mayBe, (at, side, id) => {
      if (at < limit || (at === limit && rest-- > 0)) chosen[side].push(id)
    })
    return chosen
  }

  /** Calls with the segment of the last event of every id that may be chosen and was met last before a segment. */
  #eachBefore(
    before: number,
    mayBe: (side: Side, id: number) => boolean,
    call: (segment: number, side: Side, id: number) => void,
  ): void {
    for (const side of SIDES) {
      const { segment } = this.#times[side]
      const met = segment?.at.value
      for (let id = 0; met && id < (segment?.length ?? 0); id++)
        if (met[id] !== 0 && met[id] <= before && mayBe(side, id)) call(met[id] - 1, side, id)
    }
  }

  /** Second of an id's last event, 0 for one that is not here, and where there are no idle limits. */
  lastOf(side: Side, id: number): number {
    const { last } = this.#times[side]
    return last && id < last.length ? last.at.value[id] : 0
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids) for (const name of NAMES) this.#times[side][name]?.clear(id)
  }

  get bytes(): number {
    return bytesOf(this.#times.user) + bytesOf(this.#times.item)
  }

  /** The same of ids below a number. */
  bytesUpTo(reach: Record<Side, number>): number {
    const of = (side: Side) =>
      NAMES.reduce((sum, name) => {
        const column = this.#times[side][name]
        return sum + (column ? column.width * Math.min(column.length, reach[side]) : 0)
      }, 0)
    return of("user") + of("item")
  }

  save(state: State): void {
    for (const side of SIDES) {
      for (const name of NAMES) this.#times[side][name]?.save(state.at(`${name}.${side}`))
      state.set(`cursor.${side}`, this.#cursor[side])
      if (this.#searched[side] !== 0) state.set(`searched.${side}`, this.#searched[side])
    }
  }

  load(state: State): void {
    for (const side of SIDES) {
      for (const name of NAMES) {
        const kept = state.at(`${name}.${side}`)
        this.#times[side][name] = kept.has("value") ? column() : undefined
        this.#times[side][name]?.load(kept)
      }
      this.#cursor[side] = state.get<number>(`cursor.${side}`)
      this.#searched[side] = state.has(`searched.${side}`) ? state.get<number>(`searched.${side}`) : 0
    }
  }
}

function bytesOf({ last, rest, segment }: SideTimes): number {
  return (last?.bytes ?? 0) + (rest?.bytes ?? 0) + (segment?.bytes ?? 0)
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
