/**
 * What reading needs beside the model: which ids there are, what each user has met, which items are hidden, new or
 * trending. It is changed as events are accepted, in their order, so a list never shows what was just met.
 * Trending is a count that halves about every 11,000 events (0.97 per 500); the weight of an event grows instead of
 * every count shrinking.
 */

import { ByteLists } from "../ids/byte-lists.ts"
import { Columns } from "../ids/columns.ts"
import { Names } from "../ids/names.ts"
import type { PendingItems } from "../ids/pending-items.ts"
import { LONGEST_HISTORY } from "../ids/process-bytes.ts"
import type { State } from "../kernels/state.ts"
import { binaryLabel, classLabel, effectiveRating } from "../stream/labels.ts"
import { SIDES, type Side } from "../types.ts"
import { ByteReader, ByteWriter } from "./byte-buffer.ts"
import type { ErasedAhead } from "./erasure.ts"
import { ItemProperties } from "./item-properties.ts"
import type { Lookup } from "./lookup.ts"
import { type EventsRecord, GONE, type StoredItem } from "./records.ts"
import { FreshPages, ShownItems } from "./shown-items.ts"
import type { ItemView } from "./types.ts"

const DECAY_PER_EVENT = 0.97 ** (1 / 500)
/** The weight of an event grows up to here; all counts, up to 16,000 times as much, stay numbers of 32 bits. */
const MOST_WEIGHT = 1e30
const NONE: ReadonlySet<number> = new Set()
/** An item nothing is said of. */
export const PLAIN: StoredItem = { categories: [], hidden: false, features: null }
const SECOND = 1000

type EventRecordRows = Pick<EventsRecord, "user" | "item" | "rating" | "weight" | "stays">

/** Items noted to have changed before all are looked at. */
const MOST_CHANGES = 16_384
/** Up to here an item is new. */
const NEWCOMER_EVENTS = 20

export class Catalogue {
  readonly names: Record<Side, Names> = { user: new Names(), item: new Names() }
  /** While a journal is replayed: users who are erased further on. */
  ahead: ErasedAhead | undefined
  /** Items that were put, without what the lookup table has of them. */
  readonly entries = new Map<number, StoredItem>()
  /** Items of which changed what they are like, or whether they have few events, since newcomers.ts looked; all: of too many. */
  kinChanges: Set<number> | "all" = new Set()
  /** How often each of them was given a place that is kept for them. */
  readonly shown = new ShownItems()
  readonly freshPages = new FreshPages()
  readonly properties = new ItemProperties()
  /** Where titles and properties of items are kept. */
  detailStore: () => Pick<Lookup, "details" | "allDetails"> | undefined = () => undefined
  #entryBytes = 0
  readonly hidden = new Set<number>()
  /** Items whose time is over, and when that of the next one is, in milliseconds. */
  readonly #expired = new Set<number>()
  #nextExpiry = Number.POSITIVE_INFINITY
  /** Changes with the categories of items. */
  categoriesVersion = 0
  /** What users liked and the model has not learned, where that counts in lists. */
  pending: PendingItems | undefined
  /** Items of each category. */
  readonly #categories = new Map<string, Set<number>>()
  /**
   * An item that leaves stays in histories until they are looked at: leavings are counted, and a history remembers how
   * many there were when it was cleaned last.
   */
  readonly #histories = new ByteLists()
  /** Of a history, items that may be recommended all the same. */
  readonly #staying = new ByteLists()
  #leavings = 0
  /** `last`: the segment of the last event. */
  readonly #users = new Columns({ last: "u32", cleaned: "u32" })
  /** `trend`: decayed count of likes in units of the present weight; `born`: when it was first known. */
  readonly #items = new Columns({ last: "u32", lastLeaving: "u32", trend: "f32", events: "u32", born: "u32" })
  /** One number that changes with every event, in an array: elsewhere each change would be an object. */
  readonly #weight = Float64Array.of(1)
  #clock = 0
  /** Events by class (multiclass) and likes among all: what is said of an unknown pair. */
  readonly #classes = new Float64Array(5)
  #likes = 0
  readonly #likeThreshold: number

  constructor(likeThreshold: number) {
    this.#likeThreshold = likeThreshold
  }

  /** The index of a name that may be read. */
  find(side: Side, name: string): number | undefined {
    const index = this.names[side].find(name)
    return index === undefined || this.#isErased(side, index) ? undefined : index
  }

  /** The name of an index that may be read. */
  nameOf(side: Side, index: number): string | undefined {
    return this.#isErased(side, index) ? undefined : this.names[side].name(index)
  }

  /** Whether an index has a name that may be read. */
  has(side: Side, index: number): boolean {
    return this.names[side].has(index) && !this.#isErased(side, index)
  }

  /** Names that may be read, by index from a place on. */
  list(side: Side, offset: number, count: number): string[] {
    return this.names[side].list(offset, count, (index) => this.#isErased(side, index))
  }

  #isErased(side: Side, index: number): boolean {
    return side === "user" && this.ahead?.has(index) === true
  }

  /** Bytes needed, but for what follows from how much memory was asked for when: a function of the contents alone. */
  get bytes(): { names: number; met: number; items: number; entries: number } {
    return {
      names: this.names.user.bytes + this.names.item.bytes,
      met: this.#histories.bytes + this.#staying.bytes + this.#users.bytes,
      items: this.#items.bytes + this.shown.bytes,
      entries: this.#entryBytes + this.properties.bytes,
    }
  }

  /** Takes in events that belong to a segment, but for rows that were erased. */
  add(rows: EventRecordRows, segment: number): void {
    for (let r = 0; r < rows.user.length; r++) if (rows.user[r] !== GONE) this.#addRow(rows, r, segment)
  }

  #addRow(rows: EventRecordRows, r: number, segment: number): void {
    const user = rows.user[r]
    const item = rows.item[r]
    const eventWeight = rows.weight[r]
    const rating = effectiveRating(rows.rating[r], eventWeight)
    this.know(item)
    this.#users.reserve(user)
    const { last, events, trend } = this.#items.at
    this.#users.at.last[user] = segment
    last[item] = segment
    events[item]++
    if (events[item] === NEWCOMER_EVENTS) this.#settle(item)
    const like = this.like(rating)
    this.#likes += like
    this.#classes[classLabel(rating)]++
    const weight = this.#weight
    weight[0] /= DECAY_PER_EVENT
    if (like) {
      trend[item] += weight[0] * eventWeight
      this.pending?.add(user, item, segment)
    }
    if (weight[0] > MOST_WEIGHT) {
      for (let i = 0; i < this.#items.length; i++) trend[i] /= weight[0]
      weight[0] = 1
    }
    this.#meet(user, item, rows.stays[r] === 1)
  }

  /** Puts an item into a user's history. Once it is left out of lists it stays so. */
  #meet(user: number, item: number, stays: boolean): void {
    const [histories, staying] = [this.#histories, this.#staying]
    if (this.hasMet(user, item)) {
      if (!stays && staying.room(user) > 0) staying.remove(user, item)
      return
    }
    this.#setCleaned(user)
    if (stays) {
      if (staying.room(user) >= LONGEST_HISTORY && staying.count(user) >= LONGEST_HISTORY) staying.removeFirst(user)
      staying.append(user, item)
    }
    // A number takes a byte at least: short lists need not be counted.
    if (histories.room(user) >= LONGEST_HISTORY && histories.count(user) >= LONGEST_HISTORY) histories.removeFirst(user)
    histories.append(user, item)
  }

  /** Notes that nobody who left is in a user's history. */
  #setCleaned(user: number): void {
    const { cleaned } = this.#users.at
    // A page that is not written to takes no memory.
    if (cleaned[user] !== this.#leavings) cleaned[user] = this.#leavings
  }

  /** 1 for a rating, on the scale 0 to 5, that is a like. */
  like(rating: number): 0 | 1 {
    return binaryLabel(rating, this.#likeThreshold)
  }

  /** Notes that an item exists. */
  know(item: number): void {
    this.#items.reserve(item)
    const { born } = this.#items.at
    if (born[item] !== 0) return
    born[item] = ++this.#clock
    this.#changeKin(item)
  }

  #setBorn(item: number, born: number): void {
    this.#items.reserve(item)
    if (this.#items.at.born[item] === born) return
    this.#items.at.born[item] = born
    this.#clock = Math.max(this.#clock, born)
    this.#changeKin(item)
  }

  #changeKin(item: number): void {
    if (this.kinChanges === "all") return
    if (this.kinChanges.size >= MOST_CHANGES) this.kinChanges = "all"
    else this.kinChanges.add(item)
  }

  #settle(item: number): void {
    this.#changeKin(item)
    this.shown.drop(item)
  }

  /** Whether an item is there and has few events. */
  isNewcomer(item: number): boolean {
    const isThere = this.entries.has(item) || (item < this.#items.length && this.#items.at.born[item] !== 0)
    return isThere && this.events(item) < NEWCOMER_EVENTS
  }

  put(item: number, stored: StoredItem | null): void {
    const entry = stored && withoutDetails(stored)
    this.properties.set(item, stored?.properties)
    this.#expired.delete(item)
    if (entry?.expires !== undefined) this.#nextExpiry = Math.min(this.#nextExpiry, SECOND * entry.expires)
    const known = this.entries.get(item)
    this.#entryBytes += (entry ? bytesOf(entry) : 0) - (known ? bytesOf(known) : 0)
    if (entry?.hidden) this.hidden.add(item)
    else this.hidden.delete(item)
    this.#putCategories(item, known?.categories ?? [], entry?.categories ?? [])
    this.#changeKin(item)
    if (entry === null) this.entries.delete(item)
    else {
      this.entries.set(item, entry)
      this.know(item)
    }
  }

  #putCategories(item: number, before: readonly string[], now: readonly string[]): void {
    if (before.length === now.length && before.every((name, n) => name === now[n])) return
    this.categoriesVersion++
    for (const name of before) {
      const items = this.#categories.get(name)
      items?.delete(item)
      if (items?.size === 0) this.#categories.delete(name)
    }
    for (const name of now) {
      const items = this.#categories.get(name) ?? new Set()
      this.#categories.set(name, items.add(item))
    }
  }

  /** Categories that some item has. */
  get categoryCount(): number {
    return this.#categories.size
  }

  itemsOf(category: string): ReadonlySet<number> {
    return this.#categories.get(category) ?? NONE
  }

  entry(item: number): StoredItem {
    return this.entries.get(item) ?? PLAIN
  }

  /** An item with what is kept elsewhere. */
  wholeEntry(item: number): StoredItem {
    return { ...this.entry(item), ...this.detailStore()?.details(item) }
  }

  /** Items that stand in no list now: hidden, or their time is over. */
  *unlisted(now = Date.now()): Generator<number> {
    if (now >= this.#nextExpiry) this.#expire(now)
    yield* this.hidden
    yield* this.#expired
  }

  #expire(now: number): void {
    this.#nextExpiry = Number.POSITIVE_INFINITY
    for (const [item, { expires }] of this.entries) {
      if (expires === undefined) continue
      if (SECOND * expires <= now) this.#expired.add(item)
      else this.#nextExpiry = Math.min(this.#nextExpiry, SECOND * expires)
    }
  }

  view(item: number): ItemView {
    const { categories, hidden, features, expires, title, properties } = this.wholeEntry(item)
    return {
      item: this.names.item.name(item) ?? "",
      title: title ?? null,
      categories,
      properties: properties ?? {},
      expires: expires === undefined ? null : Math.round(SECOND * expires),
      hidden,
      hasFeatures: features !== null,
      events: this.events(item),
    }
  }

  events(item: number): number {
    return item < this.#items.length ? this.#items.at.events[item] : 0
  }

  /** The same by item: a view until another item becomes known. */
  get eventCounts(): Uint32Array {
    return this.#items.at.events.subarray(0, this.#items.length)
  }

  born(item: number): number {
    return item < this.#items.length ? this.#items.at.born[item] : 0
  }

  /** The decayed count of an item's likes. */
  trend(item: number): number {
    return item < this.#items.length ? this.#items.at.trend[item] / this.#weight[0] : 0
  }

  /** Takes what is known of an item from elsewhere. */
  setItem(item: number, { events, trend, born }: { events: number; trend: number; born?: number | undefined }): void {
    if (born !== undefined) this.#setBorn(item, born)
    this.know(item)
    this.#items.at.events[item] = events
    if (events >= NEWCOMER_EVENTS) this.#settle(item)
    this.#items.at.trend[item] = trend * this.#weight[0]
  }

  /** Takes what a user has met from elsewhere, oldest first. */
  setHistory(user: number, items: Iterable<number>, staying: Iterable<number> = []): void {
    this.#users.reserve(user)
    this.#setCleaned(user)
    this.#histories.set(user, items)
    const open = [...staying]
    if (open.length > 0 || this.#staying.room(user) > 0) this.#staying.set(user, open)
  }

  /** Takes the counts of all events from elsewhere. */
  setTotals({ likes, classes }: { likes: number; classes: ArrayLike<number> }): void {
    this.#likes = likes
    this.#classes.set(classes)
  }

  /** Indices of items there have been. */
  get itemCount(): number {
    return this.#items.length
  }

  hasMet(user: number, item: number): boolean {
    this.#clean(user)
    return this.#histories.has(user, item)
  }

  /** Takes an item out of a user's history. */
  unmeet(user: number, item: number): void {
    this.#clean(user)
    this.#histories.remove(user, item)
    if (this.#staying.room(user) > 0) this.#staying.remove(user, item)
  }

  /** Items a user has met, oldest first. */
  history(user: number): Int32Array {
    this.#clean(user)
    return this.#histories.of(user)
  }

  /** Of these, items that may be recommended all the same. */
  staying(user: number): Int32Array {
    this.#clean(user)
    return this.#staying.of(user)
  }

  /** Takes items that left since the last time out of a user's history. */
  #clean(user: number): void {
    if (user >= this.#users.length) return
    const cleaned = this.#users.at.cleaned[user]
    if (cleaned === this.#leavings || this.#histories.room(user) === 0) return
    const { lastLeaving } = this.#items.at
    const all = this.#histories.of(user)
    const stays = (item: number) => item >= this.#items.length || lastLeaving[item] <= cleaned
    if (!all.every(stays)) {
      this.#histories.set(user, all.filter(stays))
      if (this.#staying.room(user) > 0) this.#staying.set(user, this.#staying.of(user).filter(stays))
    }
    this.#setCleaned(user)
  }

  lastSegment(side: Side, id: number): number {
    const ids = side === "user" ? this.#users : this.#items
    return id < ids.length ? ids.at.last[id] : 0
  }

  /** The share of likes, or of each class, among all events. */
  average(): { likes: number; classes: number[] } {
    const all = this.#classes.reduce((sum, count) => sum + count, 0)
    return {
      likes: (this.#likes + 1) / (all + 2),
      classes: Array.from(this.#classes, (count) => (count + 1) / (all + 5)),
    }
  }

  /** Has what a guest did be a user's, as its latest; up to a segment it is in rows or on its way there. */
  merge(guest: number, user: number, segment: number): void {
    const staying = new Set(this.staying(guest))
    this.#users.reserve(user)
    for (const item of this.history(guest)) this.#meet(user, item, staying.has(item))
    if (guest < this.#users.length && this.#users.at.last[guest] > 0) {
      this.#users.at.last[user] = Math.max(this.#users.at.last[user], this.#users.at.last[guest])
    }
    for (const item of this.pending?.since(guest, 0, Number.POSITIVE_INFINITY) ?? [])
      this.pending?.add(user, item, segment)
  }

  /** Drops what is kept of ids; their names are not touched. */
  drop(side: Side, ids: readonly number[]): void {
    if (side === "item" && ids.length > 0) {
      this.#leavings++
      this.pending?.dropItems(new Set(ids))
    }
    for (const id of ids) {
      if (side === "user") {
        this.pending?.dropUser(id)
        this.freshPages.drop(id)
        this.#users.clear(id)
        this.#histories.clear(id)
        this.#staying.clear(id)
      } else {
        this.#items.clear(id)
        this.#settle(id)
        if (id < this.#items.length) this.#items.at.lastLeaving[id] = this.#leavings
      }
    }
  }

  /** Everything; views of what changes with the next event. */
  save(state: State): void {
    for (const side of SIDES) this.names[side].save(state.at(`names.${side}`))
    const entries = new ByteWriter()
    for (const [index, entry] of this.entries) {
      entries.whole(index)
      entries.text(JSON.stringify(entry))
    }
    state.put("entries", new Uint8Array(entries.bytes))
    this.properties.save(state.at("properties"))
    this.#histories.save(state.at("histories"))
    this.#staying.save(state.at("staying"))
    this.#users.save(state.at("users"))
    this.#items.save(state.at("items"))
    state.put("classes", this.#classes.slice())
    state.put("clock", Float64Array.of(this.#weight[0], this.#clock, this.#likes, this.#leavings))
  }

  load(state: State): void {
    for (const side of SIDES) this.names[side].load(state.at(`names.${side}`))
    const entries = new ByteReader(state.take("entries", Uint8Array))
    while (!entries.isAtEnd) this.put(entries.whole(), JSON.parse(entries.text()) as StoredItem)
    this.properties.load(state.at("properties"))
    this.#histories.load(state.at("histories"))
    if (state.at("staying").has("lists")) this.#staying.load(state.at("staying"))
    this.#users.load(state.at("users"))
    this.#items.load(state.at("items"))
    this.#classes.set(state.take("classes", Float64Array))
    const [weight, clock, likes, leavings] = state.take("clock", Float64Array)
    this.#leavings = leavings
    this.#weight[0] = weight
    this.#clock = clock
    this.#likes = likes
    for (const item of this.entries.keys()) this.know(item)
    this.kinChanges = "all"
  }
}

function withoutDetails({ categories, hidden, features, expires }: StoredItem): StoredItem {
  return { categories, hidden, features, ...(expires === undefined ? {} : { expires }) }
}

/** About what an entry takes with its place in the maps, those of similar items (newcomers.ts) included. */
function bytesOf({ categories, features }: StoredItem): number {
  let bytes = 500 + (features ? 640 + 8 * features.length : 0)
  for (const category of categories) bytes += 68 + category.length
  return bytes
}
