/**
 * What belongs to no id, as it lies in Redis: in pieces, so that no key is large. Partition 0 is its home; whoever owns
 * that stores it. Versions take turns in two places, and the head names the last one that is whole.
 *
 * Of a network it is averaged. A trainer that is not the home's leaves a part (what its training changed) whenever it has
 * learned so many events; the home takes the mean of what is there, weighed by events, and stores it together with the
 * numbers of the parts it contains. The others go over to it, with what it does not contain yet on top. A part is taken
 * once, by its number; one that is not whole is none.
 */

import { DessError } from "../errors.ts"
import type { SharedLearner } from "../run/shared.ts"
import type { Cluster } from "./cluster.ts"
import { Fenced } from "./writes.ts"

const PIECE = 65_536
/** Milliseconds a part lies there at most, after which it is left again, and for which others' parts are waited for. */
const KEPT = 60_000
const AGAIN = 10_000
const WAIT = 1000
/** Milliseconds after which less than the events asked for are enough. */
const SLOW = 5000

export interface StoredDense {
  version: number
  /** By partition: the evidence it contains. */
  positions: string[]
  /** By trainer: the last part it contains. */
  contained: Record<string, number>
  bytes: Buffer
}

interface Part {
  id: string
  number: number
  keys: string[]
  weight: number
  /** undefined: not whole. */
  change: Buffer | undefined
}

export class DensePart {
  readonly #cluster: Cluster
  readonly #id: string
  /** Events after which a part is left. */
  readonly #average: number
  readonly #isAveraged: boolean
  #version = 0
  #contained: Record<string, number> = {}
  /** Of the last part left. */
  #number = 0
  #left: { number: number; change: Uint8Array; events: number; since: number } | undefined
  /** Learned and not yet left, and since when. */
  #events = 0
  #since = Date.now()
  #waiting = 0
  #stored = 0

  constructor(cluster: Cluster, id: string, average: number) {
    this.#cluster = cluster
    this.#id = id
    this.#average = average
    this.#isAveraged = cluster.options.run.recipe === "paper"
  }

  /** Begins anew with what is stored; returns by partition the evidence in it. */
  async begin(shared: SharedLearner): Promise<string[] | undefined> {
    this.#left = undefined
    this.#events = 0
    this.#version = 0
    this.#contained = {}
    const stored = await readDense(this.#cluster)
    if (!stored) return undefined
    this.#note(stored)
    shared.putDense(stored.bytes)
    return stored.positions
  }

  #note({ version, contained }: StoredDense): void {
    this.#version = version
    this.#contained = contained
  }

  learned(events: number): void {
    if (this.#events === 0) this.#since = Date.now()
    this.#events += events
  }

  /** Not the home's: leaves a part when it is time, and goes over to the mean when there is a new one. */
  async follow(shared: SharedLearner): Promise<void> {
    if (!this.#isAveraged) return
    if ((await denseVersion(this.#cluster)) !== this.#version) await this.goOver(shared, { home: false })
    const now = Date.now()
    if (this.#left) {
      if (now - this.#left.since >= AGAIN) await this.#leave(this.#left)
      return
    }
    const due = this.#events >= this.#average || (this.#events > 0 && now - this.#since >= SLOW)
    const change = due ? shared.takeDenseChange() : undefined
    if (!change) return
    this.#left = { number: ++this.#number, change, events: this.#events, since: now }
    this.#events = 0
    await this.#leave(this.#left)
  }

  /** To what is stored, with what was learned here and is not in it on top. */
  async goOver(shared: SharedLearner, { home }: { home: boolean }): Promise<void> {
    const stored = await readDense(this.#cluster)
    if (stored) this.#note(stored)
    if (!this.#isAveraged) return
    if (this.#left && (this.#contained[this.#id] ?? 0) >= this.#left.number) this.#left = undefined
    if (stored) {
      const mine = shared.takeDenseChange()
      shared.putDense(stored.bytes)
      if (this.#left) shared.addDenseChange(this.#left.change, { own: home })
      if (mine) shared.addDenseChange(mine, { own: true })
    }
    if (!home || !this.#left) return
    // At home a part of one's own is not waited for: it counts as learned since.
    this.#contained[this.#id] = this.#left.number
    this.#events += this.#left.events
    this.#left = undefined
  }

  async #leave(part: { number: number; change: Uint8Array; events: number; since: number }): Promise<void> {
    const { redis, keys } = this.#cluster
    part.since = Date.now()
    const pieces = cut(part.change)
    await Promise.all(
      pieces.map((piece, n) => {
        const key = this.#partKey(this.#id, part.number, n)
        return redis.send(key, ["SET", key, piece, "PX", String(KEPT)])
      }),
    )
    const parts = keys.of(0, "dense:parts")
    await redis.send(parts, ["HSET", parts, this.#id, `${part.number} ${pieces.length} ${part.events}`])
  }

  #partKey(id: string, number: number, piece: number): string {
    return this.#cluster.keys.of(0, `dense:part:${id}:${number}:${piece}`)
  }

  /** At home: takes the mean with the parts that others left, where there are any, and stores it. */
  async lead(
    shared: SharedLearner,
    p: { fence: string; living: readonly string[]; positions: readonly string[] },
  ): Promise<void> {
    const now = Date.now()
    const parts = this.#isAveraged && p.living.length > 1 ? await this.#parts() : []
    if (parts.length === 0) this.#waiting = now
    const together = parts.length >= p.living.length - 1 || now - this.#waiting >= WAIT
    if (!(parts.length > 0 && together) && now - this.#stored < SLOW) return
    const whole = parts.filter(({ change }) => change !== undefined)
    shared.averageDense(
      whole.map(({ change, weight }) => ({ change: change as Buffer, weight })),
      this.#events,
    )
    for (const { id, number } of whole) this.#contained[id] = number
    const known = new Set([...p.living, ...whole.map(({ id }) => id)])
    for (const id of Object.keys(this.#contained)) if (!known.has(id)) delete this.#contained[id]
    await this.store(shared, { ...p, parts })
  }

  /** Stores what is in memory; the parts, which are in it, are done with. */
  async store(
    shared: SharedLearner,
    p: { fence: string; positions: readonly string[]; parts?: readonly Part[] },
  ): Promise<void> {
    const cluster = this.#cluster
    const { fence, positions, parts = [] } = p
    const lease = cluster.keys.of(0, "lease")
    const version = this.#version + 1
    const pieces = cut(shared.takeDense())
    const written = await Promise.all(
      pieces.map((piece, n) =>
        cluster.run("piece", [lease, pieceKey(cluster, version, n)], [this.#id, fence, withVersion(version, piece)]),
      ),
    )
    const head = [this.#version, version, pieces.length, positions.join(" "), JSON.stringify(this.#contained)]
    const done = parts.flatMap(({ id, number }) => [id, `${number} `])
    const kept = await cluster.run(
      "dense",
      [lease, cluster.keys.of(0, "dense"), cluster.keys.of(0, "dense:parts"), ...parts.flatMap(({ keys }) => keys)],
      [this.#id, fence, ...head.map(String), ...done],
    )
    if (kept !== 1 || written.some((one) => one !== 1))
      throw new Fenced("dense part", "another trainer has the lease, or Redis is not where it was left")
    this.#version = version
    this.#events = 0
    this.#stored = Date.now()
  }

  /** What others left that the mean does not contain. */
  async #parts(): Promise<Part[]> {
    const { redis, keys } = this.#cluster
    const key = keys.of(0, "dense:parts")
    const found = (await redis.send(key, ["HGETALL", key])) as Buffer[]
    const parts: Promise<Part>[] = []
    for (let i = 0; i < found.length; i += 2) {
      const id = String(found[i])
      const [number, pieces, weight] = String(found[i + 1])
        .split(" ")
        .map(Number)
      const names = Array.from({ length: pieces }, (_, n) => this.#partKey(id, number, n))
      if (id === this.#id || (this.#contained[id] ?? 0) >= number) continue
      parts.push(this.#pieces(names).then((change) => ({ id, number, keys: names, weight, change })))
    }
    return Promise.all(parts)
  }

  async #pieces(names: readonly string[]): Promise<Buffer | undefined> {
    const found = await getAll(this.#cluster, names)
    return found.includes(null) ? undefined : Buffer.concat(found as Buffer[])
  }
}

/** The newest that is whole; undefined before the first. */
export async function readDense(cluster: Cluster): Promise<StoredDense | undefined> {
  const key = cluster.keys.of(0, "dense")
  // Who is slower than two versions finds pieces of a later one, and begins again.
  for (let tries = 0; tries < 20; tries++) {
    const fields = ["version", "pieces", "positions", "contained"]
    const [version, count, positions, contained] = (await cluster.redis.send(key, [
      "HMGET",
      key,
      ...fields,
    ])) as Buffer[]
    if (version === null) return undefined
    const number = Number(version)
    const names = Array.from({ length: Number(count) }, (_, n) => pieceKey(cluster, number, n))
    const pieces = await getAll(cluster, names)
    if (pieces.every((piece) => piece?.readDoubleLE(0) === number))
      return {
        version: number,
        positions: String(positions).split(" "),
        contained: JSON.parse(String(contained)) as Record<string, number>,
        bytes: Buffer.concat(pieces.map((piece) => (piece as Buffer).subarray(8))),
      }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new DessError("UNAVAILABLE", "dense part: expected a whole version within a second, got pieces; try again")
}

/** The number of the newest version. */
export async function denseVersion(cluster: Cluster): Promise<number> {
  const key = cluster.keys.of(0, "dense")
  return Number((await cluster.redis.send(key, ["HGET", key, "version"])) ?? 0)
}

/** The first version of a cluster that nobody trains yet. */
export async function createDense(cluster: Cluster, positions: readonly string[], bytes: Uint8Array): Promise<void> {
  const { redis, keys } = cluster
  const pieces = cut(bytes)
  for (const [n, piece] of pieces.entries()) {
    const key = pieceKey(cluster, 1, n)
    await redis.send(key, ["SET", key, withVersion(1, piece)])
  }
  const key = keys.of(0, "dense")
  const fields = { version: 1, pieces: pieces.length, positions: positions.join(" "), contained: "{}" }
  await redis.send(key, ["HSET", key, ...Object.entries(fields).flatMap(([name, value]) => [name, String(value)])])
}

function pieceKey(cluster: Cluster, version: number, piece: number): string {
  return cluster.keys.of(0, `dense:${version % 2}:${piece}`)
}

function getAll(cluster: Cluster, names: readonly string[]): Promise<(Buffer | null)[]> {
  return Promise.all(names.map((key) => cluster.redis.send(key, ["GET", key]) as Promise<Buffer | null>))
}

function cut(bytes: Uint8Array): Buffer[] {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return Array.from({ length: Math.ceil(bytes.length / PIECE) }, (_, n) => whole.subarray(n * PIECE, (n + 1) * PIECE))
}

function withVersion(version: number, piece: Buffer): Buffer {
  const head = Buffer.allocUnsafe(8)
  head.writeDoubleLE(version, 0)
  return Buffer.concat([head, piece])
}
