/** Chooses the reader of a text file by its name and its first byte. */

import { basename, dirname, resolve } from "node:path"
import { DessError } from "../errors.ts"
import type { TextFile } from "./bytes.ts"
import type { ColumnChoice } from "./header.ts"
import { DAT_LAYOUT, detectLayout, TAB_LAYOUT } from "./layout.ts"
import { type RatingBlock, type ReadOptions, readJsonRatings, readRatings } from "./ratings.ts"

/** The ratings files of MovieLens and its kin, in the order they are looked for. The items stand beside them. */
export const RATINGS_FILES: readonly string[] = ["ratings.dat", "ratings.csv", "u.data"]

/** The rows of a text file. */
export async function readText(
  file: TextFile,
  choice: ColumnChoice,
  options: ReadOptions,
): Promise<AsyncIterable<RatingBlock>> {
  const given = Object.keys(choice).length > 0
  if (basename(file.path) === "ratings.dat" && !given) return readRatings(file, DAT_LAYOUT, options)
  if (basename(file.path) === "u.data" && !given) return readRatings(file, TAB_LAYOUT, options)
  const bracket = await openingBracket(file)
  if (bracket === "{") return readJsonRatings(file, choice, options)
  if (bracket === "[")
    throw new DessError(
      "UNSUPPORTED",
      `data file: expected JSON lines, one object a line, got a JSON array (${file.path}); turn it with: jq -c .[]`,
    )
  return readRatings(file, await detectLayout(file, choice), options)
}

/** A name for tables: the folder of a MovieLens file, else the file or folder without its endings. */
export function nameOf(path: string): string {
  const full = resolve(path)
  if (RATINGS_FILES.includes(basename(full))) return basename(dirname(full))
  return basename(full).replace(/(\.(zip|csv|tsv|txt|json|jsonl|ndjson|inter|dat|parquet|gz|zst))+$/i, "")
}

/** The brace or bracket a JSON file begins with; an array that is no list of objects may be a name in a header. */
async function openingBracket(file: TextFile): Promise<string | undefined> {
  for await (const chunk of file.chunks())
    return /^(?:\xef\xbb\xbf)?\s*(\{|\[(?=\s*\{))/.exec(chunk.toString("latin1", 0, 100))?.[1]
  return undefined
}
