/**
 * The live recommender: accepts events, journals them, closes segments, has them learned, and reads.
 *
 *   observe → catalogue and journal → (on disk) → segment → training thread → version → recommend
 *
 * Everything that changes the model is a record of the journal, in order; a snapshot is the state after some record.
 * So snapshot and replay give the state of a run that was never interrupted.
 */

import { DessError, show } from "../errors.ts"
import type { SegmentReport } from "../run/report.ts"
import type { Side } from "../types.ts"
import { Archive } from "./archive.ts"
import { Broadcast } from "./broadcast.ts"
import { Catalogue } from "./catalogue.ts"
import {
  checkCount,
  checkEvents,
  checkItems,
  checkName,
  checkOptionNames,
  checkTrials,
  checkType,
  MOST_AT_ONCE,
} from "./check.ts"
import { Feedback } from "./feedback.ts"
import { FormerNames, livesOf, type NamedEvent, nameEvents, portions } from "./former-names.ts"
import { Intake } from "./intake.ts"
import { Journal } from "./journal.ts"
import { Keys } from "./keys.ts"
import { Learning } from "./learning.ts"
import { type EngineOptions, fixedOptions } from "./options.ts"
import { Reading } from "./reading.ts"
import type { LeftRecord } from "./records.ts"
import type { Forgetting, Store } from "./store.ts"
import type { Learned, Standing } from "./trainer.ts"
import type {
  Accepted,
  Event,
  Explanation,
  FeedbackOptions,
  FeedbackView,
  Id,
  ItemEntry,
  ItemView,
  LiveReport,
  ObserveOptions,
  Prediction,
  Receipt,
  Recommendation,
  Recommender,
  RecommendOptions,
  SimilarOptions,
  SimilarUser,
  SnapshotInfo,
  Status,
  Trial,
} from "./types.ts"

/** Feature numbers that take as much of the journal as an event. */
const NUMBERS_PER_EVENT = 4
/** Reports kept for those who come later. */
const MOST_PAST = 1000

export class LiveRecommender implements Recommender {
  readonly #options: EngineOptions
  readonly #store: Store | undefined
  readonly #catalogue: Catalogue
  readonly #journal: Journal
  readonly #learning: Learning
  readonly #reading: Reading
  readonly #keys: Keys
  readonly #feedback: Feedback
  readonly #intake: Intake
  /** Only with a directory. */
  readonly #archive: Archive | undefined
  readonly #reports = new Broadcast<LiveReport>()
  /** Of those who read the journal just now. */
  readonly #exports = new Set<FormerNames>()
  readonly #opened = Date.now()
  #learned = 0
  /** What the training thread held when it was asked or heard last. */
  #standing: Standing | undefined
  #last: LiveReport | undefined
  /** The last reports, oldest first. */
  #past: LiveReport[] = []
  /** Events learned when a snapshot was ordered last. */
  #orderedAt = 0
  #orderedNumbers = 0
  #snapshotFailure: string | undefined
  #lastAttempt = Date.now()
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
      trainer: { run, features, limits, segment, publishDelay, spareThread: options.spareThread },
      onLearned: (learned, events) => this.#onLearned(learned, events),
      onEnd: (error) => this.#fail(error),
    })
    this.#reading = new Reading(this.#catalogue, this.#learning)
    this.#keys = new Keys(options.keys, this.#journal, store)
    this.#feedback = new Feedback(this.#journal, store)
    const [catalogue, journal, learning, keys] = [this.#catalogue, this.#journal, this.#learning, this.#keys]
    const feedback = this.#feedback
    const onLeft = (position: number, record: LeftRecord) => {
      for (const names of this.#exports) names.add(position, record)
    }
    const parts = { catalogue, journal, keys, feedback, learning }
    this.#intake = new Intake({ ...parts, segment, limits, delay: options.delay, onLeft })
    const { directory, keepJournal } = options
    if (store && directory !== undefined)
      this.#archive = new Archive({ directory, keepJournal, limits, store, journal, catalogue, learning })
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
    const from = await archive.restore()
    this.#learned = from.accepted
    this.#orderedAt = from.accepted
    await this.#intake.replay(store, from)
    const { forgetting } = store
    if (forgetting !== null) await this.#exclusive(() => archive.finishForgetting(forgetting, () => this.#counts()))
    this.#standing = await this.#learning.ask<Standing>({ kind: "publish" })
  }

  // Writing

  async observe(given: Event | readonly Event[], options: ObserveOptions = {}): Promise<Accepted> {
    this.#check()
    checkOptionNames("options", options, ["replace"])
    const replace = options.replace === true
    const events = checkEvents(given, this.#options.scale, Date.now() / 1000)
    if (events.length > this.#options.queue)
      throw new DessError(
        "INVALID_ARGUMENT",
        `events: expected at most ${this.#options.queue} at once, as the queue holds no more, got ${events.length}`,
      )
    if (this.#queue() + events.length > this.#options.queue)
      throw new DessError(
        "BUSY",
        `queue: expected room for ${events.length} events, ${this.#queue()} are waiting; try again later`,
      )
    const duplicates = this.#intake.observe(events, replace)
    await this.#journal.committed()
    return { accepted: events.length - duplicates, duplicates }
  }

  async putItems(given: ItemEntry | readonly ItemEntry[]): Promise<number> {
    this.#check()
    const entries = checkItems(given, this.#options.features)
    this.#intake.putItems(entries)
    await this.#journal.committed()
    this.#snapshotWhenDue()
    return entries.length
  }

  async retract(user: Id, item: Id, type?: string): Promise<number> {
    this.#check()
    const query = { ...this.#reading.pair(user, item), count: MOST_AT_ONCE }
    if (query.user === undefined || query.item === undefined) return 0
    const wanted = type === undefined ? undefined : checkType(type)
    const { rows } = await this.#feedback.list(query)
    const going = rows.filter((row) => wanted === undefined || row.type === wanted)
    this.#intake.retract(going, going.length < rows.length)
    await this.#journal.committed()
    return going.length
  }

  #queue(): number {
    return this.#intake.accepted - this.#learned
  }

  // What comes back from training

  #onLearned(learned: Learned, events: number): void {
    this.#learned += events
    const { report, failed, outlook, shrunk, left } = learned
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
      journalEvents: this.#store ? this.#intake.accepted - (snapshot?.accepted ?? 0) : null,
      snapshotAge: snapshot ? Date.now() - snapshot.time : null,
      shrunk,
      left: { user: left.user.length, item: left.item.length },
      outlook: outlook ?? null,
    }
    if (failed !== undefined) this.#last.failed = failed
    this.#standing = learned.standing
    this.#intake.release(learned)
    this.#keepReport(this.#last)
    this.#reports.send(this.#last)
    this.#snapshotWhenDue()
  }

  /** Outlooks are large, and only the newest is looked at. */
  #keepReport(report: LiveReport): void {
    const before = this.#past.pop()
    if (before) this.#past.push({ ...before, outlook: null })
    this.#past.push(report)
    if (this.#past.length > MOST_PAST) this.#past.shift()
  }

  #fail(error: DessError): void {
    if (this.#state !== "learning" || this.#closing) return
    this.#state = "failed"
    this.#intake.stop()
    this.#reason = error.message
  }

  #check(): void {
    if (this.#closing || this.#state === "closed")
      throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
    if (this.#state === "failed") throw new DessError("CLOSED", `recommender: training stopped: ${this.#reason}`)
  }

  // Reading

  async recommend(user: Id, options: RecommendOptions = {}): Promise<Recommendation[]> {
    refuseAfter(options)
    return this.#read().recommend(user, options)
  }

  async preview(user: Id, trials: readonly Trial[], { count }: { count?: number | undefined } = {}) {
    return this.#read().recommend(user, { count }, checkTrials(trials, this.#options.scale))
  }

  async similar(item: Id, options: SimilarOptions = {}): Promise<Recommendation[]> {
    return this.#read().similar(item, options)
  }

  async similarUsers(user: Id, options: { count?: number | undefined } = {}): Promise<SimilarUser[]> {
    return this.#read().similarUsers(user, options)
  }

  predict(user: Id, item: Id): Promise<Prediction>
  predict(pairs: readonly { user: Id; item: Id }[]): Promise<Prediction[]>
  async predict(first: Id | readonly { user: Id; item: Id }[], second?: Id): Promise<Prediction | Prediction[]> {
    const reading = this.#read()
    if (typeof first === "object") return reading.predictAll(first)
    return reading.predict({ user: first, item: second as Id })
  }

  async explain(side: Side, id: Id, options: Pick<RecommendOptions, "after"> = {}): Promise<Explanation> {
    refuseAfter(options)
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

  async feedback(options: FeedbackOptions = {}): Promise<{ feedback: FeedbackView[]; next: string | null }> {
    return this.#read().feedback(this.#feedback, options)
  }

  items(): Iterable<ItemView & { features: readonly number[] | null }> {
    return this.#read().items()
  }

  #read(): Reading {
    if (this.#state !== "closed") return this.#reading
    throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
  }

  async *events(): AsyncGenerator<NamedEvent> {
    const store = this.#store
    if (!store) return
    const former = new FormerNames()
    this.#exports.add(former)
    try {
      await this.#journal.committed()
      for await (const some of portions(store))
        for (const { position, record } of some) if (record.kind === "left") former.add(position, record)
      const { max } = this.#options.scale
      const now = (side: Side, index: number) => this.#catalogue.names[side].name(index)
      // Named at once: who has an index now may leave while this is read.
      for await (const some of portions(store))
        yield* some.flatMap(({ position, record }) =>
          record.kind === "events" ? nameEvents({ position, record }, { former, now, max }) : [],
        )
    } finally {
      this.#exports.delete(former)
    }
  }

  reports(signal?: AbortSignal, options: { last?: number } = {}): AsyncIterableIterator<LiveReport> {
    const last = checkCount("last", options.last, { least: 0, most: MOST_PAST, otherwise: 0 })
    return this.#reports.listen(signal, last === 0 ? [] : this.#past.slice(-last))
  }

  status(): Status {
    const { run, limits, directory } = this.#options
    const { user, item } = this.#catalogue.names
    const taken = this.#archive?.newest
    const { held, totals } = this.#standing ?? NOTHING
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
        accepted: this.#intake.accepted,
        duplicates: this.#intake.duplicates,
        learned: this.#learned,
        queue: this.#queue(),
      },
      segments: this.#intake.segments,
      users: { known: user.size, held: held.user.seen },
      items: { known: item.size, held: held.item.seen, hidden: this.#catalogue.hidden.size },
      memory: {
        budget: limits.bytes ?? null,
        heldBytes: held.heldBytes,
        embeddingBytes: held.embeddingBytes,
        sizes: { user: held.user.histogram, item: held.item.histogram },
        ...totals,
      },
      freshness:
        fresh.length === 0 ? null : { p50: at(0.5), p99: at(0.99), last: this.#learning.freshness.at(-1) ?? 0 },
      journal: this.#store
        ? {
            events: this.#intake.accepted - (taken?.accepted ?? 0),
            bytes: this.#state === "closed" ? 0 : this.#store.bytes,
          }
        : null,
      snapshot: taken ? { segment: taken.segment, bytes: taken.bytes, time: taken.time } : null,
      ...(this.#archive?.damaged.length ? { damagedSnapshots: this.#archive.damaged } : {}),
      ...(this.#snapshotFailure === undefined ? {} : { snapshotFailure: this.#snapshotFailure }),
      last: this.#last ?? null,
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
    this.#intake.closeSegment()
    await this.#journal.committed()
    await this.#learning.ask({ kind: "publish" })
  }

  /** SHA-256 of the training state once everything accepted is learned. */
  async hash(): Promise<string> {
    await this.#drain()
    return this.#learning.ask<string>({ kind: "hash" })
  }

  #snapshotWhenDue(): void {
    if (!this.#snapshotIsDue()) return
    this.#exclusive(() => this.#takeSnapshot(true)).catch((error: Error) => {
      this.#snapshotFailure = error.message
    })
  }

  #snapshotIsDue(): boolean {
    if (!this.#store || this.#intake.isReplaying || this.#closing) return false
    const numbers = this.#intake.featureNumbers - this.#orderedNumbers
    const events = this.#learned - this.#orderedAt + numbers / NUMBERS_PER_EVENT
    const late = events > 0 && Date.now() - this.#lastAttempt >= this.#options.snapshotDelay
    if (events < this.#options.snapshotEvents && !late) return false
    this.#orderedAt = this.#learned
    this.#orderedNumbers = this.#intake.featureNumbers
    return true
  }

  snapshot(): Promise<SnapshotInfo> {
    this.#check()
    return this.#exclusive(() => this.#takeSnapshot())
  }

  async #takeSnapshot(shorten = false): Promise<SnapshotInfo> {
    if (!this.#archive)
      throw new DessError(
        "INVALID_ARGUMENT",
        "snapshot: expected a recommender with a directory, this one is in memory only",
      )
    this.#lastAttempt = Date.now()
    const counts = this.#counts()
    const info = await this.#archive.take(counts, shorten)
    this.#orderedAt = Math.max(this.#orderedAt, counts.accepted)
    this.#snapshotFailure = undefined
    await this.#keys.trim()
    return info
  }

  /** Closes the open segment; what a snapshot of this moment contains. */
  #counts(): { segments: number; accepted: number } {
    this.#intake.closeSegment()
    return { segments: this.#intake.segments, accepted: this.#intake.accepted }
  }

  async forget(user: Id): Promise<Receipt> {
    this.#check()
    const name = checkName("user", user)
    return this.#exclusive(() => this.#forget(name))
  }

  async #forget(name: string): Promise<Receipt> {
    const { index, lives } = await this.#findUser(name)
    const found = index !== null || lives.length > 0
    const receipt = { user: name, found, row: false, history: 0, events: 0, snapshots: 0 }
    if (!found) return { ...receipt, time: Date.now() }
    let openRows = 0
    if (index === null) this.#journal.mark({ index, lives })
    else {
      receipt.history = this.#catalogue.history(index).length
      receipt.row = this.#learning.reader.knows("user", index)
      openRows = this.#intake.forget(index, lives)
      await this.#journal.inOrder(() => this.#learning.ask({ kind: "forget", side: "user", ids: [index] }))
    }
    if (this.#archive) {
      const { events, snapshots } = await this.#archive.finishForgetting({ index, lives }, () => this.#counts())
      receipt.events = events + openRows
      receipt.snapshots = snapshots
    }
    if (index !== null) this.#catalogue.names.user.recycle(index)
    this.#standing = await this.#learning.ask<Standing>({ kind: "publish" })
    return { ...receipt, time: Date.now() }
  }

  /** A user's index now, and those of before; looked for once more when that changes meanwhile. */
  async #findUser(name: string): Promise<Forgetting> {
    for (;;) {
      const index = this.#catalogue.names.user.find(name) ?? null
      await this.#journal.committed()
      const lives = this.#store ? await livesOf(this.#store, name) : []
      if (index === (this.#catalogue.names.user.find(name) ?? null)) return { index, lives }
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** Lets go of everything without writing; for a start that failed. */
  async abandon(): Promise<void> {
    this.#closing = Promise.resolve()
    this.#state = "closed"
    this.#intake.stop()
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
      this.#intake.stop()
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
  numbers: { user: 0, item: 0 },
  sizeHistogram: { user: {}, item: {} },
  embeddingBytes: 0,
  heldBytes: 0,
  regret: null,
  played: null,
  decided: null,
  milliseconds: { policy: 0, growth: 0, train: 0, inference: 0 },
}

const NOTHING: Standing = {
  held: {
    user: { seen: 0, numbers: 0, histogram: {} },
    item: { seen: 0, numbers: 0, histogram: {} },
    embeddingBytes: 0,
    heldBytes: 0,
  },
  totals: { shrunk: { user: 0, item: 0 }, left: { user: 0, item: 0 } },
}

function refuseAfter({ after }: Pick<RecommendOptions, "after">): void {
  if (after !== undefined)
    throw new DessError("INVALID_ARGUMENT", `after: expected with a cluster only (--cluster), got ${show(after)}`)
}
