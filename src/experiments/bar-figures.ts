/** Bars: embedding memory and time per phase. */

import type { Bar, Figure } from "../figures/figure.ts"
import { KIND_COLOURS, legendOf, PHASE_COLOURS } from "./colours.ts"
import { MAJORITY } from "./controls.ts"
import { endBytes, PHASES, relativeBytes } from "./cost-table.ts"
import { paperMemory } from "./paper.ts"
import { type Block, meanOf } from "./summary.ts"

/** The size of a chart with this many rows. */
const sizeOf = (rows: number) => ({ width: 640, height: 50 + 18 * rows })

/** Embedding memory of all methods that hold embeddings, fixed-128 = 1; the paper's as a tick. */
export function memoryFigure(block: Block, id: string): Figure {
  const entries = block.entries.filter((entry) => entry.label !== MAJORITY && endBytes(entry) > 0)
  const relative = entries.every((entry) => relativeBytes(block, entry) !== undefined)
  const bars = entries.map((entry): Bar => {
    const value = relative ? (relativeBytes(block, entry) ?? 0) : endBytes(entry) / 1e6
    const mark = relative ? paperMemory(block.data, entry.label) : undefined
    return {
      row: entry.label,
      value,
      colour: KIND_COLOURS[entry.kind],
      text: value.toFixed(value < 0.1 ? 3 : 2),
      ...(mark === undefined ? {} : { mark }),
    }
  })
  const hasPaper = bars.some(({ mark }) => mark !== undefined)
  const x = relative ? "embedding bytes at the end, fixed-128 = 1" : "embedding megabytes at the end"
  return {
    id: `${id}-memory`,
    title: "How much embedding memory does each method hold?",
    caption: `Live rows only, mean over seeds.${hasPaper ? " Black ticks: the paper's figures." : ""}`,
    panels: [{ kind: "bars", bars, x, y: "", unit: relative ? " of fixed-128" : " MB", ...sizeOf(bars.length) }],
    legend: legendOf(block.entries.map(({ kind }) => kind)),
  }
}

/** Milliseconds per segment, one colour per phase. */
export function timeFigure(block: Block, id: string): Figure {
  const entries = block.entries.filter(({ label }) => label !== MAJORITY)
  const bars = entries.flatMap((entry) =>
    PHASES.map((phase) => ({
      row: entry.label,
      part: phase,
      value: meanOf(entry, ({ result }) => result.milliseconds[phase]),
      colour: PHASE_COLOURS[phase],
    })),
  )
  return {
    id: `${id}-time`,
    title: "Where does the time go?",
    caption: `Mean per segment of ${block.setting.segment} interactions, the first ten left out. Cells that ran side by side slow each other down.`,
    panels: [{ kind: "bars", bars, x: "milliseconds per segment", y: "", unit: " ms", ...sizeOf(entries.length) }],
    legend: PHASES.map((phase) => ({ label: phase, colour: PHASE_COLOURS[phase] })),
  }
}
