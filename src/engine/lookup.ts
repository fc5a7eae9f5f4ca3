/**
 * The lookup table: what must be found by key and must not sit in memory. It is derived from the journal and remembers
 * the position up to which it has been applied, so it can always be brought up to date or made again. What has been
 * added waits in memory; then it is written as a file of its own, and four files of about the same size are made one, in
 * the background. Without a directory the newest of everything is kept in memory.
 */

import { existsSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { DessError } from "../errors.ts"
import type { Side } from "../types.ts"
import { diskError, FolderNames, keepAlive, syncFolder, tryTo } from "./disk.ts"
import {
  allOf,
  behind,
  detailsKey,
  feedbackKey,
  feedbackRange,
  hashKey,
  noteKey,
  notePrefix,
  startBehind,
  tableOf,
  toFeedbackKey,
  toItem,
  toText,
  twinOf,
} from "./lookup-keys.ts"
import { LookupLayer } from "./lookup-layer.ts"
import { overlayPath } from "./overlay.ts"
import { RecentKeys } from "./recent-keys.ts"
import { damagedRun, type KeyRange, mergeRows, type Row, SortedRun, writeRun } from "./sorted-run.ts"
import { createPause, giveWay } from "./turns.ts"
import type { Properties } from "./types.ts"

export interface FeedbackKey extends Record<Side, number> {
  type: string
}

export interface FeedbackEntry {
  /** Seconds. */
  timestamp: number
  comment: string
}

/** Details of an item that choosing does not need. */
export interface ItemDetails {
  title?: string
  properties?: Properties
}

/** What Gorse's clients say about a user or an item and expect to read back. */
export interface Note {
  labels?: unknown
  comment?: string
  timestamp?: string
}

/** A change is absolute: the same changes applied again, in order, give the same table. */
export type LookupChange =
  /** An entry put, or null: taken away. */
  | ({ kind: "feedback"; entry: FeedbackEntry | null } & FeedbackKey)
  /** All entries of an id taken away. */
  | { kind: "dropFeedback"; side: Side; index: number }
  /** An idempotency key: 16 bytes of its hash, and its place in the order of acceptance. */
  | { kind: "key"; hash: Uint8Array; order: number }
  /** A note put, or null: taken away. */
  | { kind: "note"; side: Side; id: string; note: Note | null }
  /** Details of an item put, or null: taken away. */
  | { kind: "details"; item: number; details: ItemDetails | null }

export interface FeedbackRange {
  user?: number | undefined
  item?: number | undefined
  /** Only what comes after it. */
  after?: FeedbackKey | undefined
}

export interface LookupOptions {
  /** Undefined: it is kept in memory. It must exist, and nobody else may have it open. */
  directory: string | undefined
  /** Nothing in the directory is changed. */
  readOnly?: boolean
  /** Called when writing in the background fails. It is not tried again until `flush` has succeeded. */
  onFailure(error: Error): void
  /** Called when damage is found; its result is thrown. */
  onDamage?(error: DessError): DessError
}

/** Changes that are written together, and the most of their bytes in memory. */
const MOST_WAITING = 16_384
const MOST_WAITING_BYTES = 2 ** 23
/** How many times as much may wait while a write is under way. */
const MOST_BEHIND = 3
/** Bytes that are merged even when it is to be closed. */
const QUICK_MERGE_BYTES = 2 ** 24
/** Files of about the same size that are made one. */
const MERGED_TOGETHER = 4
/** Rows read at a time: few at first, as most readers want a page, then twice as many each time. */
const FIRST_PORTION = 64
const LARGEST_PORTION = 2048
const RUN = /^lookup-(\d+)-(\d+)\.run$/
const OVERLAY = /^lookup-\d+-\d+\.run\.over$/
const EVERYTHING: KeyRange = { start: "", end: undefined }

/** A file and the numbers of the writes that are in it, first and last. */
interface NumberedRun {
  run: SortedRun
  first: number
  last: number
}

export class Lookup {
  readonly #options: LookupOptions
  /** What has been added last, and before it what is being written. */
  #newest: LookupLayer
  #frozen: LookupLayer | undefined
  /** Oldest first. */
  #runs: NumberedRun[] = []
  readonly #names: FolderNames
  #applied = 0
  nextKey = 0
  /** Keys before this order no longer count. */
  #keysFrom = 0
  readonly #recentKeys: RecentKeys
  readonly #mostWaitingBytes: number
  /** One write at a time. */
  #queue: Promise<unknown> = Promise.resolve()
  #flushing: Promise<void> | undefined
  /** After a failure: nothing starts by itself. */
  #isQuiet = false
  #merging: Promise<void> | undefined
  #mergesStop = false
  /** Merges begin behind this write: of what is older something is damaged. */
  #damagedUpTo = 0
  #isClosing = false
  #isClosed = false

  /**
   * Opens what is there. In memory the newest are kept: this many keys, and of keys, of feedback and of notes this many bytes.
   * With a directory no more bytes are written together.
   */
  constructor(options: LookupOptions & { mostKeys: number; mostBytes?: number | undefined }) {
    this.#options = options
    const { directory, mostKeys: keys, mostBytes: bytes } = options
    this.#names = new FolderNames(directory ?? "")
    this.#newest = new LookupLayer(directory === undefined ? { keys, bytes } : undefined)
    this.#recentKeys = new RecentKeys(bytes)
    this.#mostWaitingBytes = Math.min(MOST_WAITING_BYTES, bytes ?? MOST_WAITING_BYTES)
    if (directory === undefined) return
    try {
      this.#runs = openRuns(directory)
      if (!options.readOnly)
        for (const path of this.#merged(directory)) {
          rmSync(path, { force: true })
          this.#names.changed()
        }
    } catch (cause) {
      this.#letGo()
      throw diskError("lookup table", cause, "give")
    }
    const { applied, nextKey, keysFrom } = this.#runs.at(-1)?.run.notes ?? { applied: 0, nextKey: 0, keysFrom: 0 }
    this.#applied = applied
    this.nextKey = nextKey
    this.#keysFrom = keysFrom
  }

  /** Changes of records before this position of the journal are durable in it. */
  get applied(): number {
    return this.#applied
  }

  /** Changes waiting in memory. */
  get waiting(): number {
    return this.#options.directory === undefined ? 0 : this.#newest.count + (this.#frozen?.count ?? 0)
  }

  /** Bytes of memory: what waits, what is known of files, and the keys that came last. */
  get heldBytes(): number {
    const layers = this.#newest.bytes + (this.#frozen?.bytes ?? 0) + this.#recentKeys.bytes
    return this.#runs.reduce((sum, { run }) => sum + run.heldBytes, layers)
  }

  /**
   * Of them those that a budget counts: without a directory all. With one they are on disk; what is in memory of files goes
   * by when they were merged, and two openings of one directory must decide alike.
   */
  get keptBytes(): number {
    return this.#options.directory === undefined ? this.heldBytes : 0
  }

  /** Bytes of items' details, where they are not on disk. */
  get detailBytes(): number {
    return this.#options.directory === undefined ? this.#newest.detailBytes : 0
  }

  #check(): void {
    if (this.#isClosed) throw new DessError("CLOSED", "lookup: expected an open one, got one that was closed")
  }

  /** Takes changes of the record at a position. Every read sees them at once; they are durable after a flush. */
  add(changes: readonly LookupChange[], position: number): void {
    this.#check()
    for (const change of changes) {
      this.#newest.change(change)
      if (change.kind !== "key") continue
      this.nextKey = Math.max(this.nextKey, change.order + 1)
      if (this.#options.directory !== undefined) this.#recentKeys.add(change.hash, change.order)
    }
    this.#newest.position = Math.max(this.#newest.position, position)
    if (this.#options.directory === undefined) this.#applied = Math.max(this.#applied, position)
    else this.#flushInBackground()
  }

  #flushInBackground(): void {
    const isFull = this.waiting >= MOST_WAITING || this.#newest.bytes >= this.#mostWaitingBytes
    if (!isFull || this.#isQuiet || this.#flushing || this.#isClosing) return
    this.#flushing = this.#alone(() => this.#flush(0))
      .catch((error: Error) => {
        this.#isQuiet = true
        this.#options.onFailure(error)
      })
      .finally(() => {
        this.#flushing = undefined
        this.#flushInBackground()
      })
  }

  /** Resolves when more changes may wait. Back-pressure: a writer of many changes waits here for the disk. */
  async untilRoom(): Promise<void> {
    const isBehind = () =>
      this.#newest.count > MOST_BEHIND * MOST_WAITING || this.#newest.bytes > MOST_BEHIND * this.#mostWaitingBytes
    while (isBehind() && this.#flushing) await this.#flushing
  }

  /**
   * Makes everything added so far durable, and `applied` at least `position`. Rejects when the disk does not take it.
   * Nothing is lost then, and it can be called again.
   */
  async flush(position: number): Promise<void> {
    await this.#alone(() => this.#flush(position))
    this.#isQuiet = false
  }

  /** Runs after everything that was queued before. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const result = keepAlive(this.#queue.then(work))
    this.#queue = result.catch(() => {})
    return result
  }

  async #flush(position: number): Promise<void> {
    this.#check()
    const { directory } = this.#options
    if (directory === undefined) {
      this.#applied = Math.max(this.#applied, position)
      return
    }
    // What a failure left goes first.
    for (const { run } of [...this.#runs]) await this.#settleRun(run)
    if (this.#frozen) await this.#writeFrozen(directory, this.#frozen)
    const applied = Math.max(this.#applied, this.#newest.position, position)
    const { keysFrom } = this.#runs.at(-1)?.run.notes ?? { keysFrom: 0 }
    if (this.#newest.count > 0 || applied > this.#applied || this.#keysFrom > keysFrom) {
      this.#frozen = this.#newest
      this.#frozen.position = applied
      this.#newest = new LookupLayer()
      await this.#writeFrozen(directory, this.#frozen)
    }
    await this.#settle()
    this.#mergeInBackground()
  }

  async #settleRun(run: SortedRun): Promise<void> {
    try {
      await run.settle()
    } catch (cause) {
      throw diskError("lookup table", cause)
    }
  }

  async #writeFrozen(directory: string, layer: LookupLayer): Promise<void> {
    for (const prefix of layer.dropped) {
      layer.deleteOlder(this.#reading(() => this.#stored(allOf(prefix)).flatMap(({ key }) => [key, twinOf(key)])))
      await giveWay()
    }
    const notes = { applied: layer.position, nextKey: this.nextKey, keysFrom: this.#keysFrom }
    const rows = this.#runs.length === 0 ? kept(layer.rows(EVERYTHING)) : layer.rows(EVERYTHING)
    const number = (this.#runs.at(-1)?.last ?? 0) + 1
    const run = await writeRun(pathOf(directory, number, number), rows, {
      notes,
      isFiltered,
      mostFiltered: layer.filtered,
    })
    this.#runs.push({ run, first: number, last: number })
    this.#frozen = undefined
    this.#names.changed()
    await this.#settle()
  }

  /** Makes the names in the folder durable. */
  async #settle(): Promise<void> {
    const { applied } = this.#runs.at(-1)?.run.notes ?? { applied: 0 }
    try {
      await this.#names.settle()
    } catch (cause) {
      throw diskError("lookup table", cause)
    }
    this.#applied = Math.max(this.#applied, applied)
  }

  // Merging

  #mergeInBackground(): void {
    if (this.#merging || this.#mergesStop) return
    const from = this.#mergeFrom()
    if (from === undefined) return
    const { last } = this.#runs[this.#runs.length - 1]
    this.#merge(from).then(
      () => this.#mergeInBackground(),
      (error: unknown) => {
        // Damage has been reported already. A failing disk is noticed at the next write that matters.
        if (isDamage(error)) this.#damagedUpTo = last
      },
    )
  }

  /** First of the newest files to merge: four or more of the same size class, each class four times the one before. */
  #mergeFrom(): number | undefined {
    let [from, largest, count]: [number | undefined, number, number] = [undefined, -1, 0]
    for (let n = this.#runs.length - 1; n >= 0 && this.#runs[n].first > this.#damagedUpTo; n--) {
      const size = Math.floor(Math.log2(this.#runs[n].run.bytes) / 2)
      if (size > largest) [largest, count] = [size, 0]
      if (size === largest && ++count >= MERGED_TOGETHER) from = n
    }
    return from
  }

  /** Merges a file with all newer ones. Reading and adding go on meanwhile. */
  #merge(from: number): Promise<void> {
    const work = this.#writeMerged(from).finally(() => {
      this.#merging = undefined
    })
    this.#merging = work
    return keepAlive(work)
  }

  async #writeMerged(from: number): Promise<void> {
    const directory = this.#options.directory as string
    const old = this.#runs.slice(from)
    const [{ first }, { last, run: newest }] = [old[0], old[old.length - 1]]
    const keysFrom = this.#keysFrom
    const bytes = old.reduce((sum, { run }) => sum + run.bytes, 0)
    const isOver = () => this.#mergesStop || (this.#isClosing && bytes > QUICK_MERGE_BYTES)
    function* rows(): Generator<Row> {
      for (const row of mergeRows(old.map(({ run }) => run.rows(EVERYTHING)))) {
        if (isOver()) throw new DessError("CLOSED", "lookup: expected to merge its files, it was stopped")
        if (from === 0 && row.value === null) continue
        if (tableOf(row.key) === "k" && Number(row.value) < keysFrom) continue
        yield row
      }
    }
    const mostFiltered = old.reduce((sum, { run }) => sum + run.filtered, 0)
    const notes = { ...newest.notes, keysFrom: Math.max(keysFrom, newest.notes.keysFrom) }
    const run = await this.#reading(() =>
      writeRun(pathOf(directory, first, last), rows(), { notes, isFiltered, mostFiltered }),
    )
    this.#runs.splice(from, old.length, { run, first, last })
    for (const one of old) tryTo(() => one.run.close())
    this.#names.changed(this.#merged(directory))
    await this.#settle()
  }

  /** Files whose rows are in a larger one, and what a crash left half written. */
  #merged(directory: string): string[] {
    const isMerged = ({ first, last }: { first: number; last: number }) =>
      this.#runs.some((one) => one.first <= first && last <= one.last && (one.first < first || last < one.last))
    const overlays = new Set(this.#runs.map(({ run }) => overlayPath(run.path)))
    const names = [
      ...listRuns(directory).flatMap((run) => (isMerged(run) ? run.name : [])),
      ...readdirSync(directory).filter((name) => OVERLAY.test(name) && !overlays.has(join(directory, name))),
    ]
    return names.map((name) => join(directory, name))
  }

  /**
   * Takes what is deleted, or was replaced, under keys that begin with these out of the files, where it stands. Reading
   * and adding go on meanwhile.
   */
  async erase(prefixes: readonly string[]): Promise<void> {
    await this.flush(0)
    if (this.#options.directory === undefined) return
    this.#mergesStop = true
    await this.#merging?.catch(() => {})
    try {
      const runs = this.#runs.map(({ run }) => run)
      const dead = await this.#reading(() => this.#deadKeys(runs, prefixes))
      // The oldest first: what is newer hides it until it is gone.
      for (const [n, run] of runs.entries()) await this.#reading(() => run.takeOut(dead[n]))
      this.#names.changed(this.#merged(this.#options.directory))
      await this.#settle()
    } catch (cause) {
      throw diskError("lookup table", cause)
    } finally {
      this.#mergesStop = false
      this.#mergeInBackground()
    }
  }

  /** Keys by file whose rows there are not the newest, or stand for nothing. */
  async #deadKeys(runs: readonly SortedRun[], prefixes: readonly string[]): Promise<Set<string>[]> {
    const pause = createPause()
    const keys = new Set<string>()
    for (const prefix of prefixes)
      for (const run of runs)
        for (const { key } of run.rows(allOf(prefix))) {
          keys.add(key)
          const turn = pause()
          if (turn) await turn
        }
    const dead = runs.map(() => new Set<string>())
    for (const key of keys) {
      // Its row comes and goes with the other order's.
      if (tableOf(key) === "i") continue
      let isReplaced = false
      for (let n = runs.length - 1; n >= 0; n--) {
        const value = runs[n].get(key)
        if (value === undefined) continue
        if (isReplaced || value === null)
          for (const one of isFeedback(key) ? [key, twinOf(key)] : [key]) dead[n].add(one)
        isReplaced = true
      }
      const turn = pause()
      if (turn) await turn
    }
    return dead
  }

  // Reading

  /** Reads everything once and closes the files; rejects if something is damaged. */
  async checkAll(): Promise<void> {
    try {
      let looked = 0
      for (const { run } of this.#runs)
        for (const _ of run.rows(EVERYTHING)) if (++looked % LARGEST_PORTION === 0) await giveWay()
    } catch (error) {
      this.#letGo()
      throw error
    }
  }

  /** Reports damage. */
  #reading<T>(read: () => T): T {
    this.#check()
    const fail = (error: unknown): never => {
      throw isDamage(error) ? (this.#options.onDamage?.(error) ?? error) : error
    }
    try {
      const result = read()
      return result instanceof Promise ? (result.catch(fail) as T) : result
    } catch (error) {
      return fail(error)
    }
  }

  #get(key: string): string | undefined {
    for (const layer of [this.#newest, this.#frozen]) {
      if (!layer) continue
      const held = layer.get(key)
      if (held !== undefined) return held ?? undefined
      if (layer.hides(key)) return undefined
    }
    return this.#reading(() => {
      for (let n = this.#runs.length - 1; n >= 0; n--) {
        const value = this.#runs[n].run.get(key)
        if (value !== undefined) return value ?? undefined
      }
      return undefined
    })
  }

  /** Reads a range in portions, so that a slow reader does not block writes and merges. */
  *#range(range: KeyRange): Generator<{ key: string; value: string }> {
    let limit = FIRST_PORTION
    for (let start: string | undefined = range.start; start !== undefined; ) {
      const rows: { key: string; value: string }[] = this.#reading(() =>
        this.#some({ start: start as string, end: range.end }, limit),
      )
      yield* rows
      start = rows.length < limit ? undefined : behind(rows[rows.length - 1].key)
      limit = Math.min(LARGEST_PORTION, 2 * limit)
    }
  }

  /** Rows of the files. */
  #stored(range: KeyRange): Row[] {
    return [...kept(mergeRows(this.#runs.map(({ run }) => run.rows(range))))]
  }

  #some(range: KeyRange, limit: number): { key: string; value: string }[] {
    let sources: Generator<Row>[] = this.#runs.map(({ run }) => run.rows(range))
    for (const layer of [this.#frozen, this.#newest]) {
      if (!layer) continue
      if (layer.dropped.size > 0) sources = sources.map((source) => layer.uncover(source))
      sources.push(layer.rows(range))
    }
    const rows: { key: string; value: string }[] = []
    for (const row of kept(mergeRows(sources))) if (rows.push(row) === limit) break
    return rows
  }

  feedbackEntry(key: FeedbackKey): FeedbackEntry | undefined {
    const value = this.#get(feedbackKey(key))
    return value === undefined ? undefined : toEntry(value)
  }

  /**
   * Entries of a user, of an item, of both or of all, in order of (user, item, type); of an item alone in order of
   * (user, type). Types are ordered by their UTF-8 bytes. It goes on while changes are made, and may or may not see
   * those that lie ahead of it.
   */
  *feedback(of: FeedbackRange): Generator<FeedbackKey & FeedbackEntry> {
    for (const { key, value } of this.#range(feedbackRange(of))) yield { ...toFeedbackKey(key), ...toEntry(value) }
  }

  hasKey(hash: Uint8Array): boolean {
    const order = this.#recentKeys.find(hash) ?? this.#get(hashKey(hash))
    return order !== undefined && Number(order) >= this.#keysFrom
  }

  /** Drops the keys before an order; they go from the disk when files are merged. */
  dropKeys(before: number): void {
    this.#keysFrom = Math.max(this.#keysFrom, before)
  }

  note(side: Side, id: string): Note | undefined {
    const value = this.#get(noteKey(side, id))
    return value === undefined ? undefined : toNote(value)[1]
  }

  /** Ids with a note, in a stable order that has nothing to do with time, from behind an id on. */
  *noteIds(side: Side, after?: string): Generator<string> {
    const range = startBehind(allOf(notePrefix(side)), after === undefined ? undefined : noteKey(side, after))
    for (const { value } of this.#range(range)) yield toNote(value)[0]
  }

  details(item: number): ItemDetails | undefined {
    const value = this.#get(detailsKey(item))
    return value === undefined ? undefined : (JSON.parse(toText(value)) as ItemDetails)
  }

  /** Details of all items that have some, in order of their indices, from one on. */
  *allDetails(from = 0): Generator<{ item: number; details: ItemDetails }> {
    const range = { start: detailsKey(from), end: allOf("d").end }
    for (const { key, value } of this.#range(range))
      yield { item: toItem(key), details: JSON.parse(toText(value)) as ItemDetails }
  }

  /** Flushes and closes the files; closes them even if the flush fails. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosing = true
    try {
      if (!this.#options.readOnly) await this.flush(0)
    } finally {
      // A small merge is finished: where many processes come and go, there would be more and more files.
      while (this.#merging) await this.#merging.catch(() => {})
      this.#isClosed = true
      this.#letGo()
    }
  }

  #letGo(): void {
    for (const { run } of this.#runs.splice(0)) tryTo(() => run.close())
  }
}

const isFiltered = (key: string) => tableOf(key) !== "i"
const isFeedback = (key: string) => tableOf(key) === "f"
const isDamage = (error: unknown): error is DessError => error instanceof DessError && error.code === "INVALID_DATA"
const toNote = (value: string) => JSON.parse(toText(value)) as [id: string, note: Note]

function toEntry(value: string): FeedbackEntry {
  const [timestamp, comment] = JSON.parse(toText(value)) as [number, string]
  return { timestamp, comment }
}

/** Rows that are not deleted. */
function* kept(rows: Iterable<Row>): Generator<{ key: string; value: string }> {
  for (const { key, value } of rows) if (value !== null) yield { key, value }
}

function pathOf(directory: string, first: number, last: number): string {
  return join(directory, `lookup-${first}-${last}.run`)
}

/** By their first write; of those that begin with the same one the largest first. */
function listRuns(directory: string): { name: string; first: number; last: number }[] {
  const found = readdirSync(directory).flatMap((name) => {
    const [, first, last] = RUN.exec(name) ?? []
    return first === undefined ? [] : { name, first: Number(first), last: Number(last) }
  })
  return found.sort((a, b) => a.first - b.first || b.last - a.last)
}

/** Opens the files that have every write once. */
function openRuns(directory: string): NumberedRun[] {
  const opened: NumberedRun[] = []
  let next = 1
  try {
    for (const { name, first, last } of listRuns(directory)) {
      if (last < next) continue
      if (first !== next) throw damagedRun(name, `expected write ${next} before it, got none`)
      opened.push({ run: new SortedRun(join(directory, name)), first, last })
      next = last + 1
    }
    return opened
  } catch (cause) {
    for (const { run } of opened) tryTo(() => run.close())
    throw cause
  }
}

/** Whether there is a lookup table. */
export function hasLookup(directory: string): boolean {
  return existsSync(directory) && readdirSync(directory).some((name) => RUN.test(name))
}

/** Removes the files of a lookup table. */
export async function removeLookup(directory: string): Promise<void> {
  for (const name of readdirSync(directory))
    if (RUN.test(name) || OVERLAY.test(name)) rmSync(join(directory, name), { force: true })
  await syncFolder(directory)
}
