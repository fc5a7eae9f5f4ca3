/** Which build this is, as far as it matters to what is learned. */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { LEARNING } from "../learning/version.ts"

export interface Build {
  version: string
  learning: string
}

export function thisBuild(): Build {
  return { version: packageVersion(), learning: LEARNING }
}

/** The package's own, whether it runs bundled, built or from its sources. */
function packageVersion(): string {
  const text = readFileSync(join(import.meta.dirname, "..", "..", "package.json"), "utf8")
  return (JSON.parse(text) as { version: string }).version
}
