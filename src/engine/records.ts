/**
 * The records of the journal: what happened, in order. Replaying them gives the same state. Everything that is kept of
 * events, names, items, feedback and notes is in them; all else on disk is made from them.
 */

import { DessError, show } from "../errors.ts"
import type { Limits } from "../ids/idle.ts"
import type { Side } from "../types.ts"
import { ByteReader, ByteWriter } from "./byte-buffer.ts"
import type { FeedbackKey, Note } from "./lookup.ts"

/** What the journal keeps of an event beside its row. */
export interface EventExtra {
  row: number
  /** First 16 bytes of the SHA-256 of its idempotency key. */
  key?: Uint8Array
  type?: string
  comment?: string
}

/** Events in the order they were accepted. A row of user −1 was erased. */
export interface EventsRecord {
  kind: "events"
  user: Int32Array
  item: Int32Array
  /** 0 to 5; NaN for an event without a rating. */
  rating: Float32Array
  /** Seconds. */
  timestamp: Float64Array
  /** By row, ascending. */
  extras: EventExtra[]
}

/** An item of the catalogue as it is stored. */
export interface StoredItem {
  categories: readonly string[]
  hidden: boolean
  features: readonly number[] | null
}

export interface NamedIndex {
  side: Side
  index: number
  /** null: a user erased since. */
  name: string | null
}

/** Indices without an id from here on, and the names they had; null for a user erased since. */
export interface LeftRecord extends Record<Side, number[]> {
  kind: "left"
  names: Record<Side, (string | null)[]>
}

/** Begins the erasure of a user: of the index now, and of indices of before, each until the record that says it left. */
export interface ForgetRecord {
  kind: "forget"
  user: number | null
  former: { index: number; before: number }[]
  /** SHA-256 of the name, to know it by while the erasure is pending; null once it is done. */
  hash: string | null
}

export interface NoteChange {
  side: Side
  /** null: of a user erased since. */
  id: string | null
  note: Note | null
}

export type OtherRecord =
  /** The events since the last one are a segment; when it was closed, in milliseconds. */
  | { kind: "segment"; time: number }
  /** Time goes on without events. */
  | { kind: "tick"; time: number }
  | { kind: "names"; names: NamedIndex[] }
  /** Items put; null: deleted. `features`: those whose features count from here on. */
  | { kind: "items"; items: { index: number; item: StoredItem | null }[]; features: number[] }
  /** Feedback taken away; `unmet`: between that user and item none is left. */
  | { kind: "retract"; rows: FeedbackKey[]; unmet: boolean }
  | { kind: "notes"; notes: NoteChange[] }
  | ForgetRecord
  /** These erasures, by the positions of their records, are done. */
  | { kind: "erased"; positions: number[] }
  /** What the tables are held to from here on. */
  | { kind: "limits"; limits: Limits }
  /** Which build learns from here on. */
  | { kind: "build"; version: string; learning: string }
  | LeftRecord

export type LogRecord = EventsRecord | OtherRecord

/** The row of an erased event. */
export const GONE = -1

const EVENTS = 1
const OTHER = 2
/** How ratings and timestamps of a record are written. */
const NO_RATINGS = 0
const ONE_RATING = 1
const EACH_RATING = 2
const MILLISECONDS = 0
const SECONDS = 1
const [HAS_KEY, HAS_TYPE, HAS_COMMENT] = [1, 2, 4]
const KEY_BYTES = 16
/** Ends a record of events: never zero, which is what a crash leaves where nothing was written. */
const END = 0x2e

export function encodeRecord(record: LogRecord): Buffer {
  const writer = new ByteWriter(record.kind === "events" ? 16 + 12 * record.user.length : 256)
  if (record.kind === "events") writeEvents(writer, record)
  else {
    writer.byte(OTHER)
    writer.raw(Buffer.from(JSON.stringify(record)))
  }
  return writer.bytes
}

function writeEvents(writer: ByteWriter, { user, item, rating, timestamp, extras }: EventsRecord): void {
  writer.byte(EVENTS)
  writer.whole(user.length)
  for (const index of user) writer.whole(index + 1)
  for (const index of item) writer.whole(index + 1)
  const isSame = rating.every((value) => Object.is(value, rating[0]))
  if (isSame) {
    const none = rating.length === 0 || Number.isNaN(rating[0])
    writer.byte(none ? NO_RATINGS : ONE_RATING)
    if (!none) writer.float32(rating[0])
  } else {
    writer.byte(EACH_RATING)
    for (const value of rating) writer.float32(value)
  }
  const isWhole = timestamp.every(isMilliseconds)
  writer.byte(isWhole ? MILLISECONDS : SECONDS)
  let last = 0
  for (const seconds of timestamp)
    if (isWhole) {
      const milliseconds = Math.round(seconds * 1000)
      writer.signed(milliseconds - last)
      last = milliseconds
    } else writer.float64(seconds)
  writer.whole(extras.length)
  for (const { row, key, type, comment } of extras) {
    writer.whole(row)
    writer.byte((key ? HAS_KEY : 0) | (type === undefined ? 0 : HAS_TYPE) | (comment === undefined ? 0 : HAS_COMMENT))
    if (key) writer.raw(key)
    if (type !== undefined) writer.text(type)
    if (comment !== undefined) writer.text(comment)
  }
  writer.byte(END)
}

/** Whether seconds are a whole number of milliseconds that comes back as the same bits. */
function isMilliseconds(seconds: number): boolean {
  return Math.abs(seconds) < 1e12 && Object.is((Math.round(seconds * 1000) + 0) / 1000, seconds)
}

export function decodeRecord(bytes: Uint8Array, position: number): LogRecord {
  try {
    const reader = new ByteReader(bytes)
    const kind = reader.byte()
    if (kind === OTHER) return JSON.parse(Buffer.from(bytes.subarray(1)).toString()) as LogRecord
    if (kind === EVENTS) {
      const record = readEvents(reader)
      if (reader.byte() === END && reader.isAtEnd) return record
    }
  } catch {
    // falls through to the refusal
  }
  throw new DessError(
    "INVALID_DATA",
    `journal record ${position}: expected a readable one, got ${show([...bytes.subarray(0, 8)])}`,
  )
}

function readEvents(reader: ByteReader): EventsRecord {
  const record = emptyEvents(reader.whole())
  const { user, item, rating, timestamp, extras } = record
  const rows = user.length
  for (let r = 0; r < rows; r++) user[r] = reader.whole() - 1
  for (let r = 0; r < rows; r++) item[r] = reader.whole() - 1
  const ratings = reader.byte()
  if (ratings === EACH_RATING) for (let r = 0; r < rows; r++) rating[r] = reader.float32()
  else rating.fill(ratings === ONE_RATING ? reader.float32() : Number.NaN)
  const isWhole = reader.byte() === MILLISECONDS
  let last = 0
  for (let r = 0; r < rows; r++)
    if (isWhole) {
      last += reader.signed()
      timestamp[r] = last / 1000
    } else timestamp[r] = reader.float64()
  for (let left = reader.whole(); left > 0; left--) {
    const extra: EventExtra = { row: reader.whole() }
    const has = reader.byte()
    if (has & HAS_KEY) extra.key = Uint8Array.from(reader.raw(KEY_BYTES))
    if (has & HAS_TYPE) extra.type = reader.text()
    if (has & HAS_COMMENT) extra.comment = reader.text()
    extras.push(extra)
  }
  return record
}

export function emptyEvents(rows: number): EventsRecord {
  return {
    kind: "events",
    user: new Int32Array(rows),
    item: new Int32Array(rows),
    rating: new Float32Array(rows),
    timestamp: new Float64Array(rows),
    extras: [],
  }
}

export interface EventRow {
  user: number
  item: number
  rating: number
  timestamp: number
}

/** A record of rows given one by one. */
export function eventsOf(rows: readonly EventRow[], extras: EventExtra[] = []): EventsRecord {
  const record = emptyEvents(rows.length)
  rows.forEach((row, r) => {
    record.user[r] = row.user
    record.item[r] = row.item
    record.rating[r] = row.rating
    record.timestamp[r] = row.timestamp
  })
  record.extras = extras
  return record
}

/** The record with rows emptied; their keys stay, so that an event sent again is not taken again. */
export function withoutRows(record: EventsRecord, goes: (row: number) => boolean): EventsRecord {
  const copy = emptyEvents(record.user.length)
  for (let r = 0; r < record.user.length; r++) {
    const gone = goes(r)
    copy.user[r] = gone ? GONE : record.user[r]
    copy.item[r] = gone ? GONE : record.item[r]
    copy.rating[r] = gone ? Number.NaN : record.rating[r]
    copy.timestamp[r] = gone ? (r === 0 ? 0 : copy.timestamp[r - 1]) : record.timestamp[r]
  }
  copy.extras = record.extras.flatMap((extra) => {
    if (!goes(extra.row)) return extra
    return extra.key ? { row: extra.row, key: extra.key } : []
  })
  return copy
}
