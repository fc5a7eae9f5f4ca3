/** Where is the memory of the process? */

import type { Figure } from "../../src/figures/figure.ts"
import type { Status } from "../dashboard/types.ts"

const MEGABYTE = 1024 * 1024

/** In the order of the bars. */
const NAMES = {
  rows: "rows",
  indicators: "indicators",
  names: "names",
  met: "items met",
  items: "items",
  packed: "packed items",
  journal: "events under way",
  lookup: "lookup table",
} satisfies Record<keyof Status["memory"]["parts"], string>

/** Bytes by part, as `status().memory.parts` counts them, and what is fixed; the budget governs the parts. */
export function memoryFigure({ memory }: Pick<Status, "memory">): Figure {
  const parts = Object.entries(NAMES) as [keyof typeof NAMES, string][]
  const governed = parts.reduce((sum, [part]) => sum + memory.parts[part], 0)
  const megabytes = (bytes: number) => (bytes / MEGABYTE).toFixed(1)
  const bar = (row: string, bytes: number, colour: "blue" | "grey") => {
    return { row, value: bytes / MEGABYTE, colour, text: megabytes(bytes) }
  }
  const budget = memory.budget === null ? "no budget" : `a budget of ${megabytes(memory.budget)} MB`
  return {
    id: "memory",
    title: "Where is the memory?",
    caption: `By part: ${megabytes(governed)} MB grow with ids (${budget}); fixed is what the empty process took.`,
    panels: [
      {
        kind: "bars",
        bars: [...parts.map(([part, row]) => bar(row, memory.parts[part], "blue")), bar("fixed", memory.fixed, "grey")],
        x: "MB",
        y: "part",
        unit: "MB",
        width: 940,
        height: 260,
      },
    ],
  }
}
