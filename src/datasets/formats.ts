/** Chooses the reader of a text file by its name and its first byte. */

import { existsSync } from "node:fs"
import { basename, dirname, resolve } from "node:path"
import { DessError } from "../errors.ts"
import type { TextFile } from "./bytes.ts"
import type { ColumnChoice, Reading } from "./header.ts"
import { DAT_LAYOUT, detectLayout, TAB_LAYOUT } from "./layout.ts"
import {
  type RatingBlock,
  type ReadOptions,
  readJsonHeader,
  readJsonRatings,
  readRatings,
  type Tally,
} from "./ratings.ts"

/** The ratings files of MovieLens and its kin, in the order they are looked for. The items stand beside them. */
export const RATINGS_FILES: readonly string[] = ["ratings.dat", "ratings.csv", "u.data"]

/** How a file is to be read, beyond what its rows are checked against. */
export interface FileChoice {
  choice: ColumnChoice
  implicit?: boolean
}

/** The rows of a file, block by block, and the columns they are read from. */
export interface Rows {
  reading: Reading
  blocks: AsyncIterable<RatingBlock>
}

/** The rows of a text file. */
async function readText(file: TextFile, p: FileChoice, options: ReadOptions): Promise<Rows> {
  const { choice, implicit = false } = p
  const plain = Object.keys(choice).length === 0 && !implicit
  const name = basename(file.path)
  const fixed = plain && name === "ratings.dat" ? DAT_LAYOUT : plain && name === "u.data" ? TAB_LAYOUT : undefined
  if (fixed) return { reading: fixed.reading, blocks: readRatings(file, fixed, options) }
  const bracket = await openingBracket(file)
  if (bracket === "{") {
    const reading = await readJsonHeader(file, { choice, implicit })
    return { reading, blocks: readJsonRatings(file, reading, options) }
  }
  if (bracket === "[")
    throw new DessError(
      "UNSUPPORTED",
      `data file: expected JSON lines, one object a line, got a JSON array (${file.path}); turn it with: jq -c .[]`,
    )
  const layout = await detectLayout(file, { choice, implicit })
  return { reading: layout.reading, blocks: readRatings(file, layout, options) }
}

/** The parts of a set that is published cut by time (Amazon's benchmark: .train, .valid, .test), from its first part on. */
export function partsOf(path: string): string[] {
  const cut = /\.train(?=\.(csv|tsv|inter|jsonl)(\.gz)?$)/i
  if (!cut.test(path)) return [path]
  return [path, ...["valid", "test"].map((part) => path.replace(cut, `.${part}`)).filter((other) => existsSync(other))]
}

/** The rows of one file after the other; all have to have the same columns. */
export async function readTexts(files: readonly TextFile[], p: FileChoice, options: ReadOptions): Promise<Rows> {
  const parts = await Promise.all(files.map((file) => readText(file, p, options)))
  const [{ reading }] = parts
  for (const [i, part] of parts.entries())
    if (JSON.stringify(part.reading.taken) !== JSON.stringify(reading.taken))
      throw new DessError(
        "INVALID_DATA",
        `data files: expected the same columns in all, got others in ${files[i].path} than in ${files[0].path}`,
      )
  async function* blocks() {
    for (const part of parts) yield* part.blocks
  }
  return { reading, blocks: blocks() }
}

/** Notes for the user on how files were read. */
export function describeReading({ taken, ignored, implicit, untimed, leastSignal }: Reading, tally: Tally): string[] {
  const count = (n: number) => n.toLocaleString("en")
  const notes: string[] = []
  if (implicit)
    notes.push(
      `no ratings: every row is a positive, and the task is ranking (columns taken: ${Object.entries(taken)
        .map(([role, name]) => `${role} = ${name}`)
        .join(", ")}; ignored: ${ignored.join(", ") || "none"})`,
    )
  if (untimed) notes.push("no times: rows are taken in the order of the file, which has to be the order of the events")
  if (leastSignal !== undefined) {
    const others = tally.unsignalled > 0 ? `${count(tally.unsignalled)} others` : "others"
    notes.push(`${taken.signal}: rows from ${leastSignal} on count, ${others} are left out`)
  }
  if (taken.type !== undefined && tally.types.size > 0) {
    const kinds = [...tally.types].sort((a, b) => b[1] - a[1]).map(([type, rows]) => `${type} ${count(rows)}`)
    const all = [...tally.types.values()].reduce((sum, rows) => sum + rows, 0)
    const left = all - tally.rows - tally.unsignalled
    notes.push(
      `kinds of events in ${taken.type}: ${kinds.slice(0, 8).join(", ")}${kinds.length > 8 ? ", …" : ""}; ${left > 0 ? `${count(left)} rows are left out` : "all count; choose with --types"}`,
    )
  }
  return notes
}

/** A name for tables: the folder of a MovieLens file, else the file or folder without its endings. */
export function nameOf(path: string): string {
  const full = resolve(path)
  if (RATINGS_FILES.includes(basename(full))) return basename(dirname(full))
  return basename(full).replace(/(\.(train(?=\.)|zip|csv|tsv|txt|json|jsonl|ndjson|inter|dat|parquet|gz|zst))+$/i, "")
}

/** The brace or bracket a JSON file begins with; an array that is no list of objects may be a name in a header. */
async function openingBracket(file: TextFile): Promise<string | undefined> {
  for await (const chunk of file.chunks())
    return /^(?:\xef\xbb\xbf)?\s*(\{|\[(?=\s*\{))/.exec(chunk.toString("latin1", 0, 100))?.[1]
  return undefined
}
