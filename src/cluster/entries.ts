/** The catalogue's entries of all owners: read, then followed as they are put. */

import type { StoredItem } from "../engine/records.ts"
import type { Cluster } from "./cluster.ts"
import { numberOf } from "./items.ts"
import type { Argument } from "./redis.ts"
import { ENTRIES_PER_BUCKET, ROWS_PER_BUCKET } from "./redis-keys.ts"

/** Hashes read at a time. */
const AT_ONCE = 64
/** Entries kept in the stream; a reader further behind reads everything again. */
const PUTS_KEPT = 10_000

/** null: the item was deleted. */
type Note = (index: number, entry: StoredItem | null) => void | Promise<void>

export class Entries {
  readonly #cluster: Cluster
  readonly #note: Note
  /** By owner: the number of the last one read. */
  readonly #lastPut: number[]

  constructor(cluster: Cluster, note: Note) {
    this.#cluster = cluster
    this.#note = note
    this.#lastPut = cluster.all.map(() => 0)
  }

  /** The position after which to ask an owner. */
  after(owner: number): string {
    return `${this.#lastPut[owner]}-0`
  }

  /** Goes on behind the current entries of an owner. */
  async skip(owner: number): Promise<void> {
    const key = this.#cluster.keys.of(owner, "home")
    this.#lastPut[owner] = Number((await this.#cluster.redis.send(key, ["HGET", key, "puts"])) ?? 0)
  }

  /** Reads all current entries of an owner. */
  async load(owner: number): Promise<void> {
    const { keys, redis } = this.#cluster
    const key = keys.of(owner, "home")
    const [items, puts] = (await redis.send(key, ["HMGET", key, "items", "puts"])) as (Buffer | null)[]
    this.#lastPut[owner] = Number(puts ?? 0)
    const hashes = Math.ceil(Number(items ?? 0) / ENTRIES_PER_BUCKET)
    for (let from = 0; from < hashes; from += AT_ONCE)
      await Promise.all(
        Array.from({ length: Math.min(AT_ONCE, hashes - from) }, async (_, i) => {
          const hash = keys.entries(owner, (from + i) * ENTRIES_PER_BUCKET)
          const fields = (await redis.send(hash, ["HGETALL", hash])) as Buffer[]
          for (let f = 0; f < fields.length; f += 2) await this.#take(owner, String(fields[f]), String(fields[f + 1]))
        }),
      )
  }

  async #take(owner: number, number: string, entry: string): Promise<void> {
    await this.#note(this.#cluster.keys.index(owner, Number(number)), JSON.parse(entry) as StoredItem | null)
  }

  /** Reads entries after those known here, of `last` in all; where some are missing, all are read. */
  async applyPuts(owner: number, puts: readonly Buffer[], last: number): Promise<void> {
    const next = puts.length > 0 ? numberOf(puts[0]) : last + 1
    if (next !== this.#lastPut[owner] + 1) {
      await this.load(owner)
      return
    }
    for (let i = 0; i < puts.length; i += 2) {
      const text = String(puts[i + 1])
      const at = text.indexOf(" ")
      await this.#take(owner, text.slice(0, at), text.slice(at + 1))
      this.#lastPut[owner] = numberOf(puts[i])
    }
  }
}

/** The current entry of an item, and as Redis has it. */
export async function readEntry(cluster: Cluster, index: number): Promise<{ entry: StoredItem; stored: string }> {
  const { partition, number } = cluster.keys.place(index)
  const hash = cluster.keys.entries(partition, number)
  const found = (await cluster.redis.send(hash, ["HGET", hash, String(number)])) as Buffer | null
  const stored = String(found ?? "")
  return {
    stored,
    entry: found ? (JSON.parse(stored) as StoredItem) : { categories: [], hidden: false, features: null },
  }
}

/** Takes items out of Redis; returns the indices of those that were there. Trainers and readers hear of it. */
export async function removeItems(cluster: Cluster, names: readonly string[]): Promise<number[]> {
  const { keys } = cluster
  const byOwner = new Map<number, string[]>()
  for (const name of new Set(names)) {
    const owner = keys.partitionOf(name)
    byOwner.set(owner, [...(byOwner.get(owner) ?? []), name])
  }
  const found = await Promise.all(
    Array.from(byOwner, async ([owner, some]) => {
      const hashes = some.map((name) => keys.names("items", owner, name))
      const rows = [keys.of(owner, "items:"), String(ROWS_PER_BUCKET)]
      const entries = [keys.of(owner, "entries:"), String(ENTRIES_PER_BUCKET)]
      const gone = (await cluster.run(
        "remove",
        [keys.of(owner, "home"), keys.of(owner, "puts"), ...hashes],
        [String(PUTS_KEPT), ...rows, ...entries, ...some],
      )) as number[]
      return gone.map((number) => keys.index(owner, number))
    }),
  )
  return found.flat()
}

/**
 * Stores entries and appends them to the streams that readers follow, one call per owner. `stored`: what Redis has of an entry,
 * nothing by default. Returns the owners that took nothing, where one has changed meanwhile.
 */
export async function writeEntries(
  cluster: Cluster,
  entries: readonly { index: number; entry: StoredItem; stored?: string }[],
): Promise<Set<number>> {
  const { keys } = cluster
  const byOwner = new Map<number, { names: string[]; args: Argument[] }>()
  for (const { index, entry, stored = "" } of entries) {
    const { partition, number } = keys.place(index)
    const call = byOwner.get(partition) ?? {
      names: [keys.of(partition, "home"), keys.of(partition, "puts")],
      args: [String(PUTS_KEPT)],
    }
    byOwner.set(partition, call)
    const hash = keys.entries(partition, number)
    if (!call.names.includes(hash)) call.names.push(hash)
    call.args.push(String(call.names.indexOf(hash) + 1), String(number), JSON.stringify(entry), stored)
  }
  const refused = new Set<number>()
  await Promise.all(
    Array.from(byOwner, async ([owner, { names, args }]) => {
      if ((await cluster.run("put", names, args)) !== 1) refused.add(owner)
    }),
  )
  return refused
}
