/**
 * A reader: the item matrix in memory, kept fresh from the owners' updates; users' rows fetched when asked for and kept for a
 * second. It writes events and items, too, but holds nothing that is not in Redis: any number of them may come and go.
 */

import { Broadcast } from "../engine/broadcast.ts"
import { Catalogue } from "../engine/catalogue.ts"
import {
  type CheckedEvent,
  checkEvents,
  checkMerge,
  checkName,
  checkOptionNames,
  checkTrials,
  type GivenList,
  isCounted,
  isGuest,
  toArray,
} from "../engine/check.ts"
import { hasTypes } from "../engine/event-types.ts"
import { checkItems } from "../engine/item-entries.ts"
import { countGrowing, fixedBytes } from "../engine/process-memory.ts"
import { checkPage, Reading } from "../engine/reading.ts"
import type {
  Accepted,
  Event,
  ExperimentsView,
  Explanation,
  GuestOptions,
  Id,
  ItemEntry,
  ItemView,
  ListKind,
  ListOptions,
  LiveReport,
  MemoryParts,
  Merged,
  PageOptions,
  Prediction,
  PreviewOptions,
  Receipt,
  Recommendation,
  RecommendationList,
  RecommendOptions,
  ServedRecommender,
  Status,
  Trial,
} from "../engine/types.ts"
import { DessError } from "../errors.ts"
import { effectiveRating } from "../stream/labels.ts"
import type { Side } from "../types.ts"
import type { Cluster } from "./cluster.ts"
import { forgetEvent } from "./encoding.ts"
import { whenForgotten } from "./forgetting.ts"
import { ClusterCounts } from "./list-counts.ts"
import { Log, START } from "./log.ts"
import { Mirror } from "./mirror.ts"
import { type PartitionStatus, readPartition } from "./status.ts"
import { encodeToken, readToken } from "./token.ts"
import { listUsers } from "./users.ts"

export type Role = "both" | "reader" | "writer"

export interface ReaderOptions {
  /** Whether it takes events, gives lists, or does both. Default both. */
  role?: Role | undefined
  /** Replicas that must have an event before it is acknowledged. Default 0. */
  wait?: number | undefined
  /** Users kept in memory. Default 10,000. */
  users?: number | undefined
  /** Called with lines for a log. */
  onNote?: ((text: string) => void) | undefined
}

const COUNT = 1000
const PAIRS_AT_ONCE = 200
/** Milliseconds to wait until a user is forgotten. */
const PATIENCE = 10_000

export class ClusterRecommender implements ServedRecommender {
  readonly #cluster: Cluster
  readonly #options: ReaderOptions
  readonly #catalogue: Catalogue
  readonly #mirror: Mirror
  readonly #reading: Reading
  readonly #log: Log
  readonly #lists: ClusterCounts
  readonly #reports = new Broadcast<LiveReport>()
  readonly #opened = Date.now()
  #partitions: PartitionStatus[] = []
  #duplicates = 0
  #fixedBytes = 0
  #timer: NodeJS.Timeout | undefined
  #closed = false

  private constructor(cluster: Cluster, options: ReaderOptions) {
    this.#cluster = cluster
    this.#options = options
    const { run, keys, queue } = cluster.options
    this.#catalogue = new Catalogue(run.likeThreshold)
    this.#mirror = new Mirror(cluster, this.#catalogue, {
      users: options.users ?? 10_000,
      onNote: options.onNote ?? (() => {}),
    })
    this.#reading = new Reading(this.#catalogue, this.#mirror, () => this.#cluster.options.types)
    this.#lists = new ClusterCounts(cluster, this.#catalogue)
    this.#log = new Log(cluster, { keys, queue: Math.ceil(queue / cluster.partitions), wait: options.wait ?? 0 })
  }

  /** Resolves when the item matrix is loaded. */
  static async open(cluster: Cluster, options: ReaderOptions = {}): Promise<ClusterRecommender> {
    const recommender = new ClusterRecommender(cluster, options)
    try {
      if (options.role !== "writer") await recommender.#mirror.start()
      await recommender.#count()
      recommender.#fixedBytes = fixedBytes(recommender.#growing())
      return recommender
    } catch (error) {
      await recommender.close()
      throw error
    }
  }

  async #count(): Promise<void> {
    const before = this.#partitions
    try {
      this.#partitions = await Promise.all(this.#cluster.all.map((p) => readPartition(this.#cluster, p)))
      const sum = (name: string) => this.#partitions.reduce((total, { counters }) => total + counters[name], 0)
      const classes = [0, 1, 2, 3, 4].map((c) => sum(`class${c}`))
      this.#catalogue.setTotals({ likes: sum("likes"), classes })
      // Rows in memory may be a second old: what had been learned a second ago is in all of them.
      this.#mirror.own.free((user) => before[this.#cluster.keys.partitionOf(user)]?.offset ?? START)
      await this.#lists.sync()
    } catch (error) {
      if (this.#partitions.length === 0) throw error
    }
    if (!this.#closed) this.#timer = setTimeout(() => void this.#count(), COUNT)
  }

  // Writing

  async observe(given: Event | readonly Event[]): Promise<Accepted> {
    this.#may("writer")
    const { scale, types } = this.#cluster.options
    const events = checkEvents(given, { scale, now: Date.now() / 1000, types })
    if (!hasTypes(types) && events.some(({ type }) => type !== undefined))
      throw new DessError(
        "UNSUPPORTED",
        "event type: expected one of --types, got one without: a cluster keeps what an event weighs, not its type",
      )
    const { accepted, duplicates, last, ids } = await this.#log.append(events)
    this.#duplicates += duplicates
    events.forEach((event, at) => {
      if (ids[at] !== undefined) this.#lists.experiments?.observe(event)
    })
    if (this.#options.role !== "writer") this.#keep(events, ids)
    return { accepted, duplicates, token: encodeToken(last) }
  }

  /** Makes events count before they are learned. */
  #keep(events: readonly CheckedEvent[], ids: readonly (string | undefined)[]): void {
    events.forEach(({ user, item, rating, weight, stays }, at) => {
      const id = ids[at]
      if (id !== undefined) this.#mirror.own.add(user, { item, rating: effectiveRating(rating, weight), stays, id })
    })
  }

  async putItems(given: ItemEntry | readonly ItemEntry[]): Promise<number> {
    this.#may("writer")
    const entries = checkItems(given, this.#cluster.options.features)
    await this.#mirror.putItems(entries)
    return entries.length
  }

  async deleteItems(items: Id | readonly Id[]): Promise<number> {
    this.#may("writer")
    const names = toArray("items", items).map((item) => checkName("item", item))
    const count = await this.#mirror.deleteItems(names)
    await this.#lists.forgetItems(names)
    return count
  }

  #may(role: Exclude<Role, "both">): void {
    if (this.#closed) throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
    const { role: own = "both" } = this.#options
    if (own === "both" || own === role) return
    const does = role === "writer" ? "takes no events" : "gives no lists"
    throw new DessError("UNSUPPORTED", `role: expected both or ${role}, this one is a ${own} and ${does} (--role)`)
  }

  // Reading

  recommend(user: Id, options?: RecommendOptions): Promise<RecommendationList>
  recommend(guest: GuestOptions): Promise<RecommendationList>
  async recommend(first: Id | GuestOptions, options: RecommendOptions = {}): Promise<RecommendationList> {
    if (isGuest(first, options)) return this.#give("guest", this.#read().recommendToGuest(first), first)
    const { after, ...query } = options
    const reading = await this.#with(first, { after })
    const { experiments } = this.#lists
    const user = checkName("user", first)
    const variant = experiments?.settingsOf(experiments.variantOf(user))
    return this.#give("recommend", reading.recommendAs(variant, user, query), { ...query, user })
  }

  /** Counts a list and gives it its id. */
  #give(kind: ListKind, list: Recommendation[], { counted, user }: GivenList): RecommendationList {
    if (!isCounted(counted)) return list
    const given = this.#lists.experiments?.give(kind, user)
    if (!given) return list
    return Object.assign(list, { id: given.id }, given.variant === undefined ? {} : { variant: given.variant })
  }

  experiments(): ExperimentsView | undefined {
    return this.#lists.experiments?.view()
  }

  async preview(user: Id, trials: readonly Trial[], options: PreviewOptions = {}) {
    checkOptionNames("options", options, ["count", "include"])
    const checked = checkTrials(trials, this.#cluster.options.scale)
    return (await this.#with(user)).recommend(user, options, checked)
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

  predict(user: Id, item: Id): Promise<Prediction>
  predict(pairs: readonly { user: Id; item: Id }[]): Promise<Prediction[]>
  async predict(first: Id | readonly { user: Id; item: Id }[], second?: Id): Promise<Prediction | Prediction[]> {
    if (typeof first !== "object") return (await this.#with(first)).predict({ user: first, item: second as Id })
    const pairs = toArray("pairs", first) as readonly { user: Id; item: Id }[]
    const predictions: Prediction[] = []
    // A few at a time, so that none is dropped before it is read, and other work gets a turn.
    for (let from = 0; from < pairs.length; from += PAIRS_AT_ONCE) {
      const some = pairs.slice(from, from + PAIRS_AT_ONCE)
      const names = [...new Set(some.map((pair) => checkName("user", pair?.user)))]
      await Promise.all(names.map((name) => this.#mirror.fetchUser(name)))
      predictions.push(...this.#read().predictSome(some))
      if (from + PAIRS_AT_ONCE < pairs.length) await new Promise((resolve) => setImmediate(resolve))
    }
    return predictions
  }

  async explain(side: Side, id: Id, options: Pick<RecommendOptions, "after"> = {}): Promise<Explanation> {
    checkOptionNames("options", options, ["after"])
    const reading = side === "user" ? await this.#with(id, options) : this.#read()
    return reading.explain(side, id)
  }

  #read(): Reading {
    this.#may("reader")
    return this.#reading
  }

  /** For a user whose row is in memory. */
  async #with(user: Id, { after }: Pick<RecommendOptions, "after"> = {}): Promise<Reading> {
    const reading = this.#read()
    const name = checkName("user", user)
    const entry = after === undefined ? undefined : readToken(after, this.#cluster.keys.partitionOf(name))
    await this.#mirror.fetchUser(name, entry)
    return reading
  }

  item(item: Id): ItemView | undefined {
    return this.#read().item(item)
  }

  /** Of users only those in memory. */
  has(side: Side, id: Id): boolean {
    return this.#read().has(side, id)
  }

  /** Users by partition, in each in the order they came. */
  async list(side: Side, options: PageOptions = {}): Promise<string[]> {
    const reading = this.#read()
    if (side === "item") return reading.ids(side, options)
    const { offset, count } = checkPage(options)
    return listUsers(this.#cluster, { offset, count })
  }

  /** Of users only those in memory. */
  history(user: Id, options: { count?: number } = {}): string[] {
    return this.#read().history(user, options)
  }

  async search(query: string, options: PageOptions = {}): Promise<ItemView[]> {
    return this.#read().search(query, options)
  }

  items(): Iterable<ItemView & { features: readonly number[] | null }> {
    return this.#read().items()
  }

  // Operations

  /** The user's log gets what the guest met, as history that is not learned again; the guest is forgotten. */
  async merge(guest: Id, user: Id): Promise<Merged> {
    this.#may("writer")
    const names = checkMerge(guest, user)
    const found = await this.#mirror.trailOf(names.guest)
    if (found === undefined) return { ...names, found: false, history: 0 }
    const timestamp = Date.now() / 1000
    const events = found.map(({ item, isLiked, stays }) => ({
      ...{ user: names.user, item, timestamp, rating: Number.NaN, key: undefined, stays },
      weight: isLiked ? 0 : -Number.EPSILON,
    }))
    if (events.length > 0) await this.#log.append(events)
    await this.forget(names.guest)
    return { ...names, found: true, history: events.length }
  }

  async forget(user: Id): Promise<Receipt> {
    this.#may("writer")
    const name = checkName("user", user)
    const partition = this.#cluster.keys.partitionOf(name)
    const held = await this.#mirror.holds(name)
    const { last } = await this.#log.append([forgetEvent(name)])
    const asked = last.get(partition) as string
    const events = await whenForgotten(this.#cluster, { partition, asked, milliseconds: PATIENCE })
    this.#mirror.dropUser(name)
    this.#mirror.own.drop(name)
    const { row, history } = held ?? { row: false, history: 0 }
    const receipt = { user: name, row, history, snapshots: 0, time: Date.now() }
    // It is in the log and will be done by the next trainer of the partition.
    if (events === undefined) return { ...receipt, status: "pending", found: true, events: 0 }
    return { ...receipt, status: "done", found: held !== undefined || events > 0, events }
  }

  /** Resolves when everything accepted so far is learned. */
  async drain(): Promise<void> {
    for (;;) {
      const partitions = await Promise.all(this.#cluster.all.map((p) => readPartition(this.#cluster, p)))
      if (partitions.every(({ lag }) => lag <= 0)) return
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  reports(signal?: AbortSignal): AsyncIterableIterator<LiveReport> {
    return this.#reports.listen(signal)
  }

  get state(): Status["state"] {
    return this.#closed ? "closed" : "learning"
  }

  status(): Status {
    const { run } = this.#cluster.options
    const sum = (of: (one: PartitionStatus) => number) => this.#partitions.reduce((total, one) => total + of(one), 0)
    const held = this.#mirror.held
    return {
      state: this.state,
      ...(this.#lists.experiments ? { experiments: true as const } : {}),
      task: run.task,
      method: run.method,
      directory: null,
      opened: this.#opened,
      events: {
        accepted: sum(({ appended }) => appended),
        duplicates: this.#duplicates,
        learned: sum(({ applied }) => applied),
        queue: sum(({ lag }) => lag),
      },
      segments: 0,
      users: { known: sum(({ users }) => users), held: held.user.seen },
      items: { known: sum(({ items }) => items), held: held.item.seen, hidden: this.#catalogue.hidden.size },
      memory: {
        budget: null,
        parts: this.#growing(),
        fixed: this.#fixedBytes,
        heldBytes: held.heldBytes,
        embeddingBytes: held.embeddingBytes,
        sizes: { user: held.user.histogram, item: held.item.histogram },
        shrunk: { user: 0, item: 0 },
        left: { user: 0, item: 0 },
      },
      freshness: null,
      journal: null,
      snapshot: null,
      erasures: null,
      last: null,
      cluster: {
        partitions: this.#cluster.partitions,
        owned: this.#partitions.filter(({ owner }) => owner !== null).length,
        lost: this.#log.lost,
        failures: this.#cluster.redis.failures,
        updatesAge: this.#mirror.age,
      },
    }
  }

  #growing(): MemoryParts {
    const { held, reader } = this.#mirror
    return countGrowing({
      held,
      catalogue: this.#catalogue,
      reader,
      waiting: this.#mirror.own.count,
      lookupBytes: this.#mirror.detailBytes,
      ruleBytes: this.#reading.rules.bytes,
    })
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#timer)
    // What Redis refuses now is lost.
    await this.#lists.sync().catch(() => {})
    await this.#mirror.close()
    this.#reports.end()
    this.#cluster.close()
  }
}
