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
import { binaryLabel, classLabel } from "../stream/labels.ts"
import type { Side } from "../types.ts"
import { ByteReader, ByteWriter } from "./byte-buffer.ts"
import { type EventsRecord, GONE, type StoredItem } from "./records.ts"
import type { ItemView } from "./types.ts"

const DECAY_PER_EVENT = 0.97 ** (1 / 500)
/** The weight of an event grows up to here; all counts, up to 16,000 times as much, stay numbers of 32 bits. */
const MOST_WEIGHT = 1e30
const NONE: ReadonlySet<number> = new Set()
const PLAIN: StoredItem = { categories: [], hidden: false, features: null }

export class Catalogue {
  readonly names: Record<Side, Names> = { user: new Names(), item: new Names() }
  /** Items that were put. */
  readonly entries = new Map<number, StoredItem>()
  #entryBytes = 0
  readonly hidden = new Set<number>()
  /** What users liked and the model has not learned, where that counts in lists. */
  pending: PendingItems | undefined
  /** Items of each category. */
  readonly #categories = new Map<string, Set<number>>()
  /**
   * An item that leaves stays in histories until they are looked at: leavings are counted, and a history remembers how
   * many there were when it was cleaned last.
   */
  readonly #histories = new ByteLists()
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

  /** Bytes needed, but for what follows from how much memory was asked for when: a function of the contents alone. */
  get bytes(): { names: number; met: number; items: number; entries: number } {
    return {
      names: this.names.user.bytes + this.names.item.bytes,
      met: this.#histories.bytes + this.#users.bytes,
      items: this.#items.bytes,
      entries: this.#entryBytes,
    }
  }

  /** Takes in events that belong to a segment, but for rows that were erased. */
  add(rows: Pick<EventsRecord, "user" | "item" | "rating">, segment: number): void {
    for (let r = 0; r < rows.user.length; r++) if (rows.user[r] !== GONE) this.#addRow(rows, r, segment)
  }

  #addRow(rows: Pick<EventsRecord, "user" | "item" | "rating">, r: number, segment: number): void {
    const user = rows.user[r]
    const item = rows.item[r]
    const rating = Number.isNaN(rows.rating[r]) ? 5 : rows.rating[r]
    this.know(item)
    this.#users.reserve(user)
    const { last, events, trend } = this.#items.at
    this.#users.at.last[user] = segment
    last[item] = segment
    events[item]++
    const like = this.like(rating)
    this.#likes += like
    this.#classes[classLabel(rating)]++
    const weight = this.#weight
    weight[0] /= DECAY_PER_EVENT
    if (like) {
      trend[item] += weight[0]
      this.pending?.add(user, item, segment)
    }
    if (weight[0] > MOST_WEIGHT) {
      for (let i = 0; i < this.#items.length; i++) trend[i] /= weight[0]
      weight[0] = 1
    }
    if (this.hasMet(user, item)) return
    this.#setCleaned(user)
    const histories = this.#histories
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
    if (born[item] === 0) born[item] = ++this.#clock
  }

  put(item: number, entry: StoredItem | null): void {
    const known = this.entries.get(item)
    const before = known ?? PLAIN
    this.#entryBytes += (entry ? bytesOf(entry) : 0) - (known ? bytesOf(known) : 0)
    if (entry?.hidden) this.hidden.add(item)
    else this.hidden.delete(item)
    for (const name of before.categories) {
      const items = this.#categories.get(name)
      items?.delete(item)
      if (items?.size === 0) this.#categories.delete(name)
    }
    for (const name of entry?.categories ?? []) {
      const items = this.#categories.get(name) ?? new Set()
      this.#categories.set(name, items.add(item))
    }
    if (entry === null) this.entries.delete(item)
    else {
      this.entries.set(item, entry)
      this.know(item)
    }
  }

  itemsOf(category: string): ReadonlySet<number> {
    return this.#categories.get(category) ?? NONE
  }

  entry(item: number): StoredItem {
    return this.entries.get(item) ?? PLAIN
  }

  view(item: number): ItemView {
    const { categories, hidden, features } = this.entry(item)
    const name = this.names.item.name(item) ?? ""
    return { item: name, categories, hidden, hasFeatures: features !== null, events: this.events(item) }
  }

  events(item: number): number {
    return item < this.#items.length ? this.#items.at.events[item] : 0
  }

  born(item: number): number {
    return item < this.#items.length ? this.#items.at.born[item] : 0
  }

  /** The decayed count of an item's likes. */
  trend(item: number): number {
    return item < this.#items.length ? this.#items.at.trend[item] / this.#weight[0] : 0
  }

  /** Takes what is known of an item from elsewhere. */
  setItem(item: number, { events, trend }: { events: number; trend: number }): void {
    this.know(item)
    this.#items.at.events[item] = events
    this.#items.at.trend[item] = trend * this.#weight[0]
  }

  /** Takes what a user has met from elsewhere, oldest first. */
  setHistory(user: number, items: Iterable<number>): void {
    this.#users.reserve(user)
    this.#setCleaned(user)
    this.#histories.set(user, items)
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
  }

  /** Items a user has met, oldest first. */
  history(user: number): Int32Array {
    this.#clean(user)
    return this.#histories.of(user)
  }

  /** Takes items that left since the last time out of a user's history. */
  #clean(user: number): void {
    if (user >= this.#users.length) return
    const cleaned = this.#users.at.cleaned[user]
    if (cleaned === this.#leavings || this.#histories.room(user) === 0) return
    const { lastLeaving } = this.#items.at
    const all = this.#histories.of(user)
    const stays = (item: number) => item >= this.#items.length || lastLeaving[item] <= cleaned
    if (!all.every(stays)) this.#histories.set(user, all.filter(stays))
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

  /** Drops what is kept of ids; their names are not touched. */
  drop(side: Side, ids: readonly number[]): void {
    if (side === "item" && ids.length > 0) {
      this.#leavings++
      this.pending?.dropItems(new Set(ids))
    }
    for (const id of ids) {
      if (side === "user") {
        this.pending?.dropUser(id)
        this.#users.clear(id)
        this.#histories.clear(id)
      } else {
        this.#items.clear(id)
        if (id < this.#items.length) this.#items.at.lastLeaving[id] = this.#leavings
      }
    }
  }

  /** Everything; views of what changes with the next event. */
  save(state: State): void {
    for (const side of ["user", "item"] as const) this.names[side].save(state.at(`names.${side}`))
    const entries = new ByteWriter()
    for (const [index, entry] of this.entries) {
      entries.whole(index)
      entries.text(JSON.stringify(entry))
    }
    state.put("entries", new Uint8Array(entries.bytes))
    this.#histories.save(state.at("histories"))
    this.#users.save(state.at("users"))
    this.#items.save(state.at("items"))
    state.put("classes", this.#classes.slice())
    state.put("clock", Float64Array.of(this.#weight[0], this.#clock, this.#likes, this.#leavings))
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) this.names[side].load(state.at(`names.${side}`))
    const entries = new ByteReader(state.take("entries", Uint8Array))
    while (!entries.isAtEnd) this.put(entries.whole(), JSON.parse(entries.text()) as StoredItem)
    this.#histories.load(state.at("histories"))
    this.#users.load(state.at("users"))
    this.#items.load(state.at("items"))
    this.#classes.set(state.take("classes", Float64Array))
    const [weight, clock, likes, leavings] = state.take("clock", Float64Array)
    this.#leavings = leavings
    this.#weight[0] = weight
    this.#clock = clock
    this.#likes = likes
    for (const item of this.entries.keys()) this.know(item)
  }
}

/** About what an entry takes with its place in the maps. */
function bytesOf({ categories, features }: StoredItem): number {
  let bytes = 200 + 8 * (features?.length ?? 0)
  for (const category of categories) bytes += 48 + category.length
  return bytes
}
