/**
 * A trainer: owns some of the partitions, learns their events, keeps the items they own, and follows the others.
 *
 *   balance → for each own partition: read, learn, write → sync: take in what others did, write own items → …
 *
 * Everything happens in one loop; what is in memory is what Redis has, plus what is being written. When that may no
 * longer hold (a lease was taken, a master was lost with a write), memory is dropped and read again.
 */

import { setFeatures } from "../engine/item-features.ts"
import { DessError } from "../errors.ts"
import { liveOf, type Run } from "../learning/loop.ts"
import type { Cluster } from "./cluster.ts"
import { decodeChanges } from "./encoding.ts"
import { Entries } from "./entries.ts"
import { GlobalState } from "./global-state.ts"
import { Items, putInto } from "./items.ts"
import { Leases } from "./leases.ts"
import { compareIds, type LogEntry, START } from "./log.ts"
import { Partition, type PartitionContext } from "./partition.ts"
import type { Reply } from "./redis.ts"
import { Fenced } from "./writes.ts"

export interface ClusterTrainerOptions {
  /** Milliseconds a silent trainer keeps its partitions. Default 5,000. */
  lease?: number | undefined
  /** Milliseconds between two exchanges with other trainers. Default 100. */
  sync?: number | undefined
  /** Events a stream may keep that no snapshot needs. Default 1,000,000 a partition. */
  keepEvents?: number | undefined
  /** Bytes that rows in this process's memory may take. Users give way first to last, Redis keeps theirs. Default: no limit. */
  memoryBudget?: number | undefined
  /** Called with lines for a log. */
  onNote?: ((text: string) => void) | undefined
}

/** Milliseconds between two rounds when there was little to do. */
const IDLE = 50
const BALANCE = 1000
/** An owner whose rows did not change is written so often. */
const SLOW = 5000
const CATCH_UP = 1000
/** Partitions taken at a time. */
const AT_ONCE = 128

/** What the script `update` answers: outbox, evidence, changes, entries, number and fence of the owner, of the last entry. */
export type PartitionUpdates = [Reply[][], Buffer[], Buffer[], Buffer[], number, Buffer, number]

/** How far the updates of a partition that another trainer owns were read. */
interface PartitionProgress {
  evidence: string
}

export class ClusterTrainer {
  readonly #cluster: Cluster
  readonly #options: ClusterTrainerOptions
  readonly #leases: Leases
  readonly #note: (text: string) => void
  readonly #global: GlobalState
  #run: Run
  #items: Items
  /** Features of items, and which are deleted. */
  #entries: Entries
  #own = new Map<number, Partition>()
  #progress: PartitionProgress[] = []
  /** What was read ahead. */
  #next = new Map<Partition, Promise<LogEntry[]>>()
  #stopping = false
  #done: Promise<void> | undefined
  #balanced = 0
  #synced = 0
  #slow = 0
  #caughtUp = 0
  #learned = 0
  #resets = 0
  #evicted = 0

  constructor(cluster: Cluster, options: ClusterTrainerOptions = {}) {
    this.#cluster = cluster
    this.#options = options
    this.#leases = new Leases(cluster, options.lease ?? 5000)
    this.#note = options.onNote ?? (() => {})
    this.#global = new GlobalState(cluster, this.#leases.id)
    const { run, entries } = this.#newRun()
    this.#run = run
    this.#entries = entries
    this.#items = this.#newItems()
  }

  #newRun(): { run: Run; entries: Entries } {
    const { run, features } = this.#cluster.newRun()
    const { memoryBudget: bytes } = this.#options
    const limits = { bytes, usersReturn: true }
    if (bytes !== undefined) liveOf(run.learner).limit(limits, this.#cluster.options.segment)
    const entries = new Entries(this.#cluster, (index, entry) => {
      if (entry === null) this.#dropItem(index)
      if (!features) return
      setFeatures(features, [index], [entry?.features ?? null])
      liveOf(run.learner).changeFeatures(index)
    })
    return { run, entries }
  }

  /** An item was deleted. Its owner says so in its own updates, too. */
  #dropItem(index: number): void {
    this.#items.drop(index)
    this.#own.get(index % this.#cluster.partitions)?.touched.item.add(index)
  }

  get id(): string {
    return this.#leases.id
  }

  /** Events learned by this process, its partitions, how often memory was read again, users that made room, bytes of rows. */
  get standing(): { learned: number; partitions: number[]; resets: number; evicted: number; heldBytes: number } {
    const { heldBytes } = this.#run.learner.status()
    const [learned, resets, evicted] = [this.#learned, this.#resets, this.#evicted]
    return { learned, partitions: [...this.#own.keys()], resets, evicted, heldBytes }
  }

  /** Resolves when it was stopped; refuses when it cannot go on. */
  start(): Promise<void> {
    this.#done ??= this.#loop()
    return this.#done
  }

  /** Gives everything back and ends. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#done
  }

  async #loop(): Promise<void> {
    let fresh = true
    for (let troubles = 0; !this.#stopping; ) {
      try {
        if (fresh) await this.#begin()
        fresh = false
        const worked = await this.#round()
        troubles = 0
        if (!worked) await sleep(IDLE)
      } catch (error) {
        if (!isPassing(error)) throw error
        this.#note(`reading everything anew: ${(error as Error).message}`)
        this.#resets++
        fresh = true
        await sleep(Math.min(500, 100 * ++troubles))
      }
    }
    try {
      if (!fresh) await this.#leave()
    } catch (error) {
      if (!isPassing(error)) throw error
    }
    this.#run.close()
  }

  #newItems(): Items {
    return new Items(this.#cluster, putInto(this.#run))
  }

  get #context(): PartitionContext {
    return {
      cluster: this.#cluster,
      leases: this.#leases,
      items: this.#items,
      run: this.#run,
      keepEvents: this.#options.keepEvents ?? 1_000_000,
      onTrouble: (error) => {
        this.#note(error.message)
        this.#keep()
      },
      isOwn: (partition) => this.#own.has(partition),
      sortTouched: () => this.#sortTouched(),
      catchUp: (items) => this.#catchUp(items),
      evict: (users) => {
        this.#evicted += users.length
        for (const user of users) this.#own.get(user % this.#cluster.partitions)?.evict(user)
      },
    }
  }

  /** Reads everything but the partitions' own, which come with their leases. */
  async #begin(): Promise<void> {
    this.#own.clear()
    this.#next.clear()
    this.#run.close()
    const { run, entries } = this.#newRun()
    this.#run = run
    this.#entries = entries
    this.#items = this.#newItems()
    this.#balanced = 0
    const stored = await this.#global.read()
    if (stored) this.#run.shared.putGlobal(stored.bytes)
    this.#progress = this.#cluster.all.map((p) => ({ evidence: stored?.positions[p] ?? START }))
    const { options, all } = this.#cluster
    // Without features only what is deleted from now on counts.
    if (!options.features) await Promise.all(all.map((owner) => entries.skip(owner)))
    await Promise.all(all.map((owner) => this.#items.load(owner, { lazily: true })))
    if (options.features) await Promise.all(all.map((owner) => entries.load(owner)))
    this.#decide()
  }

  #decide(): void {
    const { partitions } = this.#cluster
    this.#run.shared.decide((item) => this.#own.has(item % partitions))
  }

  /** One segment of each own partition; whether there was enough to go on at once. */
  async #round(): Promise<boolean> {
    const now = Date.now()
    if (now - this.#balanced >= BALANCE) await this.#balance()
    const { segment } = this.#cluster.options
    const lost = [...this.#own.values()].filter(({ isReplaying }) => isReplaying)
    // What is stored of own partitions must be all there is of them: see #afterReplay.
    if (lost.length > 0) await this.#sync()
    const own = lost.length > 0 ? lost : [...this.#own.values()]
    const batches = await Promise.all(own.map((one) => this.#next.get(one) ?? one.read(one.offset, segment)))
    this.#next.clear()
    const writes: Promise<void>[] = []
    let full = false
    for (const [i, partition] of own.entries()) {
      const events = batches[i]
      if (events.length === 0) continue
      if (events[0].event.forget) {
        writes.push(partition.forget(events[0]))
        continue
      }
      await partition.prepare(events)
      if (events.length === segment && lost.length === 0) {
        // What comes next is read while this is learned and written.
        full = true
        const next = partition.read(events[events.length - 1].id, segment)
        next.catch(() => {})
        this.#next.set(partition, next)
      }
      writes.push(partition.learn(events, Date.now()))
      this.#learned += events.length
    }
    await settle(writes)
    for (const partition of lost) await this.#afterReplay(partition)
    for (const partition of own) this.#afterWrite(partition)
    const scrubbing = own.filter((one) => one.scrubbing.isBusy)
    const scrubbed = await Promise.all(scrubbing.map((one) => one.scrubbing.step()))
    if (scrubbed.includes(false)) throw new Fenced("forgetting", "Redis knows nothing of it")
    if (Date.now() - this.#synced >= (this.#options.sync ?? 100)) await this.#sync()
    return full || lost.length > 0 || scrubbing.length > 0
  }

  /** Owners that contained a segment before it was learned again must not get it twice: their rows are read again. */
  async #afterReplay(partition: Partition): Promise<void> {
    const again: number[] = []
    for (const [owner, waiting] of partition.inFlight) {
      const contained = await partition.containedAt(owner)
      const rest = waiting.filter(({ id }) => compareIds(id, contained) > 0)
      for (const { id, changes } of waiting)
        if (compareIds(id, contained) <= 0) again.push(...changes.map(({ index }) => index))
      partition.inFlight.set(owner, rest)
    }
    for (const index of again) this.#own.get(index % this.#cluster.partitions)?.touched.item.delete(index)
    await this.#items.fetch(new Set(again))
  }

  /** Hands ids whose rows changed to the partitions that write them. */
  #sortTouched(): void {
    const touched = this.#run.shared.takeTouched()
    const { partitions } = this.#cluster
    for (const user of touched.user) this.#own.get(user % partitions)?.touched.user.add(user)
    for (const item of touched.item) this.#own.get(item % partitions)?.touched.item.add(item)
  }

  /** What was written of own partitions is contained in own partitions; the other owners have yet to tell. */
  #afterWrite(partition: Partition): void {
    this.#progress[partition.number].evidence = later(this.#progress[partition.number].evidence, partition.offset)
    for (const [number, owner] of this.#own) {
      for (const { id, changes } of partition.inFlight.get(number) ?? []) owner.contain(partition.number, id, changes)
      partition.inFlight.delete(number)
      const { applied } = owner.owner
      if (compareIds(partition.offset, applied[partition.number]) <= 0) continue
      applied[partition.number] = partition.offset
      owner.moved = true
    }
  }

  async #sync(): Promise<void> {
    await Promise.all(this.#cluster.all.map((p) => this.#readUpdates(p)))
    const now = Date.now()
    const slow = now - this.#slow >= SLOW
    const due = [...this.#own.values()].filter(
      (owner) => owner.touched.item.size > 0 || (owner.moved && now - owner.written >= SLOW),
    )
    await settle(due.map((owner) => owner.writeOwned()))
    if (slow) {
      this.#slow = now
      this.#noteApplied()
    }
    const first = this.#own.get(0)
    if (first && this.#global.isDue) await this.#storeGlobal(first)
    this.#synced = Date.now()
  }

  /** Outboxes may lose what all owners contained at the last look: an owner that fell back a little finds it still there. */
  #noteApplied(): void {
    for (const partition of this.#own.values()) {
      partition.appliedEverywhere = partition.appliedSeen
      const all = this.#items.owners.map(({ applied }) => applied[partition.number])
      partition.appliedSeen = all.reduce((least, id) => (compareIds(id, least) < 0 ? id : least))
    }
  }

  /** Takes in what is new of a partition: changes to own items, evidence, and, where it is another's, rows of its owner. */
  async #readUpdates(p: number): Promise<void> {
    const { keys } = this.#cluster
    const names = ["deltas", "evidence", "changes", "home", "puts"].map((what) => keys.of(p, what))
    const own = [...this.#own.values()]
    for (;;) {
      const owner = this.#items.owners[p]
      const contained = own.map((one) => one.owner.applied[p])
      const from = contained.reduce((least, id) => (compareIds(id, least) < 0 ? id : least), contained[0] ?? START)
      const entry = this.#entries.after(p)
      const args = [
        from,
        this.#progress[p].evidence,
        `${owner.seq}-0`,
        entry,
        ...own.map(({ number }) => String(number)),
      ]
      const reply = (await this.#cluster.run("updates", names, args)) as Reply[]
      const [outbox, evidence, changes, puts, seq, fence, last] = reply as PartitionUpdates
      await this.#entries.applyPuts(p, puts, last)
      for (const [id, ...fields] of outbox) this.#absorb(p, String(id), fields as Buffer[])
      for (let i = 0; i < evidence.length; i += 2) {
        this.#run.shared.addEvidence(evidence[i + 1])
        this.#progress[p].evidence = String(evidence[i])
      }
      if (!this.#own.has(p)) await this.#follow(p, changes, { seq, fence: String(fence) })
      if (outbox.length < 200 && [evidence, changes, puts].every(({ length }) => length < 400)) return
    }
  }

  #absorb(p: number, id: string, fields: Buffer[]): void {
    const byOwner = new Map<number, Buffer>()
    for (let i = 0; i < fields.length; i += 2) byOwner.set(Number(String(fields[i])), fields[i + 1])
    for (const [number, owner] of this.#own) {
      const bytes = byOwner.get(number)
      owner.absorb(p, id, bytes ? decodeChanges(bytes) : [])
    }
  }

  /** Updates of another owner: its rows wait until they are needed here; own changes they contain are no longer in flight. */
  async #follow(p: number, changes: Buffer[], now: { seq: number; fence: string }): Promise<void> {
    await this.#items.follow(p, { changes, ...now, lazily: true })
    const { applied } = this.#items.owners[p]
    for (const partition of this.#own.values()) {
      const waiting = partition.inFlight.get(p)
      if (!waiting) continue
      const contained = applied[partition.number]
      partition.inFlight.set(
        p,
        waiting.filter(({ id }) => compareIds(id, contained) > 0),
      )
    }
  }

  /**
   * Brings rows of others' owners up to date before they are learned with, own changes on top that they do not contain
   * yet. Ranking also reads items that are in no event: all of them, once a second.
   */
  #catchUp(items: Iterable<number>): void {
    const now = Date.now()
    const all = this.#cluster.options.run.task === "topk" && now - this.#caughtUp >= CATCH_UP
    if (all) this.#caughtUp = now
    const put = this.#items.catchUp(all ? undefined : items)
    if (put.size === 0) return
    for (const partition of this.#own.values())
      for (const waiting of partition.inFlight.values())
        for (const { changes } of waiting)
          for (const { index, changes: own } of changes)
            if (put.has(index)) for (const change of own) this.#run.shared.addChange(index, change)
  }

  // Leases

  /** Says that this trainer lives and what it has; how many partitions are its own, and whether each it has still is. */
  #renew(): Promise<[number, ...boolean[]]> {
    const { learned, resets, heldBytes } = this.standing
    const share = this.#leases.share({ learned, resets, heldBytes, process: process.pid })
    const kept = [...this.#own.values()].map(({ number, fence }) => this.#leases.renew(number, fence))
    return Promise.all([share, ...kept])
  }

  /** Keeps the leases while a write is retried. */
  #keep(): void {
    if (Date.now() - this.#balanced < BALANCE) return
    this.#balanced = Date.now()
    this.#renew().catch(() => {})
  }

  async #balance(): Promise<void> {
    const [share, ...kept] = await this.#renew()
    if (kept.includes(false)) throw new Fenced("lease", "another trainer has it")
    for (const number of [...this.#own.keys()].slice(share)) await this.#release(number)
    const missing = Math.min(share - this.#own.size, AT_ONCE)
    const fences = missing > 0 ? await this.#leases.acquireSome(missing, (number) => !this.#own.has(number)) : new Map()
    if (fences.size > 0) await this.#take(fences)
    // The rest in the next round, once what is there was renewed.
    this.#balanced = fences.size === AT_ONCE ? 0 : Date.now()
  }

  /** Loads partitions, all at once: each has to read all the others. */
  async #take(fences: ReadonlyMap<number, string>): Promise<void> {
    const contained = await this.#contained([...fences.keys()])
    const taken = await Promise.all(
      Array.from(fences, ([number, fence]) =>
        Partition.open(this.#context, { number, fence, contained: contained.get(number) as string[] }),
      ),
    )
    if (fences.has(0)) await this.#global.read()
    for (const partition of taken) this.#own.set(partition.number, partition)
    // What the others' outboxes hold for the new owners, and what their own hold for the owners that are here already.
    await Promise.all(this.#cluster.all.map((p) => this.#readUpdates(p)))
    this.#decide()
    for (const number of fences.keys()) this.#note(`took partition ${number} (${this.#own.size} now)`)
  }

  /** By partition: the last of its events whose changes an owner contains, owner by owner. */
  async #contained(numbers: readonly number[]): Promise<Map<number, string[]>> {
    const { keys, redis, all } = this.#cluster
    const found = await Promise.all(
      all.map(async (owner) => {
        if (this.#own.has(owner)) return numbers.map((number) => this.#items.owners[owner].applied[number])
        const key = keys.of(owner, "home")
        const positions = (await redis.send(key, ["HMGET", key, ...numbers.map(String)])) as (Buffer | null)[]
        return positions.map((position) => String(position ?? START))
      }),
    )
    return new Map(numbers.map((number, n) => [number, found.map((positions) => positions[n])]))
  }

  async #release(number: number): Promise<void> {
    const partition = this.#own.get(number)
    if (!partition) return
    if (partition.touched.item.size > 0) await partition.writeOwned()
    if (number === 0) await this.#storeGlobal(partition)
    await this.#leases.release(number, partition.fence)
    this.#own.delete(number)
    this.#items.owners[number] = partition.owner
    this.#run.forget("user", new Set(partition.users))
    this.#sortTouched()
    this.#decide()
    this.#note(`gave partition ${number} back (${this.#own.size} now)`)
  }

  async #leave(): Promise<void> {
    await this.#sync()
    for (const number of [...this.#own.keys()]) await this.#release(number)
    await this.#leases.leave()
  }

  /** Stores the global state in memory, with the evidence it contains. */
  #storeGlobal({ fence }: Partition): Promise<void> {
    const positions = this.#progress.map(({ evidence }) => evidence)
    return this.#global.store(fence, positions, this.#run.shared.takeGlobal())
  }
}

function later(a: string, b: string): string {
  return compareIds(a, b) > 0 ? a : b
}

function isPassing(error: unknown): boolean {
  return error instanceof Fenced || (error instanceof DessError && error.code === "UNAVAILABLE")
}

/** Waits for all; then the first failure. */
async function settle(all: Promise<void>[]): Promise<void> {
  for (const one of await Promise.allSettled(all)) if (one.status === "rejected") throw one.reason
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
