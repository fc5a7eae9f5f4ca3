/** What goes into every model and what comes out of it. */

export const DEFAULT_SIZES: readonly number[] = [2, 4, 8, 16, 64, 128]

/** Columns of a batch: ids and labels (0 or 1; a class from 0 to 4). */
export interface ModelBatch {
  user: ArrayLike<number>
  item: ArrayLike<number>
  label: ArrayLike<number>
  /** Where negatives are not uniform: the log of each row's chance to be drawn as one, NaN for an own row of label 0. */
  logChance?: ArrayLike<number>
}

/** What a pass gives, copied out of working memory. */
export interface PassResult {
  /** [rows×outputs] */
  logits: Float64Array
  /** The task's loss of every row. */
  losses: Float64Array
}
