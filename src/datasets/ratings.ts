/** Files of events → rows, block by block. Every row is checked here, where file and line are known. */

import { DessError, show } from "../errors.ts"
import type { Columns } from "../stream/columns.ts"
import type { RatingScale } from "../stream/interaction.ts"
import type { TextFile } from "./bytes.ts"
import { type ColumnPlaces, type ColumnRole, type Reading, readHeader } from "./header.ts"
import { type FileChoice, type RatingsLayout, SAMPLE } from "./layout.ts"
import type { NameTable } from "./names.ts"
import { fieldText, parseNumber, parseObject, type RecordBlock, readRecords, recordTexts } from "./records.ts"
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
  /** On the internal scale; of live events on their own, and infinite where there is none. */
  rating = new Float64Array(0)
  /** In seconds; of live events infinite where there is none. */
  timestamp = new Float64Array(0)
  /** Where it stands in the file, from 1. */
  line = new Int32Array(0)
  /** Of live events only. */
  readonly extras: Extras[] = []
  readonly #file: string

  /** `file`: "ratings.csv, line", for messages. */
  constructor(file: string) {
    this.#file = file
  }

  /** Forgets the rows and makes room for `capacity`. */
  reset(capacity: number): void {
    this.length = 0
    this.extras.length = 0
    if (capacity <= this.user.length) return
    this.user = new Int32Array(capacity)
    this.item = new Int32Array(capacity)
    this.rating = new Float64Array(capacity)
    this.timestamp = new Float64Array(capacity)
    this.line = new Int32Array(capacity)
  }

  /** "ratings.csv, line 17" */
  where(row: number): string {
    return `${this.#file} ${this.line[row]}`
  }
}

/** What a live event may have beside its columns. */
export interface Extras {
  type?: string
  weight?: number
  key?: string
}

export interface ReadOptions {
  scale: RatingScale
  names: Names
  /** Kinds of events that count; without it all do. */
  types?: ReadonlySet<string>
  tally: Tally
  /** Events of a live recommender: ratings as they are, and rows without rating or time. */
  live?: boolean
  /** Told of a row that is not valid, which is then passed over; without it the first one is thrown. */
  onBad?: ((error: DessError) => void) | undefined
  /** Told what share of the bytes, or of the rows of Parquet, was read. */
  onShare?: ((share: number) => void) | undefined
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
/** The rating or time that a live event does not have; passes for one where rows are checked. */
export const NONE = Number.POSITIVE_INFINITY

/** The rows of a delimited file. */
export async function* readRatings(file: TextFile, layout: RatingsLayout, options: ReadOptions) {
  const rows = new RatingBlock(`${file.path}, line`)
  let from = layout.header ? 1 : 0
  let before = ""
  for await (const block of readRecords(file, layout)) {
    takeRecords(rows, block, { ...options, layout, from })
    const timed = layout.places.timestamp === layout.width - 1
    const last =
      timed && block.count > from ? fieldText(block, block.first[block.count - 1] + layout.places.timestamp) : before
    if (!block.ended && timed) refuseCut(rows, [last, before], options)
    before = last
    from = 0
    yield rows
  }
}

/** A last line without its end whose timestamp has fewer digits than the one before is taken for a cut one. */
function refuseCut(rows: RatingBlock, [last, before]: [string, string], p: ReadOptions): void {
  if (rows.length === 0 || last.length >= before.length || !/^\d+$/.test(last) || !/^\d+$/.test(before)) return
  const where = rows.where(--rows.length)
  p.tally.rows--
  refuse(
    `timestamp: expected ${before.length} digits as in the line before, got ${show(last)} on a last line without an end (${where}); the file seems to be cut: fetch it again, or end or remove the line`,
    p.onBad,
  )
}

/** Names of the keys of JSON objects; one that is met later is added. */
export class JsonHeader {
  readonly #file: TextFile
  readonly #choice: FileChoice
  readonly #keys = new Set<string>()
  /** Which keys are taken for what, as far as they are known. */
  reading: Reading = { taken: {}, ignored: [], implicit: false, untimed: false }
  roles: [keyof ColumnPlaces, string][] = []

  constructor(file: TextFile, choice: FileChoice) {
    this.#file = file
    this.#choice = choice
  }

  /** By the first lines of the file. */
  async detect(): Promise<this> {
    for await (const block of readRecords(this.#file, { delimiter: "", quoted: false })) {
      const records = Array.from({ length: Math.min(block.count, SAMPLE) }, (_, r) => parseObject(fieldText(block, r)))
      // Lines that are no objects are refused where rows are read.
      for (const record of records) for (const key of Object.keys(record ?? {})) this.#keys.add(key)
      if (this.#keys.size > 0) this.#find(`${this.#file.path}, line ${block.line[0]}`)
      else refuse(objectMessage(fieldText(block, 0), `${this.#file.path}, line ${block.line[0]}`), undefined)
      return this
    }
    return refuseEmpty(this.#file.path)
  }

  /** Looks at a record for keys that were not met before. */
  note(record: Record<string, unknown>, where: string): void {
    let isNew = false
    for (const key of Object.keys(record))
      if (!this.#keys.has(key)) {
        this.#keys.add(key)
        isNew = true
      }
    if (isNew) this.#find(where)
  }

  #find(where: string): void {
    this.reading = readHeader([...this.#keys], { ...this.#choice, where }).reading
    this.roles = Object.entries(this.reading.taken) as [keyof ColumnPlaces, string][]
  }
}

/** The rows of a file of JSON objects, one a line. */
export async function* readJsonRatings(
  file: TextFile,
  header: JsonHeader,
  options: ReadOptions,
): AsyncGenerator<RatingBlock> {
  const rows = new RatingBlock(`${file.path}, line`)
  // Ratings and times are there from the beginning or not at all, where the rows of an experiment are alike.
  const { implicit, untimed } = header.reading
  for await (const block of readRecords(file, { delimiter: "", quoted: false })) {
    rows.reset(block.count)
    for (let r = 0; r < block.count; r++) {
      const line = block.line[r]
      const where = `${file.path}, line ${line}`
      const text = fieldText(block, r)
      const record = parseObject(text)
      if (record === undefined) {
        refuse(objectMessage(text, where), options.onBad)
        continue
      }
      header.note(record, where)
      const row = Object.fromEntries(header.roles.map(([role, name]) => [role, record[name]]))
      const reading = options.live ? header.reading : { ...header.reading, implicit, untimed }
      takeRow(rows, row, { ...options, reading, line })
    }
    yield rows
  }
}

/** Checks one row of loose values and adds it, if it counts. */
export function takeRow(
  rows: RatingBlock,
  row: LooseRow,
  { reading, line, ...options }: ReadOptions & { reading: Reading; line: number },
): void {
  const { names, types, tally, live = false, onBad } = options
  if (reading.taken.type !== undefined && !countType(textOf(row.type), types, tally)) return
  if (!hasSignal(row, reading)) {
    tally.unsignalled++
    return
  }
  const at = rows.length
  rows.line[at] = line
  let checked: CheckedRow
  try {
    checked = checkRow(row, { ...options, reading, where: () => rows.where(at) })
  } catch (error) {
    if (!onBad || !(error instanceof DessError)) throw error
    onBad(error)
    return
  }
  const { user, item, rating, timestamp, extras } = checked
  rows.user[at] = names.users.internText(user)
  rows.item[at] = names.items.internText(item)
  rows.rating[at] = rating === NONE && !live ? POSITIVE : rating
  rows.timestamp[at] = timestamp === NONE && !live ? tally.rows : timestamp
  if (live) rows.extras[at] = extras
  rows.length++
  tally.rows++
}

/** What a valid row of loose values says; infinite where there is no rating or time. */
export interface CheckedRow {
  user: string
  item: string
  rating: number
  timestamp: number
  extras: Extras
}

type RowRules = Pick<ReadOptions, "scale" | "live"> & { reading: Reading }

/** Whether a row counts, where a column says so. */
export function hasSignal(row: LooseRow, { leastSignal }: Reading): boolean {
  return leastSignal === undefined || asNumber(row.signal) >= leastSignal
}

/** Checks one row of loose values. */
export function checkRow(row: LooseRow, { where, ...rules }: RowRules & { where: () => string }): CheckedRow {
  const { scale, reading, live = false } = rules
  const user = idText(row.user)
  const item = idText(row.item)
  const isRated = !reading.implicit && !(live && isMissing(row.rating))
  const isTimed = !reading.untimed && !(live && isMissing(row.timestamp))
  const rating = isRated ? scaleRating(asNumber(row.rating), scale, live) : NONE
  let timestamp = isTimed ? toSeconds(asNumber(row.timestamp)) : NONE
  if (!(timestamp >= 0)) timestamp = parseTime(String(row.timestamp))
  if (user === "" || item === "" || !(rating >= 0) || !(timestamp >= 0))
    throw new DessError("INVALID_DATA", rowMessage(row, rules, where()))
  const weight = isMissing(row.weight) ? undefined : asNumber(row.weight)
  if (Number.isNaN(weight))
    throw new DessError("INVALID_DATA", `weight: expected a number, got ${show(row.weight)} (${where()})`)
  return { user, item, rating, timestamp, extras: extrasOf(textOf(row.type), weight, textOf(row.key)) }
}

function extrasOf(type: string, weight: number | undefined, key: string): Extras {
  return {
    ...(type === "" ? {} : { type }),
    ...(weight === undefined ? {} : { weight }),
    ...(key === "" ? {} : { key }),
  }
}

const isMissing = (value: unknown) => value === undefined || value === null || value === ""

const textOf = (value: unknown) => (isMissing(value) ? "" : String(value))

/** Throws, or says so and goes on. */
function refuse(message: string, onBad: ReadOptions["onBad"]): void {
  const error = new DessError("INVALID_DATA", message)
  if (!onBad) throw error
  onBad(error)
}

export type LooseRow = Partial<Record<keyof ColumnPlaces, unknown>>

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
  /** The first record to take. */
  from: number
}

function takeRecords(rows: RatingBlock, block: RecordBlock, options: TakeOptions): void {
  const { layout, scale, names, from, types, tally, live = false, onBad } = options
  const { places, width, reading } = layout
  const { implicit, untimed, leastSignal = 0 } = reading
  const { bytes, count, first, start, end } = block
  rows.reset(count)
  const { user, item, rating, timestamp, line } = rows
  const { users, items } = names
  let row = 0
  for (let r = from; r < count; r++) {
    const f = first[r]
    line[row] = block.line[r]
    if (first[r + 1] - f !== width) {
      refuse(widthMessage(recordTexts(block, r), width, rows.where(row)), onBad)
      continue
    }
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
    const isRated = !implicit && !(live && start[x] === end[x])
    const isTimed = !untimed && !(live && start[t] === end[t])
    const stars = isRated ? scaleRating(parseNumber(bytes, start[x], end[x]), scale, live) : live ? NONE : POSITIVE
    let seconds = isTimed ? toSeconds(parseNumber(bytes, start[t], end[t])) : live ? NONE : tally.rows
    if (!(seconds >= 0)) seconds = parseTime(fieldText(block, t))
    if (start[u] === end[u] || start[i] === end[i] || !(stars >= 0) || !(seconds >= 0)) {
      refuse(rowMessage(rowOf(recordTexts(block, r), places), { ...options, reading }, rows.where(row)), onBad)
      continue
    }
    if (live && !takeExtras(rows, block, { places, first: f, row, onBad })) continue
    user[row] = users.intern(bytes, start[u], end[u])
    item[row] = items.intern(bytes, start[i], end[i])
    rating[row] = stars
    timestamp[row++] = seconds
    tally.rows++
  }
  rows.length = row
}

/** Type, weight and key of a live event; says whether they are valid. */
function takeExtras(
  rows: RatingBlock,
  block: RecordBlock,
  { places, first, row, onBad }: Pick<ReadOptions, "onBad"> & { places: ColumnPlaces; first: number; row: number },
): boolean {
  const textAt = (place: number) => (place < 0 ? "" : fieldText(block, first + place))
  const text = textAt(places.weight)
  const weight = text === "" ? undefined : asNumber(text)
  if (Number.isNaN(weight)) {
    refuse(`weight: expected a number, got ${show(text)} (${rows.where(row)})`, onBad)
    return false
  }
  rows.extras[row] = extrasOf(textAt(places.type), weight, textAt(places.key))
  return true
}

/** What is wrong with a row that has an invalid value, with what was expected. */
function rowMessage(row: LooseRow, { scale, reading, live = false }: RowRules, where: string): string {
  const isRated = !reading.implicit && !(live && isMissing(row.rating))
  let role: ColumnRole = "timestamp"
  let expected = "seconds or milliseconds since 1970, or a date such as 2013-02-28 14:38:27"
  let hint = ""
  const rating = asNumber(row.rating)
  if (idText(row.user) === "") [role, expected] = ["user", "an id"]
  else if (idText(row.item) === "") [role, expected] = ["item", "an id"]
  else if (isRated && Number.isNaN(rating)) [role, expected] = ["rating", "a number"]
  else if (isRated && Number.isNaN(scaleRating(rating, scale, live))) {
    role = "rating"
    expected = `a number from ${scale.min} to ${scale.max}`
    hint = "; if the file is on another scale, declare it, for instance --rating-scale 0-10"
  }
  return `${role}: expected ${expected}, got ${show(row[role])} (${where})${hint}`
}

function widthMessage(texts: string[], width: number, where: string): string {
  return `line: expected ${width} fields, got ${texts.length}: ${show(texts.join(" "))} (${where})`
}

function rowOf(texts: string[], { user, item, rating, timestamp }: ColumnPlaces): LooseRow {
  return { user: texts[user], item: texts[item], rating: texts[rating], timestamp: texts[timestamp] }
}

const objectMessage = (text: string, where: string) => `line: expected a JSON object, got ${show(text)} (${where})`

function columnsOf(capacity: number) {
  return {
    user: new Int32Array(capacity),
    item: new Int32Array(capacity),
    rating: new Float32Array(capacity),
    timestamp: new Float64Array(capacity),
  }
}

/** On the internal scale (as in stream/interaction), live as it is; NaN where the rating is not on the declared one. */
function scaleRating(value: number, { min, max }: RatingScale, live: boolean): number {
  return value >= min && value <= max ? (live ? value : (value * 5) / max) : Number.NaN
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
