/** Quality against memory, with every control on it: the picture a size search has to be judged by. */

import { KIND_COLOURS, KIND_LEGEND, RULE_COLOUR } from "./colours.ts"
import { MAJORITY, type MethodKind } from "./controls.ts"
import { bytesOverTime } from "./cost-table.ts"
import { type Drawing, type Figure, joinPanels } from "./drawing.ts"
import { type Block, MEASURES, sampleOf } from "./summary.ts"

interface Dot {
  label: string
  kind: MethodKind
  /** Kilobytes, mean over the stream. */
  x: number
  y: number
  low: number
  high: number
}

export function frontierFigure(drawing: Drawing, block: Block, id: string): Figure {
  const { Plot, draw } = drawing
  const [measure] = MEASURES[block.task]
  const factor = measure === "accuracy" ? 100 : 1
  const dots = block.entries.flatMap((entry): Dot[] => {
    const sample = sampleOf(entry, measure)
    if (sample === undefined) return []
    const x = entry.label === MAJORITY ? 0 : bytesOverTime(entry) / 1000
    const [y, reach] = [factor * sample.mean, factor * sample.deviation]
    return [{ label: entry.label, kind: entry.kind, x, y, low: y - reach, high: y + reach }]
  })
  // What holds no embeddings has no place on a logarithmic axis: a line across.
  const levels = dots.filter(({ x }) => x === 0)
  const placed = dots.filter(({ x }) => x > 0)
  const frontier = paretoOf(placed)
  const bytes = placed.map((dot) => dot.x)
  const domain = placed.length === 0 ? [1, 10] : [0.8 * Math.min(...bytes), 1.25 * Math.max(...bytes)]
  const [width, height] = [720, 420]
  const options = (labels: readonly object[]) => ({
    width,
    height,
    marginLeft: 56,
    marginRight: 110,
    x: { type: "log", domain, label: "embedding kB, mean over the stream", tickFormat: "~s", ticks: 6 },
    y: { label: measure === "accuracy" ? "accuracy %" : `recall@${block.setting.k}`, grid: true },
    marks: [
      Plot.line(frontier, { x: "x", y: "y", curve: "step-after", stroke: RULE_COLOUR, strokeDasharray: "5 4" }),
      Plot.ruleY(levels, { y: "y", stroke: KIND_COLOURS.control, strokeDasharray: "1 3" }),
      Plot.ruleX(placed, { x: "x", y1: "low", y2: "high", stroke: (dot: Dot) => KIND_COLOURS[dot.kind] }),
      ...(["control", "baseline", "dess"] as const).map((kind) =>
        Plot.dot(
          placed.filter((dot) => dot.kind === kind),
          { x: "x", y: "y", r: 4, fill: KIND_COLOURS[kind], symbol: SYMBOLS[kind] },
        ),
      ),
      Plot.text(levels, { y: "y", text: "label", frameAnchor: "left", dx: 3, dy: -5, textAnchor: "start" }),
      ...labels,
    ],
    color: { type: "identity" },
  })
  const draft = draw(options([]))
  const [x, y] = [draft.scale("x"), draft.scale("y")]
  const boxes = placed.map((dot) => {
    const [low, high] = [Number(y?.apply(dot.low)), Number(y?.apply(dot.high))]
    return { dot, x: Number(x?.apply(dot.x)), y: Number(y?.apply(dot.y)), low, high }
  })
  const labels = placeLabels(boxes).map(({ dot, dx, dy, anchor }) =>
    Plot.text([dot], { x: "x", y: "y", text: "label", dx, dy, textAnchor: anchor, fill: KIND_COLOURS[dot.kind] }),
  )
  return {
    id: `${id}-frontier`,
    title: `Is the ${measure} worth the memory?`,
    caption:
      "Means over seeds, bars ± one standard deviation. Dashed: nobody is better with less. Dotted lines across hold no embeddings at all.",
    svg: joinPanels([{ svg: draw(options(labels)).outerHTML, width, height }], KIND_LEGEND),
  }
}

const SYMBOLS = { dess: "star", baseline: "square", control: "circle" } as const

/** Those whom nobody beats with less memory, by memory. */
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

const OFFSETS = [0, -10, 10, -20, 20, -30, 30, -40, 40]

/** Beside its dot where there is room: right or left, a little up or down; greedy, from the top. */
function placeLabels(boxes: readonly { dot: Dot; x: number; y: number; low: number; high: number }[]): PlacedLabel[] {
  const taken = boxes.flatMap(({ x, y, low, high }) => [
    { left: x - 5, right: x + 5, top: y - 5, bottom: y + 5 },
    { left: x - 1, right: x + 1, top: high, bottom: low },
  ])
  return [...boxes]
    .sort((a, b) => a.y - b.y)
    .map(({ dot, x, y }) => {
      const width = 5.6 * dot.label.length
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
