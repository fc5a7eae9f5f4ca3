/** All figures of a block. */

import { memoryFigure, timeFigure } from "./bar-figures.ts"
import type { Drawing, Figure } from "./drawing.ts"
import { frontierFigure } from "./frontier-figure.ts"
import { qualityFigure, regretFigures, sizeFigure } from "./line-figures.ts"
import type { Block } from "./summary.ts"

/** `id` begins the names of the figures. */
export function drawFigures(drawing: Drawing, block: Block, id: string): Figure[] {
  if (block.entries.length === 0) return []
  return [
    frontierFigure(drawing, block, id),
    qualityFigure(drawing, block, id),
    ...sizeFigure(drawing, block, id),
    ...regretFigures(drawing, block, id),
    memoryFigure(drawing, block, id),
    timeFigure(drawing, block, id),
  ]
}
