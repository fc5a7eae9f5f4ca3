/** One process's copy of the items of all owners: names, popularity, and how far updates were read. */

import type { Run } from "../learning/loop.ts"
import type { Cluster } from "./cluster.ts"
import { decodeStored, decodeUpdate, encodeStored, type OwnerUpdate, type Popularity, type Stored } from "./encoding.ts"
import { START } from "./log.ts"
import type { Argument } from "./redis.ts"
import { ROWS_PER_BUCKET } from "./redis-keys.ts"

/** Number of lists read at once. */
const AT_ONCE = 64

/** An owner as it is stored. */
export interface OwnerState {
  seq: number
  /** Fence of its last writer. */
  fence: string
  /** By partition: the last event whose changes its rows contain. */
  applied: string[]
  clock: number
}

/** Trending fades by 0.97 every 500 events of the cluster. */
export function fade(trend: number, events: number, partitions: number): number {
  return trend * 0.97 ** ((events * partitions) / 500)
}

/** Receives the owner's row of an item; undefined if it has none yet. */
type PutRow = (index: number, row: Uint8Array | undefined) => void

/** Puts rows into a learner, and drops those that their owner does not have. */
export function putInto(run: Run): PutRow {
  return (index, row) => {
    if (row) run.shared.putRow("item", index, row)
    else if (run.shared.has("item", index)) run.shared.dropRow("item", index)
  }
}

export class Items {
  readonly #cluster: Cluster
  readonly #put: PutRow
  readonly #index = new Map<string, number>()
  readonly #names: string[] = []
  /** By index: its place in the order items became known, the same for all processes. */
  readonly #born: number[] = []
  readonly #popularity = new Map<number, Popularity>()
  /** Deleted items: writes of a process that does not know of the deletion yet are ignored. */
  readonly #gone = new Set<number>()
  /** Rows announced by their owners and not needed here yet. */
  readonly #late = new Map<number, Uint8Array>()
  /** By owner: the last update read, and what its rows contain. */
  readonly owners: OwnerState[]

  constructor(cluster: Cluster, put: PutRow) {
    this.#cluster = cluster
    this.#put = put
    this.owners = cluster.all.map(() => ({ seq: 0, fence: "", applied: cluster.all.map(() => START), clock: 0 }))
  }

  find(name: string): number | undefined {
    return this.#index.get(name)
  }

  name(index: number): string | undefined {
    return this.#names[index]
  }

  get size(): number {
    return this.#index.size
  }

  names(): Iterable<[string, number]> {
    return this.#index
  }

  popularity(index: number): Popularity {
    return this.#popularity.get(index) ?? { events: 0, trend: 0, clock: 0 }
  }

  /** Counts events of an item at its owner. */
  count(index: number, p: { events: number; likes: number; clock: number }): void {
    const { events, trend, clock } = this.popularity(index)
    const faded = fade(trend, p.clock - clock, this.#cluster.partitions)
    this.#popularity.set(index, { events: events + p.events, trend: faded + p.likes, clock: p.clock })
  }

  /** An item's trend now. */
  trend(index: number): number {
    const { trend, clock } = this.popularity(index)
    return fade(trend, this.owners[index % this.#cluster.partitions].clock - clock, this.#cluster.partitions)
  }

  /** An item's catalogue entry; `born` is undefined if an earlier release named it. */
  about(index: number): { events: number; trend: number; born: number | undefined } {
    return { events: this.popularity(index).events, trend: this.trend(index), born: this.#born[index] }
  }

  /** Reads everything of an owner. `lazily`: rows wait until they are caught up with. */
  async load(owner: number, { lazily } = { lazily: false }): Promise<OwnerState> {
    const { keys, redis, partitions } = this.#cluster
    const key = keys.of(owner, "home")
    const found = (await redis.send(key, ["HGETALL", key])) as Buffer[]
    const fields = new Map<string, string>()
    for (let i = 0; i < found.length; i += 2) fields.set(String(found[i]), String(found[i + 1]))
    const number = (name: string) => Number(fields.get(name) ?? 0)
    const count = number("items")
    const lists = Math.ceil(count / ROWS_PER_BUCKET)
    for (let from = 0; from < lists; from += AT_ONCE)
      await Promise.all(
        Array.from({ length: Math.min(AT_ONCE, lists - from) }, async (_, i) => {
          const first = (from + i) * ROWS_PER_BUCKET
          const list = keys.rows("items", owner, first)
          const records = (await redis.send(list, ["LRANGE", list, "0", "-1"])) as Buffer[]
          records.forEach((record, place) => {
            this.#takeRecord(keys.index(owner, first + place), record, lazily)
          })
        }),
      )
    const applied = Array.from({ length: partitions }, (_, p) => fields.get(String(p)) ?? START)
    this.owners[owner] = { seq: number("seq"), fence: fields.get("fence") ?? "", applied, clock: number("clock") }
    return this.owners[owner]
  }

  /** An empty one: the item was deleted, or has only a number yet. */
  #takeRecord(index: number, record: Buffer, lazily: boolean): void {
    if (record.length > 0) this.#take(index, decodeStored(record), lazily)
    else if (this.#names[index] !== undefined) this.drop(index)
  }

  /** An item was deleted. Its name may get another number. */
  drop(index: number): void {
    this.#gone.add(index)
    const name = this.#names[index]
    if (name !== undefined && this.#index.get(name) === index) this.#index.delete(name)
    delete this.#names[index]
    delete this.#born[index]
    this.#popularity.delete(index)
    this.#late.delete(index)
    this.#put(index, undefined)
  }

  #take(index: number, { name, born, row, popularity }: Stored, lazily = false): void {
    if (this.#gone.has(index)) return
    if (this.#names[index] === undefined) this.#setName(index, name, born)
    if (popularity) this.#popularity.set(index, popularity)
    this.#late.delete(index)
    // A copy, since a view would keep the whole message in memory.
    if (lazily && row.length > 0) this.#late.set(index, new Uint8Array(row))
    else this.#put(index, row.length > 0 ? row : undefined)
  }

  #setName(index: number, name: string, born: number | undefined): void {
    this.#index.set(name, index)
    this.#names[index] = name
    if (born !== undefined) this.#born[index] = born
  }

  /** Applies the waiting rows of some items, or of all; returns their items. */
  catchUp(indices: Iterable<number> = [...this.#late.keys()]): Set<number> {
    const put = new Set<number>()
    for (const index of indices) {
      const row = this.#late.get(index)
      if (!row) continue
      this.#late.delete(index)
      this.#put(index, row)
      put.add(index)
    }
    return put
  }

  /**
   * Applies the updates of an owner, or reads all of it where some were missed. Returns the items whose rows came with
   * updates. `lazily`: rows wait until they are caught up with.
   */
  async follow(
    owner: number,
    p: { changes: readonly Buffer[]; seq: number; fence: string; lazily: boolean },
  ): Promise<number[]> {
    const { changes, lazily } = p
    if (this.hasMissed(owner, changes, p)) {
      await this.load(owner, { lazily })
      return []
    }
    const changed: number[] = []
    for (let i = 0; i < changes.length; i += 2) {
      const update = decodeUpdate(changes[i + 1])
      changed.push(...this.applyUpdate(owner, { seq: numberOf(changes[i]), update, lazily }))
    }
    return changed
  }

  /** Whether updates of an owner cannot be followed: some are gone, or another process wrote, which may not have known the last. */
  hasMissed(owner: number, changes: readonly Buffer[], now: { seq: number; fence: string }): boolean {
    const { seq, fence } = this.owners[owner]
    if (now.fence !== fence) return true
    return changes.length > 0 ? numberOf(changes[0]) > seq + 1 : now.seq !== seq
  }

  /** Applies an owner's update; returns the items whose rows it had. `lazily`: rows wait until they are caught up with. */
  applyUpdate(owner: number, { seq, update, lazily }: { seq: number; update: OwnerUpdate; lazily: boolean }): number[] {
    for (const { index, record } of update.rows) this.#takeRecord(index, record, lazily)
    this.owners[owner] = { ...this.owners[owner], seq, applied: update.applied, clock: update.clock }
    return update.rows.map(({ index }) => index)
  }

  /** The stored entry of an item; none for a deleted one. */
  record(index: number, row: Uint8Array): Buffer {
    const [name, born] = [this.#names[index], this.#born[index]]
    if (name === undefined) return Buffer.alloc(0)
    return encodeStored({ name, born, row, popularity: this.popularity(index) })
  }

  /**
   * Gives numbers to names that have none here, asking their owners. `born`: when each became known; by default they are
   * the latest, in this order.
   */
  async meet(names: Iterable<string>, born?: ReadonlyMap<string, number>): Promise<void> {
    const { keys, redis } = this.#cluster
    const unknown = [...new Set(names)].filter((name) => !this.#index.has(name))
    if (unknown.length === 0) return
    const counter = keys.of(0, "born")
    const last = born ? 0 : Number(await redis.send(counter, ["INCRBY", counter, String(unknown.length)]))
    const byOwner = new Map<number, { name: string; born: number }[]>()
    unknown.forEach((name, at) => {
      const owner = keys.partitionOf(name)
      const there = byOwner.get(owner) ?? []
      there.push({ name, born: born?.get(name) ?? last - unknown.length + at + 1 })
      byOwner.set(owner, there)
    })
    await Promise.all(
      [...byOwner].map(async ([owner, some]) => {
        const args: Argument[] = [keys.of(owner, "items:"), String(ROWS_PER_BUCKET)]
        for (const one of some) args.push(one.name, String(one.born), encodeStored({ ...one, row: new Uint8Array(0) }))
        const hashes = some.map(({ name }) => keys.names("items", owner, name))
        const found = (await this.#cluster.run("meet", [keys.of(owner, "home"), ...hashes], args)) as Buffer[]
        // A number lost with a failed master would be given twice: a replica, if there is one, must have it.
        await redis.send(hashes[0], ["WAIT", "1", "200"])
        found.forEach((text, i) => {
          const [number, first] = String(text).split(" ")
          this.#setName(
            keys.index(owner, Number(number)),
            some[i].name,
            first === undefined ? undefined : Number(first),
          )
        })
      }),
    )
  }

  /** Fetches what is stored of items. */
  async fetch(indices: Iterable<number>): Promise<void> {
    for (const { index, stored } of await this.#read(indices)) this.#take(index, stored)
  }

  /** Reads the names of items that other processes named. */
  async fetchNames(indices: Iterable<number>): Promise<void> {
    const unknown = [...indices].filter((index) => this.#names[index] === undefined && !this.#gone.has(index))
    for (const { index, stored } of await this.#read(unknown)) this.#setName(index, stored.name, stored.born)
  }

  async #read(indices: Iterable<number>): Promise<{ index: number; stored: Stored }[]> {
    const { keys, redis } = this.#cluster
    const found = await Promise.all(
      Array.from(indices, async (index) => {
        const { partition, number } = keys.place(index)
        const list = keys.rows("items", partition, number)
        const record = (await redis.send(list, ["LINDEX", list, String(number % ROWS_PER_BUCKET)])) as Buffer | null
        return record && record.length > 0 ? { index, stored: decodeStored(record) } : undefined
      }),
    )
    return found.filter((one) => one !== undefined)
  }
}

/** The number of a stream id "number-0". */
export function numberOf(id: Buffer): number {
  return Number.parseInt(String(id), 10)
}
