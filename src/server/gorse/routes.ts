/** What clients of Gorse (0.4) call, under /api: users, items, feedback and lists. Not there: measurements and intermediate lists. */

import type { Recommender } from "../../engine/types.ts"
import type { RouteContext } from "../native.ts"
import type { Route } from "../route.ts"
import { type FeedbackOptions, feedbackRoutes } from "./feedback.ts"
import { itemRoutes } from "./items.ts"
import { listRoutes } from "./lists.ts"
import { userRoutes } from "./users.ts"

export function gorseRoutes(context: RouteContext<Recommender>, options: FeedbackOptions): Route[] {
  return [
    ...feedbackRoutes(context, options),
    ...userRoutes(context),
    ...itemRoutes(context),
    ...listRoutes(context, options),
  ]
}
