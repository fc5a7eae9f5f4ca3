/** Histories against plain sets. */

import { expect, test } from "vitest"
import { History } from "../../src/ids/history.ts"
import { Lists } from "../../src/ids/lists.ts"
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

test("a user who has met one item takes 9 bytes, an item 12, and many take little more than a byte each", () => {
  const history = new History()
  for (let n = 0; n < 1000; n++) history.add([n], [n])
  expect(history.bytes).toBe(21 * 1000)
  const many = new History()
  for (let n = 0; n < 3000; n++) many.add([0], [(n * 1009) % 3000])
  expect(many.of(0)).toEqual(Int32Array.from({ length: 3000 }, (_, item) => item))
  expect(many.bytes - 12 * 3000).toBeLessThan(1.4 * 3000)
})

test("a state from before lists were packed is taken up", () => {
  const [history, old, state] = [new History(), new Lists(), new State()]
  for (const item of [9, 300, 70_000]) {
    history.add([2], [item])
    old.append(2, item)
  }
  history.save(state)
  const loaded = new History()
  const before = new State()
  before.put("seen", history.seen)
  old.save(before.at("met"))
  before.at("items").put("place", state.at("items").take("place", Uint32Array))
  before.at("items").put("users", state.at("items").take("users", Uint32Array))
  loaded.load(before)
  expect([...loaded.of(2)]).toEqual([9, 300, 70_000])
  expect([...loaded.seen]).toEqual([9, 300, 70_000])
})
