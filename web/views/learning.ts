/** Is it learning? */

import type { Figure, Line, LinesPanel } from "../../src/figures/figure.ts"
import type { Colour } from "../../src/figures/palette.ts"
import { smooth, thin } from "../../src/figures/points.ts"
import type { SegmentReport } from "../../src/run/report.ts"

/** Points a line needs at most. */
export const MOST_POINTS = 300

/** A panel of lines on half a figure. */
export function linesPanel(title: string, y: string, lines: readonly Line[]): LinesPanel {
  return { kind: "lines", title, lines, x: "interactions", y, width: 460, height: 260 }
}

/** One number of every report as a line; reports without it are left out. */
export function lineOf(
  reports: readonly SegmentReport[],
  look: { label: string; colour: Colour; dash?: string; smoothed?: boolean },
  read: (report: SegmentReport) => number | null | undefined,
): Line {
  const { smoothed = false, ...rest } = look
  const points = reports.flatMap((report) => {
    const y = read(report)
    return y == null ? [] : [{ x: report.interactions, y }]
  })
  return { ...rest, points: thin(smoothed ? smooth(points) : points, MOST_POINTS) }
}

export function learningFigure(reports: readonly SegmentReport[]): Figure {
  const ranks = reports.some(({ k }) => k !== undefined)
  const tested = reports.filter(({ testRows, testUsers }) => (ranks ? testUsers : testRows) > 0)
  const k = tested.find((report) => report.k !== undefined)?.k ?? 10
  const line = (
    label: string,
    colour: Colour,
    read: (report: SegmentReport) => number | null | undefined,
    dash?: string,
  ) => lineOf(tested, { label, colour, smoothed: true, ...(dash ? { dash } : {}) }, read)
  const percent = (share: number | null | undefined) => (share == null ? null : 100 * share)
  return {
    id: "learning",
    title: "Is it learning?",
    caption: "On rows it has not been trained on, running mean over a twentieth of the stream.",
    panels: ranks
      ? [
          linesPanel("Recall", `recall@${k}`, [line("model", "blue", ({ recall }) => recall)]),
          linesPanel("NDCG", `NDCG@${k}`, [line("model", "blue", ({ ndcg }) => ndcg)]),
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
