/** Items as they are put: what may be said of one, and what it is then. */

import { DessError, show } from "../errors.ts"
import { type Catalogue, PLAIN } from "./catalogue.ts"
import { checkCategories, checkName, checkObject, checkOptionNames, isText, isWellFormed, toArray } from "./check.ts"
import type { ItemDetails } from "./lookup.ts"
import type { StoredItem } from "./records.ts"
import type { ItemEntry, Properties, PropertyValue } from "./types.ts"

const MOST_CATEGORIES = 64
const LONGEST_TITLE = 512
const LONGEST_NAME = 64
const MOST_IN_A_LIST = 64
/** Bytes of an item but for its features: title, categories and properties as JSON. */
const MOST_BYTES = 4096
/** The end of the year 9999: what is more are milliseconds, and there are dates up to there. */
const LAST_SECOND = 253_402_300_799.999
/** What a filter says otherwise. */
const RESERVED = ["any", "all", "not", "category"]

/** An item as it is put: what is left out stays as it is, null takes it away. */
export interface CheckedItem {
  item: string
  title: string | null | undefined
  features: readonly number[] | null | undefined
  categories: readonly string[] | undefined
  properties: Record<string, PropertyValue | null> | null | undefined
  /** Seconds. */
  expires: number | null | undefined
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
    checkOptionNames(`item entry ${i}`, entry, ITEM_FIELDS)
    const { item, title, features, categories, properties, expires, hidden } = entry
    if (features !== undefined && features !== null) checkFeatureRow(features, columns, place)
    if (hidden !== undefined && typeof hidden !== "boolean")
      throw new DessError("INVALID_DATA", `item hidden: expected true or false, got ${show(hidden)}${place}`)
    return {
      item: checkName("item", item, `entry ${i}`),
      title: title === undefined || title === null ? title : checkTitle(title, place),
      features: features ?? (features === null ? null : undefined),
      categories: categories === undefined ? undefined : checkCategories(categories, MOST_CATEGORIES),
      properties: properties === undefined || properties === null ? properties : checkProperties(properties, place),
      expires: expires === undefined || expires === null ? expires : checkExpires(expires, place),
      hidden,
    }
  })
}

const ITEM_FIELDS = ["item", "title", "features", "categories", "properties", "expires", "hidden"] as const

function checkTitle(title: unknown, place: string): string {
  if (isText(title, LONGEST_TITLE)) return title
  throw new DessError(
    "INVALID_DATA",
    `item title: expected a well-formed text of 1 to ${LONGEST_TITLE} characters, got ${show(title)}${place}`,
  )
}

/** Seconds or milliseconds since 1970, or a date; as seconds. */
function checkExpires(given: unknown, place: string): number {
  let time = Number.NaN
  if (typeof given === "string") time = Date.parse(given) / 1000
  else if (typeof given === "number") time = given > LAST_SECOND ? given / 1000 : given
  if (time >= 0 && time <= LAST_SECOND) return time
  throw new DessError(
    "INVALID_DATA",
    `item expires: expected seconds or milliseconds since 1970, or a date such as 2030-01-31T12:00Z, got ${show(given)}${place}`,
  )
}

function checkProperties(given: unknown, place: string): Record<string, PropertyValue | null> {
  checkObject(`item properties${place}`, given)
  for (const [name, value] of Object.entries(given as object)) {
    if (!isText(name, LONGEST_NAME) || RESERVED.includes(name))
      throw new DessError(
        "INVALID_DATA",
        `item properties: expected names of 1 to ${LONGEST_NAME} characters other than ${RESERVED.join(", ")}, got ${show(name)}${place}`,
      )
    if (value !== null && !isProperty(value))
      throw new DessError(
        "INVALID_DATA",
        `item property ${name}: expected a text, a finite number, true or false, or at most ${MOST_IN_A_LIST} texts and numbers, got ${show(value)}${place}`,
      )
  }
  return given as Record<string, PropertyValue | null>
}

function isProperty(value: unknown): value is PropertyValue {
  if (Array.isArray(value))
    // Array.from: a hole is no value.
    return value.length <= MOST_IN_A_LIST && Array.from(value).every((one) => typeof one !== "boolean" && isScalar(one))
  return isScalar(value)
}

function isScalar(value: unknown): boolean {
  if (typeof value === "string") return isWellFormed(value)
  return typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value))
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

/** Bytes that are kept of an item with some categories and properties, of a value of a list, and of a number of a vector. */
const USUAL_ITEM = 512
const BYTES_PER_VALUE = 24
const BYTES_PER_FEATURE = 8

/** About what an entry adds to what is kept of items, at most of what is usual; `inMemory`: titles and texts, too. */
export function bytesOfPut(
  { title, properties, features }: CheckedItem,
  { isKnown, inMemory }: { isKnown: boolean; inMemory: boolean },
): number {
  const values = Object.values(properties ?? {}).flat().length
  const own = BYTES_PER_VALUE * values + BYTES_PER_FEATURE * (features?.length ?? 0)
  const texts = inMemory ? Buffer.byteLength(JSON.stringify([title, properties])) : 0
  return Math.max(own, isKnown ? 0 : USUAL_ITEM) + texts
}

/** What an item is once it is put: a merge patch of what it was. Refuses one that is too large then. */
export function mergeItem(before: StoredItem, put: CheckedItem): StoredItem {
  const { categories, hidden, features } = put
  const title = put.title === undefined ? before.title : (put.title ?? undefined)
  const expires = put.expires === undefined ? before.expires : (put.expires ?? undefined)
  const properties = mergeProperties(before.properties, put.properties)
  const item = {
    categories: categories ?? before.categories,
    hidden: hidden ?? before.hidden,
    features: features === undefined ? before.features : features,
    ...(title === undefined ? {} : { title }),
    ...(properties === undefined ? {} : { properties }),
    ...(expires === undefined ? {} : { expires }),
  }
  // What was accepted before there was a limit may stay.
  const stays = put.title === undefined && put.categories === undefined && put.properties === undefined
  const bytes = stays ? 0 : Buffer.byteLength(JSON.stringify({ title, categories: item.categories, properties }))
  if (bytes <= MOST_BYTES) return item
  throw new DessError(
    "INVALID_DATA",
    `item ${show(put.item)}: expected title, categories and properties of at most ${MOST_BYTES} bytes of JSON, got ${bytes}`,
  )
}

/** What items are once they are put, as far as the catalogue knows them. Where one is refused nothing is named yet. */
export function mergeItems(catalogue: Catalogue, entries: readonly CheckedItem[]): Map<string, StoredItem> {
  const changed = new Map<string, StoredItem>()
  for (const entry of entries) {
    const known = catalogue.names.item.find(entry.item)
    const before = changed.get(entry.item) ?? (known === undefined ? PLAIN : catalogue.wholeEntry(known))
    changed.set(entry.item, mergeItem(before, entry))
  }
  return changed
}

function mergeProperties(before: Properties | undefined, put: CheckedItem["properties"]): Properties | undefined {
  if (put === undefined) return before
  const merged = Object.entries({ ...before, ...(put === null ? {} : put) }).filter(([, value]) => value !== null)
  return put === null || merged.length === 0 ? undefined : (Object.fromEntries(merged) as Properties)
}

/** What of an item is kept in the lookup table; null where there is nothing. */
export function detailsOf(item: StoredItem | null): ItemDetails | null {
  if (!item || (item.title === undefined && item.properties === undefined)) return null
  const { title, properties } = item
  return { ...(title === undefined ? {} : { title }), ...(properties === undefined ? {} : { properties }) }
}
