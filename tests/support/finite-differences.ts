/** Gradients by central differences, and every number of a model as a knob to turn. */

import { expect } from "vitest"
import type { ModelBatch } from "../../src/models/model.ts"
import type { Model, Pass } from "../../src/models/paper/model.ts"
import { readRow, SIDES } from "./model-state.ts"

/** One number that a loss depends on, with the gradient somebody claims for it. */
export interface Knob {
  name: string
  claimed: number
  /** How far it is turned at most, where not every number can be set. */
  width?: number
  get(): number
  set(x: number): void
}

/** Every dense parameter and every row of the batch, with the gradients of a pass (to be taken before the pass ends). */
export function modelKnobs(model: Model, pass: Pass): Knob[] {
  const k = model.kernels
  const knobs: Knob[] = []
  for (const { name, rows, columns, value, gradient } of model.parameters.list)
    for (let i = 0; i < rows * columns; i++)
      knobs.push({
        name: `${name}[${i}]`,
        claimed: k.floats[gradient + i],
        get: () => k.floats[value + i],
        set: (x) => {
          k.floats[value + i] = x
        },
      })
  for (const side of SIDES) {
    const { table } = model.inputs[side]
    pass.placed[side].distinct.ids.forEach((id, d) => {
      const gradient = model.inputs[side].rowGradient(pass.placed[side], d)
      for (let i = 0; i < table.size(id); i++)
        knobs.push({
          name: `${side} row ${id}[${i}]`,
          claimed: k.floats[gradient + i],
          get: () => readRow(table, id).value[i],
          set: (x) => {
            const { value, step } = readRow(table, id)
            value[i] = x
            table.replace(id, step, value, 0)
          },
        })
    })
  }
  return knobs
}

/** The summed loss of a training pass, and the model's claims about its gradient. Nothing is learned. */
export function summedLoss(model: Model, batch: ModelBatch): number {
  const pass = model.backpropagate(batch)
  model.kernels.release(pass.mark)
  return pass.losses.reduce((sum, loss) => sum + loss, 0)
}

/** d loss / d knob: central differences of two widths, so that the error falls with the fourth power of the width. */
export function slope(loss: () => number, knob: Pick<Knob, "get" | "set" | "width">): number {
  const x = knob.get()
  const central = (width: number) => {
    knob.set(x + width)
    const above = loss()
    knob.set(x - width)
    const below = loss()
    knob.set(x)
    return (above - below) / (2 * width)
  }
  const { width = 4e-5 } = knob
  return (4 * central(width / 2) - central(width)) / 3
}

/** Compares every claim; the error is relative to max(|slope|, 0.01). Returns the largest error. */
export function checkKnobs(loss: () => number, knobs: readonly Knob[], tolerance: number): number {
  let largest = 0
  let steep = 0
  for (const knob of knobs) {
    const measured = slope(loss, knob)
    const error = Math.abs(measured - knob.claimed) / Math.max(Math.abs(measured), 0.01)
    if (!(error <= tolerance))
      expect.fail(`gradient of ${knob.name}: finite differences give ${measured}, the model ${knob.claimed}`)
    largest = Math.max(largest, error)
    if (Math.abs(measured) > 1e-3) steep++
  }
  expect(steep, "knobs that matter").toBeGreaterThan(knobs.length / 4)
  return largest
}
