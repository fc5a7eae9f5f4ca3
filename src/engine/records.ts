/**
 * The records of the journal: what happened, in order. Replaying them gives the same state. Everything that is kept of
 * events, names, items, feedback and notes is in them; all else on disk is made from them.
 */

import { DessError, show } from "../errors.ts"
import type { Limits } from "../ids/idle.ts"
import type { Side } from "../types.ts"
import { ByteReader, ByteWriter } from "./byte-buffer.ts"
import type { EventTypes } from "./event-types.ts"
import type { Count } from "./experiments.ts"
import type { FeedbackKey, Note } from "./lookup.ts"
import type { Shown } from "./shown-items.ts"
import type { Properties } from "./types.ts"

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
  /** How many events each counts as, 1 for most; below 0 it says that the item is disliked. */
  weight: Float32Array
  /** 1 where the item may be recommended all the same. */
  stays: Uint8Array
  /** By row, ascending. */
  extras: EventExtra[]
}

/** An item of the catalogue as it is stored. */
export interface StoredItem {
  categories: readonly string[]
  hidden: boolean
  features: readonly number[] | null
  title?: string
  properties?: Properties
  /** Seconds. */
  expires?: number
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
  /** The one user that leaves is somebody without a name so far: what it did is this user's, whose name it has here. */
  into?: number
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
  /** The events since the last one are a segment; when it was closed, in milliseconds, how many events the journal had by then, and what items' entries, keys, feedback and notes took. */
  | { kind: "segment"; time: number; events?: number; propertyBytes?: number }
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
  /** What the types of events weigh from here on; the events after it have the weights themselves. */
  | { kind: "types"; types: EventTypes }
  /** What the tables are held to from here on. */
  | { kind: "limits"; limits: Limits }
  /** How far a source of events was read: everything before it in the same commit came from there. */
  | { kind: "source"; name: string; position: string }
  /** Lists that were given and what came of them, and places that are kept for new items and were given to these. */
  | { kind: "outcomes"; counts: Count[]; shown?: Shown }
  /** What is counted from here on, as a fingerprint of the settings: with another one counting starts over. */
  | { kind: "experiment"; fingerprint: string; since: number }
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
/** Added where not every event weighs 1 and leaves its item out of lists. */
const HAS_WEIGHTS = 4
const MILLISECONDS = 0
const SECONDS = 1
const [HAS_KEY, HAS_TYPE, HAS_COMMENT] = [1, 2, 4]
const KEY_BYTES = 16
/** Ends a record of events: never zero, which is what a crash leaves where nothing was written. */
const END = 0x2e

export function encodeRecord(record: LogRecord): Uint8Array {
  if (record.kind !== "events") return encodeOther(record)
  const writer = new ByteWriter(16 + 12 * record.user.length)
  writeEvents(writer, record)
  return writer.bytes
}

/** In as many bytes as it needs: items may be large, and wait for the disk as they are here. */
function encodeOther(record: OtherRecord): Uint8Array {
  const text = JSON.stringify(record)
  const bytes = Buffer.allocUnsafe(1 + Buffer.byteLength(text))
  bytes[0] = OTHER
  bytes.write(text, 1)
  return bytes
}

function writeEvents(writer: ByteWriter, record: EventsRecord): void {
  const { user, item, rating, timestamp, extras } = record
  const kinds = kindsOf(record)
  const flag = kinds ? HAS_WEIGHTS : 0
  writer.byte(EVENTS)
  writer.whole(user.length)
  for (const index of user) writer.whole(index + 1)
  for (const index of item) writer.whole(index + 1)
  const isSame = rating.every((value) => Object.is(value, rating[0]))
  if (isSame) {
    const none = rating.length === 0 || Number.isNaN(rating[0])
    writer.byte(flag + (none ? NO_RATINGS : ONE_RATING))
    if (!none) writer.float32(rating[0])
  } else {
    writer.byte(flag + EACH_RATING)
    for (const value of rating) writer.float32(value)
  }
  if (kinds) writeKinds(writer, kinds)
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

interface Kinds {
  all: { weight: number; stays: number }[]
  /** By row. */
  place: number[]
}

/** What different weights there are, and which each row has; undefined where all weigh 1 and leave their item out. */
function kindsOf({ weight, stays }: EventsRecord): Kinds | undefined {
  if (weight.every((one) => one === 1) && stays.every((one) => one === 0)) return undefined
  const places = new Map<string, number>()
  const all: Kinds["all"] = []
  const place = Array.from(weight, (one, r) => {
    const name = `${one} ${stays[r]}`
    const known = places.get(name) ?? all.push({ weight: one, stays: stays[r] }) - 1
    places.set(name, known)
    return known
  })
  return { all, place }
}

function writeKinds(writer: ByteWriter, { all, place }: Kinds): void {
  writer.whole(all.length)
  for (const { weight, stays } of all) {
    writer.float32(weight)
    writer.byte(stays)
  }
  for (const one of place) writer.whole(one)
}

function readKinds(reader: ByteReader, { weight, stays }: EventsRecord): void {
  const all = Array.from({ length: reader.whole() }, () => ({ weight: reader.float32(), stays: reader.byte() }))
  for (let r = 0; r < weight.length; r++) {
    const kind = all[reader.whole()]
    weight[r] = kind.weight
    stays[r] = kind.stays
  }
}

/** Whether seconds are a whole number of milliseconds that comes back as the same bits. */
function isMilliseconds(seconds: number): boolean {
  return Math.abs(seconds) < 1e12 && Object.is((Math.round(seconds * 1000) + 0) / 1000, seconds)
}

const LEAVING = /^\{"kind":"(left|forget|erased)"/
const LEAVING_BYTES = 20

/** Whether an encoded record gives up indices, or says that erasures are done. */
export function isLeaving(bytes: Uint8Array): boolean {
  return bytes[0] === OTHER && LEAVING.test(Buffer.from(bytes.subarray(1, 1 + LEAVING_BYTES)).toString("latin1"))
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
  const flags = reader.byte()
  const ratings = flags & 3
  if (ratings === EACH_RATING) for (let r = 0; r < rows; r++) rating[r] = reader.float32()
  else rating.fill(ratings === ONE_RATING ? reader.float32() : Number.NaN)
  if (flags & HAS_WEIGHTS) readKinds(reader, record)
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
    weight: new Float32Array(rows).fill(1),
    stays: new Uint8Array(rows),
    extras: [],
  }
}

export interface EventRow {
  user: number
  item: number
  rating: number
  timestamp: number
  weight?: number
  stays?: number
}

/** A record of rows given one by one. */
export function eventsOf(rows: readonly EventRow[], extras: EventExtra[] = []): EventsRecord {
  const record = emptyEvents(rows.length)
  rows.forEach((row, r) => {
    record.user[r] = row.user
    record.item[r] = row.item
    record.rating[r] = row.rating
    record.timestamp[r] = row.timestamp
    record.weight[r] = row.weight ?? 1
    record.stays[r] = row.stays ?? 0
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
    copy.weight[r] = gone ? 1 : record.weight[r]
    copy.stays[r] = gone ? 0 : record.stays[r]
  }
  copy.extras = record.extras.flatMap((extra) => {
    if (!goes(extra.row)) return extra
    return extra.key ? { row: extra.row, key: extra.key } : []
  })
  return copy
}
