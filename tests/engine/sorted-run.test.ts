/** The files of the lookup table: damage is found, deleted text goes, nobody else can read them. */

import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { Lookup, type LookupChange } from "../../src/engine/lookup.ts"
import { idPrefix, noteKey, TABLES } from "../../src/engine/lookup-keys.ts"
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

/** A table with something of each kind in this many files, closed. */
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

/** Deletes every third's feedback and note, replaces one and erases what that leaves in the files. */
async function eraseThirds(lookup: Lookup, count: number): Promise<void> {
  for (let n = 0; n < count; n += 3)
    lookup.add(
      [
        { kind: "feedback", user: n, item: n % 7, type: "like", entry: null },
        { kind: "note", side: "user", id: `user ${n}!`, note: null },
      ],
      count + n,
    )
  lookup.add([feedback(1, "another")], 7 * count)
  await lookup.erase(TABLES)
}

test("erasing leaves no deleted text in any file, not even a key, and everything else", async () => {
  await write(300, 3)
  const names = runs()
  const lookup = open()
  await eraseThirds(lookup, 300)
  expect(runs().length).toBe(names.length + 1)
  const bytes = Buffer.concat(runs().map((name) => readFileSync(join(folder, name))))
  for (let n = 0; n < 300; n++) {
    const gone = n % 3 === 0
    expect(bytes.includes(`secret ${n}!`), `secret ${n}`).toBe(!gone && n !== 1)
    expect(bytes.includes(`private ${n}!`), `private ${n}`).toBe(!gone)
    expect(bytes.includes(`user ${n}!`), `user ${n}`).toBe(!gone)
    expect(bytes.includes(noteKey("user", `user ${n}!`), 0, "latin1"), `key ${n}`).toBe(!gone)
  }
  const check = (one: Lookup) => {
    expect([...one.feedback({})].map(({ user }) => user)).toEqual(numbers.filter((n) => n % 3 !== 0))
    expect([...one.feedback({ item: 3 })].length).toBe(numbers.filter((n) => n % 3 !== 0 && n % 7 === 3).length)
    for (const n of numbers) expect(one.note("user", `user ${n}!`) === undefined, `note ${n}`).toBe(n % 3 === 0)
    expect([one.applied, one.nextKey, one.hasKey(hashOf("250"))]).toEqual([2100, 300, true])
  }
  const numbers = Array.from({ length: 300 }, (_, n) => n)
  check(lookup)
  await lookup.close()
  const again = open()
  check(again)
  // Twice, and where blocks have nothing left.
  for (const n of numbers.slice(0, 290)) again.add([{ kind: "dropFeedback", side: "user", index: n }], 3000)
  await again.erase(numbers.slice(0, 290).map((n) => idPrefix("user", n)))
  expect([...again.feedback({})].length).toBe(7)
  expect(again.note("user", "user 1!")).toBeDefined()
  await again.close()
  expect([...open().feedback({})].length).toBe(7)
})

test("erasing one id rewrites the blocks it is in, not the file", async () => {
  await write(3000)
  const lookup = open()
  const path = join(folder, runs()[0])
  const before = readFileSync(path)
  const { ino } = statSync(path)
  lookup.add([{ kind: "dropFeedback", side: "user", index: 1500 }], 4000)
  await lookup.erase([idPrefix("user", 1500)])
  const after = readFileSync(path)
  expect(statSync(path).ino).toBe(ino)
  expect(after.includes("secret 1500!")).toBe(false)
  const changed = new Set<number>()
  for (let at = 0; at < before.length; at++) if (before[at] !== after[at]) changed.add(at >> 12)
  // Those of both orders, and where the index has their checksums and first keys.
  expect(before.length >> 12).toBeGreaterThan(90)
  expect(changed.size).toBeLessThan(12)
})

test("what a crash interrupts of an erasure is done at the next start, whatever was written of it", async () => {
  await write(300)
  const [name] = runs()
  const path = join(folder, name)
  const before = readFileSync(path)
  let lookup = open()
  const user = 100
  lookup.add([{ kind: "dropFeedback", side: "user", index: user }], 400)
  await lookup.flush(401)
  renameSync(path, `${path}.away`)
  await expect(lookup.erase([idPrefix("user", user)])).rejects.toMatchObject({ code: "UNAVAILABLE" })
  renameSync(`${path}.away`, path)
  expect(lookup.feedbackEntry({ user, item: user % 7, type: "like" })).toBeUndefined()
  const over = readFileSync(`${path}.over`)
  const later = join(folder, runs().find((one) => one.endsWith(".run") && one !== name) as string)
  const second = readFileSync(later)
  await lookup.close()
  const done = readFileSync(path)
  for (let cut = 0; cut <= done.length; cut += 997) {
    for (const one of runs()) rmSync(join(folder, one))
    writeFileSync(later, second)
    writeFileSync(path, Buffer.concat([done.subarray(0, cut), before.subarray(cut)]))
    writeFileSync(`${path}.over`, over)
    lookup = open()
    expect(lookup.feedbackEntry({ user, item: user % 7, type: "like" })).toBeUndefined()
    expect([...lookup.feedback({})].length).toBe(299)
    expect(lookup.note("user", `user ${user}!`)).toBeDefined()
    await lookup.close()
    expect(runs().some((one) => one.endsWith(".over"))).toBe(false)
    expect(readFileSync(path).includes(`secret ${user}!`)).toBe(false)
  }
  over[over.length >> 1] ^= 1
  writeFileSync(`${path}.over`, over)
  expect(open).toThrow(/expected what is to be written over it with its checksum/)
})

test("keys that were dropped go from the disk when files are merged", async () => {
  await write(300)
  const lookup = open()
  lookup.dropKeys(200)
  for (let n = 0; n < 3; n++) {
    lookup.add([feedback(n, "x".repeat(20_000))], 300 + n)
    await lookup.flush(300 + n)
  }
  await lookup.close()
  const [name, ...others] = runs()
  expect(others).toEqual([])
  expect(readFileSync(join(folder, name)).includes(hashOf("150"))).toBe(false)
  expect(readFileSync(join(folder, name)).includes(hashOf("250"))).toBe(true)
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
    await open().erase(TABLES)
    for (const name of runs()) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600)
  } finally {
    process.umask(mask)
  }
})

test.each([1, 2, 3])("rows of any length are found again, alone and in ranges, seed %i", async (seed) => {
  const random = randomOf(seed)
  const text = (most: number) => Array.from({ length: random(most) }, () => String.fromCharCode(random(256))).join("")
  const rows = new Map(
    Array.from({ length: 800 }, () => [`x${text(9)}`, random(5) === 0 ? null : text(random(50) === 0 ? 20_000 : 60)]),
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
