/** What clients of Gorse (0.4 and 0.5) call, under /api: users, items, feedback, lists and health. Not there: measurements and intermediate lists. */

import type { Recommender } from "../../engine/types.ts"
import type { RouteContext } from "../native.ts"
import { describeHealth, statusOf } from "../operations.ts"
import { type Route, route } from "../route.ts"
import { type FeedbackOptions, feedbackRoutes } from "./feedback.ts"
import { itemRoutes } from "./items.ts"
import { listRoutes } from "./lists.ts"
import * as schema from "./schemas.ts"
import { userRoutes } from "./users.ts"

export function gorseRoutes(context: RouteContext<Recommender>, options: FeedbackOptions): Route[] {
  return [
    ...healthRoutes(context),
    ...feedbackRoutes(context, options),
    ...userRoutes(context),
    ...itemRoutes(context),
    ...listRoutes(context, options),
  ]
}

/** One store is all there is: it stands for the two of Gorse. */
function healthRoutes({ recommender, stopping }: RouteContext<Recommender>): Route[] {
  return (["live", "ready"] as const).map((kind) =>
    route({
      method: "GET",
      path: `/api/health/${kind}`,
      tag: "gorse",
      summary: kind === "live" ? "Whether the process answers" : "Whether it is ready; 503 where not",
      access: "open",
      gives: schema.Health,
      handle: ({ reply }) => {
        const { status } = describeHealth(statusOf(recommender), stopping.aborted)
        const isReady = status === "ready"
        if (kind === "ready" && !isReady) reply.code(503).header("retry-after", 2)
        return {
          ...{ Ready: isReady, DataStoreError: null, CacheStoreError: null },
          ...{ DataStoreConnected: isReady, CacheStoreConnected: isReady },
        }
      },
    }),
  )
}
