/** What the catalogue keeps of ids, against plain maps. */

import { expect, test } from "vitest"
import { Catalogue } from "../../src/engine/catalogue.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { copyState } from "../support/states.ts"

function loaded(catalogue: Catalogue): Catalogue {
  const state = new State()
  catalogue.save(state)
  const again = new Catalogue(3.5)
  again.load(copyState(state))
  return again
}

const row = (user: number, item: number) => ({
  user: Int32Array.of(user),
  item: Int32Array.of(item),
  rating: Float32Array.of(5),
  weight: Float32Array.of(1),
  stays: new Uint8Array(1),
})

test("histories and bytes are the same after a snapshot, whatever was met, dropped and put", () => {
  for (let seed = 1; seed <= 5; seed++) {
    const random = new Random(seed, "catalogue")
    const catalogue = new Catalogue(3.5)
    const met = new Map<number, number[]>()
    for (let step = 0; step < 2000; step++) {
      const [user, item] = [random.integer(40), random.integer(300)]
      const what = random.next()
      if (what < 0.9) {
        const history = met.get(user) ?? []
        met.set(user, history.includes(item) ? history : [...history, item])
        catalogue.add(row(user, item), 1 + step)
      } else if (what < 0.93) {
        catalogue.drop("item", [item])
        for (const [one, history] of met)
          met.set(
            one,
            history.filter((other) => other !== item),
          )
      } else if (what < 0.95) {
        catalogue.drop("user", [user])
        met.delete(user)
      } else if (what < 0.97) {
        catalogue.unmeet(user, item)
        met.set(user, met.get(user)?.filter((other) => other !== item) ?? [])
      } else catalogue.put(item, random.next() < 0.3 ? null : { categories: ["a"], hidden: false, features: [1, 2] })
    }
    const again = loaded(catalogue)
    expect(again.bytes, `seed ${seed}`).toEqual(catalogue.bytes)
    for (let user = 0; user < 40; user++)
      for (const one of [catalogue, again])
        expect([...one.history(user)], `seed ${seed}, user ${user}`).toEqual(met.get(user) ?? [])
    for (const item of [...again.entries.keys()]) again.put(item, null)
    expect(again.bytes.entries).toBe(0)
  }
})

test("counts of what is trending stay numbers however long it goes on", () => {
  const catalogue = new Catalogue(3.5)
  const rows = {
    user: new Int32Array(100_000),
    item: new Int32Array(100_000),
    rating: new Float32Array(100_000).fill(5),
    weight: new Float32Array(100_000).fill(1),
    stays: new Uint8Array(100_000),
  }
  for (let r = 0; r < rows.item.length; r++) rows.item[r] = r % 2
  // The weight of an event reaches its end after 1.13 million.
  for (let times = 0; times < 12; times++) catalogue.add(rows, 1)
  const all = 1 / (1 - 0.97 ** (1 / 500))
  expect(catalogue.trend(0) / all).toBeCloseTo(0.5, 3)
  expect(catalogue.trend(1) / all).toBeCloseTo(0.5, 3)
  expect(catalogue.trend(1)).toBeGreaterThan(catalogue.trend(0))
})

test("what a guest met is a new user's also right after a snapshot, and where the item's index had another owner", () => {
  const catalogue = new Catalogue(3.5)
  // As many as fill a column: the next has no place yet.
  for (let user = 0; user < 64; user++) catalogue.add(row(user, 7), 1)
  catalogue.drop("item", [7])
  const again = loaded(catalogue)
  again.add(row(1, 7), 2)
  again.merge(1, 64, 2)
  expect(Array.from(again.history(64))).toEqual([7])
})
