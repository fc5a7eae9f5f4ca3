/** What the default's policy gives away, beside its controls and beside other arms on the rows it played. */

import { expect, test } from "vitest"
import { beyondHindsight, slope, watchRounds } from "../../bench/hindsight.mjs"
import { Random } from "../../src/kernels/random.ts"
import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { Rent } from "../../src/policies/rent.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"

const INTERACTIONS = 150_000
/** At the least price nearly every rung pays, so that always growing gives away little. */
const PRICE = 5e-5

/** Runs a method over the stationary embedded stream; what it gave away, users and items together. */
async function regretOf(options: RunOptions, each?: () => void): Promise<number> {
  const stream = synthetic({ interactions: INTERACTIONS, stationary: true })
  const run = new Run(options, stream.features)
  for await (const segment of cutSegments(stream.batches(), { length: 500 })) {
    run.step(segment)
    each?.()
  }
  const { regret } = run.result()
  run.close()
  return (regret?.user ?? Number.NaN) + (regret?.item ?? Number.NaN)
}

test("on the stationary embedded stream regret is less than half of any control's; beyond the best policy in hindsight it is well below that of a coin, and its slope below 1", async () => {
  let segments = 0
  const { rungs, stop } = watchRounds(Rent, () => segments)
  const own = await regretOf({ method: "dess-cv", price: PRICE }, () => segments++).finally(stop)
  for (const method of ["never-grow", "always-grow", "random-grow"])
    expect(own, method).toBeLessThan(0.5 * (await regretOf({ method, price: PRICE })))
  /** What other arms would have given away on the rows that were played. */
  const random = new Random(1, "coin")
  const given = (arm: () => number) => {
    const played = [...rungs].map(([rung, rows]) => [rung, rows.map((row) => ({ ...row, arm: arm() }))] as const)
    return beyondHindsight(new Map(played), segments)[segments - 1]
  }
  const beyond = beyondHindsight(rungs, segments)
  expect(beyond[segments - 1]).toBeLessThan(0.7 * given(() => random.integer(2)))
  expect(beyond[segments - 1]).toBeLessThan(0.4 * given(() => 1))
  // The stakes fall, so that a coin's slope is below 1, too (docs/lab/calibration.md).
  expect(slope(beyond)).toBeLessThan(1)
})

test("the slope of a straight line is 1, of a square root a half", () => {
  const curve = (power: number) => Float64Array.from({ length: 400 }, (_, t) => 3 * (t + 1) ** power)
  expect(slope(curve(1))).toBeCloseTo(1, 9)
  expect(slope(curve(0.5))).toBeCloseTo(0.5, 9)
})
