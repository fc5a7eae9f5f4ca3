/** Observable Plot in Node: a document to draw in, line charts with labels at the lines' ends, and panels put into one SVG. */

import { DessError } from "../errors.ts"
import { escapeHtml } from "./html-text.ts"

/** The packages are optional: loaded when a figure is drawn. */
export async function openDrawing() {
  try {
    const Plot = await import("@observablehq/plot")
    const { Window } = await import("happy-dom")
    const window = new Window()
    const draw = (options: object) => Plot.plot({ ...options, document: window.document as never })
    return { Plot, draw, close: () => window.happyDOM.close() }
  } catch (error) {
    throw new DessError(
      "UNSUPPORTED",
      `figures: expected the packages @observablehq/plot and happy-dom, got ${(error as Error).message}; npm install them, or leave out the figures`,
    )
  }
}

export type Drawing = Awaited<ReturnType<typeof openDrawing>>

/** A finished figure: the title is the question it answers. */
export interface Figure {
  id: string
  title: string
  caption: string
  /** Stands alone but for its xmlns, which a page does not need. */
  svg: string
}

export interface Line {
  label: string
  colour: string
  /** As SVG's stroke-dasharray. */
  dash?: string
  points: readonly { x: number; y: number }[]
}

export interface LineChart {
  lines: readonly Line[]
  x: string
  y: string
  title?: string
  width?: number
  height?: number
  logarithmic?: boolean
}

const LABEL_GAP = 11
const CHARACTER_WIDTH = 5.6
export const INK = "#333333"

export interface Panel {
  svg: string
  title?: string
  width: number
  height: number
}

/** Lines along the stream; each is named at its end, in its colour. */
export function drawLines({ Plot, draw }: Drawing, chart: LineChart): Panel {
  const { width = 460, height = 280, logarithmic = false } = chart
  const lines = chart.lines.filter(({ points }) => points.length > 0)
  const marginRight = 14 + CHARACTER_WIDTH * Math.max(4, ...lines.map(({ label }) => label.length))
  const options = (labels: readonly object[]) => ({
    width,
    height,
    marginLeft: 56,
    marginRight,
    x: { label: chart.x, tickFormat: "~s", ticks: 5, ...(logarithmic ? { type: "log" } : {}) },
    y: { label: chart.y, grid: true, ...(logarithmic ? { type: "log", tickFormat: "~s", ticks: 5 } : { ticks: 6 }) },
    marks: [
      ...lines.map(({ points, colour, dash }) =>
        Plot.line(points, {
          x: "x",
          y: "y",
          stroke: colour,
          strokeWidth: dash ? 1.3 : 1.7,
          ...(dash ? { strokeDasharray: dash } : {}),
        }),
      ),
      ...labels,
    ],
  })
  const y = draw(options([])).scale("y")
  const ends = lines.map((line) => ({ ...line, end: line.points[line.points.length - 1] }))
  const wanted = ends.map(({ end }) => Number(y?.apply(end.y)))
  const placed = spread(wanted, { gap: LABEL_GAP, from: 12, to: height - 34 })
  const labels = ends.map(({ label, colour, end }, i) =>
    Plot.text([{ x: end.x, y: y?.invert?.(placed[i]), label }], {
      x: "x",
      y: "y",
      text: "label",
      textAnchor: "start",
      dx: 6,
      fill: colour,
      clip: false,
    }),
  )
  const svg = draw(options(labels)).outerHTML
  return { svg, width, height, ...(chart.title === undefined ? {} : { title: chart.title }) }
}

/** Moves positions apart so that neighbours are at least a gap away from each other, as little as possible in order. */
export function spread(wanted: readonly number[], p: { gap: number; from: number; to: number }): number[] {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b])
  const placed = [...wanted]
  let floor = p.from
  for (const i of order) {
    placed[i] = Math.max(wanted[i], floor)
    floor = placed[i] + p.gap
  }
  let ceiling = p.to
  for (const i of order.reverse()) {
    placed[i] = Math.min(placed[i], ceiling)
    ceiling = placed[i] - p.gap
  }
  return placed
}

export interface LegendItem {
  label: string
  colour: string
}

/** Panels side by side, each under its title, with a legend above; numbers rounded so that the text stays short. */
export function joinPanels(panels: readonly Panel[], legend: readonly LegendItem[] = []): string {
  const legendHeight = legend.length > 0 ? 20 : 0
  const titleHeight = panels.some(({ title }) => title !== undefined) ? 18 : 0
  const top = legendHeight + titleHeight
  const width = panels.reduce((sum, panel) => sum + panel.width, 0)
  const height = top + Math.max(0, ...panels.map((panel) => panel.height))
  let x = 0
  const parts = [drawLegend(legend)]
  for (const panel of panels) {
    if (panel.title !== undefined)
      parts.push(
        `<text x="${x + 56}" y="${legendHeight + 12}" font-weight="bold" fill="${INK}">${escapeHtml(panel.title)}</text>`,
      )
    parts.push(`<g transform="translate(${x},${top})">${panel.svg}</g>`)
    x += panel.width
  }
  return roundNumbers(
    `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="10" fill="${INK}">${parts.join("")}</svg>`,
  )
}

function drawLegend(items: readonly LegendItem[]): string {
  let x = 56
  return items
    .map(({ label, colour }) => {
      const at = x
      x += 28 + CHARACTER_WIDTH * label.length
      return `<rect x="${at}" y="3" width="10" height="10" fill="${colour}"/><text x="${at + 14}" y="12">${escapeHtml(label)}</text>`
    })
    .join("")
}

/** Coordinates to a tenth of a pixel; texts stay as they are. */
export function roundNumbers(svg: string): string {
  const attribute = /\s(?:d|transform|x|y|x1|x2|y1|y2|cx|cy|r|width|height)="[^"<>]*"/g
  return svg.replace(attribute, (text) =>
    text.replace(/-?\d+\.\d{2,}(?:e-?\d+)?/g, (n) => String(Number(Number(n).toFixed(1)))),
  )
}
