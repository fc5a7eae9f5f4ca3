/** What trainers exchange: the mean of a network's dense part, and rows of items that wait until they are needed. */

import { afterEach, expect, test } from "vitest"
import { Cluster } from "../../src/cluster/cluster.ts"
import { DensePart, readDense } from "../../src/cluster/dense.ts"
import { encodeStored } from "../../src/cluster/encoding.ts"
import { Items } from "../../src/cluster/items.ts"
import { Leases } from "../../src/cluster/leases.ts"
import { Fenced } from "../../src/cluster/writes.ts"
import { Random } from "../../src/kernels/random.ts"
import { Run } from "../../src/run/loop.ts"
import { Network } from "../../src/run/network.ts"
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
    recommender: { task: "binary", method: "dess-fre", recipe: "paper", preset: "paper", sizes: [2, 4], threads: 1 },
  })
  closing.push(() => cluster.close())
  return cluster
}

/** A trainer without its loop. */
class Learner {
  readonly run: Run
  readonly part: DensePart
  readonly id: string
  readonly #random: Random

  constructor(cluster: Cluster, id: string, average = 100) {
    this.id = id
    this.run = new Run(cluster.options.run)
    this.part = new DensePart(cluster, id, average)
    this.#random = new Random(1, id)
    closing.push(() => this.run.close())
  }

  learn(events = 100): void {
    const column = (most: number) => Int32Array.from({ length: events }, () => this.#random.integer(most))
    this.run.step({
      user: column(20),
      item: column(30),
      rating: Float32Array.from(column(5), (value) => value + 1),
      timestamp: new Float64Array(events),
      length: events,
      trainLength: events,
      index: 0,
      time: 0,
    })
    this.part.learned(events)
  }

  get numbers(): Float32Array {
    const { learner } = this.run
    if (!(learner instanceof Network)) throw new Error("expected a network")
    return learner.model.parameters.copyAll().numbers
  }
}

function farthest(a: Float32Array, b: Float32Array): number {
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0)
}

const POSITIONS = ["0-0", "0-0"]

describeWithRedis("sharing", (redis) => {
  /** A home and another, both with the first version, and one segment learned by each. */
  async function pair() {
    const cluster = await open(redis())
    const leases = new Leases(cluster, 60_000)
    const fence = (await leases.acquire(0)) as string
    const [home, other] = [new Learner(cluster, leases.id), new Learner(cluster, "other")]
    const living = [home.id, other.id]
    const lead = () => home.part.lead(home.run.shared, { fence, living, positions: POSITIONS })
    await home.part.begin(home.run.shared)
    await lead()
    await other.part.begin(other.run.shared)
    for (const one of [home, other]) one.learn()
    return { cluster, leases, fence, home, other, lead }
  }

  test("the mean of what two learned is what both go on with; a part is taken once", async () => {
    const { cluster, home, other, lead } = await pair()
    const [a, b] = [home.numbers, other.numbers]
    expect(farthest(a, b)).toBeGreaterThan(1e-4)
    await other.part.follow(other.run.shared)
    await lead()
    const mean = home.numbers
    expect(
      farthest(
        mean,
        a.map((value, k) => (value + b[k]) / 2),
      ),
    ).toBeLessThan(1e-5)
    await other.part.follow(other.run.shared)
    expect(farthest(other.numbers, mean)).toBe(0)
    const stored = await readDense(cluster)
    expect(stored).toMatchObject({ version: 2, contained: { other: 1 }, positions: POSITIONS })
    await lead()
    expect((await readDense(cluster))?.version).toBe(2)
    const parts = cluster.keys.of(0, "dense:parts")
    expect(await cluster.redis.send(parts, ["HLEN", parts])).toBe(0)
    const piece = cluster.keys.of(0, "dense:part:other:1:0")
    expect(await cluster.redis.send(piece, ["EXISTS", piece])).toBe(0)
  })

  test("what is learned while a part is on its way comes on top of the mean, and is left later", async () => {
    const { home, other, lead } = await pair()
    await other.part.follow(other.run.shared)
    await lead()
    const before = other.numbers
    other.learn()
    const moved = other.numbers.map((value, k) => value - before[k])
    const { length } = other.numbers
    await other.part.follow(other.run.shared)
    // Parameters; moments are carried on as if those steps came after the mean.
    const third = Math.floor(length / 4)
    const wanted = home.numbers.map((value, k) => value + moved[k])
    expect(farthest(other.numbers.slice(0, third), wanted.slice(0, third))).toBeLessThan(1e-5)
    await lead()
    expect(farthest(home.numbers.slice(0, third), other.numbers.slice(0, third))).toBeLessThan(1e-5)
  })

  test("a part that is not whole is none, and a version half written is not read", async () => {
    const { cluster, home, other, lead } = await pair()
    const { redis: connection, keys } = cluster
    await other.part.follow(other.run.shared)
    await connection.send(keys.of(0, "dense"), ["DEL", keys.of(0, "dense:part:other:1:0")])
    const own = home.numbers
    await lead()
    expect(farthest(home.numbers, own)).toBe(0)
    const whole = await readDense(cluster)
    expect(whole?.contained.other).toBeUndefined()
    const next = keys.of(0, `dense:${((whole?.version ?? 0) + 1) % 2}:0`)
    await connection.send(next, ["SET", next, "half of the next"])
    expect((await readDense(cluster))?.bytes).toEqual(whole?.bytes)
  })

  test("a home whose lease was taken stores nothing, and its successor goes on from the last version", async () => {
    const { cluster, leases, fence, home, other, lead } = await pair()
    await other.part.follow(other.run.shared)
    await leases.release(0, fence)
    const taken = (await new Leases(cluster, 60_000).acquire(0)) as string
    const before = await readDense(cluster)
    await expect(lead()).rejects.toThrow(Fenced)
    expect(await readDense(cluster)).toEqual(before)
    // The other becomes the home: what it left itself counts as learned here, not as another's part.
    const numbers = other.numbers
    await other.part.goOver(other.run.shared, { home: true })
    expect(farthest(other.numbers, numbers)).toBeLessThan(1e-5)
    const key = cluster.keys.of(0, "lease")
    await cluster.redis.send(key, ["HSET", key, "owner", other.id])
    await other.part.lead(other.run.shared, { fence: taken, living: [other.id], positions: POSITIONS })
    await other.part.store(other.run.shared, { fence: taken, positions: POSITIONS })
    expect((await readDense(cluster))?.contained).toEqual({ other: 1 })
    const newcomer = new Learner(cluster, "newcomer")
    expect(await newcomer.part.begin(newcomer.run.shared)).toEqual(POSITIONS)
    expect(farthest(newcomer.numbers, other.numbers)).toBe(0)
    expect(home.id).not.toBe(other.id)
  })

  test("rows heard lazily wait until they are needed, the newest of each; gone ones are gone at once", async () => {
    const cluster = await open(redis())
    const put: [number, string | undefined][] = []
    const items = new Items(cluster, (index, row) => put.push([index, row && Buffer.from(row).toString()]))
    const hear = (seq: number, rows: Record<number, string>, lazily = true) =>
      items.hear(0, {
        seq,
        news: {
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
    expect([items.find("item 4"), items.homes[0].seq]).toEqual([4, 2])
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
