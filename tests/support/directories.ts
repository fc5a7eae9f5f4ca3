/** Recommenders with a directory, closed and removed after each test. */

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import type { Event, RecommenderOptions } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"

export const SMALL: RecommenderOptions = {
  ...{ model: "mf", sizes: [2, 4, 8], threads: 1, delay: "1h", segment: 40, seed: 4 },
}

/** To be called once by a file of tests. */
export function useDirectories() {
  const opened: Recommender[] = []
  const folders: string[] = []
  afterEach(async () => {
    for (const recommender of opened.splice(0)) await recommender.close()
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
  })

  function folder(): string {
    const path = mkdtempSync(join(tmpdir(), "dess-engine-"))
    folders.push(path)
    return path
  }

  return {
    folder,
    async open(directory: string | undefined, options: RecommenderOptions = {}): Promise<LiveRecommender> {
      const recommender = await Recommender.open({ ...SMALL, ...(directory && { directory }), ...options })
      opened.push(recommender)
      return recommender as LiveRecommender
    },
    /** A copy as a power cut would leave it: the recommender goes on elsewhere. */
    powerCut(directory: string): string {
      const copy = folder()
      cpSync(directory, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") })
      return copy
    },
  }
}

export function randomEvents(count: number, seed: number): Event[] {
  const random = new Random(seed, "directory test")
  return Array.from({ length: count }, (_, n) => ({
    user: `user ${random.integer(20)}`,
    item: `item ${random.integer(30)}`,
    rating: 1 + random.integer(5),
    timestamp: 1_700_000_000 + n,
  }))
}

/** Everything an export tells. */
export async function exported(recommender: Recommender): Promise<string[]> {
  const found: string[] = []
  for await (const event of recommender.events()) found.push(JSON.stringify(event))
  return found
}

/** Files of a directory that hold a text. */
export function filesWith(directory: string, text: string): string[] {
  return readdirSync(directory).filter(
    (name) => name !== "owner.sock" && readFileSync(join(directory, name)).includes(text),
  )
}
