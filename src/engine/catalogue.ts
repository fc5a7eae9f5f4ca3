/**
 * What reading needs beside the model: which ids there are, what each user has met, which items are hidden, new or
 * trending. It is changed as events are accepted, in their order, so a list never shows what was just met.
 * Trending is a count that halves about every 11,000 events (0.97 per 500); the weight of an event grows instead of
 * every count shrinking.
 */

import { grown, nextCapacity } from "../context/growth.ts"
import { Lists } from "../context/lists.ts"
import type { State, StateArray } from "../kernels/state.ts"
import { binaryLabel, classLabel } from "../stream/labels.ts"
import type { Side } from "../types.ts"
import { ByteReader, ByteWriter } from "./byte-buffer.ts"
import { Names } from "./names.ts"
import type { EventRow, StoredItem } from "./records.ts"
import type { ItemView } from "./types.ts"

/** Items kept per user; of more the oldest is forgotten. */
const LONGEST_HISTORY = 10_000
const DECAY_PER_EVENT = 0.97 ** (1 / 500)
const NONE: ReadonlySet<number> = new Set()
const PLAIN: StoredItem = { categories: [], hidden: false, features: null }

export class Catalogue {
  readonly names: Record<Side, Names> = { user: new Names(), item: new Names() }
  /** Items that were put. */
  readonly entries = new Map<number, StoredItem>()
  readonly hidden = new Set<number>()
  /** Items of each category. */
  readonly #categories = new Map<string, Set<number>>()
  /**
   * An item that leaves stays in histories until they are looked at: leavings are counted, and a history remembers how
   * many there were when it was cleaned last.
   */
  readonly #histories = new Lists()
  #leavings = 0
  #lastLeaving = new Uint32Array(64)
  #cleaned = new Uint32Array(64)
  /** By item: decayed count in units of the present weight, events, and when it was first known. */
  #trend = new Float64Array(64)
  #events = new Uint32Array(64)
  #born = new Float64Array(64)
  #weight = 1
  #clock = 0
  /** By side: the segment of the id's last event. */
  readonly #last: Record<Side, Uint32Array> = { user: new Uint32Array(64), item: new Uint32Array(64) }
  /** Events by class (multiclass) and likes among all: what is said of an unknown pair. */
  readonly #classes = new Float64Array(5)
  #likes = 0
  readonly #likeThreshold: number

  constructor(likeThreshold: number) {
    this.#likeThreshold = likeThreshold
  }

  /** Takes in an event that belongs to a segment. */
  addOne({ user, item, rating }: Pick<EventRow, "user" | "item" | "rating">, segment: number): void {
    this.know(item)
    this.#reserve("user", user)
    this.#last.user[user] = segment
    this.#last.item[item] = segment
    this.#events[item]++
    const value = Number.isNaN(rating) ? 5 : rating
    const like = this.like(value)
    this.#likes += like
    this.#classes[classLabel(value)]++
    this.#weight /= DECAY_PER_EVENT
    if (like) this.#trend[item] += this.#weight
    if (this.#weight > 1e100) {
      for (let i = 0; i < this.#trend.length; i++) this.#trend[i] /= this.#weight
      this.#weight = 1
    }
    if (this.hasMet(user, item)) return
    this.#cleaned[user] = this.#leavings
    if (this.#histories.count(user) >= LONGEST_HISTORY) this.#histories.remove(user, 0)
    this.#histories.append(user, item)
  }

  /** 1 for a rating, on the scale 0 to 5, that is a like. */
  like(rating: number): 0 | 1 {
    return binaryLabel(rating, this.#likeThreshold)
  }

  #reserve(side: Side, id: number): void {
    if (id < this.#last[side].length) return
    const capacity = nextCapacity(this.#last[side].length, id + 1)
    this.#last[side] = grown(this.#last[side], capacity)
    if (side === "user") this.#cleaned = grown(this.#cleaned, capacity)
    else this.#lastLeaving = grown(this.#lastLeaving, capacity)
  }

  /** Notes that an item exists. */
  know(item: number): void {
    this.#reserve("item", item)
    if (item >= this.#trend.length) {
      const capacity = nextCapacity(this.#trend.length, item + 1)
      this.#trend = grown(this.#trend, capacity)
      this.#events = grown(this.#events, capacity)
      this.#born = grown(this.#born, capacity)
    }
    if (this.#born[item] === 0) this.#born[item] = ++this.#clock
  }

  put(item: number, entry: StoredItem | null): void {
    const before = this.entries.get(item) ?? PLAIN
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
    return item < this.#events.length ? this.#events[item] : 0
  }

  born(item: number): number {
    return this.#born[item]
  }

  /** The decayed count of an item's likes. */
  trend(item: number): number {
    return item < this.#trend.length ? this.#trend[item] / this.#weight : 0
  }

  /** Takes what is known of an item from elsewhere. */
  setItem(item: number, { events, trend }: { events: number; trend: number }): void {
    this.know(item)
    this.#events[item] = events
    this.#trend[item] = trend * this.#weight
  }

  /** Takes what a user has met from elsewhere, oldest first. */
  setHistory(user: number, items: Iterable<number>): void {
    this.#reserve("user", user)
    this.#histories.clear(user)
    for (const item of items) this.#histories.append(user, item)
  }

  /** Takes the counts of all events from elsewhere. */
  setTotals({ likes, classes }: { likes: number; classes: ArrayLike<number> }): void {
    this.#likes = likes
    this.#classes.set(classes)
  }

  /** How many indices of items there may be. */
  get itemRoom(): number {
    return this.#born.length
  }

  hasMet(user: number, item: number): boolean {
    return this.history(user).includes(item)
  }

  /** Takes an item out of a user's history. */
  unmeet(user: number, item: number): void {
    const at = this.history(user).indexOf(item)
    if (at >= 0) this.#histories.remove(user, at)
  }

  /** Items a user has met, oldest first: a view until the next event. */
  history(user: number): Int32Array {
    this.#clean(user)
    const count = this.#histories.count(user)
    const from = count === 0 ? 0 : this.#histories.start[user]
    return this.#histories.cells.subarray(from, from + count)
  }

  /** Takes items that left since the last time out of a user's history. */
  #clean(user: number): void {
    const count = this.#histories.count(user)
    if (count === 0 || this.#cleaned[user] === this.#leavings) return
    const { cells, start } = this.#histories
    for (let c = count - 1; c >= 0; c--)
      if (this.#lastLeaving[cells[start[user] + c]] > this.#cleaned[user]) this.#histories.remove(user, c)
    this.#cleaned[user] = this.#leavings
  }

  lastSegment(side: Side, id: number): number {
    return id < this.#last[side].length ? this.#last[side][id] : 0
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
    if (side === "item" && ids.length > 0) this.#leavings++
    for (const id of ids) {
      if (id < this.#last[side].length) this.#last[side][id] = 0
      if (side === "item" && id < this.#lastLeaving.length) this.#lastLeaving[id] = this.#leavings
      if (side === "user") this.#histories.clear(id)
      else if (id < this.#trend.length) {
        this.#trend[id] = 0
        this.#events[id] = 0
        this.#born[id] = 0
      }
    }
  }

  /** Everything, copied. */
  save(state: State): void {
    for (const side of ["user", "item"] as const) this.names[side].save(state.at(`names.${side}`))
    const entries = new ByteWriter()
    for (const [index, entry] of this.entries) {
      entries.whole(index)
      entries.text(JSON.stringify(entry))
    }
    state.put("entries", new Uint8Array(entries.bytes))
    this.#histories.save(state.at("histories"))
    state.put("trend", this.#trend)
    state.put("events", this.#events)
    state.put("born", this.#born)
    state.put("lastUser", this.#last.user)
    state.put("lastItem", this.#last.item)
    state.put("classes", this.#classes)
    state.put("cleaned", this.#cleaned)
    state.put("lastLeaving", this.#lastLeaving)
    state.put("clock", Float64Array.of(this.#weight, this.#clock, this.#likes, this.#leavings))
    for (const [name, array] of state.arrays) state.arrays.set(name, array.slice() as StateArray)
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) this.names[side].load(state.at(`names.${side}`))
    const entries = new ByteReader(state.take("entries", Uint8Array))
    while (!entries.isAtEnd) this.put(entries.whole(), JSON.parse(entries.text()) as StoredItem)
    this.#histories.load(state.at("histories"))
    this.#trend = state.take("trend", Float64Array).slice()
    this.#events = state.take("events", Uint32Array).slice()
    this.#born = state.take("born", Float64Array).slice()
    this.#last.user = state.take("lastUser", Uint32Array).slice()
    this.#last.item = state.take("lastItem", Uint32Array).slice()
    this.#classes.set(state.take("classes", Float64Array))
    this.#cleaned = state.take("cleaned", Uint32Array).slice()
    this.#lastLeaving = state.take("lastLeaving", Uint32Array).slice()
    const [weight, clock, likes, leavings] = state.take("clock", Float64Array)
    this.#leavings = leavings
    this.#weight = weight
    this.#clock = clock
    this.#likes = likes
    for (const item of this.entries.keys()) this.know(item)
  }
}
