import { expect, test } from "vitest"
import { DistinctIds } from "../../src/ids/distinct-ids.ts"
import { Random } from "../../src/kernels/random.ts"

test("distinct ids keep the order of a set, however many there are and however often they are cleared", () => {
  for (let seed = 0; seed < 20; seed++) {
    const random = new Random(seed)
    const ids = new DistinctIds()
    for (let round = 0; round < 5; round++) {
      const expected = new Set<number>()
      let wrong = 0
      const most = 1 + Math.floor(3000 * random.next())
      for (let n = Math.floor(4000 * random.next()); n > 0; n--) {
        // Multiples of a power of two would fall on one place if places were the last bits.
        const id = Math.floor(most * random.next()) * (seed % 2 === 0 ? 1 : 4096)
        if (ids.has(id) !== expected.has(id)) wrong++
        ids.add(id)
        expected.add(id)
      }
      expect(wrong, `seed ${seed}`).toBe(0)
      expect([...ids.ids], `seed ${seed}`).toEqual([...expected])
      ids.clear()
      expect(ids.ids).toHaveLength(0)
    }
  }
})
