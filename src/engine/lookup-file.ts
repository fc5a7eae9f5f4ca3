/** The LMDB file of the lookup table: its tables, with a checksum on every value. */

import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs"
import { open } from "node:fs/promises"
import { basename, join } from "node:path"
import { crc32 } from "node:zlib"
import type { Database, RootDatabase } from "lmdb"
import { DessError, missingPackage, show } from "../errors.ts"
import { behind, type KeyRange } from "./lookup-keys.ts"

export type Lmdb = typeof import("lmdb")

const VERSION = 1
const REMEDY = "delete the lookup files (lookup-*); they are made again from the journal"
/** Room for the readers LMDB allows for. */
const LOCK_BYTES = 16_384
/** What a disk must take before LMDB is asked to write. */
const ROOM = Buffer.alloc(262_144)

/** Says what to install where it is not. */
export async function loadLmdb(): Promise<Lmdb> {
  try {
    return await import("lmdb")
  } catch (cause) {
    throw missingPackage("directory", "lmdb", cause)
  }
}

/** The error of a file that cannot be used as it is. */
export function damaged(where: string, problem: string, cause?: unknown): DessError {
  return new DessError("INVALID_DATA", `lookup ${where}: ${problem}; ${REMEDY}`, { cause })
}

/** The error of a disk or system that does not do what it is asked to now. */
export function unavailable(what: string, cause: unknown): DessError {
  if (cause instanceof DessError) return cause
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new DessError("UNAVAILABLE", `lookup: expected to ${what}, got: ${reason}`, { cause })
}

export interface Row {
  key: Buffer
  value: Buffer
}

export class Table {
  readonly name: string
  readonly #db: Database<Buffer, Buffer>

  constructor(name: string, root: RootDatabase) {
    this.name = name
    this.#db = root.openDB({ name, keyEncoding: "binary", encoding: "binary" })
  }

  get(key: string): Buffer | undefined {
    const bytes = Buffer.from(key, "latin1")
    const sealed = this.#db.get(bytes)
    return sealed && this.#unseal(bytes, sealed)
  }

  /** At most so many, in order. Nothing of it changes afterwards. */
  rows({ start, end }: KeyRange, limit: number): Row[] {
    const range = { start: Buffer.from(start, "latin1"), limit, ...(end && { end: Buffer.from(end, "latin1") }) }
    const rows: Row[] = []
    for (const { key, value } of this.#db.getRange(range))
      rows.push({ key: Buffer.from(key), value: Buffer.from(this.#unseal(key, value)) })
    return rows
  }

  /** Inside a transaction. `last`: the key comes after all there are. */
  put(key: string | Buffer, value: string | Buffer, last = false): void {
    const bytes = typeof key === "string" ? Buffer.from(key, "latin1") : key
    const content = typeof value === "string" ? Buffer.from(value) : value
    const sealed = Buffer.allocUnsafe(4 + content.length)
    sealed.writeUInt32LE(crc32(content, crc32(bytes)), 0)
    content.copy(sealed, 4)
    const taken: unknown = this.#db.putSync(bytes, sealed, { append: last })
    if (taken !== true) throw damaged(`table ${this.name}`, "expected keys in order, got one out of order")
  }

  /** Inside a transaction. */
  remove(key: string | Buffer): void {
    this.#db.removeSync(typeof key === "string" ? Buffer.from(key, "latin1") : key)
  }

  #unseal(key: Buffer, sealed: Buffer): Buffer {
    const content = sealed.subarray(4)
    if (sealed.length >= 4 && sealed.readUInt32LE(0) === crc32(content, crc32(key))) return content
    throw damaged(`table ${this.name}`, "expected a value with its checksum, got a damaged one")
  }
}

const NAMES = ["meta", "feedback", "itemFeedback", "keys", "keyOrder", "notes"] as const
export type Tables = Record<(typeof NAMES)[number], Table>

export class LookupFile {
  readonly path: string
  readonly #root: RootDatabase
  #tables: Tables | undefined

  private constructor(path: string, root: RootDatabase) {
    this.path = path
    this.#root = root
  }

  /** Opens a file that has been made before. */
  static open(lmdb: Lmdb, path: string): LookupFile {
    const file = new LookupFile(path, openRoot(lmdb, path, { noSync: false }))
    try {
      file.#openTables()
      file.#checkVersion()
      return file
    } catch (cause) {
      file.close().catch(() => {})
      throw cause
    }
  }

  /** Makes an empty file; it is durable only when the caller has synced it as a whole. */
  static async create(lmdb: Lmdb, path: string): Promise<LookupFile> {
    const file = new LookupFile(path, openRoot(lmdb, path, { noSync: true }))
    try {
      // A failed write outside such a transaction would leave LMDB's memory in disorder.
      await file.transaction(() => {
        file.#openTables()
        file.putNumber("version", VERSION)
      })
      return file
    } catch (cause) {
      await file.close()
      throw cause
    }
  }

  #openTables(): void {
    this.#tables = Object.fromEntries(NAMES.map((name) => [name, new Table(name, this.#root)])) as Tables
  }

  get tables(): Tables {
    return this.#tables as Tables
  }

  get bytes(): number {
    return statSync(this.path).size
  }

  /** A number kept with it. */
  number(name: string): number | undefined {
    const value = this.tables.meta.get(name)
    return value && Number(value.toString())
  }

  /** Inside a transaction. */
  putNumber(name: string, value: number): void {
    this.tables.meta.put(name, String(value))
  }

  /** All or nothing, and durable when it resolves. After a rejection the file must be closed. */
  async transaction<T>(work: () => T): Promise<T> {
    try {
      return await this.#root.transaction(work)
    } catch (error) {
      throw await reasonOf(error)
    }
  }

  /** Once closed it can be opened again at once: nothing may be under way. */
  close(): Promise<void> {
    // Without writes to wait for, LMDB closes before it returns, so that no read finds it closing.
    Object.assign(this.#root, { _endWrites: undefined })
    return this.#root.close()
  }

  #checkVersion(): void {
    const version = this.number("version")
    if (version !== VERSION)
      throw damaged(basename(this.path), `expected format ${VERSION}, got ${show(version ?? "none")}`)
  }

  /** Copies everything into a file just made. Nothing may be written to this one meanwhile. */
  async copyTo(target: LookupFile, portion: number): Promise<void> {
    for (const name of NAMES)
      for (let start: string | undefined = "\0"; start !== undefined; ) {
        const rows: Row[] = this.tables[name].rows({ start, end: undefined }, portion)
        await target.transaction(() => {
          for (const { key, value } of rows) target.tables[name].put(key, value, name !== "meta")
        })
        start = rows.length < portion ? undefined : behind(rows[rows.length - 1].key.toString("latin1"))
      }
  }
}

function openRoot(lmdb: Lmdb, path: string, p: { noSync: boolean }): RootDatabase {
  checkLength(path)
  reserveLock(`${path}-lock`)
  tryHandles(path)
  const options = {
    ...p,
    path,
    noSubdir: true,
    permissionsMode: 0o600,
    maxDbs: 12,
    noMemInit: false,
    // Durable in the plain way: a commit is on disk when its promise resolves.
    overlappingSync: false,
    // Otherwise LMDB makes a second promise for each transaction that rejects without anybody hearing it.
    eventTurnBatching: false,
  }
  return lmdb.open(options)
}

/** Why a transaction failed. A failed commit tells it by a promise of its own. */
async function reasonOf(error: unknown): Promise<unknown> {
  const reported = (error as { commitError?: Promise<never> } | null)?.commitError
  if (!reported) return error
  const timeout = new Promise((resolve) => setTimeout(resolve, 1000, error).unref())
  return Promise.race([reported.catch((reason: unknown) => reason), timeout])
}

/**
 * LMDB maps its lock file. On a full disk, writing to a part of it that has no place yet would end the process, so
 * the place is taken first.
 */
function reserveLock(path: string): void {
  if (existsSync(path) && statSync(path).size >= LOCK_BYTES) return
  const file = openSync(path, "w", 0o600)
  try {
    writeSync(file, Buffer.alloc(LOCK_BYTES))
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  chmodSync(path, 0o600)
}

/**
 * LMDB ends the process where it fails to open a file (it frees its environment twice). So what it needs is tried
 * first: the right to write, handles, and room for the head of a new file.
 */
function tryHandles(path: string): void {
  const handles: number[] = []
  try {
    const isNew = !existsSync(path)
    if (isNew) {
      handles.push(openSync(path, "wx", 0o600))
      writeSync(handles[0], Buffer.alloc(65_536))
      fsyncSync(handles[0])
      ftruncateSync(handles[0], 0)
    }
    while (handles.length < 4) handles.push(openSync(path, "r+"))
  } finally {
    for (const handle of handles) closeSync(handle)
  }
}

/**
 * A write that fails inside a transaction of LMDB's can end the process, too. So a disk that takes no writes is found out
 * before, with a file of our own.
 */
export async function tryRoom(directory: string): Promise<void> {
  const path = join(directory, "lookup-0.part")
  const file = await open(path, "w", 0o600)
  try {
    await file.writeFile(ROOM)
    await file.datasync()
  } finally {
    await file.close()
    rmSync(path, { force: true })
  }
}

/**
 * LMDB maps the file, so reading past the end of one that was cut short would end the process. The two first pages say
 * how many there are: page size at byte 48, last page at 144, transaction at 152.
 */
function checkLength(path: string): void {
  if (!existsSync(path)) return
  const { size } = statSync(path)
  // Of two pages of up to 64 KiB, as much as is looked at.
  const head = Buffer.alloc(65_536 + 160)
  const file = openSync(path, "r")
  let read = 0
  try {
    read = readSync(file, head, 0, head.length, 0)
  } finally {
    closeSync(file)
  }
  let [pages, newest] = [2, -1n]
  const page = read > 160 ? head.readUInt32LE(48) : 4096
  for (const at of [0, page]) {
    if (at + 160 > read || head.readUInt32LE(at + 24) !== 0xbeefc0de) continue
    if (head.readBigUInt64LE(at + 152) < newest) continue
    newest = head.readBigUInt64LE(at + 152)
    pages = Number(head.readBigUInt64LE(at + 144)) + 1
  }
  if (newest < 0n) throw damaged(basename(path), "expected an LMDB file, got another")
  if (size < pages * page)
    throw damaged(basename(path), `expected ${pages} pages of ${page} bytes, got ${size} bytes: the file was cut short`)
}
