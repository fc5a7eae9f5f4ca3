/** Everything from outside is checked here, before anything is touched. */

import { DessError, show } from "../errors.ts"
import { checkId, checkRating, checkTimestamp, type RatingScale } from "../stream/interaction.ts"
import { effectiveRating } from "../stream/labels.ts"
import type { Side } from "../types.ts"
import { checkWeight, type EventTypes, weighEvent } from "./event-types.ts"
import type { Note } from "./lookup.ts"
import type { Event, GuestItem, GuestOptions, Id, SourcePosition, Trial } from "./types.ts"

/** The most elements of one call. */
export const MOST_AT_ONCE = 10_000
const MOST_TRIALS = 100
/** The rating, on the internal scale, of what has none. */
const LIKED = 5
const LONGEST_KEY = 256
const LONGEST_TYPE = 128
const LONGEST_COMMENT = 4096
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
  /** How many events it counts as; below 0: the item is disliked. */
  weight: number
  /** Whether the item may still be recommended. */
  stays: boolean
  list?: string
  place?: number
}

/** What events are checked against. `now`: seconds. */
export interface EventRules {
  scale: RatingScale
  now: number
  types: EventTypes | undefined
}

const EVENT_FIELDS = [
  "user",
  "item",
  "rating",
  "timestamp",
  "key",
  "type",
  "weight",
  "comment",
  "list",
  "place",
] as const

/** One or many, as many; refuses more than one call may bring. */
export function toArray<T>(noun: string, value: T | readonly T[]): readonly T[] {
  const all = Array.isArray(value) ? (value as readonly T[]) : [value as T]
  if (all.length <= MOST_AT_ONCE) return all
  throw new DessError("INVALID_ARGUMENT", `${noun}: expected at most ${MOST_AT_ONCE} at once, got ${all.length}`)
}

/** Refuses options that are no object, and unknown names: a mistyped option would be ignored. */
export function checkOptionNames<T extends object>(noun: string, given: T, known: readonly (keyof T & string)[]): void {
  const names: readonly string[] = known
  checkObject(noun, given)
  const other = Object.keys(given).find((name) => !names.includes(name))
  if (other !== undefined)
    throw new DessError("INVALID_ARGUMENT", `${noun}: expected ${names.join(", ")}, got ${show(other)}`)
}

/** Refuses what has no fields of its own, such as a Map or a Date: it would say nothing. */
export function checkObject(noun: string, given: unknown): void {
  if (Object.prototype.toString.call(given) !== "[object Object]")
    throw new DessError("INVALID_ARGUMENT", `${noun}: expected an object, got ${show(given)}`)
}

const LONGEST_POSITION = 1_000_000

export function checkSource(source: SourcePosition | undefined): SourcePosition | undefined {
  if (source === undefined) return undefined
  checkOptionNames("source", source, ["name", "position"])
  const { name, position } = source
  if (typeof position !== "string" || position.length > LONGEST_POSITION)
    throw new DessError(
      "INVALID_ARGUMENT",
      `source position: expected a text of at most ${LONGEST_POSITION} characters, got ${show(position)}`,
    )
  if (typeof name !== "string" || name.length === 0 || name.length > 512)
    throw new DessError("INVALID_ARGUMENT", `source name: expected 1 to 512 characters, got ${show(name)}`)
  return { name, position }
}

/** Whether a list is for a guest, who has no id; refuses a guest without items, or with options beside. */
export function isGuest(first: Id | GuestOptions, options: object = {}): first is GuestOptions {
  checkObject("options", options)
  if (typeof first !== "object" || first === null) return false
  if (!Array.isArray(first.items))
    throw new DessError("INVALID_ARGUMENT", `items: expected an array of a guest's items, got ${show(first.items)}`)
  if (Object.keys(options).length === 0) return true
  throw new DessError("INVALID_ARGUMENT", `options: expected beside the guest's items, got ${show(options)} after them`)
}

/** A list that is given: whether it counts, and whose it is. */
export interface GivenList {
  counted?: boolean | undefined
  user?: string | undefined
}

/** Whether a list counts as shown. */
export function isCounted(counted: unknown): boolean {
  if (counted === undefined || typeof counted === "boolean") return counted ?? true
  throw new DessError("INVALID_ARGUMENT", `counted: expected true or false, got ${show(counted)}`)
}

export function checkSide(side: unknown): Side {
  if (side === "user" || side === "item") return side
  throw new DessError("INVALID_ARGUMENT", `side: expected "user" or "item", got ${show(side)}`)
}

/** A guest and who it is; refuses the same id twice. */
export function checkMerge(guest: Id, user: Id): { guest: string; user: string } {
  const names = { guest: checkName("user", guest), user: checkName("user", user) }
  if (names.guest !== names.user) return names
  throw new DessError("INVALID_ARGUMENT", `guest: expected another id than the user's, got ${show(guest)} twice`)
}

/** Half a surrogate pair has no UTF-8 form: two texts with one would become the same. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text)
}

/** A text of at least a character that UTF-8 can hold. */
export function isText(given: unknown, longest: number): given is string {
  return typeof given === "string" && given.length > 0 && given.length <= longest && isWellFormed(given)
}

/** An id as a text that UTF-8 can hold. */
export function checkName(side: "user" | "item", id: Id | unknown, where = ""): string {
  const name = String(checkId(side, id, where))
  if (isWellFormed(name)) return name
  throw new DessError("INVALID_DATA", `${side}: expected a well-formed text, got ${show(name)}`)
}

export function checkEvents(given: Event | readonly Event[], rules: EventRules): CheckedEvent[] {
  const all = toArray("events", given)
  const p = { ...rules, where: "" }
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

function checkEvent(event: unknown, p: EventRules & { where: string }): CheckedEvent {
  const { where, scale, now } = p
  const place = where === "" ? "" : ` (${where})`
  if (typeof event !== "object" || event === null)
    throw new DessError("INVALID_DATA", `event: expected an object with user and item, got ${show(event)}${place}`)
  for (const name in event)
    if (!(EVENT_FIELDS as readonly string[]).includes(name))
      throw new DessError("INVALID_DATA", `event: expected ${EVENT_FIELDS.join(", ")}, got ${show(name)}${place}`)
  const {
    user,
    item,
    rating,
    timestamp,
    key,
    type,
    weight,
    comment,
    list,
    place: at,
  } = event as Record<keyof Event, unknown>
  const time = timestamp === undefined ? now : checkTimestamp(timestamp, where)
  if (time > now + FUTURE)
    throw new DessError(
      "INVALID_DATA",
      `event timestamp: expected at most a day in the future, got ${show(timestamp)}${place}`,
    )
  if (key !== undefined && !isText(key, LONGEST_KEY)) {
    const got = typeof key === "string" && key.length > LONGEST_KEY ? `${key.length} characters` : show(key)
    throw new DessError(
      "INVALID_DATA",
      `event key: expected a well-formed text of 1 to ${LONGEST_KEY} characters, got ${got}${place}`,
    )
  }
  if (comment !== undefined && comment !== "" && !isText(comment, LONGEST_COMMENT))
    throw new DessError(
      "INVALID_DATA",
      `event comment: expected a well-formed text of at most ${LONGEST_COMMENT} characters, got ${show(comment)}${place}`,
    )
  const named = type === undefined ? undefined : checkType(type, place)
  const own = weight === undefined ? undefined : checkWeight("event weight", weight, place)
  return {
    user: checkName("user", user, where),
    item: checkName("item", item, where),
    type: named,
    ...weighEvent(p.types, { type: named, weight: own }, place),
    comment: comment ?? "",
    rating: rating === undefined ? Number.NaN : checkRating(rating, where, scale),
    timestamp: time,
    key,
    ...(list === undefined ? undefined : { list: checkListId(list, place) }),
    ...(at === undefined ? undefined : { place: checkPlace(at, list, place) }),
  }
}

/** A list's id as an event names it. */
function checkListId(list: unknown, place = ""): string {
  if (typeof list === "string" && /^[0-9a-f]{6}-[a-z]+-\d*-\d+-[0-9a-f]{16}$/.test(list)) return list
  throw new DessError("INVALID_DATA", `event list: expected the id of a list, got ${show(list)}${place}`)
}

function checkPlace(at: unknown, list: unknown, place: string): number {
  if (list !== undefined && typeof at === "number" && Number.isInteger(at) && at >= 1 && at <= MOST_AT_ONCE) return at
  const expected = list === undefined ? "with a list only" : "a whole number from 1 on"
  throw new DessError("INVALID_DATA", `event place: expected ${expected}, got ${show(at)}${place}`)
}

/** A type of feedback, as a text that UTF-8 can hold. */
export function checkType(type: unknown, place = ""): string {
  if (isText(type, LONGEST_TYPE)) return type
  throw new DessError(
    "INVALID_DATA",
    `event type: expected a well-formed text of 1 to ${LONGEST_TYPE} characters, got ${show(type)}${place}`,
  )
}

/** Hypothetical events of a user, on the internal scale. */
export interface CheckedTrial {
  item: string
  rating: number
  /** Whether the item may still be recommended. */
  stays?: boolean
}

/** What a guest did: items alone, or with a type or weight. */
export function checkGuestItems(given: GuestOptions["items"], types: EventTypes | undefined): CheckedTrial[] {
  return toArray("items", given).map((one: unknown, i) => {
    const place = ` (item ${i})`
    if (typeof one !== "object" || one === null) return { item: checkName("item", one), rating: LIKED, stays: false }
    checkOptionNames("guest item", one as GuestItem, ["item", "type", "weight"])
    const { item, type, weight } = one as GuestItem
    const weighed = weighEvent(
      types,
      {
        type: type === undefined ? undefined : checkType(type, place),
        weight: weight === undefined ? undefined : checkWeight("item weight", weight, place),
      },
      place,
    )
    const rating = effectiveRating(Number.NaN, weighed.weight)
    return { item: checkName("item", item), rating, stays: weighed.stays }
  })
}

export function checkTrials(given: readonly Trial[], scale: RatingScale): CheckedTrial[] {
  if (!Array.isArray(given) || given.length > MOST_TRIALS)
    throw new DessError("INVALID_ARGUMENT", `trials: expected an array of at most ${MOST_TRIALS}, got ${show(given)}`)
  return given.map((trial: unknown, i) => {
    const where = `trial ${i}`
    if (typeof trial !== "object" || trial === null)
      throw new DessError("INVALID_DATA", `trial: expected an object with item, got ${show(trial)} (${where})`)
    checkOptionNames(where, trial as Trial, ["item", "rating"])
    const { item, rating } = trial as Record<keyof Trial, unknown>
    const value = rating === undefined ? 5 : checkRating(rating, where, scale)
    return { item: checkName("item", item, where), rating: value }
  })
}

/** Category names, each once. */
export function checkCategories(given: readonly string[], most = 1000): string[] {
  const fine =
    Array.isArray(given) && given.length <= most && Array.from(given).every((name) => isText(name, LONGEST_CATEGORY))
  if (fine) return [...new Set(given)]
  throw new DessError(
    "INVALID_DATA",
    `categories: expected at most ${most} well-formed texts of 1 to ${LONGEST_CATEGORY} characters, got ${show(given)}`,
  )
}

export function checkTruth(name: string, value: unknown): boolean | undefined {
  if (value === undefined || typeof value === "boolean") return value
  throw new DessError("INVALID_ARGUMENT", `${name}: expected true or false, got ${show(value)}`)
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
function jsonLength(note: Note | null): number {
  try {
    return JSON.stringify(note).length
  } catch {
    throw new DessError("INVALID_DATA", `labels and comment: expected what JSON can hold, got ${show(note)}`)
  }
}

export function checkNotes(
  side: Side,
  given: readonly { id: Id; note: Note | null }[],
): { id: string; note: Note | null }[] {
  return toArray("notes", given).map((one) => {
    checkOptionNames("note", one, ["id", "note"])
    const { id, note } = one
    const length = jsonLength(note)
    if (length <= LONGEST_NOTE) return { id: checkName(side, id), note }
    throw new DessError(
      "INVALID_DATA",
      `labels and comment: expected at most ${LONGEST_NOTE} characters, got ${length}`,
    )
  })
}
