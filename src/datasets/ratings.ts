/** Ratings files → rows, block by block. Every row is checked here, where file and line are known. */

import { DessError, show } from "../errors.ts"
import type { Columns } from "../stream/columns.ts"
import type { RatingScale } from "../stream/interaction.ts"
import type { TextFile } from "./bytes.ts"
import { type ColumnChoice, type ColumnPlaces, type ColumnRole, findColumns } from "./header.ts"
import type { RatingsLayout } from "./layout.ts"
import type { NameTable } from "./names.ts"
import { fieldText, parseNumber, type RecordBlock, readRecords, recordTexts } from "./records.ts"
import { parseTime, toSeconds } from "./time.ts"

/** The outside ids met so far. */
export interface Names {
  users: NameTable
  items: NameTable
}

/** Rows in the order of the file; ids are numbers of the names. Valid until the next block is asked for. */
export class RatingBlock {
  length = 0
  user = new Int32Array(0)
  item = new Int32Array(0)
  /** On the internal scale. */
  rating = new Float32Array(0)
  /** In seconds. */
  timestamp = new Float64Array(0)

  /** Forgets the rows and makes room for `capacity`. */
  reset(capacity: number): void {
    this.length = 0
    if (capacity <= this.user.length) return
    this.user = new Int32Array(capacity)
    this.item = new Int32Array(capacity)
    this.rating = new Float32Array(capacity)
    this.timestamp = new Float64Array(capacity)
  }
}

export interface ReadOptions {
  scale: RatingScale
  names: Names
}

/** The rows of a delimited file. */
export async function* readRatings(file: TextFile, layout: RatingsLayout, options: ReadOptions) {
  const rows = new RatingBlock()
  let from = layout.header ? 1 : 0
  let before = ""
  for await (const block of readRecords(file, layout)) {
    takeRecords(rows, block, { ...options, layout, from, path: file.path })
    const last = block.count > from ? fieldText(block, block.first[block.count - 1] + layout.places.timestamp) : before
    if (!block.ended && layout.places.timestamp === layout.width - 1)
      refuseCut(last, before, { block, path: file.path })
    before = last
    from = 0
    yield rows
  }
}

/** A last line without its end whose timestamp has fewer digits than the one before is taken for a cut one. */
function refuseCut(timestamp: string, before: string, { block, path }: { block: RecordBlock; path: string }): void {
  if (timestamp.length >= before.length || !/^\d+$/.test(timestamp) || !/^\d+$/.test(before)) return
  throw new DessError(
    "INVALID_DATA",
    `timestamp: expected ${before.length} digits as in the line before, got ${show(timestamp)} on a last line without an end (${path}, line ${block.line[0]}); the file seems to be cut: fetch it again, or end or remove the line`,
  )
}

/** The rows of a file of JSON objects, one a line. */
export async function* readJsonRatings(file: TextFile, choice: ColumnChoice, options: ReadOptions) {
  const rows = new RatingBlock()
  let names: Record<ColumnRole, string> | undefined
  for await (const block of readRecords(file, { delimiter: "", quoted: false })) {
    rows.reset(block.count)
    for (let r = 0; r < block.count; r++) {
      const where = () => `${file.path}, line ${block.line[r]}`
      const record = parseObject(fieldText(block, r), where)
      names ??= nameColumns(Object.keys(record), choice, where())
      const { user, item, rating, timestamp } = names
      const row = { user: record[user], item: record[item], rating: record[rating], timestamp: record[timestamp] }
      takeRow(rows, row, { ...options, where })
    }
    yield rows
  }
}

/** Checks one row of loose values and adds it. */
export function takeRow(
  rows: RatingBlock,
  row: Record<ColumnRole, unknown>,
  { scale, names, where }: ReadOptions & { where: () => string },
): void {
  const user = idText(row.user)
  const item = idText(row.item)
  const rating = scaleRating(asNumber(row.rating), scale)
  let timestamp = toSeconds(asNumber(row.timestamp))
  if (!(timestamp >= 0)) timestamp = parseTime(String(row.timestamp))
  if (user === "" || item === "" || !(rating >= 0) || !(timestamp >= 0)) refuseRow(row, scale, where())
  const at = rows.length++
  rows.user[at] = names.users.internText(user)
  rows.item[at] = names.items.internText(item)
  rows.rating[at] = rating
  rows.timestamp[at] = timestamp
}

/** Gathers all rows in memory. */
export async function collectColumns(blocks: AsyncIterable<RatingBlock>, names: Names, path: string): Promise<Columns> {
  let columns = { length: 0, ...columnsOf(0) }
  for await (const rows of blocks) {
    const length = columns.length + rows.length
    if (length > columns.user.length) {
      const larger = columnsOf(Math.max(length, 2 * columns.user.length))
      larger.user.set(columns.user)
      larger.item.set(columns.item)
      larger.rating.set(columns.rating)
      larger.timestamp.set(columns.timestamp)
      columns = { length: columns.length, ...larger }
    }
    columns.user.set(rows.user.subarray(0, rows.length), columns.length)
    columns.item.set(rows.item.subarray(0, rows.length), columns.length)
    columns.rating.set(rows.rating.subarray(0, rows.length), columns.length)
    columns.timestamp.set(rows.timestamp.subarray(0, rows.length), columns.length)
    columns.length = length
  }
  if (columns.length === 0) refuseEmpty(path)
  return {
    user: columns.user.subarray(0, columns.length),
    item: columns.item.subarray(0, columns.length),
    rating: columns.rating.subarray(0, columns.length),
    timestamp: columns.timestamp.subarray(0, columns.length),
    userNames: names.users.names.texts(),
    itemNames: names.items.names.texts(),
  }
}

/** Refuses a file that has a header or layout but no rows. */
export function refuseEmpty(path: string): never {
  throw new DessError("INVALID_DATA", `data file: expected interactions, got none (${path})`)
}

interface TakeOptions extends ReadOptions {
  layout: RatingsLayout
  path: string
  /** The first record to take. */
  from: number
}

function takeRecords(rows: RatingBlock, block: RecordBlock, { layout, scale, names, path, from }: TakeOptions): void {
  const { places, width } = layout
  const { bytes, count, first, start, end, line } = block
  rows.reset(count)
  const { user, item, rating, timestamp } = rows
  const { users, items } = names
  let row = 0
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
    user[row] = users.intern(bytes, start[u], end[u])
    item[row] = items.intern(bytes, start[i], end[i])
    rating[row] = stars
    timestamp[row++] = seconds
  }
  rows.length = row
}

/** The error for an invalid value of a row, with what was expected. */
function refuseRow(row: Record<ColumnRole, unknown>, scale: RatingScale, where: string): never {
  let role: ColumnRole = "timestamp"
  let expected = "seconds or milliseconds since 1970, or a date such as 2013-02-28 14:38:27"
  let hint = ""
  const rating = asNumber(row.rating)
  if (idText(row.user) === "") [role, expected] = ["user", "an id"]
  else if (idText(row.item) === "") [role, expected] = ["item", "an id"]
  else if (Number.isNaN(rating)) [role, expected] = ["rating", "a number"]
  else if (Number.isNaN(scaleRating(rating, scale))) {
    role = "rating"
    expected = `a number from ${scale.min} to ${scale.max}`
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

function parseObject(text: string, where: () => string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // Reported below, with the line.
  }
  throw new DessError("INVALID_DATA", `line: expected a JSON object, got ${show(text)} (${where()})`)
}

function nameColumns(keys: string[], choice: ColumnChoice, where: string): Record<ColumnRole, string> {
  return rowOf(keys, findColumns(keys, choice, where))
}

function columnsOf(capacity: number) {
  return {
    user: new Int32Array(capacity),
    item: new Int32Array(capacity),
    rating: new Float32Array(capacity),
    timestamp: new Float64Array(capacity),
  }
}

/** On the internal scale (as in stream/interaction), or NaN where the rating is not on the declared one. */
function scaleRating(value: number, { min, max }: RatingScale): number {
  return value >= min && value <= max ? (value * 5) / max : Number.NaN
}

function asNumber(value: unknown): number {
  if (typeof value === "number") return value
  if (typeof value === "bigint") return Number(value)
  if (typeof value !== "string") return Number.NaN
  const bytes = Buffer.from(value.trim())
  return parseNumber(bytes, 0, bytes.length)
}

function idText(value: unknown): string {
  return typeof value === "string" ? value.trim() : typeof value === "number" ? String(value) : ""
}
