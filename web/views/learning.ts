/** Is it learning? */

import type { Figure, Line, LinesPanel } from "../../src/figures/figure.ts"
import type { Colour } from "../../src/figures/palette.ts"
import { smooth, thin } from "../../src/figures/points.ts"
import type { SegmentReport } from "../../src/learning/report.ts"
import type { Task } from "../../src/types.ts"

/** Points a line needs at most. */
export const MOST_POINTS = 300

/** Points to each side that a mean of rankings is taken over at least. */
const RANKING_REACH = 6

/** A panel of lines on half a figure; one that counts something starts at 0. */
export function linesPanel(
  title: string,
  y: string,
  lines: readonly Line[],
  options: { zero?: boolean } = {},
): LinesPanel {
  return { kind: "lines", title, lines, x: "events", y, width: 460, height: 260, ...options }
}

/** One number of every report as a line; reports that did not measure it are left out. */
export function lineOf(
  reports: readonly SegmentReport[],
  look: { label: string; colour: Colour; dash?: string; smoothed?: boolean; reach?: number },
  read: (report: SegmentReport) => number | null | undefined,
): Line {
  const { smoothed = false, reach = 1, ...rest } = look
  const points = reports.flatMap((report) => {
    const y = read(report) ?? undefined
    return y === undefined ? [] : [{ x: report.interactions, y }]
  })
  return { ...rest, points: thin(smoothed ? smooth(points, reach) : points, MOST_POINTS) }
}

export function learningFigure(reports: readonly SegmentReport[], task: Task): Figure {
  const tested = reports.filter(({ testRows }) => testRows > 0)
  // A live service ranks for a few users at a time.
  const reach = task === "topk" ? RANKING_REACH : 1
  const k = tested.find((report) => report.k !== undefined)?.k ?? 10
  const line = (
    label: string,
    colour: Colour,
    read: (report: SegmentReport) => number | null | undefined,
    dash?: string,
  ) => lineOf(tested, { label, colour, smoothed: true, reach, ...(dash ? { dash } : {}) }, read)
  const percent = (share: number | null | undefined) => (typeof share === "number" ? 100 * share : undefined)
  return {
    id: "learning",
    title: "Is it learning?",
    caption:
      task === "topk"
        ? "How much of what users chose next was in their lists, beside a list of the most popular; running means."
        : "On events it has not learned yet; running mean over a twentieth of the stream.",
    panels:
      task === "topk"
        ? [
            linesPanel(
              "Recall",
              `recall@${k}`,
              [
                line("model", "blue", ({ recall }) => recall),
                line("most popular", "grey", ({ popularRecall }) => popularRecall, "4 2"),
              ],
              { zero: true },
            ),
            linesPanel(
              "NDCG",
              `NDCG@${k}`,
              [
                line("model", "blue", ({ ndcg }) => ndcg),
                line("most popular", "grey", ({ popularNdcg }) => popularNdcg, "4 2"),
              ],
              { zero: true },
            ),
            linesPanel("Loss while learning", "mean loss", [
              lineOf(reports, { label: "model", colour: "blue", smoothed: true }, ({ trainLoss }) => trainLoss),
            ]),
          ]
        : [
            linesPanel("Accuracy", "accuracy %", [
              line("model", "blue", ({ accuracy }) => percent(accuracy)),
              line("majority class", "grey", ({ majorityAccuracy }) => percent(majorityAccuracy), "4 2"),
            ]),
            linesPanel("Loss", "mean loss", [line("model", "blue", ({ loss }) => loss)]),
          ],
  }
}
