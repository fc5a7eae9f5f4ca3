/** Bars, areas and maps. */

import { type Drawing, type Frame, roomFor, shorten, wholeTicks } from "./draw.ts"
import type { AreasPanel, Bar, BarsPanel, CellsPanel } from "./figure.ts"

export function drawBars<D>({ Plot, draw, paint }: Drawing<D>, panel: BarsPanel, { width, height }: Frame) {
  const { bars } = panel
  const rows = [...new Set(bars.map(({ row }) => row))]
  const large = bars.some(({ value }) => value >= 10_000)
  return draw({
    width,
    height,
    marginLeft: roomFor(rows, 6),
    marginRight: bars.some(({ text }) => text !== undefined) ? 40 : 20,
    x: { label: panel.x, grid: true, ticks: width < 400 ? 4 : 6, ...(large ? { tickFormat: "~s" } : {}) },
    y: { label: panel.y === "" ? null : panel.y, domain: rows, padding: 0.25, tickFormat: shorten },
    marks: [
      Plot.barX(bars, { x: "value", y: "row", fill: (bar: Bar) => paint(bar.colour) }),
      Plot.text(
        bars.filter(({ text }) => text !== undefined),
        { x: "value", y: "row", text: "text", textAnchor: "start", dx: 4 },
      ),
      Plot.tickX(
        bars.filter(({ mark }) => mark !== undefined),
        { x: "mark", y: "row", stroke: paint("ink"), strokeWidth: 2.5 },
      ),
      Plot.ruleX([0]),
    ],
    color: { type: "identity" },
  })
}

export function drawAreas<D>({ Plot, draw, paint }: Drawing<D>, panel: AreasPanel, { width, height }: Frame) {
  const points = panel.areas.flatMap(({ label, colour, points }) =>
    points.map((point) => ({ ...point, label, colour })),
  )
  const most = (axis: "x" | "y") => points.reduce((found, point) => Math.max(found, point[axis]), 0)
  return draw({
    width,
    height,
    marginLeft: 56,
    marginRight: 12,
    x: { label: panel.x, tickFormat: wholeTicks(most("x")), ticks: width < 400 ? 4 : 5 },
    y: { label: panel.y, grid: true, ticks: 5, tickFormat: wholeTicks(panel.areas.length * most("y")) },
    marks: [
      Plot.areaY(points, {
        x: "x",
        y: "y",
        z: "label",
        fill: (point: (typeof points)[number]) => paint(point.colour),
        order: panel.areas.map(({ label }) => label),
      }),
      Plot.ruleY(points.length > 0 ? [0] : []),
    ],
    color: { type: "identity" },
  })
}

export function drawCells<D>({ Plot, draw, paint }: Drawing<D>, panel: CellsPanel, { width, height }: Frame) {
  const { cells } = panel
  const most = Math.max(1e-9, ...cells.map(({ value }) => Math.abs(value)))
  type Cell = (typeof cells)[number]
  return draw({
    width,
    height,
    marginLeft: 56,
    marginRight: 12,
    marginBottom: 36,
    x: { label: panel.x, domain: [...new Set(cells.map(({ x }) => x))], padding: 0.06 },
    y: { label: panel.y, domain: [...new Set(cells.map(({ y }) => y))].reverse(), padding: 0.06 },
    marks: [
      Plot.cell(cells, {
        x: "x",
        y: "y",
        fill: (cell: Cell) => paint(cell.value > 0 ? "vermillion" : "blue"),
        fillOpacity: (cell: Cell) => 0.08 + (0.92 * Math.abs(cell.value)) / most,
      }),
    ],
    color: { type: "identity" },
    opacity: { type: "identity" },
  })
}
