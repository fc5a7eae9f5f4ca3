/** Changes of the lookup table that are in memory: what has not been written yet, or, without a directory, all there is. */

import type { LookupChange } from "./lookup.ts"
import {
  allOf,
  detailsKey,
  feedbackKey,
  hashKey,
  idPrefix,
  idsOf,
  noteKey,
  TABLES,
  type Table,
  tableOf,
  toBytes,
  twinOf,
} from "./lookup-keys.ts"
import { OrderedMap } from "./ordered-map.ts"
import type { KeyRange, Row } from "./sorted-run.ts"

/** Entries and notes kept where there is no directory. */
const MOST_IN_MEMORY = 100_000
/** Bytes of a row beside its texts: measured on a million keys. */
const ROW_BYTES = 140

export class LookupLayer {
  /** By table; null for what is to be deleted from older layers. */
  readonly #tables = Object.fromEntries(TABLES.map((table) => [table, new OrderedMap()])) as Record<
    Table,
    OrderedMap<string | null>
  >
  /** What keys of ids begin with whose entries in older layers are deleted; those put since are here. */
  readonly dropped = new Set<string>()
  /** For one that is all there is: how many rows of a table are kept, and how many bytes of one. */
  readonly #most: Partial<Record<Table, number>> | undefined
  readonly #mostBytes: number
  /** Changes, and the position of the last. */
  count = 0
  position = 0
  /** Bytes of memory, about, by table. */
  readonly #bytes = Object.fromEntries(TABLES.map((table) => [table, 0])) as Record<Table, number>

  /** With limits it is all there is, and this many keys, and this many bytes of keys, of feedback and of notes are kept. */
  constructor(limits?: { keys: number; bytes?: number | undefined }) {
    this.#most = limits && { f: MOST_IN_MEMORY, k: limits.keys, n: MOST_IN_MEMORY }
    this.#mostBytes = limits?.bytes ?? Number.POSITIVE_INFINITY
  }

  /** Bytes of memory, about. */
  get bytes(): number {
    return TABLES.reduce((sum, table) => sum + this.#bytes[table], 0)
  }

  /** Of them those of items' details. */
  get detailBytes(): number {
    return this.#bytes.d
  }

  change(change: LookupChange): void {
    this.count++
    if (change.kind === "feedback") {
      const value = change.entry && JSON.stringify([change.entry.timestamp, change.entry.comment])
      const key = feedbackKey(change)
      this.#put(key, value)
      this.#put(twinOf(key), value)
    } else if (change.kind === "key") this.#put(hashKey(change.hash), String(change.order))
    else if (change.kind === "details")
      this.#put(detailsKey(change.item), change.details && JSON.stringify(change.details))
    else if (change.kind === "note")
      this.#put(noteKey(change.side, change.id), change.note && JSON.stringify([change.id, change.note]))
    else {
      const prefix = idPrefix(change.side, change.index)
      for (const { key } of [...this.rows(allOf(prefix))]) this.#remove(key)
      if (!this.#most) this.dropped.add(prefix)
    }
  }

  #put(key: string, text: string | null): void {
    if (text === null && this.#most) {
      this.#remove(key)
      return
    }
    const table = this.#tables[tableOf(key)]
    const value = text && toBytes(text)
    this.#count(key, sizeOf(key, value) - (table.has(key) ? sizeOf(key, table.get(key)) : 0))
    table.set(key, value)
    const most = this.#most?.[tableOf(key)]
    if (most === undefined) return
    while (table.size > most || (table.size > 1 && this.#bytes[tableOf(key)] > this.#mostBytes))
      this.#remove(table.oldest as string)
  }

  #count(key: string, bytes: number): void {
    this.#bytes[tableOf(key)] += bytes
  }

  /** Takes out a row as if it had never been put, feedback in both orders. */
  #remove(key: string): void {
    const isFeedback = "fi".includes(tableOf(key))
    for (const one of isFeedback ? [key, twinOf(key)] : [key]) {
      const table = this.#tables[tableOf(one)]
      if (table.has(one)) this.#count(one, -sizeOf(one, table.get(one)))
      table.delete(one)
    }
  }

  /** Rows that can be asked for one by one. */
  get filtered(): number {
    return this.#tables.d.size + this.#tables.f.size + this.#tables.k.size + this.#tables.n.size
  }

  /** Deletes keys from older layers, but for those it has something under. */
  deleteOlder(keys: Iterable<string>): void {
    for (const key of keys) if (!this.#tables[tableOf(key)].has(key)) this.#put(key, null)
  }

  /** The value of a key; null for a deleted one, undefined for none. */
  get(key: string): string | null | undefined {
    return this.#tables[tableOf(key)].get(key)
  }

  /** Whether an entry of an older layer no longer counts because its user or item was dropped. */
  hides(key: string): boolean {
    return this.dropped.size > 0 && "fi".includes(tableOf(key)) && idsOf(key).some((id) => this.dropped.has(id))
  }

  /** In order. */
  *rows(range: KeyRange): Generator<Row> {
    for (const table of TABLES) {
      const isBefore = range.end !== undefined && range.end <= table
      if (isBefore || range.start >= (allOf(table).end as string)) continue
      for (const [key, value] of this.#tables[table].range(range)) yield { key, value }
    }
  }

  /** Rows of an older layer without those that it hides. */
  *uncover(rows: Iterable<Row>): Generator<Row> {
    for (const row of rows) if (!this.hides(row.key)) yield row
  }
}

function sizeOf(key: string, value: string | null | undefined): number {
  return ROW_BYTES + key.length + (value?.length ?? 0)
}
