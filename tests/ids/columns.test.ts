import { expect, it } from "vitest"
import { Columns, enlarged, growable } from "../../src/ids/columns.ts"
import { State } from "../../src/kernels/state.ts"

it("columns keep what was written when they grow, and know nothing of new ids", () => {
  const columns = new Columns({ count: "u32", share: "f32", flag: "u8" })
  for (let id = 0; id < 5000; id++) {
    columns.reserve(id)
    expect([columns.at.count[id], columns.at.share[id], columns.at.flag[id]]).toEqual([0, 0, 0])
    columns.at.count[id] = id
    columns.at.share[id] = id / 2
    columns.at.flag[id] = 1
  }
  for (let id = 0; id < 5000; id++) expect([columns.at.count[id], columns.at.share[id]]).toEqual([id, id / 2])
  expect(columns.length).toBe(5000)
  expect(columns.bytes).toBe(9 * 5000)
  columns.clear(7)
  columns.clear(1_000_000)
  expect([columns.at.count[7], columns.at.share[7], columns.at.flag[7]]).toEqual([0, 0, 0])
})

it("columns that are saved and loaded are the same, and grow on", () => {
  const columns = new Columns({ count: "u16", share: "f64" })
  columns.reserve(99)
  columns.at.count[99] = 5
  columns.at.share[99] = 0.1
  const state = new State()
  columns.save(state)
  const loaded = new Columns({ count: "u16", share: "f64" })
  loaded.load(state)
  expect([loaded.length, loaded.at.count[99], loaded.at.share[99]]).toEqual([100, 5, 0.1])
  loaded.reserve(1000)
  loaded.at.count[1000] = 1
  expect([loaded.at.count[99], columns.length, columns.at.count.length]).toEqual([5, 100, 128])
})

it("an array grows in place", () => {
  const array = growable("f32", 10)
  array[9] = 3
  const larger = enlarged(array, 1_000_000)
  expect(larger.buffer).toBe(array.buffer)
  expect([larger[9], larger[999_999], larger.length]).toEqual([3, 0, 1_000_000])
  expect(enlarged(larger, 5)).toBe(larger)
})
