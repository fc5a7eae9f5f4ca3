/** The manifest of a prepared folder. It is written last: a folder without it is incomplete. */

import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { DessError, show } from "../errors.ts"
import type { RatingScale } from "../stream/interaction.ts"
import type { Reading } from "./header.ts"

export type Dedupe = "last" | "first" | "none"

export interface Filters {
  /** Of several rows of one user and item keep the last, the first, or all. */
  dedupe: Dedupe
  /** Users with fewer rows are left out, once. */
  minRatings: number
  /** Users and items with fewer rows are left out, again and again until none has. */
  kCore: number
}

export interface Manifest {
  format: "dess-data"
  version: number
  name: string
  /** `encoding` where the file was not UTF-8. */
  source: { from: string; form: string; bytes: number; encoding?: "latin-1" }
  interactions: number
  users: number
  items: number
  firstTimestamp: number
  lastTimestamp: number
  /** Without ratings: every row is a positive. */
  implicit?: boolean
  /** Which columns of the source were taken for what, and what has to be said loudly of it. */
  reading?: Reading
  notes?: readonly string[]
  /** The scale of the source; the ratings in the folder are on the internal one, 0 to 5. */
  ratingScale: RatingScale
  /** On the scale of the source. */
  likeThreshold: number
  filters: Filters
  /** Rows that each filter took away. */
  dropped: { duplicates: number; minRatings: number; kCore: number }
  features?: { kind: "genres" | "tag-genome"; items: number; columns: string[] }
  files: Record<string, { bytes: number; sha256: string }>
}

export const MANIFEST = "manifest.json"
export const VERSION = 1

export const INTERACTIONS = "interactions.parquet"
export const USERS = "users.parquet"
export const ITEMS = "items.parquet"
export const FEATURES = "features.parquet"

/** Whether a folder was made by `dess prepare`. */
export function isPrepared(folder: string): boolean {
  const path = join(folder, MANIFEST)
  return existsSync(path) && readFileSync(path, "utf8").includes('"dess-data"')
}

/** Reads the manifest and checks the folder against it. */
export function readManifest(folder: string): Manifest {
  const path = join(folder, MANIFEST)
  const manifest = parseManifest(path)
  if (manifest.format !== "dess-data" || manifest.version !== VERSION) {
    const got = `${show(manifest.format)} version ${show(manifest.version)}`
    throw new DessError(
      "INVALID_DATA",
      `manifest: expected "dess-data" version ${VERSION}, got ${got} (${path}); make the folder anew with dess prepare`,
    )
  }
  for (const [name, { bytes }] of Object.entries(manifest.files)) {
    const got = statSync(join(folder, name), { throwIfNoEntry: false })?.size
    if (got === bytes) continue
    throw new DessError(
      "INVALID_DATA",
      `prepared file: expected ${bytes} bytes, got ${got ?? "no file"} (${join(folder, name)}); make the folder anew with dess prepare`,
    )
  }
  return manifest
}

function parseManifest(path: string): Manifest {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Manifest
  } catch (error) {
    throw new DessError("INVALID_DATA", `manifest: expected JSON, got something else (${path})`, { cause: error })
  }
}
