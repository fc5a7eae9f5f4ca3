/** Routes for those who run the service: health, metrics, and the description of the API. */

import { Type } from "typebox"
import { DessError } from "../errors.ts"
import type { Metrics } from "./metrics.ts"
import type { Surroundings } from "./native.ts"
import { describeApi } from "./openapi.ts"
import { type Route, route } from "./route.ts"
import * as schema from "./schemas.ts"

/** `others`: the routes to describe beside these. */
export function operationRoutes({ recommender, stopping }: Surroundings, metrics: Metrics, others: Route[]): Route[] {
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
      summary: "Whether events are taken and lists given; 503 while starting, stopping, or when training stopped",
      access: "open",
      gives: schema.Health,
      handle: () => {
        const { state } = recommender().status()
        if (state !== "learning" || stopping.aborted)
          throw new DessError(
            "CLOSED",
            `recommender: expected it to learn, it is ${stopping.aborted ? "stopping" : state}`,
          )
        return { status: "ready" }
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
      handle: () => metrics.text(statusOf(recommender)),
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

function statusOf(recommender: Surroundings["recommender"]) {
  try {
    return recommender().status()
  } catch (error) {
    if (error instanceof DessError && error.code === "CLOSED") return undefined
    throw error
  }
}
