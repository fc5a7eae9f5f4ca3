/** Routes that only a recommender of one machine can answer. */

import type { Recommender, ServedRecommender } from "../engine/types.ts"
import { DessError } from "../errors.ts"

export function isOnOneMachine(recommender: ServedRecommender): recommender is Recommender {
  return "snapshot" in recommender
}

/** Refuses a cluster. `what`: noun first; `advice`: what to do there. */
export function onOneMachine(recommender: ServedRecommender, what: string, advice?: string): Recommender {
  if (isOnOneMachine(recommender)) return recommender
  const advised = advice === undefined ? "" : `; ${advice}`
  throw new DessError("UNSUPPORTED", `${what}: expected a single machine, got a cluster${advised}`)
}
