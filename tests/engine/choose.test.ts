/** Choosing the best, and histories from which items leave. */

import { expect, test } from "vitest"
import { best } from "../../src/engine/best.ts"
import { Catalogue } from "../../src/engine/catalogue.ts"
import { chooseSimilar } from "../../src/engine/choose.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import type { Reader } from "../../src/learning/reader.ts"
import { copyState } from "../support/states.ts"

test("the best of many are those of a full sort, for any count, with equals and values that are left out", () => {
  const random = new Random(1, "best")
  for (let seed = 0; seed < 60; seed++) {
    const values = Float32Array.from({ length: 1 + random.integer(900) }, () =>
      random.next() < 0.2 ? Number.NEGATIVE_INFINITY : random.integer(seed % 2 ? 20 : 100_000),
    )
    const sorted = Array.from(values.keys())
      .filter((i) => values[i] > Number.NEGATIVE_INFINITY)
      .sort((a, b) => values[b] - values[a] || a - b)
    for (const count of [1, 10, 64, 65, 200, 500, 1000])
      expect(best(values, count), `seed ${seed}, count ${count}`).toEqual(sorted.slice(0, count))
  }
})

const rowOf = (user: number, item: number) => ({
  user: Int32Array.of(user),
  item: Int32Array.of(item),
  rating: Float32Array.of(5),
  weight: Float32Array.of(1),
  stays: new Uint8Array(1),
})

test("an item that left is in no history, even when its index is reused; also after a snapshot", () => {
  const catalogue = new Catalogue(3.5)
  const meet = (user: number, item: number) => catalogue.add(rowOf(user, item), 1)
  for (const user of [0, 1, 200]) for (const item of [3, 4, 300]) meet(user, item)
  catalogue.drop("item", [4])
  meet(0, 4)
  expect([...catalogue.history(0)], "met the new one").toEqual([3, 300, 4])
  const state = new State()
  catalogue.save(state)
  const again = new Catalogue(3.5)
  again.load(copyState(state))
  for (const one of [catalogue, again]) {
    expect([...one.history(1)]).toEqual([3, 300])
    expect(one.hasMet(200, 4)).toBe(false)
    one.drop("item", [300])
    one.drop("item", [3])
    expect([...one.history(200)]).toEqual([])
    expect([...one.history(0)]).toEqual([4])
  }
})

test("categories follow what is put", () => {
  const catalogue = new Catalogue(3.5)
  catalogue.put(1, { categories: ["a", "b"], hidden: false, features: null })
  catalogue.put(2, { categories: ["b"], hidden: false, features: null })
  expect([...catalogue.itemsOf("b")]).toEqual([1, 2])
  catalogue.put(1, { categories: ["c"], hidden: false, features: null })
  expect([...catalogue.itemsOf("b")]).toEqual([2])
  expect([...catalogue.itemsOf("c")]).toEqual([1])
  expect([...catalogue.itemsOf("__proto__")]).toEqual([])
})

const three = {
  itemCount: 4,
  hidden: new Set(),
  events: (item: number) => [90, 90, 30, 10][item],
  names: { item: { name: (item: number) => `item ${item}`, has: () => true } },
  unlisted: () => [],
  entry: () => ({ categories: [] }),
  trend: () => 0,
  born: (item: number) => item + 1,
} as unknown as Catalogue

const readerOf = (cosines: number[]): Reader =>
  ({
    items: Int32Array.from(cosines.keys()),
    knows: () => true,
    nearest: () => Float32Array.from(cosines),
  }) as unknown as Reader

const wish = { item: 0, total: 10, exclude: [], only: undefined, rules: { caps: [], diversity: 0 } }

test("neighbours are items with vectors of their own; the rest is filled up with what is new", () => {
  expect(chooseSimilar(three, readerOf([1, 0, -0.5, 0.25]), wish)).toEqual([
    { item: "item 3", score: Math.fround(0.25 * 0.9 * 0.5), source: "model" },
    { item: "item 2", score: Math.fround(-0.5 * 0.9 * 0.75), source: "model" },
    { item: "item 1", score: 0, source: "new" },
  ])
  expect(chooseSimilar(three, readerOf([0, 0, 0, 0]), wish).map(({ source }) => source)).toEqual(["new", "new", "new"])
})

test("of neighbours as near, those with more events come first, and few events need a much smaller angle", () => {
  const items = (cosines: number[]) => chooseSimilar(three, readerOf(cosines), wish).map(({ item }) => item)
  expect(items([1, 0.6, 0.6, 0.6])).toEqual(["item 1", "item 2", "item 3"])
  expect(items([1, 0.5, 0.59, 0.8])).toEqual(["item 1", "item 2", "item 3"])
  expect(items([1, 0.5, 0.59, 0.99])).toEqual(["item 3", "item 1", "item 2"])
})
