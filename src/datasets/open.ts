/** Opens what a person points at: a MovieLens folder, a CSV, TSV or NDJSON file, or what `dess prepare` made. */

import { existsSync, statSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { DessError } from "../errors.ts"
import { type Columns, streamFromColumns } from "../stream/columns.ts"
import { DEFAULT_SCALE, type RatingScale } from "../stream/interaction.ts"
import { LIKE_THRESHOLD } from "../stream/labels.ts"
import type { Order } from "../stream/order.ts"
import type { Stream } from "../stream/stream.ts"
import { readChunks } from "./bytes.ts"
import type { ColumnChoice } from "./header.ts"
import { DAT_LAYOUT, detectLayout, TAB_LAYOUT } from "./layout.ts"
import { genreFeatures, readMovies } from "./movies.ts"
import { readJsonRatings, readRatings } from "./ratings.ts"

export interface OpenOptions {
  /** "time" (stable) unless told otherwise. */
  order?: Order
  /** Of the shuffle. */
  seed?: number
  /** Only the first so many interactions, after ordering. */
  limit?: number
  /** The scale of the file's ratings, 0 to 5 unless declared. */
  ratingScale?: RatingScale
  /** A rating above it, on the scale declared, is a like; 3.5 on the house's scale unless told otherwise. */
  likeThreshold?: number
  /** Columns that are not called what they usually are. */
  columns?: ColumnChoice
}

/** A stream that comes from files. The counts are for tables, never for learning. */
export interface DataStream extends Stream {
  readonly interactions: number
  readonly users: number
  readonly items: number
  /** The scale the ratings were declared on; those in the batches are on the house's. */
  readonly ratingScale: RatingScale
  /** On the house's scale. */
  readonly likeThreshold: number
  userName(index: number): string
  itemName(index: number): string
  itemTitle?(index: number): string | undefined
}

/** The ratings files of MovieLens and its kin, in the order they are looked for. The items stand beside them. */
const RATINGS_FILES = ["ratings.dat", "ratings.csv", "u.data"]

/** Opens a folder or file as a stream. */
export async function openData(path: string, options: OpenOptions = {}): Promise<DataStream> {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) throw new DessError("NOT_FOUND", `data: expected a file or folder, got nothing at ${path}`)
  const file = stats.isDirectory() ? findRatings(path) : path
  const known = RATINGS_FILES.includes(basename(file))
  const { ratingScale = DEFAULT_SCALE, likeThreshold, ...rest } = options
  const columns = await readColumns(file, options.columns ?? {}, ratingScale)
  const movies = known ? await readMovies(dirname(file)) : undefined
  const features = movies === undefined ? undefined : genreFeatures(movies)
  const stream = streamFromColumns({
    ...rest,
    name: nameOf(file),
    columns,
    ...(features === undefined ? {} : { features }),
  })
  return {
    ...stream,
    ratingScale,
    likeThreshold: scaleThreshold(likeThreshold, ratingScale),
    ...(movies === undefined ? {} : { itemTitle: (index) => movies.get(stream.itemName(index))?.title }),
  }
}

/** A like threshold on the declared scale → on the house's. */
export function scaleThreshold(threshold: number | undefined, { min, max }: RatingScale): number {
  if (threshold === undefined) return LIKE_THRESHOLD
  if (threshold >= min && threshold < max) return (threshold * 5) / max
  throw new DessError(
    "INVALID_ARGUMENT",
    `like threshold: expected a number from ${min} to below ${max}, the scale declared, got ${threshold}`,
  )
}

async function readColumns(path: string, choice: ColumnChoice, scale: RatingScale): Promise<Columns> {
  const given = Object.keys(choice).length > 0
  if (basename(path) === "ratings.dat" && !given) return readRatings(path, DAT_LAYOUT, scale)
  if (basename(path) === "u.data" && !given) return readRatings(path, TAB_LAYOUT, scale)
  if (await startsWithBrace(path)) return readJsonRatings(path, choice, scale)
  return readRatings(path, await detectLayout(path, choice), scale)
}

function findRatings(folder: string): string {
  const file = RATINGS_FILES.find((name) => existsSync(join(folder, name)))
  if (file !== undefined) return join(folder, file)
  throw new DessError(
    "NOT_FOUND",
    `data folder: expected ${RATINGS_FILES.join(", ")} or what dess prepare made, got none of them (${folder})`,
  )
}

/** The folder of a MovieLens file, else the file without its endings. */
function nameOf(path: string): string {
  const full = resolve(path)
  if (RATINGS_FILES.includes(basename(full))) return basename(dirname(full))
  return basename(full).replace(/(\.(csv|tsv|txt|json|jsonl|ndjson|inter|dat|gz|zst))+$/i, "")
}

async function startsWithBrace(path: string): Promise<boolean> {
  for await (const chunk of readChunks(path)) return /^(\xef\xbb\xbf)?\s*\{/.test(chunk.toString("latin1", 0, 100))
  return false
}
