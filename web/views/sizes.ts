/** Where do the numbers go? */

import type { AreasPanel, Figure, Line } from "../../src/figures/figure.ts"
import { type Colour, sizeColour } from "../../src/figures/palette.ts"
import { thin } from "../../src/figures/points.ts"
import type { SegmentReport } from "../../src/learning/report.ts"
import type { Side } from "../../src/types.ts"
import { lineOf, linesPanel } from "./learning.ts"

const AREA_POINTS = 120
/** What is likely to come. */
const DEFAULT_SIZES = [2, 4, 8, 16, 32, 64, 128]

/** What the same ids would take with vectors of 128 numbers each. */
export function fixedBytes({ sizeHistogram, numbers }: SegmentReport): number {
  const fixed = (["user", "item"] as const).map((side) => {
    const rows = Object.entries(sizeHistogram[side])
    const ids = rows.reduce((sum, [, count]) => sum + count, 0)
    const held = rows.reduce((sum, [size, count]) => sum + Number(size) * count, 0)
    // Some models hold two vectors of its size for an id.
    const vectors = held > 0 ? Math.max(1, Math.round(numbers[side] / held)) : 1
    return 128 * vectors * ids
  })
  return 4 * (fixed[0] + fixed[1])
}

/** An id without a vector is grey. */
function colourOf(sizes: readonly number[], size: number): Colour {
  if (size === 0) return "grey"
  const vectors = sizes.filter((other) => other > 0)
  return sizeColour(vectors.indexOf(size), vectors.length)
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
    areas: sizes.map((size) => ({
      label: `${size} numbers`,
      colour: colourOf(sizes, size),
      points: shown.map(({ interactions, sizeHistogram }) => ({
        x: interactions,
        y: sizeHistogram[side][size] ?? 0,
      })),
    })),
    x: "events",
    y: "ids",
    width: 460,
    height: 260,
  })
  return {
    id: "sizes",
    title: "Where do the numbers go?",
    caption: "Ids seen so far by the size of their vectors.",
    panels: [panel("user"), panel("item")],
    legend: sizes.map((size) => ({ label: String(size), colour: colourOf(sizes, size) })),
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
    caption: "Live rows in kB of 1,000 bytes, and how many numbers a vector has.",
    panels: [
      linesPanel("Memory", "kB", lines, { zero: true }),
      linesPanel("Mean size", "numbers per vector", [
        lineOf(reports, { label: "users", colour: "blue" }, sizes("user")),
        lineOf(reports, { label: "items", colour: "vermillion" }, sizes("item")),
      ]),
    ],
  }
}
