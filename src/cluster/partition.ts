/**
 * A trainer's copy of one partition: the users whose events it holds, and the items it owns. A segment is written in one
 * step with everything that belongs to it. The rows of items follow at their owner, with the outbox positions they
 * contain.
 */

import { weighRows } from "../engine/event-types.ts"
import { DessError } from "../errors.ts"
import { BudgetExceeded } from "../learning/limiter.ts"
import type { Run } from "../learning/loop.ts"
import { binaryLabel, classLabel, effectiveRating } from "../stream/labels.ts"
import type { Segment } from "../types.ts"
import type { Cluster } from "./cluster.ts"
import {
  type ClusterEvent,
  decodeStored,
  encodeChanges,
  encodeStored,
  encodeUpdate,
  type ItemChange,
} from "./encoding.ts"
import { Scrubbing } from "./forgetting.ts"
import type { Items, OwnerState } from "./items.ts"
import type { Leases } from "./leases.ts"
import { compareIds, type LogEntry, readEvents, START } from "./log.ts"
import { ROWS_PER_BUCKET } from "./redis-keys.ts"
import { type Fence, FencedWrite } from "./writes.ts"

/** Maximum number of a user's latest items that are kept. */
const LONGEST_MET = 2000
/** Updates kept in the stream; a reader that is further behind reads everything again. */
const EVIDENCE_KEPT = 5000
const CHANGES_KEPT = 500

export interface PartitionContext {
  cluster: Cluster
  leases: Leases
  items: Items
  run: Run
  /** Events a stream may keep although no snapshot needs them. */
  keepEvents: number
  onTrouble(error: DessError): void
  isOwn(partition: number): boolean
  /** Passes ids whose rows training changed to the partitions that write them. */
  sortTouched(): void
  /** Reads the rows of items that are older here than announced. */
  catchUp(items: Iterable<number>): void
  /** Drops users whose rows were evicted; Redis has them. */
  evict(users: readonly number[]): void
}

export class Partition {
  readonly number: number
  readonly fence: string
  readonly #context: PartitionContext
  /** Whether the learner's rows know what a user has met. */
  readonly #rowsKnowMet: boolean
  /** Writes so far, and the last event in them. */
  seq = 0
  offset = START
  /** Events up to which owners contain changes whose segment was lost with a master: learned again with the same ends. */
  #ends: string[] = []
  #users = 0
  readonly #index = new Map<string, number>()
  readonly #names = new Map<number, string>()
  readonly #met = new Map<number, number[]>()
  /** Items a user has met that may still be recommended. */
  readonly #staying = new Map<number, Set<number>>()
  #fresh: { name: string; number: number }[] = []
  /** Users evicted since the last segment, whose rows may be in the write under way. */
  readonly #evicted = new Set<string>()
  #writing: Promise<void> = Promise.resolve()
  /** Users and owned items to be written. */
  readonly touched = { user: new Set<number>(), item: new Set<number>() }
  owner: OwnerState
  /** Own changes by owner that its rows may not contain yet, oldest first. */
  readonly inFlight = new Map<number, { id: string; changes: ItemChange[] }[]>()
  /** When the owner was written last, and whether its positions moved since. */
  written = 0
  moved = false
  /** The event up to which the rows of all owners contain changes: when looked at last, and the time before that. */
  appliedSeen = START
  appliedEverywhere = START

  /** Events of forgotten users on their way out of the log. */
  readonly scrubbing: Scrubbing

  private constructor(context: PartitionContext, p: { number: number; fence: string; scrubbing: Scrubbing }) {
    const { number, fence, scrubbing } = p
    this.#context = context
    this.scrubbing = scrubbing
    this.number = number
    this.fence = fence
    this.#rowsKnowMet = context.cluster.options.run.task === "topk"
    this.owner = context.items.owners[number]
  }

  /** Loads a partition whose lease was just acquired: no other trainer can write to it. `contained`: by owner, see containedAt. */
  static async open(
    context: PartitionContext,
    { number, fence, contained }: { number: number; fence: string; contained: readonly string[] },
  ): Promise<Partition> {
    const scrubbing = await Scrubbing.open(context.cluster, number)
    const partition = new Partition(context, { number, fence, scrubbing })
    const key = context.cluster.keys.of(number, "state")
    const fields = ["HMGET", key, "seq", "offset", "users"]
    const [[seq, offset, users], owner] = await Promise.all([
      context.cluster.redis.send(key, fields) as Promise<(Buffer | null)[]>,
      context.items.load(number),
    ])
    partition.seq = Number(seq ?? 0)
    partition.offset = String(offset ?? START)
    partition.#users = Number(users ?? 0)
    partition.owner = owner
    const ahead = contained.filter((id) => compareIds(id, partition.offset) > 0)
    partition.#ends = [...new Set(ahead)].sort(compareIds)
    return partition
  }

  /** The last event of this partition whose changes an owner contains. */
  async containedAt(owner: number): Promise<string> {
    const { cluster, items, isOwn } = this.#context
    if (isOwn(owner)) return items.owners[owner].applied[this.number]
    const key = cluster.keys.of(owner, "home")
    return String((await cluster.redis.send(key, ["HGET", key, String(this.number)])) ?? START)
  }

  /** Whether what is learned next was learned before, and lost. */
  get isReplaying(): boolean {
    return this.#ends.length > 0
  }

  get #fenceNow(): Omit<Fence, "seq"> {
    const { leases } = this.#context
    return { owner: leases.id, fence: this.fence, duration: leases.duration }
  }

  /** Gives indices to users and brings in the rows of those that are stored. */
  async #meetUsers(events: readonly ClusterEvent[]): Promise<void> {
    const { cluster, run } = this.#context
    const { keys } = cluster
    const names = [...new Set(events.map(({ user }) => user))].filter((name) => !this.#index.has(name))
    if (names.length === 0) return
    if (names.some((name) => this.#evicted.has(name))) await this.#writing
    const found = (await cluster.run(
      "users",
      [keys.of(this.number, "state"), ...names.map((name) => keys.names("users", this.number, name))],
      [keys.of(this.number, "users:"), String(ROWS_PER_BUCKET), ...names],
    )) as (Buffer | number)[]
    names.forEach((name, i) => {
      const [stored, record] = [found[1 + 2 * i] as number, found[2 + 2 * i] as Buffer]
      const number = stored >= 0 ? stored : this.#users++
      const index = keys.index(this.number, number)
      this.#index.set(name, index)
      this.#names.set(index, name)
      if (stored < 0) {
        this.#fresh.push({ name, number })
        return
      }
      // Known by name, lost before its first row.
      if (record.length === 0) return
      const { row, met, staying } = decodeStored(record)
      if (met) this.#met.set(index, met)
      if (staying) this.#staying.set(index, new Set(staying))
      if (row.length > 0) run.shared.putRow("user", index, row)
    })
  }

  /** Reads the events that come next in the log, and all that learning them needs. */
  async read(after: string, count: number): Promise<LogEntry[]> {
    const { cluster, items } = this.#context
    let entries = await readEvents(cluster, this.number, { after, count })
    const [end] = this.#ends
    if (end !== undefined) entries = entries.filter(({ id }) => compareIds(id, end) <= 0)
    // The events are lost.
    if (end !== undefined && entries.length === 0) this.#ends.shift()
    // Users are forgotten between two segments.
    const asked = entries.findIndex(({ event }) => event.forget)
    if (asked === 0) return entries.slice(0, 1)
    if (asked > 0) entries = entries.slice(0, asked)
    const events = entries.map(({ event }) => event)
    await Promise.all([this.#meetUsers(events), items.meet(events.map(({ item }) => item))])
    return entries
  }

  /** Reads rows again that were evicted since they were read. */
  async prepare(events: readonly LogEntry[]): Promise<void> {
    const all = events.map(({ event }) => event)
    if (all.some(({ user }) => !this.#index.has(user))) await this.#meetUsers(all)
  }

  /** Called when a user's row was evicted from memory. */
  evict(index: number): void {
    const name = this.#names.get(index)
    if (name === undefined) return
    this.#evicted.add(name)
    this.#drop(name, index)
  }

  #drop(name: string, index: number): void {
    this.#index.delete(name)
    this.#names.delete(index)
    this.#met.delete(index)
    this.#staying.delete(index)
    this.touched.user.delete(index)
  }

  /** Forgets a user as an entry of the log asks, learner and Redis alike. */
  async forget({ id, event: { user } }: LogEntry): Promise<void> {
    const { cluster, run, onTrouble } = this.#context
    const { keys } = cluster
    const index = this.#index.get(user)
    if (index !== undefined) {
      run.shared.dropRow("user", index)
      this.#drop(user, index)
    }
    const names = ["lease", "state", "deltas"].map((what) => keys.of(this.number, what))
    names.push(keys.names("users", this.number, user), keys.of(this.number, "forgetting"))
    const write = new FencedWrite("forget", names, { ...this.#fenceNow, seq: this.seq })
    write.add(id, user, keys.of(this.number, "users:"), ROWS_PER_BUCKET)
    this.#advance(id)
    await write.send(cluster, onTrouble)
    this.scrubbing.add(id, user)
  }

  /** The next write is under way: it ends with an event. */
  #advance(offset: string): void {
    this.seq++
    this.offset = offset
    if (this.#ends.length > 0 && compareIds(offset, this.#ends[0]) >= 0) this.#ends.shift()
  }

  /** Learns what was read and writes all that belongs to it, at once. Resolves when it is written. */
  learn(events: readonly LogEntry[], time: number): Promise<void> {
    const { run, cluster } = this.#context
    this.#evicted.clear()
    const all = events.map(({ event }) => event)
    const segment = this.#segment(all, time)
    this.#noteStaying(all, segment)
    this.#context.catchUp(segment.item)
    const counters = new Map<string, number>([["applied", events.length]])
    try {
      const { testRows, accuracy, loss, recall, testUsers } = run.step(segment)
      if (typeof accuracy === "number") counters.set("tested", testRows).set("hits", Math.round(accuracy * testRows))
      if (typeof loss === "number") counters.set("loss", Math.round(1e6 * loss * testRows))
      if (typeof recall === "number" && testUsers > 0)
        counters.set("testedUsers", testUsers).set("recall", Math.round(1e6 * recall * testUsers))
    } catch (error) {
      if (error instanceof BudgetExceeded)
        throw new DessError(
          "INVALID_ARGUMENT",
          `--memory-budget: expected room for all items and one segment's users, got too little; nothing was lost: start trainers with more (${error.message})`,
          { cause: error },
        )
      // The loss is not finite: every owner skips the segment.
      if (!(error instanceof DessError && error.code === "NUMERIC")) throw error
      counters.set("failed", 1)
    }
    const { likeThreshold } = cluster.options.run
    const add = (name: string) => counters.set(name, (counters.get(name) ?? 0) + 1)
    const counts = new Map<number, { events: number; likes: number }>()
    for (let r = 0; r < segment.length; r++) {
      const like = binaryLabel(segment.rating[r], likeThreshold)
      if (like) add("likes")
      add(`class${classLabel(segment.rating[r])}`)
      const count = counts.get(segment.item[r]) ?? { events: 0, likes: 0 }
      counts.set(segment.item[r], { events: count.events + 1, likes: count.likes + like })
      if (!this.#rowsKnowMet) this.#meetItem(segment.user[r], segment.item[r])
    }
    this.#context.sortTouched()
    this.#context.evict(run.left.user)
    const changes = this.#changesByOwner(counts)
    const offset = events[events.length - 1].id
    const write = this.#write(offset, counters, changes)
    this.#advance(offset)
    for (const [owner, some] of changes) {
      const waiting = this.inFlight.get(owner)
      if (waiting) waiting.push({ id: offset, changes: some })
      else this.inFlight.set(owner, [{ id: offset, changes: some }])
    }
    this.#writing = write.send(cluster, this.#context.onTrouble).then(() => {})
    return this.#writing
  }

  #segment(events: readonly ClusterEvent[], time: number): Segment {
    const { items } = this.#context
    const { length } = events
    const segment = {
      user: new Int32Array(length),
      item: new Int32Array(length),
      rating: new Float32Array(length),
      timestamp: new Float64Array(length),
      length,
      index: this.seq,
      trainLength: length,
      time,
    }
    events.forEach(({ user, item, rating, timestamp, weight = 1 }, r) => {
      segment.user[r] = this.#index.get(user) as number
      segment.item[r] = items.find(item) as number
      segment.rating[r] = effectiveRating(rating, weight)
      segment.timestamp[r] = timestamp
    })
    const weight = this.#weigh(events)
    const repeats = events.some(({ stays }) => stays)
    return { ...segment, ...(weight && { weight }), ...(repeats && { repeats }) }
  }

  #weigh(events: readonly ClusterEvent[]): Float32Array | undefined {
    const rows = {
      rating: Float32Array.from(events, ({ rating }) => rating),
      weight: Float32Array.from(events, ({ weight = 1 }) => weight),
      stays: Uint8Array.from(events, ({ stays }) => (stays ? 1 : 0)),
    }
    return weighRows(rows, this.#context.cluster.options.run)
  }

  /** Notes which items met first in a segment may be recommended all the same, and which may not any more. */
  #noteStaying(events: readonly ClusterEvent[], { user, item }: Segment): void {
    const known = new Map<number, Set<number>>()
    events.forEach(({ stays }, r) => {
      const staying = this.#staying.get(user[r])
      if (!stays) staying?.delete(item[r])
      if (!stays && !known.has(user[r])) return
      const met = known.get(user[r]) ?? new Set(this.#metBy(user[r], { user, item, before: r }))
      known.set(user[r], met)
      if (stays && !met.has(item[r])) this.#staying.set(user[r], (staying ?? new Set()).add(item[r]))
      met.add(item[r])
    })
    for (const one of known.keys()) {
      const staying = this.#staying.get(one)
      for (const oldest of staying ?? []) {
        if ((staying as Set<number>).size <= LONGEST_MET) break
        staying?.delete(oldest)
      }
    }
  }

  /** What a user has met, with rows of a segment before one. */
  #metBy(user: number, p: Pick<Segment, "user" | "item"> & { before: number }): number[] {
    const met = [...(this.#rowsKnowMet ? (this.#context.run.shared.met(user) ?? []) : (this.#met.get(user) ?? []))]
    for (let r = 0; r < p.before; r++) if (p.user[r] === user) met.push(p.item[r])
    return met
  }

  #meetItem(user: number, item: number): void {
    const met = this.#met.get(user) ?? []
    if (met.includes(item)) return
    met.push(item)
    if (met.length > LONGEST_MET) met.shift()
    this.#met.set(user, met)
  }

  /** What training did to items, and how often they were met, by their owners. */
  #changesByOwner(counts: ReadonlyMap<number, { events: number; likes: number }>): Map<number, ItemChange[]> {
    const { run, cluster } = this.#context
    const byItem = new Map<number, ItemChange>()
    const of = (index: number) => {
      const change = byItem.get(index) ?? { index, events: 0, likes: 0, changes: [] }
      byItem.set(index, change)
      return change
    }
    for (const { index, change } of run.shared.takeChanges()) of(index).changes.push(change)
    for (const [index, count] of counts) Object.assign(of(index), count)
    const byOwner = new Map<number, ItemChange[]>()
    for (const change of byItem.values()) {
      const { partition } = cluster.keys.place(change.index)
      const there = byOwner.get(partition)
      if (there) there.push(change)
      else byOwner.set(partition, [change])
    }
    return byOwner
  }

  #write(offset: string, counters: Map<string, number>, changes: Map<number, ItemChange[]>): FencedWrite {
    const { cluster, run, keepEvents } = this.#context
    const { keys } = cluster
    const names = ["lease", "state", "deltas", "evidence", "events"].map((what) => keys.of(this.number, what))
    const write = new FencedWrite("segment", names, { ...this.#fenceNow, seq: this.seq })
    write.add(offset)
    write.addAll([...counters], (counter) => counter)
    write.add(Buffer.from(run.shared.takeEvidence()), EVIDENCE_KEPT, this.appliedEverywhere, keepEvents)
    write.addAll([...changes], ([owner, some]) => [owner, encodeChanges(some)])
    const rows = Array.from(this.touched.user, (index) => {
      const { number } = keys.place(index)
      const row = run.shared.takeRow("user", index) ?? new Uint8Array(0)
      const name = this.#names.get(index) ?? ""
      const met = this.#rowsKnowMet ? undefined : (this.#met.get(index) ?? [])
      const staying = this.#staying.get(index)
      const record = encodeStored({ name, row, ...(met && { met }), ...(staying?.size && { staying: [...staying] }) })
      return { list: keys.rows("users", this.number, number), place: number % ROWS_PER_BUCKET, record }
    })
    write.addRows(rows)
    this.touched.user.clear()
    write.addAll(this.#fresh, ({ name, number }) => [write.key(keys.names("users", this.number, name)), name, number])
    this.#fresh = []
    write.add(this.#users)
    return write
  }

  /** Users to be dropped from memory when the partition is another's. */
  get users(): Iterable<number> {
    return this.#names.keys()
  }

  /** Applies changes that another partition's training made to this owner's items. */
  absorb(from: number, id: string, changes: readonly ItemChange[]): void {
    if (compareIds(id, this.owner.applied[from]) <= 0) return
    const { run } = this.#context
    for (const { index, events, likes, changes: some } of changes) {
      for (const change of some) run.shared.addChange(index, change)
      this.#count(index, { events, likes })
      this.touched.item.add(index)
    }
    this.owner.applied[from] = id
    this.moved = true
  }

  /** Notes that a partition of the same trainer has written: memory has its changes already. */
  contain(from: number, id: string, changes: readonly ItemChange[]): void {
    if (compareIds(id, this.owner.applied[from]) <= 0) return
    for (const { index, events, likes } of changes) {
      this.#count(index, { events, likes })
      this.touched.item.add(index)
    }
    this.owner.applied[from] = id
    this.moved = true
  }

  #count(index: number, { events, likes }: { events: number; likes: number }): void {
    this.owner.clock += events
    if (events > 0) this.#context.items.count(index, { events, likes, clock: this.owner.clock })
  }

  /** Writes the rows of this owner that changed. All segments of this trainer must have been written. */
  async writeOwned(): Promise<void> {
    const { cluster, items, run, onTrouble } = this.#context
    const { keys } = cluster
    await items.fetchNames(this.touched.item)
    const { seq, applied, clock } = this.owner
    const names = ["lease", "home", "changes"].map((what) => keys.of(this.number, what))
    const write = new FencedWrite("owner", names, { ...this.#fenceNow, seq })
    const rows = Array.from(this.touched.item, (index) => {
      // Changes of a deleted item may still arrive from others.
      if (items.name(index) === undefined) run.shared.dropRow("item", index)
      return { index, record: items.record(index, run.shared.takeRow("item", index) ?? new Uint8Array(0)) }
    })
    this.touched.item.clear()
    this.moved = false
    this.written = Date.now()
    write.addAll([...applied.entries()], (entry) => entry)
    write.add(encodeUpdate({ applied, clock, rows }), CHANGES_KEPT, clock)
    write.addRows(
      rows.map(({ index, record }) => {
        const { number } = keys.place(index)
        return { list: keys.rows("items", this.number, number), place: number % ROWS_PER_BUCKET, record }
      }),
    )
    this.owner.seq = await write.send(cluster, onTrouble)
  }
}
