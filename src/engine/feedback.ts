/**
 * What was done, by type ("like", "read"): one entry per user, item and type, to be read back and taken away again.
 * Entries are written together with their events. Without a store the newest so many are kept in memory.
 */

import type { Side } from "../types.ts"
import type { Journal } from "./journal.ts"
import type { FeedbackChange, FeedbackEntry, FeedbackKey, Store } from "./store.ts"

export type FeedbackRow = FeedbackKey & FeedbackEntry

export interface FeedbackQuery {
  user?: number | undefined
  item?: number | undefined
  type?: string | undefined
  /** Only what comes after it. */
  after?: FeedbackKey | undefined
  count: number
}

/** Without a store: entries kept. */
const MOST_HELD = 100_000
/** Entries looked at for one answer; of a rare type a page may be short. */
const MOST_LOOKED_AT = 10_000

const keyOf = ({ user, item, type }: FeedbackKey) => JSON.stringify([user, item, type])

export class Feedback {
  readonly #journal: Journal
  readonly #store: Store | undefined
  /** Those on their way to the disk, null for one that goes; without a store, all. */
  readonly #held = new Map<string, { row: FeedbackKey; entry: FeedbackEntry | null }>()
  /** Ids whose entries on disk are about to go. */
  readonly #dropped: Record<Side, Set<number>> = { user: new Set(), item: new Set() }

  constructor(journal: Journal, store: Store | undefined) {
    this.#journal = journal
    this.#store = store
  }

  get(key: FeedbackKey): FeedbackEntry | undefined {
    const held = this.#held.get(keyOf(key))
    if (held) return held.entry ?? undefined
    if (this.#dropped.user.has(key.user) || this.#dropped.item.has(key.item)) return undefined
    return this.#store?.feedbackEntry(key)
  }

  /** Writes an entry, or null: takes it away. */
  put(row: FeedbackKey, entry: FeedbackEntry | null): void {
    const key = keyOf(row)
    const held = { row, entry }
    // Anew, so that the oldest stand first.
    this.#held.delete(key)
    if (this.#store || entry) this.#held.set(key, held)
    this.#change({ ...row, entry }, () => {
      if (this.#held.get(key) === held) this.#held.delete(key)
    })
    if (this.#store || this.#held.size <= MOST_HELD) return
    const [oldest] = this.#held.keys()
    this.#held.delete(oldest)
  }

  /** Takes away everything of an id. */
  drop(side: Side, index: number): void {
    for (const [key, { row }] of this.#held) if (row[side] === index) this.#held.delete(key)
    this.#dropped[side].add(index)
    this.#change({ side, index }, () => this.#dropped[side].delete(index))
    if (!this.#store) this.#dropped[side].delete(index)
  }

  #change(change: FeedbackChange, written: () => void): void {
    if (!this.#store) return
    this.#journal.change("feedback", change)
    this.#journal.after(written)
  }

  /** Entries by user, item and type, and after which to go on; undefined when there are no more. */
  async list(query: FeedbackQuery): Promise<{ rows: FeedbackRow[]; next: FeedbackKey | undefined }> {
    await this.#journal.committed()
    const rows: FeedbackRow[] = []
    let looked = 0
    for (const row of this.#store ? this.#store.feedback(query) : this.#heldAfter(query.after)) {
      if (++looked > MOST_LOOKED_AT) return { rows, next: row }
      if (query.user !== undefined && row.user !== query.user) continue
      if (query.item !== undefined && row.item !== query.item) continue
      if (query.type !== undefined && row.type !== query.type) continue
      rows.push(row)
      if (rows.length === query.count) return { rows, next: row }
    }
    return { rows, next: undefined }
  }

  *#heldAfter(after: FeedbackKey | undefined): Generator<FeedbackRow> {
    const last = after && keyOf(after)
    let passed = last === undefined || !this.#held.has(last)
    for (const [key, { row, entry }] of this.#held) {
      if (passed && entry) yield { ...row, ...entry }
      if (key === last) passed = true
    }
  }
}
