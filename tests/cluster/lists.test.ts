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

/** Scores may differ in their last digits: rows are packed for the way. What is new is in the order of arrival here. */
const told = (list: Recommendation[]) =>
  list.filter(({ source }) => source !== "new").map(({ score: _, ...one }) => one)

/** Without what is new; of two numbers of both lists within 1e-6 the smaller. */
function withoutNew(list: Recommendation[], other: Recommendation[]): Recommendation[] {
  const near = (one: unknown, there: unknown): unknown => {
    if (typeof one === "number" && typeof there === "number")
      return Math.abs(one - there) <= 1e-6 * Math.max(1, Math.abs(there)) ? Math.min(one, there) : one
    if (typeof one !== "object" || one === null || typeof there !== "object" || there === null) return one
    if (Array.isArray(one)) return one.map((value, i) => near(value, (there as unknown[])[i]))
    const fields = there as Record<string, unknown>
    return Object.fromEntries(Object.entries(one).map(([name, value]) => [name, near(value, fields[name])]))
  }
  const told = (of: Recommendation[]) => of.filter(({ source }) => source !== "new")
  return near(told(list), told(other)) as Recommendation[]
}

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
    const options = { url: redis().url, prefix: freshPrefix(), partitions: 3 }
    await loadDirectory(directory, options)
    const cluster = await open(redis(), { ...options, recommender: {} })
    const reader = await read(redis(), cluster)
    for (const [n, { path, body, ask }] of REQUESTS.entries()) {
      const what = `${path} ${JSON.stringify(body)}`
      const list = await ask(reader)
      expect(list.length, what).toBe(expected[n].length)
      // Cosines as near as these come in either order.
      if (/recommendations|popular/.test(path)) expect(told(list), what).toEqual(told(expected[n]))
      if (path !== "/v1/new")
        list.forEach(({ score }, at) => {
          expect(Math.abs(score - expected[n][at].score), what).toBeLessThan(0.02 + 0.05 * Math.abs(score))
        })
    }
    const sorted = (views: { item: string }[]) => views.sort((a, b) => (a.item < b.item ? -1 : 1))
    expect(sorted(await reader.search("thing 4"))).toEqual(sorted(titles))
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

  test("in top-k every kind of list with every rule is the same to the bit from the library and over HTTP, and within 1e-6 from a cluster's reader with the same rows: items have other indices there, so sums run in another order, and what is new has another order", async () => {
    const directory = folder()
    const single = await Recommender.open({ directory, threads: 1, seed: 3, segment: 100 })
    // New items alike in everything have the same score, and either may come first: no two are.
    await single.putItems(
      ITEMS.map((one, n) => ({ ...one, properties: { ...one.properties, shelf: `shelf ${n % 11}` } })),
    )
    await single.observe(EVENTS)
    await single.drain()
    const expected = await Promise.all(TOPK_REQUESTS.map(({ ask }) => ask(single)))
    await single.close()
    const options = { url: redis().url, prefix: freshPrefix(), partitions: 1 }
    await loadDirectory(directory, options)
    const service = await openService({ flags: { directory } })
    closing.push(() => service.stop())
    const reader = await read(redis(), await open(redis(), { ...options, recommender: {} }))
    for (const [n, { method, path, body, ask }] of TOPK_REQUESTS.entries()) {
      const what = `${path} ${JSON.stringify(body)}`
      const answer = await service.call(method, path, { body })
      expect(answer.body, `HTTP ${what}`).toEqual(expected[n])
      const list = await ask(reader)
      expect(list.length, what).toBe(expected[n].length)
      expect(withoutNew(list, expected[n]), what).toEqual(withoutNew(expected[n], list))
    }
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
