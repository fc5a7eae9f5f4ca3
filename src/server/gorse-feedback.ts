/** Gorse's feedback as events. A type that only says "was shown" is a negative, every other a positive. */

import { createHmac } from "node:crypto"
import type { Static } from "typebox"
import { parseTime } from "../datasets/time.ts"
import type { Event } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import * as schema from "./gorse-schemas.ts"
import type { Surroundings } from "./native.ts"
import { type Route, route } from "./route.ts"

export interface FeedbackOptions {
  /** Types of feedback that mean: seen, and not liked. */
  readTypes: readonly string[]
  /** The rating such an event gets. */
  negative: number
}

type Feedback = Static<typeof schema.Feedback>

/** Insert keeps the first of a user, item and type; overwrite takes another one when its time differs. */
export function toEvent(
  feedback: Feedback,
  { readTypes, negative }: FeedbackOptions,
  { salt, overwrite = false }: { salt: string; overwrite?: boolean },
): Event {
  const { FeedbackType: type, UserId: user, ItemId: item, Timestamp } = feedback
  const parts = JSON.stringify([type, user, item, ...(overwrite ? [Timestamp ?? ""] : [])])
  const timestamp = readTime(Timestamp)
  return {
    user,
    item,
    key: `gorse:${createHmac("sha256", salt).update(parts).digest("base64url")}`,
    ...(readTypes.includes(type) ? { rating: negative } : {}),
    ...(timestamp === undefined ? {} : { timestamp }),
  }
}

/** Seconds; undefined (now) for no time and for the zero time of Go. */
function readTime(text: string | null | undefined): number | undefined {
  if (text === undefined || text === null || text === "" || text.startsWith("0001-01-01")) return undefined
  const milliseconds = Date.parse(text)
  const seconds = Number.isNaN(milliseconds) ? parseTime(text) : milliseconds / 1000
  if (seconds >= 0) return seconds
  throw new DessError("INVALID_DATA", `Timestamp: expected a date from 1970 on, got ${show(text)}`)
}

export function feedbackRoutes({ recommender, notes }: Surroundings, options: FeedbackOptions): Route[] {
  const insert = (method: "POST" | "PUT", summary: string) =>
    route({
      method,
      path: "/api/feedback",
      tag: "gorse",
      summary,
      access: "write",
      body: schema.Feedbacks,
      gives: schema.RowAffected,
      handle: async ({ body }) => {
        const key = { salt: notes.salt, overwrite: method === "PUT" }
        await recommender().observe(body.map((one) => toEvent(one, options, key)))
        return { RowAffected: body.length }
      },
    })
  return [
    insert("POST", "Insert feedback; what is there already is left as it is"),
    insert("PUT", "Insert feedback, or take it again with another time"),
  ]
}
