/** Ratings files → columns. Every row is checked here, where file and line are known. */

import { DessError, show } from "../errors.ts"
import type { Columns } from "../stream/columns.ts"
import type { RatingScale } from "../stream/interaction.ts"
import { type ColumnChoice, type ColumnPlaces, type ColumnRole, findColumns } from "./header.ts"
import type { RatingsLayout } from "./layout.ts"
import { ByteNames } from "./names.ts"
import { fieldText, parseNumber, type RecordBlock, readRecords, recordTexts } from "./records.ts"
import { parseTime, toSeconds } from "./time.ts"

/** Reads a delimited ratings file. */
export async function readRatings(path: string, layout: RatingsLayout, scale: RatingScale): Promise<Columns> {
  const columns = new ColumnBuilder()
  let from = layout.header ? 1 : 0
  for await (const block of readRecords(path, layout)) {
    takeBlock(columns, block, { path, layout, scale, from })
    from = 0
  }
  return columns.finish(path)
}

interface TakeOptions {
  path: string
  layout: RatingsLayout
  scale: RatingScale
  /** The first record to take. */
  from: number
}

function takeBlock(columns: ColumnBuilder, block: RecordBlock, { path, layout, scale, from }: TakeOptions): void {
  const { places, width } = layout
  const { bytes, count, first, start, end, line } = block
  columns.reserve(count)
  const { users, items, user, item, rating, timestamp } = columns
  for (let r = from; r < count; r++) {
    const f = first[r]
    if (first[r + 1] - f !== width) refuseWidth(recordTexts(block, r), width, `${path}, line ${line[r]}`)
    const u = f + places.user
    const i = f + places.item
    const x = f + places.rating
    const t = f + places.timestamp
    const stars = scaleRating(parseNumber(bytes, start[x], end[x]), scale)
    let seconds = toSeconds(parseNumber(bytes, start[t], end[t]))
    if (!(seconds >= 0)) seconds = parseTime(fieldText(block, t))
    if (start[u] === end[u] || start[i] === end[i] || !(stars >= 0) || !(seconds >= 0)) {
      refuseRow(rowOf(recordTexts(block, r), places), scale, `${path}, line ${line[r]}`)
    }
    const row = columns.length++
    user[row] = users.intern(bytes, start[u], end[u])
    item[row] = items.intern(bytes, start[i], end[i])
    rating[row] = stars
    timestamp[row] = seconds
  }
}

/** Reads a file of JSON objects, one a line. */
export async function readJsonRatings(path: string, choice: ColumnChoice, scale: RatingScale): Promise<Columns> {
  const columns = new ColumnBuilder()
  let names: Record<ColumnRole, string> | undefined
  for await (const block of readRecords(path, { delimiter: "", quoted: false })) {
    columns.reserve(block.count)
    for (let r = 0; r < block.count; r++) {
      const where = `${path}, line ${block.line[r]}`
      const record = parseObject(fieldText(block, r), where)
      names ??= nameColumns(Object.keys(record), choice, where)
      const row = {
        user: record[names.user],
        item: record[names.item],
        rating: record[names.rating],
        timestamp: record[names.timestamp],
      }
      const user = idBytes(row.user)
      const item = idBytes(row.item)
      const rating = scaleRating(asNumber(row.rating), scale)
      let timestamp = toSeconds(asNumber(row.timestamp))
      if (!(timestamp >= 0)) timestamp = parseTime(String(row.timestamp))
      if (user.length === 0 || item.length === 0 || Number.isNaN(rating) || !(timestamp >= 0)) {
        refuseRow(row, scale, where)
      }
      const at = columns.length++
      columns.user[at] = columns.users.intern(user, 0, user.length)
      columns.item[at] = columns.items.intern(item, 0, item.length)
      columns.rating[at] = rating
      columns.timestamp[at] = timestamp
    }
  }
  return columns.finish(path)
}

/** Columns that grow while a file is read. */
class ColumnBuilder {
  length = 0
  user = new Int32Array(0)
  item = new Int32Array(0)
  rating = new Float32Array(0)
  timestamp = new Float64Array(0)
  readonly users = new ByteNames()
  readonly items = new ByteNames()

  /** Makes room for `more` rows. */
  reserve(more: number): void {
    if (this.length + more <= this.timestamp.length) return
    const capacity = Math.max(this.length + more, 2 * this.timestamp.length)
    const { user, item, rating, timestamp } = this
    this.user = new Int32Array(capacity)
    this.user.set(user)
    this.item = new Int32Array(capacity)
    this.item.set(item)
    this.rating = new Float32Array(capacity)
    this.rating.set(rating)
    this.timestamp = new Float64Array(capacity)
    this.timestamp.set(timestamp)
  }

  finish(path: string): Columns {
    if (this.length === 0) {
      throw new DessError("INVALID_DATA", `data file: expected interactions, got none (${path})`)
    }
    return {
      user: this.user.subarray(0, this.length),
      item: this.item.subarray(0, this.length),
      rating: this.rating.subarray(0, this.length),
      timestamp: this.timestamp.subarray(0, this.length),
      userNames: this.users.texts(),
      itemNames: this.items.texts(),
    }
  }
}

/** Says which value of a row cannot be, and what it should have been. */
export function refuseRow(row: Record<ColumnRole, unknown>, scale: RatingScale, where: string): never {
  let role: ColumnRole = "timestamp"
  let expected = "seconds or milliseconds since 1970, or a date such as 2013-02-28 14:38:27"
  let hint = ""
  const rating = asNumber(row.rating)
  if (idBytes(row.user).length === 0) [role, expected] = ["user", "an id"]
  else if (idBytes(row.item).length === 0) [role, expected] = ["item", "an id"]
  else if (Number.isNaN(rating)) [role, expected] = ["rating", "a number"]
  else if (Number.isNaN(scaleRating(rating, scale))) {
    ;[role, expected] = ["rating", `a number from ${scale.min} to ${scale.max}`]
    hint = "; if the file is on another scale, declare it, for instance --rating-scale 0-10"
  }
  throw new DessError("INVALID_DATA", `${role}: expected ${expected}, got ${show(row[role])} (${where})${hint}`)
}

function refuseWidth(texts: string[], width: number, where: string): never {
  const got = `${texts.length}: ${show(texts.join(" "))}`
  throw new DessError("INVALID_DATA", `line: expected ${width} fields, got ${got} (${where})`)
}

function rowOf(texts: string[], places: ColumnPlaces): Record<ColumnRole, string> {
  const { user, item, rating, timestamp } = places
  return { user: texts[user], item: texts[item], rating: texts[rating], timestamp: texts[timestamp] }
}

function parseObject(text: string, where: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // Said below, with the line.
  }
  throw new DessError("INVALID_DATA", `line: expected a JSON object, got ${show(text)} (${where})`)
}

function nameColumns(keys: string[], choice: ColumnChoice, where: string): Record<ColumnRole, string> {
  return rowOf(keys, findColumns(keys, choice, where))
}

function asNumber(value: unknown): number {
  if (typeof value === "number") return value
  if (typeof value !== "string") return Number.NaN
  const bytes = Buffer.from(value.trim())
  return parseNumber(bytes, 0, bytes.length)
}

function idBytes(value: unknown): Buffer {
  return Buffer.from(typeof value === "string" || typeof value === "number" ? String(value) : "")
}

/** On the house's scale (as stream/interaction does it), or NaN where the rating is not on the declared one. */
function scaleRating(value: number, { min, max }: RatingScale): number {
  return value >= min && value <= max ? (value * 5) / max : Number.NaN
}
