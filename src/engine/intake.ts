/**
 * The writing side: what is asked for becomes records, and records that are on disk are applied, one way for new ones
 * and for those that are replayed. What is gathered and not on disk yet can be taken back.
 */

import { createHash, hash } from "node:crypto"
import type { Limits } from "../ids/idle.ts"
import { governedBytes } from "../learning/limiter.ts"
import { effectiveRating } from "../stream/labels.ts"
import { type Segment, SIDES, type Side } from "../types.ts"
import type { Build } from "./build.ts"
import type { Catalogue } from "./catalogue.ts"
import type { CheckedEvent } from "./check.ts"
import { type EventColumns, EventRows } from "./event-rows.ts"
import { type EventTypes, hasTypes } from "./event-types.ts"
import type { Experiments, ListCounts } from "./experiments.ts"
import { type CheckedItem, mergeItems } from "./item-entries.ts"
import { ItemLifetimes } from "./item-lifetimes.ts"
import type { Journal } from "./journal.ts"
import type { Learning } from "./learning.ts"
import type { FeedbackEntry, FeedbackKey, Lookup, Note } from "./lookup.ts"
import { changesOf } from "./lookup-holder.ts"
import {
  type EventExtra,
  type EventsRecord,
  type ForgetRecord,
  GONE,
  type LeftRecord,
  type LogRecord,
  type NamedIndex,
  type OtherRecord,
  type StoredItem,
  withoutRows,
} from "./records.ts"
import type { Leaving } from "./trainer.ts"
import type { SourcePosition } from "./types.ts"

/** A timer takes no more. */
const LONGEST_TIMER = 2_147_483_647
/** Feature numbers of one record, roughly, of some 10 bytes each: there is a text of one record at a time. */
const NUMBERS_PER_RECORD = 16_384
/** The most that items' entries, keys, feedback and notes count as, of what may grow. */
const MOST_BESIDE = 0.875
/** Seconds between two searches for items whose time is over, where no idle limit says so, and items looked at at once. */
const SEARCH_EVERY = 3600
const SEARCHED_AT_ONCE = 16_384
const NO_TYPES: EventTypes = { weights: {}, leaveOut: [] }

export interface IntakeParts {
  catalogue: Catalogue
  journal: Journal
  /** Undefined where nothing is looked up yet. */
  lookup(): Lookup | undefined
  learning: Learning
  /** A segment closes at this many events, or this many milliseconds after its first. */
  segment: number
  delay: number
  limits: Limits
  /** How many events each row counts as; undefined where it is 1 of all. */
  weigh(rows: EventColumns): Float32Array | undefined
  /** Milliseconds without a segment after which time goes on all the same; undefined where nothing depends on it. */
  tick: number | undefined
  /** Idempotency keys remembered; 0: none. */
  keys: number
  /** Undefined where lists are not counted. */
  experiments: Experiments | undefined
  counts: ListCounts
  /** Told of ids that leave or are erased, as their names are given up. */
  onLeft(position: number, record: LeftRecord | ForgetRecord): void
}

type SegmentRecord = Extract<OtherRecord, { kind: "segment" }>

/** Records that are applied the same way when they are new and when they are replayed. */
type PlainRecord = Exclude<OtherRecord, { kind: "segment" | "names" | "left" | "forget" }>

/** What is known of an event's key and of its user, item and type. */
interface LookedUp {
  hash: Buffer | undefined
  hasKey: boolean
  entry: FeedbackEntry | undefined
}

/** An erasure that is not done. */
export type Erasure = Omit<ForgetRecord, "kind">

export class Intake {
  readonly #parts: IntakeParts
  /** Closed and applied. */
  segments = 0
  /** Applied. */
  accepted = 0
  /** Of the journal, also those that were erased or taken out since. */
  journalled = 0
  duplicates = 0
  /** Numbers of features that were journalled since the start. */
  featureNumbers = 0
  /** By the position of their record; from a start on also those that are still to be replayed. */
  readonly erasures = new Map<number, Erasure>()
  /** What the tables are held to, as far as journalled. */
  limits: Limits | undefined
  /** What the types of events weigh, as far as journalled. */
  types: EventTypes | undefined
  /** Version and way of learning of the build that learned last, as far as journalled. */
  build: Build | undefined
  /** The build before the one that learns now, where it learned differently: the state is of more than one piece. */
  mixed: Build | undefined
  /** What is counted of lists, as far as journalled. */
  experiment: { fingerprint: string; since: number } | undefined
  /** How far sources of events were read, by name, as far as journalled. */
  readonly sources = new Map<string, string>()
  /** What was gone when it was recovered, at any time. */
  gone: string[] = []
  /** When items that were put go by themselves. */
  readonly lifetimes = new ItemLifetimes()
  /** Items that are put by records on their way to the disk. */
  readonly #putting = new Map<number, number>()
  /** The search for items whose time is over, and the second when the last one began. */
  #search: Iterator<[number, StoredItem]> | undefined
  #searchedAt = 0
  /** Gathered and not sealed. */
  readonly #rows = new EventRows()
  #extras: EventExtra[] = []
  #names: NamedIndex[] = []
  /** Events gathered or appended and not applied. */
  pending = 0
  readonly #pendingKeys = new Set<string>()
  readonly #pendingFeedback = new Map<string, FeedbackEntry | null>()
  /** Records of events that are appended and not applied. */
  readonly #unapplied: EventsRecord[] = []
  /** Applied rows of the open segment. */
  readonly #open = new EventRows()
  /** Rows on their way behind the last end of a segment, and ends on their way. */
  #openPending = 0
  #endsPending = 0
  #openSince: number | undefined
  #timer: NodeJS.Timeout | undefined
  #ticking: NodeJS.Timeout | undefined
  /** Reports of ids that left, whose names are not given up yet. */
  unreleased: Leaving[] = []
  /** Of those, what is on its way to the disk. */
  readonly #releasing: Leaving[] = []
  /** From the start on: what a snapshot says of who left waits for the replay, too. */
  #isReplaying = true
  /** Indices with rows in the journal whose names are gone. */
  readonly #nobodys: Record<Side, Set<number>> = { user: new Set(), item: new Set() }

  constructor(parts: IntakeParts) {
    this.#parts = parts
  }

  get isReplaying(): boolean {
    return this.#isReplaying
  }

  /** Rows of the open segment, with those on their way. */
  get #openCount(): number {
    return this.#openPending + (this.#endsPending === 0 ? this.#open.length : 0)
  }

  // Gathering

  /** Takes events; returns how many were duplicates. */
  observe(events: readonly CheckedEvent[], replace = hasTypes(this.types)): number {
    // All that the disk may refuse to tell comes first: a batch is taken as a whole or not at all.
    const looked = events.some(isLookedUp) ? events.map((event) => this.#lookUp(event)) : undefined
    let duplicates = 0
    for (let e = 0; e < events.length; e++) {
      const event = events[e]
      const found = looked?.[e]
      if (found && this.#isDuplicate(event, found, replace)) {
        duplicates++
        continue
      }
      this.#gather(event, found?.hash)
      this.#parts.experiments?.observe(event)
      if (this.#openCount >= this.#parts.segment) this.closeSegment()
    }
    this.#arm()
    return duplicates
  }

  #gather(event: CheckedEvent, key: Buffer | undefined): void {
    const { user, item, rating, timestamp, type, comment } = event
    const [userIndex, itemIndex] = [this.#index("user", user), this.#index("item", item)]
    const row = this.#rows.add()
    const { at } = this.#rows
    at.user[row] = userIndex
    at.item[row] = itemIndex
    at.rating[row] = rating
    at.timestamp[row] = timestamp
    at.weight[row] = event.weight
    at.stays[row] = event.stays ? 1 : 0
    if (key || type !== undefined)
      this.#extras.push({
        row,
        ...(key && { key }),
        ...(type !== undefined && { type, ...(comment !== "" && { comment }) }),
      })
    if (key) this.#pendingKeys.add(key.toString("latin1"))
    if (type !== undefined)
      this.#pendingFeedback.set(keyOf({ user: userIndex, item: itemIndex, type }), { timestamp, comment })
    this.#openSince ??= performance.now()
    this.pending++
    this.#openPending++
  }

  /** What the lookup table has of an event; undefined for one that is never a duplicate. */
  #lookUp(event: CheckedEvent): LookedUp | undefined {
    if (!isLookedUp(event)) return undefined
    const lookup = this.#parts.lookup()
    const hash = event.key === undefined || this.#parts.keys === 0 ? undefined : hashKey(event.key)
    const key = this.#feedbackKey(event)
    return {
      hash,
      hasKey: hash !== undefined && lookup?.hasKey(hash) === true,
      entry: key && lookup?.feedbackEntry(key),
    }
  }

  #isDuplicate(event: CheckedEvent, { hash, hasKey, entry }: LookedUp, replace: boolean): boolean {
    if (hasKey || (hash && this.#pendingKeys.has(hash.toString("latin1")))) return true
    return this.#isKnown(event, entry, replace)
  }

  #feedbackKey({ user, item, type }: CheckedEvent): FeedbackKey | undefined {
    if (type === undefined) return undefined
    const { names } = this.#parts.catalogue
    const [userIndex, itemIndex] = [names.user.find(user), names.item.find(item)]
    if (userIndex === undefined || itemIndex === undefined) return undefined
    return { user: userIndex, item: itemIndex, type }
  }

  /** Whether its user, item and type are there already; to be replaced they must be there with the same time. */
  #isKnown(event: CheckedEvent, entry: FeedbackEntry | undefined, replace: boolean): boolean {
    const key = this.#feedbackKey(event)
    const pending = key && this.#pendingFeedback.get(keyOf(key))
    const known = pending === undefined ? entry : (pending ?? undefined)
    return known !== undefined && (!replace || known.timestamp === event.timestamp)
  }

  /** The index of a name, a new one where it has none. */
  #index(side: Side, name: string): number {
    const names = this.#parts.catalogue.names[side]
    const known = names.find(name)
    if (known !== undefined) return known
    const index = names.add(name)
    this.#names.push({ side, index, name })
    return index
  }

  /** Whom an index stands for by the records that are applied: whoever is about to leave has it still. */
  nameOf(side: Side, index: number): string | undefined {
    return this.#parts.catalogue.names[side].settledName(index)
  }

  /** Appends what was gathered: new names first. */
  seal(): void {
    const { journal, catalogue } = this.#parts
    if (this.#names.length > 0) {
      const names = this.#names
      this.#names = []
      const record: LogRecord = { kind: "names", names }
      const users = names.reduce((count, { side }) => count + (side === "user" ? 1 : 0), 0)
      journal.append(record, () => {
        catalogue.names.user.settle(users)
        catalogue.names.item.settle(names.length - users)
      })
    }
    if (this.#rows.length === 0) return
    const record = this.#rows.take(this.#extras)
    this.#extras = []
    this.#unapplied.push(record)
    journal.append(record, (position) => {
      this.#unapplied.shift()
      this.pending -= record.user.length
      if (this.#endsPending === 0) this.#openPending -= record.user.length
      this.#applyEvents(record, position)
    })
  }

  /** Appends a record and applies it when it is on disk. */
  #append(record: PlainRecord): void {
    this.seal()
    if (record.kind === "items")
      for (const { index } of record.items) this.#putting.set(index, (this.#putting.get(index) ?? 0) + 1)
    this.#parts.journal.append(record, (position) => this.#apply(record, position))
  }

  /** Journals lists that were given and what came of them: in one commit with the events of the same turn. */
  count(): void {
    const { experiments, catalogue, journal } = this.#parts
    if (!(experiments?.isPending || catalogue.shown.isPending) || journal.refusal) return
    this.#append({ kind: "outcomes", counts: experiments?.take() ?? [], shown: catalogue.shown.take() })
  }

  /** Journals how far a source was read: in one commit with all that was gathered in the same turn. */
  moveSource({ name, position }: SourcePosition): void {
    this.#append({ kind: "source", name, position })
  }

  retract(rows: readonly FeedbackKey[], unmet: boolean): void {
    if (rows.length > 0) this.#append({ kind: "retract", rows: [...rows], unmet })
  }

  putItems(entries: readonly CheckedItem[]): void {
    const { catalogue } = this.#parts
    const items = Array.from(mergeItems(catalogue, entries), ([name, item]) => ({
      index: this.#index("item", name),
      item,
    }))
    const features = entries.flatMap(({ item, features }) =>
      features === undefined ? [] : (catalogue.names.item.find(item) as number),
    )
    const numbers = items.reduce((sum, { item }) => sum + (item.features?.length ?? 0) + (item.properties ? 400 : 0), 0)
    const atOnce = Math.max(1, Math.floor((items.length * NUMBERS_PER_RECORD) / Math.max(1, numbers)))
    const withFeatures = new Set(features)
    for (let from = 0; from < items.length; from += atOnce) {
      const some = items.slice(from, from + atOnce)
      const indices = some.map(({ index }) => index)
      this.#append({ kind: "items", items: some, features: indices.filter((index) => withFeatures.has(index)) })
    }
  }

  putNotes(side: Side, entries: readonly { id: string; note: Note | null }[]): void {
    this.#append({ kind: "notes", notes: entries.map(({ id, note }) => ({ side, id, note })) })
  }

  /** Takes items out of everything; returns how many there were. */
  deleteItems(items: readonly string[]): number {
    const { catalogue, journal } = this.#parts
    const names = catalogue.names.item
    const known = [...new Set(items)].filter((name) => names.find(name) !== undefined)
    if (known.length === 0) return 0
    const indices = known.map((name) => names.find(name) as number)
    this.seal()
    for (const index of indices) names.remove(index)
    const record: LeftRecord = { kind: "left", user: [], item: indices, names: { user: [], item: known } }
    // With their features: another item may get the index.
    this.#append({ kind: "items", items: indices.map((index) => ({ index, item: null })), features: indices })
    journal.append(record, (position) => {
      names.settle(indices.length)
      this.#applyLeft(record, position)
    })
    return known.length
  }

  /** Journals that what a guest did is a user's. From here on the guest's name means somebody new. */
  merge(guest: number, user: string): void {
    const { catalogue, journal } = this.#parts
    const into = this.#index("user", user)
    // What is learned by then is in the guest's row.
    this.closeSegment()
    this.seal()
    catalogue.names.user.remove(guest)
    const record: LeftRecord = { kind: "left", into, user: [guest], item: [], names: { user: [user], item: [] } }
    journal.append(record, (position) => {
      catalogue.names.user.settle(1)
      this.#applyLeft(record, position)
    })
  }

  /** Journals that a user is to be erased. From here on the name means somebody new. */
  forget(index: number | null, former: ForgetRecord["former"], name: string): void {
    const { catalogue, journal } = this.#parts
    this.seal()
    if (this.#parts.lookup()?.note("user", name)) this.putNotes("user", [{ id: name, note: null }])
    if (index !== null) catalogue.names.user.remove(index)
    const record: ForgetRecord = { kind: "forget", user: index, former, hash: hashName(name) }
    journal.append(record, (position) => {
      if (index !== null) catalogue.names.user.settle(1)
      this.#applyForget(record, position)
    })
  }

  /** Journals that erasures are done: their indices may be given out. */
  finishErasures(positions: readonly number[]): void {
    this.#append({ kind: "erased", positions: [...positions] })
  }

  /** Journals what is set where it is something else than before: whoever replays what comes has to keep to it. */
  settle({ limits, types, build }: { limits: Limits; types: EventTypes | undefined; build: Build }): void {
    if (JSON.stringify(this.limits) !== JSON.stringify(limits)) this.#append({ kind: "limits", limits })
    const { experiments } = this.#parts
    if (experiments && this.experiment?.fingerprint !== experiments.fingerprint)
      this.#append({ kind: "experiment", fingerprint: experiments.fingerprint, since: Date.now() })
    const before = this.types ?? NO_TYPES
    if (types && JSON.stringify(before) !== JSON.stringify(types)) this.#append({ kind: "types", types })
    const { version, learning } = build
    if (this.build?.version !== version || this.build.learning !== learning)
      this.#append({ kind: "build", version, learning })
  }

  /** Closes the open segment; it is learned once that is on disk. */
  closeSegment(): void {
    this.stop()
    if (this.#openCount === 0 || this.#parts.journal.refusal) return
    this.seal()
    const [time, since] = [Date.now(), this.#openSince]
    this.#openSince = undefined
    this.#openPending = 0
    this.#endsPending++
    const { catalogue, lookup } = this.#parts
    const { bytes } = this.limits ?? {}
    const kept = catalogue.bytes.entries + (lookup()?.keptBytes ?? 0)
    // A part of what may grow is always left to users and items.
    const held = Math.floor(Math.min(kept, bytes === undefined ? kept : MOST_BESIDE * governedBytes(bytes)))
    const events = this.journalled + this.pending
    const record = { kind: "segment" as const, time, events, ...(held > 0 && { propertyBytes: held }) }
    this.#parts.journal.append(record, () => {
      this.#endsPending--
      this.#applySegment(record, since)
    })
    this.#armTick()
  }

  /** Has the open segment closed after the delay. */
  #arm(): void {
    if (this.#openCount === 0 || this.#parts.journal.refusal) return
    this.#timer ??= setTimeout(() => this.closeSegment(), Math.min(this.#parts.delay, LONGEST_TIMER)).unref()
  }

  /** Has time go on where no segment is closed for long. */
  #armTick(): void {
    const { tick } = this.#parts
    if (tick === undefined) return
    clearTimeout(this.#ticking)
    this.#ticking = setTimeout(() => {
      this.#armTick()
      this.tick()
    }, tick).unref()
  }

  /** Lets time go on. */
  tick(): void {
    if (!this.#parts.journal.refusal) this.#append({ kind: "tick", time: Date.now() })
  }

  /** Takes back everything that was not applied. */
  rollback(): void {
    const { names } = this.#parts.catalogue
    for (const side of SIDES) names[side].rollback()
    this.#rows.length = 0
    this.#extras = []
    this.#names = []
    this.#pendingKeys.clear()
    this.#pendingFeedback.clear()
    this.#putting.clear()
    this.pending = 0
    this.#unapplied.length = 0
    this.#openPending = 0
    this.#endsPending = 0
    this.unreleased.unshift(...this.#releasing.splice(0))
    this.stop()
  }

  /** Takes up what waited for the disk. */
  resume(): void {
    const waiting = this.unreleased
    this.unreleased = []
    for (const learned of waiting) this.release(learned)
    if (this.#openCount > 0) this.#openSince ??= performance.now()
    this.#arm()
    this.#armTick()
  }

  // Applying

  /** Applies a record of the journal once more. */
  replay(record: LogRecord, position: number): void {
    const { names } = this.#parts.catalogue
    if (record.kind === "events") this.#applyEvents(this.#withNames(record), position)
    else if (record.kind === "segment") this.#applySegment(record, undefined)
    else if (record.kind === "names") {
      for (const one of record.names) if (one.name !== null) this.#nameAgain(one.side, one.index, one.name)
    } else if (record.kind === "left") {
      for (const side of SIDES) for (const index of record[side]) names[side].drop(index)
      this.#applyLeft(record, position)
    } else if (record.kind === "forget") {
      if (record.user !== null) names.user.drop(record.user)
      this.#applyForget(record, position)
    } else this.#apply(record, position)
    const { ahead } = this.#parts.catalogue
    if (ahead) ahead.at = position + 1
  }

  /** Without rows of ids that have no name: where records are gone, so may be who they were. */
  #withNames(record: EventsRecord): EventsRecord {
    const { names } = this.#parts.catalogue
    const goes = new Set<number>()
    for (const side of SIDES)
      record[side].forEach((index, row) => {
        if (index === GONE || names[side].has(index)) return
        this.#nobodys[side].add(index)
        goes.add(row)
      })
    return goes.size === 0 ? record : withoutRows(record, (row) => goes.has(row))
  }

  /** Gives an index a name. Where the record is gone that says who left, they do so now. */
  #nameAgain(side: Side, index: number, name: string): void {
    const { catalogue } = this.#parts
    const names = catalogue.names[side]
    if (names.name(index) === name) return
    for (const other of [index, names.find(name)]) {
      if (other === undefined || names.name(other) === undefined) continue
      names.drop(other)
      catalogue.drop(side, [other])
      this.#takeOut(side, new Set([other]))
      this.#forgetInModel(side, [other])
    }
    names.set(index, name)
  }

  beginReplay(): void {
    this.#isReplaying = true
    if (this.limits) this.#limit(this.limits)
  }

  /** Everything is applied: who left and has not come back gives up the name. */
  endReplay(): void {
    this.#isReplaying = false
    const { names } = this.#parts.catalogue
    const erased = Array.from(this.erasures.values()).flatMap(({ user }) => user ?? [])
    names.user.recycleAll(new Set([...erased, ...this.#nobodys.user]))
    names.item.recycleAll(this.#nobodys.item)
    this.#dismissNobodys()
    this.resume()
  }

  /** Whoever gets an index whose name is gone is not to be taken for who had it. */
  #dismissNobodys(): void {
    const [user, item] = SIDES.map((side) => [...this.#nobodys[side]])
    if (user.length + item.length === 0) return
    const names = { user: user.map(() => null), item: item.map(() => null) }
    const record: LeftRecord = { kind: "left", user, item, names }
    this.#parts.journal.append(record, (position) => this.#applyLeft(record, position))
  }

  #apply(record: PlainRecord, position: number): void {
    const { catalogue, learning } = this.#parts
    if (record.kind === "tick") {
      learning.order(() => learning.thread.tell({ kind: "tick", time: record.time }))
      this.#readClock(record.time, 0)
    } else if (record.kind === "items") {
      this.#look(record, position)
      this.#applyItems(record)
    } else if (record.kind === "retract") {
      this.#look(record, position)
      if (record.unmet) for (const { user, item } of record.rows) catalogue.unmeet(user, item)
    } else if (record.kind === "notes") this.#look(record, position)
    else if (record.kind === "erased") {
      for (const at of record.positions) {
        const { user = null } = this.erasures.get(at) ?? {}
        this.erasures.delete(at)
        if (user !== null && !this.#isReplaying) catalogue.names.user.recycle(user)
      }
    } else if (record.kind === "types") this.types = record.types
    else if (record.kind === "outcomes") {
      this.#parts.counts.add(record.counts)
      catalogue.shown.put(record.shown ?? [])
    } else if (record.kind === "experiment") {
      this.experiment = { fingerprint: record.fingerprint, since: record.since }
      this.#parts.counts.reset(record.since)
    } else if (record.kind === "source") this.sources.set(record.name, record.position)
    else if (record.kind === "limits") {
      this.limits = record.limits
      this.#limit(record.limits)
    } else {
      const { version, learning } = record
      if (this.build && this.build.learning !== learning) this.mixed ??= this.build
      this.build = { version, learning }
    }
  }

  #limit(limits: Limits): void {
    const { learning, catalogue } = this.#parts
    this.lifetimes.limit(limits, catalogue.entries.keys())
    learning.order(() => learning.thread.tell({ kind: "limits", limits }))
  }

  #applyEvents(record: EventsRecord, position: number): void {
    const { catalogue } = this.#parts
    const before = this.#open.length
    catalogue.add(record, this.segments + 1)
    this.#open.append(record)
    this.accepted += this.#open.length - before
    this.journalled += record.user.length
    if (this.lifetimes.isLimited)
      for (const item of record.item) if (catalogue.entries.has(item)) this.lifetimes.use(item)
    if (record.extras.length === 0) return
    this.#look(record, position)
    for (const { row, key, type } of record.extras) {
      if (key) this.#pendingKeys.delete(Buffer.from(key).toString("latin1"))
      if (type !== undefined)
        this.#pendingFeedback.delete(keyOf({ user: record.user[row], item: record.item[row], type }))
    }
  }

  /** Brings the lookup table up to a record. */
  #look(record: LogRecord, position: number): void {
    const lookup = this.#parts.lookup()
    if (!lookup || position < lookup.applied) return
    let { nextKey } = lookup
    const changes = changesOf(record, () => nextKey++)
    if (changes.length > 0) lookup.add(changes, position)
  }

  #applySegment({ time, events, propertyBytes = 0 }: SegmentRecord, since: number | undefined): void {
    // Where records are gone it knows more.
    this.journalled = events ?? this.journalled
    const rows = this.#open.lend()
    const { user, item, rating, timestamp } = rows
    const { length } = user
    this.#readClock(time, length)
    if (length === 0) return
    const number = ++this.segments
    const weight = this.#parts.weigh(rows)
    for (let r = 0; r < length; r++) rating[r] = effectiveRating(rating[r], rows.weight[r])
    const segment: Segment = {
      ...{ user, item, rating, timestamp, length },
      ...{ index: number - 1, trainLength: length, time },
      ...(weight && { weight }),
      ...(rows.stays.includes(1) && { repeats: true }),
    }
    if (this.limits?.bytes !== undefined) {
      segment.nameBytes = { user: this.#nameBytes("user", user), item: this.#nameBytes("item", item) }
      segment.propertyBytes = propertyBytes
    }
    this.#parts.learning.learn(number, segment, since)
  }

  #readClock(milliseconds: number, events: number): void {
    this.lifetimes.read(milliseconds, events)
    if (!this.#isReplaying && !this.#parts.journal.refusal) this.#deleteOldItems()
  }

  /** Looks for items whose time is over, some at a time, and deletes them. */
  #deleteOldItems(): void {
    const { catalogue, tick } = this.#parts
    const { now } = this.lifetimes
    if (now === undefined || catalogue.entries.size === 0) return
    if (!this.#search) {
      if (Math.abs(now - this.#searchedAt) < (tick === undefined ? SEARCH_EVERY : tick / 1000)) return
      this.#searchedAt = now
      this.#search = catalogue.entries.entries()
    }
    const over: number[] = []
    for (let n = 0; n < SEARCHED_AT_ONCE; n++) {
      const next = this.#search.next()
      if (next.done) {
        this.#search = undefined
        break
      }
      const [item, { expires }] = next.value
      if (this.lifetimes.isOver(item, expires)) over.push(item)
    }
    if (over.length === 0) return
    this.seal()
    const coming = new Set(this.#putting.keys())
    for (const record of this.#unapplied) for (const item of record.item) coming.add(item)
    const names = over.flatMap((item) => (coming.has(item) ? [] : (catalogue.names.item.name(item) ?? [])))
    if (names.length > 0) this.deleteItems(names)
  }

  #nameBytes(side: Side, ids: Int32Array): Uint16Array {
    const names = this.#parts.catalogue.names[side]
    return Uint16Array.from(ids, (id) => names.bytesOf(id))
  }

  #applyItems({ items, features }: Extract<OtherRecord, { kind: "items" }>): void {
    const { catalogue, learning } = this.#parts
    for (const { index, item } of items) {
      catalogue.put(index, item)
      if (item === null) this.lifetimes.drop(index)
      else this.lifetimes.use(index)
      const waiting = this.#putting.get(index) ?? 0
      if (waiting > 1) this.#putting.set(index, waiting - 1)
      else this.#putting.delete(index)
    }
    const deleted = items.flatMap(({ index, item }) => (item === null ? index : []))
    if (deleted.length > 0) {
      this.#takeOut("item", new Set(deleted))
      this.#forgetInModel("item", deleted)
    }
    if (features.length === 0) return
    const values = features.map((index) => catalogue.entry(index).features)
    for (const numbers of values) this.featureNumbers += numbers?.length ?? 0
    learning.order(() => learning.thread.tell({ kind: "features", items: features, values }))
  }

  #applyLeft(record: LeftRecord, position: number): void {
    const { catalogue, learning } = this.#parts
    const { into } = record
    if (into !== undefined) {
      const [from] = record.user
      catalogue.merge(from, into, this.segments)
      learning.order(() => learning.thread.tell({ kind: "merge", from, into }))
    }
    for (const side of SIDES) {
      catalogue.drop(side, record[side])
      if (!this.#isReplaying) for (const index of record[side]) catalogue.names[side].recycle(index)
      if (this.#nobodys[side].size > 0) for (const index of record[side]) this.#nobodys[side].delete(index)
    }
    this.#look(record, position)
    this.#parts.onLeft(position, record)
  }

  #applyForget(record: ForgetRecord, position: number): void {
    const { user, former, hash } = record
    if (!this.#isReplaying) this.erasures.set(position, { user, former, hash })
    this.#parts.onLeft(position, record)
    if (user === null) return
    this.#nobodys.user.delete(user)
    this.#parts.catalogue.drop("user", [user])
    this.#takeOut("user", new Set([user]))
    this.#look(record, position)
    this.#forgetInModel("user", [user])
  }

  /** Takes rows of some ids out of the open segment. */
  #takeOut(side: Side, ids: ReadonlySet<number>): void {
    const column = this.#open.at[side]
    this.accepted -= this.#open.remove((row) => ids.has(column[row]))
  }

  #forgetInModel(side: Side, ids: number[]): void {
    // Where the thread has ended, everybody is told by it.
    this.#parts.learning.ask({ kind: "forget", side, ids }).catch(() => {})
  }

  /** Gives up the names of ids that left and have not come back since. Items that were put keep theirs. */
  release({ number, left }: Leaving): void {
    const { catalogue, journal } = this.#parts
    if (left.user.length + left.item.length === 0) return
    if (this.#isReplaying || journal.refusal) {
      this.unreleased.push({ number, left })
      return
    }
    this.seal()
    const gone: Record<Side, number[]> = { user: [], item: [] }
    const former: Record<Side, string[]> = { user: [], item: [] }
    for (const side of SIDES) {
      const names = catalogue.names[side]
      const coming = new Set<number>()
      for (const record of this.#unapplied) for (const id of record[side]) coming.add(id)
      for (const id of left[side]) {
        const name = names.name(id)
        if (name === undefined || coming.has(id) || catalogue.lastSegment(side, id) > number) continue
        if (side === "item" && catalogue.entries.has(id)) continue
        gone[side].push(id)
        former[side].push(name)
        names.remove(id)
      }
    }
    if (gone.user.length + gone.item.length === 0) return
    const record: LeftRecord = { kind: "left", ...gone, names: former }
    this.#releasing.push({ number, left })
    journal.append(record, (position) => {
      this.#releasing.shift()
      for (const side of SIDES) catalogue.names[side].settle(gone[side].length)
      this.#applyLeft(record, position)
    })
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  close(): void {
    this.stop()
    clearTimeout(this.#ticking)
  }
}

/** Whether an event may be one that is there already. */
const isLookedUp = ({ key, type }: CheckedEvent) => key !== undefined || type !== undefined

const keyOf = ({ user, item, type }: FeedbackKey) => JSON.stringify([user, item, type])

function hashKey(key: string): Buffer {
  return hash("sha256", key, "buffer").subarray(0, 16)
}

/** What a name is known by while its erasure is pending. */
export function hashName(name: string): string {
  return createHash("sha256").update(name).digest("hex")
}
