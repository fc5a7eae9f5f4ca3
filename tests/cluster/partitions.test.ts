/** Partitions in the hands of trainers: taken together, kept while Redis is full, their logs cut only where learned. */

import { expect, test } from "vitest"
import { Leases } from "../../src/cluster/leases.ts"
import { Log } from "../../src/cluster/log.ts"
import { readPartition, readStatus } from "../../src/cluster/status.ts"
import { FencedWrite } from "../../src/cluster/writes.ts"
import type { RedisCluster } from "../../tools/redis-cluster.mjs"
import { colours, feed, open, read, train } from "../support/cluster.ts"
import { describeWithRedis, eventually } from "../support/redis.ts"

const each = async (redis: RedisCluster, args: string[]) => {
  const masters = await redis.masters()
  return Promise.all(masters.map((n) => redis.nodes[n].command(args)))
}

describeWithRedis("partitions of a cluster", (redis) => {
  test("many partitions are taken together, not each with a look at all others", async () => {
    const cluster = await open(redis(), { partitions: 64 })
    await each(redis(), ["CONFIG", "RESETSTAT"])
    const trainer = await train(redis(), cluster, { sync: 60_000 })
    await eventually("all partitions taken", () => trainer.standing.partitions.length === 64)
    const stats = await each(redis(), ["INFO", "commandstats"])
    const looks = stats.map((text) => Number(/cmdstat_evalsha_ro:calls=(\d+)/.exec(String(text))?.[1] ?? 0))
    expect(looks.reduce((sum, calls) => sum + calls)).toBeLessThan((64 * 64) / 4)
  })

  test("a trainer that finds Redis full keeps its partitions and its memory", async () => {
    const cluster = await open(redis())
    const trainer = await train(redis(), cluster, { lease: 1000 })
    const reader = await read(redis(), cluster)
    const events = [...colours(1000)]
    await feed(reader, events.slice(0, 500))
    await reader.drain()
    await feed(reader, events.slice(500))
    await each(redis(), ["CONFIG", "SET", "maxmemory", "1"])
    try {
      await new Promise((resolve) => setTimeout(resolve, 3000))
      const { partitions } = await readStatus(cluster)
      expect(partitions.map(({ owner }) => owner)).toEqual(Array(4).fill(trainer.id))
    } finally {
      await each(redis(), ["CONFIG", "SET", "maxmemory", "0"])
    }
    await reader.drain()
    expect(trainer.standing).toMatchObject({ resets: 0, learned: 1000 })
  })

  test("a log is not cut where a snapshot has more than was learned, as after a master's loss", async () => {
    const cluster = await open(redis(), { partitions: 1 })
    const log = new Log(cluster, { keys: 0, queue: 100_000, wait: 0 })
    const { last } = await log.append(Array.from(colours(500), (one) => ({ ...one, timestamp: 1_700_000_000 })))
    const state = cluster.keys.of(0, "state")
    await cluster.redis.send(state, ["HSET", state, "snapshot", last.get(0) as string])
    const leases = new Leases(cluster, 60_000)
    const fence = (await leases.acquire(0)) as string
    const names = ["lease", "state", "deltas", "evidence", "events"].map((what) => cluster.keys.of(0, what))
    const write = new FencedWrite("segment", names, { owner: leases.id, fence, seq: 0, duration: "60000" })
    write.add("1-0", 1, "applied", 1, "evidence", 10, "0-0", 1000, 0, "", 0, 0)
    expect(await write.send(cluster, () => {})).toBe(1)
    expect(await readPartition(cluster, 0)).toMatchObject({ kept: 500, lag: 499 })
  })
})
