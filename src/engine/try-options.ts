/** Checks options as opening would, without opening: nothing is written, and the directory may be in use. */

import { statSync } from "node:fs"
import { DessError } from "../errors.ts"
import { completeOptions, type EngineOptions } from "./options.ts"
import { Trainer } from "./trainer.ts"
import type { RecommenderOptions } from "./types.ts"

export async function tryOptions(options: RecommenderOptions): Promise<EngineOptions> {
  const { directory } = options
  const place = directory === undefined ? undefined : statSync(directory, { throwIfNoEntry: false })
  if (place && !place.isDirectory())
    throw new DessError("INVALID_ARGUMENT", `directory: expected a folder, got something else (${directory})`)
  const created = place && directory !== undefined ? await readCreated(directory) : undefined
  const complete = completeOptions(options, created)
  const { features, limits, segment, publishDelay } = complete
  new Trainer({ run: { ...complete.run, threads: 1 }, features, limits, segment, publishDelay }, () => {}).close()
  return complete
}

async function readCreated(directory: string) {
  const { readCreatedOptions } = await import("./directory.ts")
  return readCreatedOptions(directory)
}
