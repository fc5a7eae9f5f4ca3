/** Where the file of the lookup table lies. A compacted file takes the place of the one before: the highest number counts. */

import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from "node:fs"
import { basename, join } from "node:path"
import { DessError } from "../errors.ts"
import { damaged, type Lmdb, LookupFile, unavailable } from "./lookup-file.ts"

const OWN = /^lookup-(\d+)\.(mdb|mdb-lock|part)$/

function pathOf(directory: string, generation: number): string {
  return join(directory, `lookup-${generation}.mdb`)
}

/** The number of the file that counts; undefined where there is none. */
export function findGeneration(directory: string): number | undefined {
  const found = readdirSync(directory).flatMap((name) => {
    const match = OWN.exec(name)
    return match?.[2] === "mdb" ? [Number(match[1])] : []
  })
  return found.length === 0 ? undefined : Math.max(...found)
}

/** Opens the file of a number. */
export function openFile(lmdb: Lmdb, directory: string, generation: number): LookupFile {
  const path = pathOf(directory, generation)
  try {
    return LookupFile.open(lmdb, path)
  } catch (cause) {
    if (cause instanceof DessError) throw cause
    const { code, message } = cause as { code?: unknown; message: string }
    // LMDB's own codes are about the file, the system's about the moment.
    if (typeof code === "number" && code < 0) throw damaged(basename(path), `expected a readable file, got: ${message}`)
    throw unavailable(`open ${path}`, cause)
  }
}

/** Removes the files of other numbers and what a crash left half written; all where no number is given. */
export function removeOthers(directory: string, generation?: number): void {
  const own = generation === undefined ? "" : `lookup-${generation}.mdb`
  for (const name of readdirSync(directory))
    if (OWN.test(name) && name !== own && name !== `${own}-lock`)
      rmSync(join(directory, name), { recursive: true, force: true })
  syncDirectory(directory)
}

/**
 * Makes the file of a number: written and synced in a folder of its own that nobody else can read, and put in its place
 * last. After a failure it is not there. Where even taking it back fails it counts from now on: undefined, to be opened
 * later.
 */
export async function createFile(
  lmdb: Lmdb,
  p: { directory: string; generation: number; fill: (draft: LookupFile) => Promise<void> },
): Promise<LookupFile | undefined> {
  const place = pathOf(p.directory, p.generation)
  const part = place.replace(/\.mdb$/, ".part")
  const path = join(part, basename(place))
  try {
    rmSync(part, { recursive: true, force: true })
    mkdirSync(part, { mode: 0o700 })
    await writeDraft(await LookupFile.create(lmdb, path), p.fill)
    renameSync(path, place)
  } catch (cause) {
    throw unavailable(`write ${place}`, cause)
  } finally {
    attempt(() => rmSync(part, { recursive: true, force: true }))
  }
  try {
    syncDirectory(p.directory)
    return openFile(lmdb, p.directory, p.generation)
  } catch (cause) {
    if (!attempt(() => rmSync(place))) return undefined
    attempt(() => rmSync(`${place}-lock`, { force: true }))
    throw cause
  }
}

async function writeDraft(draft: LookupFile, fill: (draft: LookupFile) => Promise<void>): Promise<void> {
  try {
    await fill(draft)
  } finally {
    await draft.close()
  }
  const file = openSync(draft.path, "r+")
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Whether it was done. What is left goes at the next start at the latest. */
function attempt(work: () => void): boolean {
  try {
    work()
    return true
  } catch {
    return false
  }
}

/** Makes names in a folder durable. Some systems do not let a folder be opened; there is nothing to flush then. */
function syncDirectory(directory: string): void {
  if (process.platform === "win32") return
  const folder = openSync(directory, "r")
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
