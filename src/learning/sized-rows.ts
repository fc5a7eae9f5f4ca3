/** The rows of a learner, and what is kept of each id beside them: how often it is met, its indicators, its sizes. */

import { type Counts, SmallCounts } from "../ids/counts.ts"
import { IdSet } from "../ids/id-set.ts"
import type { Indicators } from "../ids/indicators.ts"
import { LastMet } from "../ids/last-met.ts"
import { Returns } from "../ids/returns.ts"
import { type SizeChange, SizeLog } from "../ids/size-log.ts"
import { RowNotes, SmallColumn, type SmallNumbers } from "../ids/small-numbers.ts"
import { log } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import type { SizedModel } from "../models/model.ts"
import { type Segment, SIDES, type Side } from "../types.ts"
import type { ModelFamily } from "./family.ts"
import type { LearnerStatus, SideStatus } from "./learner.ts"
import { Limiter, type Unmet } from "./limiter.ts"
import type { RowShare } from "./row-share.ts"

/** What a count of events keeps at each segment here: they are those of the last hundred or so. */
const RECENT = 0.99

/** Classes of how rarely ids are met, half a power of e each, and of turns since they were. */
const RARITIES = 64
const RAREST = 1e-6
const IDLE_CLASSES = 1024

const NONE_UNMET: Record<Side, Unmet> = { user: { rows: 0, largest: 0 }, item: { rows: 0, largest: 0 } }

export interface SizedRowsOptions {
  indicators: Indicators
  /** Whether changes are noted for readers. */
  live: boolean
  /** Whether a policy chooses the sizes. */
  searched: boolean
  /** Called with ids that have to leave. */
  forget: (side: Side, ids: ReadonlySet<number>) => void
}

/** A size to go to, and why. */
export interface Resizing extends Pick<SizeChange, "step" | "why" | "scores"> {
  cold?: boolean
}

type Tables = SizedModel["tables"]

/** A small number of every id: in its row where that has notes. */
function smallNumbers({ user, item }: Tables, k: 0 | 1): Record<Side, SmallNumbers> {
  const of = (table: Tables[Side]) => (table.notes ? new RowNotes(table, k) : new SmallColumn())
  return { user: of(user), item: of(item) }
}

/** Where frequencies of rows without moments are kept. */
export function smallCounts(tables: Tables): Record<Side, Counts> | undefined {
  if (tables.user.moments) return undefined
  const { user, item } = smallNumbers(tables, 0)
  return { user: new SmallCounts(user), item: new SmallCounts(item) }
}

export class SizedRows<M extends SizedModel = SizedModel> {
  readonly model: M
  readonly indicators: Indicators
  readonly lastMet: LastMet
  readonly returns = new Returns()
  readonly limiter: Limiter
  readonly sizeLog: SizeLog | undefined
  /** Live: ids of the published side whose rows may differ from those published last. */
  readonly changed = new IdSet()
  readonly #publishedSide: Side
  /** Users whose rows came from elsewhere since the last segment; their returns are not counted. */
  readonly arrived = new Set<number>()
  /** Where rows are shared between processes. */
  share: RowShare | undefined
  readonly live: boolean
  segments = 0
  /** When the segment at hand was closed, or time advanced without one, in milliseconds. */
  clock = 0
  /**
   * In turns. A turn is as many events as it takes to meet every id once, were all met equally often: half as many as
   * there are ids, since an event meets two. Copies of a stream side by side take as many turns as one does, and an id's
   * own events are as many turns apart.
   */
  time = 0
  /** Recent events, where rows are shared between processes. */
  readonly #events = { here: 0, elsewhere: 0 }
  #untold = 0
  /** Ids of the segment at hand that get their rows after the decisions. */
  #unmet = NONE_UNMET

  constructor(family: ModelFamily<M>, options: SizedRowsOptions) {
    const { indicators, live, searched, forget } = options
    this.model = family.model
    this.#publishedSide = family.publishedSide
    this.indicators = indicators
    this.lastMet = new LastMet(smallNumbers(this.model.tables, 1))
    this.live = live
    if (live) this.sizeLog = new SizeLog()
    this.limiter = new Limiter({
      tables: this.model.tables,
      forget,
      keeps: (side, id) => this.decides(side, id),
      shared: () => this.share !== undefined,
      givesBack: this.#givesBack,
      ...family.limited(this, searched),
    })
  }

  /** Whether free memory of rows is given back: other threads may read those of a live learner, and the paper's stay as they are. */
  get #givesBack(): boolean {
    return !this.live && !this.model.tables.user.moments
  }

  /** A segment arrives. */
  begin(segment: Segment): void {
    this.segments++
    this.clock = segment.time ?? 0
  }

  /** Turns an event takes. */
  get turn(): number {
    const { user, item } = this.model.tables
    return 2 / Math.max(2, user.count * this.#processes + item.count)
  }

  /** How many processes of this one's size there are, by their recent events: each has users of its own. */
  get #processes(): number {
    const { here, elsewhere } = this.#events
    return here > 0 ? 1 + elsewhere / here : 1
  }

  /** Lets the time of a segment pass; how many turns. */
  advance(events: number): number {
    const turns = events * this.turn
    this.time += turns
    if (this.share) {
      this.#untold += events
      this.#events.here = RECENT * this.#events.here + events
      this.#events.elsewhere *= RECENT
    }
    return turns
  }

  /** Events taken in here since the last time. */
  takeEvents(): number {
    const events = this.#untold
    this.#untold = 0
    return events
  }

  /** Counts events of other processes. */
  addElsewhere(events: number): void {
    this.#events.elsewhere += events
  }

  /** Gives the ids of a segment their rows. */
  meet(segment: { user: Int32Array; item: Int32Array }): void {
    const notes = this.live || this.share !== undefined
    for (const side of SIDES) {
      const table = this.model.tables[side]
      const ids = segment[side]
      for (let l = 0; l < ids.length; l++) {
        const id = ids[l]
        if (!table.has(id) && this.model.meetOne(side, id)) this.logSize(side, id, { step: table.step(id), why: "met" })
        if (notes) this.note(side, id)
      }
    }
  }

  /** Keeps room for the ids of a segment that have no rows yet, until `meetAll`. */
  expect(segment: Segment): void {
    if (this.limiter.bytes !== undefined) this.#unmet = this.limiter.unmet(segment)
  }

  /** Ids first met in a test row are seen ids too. */
  meetAll(segment: Segment): void {
    this.meet(segment)
    this.#unmet = NONE_UNMET
  }

  /** Whether there is room for one more row of a step, and for the ids still to be met. */
  affordable(side: Side, step: number): boolean {
    return this.limiter.hasRoom(this.#unmet, side, step)
  }

  resize(side: Side, id: number, p: Resizing): void {
    this.model.resize(side, id, p)
    this.resized(side, id, p)
  }

  /** Takes note of a row that has another size. */
  resized(side: Side, id: number, p: Resizing): void {
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
    if (this.live && side === this.#publishedSide) this.changed.add(id)
    this.share?.note(side, id)
  }

  /** How soon an id is to give way, from 0 to 65,535: by how few events are to be expected of it, then by when it was met last. */
  idleClass(side: Side, id: number): number {
    const idle = this.lastMet.idle(side, id, this.time)
    const rate = this.returns.rate(side, this.indicators.frequency(side, id), idle)
    const rarity = Math.max(0, Math.min(RARITIES - 1, Math.floor(RARITIES / 2 - 2 * log(rate + RAREST))))
    return IDLE_CLASSES * rarity + Math.min(IDLE_CLASSES - 1, Math.floor(idle))
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
    this.lastMet.forget(side, ids)
    this.limiter.forget(side, ids)
    this.sizeLog?.forget(side, ids)
  }

  /** Every row may differ from the one published last. */
  changeAll(): void {
    for (const id of this.model.tables[this.#publishedSide].ids()) this.changed.add(id)
  }

  /** Bytes kept of ids beside their rows. */
  get besideBytes(): number {
    const { indicators, lastMet, sizeLog, limiter, model } = this
    return indicators.bytes + lastMet.bytes + (sizeLog?.bytes ?? 0) + limiter.idleBytes + (model.besideBytes ?? 0)
  }

  status(): LearnerStatus {
    const side = (name: Side): SideStatus => {
      const table = this.model.tables[name]
      const histogram: Record<string, number> = {}
      table.histogram().forEach((rows, step) => {
        const size = this.model.sizes[step]
        histogram[size] = (histogram[size] ?? 0) + rows
      })
      return { seen: table.count, numbers: this.model.vectorNumbers(name), histogram, rowBytes: table.liveBytes }
    }
    const { embeddingBytes, tables } = this.model
    const free = tables.user.freeBytes + tables.item.freeBytes
    const heldBytes = this.model.heldBytes + (this.#givesBack ? free : 0)
    const freeBytes = this.#givesBack ? 0 : free
    const { besideBytes } = this
    return { user: side("user"), item: side("item"), embeddingBytes, heldBytes, freeBytes, besideBytes }
  }

  save(state: State): void {
    state.set("segments", this.segments)
    this.model.save(state.at("model"))
    this.indicators.save(state.at("indicators"))
    this.limiter.save(state.at("idle"))
    this.sizeLog?.save(state.at("sizeLog"))
  }

  load(state: State): void {
    this.segments = state.get<number>("segments")
    this.model.load(state.at("model"))
    this.indicators.load(state.at("indicators"))
    this.limiter.load(state.at("idle"))
    this.sizeLog?.load(state.at("sizeLog"))
  }
}
