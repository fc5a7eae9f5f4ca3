/** What clients of Gorse (0.4) call, under /api: users, items, feedback and lists. Not there: measurements and intermediate lists. */

import { type FeedbackOptions, feedbackRoutes } from "./gorse-feedback.ts"
import { itemRoutes } from "./gorse-items.ts"
import { listRoutes } from "./gorse-lists.ts"
import { userRoutes } from "./gorse-users.ts"
import type { Surroundings } from "./native.ts"
import type { Route } from "./route.ts"

export function gorseRoutes(surroundings: Surroundings, options: FeedbackOptions): Route[] {
  return [
    ...feedbackRoutes(surroundings, options),
    ...userRoutes(surroundings),
    ...itemRoutes(surroundings),
    ...listRoutes(surroundings, options),
  ]
}
