/** Item features as given by the caller, by item id, and their table by item index. */

import { DessError, show } from "../errors.ts"
import type { ItemFeatures } from "../types.ts"

/** Numeric vectors by item id. A missing item has no entry; an all-zero vector is an entry. */
export interface FeatureTable {
  columns: readonly string[]
  rows:
    | ReadonlyMap<string | number, readonly number[] | Float32Array>
    | Readonly<Record<string, readonly number[] | Float32Array>>
}

/** Lays the vectors of the items met out by item index. */
export function alignFeatures(table: FeatureTable, itemNames: readonly string[]): ItemFeatures {
  const { columns } = table
  const width = columns.length
  const values = new Float32Array(itemNames.length * width)
  const present = new Uint8Array(itemNames.length)
  const index = new Map(itemNames.map((name, i) => [name, i]))
  for (const [id, row] of table.rows instanceof Map ? table.rows : Object.entries(table.rows)) {
    checkRow(id, row, width)
    const item = index.get(String(id))
    if (item === undefined) continue
    values.set(row, item * width)
    present[item] = 1
  }
  return { columns, values, present }
}

function checkRow(id: string | number, row: ArrayLike<number>, width: number): void {
  if (row.length !== width) {
    throw new DessError("INVALID_DATA", `features of item ${show(id)}: expected ${width} numbers, got ${row.length}`)
  }
  for (let k = 0; k < width; k++) {
    if (Number.isFinite(row[k])) continue
    throw new DessError("INVALID_DATA", `features of item ${show(id)}: expected finite numbers, got ${show(row[k])}`)
  }
}
