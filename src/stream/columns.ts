/** A stream over columns held in memory, as the file readers fill them. The columns are never copied or changed. */

import { DessError, show } from "../errors.ts"
import type { InteractionBatch, ItemFeatures } from "../types.ts"
import { checkSeed, checkWhole } from "./check.ts"
import { alignFeatures, type FeatureTable } from "./features.ts"
import { nameAt } from "./id-map.ts"
import { checkOrder, type Order, shuffledOrder, timeOrder } from "./order.ts"
import type { Stream } from "./stream.ts"

/** Interactions in any order; `user[i]` and `item[i]` point into the names. */
export interface Columns {
  user: Int32Array
  item: Int32Array
  /** On the scale 0.5 to 5. */
  rating: Float32Array
  /** In seconds. */
  timestamp: Float64Array
  userNames: readonly string[]
  itemNames: readonly string[]
}

export interface ColumnsOptions {
  name: string
  columns: Columns
  /** "time" is stable: equal timestamps keep the order given. */
  order?: Order
  /** Of the shuffle. */
  seed?: number
  /** Only this many interactions, the first, after ordering. */
  limit?: number
  features?: FeatureTable
}

/** A stream that knows its ids before it starts. The counts are for tables and tests, never for learning. */
export interface NamedStream extends Stream {
  readonly interactions: number
  readonly users: number
  readonly items: number
  batches(): Iterable<InteractionBatch>
  userName(index: number): string
  itemName(index: number): string
}

const BATCH = 65536

/** Orders the rows, numbers the ids by first appearance in that order, and hands them out in batches. */
export function streamFromColumns(options: ColumnsOptions): NamedStream {
  const { name, columns, order = "time", seed = 1, limit = Number.POSITIVE_INFINITY } = options
  if (limit !== Number.POSITIVE_INFINITY) checkWhole("limit", limit, 1)
  checkSeed(seed)
  checkColumns(columns)
  const rows =
    checkOrder(order) === "time" ? timeOrder(columns.timestamp) : shuffledOrder(columns.timestamp.length, seed)
  const interactions = Math.min(columns.timestamp.length, limit)
  const users = numberIds({ ids: columns.user, names: columns.userNames, rows, interactions })
  const items = numberIds({ ids: columns.item, names: columns.itemNames, rows, interactions })
  const features: { features?: ItemFeatures } =
    options.features === undefined ? {} : { features: alignFeatures(options.features, items.names) }

  function* batches(): Generator<InteractionBatch> {
    for (let start = 0; start < interactions; start += BATCH) {
      const length = Math.min(BATCH, interactions - start)
      const batch = emptyBatch(length)
      for (let i = 0; i < length; i++) {
        const row = rows === undefined ? start + i : rows[start + i]
        batch.user[i] = users.index[columns.user[row]]
        batch.item[i] = items.index[columns.item[row]]
        batch.rating[i] = columns.rating[row]
        batch.timestamp[i] = columns.timestamp[row]
      }
      yield batch
    }
  }

  return {
    name,
    interactions,
    users: users.names.length,
    items: items.names.length,
    ...features,
    batches,
    userName: (index) => nameAt("user", users.names, index),
    itemName: (index) => nameAt("item", items.names, index),
  }
}

/** A batch of zeros. */
export function emptyBatch(length: number): InteractionBatch {
  return {
    length,
    user: new Int32Array(length),
    item: new Int32Array(length),
    rating: new Float32Array(length),
    timestamp: new Float64Array(length),
  }
}

interface Numbering {
  ids: Int32Array
  names: readonly string[]
  rows: Uint32Array | undefined
  interactions: number
}

/** Dense indices by first appearance: `index[raw]`, and the names in the new order. */
function numberIds({ ids, names, rows, interactions }: Numbering): { index: Int32Array; names: string[] } {
  const index = new Int32Array(names.length).fill(-1)
  const met: string[] = []
  for (let i = 0; i < interactions; i++) {
    const raw = rows === undefined ? ids[i] : ids[rows[i]]
    if (index[raw] >= 0) continue
    index[raw] = met.length
    met.push(names[raw])
  }
  return { index, names: met }
}

function checkColumns({ user, item, rating, timestamp, userNames, itemNames }: Columns): void {
  const { length } = timestamp
  if (user.length !== length || item.length !== length || rating.length !== length) {
    const got = `${user.length}, ${item.length}, ${rating.length} and ${length}`
    throw new DessError("INVALID_DATA", `columns: expected user, item, rating and timestamp of one length, got ${got}`)
  }
  for (let i = 0; i < length; i++) {
    if (!(user[i] >= 0 && user[i] < userNames.length)) refuse("user", `a row of userNames`, user[i], i)
    if (!(item[i] >= 0 && item[i] < itemNames.length)) refuse("item", `a row of itemNames`, item[i], i)
    if (!(rating[i] >= 0 && rating[i] <= 5)) refuse("rating", "a number from 0 to 5", rating[i], i)
    if (!(timestamp[i] >= 0 && timestamp[i] < Number.POSITIVE_INFINITY)) {
      refuse("timestamp", "a finite number of seconds, 0 or more", timestamp[i], i)
    }
  }
}

function refuse(column: string, expected: string, got: number, row: number): never {
  throw new DessError("INVALID_DATA", `column ${column}: expected ${expected}, got ${show(got)} (row ${row})`)
}
