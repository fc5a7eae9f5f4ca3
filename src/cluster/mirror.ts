/** What a reader has in memory: all items, recently requested users, and the learner that scores them. */

import type { Catalogue } from "../engine/catalogue.ts"
import type { CheckedTrial } from "../engine/check.ts"
import { type CheckedItem, detailsOf, mergeItem, mergeItems } from "../engine/item-entries.ts"
import { Lookup } from "../engine/lookup.ts"
import type { ReadModel } from "../engine/reading.ts"
import type { StoredItem } from "../engine/records.ts"
import { DessError } from "../errors.ts"
import type { Kernels } from "../kernels/kernels.ts"
import { openKernels } from "../kernels/open.ts"
import { CalibratedReader } from "../learning/calibrated-reader.ts"
import { createRowModel } from "../learning/create.ts"
import type { LearnerExplanation, LearnerStatus } from "../learning/learner.ts"
import type { Run } from "../learning/loop.ts"
import type { Side } from "../types.ts"
import type { Cluster } from "./cluster.ts"
import { decodeStored } from "./encoding.ts"
import { Entries, readEntry, removeItems, writeEntries } from "./entries.ts"
import { readGlobal } from "./global-state.ts"
import { Items, putInto } from "./items.ts"
import { compareIds, START } from "./log.ts"
import { OwnEvents } from "./own-events.ts"
import { ROWS_PER_BUCKET } from "./redis-keys.ts"
import type { PartitionUpdates } from "./trainer.ts"

/** Milliseconds between two looks at the owners' updates, and for which a user's row is taken as fresh. */
const PAUSE = 100
const FRESH = 1000
/** Milliseconds a read waits for the events of its token. */
const PATIENCE = 2000
/** Milliseconds between two counts of trends. */
const TRENDS = 2000

interface CachedUser {
  index: number
  fetched: number
  offset: string
}

export class Mirror implements ReadModel {
  /** Scores with the learner's own rows. */
  readonly reader: CalibratedReader
  /** Accepted by this process. */
  readonly own = new OwnEvents()
  readonly #cluster: Cluster
  readonly #catalogue: Catalogue
  readonly #options: { users: number; onNote: (text: string) => void }
  readonly #run: Run
  readonly #kernels: Kernels
  readonly #items: Items
  /** By name, those asked for longest ago first. */
  readonly #users = new Map<string, CachedUser>()
  readonly #fetching = new Map<string, Promise<CachedUser | undefined>>()
  readonly #entries: Entries
  readonly #details = new Lookup({ directory: undefined, mostKeys: 0, onFailure: () => {} })
  #grown = false
  /** The version of the global state in memory. */
  #global = 0
  #updatedAt = 0
  #trended = 0
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(cluster: Cluster, catalogue: Catalogue, options: { users: number; onNote: (text: string) => void }) {
    this.#cluster = cluster
    this.#catalogue = catalogue
    this.#options = options
    this.#run = cluster.newRun().run
    this.#kernels = openKernels({ threads: 1 })
    this.reader = new CalibratedReader(this.#run.shared.model, createRowModel(cluster.options.run), this.#kernels)
    const put = putInto(this.#run)
    this.#items = new Items(cluster, (index, row) => {
      if (!this.#run.shared.has("item", index)) this.#grown = true
      put(index, row)
      this.reader.refresh([index])
    })
    this.#entries = new Entries(cluster, (index, entry) => this.#noteEntry(index, entry))
    catalogue.detailStore = () => this.#details
  }

  async explain(side: Side, index: number): Promise<LearnerExplanation | undefined> {
    return this.#run.learner.live?.explain(side, index)
  }

  get held(): LearnerStatus {
    return this.#run.learner.status()
  }

  /** Milliseconds since all owners were last read. */
  get age(): number {
    return this.#updatedAt === 0 ? 0 : Date.now() - this.#updatedAt
  }

  /** Reads all items, then follows their updates. */
  async start(): Promise<void> {
    await Promise.all(this.#cluster.all.map((owner) => this.#items.load(owner)))
    await Promise.all(this.#cluster.all.map((owner) => this.#entries.load(owner)))
    await this.#loadGlobal()
    this.#refresh()
    this.#updatedAt = Date.now()
    this.#arm()
  }

  #arm(): void {
    if (!this.#closed) this.#timer = setTimeout(() => void this.#follow(), PAUSE)
  }

  async #follow(): Promise<void> {
    try {
      await Promise.all(this.#cluster.all.map((owner) => this.#readUpdates(owner)))
      if (Date.now() - this.#trended > TRENDS) await this.#loadGlobal()
      this.#refresh()
      this.#updatedAt = Date.now()
    } catch (error) {
      if (!this.#closed) this.#options.onNote((error as Error).message)
    }
    this.#arm()
  }

  async #readUpdates(owner: number): Promise<void> {
    const { keys } = this.#cluster
    const names = ["deltas", "evidence", "changes", "home", "puts"].map((what) => keys.of(owner, what))
    for (;;) {
      const after = ["0-0", "", `${this.#items.owners[owner].seq}-0`, this.#entries.after(owner)]
      const [, , changes, puts, seq, fence, last] = (await this.#cluster.run(
        "updates",
        names,
        after,
      )) as PartitionUpdates
      const changed = await this.#items.follow(owner, { changes, seq, fence: String(fence), lazily: false })
      for (const index of changed) {
        if (this.#items.name(index) === undefined) this.#dropItem(index)
        else this.#noteItem(index)
      }
      await this.#entries.applyPuts(owner, puts, last)
      if (changes.length < 400 && puts.length < 400) return
    }
  }

  async #noteEntry(index: number, entry: StoredItem | null): Promise<void> {
    if (entry === null) {
      this.#dropItem(index)
      return
    }
    await this.#items.fetchNames([index])
    this.#noteItem(index)
    this.#catalogue.put(index, entry)
    this.#details.add([{ kind: "details", item: index, details: detailsOf(entry) }], 0)
  }

  /** An item was deleted. */
  #dropItem(index: number): void {
    this.#items.drop(index)
    this.#catalogue.put(index, null)
    this.#catalogue.names.item.drop(index)
    this.#catalogue.drop("item", [index])
    this.#details.add([{ kind: "details", item: index, details: null }], 0)
  }

  /** Bytes of titles and properties. */
  get detailBytes(): number {
    return this.#details.heldBytes
  }

  #noteItem(index: number): void {
    const name = this.#items.name(index)
    if (name === undefined) return
    if (this.#catalogue.names.item.name(index) === undefined) this.#catalogue.names.item.set(index, name)
    this.#catalogue.setItem(index, this.#items.about(index))
  }

  /** Adds new items to the catalogue, and from time to time updates the trend of all. */
  #refresh(): void {
    if (!this.#grown && Date.now() - this.#trended < TRENDS) return
    this.#trended = Date.now()
    for (const [, index] of this.#items.names()) this.#noteItem(index)
    this.#grown = false
  }

  async #loadGlobal(): Promise<void> {
    const stored = await readGlobal(this.#cluster)
    if (!stored || stored.version === this.#global) return
    this.#run.shared.putGlobal(stored.bytes)
    this.#global = stored.version
  }

  /** This process's events of a user that the row in memory has not learned. */
  recent(user: string): CheckedTrial[] {
    return this.own.after(user, this.#users.get(user)?.offset ?? START)
  }

  /** Has a user's row in memory, not older than a second; with `after`, not older than that entry of the log. */
  async fetchUser(name: string, after?: string): Promise<void> {
    const until = Date.now() + PATIENCE
    for (;;) {
      const cached = this.#users.get(name)
      const fresh = cached !== undefined && Date.now() - cached.fetched < FRESH
      if (fresh && (after === undefined || compareIds(cached.offset, after) >= 0)) return
      const offset = await this.#fetch(name)
      if (after === undefined || compareIds(offset, after) >= 0) return
      if (Date.now() >= until)
        throw new DessError(
          "STALE",
          `after: expected the events of the token to be learned within ${PATIENCE / 1000} s, ${after} is not; try again`,
        )
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  async #fetch(name: string): Promise<string> {
    const running = this.#fetching.get(name) ?? this.#read(name).finally(() => this.#fetching.delete(name))
    this.#fetching.set(name, running)
    return (await running)?.offset ?? "0-0"
  }

  async #read(name: string): Promise<CachedUser> {
    const { keys } = this.#cluster
    const partition = keys.partitionOf(name)
    const found = (await this.#cluster.run(
      "users",
      [keys.of(partition, "state"), keys.names("users", partition, name)],
      [keys.of(partition, "users:"), String(ROWS_PER_BUCKET), name],
    )) as [Buffer, number, Buffer]
    const [offset, number, record] = found
    const user = { index: keys.index(partition, number), fetched: Date.now(), offset: String(offset) }
    // Forgotten meanwhile.
    if (this.#users.has(name) && this.#users.get(name)?.index !== user.index) this.dropUser(name)
    // Unknown, or named and not learned yet.
    if (number < 0 || record.length === 0) return user
    const { row, met, staying } = decodeStored(record)
    if (row.length > 0) this.#run.shared.putRow("user", user.index, row)
    this.#users.delete(name)
    this.#users.set(name, user)
    this.#catalogue.names.user.set(user.index, name)
    this.#catalogue.setHistory(user.index, met ?? this.#run.shared.met(user.index) ?? [], staying)
    this.#dropOldest()
    return user
  }

  /** What a user has met, as this process knows it, the latest last; undefined for an unknown one. */
  async trailOf(name: string): Promise<{ item: string; isLiked: boolean; stays: boolean }[] | undefined> {
    await this.#fetch(name)
    const user = this.#users.get(name)
    const own = this.recent(name)
    if (!user && own.length === 0) return undefined
    const found = new Map<string, { item: string; isLiked: boolean; stays: boolean }>()
    const add = (item: string | undefined, isLiked: boolean, stays: boolean) => {
      if (item === undefined) return
      const before = found.get(item)
      found.delete(item)
      found.set(item, { item, isLiked, stays: stays && (before?.stays ?? true) })
    }
    if (user) {
      const { item: names } = this.#catalogue.names
      const staying = new Set(this.#catalogue.staying(user.index))
      const latest = this.#run.shared.model.latestOf?.(user.index) ?? []
      for (const item of this.#catalogue.history(user.index)) add(names.name(item), false, staying.has(item))
      for (const item of latest) add(names.name(item), true, staying.has(item))
    }
    for (const { item, rating, stays = false } of own) add(item, this.#catalogue.like(rating) === 1, stays)
    return [...found.values()]
  }

  #dropOldest(): void {
    for (const name of this.#users.keys()) {
      if (this.#users.size <= this.#options.users) return
      this.dropUser(name)
    }
  }

  /** What is held of a user now: whether a row, and how many items met. */
  async holds(name: string): Promise<{ row: boolean; history: number } | undefined> {
    await this.#fetch(name)
    const user = this.#users.get(name)
    if (!user) return undefined
    return { row: this.#run.shared.has("user", user.index), history: this.#catalogue.history(user.index).length }
  }

  /** From memory. */
  dropUser(name: string): void {
    const user = this.#users.get(name)
    if (!user) return
    const { index } = user
    this.#users.delete(name)
    this.#run.shared.dropRow("user", index)
    this.#catalogue.names.user.drop(index)
    this.#catalogue.drop("user", [index])
  }

  /** Adds entries to the catalogue or changes them. What is left out stays as it was, also what others put meanwhile. */
  async putItems(entries: readonly CheckedItem[]): Promise<void> {
    mergeItems(this.#catalogue, entries)
    await this.#items.meet(entries.map(({ item }) => item))
    const indexOf = ({ item }: CheckedItem) => this.#items.find(item) as number
    for (let rest = entries; rest.length > 0; ) {
      const before = await Promise.all(rest.map((entry) => readEntry(this.#cluster, indexOf(entry))))
      const merged = new Map<number, { entry: StoredItem; stored: string }>()
      rest.forEach((put, i) => {
        const { entry, stored } = merged.get(indexOf(put)) ?? before[i]
        merged.set(indexOf(put), { entry: mergeItem(entry, put), stored })
      })
      const refused = await writeEntries(
        this.#cluster,
        Array.from(merged, ([index, one]) => ({ index, ...one })),
      )
      const isRefused = (index: number) => refused.has(index % this.#cluster.partitions)
      for (const [index, { entry }] of merged) if (!isRefused(index)) await this.#noteEntry(index, entry)
      rest = rest.filter((entry) => isRefused(indexOf(entry)))
    }
  }

  /** Takes items out of the cluster; says how many there were. */
  async deleteItems(names: readonly string[]): Promise<number> {
    const gone = await removeItems(this.#cluster, names)
    for (const index of gone) this.#dropItem(index)
    return gone.length
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#run.close()
    this.#kernels.close()
    await this.#details.close()
  }
}
