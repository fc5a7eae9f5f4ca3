/** The binary form of events, rows and changes in Redis, each with a version. */

import { ByteReader, ByteWriter } from "../engine/byte-buffer.ts"
import { DessError } from "../errors.ts"

const EVENT_VERSION = 1
/** Version of an event with a weight other than 1, or whose item may be recommended again. */
const WEIGHED = 3
/** Stands in place of an event's version: forget the user. */
const FORGET = 2
/** Version 2 also has when an item became known; version 1 is still read. */
const RECORD_VERSION = 2
const CHANGES_VERSION = 1

export interface ClusterEvent {
  user: string
  item: string
  /** 0 to 5; NaN for an event without a rating. */
  rating: number
  /** Seconds. */
  timestamp: number
  /** Default 1. */
  weight?: number | undefined
  stays?: boolean | undefined
  /** Not an event: forget the user, with everything before. */
  forget?: true
}

/** The log entry that forgets a user. */
export function forgetEvent(user: string): ClusterEvent {
  return { user, item: "", rating: Number.NaN, timestamp: Date.now() / 1000, forget: true }
}

/** version, rating, timestamp, length of the user's name, user, [weight, whether it stays], item */
export function encodeEvent({ user, item, rating, timestamp, weight = 1, stays, forget }: ClusterEvent): Buffer {
  const users = Buffer.byteLength(user)
  const isPlain = weight === 1 && !stays
  const bytes = Buffer.allocUnsafe(15 + users + (isPlain ? 0 : 5) + Buffer.byteLength(item))
  bytes[0] = forget ? FORGET : isPlain ? EVENT_VERSION : WEIGHED
  bytes.writeFloatLE(rating, 1)
  bytes.writeDoubleLE(timestamp, 5)
  bytes.writeUInt16LE(users, 13)
  bytes.write(user, 15)
  if (!isPlain) bytes[bytes.writeFloatLE(weight, 15 + users)] = stays ? 1 : 0
  bytes.write(item, 15 + users + (isPlain ? 0 : 5))
  return bytes
}

export function decodeEvent(bytes: Buffer): ClusterEvent {
  if (bytes[0] !== FORGET && bytes[0] !== WEIGHED) checkVersion("event", bytes[0], EVENT_VERSION)
  const users = bytes.readUInt16LE(13)
  const isWeighed = bytes[0] === WEIGHED
  return {
    rating: bytes.readFloatLE(1),
    timestamp: bytes.readDoubleLE(5),
    user: bytes.toString("utf8", 15, 15 + users),
    item: bytes.toString("utf8", 15 + users + (isWeighed ? 5 : 0)),
    ...(isWeighed && { weight: bytes.readFloatLE(15 + users), stays: bytes[19 + users] === 1 }),
    ...(bytes[0] === FORGET ? { forget: true } : {}),
  }
}

/** A stored row: the learner's bytes, with a user's items met or an item's popularity. */
export interface Stored {
  name: string
  /** Items: position in the order they became known. */
  born?: number | undefined
  /** Empty for an id without a row. */
  row: Uint8Array
  /** Users: indices of items met, oldest first, unless the row has them. */
  met?: number[]
  /** Users: which of those items may be recommended again. */
  staying?: number[]
  /** Items: events, and the fading count of likes, at a time of the clock. */
  popularity?: Popularity
}

export interface Popularity {
  events: number
  trend: number
  clock: number
}

const MET = 1
const POPULARITY = 2
const STAYING = 4
const BORN = 8

/** version and parts, length of the name, name, [when it became known], [items met], [of them staying], [popularity], row */
export function encodeStored({ name, born, row, met, staying, popularity }: Stored): Buffer {
  const writer = new ByteWriter(32 + 3 * name.length + row.length + 5 * (met?.length ?? 0))
  const parts = (met ? MET : 0) | (popularity ? POPULARITY : 0) | (staying ? STAYING : 0) | (born ? BORN : 0)
  writer.byte((RECORD_VERSION << 4) | parts)
  writer.text(name)
  if (born) writer.whole(born)
  for (const list of [met, staying])
    if (list) {
      writer.whole(list.length)
      for (const item of list) writer.whole(item)
    }
  if (popularity) {
    writer.whole(popularity.events)
    writer.float32(popularity.trend)
    writer.whole(popularity.clock)
  }
  writer.raw(row)
  return writer.bytes
}

export function decodeStored(bytes: Buffer): Stored {
  if (bytes[0] >> 4 !== 1) checkVersion("row", bytes[0] >> 4, RECORD_VERSION)
  const reader = new ByteReader(bytes.subarray(1))
  const stored: Stored = { name: reader.text(), row: bytes }
  if (bytes[0] & BORN) stored.born = reader.whole()
  const list = () => Array.from({ length: reader.whole() }, () => reader.whole())
  if (bytes[0] & MET) stored.met = list()
  if (bytes[0] & STAYING) stored.staying = list()
  if (bytes[0] & POPULARITY)
    stored.popularity = { events: reader.whole(), trend: reader.float32(), clock: reader.whole() }
  stored.row = reader.rest()
  return stored
}

/** A change on its way to the owner: what training did, and the events behind it. */
export interface ItemChange {
  index: number
  events: number
  likes: number
  changes: Uint8Array[]
}

export function encodeChanges(all: readonly ItemChange[]): Buffer {
  const bytes = all.reduce((sum, one) => sum + 24 + one.changes.reduce((n, change) => n + change.length + 5, 0), 8)
  const writer = new ByteWriter(bytes)
  writer.byte(CHANGES_VERSION)
  writer.whole(all.length)
  for (const { index, events, likes, changes } of all) {
    writer.whole(index)
    writer.whole(events)
    writer.whole(likes)
    writer.whole(changes.length)
    for (const change of changes) writer.block(change)
  }
  return writer.bytes
}

export function decodeChanges(bytes: Buffer): ItemChange[] {
  checkVersion("change", bytes[0], CHANGES_VERSION)
  const reader = new ByteReader(bytes.subarray(1))
  return Array.from({ length: reader.whole() }, () => ({
    index: reader.whole(),
    events: reader.whole(),
    likes: reader.whole(),
    changes: Array.from({ length: reader.whole() }, () => reader.block()),
  }))
}

/** What an owner publishes: current rows, which events they contain, and its clock. */
export interface OwnerUpdate {
  /** By partition: the last event whose changes the rows contain. */
  applied: string[]
  clock: number
  rows: { index: number; record: Buffer }[]
}

export function encodeUpdate({ applied, clock, rows }: OwnerUpdate): Buffer {
  const writer = new ByteWriter(
    32 + 24 * applied.length + rows.reduce((sum, { record }) => sum + record.length + 12, 0),
  )
  writer.byte(CHANGES_VERSION)
  writer.whole(applied.length)
  for (const id of applied) writer.text(id)
  writer.whole(clock)
  writer.whole(rows.length)
  for (const { index, record } of rows) {
    writer.whole(index)
    writer.block(record)
  }
  return writer.bytes
}

export function decodeUpdate(bytes: Buffer): OwnerUpdate {
  checkVersion("updates of an owner", bytes[0], CHANGES_VERSION)
  const reader = new ByteReader(bytes.subarray(1))
  return {
    applied: Array.from({ length: reader.whole() }, () => reader.text()),
    clock: reader.whole(),
    rows: Array.from({ length: reader.whole() }, () => ({ index: reader.whole(), record: reader.block() })),
  }
}

function checkVersion(noun: string, got: number, expected: number): void {
  if (got === expected) return
  throw new DessError(
    "UNSUPPORTED",
    `cluster ${noun}: expected version ${expected}, got ${got}: another release of dess wrote it; run that release, or load a snapshot into a cluster of this one (--cluster-prefix)`,
  )
}
