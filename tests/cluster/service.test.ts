/** Trainers and readers together: quality, joining and leaving, reading one's own writes, status, snapshots. */

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { beforeAll, expect, test } from "vitest"
import { openClusterReader } from "../../src/cli/cluster-options.ts"
import type { Cluster } from "../../src/cluster/cluster.ts"
import { readGlobal } from "../../src/cluster/global-state.ts"
import { metaKey, ROWS_PER_BUCKET } from "../../src/cluster/redis-keys.ts"
import { loadDirectory, takeSnapshot } from "../../src/cluster/snapshot.ts"
import { readPartition, readStatus } from "../../src/cluster/status.ts"
import { Recommender } from "../../src/engine/open.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import { Run } from "../../src/learning/loop.ts"
import { configure } from "../../src/server/configuration.ts"
import { startService } from "../../src/server/service.ts"
import { BINARY, closing, colours, feed, open, read, train } from "../support/cluster.ts"
import { buildCommand, dess } from "../support/command.ts"
import { describeWithRedis, eventually, freshPrefix } from "../support/redis.ts"

beforeAll(buildCommand)

/** Accuracy of one process over the same segments: those of each partition in turns. */
function alone(events: readonly (Event & { rating: number })[], cluster: Cluster): number {
  const run = new Run(cluster.options.run)
  const parts = cluster.all.map((p) => events.filter(({ user }) => cluster.keys.partitionOf(String(user)) === p))
  const id = (name: unknown) => Number(String(name).split(" ")[1])
  let [hits, rows] = [0, 0]
  for (let from = 0; parts.some(({ length }) => length > from); from += 100)
    for (const part of parts) {
      const some = part.slice(from, from + 100)
      if (some.length === 0) continue
      const { accuracy, testRows } = run.step({
        user: Int32Array.from(some, ({ user }) => id(user)),
        item: Int32Array.from(some, ({ item }) => id(item)),
        rating: Float32Array.from(some, ({ rating }) => rating),
        timestamp: new Float64Array(some.length),
        length: some.length,
        index: from / 100,
        trainLength: some.length,
        time: 0,
      })
      hits += (accuracy as number) * testRows
      rows += testRows
    }
  run.close()
  return hits / rows
}

describeWithRedis("trainers and readers", (redis) => {
  test("two trainers share the work and end as good as one process; a third may join, and one leave", async () => {
    const cluster = await open(redis())
    const trainers = [await train(redis(), cluster), await train(redis(), cluster)]
    const reader = await read(redis(), cluster)
    const events = [...colours(12_000)]
    await eventually("shares", () => trainers.every(({ standing }) => standing.partitions.length === 2), 40)
    await feed(reader, events.slice(0, 8000))
    trainers.push(await train(redis(), cluster))
    await eventually("a third share", () => trainers[2].standing.partitions.length >= 1, 40)
    await trainers[0].stop()
    await feed(reader, events.slice(8000))
    await reader.drain()
    const { accuracy, totals } = await readStatus(cluster)
    expect(totals).toMatchObject({ appended: 12_000, applied: 12_000, lag: 0, users: 60, items: 80 })
    expect(trainers.reduce((sum, { standing }) => sum + standing.learned, 0)).toBe(12_000)
    expect(Math.min(...trainers.map(({ standing }) => standing.learned))).toBeGreaterThan(0)
    // On the way each trainer learns a world of 80 items without what the other just learned; in the end both know it.
    expect(accuracy).toBeGreaterThan(alone(events, cluster) - 0.08)
    await eventually("items in memory", () => reader.status().items.held === 80)
    const pairs = Array.from({ length: 600 }, (_, n) => ({ user: `user ${n % 60}`, item: `item ${(7 * n) % 80}` }))
    const predicted = await reader.predict(pairs)
    const right = predicted.filter(({ score }, n) => score > 0.5 === ((n % 60) % 2 === ((7 * n) % 80) % 2))
    expect(right.length / 600).toBeGreaterThan(0.95)
  })

  test("a token reads one's own writes, or says that they are not learned yet", async () => {
    const cluster = await open(redis())
    const reader = await read(redis(), cluster)
    const { token } = await reader.observe({ user: "ada", item: "dune", rating: 5 })
    const early = reader.recommend("ada", { after: token })
    await expect(early).rejects.toMatchObject({ code: "STALE" })
    expect(await reader.recommend("ada")).toEqual([])
    await train(redis(), cluster)
    await eventually("learning", async () => (await readStatus(cluster)).totals.lag === 0, 40)
    const more = await reader.observe([
      { user: "ada", item: "solaris", rating: 5 },
      { user: "bob", item: "stalker" },
    ])
    await eventually("own writes", () =>
      reader.explain("user", "ada", { after: more.token }).then(
        ({ indicators }) => indicators.frequency === 2,
        (error) => {
          expect(error.code).toBe("STALE")
          return false
        },
      ),
    )
    await eventually("items", () => reader.item("stalker") !== undefined)
    const list = await reader.recommend("ada", { after: more.token })
    expect(list.map(({ item }) => item)).toEqual(["stalker"])
    await expect(reader.recommend("ada", { after: "nonsense" })).rejects.toThrow(/after: expected the token/)
  })

  test("readers give the model's lists, hide what is hidden, and hold no more users than they may", async () => {
    const cluster = await open(redis())
    await train(redis(), cluster)
    const reader = await read(redis(), cluster, { users: 5 })
    const token = await feed(reader, [...colours(6000)])
    await reader.drain()
    await eventually("items in memory", () => reader.status().items.held === 80)
    const liked = async (user: string) => {
      const list = await reader.recommend(user, { count: 20, seen: true })
      const parity = Number(user.split(" ")[1]) % 2
      return list.filter(({ item }) => Number(item.split(" ")[1]) % 2 === parity).length
    }
    for (let n = 0; n < 12; n++) expect(await liked(`user ${n}`), `user ${n}`).toBeGreaterThan(13)
    expect(reader.status().users.held).toBeLessThanOrEqual(5)
    const [first] = await reader.recommend("user 1", { seen: true, after: token })
    await reader.putItems({ item: first.item, hidden: true, categories: ["film"] })
    expect((await reader.recommend("user 1", { seen: true })).map(({ item }) => item)).not.toContain(first.item)
    const other = await read(redis(), cluster)
    expect(other.item(first.item)).toMatchObject({ hidden: true, categories: ["film"] })
    expect(await other.similar(first.item, { count: 3 })).toHaveLength(3)
    const only = await read(redis(), cluster, { role: "reader" })
    await expect(only.observe({ user: "ada", item: "dune" })).rejects.toThrow(/takes no events \(--role\)/)
    await eventually("owners known", () => reader.status().cluster?.owned === 4)
    expect(reader.status().cluster).toMatchObject({ partitions: 4, lost: 0 })
  })

  test.for(["binary", "topk"] as const)(
    "a snapshot (%s) opens on a single machine, and loads into a cluster again",
    async (task) => {
      const cluster = await open(redis(), { recommender: { ...BINARY, task } })
      const trainer = await train(redis(), cluster)
      const reader = await read(redis(), cluster)
      await feed(reader, [...colours(3000)])
      await reader.putItems({ item: "item 3", hidden: true })
      await reader.drain()
      await trainer.stop()
      const folder = mkdtempSync(join(tmpdir(), "dess-snapshot-"))
      closing.push(() => rmSync(folder, { recursive: true, force: true }))
      expect(await takeSnapshot(cluster, folder)).toMatchObject({ users: 60, items: 80, events: 3000 })
      await expect(takeSnapshot(cluster, folder)).rejects.toThrow(/expected a new or empty one/)
      await eventually("updates", () => reader.status().items.held === 80)
      const asked = { count: 10, seen: true }
      const single = await Recommender.open({ directory: folder })
      try {
        expect(single.status()).toMatchObject({ task, items: { held: 80, hidden: 1 }, users: { held: 60 } })
        const list = await single.recommend("user 4", asked)
        // The reader's items are a moment behind their owners.
        const agrees = async () => isDeepStrictEqual(await reader.recommend("user 4", asked), list)
        await eventually("the reader's list", agrees)
        expect(single.history("user 4")).toEqual(reader.history("user 4"))
        await single.observe({ user: "user 4", item: "item 7" })
      } finally {
        await single.close()
      }
      const options = { url: redis().url, prefix: freshPrefix(), partitions: 6 }
      expect(await loadDirectory(folder, options)).toMatchObject({ users: 60, items: 80 })
      await expect(loadDirectory(folder, options)).rejects.toThrow(/expected an empty one to load into/)
      const loaded = await open(redis(), { ...options, recommender: {} })
      const other = await read(redis(), loaded)
      const { indicators } = await other.explain("user", "user 4")
      expect(indicators).toEqual({
        ...(await reader.explain("user", "user 4")).indicators,
        frequency: (await reader.explain("user", "user 4")).indicators.frequency + 1,
      })
      expect(other.item("item 3")).toMatchObject({ hidden: true })
      await train(redis(), loaded)
      await feed(other, [...colours(200)])
      await other.drain()
      expect((await readStatus(loaded)).totals).toMatchObject({ applied: 200, users: 60, items: 80 })
    },
  )

  test("a newcomer, readers and snapshots begin with what the policy has learned so far", async () => {
    const cluster = await open(redis())
    const trainer = await train(redis(), cluster)
    const reader = await read(redis(), cluster)
    await feed(reader, [...colours(4000)])
    await reader.drain()
    await trainer.stop()
    const { bytes = Buffer.alloc(0), positions = [] } = (await readGlobal(cluster)) ?? {}
    expect(positions).toEqual(await Promise.all(cluster.all.map(async (p) => (await readPartition(cluster, p)).offset)))
    const fresh = cluster.newRun().run
    closing.push(() => fresh.close())
    const nothing = fresh.shared.takeGlobal()
    fresh.shared.putGlobal(bytes)
    expect(Buffer.from(fresh.shared.takeGlobal())).toEqual(bytes)
    expect(bytes).not.toEqual(Buffer.from(nothing))
    const folder = mkdtempSync(join(tmpdir(), "dess-global-"))
    closing.push(() => rmSync(folder, { recursive: true, force: true }))
    await takeSnapshot(cluster, folder)
    const single = await Recommender.open({ directory: folder })
    try {
      // The global bias is in every score.
      const pair = ["user 4", "item 7"] as const
      const predicted = await single.predict(...pair)
      await eventually("the reader's score", async () => isDeepStrictEqual(await reader.predict(...pair), predicted))
    } finally {
      await single.close()
    }
    const prefix = freshPrefix()
    expect(await loadDirectory(folder, { url: redis().url, prefix, partitions: 2 })).toMatchObject({ users: 60 })
    const loaded = await open(redis(), { prefix, partitions: 2, recommender: {} })
    expect((await readGlobal(loaded))?.bytes).toEqual(bytes)
  })

  test("what learns a network is refused, with nothing written", async () => {
    const refusal =
      /^recipe: expected calibrated in a cluster, got paper \(method .*, model .*\), whose network learns in/
    const networks: RecommenderOptions[] = [
      { task: "binary", recipe: "paper" },
      { task: "binary", recipe: "paper", preset: "paper", method: "fixed-8" },
      { model: "distance" },
      { method: "esapn" },
      { method: "autoemb" },
    ]
    const prefix = freshPrefix()
    const where = { url: redis().url, prefix }
    for (const recommender of networks)
      await expect(open(redis(), { prefix, recommender })).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringMatching(refusal),
      })
    await expect(open(redis(), { prefix, existing: true })).rejects.toMatchObject({ code: "NOT_FOUND" })
    const folder = mkdtempSync(join(tmpdir(), "dess-network-"))
    closing.push(() => rmSync(folder, { recursive: true, force: true }))
    const single = await Recommender.open({ directory: folder, ...networks[0], threads: 1 })
    await single.observe({ user: "ada", item: "dune" })
    await single.close()
    const files = () => readdirSync(folder).map((name) => [name, statSync(join(folder, name)).mtimeMs])
    const before = files()
    await expect(loadDirectory(folder, where)).rejects.toThrow(/; serve the directory on a single machine, or make one/)
    expect(files()).toEqual(before)
    for (const command of ["train", "serve"]) {
      const { code, stderr } = await dess([
        command,
        "--cluster",
        redis().url,
        "--cluster-prefix",
        prefix,
        "--recipe",
        "paper",
      ])
      expect([code, stderr]).toEqual([2, expect.stringContaining("got paper (method dess-fre, model ncf)")])
    }
    await expect(open(redis(), { prefix, existing: true })).rejects.toMatchObject({ code: "NOT_FOUND" })
    // One that an older release made.
    const cluster = await open(redis(), { prefix })
    const key = metaKey(prefix)
    const meta = JSON.parse(String(await cluster.redis.send(key, ["GET", key])))
    meta.options = { ...meta.options, recipe: "paper", model: "ncf", preset: "paper" }
    await cluster.redis.send(key, ["SET", key, JSON.stringify(meta)])
    await expect(open(redis(), { prefix, recommender: {} })).rejects.toThrow(/; take a snapshot with the release that/)
  })

  test("rows of 16 numbers take at most 1.5 times their own bytes", async () => {
    const cluster = await open(redis(), { recommender: { task: "binary", method: "uniform-16", segment: 100 } })
    await train(redis(), cluster)
    const reader = await read(redis(), cluster)
    const events = Array.from({ length: 3000 }, (_, n) => ({
      user: `user ${n % 1000}`,
      item: `item ${n % 900}`,
      rating: 1 + (n % 5),
    }))
    await feed(reader, events)
    await reader.drain()
    const { keys } = cluster
    const measure = async (side: "users" | "items", own: (record: Buffer) => number) => {
      let [used, bytes] = [0, 0]
      for (const p of cluster.all)
        for (let bucket = 0; bucket < 5; bucket++) {
          const key = keys.rows(side, p, bucket * ROWS_PER_BUCKET)
          const rows = (await cluster.redis.send(key, ["LRANGE", key, "0", "-1"])) as Buffer[]
          if (rows.length < ROWS_PER_BUCKET) continue
          used += (await cluster.redis.send(key, ["MEMORY", "USAGE", key, "SAMPLES", "0"])) as number
          for (const row of rows) bytes += own(row)
        }
      expect(bytes).toBeGreaterThan(0)
      return used / bytes
    }
    await eventually("items written", async () => (await reader.status()).items.held === 900)
    // A row of one number of bias, one of its accumulator and 16 of its vector: what else is stored counts against it.
    const numbers = 4 * (2 + 16)
    const whole = await measure("items", (record) => record.length)
    const bare = await measure("items", (record) => numbers + (record.length - numbers > 0 ? 29 : 0))
    expect(whole).toBeLessThan(1.2)
    expect(bare).toBeLessThan(1.5)
  })

  test("streams are kept short behind what is learned, and cut behind a snapshot; a full Redis only delays", async () => {
    const cluster = await open(redis(), { partitions: 1 })
    const trainer = await train(redis(), cluster, { keepEvents: 500 })
    const reader = await read(redis(), cluster)
    const kept = async () => (await readStatus(cluster)).partitions[0].kept
    await feed(reader, [...colours(3000)])
    await reader.drain()
    // Redis cuts whole nodes of a hundred.
    expect(await kept()).toBeGreaterThanOrEqual(500)
    expect(await kept()).toBeLessThan(700)
    const folder = mkdtempSync(join(tmpdir(), "dess-cut-"))
    closing.push(() => rmSync(folder, { recursive: true, force: true }))
    await takeSnapshot(cluster, folder)
    await feed(reader, [...colours(50)])
    await reader.drain()
    expect(await kept()).toBeLessThan(250)
    const masters = await redis().masters()
    const each = (args: string[]) => Promise.all(masters.map((n) => redis().nodes[n].command(args)))
    await feed(reader, [...colours(2000)])
    await each(["CONFIG", "SET", "maxmemory", "1"])
    try {
      await expect(reader.forget("user 1")).rejects.toThrow(/maxmemory/)
      await new Promise((resolve) => setTimeout(resolve, 500))
    } finally {
      await each(["CONFIG", "SET", "maxmemory", "0"])
    }
    await reader.drain()
    expect((await readStatus(cluster)).totals).toMatchObject({ appended: 5050, applied: 5050, users: 60, items: 80 })
    // One that has kept no row from before.
    const fresh = await read(redis(), cluster)
    const events = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => (await fresh.explain("user", `user ${n}`)).indicators.frequency),
    )
    expect(events.reduce((sum, count) => sum + count, 0)).toBe(5050)
    expect(trainer.standing.partitions).toEqual([0])
  })

  test("over HTTP: a token, 409 before it is learned, 503 when Redis is full, metrics of the cluster", async () => {
    const prefix = freshPrefix()
    const flags = { cluster: redis().url, "cluster-prefix": prefix, partitions: "2", port: "0", task: "binary" }
    const configuration = configure(flags, {})
    const service = await startService({
      ...configuration,
      open: () => openClusterReader(configuration, () => {}),
      onError: () => {},
    })
    closing.push(() => service.stop())
    await service.ready
    const post = (body: object) =>
      fetch(`${service.url}/v1/interactions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      })
    const { token, accepted } = (await (await post({ user: "ada", item: "dune" })).json()) as {
      token: string
      accepted: number
    }
    expect(accepted).toBe(1)
    const early = await fetch(`${service.url}/v1/users/ada/recommendations?after=${token}`)
    expect([early.status, early.headers.get("retry-after")]).toEqual([409, "1"])
    expect(await early.json()).toMatchObject({ error: "STALE" })
    expect((await fetch(`${service.url}/v1/users/ada/recommendations?after=x`)).status).toBe(400)
    const masters = await redis().masters()
    const each = (args: string[]) => Promise.all(masters.map((n) => redis().nodes[n].command(args)))
    await each(["CONFIG", "SET", "maxmemory", "1"])
    try {
      const full = await post({ user: "ada", item: "solaris" })
      expect([full.status, full.headers.get("retry-after")]).toEqual([503, "2"])
      expect(await full.json()).toMatchObject({ error: "UNAVAILABLE", message: expect.stringContaining("maxmemory") })
    } finally {
      await each(["CONFIG", "SET", "maxmemory", "0"])
    }
    await train(redis(), await open(redis(), { prefix, partitions: 2, recommender: {} }))
    await eventually("learned", async () => {
      const answer = await fetch(`${service.url}/v1/users/ada?after=${token}`)
      return answer.status === 200 && ((await answer.json()) as { events: number }).events === 1
    })
    const metrics = await (await fetch(`${service.url}/metrics`)).text()
    expect(metrics).toContain("dess_cluster_partitions 2")
    expect(metrics).toMatch(/dess_cluster_events_lost_total 0/)
    expect((await fetch(`${service.url}/api/user/ada`)).status).toBe(404)
    for (const [method, path, advice] of [
      ["POST", "/v1/snapshots", "snapshot: expected a single machine, got a cluster; use dess cluster snapshot"],
      ["GET", "/v1/users/ada/similar", "similar users: expected a single machine, got a cluster"],
    ]) {
      const refused = await fetch(service.url + path, { method })
      expect([refused.status, await refused.json()]).toEqual([
        400,
        expect.objectContaining({ error: "UNSUPPORTED", message: expect.stringContaining(advice) }),
      ])
    }
    const deleted = async () => (await fetch(`${service.url}/v1/items/dune`, { method: "DELETE" })).json()
    expect([await deleted(), await deleted()]).toEqual([{ items: 1 }, { items: 0 }])
    expect((await fetch(`${service.url}/v1/items/dune`)).status).toBe(404)
    const names = async () => (await fetch(`${service.url}/v1/users`)).json()
    expect(await names()).toEqual(["ada"])
    const gone = await fetch(`${service.url}/v1/users/ada`, { method: "DELETE" })
    expect([gone.status, await gone.json()]).toEqual([
      200,
      expect.objectContaining({ user: "ada", row: true, events: 1 }),
    ])
    expect(await names()).toEqual([])
    expect((await fetch(`${service.url}/v1/users/ada`)).status).toBe(404)
  })

  test("the commands show the state and refuse what does not exist", async () => {
    const cluster = await open(redis())
    const where = ["--cluster", redis().url, "--cluster-prefix", cluster.keys.prefix]
    const status = await dess(["cluster", "status", ...where, "--json"])
    expect(status.code, status.stderr).toBe(0)
    const told = JSON.parse(status.stdout) as Awaited<ReturnType<typeof readStatus>>
    expect(told.partitions).toHaveLength(4)
    expect(told.nodes).toHaveLength(3)
    expect(told.nodes[0].version).toMatch(/^(Redis|Valkey) \d/)
    const text = await dess(["cluster", "status", ...where])
    expect(text.stdout).toMatch(/0 events learned, 0 waiting, 0 trainers/)
    const missing = await dess(["cluster", "status", "--cluster", redis().url, "--cluster-prefix", "nobody"])
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining("--cluster-prefix")])
    const refused = [
      [["cluster", "sing", ...where], "expected status, snapshot <directory> or load <directory>"],
      [["train"], "--cluster: expected redis://host:port"],
      [["train", ...where, "--memory-budget", "5"], "memory budget: expected at least"],
      [["train", ...where, "--lease", "1ms"], "--lease: expected at least 1500 ms"],
      [["serve", "--role", "reader"], "role: expected with a cluster only"],
      [["serve", ...where, "--directory", "x"], "directory: expected none with --cluster"],
    ] as const
    const answers = await Promise.all(refused.map(([args]) => dess(args)))
    answers.forEach(({ code, stderr }, i) => {
      expect([code, stderr]).toEqual([2, expect.stringContaining(refused[i][1])])
    })
  })
})
