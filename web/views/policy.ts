/** What does the policy think? */

import type { CellsPanel, Figure } from "../../src/figures/figure.ts"
import type { SegmentReport } from "../../src/learning/report.ts"
import type { Outlook } from "../../src/policies/outlook.ts"
import type { Side } from "../../src/types.ts"
import { formatNumber } from "../components/stops.ts"
import { lineOf, linesPanel } from "./learning.ts"

const NAMES = { user: "Users", item: "Items" } as const
const SIDES = ["user", "item"] as const

/** Which arm leads for which context, and by how much. */
export function outlookFigure({
  reports,
  outlook,
}: {
  reports: readonly SegmentReport[]
  outlook?: Outlook | undefined
}): Figure {
  const waiting = reports.length === 0
  const panel = (side: Side): CellsPanel => {
    const { frequencies = [], diversities = [] } = outlook ?? {}
    const cells = diversities.flatMap((diversity, row) =>
      frequencies.map((frequency, column) => {
        const at = row * frequencies.length + column
        const [keep, grow] = [outlook?.[side].keep[at] ?? 0, outlook?.[side].grow[at] ?? 0]
        const place = `${frequency} events${diversities.length > 1 ? `, diversity ${formatNumber(diversity)}` : ""}`
        const leader = grow > keep ? "would grow" : "would keep its size"
        const text = `${leader}\n${place}\nbound of grow ${formatNumber(grow)}\nbound of keep ${formatNumber(keep)}`
        return { x: String(frequency), y: diversity.toFixed(1), value: grow - keep, text }
      }),
    )
    const most = (sign: number) => Math.max(0, ...cells.map(({ value }) => sign * value))
    const short = (value: number) => formatNumber(Number(value.toPrecision(2)))
    const scale = outlook ? ` (grow leads by up to ${short(most(1))}, keep by ${short(most(-1))})` : ""
    return {
      kind: "cells",
      title: NAMES[side] + scale,
      cells,
      x: "events of the id",
      y: "diversity",
      width: 460,
      height: 200,
    }
  }
  return {
    id: "outlook",
    title: "What does the policy think?",
    caption:
      outlook || waiting
        ? "Upper confidence bounds over the context: which arm leads, the stronger the colour the further."
        : "No bounds to show: they come with the next events, where the method has any.",
    panels: outlook || waiting ? SIDES.map(panel) : [],
    legend:
      outlook || waiting
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
  const shown = deciding.length > 0 || reports.length === 0
  return {
    id: "decisions",
    title: "How many ids grow?",
    caption: shown ? "Per segment, running mean." : "This method decides nothing.",
    panels: !shown
      ? []
      : SIDES.map((side) =>
          linesPanel(
            NAMES[side],
            "ids",
            [
              lineOf(
                deciding,
                { label: "grew", colour: "blue", smoothed: true },
                ({ decided }) => decided?.[side].grown,
              ),
              lineOf(
                deciding,
                { label: "decided on", colour: "grey", dash: "4 2", smoothed: true },
                ({ decided }) => decided?.[side].all,
              ),
            ],
            { zero: true },
          ),
        ),
  }
}

/** Regret so far: what the better arm would have earned beyond the one played. */
export function regretFigure(reports: readonly SegmentReport[]): Figure {
  const deciding = reports.filter(({ regret }) => regret !== null)
  const shown = deciding.length > 0 || reports.length === 0
  return {
    id: "regret",
    title: "Does regret level off?",
    caption: shown ? "Cumulative, on the probe's rewards." : "This method decides nothing.",
    panels: !shown
      ? []
      : SIDES.map((side) =>
          linesPanel(NAMES[side], "regret so far", [
            lineOf(
              deciding,
              { label: side === "user" ? "users" : "items", colour: "blue" },
              ({ regret }) => regret?.[side],
            ),
          ]),
        ),
  }
}
