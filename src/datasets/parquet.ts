/** Interactions in Parquet files of other people → rows. */

import { type Duck, quote, quoteName } from "./duck.ts"
import { type ColumnChoice, findColumns } from "./header.ts"
import { RatingBlock, type ReadOptions, takeRow } from "./ratings.ts"

/** The rows of Parquet files, one after the other. */
export async function* readParquetRatings(
  duck: Duck,
  files: readonly string[],
  { choice, ...options }: ReadOptions & { choice: ColumnChoice },
): AsyncGenerator<RatingBlock> {
  const rows = new RatingBlock()
  for (const file of files) {
    const { names, types } = await describeParquet(duck, file)
    const { user, item, rating, timestamp } = findColumns(names, choice, file)
    const [u, i, r, t] = [user, item, rating, timestamp].map((place) => quoteName(names[place]))
    const time = /^(TIMESTAMP|DATE)/.test(types[timestamp]) ? `epoch(${t})` : looseNumber(t, types[timestamp])
    const sql = `SELECT ${u}::VARCHAR, ${i}::VARCHAR, ${looseNumber(r, types[rating])}, ${time} FROM read_parquet(${quote(file)})`
    let done = 0
    for await (const { length, columns } of duck.stream(sql)) {
      rows.reset(length)
      for (let k = 0; k < length; k++) {
        const row = {
          user: columns[0].getItem(k),
          item: columns[1].getItem(k),
          rating: columns[2].getItem(k),
          timestamp: columns[3].getItem(k),
        }
        takeRow(rows, row, { ...options, where: () => `${file}, row ${done + k + 1}` })
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
