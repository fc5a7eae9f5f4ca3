/** Changes of the lookup table that are not on disk yet. Reads ask here first. */

import type { Side } from "../types.ts"
import { FeedbackMap, type HeldFeedback } from "./feedback-map.ts"
import type { FeedbackKey, LookupChange, Note } from "./lookup.ts"
import { hashKey, noteKey } from "./lookup-keys.ts"
import { OrderedMap } from "./ordered-map.ts"

export interface DroppedId {
  side: Side
  index: number
}
export interface HeldKey {
  key: string
  order: number
}
export interface HeldNote {
  key: string
  id: string
  /** null for one that is to be taken away from the disk. */
  note: Note | null
}

/** What one flush writes: first the dropped ids, then the rest. */
export interface Batch {
  dropped: DroppedId[]
  feedback: HeldFeedback[]
  keys: HeldKey[]
  notes: HeldNote[]
}

export class LookupOverlay {
  readonly feedback = new FeedbackMap()
  /** Ids whose entries on disk are about to go; entries put since are in `feedback`. */
  readonly #dropped: Record<Side, Map<number, DroppedId>> = { user: new Map(), item: new Map() }
  readonly keys = new Map<string, HeldKey>()
  readonly notes = new OrderedMap<HeldNote>()

  change(change: LookupChange): void {
    switch (change.kind) {
      case "feedback":
        this.feedback.set(change, change.entry)
        return
      case "dropFeedback": {
        const { side, index } = change
        this.feedback.drop(side, index)
        this.#dropped[side].set(index, { side, index })
        return
      }
      case "key": {
        const key = hashKey(change.hash)
        this.keys.set(key, { key, order: change.order })
        return
      }
      case "note": {
        const key = noteKey(change.side, change.id)
        this.notes.set(key, { key, id: change.id, note: change.note })
      }
    }
  }

  /** Whether an entry on disk no longer counts because its user or item was dropped. */
  isDropped({ user, item }: FeedbackKey): boolean {
    return this.#dropped.user.has(user) || this.#dropped.item.has(item)
  }

  /** Everything there is now. */
  snapshot(): Batch {
    return {
      dropped: [...this.#dropped.user.values(), ...this.#dropped.item.values()],
      feedback: [...this.feedback.all()],
      keys: [...this.keys.values()],
      notes: Array.from(this.notes.entries(), ([, held]) => held),
    }
  }

  /** Lets go of what has become durable, unless it was changed since. */
  settle(batch: Batch): void {
    for (const held of batch.feedback) if (this.feedback.get(held.key) === held) this.feedback.delete(held.key)
    for (const id of batch.dropped)
      if (this.#dropped[id.side].get(id.index) === id) this.#dropped[id.side].delete(id.index)
    for (const held of batch.keys) if (this.keys.get(held.key) === held) this.keys.delete(held.key)
    for (const held of batch.notes) if (this.notes.get(held.key) === held) this.notes.delete(held.key)
  }
}
