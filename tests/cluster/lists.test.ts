/** Lists of a cluster's reader are those of a single machine, with every rule. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ClusterRecommender } from "../../src/cluster/reader.ts"
import { loadDirectory, takeSnapshot } from "../../src/cluster/snapshot.ts"
import { Recommender } from "../../src/engine/open.ts"
import type { Recommendation, Variants } from "../../src/engine/types.ts"
import { BINARY, closing, open, read } from "../support/cluster.ts"
import { describeWithRedis, eventually, freshPrefix } from "../support/redis.ts"
import { openService } from "../support/service.ts"
import { EVENTS, ITEMS, REQUESTS, TOPK_REQUESTS } from "../support/shop.ts"

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "dess-lists-"))
  closing.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** The same but for numbers, which may differ by 1e-6: of two as near as that, the smaller. */
function nearTo(one: unknown, there: unknown): unknown {
  if (typeof one === "number" && typeof there === "number")
    return Math.abs(one - there) <= 1e-6 * Math.max(1, Math.abs(there)) ? Math.min(one, there) : one
  if (typeof one !== "object" || one === null || typeof there !== "object" || there === null) return one
  if (Array.isArray(one)) return one.map((value, i) => nearTo(value, (there as unknown[])[i]))
  const fields = there as Record<string, unknown>
  return Object.fromEntries(Object.entries(one).map(([name, value]) => [name, nearTo(value, fields[name])]))
}

/** Scores may differ in their last digits: rows are packed for the way. */
const withoutScores = (list: Recommendation[]) => list.map(({ score: _, ...one }) => one)

/** New items of which several are alike in everything. */
const ALIKE = Array.from({ length: 12 }, (_, n) => ({
  item: `alike ${(n * 5) % 12}`,
  categories: [`kind ${n % 4}`],
  properties: { price: 3, inStock: true, brand: "brand 3" },
}))

describeWithRedis("lists of a cluster", (redis) => {
  test("every kind of list with every rule is that of the directory it was loaded from, and back", async () => {
    const directory = folder()
    // A model whose rows are all a reader needs.
    const single = await Recommender.open({ directory, ...BINARY })
    await single.putItems(ITEMS)
    await single.observe(EVENTS)
    await single.drain()
    const expected = await Promise.all(REQUESTS.map(({ ask }) => ask(single)))
    const titles = await single.search("thing 4")
    await single.close()
    // In one partition, so that items have the same indices: in several rows of 8 bits are rounded once more.
    const options = { url: redis().url, prefix: freshPrefix(), partitions: 1 }
    await loadDirectory(directory, options)
    const cluster = await open(redis(), { ...options, recommender: {} })
    const reader = await read(redis(), cluster)
    for (const [n, { path, body, ask }] of REQUESTS.entries()) {
      const what = `${path} ${JSON.stringify(body)}`
      const list = await ask(reader)
      expect(list.length, what).toBe(expected[n].length)
      // Cosines as near as these come in either order.
      if (/recommendations|popular|new/.test(path))
        expect(withoutScores(list), what).toEqual(withoutScores(expected[n]))
      if (path !== "/v1/new")
        list.forEach(({ score }, at) => {
          expect(Math.abs(score - expected[n][at].score), what).toBeLessThan(0.02 + 0.05 * Math.abs(score))
        })
    }
    expect(await reader.search("thing 4")).toEqual(titles)
    // Another reader hears of what is put, a property at a time.
    const other = await read(redis(), cluster)
    await reader.putItems({ item: "item 4", properties: { inStock: false } })
    await eventually("out of stock", () => other.item("item 4")?.properties.inStock === false)
    expect(other.item("item 4")).toMatchObject({ title: "Thing 4", properties: { brand: "brand 4", price: 2 } })
    const stocked = await other.similar("item 8", { filter: { inStock: true }, count: 1000 })
    expect(stocked.map(({ item }) => item)).not.toContain("item 4")
    const colour = other.recommend("user 3", { filter: { colour: "red" } })
    await expect(colour).rejects.toMatchObject({ code: "INVALID_ARGUMENT" })
    await expect(reader.putItems({ item: "item 4", name: "x" } as never)).rejects.toThrow(/expected item, title/)
    expect(reader.status().memory.parts.lookup).toBeGreaterThan(1000)
    const back = folder()
    await takeSnapshot(cluster, back)
    const again = await Recommender.open({ directory: back })
    closing.push(() => again.close())
    expect(again.item("item 4")).toMatchObject({ title: "Thing 4", properties: { inStock: false, price: 2 } })
  })

  test("in top-k every kind of list with every rule is the same to the bit from the library and over HTTP, and from a cluster's reader item for item, numbers within 1e-6", async () => {
    const directory = folder()
    const types = { view: 0.2, purchase: 1, skip: -1 }
    const first = await Recommender.open({ directory, threads: 1, seed: 3, segment: 100, types })
    await first.putItems([...ITEMS, ...ALIKE])
    const typeOf = (n: number) => (n % 11 === 0 ? "skip" : n % 3 === 0 ? "purchase" : "view")
    await first.observe(EVENTS.map((event, n) => ({ ...event, type: typeOf(n) })))
    await first.deleteItems("item 7")
    // Takes the index of the deleted one: it became known last all the same.
    await first.putItems({ item: "late", categories: ["kind 1"] })
    await first.close()
    const askLibrary = async (path: string) => {
      const single = await Recommender.open({ directory: path })
      const lists = await Promise.all(TOPK_REQUESTS.map(({ ask }) => ask(single)))
      const found = await single.search("thing 4")
      await single.close()
      return { lists, found }
    }
    const expectSame = async (reader: ClusterRecommender, { lists, found }: Awaited<ReturnType<typeof askLibrary>>) => {
      for (const [n, { path, body, ask }] of TOPK_REQUESTS.entries()) {
        const list = await ask(reader)
        expect(nearTo(list, lists[n]), `${path} ${JSON.stringify(body)}`).toEqual(nearTo(lists[n], list))
      }
      expect(await reader.search("thing 4")).toEqual(found)
    }
    const load = async (partitions: number) => {
      const options = { url: redis().url, prefix: freshPrefix(), partitions }
      await loadDirectory(directory, options)
      const cluster = await open(redis(), { ...options, recommender: { types } })
      return { cluster, reader: await read(redis(), cluster) }
    }
    const expected = await askLibrary(directory)
    const service = await openService({ flags: { directory } })
    for (const [n, { method, path, body }] of TOPK_REQUESTS.entries()) {
      const answer = await service.call(method, path, { body })
      expect(answer.body, `HTTP ${path} ${JSON.stringify(body)}`).toEqual(expected.lists[n])
    }
    await service.stop()
    await expectSame((await load(1)).reader, expected)
    // Of three partitions items have other indices, so rows of 8 bits are rounded once more: compared with its own snapshot.
    const { cluster, reader } = await load(3)
    await reader.putItems([{ item: "newer" }, { item: "newest", categories: ["kind 2"] }])
    const back = folder()
    await takeSnapshot(cluster, back)
    await expectSame(reader, await askLibrary(back))
    // What is new is so in the order it came, whichever process is asked.
    const other = await read(redis(), cluster)
    const namesOf = async (of: ClusterRecommender) => (await of.newest({ count: 80 })).map(({ item }) => item)
    expect((await namesOf(reader)).slice(0, 3)).toEqual(["newest", "newer", "late"])
    expect(await namesOf(other)).toEqual(await namesOf(reader))
  })

  test("processes agree on variants and on what lists led to", async () => {
    const variants: Variants = { model: { share: 0.5 }, popular: { share: 0.5, list: "popular" } }
    const recommender = { ...BINARY, types: { view: 0.2, purchase: 1 }, variants }
    const cluster = await open(redis(), { recommender })
    const reader = async () => {
      const own = await open(redis(), { prefix: cluster.keys.prefix, partitions: 4, recommender })
      const found = await ClusterRecommender.open(own)
      closing.push(() => found.close())
      return found
    }
    const [one, other] = [await reader(), await reader()]
    await one.putItems(ITEMS)
    await eventually("items", () => other.has("item", "item 4"))
    let clicks = 0
    for (let n = 0; n < 20; n++) {
      const lists = [await one.recommend(`user ${n}`, { count: 3 }), await other.recommend(`user ${n}`, { count: 3 })]
      expect(lists[0].variant).toBe(lists[1].variant)
      if (lists[0].length === 0) continue
      // What one gave, the other hears of.
      const { item } = lists[0][0]
      await other.observe({ user: `user ${n}`, item, type: "purchase", list: lists[0].id, place: 1 })
      clicks++
    }
    expect(clicks).toBeGreaterThan(0)
    const sums = (of: ClusterRecommender) => {
      const lists = of.experiments()?.variants.flatMap(({ lists }) => lists) ?? []
      return lists.reduce((sum, list) => [sum[0] + list.impressions, sum[1] + list.clicks], [0, 0])
    }
    for (const process of [one, other])
      await eventually("counts of both", () => sums(process)[0] === 40 && sums(process)[1] === clicks)
    expect(one.experiments()).toEqual(other.experiments())
    expect(one.status().experiments).toBe(true)
    // One that starts later knows them at once.
    const later = await reader()
    expect(later.experiments()).toEqual(one.experiments())
  })
})
