/**
 * The writing side: events and items into catalogue and journal, segments closed and handed to learning, the journal
 * replayed. Everything here happens at once, in the order of the calls; only the disk is waited for.
 */

import { DessError } from "../errors.ts"
import type { Limits } from "../run/idle.ts"
import type { Segment, Side } from "../types.ts"
import type { Restored } from "./archive.ts"
import type { Catalogue } from "./catalogue.ts"
import type { CheckedEvent, CheckedItem } from "./check.ts"
import type { Feedback } from "./feedback.ts"
import type { Journal } from "./journal.ts"
import type { Keys } from "./keys.ts"
import type { Learning } from "./learning.ts"
import { type EventsRecord, GONE, joinEvents, type LeftRecord, type LogRecord } from "./records.ts"
import type { FeedbackKey, Forgetting, Store } from "./store.ts"
import type { Learned } from "./trainer.ts"

/** A timer takes no more. */
const LONGEST_TIMER = 2_147_483_647
const SIDES = ["user", "item"] as const

export interface IntakeParts {
  catalogue: Catalogue
  journal: Journal
  keys: Keys
  feedback: Feedback
  learning: Learning
  /** A segment closes at so many events, or so many milliseconds after its first. */
  segment: number
  delay: number
  limits: Limits
  /** Told of ids that leave, as their names are given up. */
  onLeft(position: number, record: LeftRecord): void
}

export class Intake {
  readonly #parts: IntakeParts
  segments = 0
  accepted = 0
  duplicates = 0
  /** Numbers of features that were journalled since the start. */
  featureNumbers = 0
  /** Events in the open segment, and when its first was accepted. */
  #open = 0
  #openSince: number | undefined
  #timer: NodeJS.Timeout | undefined
  /** Reports of ids that left, kept back while the journal is replayed. */
  #replaying: Learned[] | undefined

  constructor(parts: IntakeParts) {
    this.#parts = parts
  }

  get isReplaying(): boolean {
    return this.#replaying !== undefined
  }

  /** Learns the journal from a position on; returns when everything is learned and can be read. */
  async replay(store: Store, from: Restored): Promise<void> {
    this.segments = from.segments
    this.accepted = from.accepted
    this.#replaying = []
    let { limits } = from
    if (limits) this.#limit(limits)
    let next = from.position
    let open: { position: number; record: EventsRecord }[] = []
    for (const { position, record } of store.log(next)) {
      if (position !== next)
        throw new DessError(
          "INVALID_DATA",
          `journal: expected record ${next}, got ${position}: a snapshot or records are missing`,
        )
      next++
      if (record.kind === "events") {
        open.push({ position, record })
        this.#take(record)
      } else if (record.kind === "segment") {
        const { number, segment } = this.#number(joinEvents(open), record.time)
        this.#parts.learning.learn(number, segment, undefined)
        open = []
      } else if (record.kind === "limits") {
        limits = record.limits
        this.#limit(limits)
      } else this.#replayOther(record)
    }
    this.#parts.journal.resume(open, next)
    this.#changeLimits(limits)
    await this.#parts.learning.begin()
    // Only now is it known who came back after having left.
    const reports = this.#replaying
    this.#replaying = undefined
    for (const learned of reports) this.release(learned)
    if (this.#open > 0) this.#arm()
  }

  /** Journals the limits where they are others than before: whoever replays what comes has to keep to them. */
  #changeLimits(before: Limits | undefined): void {
    const { journal, limits } = this.#parts
    if (JSON.stringify(before) === JSON.stringify(limits)) return
    journal.append({ kind: "limits", limits })
    journal.after(() => this.#limit(limits))
  }

  #limit(limits: Limits): void {
    const { learning } = this.#parts
    learning.order(() => learning.thread.tell({ kind: "limits", limits }))
  }

  #replayOther(record: Exclude<LogRecord, { kind: "events" | "segment" | "limits" }>): void {
    const { catalogue, learning } = this.#parts
    if (record.kind === "features") {
      const { items, values } = record
      learning.order(() => learning.thread.tell({ kind: "features", items, values }))
    } else if (record.kind === "forget") {
      catalogue.drop("user", [record.user])
      learning.ask({ kind: "forget", side: "user", ids: [record.user] }).catch(() => {})
    } else if (record.kind === "unmet") catalogue.unmeet(record.user, record.item)
    else for (const side of SIDES) catalogue.drop(side, record[side])
  }

  /** Takes events of the open segment into the catalogue. */
  #take(events: EventsRecord): void {
    this.#parts.catalogue.add(events, this.segments + 1)
    for (const user of events.user) {
      if (user === GONE) continue
      this.accepted++
      this.#open++
    }
  }

  /** Takes events; returns how many were duplicates. */
  observe(events: readonly CheckedEvent[], replace: boolean): number {
    const { catalogue, journal, keys, feedback } = this.#parts
    let duplicates = 0
    for (const event of events) {
      const { user, item, rating, timestamp, key, type, comment } = event
      if (this.#isKnown(event, replace) || (key !== undefined && !keys.admit(key))) {
        duplicates++
        continue
      }
      const row = { user: this.#index("user", user), item: this.#index("item", item), rating, timestamp }
      if (type !== undefined) feedback.put({ user: row.user, item: row.item, type }, { timestamp, comment })
      journal.event(row)
      catalogue.addOne(row, this.segments + 1)
      this.#openSince ??= performance.now()
      this.accepted++
      this.#open++
      if (this.#open >= this.#parts.segment) this.closeSegment()
    }
    this.duplicates += duplicates
    if (this.#open > 0) this.#arm()
    return duplicates
  }

  /** Whether its user, item and type are there already; to be replaced they must be there with the same time. */
  #isKnown({ user, item, type, timestamp }: CheckedEvent, replace: boolean): boolean {
    const { names } = this.#parts.catalogue
    const [userIndex, itemIndex] = [names.user.find(user), names.item.find(item)]
    if (type === undefined || userIndex === undefined || itemIndex === undefined) return false
    const known = this.#parts.feedback.get({ user: userIndex, item: itemIndex, type })
    return known !== undefined && (!replace || known.timestamp === timestamp)
  }

  /** Takes feedback away; without any left between them, the user has not met the item. */
  retract(rows: readonly FeedbackKey[], met: boolean): void {
    const { catalogue, journal, feedback } = this.#parts
    for (const row of rows) feedback.put(row, null)
    if (met || rows.length === 0) return
    const [{ user, item }] = rows
    catalogue.unmeet(user, item)
    journal.append({ kind: "unmet", user, item })
  }

  putItems(entries: readonly CheckedItem[]): void {
    const { catalogue, journal, learning } = this.#parts
    const items: number[] = []
    const values: (readonly number[] | null)[] = []
    for (const { item: name, features, categories, hidden } of entries) {
      const index = this.#index("item", name)
      const before = catalogue.entry(index)
      const item = {
        categories: categories ?? before.categories,
        hidden: hidden ?? before.hidden,
        features: features === undefined ? before.features : features,
      }
      catalogue.put(index, item)
      journal.change("items", { index, item })
      if (features === undefined) continue
      items.push(index)
      values.push(features)
      this.featureNumbers += features?.length ?? 0
    }
    if (items.length === 0) return
    journal.append({ kind: "features", items, values })
    journal.after(() => learning.order(() => learning.thread.tell({ kind: "features", items, values })))
  }

  #index(side: Side, name: string): number {
    const names = this.#parts.catalogue.names[side]
    const known = names.find(name)
    if (known !== undefined) return known
    const index = names.add(name)
    this.#parts.journal.change("names", { side, index, name })
    return index
  }

  /** Has the open segment closed after the delay. */
  #arm(): void {
    this.#timer ??= setTimeout(() => this.closeSegment(), Math.min(this.#parts.delay, LONGEST_TIMER))
  }

  /** Journals the boundary; the segment is learned once that is on disk. */
  closeSegment(): void {
    this.stop()
    if (this.#open === 0) return
    const { journal, learning } = this.#parts
    const rows = journal.openRows()
    const time = Date.now()
    const accepted = this.#openSince
    this.#openSince = undefined
    journal.append({ kind: "segment", time })
    const { number, segment } = this.#number(rows, time)
    journal.after(() => learning.learn(number, segment, accepted))
  }

  #number(rows: EventsRecord, time: number): { number: number; segment: Segment } {
    this.#open = 0
    const number = ++this.segments
    const length = rows.user.length
    const rating = rows.rating.map((value) => (Number.isNaN(value) ? 5 : value))
    const { user, item, timestamp } = rows
    return { number, segment: { user, item, rating, timestamp, length, index: number - 1, trainLength: length, time } }
  }

  /** Gives up the names of ids that left and have not come back since. Items that were put keep theirs. */
  release(learned: Learned): void {
    if (this.#replaying) {
      this.#replaying.push(learned)
      return
    }
    const { catalogue, journal } = this.#parts
    const gone: Record<Side, number[]> = { user: [], item: [] }
    const former: Record<Side, string[]> = { user: [], item: [] }
    for (const side of SIDES) {
      const names = catalogue.names[side]
      for (const id of learned.left[side]) {
        const name = names.name(id)
        if (name === undefined || catalogue.lastSegment(side, id) > learned.number) continue
        if (side === "item" && catalogue.entries.has(id)) continue
        gone[side].push(id)
        former[side].push(name)
        names.remove(id)
        names.recycle(id)
        journal.change("names", { side, index: id, name: null })
        this.#parts.feedback.drop(side, id)
      }
      catalogue.drop(side, gone[side])
    }
    if (gone.user.length + gone.item.length === 0) return
    const record: LeftRecord = { kind: "left", ...gone, names: former }
    this.#parts.onLeft(journal.position, record)
    journal.append(record)
    journal.after(() => {})
  }

  /** Journals that a user is to be forgotten, and forgets all but the training state. Returns the rows taken out of the open segment. */
  forget(index: number, lives: Forgetting["lives"]): number {
    const { catalogue, journal } = this.#parts
    // From here on the name means somebody new. The index is not given out again before all is done.
    catalogue.names.user.remove(index)
    catalogue.drop("user", [index])
    journal.removeOpen(index)
    const before = this.#open
    this.#open = journal.openRows().user.length
    this.accepted -= before - this.#open
    journal.change("names", { side: "user", index, name: null })
    this.#parts.feedback.drop("user", index)
    journal.append({ kind: "forget", user: index })
    journal.mark({ index, lives })
    return before - this.#open
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
