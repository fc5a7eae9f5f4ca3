/** The data of a run: how it is named in flags and grids, found, and opened. */

import { createReadStream, existsSync, readdirSync, statSync } from "node:fs"
import { isAbsolute, join, resolve } from "node:path"
import type { DataStream, OpenOptions } from "../datasets/data-stream.ts"
import { describeReading, nameOf } from "../datasets/formats.ts"
import { parseColumnChoice } from "../datasets/header.ts"
import { isPrepared, readManifest } from "../datasets/manifest.ts"
import { nothingAt } from "../datasets/publishers.ts"
import { newTally } from "../datasets/ratings.ts"
import { DessError, show } from "../errors.ts"
import { dropUndefined, RUN_OPTIONS, wordsOf } from "../learning/options.ts"
import type { ValueOf } from "../learning/schema.ts"
import { copyStream } from "../stream/copies.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import type { Order } from "../stream/order.ts"
import { shuffleStream } from "../stream/shuffled.ts"
import type { Stream } from "../stream/stream.ts"
import { CHOICES, synthetic } from "../stream/synthetic/synthetic.ts"
import type { Task } from "../types.ts"

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
  implicit: { type: "boolean", description: "every row is a positive, whether there are ratings or not; ranking only" },
  type: { type: "string", description: "the column that says what kind of event a row is", examples: ["<column>"] },
  types: {
    type: "array",
    items: { type: "string" },
    minItems: 1,
    description: "kinds of events that count (all)",
    examples: ["click,buy"],
  },
  first: { ...count, description: "only the first so many interactions of this data set" },
} as const

/** Of the embedded stream. */
const SYNTHETIC_OPTIONS = {
  interactions: { ...count, description: `length of the embedded stream (${SYNTHETIC_INTERACTIONS})` },
  users: { ...count, description: "users of the embedded stream" },
  items: { ...count, description: "items of the embedded stream" },
  choice: {
    type: "string",
    enum: CHOICES,
    description:
      "how users of the embedded stream choose items: by popularity in their genres, or of these by taste (popular)",
  },
} as const

/** Options of a data set beside its path; flags and the entries of a grid are made of it. */
export const DATA_OPTIONS = {
  ...FILE_OPTIONS,
  likeThreshold: { ...RUN_OPTIONS.likeThreshold.schema, description: RUN_OPTIONS.likeThreshold.help },
  ...SYNTHETIC_OPTIONS,
  copies: { ...count, description: "so many copies of it, interleaved, each with ids of its own (1)" },
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
    const { interactions = SYNTHETIC_INTERACTIONS, choice } = entry
    const parts = [choice === "taste" ? choice : "", interactions === SYNTHETIC_INTERACTIONS ? "" : interactions]
    const name = entry.name ?? ["synthetic", ...parts].filter((part) => part !== "").join("-")
    return { ...entry, interactions, name, bytes: 0 }
  }
  const path = isAbsolute(entry.path) ? entry.path : resolve(base, entry.path)
  if (!existsSync(path)) throw nothingAt(path, 'grid data: expected "synthetic", a file or a folder')
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

/** SHA-256 of a file, or of the files directly in a folder, in the order of their names. */
export async function checksumOf(path: string): Promise<string> {
  const files = statSync(path).isDirectory()
    ? readdirSync(path)
        .sort()
        .map((name) => join(path, name))
        .filter((file) => statSync(file).isFile())
    : [path]
  const { createHash } = process.getBuiltinModule("node:crypto")
  const hash = createHash("sha256")
  for (const file of files)
    for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer)
  return hash.digest("hex")
}

/** Opens the data as a stream. */
export async function openEntry(
  entry: DataEntry,
  p: { seed: number; order: Order; limit: number | undefined; onRead?: OpenOptions["onRead"] },
): Promise<Stream & Partial<Pick<DataStream, "likeThreshold" | "ratingScale" | "encoding" | "implicit" | "notes">>> {
  const { copies = 1, ...one } = entry
  if (copies > 1) {
    const stream = await openEntry(one, { ...p, limit: undefined })
    const { likeThreshold, ratingScale, encoding, implicit, notes } = stream
    return Object.assign(
      copyStream(stream, copies),
      dropUndefined({ likeThreshold, ratingScale, encoding, implicit, notes }),
    )
  }
  checkEntry(entry)
  const { path, interactions = SYNTHETIC_INTERACTIONS, users, items, choice, likeThreshold } = entry
  const { seed, order } = p
  if (path === "synthetic") {
    const embedded = synthetic(dropUndefined({ interactions, users, items, choice, seed }))
    return Object.assign(
      order === "shuffled" ? shuffleStream(embedded, seed) : embedded,
      dropUndefined({ likeThreshold }),
    )
  }
  // Loaded when needed: it brings decompression, which the library may never use.
  const { openData } = await import("../datasets/open.ts")
  const { limit = Number.POSITIVE_INFINITY } = p
  const first = Math.min(limit, entry.first ?? limit)
  const cut = { ...p, limit: first === Number.POSITIVE_INFINITY ? undefined : first }
  return openData(path, dropUndefined({ ...cut, ...readingOf(entry), likeThreshold }))
}

/** How the files of an entry are to be read. */
function readingOf({ columns, ratingScale, implicit, type, types }: DataEntry): OpenOptions {
  const choice = { ...(columns && parseColumnChoice(columns)), ...(type === undefined ? {} : { type }) }
  return dropUndefined({
    columns: Object.keys(choice).length === 0 ? undefined : choice,
    ratingScale: ratingScale === undefined ? undefined : parseRatingScale(ratingScale),
    implicit,
    types,
  }) as OpenOptions
}

/** What has to be said loudly of how the data will be read, by the beginning of its files. */
export async function notesOf(entry: DataEntry): Promise<string[]> {
  if (entry.path === "synthetic") return []
  const { peekData } = await import("../datasets/open.ts")
  return describeReading(await peekData(entry.path, readingOf(entry)), newTally())
}

/** Whether every row of the data is a positive, by the beginning of its files. */
export async function isImplicit(entry: DataEntry): Promise<boolean> {
  checkEntry(entry)
  if (entry.path === "synthetic") return false
  if (entry.implicit) return true
  // What is not there is refused where it is opened.
  if (!existsSync(entry.path)) return false
  const { peekData } = await import("../datasets/open.ts")
  return (await peekData(entry.path, readingOf(entry))).implicit
}

/** Refuses a task that needs ratings where there are none. */
export function checkTask(task: Task, stream: { implicit?: boolean | undefined }, name: string): void {
  if (stream.implicit && task !== "topk")
    throw new DessError(
      "UNSUPPORTED",
      `task: expected topk with data without ratings (${name}), got ${task}; name the column of the ratings with --columns rating=<name> if there is one`,
    )
}
