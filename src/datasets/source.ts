/** What `dess prepare` was pointed at: which files hold the interactions. */

import { existsSync, readdirSync, statSync } from "node:fs"
import { basename, join } from "node:path"
import { DessError } from "../errors.ts"
import { detectPacking } from "./bytes.ts"
import { partsOf, RATINGS_FILES } from "./formats.ts"
import { FEATURES, INTERACTIONS, ITEMS, isPrepared, USERS } from "./manifest.ts"
import { nothingAt } from "./publishers.ts"

export interface Source {
  /** A word for the manifest. */
  form: "movielens" | "recbole" | "parquet" | "text"
  /** Files of interactions, in the order they are read; several of Parquet, and of sets cut by time. */
  files: string[]
}

const DATA_FILE = /\.(csv|tsv|txt|json|jsonl|ndjson|inter|parquet)(\.gz|\.zst)?$/i

/** Of a published folder with several files (Yelp, Gowalla and Brightkite, RetailRocket) the one with the interactions. */
const PUBLISHED_FILE = /^(yelp_academic_dataset_review\.json|loc-\w+_totalCheckins\.txt|events\.csv)(\.gz)?$/

/** What is left of a prepared folder without its manifest is no data. */
const PREPARED = [INTERACTIONS, ITEMS, USERS, FEATURES]

/** What a MovieLens archive has that is read here; its other files are not unpacked. */
const MOVIELENS_FILE = /^(ratings\.(dat|csv)|movies\.(dat|csv)|u\.(data|item|genre)|genome-(scores|tags)\.csv)$/

/** Which entries of an archive to unpack, by their paths. */
export function chooseEntries(names: readonly string[]): string[] {
  const own = names.filter((name) => !basename(name).startsWith(".") && !name.startsWith("__MACOSX/"))
  const movielens = own.filter((name) => MOVIELENS_FILE.test(basename(name)))
  if (movielens.some((name) => RATINGS_FILES.includes(basename(name)))) return movielens
  return own.filter((name) => DATA_FILE.test(name) || name.endsWith(".item"))
}

/** Finds the interactions in a folder, or detects the form of a file. */
export async function findSource(path: string): Promise<Source> {
  const stats = existsSync(path) ? statSync(path) : undefined
  if (stats === undefined) throw nothingAt(path)
  if (!stats.isDirectory()) return describeFile(path)
  if (isPrepared(path)) {
    throw new DessError(
      "INVALID_ARGUMENT",
      `source: expected data as published, got a folder made by dess prepare (${path})`,
    )
  }
  const ratings = RATINGS_FILES.find((name) => existsSync(join(path, name)))
  if (ratings !== undefined) return describeFile(join(path, ratings))
  const files = readdirSync(path)
    .filter((name) => DATA_FILE.test(name) && !name.startsWith(".") && !PREPARED.includes(name))
    .sort()
  const first = files.filter((name) => PUBLISHED_FILE.test(name) || partsOf(join(path, name)).length > 1)
  if (first.length === 1) return describeFile(join(path, first[0]))
  for (const ending of [".inter", ".parquet", ""]) {
    const alike = files.filter((name) => name.endsWith(ending)).map((name) => join(path, name))
    if (alike.length > 0 && ending === ".parquet") return { form: "parquet", files: alike }
    if (alike.length === 1) return describeFile(alike[0])
  }
  const got = files.length === 0 ? "none" : files.join(", ")
  throw new DessError(
    "NOT_FOUND",
    `data folder: expected ${RATINGS_FILES.join(", ")}, one .inter file, Parquet files or one data file, got ${got} (${path})`,
  )
}

async function describeFile(path: string): Promise<Source> {
  if ((await detectPacking(path)) === "parquet") return { form: "parquet", files: [path] }
  const form = RATINGS_FILES.includes(basename(path)) ? "movielens" : path.endsWith(".inter") ? "recbole" : "text"
  return { form, files: partsOf(path) }
}
