/** A new directory from the journal of another. */

import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test, vi } from "vitest"
import { exportCommand } from "../../src/cli/export.ts"
import { openContents } from "../../src/engine/contents.ts"
import { Recommender } from "../../src/engine/open.ts"
import { rebuild } from "../../src/engine/rebuild.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import { tryOptions } from "../../src/engine/try-options.ts"
import type { RecommenderOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import { METHOD_NAMES, SAVED_METHOD_NAMES } from "../../src/policies/methods.ts"

const folder = mkdtempSync(join(tmpdir(), "dess-rebuild-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const SMALL: RecommenderOptions = { task: "binary", sizes: [2, 4, 8], threads: 1, segment: 40, delay: "1h" }

const open = async (directory: string, more: RecommenderOptions = {}) =>
  (await Recommender.open({ ...SMALL, ...more, directory })) as LiveRecommender

/** Some hundred events with keys, types, items put and deleted, and a user erased. */
async function fill(recommender: LiveRecommender, seed: number): Promise<void> {
  const random = new Random(seed, "rebuild")
  for (let batch = 0; batch < 12; batch++) {
    const events = Array.from({ length: 50 }, (_, n) => ({
      user: `user ${random.integer(30)}`,
      item: `item ${random.integer(25)}`,
      rating: 1 + random.integer(5),
      key: `${batch} ${n}`,
      ...(n % 3 === 0 ? { type: "like", comment: `about ${n}` } : {}),
    }))
    await recommender.observe(events)
    if (batch === 4)
      await recommender.putItems([
        { item: "item 1", categories: ["a"] },
        { item: "new", hidden: true },
      ])
    if (batch === 6) await recommender.deleteItems(["item 2"])
    if (batch === 7) await recommender.putNotes("user", [{ id: "user 3", note: { comment: "vip" } }])
  }
  await recommender.drain()
}

async function exported(directory: string): Promise<unknown[]> {
  const contents = await openContents(directory)
  const events: unknown[] = []
  for await (const event of contents.events()) events.push(event)
  await contents.close()
  return events
}

test("with the same options the state is the same to the bit, and so is everything beside it", async () => {
  const [directory, out] = [join(folder, "same"), join(folder, "same-new")]
  const recommender = await open(directory)
  await fill(recommender, 1)
  const hash = await recommender.hash()
  await recommender.close()
  const rebuilt = await rebuild({ directory, out, options: { threads: 1 } })
  expect(rebuilt).toMatchObject({ hash, dropped: 0, isWhole: true })
  expect(await exported(out)).toEqual(await exported(directory))
  const again = await open(out)
  expect(again.note("user", "user 3")).toEqual({ comment: "vip" })
  expect(again.item("item 1")).toMatchObject({ categories: ["a"] })
  expect(again.item("new")).toMatchObject({ hidden: true })
  expect(await again.observe({ user: "somebody", item: "item 1", key: "3 7" })).toEqual({ accepted: 0, duplicates: 1 })
  expect((await again.feedback({ count: 1000 })).feedback.length).toBeGreaterThan(100)
  await again.close()
})

test("another method and task learn the same events", async () => {
  const [directory, out] = [join(folder, "other"), join(folder, "other-new")]
  const recommender = await open(directory)
  await fill(recommender, 2)
  const { accepted } = recommender.status().events
  await recommender.close()
  const options = { task: "topk", price: 1e-4, threads: 1 } as const
  expect(await rebuild({ directory, out, options })).toMatchObject({
    events: accepted,
  })
  const again = (await Recommender.open({ directory: out, threads: 1 })) as LiveRecommender
  expect(again.status()).toMatchObject({ task: "topk", method: "dess-fre" })
  await again.close()
  await expect(Recommender.open({ directory: out, price: 1 })).rejects.toThrow(/price: expected 0.0001/)
  await expect(rebuild({ directory, out: join(folder, "x"), options: { method: "nonsense" } })).rejects.toThrow(
    /method/,
  )
  expect(existsSync(join(folder, "x"))).toBe(false)
  await expect(rebuild({ directory, out: join(directory, "in") })).rejects.toThrow(/outside the old one/)
})

test("a rebuild that fails leaves nothing made and nothing mended, and the next one succeeds", async () => {
  const directory = join(folder, "failing")
  const recommender = await open(directory, { task: "topk" })
  await fill(recommender, 9)
  await recommender.close()
  const journal = join(directory, readdirSync(directory).find((name) => name.startsWith("journal-")) ?? "")
  const damaged = readFileSync(journal)
  damaged[Math.floor(damaged.length / 2)] ^= 1
  writeFileSync(journal, damaged)
  const out = join(folder, "made", "new")
  const call = { directory, out, recover: true }
  await expect(rebuild({ ...call, options: { method: "plain-popular" } })).rejects.toThrow(/that can be saved/)
  expect(readFileSync(journal).equals(damaged)).toBe(true)
  expect(existsSync(join(folder, "made"))).toBe(false)
  const onCopied = () => {
    throw new Error("stopped on the way")
  }
  await expect(rebuild({ ...call, options: { threads: 1 }, onCopied })).rejects.toThrow("stopped on the way")
  expect(existsSync(join(folder, "made"))).toBe(false)
  expect((await rebuild({ ...call, options: { threads: 1 } })).events).toBeGreaterThan(100)
})

test("every method that --help names can be saved, and no other", async () => {
  for (const name of METHOD_NAMES.split(", ")) {
    const method = name.replace(/\[.*/, "").replace(/<.*?>/, "8")
    const tried = tryOptions({ method, task: "topk", sizes: [2, 4, 8], threads: 1, features: ["a"] })
    const isSaved = await tried.then(
      () => true,
      (error: Error) => !error.message.includes("can be saved"),
    )
    expect([name, isSaved]).toEqual([name, SAVED_METHOD_NAMES.split(", ").includes(name)])
  }
})

test("erased users are not in it, and indices given to others mean whom they meant", async () => {
  const [directory, out] = [join(folder, "erased"), join(folder, "erased-new")]
  const recommender = await open(directory)
  await fill(recommender, 3)
  expect(await recommender.forget("user 5")).toMatchObject({ status: "done", found: true })
  await recommender.observe(Array.from({ length: 40 }, (_, n) => ({ user: `late ${n % 4}`, item: "item 3" })))
  await recommender.close()
  const before = await exported(directory)
  const rebuilt = await rebuild({ directory, out, options: { threads: 1 } })
  expect(rebuilt.dropped).toBeGreaterThan(0)
  expect(await exported(out)).toEqual(before)
  expect(JSON.stringify(before)).not.toContain('"user 5"')
})

test("from a directory whose snapshots are all damaged, and from a damaged journal with recover", async () => {
  const directory = join(folder, "damaged")
  const recommender = await open(directory)
  await fill(recommender, 4)
  const hash = await recommender.hash()
  await recommender.close()
  for (const name of readdirSync(directory))
    if (name.startsWith("snapshot")) writeFileSync(join(directory, name), "not a snapshot")
  expect((await rebuild({ directory, out: join(folder, "mended"), options: { threads: 1 } })).hash).toBe(hash)
  const journal = readdirSync(directory).find((name) => name.startsWith("journal-")) as string
  const { size } = statSync(join(directory, journal))
  truncateSync(join(directory, journal), Math.floor(size / 2))
  await expect(rebuild({ directory, out: join(folder, "no") })).rejects.toThrow(/recover/)
  const rest = await rebuild({ directory, out: join(folder, "rest"), recover: true, options: { threads: 1 } })
  expect(rest.events).toBeLessThan(600)
  expect(rest).toMatchObject({ isWhole: false, gone: [expect.stringMatching(/records \d+ to .* are gone/)] })
})

test("what a recovered journal has lost is reported whenever it is opened, exported or rebuilt", async () => {
  const directory = join(folder, "gap")
  const recommender = await open(directory)
  await fill(recommender, 5)
  await recommender.close()
  const journal = readdirSync(directory).find((name) => name.startsWith("journal-")) as string
  const bytes = readFileSync(join(directory, journal))
  bytes[Math.floor(bytes.length / 2)] ^= 8
  writeFileSync(join(directory, journal), bytes)
  await (await open(directory, { recover: true })).close()
  const again = await open(directory)
  expect(again.status().damaged?.join()).toMatch(/were damaged and are gone: \d+ events, taken before .*Z/)
  await again.close()
  const contents = await openContents(directory)
  const said =
    /were damaged or missing when it was recovered, and are gone: \d+ events, taken before .*Z; no record tells whose they were$/
  expect(contents).toMatchObject({ isWhole: false, gone: [expect.stringMatching(said)] })
  await contents.close()
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true)
  vi.spyOn(console, "log").mockReturnValue()
  await exportCommand([join(folder, "lists.csv"), "--lists", "--directory", directory])
  expect(write.mock.calls.join()).toMatch(/were damaged and are gone/)
  vi.restoreAllMocks()
  const rebuilt = await rebuild({ directory, out: join(folder, "gap-new"), options: { threads: 1 } })
  expect(rebuilt).toMatchObject({ isWhole: false, gone: [expect.stringMatching(/are gone/)] })
})

test("into a folder that holds something, or from nothing: refused, and nothing is touched", async () => {
  const directory = join(folder, "source")
  await (await open(directory)).close()
  await expect(rebuild({ directory, out: directory })).rejects.toThrow(/out: expected a new or empty directory/)
  await expect(rebuild({ directory: join(folder, "nowhere"), out: join(folder, "y") })).rejects.toThrow(
    /expected a recommender's/,
  )
})
