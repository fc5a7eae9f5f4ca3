/** A segment with its contexts, waiting to be the next round. */

import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"

export interface Waiting {
  batch: { user: Int32Array; item: Int32Array; label: Float64Array }
  /** [rows×dimension] */
  contexts: Record<Side, Float64Array>
  frequencies: Record<Side, Float64Array>
}

type Column = Int32Array | Uint8Array | Float64Array

/** What leaves the rows of some ids out of a column, whatever numbers it has per row; undefined where `own` has none of them. */
export function keeperOf(own: Int32Array, ids: ReadonlySet<number>): (<T extends Column>(column: T) => T) | undefined {
  const rows = Int32Array.from(own.keys()).filter((r) => !ids.has(own[r]))
  if (rows.length === own.length) return undefined
  return <T extends Column>(column: T): T => {
    const width = Math.floor(column.length / own.length)
    const kept = new (column.constructor as new (length: number) => T)(rows.length * width)
    rows.forEach((row, i) => {
      kept.set(column.subarray(row * width, (row + 1) * width), i * width)
    })
    return kept
  }
}

/** The same without the rows of some ids. */
export function withoutIds(waiting: Waiting, side: Side, ids: ReadonlySet<number>): Waiting {
  const { batch, contexts, frequencies } = waiting
  const keep = keeperOf(batch[side], ids)
  if (!keep) return waiting
  return {
    batch: { user: keep(batch.user), item: keep(batch.item), label: keep(batch.label) },
    contexts: { user: keep(contexts.user), item: keep(contexts.item) },
    frequencies: { user: keep(frequencies.user), item: keep(frequencies.item) },
  }
}

export function saveWaiting(state: State, waiting: Waiting | undefined): void {
  state.set("there", waiting !== undefined)
  if (!waiting) return
  state.put("user", waiting.batch.user)
  state.put("item", waiting.batch.item)
  state.put("label", waiting.batch.label)
  for (const side of SIDES) {
    state.put(`contexts.${side}`, waiting.contexts[side])
    state.put(`frequencies.${side}`, waiting.frequencies[side])
  }
}

export function loadWaiting(state: State): Waiting | undefined {
  if (!state.get("there")) return undefined
  const floats = (name: string) => state.take(name, Float64Array).slice()
  const ints = (name: string) => state.take(name, Int32Array).slice()
  return {
    batch: { user: ints("user"), item: ints("item"), label: floats("label") },
    contexts: { user: floats("contexts.user"), item: floats("contexts.item") },
    frequencies: { user: floats("frequencies.user"), item: floats("frequencies.item") },
  }
}
