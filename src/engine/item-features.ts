/** Features of items as they come in: one object that a learner looks at and that grows with the items. */

import type { ItemFeatures } from "../types.ts"

export function emptyFeatures(columns: readonly string[] | undefined): ItemFeatures | undefined {
  return columns && { columns, values: new Float32Array(0), present: new Uint8Array(0) }
}

/** Sets the rows of items; null takes one away. */
export function setFeatures(
  features: ItemFeatures,
  items: readonly number[],
  values: readonly (readonly number[] | null)[],
): void {
  const width = features.columns.length
  const most = items.reduce((largest, item) => Math.max(largest, item + 1), 0)
  if (most > features.present.length) {
    const capacity = Math.max(most, 2 * features.present.length, 64)
    const wider = new Float32Array(capacity * width)
    wider.set(features.values)
    features.values = wider
    const present = new Uint8Array(capacity)
    present.set(features.present)
    features.present = present
  }
  items.forEach((item, i) => {
    const row = values[i]
    features.present[item] = row ? 1 : 0
    features.values.fill(0, item * width, (item + 1) * width)
    if (row) features.values.set(row, item * width)
  })
}
