/** A replay's figures: those of the moment in tiles, those of finished runs in a table. */

import type { RunResult, SegmentReport } from "../../src/learning/report.ts"
import { find } from "../components/element.ts"
import { createTable } from "../components/table.ts"
import { fixedBytes } from "../views/sizes.ts"
import { formatBytes, formatPercent, type Tile } from "../views/tiles.ts"
import type { ReplayOptions } from "./messages.ts"

/** Means so far are over test rows, as in the run's result. */
export function tilesOf(reports: readonly SegmentReport[]): Tile[] {
  const last = reports[reports.length - 1]
  if (!last) return ["Accuracy", "Loss", "Mean size", "Memory", "Grew", "Regret"].map((name) => ({ name, value: "–" }))
  const rows = reports.reduce((sum, { testRows }) => sum + testRows, 0)
  const mean = (read: (report: SegmentReport) => number | null | undefined) =>
    reports.reduce((sum, report) => sum + report.testRows * (read(report) ?? 0), 0) / rows
  const { decided, meanSize, regret } = last
  const whole = fixedBytes(last)
  return [
    {
      name: "Accuracy",
      value: formatPercent(mean(({ accuracy }) => accuracy)),
      note: `majority class ${formatPercent(mean(({ majorityAccuracy }) => majorityAccuracy))}`,
    },
    { name: "Loss", value: mean(({ loss }) => loss).toFixed(4), note: `now ${(last.loss ?? 0).toFixed(4)}` },
    { name: "Mean size", value: meanSize.user.toFixed(1), note: `users; items ${meanSize.item.toFixed(1)}` },
    {
      name: "Memory",
      value: formatBytes(last.embeddingBytes),
      note: whole === 0 ? "no vectors" : `${Math.round((100 * last.embeddingBytes) / whole)} % of 128 for all`,
    },
    {
      name: "Grew",
      value: decided ? String(decided.user.grown + decided.item.grown) : "–",
      note: decided ? `of ${decided.user.all + decided.item.all} decided on` : "decides nothing",
    },
    {
      name: "Regret",
      value: regret ? regret.user.toFixed(0) : "–",
      note: regret ? `users; items ${regret.item.toFixed(0)}` : "decides nothing",
    },
  ]
}

const COLUMNS = [
  { title: "Method", text: true },
  { title: "Recipe", text: true },
  ...["Seed", "Events", "Accuracy %", "Majority %", "Loss"].map((title) => ({ title })),
  ...["User size", "Item size", "Memory kB", "Regret users", "Regret items"].map((title) => ({ title })),
]

export interface FinishedRun {
  options: ReplayOptions
  result: RunResult
}

const namesOf = ({ method, recipe, seed }: ReplayOptions) => [method, recipe, String(seed)]

/** Finished runs, and below them the one under way with its place kept free. */
export function showRuns(holder: HTMLElement, finished: readonly FinishedRun[], running?: ReplayOptions): void {
  const rows = finished.map(({ options, result }) => [
    ...namesOf(options),
    result.interactions.toLocaleString("en"),
    (100 * (result.accuracy ?? 0)).toFixed(2),
    (100 * (result.majorityAccuracy ?? 0)).toFixed(2),
    (result.loss ?? 0).toFixed(4),
    result.meanSize.user.toFixed(1),
    result.meanSize.item.toFixed(1),
    (result.embeddingBytes / 1000).toFixed(1),
    result.regret ? result.regret.user.toFixed(0) : "–",
    result.regret ? result.regret.item.toFixed(0) : "–",
  ])
  if (running) {
    const names = [...namesOf(running), running.interactions.toLocaleString("en")]
    rows.push([...names, ...COLUMNS.slice(names.length).map(() => "…")])
  }
  find(".scroll", holder).replaceChildren(createTable(COLUMNS, rows))
}
