/**
 * What belongs to no id (global biases, the clock, how often ids return, what the policy has learned), as stored in
 * Redis. It adds up by evidence; this is the sum so far, for processes that come later. Partition 0 is its owner: the trainer
 * of that partition stores it. Its keys are called "dense", and the bytes begin with their version, as older releases have it.
 */

import type { Cluster } from "./cluster.ts"
import { Fenced } from "./writes.ts"

/** Milliseconds between two versions. */
const PAUSE = 5000

export interface StoredGlobal {
  version: number
  /** By partition: the evidence it contains. */
  positions: string[]
  bytes: Buffer
}

export class GlobalState {
  readonly #cluster: Cluster
  readonly #owner: string
  /** The last that was read or stored. */
  #version = 0
  #stored = 0

  constructor(cluster: Cluster, owner: string) {
    this.#cluster = cluster
    this.#owner = owner
  }

  /** Whether it is time for a new version. */
  get isDue(): boolean {
    return Date.now() - this.#stored >= PAUSE
  }

  /** What is stored; the next version comes after it. */
  async read(): Promise<StoredGlobal | undefined> {
    const stored = await readGlobal(this.#cluster)
    this.#version = stored?.version ?? 0
    return stored
  }

  /** Needs the lease of partition 0, and that no other trainer has stored since. */
  async store(fence: string, positions: readonly string[], bytes: Uint8Array): Promise<void> {
    const { keys } = this.#cluster
    const version = this.#version + 1
    const names = [keys.of(0, "lease"), keys.of(0, "dense"), bytesKey(this.#cluster, version)]
    const args = [this.#owner, fence, String(this.#version), String(version)]
    const kept = await this.#cluster.run("store", names, [...args, positions.join(" "), withVersion(version, bytes)])
    if (kept !== 1) throw new Fenced("global state", "another trainer has the lease, or Redis is not where it was left")
    this.#version = version
    this.#stored = Date.now()
  }
}

/** The newest version; undefined before the first. */
export async function readGlobal(cluster: Cluster): Promise<StoredGlobal | undefined> {
  const { keys } = cluster
  const found = await cluster.run("stored", [keys.of(0, "dense")], [keys.of(0, "dense:")])
  const [version, positions, bytes] = found as [number, Buffer, Buffer]
  return version === 0 ? undefined : { version, positions: String(positions).split(" "), bytes }
}

/** The first version of a cluster without trainers. */
export async function createGlobal(cluster: Cluster, positions: readonly string[], bytes: Uint8Array): Promise<void> {
  const { redis, keys } = cluster
  const place = bytesKey(cluster, 1)
  await redis.send(place, ["SET", place, withVersion(1, bytes)])
  const key = keys.of(0, "dense")
  const fields = { version: 1, pieces: 1, positions: positions.join(" "), contained: "{}" }
  await redis.send(key, ["HSET", key, ...Object.entries(fields).flatMap(([name, value]) => [name, String(value)])])
}

/** Versions are written to two keys alternately. */
function bytesKey(cluster: Cluster, version: number): string {
  return cluster.keys.of(0, `dense:${version % 2}:0`)
}

function withVersion(version: number, bytes: Uint8Array): Buffer {
  const head = Buffer.allocUnsafe(8)
  head.writeDoubleLE(version, 0)
  return Buffer.concat([head, bytes])
}
