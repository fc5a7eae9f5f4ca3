/** Opens a recommender; what it is made of is loaded then. */

import { resolve } from "node:path"
import { DessError, show } from "../errors.ts"
import type { LiveRecommender } from "./recommender.ts"
import type { Recommender as LiveInterface, RecommenderOptions } from "./types.ts"

export interface Recommender extends LiveInterface {}

export const Recommender = {
  /** Opens a directory, created when missing, or a recommender in memory. Resolves when it has caught up with its journal. */
  async open(options: RecommenderOptions = {}): Promise<Recommender> {
    const [{ LiveRecommender }, { completeOptions }] = await Promise.all([
      import("./recommender.ts"),
      import("./options.ts"),
    ])
    // Refuses what is no object before anything is read off it.
    if (typeof options !== "object" || options === null || options.directory === undefined)
      return start(new LiveRecommender(completeOptions(options), undefined))
    const { directory: given, recover, signal } = options
    if (typeof given !== "string" || given === "")
      throw new DessError("INVALID_ARGUMENT", `directory: expected a path, got ${show(given)}`)
    const { openDirectory } = await import("./directory.ts")
    const directory = await openDirectory(resolve(given), { recover: recover === true, signal })
    let recommender: LiveRecommender
    try {
      const complete = completeOptions({ ...options, directory: directory.path }, directory.created)
      if (!directory.created) {
        const { fixedOptions } = await import("./options.ts")
        await directory.create(fixedOptions(complete))
      }
      recommender = new LiveRecommender(complete, directory)
    } catch (error) {
      await directory.close()
      throw error
    }
    return start(recommender)
  },
}

async function start(recommender: LiveRecommender): Promise<LiveRecommender> {
  try {
    await recommender.start()
    return recommender
  } catch (error) {
    await recommender.abandon()
    const { diskError, isSystemError } = await import("./disk.ts")
    throw isSystemError(error) ? diskError("directory", error, "give") : error
  }
}
