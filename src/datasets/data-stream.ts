/** What a stream from files offers beyond a stream, and the options it is opened with. */

import { DessError } from "../errors.ts"
import { DEFAULT_SCALE, type RatingScale } from "../stream/interaction.ts"
import { LIKE_THRESHOLD } from "../stream/labels.ts"
import type { Order } from "../stream/order.ts"
import type { Stream } from "../stream/stream.ts"
import type { ColumnChoice, Reading } from "./header.ts"

export interface OpenOptions {
  /** Default "time", which is stable. */
  order?: Order
  /** Of the shuffle. */
  seed?: number
  /** Only this many interactions, the first, after ordering. */
  limit?: number
  /** The scale of the file's ratings, 0 to 5 unless declared. */
  ratingScale?: RatingScale
  /** A rating above it, on the scale declared, is a like; default 3.5 on the internal scale. */
  likeThreshold?: number
  /** Columns that are not called what they usually are. */
  columns?: ColumnChoice
  /** Every row is a positive, whether there are ratings or not. */
  implicit?: boolean
  /** Kinds of events that count, where a column says what kind a row is; all without it. */
  types?: readonly string[]
  /** Told how many rows were read, and what share of all that is. */
  onRead?: (rows: number, share: number) => void
}

/** A stream that comes from files. The counts are for tables, never for learning. */
export interface DataStream extends Stream {
  readonly interactions: number
  readonly users: number
  readonly items: number
  /** The scale the ratings were declared on; those in the batches are on the internal one. */
  readonly ratingScale: RatingScale
  /** On the internal scale. */
  readonly likeThreshold: number
  /** Without ratings: every row is a positive. */
  readonly implicit?: boolean
  /** Which columns were taken for what; what `dess prepare` made has none. */
  readonly reading?: Reading
  /** What has to be said loudly of how it was read. */
  readonly notes?: readonly string[]
  /** Present where the file was not UTF-8 and was taken as Latin-1. */
  readonly encoding?: "latin-1"
  userName(index: number): string
  itemName(index: number): string
  itemTitle?(index: number): string | undefined
}

/** A like threshold on the declared scale → on the internal one. */
export function scaleThreshold(threshold: number | undefined, { min, max }: RatingScale): number {
  if (threshold === undefined) return LIKE_THRESHOLD
  if (threshold >= min && threshold < max) return (threshold * 5) / max
  throw new DessError(
    "INVALID_ARGUMENT",
    `like threshold: expected a number from ${min} to below ${max}, the scale declared, got ${threshold}`,
  )
}

/** What counts as a like: a rating above it, on the scale declared. */
export interface Liked {
  above: number
  scale: RatingScale
}

export function likedOf(stream: { likeThreshold?: number; ratingScale?: RatingScale }): Liked {
  const { likeThreshold = LIKE_THRESHOLD, ratingScale: scale = DEFAULT_SCALE } = stream
  return { above: Number(((likeThreshold * scale.max) / 5).toPrecision(6)), scale }
}

/** In words. */
export function describeLiked({ above, scale: { min, max } }: Liked): string {
  return `a rating above ${above} (scale ${min}-${max})`
}
