/** How a ratings file is laid out: its delimiter, whether it has a header, which column is which. */

import { DessError, show } from "../errors.ts"
import type { TextFile } from "./bytes.ts"
import { type ColumnChoice, type ColumnPlaces, countRoles, NOWHERE, type Reading, readHeader } from "./header.ts"
import { type RecordFormat, readRecords, recordTexts } from "./records.ts"

/** How files are to be read, beyond what their rows are checked against. */
export interface FileChoice {
  choice: ColumnChoice
  implicit?: boolean
  /** Events of a live recommender: ratings as they are, and rows without rating or time. */
  live?: boolean
}

export interface RatingsLayout extends RecordFormat {
  header: boolean
  places: ColumnPlaces
  reading: Reading
  /** Fields of every line. */
  width: number
}

/** `user::item::rating::timestamp` of MovieLens 1M and 10M. */
export const DAT_LAYOUT: RatingsLayout = plainLayout("::")

/** `u.data` of MovieLens 100k. */
export const TAB_LAYOUT: RatingsLayout = plainLayout("\t")

/** In order of likelihood, where two would do. */
const DELIMITERS = [",", "\t", ";", "|", "::"] as const

/** Records that are looked at to find out how a file is laid out. */
export const SAMPLE = 1000

/** Detects the layout of a file from its first lines, or refuses it. */
export async function detectLayout(
  file: TextFile,
  { choice = {}, implicit = false, live = false }: Partial<FileChoice> = {},
): Promise<RatingsLayout> {
  const { path } = file
  const [head] = await readSample(file, { delimiter: "", quoted: false }, 1)
  if (head === undefined) {
    throw new DessError("INVALID_DATA", `data file: expected a header and interactions, got an empty file (${path})`)
  }
  const delimiter = chooseDelimiter(head[0])
  // Tab-separated files as a rule do not quote; where one does, its header does too.
  const quoted = delimiter === "\t" ? head[0].startsWith('"') : delimiter !== "::"
  const format = { delimiter, quoted }
  const rows = await readSample(file, format, SAMPLE)
  const [first] = rows
  const where = `${path}, line 1`
  if (hasHeader(first)) {
    return { ...format, header: true, width: first.length, ...readHeader(first, { choice, implicit, live, where }) }
  }
  if (delimiter === "::" && first.length === 4 && Object.keys(choice).length === 0 && !implicit) return DAT_LAYOUT
  return { ...format, header: false, width: first.length, ...findPlaces(rows, { choice, implicit, live, path }) }
}

/** A header is a first line that names a column we know, or in which nothing is a number. */
function hasHeader(first: readonly string[]): boolean {
  return countRoles(first) > 0 || first.every((text) => text === "" || Number.isNaN(Number(text)))
}

export function chooseDelimiter(line: string): string {
  let best: string = DELIMITERS[0]
  let score = 0
  for (const delimiter of DELIMITERS) {
    const fields = line.split(delimiter).map((text) => text.trim().replace(/^"(.*)"$/, "$1"))
    const here = fields.length < 2 ? 0 : 1000 * countRoles(fields) + fields.length
    if (here > score) [best, score] = [delimiter, here]
  }
  return best
}

/** A published form without a header: what stands in which column of nearly every line. */
interface Headerless {
  forms: readonly RegExp[]
  choice: ColumnChoice
}

const AMAZON_USER = /^A[0-9A-Z]{11,27}$/
const AMAZON_ITEM = /^(B[0-9A-Z]{9}|\d{9}[\dX])$/
const NUMBER = /^-?\d+(\.\d+)?$/
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/
const TWITTER_TIME = /^[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \+0000 \d{4}$/

const HEADERLESS: readonly Headerless[] = [
  // Amazon's ratings of 2014 and 2018: both orders circulate.
  {
    forms: [AMAZON_USER, AMAZON_ITEM, NUMBER, NUMBER],
    choice: { user: "1", item: "2", rating: "3", timestamp: "4" },
  },
  {
    forms: [AMAZON_ITEM, AMAZON_USER, NUMBER, NUMBER],
    choice: { user: "2", item: "1", rating: "3", timestamp: "4" },
  },
  // Gowalla, Brightkite: user, time, latitude, longitude, place.
  { forms: [NUMBER, ISO_TIME, NUMBER, NUMBER, /./], choice: { user: "1", item: "5", timestamp: "2" } },
  // Foursquare of NYC and Tokyo: user, venue, category and its name, latitude, longitude, zone, time.
  {
    forms: [/./, /./, /./, /./, NUMBER, NUMBER, NUMBER, TWITTER_TIME],
    choice: { user: "1", item: "2", timestamp: "8" },
  },
  // Steam-200k: user, game, purchase or play, hours, 0.
  { forms: [NUMBER, /./, /^(purchase|play)$/, NUMBER, NUMBER], choice: { user: "1", item: "2", type: "3" } },
]

/** Columns of a file without a header: by hand, or of a form in HEADERLESS. */
function findPlaces(
  rows: readonly string[][],
  { choice, implicit = false, live = false, path }: FileChoice & { path: string },
): { places: ColumnPlaces; reading: Reading } {
  const width = rows[0].length
  const names = Array.from({ length: width }, (_, i) => String(i + 1))
  const where = path
  if (choice.user !== undefined && choice.item !== undefined)
    return readHeader(names, { choice, implicit, live, where })
  const share = (place: number, form: RegExp) => rows.filter((row) => form.test(row[place] ?? "")).length / rows.length
  const known = HEADERLESS.find(
    ({ forms }) => forms.length === width && forms.every((form, place) => share(place, form) >= 0.9),
  )
  if (known) {
    const { rating: _, ...without } = known.choice
    const usual = implicit ? without : known.choice
    return readHeader(names, { choice: { ...usual, ...choice }, implicit, live, where })
  }
  throw new DessError(
    "INVALID_DATA",
    `columns: expected a header, got ${show(rows[0].join(" "))} (${path}, line 1); name the columns by place: --columns user=1,item=2,rating=3,timestamp=4`,
  )
}

async function readSample(file: TextFile, format: RecordFormat, limit: number): Promise<string[][]> {
  const rows: string[][] = []
  for await (const block of readRecords(file, format)) {
    for (let r = 0; r < block.count && rows.length < limit; r++) rows.push(recordTexts(block, r))
    if (rows.length >= limit) break
  }
  return rows
}

function plainLayout(delimiter: string): RatingsLayout {
  const places = { ...NOWHERE, user: 0, item: 1, rating: 2, timestamp: 3 }
  const taken = { user: "1", item: "2", rating: "3", timestamp: "4" }
  const reading = { taken, ignored: [], implicit: false, untimed: false }
  return { delimiter, quoted: false, header: false, width: 4, places, reading }
}
