/** Items of a cluster: their entries and features, heard by all, and what dess-cv makes of them. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { Cluster } from "../../src/cluster/cluster.ts"
import { Entries, readEntry, writeEntries } from "../../src/cluster/entries.ts"
import { Items } from "../../src/cluster/items.ts"
import { loadDirectory, takeSnapshot } from "../../src/cluster/snapshot.ts"
import { Recommender } from "../../src/engine/open.ts"
import { BINARY, closing, feed, open, read, train } from "../support/cluster.ts"
import { describeWithRedis, eventually, freshPrefix } from "../support/redis.ts"

const FEATURES: string[] = ["funny", "long"]
const CV = { ...BINARY, method: "dess-cv", features: FEATURES }
/** Even items are funny, odd ones long. */
const entries = Array.from({ length: 20 }, (_, n) => ({ item: `item ${n}`, features: [1 - (n % 2), n % 2] }))
/** Users below 10 meet both kinds in turns, the others only funny ones. */
const events = Array.from({ length: 800 }, (_, n) => {
  const user = n % 20
  const item = user < 10 ? Math.floor(n / 20) % 20 : (2 * Math.floor(n / 20)) % 20
  return { user: `user ${user}`, item: `item ${item}`, rating: 1 + ((user + item) % 5) }
})

describeWithRedis("items of a cluster", (redis) => {
  test("entries are read in order; a process that fell behind, or finds an older Redis, reads all", async () => {
    const cluster = await open(redis(), { partitions: 1, recommender: CV })
    const items = new Items(cluster, () => {})
    await items.meet(Array.from({ length: 1200 }, (_, n) => `item ${n}`))
    const heard = new Map<number, string>()
    const all = new Entries(cluster, (index, entry) => void heard.set(index, entry?.categories[0] ?? ""))
    const put = async (from: number, to: number, category: string) => {
      const entry = { categories: [category], hidden: false, features: null }
      const indices = Array.from({ length: to - from }, (_, n) => from + n)
      const before = await Promise.all(indices.map((index) => readEntry(cluster, index)))
      const refused = await writeEntries(
        cluster,
        indices.map((index, n) => ({ index, entry, stored: before[n].stored })),
      )
      expect(refused.size).toBe(0)
    }
    const names = ["deltas", "evidence", "changes", "home", "puts"].map((what) => cluster.keys.of(0, what))
    const listen = async () => {
      const reply = (await cluster.run("updates", names, ["0-0", "", "0-0", all.after(0)])) as unknown[]
      await all.applyPuts(0, reply[3] as Buffer[], reply[6] as number)
    }
    await put(0, 100, "first")
    await listen()
    expect([heard.size, heard.get(99), all.after(0)]).toEqual([100, "first", "100-0"])
    await put(50, 1200, "second")
    await cluster.redis.send(names[4], ["XTRIM", names[4], "MAXLEN", "10"])
    await listen()
    expect([heard.size, heard.get(49), heard.get(50), heard.get(1199)]).toEqual([1200, "first", "second", "second"])
    expect(all.after(0)).toBe("1250-0")
    // A replica took over that had not got the last ones.
    await cluster.redis.send(names[3], ["HSET", names[3], "puts", "1240"])
    await listen()
    expect(all.after(0)).toBe("1240-0")
    expect((await readEntry(cluster, 1199)).entry).toMatchObject({ categories: ["second"] })
  })

  test("features reach every trainer: diversity as on a single machine, through a change of owners", async () => {
    const cluster = await open(redis(), { recommender: CV })
    expect(cluster.options.run.method).toBe("dess-cv")
    const trainers = [await train(redis(), cluster), await train(redis(), cluster)]
    const reader = await read(redis(), cluster)
    await eventually("shares", () => trainers.every(({ standing }) => standing.partitions.length === 2), 40)
    expect(await reader.putItems(entries)).toBe(20)
    await expect(reader.putItems({ item: "item 1", features: [1] })).rejects.toThrow(/expected 2 numbers/)
    // One exchange, so that the first events count with them.
    await new Promise((resolve) => setTimeout(resolve, 500))
    await feed(reader, events.slice(0, 400))
    await reader.drain()
    await trainers[0].stop()
    await feed(reader, events.slice(400))
    await reader.drain()
    const single = await Recommender.open({ ...CV, segment: 100 })
    closing.push(() => single.close())
    await single.putItems(entries)
    await single.observe(events)
    await single.drain()
    for (const user of ["user 3", "user 15"]) {
      const { indicators } = await single.explain("user", user)
      await eventually(`IND of ${user}`, async () => {
        const here = (await reader.explain("user", user)).indicators
        return here.frequency === 40 && Math.abs((here.diversity as number) - (indicators.diversity as number)) < 1e-6
      })
    }
    expect((await reader.explain("user", "user 3")).indicators.diversity).toBeGreaterThan(0.5)
    expect((await reader.explain("user", "user 15")).indicators.diversity).toBeCloseTo(0)
    // POD at home is of those raters whom the home's trainer met.
    await eventually("POD", async () => ((await reader.explain("item", "item 0")).indicators.diversity as number) > 0.1)
    const folder = mkdtempSync(join(tmpdir(), "dess-features-"))
    closing.push(() => rmSync(folder, { recursive: true, force: true }))
    await takeSnapshot(cluster, folder)
    const opened = await Recommender.open({ directory: folder })
    expect([...opened.items()].find(({ item }) => item === "item 4")?.features).toEqual([1, 0])
    const { diversity } = (await opened.explain("user", "user 3")).indicators
    expect(diversity).toBeCloseTo((await reader.explain("user", "user 3")).indicators.diversity as number)
    await opened.close()
    const options = { url: redis().url, prefix: freshPrefix(), partitions: 3 }
    expect(await loadDirectory(folder, options)).toMatchObject({ users: 20, items: 20 })
    const loaded = await open(redis(), { ...options, recommender: {} })
    expect(loaded.options.features).toEqual(FEATURES)
    const other = await read(redis(), loaded)
    expect((await other.explain("user", "user 3")).indicators.diversity).toBeCloseTo(diversity as number)
    expect(other.item("item 4")).toMatchObject({ hasFeatures: true })
  })

  test("what is put in parts adds up; what a cluster has no columns for is refused", async () => {
    const cluster = await open(redis(), { recommender: CV })
    const reader = await read(redis(), cluster)
    await reader.putItems([
      { item: "dune", categories: ["book"] },
      { item: "dune", features: [0, 1] },
    ])
    await reader.putItems({ item: "dune", hidden: true })
    const other = await read(redis(), cluster)
    expect(other.item("dune")).toMatchObject({ categories: ["book"], hidden: true, hasFeatures: true })
    await reader.putItems({ item: "dune", features: null })
    await eventually("no features", () => other.item("dune")?.hasFeatures === false)
    const plain = await read(redis(), await open(redis()))
    await expect(plain.putItems({ item: "dune", features: [1, 0] })).rejects.toThrow(/without feature columns/)
    for (const [method, refusal] of [
      ["dess-cv", /expected items with features/],
      ["plain-bias", /which many processes can share/],
    ] as const) {
      const prefix = freshPrefix()
      await expect(Cluster.open({ url: redis().url, prefix, recommender: { task: "binary", method } })).rejects.toThrow(
        refusal,
      )
      // Nothing was settled.
      await expect(Cluster.open({ url: redis().url, prefix, existing: true })).rejects.toThrow(/Redis has none/)
    }
  })

  test("an item that is deleted is gone from every process, from Redis and from snapshots; its name makes a new one", async () => {
    for (const features of [undefined, FEATURES]) {
      const method = features ? "dess-cv" : "dess-fre"
      const recommender = { task: "topk", method, segment: 100, ...(features && { features }) } as const
      const cluster = await open(redis(), { partitions: 3, recommender })
      const trainers = [await train(redis(), cluster), await train(redis(), cluster)]
      const [one, other] = [await read(redis(), cluster), await read(redis(), cluster)]
      await one.putItems(
        entries.map((entry, n) => ({
          ...(features ? entry : { item: entry.item }),
          ...{
            title: n === 4 ? "Zephyr" : `Thing ${n}`,
            categories: ["kind"],
            properties: { price: n, shelf: `shelf ${n}` },
          },
        })),
      )
      await feed(one, events)
      await one.drain()
      await eventually("rows", () => other.status().items.held === 20)
      const [name, kept] = ["item 4", "item 6"]
      expect((await other.recommend("user 15", { count: 20, seen: true })).map(({ item }) => item)).toContain(name)
      expect(await one.deleteItems([name, "item 999"])).toBe(1)
      expect(await one.deleteItems(name)).toBe(0)
      await eventually("gone elsewhere", () => !other.has("item", name))
      const look = async (reader: typeof one) => {
        const lists = [
          await reader.recommend("user 15", { count: 100, seen: true }),
          await reader.recommend({ items: [kept, name], count: 100, seen: true }),
          await reader.similar(kept, { count: 100 }),
          await reader.popular({ count: 100 }),
          await reader.newest({ count: 100 }),
        ]
        for (const list of lists) {
          expect(list.map(({ item }) => item)).not.toContain(name)
          expect(list.length).toBeGreaterThan(17)
        }
        expect(reader.item(name)).toBeUndefined()
        expect(await reader.search("zephyr")).toEqual([])
        await expect(reader.similar(name)).rejects.toMatchObject({ code: "NOT_FOUND" })
        await expect(reader.popular({ filter: { shelf: "shelf 4" } })).resolves.toEqual([])
      }
      await look(one)
      await look(other)
      // Training goes on for users who met it, through another owner, and brings nothing of it back.
      await trainers[0].stop()
      await feed(one, events.filter(({ item }) => item !== name).slice(0, 300))
      await one.drain()
      const later = await read(redis(), cluster)
      for (const reader of [one, other, later]) await look(reader)
      await eventually("19 items", () => one.status().items.known === 19)
      for (const p of cluster.all) {
        const [hash, list] = [cluster.keys.entries(p, 0), cluster.keys.rows("items", p, 0)]
        expect(String(await cluster.redis.send(hash, ["HVALS", hash]))).not.toContain("Zephyr")
        expect(String(await cluster.redis.send(list, ["LRANGE", list, "0", "-1"]))).not.toContain(name)
      }
      const folder = mkdtempSync(join(tmpdir(), "dess-deleted-"))
      closing.push(() => rmSync(folder, { recursive: true, force: true }))
      await takeSnapshot(cluster, folder)
      const single = await Recommender.open({ directory: folder })
      expect(single.has("item", name)).toBe(false)
      expect(await single.list("item")).toHaveLength(19)
      await single.close()
      // An event makes a new item of the name, without a title.
      await one.observe({ user: "user 1", item: name })
      await one.drain()
      await eventually("a new one", () => other.item(name)?.events === 1)
      expect(other.item(name)).toMatchObject({ title: null, categories: [], properties: {} })
      expect((await other.newest({ count: 1 }))[0].item).toBe(name)
      for (const trainer of trainers) await trainer.stop()
    }
  })

  test("what two processes put of an item at the same time is all kept", async () => {
    const cluster = await open(redis(), { partitions: 2 })
    const readers = [await read(redis(), cluster), await read(redis(), cluster)]
    const names = Array.from({ length: 30 }, (_, n) => `item ${n}`)
    const put = (reader: (typeof readers)[0], property: string) =>
      reader.putItems(names.map((item) => ({ item, properties: { [property]: 1 } })))
    await Promise.all(["a", "b", "c", "d", "e", "f"].map((property, n) => put(readers[n % 2], property)))
    const later = await read(redis(), cluster)
    for (const item of names)
      expect(
        Object.keys(later.item(item)?.properties ?? {})
          .sort()
          .join(""),
      ).toBe("abcdef")
  })

  test("a directory keeps its rating scale on the way into a cluster", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dess-scale-"))
    closing.push(() => rmSync(folder, { recursive: true, force: true }))
    const single = await Recommender.open({
      ...BINARY,
      directory: folder,
      scale: { min: 1, max: 10 },
      likeThreshold: 7,
    })
    await single.observe({ user: "ada", item: "dune", rating: 9 })
    await single.close()
    const options = { url: redis().url, prefix: freshPrefix(), partitions: 2 }
    await loadDirectory(folder, options)
    const loaded = await open(redis(), { ...options, recommender: {} })
    expect([loaded.options.scale, loaded.options.run.likeThreshold]).toEqual([{ min: 1, max: 10 }, 3.5])
  })
})
