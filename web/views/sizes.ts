/** Where do the numbers go? */

import type { AreasPanel, Figure, Line } from "../../src/figures/figure.ts"
import { sizeColour } from "../../src/figures/palette.ts"
import { thin } from "../../src/figures/points.ts"
import type { SegmentReport } from "../../src/run/report.ts"
import type { Side } from "../../src/types.ts"
import { lineOf, linesPanel } from "./learning.ts"

const AREA_POINTS = 120
/** What is likely to come. */
const DEFAULT_SIZES = [2, 4, 8, 16, 64, 128]

/** What the same ids would take at 128 numbers each. */
export function fixedBytes({ sizeHistogram }: SegmentReport): number {
  const ids = Object.values(sizeHistogram).flatMap((side) => Object.values(side))
  return 4 * 128 * ids.reduce((sum, count) => sum + count, 0)
}

function sizesOf(reports: readonly SegmentReport[]): number[] {
  const names = reports.flatMap(({ sizeHistogram }) => [
    ...Object.keys(sizeHistogram.user),
    ...Object.keys(sizeHistogram.item),
  ])
  return [...new Set(names)].map(Number).sort((a, b) => a - b)
}

/** How many ids have which size, as the stream goes on. */
export function sizesFigure(reports: readonly SegmentReport[]): Figure {
  const shown = thin(reports, AREA_POINTS)
  const sizes = reports.length === 0 ? DEFAULT_SIZES : sizesOf(shown)
  const panel = (side: Side): AreasPanel => ({
    kind: "areas",
    title: side === "user" ? "Users" : "Items",
    areas: sizes.map((size, step) => ({
      label: `${size} numbers`,
      colour: sizeColour(step, sizes.length),
      points: shown.map(({ interactions, sizeHistogram }) => ({
        x: interactions,
        y: sizeHistogram[side][size] ?? 0,
      })),
    })),
    x: "interactions",
    y: "ids",
    width: 460,
    height: 260,
  })
  return {
    id: "sizes",
    title: "Where do the numbers go?",
    caption: "Ids seen so far by the size of their vectors.",
    panels: [panel("user"), panel("item")],
    legend: sizes.map((size, step) => ({ label: String(size), colour: sizeColour(step, sizes.length) })),
  }
}

/** Bytes of embeddings against 128 numbers for everybody, and against the budget where there is one. */
export function bytesFigure(reports: readonly SegmentReport[], budget?: number): Figure {
  const lines: Line[] = [
    lineOf(reports, { label: "embeddings", colour: "blue" }, ({ embeddingBytes }) => embeddingBytes / 1000),
    lineOf(reports, { label: "all at 128", colour: "ochre", dash: "4 2" }, (report) => fixedBytes(report) / 1000),
  ]
  if (budget !== undefined) {
    lines.push(lineOf(reports, { label: "held", colour: "sky" }, ({ heldBytes }) => heldBytes / 1000))
    lines.push(lineOf(reports, { label: "budget", colour: "rule", dash: "9 4" }, () => budget / 1000))
  }
  const sizes =
    (side: Side) =>
    ({ meanSize }: SegmentReport) =>
      meanSize[side]
  return {
    id: "bytes",
    title: "How much memory does it take?",
    caption: "Live rows in kB, and the mean size of a vector.",
    panels: [
      linesPanel("Memory", "kB", lines),
      linesPanel("Mean size", "numbers per id", [
        lineOf(reports, { label: "users", colour: "blue" }, sizes("user")),
        lineOf(reports, { label: "items", colour: "vermillion" }, sizes("item")),
      ]),
    ],
  }
}
