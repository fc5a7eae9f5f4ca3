/** Records to a file – CSV, JSON lines or Parquet, by its ending – written beside and renamed when whole. */

import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs"
import { extname } from "node:path"
import { DessError, show } from "../errors.ts"
import { type Duck, type DuckType, type DuckWriter, openDuck, quote, quoteName } from "./duck.ts"
import { DUCK } from "./table.ts"

export type TableColumns = Record<string, DuckType | "BOOLEAN" | "VARCHAR[]">
export type TableRow = Record<string, string | number | boolean | readonly (string | number)[] | null | undefined>

export interface TableWriter {
  add(row: TableRow): void
  /** Makes the file appear. */
  finish(): Promise<void>
  /** Leaves nothing behind. */
  abandon(): void
}

export async function openTableWriter(path: string, columns: TableColumns): Promise<TableWriter> {
  const ending = extname(path).toLowerCase()
  if (ending === ".parquet") return openParquet(path, columns)
  const names = Object.keys(columns)
  if (ending === ".csv")
    return openText(path, `${names.join(",")}\n`, (row) => `${names.map((name) => csvCell(row[name])).join(",")}\n`)
  if (ending === ".ndjson" || ending === ".jsonl") return openText(path, "", (row) => `${JSON.stringify(row)}\n`)
  throw new DessError(
    "INVALID_ARGUMENT",
    `file: expected one ending in .csv, .ndjson, .jsonl or .parquet, got ${show(path)}`,
  )
}

function openText(path: string, head: string, line: (row: TableRow) => string): TableWriter {
  const beside = `${path}.new`
  const file = openToWrite(beside)
  let waiting = head
  const flush = () => {
    writeSync(file, waiting)
    waiting = ""
  }
  return {
    add(row) {
      waiting += line(row)
      if (waiting.length > 1 << 20) flush()
    },
    async finish() {
      flush()
      fsyncSync(file)
      closeSync(file)
      renameSync(beside, path)
    },
    abandon() {
      closeSync(file)
      rmSync(beside, { force: true })
    },
  }
}

function openToWrite(path: string): number {
  try {
    return openSync(path, "w")
  } catch (cause) {
    throw new DessError("INVALID_ARGUMENT", `file: expected one that can be written, got ${(cause as Error).message}`, {
      cause,
    })
  }
}

function csvCell(value: TableRow[string]): string {
  if (value === undefined || value === null) return ""
  const text = Array.isArray(value) ? value.join("|") : String(value)
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

async function openParquet(path: string, columns: TableColumns): Promise<TableWriter> {
  const duck: Duck = await openDuck(DUCK)
  const names = Object.keys(columns)
  // A list of texts and a truth go in as text and are turned where they are written out.
  const types = names.map(
    (name): DuckType =>
      columns[name] === "BOOLEAN" || columns[name] === "VARCHAR[]" ? "VARCHAR" : (columns[name] as DuckType),
  )
  await duck.run(`CREATE TABLE out (${names.map((name, c) => `${quoteName(name)} ${types[c]}`).join(", ")})`)
  const writer: DuckWriter = await duck.write("out", types)
  const beside = `${path}.new`
  const select = names.map((name) => {
    const column = quoteName(name)
    if (columns[name] === "BOOLEAN") return `${column} = 'true' AS ${column}`
    return columns[name] === "VARCHAR[]" ? `from_json(${column}, '["VARCHAR"]') AS ${column}` : column
  })
  return {
    add(row) {
      writer.add(
        ...names.map((name) => {
          const value = row[name]
          if (value === undefined || value === null) return null
          if (columns[name] === "FLOAT[]") return duck.list(value as readonly number[])
          return columns[name] === "VARCHAR[]"
            ? JSON.stringify(value)
            : columns[name] === "BOOLEAN"
              ? String(value)
              : (value as string | number)
        }),
      )
    },
    async finish() {
      writer.finish()
      await duck.run(
        `COPY (SELECT ${select.join(", ")} FROM out) TO ${quote(beside)} (FORMAT parquet, COMPRESSION zstd)`,
      )
      duck.close()
      renameSync(beside, path)
    },
    abandon() {
      duck.close()
      rmSync(beside, { force: true })
    },
  }
}
