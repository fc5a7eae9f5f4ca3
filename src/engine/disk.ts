/** Atomic file operations, and the errors they fail with. */

import {
  chmodSync,
  closeSync,
  existsSync,
  fchmodSync,
  fdatasync,
  fsync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rm,
  rmSync,
  write,
  writeSync,
} from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { DessError } from "../errors.ts"

export const PRIVATE_FILE = 0o600
const PRIVATE_FOLDER = 0o700
/** Bytes of a long file that are flushed together: whoever flushes another file meanwhile waits for them. */
const FLUSH_BYTES = 2 ** 22

const writeSome = promisify(write)
const synced = promisify(fdatasync)
const syncedFolder = promisify(fsync)
const removed = promisify(rm)

/** The error of a failing disk; without a path, which callers must not see. */
export function diskError(noun: string, cause: unknown, verb: "take" | "give" = "take"): DessError {
  if (cause instanceof DessError) return cause
  const { code, message } = cause as NodeJS.ErrnoException
  return new DessError("UNAVAILABLE", `${noun}: expected the disk to ${verb} it, got ${code ?? message}`, { cause })
}

/** Whether the system refused something, not the program. */
export function isSystemError(cause: unknown): cause is NodeJS.ErrnoException {
  return cause instanceof Error && (cause as NodeJS.ErrnoException).syscall !== undefined
}

/** Makes a folder and those above it that are missing, for its owner alone. */
export function makeFolder(path: string): void {
  // Not `recursive`: in folders that take none, such as /proc, it never comes to an end.
  const missing: string[] = []
  for (let at = path; !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.push(at)
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, { mode: PRIVATE_FOLDER })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    }
  }
}

/** Writes all of some bytes at a place. */
export async function writeAll(file: number, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await writeSome(file, bytes, done, bytes.length - done, at + done)
    done += bytesWritten
  }
}

/** Resolves when what was written is on disk. */
export function syncData(file: number): Promise<void> {
  return synced(file)
}

/** What is written beside the place of a file, until it takes it. */
class Part {
  readonly #path: string
  readonly file: number
  #isOpen = true

  constructor(path: string) {
    this.#path = path
    this.file = openSync(`${path}.part`, "w", PRIVATE_FILE)
  }

  place(): void {
    this.#isOpen = false
    closeSync(this.file)
    // Not while others get a turn: what reads the file by what is known of it must not find the new one yet.
    renameSync(`${this.#path}.part`, this.#path)
  }

  discard(): void {
    if (this.#isOpen) tryTo(() => closeSync(this.file))
    tryTo(() => rmSync(`${this.#path}.part`, { force: true }))
  }
}

/**
 * A file that appears whole under its name, or not at all: written beside it, flushed, renamed. Where it fails the name
 * stands for what it stood for before, unless only the folder could not be flushed.
 */
export function replaceFile(path: string, writeTo: (append: (bytes: Uint8Array) => void) => void): void {
  const part = new Part(path)
  try {
    writeTo((bytes) => {
      for (let at = 0; at < bytes.length; ) at += writeSync(part.file, bytes, at)
    })
    fsyncSync(part.file)
    part.place()
  } catch (error) {
    part.discard()
    throw error
  }
  const folder = openFolder(dirname(path))
  if (folder === undefined) return
  try {
    fsyncSync(folder)
  } catch (error) {
    refuseUnflushed(error)
  } finally {
    tryTo(() => closeSync(folder))
  }
}

/** The same for what is written bit by bit, while others get a turn; but the folder is not flushed. */
export async function replaceFileSlowly(
  path: string,
  writeTo: (
    append: (bytes: Uint8Array) => Promise<void>,
    rewrite: (bytes: Uint8Array, at: number) => Promise<void>,
  ) => Promise<void>,
): Promise<void> {
  const part = new Part(path)
  let [length, flushed] = [0, 0]
  try {
    await writeTo(
      async (bytes) => {
        await writeAll(part.file, bytes, length)
        length += bytes.length
        if (length - flushed < FLUSH_BYTES) return
        await syncData(part.file)
        flushed = length
      },
      (bytes, at) => writeAll(part.file, bytes, at),
    )
    await syncData(part.file)
    part.place()
  } catch (error) {
    part.discard()
    throw error
  }
}

/** Makes renames and removals in a folder durable. */
export async function syncFolder(directory: string): Promise<void> {
  const folder = openFolder(directory)
  if (folder === undefined) return
  try {
    await syncedFolder(folder)
  } catch (error) {
    refuseUnflushed(error)
  } finally {
    tryTo(() => closeSync(folder))
  }
}

/** Undefined on systems that do not let a folder be opened; there is nothing to flush then. */
function openFolder(directory: string): number | undefined {
  try {
    return openSync(directory, "r")
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "EISDIR" || code === "EPERM" || code === "EACCES") return undefined
    throw error
  }
}

/** Some systems do not flush folders. */
function refuseUnflushed(error: unknown): void {
  const { code } = error as NodeJS.ErrnoException
  if (code !== "EINVAL" && code !== "EPERM") throw error
}

/** Removes a file where there is one; a large one takes a while. */
export function removeFile(path: string): Promise<void> {
  return removed(path, { force: true })
}

/** Names of a folder that changed. They are made durable by one at a time, while others get a turn. */
export class FolderNames {
  readonly #folder: string
  #isUnsettled = false
  #leaving: string[] = []
  #last: Promise<unknown> = Promise.resolve()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Something was renamed or removed. `leaving`: files that go once what took their place is durable. */
  changed(leaving: readonly string[] = []): void {
    this.#isUnsettled = true
    this.#leaving.push(...leaving)
  }

  /** Resolves when all that changed before is durable; what could not be done is tried again with the next. */
  settle(): Promise<void> {
    const run = this.#last.then(() => this.#settle())
    this.#last = run.catch(() => {})
    return run
  }

  async #settle(): Promise<void> {
    if (!this.#isUnsettled) return
    this.#isUnsettled = false
    const leaving = this.#leaving.splice(0)
    try {
      await syncFolder(this.#folder)
      for (const path of leaving) await removeFile(path)
      if (leaving.length > 0) await syncFolder(this.#folder)
    } catch (error) {
      this.changed(leaving)
      throw error
    }
  }
}

/** Makes a file readable to its owner only. */
export function makePrivate(file: string | number): void {
  tryTo(() => (typeof file === "string" ? chmodSync(file, PRIVATE_FILE) : fchmodSync(file, PRIVATE_FILE)))
}

/** Does what may fail without harm. */
export function tryTo(action: () => void): void {
  try {
    action()
  } catch {
    // It was worth a try.
  }
}

/** Removes what was being written when it failed or the process died. Nothing may be written meanwhile. */
export function removeParts(directory: string): void {
  for (const name of readdirSync(directory))
    if (/^(dess\.json|journal-\d+\.log|snapshot-\d+\.safetensors|lookup-\d+(-\d+\.run(\.over)?)?)\.part$/.test(name))
      rmSync(join(directory, name), { recursive: true, force: true })
}

/** Keeps the process until something is done that does not do so by itself. */
export async function keepAlive<T>(work: Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, 2 ** 30)
  try {
    return await work
  } finally {
    clearInterval(timer)
  }
}
