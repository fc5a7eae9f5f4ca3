/** One contract for every twin: the double-precision reference says what is right. */

import { afterAll, describe, expect, it } from "vitest"
import { openKernels } from "../src/kernels/open.ts"
import { Random } from "../src/kernels/random.ts"
import { ReferenceKernels } from "../src/kernels/reference.ts"
import { OPERATIONS, perform, type Shape } from "./support/kernels.ts"

const TOLERANCE = 1e-4
const truth = new ReferenceKernels("double")
const twins = [
  openKernels({ kind: "reference", threads: 1 }),
  openKernels({ kind: "simd", threads: 1 }),
  openKernels({ kind: "relaxed-simd", threads: 1 }),
]
afterAll(() => {
  for (const kernels of twins) kernels.close()
})

const usual: Shape = { rows: 13, columns: 21, inner: 9, outputs: 3, users: 4, items: 11 }

/** The largest difference, counted in units of max(1, the largest value of that output). */
function largestError(got: Record<string, number[]>, expected: Record<string, number[]>): number {
  let worst = 0
  for (const [name, values] of Object.entries(expected)) {
    const unit = values.reduce((max, v) => Math.max(max, Math.abs(v)), 1)
    for (let i = 0; i < values.length; i++) {
      const same = Object.is(got[name][i], values[i]) || (Number.isNaN(got[name][i]) && Number.isNaN(values[i]))
      const error = same ? 0 : Math.abs(got[name][i] - values[i]) / unit
      worst = error <= worst ? worst : error
    }
  }
  return worst
}

for (const kernels of twins) {
  describe(`${kernels.kind} agrees with the double reference to ${TOLERANCE}`, () => {
    for (const [name, build] of Object.entries(OPERATIONS)) {
      const check = (shape: Shape, seed: number) => {
        const error = largestError(perform(kernels, build, shape, seed), perform(truth, build, shape, seed))
        expect(error, `${JSON.stringify(shape)}, seed ${seed}`).toBeLessThan(TOLERANCE)
      }
      it(`${name}: 0 to 67 columns, rows, inner`, () => {
        for (let n = 0; n <= 67; n++) {
          check({ ...usual, columns: n }, n)
          check({ ...usual, rows: n }, n)
          check({ ...usual, inner: n }, n)
        }
      })
      it(`${name}: random shapes`, () => {
        for (let seed = 1; seed <= 30; seed++) {
          const random = new Random(seed, "shape")
          const upTo = (n: number) => 1 + random.integer(n)
          const shape = { rows: upTo(90), columns: upTo(90), inner: upTo(600), outputs: upTo(6) }
          check({ ...shape, users: upTo(20), items: upTo(40) }, seed)
        }
      })
    }
  })
}
