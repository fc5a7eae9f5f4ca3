/** The lookup table in an LMDB file. What has been added waits in memory until a transaction takes it, with `applied`. */

import { DessError } from "../errors.ts"
import type { Side } from "../types.ts"
import { keepAlive } from "./disk.ts"
import type { FeedbackEntry, FeedbackKey, FeedbackRange, Lookup, LookupChange, Note } from "./lookup.ts"
import { createFile, findGeneration, openFile, removeOthers } from "./lookup-directory.ts"
import { type Lmdb, type LookupFile, loadLmdb, tryRoom, unavailable } from "./lookup-file.ts"
import { feedbackRange, hashKey, noteKey, noteRange, orderKey, toOrder } from "./lookup-keys.ts"
import { LookupOverlay } from "./lookup-overlay.ts"
import { readEntry, readFeedback, readNote, readNoteIds } from "./lookup-reads.ts"
import { removeKeysBefore, writeBatch } from "./lookup-writes.ts"

/** Changes that make a flush start at once. */
const MOST_WAITING = 4000
/** How long a change waits at most before a flush starts. */
const LONGEST_WAIT_MILLISECONDS = 500
/** Rows of one transaction, so that none is long. */
const PORTION = 2000

export interface LmdbLookupOptions {
  /** Called when a flush in the background fails. No other follows until `flush` has succeeded. */
  onFailure(error: Error): void
}

/** Opens the lookup table of a directory that exists and that nobody else has open; makes one where there is none. */
export async function openLmdbLookup(directory: string, options: LmdbLookupOptions): Promise<Lookup> {
  const lmdb = await loadLmdb()
  try {
    const found = findGeneration(directory)
    const generation = found ?? 1
    const fill = async () => {}
    const created = found === undefined ? await createFile(lmdb, { directory, generation, fill }) : undefined
    const file = created ?? openFile(lmdb, directory, generation)
    try {
      removeOthers(directory, generation)
      return new LmdbLookup({ lmdb, directory, generation, file, onFailure: options.onFailure })
    } catch (cause) {
      await file.close()
      throw cause
    }
  } catch (cause) {
    throw unavailable(`open the lookup of ${directory}`, cause)
  }
}

class LmdbLookup implements Lookup {
  readonly #lmdb: Lmdb
  readonly #directory: string
  readonly #onFailure: (error: Error) => void
  readonly #overlay = new LookupOverlay()
  #generation: number
  /** undefined after a failure, when it could not be opened again yet. */
  #file: LookupFile | undefined
  #applied: number
  /** The last position something was added of. */
  #added = 0
  /** Changes ever added, and how many of them are durable. */
  #changes = 0
  #durable = 0
  #nextKey: number
  /** Keys before this order no longer count. */
  #keysFrom = 0
  #timer: NodeJS.Timeout | undefined
  /** One write at a time. */
  #queue: Promise<unknown> = Promise.resolve()
  #flushing = false
  /** After a failure: nothing starts by itself. */
  #quiet = false
  #closed = false

  constructor(p: LmdbLookupOptions & { lmdb: Lmdb; directory: string; generation: number; file: LookupFile }) {
    this.#lmdb = p.lmdb
    this.#directory = p.directory
    this.#generation = p.generation
    this.#file = p.file
    this.#onFailure = p.onFailure
    this.#applied = p.file.number("applied") ?? 0
    this.#nextKey = p.file.number("nextKey") ?? 0
  }

  get applied(): number {
    return this.#applied
  }
  get waiting(): number {
    return this.#changes - this.#durable
  }
  get nextKey(): number {
    return this.#nextKey
  }
  get bytes(): number {
    return this.#open().bytes
  }

  /** The file, opened again where a failure closed it. */
  #open(): LookupFile {
    if (this.#closed) throw new DessError("CLOSED", "lookup: expected an open one, got one that was closed")
    this.#file ??= openFile(this.#lmdb, this.#directory, this.#generation)
    return this.#file
  }

  add(changes: readonly LookupChange[], position: number): void {
    if (this.#closed) throw new DessError("CLOSED", "lookup: expected an open one, got one that was closed")
    for (const change of changes) {
      this.#overlay.change(change)
      if (change.kind === "key") this.#nextKey = Math.max(this.#nextKey, change.order + 1)
    }
    this.#changes += changes.length
    this.#added = Math.max(this.#added, position)
    this.#schedule()
  }

  #schedule(): void {
    if (this.waiting === 0 || this.#quiet || this.#flushing || this.#closed) return
    if (this.waiting >= MOST_WAITING) this.#flushInBackground()
    else this.#timer ??= setTimeout(() => this.#flushInBackground(), LONGEST_WAIT_MILLISECONDS).unref()
  }

  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #flushInBackground(): void {
    this.#stopTimer()
    this.#flushing = true
    this.#alone(() => this.#write(0)).then(
      () => this.#flushed(),
      (error: Error) => {
        this.#quiet = true
        this.#flushed()
        this.#onFailure(error)
      },
    )
  }

  #flushed(): void {
    this.#flushing = false
    this.#schedule()
  }

  async flush(position: number): Promise<void> {
    await this.#alone(() => this.#write(position))
    this.#quiet = false
    if (this.waiting === 0) this.#stopTimer()
    else this.#schedule()
  }

  /** Runs after everything that was queued before. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const result = keepAlive(this.#queue.then(work))
    this.#queue = result.catch(() => {})
    return result
  }

  async #write(position: number): Promise<void> {
    const [changes, applied] = [this.#changes, Math.max(this.#applied, this.#added, position)]
    if (changes === this.#durable && applied === this.#applied) return
    const batch = this.#overlay.snapshot()
    const { nextKey } = this
    await this.#change("write to the disk", (file) =>
      writeBatch(file, batch, { applied, nextKey, keysFrom: this.#keysFrom, portion: PORTION }),
    )
    this.#overlay.settle(batch)
    this.#durable = changes
    this.#applied = applied
  }

  /** Changes the file. After a failure LMDB takes nothing more, so that the file is opened anew. */
  async #change(what: string, work: (file: LookupFile) => Promise<void>): Promise<void> {
    const file = this.#open()
    await tryRoom(this.#directory).catch((cause) => {
      throw unavailable(what, cause)
    })
    try {
      await work(file)
    } catch (cause) {
      this.#file = undefined
      await file.close().catch(() => {})
      try {
        this.#open()
      } catch {
        // The next read or write tries again.
      }
      throw unavailable(what, cause)
    }
  }

  feedbackEntry(key: FeedbackKey): FeedbackEntry | undefined {
    const held = this.#overlay.feedback.get(key)
    if (held) return held.entry ?? undefined
    return this.#overlay.isDropped(key) ? undefined : this.#read((file) => readEntry(file, key))
  }

  feedback(of: FeedbackRange): Iterable<FeedbackKey & FeedbackEntry> {
    return readFeedback(feedbackRange(of), { overlay: this.#overlay, read: (work) => this.#read(work) })
  }

  hasKey(hash: Uint8Array): boolean {
    const key = hashKey(hash)
    const held = this.#overlay.keys.get(key)
    if (held) return held.order >= this.#keysFrom
    const order = this.#read((file) => file.tables.keys.get(key))
    return order !== undefined && toOrder(order) >= this.#keysFrom
  }

  async dropKeys(before: number): Promise<void> {
    this.#keysFrom = Math.max(this.#keysFrom, before)
    await this.#alone(() =>
      this.#change("drop keys", (file) => removeKeysBefore(file, { before: orderKey(before), portion: PORTION })),
    )
  }

  note(side: Side, id: string): Note | undefined {
    const held = this.#overlay.notes.get(noteKey(side, id))
    return held ? (held.note ?? undefined) : this.#read((file) => readNote(file, side, id))
  }

  noteIds(side: Side, after?: string): Iterable<string> {
    return readNoteIds(noteRange(side, after), { overlay: this.#overlay, read: (work) => this.#read(work) })
  }

  #read<T>(work: (file: LookupFile) => T): T {
    try {
      return work(this.#open())
    } catch (cause) {
      throw unavailable("read from the disk", cause)
    }
  }

  async compact(): Promise<void> {
    await this.#alone(async () => {
      // What waits may delete something.
      await this.#write(0)
      const old = this.#open()
      const generation = this.#generation + 1
      const fill = (draft: LookupFile) => old.copyTo(draft, PORTION)
      this.#file = await createFile(this.#lmdb, { directory: this.#directory, generation, fill })
      this.#generation = generation
      await old.close()
      removeOthers(this.#directory, generation)
    }).catch((cause: unknown) => {
      throw unavailable("compact the file", cause)
    })
  }

  async close(): Promise<void> {
    if (this.#closed) return
    try {
      await this.#alone(() => this.#write(0))
    } finally {
      this.#closed = true
      this.#stopTimer()
      const file = this.#file
      this.#file = undefined
      await file?.close()
    }
  }
}
