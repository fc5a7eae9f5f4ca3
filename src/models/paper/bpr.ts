/**
 * Bayesian personalised ranking as a training loss (an option of the top-k task): for a positive p and its negatives n
 *
 *   L = Σ_n −ln σ(z_p − z_n)        dz_p = −Σ_n σ(z_n − z_p)        dz_n = σ(z_n − z_p)
 *
 * Rows are groups: a positive (label 1) followed by its negatives (label 0).
 */

import { sigmoid } from "../../kernels/math.ts"

/** Writes dL/dz of every row. */
export function bprGradient(out: Float64Array, logits: ArrayLike<number>, labels: ArrayLike<number>): void {
  let positive = 0
  for (let r = 0; r < out.length; r++) {
    out[r] = 0
    if (labels[r] === 1) {
      positive = r
      continue
    }
    const slope = sigmoid(logits[r] - logits[positive])
    out[r] = slope
    out[positive] -= slope
  }
}
