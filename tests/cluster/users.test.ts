/** Users of a cluster: forgotten for good, through changes of owners, and listed. */

import { expect, test } from "vitest"
import type { Cluster } from "../../src/cluster/cluster.ts"
import { forgetEvent } from "../../src/cluster/encoding.ts"
import { Log, readEvents } from "../../src/cluster/log.ts"
import { readStatus } from "../../src/cluster/status.ts"
import { ClusterTrainer } from "../../src/cluster/trainer.ts"
import { readUsers } from "../../src/cluster/users.ts"
import { again, BINARY, colours, feed, open, read, train } from "../support/cluster.ts"
import { describeWithRedis, eventually } from "../support/redis.ts"

/** Keys of a partition in which a text occurs. */
async function traces(cluster: Cluster, text: string): Promise<string[]> {
  const p = cluster.keys.partitionOf(text)
  const found: string[] = []
  for (const { reply } of await cluster.redis.everywhere(["KEYS", `${cluster.keys.prefix}:{${p}}:*`]))
    for (const key of reply === "" ? [] : reply.split(",")) {
      const type = String(await cluster.redis.send(key, ["TYPE", key]))
      const whole: Record<string, string[]> = {
        list: ["LRANGE", key, "0", "-1"],
        hash: ["HGETALL", key],
        stream: ["XRANGE", key, "-", "+"],
        set: ["SMEMBERS", key],
        string: ["GET", key],
      }
      const content = await cluster.redis.send(key, whole[type])
      const flat = (Array.isArray(content) ? content.flat(3) : [content]).map((part) => String(part))
      if (flat.some((part) => part.includes(text))) found.push(key)
    }
  return found
}

describeWithRedis("users of a cluster", (redis) => {
  test.for(["binary", "topk"] as const)("a user is forgotten everywhere (%s), and begins anew", async (task) => {
    const cluster = await open(redis(), { recommender: { ...BINARY, task } })
    await train(redis(), cluster)
    const reader = await read(redis(), cluster)
    const other = await read(redis(), cluster)
    const events = [...colours(1500)]
    await feed(reader, events)
    await reader.observe({ user: "Zoë ☂", item: "item 1", rating: 5 })
    const { token } = await reader.observe({ user: "Zoë ☂", item: "item 2", rating: 5 })
    await reader.drain()
    expect((await other.explain("user", "Zoë ☂", { after: token })).events).toBe(2)
    expect(await traces(cluster, "Zoë ☂")).not.toEqual([])
    const receipt = await reader.forget("Zoë ☂")
    expect(receipt).toMatchObject({ user: "Zoë ☂", found: true, row: true, history: 2, events: 2 })
    expect(await traces(cluster, "Zoë ☂")).toEqual([])
    await expect(reader.explain("user", "Zoë ☂")).rejects.toMatchObject({ code: "NOT_FOUND" })
    await eventually("another reader's forgetting", () =>
      other.explain("user", "Zoë ☂").then(
        () => false,
        (error) => error.code === "NOT_FOUND",
      ),
    )
    expect(other.history("Zoë ☂")).toEqual([])
    expect(await reader.forget("Zoë ☂")).toMatchObject({ found: false, row: false, history: 0, events: 0 })
    // The others are all there, and what was learned of the items stays.
    const { totals } = await readStatus(cluster)
    expect(totals).toMatchObject({ lag: 0, users: 60, items: 80 })
    const again = await reader.observe({ user: "Zoë ☂", item: "item 3", rating: 5 })
    await reader.drain()
    const anew = await other.explain("user", "Zoë ☂", { after: again.token })
    expect([anew.events, anew.indicators.frequency]).toEqual([1, 1])
    await eventually("histories", async () => (await other.explain("user", "user 4")).events > 0)
    expect((await readStatus(cluster)).totals).toMatchObject({ users: 61 })
  })

  test("a reader's own events count in its lists at once, and once they are learned not twice", async () => {
    const cluster = await open(redis(), { recommender: { ...BINARY, task: "topk" } })
    const trainer = await train(redis(), cluster)
    const [reader, other] = [await read(redis(), cluster), await read(redis(), cluster)]
    await feed(reader, [...colours(1500)])
    await reader.drain()
    await eventually("items", async () => (await reader.recommend({ items: ["item 1"] }))[0]?.source === "model")
    await trainer.stop()
    const names = async (list: Promise<{ item: string }[]>) => (await list).map(({ item }) => item)
    const options = { count: 80, seen: true }
    const known = await reader.recommend("user 4", options)
    const clicks = ["item 1", "item 3", "item 3", "item 5"]
    for (const user of ["Zoë", "user 4"]) await reader.observe(clicks.map((item) => ({ user, item })))
    await reader.observe({ user: "Zoë", item: "item 7", rating: 1 })
    const list = await reader.recommend("Zoë", options)
    expect(list).toEqual(await reader.recommend({ items: clicks, ...options }))
    expect((await reader.predict("Zoë", list[0].item)).score).toBeCloseTo(list[0].score, 5)
    expect(await reader.recommend("user 4", options)).not.toEqual(known)
    const unmet = await names(reader.recommend("Zoë", { count: 80 }))
    expect(unmet.filter((item) => [...clicks, "item 7"].includes(item))).toEqual([])
    expect((await other.recommend("Zoë"))[0].source).toBe("trending")
    await train(redis(), cluster)
    await reader.drain()
    // As soon as both have read the rows and items again they say the same.
    for (const user of ["Zoë", "user 4"])
      await eventually("the same list", async () => {
        const [mine, theirs] = await Promise.all([reader.recommend(user, options), other.recommend(user, options)])
        return mine[0].source === "model" && JSON.stringify(mine) === JSON.stringify(theirs)
      })
    await eventually("nothing kept", () => reader.status().memory.parts.journal === 0)
  })

  test("forgetting keeps its place among a user's events, also when the partition changes its owner", async () => {
    const cluster = await open(redis(), { partitions: 1 })
    const log = new Log(cluster, { keys: 0, queue: 100_000, wait: 0 })
    const event = (user: string, item: string) => ({ user, item, rating: 5, timestamp: 1_700_000_000 })
    await log.append([
      event("ada", "dune"),
      event("bob", "dune"),
      forgetEvent("ada"),
      event("ada", "solaris"),
      event("bob", "solaris"),
      forgetEvent("eve"),
      forgetEvent("bob"),
      event("ada", "stalker"),
    ])
    // The first owner ends before the log is walked to its end; the next one goes on.
    const first = await train(redis(), cluster)
    await eventually("learning", async () => (await readStatus(cluster)).totals.lag === 0)
    await first.stop()
    const second = await train(redis(), cluster)
    const key = cluster.keys.of(0, "forgetting")
    await eventually("scrubbing", async () => (await cluster.redis.send(key, ["EXISTS", key])) === 0)
    const reader = await read(redis(), cluster)
    expect((await reader.explain("user", "ada")).indicators.frequency).toBe(2)
    await expect(reader.explain("user", "bob")).rejects.toMatchObject({ code: "NOT_FOUND" })
    const kept = await readEvents(cluster, 0, { after: "0-0", count: 100 })
    expect(kept.map(({ event: { user, item } }) => `${user} ${item}`)).toEqual(["ada solaris", "ada stalker"])
    expect((await readStatus(cluster)).totals).toMatchObject({ appended: 8, applied: 8, users: 1, items: 3 })
    expect(second.standing.resets).toBe(0)
  })

  test("under a memory budget users leave a trainer's memory and come back as they were", async () => {
    const cluster = await open(redis(), { partitions: 2, recommender: { ...BINARY, segment: 20 } })
    const budget = 60_000
    const trainer = await train(redis(), cluster, { memoryBudget: budget })
    const reader = await read(redis(), cluster)
    const events = Array.from({ length: 8000 }, (_, n) => ({
      user: `user ${(n * 7) % 4000}`,
      item: `item ${n % 30}`,
      rating: 1 + (n % 5),
    }))
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, trainer.standing.heldBytes)
    }, 5)
    await feed(reader, events)
    await reader.drain()
    clearInterval(watch)
    expect(trainer.standing.evicted).toBeGreaterThan(500)
    expect(trainer.standing.resets).toBe(0)
    expect(most).toBeGreaterThan(0)
    // Rows that come from Redis, of a segment each, come on top until the next segment makes room.
    expect(most).toBeLessThan(budget + 16_000)
    const { totals } = await readStatus(cluster)
    expect(totals).toMatchObject({ applied: 8000, users: 4000, items: 30 })
    for (let n = 0; n < 4000; n += 19)
      expect((await reader.explain("user", `user ${n}`)).indicators.frequency, `user ${n}`).toBe(2)
  })

  test("under a memory budget no user's row in Redis loses numbers to other users", async () => {
    const cluster = await open(redis(), { partitions: 1, recommender: { ...BINARY, segment: 20 } })
    const reader = await read(redis(), cluster)
    const trainer = await train(redis(), cluster, { memoryBudget: 90_000 })
    const stored = async () => {
      const rows = new Map<string, string>()
      for await (const portion of readUsers(cluster, 0))
        for (const { stored: one } of portion)
          if (one.name.startsWith("user ")) rows.set(one.name, Buffer.from(one.row).toString("hex"))
      return rows
    }
    await feed(reader, [...colours(3000)])
    await reader.drain()
    const before = await stored()
    const passing = Array.from({ length: 7000 }, (_, n) => ({ user: `guest ${n}`, item: `item ${n % 80}`, rating: 3 }))
    await feed(reader, passing)
    await reader.drain()
    expect(trainer.standing.evicted).toBeGreaterThan(60)
    expect(await stored()).toEqual(before)
  })

  test("a memory budget that items alone exceed ends the trainer with a word, and nothing is lost", async () => {
    const cluster = await open(redis(), { partitions: 1, recommender: { ...BINARY, segment: 20 } })
    const reader = await read(redis(), cluster)
    await feed(
      reader,
      Array.from({ length: 5000 }, (_, n) => ({ user: `user ${n % 10}`, item: `item ${n}` })),
    )
    const other = await train(redis(), cluster)
    await reader.drain()
    await other.stop()
    await feed(
      reader,
      Array.from({ length: 40 }, (_, n) => ({ user: `user ${n % 10}`, item: `item ${n}` })),
    )
    const small = new ClusterTrainer(await again(redis(), cluster), { lease: 1000, memoryBudget: 20_000 })
    await expect(small.start()).rejects.toThrow(/--memory-budget: expected room for all items/)
    await train(redis(), cluster)
    await eventually("learning", async () => (await readStatus(cluster)).totals.lag === 0)
    expect((await readStatus(cluster)).totals).toMatchObject({ applied: 5040 })
  })

  test("users are listed a page at a time, without those forgotten", async () => {
    const cluster = await open(redis(), { partitions: 3 })
    await train(redis(), cluster)
    const reader = await read(redis(), cluster)
    const names = Array.from({ length: 500 }, (_, n) => `user ${n}`)
    await feed(
      reader,
      names.map((user) => ({ user, item: "dune" })),
    )
    await reader.drain()
    for (const user of ["user 3", "user 77", "user 400"]) await reader.forget(user)
    const pages: string[][] = []
    for (let offset = 0; offset === 0 || pages.at(-1)?.length === 60; offset += 60)
      pages.push(await reader.list("user", { offset, count: 60 }))
    const left = names.filter((name) => !["user 3", "user 77", "user 400"].includes(name))
    expect(pages.flat()).toHaveLength(497)
    expect(pages.flat().sort()).toEqual(left.sort())
    expect(await reader.list("item")).toEqual(["dune"])
    await expect(reader.list("user", { count: 0 })).rejects.toThrow(/count: expected a whole number/)
  })
})
