/** What the main thread does itself with the disk while it serves: nothing that waits for the device. */

import { beforeAll, expect, test, vi } from "vitest"
import { JournalFiles } from "../../src/engine/journal-files.ts"
import { buildCommand } from "../support/command.ts"
import { randomEvents, useDirectories } from "../support/directories.ts"

/** Synchronous calls that wait until something is on disk, or is gone from it. */
const { waited } = vi.hoisted(() => ({ waited: [] as string[] }))

vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>()
  const noted = <T extends (...args: never[]) => unknown>(name: string, call: T) =>
    ((...args: Parameters<T>) => {
      waited.push(`${name} ${args[0]}`)
      return call(...args)
    }) as T
  const { fsyncSync, fdatasyncSync, rmSync, unlinkSync } = fs
  const calls = { fsyncSync, fdatasyncSync, rmSync, unlinkSync }
  return {
    ...fs,
    ...Object.fromEntries(Object.entries(calls).map(([name, call]) => [name, noted(name, call as never)])),
  }
})

const { folder, open } = useDirectories()
beforeAll(buildCommand)

test.each(["none", "snapshots", "all"] as const)(
  "snapshots and erasures flush and remove nothing while everybody waits (journal kept: %s)",
  async (keepJournal) => {
    const recommender = await open(folder(), { keepJournal })
    const lives = (round: number) =>
      randomEvents(60, round).map((event, n) => ({
        ...event,
        type: "rate",
        comment: `${round} ${n}`,
        key: `${round} ${n}`,
      }))
    waited.length = 0
    for (let round = 0; round < 6; round++) {
      await recommender.observe(lives(round))
      await recommender.snapshot()
    }
    const receipts = await Promise.all(["user 1", "user 2"].map((user) => recommender.forget(user)))
    expect(receipts.map(({ status }) => status)).toEqual(["done", "done"])
    expect(waited).toEqual([])
  },
)

test("nor does a journal that goes on in a new file", async () => {
  const directory = folder()
  const id = "01234567-89ab-4cde-8f01-23456789abcd"
  JournalFiles.create(directory, id)
  const files = await JournalFiles.open(directory, id)
  await files.append([new Uint8Array(100)])
  waited.length = 0
  await files.roll()
  await files.append([new Uint8Array(100)])
  await files.roll()
  await files.drop(1)
  expect(waited).toEqual([])
  await files.close()
})
