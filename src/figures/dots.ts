/** Quality against memory: dots with error bars and names, and the frontier. */

import { CHARACTER_WIDTH, type Drawing, type Frame, shorten } from "./draw.ts"
import type { Dot, DotsPanel } from "./figure.ts"
import { spread } from "./lines.ts"

export function drawDots<D>({ Plot, draw, paint, write, ground }: Drawing<D>, panel: DotsPanel, frame: Frame) {
  const { width, height } = frame
  // What holds no embeddings has no place on a logarithmic axis: a line across.
  const { levels, range } = zoom(panel.dots)
  const placed = panel.dots.filter(({ x }) => x > 0).map((dot) => ({ ...dot, label: shorten(dot.label) }))
  const bytes = placed.map((dot) => dot.x)
  const domain = placed.length === 0 ? [1, 10] : [0.8 * Math.min(...bytes), 1.25 * Math.max(...bytes)]
  const colour = (dot: Dot) => paint(dot.colour)
  const options = (labels: readonly object[]) => ({
    width,
    height,
    marginLeft: 56,
    marginRight: frame.labels ? 110 : 14,
    x: { type: "log", domain, label: panel.x, tickFormat: "~s", ticks: width < 400 ? 4 : 6 },
    y: { label: panel.y, grid: true, ...(range && { domain: range }) },
    marks: [
      Plot.line(paretoOf(placed), {
        x: "x",
        y: "y",
        curve: "step-after",
        stroke: paint("rule"),
        strokeDasharray: "5 4",
      }),
      Plot.ruleY(levels, { y: "y", stroke: colour, strokeDasharray: "1 3" }),
      Plot.ruleX(placed, { x: "x", y1: "low", y2: "high", stroke: colour }),
      ...(["circle", "square", "star"] as const).map((symbol) =>
        Plot.dot(
          placed.filter((dot) => dot.symbol === symbol),
          { x: "x", y: "y", r: 4, fill: colour, symbol },
        ),
      ),
      ...labels,
    ],
    color: { type: "identity" },
  })
  const draft = draw(options([]))
  const [x, y] = [draft.scale("x"), draft.scale("y")]
  const heights = levels.map((level) => Number(y?.apply(level.y)))
  const places = spread(
    heights.map((at) => at - 6),
    { gap: 12, from: 14, to: height - 40 },
  )
  const halo = { stroke: ground, strokeWidth: 3 }
  const names = levels.map((level, i) =>
    Plot.text([level], {
      y: "y",
      text: "label",
      ...{ frameAnchor: "left", dx: 3, dy: places[i] - heights[i], textAnchor: "start" },
      ...{ fill: write(level.colour), ...halo },
    }),
  )
  if (!frame.labels) return draw(options(names))
  const boxes = placed.map((dot) => {
    const [low, high] = [Number(y?.apply(dot.low)), Number(y?.apply(dot.high))]
    return { dot, x: Number(x?.apply(dot.x)), y: Number(y?.apply(dot.y)), low, high }
  })
  const lines = levels.map(({ label }, i) => {
    return { left: 56, right: 60 + CHARACTER_WIDTH * label.length, top: places[i] - 6, bottom: places[i] + 6 }
  })
  const labels = placeLabels(boxes, lines).map(({ dot, dx, dy, anchor }) =>
    Plot.text([dot], { x: "x", y: "y", text: "label", dx, dy, textAnchor: anchor, fill: write(dot.colour), ...halo }),
  )
  return draw(options([...names, ...labels]))
}

/**
 * The axis shows the methods: what holds no embeddings is a line across where it comes near them (half of what they span
 * away), and is left out where it would squeeze them together.
 */
export function zoom(dots: readonly Dot[]): { levels: Dot[]; range: [number, number] | undefined } {
  const all = dots.filter(({ x }) => x === 0)
  const placed = dots.filter(({ x }) => x > 0)
  if (placed.length < 2) return { levels: all, range: undefined }
  const [low, high] = [Math.min(...placed.map((dot) => dot.low)), Math.max(...placed.map((dot) => dot.high))]
  const span = high - low
  if (!(span > 0)) return { levels: all, range: undefined }
  const levels = all.filter(({ y }) => y >= low - span / 2 && y <= high + span / 2)
  const ys = [low, high, ...levels.map(({ y }) => y)]
  return { levels, range: [Math.min(...ys) - 0.05 * span, Math.max(...ys) + 0.05 * span] }
}

/** The points that none beats with less memory, by memory. */
export function paretoOf<T extends { x: number; y: number }>(dots: readonly T[]): T[] {
  const sorted = [...dots].sort((a, b) => a.x - b.x || b.y - a.y)
  let best = Number.NEGATIVE_INFINITY
  return sorted.filter(({ y }) => {
    if (y <= best) return false
    best = y
    return true
  })
}

interface PlacedLabel {
  dot: Dot
  dx: number
  dy: number
  anchor: "start" | "end"
}

interface Box {
  left: number
  right: number
  top: number
  bottom: number
}

const OFFSETS = [0, -10, 10, -20, 20, -30, 30, -40, 40]

/** Beside its dot where there is room: right or left, a little up or down; greedy, from the top. */
function placeLabels(
  boxes: readonly { dot: Dot; x: number; y: number; low: number; high: number }[],
  lines: readonly Box[],
): PlacedLabel[] {
  const taken: Box[] = boxes.flatMap(({ x, y, low, high }) => [
    { left: x - 5, right: x + 5, top: y - 5, bottom: y + 5 },
    { left: x - 1, right: x + 1, top: high, bottom: low },
  ])
  taken.push(...lines)
  return [...boxes]
    .sort((a, b) => a.y - b.y)
    .map(({ dot, x, y }) => {
      const width = CHARACTER_WIDTH * dot.label.length
      const options = OFFSETS.flatMap((dy) => [
        { dot, dx: 8, dy, anchor: "start" as const },
        { dot, dx: -8, dy, anchor: "end" as const },
      ])
      const boxOf = ({ dx, dy, anchor }: PlacedLabel) => {
        const left = anchor === "start" ? x + dx : x + dx - width
        return { left, right: left + width, top: y + dy - 5, bottom: y + dy + 5 }
      }
      const free = options.find((option) => {
        const box = boxOf(option)
        const overlaps = taken.some(
          (other) =>
            box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom,
        )
        return !overlaps && box.left > 60
      })
      const chosen = free ?? options[0]
      taken.push(boxOf(chosen))
      return chosen
    })
}
