/** Gorse's feedback as events of a type. A type that only says "was shown" is a negative, every other a positive. */

import type { Static } from "typebox"
import { parseTime } from "../../datasets/time.ts"
import type { Event, FeedbackOptions as Query, Recommender } from "../../engine/types.ts"
import { DessError, show } from "../../errors.ts"
import { SIDES } from "../../types.ts"
import type { RouteContext } from "../native.ts"
import { type Route, route } from "../route.ts"
import * as schema from "./schemas.ts"

export interface FeedbackOptions {
  /** Types of feedback that mean: seen, and not liked. */
  readTypes: readonly string[]
  /** The rating such an event gets. */
  negative: number
}

/** The most of one user or item that is given at once. */
const MOST = 10_000

export function toEvent(feedback: Static<typeof schema.Feedback>, { readTypes, negative }: FeedbackOptions): Event {
  const { FeedbackType: type, UserId: user, ItemId: item, Timestamp } = feedback
  const timestamp = readTime(Timestamp)
  const comment = packComment(feedback)
  return {
    user,
    item,
    type,
    ...(comment === "" ? {} : { comment }),
    ...(readTypes.includes(type) ? { rating: negative } : {}),
    ...(timestamp === undefined ? {} : { timestamp }),
  }
}

/** Begins a comment that has more in it than a comment: no client writes it. */
const MORE = "\u0001"

/** The comment, with the value and labels of Gorse 0.5 where there are any: they are kept, nothing is learned from them. */
function packComment({ Comment, Value, Labels }: Static<typeof schema.Feedback>): string {
  const hasLabels = Labels !== undefined && Labels !== null
  if (!Value && !hasLabels) return Comment ?? ""
  return MORE + JSON.stringify([Comment ?? "", Value ?? 0, Labels ?? null])
}

function unpackComment(text: string): { Comment: string; Value: number; Labels: unknown } {
  if (!text.startsWith(MORE)) return { Comment: text, Value: 0, Labels: null }
  const [Comment, Value, Labels] = JSON.parse(text.slice(MORE.length)) as [string, number, unknown]
  return { Comment, Value, Labels }
}

/** Seconds; undefined (now) for no time and for the zero time of Go. */
function readTime(text: string | null | undefined): number | undefined {
  if (text === undefined || text === null || text === "" || text.startsWith("0001-01-01")) return undefined
  const milliseconds = Date.parse(text)
  const seconds = Number.isNaN(milliseconds) ? parseTime(text) : milliseconds / 1000
  if (seconds >= 0) return seconds
  throw new DessError("INVALID_DATA", `Timestamp: expected a date from 1970 on, got ${show(text)}`)
}

/** As Go prints it: no fraction where there is none. */
const printTime = (seconds: number) => new Date(1000 * seconds).toISOString().replace(".000Z", "Z")

export function feedbackRoutes({ recommender }: RouteContext<Recommender>, options: FeedbackOptions): Route[] {
  const tag = "gorse" as const
  const insert = (method: "POST" | "PUT", summary: string) =>
    route({
      method,
      path: "/api/feedback",
      tag,
      summary,
      access: "write",
      body: schema.Feedbacks,
      gives: schema.RowAffected,
      handle: async ({ body }) => {
        await recommender().observe(
          body.map((one) => toEvent(one, options)),
          { replace: method === "PUT" },
        )
        return { RowAffected: body.length }
      },
    })
  const read = async (query: Query) => {
    const { feedback, next } = await recommender().feedback(query)
    const views = feedback.map(({ user, item, type, timestamp, comment }) => ({
      FeedbackType: type,
      UserId: user,
      ItemId: item,
      Timestamp: printTime(timestamp),
      ...unpackComment(comment),
    }))
    return { views, next }
  }
  const page = async (query: Static<typeof schema.PageQuery>, type?: string) => {
    const { n: count = 10, cursor, Cursor } = query
    const after = cursor ?? Cursor
    const { views, next } = await read({ type, count, ...(after ? { after } : {}) })
    return { Cursor: next ?? "", Feedback: views }
  }
  const all = async (query: Query) => (await read({ ...query, count: MOST })).views
  return [
    insert("POST", "Insert feedback; what is there already is left as it is"),
    insert("PUT", "Insert feedback, or take it again with another time"),
    route({
      method: "GET",
      path: "/api/feedback",
      tag,
      summary: "Feedback, a page at a time",
      access: "read",
      query: schema.PageQuery,
      gives: schema.FeedbackPage,
      handle: ({ query }) => page(query),
    }),
    route({
      method: "GET",
      path: "/api/feedback/:type",
      tag,
      summary: "Feedback of a type, a page at a time",
      access: "read",
      params: schema.TypePath,
      query: schema.PageQuery,
      gives: schema.FeedbackPage,
      handle: ({ params, query }) => page(query, params.type),
    }),
    route({
      method: "GET",
      path: "/api/feedback/:user/:item",
      tag,
      summary: "Feedback between a user and an item",
      access: "read",
      params: schema.PairPath,
      gives: schema.Feedbacks,
      handle: ({ params }) => all(params),
    }),
    route({
      method: "DELETE",
      path: "/api/feedback/:user/:item",
      tag,
      summary: "Take away the feedback between a user and an item",
      access: "write",
      params: schema.PairPath,
      gives: schema.RowAffected,
      handle: async ({ params: { user, item } }) => ({ RowAffected: await recommender().retract(user, item) }),
    }),
    route({
      method: "GET",
      path: "/api/feedback/:type/:user/:item",
      tag,
      summary: "Feedback of a type between a user and an item",
      access: "read",
      params: schema.TypedPairPath,
      gives: schema.Feedback,
      handle: async ({ params }) => {
        const [one] = await all(params)
        if (one) return one
        throw new DessError("NOT_FOUND", `feedback: expected some of ${show(params.type)} between the two, got none`)
      },
    }),
    route({
      method: "DELETE",
      path: "/api/feedback/:type/:user/:item",
      tag,
      summary: "Take away the feedback of a type between a user and an item",
      access: "write",
      params: schema.TypedPairPath,
      gives: schema.RowAffected,
      handle: async ({ params: { user, item, type } }) => ({
        RowAffected: await recommender().retract(user, item, type),
      }),
    }),
    ...SIDES.flatMap((side) => [
      route({
        method: "GET",
        path: `/api/${side}/:id/feedback`,
        tag,
        summary: `Feedback of one ${side}`,
        access: "read",
        params: schema.IdPath,
        gives: schema.Feedbacks,
        handle: ({ params }) => all({ [side]: params.id }),
      }),
      route({
        method: "GET",
        path: `/api/${side}/:id/feedback/:type`,
        tag,
        summary: `Feedback of one ${side} and a type`,
        access: "read",
        params: schema.IdTypePath,
        gives: schema.Feedbacks,
        handle: ({ params }) => all({ [side]: params.id, type: params.type }),
      }),
    ]),
  ]
}
