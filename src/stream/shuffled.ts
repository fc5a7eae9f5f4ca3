/** A stream in another order: held in memory, its interactions shuffled, its ids numbered again by first appearance. */

import type { ItemFeatures } from "../types.ts"
import { emptyBatch, type NamedStream, streamFromColumns } from "./columns.ts"

export function shuffleStream(stream: NamedStream, seed: number): NamedStream {
  const columns = emptyBatch(stream.interactions)
  let at = 0
  for (const batch of stream.batches()) {
    columns.user.set(batch.user, at)
    columns.item.set(batch.item, at)
    columns.rating.set(batch.rating, at)
    columns.timestamp.set(batch.timestamp, at)
    at += batch.length
  }
  const userNames = Array.from({ length: stream.users }, (_, u) => stream.userName(u))
  const itemNames = Array.from({ length: stream.items }, (_, i) => stream.itemName(i))
  const features = stream.features === undefined ? {} : { features: tableOf(stream.features, itemNames) }
  return streamFromColumns({
    name: stream.name,
    columns: { ...columns, userNames, itemNames },
    order: "shuffled",
    seed,
    ...features,
  })
}

/** The features keyed by outside id again. */
function tableOf(features: ItemFeatures, itemNames: readonly string[]) {
  const width = features.columns.length
  const rows = new Map<string, Float32Array>()
  itemNames.forEach((name, i) => {
    if (features.present[i]) rows.set(name, features.values.subarray(i * width, (i + 1) * width))
  })
  return { columns: features.columns, rows }
}
