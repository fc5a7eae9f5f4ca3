/** Interactions in Parquet files of other people → rows. */

import { type Duck, quote, quoteName } from "./duck.ts"
import type { FileChoice, Rows } from "./formats.ts"
import { type ColumnPlaces, readHeader } from "./header.ts"
import { RatingBlock, type ReadOptions, takeRow } from "./ratings.ts"

/** The rows of Parquet files, one after the other; which columns they are is read off the first. */
export async function readParquet(
  duck: Duck,
  files: readonly string[],
  { choice, implicit = false, ...options }: ReadOptions & FileChoice,
): Promise<Rows> {
  const { names } = await describeParquet(duck, files[0])
  const { reading } = readHeader(names, { choice, implicit, where: files[0] })
  return { reading, blocks: readRows(duck, files, { choice, implicit, ...options }) }
}

async function* readRows(
  duck: Duck,
  files: readonly string[],
  { choice, implicit = false, ...options }: ReadOptions & FileChoice,
): AsyncGenerator<RatingBlock> {
  const rows = new RatingBlock()
  for (const file of files) {
    const { names, types } = await describeParquet(duck, file)
    const { places, reading } = readHeader(names, { choice, implicit, where: file })
    const roles = (Object.keys(places) as (keyof ColumnPlaces)[]).filter((role) => places[role] >= 0)
    const selected = roles.map((role) => {
      const column = quoteName(names[places[role]])
      const type = types[places[role]]
      if (role === "user" || role === "item" || role === "type") return `${column}::VARCHAR`
      return role === "timestamp" && /^(TIMESTAMP|DATE)/.test(type) ? `epoch(${column})` : looseNumber(column, type)
    })
    const sql = `SELECT ${selected.join(", ")} FROM read_parquet(${quote(file)})`
    let done = 0
    for await (const { length, columns } of duck.stream(sql)) {
      rows.reset(length)
      for (let k = 0; k < length; k++) {
        const row = Object.fromEntries(roles.map((role, c) => [role, columns[c].getItem(k)]))
        takeRow(rows, row, { ...options, reading, where: () => `${file}, row ${done + k + 1}` })
      }
      done += length
      yield rows
    }
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
