/** The lookup table, in memory and on disk: one contract. */

import { mkdtempSync, readdirSync, rmSync, truncateSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, describe, expect, test } from "vitest"
import { type FeedbackKey, Lookup, type LookupChange } from "../../src/engine/lookup.ts"
import { TABLES } from "../../src/engine/lookup-keys.ts"
import { answers, hashOf, LookupModel, randomChange, randomOf } from "../support/lookup-model.ts"

const folders: string[] = []
const opened: Lookup[] = []
afterEach(async () => {
  for (const lookup of opened.splice(0)) await lookup.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function fail(error: Error): never {
  throw error
}

function openOnDisk(directory: string): Lookup {
  const lookup = new Lookup({ directory, mostKeys: 0, onFailure: fail })
  opened.push(lookup)
  return lookup
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dess-lookup-"))
  folders.push(folder)
  return folder
}

const put = (key: FeedbackKey, timestamp = 1): LookupChange => ({
  kind: "feedback",
  ...key,
  entry: { timestamp, comment: "" },
})

const openInMemory = (mostKeys: number) => new Lookup({ directory: undefined, mostKeys, onFailure: fail })

const places = {
  "in memory": () => openInMemory(100_000),
  "on disk": () => openOnDisk(newFolder()),
}

describe.each(Object.entries(places))("%s", (where, open) => {
  test.each([1, 2, 3, 4])("random changes give the answers of a plain model, seed %i", async (seed) => {
    const random = randomOf(seed)
    const model = new LookupModel()
    let lookup = open()
    for (let position = 0; position < 300; position++) {
      const changes = Array.from({ length: random(12) }, (_, n) => randomChange(random, lookup.nextKey + 20 * n))
      const orders = new Set<number>()
      const once = changes.filter((x) => x.kind !== "key" || (!orders.has(x.order) && orders.add(x.order)))
      for (const change of once) model.change(change)
      lookup.add(once, position)
      const action = random(20)
      if (action < 4) await lookup.flush(position + 1)
      // Not waited for: what is on its way must be seen as well.
      else if (action < 6) void lookup.flush(position + 1)
      else if (action === 6) await lookup.erase(TABLES)
      else if (action === 7) {
        const before = random(lookup.nextKey + 1)
        lookup.dropKeys(before)
        for (const [hash, order] of model.keys) if (order < before) model.keys.delete(hash)
        // The newest stays, so that both know the next.
        model.change({ kind: "key", hash: hashOf(`${position}`), order: lookup.nextKey })
        lookup.add([{ kind: "key", hash: hashOf(`${position}`), order: lookup.nextKey }], position)
      } else if (action === 8 && where === "on disk") {
        await lookup.close()
        lookup = openOnDisk(folders.at(-1) as string)
        expect(lookup.applied).toBeGreaterThanOrEqual(position)
      }
      if (position % 10 === 9 || action >= 18) {
        const { got, expected } = answers(lookup, model)
        expect(got, `seed ${seed}, position ${position}`).toEqual(expected)
      }
    }
  })

  test("what is not there can be taken away", async () => {
    const lookup = open()
    lookup.add(
      [
        { kind: "feedback", user: 1, item: 2, type: "like", entry: null },
        { kind: "dropFeedback", side: "user", index: 7 },
        { kind: "note", side: "item", id: "none", note: null },
      ],
      0,
    )
    await lookup.flush(1)
    lookup.dropKeys(10)
    expect([...lookup.feedback({})]).toEqual([])
    expect([...lookup.noteIds("item")]).toEqual([])
    expect(lookup.applied).toBe(1)
  })

  test("a reader goes on while entries come, go and are flushed", async () => {
    const lookup = open()
    const keys = Array.from({ length: 3000 }, (_, n) => ({ user: n >> 4, item: n & 15, type: "like" }))
    lookup.add(
      keys.filter((_, n) => n % 2 === 0).map((key) => put(key)),
      0,
    )
    await lookup.flush(1)
    const seen: FeedbackKey[] = []
    for (const { user, item, type } of lookup.feedback({})) {
      seen.push({ user, item, type })
      const n = seen.length
      if (n === 100)
        lookup.add([put({ user: 0, item: 1, type: "like" }), { kind: "dropFeedback", side: "user", index: 150 }], 1)
      if (n % 400 === 0) await lookup.flush(n)
      if (n === 500) await lookup.erase(TABLES)
    }
    expect(seen).toEqual(keys.filter((key, n) => n % 2 === 0 && key.user !== 150))
  })

  test("applied never goes back, and a flush says how far it is", async () => {
    const lookup = open()
    lookup.add([put({ user: 1, item: 1, type: "like" })], 41)
    await lookup.flush(42)
    expect([lookup.applied, lookup.waiting]).toEqual([42, 0])
    await lookup.flush(7)
    expect(lookup.applied).toBe(42)
  })

  test("orders of keys may be larger than 32 bits", async () => {
    const lookup = open()
    const far = 2 ** 40
    lookup.add(
      [0, 1, 2].map((n) => ({ kind: "key", hash: hashOf(`${n}`), order: far + n }) as const),
      0,
    )
    await lookup.flush(1)
    lookup.dropKeys(far + 1)
    expect([0, 1, 2].map((n) => lookup.hasKey(hashOf(`${n}`)))).toEqual([false, true, true])
    expect(lookup.nextKey).toBe(far + 3)
  })
})

describe("in memory", () => {
  test("the newest keys and entries are kept", () => {
    const lookup = openInMemory(2)
    for (let n = 0; n < 3; n++) lookup.add([{ kind: "key", hash: hashOf(`${n}`), order: n }], n)
    expect([0, 1, 2].map((n) => lookup.hasKey(hashOf(`${n}`)))).toEqual([false, true, true])
    for (let n = 0; n < 100_001; n++) lookup.add([put({ user: n, item: 0, type: "like" })], n)
    expect(lookup.feedbackEntry({ user: 0, item: 0, type: "like" })).toBeUndefined()
    expect(lookup.feedbackEntry({ user: 1, item: 0, type: "like" })).toBeDefined()
  })

  test("keys, feedback and notes each take the bytes they may, the newest stay, and what items are called stays whole", () => {
    const mostBytes = 50_000
    const lookup = new Lookup({ directory: undefined, mostKeys: 100_000, mostBytes, onFailure: fail })
    const details = { title: "x".repeat(100) }
    for (let n = 0; n < 2000; n++)
      lookup.add(
        [
          { kind: "key", hash: hashOf(`${n}`), order: n },
          put({ user: n, item: 0, type: "like" }),
          { kind: "note", side: "user", id: `user ${n}`, note: { comment: "c".repeat(n % 300) } },
          { kind: "details", item: n, details },
        ],
        n,
      )
    // Feedback is kept in two orders.
    expect(lookup.heldBytes - lookup.detailBytes).toBeLessThanOrEqual(4 * mostBytes)
    expect(lookup.heldBytes - lookup.detailBytes).toBeGreaterThan(3 * mostBytes)
    expect(lookup.keptBytes).toBe(lookup.heldBytes)
    expect([0, 1999].map((n) => lookup.hasKey(hashOf(`${n}`)))).toEqual([false, true])
    expect([0, 1999].map((n) => lookup.note("user", `user ${n}`) !== undefined)).toEqual([false, true])
    expect([0, 1999].map((n) => lookup.feedbackEntry({ user: n, item: 0, type: "like" }) !== undefined)).toEqual([
      false,
      true,
    ])
    expect([0, 1999].map((item) => lookup.details(item))).toEqual([details, details])
  })
})

describe("on disk", () => {
  test("many changes are written by themselves, and files are merged", async () => {
    const folder = newFolder()
    const lookup = openOnDisk(folder)
    for (let n = 0; n < 60_000; n++) {
      lookup.add([put({ user: n, item: 1, type: "like" })], n)
      if (n % 500 === 0) await new Promise(setImmediate)
    }
    // All but the last few thousand.
    await expect.poll(() => lookup.waiting, { timeout: 5000, interval: 5 }).toBeLessThan(16_384)
    // Once the names of their files are durable, too.
    await expect.poll(() => lookup.applied, { timeout: 5000, interval: 5 }).toBeGreaterThan(40_000)
    await lookup.flush(60_000)
    expect([lookup.waiting, lookup.applied]).toEqual([0, 60_000])
    await expect.poll(() => readdirSync(folder).length, { timeout: 5000, interval: 5 }).toBeLessThan(5)
    expect([...lookup.feedback({ item: 1 })].length).toBe(60_000)
    expect(lookup.heldBytes).toBeLessThan(500_000)
  })

  test("whoever adds faster than the disk takes waits, and what waits has a limit", async () => {
    const lookup = openOnDisk(newFolder())
    const comment = "x".repeat(4000)
    let most = 0
    for (let n = 0; n < 30_000; n++) {
      lookup.add([{ kind: "note", side: "user", id: `u${n}`, note: { comment } }], n)
      most = Math.max(most, lookup.heldBytes)
      await lookup.untilRoom()
    }
    expect(most).toBeLessThan(75_000_000)
    expect(lookup.note("user", "u0")).toEqual({ comment })
  })

  test("with a limit of bytes less waits", async () => {
    const lookup = new Lookup({ directory: newFolder(), mostKeys: 0, mostBytes: 2 ** 20, onFailure: fail })
    opened.push(lookup)
    let most = 0
    for (let n = 0; n < 8000; n++) {
      const details = { title: "x".repeat(2500) }
      lookup.add([{ kind: "details", item: n, details }], n)
      most = Math.max(most, lookup.heldBytes)
      await lookup.untilRoom()
    }
    expect(most).toBeLessThan(10_000_000)
    expect(lookup.details(0)).toEqual({ title: "x".repeat(2500) })
  })

  test("keys that came last are recognised without the disk", async () => {
    const folder = newFolder()
    const lookup = openOnDisk(folder)
    lookup.add([{ kind: "key", hash: hashOf("1"), order: 0 }], 0)
    lookup.add([{ kind: "key", hash: hashOf("2"), order: 1 }], 1)
    await lookup.flush(2)
    for (const name of readdirSync(folder)) truncateSync(join(folder, name), 0)
    expect(lookup.hasKey(hashOf("1"))).toBe(true)
    expect(lookup.hasKey(hashOf("3"))).toBe(false)
    lookup.dropKeys(1)
    expect([lookup.hasKey(hashOf("1")), lookup.hasKey(hashOf("2"))]).toEqual([false, true])
  })

  test("many short lives leave few files", async () => {
    const folder = newFolder()
    for (let n = 0; n < 40; n++) {
      const lookup = openOnDisk(folder)
      lookup.add([put({ user: n, item: 1, type: "like" })], n)
      await lookup.close()
    }
    expect(readdirSync(folder).length).toBeLessThan(8)
    expect([...openOnDisk(folder).feedback({ item: 1 })].length).toBe(40)
  })

  test("all keys dropped, the next order is still known after a start", async () => {
    const folder = newFolder()
    const lookup = openOnDisk(folder)
    lookup.add([{ kind: "key", hash: hashOf("a"), order: 8 }], 0)
    await lookup.flush(1)
    lookup.dropKeys(9)
    await lookup.close()
    const again = openOnDisk(folder)
    expect([again.nextKey, again.hasKey(hashOf("a"))]).toEqual([9, false])
  })

  test("after a close it takes and answers nothing", async () => {
    const lookup = openOnDisk(newFolder())
    await lookup.close()
    const closed = expect.objectContaining({ code: "CLOSED" })
    expect(() => lookup.add([], 1)).toThrow(closed)
    expect(() => lookup.feedbackEntry({ user: 1, item: 1, type: "like" })).toThrow(closed)
    await expect(lookup.flush(1)).rejects.toThrow(closed)
    expect(readdirSync(folders.at(-1) as string).sort()).toEqual([])
  })
})
