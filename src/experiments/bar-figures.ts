/** Bars: embedding memory and time per phase. */

import { KIND_COLOURS, KIND_LEGEND, PHASE_COLOURS } from "./colours.ts"
import { MAJORITY } from "./controls.ts"
import { endBytes, PHASES, relativeBytes } from "./cost-table.ts"
import { type Drawing, type Figure, INK, joinPanels, type Panel } from "./drawing.ts"
import { paperMemory } from "./paper.ts"
import { type Block, meanOf } from "./summary.ts"

const ROW_HEIGHT = 18

interface Bar {
  label: string
  value: number
  colour: string
  /** Beside the bar. */
  text: string
  paper?: number | undefined
}

/** Embedding memory of everybody that holds embeddings, fixed-128 = 1; the paper's as a tick. */
export function memoryFigure(drawing: Drawing, block: Block, id: string): Figure {
  const entries = block.entries.filter((entry) => entry.label !== MAJORITY && endBytes(entry) > 0)
  const relative = entries.every((entry) => relativeBytes(block, entry) !== undefined)
  const bars = entries.map((entry): Bar => {
    const value = relative ? (relativeBytes(block, entry) ?? 0) : endBytes(entry) / 1e6
    const paper = relative ? paperMemory(block.data, entry.label) : undefined
    return {
      label: entry.label,
      value,
      colour: KIND_COLOURS[entry.kind],
      text: value.toFixed(value < 0.1 ? 3 : 2),
      paper,
    }
  })
  const hasPaper = bars.some(({ paper }) => paper !== undefined)
  const x = relative ? "embedding bytes at the end, fixed-128 = 1" : "embedding megabytes at the end"
  return {
    id: `${id}-memory`,
    title: "How much embedding memory does each method hold?",
    caption: `Live rows only, mean over seeds.${hasPaper ? " Black ticks: the paper's figures." : ""}`,
    svg: joinPanels([drawBars(drawing, bars, x)], KIND_LEGEND),
  }
}

function drawBars({ Plot, draw }: Drawing, bars: readonly Bar[], x: string): Panel {
  const [width, height] = [640, 50 + ROW_HEIGHT * bars.length]
  const plot = draw({
    width,
    height,
    marginLeft: marginFor(bars.map(({ label }) => label)),
    marginRight: 40,
    x: { label: x, grid: true },
    y: { label: null, domain: bars.map(({ label }) => label), padding: 0.25 },
    marks: [
      ...bars.map((bar) => Plot.barX([bar], { x: "value", y: "label", fill: bar.colour })),
      Plot.text(bars, { x: "value", y: "label", text: "text", textAnchor: "start", dx: 4 }),
      Plot.tickX(
        bars.filter(({ paper }) => paper !== undefined),
        { x: "paper", y: "label", stroke: INK, strokeWidth: 2.5 },
      ),
      Plot.ruleX([0]),
    ],
  })
  return { svg: plot.outerHTML, width, height }
}

/** Milliseconds per segment, one colour per phase. */
export function timeFigure(drawing: Drawing, block: Block, id: string): Figure {
  const { Plot, draw } = drawing
  const entries = block.entries.filter(({ label }) => label !== MAJORITY)
  const parts = entries.flatMap((entry) =>
    PHASES.map((phase) => ({
      label: entry.label,
      phase,
      value: meanOf(entry, ({ result }) => result.milliseconds[phase]),
      colour: PHASE_COLOURS[phase],
    })),
  )
  const [width, height] = [640, 50 + ROW_HEIGHT * entries.length]
  const plot = draw({
    width,
    height,
    marginLeft: marginFor(entries.map(({ label }) => label)),
    x: { label: "milliseconds per segment", grid: true },
    y: { label: null, domain: entries.map(({ label }) => label), padding: 0.25 },
    marks: [
      Plot.barX(parts, { x: "value", y: "label", fill: (part: { colour: string }) => part.colour }),
      Plot.ruleX([0]),
    ],
    color: { type: "identity" },
  })
  const legend = PHASES.map((phase) => ({ label: phase, colour: PHASE_COLOURS[phase] }))
  return {
    id: `${id}-time`,
    title: "Where does the time go?",
    caption: `Mean per segment of ${block.setting.segment} interactions, the first ten left out. Cells that ran side by side slow each other down.`,
    svg: joinPanels([{ svg: plot.outerHTML, width, height }], legend),
  }
}

const marginFor = (labels: readonly string[]) => 14 + 5.6 * Math.max(6, ...labels.map((label) => label.length))
