/**
 * The live recommender: accepts events, journals them, closes segments, has them learned, and reads.
 *
 *   observe → catalogue and journal → (on disk) → segment → training thread → version → recommend
 *
 * Everything that changes the model is a record of the journal, in order; a snapshot is the state after some record.
 * So snapshot and replay give the state of a run that was never interrupted.
 */

import { createHash } from "node:crypto"
import { rmSync, statSync } from "node:fs"
import { DessError, show } from "../errors.ts"
import { State } from "../kernels/state.ts"
import type { LearnerExplanation } from "../run/learner.ts"
import type { SegmentReport } from "../run/report.ts"
import type { Segment, Side } from "../types.ts"
import { Broadcast } from "./broadcast.ts"
import { Catalogue } from "./catalogue.ts"
import { checkCategories, checkCount, checkEvents, checkItems, checkName, toArray } from "./check.ts"
import { chooseItems, chooseSimilar, expected, sigmoid, softmax } from "./choose.ts"
import { Journal } from "./journal.ts"
import { Learning } from "./learning.ts"
import { type EngineOptions, fixedOptions } from "./options.ts"
import { type EventsRecord, emptyEvents, GONE, type LogRecord, withoutUser } from "./records.ts"
import { listSnapshots, readNewest, snapshotPath, syncFolder } from "./snapshots.ts"
import { noWrites, type Store, type StoredItem } from "./store.ts"
import type { Learned, Totals } from "./trainer.ts"
import type { Question } from "./training-thread.ts"
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

const MOST_ITEMS = 1000
const MOST_OFFSET = 10_000
/** A timer takes no more. */
const LONGEST_TIMER = 2_147_483_647

/** A snapshot and the record it was taken before. */
interface Taken extends SnapshotInfo {
  position: number
}

export class LiveRecommender implements Recommender {
  readonly #options: EngineOptions
  readonly #store: Store | undefined
  readonly #catalogue: Catalogue
  readonly #journal: Journal
  readonly #learning: Learning
  readonly #reports = new Broadcast<LiveReport>()
  readonly #opened = Date.now()
  /** Hashes of keys that are on their way to the disk; without a store, of all. */
  readonly #keys = new Map<string, number>()
  #nextKey = 0
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
  /** Newest first, at most two. */
  #snapshots: Taken[] = []
  /** Events learned in the newest snapshot, and in the one ordered last. */
  #learnedAtSnapshot = 0
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
  }

  /** Takes up what the directory holds. */
  async start(): Promise<void> {
    await this.#learning.thread.ready()
    const store = this.#store
    if (!store || this.#options.directory === undefined) return this.#learning.begin()
    if (!store.created) store.create(fixedOptions(this.#options))
    this.#nextKey = store.nextKey
    for (const side of ["user", "item"] as const) {
      for (const { index, name } of store.names(side)) this.#catalogue.names[side].set(index, name)
      this.#catalogue.names[side].recycleAll()
    }
    for (const { index, item } of store.items()) this.#catalogue.put(index, item)
    const newest = readNewest(listSnapshots(this.#options.directory))
    if (newest) await this.#restore(newest.state, newest.file.path)
    await this.#replay(store, this.#snapshots[0]?.position ?? 0)
    if (store.forgetting !== null) await this.#exclusive(() => this.#finishForgetting(store.forgetting as number))
  }

  async #restore(state: State, path: string): Promise<void> {
    const { segments, accepted, position, time } = state.get<Record<string, number>>("engine")
    this.#segments = segments
    this.#accepted = accepted
    this.#learned = accepted
    this.#learnedAtSnapshot = accepted
    this.#orderedAt = accepted
    this.#catalogue.load(state.at("catalogue"))
    this.#snapshots = [{ segment: segments, position, time, bytes: statSync(path).size }]
    const arrays = new Map([...state.arrays].filter(([name]) => !name.startsWith("catalogue.")))
    await this.#learning.ask({ kind: "load", state: { arrays, values: state.values } })
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
      if (key !== undefined && !this.#admitKey(key)) {
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

  /** Remembers a key; false when it was known. */
  #admitKey(key: string): boolean {
    if (this.#options.keys === 0) return true
    const hash = createHash("sha256").update(key).digest().subarray(0, 16)
    const name = hash.toString("latin1")
    if (this.#keys.has(name) || this.#store?.hasKey(hash)) return false
    const order = this.#nextKey++
    this.#keys.set(name, order)
    if (this.#store) {
      this.#journal.change("keys", { hash, order })
      this.#journal.after(() => this.#keys.delete(name))
    } else if (this.#keys.size > this.#options.keys) {
      for (const oldest of this.#keys.keys()) {
        this.#keys.delete(oldest)
        break
      }
    }
    return true
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
    const snapshot = this.#snapshots[0]
    const { freshness } = this.#learning
    this.#last = {
      ...base,
      segment: learned.number,
      time: Date.now(),
      events,
      queue: this.#queue(),
      freshness: freshness.at(-1) ?? null,
      journalEvents: this.#store ? this.#accepted - this.#learnedAtSnapshot : null,
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
    this.#checkOpen()
    const { item: items, user: users } = this.#catalogue.names
    const count = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const offset = checkCount("offset", options.offset, { least: 0, most: MOST_OFFSET, otherwise: 0 })
    const find = (ids: readonly Id[]) =>
      toArray("items", ids)
        .map((id) => items.find(checkName("item", id)))
        .filter((index) => index !== undefined)
    const list = chooseItems(this.#catalogue, this.#learning.reader, {
      user: users.find(checkName("user", user)),
      total: offset + count,
      exclude: find(options.exclude ?? []),
      only: options.only && find(options.only),
      categories: options.categories && new Set(checkCategories(options.categories)),
      seen: options.seen ?? false,
    })
    return offset === 0 ? list : list.slice(offset)
  }

  async similar(item: Id, options: SimilarOptions = {}): Promise<Recommendation[]> {
    this.#checkOpen()
    const total = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const categories = options.categories && new Set(checkCategories(options.categories))
    return chooseSimilar(this.#catalogue, this.#learning.reader, { item: this.#find("item", item), total, categories })
  }

  predict(user: Id, item: Id): Promise<Prediction>
  predict(pairs: readonly { user: Id; item: Id }[]): Promise<Prediction[]>
  async predict(first: Id | readonly { user: Id; item: Id }[], second?: Id): Promise<Prediction | Prediction[]> {
    this.#checkOpen()
    if (Array.isArray(first)) {
      const pairs = toArray("pairs", first as readonly { user: Id; item: Id }[])
      return pairs.map((pair) => this.#predict(checkName("user", pair?.user), checkName("item", pair?.item)))
    }
    return this.#predict(checkName("user", first), checkName("item", second))
  }

  #predict(user: string, item: string): Prediction {
    const { reader } = this.#learning
    const indices = { user: this.#catalogue.names.user.find(user), item: this.#catalogue.names.item.find(item) }
    const known = {
      user: indices.user !== undefined && reader.knows("user", indices.user),
      item: indices.item !== undefined && reader.knows("item", indices.item),
    }
    const both = known.user && known.item
    const logits = both ? reader.scoresOf(indices.user as number, [indices.item as number]) : undefined
    const average = this.#catalogue.average()
    if (reader.outputs === 1) return { user, item, score: logits ? sigmoid(logits[0]) : average.likes, known }
    const probabilities = logits ? softmax(logits) : average.classes
    return { user, item, score: expected(probabilities), probabilities, known }
  }

  async explain(side: Side, id: Id): Promise<Explanation> {
    this.#checkOpen()
    const index = this.#find(side, id)
    const known = await this.#learning.thread.ask<LearnerExplanation | undefined>({ kind: "explain", side, index })
    const nothing = { size: 0, bytes: 0, history: [], indicators: { frequency: 0, diversity: null }, bounds: null }
    const events = side === "user" ? this.#catalogue.history(index).length : this.#catalogue.events(index)
    const explanation = { id: checkName(side, id), side, ...(known ?? nothing), events }
    return side === "item" ? { ...explanation, entry: this.#catalogue.view(index) } : explanation
  }

  #find(side: Side, id: Id): number {
    const index = this.#catalogue.names[side].find(checkName(side, id))
    if (index !== undefined) return index
    throw new DessError("NOT_FOUND", `${side}: expected one that has been met, got ${show(id)}`)
  }

  #checkOpen(): void {
    if (this.#state === "closed") throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
  }

  item(item: Id): ItemView | undefined {
    const index = this.#catalogue.names.item.find(checkName("item", item))
    return index === undefined ? undefined : this.#catalogue.view(index)
  }

  has(side: Side, id: Id): boolean {
    return this.#catalogue.names[side].find(checkName(side, id)) !== undefined
  }

  ids(side: Side, options: { offset?: number; count?: number } = {}): string[] {
    const offset = checkCount("offset", options.offset, { least: 0, most: Number.MAX_SAFE_INTEGER, otherwise: 0 })
    const count = checkCount("count", options.count, { least: 1, most: 100_000, otherwise: 100 })
    return this.#catalogue.names[side].list(offset, count)
  }

  history(user: Id, options: { count?: number } = {}): string[] {
    const count = checkCount("count", options.count, { least: 1, most: 100_000, otherwise: 100 })
    const index = this.#catalogue.names.user.find(checkName("user", user))
    if (index === undefined) return []
    const items = this.#catalogue.history(index).slice(-count).reverse()
    return Array.from(items, (item) => this.#catalogue.names.item.name(item) ?? "")
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

  *items(): Generator<ItemView & { features: readonly number[] | null }> {
    for (const [index, { features }] of this.#catalogue.entries) yield { ...this.#catalogue.view(index), features }
  }

  reports(signal?: AbortSignal): AsyncIterableIterator<LiveReport> {
    return this.#reports.listen(signal)
  }

  status(): Status {
    const { run, limits, directory } = this.#options
    const { user, item } = this.#catalogue.names
    const last = this.#last
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
        ? { events: this.#accepted - this.#learnedAtSnapshot, bytes: this.#state === "closed" ? 0 : this.#store.bytes }
        : null,
      snapshot: this.#snapshots[0] ? infoOf(this.#snapshots[0]) : null,
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

  /** Asks the thread something at this place of the journal: after all before it, before all after it. */
  #askInOrder<T>(question: Question): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#journal.after(() => this.#learning.ask<T>(question).then(resolve, reject))
      this.#journal.committed().catch(reject)
    })
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
    const { directory } = this.#options
    const store = this.#store
    if (!store || directory === undefined)
      throw new DessError(
        "INVALID_ARGUMENT",
        "snapshot: expected a recommender with a directory, this one is in memory only",
      )
    this.#lastAttempt = Date.now()
    this.#closeSegment()
    // All of it as of this moment; the training state follows when the thread gets here.
    const state = new State()
    this.#catalogue.save(state.at("catalogue"))
    const [segment, position, time, accepted] = [this.#segments, this.#journal.position, Date.now(), this.#accepted]
    state.set("engine", { segments: segment, accepted, position, time })
    const path = snapshotPath(directory, segment)
    const message = { arrays: state.arrays, values: state.values }
    const bytes = await this.#askInOrder<number>({ kind: "save", path, directory, state: message })
    const taken = { segment, position, time, bytes }
    this.#learnedAtSnapshot = accepted
    this.#orderedAt = accepted
    this.#snapshotFailure = undefined
    this.#snapshots = [taken, ...this.#snapshots.filter((other) => other.segment !== segment)].slice(0, 2)
    this.#removeSnapshots(directory)
    if (!this.#options.keepJournal) {
      const oldest = this.#snapshots[this.#snapshots.length - 1].position
      // With one snapshot only, what led to it is kept too: should it be damaged, everything can be learned again.
      if (this.#snapshots.length > 1) await store.truncate(oldest)
    }
    if (this.#nextKey > this.#options.keys) await store.dropKeys(this.#nextKey - this.#options.keys)
    return infoOf(taken)
  }

  /** Removes the files of snapshots that are not kept; returns how many. */
  #removeSnapshots(directory: string): number {
    const kept = new Set(this.#snapshots.map(({ segment }) => segment))
    const old = listSnapshots(directory).filter(({ segment }) => !kept.has(segment))
    for (const { path } of old) rmSync(path, { force: true })
    if (old.length > 0) syncFolder(directory)
    return old.length
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
    await this.#askInOrder({ kind: "forget", side: "user", ids: [index] })
    const { events, snapshots } = await this.#finishForgetting(index)
    this.#catalogue.names.user.recycle(index)
    await this.#learning.ask({ kind: "publish" })
    if (this.#store) receipt.events = events + openRows
    return { ...receipt, snapshots, time: Date.now() }
  }

  /** A snapshot without the user, then everything older goes, and what was deleted is cut out of the file. */
  async #finishForgetting(index: number): Promise<{ events: number; snapshots: number }> {
    const { directory } = this.#options
    const store = this.#store
    let [events, snapshots] = [0, 0]
    if (store && directory !== undefined) {
      events = await this.#eraseRows(store, index)
      const before = listSnapshots(directory).length
      await this.#takeSnapshot()
      this.#snapshots = this.#snapshots.slice(0, 1)
      this.#removeSnapshots(directory)
      snapshots = before
      await this.#journal.alone(async () => {
        if (!this.#options.keepJournal) await store.truncate(this.#snapshots[0].position)
        await store.compact()
        await store.write({ ...noWrites(), forgetting: null })
      })
    }
    return { events, snapshots }
  }

  /** Empties a user's rows in the journal, back to where the index stood for somebody else; returns how many there were. */
  async #eraseRows(store: Store, index: number): Promise<number> {
    await this.#journal.committed()
    let found: { position: number; record: EventsRecord; rows: number }[] = []
    for (const { position, record } of store.log(0)) {
      if (record.kind === "left" && record.user.includes(index)) found = []
      if (record.kind !== "events") continue
      const without = withoutUser(record, index)
      if (without) found.push({ position, ...without })
    }
    // Only where the journal is kept for good: otherwise these rows are dropped whole, and a replay may still need them.
    if (this.#options.keepJournal) await store.write({ ...noWrites(), log: found })
    return found.reduce((sum, { rows }) => sum + rows, 0)
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
        if (this.#store && this.#journal.position !== (this.#snapshots[0]?.position ?? 0)) await this.#takeSnapshot()
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

function infoOf({ segment, bytes, time }: Taken): SnapshotInfo {
  return { segment, bytes, time }
}

/** The rows of several records as one, forgotten ones left out. */
function joinEvents(records: readonly { record: EventsRecord }[]): EventsRecord {
  const keep = records.map(({ record }) => record)
  const rows = keep.reduce((sum, record) => sum + record.user.filter((user) => user !== GONE).length, 0)
  const joined = emptyEvents(rows)
  let at = 0
  for (const record of keep)
    for (let r = 0; r < record.user.length; r++) {
      if (record.user[r] === GONE) continue
      joined.user[at] = record.user[r]
      joined.item[at] = record.item[r]
      joined.rating[at] = record.rating[r]
      joined.timestamp[at++] = record.timestamp[r]
    }
  return joined
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
