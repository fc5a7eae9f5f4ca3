/** Items that are accepted and not learned, against plain lists. */

import { expect, test } from "vitest"
import { PendingItems } from "../../src/ids/pending-items.ts"
import { Random } from "../../src/kernels/random.ts"

interface Kept {
  user: number
  item: number
  segment: number
}

test("what is kept of every user is what plain lists hold, through growing, freeing, leaving and coming back (40 seeds)", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed, "pending items")
    const pending = new PendingItems()
    const users = 1 + random.integer(seed % 2 === 0 ? 5 : 3000)
    let plain: Kept[] = []
    let [segment, freed] = [1, 0]
    const least = pending.bytes
    for (let step = 0; step < 60; step++) {
      const action = random.integer(6)
      if (action <= 1)
        for (let n = random.integer(400); n >= 0; n--) {
          const one = { user: random.integer(users), item: random.integer(30), segment }
          pending.add(one.user, one.item, one.segment)
          plain.push(one)
        }
      else if (action === 2) segment++
      else if (action === 3) {
        freed = Math.min(segment - 1, freed + random.integer(4))
        pending.free(freed)
        plain = plain.filter((one) => one.segment > freed)
      } else if (action === 4) {
        const gone = random.integer(users)
        pending.dropUser(gone)
        plain = plain.filter(({ user }) => user !== gone)
      } else {
        const gone = new Set([random.integer(30), random.integer(30)])
        pending.dropItems(gone)
        plain = plain.filter(({ item }) => !gone.has(item))
      }
      const after = freed + random.integer(3)
      for (let n = 0; n < 20; n++) {
        const user = random.integer(users)
        const want = plain.filter((one) => one.user === user && one.segment > after).map(({ item }) => item)
        expect(pending.since(user, after, 20), `seed ${seed}, step ${step}`).toEqual(want.slice(-20))
      }
    }
    pending.free(segment)
    expect([pending.length, pending.bytes]).toEqual([0, least])
  }
})

test("a user with very many events costs no more than is asked for, and nothing is kept of freed ones", () => {
  const pending = new PendingItems()
  for (let n = 0; n < 100_000; n++) pending.add(7, n, 1 + Math.floor(n / 500))
  expect(pending.since(7, 0, 3)).toEqual([99_997, 99_998, 99_999])
  expect(pending.bytes).toBeLessThan(4_000_000)
  pending.free(199)
  expect(pending.since(7, 0, 1000)).toHaveLength(500)
  expect(pending.since(8, 0, 1000)).toEqual([])
  expect(pending.bytes).toBeLessThan(250_000)
})
