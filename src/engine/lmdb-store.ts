/** The store in one LMDB file, of a directory that is locked. */

import { randomUUID } from "node:crypto"
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs"
import { join } from "node:path"
import type { Database, RootDatabase } from "lmdb"
import { DessError, missingPackage, show } from "../errors.ts"
import type { Side } from "../types.ts"
import { type Lock, lockDirectory } from "./lock.ts"
import type { FixedOptions } from "./options.ts"
import { decodeRecord, encodeRecord, type LogRecord } from "./records.ts"
import { listSnapshots, syncFolder } from "./snapshots.ts"
import type {
  FeedbackChange,
  FeedbackEntry,
  FeedbackKey,
  Forgetting,
  ReadableStore,
  Store,
  StoredItem,
  Writes,
} from "./store.ts"

export const STORE_VERSION = 5

/** A compacted file takes the place of the one before: the highest number counts. */
function fileOf(generation: number): string {
  return `journal-${generation}.mdb`
}

/** The highest number there is; 1 in a new directory. */
function findGeneration(directory: string): number {
  const found = readdirSync(directory).map((name) => Number(/^journal-(\d+)\.mdb$/.exec(name)?.[1] ?? 0))
  return Math.max(1, ...found)
}

/** Removes the files of other numbers and what a crash left half written. */
function removeOthers(directory: string, generation: number): void {
  const own = fileOf(generation)
  for (const name of readdirSync(directory))
    if (/^journal-\d+\.mdb/.test(name) && name !== own && name !== `${own}-lock`) rmSync(join(directory, name))
  syncFolder(directory)
}

/** Says what to install where it is not. */
export async function loadLmdb(): Promise<typeof import("lmdb")> {
  try {
    return await import("lmdb")
  } catch (cause) {
    throw missingPackage("directory", "lmdb", cause)
  }
}

/** Opens the store of a directory that exists, and takes ownership. */
export function openLmdbStore(directory: string): Promise<Store> {
  return open(directory, false)
}

/** The same to read only: nothing in the directory is changed. */
export async function openToRead(directory: string): Promise<ReadableStore> {
  if (!existsSync(directory) || !existsSync(join(directory, fileOf(findGeneration(directory)))))
    throw new DessError("NOT_FOUND", `directory: expected a recommender's, got ${show(directory)}`)
  return open(directory, true)
}

async function open(directory: string, readOnly: boolean): Promise<Store> {
  const lmdb = await loadLmdb()
  const lock = await lockDirectory(directory)
  try {
    const file = fileOf(findGeneration(directory))
    if (!existsSync(join(directory, file)) && listSnapshots(directory).length > 0)
      throw new DessError(
        "INVALID_DATA",
        `directory ${show(directory)}: expected a journal beside its snapshots, got none; bring back ${file}, or begin in another directory`,
      )
    return new LmdbStore(lmdb, { directory, lock, readOnly })
  } catch (cause) {
    await lock.release()
    if (cause instanceof DessError) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new DessError("INVALID_DATA", `directory ${show(directory)}: expected a readable journal, got: ${reason}`, {
      cause,
    })
  }
}

/** What a directory was created with, without opening it; undefined for one that holds nothing yet. */
export async function readCreatedOptions(directory: string): Promise<FixedOptions | undefined> {
  const path = join(directory, fileOf(findGeneration(directory)))
  if (!existsSync(path)) return undefined
  checkLength(path)
  const root = (await loadLmdb()).open({ path, noSubdir: true, readOnly: true, maxDbs: 12 })
  try {
    const meta = root.openDB<unknown, string>({ name: "meta", encoding: "json" })
    return meta.get("options") as FixedOptions | undefined
  } finally {
    await root.close()
  }
}

class LmdbStore implements Store {
  readonly #lmdb: typeof import("lmdb")
  readonly #directory: string
  readonly #lock: Lock
  readonly #readOnly: boolean
  #root!: RootDatabase
  #meta!: Database<unknown, string>
  #log!: Database<Buffer, number>
  #names!: Record<Side, Database<string, number>>
  #items!: Database<StoredItem, number>
  #keys!: Database<number, Buffer>
  #keyOrder!: Database<Buffer, number>
  /** By user, item and type; and the same by item, user and type, without more. */
  #feedback!: Database<FeedbackEntry, [number, number, string]>
  #itemFeedback!: Database<0, [number, number, string]>
  #created: FixedOptions | undefined
  #generation: number
  nextKey = 0
  next = 0

  constructor(lmdb: typeof import("lmdb"), p: { directory: string; lock: Lock; readOnly: boolean }) {
    const { directory } = p
    this.#lmdb = lmdb
    this.#directory = directory
    this.#lock = p.lock
    this.#readOnly = p.readOnly
    this.#generation = findGeneration(directory)
    this.#open()
    if (!p.readOnly) removeOthers(directory, this.#generation)
    const version = this.#meta.get("version")
    if (version !== undefined && version !== STORE_VERSION) {
      void this.#root.close()
      const other = Number(version) < STORE_VERSION ? "export it with the dess that made it" : "use a newer dess"
      throw new DessError(
        "UNSUPPORTED",
        `directory ${show(directory)}: expected version ${STORE_VERSION}, got ${show(version)}; ${other}`,
      )
    }
    this.#created = this.#meta.get("options") as FixedOptions | undefined
    if (p.readOnly) return
    this.next = Number(this.#meta.get("truncated") ?? 0)
    for (const key of this.#log.getKeys({ reverse: true, limit: 1 })) this.next = Math.max(this.next, Number(key) + 1)
    for (const key of this.#keyOrder.getKeys({ reverse: true, limit: 1 })) this.nextKey = Number(key) + 1
  }

  #open(): void {
    // Durable in the plain way: a commit is on disk when its promise resolves. Freed memory is not written out.
    const path = join(this.#directory, fileOf(this.#generation))
    const options = { path, noSubdir: true, overlappingSync: false, noMemInit: false, maxDbs: 12 }
    checkLength(path)
    this.#root = this.#lmdb.open(this.#readOnly ? { ...options, readOnly: true } : options)
    this.#meta = this.#root.openDB({ name: "meta", encoding: "json" })
    // Positions and orders only grow: no 32 bits hold them.
    this.#log = this.#root.openDB({ name: "log", encoding: "binary" })
    this.#names = {
      user: this.#root.openDB({ name: "users", keyEncoding: "uint32", encoding: "string" }),
      item: this.#root.openDB({ name: "itemNames", keyEncoding: "uint32", encoding: "string" }),
    }
    this.#items = this.#root.openDB({ name: "items", keyEncoding: "uint32", encoding: "json" })
    if (this.#readOnly) return
    this.#keys = this.#root.openDB({ name: "keys", keyEncoding: "binary", encoding: "json" })
    this.#feedback = this.#root.openDB({ name: "feedback", encoding: "json" })
    this.#itemFeedback = this.#root.openDB({ name: "itemFeedback", encoding: "json" })
    this.#keyOrder = this.#root.openDB({ name: "keyOrder", encoding: "binary" })
  }

  get created(): FixedOptions | undefined {
    return this.#created
  }

  create(options: FixedOptions): void {
    this.#root.transactionSync(() => {
      this.#meta.putSync("version", STORE_VERSION)
      this.#meta.putSync("id", randomUUID())
      this.#meta.putSync("options", options)
    })
    this.#created = options
  }

  get id(): string {
    return (this.#meta.get("id") as string | undefined) ?? ""
  }

  async write(writes: Writes): Promise<void> {
    await this.#root.transaction(() => {
      for (const { position, record } of writes.log) this.#log.put(position, Buffer.from(encodeRecord(record)))
      for (const { side, index, name } of writes.names)
        if (name === null) this.#names[side].remove(index)
        else this.#names[side].put(index, name)
      for (const { index, item } of writes.items)
        if (item === null) this.#items.remove(index)
        else this.#items.put(index, item)
      for (const { hash, order } of writes.keys) {
        this.#keys.put(hash, order)
        this.#keyOrder.put(order, hash)
      }
      for (const change of writes.feedback) this.#changeFeedback(change)
      if (writes.forgetting !== undefined) this.#meta.put("forgetting", writes.forgetting)
    })
  }

  /** Inside a transaction. */
  #changeFeedback(change: FeedbackChange): void {
    if ("side" in change) {
      const own = change.side === "user" ? this.#feedback : this.#itemFeedback
      const range = { start: [change.index], end: [change.index + 1] } as object
      for (const [first, second, type] of [...own.getKeys(range)] as [number, number, string][]) {
        const [user, item] = change.side === "user" ? [first, second] : [second, first]
        this.#feedback.remove([user, item, type])
        this.#itemFeedback.remove([item, user, type])
      }
      return
    }
    const { user, item, type, entry } = change
    if (entry) {
      this.#feedback.put([user, item, type], entry)
      this.#itemFeedback.put([item, user, type], 0)
    } else {
      this.#feedback.remove([user, item, type])
      this.#itemFeedback.remove([item, user, type])
    }
  }

  feedbackEntry({ user, item, type }: FeedbackKey): FeedbackEntry | undefined {
    return this.#feedback.get([user, item, type])
  }

  *feedback(of: Parameters<Store["feedback"]>[0]): Generator<FeedbackKey & FeedbackEntry> {
    const { user, item, after } = of
    const byItem = user === undefined && item !== undefined
    const start =
      after !== undefined
        ? byItem
          ? [after.item, after.user, after.type]
          : [after.user, after.item, after.type]
        : byItem
          ? [item]
          : user === undefined
            ? undefined
            : item === undefined
              ? [user]
              : [user, item]
    const end = byItem ? [item + 1] : user === undefined ? undefined : [user + 1]
    const range = { ...(start && { start }), ...(end && { end }), exclusiveStart: after !== undefined } as object
    if (byItem)
      for (const [, who, type] of this.#itemFeedback.getKeys(range)) {
        const entry = this.#feedback.get([who, item, type])
        if (entry) yield { user: who, item, type, ...entry }
      }
    else
      for (const { key, value } of this.#feedback.getRange(range))
        yield { user: key[0], item: key[1], type: key[2], ...value }
  }

  *names(side: Side): Generator<{ index: number; name: string }> {
    for (const { key, value } of this.#names[side].getRange()) yield { index: key, name: value }
  }

  *items(): Generator<{ index: number; item: StoredItem }> {
    for (const { key, value } of this.#items.getRange()) yield { index: key, item: value }
  }

  *log(from: number, limit?: number): Generator<{ position: number; record: LogRecord }> {
    for (const { key, value } of this.#log.getRange({ start: from, ...(limit === undefined ? {} : { limit }) }))
      yield { position: key, record: decodeRecord(value, key) }
  }

  async truncate(before: number): Promise<void> {
    // Where it goes on is not to be told from an empty journal.
    await this.#meta.put("truncated", before)
    await this.#removeBefore(this.#log, before)
  }

  hasKey(hash: Buffer): boolean {
    return this.#keys.doesExist(hash)
  }

  async dropKeys(before: number): Promise<void> {
    await this.#removeBefore(this.#keyOrder, before, (hash) => this.#keys.remove(hash))
  }

  /** In portions, so that no transaction is long. */
  async #removeBefore(db: Database<Buffer, number>, end: number, also?: (value: Buffer) => void): Promise<void> {
    for (;;) {
      const found = [...db.getRange({ end, limit: 2000 })].map(({ key, value }) => ({ key, value: Buffer.from(value) }))
      if (found.length === 0) return
      await this.#root.transaction(() => {
        for (const { key, value } of found) {
          also?.(value)
          db.remove(key)
        }
      })
    }
  }

  get forgetting(): Forgetting | null {
    return (this.#meta.get("forgetting") as Forgetting | null | undefined) ?? null
  }

  get bytes(): number {
    return statSync(join(this.#directory, fileOf(this.#generation))).size
  }

  async compact(): Promise<void> {
    const generation = this.#generation + 1
    const copy = join(this.#directory, fileOf(generation))
    rmSync(`${copy}.part`, { force: true })
    await this.#root.backup(`${copy}.part`, true)
    syncFile(`${copy}.part`)
    renameSync(`${copy}.part`, copy)
    syncFolder(this.#directory)
    const old = this.#root
    this.#generation = generation
    this.#open()
    await old.close()
    removeOthers(this.#directory, generation)
  }

  async close(): Promise<void> {
    await this.#root.close()
    await this.#lock.release()
  }
}

function syncFile(path: string): void {
  const file = openSync(path, "r+")
  fsyncSync(file)
  closeSync(file)
}

/**
 * LMDB maps the file, so reading past the end of one that was cut short would end the process. The two first pages say
 * how many there are: page size at byte 48, last page at 144, transaction at 152.
 */
function checkLength(path: string): void {
  if (!existsSync(path)) return
  const { size } = statSync(path)
  const file = openSync(path, "r")
  const head = Buffer.alloc(16_384)
  const read = readSync(file, head, 0, head.length, 0)
  closeSync(file)
  if (read === 0) return
  let [pages, newest] = [2, -1n]
  const page = read > 160 ? head.readUInt32LE(48) : 4096
  for (const at of [0, page]) {
    if (at + 160 > read || head.readUInt32LE(at + 24) !== 0xbeefc0de) continue
    if (head.readBigUInt64LE(at + 152) < newest) continue
    newest = head.readBigUInt64LE(at + 152)
    pages = Number(head.readBigUInt64LE(at + 144)) + 1
  }
  if (size < pages * page)
    throw new DessError(
      "INVALID_DATA",
      `journal: expected ${pages} pages of ${page} bytes, got ${size} bytes: it was cut short`,
    )
}
