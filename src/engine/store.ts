/** What is kept on disk beside the snapshots: the journal, names, items, idempotency keys. One interface, LMDB behind it. */

import type { Side } from "../types.ts"
import type { FixedOptions } from "./options.ts"
import type { LogRecord } from "./records.ts"

/** An item of the catalogue as it is stored. */
export interface StoredItem {
  categories: readonly string[]
  hidden: boolean
  features: readonly number[] | null
}

/** Changes that become durable together. */
export interface Writes {
  log: { position: number; record: LogRecord }[]
  /** null takes the name away. */
  names: { side: Side; index: number; name: string | null }[]
  items: { index: number; item: StoredItem | null }[]
  /** 16 bytes each, by order of acceptance. */
  keys: { hash: Buffer; order: number }[]
  /** In order. */
  feedback: FeedbackChange[]
  /** A removal that has begun, or null when it is done. */
  forgetting?: Forgetting | null
}

export interface FeedbackKey extends Record<Side, number> {
  type: string
}

export interface FeedbackEntry {
  /** Seconds. */
  timestamp: number
  comment: string
}

/** An entry put, or null: taken away; or all of an id taken away. */
export type FeedbackChange = (FeedbackKey & { entry: FeedbackEntry | null }) | { side: Side; index: number }

/** The user that is removed: the index now, and the indices of before, each until the record that says it left. */
export interface Forgetting {
  index: number | null
  lives: { index: number; before: number }[]
}

export function noWrites(): Writes {
  return { log: [], names: [], items: [], keys: [], feedback: [] }
}

export interface Store {
  /** What the directory was created with; undefined for a new one. */
  readonly created: FixedOptions | undefined
  create(options: FixedOptions): void
  /** Of this journal and no other; its compacted copies have it, too. */
  readonly id: string
  /** Resolves when everything is on disk, all or nothing. */
  write(writes: Writes): Promise<void>
  names(side: Side): Iterable<{ index: number; name: string }>
  items(): Iterable<{ index: number; item: StoredItem }>
  /** Records from a position on, in order, at most so many. */
  log(from: number, limit?: number): Iterable<{ position: number; record: LogRecord }>
  /** Where the next record would stand when it was opened. */
  readonly next: number
  /** Drops the records before a position. */
  truncate(before: number): Promise<void>
  feedbackEntry(key: FeedbackKey): FeedbackEntry | undefined
  /** Entries of a user, of an item or of all, in order, from behind a key on. */
  feedback(of: {
    user?: number | undefined
    item?: number | undefined
    after?: FeedbackKey | undefined
  }): Iterable<FeedbackKey & FeedbackEntry>
  hasKey(hash: Buffer): boolean
  /** The order the next key gets. */
  readonly nextKey: number
  /** Drops the keys before an order. */
  dropKeys(before: number): Promise<void>
  readonly forgetting: Forgetting | null
  readonly bytes: number
  /** Rewrites the file so that nothing deleted is left in it. Nothing may be written meanwhile; reading goes on. */
  compact(): Promise<void>
  close(): Promise<void>
}

/** What can be asked of a store that nobody writes to. */
export type ReadableStore = Pick<Store, "created" | "names" | "items" | "log" | "next" | "forgetting" | "close">
