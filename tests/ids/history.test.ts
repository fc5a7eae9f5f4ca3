/** Histories against plain sets. */

import { expect, test } from "vitest"
import { History } from "../../src/ids/history.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"

test("what each user has met, and the order of items seen, equal plain sets", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed, "history")
    let history = new History()
    const met = Array.from({ length: 10 }, () => new Set<number>())
    let seen: number[] = []
    const see = (item: number) => {
      if (!seen.includes(item)) seen.push(item)
    }
    for (let n = 0; n < 300; n++) {
      const [user, item, what] = [random.integer(10), random.integer(60), random.next()]
      if (what < 0.8) {
        history.add([user], [item])
        met[user].add(item)
        see(item)
      } else if (what < 0.84) {
        history.meet(item)
        see(item)
      } else if (what < 0.88) {
        history.leaveOut(item)
        seen = seen.filter((other) => other !== item)
      } else if (what < 0.91) {
        const items = Array.from({ length: random.integer(9) }, () => random.integer(60))
        history.put(user, items)
        met[user] = new Set(items)
      } else if (what < 0.94) {
        history.forget("user", new Set([user]))
        met[user].clear()
      } else if (what < 0.97) {
        const items = new Set([item, random.integer(60), 500])
        history.forget("item", items)
        seen = seen.filter((other) => !items.has(other))
        for (const one of met) for (const gone of items) one.delete(gone)
      } else {
        const state = new State()
        history.save(state)
        history = new History()
        history.load(state)
      }
      const where = `seed ${seed}, step ${n}`
      expect([...history.seen], where).toEqual(seen)
      expect([...history.of(user)], where).toEqual([...met[user]].sort((a, b) => a - b))
      expect([history.has(user, item), history.knows(item)], where).toEqual([met[user].has(item), seen.includes(item)])
      const users = (i: number) => met.filter((one) => one.has(i)).length
      const popular = [...seen].sort((a, b) => users(b) - users(a) || seen.indexOf(a) - seen.indexOf(b))
      expect(history.byPopularity(), where).toEqual(popular)
    }
  }
})

test("a user who has met one item takes 13 bytes, an item 12", () => {
  const history = new History()
  for (let n = 0; n < 1000; n++) history.add([n], [n])
  expect(history.bytes).toBe(25 * 1000)
})
