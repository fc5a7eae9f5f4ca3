/** Where a pointer or the arrow keys can stop on a drawn panel, and what is told there. */

import type { Panel } from "../../src/figures/figure.ts"

export interface Stop {
  x: number
  y: number
  /** The first is the name. */
  lines: string[]
}

export interface Stops {
  /** What counts as near: across, down, or both. */
  along: "x" | "y" | "both"
  stops: Stop[]
}

interface Scale {
  apply(value: unknown): number
  bandwidth?: number
}

export type Scales = (name: "x" | "y") => Scale | undefined

export const formatNumber = (value: number) =>
  value.toLocaleString("en", Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 })

export function stopsOf(panel: Panel, scale: Scales): Stops {
  const at = (name: "x" | "y", value: unknown) => {
    const found = scale(name)
    return found ? found.apply(value) + (found.bandwidth ?? 0) / 2 : 0
  }
  switch (panel.kind) {
    case "dots":
      return { along: "both", stops: dotStops(panel, at) }
    case "lines":
      return { along: "x", stops: pointStops(panel.lines, panel.x, at) }
    case "areas":
      return { along: "x", stops: pointStops(panel.areas.toReversed(), panel.x, at) }
    case "cells":
      return {
        along: "both",
        stops: panel.cells.map(({ x, y, text }) => ({ x: at("x", x), y: at("y", y), lines: text.split("\n") })),
      }
    case "bars": {
      const rows = [...new Set(panel.bars.map(({ row }) => row))]
      return { along: "y", stops: rows.map((row) => barStop(panel, row, at)) }
    }
  }
}

type Place = (name: "x" | "y", value: unknown) => number

function dotStops({ dots, x, y }: Extract<Panel, { kind: "dots" }>, at: Place): Stop[] {
  return dots
    .filter((dot) => dot.x > 0)
    .sort((a, b) => a.x - b.x)
    .map((dot) => {
      const spread = dot.high > dot.low ? ` ± ${formatNumber((dot.high - dot.low) / 2)}` : ""
      const lines = [dot.label, `${formatNumber(dot.y)}${spread} ${y}`, `${formatNumber(dot.x)} ${x}`]
      return { x: at("x", dot.x), y: at("y", dot.y), lines }
    })
}

interface Named {
  label: string
  points: readonly { x: number; y: number }[]
}

/** One stop for every place along the longest line; each line tells its value there or at the nearest place before. */
function pointStops(lines: readonly Named[], title: string, at: Place): Stop[] {
  const longest = lines.reduce<Named["points"]>((most, { points }) => (points.length > most.length ? points : most), [])
  return longest.map(({ x, y }) => {
    const values = lines.flatMap(({ label, points }) => {
      const point = points.findLast((candidate) => candidate.x <= x)
      return point ? [`${label}: ${formatNumber(point.y)}`] : []
    })
    return { x: at("x", x), y: at("y", y), lines: [`${formatNumber(x)} ${title}`, ...values] }
  })
}

function barStop({ bars, x }: Extract<Panel, { kind: "bars" }>, row: string, at: Place): Stop {
  const own = bars.filter((bar) => bar.row === row)
  const total = own.reduce((sum, { value }) => sum + value, 0)
  const lines = own.map(({ part, value, mark }) => {
    const beside = mark === undefined ? "" : ` (paper ${formatNumber(mark)})`
    return part === undefined ? `${formatNumber(value)} ${x}${beside}` : `${part}: ${formatNumber(value)}`
  })
  return { x: at("x", total), y: at("y", row), lines: [row, ...lines] }
}
