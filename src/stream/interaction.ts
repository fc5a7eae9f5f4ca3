/**
 * One interaction, validated.
 *
 * - an id is a non-empty text of at most 512 characters or a finite number; 7 and "7" are the same id
 * - a rating lies on the declared scale `min`–`max` and is mapped to the internal scale by rating·5/max:
 *   0–5 and 0.5–5 pass unchanged, 0–10 is halved (so a like, more than 3.5 inside, is more than 7 outside)
 * - a timestamp is in seconds since 1970; above 1e11 (the year 5138) it must be milliseconds and is divided by 1000
 */

import { DessError, show } from "../errors.ts"
import type { Interaction } from "../types.ts"

/** The scale ratings come on: both ends included, 0 ≤ min < max. */
export interface RatingScale {
  readonly min: number
  readonly max: number
}

export const DEFAULT_SCALE: RatingScale = { min: 0, max: 5 }

const LONGEST_ID = 512
const MILLISECONDS_FROM = 1e11

/** The interaction with its rating on the internal scale and its time in seconds. `where` ("line 17") ends the refusal. */
export function checkInteraction(value: unknown, where = "", scale: RatingScale = DEFAULT_SCALE): Interaction {
  if (typeof value !== "object" || value === null) {
    throw refusal("interaction", "an object with user, item, rating and timestamp", { got: value, where })
  }
  const { user, item, rating, timestamp } = value as Record<keyof Interaction, unknown>
  return {
    user: checkId("user", user, where),
    item: checkId("item", item, where),
    rating: checkRating(rating, where, scale),
    timestamp: checkTimestamp(timestamp, where),
  }
}

/** An id of the outside world. */
export function checkId(side: "user" | "item", value: unknown, where = ""): string | number {
  if (typeof value === "number" && Number.isFinite(value)) return value
  if (typeof value === "string" && value.length > 0 && value.length <= LONGEST_ID) return value
  const got = typeof value === "string" && value.length > LONGEST_ID ? `${value.length} characters` : show(value)
  const expected = `a text of 1 to ${LONGEST_ID} characters or a finite number`
  throw new DessError("INVALID_DATA", `interaction ${side}: expected ${expected}, got ${got}${place(where)}`)
}

/** A rating on `scale`, mapped to the internal scale. */
export function checkRating(value: unknown, where = "", scale: RatingScale = DEFAULT_SCALE): number {
  const { min, max } = scale
  if (typeof value === "number" && value >= min && value <= max) return (value * 5) / max
  throw refusal("interaction rating", `a number from ${min} to ${max}`, { got: value, where })
}

/** The latest timestamp, 1000 × the latest in seconds: the year 5138. */
const LATEST_MILLISECONDS = 1e14

/** A time in seconds. */
export function checkTimestamp(value: unknown, where = ""): number {
  if (typeof value === "number" && value >= 0 && value <= LATEST_MILLISECONDS) {
    // + 0 makes −0 an ordinary zero.
    return value > MILLISECONDS_FROM ? value / 1000 : value + 0
  }
  throw refusal("interaction timestamp", "a time in seconds or milliseconds, from 0 to the year 5138", {
    got: value,
    where,
  })
}

/** Reads "0-10" as a scale. */
export function parseRatingScale(text: string): RatingScale {
  const match = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text)
  const min = Number(match?.[1])
  const max = Number(match?.[2])
  if (min < max && max < Number.POSITIVE_INFINITY) return { min, max }
  throw new DessError(
    "INVALID_ARGUMENT",
    `rating scale: expected two numbers like 0-10, none below 0, the lower first, got ${show(text)}`,
  )
}

function refusal(noun: string, expected: string, { got, where }: { got: unknown; where: string }): DessError {
  return new DessError("INVALID_DATA", `${noun}: expected ${expected}, got ${show(got)}${place(where)}`)
}

function place(where: string): string {
  return where === "" ? "" : ` (${where})`
}
