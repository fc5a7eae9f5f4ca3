/** What every source of interactions looks like to the loop. */

import type { InteractionBatch, ItemFeatures } from "../types.ts"

export interface Stream {
  /** A short name for tables: "ml-1m", "synthetic". */
  readonly name: string
  /** How many interactions will come, where that is known before they do. For progress only, never for learning. */
  readonly interactions?: number
  /** Item features by item index; the columns are known when the run starts. */
  readonly features?: ItemFeatures
  /** The interactions in the order they are to be met, in batches of any length. Can be called again for a second pass. */
  batches(): AsyncIterable<InteractionBatch> | Iterable<InteractionBatch>
  /** The outside names of an index, where the source has them. */
  userName?(index: number): string
  itemName?(index: number): string
}
