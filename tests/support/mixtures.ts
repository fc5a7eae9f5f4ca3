/** The mixtures of a model of the soft methods: to draw them, to read them bit for bit, to turn them. */

import type { Random } from "../../src/kernels/random.ts"
import type { MixturePlaced } from "../../src/models/paper/mixture.ts"
import type { Model, Pass } from "../../src/models/paper/model.ts"
import type { Side } from "../../src/types.ts"
import type { Knob } from "./finite-differences.ts"
import { expectSameRow, type RowState, readRow, SIDES } from "./model-state.ts"

export type Mixtures = Record<Side, Map<number, RowState>>

/** Gives every id that has a row a mixture of its own. */
export function drawMixtures(model: Model, random: Random): void {
  for (const side of SIDES) {
    const { table, mixtures, sizes } = model.mixture(side)
    for (const id of table.ids()) {
      mixtures.ensure(id)
      mixtures.replace(
        id,
        0,
        Float64Array.from(sizes, () => random.normal()),
        0,
      )
    }
  }
}

export function readMixtures(model: Model): Mixtures {
  const read = (side: Side) => {
    const { mixtures } = model.mixture(side)
    return new Map([...mixtures.ids()].map((id) => [id, readRow(mixtures, id)]))
  }
  return { user: read("user"), item: read("item") }
}

/** Asks that the mixtures of `want` are still there, with the same bits. */
export function expectSameMixtures(got: Mixtures, want: Mixtures, label = "mixture"): void {
  for (const side of SIDES)
    for (const [id, row] of want[side]) expectSameRow(got[side].get(id), row, `${label} of ${side} ${id}`)
}

/** Every mixture number of a batch, with the gradients of a pass (to be taken before the pass ends). */
export function mixtureKnobs(model: Model, pass: Pass): Knob[] {
  return SIDES.flatMap((side) => {
    const { mixtures, sizes } = model.mixture(side)
    const { distinct, dLogits } = pass.placed[side] as MixturePlaced
    return [...distinct.ids].flatMap((id, d) =>
      sizes.map((_, i) => ({
        ...mixtureKnob(model, { side, id, at: i }),
        claimed: model.kernels.floats[dLogits + d * mixtures.sizes[0] + i],
      })),
    )
  })
}

/** One number of one id's mixture. */
export function mixtureKnob(model: Model, { side, id, at }: { side: Side; id: number; at: number }): Knob {
  const { mixtures } = model.mixture(side)
  return {
    name: `${side} mixture ${id}[${at}]`,
    claimed: Number.NaN,
    get: () => readRow(mixtures, id).value[at],
    set: (x) => {
      const { value } = readRow(mixtures, id)
      value[at] = x
      mixtures.replace(id, 0, value, 0)
    },
  }
}
