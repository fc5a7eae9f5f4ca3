/** Pairs that are learned: every twin beside the reference, and the rating model's own loops. */

import { afterAll, describe, expect, it } from "vitest"
import { openKernels } from "../../src/kernels/open.ts"
import { Random } from "../../src/kernels/random.ts"
import { FactorModel } from "../../src/models/calibrated/factor.ts"
import type { RungLosses } from "../../src/models/calibrated/rows.ts"
import type { Bits } from "../../src/models/row-packing.ts"

const TOLERANCE = 5e-3
const KINDS = ["reference", "simd", "relaxed-simd"] as const
const open = KINDS.map((kind) => openKernels({ kind, threads: 1 }))
afterAll(() => {
  for (const kernels of open) kernels.close()
})

const SIZES = [0, 2, 5, 16, 33, 64]

function batchOf(seed: number) {
  const random = new Random(seed, "pairs")
  const column = (of: () => number) => Array.from({ length: 60 }, of)
  return {
    user: column(() => random.integer(6)),
    item: column(() => random.integer(20)),
    label: column(() => random.integer(2)),
    weight: column(() => [1, 1, 2, 0][random.integer(4)]),
  }
}

/** Learns batches with rows of all sizes; returns g, losses, what was judged, and logits. */
function learn(options: { kernels?: (typeof open)[number]; bits: Bits; seed: number }): number[] {
  const { bits, seed, kernels } = options
  const model = new FactorModel({
    ...{ task: "binary", sizes: SIZES, bits: SIZES.map(() => bits), start: 3, seed },
    ...(kernels && { kernels }),
  })
  const out: number[] = []
  for (let n = 0; n < 4; n++) {
    const batch = batchOf(10 * seed + n)
    const floats = () => new Float64Array(batch.user.length * SIZES.length)
    const rungs: RungLosses = { user: floats(), item: floats(), rows: Uint8Array.from(batch.user, (_, r) => r % 2) }
    out.push(...model.train(batch, rungs).losses, ...rungs.user, ...rungs.item, ...model.global)
    out.push(...model.predict(batchOf(1000 + n)).logits)
    for (const side of ["user", "item"] as const)
      for (const id of model.tables[side].ids()) model.resize(side, id, { step: (id + n) % SIZES.length })
  }
  return out
}

function expectAlike(found: readonly number[], expected: readonly number[], what: string): void {
  expect(found.length, what).toBe(expected.length)
  found.forEach((number, i) => {
    expect(Math.abs(number - expected[i]), `${what}, number ${i}: ${number} and ${expected[i]}`).toBeLessThan(TOLERANCE)
  })
}

describe("pairs", () => {
  it(`the twins ${KINDS.join(", ")} learn and judge rows of 16 bits alike, and as the model does rows of 32 bits, to ${TOLERANCE}`, () => {
    for (let seed = 1; seed <= 3; seed++) {
      const [reference, ...others] = open.map((kernels) => learn({ kernels, bits: 16, seed }))
      expect(reference.every(Number.isFinite)).toBe(true)
      for (const other of others) expectAlike(other, reference, `seed ${seed}`)
      expectAlike(reference, learn({ bits: 32, seed }), `seed ${seed}, 32 bits`)
    }
  })

  it("builds with and without relaxed SIMD learn rows of 8 bits to the same bit", () => {
    for (let seed = 1; seed <= 3; seed++)
      expect(learn({ kernels: open[1], bits: 8, seed })).toEqual(learn({ kernels: open[2], bits: 8, seed }))
  })
})
