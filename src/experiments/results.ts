/**
 * The results folder: one JSON line per cell that has ended. A line counts once its line feed is written; what a kill
 * left half-written at the end is dropped. Later lines of a cell replace earlier ones.
 */

import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs"
import { join } from "node:path"
import { DessError, show } from "../errors.ts"
import type { Match, RunSummary } from "./cell-run.ts"
import type { Cell } from "./cells.ts"
import type { Series } from "./series.ts"
import type { KeptUsers } from "./user-scores.ts"

export const RESULTS_FILE = "results.jsonl"
const LOCK_FILE = "lock"

export interface CellRecord {
  key: string
  /** Of dess. */
  version: string
  /** "unsupported": the method cannot work on this data. */
  status: "done" | "failed" | "unsupported"
  cell: Cell
  /** Wall clock of the cell, its data read included. */
  milliseconds: number
  machine: string
  /** What was asked for, and of which bytes; results from before it was kept lack it. */
  provenance?: Provenance
  result?: RunSummary
  series?: Series
  /** What each user's tests gave. */
  users?: KeptUsers
  match?: Match
  message?: string
}

export interface Provenance {
  /** As it was typed; a comparison from code has none. */
  command?: string
  /** `learning` changes whenever the same events give another state. */
  versions: { dess: string; learning?: string; node: string; v8: string }
  /** SHA-256 of the data's files, in the order of their names; of the embedded stream its options say everything. */
  data?: string
}

/** A cell that was run to its end. */
export type DoneRecord = CellRecord & { status: "done"; result: RunSummary; series: Series }

export const isDone = (record: CellRecord): record is DoneRecord => record.status === "done"

/** Of a record kept without its timeline, which takes most of its room: tables need none. */
const NO_SERIES: Series = { interactions: [], userSize: [], itemSize: [], embeddingBytes: [] }

/** The version of dess, which results must share. */
export function packageVersion(): string {
  const text = readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")
  return (JSON.parse(text) as { version: string }).version
}

/** The records of a folder, in the order written. */
export function readResults(directory: string): CellRecord[] {
  const file = join(directory, RESULTS_FILE)
  if (!existsSync(file))
    throw new DessError("NOT_FOUND", `results folder: expected ${RESULTS_FILE} of dess compare in it, got ${directory}`)
  return [...parse(wholeLines(file).text, directory).values()]
}

/** Locks the folder for one comparison. */
export class ResultsFolder {
  readonly records: Map<string, CellRecord>
  readonly #directory: string
  readonly #file: number
  #length: number

  constructor(directory: string) {
    this.#directory = directory
    const file = join(directory, RESULTS_FILE)
    attempt(directory, () => mkdirSync(directory, { recursive: true }))
    attempt(directory, () => lock(join(directory, LOCK_FILE)))
    try {
      const lines = existsSync(file) ? wholeLines(file) : { text: "", bytes: 0 }
      this.records = parse(lines.text, directory)
      this.#length = lines.bytes
      this.#file = attempt(directory, () => openSync(file, "a"))
      if (statSync(file).size > lines.bytes) ftruncateSync(this.#file, lines.bytes)
    } catch (error) {
      rmSync(join(directory, LOCK_FILE), { force: true })
      throw error
    }
  }

  append(record: CellRecord): void {
    const line = Buffer.from(`${JSON.stringify(record)}\n`)
    try {
      for (let at = 0; at < line.length; ) at += writeSync(this.#file, line, at)
    } catch (error) {
      this.#dropHalfLine()
      throw refusal(this.#directory, error)
    }
    this.#length += line.length
    this.records.set(record.key, record)
  }

  /** A full disk may have taken half a line. Reading drops it too, should this fail. */
  #dropHalfLine(): void {
    try {
      ftruncateSync(this.#file, this.#length)
    } catch {}
  }

  close(): void {
    closeSync(this.#file)
    rmSync(join(this.#directory, LOCK_FILE), { force: true })
  }
}

/** The text up to the last line feed, and its length in bytes. */
function wholeLines(file: string): { text: string; bytes: number } {
  const { size } = statSync(file)
  const buffer = Buffer.alloc(size)
  const from = openSync(file, "r")
  let read = 0
  while (read < size) {
    const more = readSync(from, buffer, read, size - read, read)
    if (more === 0) break
    read += more
  }
  closeSync(from)
  const bytes = buffer.subarray(0, read).lastIndexOf(10) + 1
  return { text: buffer.toString("utf8", 0, bytes), bytes }
}

function parse(text: string, directory: string): Map<string, CellRecord> {
  const version = packageVersion()
  const records = new Map<string, CellRecord>()
  for (const [i, line] of text.split("\n").slice(0, -1).entries()) {
    const record = parseLine(line)
    if (record === undefined)
      throw new DessError(
        "INVALID_DATA",
        `${join(directory, RESULTS_FILE)} line ${i + 1}: expected a record of dess compare, got ${show(line)}`,
      )
    if (record.version !== version)
      throw new DessError(
        "INVALID_DATA",
        `results folder ${directory}: expected results of dess ${version}, got ${show(record.version)}; choose another folder`,
      )
    records.delete(record.key)
    records.set(record.key, record)
  }
  return records
}

function parseLine(line: string): CellRecord | undefined {
  try {
    const record = JSON.parse(line) as Partial<CellRecord>
    const whole = typeof record.key === "string" && typeof record.status === "string" && typeof record.cell === "object"
    if (!whole || (record.status === "done" && !record.result)) return undefined
    if (record.status === "done") record.series ??= NO_SERIES
    return record as CellRecord
  } catch {
    return undefined
  }
}

/** Takes the lock; one left behind by a process that is no more is taken over. */
function lock(file: string): void {
  const holder = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0
  if (holder > 0 && isAlive(holder))
    throw new DessError(
      "INVALID_ARGUMENT",
      `results folder: expected one dess compare at a time, got process ${holder} at work; if it is not, remove ${file}`,
    )
  rmSync(file, { force: true })
  try {
    writeFileSync(file, String(process.pid), { flag: "wx" })
  } catch (error) {
    // A full disk makes the file and then cannot fill it.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") rmSync(file, { force: true })
    throw error
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

function attempt<T>(directory: string, action: () => T): T {
  try {
    return action()
  } catch (error) {
    throw refusal(directory, error)
  }
}

function refusal(directory: string, error: unknown): Error {
  if (error instanceof DessError) return error
  const { code, message } = error as NodeJS.ErrnoException
  if (code === "ENOSPC" || code === "EDQUOT")
    return new DessError(
      "UNSUPPORTED",
      `results folder ${directory}: expected room for another result, got a full disk; finished cells are kept, free some space and run the same command again`,
    )
  return new DessError(
    "INVALID_ARGUMENT",
    `results folder: expected one that can be written, got ${directory} (${message})`,
  )
}
