/** How a ratings file is laid out: its delimiter, whether it has a header, which column is which. */

import { DessError, show } from "../errors.ts"
import type { TextFile } from "./bytes.ts"
import { type ColumnChoice, type ColumnPlaces, countRoles, findColumns, ROLES } from "./header.ts"
import { type RecordFormat, readRecords, recordTexts } from "./records.ts"

export interface RatingsLayout extends RecordFormat {
  header: boolean
  places: ColumnPlaces
  /** Fields of every line. */
  width: number
}

/** `user::item::rating::timestamp` of MovieLens 1M and 10M. */
export const DAT_LAYOUT: RatingsLayout = plainLayout("::")

/** `u.data` of MovieLens 100k. */
export const TAB_LAYOUT: RatingsLayout = plainLayout("\t")

/** In order of likelihood, where two would do. */
const DELIMITERS = [",", "\t", ";", "|", "::"] as const

const SAMPLE = 1000

/** Detects the layout of a file from its first lines, or refuses it. */
export async function detectLayout(file: TextFile, choice: ColumnChoice = {}): Promise<RatingsLayout> {
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
    return { ...format, header: true, width: first.length, places: findColumns(first, choice, where) }
  }
  if (delimiter === "::" && first.length === 4 && Object.keys(choice).length === 0) return DAT_LAYOUT
  const places = findPlaces(rows, choice, path)
  return { ...format, header: false, width: first.length, places }
}

/** A header is a first line that names a column we know, or in which nothing is a number. */
function hasHeader(first: readonly string[]): boolean {
  return countRoles(first) > 0 || first.every((text) => text === "" || Number.isNaN(Number(text)))
}

function chooseDelimiter(line: string): string {
  let best: string = DELIMITERS[0]
  let score = 0
  for (const delimiter of DELIMITERS) {
    const fields = line.split(delimiter).map((text) => text.trim().replace(/^"(.*)"$/, "$1"))
    const here = fields.length < 2 ? 0 : 1000 * countRoles(fields) + fields.length
    if (here > score) [best, score] = [delimiter, here]
  }
  return best
}

/**
 * Columns of a file without a header. Only the Amazon ratings files are recognised: there users look
 * like A2SUAM1J3GNN3B and items like B00004CWX1 or an ISBN, and both orders circulate.
 */
function findPlaces(rows: readonly string[][], choice: ColumnChoice, path: string): ColumnPlaces {
  const width = rows[0].length
  const names = Array.from({ length: width }, (_, i) => String(i + 1))
  if (ROLES.every((role) => choice[role] !== undefined)) return findColumns(names, choice, path)
  if (width === 4) {
    const share = (place: number, form: RegExp) =>
      rows.filter((row) => form.test(row[place] ?? "")).length / rows.length
    const user = /^A[0-9A-Z]{11,27}$/
    const item = /^(B[0-9A-Z]{9}|\d{9}[\dX])$/
    for (const [u, i] of [
      [0, 1],
      [1, 0],
    ]) {
      if (share(u, user) < 0.9 || share(i, item) < 0.9) continue
      return findColumns(names, { user: names[u], item: names[i], rating: "3", timestamp: "4", ...choice }, path)
    }
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
  const places = { user: 0, item: 1, rating: 2, timestamp: 3 }
  return { delimiter, quoted: false, header: false, width: 4, places }
}
