/** Everything from outside is checked here, before anything is touched. */

import { DessError, show } from "../errors.ts"
import { checkId, checkRating, checkTimestamp, type RatingScale } from "../stream/interaction.ts"
import type { Side } from "../types.ts"
import type { Note } from "./lookup.ts"
import type { Event, GuestOptions, Id, ItemEntry, Trial } from "./types.ts"

/** The most elements of one call. */
export const MOST_AT_ONCE = 10_000
const MOST_TRIALS = 100
const LONGEST_KEY = 256
const LONGEST_TYPE = 128
const LONGEST_COMMENT = 4096
const MOST_CATEGORIES = 64
const LONGEST_CATEGORY = 128
/** How far ahead a clock may be, in seconds. */
const FUTURE = 86_400

export interface CheckedEvent {
  user: string
  item: string
  /** On the internal scale, 0 to 5; NaN for an event without a rating. */
  rating: number
  /** Seconds. */
  timestamp: number
  key: string | undefined
  type: string | undefined
  comment: string
}

/** One or many, as many; refuses more than one call may bring. */
export function toArray<T>(noun: string, value: T | readonly T[]): readonly T[] {
  const all = Array.isArray(value) ? (value as readonly T[]) : [value as T]
  if (all.length <= MOST_AT_ONCE) return all
  throw new DessError("INVALID_ARGUMENT", `${noun}: expected at most ${MOST_AT_ONCE} at once, got ${all.length}`)
}

/** Refuses options that are no object, and unknown names: a mistyped option would be ignored. */
export function checkOptionNames<T extends object>(noun: string, given: T, known: readonly (keyof T & string)[]): void {
  const names: readonly string[] = known
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new DessError("INVALID_ARGUMENT", `${noun}: expected an object, got ${show(given)}`)
  const other = Object.keys(given).find((name) => !names.includes(name))
  if (other !== undefined)
    throw new DessError("INVALID_ARGUMENT", `${noun}: expected ${names.join(", ")}, got ${show(other)}`)
}

/** Whether a list is for somebody without an id; refuses a guest without items. */
export function isGuest(first: Id | GuestOptions): first is GuestOptions {
  if (typeof first !== "object" || first === null) return false
  if (Array.isArray(first.items)) return true
  throw new DessError("INVALID_ARGUMENT", `items: expected an array of a guest's items, got ${show(first.items)}`)
}

export function checkSide(side: unknown): Side {
  if (side === "user" || side === "item") return side
  throw new DessError("INVALID_ARGUMENT", `side: expected "user" or "item", got ${show(side)}`)
}

/** An id as a text that UTF-8 can hold. */
export function checkName(side: "user" | "item", id: Id | unknown, where = ""): string {
  const name = String(checkId(side, id, where))
  // Half a surrogate pair has no UTF-8 form: two such ids would become one.
  if (!/\p{Surrogate}/u.test(name)) return name
  throw new DessError("INVALID_DATA", `${side}: expected a well-formed text, got ${show(name)}`)
}

export function checkEvents(given: Event | readonly Event[], scale: RatingScale, now: number): CheckedEvent[] {
  const all = toArray("events", given)
  const p = { where: "", scale, now }
  const checked = new Array<CheckedEvent>(all.length)
  for (let i = 0; i < all.length; i++)
    try {
      checked[i] = checkEvent(all[i], p)
    } catch (error) {
      // Only a refusal says which one it was.
      if (all.length > 1) checkEvent(all[i], { ...p, where: `event ${i}` })
      throw error
    }
  return checked
}

function checkEvent(event: unknown, p: { where: string; scale: RatingScale; now: number }): CheckedEvent {
  const { where, scale, now } = p
  const place = where === "" ? "" : ` (${where})`
  if (typeof event !== "object" || event === null)
    throw new DessError("INVALID_DATA", `event: expected an object with user and item, got ${show(event)}${place}`)
  const { user, item, rating, timestamp, key, type, comment } = event as Record<keyof Event, unknown>
  const time = timestamp === undefined ? now : checkTimestamp(timestamp, where)
  if (time > now + FUTURE)
    throw new DessError(
      "INVALID_DATA",
      `event timestamp: expected at most a day in the future, got ${show(timestamp)}${place}`,
    )
  if (key !== undefined && !(typeof key === "string" && key.length > 0 && key.length <= LONGEST_KEY)) {
    const got = typeof key === "string" ? `${key.length} characters` : show(key)
    throw new DessError(
      "INVALID_DATA",
      `event key: expected a text of 1 to ${LONGEST_KEY} characters, got ${got}${place}`,
    )
  }
  if (comment !== undefined && !(typeof comment === "string" && comment.length <= LONGEST_COMMENT))
    throw new DessError(
      "INVALID_DATA",
      `event comment: expected a text of at most ${LONGEST_COMMENT} characters, got ${show(comment)}${place}`,
    )
  return {
    user: checkName("user", user, where),
    item: checkName("item", item, where),
    type: type === undefined ? undefined : checkType(type, place),
    comment: comment ?? "",
    rating: rating === undefined ? Number.NaN : checkRating(rating, where, scale),
    timestamp: time,
    key,
  }
}

/** A type of feedback, as a text that UTF-8 can hold. */
export function checkType(type: unknown, place = ""): string {
  if (typeof type === "string" && type.length > 0 && type.length <= LONGEST_TYPE && !/\p{Surrogate}/u.test(type))
    return type
  throw new DessError(
    "INVALID_DATA",
    `event type: expected a well-formed text of 1 to ${LONGEST_TYPE} characters, got ${show(type)}${place}`,
  )
}

/** Hypothetical events of a user, on the internal scale. */
export interface CheckedTrial {
  item: string
  rating: number
}

export function checkTrials(given: readonly Trial[], scale: RatingScale): CheckedTrial[] {
  if (!Array.isArray(given) || given.length > MOST_TRIALS)
    throw new DessError("INVALID_ARGUMENT", `trials: expected an array of at most ${MOST_TRIALS}, got ${show(given)}`)
  return given.map((trial: unknown, i) => {
    const where = `trial ${i}`
    if (typeof trial !== "object" || trial === null)
      throw new DessError("INVALID_DATA", `trial: expected an object with item, got ${show(trial)} (${where})`)
    const { item, rating } = trial as Record<keyof Trial, unknown>
    const value = rating === undefined ? 5 : checkRating(rating, where, scale)
    return { item: checkName("item", item, where), rating: value }
  })
}

export interface CheckedItem {
  item: string
  features: readonly number[] | null | undefined
  categories: readonly string[] | undefined
  hidden: boolean | undefined
}

export function checkItems(
  given: ItemEntry | readonly ItemEntry[],
  columns: readonly string[] | undefined,
): CheckedItem[] {
  return toArray("items", given).map((entry, i) => {
    const place = ` (entry ${i})`
    if (typeof entry !== "object" || entry === null)
      throw new DessError("INVALID_DATA", `item entry: expected an object with item, got ${show(entry)}${place}`)
    const { item, features, categories, hidden } = entry
    if (features !== undefined && features !== null) checkFeatureRow(features, columns, place)
    if (hidden !== undefined && typeof hidden !== "boolean")
      throw new DessError("INVALID_DATA", `item hidden: expected true or false, got ${show(hidden)}${place}`)
    return {
      item: checkName("item", item, `entry ${i}`),
      features: features ?? (features === null ? null : undefined),
      categories: categories === undefined ? undefined : checkCategories(categories, MOST_CATEGORIES),
      hidden,
    }
  })
}

function checkFeatureRow(row: readonly number[], columns: readonly string[] | undefined, place: string): void {
  if (columns === undefined)
    throw new DessError(
      "INVALID_DATA",
      `item features: expected none, the recommender was opened without feature columns${place}`,
    )
  if (!Array.isArray(row) || row.length !== columns.length)
    throw new DessError("INVALID_DATA", `item features: expected ${columns.length} numbers, got ${show(row)}${place}`)
  for (const x of row)
    if (typeof x !== "number" || !(Math.abs(x) <= 1e6))
      throw new DessError("INVALID_DATA", `item features: expected numbers of at most 1e6, got ${show(x)}${place}`)
}

/** Category names, each once. */
export function checkCategories(given: readonly string[], most = 1000): string[] {
  const fine =
    Array.isArray(given) &&
    given.length <= most &&
    given.every((name) => typeof name === "string" && name.length > 0 && name.length <= LONGEST_CATEGORY)
  if (fine) return [...new Set(given)]
  throw new DessError(
    "INVALID_DATA",
    `categories: expected at most ${most} texts of 1 to ${LONGEST_CATEGORY} characters, got ${show(given)}`,
  )
}

/** A count a caller asks for. */
export function checkCount(
  name: string,
  value: number | undefined,
  p: { least: number; most: number; otherwise: number },
): number {
  if (value === undefined) return p.otherwise
  if (Number.isSafeInteger(value) && value >= p.least && value <= p.most) return value
  throw new DessError(
    "INVALID_ARGUMENT",
    `${name}: expected a whole number from ${p.least} to ${p.most}, got ${show(value)}`,
  )
}

const LONGEST_NOTE = 4096

/** Notes with their ids as texts. */
export function checkNotes(
  side: Side,
  given: readonly { id: Id; note: Note | null }[],
): { id: string; note: Note | null }[] {
  return toArray("notes", given).map(({ id, note }) => {
    const length = JSON.stringify(note).length
    if (length <= LONGEST_NOTE) return { id: checkName(side, id), note }
    throw new DessError(
      "INVALID_DATA",
      `labels and comment: expected at most ${LONGEST_NOTE} characters, got ${length}`,
    )
  })
}
