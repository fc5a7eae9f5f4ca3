/** A start with a long journal: what the caller's own function throws, and giving it up. */

import { appendFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, expect, test } from "vitest"
import { encodeFrame, joinRecords } from "../../src/engine/frames.ts"
import { Recommender } from "../../src/engine/open.ts"
import { encodeRecord } from "../../src/engine/records.ts"
import { Replay, type ReplayParts } from "../../src/engine/replay.ts"
import type { RecommenderOptions } from "../../src/engine/types.ts"
import { buildCommand } from "../support/command.ts"

const OPTIONS: RecommenderOptions = { threads: 1, sizes: [2, 4], segment: 50 }
const folders: string[] = []

beforeAll(() => {
  buildCommand()
}, 120_000)
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** A directory whose journal is to be replayed. */
async function crashed(events: number): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "dess-replay-"))
  folders.push(directory)
  const recommender = await Recommender.open({ ...OPTIONS, directory })
  for (let e = 0; e < events; e += 100)
    await recommender.observe(Array.from({ length: 100 }, (_, n) => ({ user: `u${(e + n) % 37}`, item: `i${n}` })))
  await recommender.close()
  for (const name of readdirSync(directory)) if (name.startsWith("snapshot")) rmSync(join(directory, name))
  return directory
}

test("what onReplay throws ends the opening with it, and the directory can be opened again", async () => {
  const directory = await crashed(2000)
  const onReplay = () => {
    throw new RangeError("mine")
  }
  await expect(Recommender.open({ ...OPTIONS, directory, onReplay })).rejects.toThrow(new RangeError("mine"))
  const behind = await Recommender.open({ ...OPTIONS, directory, onReplay, replay: "behind" })
  await expect(behind.caughtUp()).rejects.toThrow(new RangeError("mine"))
  expect(behind.status()).toMatchObject({ state: "failed", reason: "mine" })
  await behind.close()
  const again = await Recommender.open({ ...OPTIONS, directory })
  expect(again.status().events.accepted).toBe(2000)
  await again.close()
}, 60_000)

test("what an asynchronous onReplay rejects with ends the opening, too, and is heard", async () => {
  const directory = await crashed(20_000)
  const unheard: unknown[] = []
  const hear = (error: unknown) => unheard.push(error)
  process.on("unhandledRejection", hear)
  const onReplay = async () => {
    throw new RangeError("mine")
  }
  await expect(Recommender.open({ ...OPTIONS, directory, onReplay })).rejects.toThrow(new RangeError("mine"))
  await new Promise((resolve) => setTimeout(resolve, 50))
  process.off("unhandledRejection", hear)
  expect(unheard).toEqual([])
}, 60_000)

test("a start is given up in the middle of its replay, and goes on from there the next time", async () => {
  const directory = await crashed(20_000)
  const controller = new AbortController()
  const opening = Recommender.open({
    ...OPTIONS,
    directory,
    signal: controller.signal,
    onReplay: ({ events }) => {
      if (events > 0) controller.abort()
    },
  })
  await expect(opening).rejects.toMatchObject({ code: "CLOSED" })
  expect(readdirSync(directory).filter((name) => name.startsWith("snapshot"))).toHaveLength(1)
  const again = await Recommender.open({ ...OPTIONS, directory })
  expect(again.status().events.accepted).toBe(20_000)
  await again.close()
}, 60_000)

test("a start is given up while its journal is still being read, without a change to it", async () => {
  const directory = await crashed(100)
  const [last] = readdirSync(directory).filter((name) => name.startsWith("journal-")).sort().slice(-1) // biome-ignore format: a list
  const payload = joinRecords([encodeRecord({ kind: "tick", time: Date.now() })])
  // Frames that no one could have read by the first turn of the event loop.
  const first = Number(/\d+/.exec(last)?.[0])
  const frames = Array.from({ length: 200_000 }, (_, n) => encodeFrame({ position: first + n, count: 1, payload }))
  appendFileSync(join(directory, last), Buffer.concat(frames))
  const before = readdirSync(directory)
  const controller = new AbortController()
  let turns = 0
  const counting = setInterval(() => {
    if (++turns === 2) controller.abort()
  }, 5)
  await expect(Recommender.open({ ...OPTIONS, directory, signal: controller.signal })).rejects.toMatchObject({
    code: "CLOSED",
    message: expect.stringContaining("it was stopped before"),
  })
  clearInterval(counting)
  expect(turns).toBeGreaterThanOrEqual(2)
  expect(readdirSync(directory)).toEqual(before)
}, 60_000)

test("a replay whose training takes long is stopped within a second all the same, without what that was doing", async () => {
  const segment = { position: 0, record: { kind: "segment", time: 0 } }
  const replay = new Replay({
    ...{ files: { read: () => [segment], bytesFrom: () => 1, next: 1 }, from: 0, snapshotEvents: 1000 },
    intake: { accepted: 0, replay() {} },
    learning: { untilBacklog: () => new Promise(() => {}) },
    learned: () => 0,
    snapshot: () => Promise.reject(new Error("there is nothing whole to be kept")),
  } as unknown as ReplayParts)
  const running = replay.run()
  const began = performance.now()
  expect(await replay.stop(0)).toBe(false)
  expect(performance.now() - began).toBeLessThan(1000)
  expect(await running).toBe(false)
})
