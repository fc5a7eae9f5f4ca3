/** The journal's files: appending, crashes at every byte, damage of every bit, packing, erasing, mending. */

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, describe, expect, test } from "vitest"
import { Journal } from "../../src/engine/journal.ts"
import { JournalFiles, recoverJournal } from "../../src/engine/journal-files.ts"
import { encodeRecord, eventsOf, type LogRecord } from "../../src/engine/records.ts"
import { giveWay } from "../../src/engine/turns.ts"
import { Random } from "../../src/kernels/random.ts"

const ID = "01234567-89ab-4cde-8f01-23456789abcd"
const folders: string[] = []
const open: JournalFiles[] = []

afterEach(async () => {
  for (const files of open.splice(0)) await files.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "dess-journal-"))
  folders.push(path)
  return path
}

async function openFiles(directory: string, options = {}): Promise<JournalFiles> {
  const files = await JournalFiles.open(directory, ID, options)
  open.push(files)
  return files
}

async function create(): Promise<{ directory: string; files: JournalFiles }> {
  const directory = folder()
  JournalFiles.create(directory, ID)
  return { directory, files: await openFiles(directory) }
}

const logs = (directory: string) => readdirSync(directory).filter((name) => name.endsWith(".log")).sort() // biome-ignore format: a list
const journals = (directory: string) => readdirSync(directory).sort()

/** Positions of all records. */
const all = (files: JournalFiles) => Array.from(files.read(0), ({ position }) => position)
/** Records as text, by position. */
const readRecords = (files: JournalFiles, from = 0) =>
  Array.from(files.read(from), ({ position, record }) => `${position} ${tell(record)}`)

function tell(record: LogRecord): string {
  if (record.kind !== "events") return JSON.stringify(record)
  const { user, item, rating, timestamp, extras } = record
  return JSON.stringify([[...user], [...item], [...rating], [...timestamp], extras])
}

/** Records of every size, many with zeros at their end, where a crash leaves zeros, too. */
function randomRecord(random: Random, n: number): LogRecord {
  if (random.integer(3) === 0) return { kind: "segment", time: n }
  if (random.integer(8) === 0) return { kind: "left", user: [n], item: [], names: { user: [`user ${n}`], item: [] } }
  const rows = random.integer(4) === 0 ? 700 : 1 + random.integer(5)
  return eventsOf(Array.from({ length: rows }, (_, r) => ({ user: n, item: r, rating: 5, timestamp: 1_700_000_000 })))
}

const rowsOf = (record: LogRecord) => (record.kind === "events" ? record.user.length : 0)

interface Filled {
  directory: string
  records: LogRecord[]
  /** By frame: the position behind it, and where it ends in the last file. */
  frames: { next: number; end: number }[]
}

/** A journal of random frames; `rolls`: after how many of them a new file begins. */
async function fill(seed: number, { frames: count = 6, rolls = [] as number[], packs = false } = {}): Promise<Filled> {
  const random = new Random(seed, "journal files")
  const { directory, files } = await create()
  const records: LogRecord[] = []
  const frames: Filled["frames"] = []
  let events = 0
  for (let f = 0; f < count; f++) {
    const some = Array.from({ length: 1 + random.integer(4) }, (_, n) => randomRecord(random, records.length + n))
    for (const record of some)
      if (record.kind === "events") events += record.user.length
      else if (record.kind === "segment") record.events = events
    await files.append(some.map(encodeRecord))
    records.push(...some)
    const [last] = logs(directory).slice(-1)
    frames.push({ next: files.next, end: readFileSync(join(directory, last)).length })
    if (rolls.includes(f + 1)) await files.roll()
  }
  if (packs) await files.pack()
  await files.close()
  return { directory, records, frames }
}

const numbered = (records: readonly LogRecord[]) => records.map((record, position) => `${position} ${tell(record)}`)

test("a file is closed when it is large, so that none takes long to be read or written anew", async () => {
  const { directory, files } = await create()
  const hooks = { seal: () => {}, rollback: () => {}, resumed: () => {} }
  const journal = new Journal(files, hooks)
  const record: LogRecord = {
    kind: "notes",
    notes: [{ side: "user", id: "u", note: { comment: "x".repeat(2 ** 21) } }],
  }
  for (let n = 0; n < 20; n++) {
    journal.append(record, () => {})
    await journal.committed()
  }
  expect(logs(directory).length).toBe(3)
  for (const name of logs(directory)) expect(statSync(join(directory, name)).size).toBeLessThan(20 * 2 ** 20)
  await files.close()
  const again = await openFiles(directory)
  expect(all(again)).toEqual(Array.from({ length: 20 }, (_, n) => n))
  journal.close()
})

describe("appending", () => {
  test("what was appended is read, from any position on, also after opening anew, in one file or several", async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const rolls = seed % 2 === 0 ? [] : [2, 3]
      const { directory, records } = await fill(seed, { rolls, packs: seed % 3 === 0 })
      const files = await openFiles(directory)
      expect(files.next).toBe(records.length)
      expect(files.first).toBe(0)
      for (let from = 0; from <= records.length; from++)
        expect(readRecords(files, from), `seed ${seed}`).toEqual(numbered(records).slice(from))
      await files.append([encodeRecord({ kind: "tick", time: 9 })])
      expect(readRecords(files).at(-1)).toBe(`${records.length} ${tell({ kind: "tick", time: 9 })}`)
      expect(files.bytes).toBe(
        logs(directory).reduce((sum, name) => sum + readFileSync(join(directory, name)).length, 0),
      )
      await files.close()
    }
  })

  test("a file that is closed, packed or joined while it is read is read as it was, and what came after it follows", async () => {
    const { files } = await create()
    const tick = (time: number) => encodeRecord({ kind: "tick", time })
    await files.append([tick(0), tick(1)])
    const reading = files.read(0)
    expect(reading.next().value).toMatchObject({ position: 0 })
    await files.append([tick(2)])
    await files.roll()
    await files.append([tick(3)])
    await files.roll()
    await files.pack()
    expect(Array.from(reading, ({ position }) => position)).toEqual([1, 2, 3])
  })

  test("nothing appended is nothing written", async () => {
    const { directory, files } = await create()
    const [name] = logs(directory)
    const before = readFileSync(join(directory, name))
    await files.append([])
    expect(readFileSync(join(directory, name))).toEqual(before)
    expect(JournalFiles.hasEvents(directory)).toBe(false)
    await files.append([encodeRecord({ kind: "tick", time: 9 })])
    expect(JournalFiles.hasEvents(directory)).toBe(true)
  })

  test("a commit larger than a frame may be is several frames, and is read", { timeout: 240_000 }, async () => {
    const { directory, files } = await create()
    const record = encodeRecord({ kind: "names", names: [{ side: "user", index: 0, name: "x".repeat(2 ** 26) }] })
    await files.append([record, record, record, record, record])
    await files.close()
    const again = await openFiles(directory)
    expect(again.next).toBe(5)
    expect(Array.from(again.read(3), ({ position }) => position)).toEqual([3, 4])
  })

  test("after a write that failed nothing of it is there, and mending goes on behind what was acknowledged", async () => {
    const { directory, files } = await create()
    await files.append([encodeRecord({ kind: "tick", time: 1 })])
    await files.close()
    await expect(files.append([encodeRecord({ kind: "tick", time: 2 })])).rejects.toMatchObject({ code: "UNAVAILABLE" })
    await files.mend()
    await files.append([encodeRecord({ kind: "tick", time: 3 })])
    expect(readRecords(files)).toEqual(numbered([1, 3].map((time) => ({ kind: "tick", time }))))
    await files.close()
    expect(readRecords(await openFiles(directory))).toEqual(numbered([1, 3].map((time) => ({ kind: "tick", time }))))
  })

  test("a roll that failed leaves no file that would end the one that is appended to", async () => {
    const { directory, files } = await create()
    await files.append([encodeRecord({ kind: "tick", time: 1 })])
    mkdirSync(join(directory, "journal-000000000001.log.part"))
    await expect(files.roll()).rejects.toThrow(/journal: expected the disk to take it/)
    await files.append([encodeRecord({ kind: "tick", time: 2 })])
    await files.close()
    rmSync(join(directory, "journal-000000000001.log.part"), { recursive: true })
    expect(readRecords(await openFiles(directory))).toHaveLength(2)
  })

  test("of another directory: refused; of a directory that only reads, nothing is changed", async () => {
    const { directory, frames } = await fill(3)
    await expect(JournalFiles.open(directory, ID.replace("0", "1"))).rejects.toThrow(/journal: expected that of/)
    const path = join(directory, logs(directory)[0])
    const torn = readFileSync(path).subarray(0, frames[5].end - 3)
    writeFileSync(path, torn)
    writeFileSync(`${path}.part`, "half")
    await openFiles(directory, { readOnly: true })
    expect(readFileSync(path)).toEqual(torn)
    expect(existsSync(`${path}.part`)).toBe(true)
    await openFiles(directory)
    expect(readFileSync(path).length).toBe(frames[4].end)
    expect(existsSync(`${path}.part`)).toBe(false)
  })
})

describe("a crash", () => {
  test("at any byte of the last frame loses nothing before it, and is taken up without a word", async () => {
    for (let seed = 1; seed <= 3; seed++) {
      const { directory, records, frames } = await fill(seed, { frames: 3 })
      const path = join(directory, logs(directory)[0])
      const whole = readFileSync(path)
      const [, before, last] = frames
      const step = Math.max(1, Math.floor((last.end - before.end) / 200))
      for (let length = before.end; length < last.end; length += length < before.end + 40 ? 1 : step) {
        writeFileSync(path, whole.subarray(0, length))
        const files = await openFiles(directory)
        const where = `seed ${seed}, ${length} bytes`
        expect(files.next, where).toBe(before.next)
        expect(readRecords(files), where).toEqual(numbered(records).slice(0, before.next))
        await files.append([encodeRecord({ kind: "tick", time: 1 })])
        await files.close()
        expect(readRecords(await openFiles(directory)), where).toHaveLength(before.next + 1)
      }
    }
  })

  test("with zeros where the last frame should be, or its end, loses nothing before it", async () => {
    for (let seed = 1; seed <= 8; seed++) {
      const { directory, records, frames } = await fill(seed, { frames: 3 })
      const path = join(directory, logs(directory)[0])
      const whole = readFileSync(path)
      const [, before, last] = frames
      const sectors = [before.end]
      for (let at = Math.ceil((before.end + 1) / 512) * 512; at < last.end; at += 512) sectors.push(at)
      for (const from of sectors)
        for (const more of [0, 5000]) {
          const end = from === before.end ? last.end + more : last.end
          writeFileSync(path, Buffer.concat([whole.subarray(0, from), Buffer.alloc(end - from)]))
          const files = await openFiles(directory)
          expect(readRecords(files), `seed ${seed}, zeros from ${from}`).toEqual(
            numbered(records).slice(0, before.next),
          )
          await files.close()
          expect(readFileSync(path).length).toBe(before.end)
        }
    }
  })
})

describe("damage", () => {
  test.each([
    ["plain", [], false],
    ["rolled", [1, 2], false],
    ["packed", [2, 3], true],
  ] as const)("of any single bit of %s files is noticed or does no harm", async (_, rolls, packs) => {
    const { directory, files: writing } = await create()
    const records: LogRecord[] = []
    for (let f = 0; f < 3; f++) {
      const some: LogRecord[] = [
        { kind: "names", names: [{ side: "user", index: f, name: `user ${f}` }] },
        eventsOf([0, 1, 2].map((item) => ({ user: f, item, rating: 5, timestamp: 1_700_000_000 }))),
      ]
      await writing.append(some.map(encodeRecord))
      records.push(...some)
      if (rolls.includes((f + 1) as never)) await writing.roll()
    }
    if (packs) await writing.pack()
    await writing.close()
    const right = numbered(records)
    let noticed = 0
    for (const name of logs(directory)) {
      const path = join(directory, name)
      const whole = readFileSync(path)
      for (let bit = 0; bit < 8 * whole.length; bit++) {
        const bytes = Buffer.from(whole)
        bytes[bit >> 3] ^= 1 << (bit & 7)
        writeFileSync(path, bytes)
        try {
          const files = await openFiles(directory, { readOnly: true })
          expect(readRecords(files), `${name}, bit ${bit}`).toEqual(right)
        } catch (error) {
          expect(error, `${name}, bit ${bit}`).toMatchObject({
            code: "INVALID_DATA",
            message: expect.stringContaining("--recover"),
          })
          noticed++
        }
        open.pop()?.close()
      }
      writeFileSync(path, whole)
    }
    expect(noticed).toBeGreaterThan(100)
  })

  test("of a bit of the last frame is noticed however the frame lies and however many zeros it ends with", async () => {
    for (let rows = 500; rows < 520; rows++) {
      const { directory, files } = await create()
      const row = { user: 1, item: 2, rating: 5, timestamp: 1_700_000_000 }
      await files.append([encodeRecord(eventsOf(new Array(rows).fill(row)))])
      await files.close()
      const path = join(directory, logs(directory)[0])
      const bytes = readFileSync(path)
      bytes[100] ^= 1
      writeFileSync(path, bytes)
      await expect(openFiles(directory), `${rows} rows`).rejects.toThrow(/--recover/)
    }
  })

  test("random damage is repaired: every whole frame before and after is kept, the loss is reported in records and events, and it opens", async () => {
    let known = 0
    for (let seed = 1; seed <= 60; seed++) {
      const where = `seed ${seed}`
      const { directory, records } = await fill(seed, { frames: 8, rolls: [3, 5], packs: seed % 3 === 0 })
      const random = new Random(seed, "damage")
      const names = logs(directory)
      const path = join(directory, names[random.integer(names.length)])
      const bytes = readFileSync(path)
      const at = random.integer(bytes.length)
      const length = 1 + random.integer(40)
      for (let b = at; b < Math.min(bytes.length, at + length); b++) bytes[b] ^= 1 + random.integer(255)
      writeFileSync(path, bytes)
      const gone = await recoverJournal(directory, ID)
      const files = await openFiles(directory)
      const kept = readRecords(files)
      const right = new Set(numbered(records))
      for (const one of kept) expect(right.has(one), `${where}: ${one.slice(0, 60)}`).toBe(true)
      if (kept.length < records.length)
        expect(gone.join(), where).toMatch(/records \d+ to (\d+|the end) were (damaged|missing) and are gone/)
      // Those said to be gone are those that are.
      const positions = new Set(kept.map((one) => Number(one.split(" ")[0])))
      const said = gone.flatMap((text) => /records (\d+) to (\d+|the end)/.exec(text)?.slice(1, 3) ?? [])
      const missing = records.map((_, position) => position).filter((position) => !positions.has(position))
      for (const position of missing)
        expect(
          said.some((_, s) => {
            if (s % 2 === 1) return false
            const to = said[s + 1] === "the end" ? Number.POSITIVE_INFINITY : Number(said[s + 1])
            return Number(said[s]) <= position && position <= to
          }),
          `${where}: ${position} is gone and not said to be: ${gone}`,
        ).toBe(true)
      const lostEvents = missing.reduce((sum, position) => sum + rowsOf(records[position]), 0)
      if (missing.length > 0 && !gone.join().includes("not known")) {
        known++
        const counts = gone.map((text) => Number(/(\d+) events?\b/.exec(text)?.[1] ?? 0))
        expect(
          counts.reduce((sum, count) => sum + count, 0),
          `${where}: ${gone}`,
        ).toBe(lostEvents)
      }
      // Damage touches one frame, or two that are neighbours, or a header.
      const largest = seed % 3 === 0 ? records.length : 8
      expect(missing.length, where).toBeLessThanOrEqual(largest)
      await files.append([encodeRecord({ kind: "tick", time: 1 })])
      await files.pack()
      await files.roll()
      await files.change(all(files), ({ record }) => ({ ...record }))
      await files.close()
      const again = await openFiles(directory)
      expect(readRecords(again).slice(0, -1), where).toEqual(kept)
      expect(await recoverJournal(directory, ID), `${where}: mended once and for all`).toEqual([])
    }
    // All but those that reach the end.
    expect(known).toBeGreaterThan(20)
  })

  test("a file that is missing in the middle or at the end is noticed, and gone on without", async () => {
    for (const packs of [false, true])
      for (const place of ["middle", "end"]) {
        const { directory, records, frames } = await fill(4, { frames: 6, rolls: [2, 4], packs: false })
        const files = await openFiles(directory)
        if (packs) await files.change(all(files), ({ record }) => ({ ...record }))
        await files.close()
        const names = logs(directory)
        expect(names).toHaveLength(3)
        rmSync(join(directory, names[place === "middle" ? 1 : 2]))
        const where = `${place}, packed: ${packs}`
        const right = numbered(records)
        await expect(openFiles(directory).then(readRecords), where).rejects.toThrow(/--recover/)
        const gone = await recoverJournal(directory, ID)
        expect(gone.join(), where).toMatch(/records \d+ to (\d+|the end) were missing and are gone/)
        const kept = readRecords(await openFiles(directory))
        const after = place === "middle" ? right.slice(frames[3].next) : []
        expect(kept, where).toEqual([...right.slice(0, place === "middle" ? frames[1].next : frames[3].next), ...after])
      }
  })
})

describe("closed files", () => {
  test("are packed and joined, smaller, and read the same", async () => {
    const { directory, files } = await create()
    const records: LogRecord[] = []
    for (let n = 0; n < 60; n++) {
      const record = eventsOf(
        Array.from({ length: 20 }, (_, r) => ({ user: r, item: n, rating: 5, timestamp: 1_700_000_000 + r })),
      )
      records.push(record)
      await files.append([encodeRecord(record)])
      if (n % 20 === 19) await files.roll()
    }
    const before = files.bytes
    expect(logs(directory)).toHaveLength(4)
    await files.pack()
    expect(logs(directory)).toHaveLength(2)
    expect(files.bytes).toBeLessThan(before / 2)
    expect(readRecords(files)).toEqual(numbered(records))
    expect(files.bytesFrom(0), "all but the header of the empty file").toBe(files.bytes - 56)
    expect(files.bytesFrom(60)).toBe(0)
    await files.close()
    expect(readRecords(await openFiles(directory))).toEqual(numbered(records))
  })

  test("are read whole at every moment while they are packed and joined", async () => {
    const { files } = await create()
    for (let n = 0; n < 40; n++) {
      await files.append([encodeRecord(eventsOf([{ user: n, item: 1, rating: 5, timestamp: 1_700_000_000 }]))])
      await files.roll()
    }
    let isPacked = false
    const packing = files.pack().finally(() => {
      isPacked = true
    })
    while (!isPacked) {
      expect(all(files)).toHaveLength(40)
      await giveWay()
    }
    await packing
  })

  test("that a crash left beside the one they were joined into are taken away, and nothing is there twice", async () => {
    const { directory, records } = await fill(7, { frames: 6, rolls: [2, 4] })
    const copy = folder()
    for (const name of logs(directory)) copyFileSync(join(directory, name), join(copy, name))
    const files = await openFiles(directory)
    await files.pack()
    await files.close()
    const joined = logs(directory)
    expect(joined).toHaveLength(2)
    const [, removed] = logs(copy)
    copyFileSync(join(copy, removed), join(directory, removed))
    expect(await recoverJournal(directory, ID), "nothing to mend").toEqual([])
    expect(readRecords(await openFiles(directory, { readOnly: true }))).toEqual(numbered(records))
    expect(logs(directory)).toHaveLength(3)
    expect(readRecords(await openFiles(directory))).toEqual(numbered(records))
    expect(logs(directory)).toEqual(joined)
  })

  test("are dropped when all their records lie before a position, oldest first, and never the last", async () => {
    const { directory, records, frames } = await fill(5, { frames: 6, rolls: [2, 4, 6] })
    const files = await openFiles(directory)
    await files.drop(frames[1].next - 1)
    expect(files.first).toBe(0)
    await files.drop(frames[3].next - 1)
    expect(files.first).toBe(frames[1].next)
    expect(readRecords(files)).toEqual(numbered(records).slice(frames[1].next))
    await files.drop(1e9)
    expect(files.first).toBe(records.length)
    expect(readRecords(files)).toEqual([])
    await files.append([encodeRecord({ kind: "tick", time: 1 })])
    await files.close()
    expect(readRecords(await openFiles(directory))).toEqual([`${records.length} ${tell({ kind: "tick", time: 1 })}`])
    expect(logs(directory)).toHaveLength(1)
  })

  test("are changed record by record, those without a change not at all, and what was taken out is nowhere", async () => {
    const { directory, files } = await create()
    const name = (n: number): LogRecord => ({ kind: "names", names: [{ side: "user", index: n, name: `name ${n}!` }] })
    for (let n = 0; n < 9; n++) {
      await files.append([encodeRecord(name(n))])
      if (n % 3 === 2) await files.roll()
    }
    const untouched = readFileSync(join(directory, logs(directory)[0]))
    const without: LogRecord = { kind: "names", names: [] }
    await files.change([4], ({ position, record }) => (position === 4 ? without : record))
    const expected = Array.from({ length: 9 }, (_, n) => `${n} ${tell(n === 4 ? without : name(n))}`)
    expect(readRecords(files)).toEqual(expected)
    expect(readFileSync(join(directory, logs(directory)[0]))).toEqual(untouched)
    for (const file of journals(directory)) expect(readFileSync(join(directory, file)).includes("name 4!")).toBe(false)
    await files.close()
    expect(readRecords(await openFiles(directory))).toEqual(expected)
  })

  test("stay as they are when the disk does not take the new one", async () => {
    const { directory, records } = await fill(6, { frames: 4, rolls: [2] })
    const files = await openFiles(directory)
    const [first] = logs(directory)
    mkdirSync(join(directory, `${first}.part`))
    await expect(files.pack()).rejects.toMatchObject({ code: "UNAVAILABLE" })
    expect(readRecords(files)).toEqual(numbered(records))
    rmSync(join(directory, `${first}.part`), { recursive: true })
    await files.pack()
    expect(readRecords(files)).toEqual(numbered(records))
  })

  test("with gaps keep them when they are packed, and later positions stay", async () => {
    const { directory, files } = await create()
    const tick = (time: number): LogRecord => ({ kind: "tick", time })
    await files.append([0, 1].map((time) => encodeRecord(tick(time))))
    await files.skipTo(10)
    await files.append([encodeRecord(tick(10))])
    await files.skipTo(20)
    await files.roll()
    const right = [0, 1, 10].map((time) => `${time} ${tell(tick(time))}`)
    expect(readRecords(files)).toEqual(right)
    await files.pack()
    expect(readRecords(files)).toEqual(right)
    expect(readRecords(files, 5)).toEqual(right.slice(2))
    await files.close()
    const again = await openFiles(directory)
    expect(again.next).toBe(20)
    expect(readRecords(again)).toEqual(right)
    expect(await recoverJournal(directory, ID)).toEqual([])
  })
})
