/** A guest signs in: what was done under one id is another's, in lists, on disk and after a restart. */

import { cpSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"
import { useDirectories } from "../support/directories.ts"

beforeAll(buildCommand)
const { folder } = useDirectories()
const opened: Recommender[] = []
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

const OPTIONS: RecommenderOptions = { threads: 1, seed: 3, segment: 100, delay: "24h" }

async function open(options: RecommenderOptions = {}): Promise<LiveRecommender> {
  const recommender = await Recommender.open({ ...OPTIONS, ...options })
  opened.push(recommender)
  return recommender as LiveRecommender
}

/** Everybody likes items of their own colour, of three. */
function colours(count: number, seed = 5): Event[] {
  const random = new Random(seed, "colours")
  return Array.from({ length: count }, (_, n) => {
    const user = random.integer(60)
    return { user: `u${user}`, item: `i${3 * random.integer(20) + (user % 3)}`, timestamp: 1_700_000_000 + n }
  })
}

const itemsOf = (list: readonly { item: string }[]) => list.map(({ item }) => item)

for (const learned of [false, true])
  test(`a new user gets the guest's list, what was met left out, ${learned ? "learned" : "or before it is learned"}; the guest is nobody`, async () => {
    const recommender = await open({ task: "topk" })
    await recommender.observe(colours(1500))
    await recommender.drain()
    await recommender.observe(["i1", "i4", "i7", "i10"].map((item) => ({ user: "guest", item })))
    if (learned) await recommender.drain()
    const before = await recommender.recommend("guest")
    expect(await recommender.merge("guest", "ada")).toEqual({ guest: "guest", user: "ada", found: true, history: 4 })
    await recommender.drain()
    const after = await recommender.recommend("ada")
    // What was not learned is learned by then, and moves a few places.
    if (learned) expect(itemsOf(after)).toEqual(itemsOf(before))
    else expect(itemsOf(after).filter((item) => itemsOf(before).includes(item)).length).toBeGreaterThanOrEqual(7)
    expect(recommender.history("ada")).toEqual(["i10", "i7", "i4", "i1"])
    expect(recommender.has("user", "guest")).toBe(false)
    expect(recommender.history("guest")).toEqual([])
    expect((await recommender.recommend("guest")).every(({ source }) => source !== "model")).toBe(true)
  })

test("a user who has been here before keeps the own history, the guest's clicks are the latest and turn the list", async () => {
  const recommender = await open()
  await recommender.observe(colours(1500))
  await recommender.observe(["i2", "i5", "i8"].map((item) => ({ user: "ada", item })))
  await recommender.observe(["i5", "i1", "i4", "i7", "i10"].map((item) => ({ user: "guest", item })))
  await recommender.drain()
  const colour = (list: readonly { item: string }[]) =>
    itemsOf(list).filter((item) => Number(item.slice(1)) % 3 === 1).length
  const before = colour(await recommender.recommend("ada"))
  await recommender.merge("guest", "ada")
  await recommender.drain()
  const list = await recommender.recommend("ada")
  expect(recommender.history("ada")).toEqual(["i10", "i7", "i4", "i1", "i8", "i5", "i2"])
  for (const item of recommender.history("ada")) expect(itemsOf(list)).not.toContain(item)
  expect(colour(list)).toBeGreaterThan(before)
})

test("what a type lets come back comes back for the user, unless either has bought it", async () => {
  const recommender = await open({ types: { view: 0.2, purchase: 1 } })
  await recommender.observe([
    { user: "guest", item: "a", type: "view" },
    { user: "guest", item: "b", type: "view" },
    { user: "guest", item: "c", type: "purchase" },
    { user: "ada", item: "b", type: "purchase" },
    { user: "ada", item: "c", type: "view" },
    { user: "eve", item: "d", type: "view" },
  ])
  await recommender.merge("guest", "ada")
  expect(itemsOf(await recommender.recommend("ada")).sort()).toEqual(["a", "d"])
})

/** All bytes on disk. */
function contents(path: string): Buffer {
  const files = readdirSync(path, { recursive: true }).map((name) => join(path, String(name)))
  return Buffer.concat(files.filter((file) => statSync(file).isFile()).map((file) => readFileSync(file)))
}

test("a guest merged into a new user right behind a snapshot leads to the same state as a replay of everything", async () => {
  const directory = folder()
  const recommender = await open({ directory })
  await recommender.observe([...colours(100, 7), { user: "guest", item: "i1" }])
  await recommender.snapshot()
  await recommender.merge("guest", "ada")
  const hash = await recommender.hash()
  await recommender.abandon()
  const copy = folder()
  cpSync(directory, copy, { recursive: true, filter: (path) => !/snapshot|\.sock/.test(path) })
  for (const path of [directory, copy]) {
    const again = await open({ directory: path })
    expect(await again.hash(), path === copy ? "replayed" : "from its snapshot").toBe(hash)
    await again.close()
  }
})

test("a replay gives the same bits, exports name the user, and erasing the user erases the guest from the disk", async () => {
  for (const task of ["topk", "binary"] as const) {
    const directory = folder()
    const recommender = await open({ directory, task })
    await recommender.observe(colours(300, 7))
    await recommender.observe(["i1", "i4"].map((item) => ({ user: "guest-of-lovelace", item })))
    await recommender.merge("u5", "u6")
    await recommender.observe(colours(200, 8))
    await recommender.merge("guest-of-lovelace", "lovelace")
    await recommender.observe([{ user: "guest-of-lovelace", item: "i9" }, ...colours(200, 9)])
    const hash = await recommender.hash()
    const list = await recommender.recommend("lovelace")
    const histories = ["lovelace", "u5", "u6", "guest-of-lovelace"].map((user) => recommender.history(user))
    await recommender.close()
    const copy = folder()
    cpSync(directory, copy, { recursive: true })
    for (const name of readdirSync(copy)) if (name.includes("snapshot")) rmSync(join(copy, name), { recursive: true })
    for (const path of [directory, copy]) {
      const again = await open({ directory: path })
      expect(await again.hash(), `${task} ${path === copy ? "replayed" : "from its snapshot"}`).toBe(hash)
      expect(await again.recommend("lovelace")).toEqual(list)
      expect(["lovelace", "u5", "u6", "guest-of-lovelace"].map((user) => again.history(user))).toEqual(histories)
      const users = []
      for await (const { user, item } of again.events()) if (["i1", "i4", "i9"].includes(item)) users.push(user)
      expect(users.filter((user) => user === "lovelace")).toHaveLength(2)
      expect(users.filter((user) => user === "guest-of-lovelace")).toHaveLength(1)
      await again.forget("guest-of-lovelace")
      const { events } = await again.forget("lovelace")
      expect(events).toBe(2)
      await again.close()
      const bytes = contents(path)
      expect(bytes.includes("lovelace")).toBe(false)
    }
  }
})

test("the same id twice and ids that are none are refused, an unknown guest changes nothing", async () => {
  const recommender = await open()
  await recommender.observe({ user: "ada", item: "a" })
  await expect(recommender.merge("ada", "ada")).rejects.toThrow(/guest: expected another id than the user's/)
  await expect(recommender.merge("", "ada")).rejects.toThrow(/user/)
  expect(await recommender.merge("nobody", "eve")).toMatchObject({ found: false, history: 0 })
  expect(recommender.has("user", "eve")).toBe(false)
  expect(recommender.history("ada")).toEqual(["a"])
})
