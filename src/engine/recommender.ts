/**
 * The live recommender: accepts events, journals them, closes segments, has them learned, and reads.
 *
 *   observe → catalogue and journal → (on disk) → segment → training thread → version → recommend
 *
 * Everything that changes the model is a record of the journal, in order; a snapshot is the state after some record.
 * So snapshot and replay give the state of a run that was never interrupted.
 */

import { DessError } from "../errors.ts"
import type { SegmentReport } from "../run/report.ts"
import type { Segment, Side } from "../types.ts"
import { Archive } from "./archive.ts"
import { Broadcast } from "./broadcast.ts"
import { Catalogue } from "./catalogue.ts"
import { checkEvents, checkItems, checkName, toArray } from "./check.ts"
import { Journal } from "./journal.ts"
import { Keys } from "./keys.ts"
import { Learning } from "./learning.ts"
import { type EngineOptions, fixedOptions } from "./options.ts"
import { Reading } from "./reading.ts"
import { type EventsRecord, GONE, joinEvents, type LogRecord } from "./records.ts"
import type { Store, StoredItem } from "./store.ts"
import type { Learned, Totals } from "./trainer.ts"
import type {
  Accepted,
  Event,
  Explanation,
  Id,
  ItemEntry,
  ItemView,
  LiveReport,
  Prediction,
  Receipt,
  Recommendation,
  Recommender,
  RecommendOptions,
  SimilarOptions,
  SnapshotInfo,
  Status,
} from "./types.ts"

/** A timer takes no more. */
const LONGEST_TIMER = 2_147_483_647

export class LiveRecommender implements Recommender {
  readonly #options: EngineOptions
  readonly #store: Store | undefined
  readonly #catalogue: Catalogue
  readonly #journal: Journal
  readonly #learning: Learning
  readonly #reading: Reading
  readonly #keys: Keys
  /** Only with a directory. */
  readonly #archive: Archive | undefined
  readonly #reports = new Broadcast<LiveReport>()
  readonly #opened = Date.now()
  /** Events in the open segment, and when its first was accepted. */
  #open = 0
  #openSince: number | undefined
  #timer: NodeJS.Timeout | undefined
  #segments = 0
  #accepted = 0
  #learned = 0
  #duplicates = 0
  #totals: Totals = { shrunk: { user: 0, item: 0 }, left: { user: 0, item: 0 } }
  #last: LiveReport | undefined
  /** Events learned when a snapshot was ordered last. */
  #orderedAt = 0
  #snapshotFailure: string | undefined
  #lastAttempt = Date.now()
  /** Reports of ids that left, kept back while the journal is replayed. */
  #replaying: Learned[] | undefined
  #state: "learning" | "failed" | "closed" = "learning"
  #reason: string | undefined
  #closing: Promise<void> | undefined
  /** Snapshots and forgetting, one at a time. */
  #chain: Promise<unknown> = Promise.resolve()

  constructor(options: EngineOptions, store: Store | undefined) {
    const { run, features, limits, segment, publishDelay } = options
    this.#options = options
    this.#store = store
    this.#catalogue = new Catalogue(run.likeThreshold)
    this.#journal = new Journal(store, (error) => this.#fail(error))
    this.#learning = new Learning({
      run,
      trainer: { run, features, limits, segment, publishDelay },
      onLearned: (learned, events) => this.#onLearned(learned, events),
      onEnd: (error) => this.#fail(error),
    })
    this.#reading = new Reading(this.#catalogue, this.#learning)
    this.#keys = new Keys(options.keys, this.#journal, store)
    const { directory, keepJournal } = options
    if (store && directory !== undefined)
      this.#archive = new Archive({
        directory,
        keepJournal,
        store,
        journal: this.#journal,
        catalogue: this.#catalogue,
        learning: this.#learning,
      })
  }

  /** Takes up what the directory holds. */
  async start(): Promise<void> {
    await this.#learning.thread.ready()
    const [store, archive] = [this.#store, this.#archive]
    if (!store || !archive) return this.#learning.begin()
    if (!store.created) store.create(fixedOptions(this.#options))
    for (const side of ["user", "item"] as const) {
      for (const { index, name } of store.names(side)) this.#catalogue.names[side].set(index, name)
      this.#catalogue.names[side].recycleAll()
    }
    for (const { index, item } of store.items()) this.#catalogue.put(index, item)
    const { segments, accepted, position } = await archive.restore()
    this.#segments = segments
    this.#accepted = accepted
    this.#learned = accepted
    this.#orderedAt = accepted
    await this.#replay(store, position)
    const { forgetting } = store
    if (forgetting !== null) await this.#exclusive(() => archive.finishForgetting(forgetting, () => this.#counts()))
  }

  async #replay(store: Store, from: number): Promise<void> {
    this.#replaying = []
    let next = from
    let open: { position: number; record: EventsRecord }[] = []
    for (const { position, record } of store.log(from)) {
      if (position !== next)
        throw new DessError(
          "INVALID_DATA",
          `journal: expected record ${next}, got ${position}: a snapshot or records are missing`,
        )
      next++
      if (record.kind === "events") {
        open.push({ position, record })
        this.#take(record)
      } else if (record.kind === "segment") {
        this.#sendSegment(joinEvents(open), record.time, undefined)
        open = []
      } else this.#replayOther(record)
    }
    this.#journal.resume(open, next)
    await this.#learning.begin()
    const reports = this.#replaying
    this.#replaying = undefined
    for (const learned of reports) this.#releaseLeft(learned)
    if (this.#open > 0) this.#arm()
  }

  #replayOther(record: Exclude<LogRecord, { kind: "events" | "segment" }>): void {
    if (record.kind === "features") {
      const { items, values } = record
      this.#learning.order(() => this.#learning.thread.tell({ kind: "features", items, values }))
    } else if (record.kind === "forget") {
      this.#catalogue.drop("user", [record.user])
      void this.#learning.ask({ kind: "forget", side: "user", ids: [record.user] }).catch(() => {})
    } else for (const side of ["user", "item"] as const) this.#catalogue.drop(side, record[side])
  }

  /** Takes events of the open segment into the catalogue. */
  #take(events: EventsRecord): void {
    this.#catalogue.add(events, this.#segments + 1)
    for (const user of events.user) {
      if (user === GONE) continue
      this.#accepted++
      this.#open++
    }
  }

  // Writing

  async observe(given: Event | readonly Event[]): Promise<Accepted> {
    this.#check()
    const events = checkEvents(given, this.#options.scale, Date.now() / 1000)
    if (this.#queue() + events.length > this.#options.queue)
      throw new DessError(
        "BUSY",
        `queue: expected room for ${events.length} events, ${this.#queue()} are waiting; try again later`,
      )
    let duplicates = 0
    for (const { user, item, rating, timestamp, key } of events) {
      if (key !== undefined && !this.#keys.admit(key)) {
        duplicates++
        continue
      }
      const row = { user: this.#index("user", user), item: this.#index("item", item), rating, timestamp }
      this.#journal.event(row)
      this.#catalogue.addOne(row, this.#segments + 1)
      this.#openSince ??= performance.now()
      this.#accepted++
      this.#open++
      if (this.#open >= this.#options.segment) this.#closeSegment()
    }
    this.#duplicates += duplicates
    if (this.#open > 0) this.#arm()
    await this.#journal.committed()
    return { accepted: events.length - duplicates, duplicates }
  }

  #index(side: Side, name: string): number {
    const names = this.#catalogue.names[side]
    const known = names.find(name)
    if (known !== undefined) return known
    const index = names.add(name)
    this.#journal.change("names", { side, index, name })
    return index
  }

  async putItems(given: ItemEntry | readonly ItemEntry[]): Promise<number> {
    this.#check()
    const entries = checkItems(given, this.#options.features)
    const items: number[] = []
    const values: (readonly number[] | null)[] = []
    for (const { item, features, categories, hidden } of entries) {
      const index = this.#index("item", item)
      const before = this.#catalogue.entry(index)
      const entry: StoredItem = {
        categories: categories ?? before.categories,
        hidden: hidden ?? before.hidden,
        features: features === undefined ? before.features : features,
      }
      this.#catalogue.put(index, entry)
      this.#journal.change("items", { index, item: entry })
      if (features === undefined) continue
      items.push(index)
      values.push(features)
    }
    if (items.length > 0) {
      this.#journal.append({ kind: "features", items, values })
      this.#journal.after(() =>
        this.#learning.order(() => this.#learning.thread.tell({ kind: "features", items, values })),
      )
    }
    await this.#journal.committed()
    return entries.length
  }

  #queue(): number {
    return this.#accepted - this.#learned
  }

  /** Has the open segment closed after the delay. */
  #arm(): void {
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined
        if (this.#state === "learning") this.#closeSegment()
      },
      Math.min(this.#options.delay, LONGEST_TIMER),
    )
  }

  /** Journals the boundary; the segment is learned once that is on disk. */
  #closeSegment(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#open === 0) return
    const rows = this.#journal.openRows()
    const time = Date.now()
    const accepted = this.#openSince
    this.#openSince = undefined
    this.#journal.append({ kind: "segment", time })
    const segment = this.#number(rows, time)
    this.#journal.after(() => this.#learning.learn(segment.number, segment.segment, accepted))
  }

  #sendSegment(rows: EventsRecord, time: number, accepted: number | undefined): void {
    const { number, segment } = this.#number(rows, time)
    this.#learning.learn(number, segment, accepted)
  }

  #number(rows: EventsRecord, time: number): { number: number; segment: Segment } {
    this.#open = 0
    const number = ++this.#segments
    const length = rows.user.length
    const rating = rows.rating.map((value) => (Number.isNaN(value) ? 5 : value))
    const { user, item, timestamp } = rows
    return { number, segment: { user, item, rating, timestamp, length, index: number - 1, trainLength: length, time } }
  }

  // What comes back from training

  #onLearned(learned: Learned, events: number): void {
    this.#learned += events
    this.#totals = learned.totals
    const { report, failed, shrunk, left } = learned
    const base = report ?? this.#last ?? EMPTY_REPORT
    const snapshot = this.#archive?.newest
    const { freshness } = this.#learning
    this.#last = {
      ...base,
      segment: learned.number,
      time: Date.now(),
      events,
      queue: this.#queue(),
      freshness: freshness.at(-1) ?? null,
      journalEvents: this.#store ? this.#accepted - (snapshot?.accepted ?? 0) : null,
      snapshotAge: snapshot ? Date.now() - snapshot.time : null,
      shrunk,
      left: { user: left.user.length, item: left.item.length },
    }
    if (failed !== undefined) this.#last.failed = failed
    if (this.#replaying) this.#replaying.push(learned)
    else this.#releaseLeft(learned)
    this.#reports.send(this.#last)
    if (!this.#snapshotIsDue()) return
    this.#exclusive(() => this.#takeSnapshot()).catch((error: Error) => {
      this.#snapshotFailure = error.message
    })
  }

  /** Gives up the names of ids that left and have not come back since. Items that were put keep theirs. */
  #releaseLeft({ number, left }: Learned): void {
    const gone: Record<Side, number[]> = { user: [], item: [] }
    for (const side of ["user", "item"] as const) {
      const names = this.#catalogue.names[side]
      for (const id of left[side]) {
        if (names.name(id) === undefined || this.#catalogue.lastSegment(side, id) > number) continue
        if (side === "item" && this.#catalogue.entries.has(id)) continue
        gone[side].push(id)
        names.remove(id)
        names.recycle(id)
        this.#journal.change("names", { side, index: id, name: null })
      }
      this.#catalogue.drop(side, gone[side])
    }
    if (gone.user.length + gone.item.length > 0) {
      this.#journal.append({ kind: "left", ...gone })
      this.#journal.after(() => {})
    }
  }

  #fail(error: DessError): void {
    if (this.#state !== "learning" || this.#closing) return
    this.#state = "failed"
    this.#reason = error.message
  }

  #check(): void {
    if (this.#closing || this.#state === "closed")
      throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
    if (this.#state === "failed") throw new DessError("CLOSED", `recommender: training stopped: ${this.#reason}`)
  }

  // Reading

  async recommend(user: Id, options: RecommendOptions = {}): Promise<Recommendation[]> {
    return this.#read().recommend(user, options)
  }

  async similar(item: Id, options: SimilarOptions = {}): Promise<Recommendation[]> {
    return this.#read().similar(item, options)
  }

  predict(user: Id, item: Id): Promise<Prediction>
  predict(pairs: readonly { user: Id; item: Id }[]): Promise<Prediction[]>
  async predict(first: Id | readonly { user: Id; item: Id }[], second?: Id): Promise<Prediction | Prediction[]> {
    const reading = this.#read()
    if (typeof first === "object") return toArray("pairs", first).map((pair) => reading.predict(pair))
    return reading.predict({ user: first, item: second as Id })
  }

  async explain(side: Side, id: Id): Promise<Explanation> {
    return this.#read().explain(side, id)
  }

  item(item: Id): ItemView | undefined {
    return this.#read().item(item)
  }

  has(side: Side, id: Id): boolean {
    return this.#read().has(side, id)
  }

  ids(side: Side, options: { offset?: number; count?: number } = {}): string[] {
    return this.#read().ids(side, options)
  }

  history(user: Id, options: { count?: number } = {}): string[] {
    return this.#read().history(user, options)
  }

  items(): Iterable<ItemView & { features: readonly number[] | null }> {
    return this.#read().items()
  }

  #read(): Reading {
    if (this.#state !== "closed") return this.#reading
    throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
  }

  async *events(): AsyncGenerator<{ user: string; item: string; rating?: number; timestamp: number }> {
    await this.#journal.committed()
    const { user: users, item: items } = this.#catalogue.names
    const { max } = this.#options.scale
    for await (const record of this.#eventRecords()) {
      for (let r = 0; r < record.user.length; r++) {
        const [user, item] = [users.name(record.user[r]), items.name(record.item[r])]
        if (record.user[r] === GONE || user === undefined || item === undefined) continue
        const rating = (record.rating[r] * max) / 5
        yield { user, item, ...(Number.isNaN(rating) ? {} : { rating }), timestamp: record.timestamp[r] }
      }
    }
  }

  /** A few hundred at a time, so that a slow reader holds nothing up. */
  async *#eventRecords(): AsyncGenerator<EventsRecord> {
    for (let from = 0; ; ) {
      const some = [...(this.#store?.log(from, 500) ?? [])]
      for (const { position, record } of some) {
        from = position + 1
        if (record.kind === "events") yield record
      }
      if (some.length === 0) return
    }
  }

  reports(signal?: AbortSignal): AsyncIterableIterator<LiveReport> {
    return this.#reports.listen(signal)
  }

  status(): Status {
    const { run, limits, directory } = this.#options
    const { user, item } = this.#catalogue.names
    const last = this.#last
    const taken = this.#archive?.newest
    const sizes = last?.sizeHistogram ?? { user: {}, item: {} }
    const held = (side: Side) => Object.values(sizes[side]).reduce((sum, rows) => sum + rows, 0)
    const fresh = [...this.#learning.freshness].sort((a, b) => a - b)
    const at = (share: number) => fresh[Math.min(fresh.length - 1, Math.floor(share * fresh.length))]
    return {
      state: this.#state,
      ...(this.#reason === undefined ? {} : { reason: this.#reason }),
      task: run.task,
      method: run.method,
      directory: directory ?? null,
      opened: this.#opened,
      events: {
        accepted: this.#accepted,
        duplicates: this.#duplicates,
        learned: this.#learned,
        queue: this.#queue(),
      },
      segments: this.#segments,
      users: { known: user.size, held: held("user") },
      items: { known: item.size, held: held("item"), hidden: this.#catalogue.hidden },
      memory: {
        budget: limits.bytes ?? null,
        heldBytes: last?.heldBytes ?? 0,
        embeddingBytes: last?.embeddingBytes ?? 0,
        sizes,
        ...this.#totals,
      },
      freshness:
        fresh.length === 0 ? null : { p50: at(0.5), p99: at(0.99), last: this.#learning.freshness.at(-1) ?? 0 },
      journal: this.#store
        ? { events: this.#accepted - (taken?.accepted ?? 0), bytes: this.#state === "closed" ? 0 : this.#store.bytes }
        : null,
      snapshot: taken ? { segment: taken.segment, bytes: taken.bytes, time: taken.time } : null,
      ...(this.#snapshotFailure === undefined ? {} : { snapshotFailure: this.#snapshotFailure }),
      last: last ?? null,
    }
  }

  // Snapshots, forgetting, closing

  #exclusive<T>(action: () => Promise<T>): Promise<T> {
    const run = this.#chain.then(action)
    this.#chain = run.catch(() => {})
    return run
  }

  async drain(): Promise<void> {
    this.#check()
    await this.#drain()
  }

  async #drain(): Promise<void> {
    this.#closeSegment()
    await this.#journal.committed()
    await this.#learning.ask({ kind: "publish" })
  }

  /** SHA-256 of the training state once everything accepted is learned. */
  async hash(): Promise<string> {
    await this.#drain()
    return this.#learning.ask<string>({ kind: "hash" })
  }

  #snapshotIsDue(): boolean {
    if (!this.#store || this.#replaying || this.#closing) return false
    const events = this.#learned - this.#orderedAt
    const late = events > 0 && Date.now() - this.#lastAttempt >= this.#options.snapshotDelay
    if (events < this.#options.snapshotEvents && !late) return false
    this.#orderedAt = this.#learned
    return true
  }

  snapshot(): Promise<SnapshotInfo> {
    this.#check()
    return this.#exclusive(() => this.#takeSnapshot())
  }

  async #takeSnapshot(): Promise<SnapshotInfo> {
    if (!this.#archive)
      throw new DessError(
        "INVALID_ARGUMENT",
        "snapshot: expected a recommender with a directory, this one is in memory only",
      )
    this.#lastAttempt = Date.now()
    const counts = this.#counts()
    const info = await this.#archive.take(counts)
    this.#orderedAt = Math.max(this.#orderedAt, counts.accepted)
    this.#snapshotFailure = undefined
    await this.#keys.trim()
    return info
  }

  /** Closes the open segment; what a snapshot of this moment contains. */
  #counts(): { segments: number; accepted: number } {
    this.#closeSegment()
    return { segments: this.#segments, accepted: this.#accepted }
  }

  async forget(user: Id): Promise<Receipt> {
    this.#check()
    const name = checkName("user", user)
    return this.#exclusive(() => this.#forget(name))
  }

  async #forget(name: string): Promise<Receipt> {
    const index = this.#catalogue.names.user.find(name)
    const receipt = { user: name, found: index !== undefined, row: false, history: 0, events: 0, snapshots: 0 }
    if (index === undefined) return { ...receipt, time: Date.now() }
    // From here on the name means somebody new.
    this.#catalogue.names.user.remove(index)
    receipt.history = this.#catalogue.history(index).length
    receipt.row = this.#learning.reader.knows("user", index)
    this.#catalogue.drop("user", [index])
    this.#journal.removeOpen(index)
    const open = this.#open
    this.#open = this.#journal.openRows().user.length
    const openRows = open - this.#open
    this.#accepted -= openRows
    this.#journal.change("names", { side: "user", index, name: null })
    this.#journal.append({ kind: "forget", user: index })
    this.#journal.mark(index)
    await this.#journal.inOrder(() => this.#learning.ask({ kind: "forget", side: "user", ids: [index] }))
    if (this.#archive) {
      const { events, snapshots } = await this.#archive.finishForgetting(index, () => this.#counts())
      receipt.events = events + openRows
      receipt.snapshots = snapshots
    }
    this.#catalogue.names.user.recycle(index)
    await this.#learning.ask({ kind: "publish" })
    return { ...receipt, time: Date.now() }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** Lets go of everything without writing; for a start that failed. */
  async abandon(): Promise<void> {
    this.#closing = Promise.resolve()
    this.#state = "closed"
    clearTimeout(this.#timer)
    await this.#learning.close()
    await this.#store?.close()
    this.#reports.end()
  }

  async #close(): Promise<void> {
    await this.#chain
    try {
      if (this.#state === "learning") {
        await this.#drain()
        if (this.#archive && this.#journal.position !== (this.#archive.newest?.position ?? 0))
          await this.#takeSnapshot()
      }
    } finally {
      clearTimeout(this.#timer)
      this.#state = "closed"
      await this.#journal.committed().catch(() => {})
      await this.#learning.close()
      await this.#store?.close()
      this.#reports.end()
    }
  }
}

const EMPTY_REPORT: SegmentReport = {
  segment: 0,
  interactions: 0,
  testRows: 0,
  testUsers: 0,
  trainLoss: 0,
  meanSize: { user: 0, item: 0 },
  sizeHistogram: { user: {}, item: {} },
  embeddingBytes: 0,
  heldBytes: 0,
  regret: null,
  played: null,
  decided: null,
  milliseconds: { policy: 0, growth: 0, train: 0, inference: 0 },
}
