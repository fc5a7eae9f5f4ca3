/** Figures to SVG in Node: Observable Plot on a document of its own, and panels put into one picture. */

import { DessError } from "../errors.ts"
import { CHARACTER_WIDTH, type Drawing, drawPanel } from "../figures/draw.ts"
import type { Figure, LegendItem } from "../figures/figure.ts"
import { PALETTE } from "../figures/palette.ts"
import { escapeHtml } from "./html-text.ts"

/** The packages are optional: loaded when a figure is drawn. */
export async function openDrawing(): Promise<Drawing<{ outerHTML: string }> & { close(): Promise<void> }> {
  try {
    const Plot = await import("@observablehq/plot")
    const { Window } = await import("happy-dom")
    const window = new Window()
    return {
      Plot,
      draw: (options) => Plot.plot({ ...options, document: window.document as never }) as never,
      paint: (colour) => PALETTE[colour],
      write: (colour) => PALETTE[colour],
      ground: "#ffffff",
      close: () => window.happyDOM.close(),
    }
  } catch (cause) {
    throw new DessError(
      "UNSUPPORTED",
      "figure files: expected @observablehq/plot and happy-dom, got none; npm install @observablehq/plot happy-dom, or look at report.html, which draws its own",
      { cause },
    )
  }
}

/** Panels side by side, each under its title, with a legend above; stands alone but for its xmlns, which a page does not need. */
export function drawFigure(drawing: Drawing<{ outerHTML: string }>, { panels, legend = [] }: Figure): string {
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
        `<text x="${x + 56}" y="${legendHeight + 12}" font-weight="bold" fill="${PALETTE.ink}">${escapeHtml(panel.title)}</text>`,
      )
    const { outerHTML } = drawPanel(drawing, panel, { width: panel.width, height: panel.height, labels: true })
    parts.push(`<g transform="translate(${x},${top})">${outerHTML}</g>`)
    x += panel.width
  }
  return roundNumbers(
    `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="10" fill="${PALETTE.ink}">${parts.join("")}</svg>`,
  )
}

function drawLegend(items: readonly LegendItem[]): string {
  let x = 56
  return items
    .map(({ label, colour }) => {
      const at = x
      x += 28 + CHARACTER_WIDTH * label.length
      return `<rect x="${at}" y="3" width="10" height="10" fill="${PALETTE[colour]}"/><text x="${at + 14}" y="12">${escapeHtml(label)}</text>`
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
