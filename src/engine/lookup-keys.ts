/**
 * Keys of the lookup table, as texts with one character per byte: they compare like the bytes they are stored as, so
 * memory and disk have the same order. The first character says what a key is of.
 */

import { createHash } from "node:crypto"
import type { Side } from "../types.ts"
import type { FeedbackKey, FeedbackRange } from "./lookup.ts"
import type { KeyRange } from "./sorted-run.ts"

/** Details of items, feedback by user and by item, idempotency keys, notes; in order. */
export const TABLES = ["d", "f", "i", "k", "n"] as const
export type Table = (typeof TABLES)[number]

export const tableOf = (key: string) => key[0] as Table

/** Four bytes, highest first. */
function uint32(n: number): string {
  return String.fromCharCode((n >>> 24) & 255, (n >>> 16) & 255, (n >>> 8) & 255, n & 255)
}

/** A text as the bytes of its UTF-8, and back. */
export const toBytes = (text: string) => (/[^\0-\x7f]/.test(text) ? Buffer.from(text, "utf8").toString("latin1") : text)
export const toText = (bytes: string) =>
  /[^\0-\x7f]/.test(bytes) ? Buffer.from(bytes, "latin1").toString("utf8") : bytes

/** What the keys of all feedback of an id begin with. */
export function idPrefix(side: Side, index: number): string {
  return (side === "user" ? "f" : "i") + uint32(index)
}

export function feedbackKey({ user, item, type }: FeedbackKey): string {
  return idPrefix("user", user) + uint32(item) + toBytes(type)
}

/** The key of the same entry in the other order, by user or by item. */
export function twinOf(key: string): string {
  return (key[0] === "f" ? "i" : "f") + key.slice(5, 9) + key.slice(1, 5) + key.slice(9)
}

/** What the keys of an entry's user and of its item begin with. */
export function idsOf(key: string): [string, string] {
  return [key.slice(0, 5), (key[0] === "f" ? "i" : "f") + key.slice(5, 9)]
}

export function toFeedbackKey(key: string): FeedbackKey {
  const byUser = key[0] === "f" ? key : twinOf(key)
  const bytes = Buffer.from(byUser, "latin1")
  return { user: bytes.readUInt32BE(1), item: bytes.readUInt32BE(5), type: bytes.toString("utf8", 9) }
}

/** The smallest key behind a key. */
export const behind = (key: string) => `${key}\0`

/** All keys that begin with something. */
export function allOf(prefix: string): KeyRange {
  const last = prefix.charCodeAt(prefix.length - 1)
  // Behind a byte of 255 comes a character that no key has.
  return { start: prefix, end: prefix.slice(0, -1) + String.fromCharCode(last + 1) }
}

export function startBehind(range: KeyRange, key: string | undefined): KeyRange {
  return key === undefined || key < range.start ? range : { start: behind(key), end: range.end }
}

/** Keys asked for, by item where only an item is given. */
export function feedbackRange({ user, item, after }: FeedbackRange): KeyRange {
  const last = after && feedbackKey(after)
  if (user === undefined && item !== undefined) return startBehind(allOf(idPrefix("item", item)), last && twinOf(last))
  const prefix = (user === undefined ? "f" : idPrefix("user", user)) + (item === undefined ? "" : uint32(item))
  return startBehind(allOf(prefix), last)
}

/** The key of an item's details, and the item. */
export const detailsKey = (item: number) => `d${uint32(item)}`
export const toItem = (key: string) => Buffer.from(key, "latin1").readUInt32BE(1)

/** What the keys of all notes of a side begin with. */
export const notePrefix = (side: Side) => (side === "user" ? "nu" : "nv")

/** An id can be longer than a key may be. */
export function noteKey(side: Side, id: string): string {
  return noteKeyOf(side, createHash("sha256").update(id, "utf8").digest("hex"))
}

/** The same of the SHA-256 of an id, in hexadecimal. */
export function noteKeyOf(side: Side, hash: string): string {
  return notePrefix(side) + Buffer.from(hash, "hex").toString("latin1", 0, 16)
}

export function hashKey(hash: Uint8Array): string {
  return `k${Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString("latin1")}`
}
