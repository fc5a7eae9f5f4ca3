/** A lookup table that is damaged: made again from the journal by itself, or refused with what to do. */

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import type { RecommenderOptions } from "../../src/engine/types.ts"
import { buildCommand } from "../support/command.ts"

let directory: string
beforeAll(buildCommand)
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "dess-lookup-holder-"))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const open = (options: Partial<RecommenderOptions> = {}) =>
  Recommender.open({ directory, threads: 1, segment: 100, ...options }) as Promise<LiveRecommender>
const events = Array.from({ length: 300 }, (_, n) => ({ user: `user ${n}`, item: "dune", type: "like", key: `${n}` }))

/** Turns over one bit of what a text stands in, in the file of the table. */
function damage(text: string): void {
  const name = readdirSync(directory).find((one) => one.endsWith(".run")) as string
  const bytes = readFileSync(join(directory, name))
  bytes[bytes.indexOf(text)] ^= 1
  writeFileSync(join(directory, name), bytes)
}

async function fill(options: Partial<RecommenderOptions> = {}): Promise<void> {
  const recommender = await open(options)
  await recommender.observe(events)
  await recommender.close()
}

test("while it runs: who meets the damage is refused, then it is made again, and no key is lost", async () => {
  await fill()
  damage("like[1")
  const recommender = await open()
  await expect(recommender.observe(events)).rejects.toMatchObject({ code: "CLOSED" })
  await expect.poll(() => recommender.status().state, { timeout: 20_000 }).toBe("learning")
  expect(recommender.status().damaged).toEqual([expect.stringMatching(/^lookup table, .*; it was made again/)])
  expect(await recommender.observe(events)).toEqual({ accepted: 0, duplicates: 300 })
  expect((await recommender.feedback({ item: "dune", count: 500 })).feedback.length).toBe(300)
  await recommender.close()
  const again = await open()
  expect(again.status().damaged).toBeUndefined()
  expect(await again.observe(events)).toEqual({ accepted: 0, duplicates: 300 })
  await again.close()
})

test("where the journal does not reach back it says what to do, and recover does it", async () => {
  await fill({ keepJournal: "none" })
  damage("like[1")
  const recommender = await open({ keepJournal: "none" })
  await expect(recommender.observe(events)).rejects.toThrow(/lookup table, .*; open the directory with recover/)
  expect(await recommender.observe({ user: "new", item: "emma" }), "the rest goes on").toMatchObject({ accepted: 1 })
  await recommender.close()
  const mended = await open({ keepJournal: "none", recover: true })
  expect(mended.status().damaged?.join()).toMatch(/made again from the journal.*is gone/)
  expect(await mended.observe(events)).toMatchObject({ accepted: 300 })
  await mended.close()
})
