/** A cluster's parts in tests: each closes what it opened after the test. */

import { afterEach } from "vitest"
import { Cluster, type ClusterOptions } from "../../src/cluster/cluster.ts"
import { ClusterRecommender } from "../../src/cluster/reader.ts"
import { ClusterTrainer, type ClusterTrainerOptions } from "../../src/cluster/trainer.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import type { RedisCluster } from "../../tools/redis-cluster.mjs"
import { freshPrefix } from "./redis.ts"

export const BINARY: RecommenderOptions = { task: "binary", method: "dess-fre", sizes: [2, 4, 8, 16], segment: 100 }
export const closing: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

export async function open(redis: RedisCluster, more: Partial<ClusterOptions> = {}): Promise<Cluster> {
  const cluster = await Cluster.open({
    url: redis.url,
    prefix: freshPrefix(),
    partitions: 4,
    recommender: BINARY,
    ...more,
  })
  closing.push(() => cluster.close())
  return cluster
}

/** Another connection to the same. */
export const again = (redis: RedisCluster, cluster: Cluster) =>
  open(redis, { prefix: cluster.keys.prefix, partitions: cluster.partitions, recommender: {} })

export async function train(
  redis: RedisCluster,
  cluster: Cluster,
  options: ClusterTrainerOptions = {},
): Promise<ClusterTrainer> {
  const trainer = new ClusterTrainer(await again(redis, cluster), { lease: 4000, sync: 30, ...options })
  void trainer.start()
  closing.push(() => trainer.stop())
  return trainer
}

export async function read(redis: RedisCluster, cluster: Cluster, options = {}): Promise<ClusterRecommender> {
  const reader = await ClusterRecommender.open(await again(redis, cluster), options)
  closing.push(() => reader.close())
  return reader
}

/** Everybody likes items of their own colour: learnable, and the right answer is known. */
export function* colours(count: number): Generator<Event & { user: string; item: string; rating: number }> {
  let state = 7
  const next = (n: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x7fffffff) * n) % n
  }
  for (let n = 0; n < count; n++) {
    const [user, item] = [next(60), next(80)]
    yield {
      user: `user ${user}`,
      item: `item ${item}`,
      rating: user % 2 === item % 2 ? 5 : 1,
      timestamp: 1_700_000_000 + n,
    }
  }
}

export async function feed(reader: ClusterRecommender, events: Event[]): Promise<string> {
  let token = ""
  for (let from = 0; from < events.length; from += 500)
    token = (await reader.observe(events.slice(from, from + 500))).token as string
  return token
}
