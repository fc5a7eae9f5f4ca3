/**
 * How heavy the last rung of an id is: the energy of its numbers beside the mean of ids met about as often that hold the
 * same rung; 1 is usual. What a rung can save or lose is in proportion to how far it moves predictions (to second order,
 * by the square), so of two ids of one context the one with the heavier rung gains more by it.
 */

import { frequencyClass } from "../ids/returns.ts"
import type { State } from "../kernels/state.ts"
import { type RowModel, rungEnergy } from "../models/calibrated/rows.ts"
import type { Choices } from "../policies/policy.ts"
import type { Side } from "../types.ts"

const CLASSES = 16
const HEAVIEST = 4
/** What a mean keeps of its past at each look. */
const KEPT = 0.9999

export class RungWeights {
  readonly #model: RowModel
  /** Energies summed and counted, by rung and class of frequency. */
  readonly #sums: Record<Side, Float64Array>
  readonly #counts: Record<Side, Float64Array>

  constructor(model: RowModel) {
    this.#model = model
    const cells = () => new Float64Array(model.sizes.length * CLASSES)
    this.#sums = { user: cells(), item: cells() }
    this.#counts = { user: cells(), item: cells() }
  }

  /** The weights of ids that hold a rung; with `learn` they count for the mean. */
  of(side: Side, choices: Choices, p: { learn: boolean }): Float64Array {
    const [sums, counts] = [this.#sums[side], this.#counts[side]]
    const weights = new Float64Array(choices.length).fill(1)
    if (!this.#model.usesRungWeights || process.env.NOW) return weights
    for (let i = 0; i < choices.length; i++) {
      if (choices.steps[i] === 0) continue
      const energy = rungEnergy(this.#model, side, choices.ids[i])
      const cell = choices.steps[i] * CLASSES + frequencyClass(choices.frequencies[i])
      if (p.learn) {
        sums[cell] = KEPT * sums[cell] + energy
        counts[cell] = KEPT * counts[cell] + 1
      }
      if (sums[cell] > 0) weights[i] = Math.min(HEAVIEST, (energy * counts[cell]) / sums[cell])
    }
    return weights
  }

  save(state: State): void {
    for (const side of ["user", "item"] as const) {
      state.put(`sums.${side}`, this.#sums[side])
      state.put(`counts.${side}`, this.#counts[side])
    }
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) {
      this.#sums[side].set(state.take(`sums.${side}`, Float64Array))
      this.#counts[side].set(state.take(`counts.${side}`, Float64Array))
    }
  }
}
