/** The log, leases, fenced writes and encodings, on a real cluster; and what is refused. */

import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type Server } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { Cluster } from "../../src/cluster/cluster.ts"
import {
  decodeChanges,
  decodeEvent,
  decodeStored,
  decodeUpdate,
  encodeChanges,
  encodeEvent,
  encodeStored,
  encodeUpdate,
} from "../../src/cluster/encoding.ts"
import { Leases } from "../../src/cluster/leases.ts"
import { Log, type LoggedEvent, readEvents } from "../../src/cluster/log.ts"
import { Redis } from "../../src/cluster/redis.ts"
import { encodeToken, readToken } from "../../src/cluster/token.ts"
import { Fenced, FencedWrite } from "../../src/cluster/writes.ts"
import type { RedisCluster } from "../../tools/redis-cluster.mjs"
import { startServer } from "../../tools/redis-cluster.mjs"
import { describeWithRedis, freshPrefix } from "../support/redis.ts"

const event = (user: string, item: string, key?: string): LoggedEvent => ({
  user,
  item,
  rating: 5,
  timestamp: 1_700_000_000,
  key,
})
const LOG = { keys: 1000, queue: 100_000, wait: 0 }
const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

async function open(redis: RedisCluster, partitions = 4): Promise<Cluster> {
  return Cluster.open({ url: redis.url, prefix: freshPrefix(), partitions, recommender: { task: "binary" } })
}

test("encodings give back what went in", () => {
  const plain = { user: "Zoë", item: "七", rating: 3.5, timestamp: 1_700_000_000.25 }
  expect(decodeEvent(encodeEvent(plain))).toEqual(plain)
  expect(decodeEvent(encodeEvent({ ...plain, rating: Number.NaN })).rating).toBeNaN()
  const row = Buffer.from([1, 2, 3])
  const stored = {
    name: "Zoë",
    row,
    met: [0, 127, 128, 5_000_000_000],
    popularity: { events: 300, trend: 1.5, clock: 9 },
  }
  expect(decodeStored(encodeStored(stored))).toEqual(stored)
  expect(decodeStored(encodeStored({ name: "", row }))).toEqual({ name: "", row })
  const changes = [{ index: 77, events: 2, likes: 1, changes: [row, Buffer.alloc(200, 7)] }]
  expect(decodeChanges(encodeChanges(changes))).toEqual(changes)
  const update = { applied: ["0-0", "9-1", "1000-0"], clock: 12, rows: [{ index: 3, record: row }] }
  expect(decodeUpdate(encodeUpdate(update))).toEqual(update)
  const token = new Map([
    [3, "170-4"],
    [11, "171-0"],
  ])
  expect(readToken(encodeToken(token), 11)).toBe("171-0")
  expect(readToken(encodeToken(token), 4)).toBeUndefined()
  expect(() => readToken("nonsense", 1)).toThrow(/after: expected the token/)
})

test("a record of another release, or cut short, is refused", () => {
  const record = encodeStored({ name: "ada", row: Buffer.from([1]) })
  const other = Buffer.from(record)
  other[0] = 0x70
  expect(() => decodeStored(other)).toThrow(/expected version 2, got 7: another release/)
  expect(() => decodeStored(record.subarray(0, 3))).toThrow(/cut short/)
  const late = encodeEvent({ user: "u", item: "i", rating: 1, timestamp: 1 })
  late[0] = 9
  expect(() => decodeEvent(late)).toThrow(/event: expected version 1, got 9/)
})

describeWithRedis("a cluster", (redis) => {
  test("the ids of one call are known and follow each other, however long it takes", async () => {
    const cluster = await open(redis(), 1)
    const log = new Log(cluster, LOG)
    for (const count of [1, 20_000]) {
      const { ids } = await log.append(Array.from({ length: count }, (_, n) => event("ada", `item ${n}`)))
      const after = `(${ids[0]}`
      const key = cluster.keys.of(0, "events")
      const found = (await cluster.redis.send(key, ["XRANGE", key, after, "+"])) as [Buffer, Buffer[]][]
      expect(found.map(([id]) => String(id))).toEqual(ids.slice(1))
    }
  })

  test("events are appended once each, in order, to their user's partition", async () => {
    const cluster = await open(redis())
    const log = new Log(cluster, LOG)
    const first = Array.from({ length: 60 }, (_, n) => event(`user ${n % 7}`, `item ${n}`, `key ${n}`))
    expect(await log.append(first)).toMatchObject({ accepted: 60, duplicates: 0 })
    expect(await log.append([...first.slice(50), event("user 1", "item 60", "key 60")])).toMatchObject({
      accepted: 1,
      duplicates: 10,
    })
    const found = new Map<string, string[]>()
    for (const p of cluster.all)
      for (const { event: one } of await readEvents(cluster, p, { after: "0-0", count: 1000 })) {
        expect(cluster.keys.partitionOf(one.user)).toBe(p)
        found.set(one.user, [...(found.get(one.user) ?? []), one.item])
      }
    for (const [user, items] of found) {
      const sent = [...first, event("user 1", "item 60")].filter((one) => one.user === user).map((one) => one.item)
      expect(items).toEqual(sent)
    }
    expect([...found.values()].flat()).toHaveLength(61)
    cluster.close()
  })

  test("keys are remembered as many as asked for, at least", async () => {
    const cluster = await open(redis(), 1)
    const log = new Log(cluster, { ...LOG, keys: 20 })
    for (let n = 0; n < 100; n++) await log.append([event("ada", `item ${n}`, `key ${n}`)])
    expect(await log.append([event("ada", "again", "key 99"), event("ada", "again", "key 85")])).toMatchObject({
      accepted: 0,
      duplicates: 2,
    })
    expect(await log.append([event("ada", "again", "key 0")])).toMatchObject({ accepted: 1 })
    cluster.close()
  })

  test("a call larger than the queue is taken while less than a queue waits", async () => {
    const cluster = await open(redis(), 1)
    const log = new Log(cluster, { ...LOG, queue: 10 })
    const many = Array.from({ length: 30 }, (_, n) => event("ada", `item ${n}`))
    expect(await log.append(many)).toMatchObject({ accepted: 30 })
    await expect(log.append(many)).rejects.toMatchObject({ code: "BUSY" })
    cluster.close()
  })

  test("a call that only some partitions take says how many events are in the log", async () => {
    const cluster = await open(redis(), 4)
    const log = new Log(cluster, { ...LOG, queue: 1 })
    const [ada, other] = ["ada", "bob", "carl", "dora"].filter(
      (name, n) => n === 0 || cluster.keys.partitionOf(name) !== cluster.keys.partitionOf("ada"),
    )
    await log.append([event(ada, "first")])
    const call = [event(ada, "next", "key 1"), event(other, "next", "key 2")]
    const refused = log.append(call)
    await expect(refused).rejects.toMatchObject({ code: "BUSY" })
    await expect(refused).rejects.toThrow(/; 1 of 2 events are in the log already: send all again with the same keys/)
    expect(await new Log(cluster, LOG).append(call)).toMatchObject({ accepted: 1, duplicates: 1 })
    cluster.close()
  })

  test("leases are taken, renewed and given back while Redis is full", async () => {
    const cluster = await open(redis())
    const leases = new Leases(cluster, 60_000)
    const fence = (await leases.acquire(1)) as string
    const masters = await redis().masters()
    const each = (args: string[]) => Promise.all(masters.map((n) => redis().nodes[n].command(args)))
    await each(["CONFIG", "SET", "maxmemory", "1"])
    try {
      expect(await leases.renew(1, fence)).toBe(true)
      expect(await leases.acquire(2)).toBeDefined()
      expect(await leases.share({})).toBe(4)
      await leases.release(1, fence)
      expect(await leases.renew(1, fence)).toBe(false)
    } finally {
      await each(["CONFIG", "SET", "maxmemory", "0"])
    }
    cluster.close()
  })

  test("more partitions than a script can name are refused", async () => {
    await expect(open(redis(), 2049)).rejects.toThrow(/--partitions: expected a whole number from 1 to 2048, got 2049/)
  })

  test("too many unlearned events are refused, and so is a full Redis; nothing of a refused call is taken", async () => {
    const cluster = await open(redis(), 1)
    const small = new Log(cluster, { ...LOG, queue: 10 })
    await small.append(Array.from({ length: 10 }, (_, n) => event("ada", `item ${n}`)))
    await expect(small.append([event("ada", "one more")])).rejects.toMatchObject({ code: "BUSY" })
    const masters = await redis().masters()
    const each = (args: string[]) => Promise.all(masters.map((n) => redis().nodes[n].command(args)))
    const log = new Log(cluster, LOG)
    await each(["CONFIG", "SET", "maxmemory", "1"])
    try {
      const refused = log.append([event("ada", "full", "key full")])
      await expect(refused).rejects.toMatchObject({ code: "UNAVAILABLE" })
      await expect(refused).rejects.toThrow(/maxmemory/)
    } finally {
      await each(["CONFIG", "SET", "maxmemory", "0"])
    }
    expect(await log.append([event("ada", "room again", "key full")])).toMatchObject({ accepted: 1 })
    const all = await readEvents(cluster, 0, { after: "0-0", count: 100 })
    expect(all.map(({ event: one }) => one.item)).toEqual([
      ...Array.from({ length: 10 }, (_, n) => `item ${n}`),
      "room again",
    ])
    cluster.close()
  })

  test("WAIT acknowledges what a replica has, and refuses what not enough can have", async () => {
    const cluster = await open(redis(), 1)
    expect(await new Log(cluster, { ...LOG, wait: 1 }).append([event("ada", "dune")])).toMatchObject({ accepted: 1 })
    await expect(new Log(cluster, { ...LOG, wait: 2 }).append([event("ada", "dune")])).rejects.toThrow(
      /--wait: expected 2 replicas/,
    )
    cluster.close()
  })

  test("a lease has one owner; a silent one loses it, and its late write is fenced off", async () => {
    const cluster = await open(redis())
    const [first, second] = [new Leases(cluster, 400), new Leases(cluster, 400)]
    const fence = (await first.acquire(2)) as string
    expect(fence).toBeDefined()
    expect(await second.acquire(2)).toBeUndefined()
    const write = (leases: Leases, held: string, seq: number) => {
      const names = ["lease", "home", "changes"].map((what) => cluster.keys.of(2, what))
      const one = new FencedWrite("owner", names, { owner: leases.id, fence: held, seq, duration: "400" })
      one.add(0, Buffer.from("change"), 10, 0, "")
      return one
    }
    const own = write(first, fence, 0)
    expect(await own.send(cluster, () => {})).toBe(1)
    // The same write once more, as after a lost answer, is recognised; another with a wrong predecessor is not.
    expect(await own.send(cluster, () => {})).toBe(1)
    await expect(write(first, fence, 0).send(cluster, () => {})).rejects.toThrow(Fenced)
    await sleep(600)
    const taken = (await second.acquire(2)) as string
    expect(Number(taken)).toBeGreaterThan(Number(fence))
    await expect(write(first, fence, 1).send(cluster, () => {})).rejects.toThrow(/another trainer has the lease/)
    expect(await first.renew(2, fence)).toBe(false)
    expect(await write(second, taken, 1).send(cluster, () => {})).toBe(2)
    await second.release(2, taken)
    expect(await first.acquire(2)).toBeDefined()
    cluster.close()
  })

  test("the living share the partitions evenly", async () => {
    const cluster = await open(redis(), 16)
    const all = Array.from({ length: 5 }, () => new Leases(cluster, 60_000))
    expect(await all[0].share({})).toBe(16)
    for (const one of all) await one.share({})
    const shares = await Promise.all(all.map((one) => one.share({})))
    expect(shares.sort()).toEqual([3, 3, 3, 3, 4])
    await all[0].leave()
    expect(await all[1].share({})).toBe(4)
    cluster.close()
  })

  test("a write that finds Redis full is tried until there is room", async () => {
    const cluster = await open(redis())
    const leases = new Leases(cluster, 60_000)
    const fence = (await leases.acquire(1)) as string
    const names = ["lease", "home", "changes"].map((what) => cluster.keys.of(1, what))
    const write = new FencedWrite("owner", names, { owner: leases.id, fence, seq: 0, duration: "60000" })
    write.add(0, Buffer.from("change"), 10, 0, "")
    const masters = await redis().masters()
    const each = (args: string[]) => Promise.all(masters.map((n) => redis().nodes[n].command(args)))
    await each(["CONFIG", "SET", "maxmemory", "1"])
    let troubles = 0
    const sent = write.send(cluster, () => troubles++)
    await sleep(300)
    await each(["CONFIG", "SET", "maxmemory", "0"])
    expect(await sent).toBe(1)
    expect(troubles).toBeGreaterThan(0)
    cluster.close()
  })

  test("what a cluster was created with stays; another release's is refused", async () => {
    const prefix = freshPrefix()
    const { url } = redis()
    const cluster = await Cluster.open({ url, prefix, partitions: 8, recommender: { task: "binary", segment: 100 } })
    const again = await Cluster.open({ url, prefix })
    expect([again.partitions, again.options.run.task, again.options.segment]).toEqual([8, "binary", 100])
    await expect(Cluster.open({ url, prefix, partitions: 4 })).rejects.toThrow(/--partitions: expected 8/)
    await expect(Cluster.open({ url, prefix, recommender: { task: "topk" } })).rejects.toThrow(
      /task: expected "binary"/,
    )
    await expect(Cluster.open({ url, prefix: freshPrefix(), existing: true })).rejects.toThrow(/--cluster-prefix/)
    const refused = [
      [{ memoryBudget: "1MB" }, /with dess train only \(--memory-budget\)/],
      [{ idle: { leave: "90d" } }, /idle: expected without --cluster/],
    ] as const
    for (const [recommender, refusal] of refused)
      await expect(Cluster.open({ url, prefix: freshPrefix(), recommender })).rejects.toThrow(refusal)
    const key = `${prefix}:meta`
    await cluster.redis.send(key, ["SET", key, JSON.stringify({ format: 99 })])
    await expect(Cluster.open({ url, prefix })).rejects.toThrow(/cluster format: expected 5, got 99: another release/)
    for (const one of [cluster, again]) one.close()
  })

  test("a missing slot is an error", async () => {
    const [n] = await redis().masters()
    const node = redis().nodes[n]
    await Promise.all(redis().nodes.map((one) => one.command(["CLUSTER", "DELSLOTS", 0]).catch(() => {})))
    try {
      await expect(Redis.open({ url: redis().url })).rejects.toThrow(/expected all 16384 slots to be served, got \d+/)
    } finally {
      await node.command(["CLUSTER", "ADDSLOTS", 0])
      await redis().healthy()
    }
  })

  test("an eviction policy that would drop rows is an error", async () => {
    const all = (policy: string) =>
      Promise.all(redis().nodes.map((node) => node.command(["CONFIG", "SET", "maxmemory-policy", policy])))
    await all("allkeys-lru")
    try {
      await expect(Redis.open({ url: redis().url })).rejects.toThrow(
        /maxmemory-policy: expected noeviction, got allkeys-lru/,
      )
    } finally {
      await all("noeviction")
    }
  })

  test("a server without cluster mode, and a wrong password, are errors", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dess-single-"))
    const port = await freePort()
    const single = await startServer({ folder, port, settings: ["--requirepass", "open sesame"] })
    try {
      const url = (password: string) => `redis://:${encodeURIComponent(password)}@127.0.0.1:${port}`
      await expect(Redis.open({ url: url("open sesame") })).rejects.toThrow(/cluster-enabled yes/)
      await expect(Redis.open({ url: url("wrong") })).rejects.toThrow(
        /--cluster password: expected one that Redis accepts/,
      )
      await expect(Redis.open({ url: `redis://127.0.0.1:${port}` })).rejects.toThrow(/--cluster password/)
    } finally {
      await single.stop()
      rmSync(folder, { recursive: true, force: true })
    }
    await expect(Redis.open({ url: `redis://127.0.0.1:${port}`, timeout: 500 })).rejects.toThrow(/expected a Redis at/)
    await expect(Redis.open({ url: "http://127.0.0.1" })).rejects.toThrow(/expected redis:\/\/host:port/)
  })
})

test("a Redis that is too old is an error, Valkey is not mistaken for one", async () => {
  const ask = async (info: string) => {
    const server = await serveInfo(info)
    const { port } = server.address() as { port: number }
    try {
      await Redis.open({ url: `redis://127.0.0.1:${port}`, timeout: 1000 }).then((redis) => redis.close())
    } finally {
      server.close()
    }
  }
  await expect(ask("redis_version:6.0.16\r\ncluster_enabled:1")).rejects.toThrow(
    /expected Redis 7.0 or newer.*got 6.0.16/,
  )
  await ask("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\ncluster_enabled:1")
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Answers INFO and CLUSTER INFO, and OK to all else. */
async function serveInfo(info: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => {})
    socket.on("data", (chunk) => {
      // A pipeline: one answer for each command.
      for (const command of chunk.toString().split(/(?=\*\d+\r\n)/)) {
        const bulk = (text: string) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`
        if (/CLUSTER\r\n\$\d+\r\nINFO/i.test(command)) socket.write(bulk("cluster_slots_ok:16384"))
        else if (/\nINFO\r\n/i.test(command)) socket.write(bulk(info))
        else socket.write("+OK\r\n")
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return server
}
