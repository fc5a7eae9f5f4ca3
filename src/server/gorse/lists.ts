/** Gorse's lists: recommended, popular, latest, neighbours, and for a session that has no user yet. */

import type { Static } from "typebox"
import type { Recommender } from "../../engine/types.ts"
import type { RouteContext } from "../native.ts"
import { type Route, type RouteOf, route } from "../route.ts"
import { parseDelay, WriteBack } from "../write-back.ts"
import { type FeedbackOptions, toEvent } from "./feedback.ts"
import * as schema from "./schemas.ts"

type ListQuery = Static<typeof schema.ListQuery>

/** Items that are looked at for the latest. */
const LATEST = 10_000
/** Items of a user that are left out of a list that is not for the user. */
const MOST_MET = 1000

export function listRoutes(context: RouteContext<Recommender>, options: FeedbackOptions): Route[] {
  const { recommender, stopping } = context
  const writeBack = new WriteBack(recommender, stopping)
  const tag = "gorse" as const

  /** What the user that a list asks for has met, as the most that one call takes. */
  const metBy = (query: ListQuery): string[] => {
    const user = query["user-id"]
    return user === undefined ? [] : recommender().history(user, { count: MOST_MET })
  }

  const popular = async (query: ListQuery, category?: string) => {
    const categories = categoriesOf(query, category)
    const list = await recommender().popular({ ...page(query), categories, exclude: metBy(query) })
    return list.map(({ item, score }) => ({ Id: item, Score: score }))
  }

  const personal = async (user: string, query: ListQuery, category?: string) => {
    const list = await recommender().recommend(user, { ...page(query), categories: categoriesOf(query, category) })
    return list.map(({ item, score }) => ({ Id: item, Score: score }))
  }

  const likeItem = async (item: string, query: ListQuery, category?: string) => {
    const { count, offset } = page(query)
    const total = Math.min(1000, offset + count)
    const categories = categoriesOf(query, category)
    const near = await recommender().similar(item, { count: total, categories, exclude: metBy(query) })
    return near.slice(offset).map(({ item: Id, score: Score }) => ({ Id, Score }))
  }

  const likeUser = async (user: string, query: ListQuery) => {
    const { count, offset } = page(query)
    const near = await recommender().similarUsers(user, { count: Math.min(1000, offset + count) })
    return near.slice(offset).map(({ user: Id, score: Score }) => ({ Id, Score }))
  }

  const latest = (query: ListQuery, category?: string) => {
    const { count, offset } = page(query)
    const wanted = categoriesOf(query, category)
    const { known } = recommender().status().items
    const ids = recommender().ids("item", { offset: Math.max(0, known - LATEST), count: LATEST })
    const met = new Set(metBy(query))
    const found: { Id: string; Score: number }[] = []
    for (const id of ids.reverse()) {
      const view = recommender().item(id)
      if (!view || view.hidden || met.has(id) || (wanted && !view.categories.some((name) => wanted.includes(name))))
        continue
      const time = Date.parse(recommender().note("item", id)?.timestamp ?? "") / 1000
      found.push({ Id: id, Score: Number.isFinite(time) ? time : 0 })
    }
    // The date where one was given; else the order of appearance.
    return found.sort((a, b) => b.Score - a.Score).slice(offset, offset + count)
  }

  const session = async (body: Static<typeof schema.Feedbacks>, query: ListQuery, category?: string) => {
    const items = body.map(({ ItemId }) => ItemId)
    const list = await recommender().recommend({ items, ...page(query), categories: categoriesOf(query, category) })
    return list.map(({ item, score }) => ({ Id: item, Score: score }))
  }

  return [
    route({
      method: "GET",
      path: "/api/recommend/:user/:category",
      tag,
      summary: "Items recommended to a user, without those met",
      access: "read",
      params: schema.UserCategoryPath,
      query: schema.RecommendQuery,
      gives: schema.IdsOrScores,
      handle: async ({ params: { user, category }, query, request }) => {
        const list = await personal(user, query, category)
        const ids = list.map(({ Id }) => Id)
        const type = query["write-back-type"]
        if (type && ids.length > 0) {
          context.guard(request.headers, "write")
          const time = new Date().toISOString()
          const shown = ids.map((id) => ({ FeedbackType: type, UserId: user, ItemId: id, Timestamp: time }))
          const events = shown.map((one) => toEvent(one, options))
          await writeBack.add(events, parseDelay(query["write-back-delay"] ?? ""))
        }
        // The second version of the API has scores.
        return request.headers["x-api-version"] === "2" ? list : ids
      },
    }),
    route({
      method: "GET",
      path: "/api/collaborative-filtering/:user/:category",
      tag,
      summary: "Items recommended to a user, with scores",
      access: "read",
      params: schema.UserCategoryPath,
      query: schema.ListQuery,
      gives: schema.Scores,
      handle: ({ params, query }) => personal(params.user, query, params.category),
    }),
    route({
      method: "GET",
      path: "/api/popular/:category",
      tag,
      summary: "What is popular now",
      access: "read",
      params: schema.CategoryPath,
      query: schema.ListQuery,
      gives: schema.Scores,
      handle: ({ params, query }) => popular(query, params.category),
    }),
    route({
      method: "GET",
      path: "/api/latest/:category",
      tag,
      summary: "What is new",
      access: "read",
      params: schema.CategoryPath,
      query: schema.ListQuery,
      gives: schema.Scores,
      handle: ({ params, query }) => latest(query, params.category),
    }),
    route({
      method: "POST",
      path: "/api/session/recommend/:category",
      tag,
      summary: "Items for a session, by those of it, oldest first; nothing is written",
      access: "read",
      params: schema.CategoryPath,
      query: schema.ListQuery,
      body: schema.Feedbacks,
      gives: schema.Scores,
      handle: ({ params, query, body }) => session(body, query, params.category),
    }),
    route({
      method: "GET",
      path: "/api/item/:item/neighbors/:category",
      tag,
      summary: "Items like an item",
      access: "read",
      params: schema.ItemMaybeCategoryPath,
      query: schema.ListQuery,
      gives: schema.Scores,
      handle: ({ params, query }) => likeItem(params.item, query, params.category),
    }),
  ]
    .flatMap(withoutCategory)
    .concat(
      route({
        method: "GET",
        path: "/api/user/:user/neighbors",
        tag,
        summary: "Users like a user",
        access: "read",
        slow: true,
        params: schema.UserPath,
        query: schema.ListQuery,
        gives: schema.Scores,
        handle: ({ params, query }) => likeUser(params.user, query),
      }),
      route({
        method: "GET",
        path: "/api/non-personalized/:name",
        tag,
        summary: 'A list for everybody: "latest" is what is new, any other name what is popular',
        access: "read",
        params: schema.NamePath,
        query: schema.ListQuery,
        gives: schema.Scores,
        handle: async ({ params, query }) => (params.name === "latest" ? latest(query) : popular(query)),
      }),
      route({
        method: "GET",
        path: "/api/item-to-item/:name/:item",
        tag,
        summary: "Items like an item; there is one way of being alike, whatever the name",
        access: "read",
        params: schema.NamedItemPath,
        query: schema.ListQuery,
        gives: schema.Scores,
        handle: ({ params, query }) => likeItem(params.item, query),
      }),
      route({
        method: "GET",
        path: "/api/user-to-user/:name/:user",
        tag,
        summary: "Users like a user; there is one way of being alike, whatever the name",
        access: "read",
        params: schema.NamedUserPath,
        query: schema.ListQuery,
        gives: schema.Scores,
        handle: ({ params, query }) => likeUser(params.user, query),
      }),
    )
}

/** The same route without its last part. */
function withoutCategory(one: Route): Route[] {
  return [
    one,
    { ...(one as RouteOf<never, never, never>), path: one.path.replace("/:category", "") } as unknown as Route,
  ]
}

function page({ n: count = 10, offset = 0 }: ListQuery): { count: number; offset: number } {
  return { count, offset }
}

function categoriesOf({ category: asked }: ListQuery, category?: string): string[] | undefined {
  const all = [asked ?? [], category ?? []].flat()
  return all.length > 0 ? all : undefined
}
