/** How changes get into the file of the lookup table. */

import type { LookupFile } from "./lookup-file.ts"
import { idRange, itemKey, orderKey, toFeedbackKey, userKey } from "./lookup-keys.ts"
import type { Batch, DroppedId } from "./lookup-overlay.ts"

export interface BatchPosition {
  applied: number
  nextKey: number
  /** Keys before this order are left out. */
  keysFrom: number
  /** Changes of one transaction. */
  portion: number
}

/**
 * Writes a batch in transactions of so many changes; the last one says up to where it has been applied. What an earlier
 * one has written changes no answer: the batch still waits in memory, and after a crash the journal brings it again.
 */
export async function writeBatch(file: LookupFile, batch: Batch, p: BatchPosition): Promise<void> {
  const steps = stepsOf(file, batch, p)
  const some = () => {
    for (let n = 0; n < p.portion; n++) if (steps.next().done) return true
    return false
  }
  while (!(await file.transaction(some)));
}

/** One change per step, each inside a transaction. */
function* stepsOf(file: LookupFile, batch: Batch, p: BatchPosition): Generator<void> {
  const { feedback, itemFeedback, keys, keyOrder, notes } = file.tables
  for (const id of batch.dropped) yield* dropId(file, id, p.portion)
  for (const { key, entry } of batch.feedback) {
    if (entry) {
      feedback.put(userKey(key), JSON.stringify([entry.timestamp, entry.comment]))
      itemFeedback.put(itemKey(key), "")
    } else {
      feedback.remove(userKey(key))
      itemFeedback.remove(itemKey(key))
    }
    yield
  }
  for (const { key, order } of batch.keys) {
    if (order < p.keysFrom) continue
    const place = Buffer.from(orderKey(order), "latin1")
    keys.put(key, place)
    keyOrder.put(place, Buffer.from(key, "latin1"))
    yield
  }
  for (const { key, id, note } of batch.notes) {
    if (note) notes.put(key, JSON.stringify([id, note]))
    else notes.remove(key)
    yield
  }
  file.putNumber("nextKey", p.nextKey)
  file.putNumber("applied", p.applied)
}

function* dropId(file: LookupFile, { side, index }: DroppedId, portion: number): Generator<void> {
  const { feedback, itemFeedback } = file.tables
  const byItem = side === "item"
  const table = byItem ? itemFeedback : feedback
  for (;;) {
    const rows = table.rows(idRange(index), portion)
    if (rows.length === 0) return
    for (const row of rows) {
      const key = toFeedbackKey(row.key, byItem)
      feedback.remove(userKey(key))
      itemFeedback.remove(itemKey(key))
      yield
    }
  }
}

/** Removes the keys before an order, in transactions of so many. */
export async function removeKeysBefore(file: LookupFile, p: { before: string; portion: number }): Promise<void> {
  const { keys, keyOrder } = file.tables
  for (;;) {
    const rows = keyOrder.rows({ start: "\0", end: p.before }, p.portion)
    if (rows.length === 0) return
    await file.transaction(() => {
      for (const { key, value } of rows) {
        keyOrder.remove(key)
        // A key may have come again with another order since.
        const hash = value.toString("latin1")
        if (keys.get(hash)?.equals(key)) keys.remove(hash)
      }
    })
  }
}
