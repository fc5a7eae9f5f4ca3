/** Figures as data. The same ones are drawn to files and, at any width and in any theme, on a page. */

import type { Colour } from "./palette.ts"

/** The title is the question it answers. */
export interface Figure {
  id: string
  title: string
  caption: string
  panels: readonly Panel[]
  legend?: readonly LegendItem[]
}

export interface LegendItem {
  label: string
  colour: Colour
  /** Of a line that is drawn so. */
  dash?: string
}

export type Panel = LinesPanel | DotsPanel | BarsPanel | AreasPanel | CellsPanel

/** What every kind of panel has; the size is the one on paper. */
export interface PanelFrame {
  title?: string
  width: number
  height: number
  /** Titles of the axes. */
  x: string
  y: string
}

export interface Line {
  label: string
  colour: Colour
  /** As SVG's stroke-dasharray. */
  dash?: string
  /** A note is shown under the pointer. */
  points: readonly { x: number; y: number; note?: string }[]
}

/** Lines along the stream; each is named at its end. */
export interface LinesPanel extends PanelFrame {
  kind: "lines"
  lines: readonly Line[]
  logarithmic?: boolean
  /** The y axis starts at 0. */
  zero?: boolean
  /** What the y of 0, 1, 2, … stand for: steps of equal height. */
  levels?: readonly number[]
}

export type Symbol = "star" | "square" | "circle"

export interface Dot {
  label: string
  colour: Colour
  symbol: Symbol
  /** Where it has no place on the logarithmic axis (0) it is a line across. */
  x: number
  y: number
  low: number
  high: number
}

/** Quality against memory, with the line of those that none beats with less memory. */
export interface DotsPanel extends PanelFrame {
  kind: "dots"
  dots: readonly Dot[]
}

export interface Bar {
  row: string
  /** What of the row it is, where a row has several. */
  part?: string
  value: number
  colour: Colour
  /** Beside the bar. */
  text?: string
  /** A tick to compare with. */
  mark?: number
}

/** Horizontal bars; those of one row are put end to end. */
export interface BarsPanel extends PanelFrame {
  kind: "bars"
  bars: readonly Bar[]
  /** Behind a value shown under the pointer, in place of the axis' title. */
  unit?: string
}

/** Shares of a whole along the stream, one upon the other. */
export interface AreasPanel extends PanelFrame {
  kind: "areas"
  areas: readonly { label: string; colour: Colour; points: readonly { x: number; y: number }[] }[]
}

/** A map: one value per cell, blue below zero and orange above. */
export interface CellsPanel extends PanelFrame {
  kind: "cells"
  cells: readonly { x: string; y: string; value: number; text: string }[]
}
