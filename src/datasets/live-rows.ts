/** Records of a table as events or items of the live recommender. Ids and ranges are checked where they are taken. */

import { DessError, show } from "../errors.ts"
import { type ColumnChoice, findEventColumns, findItemColumn, findKindColumns } from "./header.ts"
import { parseTime, toSeconds } from "./time.ts"

export interface EventRow {
  user: string
  item: string
  rating?: number
  timestamp?: number
  key?: string
  type?: string
  weight?: number
}

export interface ItemRow {
  item: string
  title?: string
  categories?: string[]
  properties?: Record<string, string | number | boolean | (string | number)[]>
  expires?: number | string
  hidden?: boolean
  features?: number[]
}

type Row = Record<string, unknown>
type Where = () => string

/** A reader that remembers which columns are which; records of JSON lines may have different ones. */
export function createEventReader(choice: ColumnChoice): (row: Row, where: Where) => EventRow {
  type Found = {
    names: string[]
    places: ReturnType<typeof findEventColumns>
    kinds: ReturnType<typeof findKindColumns>
  }
  const known = new Map<string, Found>()
  return (row, where) => {
    const names = Object.keys(row)
    const shape = names.join("\n")
    let found = known.get(shape)
    if (!found) {
      const at = where()
      found = { names, places: findEventColumns(names, choice, at), kinds: findKindColumns(names, choice, at) }
      known.set(shape, found)
    }
    const { user, item, rating, timestamp } = found.places
    const event: EventRow = { user: readId(row[names[user]]), item: readId(row[names[item]]) }
    const stars = rating === undefined ? undefined : row[names[rating]]
    const time = timestamp === undefined ? undefined : row[names[timestamp]]
    if (stars !== undefined && stars !== null) event.rating = readNumber("rating", stars, where)
    if (time !== undefined && time !== null) event.timestamp = readTime(time, where)
    if (typeof row.key === "string") event.key = row.key
    const { type, weight } = found.kinds
    const kind = type === undefined ? undefined : row[names[type]]
    const worth = weight === undefined ? undefined : row[names[weight]]
    if (kind !== undefined && kind !== null && kind !== "") event.type = String(kind)
    if (worth !== undefined && worth !== null && worth !== "") event.weight = readNumber("weight", worth, where)
    return event
  }
}

/** Categories are an array, or a text with | between them; `genres` of MovieLens are categories too. */
export function createItemReader(choice: ColumnChoice): (row: Row, where: Where) => ItemRow {
  return (row, where) => {
    const names = Object.keys(row)
    const entry: ItemRow = { item: readId(row[names[findItemColumn(names, choice, where())]]) }
    const categories = row.categories ?? row.genres
    if (categories !== undefined && categories !== null)
      entry.categories = readList(categories).filter((name) => name !== "" && name !== "(no genres listed)")
    if (row.features !== undefined && row.features !== null)
      entry.features = readList(row.features).map((value) => readNumber("features", value, where))
    if (typeof row.title === "string" && row.title !== "") entry.title = row.title
    if (row.properties !== undefined && row.properties !== null && row.properties !== "")
      entry.properties = readProperties(row.properties, where)
    if (row.expires !== undefined && row.expires !== null && row.expires !== "")
      entry.expires = Number.isNaN(Number(row.expires)) ? String(row.expires) : Number(row.expires)
    if (row.hidden !== undefined && row.hidden !== null) entry.hidden = readTruth(row.hidden, where)
    return entry
  }
}

function readId(value: unknown): string {
  return value === undefined || value === null ? "" : String(value)
}

function readList(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : value === "" ? [] : String(value).split("|")
}

/** An object, or one as JSON. What is in it is checked where it is taken. */
function readProperties(value: unknown, where: Where): NonNullable<ItemRow["properties"]> {
  let found = value
  try {
    if (typeof value === "string") found = JSON.parse(value)
  } catch {
    // falls through to the refusal
  }
  if (typeof found === "object" && found !== null) return found as NonNullable<ItemRow["properties"]>
  throw new DessError("INVALID_DATA", `properties: expected a JSON object, got ${show(value)} (${where()})`)
}

function readNumber(noun: string, value: unknown, where: Where): number {
  const number = typeof value === "string" && value.trim() === "" ? Number.NaN : Number(value)
  if (Number.isFinite(number)) return number
  throw new DessError("INVALID_DATA", `${noun}: expected a number, got ${show(value)} (${where()})`)
}

function readTime(value: unknown, where: Where): number {
  let seconds = toSeconds(Number(value))
  if (!(seconds >= 0)) seconds = parseTime(String(value))
  if (seconds >= 0) return seconds
  const expected = "seconds or milliseconds since 1970, or a date such as 2013-02-28 14:38:27"
  throw new DessError("INVALID_DATA", `timestamp: expected ${expected}, got ${show(value)} (${where()})`)
}

function readTruth(value: unknown, where: Where): boolean {
  const text = String(value).toLowerCase()
  if (["true", "1"].includes(text)) return true
  if (["false", "0"].includes(text)) return false
  throw new DessError("INVALID_DATA", `hidden: expected true or false, got ${show(value)} (${where()})`)
}
