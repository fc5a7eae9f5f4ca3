/** Ratings files → rows, block by block. Every row is checked here, where file and line are known. */

import { DessError, show } from "../errors.ts"
import type { Columns } from "../stream/columns.ts"
import type { RatingScale } from "../stream/interaction.ts"
import type { TextFile } from "./bytes.ts"
import { type ColumnChoice, type ColumnPlaces, type ColumnRole, type Reading, readHeader } from "./header.ts"
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
  /** Kinds of events that count; without it all do. */
  types?: ReadonlySet<string>
  tally: Tally
}

/** What reading has met so far. */
export interface Tally {
  /** Rows taken. */
  rows: number
  /** Rows of each kind, taken or not. */
  types: Map<string, number>
  /** Rows left out for their signal. */
  unsignalled: number
}

export const newTally = (): Tally => ({ rows: 0, types: new Map(), unsignalled: 0 })

/** What a row without a rating counts as. */
const POSITIVE = 5

/** The rows of a delimited file. */
export async function* readRatings(file: TextFile, layout: RatingsLayout, options: ReadOptions) {
  const rows = new RatingBlock()
  let from = layout.header ? 1 : 0
  let before = ""
  for await (const block of readRecords(file, layout)) {
    takeRecords(rows, block, { ...options, layout, from, path: file.path })
    const timed = layout.places.timestamp === layout.width - 1
    const last =
      timed && block.count > from ? fieldText(block, block.first[block.count - 1] + layout.places.timestamp) : before
    if (!block.ended && timed) refuseCut(last, before, { block, path: file.path })
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

/** Which keys of a file of JSON objects are what, by its first line. */
export async function readJsonHeader(file: TextFile, p: { choice: ColumnChoice; implicit: boolean }): Promise<Reading> {
  for await (const block of readRecords(file, { delimiter: "", quoted: false })) {
    if (block.count === 0) continue
    const where = `${file.path}, line ${block.line[0]}`
    const keys = Object.keys(parseObject(fieldText(block, 0), () => where))
    return readHeader(keys, { ...p, where }).reading
  }
  return refuseEmpty(file.path)
}

/** The rows of a file of JSON objects, one a line. */
export async function* readJsonRatings(
  file: TextFile,
  reading: Reading,
  options: ReadOptions,
): AsyncGenerator<RatingBlock> {
  const rows = new RatingBlock()
  for await (const block of readRecords(file, { delimiter: "", quoted: false })) {
    rows.reset(block.count)
    for (let r = 0; r < block.count; r++) {
      const where = () => `${file.path}, line ${block.line[r]}`
      const record = parseObject(fieldText(block, r), where)
      const row = Object.fromEntries(Object.entries(reading.taken).map(([role, name]) => [role, record[name]]))
      takeRow(rows, row, { ...options, reading, where })
    }
    yield rows
  }
}

/** Checks one row of loose values and adds it, if it counts. */
export function takeRow(
  rows: RatingBlock,
  row: LooseRow,
  { scale, names, types, tally, reading, where }: ReadOptions & { reading: Reading; where: () => string },
): void {
  if (reading.taken.type !== undefined && !countType(String(row.type ?? ""), types, tally)) return
  if (reading.leastSignal !== undefined && !(asNumber(row.signal) >= reading.leastSignal)) {
    tally.unsignalled++
    return
  }
  const user = idText(row.user)
  const item = idText(row.item)
  const rating = reading.implicit ? POSITIVE : scaleRating(asNumber(row.rating), scale)
  let timestamp = reading.untimed ? tally.rows : toSeconds(asNumber(row.timestamp))
  if (!(timestamp >= 0)) timestamp = parseTime(String(row.timestamp))
  if (user === "" || item === "" || !(rating >= 0) || !(timestamp >= 0)) refuseRow(row, { scale, reading }, where())
  const at = rows.length++
  rows.user[at] = names.users.internText(user)
  rows.item[at] = names.items.internText(item)
  rows.rating[at] = rating
  rows.timestamp[at] = timestamp
  tally.rows++
}

type LooseRow = Partial<Record<keyof ColumnPlaces, unknown>>

/** Counts an event of a kind; whether it is one of those asked for. */
function countType(type: string, types: ReadonlySet<string> | undefined, tally: Tally): boolean {
  tally.types.set(type, (tally.types.get(type) ?? 0) + 1)
  return types?.has(type) ?? true
}

/** A kind that no row has is a typing error. */
export function refuseUnknownTypes(types: readonly string[] | undefined, tally: Tally, { taken }: Reading): void {
  if (types === undefined) return
  if (taken.type === undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      "types: expected a column that says what kind of event a row is, got none; name it with --columns type=<name>",
    )
  const unknown = types.find((type) => !tally.types.has(type))
  if (unknown !== undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      `types: expected some of ${[...tally.types.keys()].map((type) => show(type)).join(", ")}, got ${show(unknown)}`,
    )
}

/** Gathers all rows in memory. */
export async function collectColumns(blocks: AsyncIterable<RatingBlock>, names: Names): Promise<Columns> {
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

function takeRecords(rows: RatingBlock, block: RecordBlock, options: TakeOptions): void {
  const { layout, scale, names, path, from, types, tally } = options
  const { places, width, reading } = layout
  const { implicit, untimed, leastSignal = 0 } = reading
  const { bytes, count, first, start, end, line } = block
  rows.reset(count)
  const { user, item, rating, timestamp } = rows
  const { users, items } = names
  let row = 0
  for (let r = from; r < count; r++) {
    const f = first[r]
    if (first[r + 1] - f !== width) refuseWidth(recordTexts(block, r), width, `${path}, line ${line[r]}`)
    if (places.type >= 0 && !countType(fieldText(block, f + places.type), types, tally)) continue
    const s = f + places.signal
    if (places.signal >= 0 && !(parseNumber(bytes, start[s], end[s]) >= leastSignal)) {
      tally.unsignalled++
      continue
    }
    const u = f + places.user
    const i = f + places.item
    const x = f + places.rating
    const t = f + places.timestamp
    const stars = implicit ? POSITIVE : scaleRating(parseNumber(bytes, start[x], end[x]), scale)
    let seconds = untimed ? tally.rows : toSeconds(parseNumber(bytes, start[t], end[t]))
    if (!(seconds >= 0)) seconds = parseTime(fieldText(block, t))
    if (start[u] === end[u] || start[i] === end[i] || !(stars >= 0) || !(seconds >= 0)) {
      const row = rowOf(recordTexts(block, r), places)
      refuseRow(row, { scale, reading }, `${path}, line ${line[r]}`)
    }
    user[row] = users.intern(bytes, start[u], end[u])
    item[row] = items.intern(bytes, start[i], end[i])
    rating[row] = stars
    timestamp[row++] = seconds
    tally.rows++
  }
  rows.length = row
}

/** The error for an invalid value of a row, with what was expected. */
function refuseRow(row: LooseRow, p: { scale: RatingScale; reading: Reading }, where: string): never {
  const { scale, reading } = p
  let role: ColumnRole = "timestamp"
  let expected = "seconds or milliseconds since 1970, or a date such as 2013-02-28 14:38:27"
  let hint = ""
  const rating = asNumber(row.rating)
  if (idText(row.user) === "") [role, expected] = ["user", "an id"]
  else if (idText(row.item) === "") [role, expected] = ["item", "an id"]
  else if (!reading.implicit && Number.isNaN(rating)) [role, expected] = ["rating", "a number"]
  else if (!reading.implicit && Number.isNaN(scaleRating(rating, scale))) {
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

function rowOf(texts: string[], { user, item, rating, timestamp }: ColumnPlaces): LooseRow {
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
