/** Opens a recommender. */

import { DessError } from "../errors.ts"
import type { Recommender as LiveRecommender, RecommenderOptions } from "./types.ts"

export type Recommender = LiveRecommender

export const Recommender = {
  /** Opens the directory, or a recommender in memory. */
  async open(_options: RecommenderOptions = {}): Promise<Recommender> {
    throw new DessError("UNSUPPORTED", "recommender: not built yet")
  },
}
