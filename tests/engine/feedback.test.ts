/** Events of a type: kept once, read back, taken away; in memory and on disk alike. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, describe, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import { buildCommand } from "../support/command.ts"

const folders: string[] = []
const opened: Recommender[] = []
beforeAll(buildCommand)
afterEach(async () => {
  for (const recommender of opened.splice(0)) await recommender.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

async function open(directory?: string, more: object = {}): Promise<LiveRecommender> {
  const recommender = await Recommender.open({ sizes: [2, 4], threads: 1, delay: "1h", directory, ...more })
  opened.push(recommender)
  return recommender as LiveRecommender
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "dess-feedback-"))
  folders.push(path)
  return path
}

const like = { user: "ada", item: "dune", type: "like", timestamp: 1_700_000_000 }

describe.each(["in memory", "on disk"])("%s", (where) => {
  const start = () => open(where === "on disk" ? folder() : undefined)

  test("one event of a user, item and type is taken; another time takes its place if asked to", async () => {
    const recommender = await start()
    // Not waited for: the second must see what is still on its way to the disk.
    const first = recommender.observe({ ...like, comment: "twice read" })
    expect(await recommender.observe([like, { ...like, timestamp: 1_700_000_001 }])).toEqual({
      accepted: 0,
      duplicates: 2,
    })
    expect(await first).toEqual({ accepted: 1, duplicates: 0 })
    expect((await recommender.feedback()).feedback).toEqual([{ ...like, comment: "twice read" }])
    expect(await recommender.observe(like, { replace: true }), "the same time").toMatchObject({ accepted: 0 })
    const later = { ...like, timestamp: 1_700_000_009 }
    expect(await recommender.observe(later, { replace: true })).toMatchObject({ accepted: 1 })
    expect((await recommender.feedback()).feedback).toEqual([{ ...later, comment: "" }])
    expect(await recommender.observe({ ...like, type: "read" })).toMatchObject({ accepted: 1 })
    expect(await recommender.observe({ user: "ada", item: "dune" }), "without a type").toMatchObject({ accepted: 1 })
    expect(recommender.status().events.accepted).toBe(4)
  })

  test("pages go through everything once, of whom and what is asked for", async () => {
    const recommender = await start()
    const events = Array.from({ length: 60 }, (_, n) => ({
      user: `user ${n % 7}`,
      item: `item ${n % 11}`,
      type: n % 3 ? "like" : "__proto__",
    }))
    await recommender.observe(events)
    for (const query of [
      {},
      { user: "user 3" },
      { item: "item 4" },
      { type: "__proto__" },
      { user: "user 3", item: "item 4" },
    ]) {
      const found: string[] = []
      let after: string | undefined
      do {
        const { feedback, next } = await recommender.feedback({ ...query, count: 4, ...(after ? { after } : {}) })
        found.push(...feedback.map(({ user, item, type }) => JSON.stringify({ user, item, type })))
        after = next ?? undefined
      } while (after !== undefined)
      const wanted = events.filter((event) =>
        Object.entries(query).every(([name, value]) => event[name as "user"] === value),
      )
      expect(found.sort(), JSON.stringify(query)).toEqual(wanted.map((event) => JSON.stringify(event)).sort())
    }
    expect(await recommender.feedback({ user: "nobody" })).toEqual({ feedback: [], next: null })
    await expect(recommender.feedback({ after: "nonsense" })).rejects.toThrow(/after: expected what a page gave/)
    await expect(recommender.observe({ ...like, type: "x".repeat(129) })).rejects.toThrow(/event type: expected/)
  })

  test("retracted feedback is gone, may be given again, and the item is no longer met", async () => {
    const recommender = await start()
    await recommender.observe([like, { ...like, type: "read" }])
    expect(await recommender.retract("ada", "dune", "like")).toBe(1)
    expect(recommender.history("ada")).toEqual(["dune"])
    expect(await recommender.retract("ada", "dune")).toBe(1)
    expect(recommender.history("ada")).toEqual([])
    expect(await recommender.retract("ada", "dune")).toBe(0)
    expect(await recommender.retract("nobody", "dune")).toBe(0)
    expect(await recommender.observe(like)).toMatchObject({ accepted: 1 })
  })

  test("a forgotten user's is gone, and the next user of the index has none", async () => {
    const recommender = await start()
    await recommender.observe([like, { ...like, user: "bob" }])
    await recommender.forget("ada")
    expect((await recommender.feedback({ item: "dune" })).feedback.map(({ user }) => user)).toEqual(["bob"])
    expect(await recommender.observe({ ...like, user: "carl" })).toMatchObject({ accepted: 1 })
  })
})

test("after a crash and a replay feedback and history are as they were", async () => {
  const directory = folder()
  const recommender = await open(directory)
  await recommender.observe([like, { ...like, item: "solaris" }])
  await recommender.snapshot()
  await recommender.observe({ ...like, item: "stalker" })
  await recommender.retract("ada", "solaris")
  const history = recommender.history("ada")
  expect(history).toEqual(["stalker", "dune"])
  const hash = await recommender.hash()
  // Without the snapshot that closing writes, everything is replayed.
  await recommender.abandon()
  const again = await open(directory)
  expect(again.history("ada")).toEqual(history)
  expect((await again.feedback()).feedback.map(({ item }) => item).sort()).toEqual(["dune", "stalker"])
  expect(await again.hash()).toBe(hash)
})

const group = (user: number) => user % 2

async function tastes(options: object): Promise<LiveRecommender> {
  const recommender = await open(undefined, { ...options, segment: 200, seed: 3 })
  for (let round = 0; round < 12; round++)
    await recommender.observe(
      Array.from({ length: 400 }, (_, n) => {
        const user = n % 40
        const item = (n * 7 + round * 3) % 30
        return { user: `user ${user}`, item: `item ${item}`, rating: item % 2 === group(user) ? 5 : 1 }
      }),
    )
  await recommender.drain()
  return recommender
}

test("users who like the same are nearest", async () => {
  const recommender = await tastes({})
  let same = 0
  for (let user = 0; user < 10; user++) {
    const near = await recommender.similarUsers(`user ${user}`, { count: 5 })
    expect(near).toHaveLength(5)
    expect(near.map(({ user: other }) => other)).not.toContain(`user ${user}`)
    expect(near.map(({ score }) => score)).toEqual(near.map(({ score }) => score).sort((a, b) => b - a))
    for (const { user: other } of near) if (group(Number(other.slice(5))) === group(user)) same++
  }
  expect(same).toBeGreaterThan(40)
  await expect(recommender.similarUsers("nobody")).rejects.toMatchObject({ code: "NOT_FOUND" })
})

test("users of a network are as near to one another from either side, whatever their sizes", async () => {
  const recommender = await tastes({ recipe: "paper", model: "ncf", method: "random-grow", sizes: [2, 4, 8] })
  const sizes = new Set<number>()
  for (let user = 0; user < 40; user++) sizes.add((await recommender.explain("user", `user ${user}`)).size)
  expect(sizes.size).toBeGreaterThan(1)
  const score = async (a: string, b: string) =>
    (await recommender.similarUsers(a, { count: 39 })).find(({ user }) => user === b)?.score
  for (const [a, b] of [
    ["user 1", "user 2"],
    ["user 5", "user 39"],
  ]) {
    const there = await score(a, b)
    expect(Math.abs(there ?? 2)).toBeLessThanOrEqual(1.0001)
    expect(await score(b, a)).toBeCloseTo(there ?? 2, 5)
  }
})
