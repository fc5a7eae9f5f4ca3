/** What every module uses. */

export const SIDES = ["user", "item"] as const
export type Side = (typeof SIDES)[number]

/** 0 keeps the size, 1 grows it by one step. */
export type Arm = 0 | 1

export type Task = "binary" | "multiclass" | "topk"

export type HeadKind = "ncf" | "mf" | "distance"

/** One event as the outside world knows it: ids are strings or numbers, the timestamp is in seconds. */
export interface Interaction {
  user: string | number
  item: string | number
  rating: number
  timestamp: number
}

/** Interactions as modules exchange them: dense indices, column by column, in time order. */
export interface InteractionBatch {
  length: number
  user: Int32Array
  item: Int32Array
  /** On the scale 0.5 to 5. */
  rating: Float32Array
  timestamp: Float64Array
}

/** One cut of the stream: rows before `trainLength` are for training, the rest for the test. */
export interface Segment extends InteractionBatch {
  index: number
  trainLength: number
  /** When it was closed, in milliseconds since 1970; live only. */
  time?: number
  /** How many events each row counts as, 0 or more. Default: 1 for every row. */
  weight?: Float32Array | undefined
  /** Whether people may come back to items. Default false. */
  repeats?: boolean
  /** Bytes of the names of each row's ids; live, with a budget in bytes. */
  nameBytes?: Record<Side, Uint16Array>
  /** Bytes of item details, idempotency keys, feedback and notes; included. */
  propertyBytes?: number
}

/** Item features: row `i` of `values` belongs to item index `i`; `present[i]` is 0 for an item without an entry. */
export interface ItemFeatures {
  columns: readonly string[]
  values: Float32Array
  present: Uint8Array
}
