/** What the service's routes answer, as far as the page reads it. */

import type { Outlook } from "../../src/run/outlook.ts"
import type { SegmentReport } from "../../src/run/report.ts"
import type { Side } from "../../src/types.ts"

/** One message of /v1/events. */
export interface LiveReport extends SegmentReport {
  /** Milliseconds since 1970. */
  time: number
  events: number
  queue: number
  /** Milliseconds from acceptance to visibility; null before the first. */
  freshness: number | null
  journalEvents: number | null
  snapshotAge: number | null
  /** Milliseconds of the last requests. */
  latency?: { p50: number; p99: number } | null
  outlook?: Outlook
}

export interface Status {
  state: string
  reason?: string
  task: string
  method: string
  events: { accepted: number; learned: number; queue: number }
  segments: number
  users: { known: number; held: number }
  items: { known: number; held: number }
  memory: { budget: number | null; heldBytes: number }
}

export interface Explanation {
  id: string
  side: Side
  size: number
  bytes: number
  history: { segment: number; size: number; reason?: string }[]
  indicators: { frequency: number; diversity: number | null }
  bounds: { keep: number; grow: number } | null
  events: number
}

export interface Recommendation {
  item: string
  score: number
  source: string
}
