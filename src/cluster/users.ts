/** The users of all partitions as they are stored. */

import type { Cluster } from "./cluster.ts"
import { decodeStored, type Stored } from "./encoding.ts"
import { ROWS_PER_BUCKET } from "./redis-keys.ts"
import { readPartition } from "./status.ts"

/** Lists read at a time. */
const AT_ONCE = 64

/** The users of a partition, in the order they came, a portion at a time. */
export async function* readUsers(
  cluster: Cluster,
  partition: number,
): AsyncGenerator<{ index: number; stored: Stored }[]> {
  const { keys, redis } = cluster
  const state = keys.of(partition, "state")
  const count = Number((await redis.send(state, ["HGET", state, "users"])) ?? 0)
  const lists = Math.ceil(count / ROWS_PER_BUCKET)
  for (let from = 0; from < lists; from += AT_ONCE) {
    const portion = await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, lists - from) }, async (_, i) => {
        const first = (from + i) * ROWS_PER_BUCKET
        const list = keys.rows("users", partition, first)
        const records = (await redis.send(list, ["LRANGE", list, "0", "-1"])) as Buffer[]
        return records.flatMap((record, at) =>
          // Empty: forgotten, or named and not learned yet.
          record.length === 0 ? [] : [{ index: keys.index(partition, first + at), stored: decodeStored(record) }],
        )
      }),
    )
    yield portion.flat()
  }
}

/** Names of users, by partition. */
export async function listUsers(cluster: Cluster, p: { offset: number; count: number }): Promise<string[]> {
  const names: string[] = []
  let before = 0
  for (const partition of cluster.all) {
    const { users } = await readPartition(cluster, partition)
    // A partition that ends before the page is not read.
    if (before + users > p.offset)
      for await (const portion of readUsers(cluster, partition)) {
        for (const { stored } of portion) if (before++ >= p.offset) names.push(stored.name)
        if (names.length >= p.count) return names.slice(0, p.count)
      }
    else before += users
  }
  return names
}
