/**
 * The live recommender: accepts events, journals them, closes segments, has them learned, and reads.
 *
 *   observe → journal → (on disk) → catalogue and segment → training thread → version → recommend
 *
 * Everything that changes the model is a record of the journal, in order; a snapshot is the state after some record.
 * So snapshot and replay give the state of a run that was never interrupted.
 */

import { DessError, show } from "../errors.ts"
import { MOST_AT_ONCE as MOST_LEAVING, tickMilliseconds } from "../ids/idle.ts"
import { PendingItems } from "../ids/pending-items.ts"
import { governedBytes } from "../learning/limiter.ts"
import type { SegmentReport } from "../learning/report.ts"
import type { Side } from "../types.ts"
import { Archive, type Removed } from "./archive.ts"
import { Broadcast } from "./broadcast.ts"
import { type Build, thisBuild } from "./build.ts"
import { Catalogue } from "./catalogue.ts"
import {
  type CheckedEvent,
  checkCount,
  checkEvents,
  checkMerge,
  checkName,
  checkNotes,
  checkOptionNames,
  checkSide,
  checkSource,
  checkTrials,
  checkTruth,
  checkType,
  type GivenList,
  isCounted,
  isGuest,
  toArray,
} from "./check.ts"
import type { Directory } from "./directory.ts"
import { findErasedAhead } from "./erasure.ts"
import { type EventTypes, weighRows } from "./event-types.ts"
import { Experiments, ListCounts } from "./experiments.ts"
import { FormerNames, formerIndicesOf, nameEvents, portions } from "./former-names.ts"
import { hashName, Intake } from "./intake.ts"
import { bytesOfPut, type CheckedItem, checkItems } from "./item-entries.ts"
import { MOST_NAMES } from "./item-properties.ts"
import { Journal } from "./journal.ts"
import { Learning } from "./learning.ts"
import type { Note } from "./lookup.ts"
import { LookupHolder } from "./lookup-holder.ts"
import type { EngineOptions } from "./options.ts"
import { MOST_PAST, PastReports } from "./past-reports.ts"
import { boundHeaps, countGrowing, fixedBytes } from "./process-memory.ts"
import { Reading } from "./reading.ts"
import { Replay } from "./replay.ts"
import type { Learned, Standing } from "./trainer.ts"
import { refuseAborted } from "./turns.ts"
import type {
  Accepted,
  Event,
  ExperimentsView,
  Explanation,
  FeedbackOptions,
  FeedbackView,
  GuestOptions,
  Id,
  ItemEntry,
  ItemView,
  ListKind,
  ListOptions,
  LiveReport,
  MemoryParts,
  Merged,
  NamedEvent,
  ObserveOptions,
  PageOptions,
  Prediction,
  PreviewOptions,
  Receipt,
  Recommendation,
  RecommendationList,
  Recommender,
  RecommendOptions,
  SimilarUser,
  SnapshotInfo,
  Status,
  Trial,
  Variant,
} from "./types.ts"

/** Feature numbers that take as much of the journal as an event. */
const NUMBERS_PER_EVENT = 4
/** The most that is kept of items, and of keys, feedback and notes, of what may grow. */
const MOST_OF_ITEMS = 0.75
/** Milliseconds that lists may have been given before it is journalled. */
const COUNT_EVERY = 1000
/** Milliseconds between two tries of erasures that failed. */
const ERASE_AGAIN = 2000
/** Bytes of what grows with ids that a snapshot writes in a millisecond, at least. */
const SNAPSHOT_RATE = 100_000

export class LiveRecommender implements Recommender {
  readonly #options: EngineOptions
  readonly #directory: Directory | undefined
  readonly #catalogue: Catalogue
  readonly #journal: Journal
  readonly #lookup: LookupHolder
  readonly #learning: Learning
  readonly #reading: Reading
  readonly #intake: Intake
  /** Undefined where lists are not counted. */
  readonly #experiments: Experiments | undefined
  #counting: NodeJS.Timeout | undefined
  /** Only with a directory. */
  readonly #archive: Archive | undefined
  readonly #build: Build = thisBuild()
  readonly #reports = new Broadcast<LiveReport>()
  /** Of those who read the journal just now. */
  readonly #exports = new Set<FormerNames>()
  readonly #opened = Date.now()
  #learned = 0
  /** What the training thread held when it was asked or heard last. */
  #standing: Standing | undefined
  /** What the process held when it was opened, but for what grows. */
  #fixedBytes = 0
  #last: LiveReport | undefined
  readonly #past = new PastReports()
  /** Events learned when a snapshot was ordered last. */
  #orderedAt = 0
  #orderedNumbers = 0
  #snapshotFailure: string | undefined
  #snapshotMilliseconds = 0
  #lastAttempt = Date.now()
  #state: "replaying" | "learning" | "failed" | "closed" = "learning"
  #reason: string | undefined
  #replay: Replay | undefined
  #caughtUp: Promise<void> = Promise.resolve()
  #closing: Promise<void> | undefined
  /** Snapshots and erasures, one at a time. */
  #chain: Promise<unknown> = Promise.resolve()
  /** A try of all erasures that is yet to begin; rejects when it failed. */
  #erasing: Promise<void> | undefined
  /** Callers that wait for an erasure, and what was removed meanwhile, by the position of its record. */
  #asking = 0
  readonly #removed = new Map<number, Removed>()
  /** Items that are put, one call at a time. */
  #puts: Promise<unknown> = Promise.resolve()
  #eraseTimer: NodeJS.Timeout | undefined
  #eraseFailure: string | undefined

  constructor(options: EngineOptions, directory: Directory | undefined) {
    const { run, features, limits, segment, publishDelay, delay, keys } = options
    this.#options = options
    this.#directory = directory
    this.#catalogue = new Catalogue(run.likeThreshold)
    this.#journal = new Journal(directory?.files, {
      seal: () => this.#intake.seal(),
      rollback: () => this.#intake.rollback(),
      beforeResuming: () => this.#lookup.mend(),
      resumed: () => this.#takeUpWriting(),
      broken: (cause) => this.#fail(cause),
    })
    this.#lookup = new LookupHolder({
      directory,
      mostKeys: keys,
      mostBytes: limits.bytes === undefined ? undefined : governedBytes(limits.bytes) / 16,
      onFailure: (error) => void this.#journal.refuse(error),
    })
    this.#learning = new Learning({
      run,
      trainer: { run, features, limits, segment, publishDelay, spareThread: options.spareThread },
      onLearned: (learned, events) => this.#onLearned(learned, events),
      onAged: (aged) => {
        this.#standing = aged.standing
        this.#intake.release(aged)
        // Only this many go at a time: the rest need not wait for the next tick.
        const { user, item } = aged.left
        if (Math.max(user.length, item.length) >= MOST_LEAVING && !this.#intake.isReplaying) this.#intake.tick()
      },
      onEnd: (error) => this.#fail(error),
    })
    if (this.#learning.reader.follow) this.#catalogue.pending = new PendingItems()
    this.#catalogue.detailStore = () => this.#lookup.readable
    this.#reading = new Reading(this.#catalogue, this.#learning, () => this.types)
    const lookup = () => this.#lookup.current
    const counts = new ListCounts()
    this.#experiments = options.experiments && new Experiments(options.experiments, counts)
    if (!directory) counts.reset(Date.now())
    const parts = {
      ...{ catalogue: this.#catalogue, journal: this.#journal, learning: this.#learning, lookup },
      experiments: this.#experiments,
      counts,
      reports: this.#past,
    }
    this.#intake = new Intake({
      ...{ ...parts, segment, limits, delay, keys },
      tick: tickMilliseconds(limits),
      weigh: (rows) => (run.recipe === "paper" ? undefined : weighRows(rows, run)),
      onLeft: (position, record) => {
        for (const names of this.#exports) names.add(position, record)
      },
    })
    const { keepJournal } = options
    if (directory) this.#archive = new Archive({ ...parts, directory, keepJournal, intake: this.#intake })
  }

  /** Takes up what the directory holds. Resolves when it can be read, or, where asked for, when all is replayed. */
  async start(): Promise<void> {
    await this.#start()
    this.#fixedBytes = fixedBytes(this.#growing())
    const { bytes } = this.#options.limits
    if (bytes !== undefined) await boundHeaps(bytes)
  }

  async #start(): Promise<void> {
    await this.#learning.thread.ready()
    const [directory, archive] = [this.#directory, this.#archive]
    if (!directory || !archive) {
      this.#intake.types = this.#options.types
      this.#intake.limits = this.#options.limits
      this.#intake.lifetimes.limit(this.#options.limits, [])
      this.#intake.endReplay()
      return this.#learning.begin()
    }
    const { signal } = this.#options
    refuseAborted(signal)
    const position = await archive.restore()
    refuseAborted(signal)
    this.#catalogue.ahead = await findErasedAhead(directory.files, {
      from: position,
      pending: this.#intake.erasures,
      signal,
    })
    await this.#lookup.takeUp({ position, wasThere: archive.hadLookup, signal })
    this.#journal.begin()
    this.#learned = this.#intake.accepted
    this.#orderedAt = this.#intake.accepted
    this.#state = "replaying"
    this.#intake.beginReplay()
    await this.#learning.begin()
    this.#standing = await this.#learning.ask<Standing>({ kind: "publish" })
    this.#replay = new Replay({
      files: directory.files,
      from: position,
      intake: this.#intake,
      learning: this.#learning,
      lookup: this.#lookup,
      learned: () => this.#learned,
      snapshot: (at) => this.#snapshotOfReplay(at),
      snapshotEvents: this.#options.snapshotEvents,
      isPatient: this.#options.replay === "behind",
      onProgress: this.#options.onReplay,
    })
    this.#caughtUp = this.#catchUp(directory, this.#replay)
    // Told to whoever waits for it.
    this.#caughtUp.catch((error) => this.#fail(error))
    if (this.#options.replay === "behind") return
    const stop = () => void this.#stopReplay()
    signal?.addEventListener("abort", stop)
    if (signal?.aborted) stop()
    await this.#caughtUp.finally(() => signal?.removeEventListener("abort", stop))
  }

  async #catchUp(directory: Directory, replay: Replay): Promise<void> {
    const isDone = await replay.run()
    if (!isDone) throw new DessError("CLOSED", "recommender: expected to replay its journal, it was closed before")
    this.#standing = await this.#learning.ask<Standing>({ kind: "publish" })
    // Known before anybody is told that events are taken, and before anything is written.
    await this.#journal.alone(() => directory.files.mend()).catch((error) => this.#journal.refuse(error))
    if (this.#lookup.failure) await this.#journal.refuse(this.#lookup.failure)
    this.#replay = undefined
    this.#catalogue.ahead = undefined
    this.#state = "learning"
    this.#intake.endReplay()
    this.#takeUpWriting()
  }

  /** The disk takes writes, at first or again. */
  #takeUpWriting(): void {
    if (this.#journal.refusal || this.#state !== "learning") return
    const { limits, types } = this.#options
    this.#intake.settle({ limits, types, build: this.#build })
    this.#intake.resume()
    if (this.#intake.erasures.size > 0) this.#eraseSoon(0)
  }

  caughtUp(): Promise<void> {
    return this.#caughtUp
  }

  // Writing

  observe(given: Event | readonly Event[], options: ObserveOptions = {}): Promise<Accepted> {
    return this.#orRefuse(() => this.#observe(given, options))
  }

  /** A disk that does not give what writing needs to know refuses writing, until it does. */
  async #orRefuse<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write()
    } catch (error) {
      if (!(error instanceof DessError && error.code === "UNAVAILABLE")) throw error
      await this.#journal.refuse(error)
      throw this.#journal.refusal ?? error
    }
  }

  async #observe(given: Event | readonly Event[], options: ObserveOptions): Promise<Accepted> {
    this.#check()
    checkOptionNames("options", options, ["replace", "source"])
    const replace = checkTruth("replace", options.replace)
    const source = checkSource(options.source)
    const events = this.#checkEvents(given)
    if (events.some(({ key, type }) => key !== undefined || type !== undefined)) {
      await this.#lookup.ensure(() => this.#durablePosition())
      this.#check()
    }
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
    if (source) this.#intake.moveSource(source)
    this.#intake.count()
    await this.#journal.committed()
    this.#intake.duplicates += duplicates
    return { accepted: events.length - duplicates, duplicates }
  }

  /** Of events, as they are set now. */
  get types(): EventTypes | undefined {
    return this.#options.types ?? this.#intake.types
  }

  #checkEvents(given: Event | readonly Event[]): CheckedEvent[] {
    const { scale, run } = this.#options
    const events = checkEvents(given, { scale, now: Date.now() / 1000, types: this.types })
    if (run.recipe === "paper" && events.some(({ weight }) => weight !== 1))
      throw new DessError(
        "UNSUPPORTED",
        "event weight: expected none with the paper recipe, whose events weigh the same",
      )
    return events
  }

  source(name: string): string | undefined {
    return this.#intake.sources.get(name)
  }

  async deleteItems(items: Id | readonly Id[]): Promise<number> {
    this.#check()
    const names = toArray("items", items).map((item) => checkName("item", item))
    const count = this.#intake.deleteItems(names)
    await this.#journal.committed()
    return count
  }

  note(side: Side, id: Id): Note | undefined {
    this.#read()
    const name = checkName(checkSide(side), id)
    return this.#isErased(side, name) ? undefined : this.#lookup.readable?.note(side, name)
  }

  putNotes(side: Side, notes: readonly { id: Id; note: Note | null }[]): Promise<void> {
    return this.#orRefuse(async () => {
      this.#check()
      const checked = checkNotes(checkSide(side), notes)
      await this.#lookup.ensure(() => this.#durablePosition())
      this.#check()
      this.#intake.putNotes(side, checked)
      await this.#journal.committed()
    })
  }

  notedIds(side: Side, after?: Id): Iterable<string> {
    this.#read()
    const begin = after === undefined ? undefined : checkName(side, after)
    const names = this.#lookup.readable?.noteIds(checkSide(side), begin) ?? []
    return this.#catalogue.ahead ? allBut(names, (name) => this.#isErased(side, name)) : names
  }

  /** Whether a name's erasure is still to be replayed. */
  #isErased(side: Side, name: string): boolean {
    return side === "user" && this.#catalogue.ahead?.hasName(name) === true
  }

  putItems(given: ItemEntry | readonly ItemEntry[]): Promise<number> {
    return this.#orRefuse(async () => {
      this.#check()
      const entries = checkItems(given, this.#options.features)
      // One after the other: each is merged with what the one before has put.
      const put = this.#puts.then(() => this.#putItems(entries))
      this.#puts = put.catch(() => {})
      await put
      return entries.length
    })
  }

  async #putItems(entries: readonly CheckedItem[]): Promise<void> {
    this.#check()
    this.#refuseTooManyProperties(entries)
    if (entries.some(({ title, properties }) => title || properties)) {
      await this.#lookup.ensure(() => this.#durablePosition())
      this.#check()
    }
    this.#intake.putItems(entries)
    await this.#journal.committed()
    this.#snapshotWhenDue()
  }

  /** Names of properties are few, and what is kept of items leaves some of what may grow to users and rows. */
  #refuseTooManyProperties(entries: readonly CheckedItem[]): void {
    const named = entries.flatMap(({ properties }) => Object.keys(properties ?? {}))
    const names = new Set(named.length === 0 ? [] : [...this.#catalogue.properties.names, ...named])
    if (names.size > MOST_NAMES)
      throw new DessError(
        "INVALID_DATA",
        `item properties: expected at most ${MOST_NAMES} names in all, got ${names.size}`,
      )
    const { bytes } = this.#options.limits
    if (bytes === undefined) return
    const isKnown = ({ item }: CheckedItem) => this.#catalogue.names.item.find(item) !== undefined
    // A full catalogue can still be told what is sold out.
    const most = (entries.every(isKnown) ? 1 : MOST_OF_ITEMS) * governedBytes(bytes)
    const held = this.#catalogue.bytes.entries + (this.#lookup.current?.keptBytes ?? 0)
    let added = 0
    for (const entry of entries) added += bytesOfPut(entry, { isKnown: isKnown(entry), inMemory: !this.#directory })
    if (held + added > most)
      throw new DessError(
        "INVALID_ARGUMENT",
        `items: expected what is kept of them to need at most ${Math.floor(most)} bytes of what the memory budget leaves to what grows, got ${held}, and about ${added} with these`,
      )
  }

  retract(user: Id, item: Id, type?: string): Promise<number> {
    return this.#orRefuse(() => this.#retract(user, item, type))
  }

  async #retract(user: Id, item: Id, type: string | undefined): Promise<number> {
    this.#check()
    const query = { ...this.#reading.pair(user, item) }
    if (query.user === undefined || query.item === undefined) return 0
    const wanted = type === undefined ? undefined : checkType(type)
    await this.#journal.committed()
    const rows = [...(this.#lookup.current?.feedback(query) ?? [])].map(({ user, item, type }) => ({
      user,
      item,
      type,
    }))
    const going = rows.filter((row) => wanted === undefined || row.type === wanted)
    this.#intake.retract(going, going.length === rows.length)
    await this.#journal.committed()
    return going.length
  }

  /** Where the lookup table begins: what is on its way may be taken back, and has nothing for it. */
  #durablePosition(): number {
    return this.#directory?.files.next ?? 0
  }

  #queue(): number {
    return this.#intake.accepted + this.#intake.pending - this.#learned
  }

  // What comes back from training

  #onLearned(learned: Learned, events: number): void {
    this.#learned += events
    this.#catalogue.pending?.free(learned.number)
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
      journalEvents: this.#directory ? this.#intake.accepted - (snapshot?.accepted ?? 0) : null,
      snapshotAge: snapshot ? Date.now() - snapshot.time : null,
      shrunk,
      left: { user: left.user.length, item: left.item.length },
      outlook: outlook ?? null,
    }
    if (failed !== undefined) this.#last.failed = failed
    this.#standing = learned.standing
    this.#intake.release(learned)
    this.#past.push(this.#last)
    this.#reports.send(this.#last)
    this.#snapshotWhenDue()
  }

  #pastReports(last: number): LiveReport[] {
    const past = this.#past.last(last)
    return this.#last ? [...past.slice(0, -1), this.#last] : past
  }

  #fail(error: unknown): void {
    if ((this.#state !== "learning" && this.#state !== "replaying") || this.#closing) return
    this.#state = "failed"
    this.#intake.stop()
    this.#reason = error instanceof Error ? error.message : String(error)
  }

  /** Refuses what would write. */
  #check(): void {
    if (this.#closing || this.#state === "closed")
      throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
    if (this.#state === "failed") throw new DessError("CLOSED", `recommender: training stopped: ${this.#reason}`)
    if (this.#state === "replaying")
      throw new DessError("CLOSED", "recommender: expected it to be ready, it is still replaying its journal")
    if (this.#journal.refusal) throw this.#journal.refusal
  }

  // Reading

  recommend(user: Id, options?: RecommendOptions): Promise<RecommendationList>
  recommend(guest: GuestOptions): Promise<RecommendationList>
  async recommend(first: Id | GuestOptions, options: RecommendOptions = {}): Promise<RecommendationList> {
    if (isGuest(first, options)) return this.#give("guest", this.#read().recommendToGuest(first), first)
    refuseAfter(options)
    if (!this.#experiments) return this.#give("recommend", this.#read().recommend(first, options), options)
    const user = checkName("user", first)
    const variant = this.#experiments.settingsOf(this.#experiments.variantOf(user))
    return this.#give("recommend", this.#read().recommendAs(variant, user, options), { ...options, user })
  }

  async recommendAs(setting: Variant, user: Id, options: RecommendOptions = {}): Promise<Recommendation[]> {
    return this.#read().recommendAs(setting, user, options)
  }

  /** Counts a list and gives it its id. */
  #give(kind: ListKind, list: Recommendation[], { counted, user }: GivenList): RecommendationList {
    if (this.#state === "replaying" || !isCounted(counted)) return list
    const experiments = this.#experiments
    if (experiments || this.#catalogue.shown.isPending)
      this.#counting ??= setTimeout(() => {
        this.#counting = undefined
        if (this.#state === "learning" && !this.#closing) this.#intake.count()
      }, COUNT_EVERY).unref()
    if (!experiments) return list
    const { id, variant } = experiments.give(kind, user)
    return Object.assign(list, { id }, variant === undefined ? {} : { variant })
  }

  experiments(): ExperimentsView | undefined {
    this.#read()
    return this.#experiments?.view()
  }

  async preview(user: Id, trials: readonly Trial[], options: PreviewOptions = {}) {
    checkOptionNames("options", options, ["count", "include"])
    return this.#read().recommend(user, options, checkTrials(trials, this.#options.scale))
  }

  async similar(item: Id, options: ListOptions = {}): Promise<RecommendationList> {
    return this.#give("similar", this.#read().similar(item, options), options)
  }

  async popular(options: ListOptions = {}): Promise<RecommendationList> {
    return this.#give("popular", this.#read().general("trending", options), options)
  }

  async newest(options: ListOptions = {}): Promise<RecommendationList> {
    return this.#give("newest", this.#read().general("new", options), options)
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
    checkOptionNames("options", options, ["after"])
    refuseAfter(options)
    return this.#read().explain(side, id)
  }

  item(item: Id): ItemView | undefined {
    return this.#read().item(item)
  }

  async search(query: string, options: PageOptions = {}): Promise<ItemView[]> {
    return this.#read().search(query, options)
  }

  has(side: Side, id: Id): boolean {
    return this.#read().has(side, id)
  }

  ids(side: Side, options: PageOptions = {}): string[] {
    return this.#read().ids(side, options)
  }

  async list(side: Side, options: PageOptions = {}): Promise<string[]> {
    return this.ids(side, options)
  }

  history(user: Id, options: { count?: number } = {}): string[] {
    return this.#read().history(user, options)
  }

  async feedback(options: FeedbackOptions = {}): Promise<{ feedback: FeedbackView[]; next: string | null }> {
    await this.#journal.committed().catch(() => {})
    return this.#read().feedback(this.#lookup.readable, options)
  }

  items(): Iterable<ItemView & { features: readonly number[] | null }> {
    return this.#read().items()
  }

  #read(): Reading {
    if (this.#state !== "closed") return this.#reading
    throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
  }

  async *events(): AsyncGenerator<NamedEvent> {
    const { files } = this.#directory ?? {}
    if (!files) return
    await this.#caughtUp
    const former = new FormerNames()
    this.#exports.add(former)
    try {
      await this.#journal.committed().catch(() => {})
      for await (const { position, record } of files.readLeavings(files.first))
        if (record.kind === "left" || record.kind === "forget") former.add(position, record)
      const { max } = this.#options.scale
      const now = (side: Side, index: number) => this.#intake.nameOf(side, index)
      // Named at once: who has an index now may leave while this is read.
      for await (const some of portions(files.read(files.first)))
        yield* some.flatMap(({ position, record }) =>
          record.kind === "events" ? nameEvents({ position, record }, { former, now, max }) : [],
        )
    } finally {
      this.#exports.delete(former)
    }
  }

  reports(signal?: AbortSignal, options: { last?: number } = {}): AsyncIterableIterator<LiveReport> {
    checkOptionNames("options", options, ["last"])
    const last = checkCount("last", options.last, { least: 0, most: MOST_PAST, otherwise: 0 })
    return this.#reports.listen(signal, last === 0 ? [] : this.#pastReports(last))
  }

  get state(): Status["state"] {
    return this.#state === "learning" && this.#journal.refusal ? "refusing" : this.#state
  }

  /** The build that learned what was taken up, where it learns differently. */
  get #built(): Build | undefined {
    const { mixed, build } = this.#intake
    return mixed ?? (build && build.learning !== this.#build.learning ? build : undefined)
  }

  status(): Status {
    const { run, limits } = this.#options
    const { user, item } = this.#catalogue.names
    const taken = this.#archive?.newest
    const { held, totals } = this.#standing ?? NOTHING
    const fresh = [...this.#learning.freshness].sort((a, b) => a - b)
    const at = (share: number) => fresh[Math.min(fresh.length - 1, Math.floor(share * fresh.length))]
    const { refusal } = this.#journal
    const reason = this.#reason ?? (this.state === "refusing" ? refusal?.message : this.#replay?.failure)
    const gone = new Set([...this.#intake.gone, ...(this.#directory?.lost ?? []), ...(this.#directory?.gone ?? [])])
    const damaged = [...(this.#archive?.damaged ?? []), ...gone, ...this.#lookup.damaged]
    return {
      state: this.state,
      ...(reason === undefined ? {} : { reason }),
      task: run.task,
      method: run.method,
      directory: this.#directory?.path ?? null,
      opened: this.#opened,
      events: {
        accepted: this.#intake.accepted + this.#intake.pending,
        duplicates: this.#intake.duplicates,
        learned: this.#learned,
        queue: this.#queue(),
      },
      segments: this.#intake.segments,
      users: { known: user.size, held: held.user.seen },
      items: { known: item.size, held: held.item.seen, hidden: this.#catalogue.hidden.size },
      memory: {
        budget: limits.bytes ?? null,
        parts: this.#growing(),
        fixed: this.#fixedBytes,
        heldBytes: held.heldBytes,
        embeddingBytes: held.embeddingBytes,
        sizes: { user: held.user.histogram, item: held.item.histogram },
        ...(held.vectorsSave === undefined ? {} : { vectorsSave: held.vectorsSave }),
        ...totals,
      },
      freshness:
        fresh.length === 0 ? null : { p50: at(0.5), p99: at(0.99), last: this.#learning.freshness.at(-1) ?? 0 },
      journal: this.#directory
        ? { events: this.#intake.accepted - (taken?.accepted ?? 0), bytes: this.#directory.files.bytes }
        : null,
      snapshot: taken ? { segment: taken.segment, bytes: taken.bytes, time: taken.time } : null,
      ...(damaged.length === 0 ? {} : { damaged }),
      ...(this.#replay ? { replay: this.#replay.progress } : {}),
      erasures: this.#archive
        ? {
            pending: this.#intake.erasures.size,
            ...(this.#eraseFailure === undefined ? {} : { failure: this.#eraseFailure }),
          }
        : null,
      ...(this.#built ? { built: this.#built } : {}),
      ...(this.#snapshotFailure === undefined ? {} : { snapshotFailure: this.#snapshotFailure }),
      last: this.#last ?? null,
      ...(this.#experiments ? { experiments: true as const } : {}),
    }
  }

  /** Bytes of what grows. */
  #growing(): MemoryParts {
    const { held, metBytes } = this.#standing ?? NOTHING
    const [catalogue, reader] = [this.#catalogue, this.#learning.reader]
    const lookupBytes = this.#lookup.current?.heldBytes ?? 0
    const ruleBytes = this.#reading.rules.bytes
    return countGrowing({ held, metBytes, catalogue, reader, waiting: this.#queue(), lookupBytes, ruleBytes })
  }

  // Snapshots, erasures, closing

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
    if (!this.#directory || this.#state !== "learning" || this.#journal.refusal || this.#closing) return false
    const numbers = this.#intake.featureNumbers - this.#orderedNumbers
    const events = this.#learned - this.#orderedAt + numbers / NUMBERS_PER_EVENT
    const late = events > 0 && Date.now() - this.#lastAttempt >= this.#options.snapshotDelay
    if (events < this.#options.snapshotEvents && !late) return false
    this.#orderedAt = this.#learned
    this.#orderedNumbers = this.#intake.featureNumbers
    return true
  }

  async snapshot(): Promise<SnapshotInfo> {
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
    this.#intake.closeSegment()
    const info = await this.#archive.take(shorten)
    this.#orderedAt = Math.max(this.#orderedAt, this.#archive.newest?.accepted ?? 0)
    this.#snapshotMilliseconds = Date.now() - this.#lastAttempt
    this.#snapshotFailure = undefined
    this.#lookup.trimKeys()
    return info
  }

  /** In a replay, at the end of a segment. */
  async #snapshotOfReplay(position: number): Promise<void> {
    const started = Date.now()
    try {
      await this.#archive?.save(position, true)
      this.#snapshotFailure = undefined
    } catch (error) {
      this.#snapshotFailure = (error as Error).message
    }
    this.#snapshotMilliseconds = Date.now() - started
  }

  async merge(guest: Id, user: Id): Promise<Merged> {
    this.#check()
    const names = checkMerge(guest, user)
    // What is on its way to the disk is the guest's still.
    await this.#journal.committed()
    this.#check()
    const index = this.#catalogue.names.user.find(names.guest)
    if (index === undefined) return { ...names, found: false, history: 0 }
    const history = this.#catalogue.history(index).length
    this.#intake.merge(index, names.user)
    await this.#journal.committed()
    return { ...names, found: true, history }
  }

  forget(user: Id): Promise<Receipt> {
    return this.#orRefuse(() => this.#forget(user))
  }

  async #forget(user: Id): Promise<Receipt> {
    this.#check()
    const name = checkName("user", user)
    let known = await this.#findUser(name)
    // Who came, left or was erased meanwhile is looked for once more.
    while (known.index !== this.#userIndex(name)) known = await this.#findUser(name)
    const { index, former } = known
    this.#check()
    const receipt = { user: name, found: true, row: false, history: 0, events: 0, snapshots: 0 }
    let position = this.#pendingErasure(name)
    if (index !== null || former.length > 0 || this.#lookup.current?.note("user", name)) {
      receipt.history = index === null ? 0 : this.#catalogue.history(index).length
      receipt.row = index !== null && this.#learning.reader.knows("user", index)
      this.#intake.forget(index, former, name)
      await this.#journal.committed()
      position = this.#pendingErasure(name)
    }
    if (position === undefined) return { ...receipt, found: false, status: "done", time: Date.now() }
    const done = await this.#eraseNow(position)
    if (done) this.#standing = await this.#learning.ask<Standing>({ kind: "publish" })
    return { ...receipt, ...done, status: done ? "done" : "pending", time: Date.now() }
  }

  /** The position of the newest erasure of a name that is not done. */
  #pendingErasure(name: string): number | undefined {
    const hash = hashName(name)
    return [...this.#intake.erasures].findLast(([, erasure]) => erasure.hash === hash)?.[0]
  }

  #userIndex(name: string): number | null {
    return this.#catalogue.names.user.find(name) ?? null
  }

  /** A user's index, and those of before. */
  async #findUser(name: string): Promise<{ index: number | null; former: { index: number; before: number }[] }> {
    const index = this.#userIndex(name)
    await this.#journal.committed()
    return { index, former: this.#directory ? await formerIndicesOf(this.#directory.files, name) : [] }
  }

  /** Tries to finish an erasure; undefined when that has to wait. */
  async #eraseNow(position: number): Promise<Removed | undefined> {
    if (!this.#archive) {
      this.#intake.finishErasures([position])
      await this.#journal.committed()
      return { events: 0, snapshots: 0 }
    }
    const isPending = () => this.#intake.erasures.has(position)
    this.#asking++
    try {
      while (isPending()) await this.#erase()
    } catch {
      // Another try may have done it all the same.
    } finally {
      this.#asking--
    }
    const removed = this.#removed.get(position) ?? { events: 0, snapshots: 0 }
    if (this.#asking === 0) this.#removed.clear()
    return isPending() ? undefined : removed
  }

  /** Erases all that is pending, one try at a time for all who ask. */
  #erase(): Promise<void> {
    clearTimeout(this.#eraseTimer)
    this.#erasing ??= this.#exclusive(async () => {
      this.#erasing = undefined
      try {
        const removed = await (this.#archive as Archive).erase()
        this.#eraseFailure = undefined
        if (this.#asking > 0) for (const [position, one] of removed) this.#removed.set(position, one)
      } catch (error) {
        this.#eraseFailure = (error as Error).message
        this.#eraseSoon(ERASE_AGAIN)
        throw error
      }
    })
    return this.#erasing
  }

  #eraseSoon(milliseconds: number): void {
    clearTimeout(this.#eraseTimer)
    if (this.#closing) return
    this.#eraseTimer = setTimeout(() => {
      // Where writing is refused it is tried when it is taken up again.
      if (this.#intake.erasures.size > 0 && !this.#journal.refusal) this.#erase().catch(() => {})
    }, milliseconds).unref()
  }

  suspendErasures(): void {
    if (this.#directory) this.#directory.files.isClosing = true
  }

  close(): Promise<void> {
    this.suspendErasures()
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** Lets go of everything without writing; for a start that failed. */
  async abandon(): Promise<void> {
    this.#closing = Promise.resolve()
    this.#state = "closed"
    await this.#letGo()
  }

  async #letGo(): Promise<void> {
    this.#intake.close()
    this.#journal.close()
    clearTimeout(this.#eraseTimer)
    await this.#learning.close()
    await this.#lookup.close()
    await this.#directory?.close()
    this.#reports.end()
  }

  async #close(): Promise<void> {
    clearTimeout(this.#counting)
    if (this.#state === "learning") this.#intake.count()
    await this.#stopReplay()
    await this.#chain
    try {
      if (this.#state === "learning" && !this.#journal.refusal) {
        await this.#drain()
        const isNew = this.#journal.position !== (this.#archive?.newest?.position ?? 0)
        // What was gone is to be told later, too.
        if (this.#archive && (isNew || (this.#directory?.gone.length ?? 0) > 0)) await this.#takeSnapshot()
      }
    } catch {
      // Everything acknowledged is in the journal: the next start replays it.
    } finally {
      this.#state = "closed"
      await this.#journal.committed().catch(() => {})
      await this.#letGo()
    }
  }

  /** Ends a replay, and keeps what is done where that is quick. */
  async #stopReplay(): Promise<void> {
    const replay = this.#replay
    if (!replay) return
    const bytes = Object.values(this.#growing()).reduce((sum, part) => sum + part, 0)
    const isKept = await replay.stop(Math.max(this.#snapshotMilliseconds, bytes / SNAPSHOT_RATE))
    if (!isKept) await this.#learning.abandon()
    await this.#caughtUp.catch(() => {})
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
  rowBytes: { user: 0, item: 0 },
  heldBytes: 0,
  regret: null,
  played: null,
  decided: null,
  milliseconds: { policy: 0, growth: 0, train: 0, inference: 0 },
}

const NOTHING: Standing = {
  metBytes: 0,
  held: {
    user: { seen: 0, numbers: 0, histogram: {}, rowBytes: 0 },
    item: { seen: 0, numbers: 0, histogram: {}, rowBytes: 0 },
    embeddingBytes: 0,
    heldBytes: 0,
  },
  totals: { shrunk: { user: 0, item: 0 }, left: { user: 0, item: 0 } },
}

function* allBut(names: Iterable<string>, isOut: (name: string) => boolean): Generator<string> {
  for (const name of names) if (!isOut(name)) yield name
}

function refuseAfter({ after }: Pick<RecommendOptions, "after">): void {
  if (after !== undefined)
    throw new DessError("INVALID_ARGUMENT", `after: expected with a cluster only (--cluster), got ${show(after)}`)
}
