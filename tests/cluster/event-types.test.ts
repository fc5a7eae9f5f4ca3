/** Types and weights of events in a cluster: what a list leaves out, learned and before. */

import { beforeAll, expect, test } from "vitest"
import { ClusterRecommender } from "../../src/cluster/reader.ts"
import { closing, open, train } from "../support/cluster.ts"
import { buildCommand } from "../support/command.ts"
import { describeWithRedis, eventually } from "../support/redis.ts"

beforeAll(buildCommand)

describeWithRedis("types of events", (redis) => {
  test("a view does not hide an item, a purchase and a skip do, before they are learned and after", async () => {
    const recommender = { task: "topk", types: { view: 0.2, purchase: 1, skip: -1 } } as const
    const cluster = await open(redis(), { recommender })
    await train(redis(), cluster)
    const own = { prefix: cluster.keys.prefix, partitions: cluster.partitions, recommender }
    const reader = await ClusterRecommender.open(await open(redis(), own), {})
    closing.push(() => reader.close())
    const others = Array.from({ length: 60 }, (_, n) => ({ user: `u${n % 6}`, item: `x${n % 9}`, type: "view" }))
    await reader.observe(others)
    const { token } = await reader.observe([
      { user: "ada", item: "looked", type: "view" },
      { user: "ada", item: "bought", type: "view" },
      { user: "ada", item: "bought", type: "purchase" },
      { user: "ada", item: "skipped", type: "skip" },
      { user: "eve", item: "looked", type: "view" },
      { user: "eve", item: "bought", type: "view" },
      { user: "eve", item: "skipped", type: "view" },
    ])
    await reader.drain()
    await eventually("items in memory", () => reader.status().items.held === 12)
    for (const after of [undefined, token]) {
      const list = async (seen?: boolean) =>
        (await reader.recommend("ada", { count: 100, ...(after && { after }), ...(seen !== undefined && { seen }) }))
          .map(({ item }) => item)
          .filter((item) => !item.startsWith("x"))
      expect(await list()).toEqual(["looked"])
      expect(await list(false)).toEqual([])
      expect((await list(true)).sort()).toEqual(["bought", "looked", "skipped"])
    }
    await expect(reader.observe({ user: "ada", item: "a", type: "buy" })).rejects.toThrow(/view, purchase, skip/)
  })

  test("a guest's clicks are the user's after signing in, and the guest is forgotten", async () => {
    const recommender = { task: "topk", types: { view: 0.2, purchase: 1, skip: -1 } } as const
    const cluster = await open(redis(), { recommender })
    await train(redis(), cluster)
    const own = { prefix: cluster.keys.prefix, partitions: cluster.partitions, recommender }
    const reader = await ClusterRecommender.open(await open(redis(), own), {})
    closing.push(() => reader.close())
    const others = Array.from({ length: 60 }, (_, n) => ({ user: `u${n % 6}`, item: `x${n % 9}`, type: "view" }))
    const { token } = await reader.observe([
      ...others,
      { user: "guest", item: "looked", type: "view" },
      { user: "guest", item: "bought", type: "purchase" },
      { user: "guest", item: "skipped", type: "skip" },
    ])
    await reader.drain()
    await eventually("items in memory", () => reader.status().items.held === 12)
    await reader.recommend("guest", { after: token })
    expect(await reader.merge("guest", "ada")).toEqual({ guest: "guest", user: "ada", found: true, history: 3 })
    await reader.drain()
    await eventually("the user's list", async () => {
      const items = (await reader.recommend("ada", { count: 100 })).map(({ item }) => item)
      return items.includes("looked") && !items.includes("bought") && !items.includes("skipped")
    })
    expect(await reader.merge("guest", "ada")).toMatchObject({ found: false })
    await expect(reader.merge("ada", "ada")).rejects.toThrow(/another id/)
  })
})
