/** Group commit. */

import { expect, test } from "vitest"
import { Journal } from "../../src/engine/journal.ts"
import type { Store, Writes } from "../../src/engine/store.ts"

/** A disk that is slow, or full; only writing is asked of it. */
function disk(options: { full?: boolean } = {}) {
  const written: Writes[] = []
  const write = async (writes: Writes) => {
    await new Promise((resolve) => setTimeout(resolve, 5))
    if (options.full) throw new Error("no space left")
    written.push(writes)
  }
  return { written, store: { write } as unknown as Store }
}

const row = (user: number) => ({ user, item: 1, rating: 5, timestamp: 7 })

test("what comes while a commit is on its way goes together with the next, in order and without gaps", async () => {
  const { written, store } = disk()
  const journal = new Journal(store, () => {})
  const order: string[] = []
  const commit = (user: number) => {
    journal.event(row(user))
    return journal.committed().then(() => order.push(`answer ${user}`))
  }
  const first = commit(0)
  await new Promise((resolve) => setTimeout(resolve, 1))
  const others = [1, 2, 3].map(commit)
  journal.append({ kind: "segment", time: 1 })
  journal.after(() => order.push("segment"))
  await Promise.all([first, ...others])
  expect(
    written.map(({ log }) => log.map(({ record }) => (record.kind === "events" ? [...record.user] : record.kind))),
  ).toEqual([[[0]], [[1, 2, 3], "segment"]])
  expect(written.flatMap(({ log }) => log.map(({ position }) => position))).toEqual([0, 1, 2])
  expect(order).toEqual(["answer 0", "segment", "answer 1", "answer 2", "answer 3"])
})

test("the open segment can lose a user, on disk too", async () => {
  const { written, store } = disk()
  const journal = new Journal(store, () => {})
  for (const user of [4, 5, 4]) journal.event(row(user))
  await journal.committed()
  journal.event(row(4))
  journal.event(row(6))
  journal.removeOpen(4)
  expect([...journal.openRows().user]).toEqual([5, 6])
  await journal.committed()
  const last = new Map(written.flatMap(({ log }) => log.map(({ position, record }) => [position, record])))
  expect([...last.values()].map((record) => (record.kind === "events" ? [...record.user] : []))).toEqual([
    [-1, 5, -1],
    [-1, 6],
  ])
})

test("a full disk: every caller is told, nothing after it is accepted or learned", async () => {
  const { store } = disk({ full: true })
  const failures: string[] = []
  const journal = new Journal(store, (error) => failures.push(error.code))
  let learned = false
  journal.event(row(1))
  journal.after(() => {
    learned = true
  })
  await expect(journal.committed()).rejects.toThrow(/journal: expected to be writable, got: no space left/)
  await expect(journal.committed()).rejects.toMatchObject({ code: "CLOSED" })
  expect(learned).toBe(false)
  expect(failures).toContain("CLOSED")
})

test("without a store nothing waits", async () => {
  const journal = new Journal(undefined, () => {})
  journal.event(row(1))
  await journal.committed()
  expect(journal.position).toBe(1)
})
