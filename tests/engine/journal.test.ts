/** Group commit, and what happens when the disk refuses. */

import { expect, test } from "vitest"
import { Journal, type JournalHooks } from "../../src/engine/journal.ts"
import type { JournalFiles } from "../../src/engine/journal-files.ts"
import { decodeRecord, type LogRecord } from "../../src/engine/records.ts"

/** A disk that is slow, or full; only writing is asked of it. */
function disk() {
  const written: LogRecord[][] = []
  const files = {
    full: false,
    next: 0,
    async append(records: readonly Uint8Array[]) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      if (files.full) throw new Error("no space left")
      if (records.length > 0) written.push(records.map((bytes) => decodeRecord(bytes, 0)))
      files.next += records.length
    },
    async mend() {
      if (files.full) throw new Error("no space left")
    },
  }
  return { written, files }
}

function open(files: ReturnType<typeof disk>["files"] | undefined, hooks: Partial<JournalHooks> = {}): Journal {
  return new Journal(files as unknown as JournalFiles | undefined, {
    seal: () => {},
    rollback: () => {},
    resumed: () => {},
    ...hooks,
  })
}

const record = (time: number): LogRecord => ({ kind: "segment", time })
const times = (records: readonly LogRecord[]) => records.map((one) => (one.kind === "segment" ? one.time : -1))
const wait = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

test("what comes while a commit is on its way goes together with the next, in order and without gaps", async () => {
  const { written, files } = disk()
  const journal = open(files)
  const order: string[] = []
  const commit = (time: number) => {
    journal.append(record(time), (position) => order.push(`${time} at ${position}`))
    return journal.committed().then(() => order.push(`answer ${time}`))
  }
  const first = commit(0)
  await wait(1)
  const others = [1, 2, 3].map(commit)
  journal.after((position) => order.push(`behind ${position}`))
  expect(journal.position).toBe(4)
  await Promise.all([first, ...others])
  expect(written.map(times)).toEqual([[0], [1, 2, 3]])
  const applied = ["1 at 1", "2 at 2", "3 at 3", "behind 4"]
  expect(order).toEqual(["0 at 0", "answer 0", ...applied, "answer 1", "answer 2", "answer 3"])
})

test("what was gathered is sealed into the commit, and what is done in order sees all before it and nothing after", async () => {
  const { written, files } = disk()
  let gathered: number[] = [7, 8]
  const applied: number[] = []
  const journal: Journal = open(files, {
    seal: () => {
      for (const time of gathered.splice(0)) journal.append(record(time), () => applied.push(time))
    },
  })
  const seen = journal.inOrder(async (position) => ({ position, applied: [...applied] }))
  gathered = [9]
  await journal.committed()
  expect(await seen).toEqual({ position: 2, applied: [7, 8] })
  expect(written.map(times)).toEqual([[7, 8, 9]])
})

test("a full disk: every caller gets an error, nothing after it is applied, and all is rolled back at once", async () => {
  const { files, written } = disk()
  let rollbacks = 0
  const journal = open(files, { rollback: () => rollbacks++ })
  files.full = true
  let applied = false
  journal.append(record(1), () => {
    applied = true
  })
  const first = journal.committed()
  await wait(1)
  journal.append(record(2), () => {
    applied = true
  })
  const second = journal.committed()
  await expect(first).rejects.toThrow(/writing: expected a disk that takes it, got: no space left; nothing was taken/)
  await expect(second).rejects.toMatchObject({ code: "CLOSED" })
  await expect(journal.committed()).rejects.toMatchObject({ code: "CLOSED" })
  await expect(journal.inOrder(async () => 1)).rejects.toMatchObject({ code: "CLOSED" })
  expect(applied).toBe(false)
  expect(rollbacks).toBeGreaterThan(0)
  expect(journal.position).toBe(0)
  expect(journal.refusal).toMatchObject({ code: "CLOSED" })
  expect(written).toEqual([])
  journal.close()
})

test("it is tried again by itself, and goes on where it was", async () => {
  const { files, written } = disk()
  let resumed = 0
  let ready = false
  const journal = open(files, {
    resumed: () => resumed++,
    beforeResuming: async () => {
      if (!ready) throw new Error("something else is not")
    },
  })
  files.full = true
  journal.append(record(1), () => {})
  await expect(journal.committed()).rejects.toMatchObject({ code: "CLOSED" })
  await expect(journal.retry()).rejects.toThrow(/no space left/)
  files.full = false
  await expect(journal.retry()).rejects.toThrow(/something else is not/)
  expect(resumed).toBe(0)
  ready = true
  await expect.poll(() => resumed, { timeout: 3000 }).toBe(1)
  expect(journal.refusal).toBeUndefined()
  const positions: number[] = []
  journal.append(record(2), (position) => positions.push(position))
  await journal.committed()
  expect(positions).toEqual([0])
  expect(written.map(times)).toEqual([[2]])
})

test("refused from outside while a commit is on its way: what is on disk is applied first, what comes after is taken back", async () => {
  const { files, written } = disk()
  const applied: number[] = []
  let pending: number[] = []
  const journal = open(files, {
    rollback: () => {
      pending = []
    },
  })
  const add = (time: number) => {
    pending.push(time)
    journal.append(record(time), (position) => {
      expect(pending.shift()).toBe(time)
      applied.push(position)
    })
    return journal.committed()
  }
  const first = add(1)
  await wait(1)
  const second = add(2)
  journal.refuse(new Error("the table"))
  await first
  await expect(second).rejects.toThrow(/got: the table/)
  expect(applied).toEqual([0])
  expect(pending).toEqual([])
  expect(written.map(times)).toEqual([[1]])
  expect(journal.position).toBe(1)
  journal.close()
})

test("work on the files waits for the commit on its way, and the next commit for it", async () => {
  const { files } = disk()
  const journal = open(files)
  const order: string[] = []
  journal.append(record(1), () => order.push("first"))
  const first = journal.committed()
  await wait(1)
  const work = journal.alone(async () => {
    order.push("work")
    await wait(10)
    order.push("done")
    return 5
  })
  journal.append(record(2), () => order.push("second"))
  await Promise.all([first, work, journal.committed()])
  expect(await work).toBe(5)
  expect(order).toEqual(["first", "work", "done", "second"])
  await expect(journal.alone(() => Promise.reject(new Error("no")))).rejects.toThrow("no")
  journal.append(record(3), () => order.push("third"))
  await journal.committed()
  expect(order.at(-1)).toBe("third")
})

test("without files nothing waits", async () => {
  const journal = open(undefined)
  const positions: number[] = []
  for (const time of [1, 2]) journal.append(record(time), (position) => positions.push(position))
  await journal.committed()
  expect(positions).toEqual([0, 1])
  expect(journal.position).toBe(2)
  expect([...journal.read(0)]).toEqual([])
})
