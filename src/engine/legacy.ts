/** Reads directories of formats up to 5, whose journal was a file of LMDB's. Only to make a new one of them. */

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DessError, show } from "../errors.ts"
import type { Side } from "../types.ts"
import { LmdbFile } from "./lmdb-file.ts"
import { lockDirectory } from "./lock.ts"
import type { FeedbackEntry, Note } from "./lookup.ts"
import type { FixedOptions } from "./options.ts"
import { type EventExtra, type EventRow, eventsOf, type LogRecord, type StoredItem } from "./records.ts"
import type { Source } from "./source.ts"

const OLDEST = 2
const NEWEST = 5
const EVENTS = 1
const ROW_BYTES = 20
const NOTES = "gorse-notes.jsonl"

/** Opens one that no process has open; nothing in it is changed. */
export async function openLegacy(directory: string): Promise<Source> {
  const lock = await lockDirectory(directory)
  try {
    const generations = readdirSync(directory).map((name) => Number(/^journal-(\d+)\.mdb$/.exec(name)?.[1] ?? 0))
    const file = new LmdbFile(join(directory, `journal-${Math.max(...generations)}.mdb`))
    try {
      return readLegacy(directory, file, async () => {
        file.close()
        await lock.release()
      })
    } catch (cause) {
      file.close()
      throw cause
    }
  } catch (cause) {
    await lock.release()
    throw cause
  }
}

function readLegacy(directory: string, file: LmdbFile, close: () => Promise<void>): Source {
  const meta = new Map(
    Array.from(file.rows("meta"), ({ key, value }) => [key.toString(), JSON.parse(value.toString())]),
  )
  const version = Number(meta.get("version"))
  if (!(version >= OLDEST && version <= NEWEST))
    throw new DessError(
      "UNSUPPORTED",
      `directory ${show(directory)}: expected a format from ${OLDEST} to ${NEWEST}, got ${show(version)}`,
    )
  const names = { user: namesIn(file, "users"), item: namesIn(file, "itemNames") }
  const feedback = feedbackIn(file)
  const [first] = placesIn(file)
  const isWhole = first === undefined || first.position === 0
  return {
    created: meta.get("options") as FixedOptions,
    isWhole,
    gone: isWhole ? [] : [`journal: records before ${first.position} are no longer kept`],
    itemsAreRecorded: false,
    name: (side: Side, index: number) => names[side].get(index),
    *records() {
      for (const { position, value } of placesIn(file)) {
        const record = decode(value, position, feedback)
        if (record) yield { position, record }
      }
    },
    *items() {
      for (const { key, value } of file.rows("items"))
        yield { index: key.readUInt32LE(0), item: JSON.parse(value.toString()) as StoredItem }
    },
    notes: () => readNotes(join(directory, NOTES)),
    close,
  }
}

function* placesIn(file: LmdbFile): Generator<{ position: number; value: Buffer }> {
  for (const { key, value } of file.rows("log")) yield { position: toNumber(key), value }
}

function namesIn(file: LmdbFile, table: string): Map<number, string> {
  return new Map(Array.from(file.rows(table), ({ key, value }) => [key.readUInt32LE(0), value.toString()]))
}

/** Entries of user and item, by both. */
type Feedback = Map<string, (FeedbackEntry & { type: string })[]>

function feedbackIn(file: LmdbFile): Feedback {
  const found: Feedback = new Map()
  for (const { key, value } of file.rows("feedback")) {
    // Two numbers of nine bytes, each with a zero behind it, and a text.
    const pair = `${toNumber(key.subarray(0, 9))} ${toNumber(key.subarray(10, 19))}`
    const entry = { ...(JSON.parse(value.toString()) as FeedbackEntry), type: toText(key.subarray(20)) }
    found.set(pair, [...(found.get(pair) ?? []), entry])
  }
  return found
}

/** A number that is not negative, as keys of LMDB's JavaScript package have it: a float64 shifted by four bits, cut where zeros follow. */
function toNumber(key: Buffer): number {
  const bytes = Buffer.alloc(9)
  key.copy(bytes)
  const bits = (bytes.readBigUInt64BE(0) << 4n) | BigInt(bytes[8] >> 4)
  bytes.writeBigUInt64BE(bits & 0x7fff_ffff_ffff_ffffn)
  return bytes.readDoubleBE(0)
}

/** A text in such a key: 27 comes before one that begins with a control character, 4 before each of the first five. */
function toText(key: Buffer): string {
  const bytes: number[] = []
  for (let n = key[0] === 27 ? 1 : 0; n < key.length; n++) bytes.push(key[n] === 4 ? key[++n] : key[n])
  return Buffer.from(bytes).toString()
}

function decode(bytes: Buffer, position: number, feedback: Feedback): LogRecord | undefined {
  if (bytes[0] === EVENTS && bytes.length === 8 + bytes.readUInt32LE(4) * ROW_BYTES) {
    const rows: EventRow[] = []
    for (let at = 8; at < bytes.length; at += ROW_BYTES)
      rows.push({
        user: bytes.readInt32LE(at),
        item: bytes.readInt32LE(at + 4),
        rating: bytes.readFloatLE(at + 8),
        timestamp: bytes.readDoubleLE(at + 12),
      })
    return eventsOf(rows, extrasOf(rows, feedback))
  }
  try {
    const record = JSON.parse(bytes.subarray(1).toString())
    // Items are taken from their table, and what was retracted from the feedback that is left.
    if (record.kind === "features" || record.kind === "unmet") return undefined
    if (record.kind === "forget") return { kind: "forget", user: record.user, former: [], hash: null }
    return record as LogRecord
  } catch (cause) {
    throw new DessError("INVALID_DATA", `journal record ${position}: expected a readable one, got another`, { cause })
  }
}

/** The types of events, where they are still known. */
function extrasOf(rows: readonly EventRow[], feedback: Feedback): EventExtra[] {
  return rows.flatMap(({ user, item, timestamp }, row) =>
    (feedback.get(`${user} ${item}`) ?? []).flatMap((entry) =>
      entry.timestamp === timestamp ? { row, type: entry.type, ...(entry.comment && { comment: entry.comment }) } : [],
    ),
  )
}

function readNotes(path: string): { side: Side; id: string; note: Note }[] {
  if (!existsSync(path)) return []
  const notes = new Map<string, { side: Side; id: string; note: Note }>()
  for (const text of readFileSync(path, "utf8").split("\n").slice(0, -1)) {
    const { side, id, note } = JSON.parse(text) as { side?: Side; id: string; note: Note | null }
    if (side === undefined) continue
    if (note === null) notes.delete(`${side} ${id}`)
    else notes.set(`${side} ${id}`, { side, id, note })
  }
  return [...notes.values()]
}
