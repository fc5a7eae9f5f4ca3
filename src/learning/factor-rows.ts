/** The rows of a factor learner, and what is kept beside them of each id: how often it is met, its indicators, its sizes. */

import { Activity } from "../ids/activity.ts"
import { IdSet } from "../ids/id-set.ts"
import type { Limits } from "../ids/idle.ts"
import type { Indicators } from "../ids/indicators.ts"
import { Returns } from "../ids/returns.ts"
import { type SizeChange, SizeLog } from "../ids/size-log.ts"
import type { RowModel } from "../models/calibrated/rows.ts"
import type { Segment, Side } from "../types.ts"
import type { LearnerStatus, SideStatus } from "./learner.ts"
import { type Limited, Limiter, type Unmet } from "./limiter.ts"

export const SIDES = ["user", "item"] as const

/** Time is counted in so many events, whatever the length of a segment. */
export const SEGMENT = 500

const NOBODY: Record<Side, Unmet> = { user: { rows: 0, largest: 0 }, item: { rows: 0, largest: 0 } }

export interface FactorRowsOptions {
  indicators: Indicators
  /** Whether changes are noted for readers. */
  live: boolean
  /** Whether rows differ in size. */
  resizes: boolean
  /** Called with ids that have to leave. */
  forget: (side: Side, ids: ReadonlySet<number>) => void
}

/** A size to go to, and why. */
export interface Resizing extends Pick<SizeChange, "step" | "why" | "scores"> {
  cold?: boolean
}

/** What a learner that shares its rows wants to know. */
export interface RowShare {
  isOwner(item: number): boolean
  note(side: Side, id: number): void
  resized(item: number, cold: boolean): void
  /** Items that changed elsewhere, to be decided on; given once. */
  visited(): number[]
}

export class FactorRows {
  readonly model: RowModel
  readonly indicators: Indicators
  readonly activity = new Activity()
  readonly returns = new Returns()
  readonly limiter: Limiter
  readonly sizeLog: SizeLog | undefined
  /** Live: items whose rows may differ from those published last. */
  readonly changed = new IdSet()
  /** Users whose rows came from elsewhere since the last segment: nobody looked whether they would be met. */
  readonly arrived = new Set<number>()
  /** Where rows are shared between processes: what has to be told of them. */
  share: RowShare | undefined
  readonly live: boolean
  segments = 0
  /** When the segment at hand was closed, or time advanced without one, in milliseconds. */
  clock = 0
  /** In segments of 500 events. */
  time = 0
  /** Ids of the segment at hand that get their rows after the decisions. */
  #unmet = NOBODY

  constructor(model: RowModel, options: FactorRowsOptions) {
    const { indicators, live, resizes, forget } = options
    this.model = model
    this.indicators = indicators
    this.live = live
    if (live) this.sizeLog = new SizeLog()
    const shrink = (side: Side, id: number) =>
      this.resize(side, id, { step: model.tables[side].step(id) - 1, why: "idle" })
    this.limiter = new Limiter({
      tables: model.tables,
      forget,
      keeps: (side, id) => this.decides(side, id),
      beside: () => this.besideBytes,
      // A reader packs the first vector of every item.
      packed: (side, step) => (side === "item" ? 4 * model.sizes[step] : 0),
      ...(resizes ? { shrink, cut: this.#cutter() } : {}),
    })
  }

  #cutter(): NonNullable<Limited["cut"]> {
    const { tables, sizes, heads, vectors } = this.model
    const row = new Float32Array(Math.max(...SIDES.map((side) => tables[side].sizes[tables[side].top])))
    return {
      take(side, id, step) {
        const table = tables[side]
        const [size, first, head] = [table.size(id), sizes[step], heads[side]]
        table.read(id, row, 0)
        table.free(id)
        // The head, and the first numbers of every vector.
        const cut = row.slice(0, table.sizes[step])
        const held = (size - head) / vectors[side]
        for (let v = 1; v < vectors[side]; v++)
          cut.set(row.subarray(head + v * held, head + v * held + first), head + v * first)
        return cut
      },
      put: (side, id, { step, row }) => {
        tables[side].ensure(id)
        tables[side].replace(id, step, row, 0)
        this.#resized(side, id, { step, why: "budget" })
      },
    }
  }

  limit(limits: Limits, events: number): void {
    this.limiter.set(limits, events)
  }

  /** Gives the ids of a segment their rows. */
  meet(segment: { user: Int32Array; item: Int32Array }): void {
    for (const side of SIDES) {
      const table = this.model.tables[side]
      for (const id of segment[side]) {
        if (this.model.meetOne(side, id)) this.logSize(side, id, { step: table.step(id), why: "met" })
        this.note(side, id)
      }
    }
  }

  /** Keeps room for the ids of a segment that have no rows yet, until `meetAll`. */
  expect(segment: Segment): void {
    this.#unmet = this.limiter.unmet(segment)
  }

  /** Ids first met in a test row are seen ids too. */
  meetAll(segment: Segment): void {
    this.meet(segment)
    this.#unmet = NOBODY
  }

  /** Whether there is room for one more row of a step, and for the ids still to be met. */
  affordable(side: Side, step: number): boolean {
    return this.limiter.hasRoom(this.#unmet, side, step)
  }

  resize(side: Side, id: number, p: Resizing): void {
    this.model.resize(side, id, p)
    this.#resized(side, id, p)
  }

  #resized(side: Side, id: number, p: Resizing): void {
    this.logSize(side, id, p)
    this.note(side, id)
    if (side === "item") this.share?.resized(id, p.cold ?? false)
  }

  /** Notes what size an id has from now on, and why. */
  logSize(side: Side, id: number, { step, why, scores }: Resizing): void {
    this.sizeLog?.add(side, id, { segment: this.segments, time: this.clock, step, why, scores })
  }

  /** Notes that a row is about to change, or has changed. */
  note(side: Side, id: number): void {
    if (this.live && side === "item") this.changed.add(id)
    this.share?.note(side, id)
  }

  /** Whether the size and the stay of an id are decided here. */
  decides(side: Side, id: number): boolean {
    return side === "user" || !this.share || this.share.isOwner(id)
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    const users = this.model.forget(side, ids)
    for (const id of ids) this.note(side, id)
    for (const user of users) this.note("user", user)
    this.indicators.forget(side, ids)
    this.activity.forget(side, ids)
    this.limiter.forget(side, ids)
    this.sizeLog?.forget(side, ids)
  }

  /** Every item's row may differ from the one published last. */
  changeAll(): void {
    for (const id of this.model.tables.item.ids()) this.changed.add(id)
  }

  /** Bytes kept of ids beside their rows. */
  get besideBytes(): number {
    return this.indicators.bytes + this.activity.bytes + (this.sizeLog?.bytes ?? 0) + this.limiter.idleBytes
  }

  status(): LearnerStatus {
    const side = (name: Side): SideStatus => {
      const table = this.model.tables[name]
      const histogram: Record<string, number> = {}
      table.histogram().forEach((rows, step) => {
        histogram[this.model.sizes[step]] = rows
      })
      return { seen: table.count, numbers: this.model.vectorNumbers(name), histogram }
    }
    const { embeddingBytes, heldBytes, tables } = this.model
    const freeBytes = tables.user.freeBytes + tables.item.freeBytes
    const { besideBytes } = this
    return { user: side("user"), item: side("item"), embeddingBytes, heldBytes, freeBytes, besideBytes }
  }
}
