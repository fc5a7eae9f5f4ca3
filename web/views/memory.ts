/** Where is the memory of the process? */

import type { Figure } from "../../src/figures/figure.ts"
import type { Status } from "../dashboard/types.ts"

const MEGABYTE = 1024 * 1024

/** In the order of the bars. */
const NAMES: Record<keyof Status["memory"]["parts"], string> = {
  rows: "rows",
  indicators: "indicators",
  names: "names",
  met: "items met",
  items: "items",
  packed: "packed items",
  journal: "events under way",
  lookup: "lookup table",
  fixed: "fixed",
}

/** Bytes by part, as `status().memory.parts` counts them; the budget governs all but the last. */
export function memoryFigure({ memory }: Pick<Status, "memory">): Figure {
  const parts = Object.entries(NAMES) as [keyof Status["memory"]["parts"], string][]
  const governed = parts.reduce((sum, [part]) => sum + (part === "fixed" ? 0 : memory.parts[part]), 0)
  const megabytes = (bytes: number) => (bytes / MEGABYTE).toFixed(1)
  const budget = memory.budget === null ? "no budget" : `a budget of ${megabytes(memory.budget)} MB`
  return {
    id: "memory",
    title: "Where is the memory?",
    caption: `By part: ${megabytes(governed)} MB grow with ids (${budget}); fixed is what the empty process took.`,
    panels: [
      {
        kind: "bars",
        bars: parts.map(([part, row]) => ({
          row,
          value: memory.parts[part] / MEGABYTE,
          colour: part === "fixed" ? "grey" : "blue",
          text: megabytes(memory.parts[part]),
        })),
        x: "MB",
        y: "part",
        unit: "MB",
        width: 940,
        height: 260,
      },
    ],
  }
}
