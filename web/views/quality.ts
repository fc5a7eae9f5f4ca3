/** Are the lists good? Beside what they have to beat. */

import type { Figure } from "../../src/figures/figure.ts"
import type { Task } from "../../src/types.ts"
import type { LiveMessage, Status } from "../dashboard/types.ts"
import { lineOf, linesPanel } from "./learning.ts"

/** Measured reports that a verdict is taken over, and the fewest it needs. */
const MOST_MEASURED = 50
const LEAST_MEASURED = 5
/** Points to each side that a mean is taken over. */
const REACH = 6

interface Measured {
  own: number
  baseline: number
  weight: number
}

function measuredOf(report: LiveMessage, task: Task): Measured | undefined {
  const [own, baseline, weight] =
    task === "topk"
      ? [report.recall, report.popularRecall, report.testUsers]
      : [report.accuracy, report.majorityAccuracy, report.testRows]
  return typeof own === "number" && typeof baseline === "number" && weight > 0 ? { own, baseline, weight } : undefined
}

const percent = (share: number) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`

/** One line for the owner. */
export function judgeLists(reports: readonly LiveMessage[], { task, events }: Pick<Status, "task" | "events">): string {
  if (events.accepted === 0) return "No events yet. Send some to POST /v1/interactions, and the lists follow."
  const measured = reports.flatMap((report) => measuredOf(report, task) ?? []).slice(-MOST_MEASURED)
  if (measured.length < LEAST_MEASURED) return "Too few events yet to say how good the lists are."
  const total = measured.reduce((sum, { weight }) => sum + weight, 0)
  const mean = (key: "own" | "baseline") => measured.reduce((sum, one) => sum + one[key] * one.weight, 0) / total
  const [own, baseline] = [mean("own"), mean("baseline")]
  const word =
    own > 1.1 * baseline
      ? "better than showing everybody the most popular items"
      : own < 0.9 * baseline
        ? "not better yet than showing everybody the most popular items"
        : "about as good as showing everybody the most popular items"
  if (task !== "topk")
    return `Ratings are predicted right in ${percent(own)} of cases; the most common answer alone would be right in ${percent(baseline)}.`
  const k = reports.findLast((report) => report.k !== undefined)?.k ?? 10
  return `The lists are ${word}: ${percent(own)} of what people chose next was in their list of ${k}, against ${percent(baseline)}.`
}

export function qualityFigure(reports: readonly LiveMessage[], task: Task): Figure {
  const line = (key: "own" | "baseline", label: string) =>
    lineOf(
      reports,
      key === "own"
        ? { label, colour: "blue", smoothed: true, reach: REACH }
        : { label, colour: "grey", dash: "4 2", smoothed: true, reach: REACH },
      (report) => {
        const measured = measuredOf(report as LiveMessage, task)
        return measured && 100 * measured[key]
      },
    )
  const isRanked = task === "topk"
  return {
    id: "quality",
    title: isRanked ? "Are the lists good?" : "Are the predictions good?",
    caption: isRanked
      ? "Share of what people chose next that was in their list; running mean over a sample of users."
      : "Share of ratings predicted right before they were learned; running mean.",
    panels: [
      linesPanel(
        isRanked ? "Found in the list" : "Right",
        "%",
        [line("own", "these lists"), line("baseline", isRanked ? "most popular" : "most common")],
        { zero: true },
      ),
    ],
  }
}
