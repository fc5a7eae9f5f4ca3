/** The records of the journal: what happened, in order. A replay of them gives the same state. */

import { DessError, show } from "../errors.ts"
import type { Limits } from "../run/idle.ts"
import type { Side } from "../types.ts"

/** Events in the order they were accepted. A row of user −1 was forgotten. */
export interface EventsRecord {
  kind: "events"
  user: Int32Array
  item: Int32Array
  /** 0 to 5; NaN for an event without a rating. */
  rating: Float32Array
  timestamp: Float64Array
}

export type LogRecord =
  | EventsRecord
  /** The events since the last one are a segment; when it was closed, in milliseconds. */
  | { kind: "segment"; time: number }
  /** Feature vectors that count from here on; null for none. */
  | { kind: "features"; items: number[]; values: (readonly number[] | null)[] }
  | { kind: "forget"; user: number }
  /** What the tables are held to from here on. */
  | { kind: "limits"; limits: Limits }
  /** The user has not met the item after all. */
  | { kind: "unmet"; user: number; item: number }
  | LeftRecord

/** Indices that stand for nobody from here on, and whom they stood for; null for a user forgotten since. */
export interface LeftRecord extends Record<Side, number[]> {
  kind: "left"
  names: Record<Side, (string | null)[]>
}

export const GONE = -1

const EVENTS = 1
const OTHER = 2
const ROW_BYTES = 20

export function encodeRecord(record: LogRecord): Uint8Array {
  if (record.kind !== "events") return Buffer.concat([Buffer.of(OTHER), Buffer.from(JSON.stringify(record))])
  const { user, item, rating, timestamp } = record
  const rows = user.length
  const bytes = new Uint8Array(8 + rows * ROW_BYTES)
  const view = new DataView(bytes.buffer)
  bytes[0] = EVENTS
  view.setUint32(4, rows, true)
  for (let r = 0; r < rows; r++) {
    const at = 8 + r * ROW_BYTES
    view.setInt32(at, user[r], true)
    view.setInt32(at + 4, item[r], true)
    view.setFloat32(at + 8, rating[r], true)
    view.setFloat64(at + 12, timestamp[r], true)
  }
  return bytes
}

export function decodeRecord(bytes: Uint8Array, position: number): LogRecord {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes[0] === EVENTS && bytes.length >= 8 && bytes.length === 8 + view.getUint32(4, true) * ROW_BYTES) {
    const record = emptyEvents(view.getUint32(4, true))
    for (let r = 0; r < record.user.length; r++) {
      const at = 8 + r * ROW_BYTES
      record.user[r] = view.getInt32(at, true)
      record.item[r] = view.getInt32(at + 4, true)
      record.rating[r] = view.getFloat32(at + 8, true)
      record.timestamp[r] = view.getFloat64(at + 12, true)
    }
    return record
  }
  try {
    if (bytes[0] === OTHER) return JSON.parse(Buffer.from(bytes.subarray(1)).toString()) as LogRecord
  } catch {
    // falls through to the refusal
  }
  throw new DessError(
    "INVALID_DATA",
    `journal record ${position}: expected a readable one, got ${show([...bytes.subarray(0, 8)])}`,
  )
}

export function emptyEvents(rows: number): EventsRecord {
  return {
    kind: "events",
    user: new Int32Array(rows),
    item: new Int32Array(rows),
    rating: new Float32Array(rows),
    timestamp: new Float64Array(rows),
  }
}

/** A record of rows given one by one. */
export function eventsOf(rows: readonly EventRow[]): EventsRecord {
  const record = emptyEvents(rows.length)
  rows.forEach((row, r) => {
    record.user[r] = row.user
    record.item[r] = row.item
    record.rating[r] = row.rating
    record.timestamp[r] = row.timestamp
  })
  return record
}

export interface EventRow {
  user: number
  item: number
  rating: number
  timestamp: number
}

/** The record with a user's rows emptied, or undefined when there are none; and how many there were. */
export function withoutUser(record: EventsRecord, user: number): { record: EventsRecord; rows: number } | undefined {
  let rows = 0
  const copy = emptyEvents(record.user.length)
  for (let r = 0; r < record.user.length; r++) {
    if (record.user[r] === user) {
      copy.user[r] = GONE
      copy.item[r] = GONE
      rows++
      continue
    }
    copy.user[r] = record.user[r]
    copy.item[r] = record.item[r]
    copy.rating[r] = record.rating[r]
    copy.timestamp[r] = record.timestamp[r]
  }
  return rows === 0 ? undefined : { record: copy, rows }
}

/** The record with a user's name taken out. */
export function withoutName(record: LeftRecord, user: number): LeftRecord {
  const names = record.names.user.map((name, at) => (record.user[at] === user ? null : name))
  return { ...record, names: { ...record.names, user: names } }
}

/** The rows of several records as one, forgotten ones left out. */
export function joinEvents(records: readonly { record: EventsRecord }[]): EventsRecord {
  const keep = records.map(({ record }) => record)
  const rows = keep.reduce((sum, record) => sum + record.user.filter((user) => user !== GONE).length, 0)
  const joined = emptyEvents(rows)
  let at = 0
  for (const record of keep)
    for (let r = 0; r < record.user.length; r++) {
      if (record.user[r] === GONE) continue
      joined.user[at] = record.user[r]
      joined.item[at] = record.item[r]
      joined.rating[at] = record.rating[r]
      joined.timestamp[at++] = record.timestamp[r]
    }
  return joined
}
