/** Rows of events that come one by one, in columns that are used again. */

import { type EventExtra, type EventsRecord, emptyEvents, GONE } from "./records.ts"

const FIRST = 1024
const COLUMNS = ["user", "item", "rating", "timestamp", "weight", "stays"] as const

export type EventColumns = Omit<EventsRecord, "kind" | "extras">

export class EventRows {
  /** Longer than `length`: the rest is spare capacity. Replaced when `add` needs more. */
  at: EventColumns = emptyEvents(FIRST)
  length = 0

  /** Makes a row, to be filled in; returns its place. */
  add(): number {
    if (this.length === this.at.user.length) this.#grow(this.length + 1)
    return this.length++
  }

  #grow(needed: number): void {
    const grown = emptyEvents(Math.max(needed, 2 * this.at.user.length))
    copyRows(grown, this.at, this.length)
    this.at = grown
  }

  /** Adds the rows of a record that were not erased. */
  append(record: EventColumns): void {
    for (let r = 0; r < record.user.length; r++) if (record.user[r] !== GONE) this.#copyRow(record, r, this.add())
  }

  #copyRow(from: EventColumns, r: number, to: number): void {
    const { user, item, rating, timestamp, weight, stays } = this.at
    user[to] = from.user[r]
    item[to] = from.item[r]
    rating[to] = from.rating[r]
    timestamp[to] = from.timestamp[r]
    weight[to] = from.weight[r]
    stays[to] = from.stays[r]
  }

  /** Takes rows out; returns how many. */
  remove(goes: (row: number) => boolean): number {
    const before = this.length
    this.length = 0
    for (let r = 0; r < before; r++) if (!goes(r)) this.#copyRow(this.at, r, this.length++)
    return before - this.length
  }

  /** All rows, as they are until the next is added; none are left. */
  lend(): EventColumns {
    const { length, at } = this
    this.length = 0
    return {
      user: at.user.subarray(0, length),
      item: at.item.subarray(0, length),
      rating: at.rating.subarray(0, length),
      timestamp: at.timestamp.subarray(0, length),
      weight: at.weight.subarray(0, length),
      stays: at.stays.subarray(0, length),
    }
  }

  /** All rows as a record of its own; none are left. */
  take(extras: EventExtra[] = []): EventsRecord {
    const record = emptyEvents(this.length)
    copyRows(record, this.at, this.length)
    record.extras = extras
    this.length = 0
    return record
  }
}

function copyRows(to: EventColumns, from: EventColumns, count: number): void {
  for (const name of COLUMNS) to[name].set(from[name].subarray(0, count))
}
