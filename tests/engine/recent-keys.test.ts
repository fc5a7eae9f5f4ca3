/** Keys in memory: never another's, and only this many. */

import { expect, test } from "vitest"
import { RecentKeys } from "../../src/engine/recent-keys.ts"
import { Random } from "../../src/kernels/random.ts"

const SEED = 5

test("a key is found under all of its bytes or not at all, and memory does not grow", () => {
  const random = new Random(SEED, "recent keys")
  const hash = () => Uint8Array.from({ length: 16 }, () => random.integer(256))
  const keys = new RecentKeys()
  expect([keys.bytes, keys.find(hash())]).toEqual([0, undefined])
  const added = Array.from({ length: 20_000 }, hash)
  added.forEach((one, order) => {
    keys.add(one, order)
  })
  const { bytes } = keys
  let found = 0
  added.forEach((one, order) => {
    const at = keys.find(one)
    // A later key may have taken the place.
    expect([order, undefined]).toContain(at)
    if (at !== undefined) found++
    const other = Uint8Array.from(one)
    other[random.integer(16)] ^= 1 << random.integer(8)
    expect(keys.find(other)).toBeUndefined()
  })
  expect(found).toBeGreaterThan(18_000)
  for (let order = 20_000; order < 400_000; order++) keys.add(hash(), order)
  expect(keys.bytes).toBe(bytes)
})
