/** Gorse's users: noted when they are inserted, learned from when they do something. */

import type { Static } from "typebox"
import type { Note } from "../../engine/lookup.ts"
import type { Recommender } from "../../engine/types.ts"
import { DessError, show } from "../../errors.ts"
import type { Side } from "../../types.ts"
import type { RouteContext } from "../native.ts"
import { type Route, route } from "../route.ts"
import * as schema from "./schemas.ts"

export function userRoutes(context: RouteContext<Recommender>): Route[] {
  const { recommender } = context
  const tag = "gorse"
  const view = (id: string) => {
    const { labels = null, comment = "" } = recommender().note("user", id) ?? {}
    return { UserId: id, Labels: labels, Subscribe: null, Comment: comment }
  }
  const insert = async (users: Static<typeof schema.Users>) => {
    await addNotes(
      recommender(),
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
        if (!recommender().has("user", user) && !recommender().note("user", user))
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
        for (const id of recommender().notedIds("user")) {
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
      slow: true,
      params: schema.UserPath,
      gives: schema.RowAffected,
      handle: async ({ params, reply }) => {
        const { found, status } = await recommender().forget(params.user)
        if (status === "pending") reply.code(202)
        return { RowAffected: found ? 1 : 0 }
      },
    }),
  ]
}

/** Adds to what is noted of ids: what is not said stays as it was. */
export async function addNotes(
  recommender: Recommender,
  side: Side,
  given: readonly { id: string; note: Note }[],
): Promise<void> {
  const notes = new Map<string, Note>()
  for (const { id, note } of given) notes.set(id, { ...(notes.get(id) ?? recommender.note(side, id)), ...note })
  await recommender.putNotes(
    side,
    Array.from(notes, ([id, note]) => ({ id, note })),
  )
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
