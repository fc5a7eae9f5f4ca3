/** A disk that takes nothing for a while: nothing is taken, reading goes on, and it goes on by itself. */

import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import { buildCommand } from "../support/command.ts"
import { exported, filesWith, SMALL } from "../support/directories.ts"
import { describeWithFaults, Faults, runUnderFaults } from "../support/faults.ts"

/** What every script begins with. It tells what it found as JSON at its end. */
const PREFACE = `
import { Recommender } from "./dist/index.js"
import { Faults } from "./tools/faults/faults.mjs"
const { FOLDER: folder, CODE: code, CLASSES, OPTIONS } = process.env
const faults = Faults.own()
const problems = []
process.on("unhandledRejection", (error) => problems.push("unhandled: " + (error.stack ?? error)))
const options = { ...JSON.parse(OPTIONS), directory: folder }
const recommender = await Recommender.open(options)
const arm = () => faults.arm({ folder, classes: CLASSES.split(","), failAt: 1, failCount: -1, code })
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))
const expect = (what, is, shouldBe) => {
  if (JSON.stringify(is) !== JSON.stringify(shouldBe))
    problems.push(what + ": expected " + JSON.stringify(shouldBe) + ", got " + JSON.stringify(is))
}
async function refused(what, promise) {
  try {
    await promise
    problems.push(what + " was not refused")
  } catch (error) {
    if (error.code !== "CLOSED") problems.push(what + ": " + error.code + " " + error.message)
  }
}
const counts = () => {
  const { events, users, items } = recommender.status()
  return { events, users, items, ids: [recommender.ids("user"), recommender.ids("item")] }
}
async function resumed() {
  faults.disarm()
  const started = Date.now()
  while (recommender.state !== "learning" && Date.now() - started < 5000) await wait(10)
  expect("resumed", recommender.state, "learning")
  if (Date.now() - started > 2500) problems.push("it took " + (Date.now() - started) + " ms to resume")
}
const event = (n, more = {}) => ({ user: "user " + (n % 7), item: "item " + (n % 11), timestamp: 1700000000 + n, ...more })
const acknowledged = []
const observe = async (events) => {
  await recommender.observe(events)
  acknowledged.push(...events.map(({ user, item, timestamp, type }) => ({ user, item, timestamp, type })))
}
const tell = (more = {}) => console.log("TOLD " + JSON.stringify({ problems, acknowledged, ...more }))
`

const EVERYTHING = `
await observe(Array.from({ length: 30 }, (_, n) => event(n, { key: "key " + n, ...(n < 3 && { type: "like" }) })))
await recommender.drain()
await recommender.putItems({ item: "put", categories: ["c"] })
await recommender.putNotes("user", [{ id: "user 1", note: { comment: "n" } }])
await observe([event(30)])
for (let round = 0; round < 3; round++) {
  await recommender.drain()
  await observe([event(2000 + round)])
  const before = counts()
  arm()
  // Several at once, of which some come while the first is on its way.
  const asked = [1, 2, 3].map((n) =>
    recommender.observe([
      { user: "refused " + n, item: "never " + n, key: "refused " + n, type: "like" },
      { user: "user 1", item: "never too", key: "again" },
    ]),
  )
  for (const one of asked) await refused("observe", one)
  expect("state", recommender.state, "refusing")
  expect("counts", counts(), before)
  expect("status", [recommender.status().state, typeof recommender.status().reason], ["refusing", "string"])
  await refused("observe once more", recommender.observe(event(99)))
  await refused("putItems", recommender.putItems({ item: "new", hidden: true }))
  await refused("putNotes", recommender.putNotes("user", [{ id: "user 1", note: null }]))
  await refused("retract", recommender.retract("user 0", "item 0"))
  await refused("deleteItems", recommender.deleteItems("item 1"))
  await refused("forget", recommender.forget("user 1"))
  await refused("snapshot", recommender.snapshot())
  await refused("drain", recommender.drain())
  expect("counts after all", counts(), before)
  expect("reading", [(await recommender.recommend("user 1", { count: 3 })).length, recommender.history("refused 1")], [3, []])
  expect("note", recommender.note("user", "user 1"), { comment: "n" })
  expect("feedback", (await recommender.feedback()).feedback.length, 3 + round)
  if (round === 1) await wait(1200)
  expect("state still", recommender.state, "refusing")
  await resumed()
  expect("counts at the end", counts(), before)
  // The keys of what was refused are not remembered, those of before are.
  expect("known", await recommender.observe(event(2, { key: "key 2" })), { accepted: 0, duplicates: 1 })
  const key = "refused " + (round + 1)
  const again = { user: "user 2", item: "never 1", timestamp: 1700000100 + round, key, type: "round " + round }
  expect("taken", await recommender.observe(again), { accepted: 1, duplicates: 0 })
  acknowledged.push({ user: again.user, item: again.item, timestamp: again.timestamp, type: again.type })
  await observe(Array.from({ length: 50 }, (_, n) => event(1000 * (round + 1) + n, { user: "later " + round })))
}
await recommender.drain()
const ids = [recommender.ids("user", { count: 1000 }), recommender.ids("item", { count: 1000 })]
const hash = await recommender.hash()
const { accepted, learned } = recommender.status().events
await recommender.close()
tell({ hash, ids, accepted, learned })
`

const SEGMENT = `
await observe([event(1), event(2)])
arm()
// The delay passes meanwhile: the end of the segment is refused, and so is each event.
for (let n = 0; n < 6; n++) {
  await wait(60)
  if (n > 0) await refused("observe", recommender.observe(event(5)))
}
if (recommender.state !== "refusing") problems.push("not refusing")
expect("segments", [recommender.status().segments, recommender.status().events.queue], [0, 2])
await resumed()
// The segment that wanted to close closes by itself.
const started = Date.now()
while (recommender.status().events.learned < 2 && Date.now() - started < 5000) await wait(10)
expect("learned", [recommender.status().segments, recommender.status().events.learned], [1, 2])
await observe([event(3)])
await recommender.drain()
const hash = await recommender.hash()
await recommender.close()
tell({ hash })
`

const LEAVING = `
await observe([event(1), { user: "b", item: "other", timestamp: 1700000050 }])
await recommender.drain()
arm()
const started = Date.now()
// Ids that are idle leave; that is to be written, and cannot.
while (recommender.state !== "refusing" && Date.now() - started < 15000) await wait(20)
expect("state", recommender.state, "refusing")
await wait(4000)
expect("names stay", [recommender.has("user", "user 1"), recommender.has("user", "b")], [true, true])
await resumed()
while (recommender.has("user", "b") && Date.now() - started < 40000) await wait(20)
expect("left", [recommender.has("user", "user 1"), recommender.has("user", "b"), recommender.ids("item")], [false, false, []])
await observe([{ user: "c", item: "third", timestamp: 1700000060 }])
await recommender.drain()
expect("history", recommender.history("c"), ["third"])
const hash = await recommender.hash()
await recommender.close()
tell({ hash })
`

const ERASING = `
await observe([event(1), { user: "b", item: "other", timestamp: 1700000050 }])
await recommender.drain()
const receipts = []
let failed = 0
const begun = Date.now()
// Other places every time; an erasure that failed is tried again after two seconds.
for (let failAt = 1 + (begun % 4); Date.now() - begun < 30_000; failAt += 1 + (Date.now() % 4)) {
  const user = "ghost " + failAt
  await recommender.observe({ user, item: "item 1", type: "like", comment: "by " + user })
  faults.arm({ folder, classes: CLASSES.split(","), failAt, failCount: 1, code })
  let status
  try {
    status = (await recommender.forget(user)).status
  } catch (error) {
    status = error.code
  }
  const count = faults.counts().failed
  faults.disarm()
  receipts.push(status)
  await resumed()
  if (count === 0) {
    failAt = 0
    continue
  }
  failed++
  const started = Date.now()
  while (recommender.status().erasures.pending > 0 && Date.now() - started < 6000) await wait(20)
  expect("erased at " + failAt, recommender.status().erasures.pending, 0)
  if (status === "CLOSED") expect("erased after all at " + failAt, (await recommender.forget(user)).status, "done")
  expect("gone at " + failAt, recommender.has("user", user), false)
}
await recommender.drain()
const hash = await recommender.hash()
await recommender.close()
tell({ hash, failed, receipts: [...new Set(receipts)] })
`

describeWithFaults("a disk that takes nothing for a while", () => {
  const opened: Recommender[] = []
  let folder = ""
  beforeAll(buildCommand)
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "dess-refusing-"))
  })
  afterEach(async () => {
    for (const recommender of opened.splice(0)) await recommender.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function run(script: string, more: { code?: string; classes?: string; options?: object } = {}) {
    const faults = new Faults({ folder })
    const { code = "ENOSPC", classes = "write,sync,create,truncate,rename", options = {} } = more
    const settings = { FOLDER: folder, CODE: code, CLASSES: classes, OPTIONS: JSON.stringify({ ...SMALL, ...options }) }
    try {
      const text = `Object.assign(process.env, ${JSON.stringify(settings)})\n`
      // Imports come first, whatever stands before them.
      const { stdout, stderr } = await runUnderFaults(faults, text + PREFACE + script)
      const told = /^TOLD (.*)$/m.exec(stdout)?.[1]
      if (told === undefined) throw new Error(`the process ended early: ${stdout}${stderr}`)
      return JSON.parse(told)
    } finally {
      faults.close()
    }
  }

  async function open(directory: string): Promise<LiveRecommender> {
    const recommender = await Recommender.open({ directory, threads: 1 })
    opened.push(recommender)
    return recommender as LiveRecommender
  }

  /** The same state from the snapshot, and from the journal alone. */
  async function expectState(hash: string): Promise<LiveRecommender> {
    const copy = mkdtempSync(join(tmpdir(), "dess-refusing-"))
    cpSync(folder, copy, { recursive: true, filter: (path) => !path.includes("snapshot-") })
    const alone = await open(copy)
    expect(await alone.hash(), "learned from the journal alone").toBe(hash)
    await alone.close()
    rmSync(copy, { recursive: true })
    const again = await open(folder)
    expect(await again.hash()).toBe(hash)
    return again
  }

  test.each([
    ["ENOSPC", "write"],
    ["EIO", "sync"],
    ["EROFS", "write,sync,create,truncate,rename,unlink"],
  ])(
    "%s of %s: everything that writes is refused and takes nothing, reading goes on, and then it goes on",
    async (code, classes) => {
      const { problems, acknowledged, hash, ids, accepted, learned } = await run(EVERYTHING, { code, classes })
      expect(problems).toEqual([])
      expect([accepted, learned]).toEqual([acknowledged.length, acknowledged.length])
      const again = await expectState(hash)
      expect((await exported(again)).map((text) => JSON.parse(text))).toEqual(acknowledged)
      // Ids have the indices of a run that had the acknowledged events only.
      const other = await Recommender.open({ ...SMALL, threads: 1 })
      opened.push(other)
      await other.observe(acknowledged.slice(0, 30))
      await other.putItems({ item: "put", categories: ["c"] })
      await other.observe(acknowledged.slice(30))
      expect([other.ids("user", { count: 1000 }), other.ids("item", { count: 1000 })]).toEqual(ids)
      expect([again.ids("user", { count: 1000 }), again.ids("item", { count: 1000 })]).toEqual(ids)
    },
  )

  test("a segment that wanted to close does so afterwards", async () => {
    const { problems, hash, acknowledged } = await run(SEGMENT, { options: { delay: 100 } })
    expect(problems).toEqual([])
    const again = await expectState(hash)
    expect(again.status().events.accepted).toBe(acknowledged.length)
  })

  test("ids that left give up their names afterwards", async () => {
    const { problems, hash } = await run(LEAVING, { options: { idle: { leave: "2s" } } })
    expect(problems).toEqual([])
    await expectState(hash)
  })

  test.each(["ENOSPC", "EIO"])(
    "%s at any single operation of an erasure: it is done in the end, without a trace",
    { timeout: 300_000 },
    async (code) => {
      const { problems, hash, failed, receipts } = await run(ERASING, { code })
      expect(problems).toEqual([])
      expect(failed).toBeGreaterThan(3)
      expect(receipts).toContain("pending")
      expect(filesWith(folder, "ghost")).toEqual([])
      expect(readdirSync(folder).filter((name) => name.endsWith(".part"))).toEqual([])
      expect(await (await open(folder)).hash()).toBe(hash)
    },
  )
})
