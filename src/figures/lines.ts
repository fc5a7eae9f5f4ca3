/** Line charts with the names at the lines' ends. */

import { type Drawing, type Frame, roomFor, shorten, wholeTicks } from "./draw.ts"
import type { LinesPanel } from "./figure.ts"

const LABEL_GAP = 11

export function drawLines<D>({ Plot, draw, paint, write, ground }: Drawing<D>, panel: LinesPanel, frame: Frame) {
  const { logarithmic = false } = panel
  const { width, height } = frame
  const lines = panel.lines.filter(({ points }) => points.length > 0)
  const names = lines.map(({ label }) => label)
  const options = (labels: readonly object[]) => ({
    width,
    height,
    marginLeft: 56,
    marginRight: frame.labels ? roomFor(names, 4) : 12,
    x: {
      label: panel.x,
      ticks: width < 400 ? 4 : 5,
      ...(logarithmic ? { type: "log", tickFormat: "~s" } : { tickFormat: xTicks(lines) }),
    },
    y: { label: panel.y, grid: true, ...axisOf(panel, lines) },
    marks: [
      ...lines.map(({ points, colour, dash }) =>
        Plot.line(points, {
          x: "x",
          y: "y",
          stroke: paint(colour),
          strokeWidth: dash ? 1.3 : 1.7,
          ...(dash ? { strokeDasharray: dash } : {}),
        }),
      ),
      ...labels,
    ],
  })
  const draft = draw(options([]))
  if (!frame.labels) return draft
  const y = draft.scale("y")
  const ends = lines.map((line) => ({ ...line, end: line.points[line.points.length - 1] }))
  const wanted = ends.map(({ end }) => Number(y?.apply(end.y)))
  const placed = spread(wanted, { gap: LABEL_GAP, from: 12, to: height - 34 })
  const labels = ends.map(({ label, colour, end }, i) =>
    Plot.text([{ x: end.x, y: y?.invert?.(placed[i]), label: shorten(label) }], {
      x: "x",
      y: "y",
      text: "label",
      textAnchor: "start",
      dx: 6,
      fill: write(colour),
      stroke: ground,
      strokeWidth: 3,
      clip: false,
    }),
  )
  return draw(options(labels))
}

function axisOf({ logarithmic, levels, zero }: LinesPanel, lines: LinesPanel["lines"]): object {
  if (levels)
    return {
      domain: [0, levels.length - 1],
      ticks: levels.map((_, level) => level),
      tickFormat: (level: number) => String(levels[level]),
    }
  if (logarithmic) return { type: "log", tickFormat: "~s", ticks: 5 }
  const values = lines.flatMap(({ points }) => points.map(({ y }) => y))
  // One value alone makes no axis: it gets the one from 0 to it.
  if (values.length > 0 && values.every((value) => value === values[0])) {
    const [only] = values
    return { ticks: 6, domain: only === 0 ? [0, 1] : [Math.min(0, only), Math.max(0, only)] }
  }
  return { ticks: 6, ...(zero ? { zero: true } : {}) }
}

function xTicks(lines: LinesPanel["lines"]): (value: number) => string {
  const first = lines.reduce((least, { points }) => Math.min(least, points[0].x), farthest(lines))
  return wholeTicks(farthest(lines), farthest(lines) - first)
}

function farthest(lines: LinesPanel["lines"]): number {
  return lines.reduce((most, { points }) => Math.max(most, points[points.length - 1].x), 0)
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
