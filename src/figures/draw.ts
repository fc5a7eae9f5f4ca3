/** Draws a panel with Observable Plot, which is handed in: in Node it works on a document of its own. */

import { drawAreas, drawBars, drawCells } from "./bars.ts"
import { drawDots } from "./dots.ts"
import type { Panel } from "./figure.ts"
import { drawLines } from "./lines.ts"
import type { Colour } from "./palette.ts"

type PlotLibrary = Pick<
  typeof import("@observablehq/plot"),
  "line" | "dot" | "text" | "ruleX" | "ruleY" | "barX" | "tickX" | "areaY" | "cell"
>

export interface Scale {
  apply(value: number): number
  invert?(position: number): number
}

export interface Drawing<Drawn> {
  Plot: PlotLibrary
  draw(options: object): Drawn & { scale(name: string): Scale | undefined }
  paint(colour: Colour): string
  /** The same for letters, which need more contrast. */
  write(colour: Colour): string
  /** What letters are set off with from lines behind them. */
  readonly ground: string
}

/** The size it is drawn at; `labels: false` leaves the names of lines and dots to the page. */
export interface Frame {
  width: number
  height: number
  labels: boolean
}

export function drawPanel<D>(drawing: Drawing<D>, panel: Panel, frame: Frame): ReturnType<Drawing<D>["draw"]> {
  switch (panel.kind) {
    case "lines":
      return drawLines(drawing, panel, frame)
    case "dots":
      return drawDots(drawing, panel, frame)
    case "bars":
      return drawBars(drawing, panel, frame)
    case "areas":
      return drawAreas(drawing, panel, frame)
    case "cells":
      return drawCells(drawing, panel, frame)
  }
}

/** Ticks of an axis that ends at `most`, in one unit: 0, 500, 1,000, or 0, 20k, 40k. */
function formatTicks(most: number, span = most): (value: number) => string {
  // Units only where ticks lie far enough apart for them.
  const [size, unit] = span >= 2e6 ? [1e6, "M"] : most >= 10_000 && span >= 5000 ? [1e3, "k"] : [1, ""]
  return (value) => (value === 0 ? "0" : `${(value / size).toLocaleString("en", { maximumFractionDigits: 6 })}${unit}`)
}

/** Ticks of an axis that counts: there is no half an event. */
export function wholeTicks(most: number, span = most): (value: number) => string {
  const format = formatTicks(most, span)
  return (value) => (Number.isInteger(value) ? format(value) : "")
}

/** What a character of a label takes, in pixels. */
export const CHARACTER_WIDTH = 5.6

const LONGEST_LABEL = 28

/** A name that leaves room for the picture. */
export function shorten(label: string): string {
  return label.length > LONGEST_LABEL ? `${label.slice(0, LONGEST_LABEL - 1)}…` : label
}

/** The room for the longest of some labels, in pixels. */
export function roomFor(labels: readonly string[], least: number): number {
  return 14 + CHARACTER_WIDTH * Math.max(least, ...labels.map((label) => shorten(label).length))
}
