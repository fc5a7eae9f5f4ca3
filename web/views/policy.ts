/** What does the policy think? */

import type { CellsPanel, Figure } from "../../src/figures/figure.ts"
import type { Outlook } from "../../src/run/outlook.ts"
import type { SegmentReport } from "../../src/run/report.ts"
import type { Side } from "../../src/types.ts"
import { formatNumber } from "../components/stops.ts"
import { lineOf, linesPanel } from "./learning.ts"

const NAMES = { user: "Users", item: "Items" } as const
const COLOURS = { user: "blue", item: "vermillion" } as const
const SIDES = ["user", "item"] as const

/** Which arm leads for which context, and by how much. */
export function outlookFigure(outlook: Outlook | undefined): Figure {
  const panel = (side: Side): CellsPanel => {
    const { frequencies = [], diversities = [] } = outlook ?? {}
    const cells = diversities.flatMap((diversity, row) =>
      frequencies.map((frequency, column) => {
        const at = row * frequencies.length + column
        const [keep, grow] = [outlook?.[side].keep[at] ?? 0, outlook?.[side].grow[at] ?? 0]
        const place = `${frequency} events${diversities.length > 1 ? `, diversity ${diversity}` : ""}`
        const leader = grow > keep ? "would grow" : "would keep its size"
        const text = `${leader}\n${place}\nbound of grow ${formatNumber(grow)}\nbound of keep ${formatNumber(keep)}`
        return { x: String(frequency), y: diversity.toFixed(1), value: grow - keep, text }
      }),
    )
    return { kind: "cells", title: NAMES[side], cells, x: "events of the id", y: "diversity", width: 460, height: 200 }
  }
  return {
    id: "outlook",
    title: "What does the policy think?",
    caption: outlook
      ? "Upper confidence bounds over the context: which arm leads, the stronger the colour the further."
      : "This method has no bounds to show.",
    panels: outlook ? SIDES.map(panel) : [],
    legend: outlook
      ? [
          { label: "grow leads", colour: "vermillion" },
          { label: "keep leads", colour: "blue" },
        ]
      : [],
  }
}

/** Ids that grew in each segment, of those decided on. */
export function decisionsFigure(reports: readonly SegmentReport[]): Figure {
  const deciding = reports.filter(({ decided }) => decided !== null)
  return {
    id: "decisions",
    title: "How many ids grow?",
    caption: deciding.length > 0 ? "Per segment, running mean." : "This method decides nothing.",
    panels:
      deciding.length === 0
        ? []
        : SIDES.map((side) =>
            linesPanel(NAMES[side], "ids", [
              lineOf(
                deciding,
                { label: "grew", colour: COLOURS[side], smoothed: true },
                ({ decided }) => decided?.[side].grown,
              ),
              lineOf(
                deciding,
                { label: "decided on", colour: "grey", dash: "4 2", smoothed: true },
                ({ decided }) => decided?.[side].all,
              ),
            ]),
          ),
  }
}

/** Regret so far: what the better arm would have earned beyond the one played. */
export function regretFigure(reports: readonly SegmentReport[]): Figure {
  const deciding = reports.filter(({ regret }) => regret !== null)
  return {
    id: "regret",
    title: "Does regret level off?",
    caption: deciding.length > 0 ? "Cumulative, on the probe's rewards." : "This method decides nothing.",
    panels:
      deciding.length === 0
        ? []
        : SIDES.map((side) =>
            linesPanel(NAMES[side], "regret so far", [
              lineOf(
                deciding,
                { label: side === "user" ? "users" : "items", colour: COLOURS[side] },
                ({ regret }) => regret?.[side],
              ),
            ]),
          ),
  }
}
