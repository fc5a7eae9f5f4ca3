/** What the service's routes answer. */

import type { LiveReport } from "../../src/engine/types.ts"

export type {
  ExperimentRate,
  ExperimentsView,
  Explanation,
  LiveReport,
  Recommendation,
  SimilarUser,
  Status,
} from "../../src/engine/types.ts"

/** One message of /v1/events. */
export interface LiveMessage extends LiveReport {
  /** Milliseconds the last requests took; null before the first. */
  latency: { p50: number; p99: number } | null
}
