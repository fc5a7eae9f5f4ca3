/** Feedback held in memory, to be read by user and by item. */

import type { Side } from "../types.ts"
import type { FeedbackEntry, FeedbackKey } from "./lookup.ts"
import { idRange, itemKey, type KeyRange, userKey } from "./lookup-keys.ts"
import { OrderedMap } from "./ordered-map.ts"

/** null for an entry that is to be taken away from the disk. */
export interface HeldFeedback {
  key: FeedbackKey
  entry: FeedbackEntry | null
}

export class FeedbackMap {
  readonly #byUser = new OrderedMap<HeldFeedback>()
  readonly #byItem = new OrderedMap<HeldFeedback>()

  get size(): number {
    return this.#byUser.size
  }

  get(key: FeedbackKey): HeldFeedback | undefined {
    return this.#byUser.get(userKey(key))
  }

  set({ user, item, type }: FeedbackKey, entry: FeedbackEntry | null): void {
    const held = { key: { user, item, type }, entry }
    this.#byUser.set(userKey(held.key), held)
    this.#byItem.set(itemKey(held.key), held)
  }

  delete(key: FeedbackKey): void {
    this.#byUser.delete(userKey(key))
    this.#byItem.delete(itemKey(key))
  }

  /** Deletes all of an id. */
  drop(side: Side, index: number): void {
    for (const [, { key }] of [...this.range(side === "item", idRange(index))]) this.delete(key)
  }

  /** Deletes the oldest while there are more. */
  keepNewest(most: number): void {
    while (this.size > most) {
      const [[, { key }]] = this.#byUser.entries()
      this.delete(key)
    }
  }

  /** Oldest first. */
  *all(): Generator<HeldFeedback> {
    for (const [, held] of this.#byUser.entries()) yield held
  }

  range(byItem: boolean, range: KeyRange): Generator<[string, HeldFeedback]> {
    return (byItem ? this.#byItem : this.#byUser).range(range)
  }
}
