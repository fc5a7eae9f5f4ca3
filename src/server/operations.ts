/** Routes for those who run the service: health, metrics, and the description of the API. */

import { type Static, Type } from "typebox"
import type { Status } from "../engine/types.ts"
import { DessError } from "../errors.ts"
import type { Metrics } from "./metrics.ts"
import type { RouteContext } from "./native.ts"
import { describeApi } from "./openapi.ts"
import { withoutPaths } from "./problem.ts"
import { type Route, route } from "./route.ts"
import * as schema from "./schemas.ts"

/** `others`: the routes to describe beside these. */
export function operationRoutes({ recommender, stopping }: RouteContext, metrics: Metrics, others: Route[]): Route[] {
  const tag = "operations"
  const routes: Route[] = [
    route({
      method: "GET",
      path: "/health/live",
      tag,
      summary: "Whether the process answers",
      access: "open",
      gives: schema.Health,
      handle: () => ({ status: "live" }),
    }),
    route({
      method: "GET",
      path: "/health/ready",
      tag,
      summary:
        "Whether events are taken and lists given; 503 while starting, replaying or stopping, when the disk refuses writes, or when training stopped",
      access: "open",
      gives: schema.Health,
      handle: ({ reply }) => {
        const health = describeHealth(statusOf(recommender), stopping.aborted)
        if (health.status !== "ready") reply.code(503).header("retry-after", 2)
        return health
      },
    }),
    route({
      method: "GET",
      path: "/metrics",
      tag,
      summary: "Metrics in the text format of Prometheus",
      access: "read",
      gives: Type.String(),
      type: "text/plain; version=0.0.4; charset=utf-8",
      handle: () => {
        const status = statusOf(recommender)
        const isUp = !(status instanceof DessError)
        const live = isUp ? recommender() : undefined
        return metrics.text(isUp ? status : undefined, live?.experiments())
      },
    }),
    route({
      method: "GET",
      path: "/openapi.json",
      tag,
      summary: "This description",
      access: "open",
      gives: Type.Object({}),
      handle: () => description,
    }),
  ]
  // As bytes: however many answers wait to be read, they are held once.
  const description = Buffer.from(JSON.stringify(describeApi([...others, ...routes])))
  return routes
}

/** What callers without a key may read: no paths, no names. */
export function describeHealth(status: Status | DessError, isStopping: boolean): Static<typeof schema.Health> {
  if (isStopping) return { status: "stopping" }
  if (status instanceof DessError) return { status: "starting", reason: withoutPaths(status.message) }
  const { state, replay, erasures, reason, snapshotFailure } = status
  return {
    status: state === "learning" ? "ready" : state,
    ...(reason === undefined ? {} : { reason: withoutPaths(reason) }),
    ...(replay ? { replay } : {}),
    ...(snapshotFailure === undefined ? {} : { snapshotFailure: withoutPaths(snapshotFailure) }),
    ...(erasures && erasures.pending > 0 ? { erasuresPending: erasures.pending } : {}),
  }
}

/** Of the recommender, or why there is none yet. */
export function statusOf(recommender: RouteContext["recommender"]): Status | DessError {
  try {
    return recommender().status()
  } catch (error) {
    if (error instanceof DessError && error.code === "CLOSED") return error
    throw error
  }
}
