/** A segment with its contexts, waiting to be the next round. */

import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"

export interface Waiting {
  batch: { user: Int32Array; item: Int32Array; label: Float64Array }
  /** [rows×dimension] */
  contexts: Record<Side, Float64Array>
  frequencies: Record<Side, Float64Array>
}

const SIDES = ["user", "item"] as const

/** The same without the rows of some ids. */
export function withoutIds(waiting: Waiting, side: Side, ids: ReadonlySet<number>): Waiting {
  const { batch, contexts, frequencies } = waiting
  const column = batch[side]
  const rows = Int32Array.from(column.keys()).filter((r) => !ids.has(column[r]))
  if (rows.length === column.length) return waiting
  /** Rows of so many numbers as the source has for each; none where it has none. */
  const keep = (source: Float64Array): Float64Array => {
    const width = source.length / column.length
    return Float64Array.from(
      { length: rows.length * width },
      (_, i) => source[rows[Math.floor(i / width)] * width + (i % width)],
    )
  }
  return {
    batch: {
      user: Int32Array.from(rows, (r) => batch.user[r]),
      item: Int32Array.from(rows, (r) => batch.item[r]),
      label: keep(batch.label),
    },
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
