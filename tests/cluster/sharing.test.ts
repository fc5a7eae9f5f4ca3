/** What trainers exchange: the global state of partition 0, and rows of items that wait until they are needed. */

import { afterEach, expect, test } from "vitest"
import { Cluster } from "../../src/cluster/cluster.ts"
import { encodeStored } from "../../src/cluster/encoding.ts"
import { createGlobal, GlobalState, readGlobal } from "../../src/cluster/global-state.ts"
import { Items } from "../../src/cluster/items.ts"
import { Leases } from "../../src/cluster/leases.ts"
import { Fenced } from "../../src/cluster/writes.ts"
import type { RedisCluster } from "../../tools/redis-cluster.mjs"
import { describeWithRedis, freshPrefix } from "../support/redis.ts"

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close()
})

async function open(redis: RedisCluster): Promise<Cluster> {
  const cluster = await Cluster.open({
    url: redis.url,
    prefix: freshPrefix(),
    partitions: 2,
    recommender: { task: "binary", method: "dess-fre", sizes: [2, 4] },
  })
  closing.push(() => cluster.close())
  return cluster
}

const POSITIONS = ["0-0", "0-0"]

describeWithRedis("sharing", (redis) => {
  test("the global state is stored by the owner of partition 0 alone, version by version, and read whole", async () => {
    const cluster = await open(redis())
    expect(await readGlobal(cluster)).toBeUndefined()
    const leases = new Leases(cluster, 60_000)
    const fence = (await leases.acquire(0)) as string
    const [first, second] = [new GlobalState(cluster, leases.id), new GlobalState(cluster, leases.id)]
    expect([await first.read(), first.isDue]).toEqual([undefined, true])
    const bytes = Buffer.from(Uint8Array.from({ length: 1000 }, (_, n) => n))
    await first.store(fence, POSITIONS, bytes)
    expect(first.isDue).toBe(false)
    expect(await readGlobal(cluster)).toEqual({ version: 1, positions: POSITIONS, bytes })
    await first.store(fence, ["7-1", "8-0"], Buffer.from("next"))
    const stored = { version: 2, positions: ["7-1", "8-0"], bytes: Buffer.from("next") }
    // One that has not seen it, or has not the lease, stores nothing.
    await expect(second.store(fence, POSITIONS, bytes)).rejects.toThrow(Fenced)
    expect(await second.read()).toEqual(stored)
    await leases.release(0, fence)
    const taken = (await new Leases(cluster, 60_000).acquire(0)) as string
    await expect(second.store(fence, POSITIONS, bytes)).rejects.toThrow(Fenced)
    await expect(second.store(taken, POSITIONS, bytes)).rejects.toThrow(Fenced)
    expect(await readGlobal(cluster)).toEqual(stored)
  })

  test("a global state that an older release left in pieces is read, and stored anew as one", async () => {
    const cluster = await open(redis())
    const { keys, redis: connection } = cluster
    await createGlobal(cluster, POSITIONS, Buffer.from("first"))
    expect(await readGlobal(cluster)).toMatchObject({ version: 1, bytes: Buffer.from("first") })
    const version = Buffer.alloc(8)
    version.writeDoubleLE(42)
    for (const [n, piece] of ["one, ", "two, ", "three"].entries()) {
      const key = keys.of(0, `dense:0:${n}`)
      await connection.send(key, ["SET", key, Buffer.concat([version, Buffer.from(piece)])])
    }
    const head = keys.of(0, "dense")
    await connection.send(head, ["HSET", head, "version", "42", "pieces", "3", "contained", '{"other":1}'])
    expect(await readGlobal(cluster)).toEqual({
      version: 42,
      positions: POSITIONS,
      bytes: Buffer.from("one, two, three"),
    })
    const leases = new Leases(cluster, 60_000)
    const state = new GlobalState(cluster, leases.id)
    await state.read()
    await state.store((await leases.acquire(0)) as string, POSITIONS, Buffer.from("whole"))
    expect(await readGlobal(cluster)).toEqual({ version: 43, positions: POSITIONS, bytes: Buffer.from("whole") })
  })

  test("rows read lazily wait until they are needed, the newest of each; removed ones are dropped at once", async () => {
    const cluster = await open(redis())
    const put: [number, string | undefined][] = []
    const items = new Items(cluster, (index, row) => put.push([index, row && Buffer.from(row).toString()]))
    const hear = (seq: number, rows: Record<number, string>, lazily = true) =>
      items.applyUpdate(0, {
        seq,
        update: {
          applied: POSITIONS,
          clock: seq,
          rows: Object.entries(rows).map(([index, row]) => ({
            index: Number(index),
            record: encodeStored({ name: `item ${index}`, row: Buffer.from(row) }),
          })),
        },
        lazily,
      })
    hear(1, { 0: "first", 2: "second" })
    hear(2, { 0: "newer", 4: "third", 6: "fourth" })
    expect(put).toEqual([])
    expect([items.find("item 4"), items.owners[0].seq]).toEqual([4, 2])
    expect(items.catchUp([0, 1, 0])).toEqual(new Set([0]))
    expect(put).toEqual([[0, "newer"]])
    hear(3, { 2: "" })
    hear(4, { 6: "eager" }, false)
    expect(put.slice(1)).toEqual([
      [2, undefined],
      [6, "eager"],
    ])
    expect(items.catchUp()).toEqual(new Set([4]))
    expect(items.catchUp()).toEqual(new Set())
  })
})
