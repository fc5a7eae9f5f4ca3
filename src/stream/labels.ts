/** What a rating means to a task. */

export const LIKE_THRESHOLD = 3.5

/** Binary: 1 for a rating above the threshold. */
export function binaryLabel(rating: number, threshold = LIKE_THRESHOLD): 0 | 1 {
  return rating > threshold ? 1 : 0
}

/** What an event says of its item on the scale 0 to 5: without a rating it is liked, with a weight below 0 it is not. */
export function effectiveRating(rating: number, weight: number): number {
  if (weight < 0) return 0
  return Number.isNaN(rating) ? 5 : rating
}

/** Multiclass: floor(rating − 0.5), clipped to 0…4. */
export function classLabel(rating: number): number {
  return Math.min(4, Math.max(0, Math.floor(rating - 0.5)))
}
