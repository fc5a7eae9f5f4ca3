/** Figures along the stream: regret with the paper's rate and bound, quality, and mean size. */

import type { Figure, Line, LinesPanel } from "../figures/figure.ts"
import { smooth } from "../figures/points.ts"
import type { Setting } from "../learning/options.ts"
import { PRESETS } from "../policies/presets.ts"
import { discountFor, regretBound, regretRate } from "../policies/regret-bound.ts"
import { RENT } from "../policies/rent.ts"
import { SIDES, type Side } from "../types.ts"
import { colourOf, KIND_COLOURS } from "./colours.ts"
import { MAJORITY } from "./controls.ts"
import type { Series } from "./series.ts"
import { type Block, bestBaseline, bestOf, type Entry, MEASURES } from "./summary.ts"

type ColumnName = Exclude<keyof Series, "interactions">

/** A column of the runs' series, averaged over the seeds point by point. */
function averageSeries(entry: Entry, column: ColumnName): { x: number; y: number }[] {
  const drawn = entry.runs.filter(({ series }) => series.interactions.length > 0)
  const columns = drawn.map(({ series }) => series[column]).filter((values) => values !== undefined)
  if (columns.length === 0) return []
  const { interactions } = drawn[0].series
  const length = Math.min(interactions.length, ...columns.map((values) => values.length))
  return Array.from({ length }, (_, i) => {
    const known = columns.map((values) => values[i]).filter((value) => value !== null)
    return { x: interactions[i], y: known.reduce((sum, value) => sum + value, 0) / known.length }
  }).filter(({ y }) => Number.isFinite(y))
}

/** Users and items side by side. */
const HALF = { width: 460, height: 280 }

const lineOf = (entry: Entry, points: Line["points"]): Line => ({
  label: entry.label,
  colour: entry.kind === "own" ? KIND_COLOURS.own : colourOf(entry.method),
  points,
  ...(entry.kind === "control" ? { dash: "4 2" } : {}),
})

/** Regret of all methods that decide, with the rate of Corollary 1 (scaled) and, on logarithmic axes, the bound of Theorem 1. */
export function regretFigures(block: Block, id: string): Figure[] {
  const deciding = block.entries.filter(
    ({ runs, label }) => label !== MAJORITY && runs.some(({ series }) => series.userRegret !== undefined),
  )
  if (deciding.length === 0) return []
  const chart = (side: Side, logarithmic: boolean): LinesPanel => {
    const own = deciding.map((entry) => lineOf(entry, averageSeries(entry, `${side}Regret`)))
    const theory = theoryLines(block, own, logarithmic)
    const lines = [...own, ...theory].map((line) => ({
      ...line,
      points: logarithmic ? line.points.filter(({ x, y }) => x > 0 && y > 0) : line.points,
    }))
    const title = side === "user" ? "Users" : "Items"
    return { kind: "lines", lines, x: "interactions", y: "regret so far", title, logarithmic, ...HALF }
  }
  const sides = SIDES
  return [
    {
      id: `${id}-regret`,
      title: "Does regret grow more slowly than the stream?",
      caption: `Cumulative regret on the probe's rewards, mean over seeds. Long dashes: Corollary 1's rate L^4/5, scaled to end where the first DESS curve above 0 ends.`,
      panels: sides.map((side) => chart(side, false)),
    },
    {
      id: `${id}-bound`,
      title: "How far below Theorem 1's bound does regret stay?",
      caption: `The same on logarithmic axes, which have no place for a regret of 0. Long dashes: Theorem 1 as printed for k = c = 1, the discount used and the variation B given with it, or else the B for which that discount is Corollary 1's choice; see docs/method/paper-notes.md for what of the proof holds.`,
      panels: sides.map((side) => chart(side, true)),
    },
  ]
}

const LONG_DASH = "9 4"

/** The dashed lines of theory, evaluated with L the interactions so far. */
function theoryLines(block: Block, own: readonly Line[], bound: boolean): Line[] {
  const rising = own.filter(({ points }) => points[points.length - 1].y > 0)
  const shown = rising.find(({ label }) => label.startsWith("dess-")) ?? rising[0]
  if (shown === undefined) return []
  const xs = shown.points.map(({ x }) => x).filter((x) => x > 0)
  const last = shown.points[shown.points.length - 1]
  if (xs.length === 0) return []
  const preset = PRESETS[block.setting.preset]
  const dimension = (shown.label.startsWith("dess-cv") ? 2 : 1) + (preset.constant ? 1 : 0)
  const dashed = { colour: "rule" as const, dash: LONG_DASH }
  if (!bound) {
    const [end, unit] = [regretRate(1, dimension, last.x), last.y]
    const points = xs.map((x) => ({ x, y: (unit * regretRate(1, dimension, x)) / end }))
    return [{ ...dashed, label: "rate L^4/5", points }]
  }
  const { discount, variation } = discountUsed(block.setting, dimension, last.x)
  // What is never forgotten has no bound.
  if (discount >= 1) return []
  const { subgaussian } = preset
  const fixed = { dimension, discount, subgaussian, variation, largestReward: 1, smallestReward: 1 }
  const points = xs.map((x) => ({ x, y: regretBound({ ...fixed, length: x }).total }))
  return [{ ...dashed, label: "Theorem 1", points }]
}

/** γ of the runs and B: the B given with `discount: "auto"`, else the one for which γ is Corollary 1's choice at the stream's end. */
function discountUsed(setting: Setting, dimension: number, length: number): { discount: number; variation: number } {
  const { preset, recipe, discount: given, variation: known } = setting
  if (given === "auto" && known !== undefined)
    return { discount: discountFor(known, dimension, length), variation: known }
  const own = recipe === "calibrated" && preset === "calibrated" ? RENT.discount : PRESETS[preset].discount
  const discount = typeof given === "number" ? given : own
  // γ = 1 − (B/(√d·L))^{2/5} solved for B.
  return { discount, variation: Math.sqrt(dimension) * length * (1 - discount) ** 2.5 }
}

/** Accuracy, or recall, along the timeline: DESS, the best baseline, and the controls that matter. */
export function qualityFigure(block: Block, id: string): Figure[] {
  const [measure] = MEASURES[block.task]
  const factor = measure === "accuracy" ? 100 : 1
  const lines = selectEntries(block).map((entry) => {
    const points = smooth(averageSeries(entry, measure))
    return lineOf(
      entry,
      points.map(({ x, y }) => ({ x, y: factor * y })),
    )
  })
  if (lines.every(({ points }) => points.length === 0)) return []
  const y = measure === "accuracy" ? "accuracy %" : `recall@${block.setting.k}`
  return [
    {
      id: `${id}-timeline`,
      title: "Who predicts best along the timeline?",
      caption:
        "Running mean over a twentieth of the stream, mean over seeds: DESS, the best baseline, and the best and the matched controls.",
      panels: [{ kind: "lines", lines, x: "interactions", y, width: 640, height: 320 }],
    },
  ]
}

/** Too many lines are unreadable: only DESS and the methods to compare it with. */
function selectEntries(block: Block): Entry[] {
  const [measure] = MEASURES[block.task]
  const run = block.entries.filter(({ label }) => label !== MAJORITY)
  const controls = run.filter(({ kind }) => kind === "control")
  const chosen = new Set(run.filter(({ kind }) => kind === "dess" || kind === "own"))
  const others = [
    bestBaseline(block, measure),
    bestOf(controls, measure),
    bestOf(
      controls.filter(({ method }) => method.startsWith("uniform-")),
      measure,
    ),
    ...controls.filter(({ method }) => method === "random-grow" || method === "always-grow"),
  ]
  for (const entry of others) if (entry) chosen.add(entry)
  return run.filter((entry) => chosen.has(entry))
}

/** Mean size along the timeline, for methods whose sizes change. */
export function sizeFigure(block: Block, id: string): Figure[] {
  const moves = (sizes: readonly number[]) => sizes.some((size) => Math.abs(size - sizes[0]) > 1e-6)
  const moving = block.entries.filter(({ label, runs }) => {
    return label !== MAJORITY && runs.some(({ series }) => moves(series.userSize) || moves(series.itemSize))
  })
  if (moving.length === 0) return []
  const panels = SIDES.map((side): LinesPanel => {
    const lines = moving.map((entry) => lineOf(entry, averageSeries(entry, `${side}Size`)))
    const title = side === "user" ? "Users" : "Items"
    return { kind: "lines", lines, x: "interactions", y: "mean size", title, ...HALF }
  })
  return [
    {
      id: `${id}-sizes`,
      title: "How large do embeddings become?",
      caption: "Numbers per id seen so far, mean over seeds.",
      panels,
    },
  ]
}
