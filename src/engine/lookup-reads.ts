/** How answers are made of what is in the file of the lookup table and of what waits. */

import type { Side } from "../types.ts"
import type { FeedbackEntry, FeedbackKey, Note } from "./lookup.ts"
import { damaged, type LookupFile, type Row } from "./lookup-file.ts"
import { behind, type KeyRange, noteKey, toFeedbackKey, userKey } from "./lookup-keys.ts"
import type { LookupOverlay } from "./lookup-overlay.ts"

export interface Sources {
  overlay: LookupOverlay
  /** Reads from the file that is in use at the moment. */
  read<T>(work: (file: LookupFile) => T): T
}

/** Rows read at a time: few at first, as most readers want a page, then twice as many each time. */
const FIRST_PORTION = 64
const LARGEST_PORTION = 2048

function toEntry(value: Buffer): FeedbackEntry {
  const [timestamp, comment] = JSON.parse(value.toString()) as [number, string]
  return { timestamp, comment }
}

export function readEntry(file: LookupFile, key: FeedbackKey): FeedbackEntry | undefined {
  const value = file.tables.feedback.get(userKey(key))
  return value && toEntry(value)
}

const toNote = (value: Buffer) => JSON.parse(value.toString()) as [id: string, note: Note]

export function readNote(file: LookupFile, side: Side, id: string): Note | undefined {
  const value = file.tables.notes.get(noteKey(side, id))
  return value && toNote(value)[1]
}

/**
 * Goes through a range in portions, so that neither a flush nor a new file stands in the way of a reader who takes his
 * time. Waiting ones take the place of those on disk; undefined stands for one that is gone.
 */
function* merged<T>(
  range: KeyRange,
  p: {
    stored: (range: KeyRange, limit: number) => { key: string; value: T | undefined }[]
    waiting: (range: KeyRange) => Iterable<{ key: string; value: T | undefined }>
  },
): Generator<T> {
  if (range.end !== undefined && range.start >= range.end) return
  let limit = FIRST_PORTION
  for (let start: string | undefined = range.start; start !== undefined; ) {
    const stored = p.stored({ start, end: range.end }, limit)
    const next: string | undefined = stored.length < limit ? undefined : behind(stored[stored.length - 1].key)
    const held = [...p.waiting({ start, end: next ?? range.end })]
    const rows = new Map(stored.map(({ key, value }) => [key, value]))
    for (const { key, value } of held) rows.set(key, value)
    const keys = [...rows.keys()]
    for (const key of held.length > 0 ? keys.sort() : keys) {
      const value = rows.get(key)
      if (value !== undefined) yield value
    }
    start = next
    limit = Math.min(LARGEST_PORTION, 2 * limit)
  }
}

export function readFeedback(
  { byItem, ...range }: KeyRange & { byItem: boolean },
  { overlay, read }: Sources,
): Generator<FeedbackKey & FeedbackEntry> {
  const toRow = (file: LookupFile, row: Row) => {
    const key = toFeedbackKey(row.key, byItem)
    if (overlay.isDropped(key)) return undefined
    const entry = byItem ? readEntry(file, key) : toEntry(row.value)
    if (!entry) throw damaged("table itemFeedback", "expected an entry for each key, got none")
    return { ...key, ...entry }
  }
  return merged(range, {
    stored: (part, limit) =>
      read((file) => {
        const rows = (byItem ? file.tables.itemFeedback : file.tables.feedback).rows(part, limit)
        return rows.map((row) => ({ key: row.key.toString("latin1"), value: toRow(file, row) }))
      }),
    *waiting(part) {
      for (const [key, held] of overlay.feedback.range(byItem, part))
        yield { key, value: held.entry ? { ...held.key, ...held.entry } : undefined }
    },
  })
}

export function readNoteIds(range: KeyRange, { overlay, read }: Sources): Generator<string> {
  return merged(range, {
    stored: (part, limit) =>
      read((file) => file.tables.notes.rows(part, limit)).map((row) => ({
        key: row.key.toString("latin1"),
        value: toNote(row.value)[0],
      })),
    *waiting(part) {
      for (const [key, { id, note }] of overlay.notes.range(part)) yield { key, value: note ? id : undefined }
    },
  })
}
