/** Items of files, with what is said of them, as the live recommender takes them. */

import { statSync } from "node:fs"
import { basename } from "node:path"
import { DessError, show } from "../errors.ts"
import { type ColumnChoice, describeColumns, findItemColumn } from "./header.ts"
import { findItemFile, readPublishedItems } from "./movies.ts"
import { readTable, type TableOptions } from "./table.ts"

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

export interface ItemOptions extends TableOptions {
  choice: ColumnChoice
  /** Told which columns are taken for what. */
  onColumns?: (text: string) => void
}

/** The file of the items: of a folder, the one that its publisher calls so. */
export function itemFileOf(path: string): string {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return path
  const found = findItemFile(path)
  if (found !== undefined) return found
  throw new DessError("NOT_FOUND", `items: expected movies.csv, movies.dat or u.item in the folder, got none (${path})`)
}

/** The items of a table with a header, JSON lines or Parquet, or of a published form without one. */
export async function* readItems(
  path: string,
  { choice, onColumns, ...options }: ItemOptions,
): AsyncGenerator<{ item: ItemRow; where: Where }> {
  const file = itemFileOf(path)
  const published = await readPublishedItems(file)
  if (published) {
    onColumns?.(`columns: item, title and categories as in MovieLens' ${basename(file)}`)
    for (const [item, { title, genres }] of published)
      yield {
        item: { item, ...(title === "" ? {} : { title }), categories: [...genres] },
        where: () => `${file}, item ${show(item)}`,
      }
    return
  }
  for await (const { rows, where } of readTable(file, options)) {
    if (rows.length > 0) onColumns?.(describeItems(Object.keys(rows[0]), choice, where(0)))
    for (let r = 0; r < rows.length; r++) {
      const at = () => where(r)
      try {
        yield { item: readItem(rows[r], choice, at), where: at }
      } catch (error) {
        if (!options.onBad || !(error instanceof DessError)) throw error
        options.onBad(error)
      }
    }
  }
}

const ITEM_COLUMNS = ["title", "categories", "genres", "properties", "expires", "hidden", "features"]

function describeItems(names: readonly string[], choice: ColumnChoice, where: string): string {
  const item = names[findItemColumn(names, choice, where)]
  const own = ITEM_COLUMNS.filter((name) => names.includes(name))
  const taken = { item, ...Object.fromEntries(own.map((name) => [name, name])) }
  return describeColumns({ taken, ignored: names.filter((name) => name !== item && !own.includes(name)) })
}

/** Categories are an array, or a text with | between them; `genres` of MovieLens are categories too. */
function readItem(row: Row, choice: ColumnChoice, where: Where): ItemRow {
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

function readTruth(value: unknown, where: Where): boolean {
  const text = String(value).toLowerCase()
  if (["true", "1"].includes(text)) return true
  if (["false", "0"].includes(text)) return false
  throw new DessError("INVALID_DATA", `hidden: expected true or false, got ${show(value)} (${where()})`)
}
