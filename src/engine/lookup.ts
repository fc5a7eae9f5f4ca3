/**
 * The lookup table: what must be found by key and must not sit in memory. It is derived from the journal and remembers
 * the position up to which it has been applied, so it can always be brought up to date or made again.
 */

import type { Side } from "../types.ts"

export interface FeedbackKey extends Record<Side, number> {
  type: string
}

export interface FeedbackEntry {
  /** Seconds. */
  timestamp: number
  comment: string
}

/** What Gorse's clients say about a user or an item and expect to read back. */
export interface Note {
  labels?: unknown
  comment?: string
  timestamp?: string
}

/** A change is absolute: the same changes applied again, in order, give the same table. */
export type LookupChange =
  /** An entry put, or null: taken away. */
  | ({ kind: "feedback"; entry: FeedbackEntry | null } & FeedbackKey)
  /** All entries of an id taken away. */
  | { kind: "dropFeedback"; side: Side; index: number }
  /** An idempotency key: 16 bytes of its hash, and its place in the order of acceptance. */
  | { kind: "key"; hash: Uint8Array; order: number }
  /** A note put, or null: taken away. */
  | { kind: "note"; side: Side; id: string; note: Note | null }

export interface FeedbackRange {
  user?: number | undefined
  item?: number | undefined
  /** Only what comes after it. */
  after?: FeedbackKey | undefined
}

export interface Lookup {
  /** Changes of records before this position of the journal are durable in it. */
  readonly applied: number
  /** Changes waiting in memory. */
  readonly waiting: number
  /** Takes changes of the record at a position. Every read sees them at once; they are durable after a flush. */
  add(changes: readonly LookupChange[], position: number): void
  /**
   * Makes everything added so far durable, and `applied` at least `position`. Rejects when the disk does not take it.
   * Nothing is lost then, and it can be called again.
   */
  flush(position: number): Promise<void>
  feedbackEntry(key: FeedbackKey): FeedbackEntry | undefined
  /**
   * Entries of a user, of an item, of both or of all, in order of (user, item, type); of an item alone in order of
   * (user, type). Types are ordered by their UTF-8 bytes. It goes on while changes are made, and may or may not see
   * those that lie ahead of it.
   */
  feedback(of: FeedbackRange): Iterable<FeedbackKey & FeedbackEntry>
  hasKey(hash: Uint8Array): boolean
  /** The order the next key gets. */
  readonly nextKey: number
  /** Drops the keys before an order, in portions. */
  dropKeys(before: number): Promise<void>
  note(side: Side, id: string): Note | undefined
  /** Ids with a note, in a stable order that has nothing to do with time, from behind an id on. */
  noteIds(side: Side, after?: string): Iterable<string>
  /** Rewrites the file so that nothing deleted is left in it. Reading and adding go on meanwhile. */
  compact(): Promise<void>
  /** File size; 0 without a file. */
  readonly bytes: number
  /** Makes what waits durable and lets go of the file; it lets go of it even where the disk does not take it. */
  close(): Promise<void>
}
