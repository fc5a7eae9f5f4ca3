/** The majority class (method §8): the commonest training label so far. */

import { DessError, show } from "../../errors.ts"
import type { State } from "../../kernels/state.ts"

export class MajorityClass {
  readonly #counts: Float64Array

  constructor(classes = 2) {
    if (!Number.isInteger(classes) || classes < 2) {
      throw new DessError("INVALID_ARGUMENT", `classes: expected a whole number from 2, got ${show(classes)}`)
    }
    this.#counts = new Float64Array(classes)
  }

  /** Counts a segment's training labels. */
  learn(labels: ArrayLike<number>): void {
    const counts = this.#counts
    for (let r = 0; r < labels.length; r++) {
      const label = labels[r]
      if (!(label >= 0 && label < counts.length && Number.isInteger(label))) {
        throw new DessError("INVALID_DATA", `label ${r}: expected 0 to ${counts.length - 1}, got ${show(label)}`)
      }
      counts[label] += 1
    }
  }

  save(state: State): void {
    state.put("counts", this.#counts)
  }

  load(state: State): void {
    this.#counts.set(state.take("counts", Float64Array))
  }

  /** The commonest class; of equals the lowest, so 0 before any label. */
  predict(): number {
    const counts = this.#counts
    let best = 0
    for (let k = 1; k < counts.length; k++) if (counts[k] > counts[best]) best = k
    return best
  }
}
