/** The files of the lookup table: damage is found, deleted text goes, nobody else can read them. */

import {
  copyFileSync,
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
import { afterEach, beforeEach, expect, test } from "vitest"
import { Lookup, type LookupChange } from "../../src/engine/lookup.ts"
import { mergeRows, type Row, SortedRun, writeRun } from "../../src/engine/sorted-run.ts"
import type { DessError } from "../../src/errors.ts"
import { hashOf, randomOf } from "../support/lookup-model.ts"

let folder: string
const opened: Lookup[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dess-lookup-"))
})
afterEach(async () => {
  for (const lookup of opened.splice(0)) await lookup.close().catch(() => {})
  rmSync(folder, { recursive: true, force: true })
})

function open(): Lookup {
  const onFailure = (error: Error) => {
    throw error
  }
  const lookup = new Lookup({ directory: folder, mostKeys: 0, onFailure })
  opened.push(lookup)
  return lookup
}

const feedback = (user: number, comment: string): LookupChange => ({
  kind: "feedback",
  user,
  item: user % 7,
  type: "like",
  entry: { timestamp: user, comment },
})

/** A table with something of each kind in so many files, closed. */
async function write(count: number, files = 1): Promise<void> {
  const lookup = open()
  for (let n = 0; n < count; n++) {
    lookup.add(
      [
        feedback(n, `secret ${n}!`),
        { kind: "key", hash: hashOf(`${n}`), order: n },
        { kind: "note", side: "user", id: `user ${n}!`, note: { comment: `private ${n}!` } },
      ],
      n,
    )
    if ((n + 1) % Math.ceil(count / files) === 0) await lookup.flush(n)
  }
  await lookup.close()
}

const runs = () => readdirSync(folder).sort()

/** Everything that can be asked for. */
function answersOf(lookup: Lookup, count: number): unknown {
  const ns = Array.from({ length: count }, (_, n) => n)
  return [
    [...lookup.feedback({})],
    [...lookup.feedback({ item: 3 })],
    ns.map((n) => [lookup.hasKey(hashOf(`${n}`)), lookup.note("user", `user ${n}!`)]),
    [...lookup.noteIds("user")],
    [lookup.applied, lookup.nextKey],
  ]
}

test("every bit of a small table flipped, one at a time: it is told, or everything is as before", async () => {
  await write(2)
  const [name] = runs()
  const bytes = readFileSync(join(folder, name))
  const before = JSON.stringify(answersOf(open(), 2))
  const silent: number[] = []
  for (let bit = 0; bit < 8 * bytes.length; bit++) {
    const flipped = Buffer.from(bytes)
    flipped[bit >> 3] ^= 1 << (bit & 7)
    writeFileSync(join(folder, name), flipped)
    let lookup: Lookup | undefined
    try {
      lookup = new Lookup({ directory: folder, mostKeys: 0, onFailure: () => {} })
      if (JSON.stringify(answersOf(lookup, 2)) !== before) silent.push(bit)
    } catch (error) {
      const { code, message } = error as DessError
      if (code !== "INVALID_DATA" || !message.startsWith("lookup table")) throw error
    } finally {
      await lookup?.close()
    }
  }
  expect(silent).toEqual([])
})

test("a damaged block is found by every way that leads to it, and the hook says what is thrown", async () => {
  await write(3000)
  const [name] = runs()
  const bytes = readFileSync(join(folder, name))
  bytes[bytes.indexOf("secret 20!")] ^= 1
  bytes[bytes.indexOf("private 30!")] ^= 1
  writeFileSync(join(folder, name), bytes)
  const found: string[] = []
  const onDamage = (error: Error) => {
    found.push(error.message)
    return new Error("told") as never
  }
  const lookup = new Lookup({ directory: folder, mostKeys: 0, onFailure: () => {}, onDamage })
  opened.push(lookup)
  expect(() => lookup.feedbackEntry({ user: 20, item: 6, type: "like" })).toThrow("told")
  expect(() => [...lookup.feedback({ user: 20 })]).toThrow("told")
  expect(() => [...lookup.feedback({})]).toThrow("told")
  expect(() => lookup.note("user", "user 30!")).toThrow("told")
  expect(() => [...lookup.noteIds("user")]).toThrow("told")
  lookup.add([{ kind: "dropFeedback", side: "user", index: 20 }], 3000)
  await expect(lookup.flush(3001)).rejects.toThrow("told")
  expect(found.every((message) => /expected block \d+ with its checksum, got a damaged one/.test(message))).toBe(true)
  expect(lookup.feedbackEntry({ user: 2900, item: 2900 % 7, type: "like" }), "others can be read").toBeDefined()
  expect(runs()).toEqual([name])
})

test("a file that is cut short, empty, another or missing is refused with a sentence", async () => {
  await write(300, 3)
  const names = runs()
  const last = join(folder, names[names.length - 1])
  const whole = readFileSync(last)
  const refused = (problem: RegExp) =>
    expect(open).toThrow(expect.objectContaining({ code: "INVALID_DATA", message: expect.stringMatching(problem) }))
  for (const bytes of [whole.length - 1, whole.length - 80, 100, 71, 0]) {
    writeFileSync(last, whole)
    truncateSync(last, bytes)
    refused(/^lookup table, lookup-\d+-\d+\.run: expected /)
  }
  writeFileSync(last, Buffer.alloc(20_000, "no table"))
  refused(/expected an end with its checksum/)
  writeFileSync(last, whole)
  copyFileSync(last, join(folder, "lookup-90-95.run"))
  refused(/lookup-90-95\.run: expected write \d+ before it, got none/)
  rmSync(join(folder, "lookup-90-95.run"))
  expect(open().feedbackEntry({ user: 20, item: 6, type: "like" })?.comment).toBe("secret 20!")
})

test("compaction leaves no deleted text in the files, and everything else", async () => {
  await write(300, 4)
  const lookup = open()
  for (let n = 0; n < 300; n += 3)
    lookup.add(
      [
        { kind: "feedback", user: n, item: n % 7, type: "like", entry: null },
        { kind: "note", side: "user", id: `user ${n}!`, note: null },
      ],
      300 + n,
    )
  lookup.add([feedback(1, "another")], 700)
  lookup.dropKeys(100)
  await lookup.compact()
  const [name, ...others] = runs()
  expect(others).toEqual([])
  const bytes = readFileSync(join(folder, name))
  for (let n = 0; n < 300; n++) {
    const gone = n % 3 === 0
    expect(bytes.includes(`secret ${n}!`), `secret ${n}`).toBe(!gone && n !== 1)
    expect(bytes.includes(`private ${n}!`), `private ${n}`).toBe(!gone)
    expect(bytes.includes(`user ${n}!`), `user ${n}`).toBe(!gone)
    expect(bytes.includes(hashOf(`${n}`)), `hash ${n}`).toBe(n >= 100)
  }
  lookup.dropKeys(200)
  await lookup.compact()
  expect(readFileSync(join(folder, runs()[0])).includes(hashOf("150"))).toBe(false)
  await lookup.close()
  const again = open()
  expect([...again.feedback({})].length).toBe(200)
  expect([again.applied, again.nextKey, again.hasKey(hashOf("250"))]).toEqual([700, 300, true])
})

test("what a crash left of a merge goes at the next start; others' files stay", async () => {
  await write(30, 1)
  const [name] = runs()
  for (const copy of ["lookup-1-1.run", "lookup-2-9.run"]) copyFileSync(join(folder, name), join(folder, copy))
  copyFileSync(join(folder, name), join(folder, "lookup-1-9.run"))
  writeFileSync(join(folder, "other.run"), "")
  expect([...open().feedback({})].length).toBe(30)
  expect(runs()).toEqual(["lookup-1-9.run", "other.run"])
})

test("only the owner can read the files", async () => {
  const mask = process.umask(0)
  try {
    await write(30, 2)
    await open().compact()
    for (const name of runs()) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600)
  } finally {
    process.umask(mask)
  }
})

test.each([1, 2, 3])("rows of any length are found again, alone and in ranges, seed %i", async (seed) => {
  const random = randomOf(seed)
  const text = (most: number) => Array.from({ length: random(most) }, () => String.fromCharCode(random(256))).join("")
  const rows = new Map(
    Array.from({ length: 800 }, () => [text(9), random(5) === 0 ? null : text(random(50) === 0 ? 20_000 : 60)]),
  )
  const sorted: Row[] = [...rows].map(([key, value]) => ({ key, value })).sort((a, b) => (a.key < b.key ? -1 : 1))
  const notes = { applied: 2 ** 40, nextKey: 3, keysFrom: 2 }
  const p = { notes, isFiltered: () => true, mostFiltered: rows.size }
  const run = await writeRun(join(folder, "lookup-1-1.run"), sorted, p)
  try {
    expect([run.notes, run.filtered]).toEqual([notes, rows.size])
    expect([...run.rows({ start: "", end: undefined })]).toEqual(sorted)
    for (const { key, value } of sorted) expect(run.get(key)).toBe(value)
    for (let n = 0; n < 300; n++) {
      const [start, end] = [text(9), text(9)]
      expect(run.get(start)).toBe(rows.get(start))
      const expected = sorted.filter(({ key }) => key >= start && key < end)
      expect([...run.rows({ start, end })]).toEqual(expected)
    }
  } finally {
    run.close()
  }
})

test("the filter spares nearly all reads of keys that are not there", async () => {
  const rows = Array.from({ length: 20_000 }, (_, n) => ({ key: `k${String(n).padStart(6, "0")}`, value: "" }))
  const p = { notes: { applied: 0, nextKey: 0, keysFrom: 0 }, isFiltered: () => true, mostFiltered: rows.length }
  const path = join(folder, "lookup-1-1.run")
  ;(await writeRun(path, rows, p)).close()
  const whole = readFileSync(path)
  // Every block is damaged: who reads one is told.
  for (let at = 0; at < 20_000 * 13; at += 64) whole[at] ^= 1
  writeFileSync(path, whole)
  const run = new SortedRun(path)
  let read = 0
  for (let n = 0; n < 10_000; n++)
    try {
      run.get(`x${n}`)
    } catch {
      read++
    }
  run.close()
  expect(read).toBeLessThan(300)
})

test("of rows with the same key the one of the last source counts", () => {
  const source = (...rows: Row[]) => rows[Symbol.iterator]()
  const row = (key: string, value: string | null) => ({ key, value })
  const merged = [...mergeRows([source(row("a", "1"), row("c", "1")), source(row("a", null), row("b", "2")), source()])]
  expect(merged).toEqual([row("a", null), row("b", "2"), row("c", "1")])
})
