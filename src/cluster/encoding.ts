/** How events, rows and changes lie in Redis: compact, each with a version. */

import { DessError } from "../errors.ts"

const EVENT_VERSION = 1
/** Stands in the place of an event's version where its user is to be forgotten. */
const FORGET = 2
const RECORD_VERSION = 1
const CHANGES_VERSION = 1

export interface ClusterEvent {
  user: string
  item: string
  /** 0 to 5; NaN for an event without a rating. */
  rating: number
  /** Seconds. */
  timestamp: number
  /** No event: the user is to be forgotten, with everything before. */
  forget?: true
}

/** What is written to the log to have a user forgotten. */
export function forgetEvent(user: string): ClusterEvent {
  return { user, item: "", rating: Number.NaN, timestamp: Date.now() / 1000, forget: true }
}

/** version, rating, timestamp, length of the user's name, user, item */
export function encodeEvent({ user, item, rating, timestamp, forget }: ClusterEvent): Buffer {
  const users = Buffer.byteLength(user)
  const bytes = Buffer.allocUnsafe(15 + users + Buffer.byteLength(item))
  bytes[0] = forget ? FORGET : EVENT_VERSION
  bytes.writeFloatLE(rating, 1)
  bytes.writeDoubleLE(timestamp, 5)
  bytes.writeUInt16LE(users, 13)
  bytes.write(user, 15)
  bytes.write(item, 15 + users)
  return bytes
}

export function decodeEvent(bytes: Buffer): ClusterEvent {
  if (bytes[0] !== FORGET) checkVersion("event", bytes[0], EVENT_VERSION)
  const users = bytes.readUInt16LE(13)
  return {
    rating: bytes.readFloatLE(1),
    timestamp: bytes.readDoubleLE(5),
    user: bytes.toString("utf8", 15, 15 + users),
    item: bytes.toString("utf8", 15 + users),
    ...(bytes[0] === FORGET ? { forget: true } : {}),
  }
}

/** A row as it is stored. What stands beside the learner's bytes: of a user the items met, of an item its popularity. */
export interface Stored {
  name: string
  /** Empty for an id without a row. */
  row: Uint8Array
  /** Of a user: indices of items met, oldest first, where the row does not have them. */
  met?: number[]
  /** Of an item: events, and the count of likes that fades, as of a clock. */
  popularity?: Popularity
}

export interface Popularity {
  events: number
  trend: number
  clock: number
}

const MET = 1
const POPULARITY = 2

/** version and parts, length of the name, name, [items met], [popularity], row */
export function encodeStored({ name, row, met, popularity }: Stored): Buffer {
  const writer = new Writer(32 + 3 * name.length + row.length + 5 * (met?.length ?? 0))
  writer.byte((RECORD_VERSION << 4) | (met ? MET : 0) | (popularity ? POPULARITY : 0))
  writer.text(name)
  if (met) {
    writer.number(met.length)
    for (const item of met) writer.number(item)
  }
  if (popularity) {
    writer.number(popularity.events)
    writer.float(popularity.trend)
    writer.number(popularity.clock)
  }
  writer.rest(row)
  return writer.done()
}

export function decodeStored(bytes: Buffer): Stored {
  checkVersion("row", bytes[0] >> 4, RECORD_VERSION)
  const reader = new ByteReader(bytes, 1)
  const stored: Stored = { name: reader.text(), row: bytes }
  if (bytes[0] & MET) stored.met = Array.from({ length: reader.number() }, () => reader.number())
  if (bytes[0] & POPULARITY)
    stored.popularity = { events: reader.number(), trend: reader.float(), clock: reader.number() }
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
  const writer = new Writer(bytes)
  writer.byte(CHANGES_VERSION)
  writer.number(all.length)
  for (const { index, events, likes, changes } of all) {
    writer.number(index)
    writer.number(events)
    writer.number(likes)
    writer.number(changes.length)
    for (const change of changes) writer.bytes(change)
  }
  return writer.done()
}

export function decodeChanges(bytes: Buffer): ItemChange[] {
  checkVersion("change", bytes[0], CHANGES_VERSION)
  const reader = new ByteReader(bytes, 1)
  return Array.from({ length: reader.number() }, () => ({
    index: reader.number(),
    events: reader.number(),
    likes: reader.number(),
    changes: Array.from({ length: reader.number() }, () => reader.bytes()),
  }))
}

/** What an owner tells the world: rows as they stand, what they contain, and its clock. */
export interface OwnerUpdate {
  /** By partition: the last event whose changes the rows contain. */
  applied: string[]
  clock: number
  rows: { index: number; record: Buffer }[]
}

export function encodeUpdate({ applied, clock, rows }: OwnerUpdate): Buffer {
  const writer = new Writer(32 + 24 * applied.length + rows.reduce((sum, { record }) => sum + record.length + 12, 0))
  writer.byte(CHANGES_VERSION)
  writer.number(applied.length)
  for (const id of applied) writer.text(id)
  writer.number(clock)
  writer.number(rows.length)
  for (const { index, record } of rows) {
    writer.number(index)
    writer.bytes(record)
  }
  return writer.done()
}

export function decodeUpdate(bytes: Buffer): OwnerUpdate {
  checkVersion("updates of an owner", bytes[0], CHANGES_VERSION)
  const reader = new ByteReader(bytes, 1)
  return {
    applied: Array.from({ length: reader.number() }, () => reader.text()),
    clock: reader.number(),
    rows: Array.from({ length: reader.number() }, () => ({ index: reader.number(), record: reader.bytes() })),
  }
}

function checkVersion(noun: string, got: number, expected: number): void {
  if (got === expected) return
  throw new DessError(
    "UNSUPPORTED",
    `cluster ${noun}: expected version ${expected}, got ${got}: another release of dess wrote it; run that release, or load a snapshot into a cluster of this one (--cluster-prefix)`,
  )
}

/** Numbers take a byte for each 7 bits. */
class Writer {
  #bytes: Buffer
  #at = 0

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafe(capacity)
  }

  byte(value: number): void {
    this.#bytes[this.#at++] = value
  }

  number(value: number): void {
    let rest = value
    while (rest >= 128) {
      this.#bytes[this.#at++] = (rest % 128) + 128
      rest = Math.floor(rest / 128)
    }
    this.#bytes[this.#at++] = rest
  }

  float(value: number): void {
    this.#at = this.#bytes.writeFloatLE(value, this.#at)
  }

  text(text: string): void {
    this.number(Buffer.byteLength(text))
    this.#at += this.#bytes.write(text, this.#at)
  }

  bytes(bytes: Uint8Array): void {
    this.number(bytes.length)
    this.rest(bytes)
  }

  rest(bytes: Uint8Array): void {
    this.#bytes.set(bytes, this.#at)
    this.#at += bytes.length
  }

  done(): Buffer {
    return this.#bytes.subarray(0, this.#at)
  }
}

class ByteReader {
  readonly #bytes: Buffer
  #at: number

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes
    this.#at = at
  }

  number(): number {
    let [value, scale] = [0, 1]
    for (;;) {
      const byte = this.#bytes[this.#at++]
      if (byte === undefined)
        throw new DessError("INVALID_DATA", "cluster record: expected a whole one, it is cut short")
      value += (byte & 127) * scale
      if (byte < 128) return value
      scale *= 128
    }
  }

  float(): number {
    const value = this.#bytes.readFloatLE(this.#at)
    this.#at += 4
    return value
  }

  text(): string {
    return this.bytes().toString("utf8")
  }

  bytes(): Buffer {
    const length = this.number()
    if (this.#at + length > this.#bytes.length)
      throw new DessError("INVALID_DATA", "cluster record: expected a whole one, it is cut short")
    const part = this.#bytes.subarray(this.#at, this.#at + length)
    this.#at += length
    return part
  }

  rest(): Buffer {
    return this.#bytes.subarray(this.#at)
  }
}
