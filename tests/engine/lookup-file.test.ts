/** The file of the lookup table: damage is found, deleted text goes, nobody else can read it. */

import {
  closeSync,
  copyFileSync,
  mkdirSync,
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
import { join } from "node:path"
import { open as openLmdb } from "lmdb"
import { afterEach, beforeEach, expect, test } from "vitest"
import { openLmdbLookup } from "../../src/engine/lmdb-lookup.ts"
import type { Lookup, LookupChange } from "../../src/engine/lookup.ts"
import { hashOf } from "../support/lookup-model.ts"

let folder: string
const opened: Lookup[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dess-lookup-"))
})
afterEach(async () => {
  for (const lookup of opened.splice(0)) await lookup.close().catch(() => {})
  rmSync(folder, { recursive: true, force: true })
})

async function open(): Promise<Lookup> {
  const lookup = await openLmdbLookup(folder, {
    onFailure: (error) => {
      throw error
    },
  })
  opened.push(lookup)
  return lookup
}

const file = (n = 1) => join(folder, `lookup-${n}.mdb`)
const feedback = (user: number, comment: string): LookupChange => ({
  kind: "feedback",
  user,
  item: user % 7,
  type: "like",
  entry: { timestamp: user, comment },
})

/** A table with something of each kind, closed. */
async function write(): Promise<void> {
  const lookup = await open()
  for (let n = 0; n < 300; n++)
    lookup.add(
      [
        feedback(n, `secret ${n}!`),
        { kind: "key", hash: hashOf(`${n}`), order: n },
        { kind: "note", side: "user", id: `user ${n}!`, note: { comment: `private ${n}!` } },
      ],
      n,
    )
  await lookup.close()
}

/** Changes one byte of every copy of a text. */
function damage(text: string): void {
  const bytes = readFileSync(file())
  const handle = openSync(file(), "r+")
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) writeSync(handle, "X", at)
  closeSync(handle)
}

const invalid = (message: RegExp) =>
  expect.objectContaining({ code: "INVALID_DATA", message: expect.stringMatching(message) })

test("a damaged value is found by every way that leads to it", async () => {
  await write()
  damage("secret 20!")
  damage("private 30!")
  damage(hashOf("40").toString("latin1"))
  const lookup = await open()
  const found = invalid(/table feedback.*made again from the journal/)
  expect(() => lookup.feedbackEntry({ user: 20, item: 6, type: "like" })).toThrow(found)
  expect(() => [...lookup.feedback({ user: 20 })]).toThrow(found)
  expect(() => [...lookup.feedback({ item: 6 })]).toThrow(found)
  expect(() => [...lookup.feedback({})]).toThrow(found)
  expect(() => lookup.note("user", "user 30!")).toThrow(invalid(/table notes/))
  expect(() => [...lookup.noteIds("user")]).toThrow(invalid(/table notes/))
  await expect(lookup.compact()).rejects.toThrow(found)
  expect(lookup.feedbackEntry({ user: 21, item: 0, type: "like" }), "others can be read").toBeDefined()
  expect(readdirSync(folder).sort()).toEqual(["lookup-1.mdb", "lookup-1.mdb-lock"])
})

test("a file that is cut short, empty or something else is refused with a sentence", async () => {
  await write()
  const whole = readFileSync(file())
  for (const bytes of [whole.length - 4096, 8192, 5000, 100, 0]) {
    writeFileSync(file(), whole)
    truncateSync(file(), bytes)
    await expect(open(), `${bytes} bytes`).rejects.toThrow(
      invalid(/^lookup lookup-1\.mdb: expected .*; delete the lookup/),
    )
  }
  writeFileSync(file(), Buffer.alloc(20_000, "no LMDB"))
  await expect(open()).rejects.toThrow(invalid(/expected an LMDB file/))
  rmSync(file())
  const other = openLmdb({ path: file(), noSubdir: true })
  await other.put("some", "thing")
  await other.close()
  await expect(open()).rejects.toThrow(invalid(/expected format 1, got "none"/))
  writeFileSync(file(), whole)
  expect((await open()).feedbackEntry({ user: 20, item: 6, type: "like" })?.comment).toBe("secret 20!")
})

test("compaction leaves no deleted text in the file, and everything else", async () => {
  await write()
  const lookup = await open()
  for (let n = 0; n < 300; n += 3)
    lookup.add(
      [
        { kind: "feedback", user: n, item: n % 7, type: "like", entry: null },
        { kind: "note", side: "user", id: `user ${n}!`, note: null },
      ],
      300 + n,
    )
  lookup.add([feedback(1, "another")], 700)
  await lookup.dropKeys(100)
  const before = lookup.bytes
  await lookup.compact()
  expect(lookup.bytes).toBeLessThanOrEqual(before)
  expect(readdirSync(folder).sort()).toEqual(["lookup-2.mdb", "lookup-2.mdb-lock"])
  const bytes = readFileSync(file(2))
  for (let n = 0; n < 300; n++) {
    const gone = n % 3 === 0
    expect(bytes.includes(`secret ${n}!`), `secret ${n}`).toBe(!gone && n !== 1)
    expect(bytes.includes(`private ${n}!`), `private ${n}`).toBe(!gone)
    expect(bytes.includes(`user ${n}!`), `user ${n}`).toBe(!gone)
    expect(bytes.includes(hashOf(`${n}`)), `hash ${n}`).toBe(n >= 100)
  }
  await lookup.close()
  const again = await open()
  expect([...again.feedback({})].length).toBe(200)
  expect([again.applied, again.nextKey]).toEqual([700, 300])
})

test("what a crash left half written goes at the next start; the highest number counts", async () => {
  await write()
  copyFileSync(file(), file(10))
  copyFileSync(file(), file(9))
  truncateSync(file(9), 100)
  mkdirSync(join(folder, "lookup-11.part"))
  writeFileSync(join(folder, "lookup-11.part", "lookup-11.mdb"), "half")
  writeFileSync(join(folder, "lookup-12.mdb-lock"), "")
  writeFileSync(join(folder, "other.mdb"), "")
  await open()
  expect(readdirSync(folder).sort()).toEqual(["lookup-10.mdb", "lookup-10.mdb-lock", "other.mdb"])
})

test("only the owner can read the files", async () => {
  const mask = process.umask(0)
  try {
    await write()
    const lookup = await open()
    for (let n = 1; n <= 2; n++) {
      for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600)
      await lookup.compact()
    }
  } finally {
    process.umask(mask)
  }
})
