/** Data sets known by name: where their publishers keep them, and how to fetch them. */

import { createReadStream, createWriteStream, existsSync, mkdirSync, renameSync, rmSync } from "node:fs"
import { homedir } from "node:os"
import { basename, join } from "node:path"
import { DessError, show } from "../errors.ts"

const MOVIELENS = "https://files.grouplens.org/datasets/movielens"
const AMAZON = "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles"

const AMAZON_2023 = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_2023/benchmark/5core/rating_only"
const YAMBDA = "https://huggingface.co/datasets/yandex/yambda/resolve/main/flat"

/** The Amazon files are the ratings of 2014 (22.5 and 3.7 million), or the 5-core ratings of 2023. */
export const PUBLISHED: Readonly<Record<string, string>> = {
  "ml-100k": `${MOVIELENS}/ml-100k.zip`,
  "ml-1m": `${MOVIELENS}/ml-1m.zip`,
  "ml-10m": `${MOVIELENS}/ml-10m.zip`,
  "ml-20m": `${MOVIELENS}/ml-20m.zip`,
  "ml-25m": `${MOVIELENS}/ml-25m.zip`,
  "ml-latest": `${MOVIELENS}/ml-latest.zip`,
  "ml-latest-small": `${MOVIELENS}/ml-latest-small.zip`,
  "amazon-books": `${AMAZON}/ratings_Books.csv`,
  "amazon-cds": `${AMAZON}/ratings_CDs_and_Vinyl.csv`,
  "amazon-2023-books": `${AMAZON_2023}/Books.csv.gz`,
  "amazon-2023-cds": `${AMAZON_2023}/CDs_and_Vinyl.csv.gz`,
  "amazon-2023-video-games": `${AMAZON_2023}/Video_Games.csv.gz`,
  gowalla: "https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
  brightkite: "https://snap.stanford.edu/data/loc-brightkite_totalCheckins.txt.gz",
  "yambda-50m-likes": `${YAMBDA}/50m/likes.parquet`,
  "yambda-50m-listens": `${YAMBDA}/50m/listens.parquet`,
  "yambda-5b-likes": `${YAMBDA}/5b/likes.parquet`,
}

/** On what terms the sets of a publisher may be used, in short; what counts is what the publisher says. */
const LICENCES: readonly [RegExp, string][] = [
  [/^ml-/, "GroupLens: research, with acknowledgement, not for sale"],
  [/^amazon-/, "no licence published: research"],
  [/^(gowalla|brightkite)$/, "SNAP: research, cite Cho, Myers and Leskovec 2011"],
  [/^yambda-/, "Apache 2.0"],
]

/**
 * Yambda's as its publisher has them (Git LFS); those of MovieLens' fixed editions as the TensorFlow data sets record them
 * (url_checksums/movielens.txt). Of the others none was found.
 */
const KNOWN: Readonly<Record<string, { bytes: number; sha256: string }>> = {
  "ml-100k": { bytes: 4_924_029, sha256: "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229" },
  "ml-1m": { bytes: 5_917_549, sha256: "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20" },
  "ml-20m": { bytes: 198_702_078, sha256: "96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3" },
  "ml-25m": { bytes: 261_978_986, sha256: "8b21cfb7eb1706b4ec0aac894368d90acf26ebdfb6aced3ebd4ad5bd1eb9c6aa" },
  "yambda-5b-likes": {
    bytes: 767_656_711,
    sha256: "c1778832ffc07e492fe82e4f7a763e896471d1a28a52619232c77f7ba35d26f0",
  },
}

/** Address, terms, size and checksum of a set known by name, to be told before it is fetched. */
export function describePublished(name: string): string {
  const licence = LICENCES.find(([form]) => form.test(name))?.[1] ?? "see the publisher"
  const known = KNOWN[name]
  const size = known ? `${(known.bytes / 1e6).toFixed(0)} MB` : "size as the publisher answers"
  const sum = known ? `SHA-256 ${known.sha256}` : name.startsWith("ml-") ? "MD5 beside it" : "no checksum published"
  return `${PUBLISHED[name]} (${licence}; ${size}; ${sum})`
}

/** The error of a path with nothing there; a set known by name can be fetched. */
export function nothingAt(path: string, expected = "data: expected a file or folder"): DessError {
  const name = basename(path)
  const how = Object.hasOwn(PUBLISHED, name) ? `; to fetch it: dess prepare ${name} --out ${name}` : ""
  return new DessError("NOT_FOUND", `${expected}, got nothing at ${path}${how}`)
}

/** The name of the data set that is published as a file of this name, packed or not. */
export function publishedName(path: string): string | undefined {
  const file = basename(path).replace(/\.(gz|zst)$/i, "")
  return Object.keys(PUBLISHED).find((name) => PUBLISHED[name].endsWith(`/${file}`))
}

export interface DownloadOptions {
  /** Folder the files are kept in. */
  downloads?: string
  /** Address to use instead of the publisher's folder. */
  mirror?: string
  signal?: AbortSignal
}

export interface DownloadProgress {
  done: number
  total?: number
}

const PATIENCE_MILLISECONDS = 60_000

/** Where files fetched by name are kept. */
export function downloadsFolder(): string {
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "dess")
}

/** Fetches a named data set unless it is there already, and returns the file. */
export async function* download(name: string, options: DownloadOptions): AsyncGenerator<DownloadProgress, string> {
  const { downloads = downloadsFolder(), mirror, signal } = options
  const published = PUBLISHED[name]
  const fileName = published.slice(published.lastIndexOf("/") + 1)
  const address = mirror === undefined ? published : `${mirror.replace(/\/+$/, "")}/${fileName}`
  const target = join(downloads, fileName)
  if (existsSync(target)) return target
  const part = `${target}.part`
  try {
    mkdirSync(downloads, { recursive: true })
    yield* fetchFile(address, part, signal)
    await checkKnown(name, part)
    await checkSum(address, part, signal)
    renameSync(part, target)
    return target
  } catch (error) {
    if (error instanceof DessError) throw error
    if (signal?.aborted) throw new DessError("INTERRUPTED", "download interrupted", { cause: error })
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") throw error
    const reason = [error, (error as Error).cause].filter((e) => e instanceof Error).map((e) => e.message)
    throw new DessError(
      "NOT_FOUND",
      `download of ${address}: expected the file, got ${show(reason.join(": "))}; fetch it by other means, put it at ${target} and run the command again`,
      { cause: error },
    )
  } finally {
    rmSync(part, { force: true })
  }
}

async function* fetchFile(address: string, part: string, signal?: AbortSignal): AsyncGenerator<DownloadProgress> {
  const stalled = new AbortController()
  const timer = setTimeout(() => stalled.abort(new Error("no answer for a minute")), PATIENCE_MILLISECONDS)
  const out = createWriteStream(part)
  const failure = new Promise<never>((_, reject) => out.once("error", reject))
  failure.catch(() => {})
  try {
    const response = await fetch(address, {
      signal: signal === undefined ? stalled.signal : AbortSignal.any([stalled.signal, signal]),
      // The bytes as they are kept, so that the length announced is the length that comes.
      headers: { "accept-encoding": "identity" },
    })
    if (!response.ok || response.body === null) throw new Error(`status ${response.status}`)
    const length = response.headers.get("content-length")
    const total = length === null ? undefined : Number(length)
    let done = 0
    for await (const chunk of response.body) {
      timer.refresh()
      done += chunk.length
      if (!out.write(chunk))
        await Promise.race([new Promise<void>((drained) => out.once("drain", () => drained())), failure])
      yield total === undefined ? { done } : { done, total }
    }
    await Promise.race([new Promise<void>((closed) => out.end(() => closed())), failure])
    if (total !== undefined && done !== total) throw new Error(`${done} of ${total} bytes`)
  } finally {
    clearTimeout(timer)
    out.destroy()
    // Opened late, the file would come into being after it was removed.
    if (!out.closed) await new Promise<void>((closed) => out.once("close", () => closed()))
  }
}

/** A file whose checksum is known has to have it. */
async function checkKnown(name: string, path: string): Promise<void> {
  const known = KNOWN[name]
  if (!known) return
  const got = await digest("sha256", path)
  if (got !== known.sha256)
    throw new DessError("INVALID_DATA", `download of ${name}: expected SHA-256 ${known.sha256}, got ${got}; try again`)
}

async function digest(kind: "md5" | "sha256", path: string): Promise<string> {
  const { createHash } = process.getBuiltinModule("node:crypto")
  const hash = createHash(kind)
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer)
  return hash.digest("hex")
}

/** GroupLens keeps the MD5 beside the file; where there is none, or none comes, the length has to do. */
async function checkSum(address: string, path: string, signal?: AbortSignal): Promise<void> {
  const late = AbortSignal.timeout(PATIENCE_MILLISECONDS)
  const ask = async () => {
    const response = await fetch(`${address}.md5`, {
      signal: signal === undefined ? late : AbortSignal.any([late, signal]),
    })
    return response.ok ? await response.text() : ""
  }
  const text = await ask().catch((error: unknown) => {
    if (signal?.aborted) throw error
    return ""
  })
  const expected = /\b[0-9a-f]{32}\b/i.exec(text.slice(0, 200))?.[0].toLowerCase()
  if (expected === undefined) return
  const got = await digest("md5", path)
  if (got === expected) return
  throw new DessError("INVALID_DATA", `download of ${address}: expected MD5 ${expected}, got ${got}; try again`)
}
