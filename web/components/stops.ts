/** Where a pointer or the arrow keys can stop on a drawn panel, and what is told there. */

import type { Panel } from "../../src/figures/figure.ts"

export interface Stop {
  x: number
  y: number
  /** What it is of: a number along an axis, or a name. */
  key: number | string
  /** The first is the name. */
  lines: string[]
  /** Whether there is a point to put a ring around. Default true. */
  marked?: boolean
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
      return { along: "x", stops: pointStops(panel.lines, panel, at) }
    case "areas":
      return {
        along: "x",
        stops: pointStops(panel.areas.toReversed(), panel, at).map((stop) => ({ ...stop, marked: false })),
      }
    case "cells":
      return {
        along: "both",
        stops: panel.cells.map(({ x, y, text }) => ({
          x: at("x", x),
          y: at("y", y),
          key: `${x} ${y}`,
          lines: text.split("\n"),
        })),
      }
    case "bars": {
      const rows = [...new Set(panel.bars.map(({ row }) => row))]
      return { along: "y", stops: rows.map((row) => barStop(panel, row, at)) }
    }
  }
}

type Place = (name: "x" | "y", value: unknown) => number

function dotStops({ dots, x, y }: Extract<Panel, { kind: "dots" }>, at: Place): Stop[] {
  // What has no place on the axis is a line across: told of at its name, on the left.
  const left = at("x", Math.min(...dots.filter((dot) => dot.x > 0).map((dot) => dot.x)))
  return [...dots]
    .sort((a, b) => a.x - b.x || b.y - a.y)
    .map((dot) => {
      const spread = dot.high > dot.low ? ` ± ${formatNumber((dot.high - dot.low) / 2)}` : ""
      const memory = dot.x > 0 ? `${formatNumber(dot.x)} ${x}` : `no ${x.replace(/ .*/, "s")}`
      const lines = [dot.label, `${formatNumber(dot.y)}${spread} ${y}`, memory]
      const place = { x: dot.x > 0 ? at("x", dot.x) : left, y: at("y", dot.y) }
      return { ...place, key: dot.label, lines, marked: dot.x > 0 }
    })
}

interface Named {
  label: string
  points: readonly { x: number; y: number; note?: string }[]
}

/** One stop for every place along the longest line; each line tells its value there or at the nearest place before. */
function pointStops(lines: readonly Named[], panel: { x: string; levels?: readonly number[] }, at: Place): Stop[] {
  const value = (y: number) => formatNumber(panel.levels?.[y] ?? y)
  const longest = lines.reduce<Named["points"]>((most, { points }) => (points.length > most.length ? points : most), [])
  return longest.map(({ x, y, note }) => {
    const values = lines.flatMap(({ label, points }) => {
      const point = points.findLast((candidate) => candidate.x <= x)
      return point ? [`${label}: ${value(point.y)}`] : []
    })
    const told = [`${formatNumber(x)} ${panel.x}`, ...values, ...(note === undefined ? [] : [note])]
    return { x: at("x", x), y: at("y", y), key: x, lines: told }
  })
}

function barStop({ bars, x, unit }: Extract<Panel, { kind: "bars" }>, row: string, at: Place): Stop {
  const own = bars.filter((bar) => bar.row === row)
  const total = own.reduce((sum, { value }) => sum + value, 0)
  const lines = own.map(({ part, value, mark }) => {
    const beside = mark === undefined ? "" : ` (paper ${formatNumber(mark)})`
    const number = unit === undefined ? `${formatNumber(value)} ${x}` : `${formatNumber(value)}${unit}`
    return part === undefined ? `${number}${beside}` : `${part}: ${number}`
  })
  return { x: at("x", total), y: at("y", row), key: row, lines: [row, ...lines] }
}
