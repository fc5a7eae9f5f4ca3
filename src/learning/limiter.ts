/** Keeps the tables of a learner within limits: idle ids shrink and leave, growth waits for room, new ids get it. */

import { DessError } from "../errors.ts"
import { Idle, type Limits, toleranceMilliseconds } from "../ids/idle.ts"
import { ProcessBytes, type ProcessPrices } from "../ids/process-bytes.ts"
import { StreamClock } from "../ids/stream-clock.ts"
import type { Floats } from "../kernels/kernels.ts"
import type { State } from "../kernels/state.ts"
import type { EmbeddingTable } from "../models/embedding-table.ts"
import { type Segment, SIDES, type Side } from "../types.ts"

/**
 * Bytes of a budget for the process that are left to what comes and goes, with a quarter of the budget that the process may
 * be above it. Measured on endless streams (`npm run bench -- budget`): heaps of the runtime 20 to 25 MB, its compiler and
 * memory that is free between allocations 10 to 15, a full queue 7, and for moments 10 more. Of a small budget half of it.
 */
const SPARED = 48 * 1024 * 1024
const GOVERNED_FIRST = 16 * 1024 * 1024

/** Bytes of a budget for the process that what grows may take. */
export function governedBytes(budget: number): number {
  return Math.max(Math.min(budget / 2, GOVERNED_FIRST), budget - SPARED)
}

/** Bytes a name is taken to have. */
const USUAL_NAME = 16

/** Where the new ids of a segment would fill more than this share of a budget, they start one size lower. */
const ROOMY = 0.5

/** Share of a budget for the process that is reserved when ids begin to go for others to have their places. */
const CROWDED = 0.9
/** Share of the places that is to be free then; the more of the budget is reserved, the more. */
const PLACES = 1 / 16
/** Segments that may wait to be learned when an id goes: until they are, its place is nobody's. */
const SEGMENTS_AHEAD = 256

/** Not even one segment fits. */
export class BudgetExceeded extends DessError {
  /** Those who made room all the same. */
  readonly gone: Gone

  constructor(bytes: number, gone: Gone) {
    super(
      "NUMERIC",
      `memory budget: expected room for one segment and a place for every id met so far, got ${bytes} bytes`,
    )
    this.gone = gone
  }
}

/** What a limiter works on. */
export interface Limited {
  tables: Record<Side, EmbeddingTable>
  /** Drops everything kept of ids, their rows among it; the limiter's `forget` too. */
  forget(side: Side, ids: ReadonlySet<number>): void
  /** Whether the stay of an id is decided here. Default: every id's. */
  keeps?(side: Side, id: number): boolean
  /** Bytes kept of ids beside their rows, and of one more, about. */
  beside?(): number
  readonly besideEach?: number
  /** How soon an id is to give way, from 0 to 65,535, where more is known than when it was met last. */
  idle?(side: Side, id: number): number
  /** Whether other processes have the ids, too: then a budget is for rows alone. */
  shared?(): boolean
  /** Bytes that rows of a step have in a second form elsewhere in the process. */
  packed?(side: Side, step: number): number
  /** Ids that may leave; given once. */
  leaving?(): Record<Side, readonly number[]>
  /** Whether tables can give memory back that rows once took; then it counts as long as they have it. */
  readonly givesBack?: boolean
  /** Moves an id one size down; left out where sizes are fixed. */
  shrink?(side: Side, id: number): void
  /** Takes rows out, cut to a step, and puts them back; where a row can be cut. */
  cut?: { take(side: Side, id: number, step: number): Cut; put(side: Side, id: number, cut: Cut): void }
}

/** A row that was taken out, and the step it is cut to. */
export interface Cut {
  step: number
  row: Floats
  notes: number
}

const IDLE_CLASSES = 65_536

/** Of the memory of rows: as much may be free before it is given back. */
const FREE = 1 / 32

export interface Unmet {
  rows: number
  largest: number
}

/** Ids that lost a step of their size, how many, and ids that left. */
export interface Gone {
  shrunk: Record<Side, number>
  left: Record<Side, number[]>
}

export class Limiter {
  readonly #limited: Limited
  readonly #idle = new Idle()
  /** The steps new ids start at where there is room. */
  readonly #starts: Record<Side, number>
  #limits: Limits | undefined
  /** What the rest of the process keeps, where it is to fit in the budget, too. */
  #process: ProcessBytes | undefined
  /** The most bytes that rows have had in their second form. */
  readonly #mostPacked: Record<Side, number> = { user: 0, item: 0 }
  /** Rows to be added by step, to count with. */
  readonly #added: Record<Side, Int32Array>
  /** Only read where there are idle limits. */
  #clock = new StreamClock(0)
  /** The first segment whose ids were met at a doubtful time. */
  #doubtfulFrom: number | undefined
  /** Bytes that ids had to give up for the new ones of the last segment. */
  gaveWay = 0
  /** Milliseconds of the last segment. */
  #now = 0
  /** The segment room is made for. */
  #segment: Segment | undefined

  constructor(limited: Limited) {
    this.#limited = limited
    const { user, item } = limited.tables
    this.#starts = { user: user.start, item: item.start }
    this.#added = { user: new Int32Array(user.sizes.length), item: new Int32Array(item.sizes.length) }
  }

  /** Refuses bytes that a segment of `events` new ids, and a first chunk of every size, could not live in. */
  set(limits: Limits, events: number): void {
    const { bytes } = limits
    let least = 0
    for (const side of SIDES) {
      const table = this.#limited.tables[side]
      const rows = new Int32Array(table.sizes.length).fill(1)
      rows[this.#lowerStart(side)] = events
      least += table.bytesFor(rows, 2 * events)
    }
    const { process } = limits
    const { beside, besideEach = 0, shared } = this.#limited
    if (!process && beside && !shared?.()) least += 4 * events * besideEach
    // Of names next to nothing is known yet.
    if (process) least = Math.ceil(2 * (least + 2 * events * (process.user + process.item)))
    if (bytes !== undefined && bytes < least)
      throw new DessError("INVALID_ARGUMENT", `memory budget: expected at least ${least} bytes, got ${bytes}`)
    this.#limits = limits
    // Not where all have left: what is known of their places stays, and a replay, which is not told again, knows it.
    const isNew = SIDES.every((side) => this.#limited.tables[side].reach === 0)
    if (isNew) {
      // Where there are ids, the next reading of the clock says what time it is for them.
      this.#idle.keep(limits, { milliseconds: 0, here: () => [], budgetAlone: this.#limited.idle === undefined })
      this.#process = undefined
    }
    // Goes on counting where the budget is gone: there may be one again.
    if (process) this.#process ??= this.#newProcess(process)
  }

  /** What the ids that are here are called is not known: they came before the budget. */
  #newProcess(prices: ProcessPrices): ProcessBytes {
    const process = new ProcessBytes(prices)
    for (const side of SIDES) for (const id of this.#limited.tables[side].ids()) process.meet(side, id, USUAL_NAME)
    return process
  }

  /** Bytes there may be; some of a budget for the process are left to what comes and goes. */
  get bytes(): number | undefined {
    const bytes = this.#limits?.bytes
    if (bytes === undefined || !this.#process) return bytes
    return governedBytes(bytes)
  }

  /** Bytes that count: what ids that are here take, with all that is kept of them beside their rows. */
  get held(): number {
    let bytes = this.#process?.bytes ?? this.#beside
    for (const side of SIDES) {
      const table = this.#limited.tables[side]
      bytes += table.heldBytes + this.#free(side)
      if (this.#process) bytes += this.#packed(side) + this.#perId(side) * table.count
    }
    return bytes
  }

  /** Bytes of free chunks, where they count. */
  #free(side: Side): number {
    return this.#limited.givesBack ? this.#limited.tables[side].freeBytes : 0
  }

  /** Gives free memory back once it is more than a share of the rows'. */
  giveBack(share = FREE): void {
    if (this.#limited.givesBack) for (const side of SIDES) this.#limited.tables[side].giveBack(share)
  }

  /** Bytes that rows to be added need beyond those that are held. */
  #toAdd(side: Side, added: ArrayLike<number>, largest = 0): number {
    const table = this.#limited.tables[side]
    return table.bytesToAdd(added, largest) - Math.min(this.#free(side), table.bytesToAdd(added, 0))
  }

  /**
   * The same with what the process keeps for others when ids go: places of ids, and memory that rows once took. With a
   * budget for the process it stays below that, too; else nothing is kept.
   */
  get reserved(): number {
    if (!this.#process) return this.held
    let bytes = this.#process.bytes
    for (const side of SIDES) {
      const table = this.#limited.tables[side]
      bytes += table.heldBytes + table.freeBytes + this.#perId(side) * table.reach
      bytes += Math.max(this.#mostPacked[side], this.#packed(side))
    }
    return bytes
  }

  /** Bytes kept of ids beside their rows; of ids that were refused only a time is left, which does not count. */
  get #beside(): number {
    const { tables, beside, shared } = this.#limited
    if (!beside || shared?.()) return 0
    return beside() - this.#idle.bytes + this.#idle.bytesUpTo({ user: tables.user.reach, item: tables.item.reach })
  }

  /** Bytes that the rows of a side have in a second form. */
  #packed(side: Side): number {
    const { tables, packed } = this.#limited
    const table = tables[side]
    let bytes = 0
    if (packed) for (let step = 0; step <= table.top; step++) bytes += table.rowsOf(step) * packed(side, step)
    return bytes
  }

  #perId(side: Side): number {
    const { tables, beside, besideEach = 0, shared } = this.#limited
    if (!this.#process) return beside && !shared?.() ? besideEach : 0
    // The ids of a segment are noted before they have rows.
    return (
      this.#process.perId(side) +
      (beside?.() ?? 0) / Math.max(1, tables.user.reach + tables.item.reach, this.#process.reach)
    )
  }

  /**
   * Before the ids of a segment are met: those idle for long shrink and leave. Then, until the new ones have room, the
   * longest idle ones give up their vectors, where that can be, and go when that is not enough. `number`: the segment's,
   * growing.
   */
  makeRoom(segment: Segment, number: number): Gone | undefined {
    this.giveBack()
    const limits = this.#limits
    if (!limits) return undefined
    this.#read(segment.time ?? 0, segment.length, number)
    for (const side of SIDES) {
      const { keeps } = this.#limited
      const met = keeps ? segment[side].filter((id) => keeps(side, id)) : segment[side]
      this.#idle.meet(side, met, { milliseconds: this.#now, segment: number })
    }
    this.#countNames(segment)
    this.#segment = segment
    const gone = this.#releaseIdle(limits)
    this.#releaseLeaving(segment, gone.left)
    const held = limits.bytes === undefined ? 0 : this.held
    const { shrunk, left } = gone
    const unmet = this.unmet(segment)
    this.#chooseStart(unmet)
    if (!limits.usersReturn) this.#strip(unmet, { number, shrunk, left })
    while (!this.#isWithin(unmet)) {
      const ids = this.#limited.tables.user.count + this.#limited.tables.item.count
      const chosen = this.#longest(Math.max(64, ids >> 6), number)
      if (chosen.user.length + chosen.item.length === 0) {
        this.#cut(segment, { unmet, gone })
        break
      }
      for (const side of SIDES) this.#release(side, chosen[side], left)
      this.giveBack(0)
    }
    this.gaveWay = limits.bytes === undefined ? 0 : held - this.held
    this.#freePlaces(unmet, number, left)
    if (limits.bytes !== undefined)
      for (const side of SIDES) {
        this.#limited.tables[side].reserve(unmet[side].largest)
        this.#mostPacked[side] = Math.max(this.#mostPacked[side], this.#packed(side))
      }
    return gone
  }

  /** Ids that come get the places of ids that went, but only some segments later: these go before there is no room for places. */
  #freePlaces(unmet: Record<Side, Unmet>, number: number, left: Record<Side, number[]>): void {
    if (!this.#process || this.bytes === undefined || this.reserved <= CROWDED * this.bytes) return
    const share = PLACES + this.reserved / this.bytes - CROWDED
    for (const side of SIDES) {
      const { reach, count } = this.#limited.tables[side]
      const wanted = Math.floor(Math.min(Math.min(0.5, share) * reach, SEGMENTS_AHEAD * unmet[side].rows))
      const lacking = wanted - (reach - count)
      if (lacking <= 0) continue
      const chosen = this.#longest(Math.max(lacking, wanted >> 2), number, (other) => other === side)
      this.#release(side, chosen[side], left)
    }
  }

  /** The ids to give way first that are not in the segment at hand; of all, or of those that may be chosen. */
  #longest(
    count: number,
    number: number,
    mayBe: (side: Side, id: number) => boolean = () => true,
  ): Record<Side, number[]> {
    const { idle } = this.#limited
    if (!idle || this.#idle.isOrdered) return this.#idle.longest(count, number, mayBe)
    const chosen: Record<Side, number[]> = { user: [], item: [] }
    const met = { user: new Set(this.#segment?.user), item: new Set(this.#segment?.item) }
    const each = (call: (idle: number, side: Side, id: number) => void) => {
      for (const side of SIDES)
        for (const id of this.#here(side)) if (!met[side].has(id) && mayBe(side, id)) call(idle(side, id), side, id)
    }
    const counts = new Uint32Array(IDLE_CLASSES)
    each((at) => counts[at]++)
    let last = IDLE_CLASSES - 1
    let rest = count
    for (; last > 0 && counts[last] < rest; last--) rest -= counts[last]
    each((at, side, id) => {
      if (at > last || (at === last && rest-- > 0)) chosen[side].push(id)
    })
    return chosen
  }

  #countNames({ nameBytes, propertyBytes, ...segment }: Segment): void {
    if (this.#process && propertyBytes !== undefined) this.#process.propertyBytes = propertyBytes
    if (this.#process)
      for (const side of SIDES)
        for (let r = 0; r < segment.length; r++) this.#process.meet(side, segment[side][r], nameBytes?.[side][r] ?? 0)
  }

  /** Time passes without events: those idle for long shrink and leave. `number`: the last segment's. */
  advanceTime(milliseconds: number, number: number): Gone | undefined {
    const limits = this.#limits
    if (!limits || toleranceMilliseconds(limits) === undefined) return undefined
    this.#read(milliseconds, 0, number + 1)
    return this.#releaseIdle(limits)
  }

  /** Takes a reading of the clock. `number`: the first segment whose ids are met after it. */
  #read(milliseconds: number, events: number, number: number): void {
    const limits = this.#limits ?? {}
    const tolerance = toleranceMilliseconds(limits)
    this.#now = milliseconds
    const keep = () =>
      this.#idle.keep(limits, {
        milliseconds: this.#now,
        here: (side) => this.#here(side),
        budgetAlone: this.#limited.idle === undefined,
      })
    if (tolerance === undefined) {
      keep()
      return
    }
    const clock = this.#clock
    clock.tolerance = tolerance
    // Limits that are new, or a state without a clock: the ids already here say what time it was.
    if (clock.time === undefined && this.#idle.latest > 0) clock.read(this.#idle.latest, 0)
    this.#now = clock.read(milliseconds, events)
    if (clock.jumped) this.#idle.rebase(this.#now, this.#doubtfulFrom ?? number)
    if (clock.jumped || !clock.doubtful) this.#doubtfulFrom = undefined
    // Of ids whose time was made up at a doubtful moment none counts as met before it.
    const madeUp = keep()
    if (clock.doubtful) this.#doubtfulFrom = madeUp ? 0 : (this.#doubtfulFrom ?? number)
  }

  /** Ids whose stay is decided here. */
  *#here(side: Side): Generator<number> {
    const { tables, keeps } = this.#limited
    for (const id of tables[side].ids()) if (!keeps || keeps(side, id)) yield id
  }

  #releaseIdle(limits: Limits): Gone {
    const gone: Gone = { shrunk: { user: 0, item: 0 }, left: { user: [], item: [] } }
    for (const side of SIDES) {
      const due = this.#idle.due(side, this.#now, limits)
      this.#release(side, due.leave, gone.left)
      gone.shrunk[side] = this.#shrink(side, due.shrink)
    }
    return gone
  }

  /** Those of whom less is expected than their bytes are worth leave, unless they have just come back. */
  #releaseLeaving(segment: Segment, left: Record<Side, number[]>): void {
    const leaving = this.#limited.leaving?.()
    for (const side of SIDES) {
      if (!leaving || leaving[side].length === 0) continue
      const met = new Set(segment[side])
      const table = this.#limited.tables[side]
      this.#release(
        side,
        leaving[side].filter((id) => table.has(id) && !met.has(id)),
        left,
      )
    }
  }

  #chooseStart(unmet: Record<Side, Unmet>): void {
    const { tables } = this.#limited
    for (const side of SIDES) tables[side].start = this.#starts[side]
    if (this.#isWithin(unmet, ROOMY)) return
    for (const side of SIDES) tables[side].start = this.#lowerStart(side)
  }

  /** Only where rows can be cut is their size anybody's choice. */
  #lowerStart(side: Side): number {
    return this.#limited.cut ? Math.max(0, this.#starts[side] - 1) : this.#starts[side]
  }

  /** The longest idle ids, twice as many every time, give up their vectors until the new ones fit; who does not fit even so leaves. */
  #strip(
    unmet: Record<Side, Unmet>,
    p: { number: number; shrunk: Record<Side, number>; left: Record<Side, number[]> },
  ): void {
    const { tables, cut } = this.#limited
    if (!cut || this.hasRoom(unmet)) return
    const taken: { side: Side; id: number; cut: Cut }[] = []
    // A row that is put back stands at the start size for a moment.
    const fits = (back: Record<Side, number>) => {
      this.#addUnmet(unmet)
      for (const side of SIDES) {
        this.#added[side][tables[side].start]++
        this.#added[side][0] += back[side]
      }
      return this.#fits(unmet)
    }
    const hasVector = (side: Side, id: number) => tables[side].has(id) && tables[side].step(id) > 0
    const waiting = { user: 0, item: 0 }
    for (let count = Math.max(64, (tables.user.count + tables.item.count) >> 6); !fits(waiting); count *= 2) {
      const chosen = this.#longest(count, p.number, hasVector)
      if (chosen.user.length + chosen.item.length === 0) break
      for (const side of SIDES)
        for (const id of chosen[side]) {
          taken.push({ side, id, cut: cut.take(side, id, 0) })
          waiting[side]++
        }
      this.giveBack(0)
    }
    for (const { side, id, cut: one } of taken)
      if (fits({ user: 0, item: 0, [side]: 1 })) {
        cut.put(side, id, one)
        p.shrunk[side]++
      } else this.#release(side, [id], p.left)
  }

  /** Nobody is idle: the segment's own ids lose what they have grown, from the largest rows on, until the new ones fit. */
  #cut(segment: Segment, p: { unmet: Record<Side, Unmet>; gone: Gone }): void {
    const { tables, cut } = this.#limited
    const taken: { side: Side; id: number; cut: Cut }[] = []
    // A row that was taken out counts as one of the new until it is back.
    const fits = () => this.#isWithin(this.unmet(segment))
    for (let step = tables.user.top; cut && step > tables.user.start && !fits(); step--)
      for (const side of SIDES)
        for (const id of new Set(segment[side]))
          if (tables[side].has(id) && tables[side].step(id) === step)
            taken.push({ side, id, cut: cut.take(side, id, tables[side].start) })
    this.giveBack(0)
    const room = fits()
    for (const { side, id, cut: one } of taken) cut?.put(side, id, one)
    for (const { side } of taken) p.gone.shrunk[side]++
    if (!room) throw new BudgetExceeded(this.bytes ?? 0, p.gone)
  }

  /** The ids of a segment that have no row yet: how many, and the largest id to make a place for. */
  unmet(segment: { user: Int32Array; item: Int32Array }): Record<Side, Unmet> {
    const of = (side: Side) => {
      const table = this.#limited.tables[side]
      const fresh = new Set<number>()
      let largest = 0
      for (const id of segment[side]) {
        if (!table.has(id)) fresh.add(id)
        largest = Math.max(largest, id)
      }
      return { rows: fresh.size, largest }
    }
    return { user: of("user"), item: of("item") }
  }

  /** Whether there is room for the ids still to be met, and for one more row of a step where that is given. */
  hasRoom(unmet: Record<Side, Unmet>, side?: Side, step = 0): boolean {
    if (this.bytes === undefined) return true
    this.#addUnmet(unmet)
    if (side) this.#added[side][step]++
    return this.#fits(unmet)
  }

  /** Whether what ids take stays within a share of the budget once those to be met are here. */
  #isWithin(unmet: Record<Side, Unmet>, share = 1): boolean {
    if (this.bytes === undefined) return true
    this.#addUnmet(unmet)
    return this.#heldWithAdded(unmet) <= share * this.bytes
  }

  /** Counts the rows of ids to be met as added. */
  #addUnmet(unmet: Record<Side, Unmet>): void {
    for (const side of SIDES) {
      this.#added[side].fill(0)
      this.#added[side][this.#limited.tables[side].start] = unmet[side].rows
    }
  }

  /** Whether there is room for the rows that are counted as added: beside what is held, and in what is reserved. */
  #fits(unmet: Record<Side, Unmet>): boolean {
    const { bytes = Number.POSITIVE_INFINITY } = this
    if (this.#heldWithAdded(unmet) > bytes) return false
    if (!this.#process) return true
    let fresh = 0
    for (const side of SIDES) {
      const table = this.#limited.tables[side]
      fresh += Math.max(0, table.bytesToAdd(this.#added[side], 0) - table.freeBytes)
      fresh += Math.max(0, this.#packed(side) + this.#packedAdded(side) - this.#mostPacked[side])
    }
    return fresh === 0 || this.reserved + fresh <= bytes
  }

  #heldWithAdded(unmet: Record<Side, Unmet>): number {
    let bytes = this.held
    for (const side of SIDES) {
      bytes += this.#toAdd(side, this.#added[side], unmet[side].largest)
      bytes += this.#perId(side) * unmet[side].rows
      if (this.#process) bytes += this.#packedAdded(side)
    }
    return bytes
  }

  #packedAdded(side: Side): number {
    const { packed } = this.#limited
    const added = this.#added[side]
    let bytes = 0
    if (packed) for (let step = 0; step < added.length; step++) bytes += added[step] * packed(side, step)
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
    const { bytes = Number.POSITIVE_INFINITY } = this
    let count = 0
    for (const id of ids) {
      if (!this.#limited.shrink || !table.has(id) || table.step(id) === 0) continue
      const added = this.#added[side].fill(0)
      added[table.step(id) - 1]++
      if (this.held + this.#toAdd(side, added) > bytes) continue
      this.#limited.shrink(side, id)
      count++
    }
    return count
  }

  /** Of the ids that are to grow one step those there is room for, in order, users first. */
  affordable(growing: Record<Side, number[]>): Record<Side, number[]> {
    const { bytes } = this
    if (bytes === undefined) return growing
    const room = bytes - this.held
    let spent = 0
    const choose = (side: Side) => {
      const table = this.#limited.tables[side]
      const added = new Int32Array(table.sizes.length)
      const before = spent
      return growing[side].filter((id) => {
        const step = table.step(id) + 1
        added[step]++
        const cost = before + this.#toAdd(side, added)
        if (cost <= room) spent = cost
        else added[step]--
        return cost <= room
      })
    }
    return { user: choose("user"), item: choose("item") }
  }

  /** Bytes kept of ids here. */
  get idleBytes(): number {
    return this.#idle.bytes
  }

  /** Second of an id's last event, 0 for one not known. */
  lastOf(side: Side, id: number): number {
    return this.#idle.lastOf(side, id)
  }

  /** Takes in an id met elsewhere: at a second, or, where that is not known (0), as late as the last segment. */
  meet(side: Side, id: number, at: { second?: number; segment: number }): void {
    const milliseconds = at.second ? 1000 * at.second : this.#now
    if (milliseconds > 0 || toleranceMilliseconds(this.#limits ?? {}) === undefined)
      this.#idle.meet(side, [id], { milliseconds, segment: at.segment })
  }

  forget(side: Side, ids: Iterable<number>): void {
    this.#idle.forget(side, ids)
    this.#process?.forget(side, ids)
  }

  save(state: State): void {
    this.#idle.save(state)
    this.#process?.save(state.at("process"))
    if (this.#process) state.set("mostPacked", { ...this.#mostPacked })
    if (this.#clock.time === undefined) return
    this.#clock.save(state.at("clock"))
    state.set("doubtfulFrom", this.#doubtfulFrom ?? null)
  }

  load(state: State): void {
    this.#idle.load(state)
    this.#process = state.has("process.bytes") ? ProcessBytes.from(state.at("process")) : undefined
    Object.assign(this.#mostPacked, state.has("mostPacked") ? state.get("mostPacked") : { user: 0, item: 0 })
    this.#clock = new StreamClock(0)
    this.#doubtfulFrom = undefined
    if (!state.has("doubtfulFrom")) return
    this.#clock.load(state.at("clock"))
    this.#doubtfulFrom = state.get<number | null>("doubtfulFrom") ?? undefined
  }
}
