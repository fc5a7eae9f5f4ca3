/** Keeps the tables of a learner within limits: idle ids shrink and leave, growth waits for room, new ids get it. */

import { EmbeddingTable } from "../embedding/table.ts"
import { DessError } from "../errors.ts"
import type { State } from "../kernels/state.ts"
import type { Segment, Side } from "../types.ts"
import { Idle, type Limits } from "./idle.ts"

const SIDES = ["user", "item"] as const

/** What a limiter works on. */
export interface Limited {
  tables: Record<Side, EmbeddingTable>
  /** Drops everything kept of ids, their rows among it; the limiter's `forget` too. */
  forget(side: Side, ids: ReadonlySet<number>): void
  /** Moves an id one size down; left out where sizes are fixed. */
  shrink?(side: Side, id: number): void
}

export class Limiter {
  readonly #limited: Limited
  readonly #idle = new Idle()
  #limits: Limits | undefined

  constructor(limited: Limited) {
    this.#limited = limited
  }

  /** Refuses bytes that a segment of `events` new ids, and a first chunk of every size, could not live in. */
  set(limits: Limits, events: number): void {
    const { bytes } = limits
    let least = 0
    for (const side of SIDES) {
      const { sizes, start, precision } = this.#limited.tables[side]
      const added = new Int32Array(sizes.length).fill(1)
      added[start] = events
      least += new EmbeddingTable({ sizes, start, precision }).bytesToAdd(added, 2 * events)
    }
    if (bytes !== undefined && bytes < least)
      throw new DessError("INVALID_ARGUMENT", `memory budget: expected at least ${least} bytes, got ${bytes}`)
    this.#limits = limits
  }

  get #held(): number {
    return this.#limited.tables.user.heldBytes + this.#limited.tables.item.heldBytes
  }

  /**
   * Before the ids of a segment are met: those idle for long shrink and leave, and the longest idle ones go until the
   * new ones have room. `number`: the segment's, growing.
   */
  makeRoom(
    segment: Segment,
    number: number,
  ): { shrunk: Record<Side, number>; left: Record<Side, number[]> } | undefined {
    const limits = this.#limits
    if (!limits) return undefined
    const shrunk = { user: 0, item: 0 }
    const left: Record<Side, number[]> = { user: [], item: [] }
    const milliseconds = segment.time ?? 0
    for (const side of SIDES) {
      this.#idle.meet(side, segment[side], { milliseconds, segment: number })
      const due = this.#idle.due(side, milliseconds, limits)
      this.#release(side, due.leave, left)
      shrunk[side] = this.#shrink(side, due.shrink)
    }
    const { bytes = Number.POSITIVE_INFINITY } = limits
    while (this.#held + this.#bytesToMeet(segment) > bytes) {
      const ids = this.#limited.tables.user.count + this.#limited.tables.item.count
      const chosen = this.#idle.longest(Math.max(64, ids >> 6), number)
      if (chosen.user.length + chosen.item.length === 0)
        throw new DessError("NUMERIC", `memory budget: expected room for one segment, got ${bytes} bytes`)
      for (const side of SIDES) this.#release(side, chosen[side], left)
    }
    return { shrunk, left }
  }

  /** Bytes that the rows of the segment's new ids would add. */
  #bytesToMeet(segment: Segment): number {
    let bytes = 0
    for (const side of SIDES) {
      const table = this.#limited.tables[side]
      const fresh = new Set<number>()
      let most = 0
      for (const id of segment[side]) {
        if (!table.has(id)) fresh.add(id)
        most = Math.max(most, id)
      }
      bytes += table.bytesToAdd(addedAt(table, table.start, fresh.size), most)
    }
    return bytes
  }

  #release(side: Side, ids: readonly number[], left: Record<Side, number[]>): void {
    if (ids.length === 0) return
    this.#limited.forget(side, new Set(ids))
    for (const id of ids) left[side].push(id)
  }

  /** Moves ids above the smallest size one step down, where that needs no more bytes. Returns how many. */
  #shrink(side: Side, ids: readonly number[]): number {
    const table = this.#limited.tables[side]
    const { bytes = Number.POSITIVE_INFINITY } = this.#limits ?? {}
    let count = 0
    for (const id of ids) {
      if (!this.#limited.shrink || !table.has(id) || table.step(id) === 0) continue
      if (this.#held + table.bytesToAdd(addedAt(table, table.step(id) - 1, 1), 0) > bytes) continue
      this.#limited.shrink(side, id)
      count++
    }
    return count
  }

  /** Of the ids that are to grow one step those there is room for, in order, users first. */
  affordable(growing: Record<Side, number[]>): Record<Side, number[]> {
    const bytes = this.#limits?.bytes
    if (bytes === undefined) return growing
    const room = bytes - this.#held
    let spent = 0
    const choose = (side: Side) => {
      const table = this.#limited.tables[side]
      const added = new Int32Array(table.sizes.length)
      const before = spent
      return growing[side].filter((id) => {
        const step = table.step(id) + 1
        added[step]++
        const cost = before + table.bytesToAdd(added, 0)
        if (cost <= room) spent = cost
        else added[step]--
        return cost <= room
      })
    }
    return { user: choose("user"), item: choose("item") }
  }

  forget(side: Side, ids: Iterable<number>): void {
    this.#idle.forget(side, ids)
  }

  save(state: State): void {
    this.#idle.save(state)
  }

  load(state: State): void {
    this.#idle.load(state)
  }
}

/** Rows added per step: `count` at one. */
function addedAt(table: EmbeddingTable, step: number, count: number): Int32Array {
  const added = new Int32Array(table.sizes.length)
  added[step] = count
  return added
}
