/** Gorse's users: noted when they are inserted, learned from when they do something. */

import type { Static } from "typebox"
import { DessError, show } from "../errors.ts"
import { forgetUser } from "./forget.ts"
import * as schema from "./gorse-schemas.ts"
import type { Surroundings } from "./native.ts"
import type { Note } from "./notes.ts"
import { type Route, route } from "./route.ts"

export function userRoutes(surroundings: Surroundings): Route[] {
  const { recommender, notes } = surroundings
  const tag = "gorse"
  const view = (id: string) => {
    const { labels = null, comment = "" } = notes.get("user", id) ?? {}
    return { UserId: id, Labels: labels, Subscribe: null, Comment: comment }
  }
  const insert = (users: Static<typeof schema.Users>) => {
    // Refuses before the notes are there.
    recommender()
    notes.put(
      "user",
      users.map((user) => ({ id: user.UserId, note: userNote(user) })),
    )
    return { RowAffected: users.length }
  }
  return [
    route({
      method: "POST",
      path: "/api/user",
      tag,
      summary: "Insert a user",
      access: "write",
      body: schema.User,
      gives: schema.RowAffected,
      handle: ({ body }) => insert([body]),
    }),
    route({
      method: "POST",
      path: "/api/users",
      tag,
      summary: "Insert users",
      access: "write",
      body: schema.Users,
      gives: schema.RowAffected,
      handle: ({ body }) => insert(body),
    }),
    route({
      method: "PATCH",
      path: "/api/user/:user",
      tag,
      summary: "Change a user",
      access: "write",
      params: schema.UserPath,
      body: schema.UserPatch,
      gives: schema.RowAffected,
      handle: ({ params, body }) => insert([{ ...body, UserId: params.user }]),
    }),
    route({
      method: "GET",
      path: "/api/user/:user",
      tag,
      summary: "A user",
      access: "read",
      params: schema.UserPath,
      gives: schema.User,
      handle: ({ params: { user } }) => {
        if (!recommender().has("user", user) && !notes.get("user", user))
          throw new DessError("NOT_FOUND", `user: expected one that has been met or inserted, got ${show(user)}`)
        return view(user)
      },
    }),
    route({
      method: "GET",
      path: "/api/users",
      tag,
      summary: "Users, a page at a time: those who did something, then those who were only inserted",
      access: "read",
      query: schema.PageQuery,
      gives: schema.UserPage,
      handle: ({ query }) => {
        const { n: count = 10, cursor, Cursor } = query
        const offset = readCursor(cursor ?? Cursor)
        const { known } = recommender().status().users
        const ids = offset < known ? recommender().ids("user", { offset, count }) : []
        let skip = Math.max(0, offset - known)
        for (const id of notes.ids("user")) {
          if (ids.length >= count) break
          if (recommender().has("user", id)) continue
          if (skip > 0) skip--
          else ids.push(id)
        }
        return { Cursor: ids.length < count ? "" : String(offset + count), Users: ids.map(view) }
      },
    }),
    route({
      method: "DELETE",
      path: "/api/user/:user",
      tag,
      summary: "Forget a user, in memory and on disk",
      access: "write",
      params: schema.UserPath,
      gives: schema.RowAffected,
      handle: async ({ params }) => ({ RowAffected: (await forgetUser(surroundings, params.user)).found ? 1 : 0 }),
    }),
  ]
}

/** What is noted of a user or item: only what was said. */
export function userNote({ Labels, Comment }: { Labels?: unknown; Comment?: string | null }): Note {
  return {
    ...(Labels === undefined ? {} : { labels: Labels }),
    ...(Comment === undefined || Comment === null ? {} : { comment: Comment }),
  }
}

/** A cursor is the place of the next page. */
export function readCursor(text = ""): number {
  if (text === "") return 0
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new DessError("INVALID_ARGUMENT", `cursor: expected one that a page gave, got ${show(text)}`)
}
