/** The state of a cluster: what `dess cluster status` prints and readers use. */

import type { Cluster } from "./cluster.ts"
import { listMembers, type Member } from "./leases.ts"

export interface PartitionStatus {
  partition: number
  /** null: without an owner at the moment. */
  owner: string | null
  /** How often the owner has changed: the fencing token. */
  fence: number
  /** Events ever, and of them learned. */
  appended: number
  applied: number
  /** Events not yet learned. */
  lag: number
  /** Events in the stream. */
  kept: number
  users: number
  items: number
  /** The last event learned. */
  offset: string
  counters: Record<string, number>
}

export interface NodeStatus {
  node: string
  version: string
  usedBytes: number
  /** 0: no limit. */
  maxBytes: number
  replicas: number
}

export interface ClusterStatus {
  prefix: string
  partitions: PartitionStatus[]
  trainers: Member[]
  nodes: NodeStatus[]
  totals: { appended: number; applied: number; lag: number; users: number; items: number }
  /** Over everything learned, measured before it was; null before the first. */
  accuracy: number | null
}

/** What is counted in a partition beside its rows. */
const COUNTERS = ["tested", "hits", "loss", "testedUsers", "recall", "likes", "failed"]
const CLASSES = ["class0", "class1", "class2", "class3", "class4"]
const SILENCE = 5000

export async function readPartition(cluster: Cluster, partition: number): Promise<PartitionStatus> {
  const { keys, redis } = cluster
  const [state, ownerKey, lease, events] = ["state", "home", "lease", "events"].map((what) => keys.of(partition, what))
  const names = ["appended", "applied", "users", "offset", "gone", ...COUNTERS, ...CLASSES]
  const [fields, items, held, kept, time] = await Promise.all([
    redis.send(state, ["HMGET", state, ...names]) as Promise<(Buffer | null)[]>,
    redis.send(ownerKey, ["HMGET", ownerKey, "items", "gone"]) as Promise<(Buffer | null)[]>,
    redis.send(lease, ["HMGET", lease, "owner", "fence", "until"]) as Promise<(Buffer | null)[]>,
    redis.send(events, ["XLEN", events]) as Promise<number>,
    redis.send(events, ["TIME"]) as Promise<Buffer[]>,
  ])
  const number = (name: string) => Number(fields[names.indexOf(name)] ?? 0)
  const [owner, fence, until] = held
  const valid = Number(until ?? 0) > 1000 * Number(time[0])
  const [appended, applied] = [number("appended"), number("applied")]
  return {
    partition,
    owner: valid && owner && owner.length > 0 ? String(owner) : null,
    fence: Number(fence ?? 0),
    appended,
    applied,
    lag: appended - applied,
    kept,
    users: number("users") - number("gone"),
    items: Number(items[0] ?? 0) - Number(items[1] ?? 0),
    offset: String(fields[3] ?? "0-0"),
    counters: Object.fromEntries([...COUNTERS, ...CLASSES].map((name) => [name, number(name)])),
  }
}

export async function readStatus(cluster: Cluster): Promise<ClusterStatus> {
  const [partitions, trainers, infos] = await Promise.all([
    Promise.all(cluster.all.map((p) => readPartition(cluster, p))),
    listMembers(cluster, SILENCE),
    cluster.redis.everywhere(["INFO"]),
  ])
  const sum = (of: (one: PartitionStatus) => number) => partitions.reduce((total, one) => total + of(one), 0)
  const [tested, hits] = [sum(({ counters }) => counters.tested), sum(({ counters }) => counters.hits)]
  return {
    prefix: cluster.keys.prefix,
    partitions,
    trainers,
    nodes: infos.map(({ node, reply }) => {
      const field = (name: string) => new RegExp(`^${name}:(.*?)\r?$`, "m").exec(reply)?.[1] ?? ""
      const valkey = field("valkey_version")
      return {
        node,
        version: valkey === "" ? `Redis ${field("redis_version")}` : `Valkey ${valkey}`,
        usedBytes: Number(field("used_memory")),
        maxBytes: Number(field("maxmemory")),
        replicas: Number(field("connected_slaves")),
      }
    }),
    totals: {
      appended: sum(({ appended }) => appended),
      applied: sum(({ applied }) => applied),
      lag: sum(({ lag }) => lag),
      users: sum(({ users }) => users),
      items: sum(({ items }) => items),
    },
    accuracy: tested === 0 ? null : hits / tested,
  }
}
