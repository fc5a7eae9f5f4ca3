/** Reads directories of formats up to 5, whose journal was a file of LMDB's. Only to make a new one of them. */

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Database, RootDatabase } from "lmdb"
import { DessError, show } from "../errors.ts"
import type { Side } from "../types.ts"
import { lockDirectory } from "./lock.ts"
import type { FeedbackEntry, Note } from "./lookup.ts"
import { loadLmdb } from "./lookup-file.ts"
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
  const lmdb = await loadLmdb()
  const lock = await lockDirectory(directory)
  const generations = readdirSync(directory).map((name) => Number(/^journal-(\d+)\.mdb$/.exec(name)?.[1] ?? 0))
  const path = join(directory, `journal-${Math.max(...generations)}.mdb`)
  const root = lmdb.open({ path, noSubdir: true, readOnly: true, maxDbs: 12 })
  const close = async () => {
    await root.close()
    await lock.release()
  }
  const table = <V>(name: string, options: object) => root.openDB<V, number>({ name, ...options })
  const meta = root.openDB<unknown, string>({ name: "meta", encoding: "json" })
  const version = Number(meta.get("version"))
  if (!(version >= OLDEST && version <= NEWEST)) {
    await close()
    throw new DessError(
      "UNSUPPORTED",
      `directory ${show(directory)}: expected a format from ${OLDEST} to ${NEWEST}, got ${show(version)}`,
    )
  }
  const log = table<Buffer>("log", { encoding: "binary" })
  const names = {
    user: table<string>("users", { keyEncoding: "uint32", encoding: "string" }),
    item: table<string>("itemNames", { keyEncoding: "uint32", encoding: "string" }),
  }
  const items = table<StoredItem>("items", { keyEncoding: "uint32", encoding: "json" })
  const feedback = openFeedback(root)
  const [first] = log.getKeys({ limit: 1 })
  const isWhole = first === undefined || first === 0
  return {
    created: meta.get("options") as FixedOptions,
    isWhole,
    gone: isWhole ? [] : [`journal: records before ${first} are no longer kept`],
    itemsAreRecorded: false,
    name: (side: Side, index: number) => names[side].get(index),
    *records() {
      for (const { key, value } of log.getRange()) {
        const record = decode(value, Number(key), feedback)
        if (record) yield { position: Number(key), record }
      }
    },
    *items() {
      for (const { key, value } of items.getRange()) yield { index: Number(key), item: value }
    },
    notes: () => readNotes(join(directory, NOTES)),
    close,
  }
}

type FeedbackTable = Database<FeedbackEntry, [number, number, string]> | undefined

function openFeedback(root: RootDatabase): FeedbackTable {
  try {
    return root.openDB<FeedbackEntry, [number, number, string]>({ name: "feedback", encoding: "json" })
  } catch {
    return undefined
  }
}

function decode(bytes: Buffer, position: number, feedback: FeedbackTable): LogRecord | undefined {
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
function extrasOf(rows: readonly EventRow[], feedback: FeedbackTable): EventExtra[] {
  if (!feedback) return []
  return rows.flatMap(({ user, item, timestamp }, row) => {
    const range = { start: [user, item], end: [user, item + 1] } as object
    return [...feedback.getRange(range)].flatMap(({ key, value }) =>
      value.timestamp === timestamp ? { row, type: key[2], ...(value.comment && { comment: value.comment }) } : [],
    )
  })
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
