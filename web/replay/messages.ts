/** What the page and its worker say to each other. */

import type { RunResult, SegmentReport } from "../../src/learning/report.ts"
import type { Outlook } from "../../src/policies/outlook.ts"

export interface ReplayOptions {
  method: string
  recipe: "paper" | "calibrated"
  interactions: number
  seed: number
}

export type ToWorker =
  | { type: "start"; options: ReplayOptions }
  /** Segments per second; 0 is a pause, Infinity as fast as it goes. */
  | { type: "speed"; speed: number }

export type FromWorker =
  | { type: "segment"; report: SegmentReport; outlook: Outlook | undefined }
  | { type: "end"; result: RunResult; kernels: string }
  | { type: "error"; message: string }
