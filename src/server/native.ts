/** The native API, under /v1. */

import { Readable } from "node:stream"
import type { FastifyReply } from "fastify"
import { type Static, Type } from "typebox"
import type {
  Event,
  GuestOptions,
  Included,
  ListOptions,
  RecommendationList,
  RecommendOptions,
  ServedRecommender,
  Status,
} from "../engine/types.ts"
import { DessError } from "../errors.ts"
import type { Guard } from "./api-keys.ts"
import { observeLines, type StreamLimits } from "./lines.ts"
import { LiveEvents, publicReport } from "./live-events.ts"
import { onOneMachine } from "./one-machine.ts"
import { withoutPaths } from "./problem.ts"
import { LIST_PATH, listHeaders } from "./quick-lists.ts"
import { type Route, route } from "./route.ts"
import * as schema from "./schemas.ts"
import { createCheck } from "./validate.ts"

/** Lists that are nobody's. */
const GENERAL = [
  { path: "/v1/popular", method: "popular", what: "What is trending, then what is new" },
  { path: "/v1/new", method: "newest", what: "What is new, the latest first" },
] as const

function named(reply: FastifyReply, list: RecommendationList): RecommendationList {
  for (const [name, value] of listHeaders(list)) reply.header(name, value)
  return list
}

export interface RouteContext<R extends ServedRecommender = ServedRecommender> {
  /** Refuses while the recommender is starting or gone. */
  recommender(): R
  /** Set when the service stops. */
  stopping: AbortSignal
  /** Refuses a request whose key does not allow it. */
  guard: Guard
  streamLimits: StreamLimits
  /** Milliseconds the last requests took; null before the first. */
  latency(): { p50: number; p99: number } | null
}

export function nativeRoutes(context: RouteContext): Route[] {
  const { recommender, stopping } = context
  const live = new LiveEvents(stopping, context.latency)
  const checkEvent = createCheck(schema.Event, "event")
  const tag = "native"
  return [
    route({
      method: "POST",
      path: "/v1/interactions",
      tag,
      summary: "Observe one event, an array of up to 10,000, or a stream of JSON lines (application/x-ndjson)",
      access: "write",
      body: schema.Events,
      gives: schema.Accepted,
      lines: true,
      handle: ({ body }) =>
        (body as unknown) instanceof Readable
          ? observeLines(body as unknown as Readable, {
              recommender: recommender(),
              check: checkEvent,
              signal: stopping,
              limits: context.streamLimits,
            })
          : recommender().observe(body as Event | Event[]),
    }),
    route({
      method: "GET",
      path: LIST_PATH,
      tag,
      summary: "The best items for a user",
      access: "read",
      params: schema.IdPath,
      query: schema.RecommendQuery,
      gives: schema.Recommendations,
      handle: async ({ params, query, reply }) =>
        named(reply, await recommender().recommend(params.id, listOptions(query))),
    }),
    route({
      method: "POST",
      path: "/v1/users/:id/recommendations",
      tag,
      summary: "The best items for a user, with filters, boosts and caps",
      access: "read",
      params: schema.IdPath,
      body: schema.RecommendBody,
      gives: schema.Recommendations,
      handle: async ({ params, body, reply }) =>
        named(reply, await recommender().recommend(params.id, body as RecommendOptions)),
    }),
    route({
      method: "POST",
      path: "/v1/recommendations",
      tag,
      summary: "The best items for somebody without an id, by what was clicked on; nothing is kept",
      access: "read",
      body: schema.Guest,
      gives: schema.Recommendations,
      handle: async ({ body, reply }) => named(reply, await recommender().recommend(body as GuestOptions)),
    }),
    route({
      method: "GET",
      path: "/v1/items/:id/similar",
      tag,
      summary: "Items nearest to an item",
      access: "read",
      params: schema.IdPath,
      query: schema.ListQuery,
      gives: schema.Recommendations,
      handle: async ({ params, query, reply }) =>
        named(reply, await recommender().similar(params.id, listOptions(query))),
    }),
    route({
      method: "POST",
      path: "/v1/items/:id/similar",
      tag,
      summary: "Items nearest to an item, with filters, boosts and caps",
      access: "read",
      params: schema.IdPath,
      body: schema.ListBody,
      gives: schema.Recommendations,
      handle: async ({ params, body, reply }) =>
        named(reply, await recommender().similar(params.id, body as ListOptions)),
    }),
    ...GENERAL.flatMap(({ path, method, what }) => [
      route({
        method: "GET",
        path,
        tag,
        summary: what,
        access: "read",
        query: schema.ListQuery,
        gives: schema.Recommendations,
        handle: async ({ query, reply }) => named(reply, await recommender()[method](listOptions(query))),
      }),
      route({
        method: "POST",
        path,
        tag,
        summary: `${what}; with filters, boosts and caps`,
        access: "read",
        body: schema.ListBody,
        gives: schema.Recommendations,
        handle: async ({ body, reply }) => named(reply, await recommender()[method](body as ListOptions)),
      }),
    ]),
    route({
      method: "GET",
      path: "/v1/experiments",
      tag,
      summary: "What lists led to, by variant, with intervals of 95 %",
      access: "read",
      gives: schema.Experiments,
      handle: () => {
        const live = recommender()
        const found = live.experiments()
        if (found) return found
        throw new DessError(
          "NOT_FOUND",
          "experiments: expected lists that are counted (--tracking or --variants), got none",
        )
      },
    }),
    route({
      method: "GET",
      path: "/v1/users/:id/similar",
      tag,
      summary: "Users nearest to a user",
      access: "read",
      slow: true,
      params: schema.IdPath,
      query: schema.CountQuery,
      gives: schema.SimilarUsers,
      handle: ({ params, query }) => onOneMachine(recommender(), "similar users").similarUsers(params.id, query),
    }),
    route({
      method: "POST",
      path: "/v1/users/:id/preview",
      tag,
      summary: "The list a user would get after doing something with up to 100 items; nothing is learned",
      access: "read",
      params: schema.IdPath,
      body: schema.Preview,
      gives: schema.Recommendations,
      handle: ({ params, body: { items, ...options } }) => recommender().preview(params.id, items, options),
    }),
    route({
      method: "GET",
      path: "/v1/users",
      tag,
      summary: "Names of known users, in the order they came",
      access: "read",
      query: schema.IdsQuery,
      gives: schema.Ids,
      handle: ({ query }) => recommender().list("user", query),
    }),
    route({
      method: "GET",
      path: "/v1/items",
      tag,
      summary:
        "Names of known items, in the order they came; with a query the items it finds, with title and properties",
      access: "read",
      slow: true,
      query: schema.ItemsQuery,
      gives: schema.FoundItems,
      handle: ({ query: { query, ...page } }) =>
        query === undefined ? recommender().list("item", page) : recommender().search(query, page),
    }),
    route({
      method: "POST",
      path: "/v1/predictions",
      tag,
      summary: "What the model thinks of one pair, or of an array of up to 10,000",
      access: "read",
      slow: true,
      body: schema.Pairs,
      gives: schema.Predictions,
      handle: ({ body }) =>
        Array.isArray(body) ? recommender().predict(body) : recommender().predict(body.user, body.item),
    }),
    route({
      method: "GET",
      path: "/v1/users/:id",
      tag,
      summary: "Everything held about a user",
      access: "read",
      params: schema.IdPath,
      query: schema.AfterQuery,
      gives: schema.Explanation,
      handle: ({ params, query }) => recommender().explain("user", params.id, query),
    }),
    route({
      method: "GET",
      path: "/v1/items/:id",
      tag,
      summary: "Everything held about an item",
      access: "read",
      params: schema.IdPath,
      gives: schema.Explanation,
      handle: ({ params }) => recommender().explain("item", params.id),
    }),
    route({
      method: "PUT",
      path: "/v1/items",
      tag,
      summary: "Add an item or change it, or an array of up to 10,000",
      access: "write",
      body: schema.ItemEntries,
      gives: schema.ItemsPut,
      handle: async ({ body }) => ({ items: await recommender().putItems(body) }),
    }),
    route({
      method: "POST",
      path: "/v1/users/:id/merge",
      tag,
      summary: "What was done under a guest's id is this user's from now on",
      access: "write",
      params: schema.IdPath,
      body: schema.Merge,
      gives: schema.Merged,
      handle: ({ params, body: { guest } }) => recommender().merge(guest, params.id),
    }),
    route({
      method: "DELETE",
      path: "/v1/users/:id",
      tag,
      summary: "Forget a user, in memory and on disk",
      access: "write",
      slow: true,
      params: schema.IdPath,
      gives: schema.Receipt,
      handle: async ({ params, reply }) => {
        const receipt = await recommender().forget(params.id)
        if (receipt.status === "pending") reply.code(202)
        return receipt
      },
    }),
    route({
      method: "DELETE",
      path: "/v1/items/:id",
      tag,
      summary: "Delete an item: from the catalogue, the model and every list",
      access: "write",
      params: schema.IdPath,
      gives: schema.ItemsDeleted,
      handle: async ({ params }) => ({
        items: await recommender().deleteItems(params.id),
      }),
    }),
    route({
      method: "GET",
      path: "/v1/status",
      tag,
      summary: "Counts, memory, freshness, journal and the last segment",
      access: "read",
      gives: schema.Status,
      handle: () => publicStatus(recommender().status()),
    }),
    route({
      method: "GET",
      path: "/v1/events",
      tag,
      summary: "Server-sent events: one message named segment per learned segment",
      access: "read",
      query: schema.EventsQuery,
      gives: Type.String(),
      type: "text/event-stream",
      long: true,
      handle: ({ reply, query: { last } }) => live.send(reply, recommender(), last),
    }),
    route({
      method: "POST",
      path: "/v1/snapshots",
      tag,
      summary: "Write a snapshot of everything accepted so far",
      access: "write",
      slow: true,
      gives: schema.SnapshotInfo,
      handle: () => onOneMachine(recommender(), "snapshot", "use dess cluster snapshot <directory>").snapshot(),
    }),
  ]
}

/** A status without the paths of the service's files. */
function publicStatus({ directory, reason, damaged, erasures, ...status }: Status): Static<typeof schema.Status> {
  return {
    ...status,
    directory: directory !== null,
    last: status.last && publicReport(status.last),
    ...(reason === undefined ? {} : { reason: withoutPaths(reason) }),
    ...(damaged === undefined ? {} : { damaged: damaged.length }),
    erasures: erasures && {
      ...erasures,
      ...(erasures.failure === undefined ? {} : { failure: withoutPaths(erasures.failure) }),
    },
  } as Static<typeof schema.Status>
}

/** Options of a list as a query has them. */
function listOptions<T extends Static<typeof schema.ListQuery>>({ exclude, only, categories, include, ...rest }: T) {
  return {
    ...rest,
    exclude: list(exclude),
    only: list(only),
    categories: list(categories),
    include: list(include) as Included[] | undefined,
  }
}

/** A value that a query may repeat. */
function list(given: string | string[] | undefined): string[] | undefined {
  return given === undefined ? undefined : [given].flat()
}
