/** Interactions in Parquet files of other people → rows. */

import { type Duck, quote, quoteName } from "./duck.ts"
import type { Rows } from "./formats.ts"
import { type ColumnPlaces, readHeader } from "./header.ts"
import type { FileChoice } from "./layout.ts"
import { RatingBlock, type ReadOptions, takeRow } from "./ratings.ts"

/** The rows of Parquet files, one after the other; which columns they are is read off the first. */
export async function readParquet(duck: Duck, files: readonly string[], options: ParquetOptions): Promise<Rows> {
  const { names } = await describeParquet(duck, files[0])
  const { reading } = readHeader(names, { ...options, where: files[0] })
  return { reading, blocks: readRows(duck, files, options) }
}

type ParquetOptions = ReadOptions & FileChoice

async function* readRows(duck: Duck, files: readonly string[], options: ParquetOptions): AsyncGenerator<RatingBlock> {
  const { onShare } = options
  let total = 0
  if (onShare) for (const file of files) total += await duck.number(`SELECT count(*) FROM read_parquet(${quote(file)})`)
  let before = 0
  for (const file of files) {
    const rows = new RatingBlock(`${file}, row`)
    const { names, types } = await describeParquet(duck, file)
    const { places, reading } = readHeader(names, { ...options, where: file })
    const roles = (Object.keys(places) as (keyof ColumnPlaces)[]).filter((role) => places[role] >= 0)
    const selected = roles.map((role) => {
      const column = quoteName(names[places[role]])
      const type = types[places[role]]
      if (["user", "item", "type", "key"].includes(role)) return `${column}::VARCHAR`
      return role === "timestamp" && /^(TIMESTAMP|DATE)/.test(type) ? `epoch(${column})` : looseNumber(column, type)
    })
    const sql = `SELECT ${selected.join(", ")} FROM read_parquet(${quote(file)})`
    let done = 0
    for await (const { length, columns } of duck.stream(sql)) {
      rows.reset(length)
      for (let k = 0; k < length; k++) {
        const row = Object.fromEntries(roles.map((role, c) => [role, columns[c].getItem(k)]))
        takeRow(rows, row, { ...options, reading, line: done + k + 1 })
      }
      done += length
      onShare?.((before + done) / total)
      yield rows
    }
    before += done
  }
}

/** Numbers as doubles, texts as they are: the row check reads both. */
function looseNumber(column: string, type: string): string {
  return type === "VARCHAR" ? column : `try_cast(${column} AS DOUBLE)`
}

/** Names and types of a file's columns. */
export async function describeParquet(duck: Duck, file: string): Promise<{ names: string[]; types: string[] }> {
  const names: string[] = []
  const types: string[] = []
  const sql = `SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM read_parquet(${quote(file)}))`
  for await (const { length, columns } of duck.stream(sql)) {
    for (let k = 0; k < length; k++) {
      names.push(String(columns[0].getItem(k)))
      types.push(String(columns[1].getItem(k)))
    }
  }
  return { names, types }
}
