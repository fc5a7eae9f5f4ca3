/** Opens a recommender; what it is made of is loaded then. */

import { mkdirSync } from "node:fs"
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
    const { directory } = options
    if (typeof directory !== "string" || directory === "")
      throw new DessError("INVALID_ARGUMENT", `directory: expected a path, got ${show(directory)}`)
    const place = resolve(directory)
    const { loadLmdb, openLmdbStore } = await import("./lmdb-store.ts")
    // Before there is a folder: where the package is missing none is left behind.
    await loadLmdb()
    try {
      mkdirSync(place, { recursive: true })
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      throw new DessError("INVALID_ARGUMENT", `directory: expected a folder that can be made, got ${code} (${place})`, {
        cause,
      })
    }
    const store = await openLmdbStore(place)
    let recommender: LiveRecommender | undefined
    try {
      recommender = new LiveRecommender(completeOptions({ ...options, directory: place }, store.created), store)
    } catch (error) {
      await store.close()
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
    throw error
  }
}
