/**
 * A trainer: owns some of the partitions, learns their events, keeps the items they are home to, and follows the others.
 *
 *   balance → for each own partition: read, learn, write → sync: take in what others did, write own homes → …
 *
 * Everything happens in one loop; what is in memory is what Redis has, plus what is being written. Whenever that may no
 * longer be so (a lease was taken, a master went away with a write), memory is thrown away and read anew.
 */

import { setFeatures } from "../engine/item-features.ts"
import { DessError } from "../errors.ts"
import { liveOf, type Run } from "../run/loop.ts"
import type { Cluster } from "./cluster.ts"
import { decodeChanges, decodeNews } from "./encoding.ts"
import { Entries } from "./entries.ts"
import { Items, numberOf, putInto } from "./items.ts"
import { Leases } from "./leases.ts"
import { compareIds, type LogEntry, START } from "./log.ts"
import { type Hands, Partition } from "./partition.ts"
import type { Reply } from "./redis.ts"
import { Fenced } from "./writes.ts"

export interface TrainerOptions {
  /** Milliseconds a silent trainer keeps its partitions. Default 5,000. */
  lease?: number | undefined
  /** Milliseconds between two looks at what others did. Default 100. */
  sync?: number | undefined
  /** Events a stream may keep that no snapshot needs. Default 1,000,000 a partition. */
  keepEvents?: number | undefined
  /** Bytes that rows in this process's memory may take. Users give way first to last, Redis keeps theirs. Default: no limit. */
  memoryBudget?: number | undefined
  /** Told of what is worth a line. */
  onNote?: ((text: string) => void) | undefined
}

/** Milliseconds between two rounds when there was little to do. */
const IDLE = 50
const BALANCE = 1000
/** The dense part is stored, and a home whose rows did not change written, so often. */
const SLOW = 5000

/** What the script `news` answers: outbox, evidence, changes, entries, number and fence of the home, of the last entry. */
export type News = [Reply[][], Buffer[], Buffer[], Buffer[], number, Buffer, number]

/** What was heard of a partition that another owns. */
interface Heard {
  evidence: string
}

export class ClusterTrainer {
  readonly #cluster: Cluster
  readonly #options: TrainerOptions
  readonly #leases: Leases
  readonly #note: (text: string) => void
  #run: Run
  #items: Items
  /** Features of items; left out where the method asks for none. */
  #entries: Entries | undefined
  #own = new Map<number, Partition>()
  #heard: Heard[] = []
  /** What was read ahead. */
  #next = new Map<Partition, Promise<LogEntry[]>>()
  #stopping = false
  #done: Promise<void> | undefined
  #balanced = 0
  #synced = 0
  #slow = 0
  #learned = 0
  #resets = 0
  #evicted = 0

  constructor(cluster: Cluster, options: TrainerOptions = {}) {
    this.#cluster = cluster
    this.#options = options
    this.#leases = new Leases(cluster, options.lease ?? 5000)
    this.#note = options.onNote ?? (() => {})
    this.#run = this.#newRun()
    this.#items = this.#newItems()
  }

  #newRun(): Run {
    const { run, features } = this.#cluster.newRun()
    const { memoryBudget: bytes } = this.#options
    const limits = { bytes, shrinkAfter: undefined, leaveAfter: undefined }
    if (bytes !== undefined) liveOf(run.learner).limit(limits, this.#cluster.options.segment)
    this.#entries =
      features &&
      new Entries(this.#cluster, (index, entry) => {
        setFeatures(features, [index], [entry.features])
        liveOf(run.learner).changeFeatures(index)
      })
    return run
  }

  get id(): string {
    return this.#leases.id
  }

  /** Events learned by this process, its partitions, how often memory was read anew, users that made room, bytes of rows. */
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

  get #hands(): Hands {
    return {
      cluster: this.#cluster,
      leases: this.#leases,
      items: this.#items,
      run: this.#run,
      keepEvents: this.#options.keepEvents ?? 1_000_000,
      onTrouble: (error) => this.#note(error.message),
      isOwn: (partition) => this.#own.has(partition),
      sortTouched: () => this.#sortTouched(),
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
    this.#run = this.#newRun()
    this.#items = this.#newItems()
    this.#balanced = 0
    this.#heard = this.#cluster.all.map(() => ({ evidence: START }))
    await this.#loadDense()
    await Promise.all(this.#cluster.all.map((home) => this.#items.load(home)))
    await Promise.all(this.#cluster.all.map((home) => this.#entries?.load(home)))
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
    // What is stored of own homes must be all there is of them: see #afterReplay.
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

  /** Homes that contained a segment before it was learned anew must not get it twice: their rows are read again. */
  async #afterReplay(partition: Partition): Promise<void> {
    const again: number[] = []
    for (const [home, waiting] of partition.inFlight) {
      const contained = await partition.containedAt(home)
      const rest = waiting.filter(({ id }) => compareIds(id, contained) > 0)
      for (const { id, changes } of waiting)
        if (compareIds(id, contained) <= 0) again.push(...changes.map(({ index }) => index))
      partition.inFlight.set(home, rest)
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

  /** What was written of own partitions is contained in own homes; the other homes have yet to tell. */
  #afterWrite(partition: Partition): void {
    this.#heard[partition.number].evidence = later(this.#heard[partition.number].evidence, partition.offset)
    for (const [number, home] of this.#own) {
      for (const { id, changes } of partition.inFlight.get(number) ?? []) home.contain(partition.number, id, changes)
      partition.inFlight.delete(number)
      const { applied } = home.home
      if (compareIds(partition.offset, applied[partition.number]) <= 0) continue
      applied[partition.number] = partition.offset
      home.moved = true
    }
  }

  async #sync(): Promise<void> {
    // Own homes have news only of features.
    const others = this.#entries ? this.#cluster.all : this.#cluster.all.filter((p) => !this.#own.has(p))
    await Promise.all(others.map((p) => this.#hear(p)))
    const now = Date.now()
    const slow = now - this.#slow >= SLOW
    const due = [...this.#own.values()].filter(
      (home) => home.touched.item.size > 0 || (home.moved && now - home.written >= SLOW),
    )
    await settle(due.map((home) => home.writeHome()))
    if (slow) {
      this.#slow = now
      this.#noteApplied()
      await this.#storeDense()
    }
    this.#synced = Date.now()
  }

  /** Outboxes may lose what all homes contained at the last look: a home that fell back a little finds it still there. */
  #noteApplied(): void {
    for (const partition of this.#own.values()) {
      partition.appliedEverywhere = partition.appliedSeen
      const all = this.#items.homes.map(({ applied }) => applied[partition.number])
      partition.appliedSeen = all.reduce((least, id) => (compareIds(id, least) < 0 ? id : least))
    }
  }

  /** Takes in what is new of a partition: changes to own items, evidence, and, where it is another's, rows of its home. */
  async #hear(p: number): Promise<void> {
    const { keys } = this.#cluster
    const names = ["deltas", "evidence", "changes", "home", "puts"].map((what) => keys.of(p, what))
    const own = [...this.#own.values()]
    for (;;) {
      const home = this.#items.homes[p]
      const contained = own.map((one) => one.home.applied[p])
      const from = contained.reduce((least, id) => (compareIds(id, least) < 0 ? id : least), contained[0] ?? START)
      const entry = this.#entries?.after(p) ?? ""
      const args = [from, this.#heard[p].evidence, `${home.seq}-0`, entry, ...own.map(({ number }) => String(number))]
      const reply = (await this.#cluster.run("news", names, args)) as Reply[]
      const [outbox, evidence, changes, puts, seq, fence, last] = reply as News
      await this.#entries?.hear(p, puts, last)
      for (const [id, ...fields] of outbox) this.#absorb(p, String(id), fields as Buffer[])
      for (let i = 0; i < evidence.length; i += 2) {
        this.#run.shared.addEvidence(evidence[i + 1])
        this.#heard[p].evidence = String(evidence[i])
      }
      if (!this.#own.has(p)) await this.#follow(p, changes, { seq, fence: String(fence) })
      if (outbox.length < 200 && [evidence, changes, puts].every(({ length }) => length < 400)) return
    }
  }

  #absorb(p: number, id: string, fields: Buffer[]): void {
    const byHome = new Map<number, Buffer>()
    for (let i = 0; i < fields.length; i += 2) byHome.set(Number(String(fields[i])), fields[i + 1])
    for (const [number, home] of this.#own) {
      const bytes = byHome.get(number)
      home.absorb(p, id, bytes ? decodeChanges(bytes) : [])
    }
  }

  /** Rows of another's home, with own changes on top that they do not contain yet. */
  async #follow(p: number, changes: Buffer[], now: { seq: number; fence: string }): Promise<void> {
    if (this.#items.hasMissed(p, changes, now)) {
      await this.#items.load(p)
      return
    }
    const heard = new Set<number>()
    for (let i = 0; i < changes.length; i += 2)
      for (const index of this.#items.hear(p, numberOf(changes[i]), decodeNews(changes[i + 1]))) heard.add(index)
    const { applied } = this.#items.homes[p]
    for (const partition of this.#own.values()) {
      const waiting = (partition.inFlight.get(p) ?? []).filter(
        ({ id }) => compareIds(id, applied[partition.number]) > 0,
      )
      partition.inFlight.set(p, waiting)
      for (const { changes: own } of waiting)
        for (const { index, changes: some } of own)
          if (heard.has(index)) for (const change of some) this.#run.shared.addChange(index, change)
    }
  }

  // Leases

  async #balance(): Promise<void> {
    const { learned, resets, heldBytes } = this.standing
    const note = { learned, resets, heldBytes, process: process.pid }
    const share = await this.#leases.share(note)
    const kept = await Promise.all(
      [...this.#own.values()].map(({ number, fence }) => this.#leases.renew(number, fence)),
    )
    if (kept.includes(false)) throw new Fenced("lease", "another trainer has it")
    for (const number of [...this.#own.keys()].slice(share)) await this.#release(number)
    const first = Math.floor(Math.random() * this.#cluster.partitions)
    for (let i = 0; i < this.#cluster.partitions && this.#own.size < share; i++) {
      const number = (first + i) % this.#cluster.partitions
      if (!this.#own.has(number)) await this.#acquire(number)
    }
    this.#balanced = Date.now()
  }

  async #acquire(number: number): Promise<void> {
    const fence = await this.#leases.acquire(number)
    if (fence === undefined) return
    const partition = await Partition.open(this.#hands, number, fence)
    this.#own.set(number, partition)
    // What the others' outboxes hold for the new home, and what its own holds for the homes that are here already.
    await Promise.all(this.#cluster.all.map((p) => this.#hear(p)))
    this.#decide()
    this.#note(`took partition ${number} (${this.#own.size} now)`)
  }

  async #release(number: number): Promise<void> {
    const partition = this.#own.get(number)
    if (!partition) return
    if (partition.touched.item.size > 0) await partition.writeHome()
    await this.#leases.release(number, partition.fence)
    this.#own.delete(number)
    this.#items.homes[number] = partition.home
    this.#run.forget("user", new Set(partition.users))
    this.#sortTouched()
    this.#decide()
    this.#note(`gave partition ${number} back (${this.#own.size} now)`)
  }

  async #leave(): Promise<void> {
    await this.#sync()
    await this.#storeDense()
    for (const number of [...this.#own.keys()]) await this.#release(number)
    await this.#leases.leave()
  }

  // What belongs to no id

  async #storeDense(): Promise<void> {
    const first = this.#own.get(0)
    if (!first) return
    const { keys } = this.#cluster
    const bytes = joinDense(
      this.#heard.map(({ evidence }) => evidence),
      this.#run.shared.takeDense(),
    )
    const kept = await this.#cluster.run(
      "dense",
      [keys.of(0, "lease"), keys.of(0, "dense")],
      [this.id, first.fence, bytes],
    )
    if (kept !== 1) throw new Fenced("dense part", "another trainer has the lease")
  }

  async #loadDense(): Promise<void> {
    const key = this.#cluster.keys.of(0, "dense")
    const bytes = (await this.#cluster.redis.send(key, ["GET", key])) as Buffer | null
    if (!bytes) return
    const { positions, dense } = splitDense(bytes)
    this.#heard = positions.map((evidence) => ({ evidence }))
    this.#run.shared.putDense(dense)
  }
}

/** The dense part as it is stored: the evidence it contains, by partition, a line end, and the learner's bytes. */
export function joinDense(contained: readonly string[], dense: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${contained.join(" ")}\n`), dense])
}

export function splitDense(bytes: Buffer): { positions: string[]; dense: Uint8Array } {
  const end = bytes.indexOf(10)
  return { positions: bytes.toString("utf8", 0, end).split(" "), dense: bytes.subarray(end + 1) }
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
