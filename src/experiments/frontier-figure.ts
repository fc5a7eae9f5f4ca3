/** Quality against memory, with every control on it: the picture a size search has to be judged by. */

import { zoom } from "../figures/dots.ts"
import type { Dot, Figure } from "../figures/figure.ts"
import { KIND_COLOURS, legendOf } from "./colours.ts"
import { MAJORITY } from "./controls.ts"
import { bytesOverTime } from "./cost-table.ts"
import { type Block, MEASURES, sampleOf } from "./summary.ts"

const SYMBOLS = { own: "star", dess: "star", baseline: "square", control: "circle" } as const

export function frontierFigure(block: Block, id: string): Figure {
  const [measure] = MEASURES[block.task]
  const factor = measure === "accuracy" ? 100 : 1
  const dots = block.entries.flatMap((entry): Dot[] => {
    const sample = sampleOf(entry, measure)
    if (sample === undefined) return []
    const x = entry.label === MAJORITY ? 0 : bytesOverTime(entry) / 1000
    const [y, reach] = [factor * sample.mean, factor * sample.deviation]
    const look = { colour: KIND_COLOURS[entry.kind], symbol: SYMBOLS[entry.kind] }
    return [{ label: entry.label, ...look, x, y, low: y - reach, high: y + reach }]
  })
  const shown = new Set(zoom(dots).levels)
  const outside = dots.filter((dot) => dot.x === 0 && !shown.has(dot))
  const left = outside.map(({ label, y }) => `${label} ${y.toFixed(measure === "accuracy" ? 1 : 3)}`)
  return {
    id: `${id}-frontier`,
    title: `Is the ${measure} worth the memory?`,
    caption: `Means over seeds, bars ± one standard deviation. Dashed: nobody is better with less. Dotted lines across hold no embeddings at all${left.length > 0 ? `; beyond the axis: ${left.join(", ")}` : ""}.`,
    panels: [
      {
        kind: "dots",
        dots,
        x: "embedding kB, mean over the stream",
        y: measure === "accuracy" ? "accuracy %" : `recall@${block.setting.k}`,
        width: 720,
        height: 420,
      },
    ],
    legend: legendOf(block.entries.map(({ kind }) => kind)),
  }
}
