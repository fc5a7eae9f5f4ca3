/** Tables of items – CSV or TSV with a header, JSON lines, Parquet – as records, a block at a time. */

import { statSync } from "node:fs"
import { tmpdir } from "node:os"
import { DessError, show } from "../errors.ts"
import { detectPacking, type TextFile, textFile } from "./bytes.ts"
import { openDuck, quote, quoteName } from "./duck.ts"
import { chooseDelimiter } from "./layout.ts"
import { describeParquet } from "./parquet.ts"
import { fieldText, parseObject, readRecords, recordTexts } from "./records.ts"

export interface TableBlock {
  rows: Record<string, unknown>[]
  /** "ratings.csv, line 17" */
  where(row: number): string
  /** Whether the file was not UTF-8 and is taken as Latin-1. */
  latin1?: boolean
}

export const DUCK = { memoryBytes: 512 << 20, threads: 1, temporary: tmpdir() }

export interface TableOptions {
  /** Told of a row that is not one, which is then passed over; without it the first one is thrown. */
  onBad?: ((error: DessError) => void) | undefined
  /** Told what share of the file was read. */
  onShare?: ((share: number) => void) | undefined
}

export async function* readTable(path: string, options: TableOptions = {}): AsyncGenerator<TableBlock> {
  if ((await detectPacking(path)) === "parquet") yield* readParquet(path, options)
  else {
    const size = Math.max(1, statSync(path).size)
    const file = textFile(path, (bytes) => options.onShare?.(bytes / size))
    const head = await readHead(file)
    if (head.startsWith("{")) yield* readJson(file, options)
    else yield* readDelimited(file, { delimiter: chooseDelimiter(head), ...options })
  }
}

async function readHead(file: TextFile): Promise<string> {
  for await (const block of readRecords(file, { delimiter: "", quoted: false })) return fieldText(block, 0)
  throw new DessError("INVALID_DATA", `data file: expected a header and rows, got an empty file (${file.path})`)
}

async function* readDelimited(
  file: TextFile,
  { delimiter, onBad }: TableOptions & { delimiter: string },
): AsyncGenerator<TableBlock> {
  let names: string[] | undefined
  for await (const block of readRecords(file, { delimiter, quoted: delimiter !== "::" })) {
    const from = names ? 0 : 1
    names ??= recordTexts(block, 0)
    const rows: Record<string, unknown>[] = []
    const lines: number[] = []
    for (let r = from; r < block.count; r++) {
      const texts = recordTexts(block, r)
      if (texts.length !== names.length) {
        const where = `${file.path}, line ${block.line[r]}`
        refuse(`line: expected ${names.length} fields, got ${texts.length} (${where})`, onBad)
        continue
      }
      rows.push(Object.fromEntries(names.map((name, c) => [name, texts[c] === "" ? undefined : texts[c]])))
      lines.push(block.line[r])
    }
    yield { rows, where: (row) => `${file.path}, line ${lines[row]}`, latin1: file.latin1 ?? false }
  }
}

async function* readJson(file: TextFile, { onBad }: TableOptions): AsyncGenerator<TableBlock> {
  for await (const block of readRecords(file, { delimiter: "", quoted: false })) {
    const rows: Record<string, unknown>[] = []
    const lines: number[] = []
    for (let r = 0; r < block.count; r++) {
      const text = fieldText(block, r)
      const row = parseObject(text)
      const where = `${file.path}, line ${block.line[r]}`
      if (row === undefined) refuse(`line: expected a JSON object, got ${show(text)} (${where})`, onBad)
      else {
        rows.push(row)
        lines.push(block.line[r])
      }
    }
    yield { rows, where: (row) => `${file.path}, line ${lines[row]}`, latin1: file.latin1 ?? false }
  }
}

function refuse(message: string, onBad: TableOptions["onBad"]): void {
  const error = new DessError("INVALID_DATA", message)
  if (!onBad) throw error
  onBad(error)
}

async function* readParquet(path: string, { onShare }: TableOptions): AsyncGenerator<TableBlock> {
  const duck = await openDuck(DUCK)
  try {
    const { names, types } = await describeParquet(duck, path)
    const columns = names.map((name, c) => expression(quoteName(name), types[c]))
    let done = 0
    let total = 1
    for await (const chunk of duck.stream(`SELECT count(*)::DOUBLE FROM read_parquet(${quote(path)})`))
      total = Number(chunk.columns[0].getItem(0))
    for await (const chunk of duck.stream(`SELECT ${columns.join(", ")} FROM read_parquet(${quote(path)})`)) {
      const rows = Array.from({ length: chunk.length }, (_, k) =>
        Object.fromEntries(names.map((name, c) => [name, plain(chunk.columns[c].getItem(k))])),
      )
      const first = done + 1
      yield { rows, where: (row) => `${path}, row ${first + row}` }
      done += chunk.length
      onShare?.(done / total)
    }
  } finally {
    duck.close()
  }
}

/** Whole numbers as text, so that no id loses a digit; dates in seconds. */
function expression(column: string, type: string): string {
  if (/^(TIMESTAMP|DATE)/.test(type)) return `epoch(${column})`
  if (/^(VARCHAR|BOOLEAN)$/.test(type) || type.endsWith("[]")) return column
  return /INT/.test(type) ? `${column}::VARCHAR` : `${column}::DOUBLE`
}

function plain(value: unknown): unknown {
  if (value === null) return undefined
  if (typeof value === "object" && "items" in value) return [...(value as { items: readonly unknown[] }).items]
  return value
}
