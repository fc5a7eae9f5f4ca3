/** Chooses the reader of a text file by its name and its first byte. */

import { existsSync } from "node:fs"
import { basename, dirname, resolve } from "node:path"
import { DessError } from "../errors.ts"
import type { TextFile } from "./bytes.ts"
import { describeColumns, type Reading } from "./header.ts"
import { DAT_LAYOUT, detectLayout, type FileChoice, TAB_LAYOUT } from "./layout.ts"
import { JsonHeader, type RatingBlock, type ReadOptions, readJsonRatings, readRatings, type Tally } from "./ratings.ts"

/** The ratings files of MovieLens and data sets of the same form, in the order they are looked for. Item files are beside them. */
export const RATINGS_FILES: readonly string[] = ["ratings.dat", "ratings.csv", "u.data"]

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
    const header = await new JsonHeader(file, p).detect()
    return { reading: header.reading, blocks: readJsonRatings(file, header, options) }
  }
  if (bracket === "[")
    throw new DessError(
      "UNSUPPORTED",
      `data file: expected JSON lines, one object a line, got a JSON array (${file.path}); turn it with: jq -c .[]`,
    )
  const layout = await detectLayout(file, p)
  return { reading: layout.reading, blocks: readRatings(file, layout, options) }
}

/** How sets that are published cut by time name their parts: the first, and what stands in its place in the others. */
const CUTS: readonly (readonly [RegExp, readonly string[]])[] = [
  // Amazon's benchmark.
  [/\.train(?=\.(csv|tsv|inter|jsonl)(\.gz)?$)/i, [".valid", ".test"]],
  // KuaiRand; what was shown at random in the second part's weeks is a file of its own.
  [/\blog_standard_4_08_to_4_21(?=_\w+\.csv$)/, ["log_standard_4_22_to_5_08"]],
]

/** The parts of a set that is published cut by time, from its first part on. */
export function partsOf(path: string): string[] {
  const [cut, others] = CUTS.find(([first]) => first.test(path)) ?? []
  if (!cut || !others) return [path]
  return [path, ...others.map((other) => path.replace(cut, other)).filter((part) => existsSync(part))]
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

/** How many rows are left out because of a column that says whether they count. */
export function describeSignal(
  { taken, leastSignal }: { taken: Reading["taken"]; leastSignal?: number | undefined },
  tally: Tally,
): string[] {
  if (leastSignal === undefined) return []
  const others = tally.unsignalled > 0 ? `${tally.unsignalled.toLocaleString("en")} others` : "others"
  return [`${taken.signal}: rows from ${leastSignal} on count, ${others} are left out`]
}

/** Notes for the user on how files were read. */
export function describeReading({ taken, ignored, implicit, untimed, leastSignal }: Reading, tally: Tally): string[] {
  const count = (n: number) => n.toLocaleString("en")
  const notes = Object.keys(taken).length === 0 ? [] : [describeColumns({ taken, ignored })]
  if (implicit) notes.push("no ratings: every row is a positive, and the task is ranking")
  if (untimed) notes.push("no times: rows are taken in the order of the file, which has to be the order of the events")
  notes.push(...describeSignal({ taken, leastSignal }, tally))
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
