/** The hard lift: growth that changes no prediction, cold growth, shrinking by least squares, a first size of 0. */

import { describe, expect, test } from "vitest"
import { Random } from "../../../src/kernels/random.ts"
import type { ModelBatch } from "../../../src/models/model.ts"
import { findDistinct } from "../../../src/models/paper/distinct.ts"
import type { Ladder } from "../../../src/models/paper/ladder.ts"
import { Model, type ModelOptions } from "../../../src/models/paper/model.ts"
import type { HeadKind } from "../../../src/types.ts"
import {
  expectRefusal,
  expectSameBits,
  expectSameRow,
  expectSameState,
  readRow,
  readState,
  SIDES,
} from "../../support/model-state.ts"
import { DOUBLE, REFERENCE, TWINS, type Twin } from "../../support/twins.ts"

const HEADS: readonly HeadKind[] = ["ncf", "mf", "distance"]
const USERS = 9
const ITEMS = 13

function randomBatch(random: Random, rows: number): ModelBatch {
  const column = (bound: number) => Int32Array.from({ length: rows }, () => random.integer(bound))
  return { user: column(USERS), item: column(ITEMS), label: column(2) }
}

/** A model whose ids all have been met and whose norms are no longer those of the start. */
function trainedModel(twin: Twin, options: Omit<ModelOptions, "kernels">): Model {
  const kernels = twin.open()
  const model = new Model({ kernels, hidden: 11, precision: twin.precision, ...options })
  model.meet({
    user: Int32Array.from({ length: ITEMS }, (_, i) => i % USERS),
    item: Int32Array.from({ length: ITEMS }, (_, i) => i),
  })
  const random = new Random("ladder test")
  for (let step = 0; step < 3; step++) model.train(randomBatch(random, 40))
  return model
}

/** Lifted vectors of ids, one after the other. */
function lift(model: Model, ladder: Ladder, ids: readonly number[]): Float64Array {
  const k = model.kernels
  const mark = k.mark()
  const distinct = findDistinct(ids, ladder.table)
  const at = ladder.lift(ladder.place(distinct))
  k.run()
  const out = new Float64Array(ids.length * ladder.width)
  for (let i = 0; i < ids.length; i++) {
    const from = at + distinct.index[i] * ladder.width
    out.set(k.floats.subarray(from, from + ladder.width), i * ladder.width)
  }
  k.release(mark)
  return out
}

const distance = (a: Float64Array, b: Float64Array) =>
  Math.sqrt(a.reduce((sum, x, i) => sum + (x - b[i]) * (x - b[i]), 0))

const idsOf = (ladder: Ladder) => [...ladder.table.ids()]

for (const twin of TWINS)
  describe(`warm growth on the ${twin.name} twin`, () => {
    for (const head of HEADS)
      test(`leaves every lifted vector and every ${head} logit as it was, to the bit, at every step up`, () => {
        for (const sizes of [
          [2, 4, 8, 16, 64, 128],
          [1, 3, 7, 18, 33],
        ]) {
          const model = trainedModel(twin, { head, sizes })
          const random = new Random(head, "grow")
          const batch = randomBatch(random, 67)
          const logits = model.predict(batch).logits
          const lifted = SIDES.map((side) => lift(model, model.ladder(side), idsOf(model.ladder(side))))
          const before = readState(model)
          for (let round = 0; round < 60; round++) {
            for (const side of SIDES) {
              const ladder = model.ladder(side)
              const ids = idsOf(ladder).filter((id) => ladder.table.step(id) < ladder.table.top && random.next() < 0.3)
              const steps = ids.map((id) => ladder.table.step(id))
              ladder.grow(ids)
              expect(ids.map((id) => ladder.table.step(id) - 1)).toEqual(steps)
              expectSameBits(lift(model, ladder, idsOf(ladder)), lifted[SIDES.indexOf(side)], `round ${round} ${side}`)
            }
            expectSameBits(model.predict(batch).logits, logits, `round ${round} logits`)
          }
          for (const side of SIDES)
            for (const id of idsOf(model.ladder(side))) expect(model.inputs[side].table.size(id)).toBe(sizes.at(-1))
          expectSameBits(readState(model).dense, before.dense, "dense parameters")
        }
      })
  })

describe("a grown row", () => {
  for (const initial of ["warm", "cold"] as const)
    test(`starts with fresh moments and no steps taken (${initial}), and its neighbours keep every bit`, () => {
      const model = trainedModel(REFERENCE, { sizes: [2, 4, 8] })
      const ladder = model.ladder("user")
      const { table } = ladder
      const before = readState(model).rows.user
      expect(before.get(3)?.steps).toBeGreaterThan(0)
      expect(before.get(3)?.first.some((x) => x !== 0)).toBe(true)
      ladder.grow([3, 5], initial)
      for (const id of [3, 5]) {
        const row = readRow(table, id)
        expect([row.step, row.steps]).toEqual([1, 0])
        expect(row.value).toHaveLength(4)
        expect([...row.first, ...row.second]).toEqual(new Array(8).fill(0))
      }
      for (const id of idsOf(ladder))
        if (id !== 3 && id !== 5) expectSameRow(readRow(table, id), before.get(id), `id ${id}`)
      model.train({ user: [3], item: [1], label: [1] })
      expect(table.steps(3)).toBe(1)
    })

  test("is a fresh draw when cold: the prediction changes and the numbers are N(0,1) from the id's own stream", () => {
    const model = trainedModel(REFERENCE, { sizes: [2, 4, 8] })
    const ladder = model.ladder("user")
    const pair = { user: [3], item: [1], label: [1] }
    const before = model.predict(pair).logits[0]
    ladder.grow([3], "cold")
    expect(Math.abs(model.predict(pair).logits[0] - before)).toBeGreaterThan(1e-3)
    const random = new Random("1 user", "row", 3, 1)
    expectSameBits(
      readRow(ladder.table, 3).value,
      Array.from({ length: 4 }, () => Math.fround(random.normal())),
      "row",
    )
  })

  test("takes the slot that another one left", () => {
    const model = trainedModel(REFERENCE, { sizes: [2, 300] })
    const { table } = model.inputs.item
    const held = () => table.heldBytes
    for (let id = ITEMS; id < 30; id++) table.ensure(id)
    const ladder = model.ladder("item")
    ladder.grow(Array.from({ length: 16 }, (_, id) => id))
    const full = held()
    for (let id = 0; id < 14; id++) {
      ladder.shrink([id])
      ladder.grow([id + 16])
      expect(held()).toBe(full)
    }
    ladder.grow([0])
    expect(held()).toBeGreaterThan(full)
  })

  test("grows once however often its id is named", () => {
    for (const initial of ["warm", "cold"] as const) {
      const model = trainedModel(REFERENCE, { sizes: [2, 4, 8] })
      const ladder = model.ladder("user")
      ladder.grow([3, 5, 3, 3, 5], initial)
      expect([3, 5].map((id) => ladder.table.step(id))).toEqual([1, 1])
      ladder.grow([3, 3], initial)
      expect(ladder.table.step(3)).toBe(2)
      expect(ladder.table.histogram()).toEqual([USERS - 2, 1, 1])
    }
  })
})

describe("shrinking", () => {
  for (const twin of TWINS)
    test(`takes back a warm growth on the ${twin.name} twin: the lifted vector moves by less than 1e-4`, () => {
      for (const sizes of [
        [2, 4, 8, 16, 64, 128],
        [1, 3, 7, 18, 33],
      ]) {
        const model = trainedModel(twin, { sizes })
        const ladder = model.ladder("item")
        const ids = idsOf(ladder)
        for (let step = 0; step < ladder.table.top; step++) {
          const before = lift(model, ladder, ids)
          ladder.grow(ids)
          const moved = ladder.shrink(ids)
          const after = lift(model, ladder, ids)
          ids.forEach((id, i) => {
            const [from, to] = [i * ladder.width, (i + 1) * ladder.width]
            expect(ladder.table.step(id)).toBe(step)
            expect(distance(before.subarray(from, to), after.subarray(from, to))).toBeLessThan(1e-4)
            expect(moved[i]).toBeLessThan(1e-4)
          })
          ladder.grow(ids)
        }
      }
    })

  test("of random rows moves the lifted vector as far as it says, and no other row of that size moves it less", () => {
    const sizes = [2, 4, 8, 16]
    const model = trainedModel(DOUBLE, { sizes })
    const ladder = model.ladder("user")
    const { table } = ladder
    const random = new Random("shrink")
    const normals = (count: number) => Float64Array.from({ length: count }, () => random.normal())
    for (let trial = 0; trial < 30; trial++) {
      const step = 1 + (trial % 3)
      table.replace(4, step, normals(sizes[step]), 0)
      const before = lift(model, ladder, [4])
      const [moved] = ladder.shrink([4])
      const row = readRow(table, 4)
      expect([row.step, row.steps]).toEqual([step - 1, 0])
      const best = distance(before, lift(model, ladder, [4]))
      expect(best, "random rows cannot be met exactly").toBeGreaterThan(1e-3)
      expect(Math.abs(moved - best)).toBeLessThan(1e-9)
      for (let other = 0; other < 40; other++) {
        const length = [1e-3, 0.03, 1][other % 3]
        const alternative = normals(sizes[step - 1]).map((x, i) => row.value[i] + length * x)
        table.replace(4, step - 1, alternative, 0)
        const further = distance(before, lift(model, ladder, [4]))
        expect(further, `trial ${trial}, alternative ${other}`).toBeGreaterThan(best)
      }
    }
  })

  test("shrinks once however often an id is named", () => {
    const model = trainedModel(REFERENCE, { sizes: [2, 4, 8] })
    const ladder = model.ladder("user")
    ladder.grow([3, 5])
    ladder.grow([3])
    const moved = ladder.shrink([3, 5, 3, 5])
    expect([3, 5].map((id) => ladder.table.step(id))).toEqual([1, 0])
    expect([moved[2], moved[3]]).toEqual([moved[0], moved[1]])
  })

  test("stays finite where a map has lost rank, or is all zero", () => {
    const model = trainedModel(REFERENCE, { sizes: [3, 5, 9] })
    const ladder = model.ladder("user")
    const { weight } = ladder.maps[0]
    const f = model.kernels.floats
    for (let row = 0; row < weight.rows; row++) f[weight.value + 3 * row + 1] = 0
    for (const _ of ["a column of zeros", "nothing but zeros"]) {
      ladder.grow([3])
      const before = lift(model, ladder, [3])
      ladder.shrink([3])
      expect(distance(before, lift(model, ladder, [3]))).toBeLessThan(1e-4)
      for (const x of readRow(ladder.table, 3).value) expect(Math.abs(x)).toBeLessThan(100)
      f.fill(0, weight.value, weight.value + weight.rows * weight.columns)
    }
  })
})

describe("a first size of 0", () => {
  for (const twin of TWINS)
    test(`holds no numbers, lifts to the biases, and grows without changing a prediction (${twin.name})`, () => {
      const model = trainedModel(twin, { sizes: [0, 2, 4] })
      const ladder = model.ladder("user")
      expect(model.embeddingBytes).toBe(0)
      const f = model.kernels.floats
      const [below, above] = ladder.maps
      const want = Float64Array.from({ length: 4 }, (_, r) => {
        const at = above.weight.value + 2 * r
        return f[at] * f[below.bias.value] + f[at + 1] * f[below.bias.value + 1] + f[above.bias.value + r]
      })
      for (const id of [0, 7]) expect(distance(lift(model, ladder, [id]), want)).toBeLessThan(1e-6)
      const batch = randomBatch(new Random("zero"), 30)
      const { logits } = model.predict(batch)
      ladder.grow([0, 7])
      expectSameBits(readRow(ladder.table, 7).value, f.subarray(below.bias.value, below.bias.value + 2), "grown row")
      expect(model.embeddingBytes).toBe(16)
      expectSameBits(model.predict(batch).logits, logits, "logits")
      ladder.shrink([7])
      expect(ladder.table.size(7)).toBe(0)
      expectSameBits(model.predict(batch).logits, logits, "logits")
    })

  test("still learns through the biases and the grown rows", () => {
    const model = trainedModel(REFERENCE, { sizes: [0, 2, 4] })
    model.ladder("user").grow([0, 7])
    const before = readState(model)
    model.train({ user: [0, 1, 7, 1], item: [1, 2, 3, 4], label: [1, 0, 1, 1] })
    const after = readState(model)
    expect(after.dense.every(Number.isFinite)).toBe(true)
    expect(after.rows.user.get(0)?.value).not.toEqual(before.rows.user.get(0)?.value)
    expect(model.inputs.user.table.steps(1)).toBe((before.rows.user.get(1)?.steps ?? 0) + 1)
  })
})

describe("bad input", () => {
  const build = () => {
    const model = trainedModel(REFERENCE, { sizes: [2, 4, 8] })
    const ladder = model.ladder("user")
    ladder.grow([2, 3])
    ladder.grow([3])
    return { model, ladder }
  }

  test("a growth past the top is refused, and none of the other ids has grown", () => {
    const { model, ladder } = build()
    for (const initial of ["warm", "cold"] as const)
      for (const ids of [[3], [0, 3], [3, 0], [0, 2, 3, 0]])
        expectRefusal(model, () => ladder.grow(ids, initial), { code: "INVALID_ARGUMENT", message: /id 3: .*top 8/ })
  })

  test("a shrink below the first size is refused, and none of the other ids has shrunk", () => {
    const { model, ladder } = build()
    for (const ids of [[0], [3, 0], [0, 3]])
      expectRefusal(model, () => ladder.shrink(ids), { code: "INVALID_ARGUMENT", message: /id 0: .*smallest 2/ })
  })

  test("an unknown id is refused, and none of the other ids has changed", () => {
    const { model, ladder } = build()
    for (const id of [99, -1, 1.5, Number.NaN, 1e9])
      for (const act of [() => ladder.grow([2, id]), () => ladder.grow([2, id], "cold"), () => ladder.shrink([2, id])])
        expectRefusal(model, act, { code: "NOT_FOUND", message: /row: .*got/ })
  })

  test("a map that is not finite grows and shrinks nothing, not even the rows it does not concern", () => {
    const { model, ladder } = build()
    const f = model.kernels.floats
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const at = ladder.maps[1].bias.value
      const kept = f[at]
      f[at] = bad
      expectRefusal(model, () => ladder.grow([0, 2, 1]), { code: "NUMERIC", message: /id 2: .*got/ })
      f[at] = kept
      f[ladder.maps[0].bias.value] = bad
      expectRefusal(model, () => ladder.shrink([3, 2]), { code: "NUMERIC", message: /id 2: .*got/ })
      f[ladder.maps[0].bias.value] = kept
    }
  })

  test("no ids at all change nothing", () => {
    const { model, ladder } = build()
    const before = readState(model)
    ladder.grow([])
    ladder.grow([], "cold")
    expect(ladder.shrink([])).toHaveLength(0)
    expectSameState(readState(model), before)
  })
})
