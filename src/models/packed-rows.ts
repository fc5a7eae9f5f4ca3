/** Rows of some ids on their way from a learner to its readers. */

import type { StateArray } from "../kernels/state.ts"
import type { EmbeddingTable } from "./embedding-table.ts"

export type PackedRows = Record<"ids" | "steps" | "rows", StateArray>

const ABSENT = 255

/** The rows of some ids, those without a row marked as absent. */
export function packRows(table: EmbeddingTable, chosen: Iterable<number>): PackedRows {
  const ids = Int32Array.from(chosen)
  const steps = new Uint8Array(ids.length)
  let length = 0
  ids.forEach((id, i) => {
    steps[i] = table.has(id) ? table.step(id) : ABSENT
    if (steps[i] !== ABSENT) length += table.sizes[steps[i]]
  })
  const rows = new Float32Array(length)
  let at = 0
  ids.forEach((id, i) => {
    if (steps[i] === ABSENT) return
    table.read(id, rows, at)
    at += table.sizes[steps[i]]
  })
  return { ids, steps, rows }
}

/** Puts rows where they belong, and frees those of absent ids. */
export function unpackRows(table: EmbeddingTable, { ids, steps, rows }: PackedRows): void {
  let at = 0
  for (let i = 0; i < ids.length; i++) {
    if (steps[i] === ABSENT) {
      if (table.has(ids[i])) table.free(ids[i])
      continue
    }
    table.ensure(ids[i])
    table.replace(ids[i], steps[i], rows as Float32Array, at)
    at += table.sizes[steps[i]]
  }
}
