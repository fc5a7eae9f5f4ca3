/** A recommender's directory: what it was created with, its journal, and the lock that makes it one opener's. */

import { randomUUID } from "node:crypto"
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { crc32 } from "node:zlib"
import { DessError, show } from "../errors.ts"
import { diskError, makeFolder, removeParts, replaceFile, tryTo } from "./disk.ts"
import { JournalFiles, recoverJournal } from "./journal-files.ts"
import { lockDirectory } from "./lock.ts"
import type { FixedOptions } from "./options.ts"
import { listSnapshots, readNewest } from "./snapshots.ts"

const DESCRIPTION = "dess.json"
/** Of the directory as a whole. Those up to 5 kept their journal in LMDB. */
export const FORMAT = 6

interface Description {
  format: number
  /** Of this directory and no other. */
  id: string
  created: FixedOptions
  /** What was gone when it was recovered, at any time. */
  lost?: readonly string[]
}

/** A directory that is open. */
export interface Directory {
  readonly path: string
  /** What it was created with; undefined for a new one. */
  readonly created: FixedOptions | undefined
  readonly id: string
  readonly files: JournalFiles
  /** Whether it goes on with what is left where something is gone; and what was. */
  readonly isRecovering: boolean
  readonly gone: string[]
  /** What was gone when it was recovered before. */
  readonly lost: readonly string[]
  /** Makes a new one of an empty folder. */
  create(options: FixedOptions): Promise<void>
  close(): Promise<void>
}

export interface DirectoryOptions {
  /** Changes nothing in it. */
  readOnly?: boolean
  /** Mends a damaged journal: keeps all that is whole. */
  recover?: boolean
  /** Gives it up before it is open. */
  signal?: AbortSignal | undefined
}

/** Opens a folder, made when missing, and takes ownership. */
export async function openDirectory(path: string, options: DirectoryOptions = {}): Promise<Directory> {
  const { readOnly = false, recover = false, signal } = options
  if (readOnly && !existsSync(path)) throw notFound(path)
  if (!readOnly) makeOwnFolder(path)
  const lock = await lockDirectory(path)
  try {
    if (!readOnly) tryTo(() => removeParts(path))
    const isDescribed = isReadable(path)
    let description = readDescription(path, recover)
    if (!description && readOnly) throw notFound(path)
    const gone = description && recover ? await recoverJournal(path, description.id, signal) : []
    if (description && !isDescribed) gone.unshift(`${DESCRIPTION}: damaged or missing; it is taken from a snapshot`)
    const lost = description?.lost ?? []
    // With the description, as not every recovery is followed by a snapshot.
    if (description && gone.length > 0) {
      const described = { ...description, lost: [...new Set([...lost, ...gone])] }
      tryTo(() => writeDescription(path, described))
    }
    let files = description ? await JournalFiles.open(path, description.id, { readOnly, signal }) : undefined
    return {
      path,
      isRecovering: recover,
      gone,
      lost,
      get created() {
        return description?.created
      },
      get id() {
        return description?.id ?? ""
      },
      get files() {
        return files as JournalFiles
      },
      async create(created) {
        description = { format: FORMAT, id: randomUUID(), created }
        createFiles(path, description)
        try {
          files = await JournalFiles.open(path, description.id)
        } catch (cause) {
          throw diskError("directory", cause)
        }
      },
      async close() {
        await files?.close()
        if (!readOnly) tryTo(() => removeParts(path))
        await lock.release()
      },
    }
  } catch (cause) {
    await lock.release()
    throw diskError("directory", cause, "give")
  }
}

/** Makes the files of a new directory; nothing of them stays when that fails. */
function createFiles(path: string, description: Omit<Description, "format">): void {
  try {
    JournalFiles.create(path, description.id)
    writeDescription(path, description)
  } catch (cause) {
    // In this order: a description without a journal could not be opened.
    tryTo(() => {
      rmSync(join(path, DESCRIPTION), { force: true })
      JournalFiles.remove(path)
    })
    throw diskError("directory", cause)
  }
}

function makeOwnFolder(path: string): void {
  try {
    makeFolder(path)
    if (!statSync(path).isDirectory()) throw Object.assign(new Error("not a folder"), { code: "ENOTDIR" })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new DessError("INVALID_ARGUMENT", `directory: expected a folder that can be made, got ${code} (${path})`, {
      cause,
    })
  }
}

function notFound(path: string): DessError {
  return new DessError("NOT_FOUND", `directory: expected a recommender's, got ${show(path)}`)
}

/** Whether a journal of a format that is not written any more lies there. */
function isOldFormat(path: string): boolean {
  return existsSync(path) && readdirSync(path).some((name) => /^journal-\d+\.mdb$/.test(name))
}

/** What a directory was created with, without opening it; undefined for one that holds nothing yet. */
export function readCreatedOptions(path: string): FixedOptions | undefined {
  return existsSync(path) ? readDescription(path, false)?.created : undefined
}

function readDescription(path: string, recover: boolean): Description | undefined {
  const file = join(path, DESCRIPTION)
  if (!existsSync(file)) return describeRemains(path, recover)
  const found = parseDescription(readFileSync(file, "utf8")) ?? (recover ? describeFromSnapshot(path) : undefined)
  if (!found)
    throw new DessError(
      "INVALID_DATA",
      `directory ${show(path)}: expected a readable ${DESCRIPTION}, got a damaged one; bring it back from a copy, or open the directory with recover (--recover), which takes it from a snapshot`,
    )
  if (found.format !== FORMAT)
    throw new DessError(
      "UNSUPPORTED",
      `directory ${show(path)}: expected format ${FORMAT}, got ${show(found.format)}; use a newer dess`,
    )
  return found
}

/** What a directory was created with, without opening it; undefined where there is none or it cannot be read. */
export function readCreated(path: string): FixedOptions | undefined {
  const file = join(path, DESCRIPTION)
  return existsSync(file) ? parseDescription(readFileSync(file, "utf8"))?.created : undefined
}

function isReadable(path: string): boolean {
  const file = join(path, DESCRIPTION)
  return existsSync(file) && parseDescription(readFileSync(file, "utf8")) !== undefined
}

function parseDescription(text: string): Description | undefined {
  try {
    const { checksum, description } = JSON.parse(text) as { checksum: number; description: string }
    return crc32(description) === checksum ? (JSON.parse(description) as Description) : undefined
  } catch {
    return undefined
  }
}

/** The same, taken from a snapshot where the description is damaged or missing. */
export function recoverCreated(path: string): FixedOptions | undefined {
  return readCreated(path) ?? findDescription(path)?.created
}

function describeFromSnapshot(path: string): Description | undefined {
  const found = findDescription(path)
  if (found) writeDescription(path, found)
  return found
}

function findDescription(path: string): Description | undefined {
  const { found } = readNewest(listSnapshots(path))
  const { journal, created } = (found?.state.get("engine") ?? {}) as { journal?: string; created?: FixedOptions }
  if (journal === undefined || created === undefined) return undefined
  return { format: FORMAT, id: journal, created }
}

function writeDescription(path: string, { id, created, lost }: Omit<Description, "format">): void {
  const text = JSON.stringify({ format: FORMAT, id, created, lost })
  const checked = JSON.stringify({ checksum: crc32(text), description: text })
  replaceFile(join(path, DESCRIPTION), (append) => append(Buffer.from(`${checked}\n`)))
}

/** A folder without a description must be empty of ours, or one that a crash left before anything was taken. */
function describeRemains(path: string, recover: boolean): Description | undefined {
  if (isOldFormat(path))
    throw new DessError(
      "UNSUPPORTED",
      `directory ${show(path)}: expected format ${FORMAT}, got that of a dess before 0.1, which is no longer read; begin in another directory`,
    )
  if (listSnapshots(path).length === 0 && !JournalFiles.hasEvents(path)) return undefined
  const found = recover ? describeFromSnapshot(path) : undefined
  if (found) return found
  throw new DessError(
    "INVALID_DATA",
    `directory ${show(path)}: expected ${DESCRIPTION} beside its journal and snapshots, got none; bring it back, begin in another directory, or open it with recover (--recover), which takes it from a snapshot that can be read`,
  )
}
