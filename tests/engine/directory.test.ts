/** A recommender's directory: coming back, damage, locks, forgetting on disk. */

import { execFileSync, spawnSync } from "node:child_process"
import { once } from "node:events"
import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { Worker } from "node:worker_threads"
import { crc32 } from "node:zlib"
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest"
import { openDirectory } from "../../src/engine/directory.ts"
import { weighRows } from "../../src/engine/event-types.ts"
import { hashName } from "../../src/engine/intake.ts"
import { JournalFiles, type Placed } from "../../src/engine/journal-files.ts"
import { lockDirectory } from "../../src/engine/lock.ts"
import { Recommender } from "../../src/engine/open.ts"
import { completeOptions } from "../../src/engine/options.ts"
import { rebuild } from "../../src/engine/rebuild.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import { encodeRecord, type LogRecord } from "../../src/engine/records.ts"
import { readSnapshot, writeSnapshot } from "../../src/engine/snapshots.ts"
import { type Answer, Trainer } from "../../src/engine/trainer.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"
import type { Json } from "../../src/kernels/state.ts"
import { buildCommand } from "../support/command.ts"

const SMALL: RecommenderOptions = { model: "mf", sizes: [2, 4, 8], threads: 1, delay: "1h", segment: 40, seed: 4 }
const ID = "00000000-0000-4000-8000-000000000001"
const opened: Recommender[] = []
const folders: string[] = []

// The training thread runs what was built.
beforeAll(buildCommand)

afterEach(async () => {
  for (const recommender of opened.splice(0)) await recommender.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

async function open(directory: string, options: RecommenderOptions = {}): Promise<LiveRecommender> {
  const recommender = await Recommender.open({ ...SMALL, directory, ...options })
  opened.push(recommender)
  return recommender as LiveRecommender
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "dess-engine-"))
  folders.push(path)
  return path
}

function events(count: number, seed: number): Event[] {
  const random = new Random(seed, "directory test")
  return Array.from({ length: count }, (_, n) => ({
    user: `user ${random.integer(20)}`,
    item: `item ${random.integer(30)}`,
    rating: 1 + random.integer(5),
    timestamp: 1_700_000_000 + n,
    key: `${seed} ${n}`,
  }))
}

const snapshots = (directory: string) =>
  readdirSync(directory)
    .filter((name) => name.startsWith("snapshot-"))
    .sort()
const journals = (directory: string) =>
  readdirSync(directory)
    .filter((name) => name.startsWith("journal-"))
    .sort()

/** The journal of a directory that nobody has open. */
async function recordsOf(directory: string): Promise<Placed[]> {
  const opened = await openDirectory(directory, { readOnly: true })
  const records = [...opened.files.read(opened.files.first)]
  await opened.close()
  return records
}

/** Appends a record to the journal of a directory that nobody has open. */
async function appendTo(directory: string, record: LogRecord): Promise<void> {
  const opened = await openDirectory(directory)
  await opened.files.append([encodeRecord(record)])
  await opened.close()
}

/** A copy as a power cut would leave it: the recommender goes on elsewhere. */
function powerCut(directory: string): string {
  const copy = folder()
  cpSync(directory, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") })
  return copy
}

describe("coming back", () => {
  test("after a close everything is as before: state, lists, names, items, keys, counts", async () => {
    const directory = folder()
    const first = await open(directory, { features: ["a"], method: "dess-cv" })
    await first.putItems({ item: "item 3", features: [1], categories: ["c"], hidden: true })
    await first.observe(events(210, 1))
    const before = {
      hash: await first.hash(),
      list: await first.recommend("user 2", { count: 30 }),
      status: first.status(),
    }
    await first.close()
    const second = await open(directory)
    expect(await second.hash()).toBe(before.hash)
    expect(await second.recommend("user 2", { count: 30 })).toEqual(before.list)
    expect(second.item("item 3")).toMatchObject({ categories: ["c"], hidden: true, hasFeatures: true })
    expect(second.status().events.accepted).toBe(before.status.events.accepted)
    expect(second.status().users).toEqual(before.status.users)
    // What is no id's is measured, not counted.
    const { parts } = before.status.memory
    expect(second.status().memory).toEqual({
      ...before.status.memory,
      // What waited is in a file now.
      parts: { ...parts, lookup: expect.any(Number) },
      fixed: expect.any(Number),
    })
    expect(await second.observe(events(210, 1))).toEqual({ accepted: 0, duplicates: 210 })
    expect(await second.observe(events(10, 2))).toEqual({ accepted: 10, duplicates: 0 })
  })

  test("after a power cut, with and without a snapshot, nothing acknowledged is missing and the state is the same", async () => {
    const directory = folder()
    const recommender = await open(directory)
    for (let n = 0; n < 6; n++) {
      await recommender.observe(events(70, n))
      if (n === 2 || n === 4) await recommender.snapshot()
      const copy = await open(powerCut(directory))
      expect(copy.status().events.accepted).toBe(70 * (n + 1))
      // The same boundary, then the same bits: both close the open segment here.
      const [mine, theirs] = [recommender.status().segments, copy.status().segments]
      expect(theirs).toBe(mine)
    }
    await recommender.drain()
    const hash = await recommender.hash()
    for (const without of [0, 1]) {
      const copy = powerCut(directory)
      for (const name of snapshots(copy).reverse().slice(0, without)) rmSync(join(copy, name))
      expect(await (await open(copy)).hash()).toBe(hash)
    }
  })

  test("the state is that of the loop of the experiments fed with the journal's segments", async () => {
    const directory = folder()
    for (let n = 0; n < 3; n++) {
      const recommender = await open(directory, { keepJournal: "all" as const, memoryBudget: "10MB" })
      await recommender.observe(events(130, n))
      await recommender.close()
    }
    const last = await open(directory, { keepJournal: "all" as const, memoryBudget: "10MB" })
    const hash = await last.hash()
    await last.close()
    const options = completeOptions({ ...SMALL, memoryBudget: "10MB" })
    const said: Answer[] = []
    const { run, features, limits, publishDelay } = options
    const trainer = new Trainer({ run, features, limits, segment: options.segment, publishDelay }, (answer) =>
      said.push(answer),
    )
    let rows: { user: number; item: number; rating: number; timestamp: number }[] = []
    const nameBytes = { user: [] as number[], item: [] as number[] }
    let number = 0
    for (const { record } of await recordsOf(directory)) {
      if (record.kind === "names")
        for (const { side, index, name } of record.names) nameBytes[side][index] = Buffer.byteLength(name ?? "")
      if (record.kind === "events")
        record.user.forEach((user, r) => {
          rows.push({ user, item: record.item[r], rating: record.rating[r], timestamp: record.timestamp[r] })
        })
      if (record.kind !== "segment") continue
      number++
      const columns = {
        user: Int32Array.from(rows, ({ user }) => user),
        item: Int32Array.from(rows, ({ item }) => item),
        rating: Float32Array.from(rows, ({ rating }) => rating),
        timestamp: Float64Array.from(rows, ({ timestamp }) => timestamp),
        nameBytes: {
          user: Uint16Array.from(rows, ({ user }) => nameBytes.user[user]),
          item: Uint16Array.from(rows, ({ item }) => nameBytes.item[item]),
        },
      }
      const shape = { length: rows.length, trainLength: rows.length, index: number - 1, time: record.time }
      const length = rows.length
      const plain = { rating: columns.rating, weight: new Float32Array(length).fill(1), stays: new Uint8Array(length) }
      const weight = weighRows(plain, run)
      const { propertyBytes = 0 } = record
      const segment = { ...columns, ...shape, propertyBytes, ...(weight && { weight }) }
      trainer.take({ kind: "segment", number, segment })
      rows = []
    }
    trainer.take({ kind: "hash", id: 1 })
    expect(number).toBe(12)
    expect(said.find((answer) => answer.kind === "done")).toMatchObject({ value: hash })
    trainer.close()
  })

  test("features lead to snapshots, too, so that the journal does not grow for ever without events", async () => {
    const directory = folder()
    const options = { features: ["a", "b", "c", "d"], snapshotEvents: 100, keepJournal: "snapshots" as const }
    const recommender = await open(directory, options)
    const items = Array.from({ length: 50 }, (_, n) => ({ item: `i${n}`, features: [n, 1, 2, 3] }))
    for (let n = 0; n < 60; n++) await recommender.putItems(items)
    await expect.poll(() => snapshots(directory).length, { timeout: 10_000 }).toBe(2)
    await recommender.close()
    expect((await recordsOf(directory)).length).toBeLessThan(30)
  })

  test("limits are journalled: a replay applies those of the time, whatever is set now", async () => {
    const directory = folder()
    const limited = { memoryBudget: 150_000, keepJournal: "all" as const }
    const recommender = await open(directory, limited)
    const many = (from: number) =>
      Array.from({ length: 800 }, (_, n) => ({ user: `u${from + (n % 300)}`, item: `i${n % 90}`, rating: n % 6 }))
    await recommender.observe(many(0))
    await recommender.snapshot()
    await recommender.observe(many(300))
    const hash = await recommender.hash()
    expect(recommender.status().memory.left.user).toBeGreaterThan(0)
    for (const snapshot of ["kept", "removed"])
      for (const options of [limited, {}, { memoryBudget: 160_000 }]) {
        const copy = powerCut(directory)
        if (snapshot === "removed") for (const name of snapshots(copy)) rmSync(join(copy, name))
        const again = await open(copy, options)
        expect(await again.hash(), `${snapshot}, ${JSON.stringify(options)}`).toBe(hash)
        await again.observe(many(600))
        await again.drain()
        const { users, memory } = again.status()
        expect(memory.heldBytes).toBeLessThanOrEqual(memory.budget ?? Number.POSITIVE_INFINITY)
        if (memory.budget === null) expect(users.held).toBeGreaterThan(recommender.status().users.held)
      }
  })

  test("a budget decides alike whether the lookup's files are as they were or made again from the journal", async () => {
    const directory = folder()
    const options = { keepJournal: "all" as const, memoryBudget: "160000B" }
    const first = await open(directory, options)
    for (let n = 0; n < 20; n++) await first.observe(events(130, n))
    await first.close()
    vi.useFakeTimers({ toFake: ["Date"], now: 1_795_000_000_000 })
    const hashes: string[] = []
    for (const isKept of [true, false]) {
      const copy = powerCut(directory)
      for (const name of readdirSync(copy)) if (!isKept && name.startsWith("lookup")) rmSync(join(copy, name))
      const again = await open(copy, options)
      await again.observe(events(130, 77))
      await again.drain()
      hashes.push(await again.hash())
    }
    vi.useRealTimers()
    expect(hashes[1]).toBe(hashes[0])
  })

  test("a snapshot has the tables that the document's Python looks for", async () => {
    const document = readFileSync(join(import.meta.dirname, "../../docs/guide/engine.md"), "utf8")
    const [, python] = /```python\n([^`]*)```/.exec(document) ?? []
    const [, start] = /startswith\("([^"]+)"\)/.exec(python) ?? []
    const [, end] = /endswith\("([^"]+)"\)/.exec(python) ?? []
    const [, other] = /The vectors are in the `([^`]+)` beside `\.owners`/.exec(document) ?? []
    for (const options of [{}, { task: "binary" }, { model: "ncf" }] as const) {
      const directory = folder()
      const recommender = await Recommender.open({ directory, threads: 1, ...options })
      await recommender.observe(events(300, 1))
      await recommender.close()
      const { arrays } = readSnapshot(join(directory, snapshots(directory)[0]))
      const found = [...arrays.keys()].filter((name) => name.startsWith(start) && name.endsWith(end))
      const rows = found.map((name) => {
        const [owners, numbers] = [arrays.get(name)?.length ?? 0, arrays.get(name.replace(end, other))?.length]
        expect(numbers, name).toBeDefined()
        if (owners > 0) expect((numbers as number) % owners, name).toBe(0)
        return owners
      })
      expect(Math.max(...rows), JSON.stringify(options)).toBeGreaterThan(0)
    }
  })

  test.each([
    ["none", 0],
    ["snapshots", 50],
    ["all", 200],
  ] as const)("two snapshots are kept, and of the journal %s: %i events", async (keepJournal, expected) => {
    const directory = folder()
    const recommender = await open(directory, { keepJournal })
    for (let n = 0; n < 4; n++) {
      await recommender.observe(events(50, n))
      await recommender.snapshot()
    }
    expect(snapshots(directory)).toHaveLength(2)
    let kept = 0
    for await (const _ of recommender.events()) kept++
    expect(kept).toBe(expected)
    await recommender.close()
    expect(snapshots(directory)).toHaveLength(2)
    // The one that is appended to; and, of small ones, one that they were joined into, or that of the older snapshot.
    expect(journals(directory)).toHaveLength(keepJournal === "none" ? 1 : 2)
    expect((await open(directory)).status().events.accepted).toBe(200)
  })
})

describe("a directory that is not as it should be", () => {
  async function filled(options: RecommenderOptions = {}): Promise<{ directory: string; hash: string }> {
    const directory = folder()
    const recommender = await open(directory, options)
    await recommender.observe(events(90, 1))
    await recommender.snapshot()
    await recommender.observe(events(90, 2))
    await recommender.snapshot()
    const hash = await recommender.hash()
    await recommender.close()
    return { directory, hash }
  }

  test("a damaged newest snapshot: the one before is taken, and the state is the same", async () => {
    for (const damage of ["flip", "cut", "header"]) {
      const { directory, hash } = await filled()
      const path = join(directory, snapshots(directory)[1])
      if (damage === "cut") truncateSync(path, statSync(path).size - 100)
      else {
        const file = openSync(path, "r+")
        writeSync(file, Buffer.from([0x5a]), 0, 1, damage === "flip" ? statSync(path).size - 1000 : 30)
        closeSync(file)
      }
      const again = await open(directory)
      expect(await again.hash(), damage).toBe(hash)
      expect(again.status().damaged).toMatchObject([expect.stringContaining(basename(path))])
    }
  })

  test("the only snapshot damaged, and the journal whole: everything is learned again", async () => {
    const directory = folder()
    const recommender = await open(directory)
    await recommender.observe(events(90, 1))
    await recommender.snapshot()
    const hash = await recommender.hash()
    await recommender.close()
    for (const name of snapshots(directory)) writeFileSync(join(directory, name), "nonsense nonsense")
    const again = await open(directory)
    expect(await again.hash()).toBe(hash)
    expect(again.status().events.accepted).toBe(90)
  })

  test("no journal, another directory's, or one older than the snapshots is reported", async () => {
    const { directory } = await filled()
    const older = powerCut(directory)
    const recommender = await open(directory)
    await recommender.observe(events(50, 3))
    await recommender.close()
    const kept = powerCut(directory)
    const putBack = (from: string) => {
      for (const name of journals(directory)) rmSync(join(directory, name))
      for (const name of journals(from)) cpSync(join(from, name), join(directory, name))
    }
    putBack(folder())
    await expect(open(directory)).rejects.toThrow(/journal: expected its files .*, got none/)
    expect(journals(directory)).toEqual([])
    putBack((await filled()).directory)
    await expect(open(directory)).rejects.toThrow(/journal: expected that of .*, got ".*" of .*; bring back/)
    putBack(older)
    await expect(open(directory)).rejects.toThrow(/journal: expected record \d+ or later, got \d+ as the last/)
    putBack(kept)
    expect((await open(directory)).status().events.accepted).toBe(230)
  })

  test("snapshots of another directory are reported", async () => {
    const [{ directory }, { directory: other }] = [await filled(), await filled()]
    for (const name of snapshots(directory)) cpSync(join(other, name), join(directory, name))
    await expect(open(directory)).rejects.toThrow(/journal: expected ".*", which "snapshot-.*" was taken of, got "/)
  })

  test("every snapshot damaged or gone, and the journal begins later: reported, and --recover loads what is left", async () => {
    for (const damage of ["damaged", "gone"]) {
      const { directory } = await filled({ keepJournal: "snapshots" })
      for (const name of snapshots(directory))
        if (damage === "gone") rmSync(join(directory, name))
        else writeFileSync(join(directory, name), "nonsense nonsense")
      await expect(open(directory), damage).rejects.toThrow(
        /journal: expected record 0, got \d+ as the first: .*(missing|damaged).*--recover/,
      )
      const again = await open(directory, { recover: true })
      expect(again.status().damaged?.join()).toMatch(/records 0 to \d+ are gone/)
      expect(again.status().events.accepted).toBeLessThan(180)
      await again.observe(events(50, 3))
      await again.drain()
    }
  })

  test("every snapshot damaged, and the whole journal there: everything is learned again", async () => {
    const { directory, hash } = await filled()
    for (const name of snapshots(directory)) writeFileSync(join(directory, name), "nonsense nonsense")
    const again = await open(directory)
    expect(await again.hash()).toBe(hash)
    expect(again.status().damaged).toHaveLength(2)
  })

  test("the newest snapshot damaged where the journal before it is not kept: reported, and --recover loads the older", async () => {
    const { directory } = await filled({ keepJournal: "none" })
    writeFileSync(join(directory, snapshots(directory)[1]), "nonsense nonsense")
    await expect(open(directory)).rejects.toThrow(/snapshots are damaged: .*--recover/)
    const again = await open(directory, { recover: true })
    expect(again.status().damaged?.join()).toMatch(/records \d+ to \d+ are gone/)
    expect(again.status().events.accepted).toBe(90)
  })

  test("a journal cut short or overwritten is reported", async () => {
    for (const damage of ["cut", "nonsense"]) {
      const { directory } = await filled()
      const path = join(directory, journals(directory)[0])
      if (damage === "cut") truncateSync(path, statSync(path).size - 100)
      else writeFileSync(path, "nonsense ".repeat(5000))
      for (const name of snapshots(directory)) rmSync(join(directory, name))
      await expect(open(directory), damage).rejects.toThrow(/journal: expected record \d+ .*damaged.*--recover/)
      await expect(open(directory), damage).rejects.toMatchObject({ code: "INVALID_DATA" })
    }
  })

  test("without its description it is refused, and taken from a snapshot when asked; nothing is ever begun anew", async () => {
    for (const damage of ["gone", "damaged"]) {
      const { directory, hash } = await filled()
      const path = join(directory, "dess.json")
      if (damage === "gone") rmSync(path)
      else writeFileSync(path, "{}")
      await expect(open(directory), damage).rejects.toThrow(/dess.json.*--recover/)
      const bare = powerCut(directory)
      for (const name of snapshots(bare)) rmSync(join(bare, name))
      const before = journals(bare).map((name) => readFileSync(join(bare, name)))
      await expect(open(bare, { recover: true }), damage).rejects.toMatchObject({ code: "INVALID_DATA" })
      expect(journals(bare).map((name) => readFileSync(join(bare, name)))).toEqual(before)
      expect(await (await open(directory, { recover: true })).hash(), damage).toBe(hash)
    }
  })

  test("of a newer version: reported, and left unlocked for a newer dess", async () => {
    const { directory } = await filled()
    const path = join(directory, "dess.json")
    const { description } = JSON.parse(readFileSync(path, "utf8")) as { description: string }
    const newer = JSON.stringify({ ...JSON.parse(description), format: 99 })
    writeFileSync(path, JSON.stringify({ checksum: crc32(newer), description: newer }))
    await expect(open(directory)).rejects.toThrow(/expected format 6, got 99; use a newer dess/)
    await expect(open(directory)).rejects.toMatchObject({ code: "UNSUPPORTED" })
  })

  test("the folder and every file in it are its owner's alone, whatever the umask", async () => {
    const directory = join(folder(), "above", "data")
    const umask = process.umask(0)
    try {
      const recommender = await open(directory)
      const keyed = events(90, 1).map((event, n) => ({ ...event, type: "rate", key: `key ${n}` }))
      await recommender.observe(keyed)
      await recommender.snapshot()
      await recommender.forget(`${keyed[0].user}`)
      await recommender.observe(events(50, 2))
      await recommender.snapshot()
    } finally {
      process.umask(umask)
    }
    const names = readdirSync(directory)
    for (const kind of [/^dess\.json$/, /^journal-/, /^snapshot-/, /^lookup-/, /^owner\.sock$/])
      expect(
        names.some((name) => kind.test(name)),
        String(kind),
      ).toBe(true)
    for (const name of names) expect(statSync(join(directory, name)).mode & 0o777, name).toBe(0o600)
    for (const path of [directory, dirname(directory)]) expect(statSync(path).mode & 0o777, path).toBe(0o700)
  })

  test("a snapshot of another version whose state this one cannot go on from: refused with what to do, which helps", async () => {
    const { directory, hash } = await filled({ keepJournal: "all" })
    for (const name of snapshots(directory)) {
      const state = readSnapshot(join(directory, name))
      const engine = state.values.get("engine") as Record<string, Json>
      state.values.set("engine", { ...engine, build: { version: "0.0.9", learning: "before" } })
      for (const array of state.arrays.keys()) if (array.includes("learner.model")) state.arrays.delete(array)
      writeSnapshot(join(directory, name), state)
    }
    await expect(open(directory)).rejects.toThrow(
      /learning \d+\) can go on from, got one of dess 0\.0\.9 \(learning before\).*dess rebuild/,
    )
    await expect(open(directory)).rejects.toMatchObject({ code: "UNSUPPORTED" })
    const out = join(folder(), "rebuilt")
    await rebuild({ directory, out })
    expect(await (await open(out)).hash()).toBe(hash)
  })

  test("of a format before 0.1: refused, and left alone", async () => {
    const directory = folder()
    writeFileSync(join(directory, "journal-1.mdb"), "old")
    await expect(open(directory)).rejects.toThrow(/format 6, got that of a dess before 0.1/)
    await expect(open(directory)).rejects.toMatchObject({ code: "UNSUPPORTED" })
    expect(readdirSync(directory)).toEqual(["journal-1.mdb"])
  })

  test("open in this process, or in another: locked; a dead owner's is taken over", async () => {
    const directory = folder()
    const recommender = await open(directory)
    await expect(open(directory)).rejects.toMatchObject({ code: "LOCKED" })
    const program = `
      import { Recommender } from ${JSON.stringify(join(import.meta.dirname, "../../dist/index.js"))}
      try { await (await Recommender.open({ directory: process.argv[1] })).close(); console.log("opened") }
      catch (error) { console.log(error.code) }`
    const other = () =>
      execFileSync(process.execPath, ["--input-type=module", "--eval", program, directory], { encoding: "utf8" }).trim()
    expect(other()).toBe("LOCKED")
    const thread = new Worker(
      `import(${JSON.stringify(join(import.meta.dirname, "../../dist/index.js"))})
        .then(({ Recommender }) => Recommender.open({ directory: ${JSON.stringify(directory)} }))
        .then(() => "opened", (error) => error.code)
        .then((word) => require("node:worker_threads").parentPort.postMessage(word))`,
      { eval: true },
    )
    expect((await once(thread, "message"))[0], "a thread of this process").toBe("LOCKED")
    await thread.terminate()
    await recommender.close()
    expect(other()).toBe("opened")
  })

  test("of many processes that find a dead owner's lock, one gets it", async () => {
    const directory = folder()
    const program = `require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))`
    for (let n = 0; n < 3; n++) {
      spawnSync(process.execPath, ["--eval", program, join(directory, "owner.sock")])
      expect(readdirSync(directory)).toEqual(["owner.sock"])
      const asked = await Promise.allSettled(Array.from({ length: 8 }, () => lockDirectory(directory)))
      const got = asked.filter((one) => one.status === "fulfilled")
      expect(got).toHaveLength(1)
      for (const one of asked) if (one.status === "rejected") expect(one.reason).toMatchObject({ code: "LOCKED" })
      await got[0].value.release()
      expect(readdirSync(directory)).toEqual([])
    }
  })

  test("a path too long for a socket is locked like any other", async () => {
    const directory = join(folder(), "a long name ".repeat(12), "another")
    const recommender = await open(directory)
    await expect(open(directory)).rejects.toMatchObject({ code: "LOCKED" })
    await recommender.close()
    await (await open(directory)).close()
    expect(readdirSync(directory)).not.toContain("owner.sock")
  })

  test("positions beyond 32 bits stay in order", async () => {
    const directory = folder()
    const far = 2 ** 32
    JournalFiles.create(directory, ID, far - 1)
    const files = await JournalFiles.open(directory, ID)
    await files.append([1, 2].map((time) => encodeRecord({ kind: "segment", time })))
    await files.roll()
    await files.append([encodeRecord({ kind: "segment", time: 3 })])
    await files.pack()
    await files.close()
    const again = await JournalFiles.open(directory, ID)
    expect([...again.read(far)].map(({ position }) => position)).toEqual([far, far + 1])
    expect(again.next).toBe(far + 2)
    again.close()
  })

  test("options it was created with may be left out and not changed", async () => {
    const { directory } = await filled()
    await expect(open(directory, { task: "binary" })).rejects.toThrow(
      /task: expected "topk", which the directory was created with/,
    )
    await expect(open(directory, { sizes: [2, 4] })).rejects.toThrow(/sizes: expected \[2,4,8\]/)
    const recommender = await Recommender.open({ directory })
    opened.push(recommender)
    expect(recommender.status().method).toBe("dess-fre")
  })
})

describe("forgetting on disk", () => {
  const traces = (directory: string, text: string) =>
    readdirSync(directory).filter((name) => name !== "owner.sock" && readFileSync(join(directory, name)).includes(text))

  test.each(["none", "snapshots", "all"] as const)(
    "no file holds the name or the events afterwards (journal kept: %s)",
    async (keepJournal) => {
      const directory = folder()
      const recommender = await open(directory, { keepJournal })
      await recommender.observe(events(100, 1))
      await recommender.observe({ user: "Ada Lovelace", item: "item 1", timestamp: 1_234_567_891 })
      await recommender.snapshot()
      await recommender.observe([...events(30, 2), { user: "Ada Lovelace", item: "item 2", timestamp: 1_234_567_892 }])
      await recommender.observe(events(5, 3))
      expect(traces(directory, "Ada Lovelace")).not.toEqual([])
      const receipt = await recommender.forget("Ada Lovelace")
      const journalled = keepJournal === "none" ? 1 : 2
      expect(receipt).toMatchObject({ found: true, history: 2, events: journalled, snapshots: 1 })
      expect(traces(directory, "Ada Lovelace")).toEqual([])
      const time = Buffer.alloc(8)
      time.writeDoubleLE(1_234_567_891)
      for (const name of readdirSync(directory).filter((name) => name !== "owner.sock"))
        expect(readFileSync(join(directory, name)).includes(time), name).toBe(false)
      expect(snapshots(directory)).toHaveLength(1)
      const kept: string[] = []
      for await (const { user } of recommender.events()) kept.push(user)
      expect(kept).not.toContain("Ada Lovelace")
      if (keepJournal === "all") expect(kept).toHaveLength(135)
      const hash = await recommender.hash()
      await recommender.close()
      const again = await open(directory, { keepJournal })
      expect(await again.hash()).toBe(hash)
      expect(again.has("user", "Ada Lovelace")).toBe(false)
      expect(again.status().events.accepted).toBe(136)
    },
  )

  test("a reused index shows nothing of its former user, and a user who left before can be forgotten", async () => {
    const directory = folder()
    const recommender = await open(directory, { keepJournal: "all" as const, idle: { leave: 1000 } })
    const listEvents = async () => {
      const found: string[] = []
      for await (const { user, item } of recommender.events()) found.push(`${user}: ${item}`)
      return found
    }
    const say = async (user: string, item: string) => {
      await recommender.observe({ user, item, rating: 5 })
      await recommender.drain()
    }
    await say("Ada Lovelace", "a secret book")
    // Seconds count whole; the others look through the ids, and find her gone.
    await new Promise((resolve) => setTimeout(resolve, 2200))
    await say("Charles", "an engine")
    await expect.poll(() => recommender.has("user", "Ada Lovelace")).toBe(false)
    await say("Bob", "a cake")
    expect(await listEvents()).toEqual(["Ada Lovelace: a secret book", "Charles: an engine", "Bob: a cake"])
    await say("Ada Lovelace", "a loom")
    expect(await recommender.forget("Ada Lovelace")).toMatchObject({ found: true, row: true, events: 2 })
    expect(await listEvents()).toEqual(["Charles: an engine", "Bob: a cake"])
    expect(await recommender.forget("Ada Lovelace")).toMatchObject({ found: false })
    await recommender.close()
    expect(traces(directory, "Ada Lovelace")).toEqual([])
  })

  test("a user who left and never came back can be forgotten, too", async () => {
    const directory = folder()
    const recommender = await open(directory, { keepJournal: "all" as const, idle: { leave: 1000 } })
    await recommender.observe({ user: "Ada Lovelace", item: "a loom" })
    await recommender.drain()
    await new Promise((resolve) => setTimeout(resolve, 2200))
    await recommender.observe({ user: "Charles", item: "an engine" })
    await recommender.drain()
    await expect.poll(() => recommender.has("user", "Ada Lovelace")).toBe(false)
    expect(await recommender.forget("Ada Lovelace")).toMatchObject({ found: true, row: false, events: 1 })
    await recommender.close()
    expect(traces(directory, "Ada Lovelace")).toEqual([])
    const again = await open(directory)
    const hash = await again.hash()
    expect(again.status().events.accepted).toBe(2)
    await again.close()
    expect(await (await open(directory)).hash()).toBe(hash)
  })

  test("what a crash interrupted is finished at the next start", async () => {
    const directory = folder()
    const recommender = await open(directory)
    await recommender.observe([...events(100, 1), { user: "Ada Lovelace", item: "item 1" }])
    await recommender.close()
    // As far as the journal, no further: this is where the power fails.
    const names = (await recordsOf(directory)).flatMap(({ record }) => (record.kind === "names" ? record.names : []))
    const index = names.find(({ name }) => name === "Ada Lovelace")?.index ?? -1
    await appendTo(directory, { kind: "forget", user: index, former: [], hash: hashName("Ada Lovelace") })
    const [old] = snapshots(directory)
    const rows = (path: string) =>
      [...readSnapshot(path).arrays]
        .filter(([name]) => /^run\.learner\.model\.user\.[\d@]+\.owners$/.test(name))
        .flatMap(([, owners]) => [...owners])
    expect(rows(join(directory, old))).toContain(index)
    const again = await open(directory)
    await expect.poll(() => again.status().erasures?.pending).toBe(0)
    expect(traces(directory, "Ada Lovelace")).toEqual([])
    expect(snapshots(directory)).toHaveLength(1)
    expect(rows(join(directory, snapshots(directory)[0]))).not.toContain(index)
    await again.observe({ user: "somebody", item: "item 1" })
    await again.close()
    expect((await open(directory)).status().erasures).toEqual({ pending: 0 })
  })
})
