/** The lookup table of a recommender without a directory: the newest of everything, in memory. */

import type { Side } from "../types.ts"
import { FeedbackMap } from "./feedback-map.ts"
import type { FeedbackEntry, FeedbackKey, FeedbackRange, Lookup, LookupChange, Note } from "./lookup.ts"
import { feedbackRange, hashKey, noteKey, noteRange } from "./lookup-keys.ts"
import { OrderedMap } from "./ordered-map.ts"

const MOST_FEEDBACK = 100_000
const MOST_NOTES = 100_000

export class MemoryLookup implements Lookup {
  readonly #mostKeys: number
  readonly #feedback = new FeedbackMap()
  readonly #keys = new Map<string, number>()
  readonly #notes = new OrderedMap<{ id: string; note: Note }>()
  readonly waiting = 0
  readonly bytes = 0
  applied = 0
  nextKey = 0

  constructor(p: { mostKeys: number }) {
    this.#mostKeys = p.mostKeys
  }

  add(changes: readonly LookupChange[], position: number): void {
    for (const change of changes) this.#change(change)
    this.applied = Math.max(this.applied, position)
  }

  #change(change: LookupChange): void {
    switch (change.kind) {
      case "feedback":
        if (change.entry) this.#feedback.set(change, change.entry)
        else this.#feedback.delete(change)
        this.#feedback.keepNewest(MOST_FEEDBACK)
        return
      case "dropFeedback":
        this.#feedback.drop(change.side, change.index)
        return
      case "key": {
        const key = hashKey(change.hash)
        this.#keys.delete(key)
        this.#keys.set(key, change.order)
        this.nextKey = Math.max(this.nextKey, change.order + 1)
        keepNewest(this.#keys, this.#mostKeys)
        return
      }
      case "note": {
        const { side, id, note } = change
        if (note) this.#notes.set(noteKey(side, id), { id, note })
        else this.#notes.delete(noteKey(side, id))
        keepNewest(this.#notes, MOST_NOTES)
      }
    }
  }

  async flush(position: number): Promise<void> {
    this.applied = Math.max(this.applied, position)
  }

  feedbackEntry(key: FeedbackKey): FeedbackEntry | undefined {
    return this.#feedback.get(key)?.entry ?? undefined
  }

  *feedback(of: FeedbackRange): Generator<FeedbackKey & FeedbackEntry> {
    const { byItem, ...range } = feedbackRange(of)
    for (const [, { key, entry }] of this.#feedback.range(byItem, range)) if (entry) yield { ...key, ...entry }
  }

  hasKey(hash: Uint8Array): boolean {
    return this.#keys.has(hashKey(hash))
  }

  async dropKeys(before: number): Promise<void> {
    for (const [key, order] of this.#keys) if (order < before) this.#keys.delete(key)
  }

  note(side: Side, id: string): Note | undefined {
    return this.#notes.get(noteKey(side, id))?.note
  }

  *noteIds(side: Side, after?: string): Generator<string> {
    for (const [, { id }] of this.#notes.range(noteRange(side, after))) yield id
  }

  async compact(): Promise<void> {}
  async close(): Promise<void> {}
}

/** Deletes the oldest while there are more. */
function keepNewest(map: Pick<Map<string, unknown>, "size" | "delete" | "entries">, most: number): void {
  while (map.size > most) {
    const [[oldest]] = map.entries()
    map.delete(oldest)
  }
}
