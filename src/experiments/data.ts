/** The data of a run: how it is named in flags and grids, found, and opened. */

import { existsSync, readdirSync, statSync } from "node:fs"
import { isAbsolute, join, resolve } from "node:path"
import type { DataStream } from "../datasets/data-stream.ts"
import { nameOf } from "../datasets/formats.ts"
import { parseColumnChoice } from "../datasets/header.ts"
import { isPrepared, readManifest } from "../datasets/manifest.ts"
import { DessError, show } from "../errors.ts"
import { dropUndefined, RUN_OPTIONS, wordsOf } from "../learning/options.ts"
import type { ValueOf } from "../learning/schema.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import type { Order } from "../stream/order.ts"
import { shuffleStream } from "../stream/shuffled.ts"
import type { Stream } from "../stream/stream.ts"
import { synthetic } from "../stream/synthetic/synthetic.ts"

const SYNTHETIC_INTERACTIONS = 100_000
const count = { type: "integer", minimum: 1 } as const

/** Of files and folders. */
const FILE_OPTIONS = {
  columns: {
    type: "string",
    description: "names, or places from 1, of columns that are not recognised",
    examples: ["user=who,item=what,rating=3"],
  },
  ratingScale: { type: "string", description: "scale of the ratings (0-5)", examples: ["0-10"] },
} as const

/** Of the embedded stream. */
const SYNTHETIC_OPTIONS = {
  interactions: { ...count, description: `length of the embedded stream (${SYNTHETIC_INTERACTIONS})` },
  users: { ...count, description: "users of the embedded stream" },
  items: { ...count, description: "items of the embedded stream" },
} as const

/** Options of a data set beside its path; flags and the entries of a grid are made of it. */
export const DATA_OPTIONS = {
  ...FILE_OPTIONS,
  likeThreshold: { ...RUN_OPTIONS.likeThreshold.schema, description: RUN_OPTIONS.likeThreshold.help },
  ...SYNTHETIC_OPTIONS,
} as const

type DataOptions = { -readonly [K in keyof typeof DATA_OPTIONS]?: ValueOf<(typeof DATA_OPTIONS)[K]> }

export interface DataEntry extends DataOptions {
  /** "synthetic", or a file or folder. */
  path: string
  name?: string
}

/** A data set that is there, under the name the tables use. */
export interface GridData extends DataEntry {
  name: string
  /** Bytes of its files: a file of another length is other data. */
  bytes: number
}

/** Refuses options that do not fit the data. */
function checkEntry(entry: DataEntry): void {
  if (entry.ratingScale !== undefined) parseRatingScale(entry.ratingScale)
  if (entry.columns !== undefined) parseColumnChoice(entry.columns)
  const embedded = entry.path === "synthetic"
  for (const key of Object.keys(embedded ? FILE_OPTIONS : SYNTHETIC_OPTIONS) as (keyof DataOptions)[])
    if (entry[key] !== undefined)
      throw new DessError(
        "INVALID_ARGUMENT",
        `data ${wordsOf(key)}: expected with ${embedded ? "a file or folder" : "the synthetic stream only"}, got it with ${show(entry.path)}${embedded ? "" : "; use limit"}`,
      )
}

/** Finds the data of a grid. Relative paths start from `base`. */
export function findData(entry: DataEntry, base: string): GridData {
  checkEntry(entry)
  if (entry.path === "synthetic") {
    const { interactions = SYNTHETIC_INTERACTIONS } = entry
    const name = entry.name ?? (interactions === SYNTHETIC_INTERACTIONS ? "synthetic" : `synthetic-${interactions}`)
    return { ...entry, interactions, name, bytes: 0 }
  }
  const path = isAbsolute(entry.path) ? entry.path : resolve(base, entry.path)
  if (!existsSync(path))
    throw new DessError("NOT_FOUND", `grid data: expected "synthetic", a file or a folder, got nothing at ${path}`)
  // A prepared folder has its name in the manifest.
  const prepared = statSync(path).isDirectory() && isPrepared(path) ? readManifest(path).name : undefined
  const name = entry.name ?? prepared ?? nameOf(path)
  return { ...entry, path, name, bytes: bytesOf(path) }
}

/** Bytes of a file, or of the files directly in a folder. */
function bytesOf(path: string): number {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.size
  return readdirSync(path).reduce((sum, file) => {
    const inner = statSync(join(path, file), { throwIfNoEntry: false })
    return sum + (inner?.isFile() ? inner.size : 0)
  }, 0)
}

/** Opens the data as a stream. */
export async function openEntry(
  entry: DataEntry,
  p: { seed: number; order: Order; limit: number | undefined },
): Promise<Stream & Partial<Pick<DataStream, "likeThreshold" | "ratingScale" | "encoding">>> {
  checkEntry(entry)
  const { path, interactions = SYNTHETIC_INTERACTIONS, users, items, columns, ratingScale, likeThreshold } = entry
  const { seed, order } = p
  if (path === "synthetic") {
    const embedded = synthetic(dropUndefined({ interactions, users, items, seed }))
    return Object.assign(
      order === "shuffled" ? shuffleStream(embedded, seed) : embedded,
      dropUndefined({ likeThreshold }),
    )
  }
  const read = {
    columns: columns === undefined ? undefined : parseColumnChoice(columns),
    ratingScale: ratingScale === undefined ? undefined : parseRatingScale(ratingScale),
  }
  // Loaded when needed: it brings decompression, which the library may never use.
  const { openData } = await import("../datasets/open.ts")
  return openData(path, dropUndefined({ ...p, ...read, likeThreshold }))
}
