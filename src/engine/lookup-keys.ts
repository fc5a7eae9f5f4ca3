/**
 * Keys of the lookup table, as texts with one character per byte: they compare like the bytes they are stored as, so
 * memory and disk have the same order.
 */

import { createHash } from "node:crypto"
import type { Side } from "../types.ts"
import type { FeedbackKey, FeedbackRange } from "./lookup.ts"

/** Four bytes, highest first. */
function uint32(n: number): string {
  return String.fromCharCode((n >>> 24) & 255, (n >>> 16) & 255, (n >>> 8) & 255, n & 255)
}

/** Eight bytes, highest first: orders only grow, 32 bits do not hold them. */
export function orderKey(order: number): string {
  return uint32(Math.floor(order / 2 ** 32)) + uint32(order % 2 ** 32)
}

export function toOrder(key: Buffer): number {
  return key.readUInt32BE(0) * 2 ** 32 + key.readUInt32BE(4)
}

const utf8 = (text: string) => Buffer.from(text, "utf8").toString("latin1")

export function userKey({ user, item, type }: FeedbackKey): string {
  return uint32(user) + uint32(item) + utf8(type)
}

export function itemKey({ user, item, type }: FeedbackKey): string {
  return uint32(item) + uint32(user) + utf8(type)
}

export function toFeedbackKey(key: Buffer, byItem: boolean): FeedbackKey {
  const [first, second] = [key.readUInt32BE(0), key.readUInt32BE(4)]
  const type = key.toString("utf8", 8)
  return byItem ? { user: second, item: first, type } : { user: first, item: second, type }
}

export interface KeyRange {
  start: string
  /** Not in it; undefined for no end. */
  end: string | undefined
}

/** The smallest key behind a key. */
export function behind(key: string): string {
  return `${key}\0`
}

/** Keys of all entries of an id, by user or by item. */
export function idRange(index: number): KeyRange {
  return { start: uint32(index), end: uint32(index + 1) }
}

/** Keys asked for, by item where only an item is given. */
export function feedbackRange({ user, item, after }: FeedbackRange): KeyRange & { byItem: boolean } {
  const byItem = user === undefined && item !== undefined
  let range: KeyRange = { start: "\0", end: undefined }
  if (byItem) range = idRange(item)
  else if (user !== undefined && item === undefined) range = idRange(user)
  else if (user !== undefined && item !== undefined)
    range = { start: uint32(user) + uint32(item), end: uint32(user) + uint32(item + 1) }
  const from = after === undefined ? "" : behind(byItem ? itemKey(after) : userKey(after))
  if (from > range.start) range = { start: from, end: range.end }
  return { byItem, ...range }
}

const SIDES: Record<Side, string> = { user: "u", item: "v" }

/** An id can be longer than a key may be. */
export function noteKey(side: Side, id: string): string {
  return SIDES[side] + createHash("sha256").update(id, "utf8").digest().toString("latin1", 0, 16)
}

export function noteRange(side: Side, after: string | undefined): KeyRange {
  const start = after === undefined ? SIDES[side] : behind(noteKey(side, after))
  return { start, end: String.fromCharCode(SIDES[side].charCodeAt(0) + 1) }
}

export function hashKey(hash: Uint8Array): string {
  return Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString("latin1")
}
