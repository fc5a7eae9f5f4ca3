/** What vectors save is said: with rows as they are by default, packed in 8 bits. */

import { expect, test } from "vitest"
import { Run } from "../../src/learning/loop.ts"
import { noise, planted, taste } from "../support/planted.ts"

/** What a run along a planted stream says of its vectors. */
function savedOn(rate: Parameters<typeof planted>[1], price?: number) {
  const run = new Run({ method: "dess-fre", protocol: "prequential", ...(price !== undefined && { price }) })
  for (const segment of planted({ users: 60, items: 40, segments: 60, seed: 1 }, rate)) run.step(segment)
  const { vectorsSave = Number.NaN, meanSize } = run.result()
  run.close()
  return { vectorsSave, meanSize }
}

test("where tastes are planted vectors save much of the loss, and are held", () => {
  const { vectorsSave, meanSize } = savedOn(taste)
  expect(vectorsSave).toBeGreaterThan(0.3)
  expect(meanSize.user).toBeGreaterThan(1)
})

test("where ratings are tossed vectors save nothing, which is said, and at a price they are given back", () => {
  const { vectorsSave, meanSize } = savedOn((_u, _i, _s, random) => noise(random), 5e-3)
  expect(vectorsSave).toBeLessThan(0.01)
  expect(meanSize.user + meanSize.item).toBeLessThan(4)
})
