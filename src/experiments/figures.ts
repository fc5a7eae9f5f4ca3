/** All figures of a block. */

import type { Figure } from "../figures/figure.ts"
import { memoryFigure, timeFigure } from "./bar-figures.ts"
import { frontierFigure } from "./frontier-figure.ts"
import { qualityFigure, regretFigures, sizeFigure } from "./line-figures.ts"
import type { Block } from "./summary.ts"

/** `id` begins the names of the figures. */
export function planFigures(block: Block, id: string): Figure[] {
  if (block.entries.length === 0) return []
  return [
    frontierFigure(block, id),
    ...qualityFigure(block, id),
    ...sizeFigure(block, id),
    ...regretFigures(block, id),
    memoryFigure(block, id),
    timeFigure(block, id),
  ]
}
