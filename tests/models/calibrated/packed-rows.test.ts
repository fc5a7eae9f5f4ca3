/** The calibrated models with rows of 8 and 16 bits: what packing, growing and judging do to predictions. */

import { describe, expect, test } from "vitest"
import { Random } from "../../../src/kernels/random.ts"
import { State, type StateArray } from "../../../src/kernels/state.ts"
import { FactorModel } from "../../../src/models/calibrated/factor.ts"
import type { RowModel } from "../../../src/models/calibrated/rows.ts"
import { SequenceModel } from "../../../src/models/calibrated/sequence.ts"
import type { Bits } from "../../../src/models/row-packing.ts"

const SIZES = [0, 4, 16, 16, 16, 24]
const BITS: Bits[] = [8, 8, 8, 16, 32, 32]
const [USERS, ITEMS] = [12, 40]
const options = { sizes: SIZES, bits: BITS, seed: 3 }
const models: [string, (start: number) => RowModel][] = [
  ["binary", (start) => new FactorModel({ ...options, start, task: "binary" })],
  ["multiclass", (start) => new FactorModel({ ...options, start, task: "multiclass" })],
  ["top-k", (start) => new SequenceModel({ ...options, start })],
]

function learn(model: RowModel, seed: number): void {
  const random = new Random(seed, "learn")
  for (let n = 0; n < 6; n++) {
    const rows = Array.from({ length: 120 }, (_, r) => r)
    const label = rows.map((r) => (model.outputs > 1 ? random.integer(5) : r % 4 === 0 ? 1 : 0))
    const batch = {
      user: rows.map((r) => Math.floor(r / 4) % USERS),
      item: rows.map(() => random.integer(ITEMS)),
      label,
    }
    model.train({ ...batch, logChance: label.map(() => -2) })
  }
}

function logits(model: RowModel): number[] {
  const items = Int32Array.from(model.tables.item.ids())
  return [...model.tables.user.ids()].flatMap((user) => {
    const out = new Float64Array(items.length * model.outputs)
    model.logitsOf(out, user, items)
    return [...out]
  })
}

function furthest(a: readonly number[], b: readonly number[]): number {
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0)
}

/**
 * What half a step of every number of one side can do to a logit at most: h·‖x‖₁ and, where an item's y stands in x with
 * weights that sum to less than 2.6, h·2.6·‖q‖₁; a bias in half a float moves by a 2048th.
 */
function largestMove(model: RowModel, end: number): number {
  let [most, length, bias] = [0, 0, 0]
  for (const side of ["user", "item"] as const)
    for (const id of model.tables[side].ids()) {
      const row = new Float32Array(model.tables[side].size(id))
      model.tables[side].read(id, row, 0)
      const [head, size] = [model.heads[side], 16]
      for (let v = 0; v < model.vectors[side]; v++) {
        const vector = row.subarray(head + v * size, head + (v + 1) * size)
        length = Math.max(
          length,
          vector.reduce((sum, x) => sum + Math.abs(x), 0),
        )
        for (const x of vector) most = Math.max(most, Math.abs(x))
      }
      if (side === "item" || model.task !== "topk")
        for (let c = 0; c < model.outputs; c++) bias = Math.max(bias, Math.abs(row[c]))
    }
  const half = (1.01 * (most + 0.1)) / (2 * end)
  return half * length * (model.task === "topk" ? 1 + 2.6 + 2.6 : 1) + bias / 2048
}

describe.each(models)("%s", (_, create) => {
  test("growing in numbers moves no prediction by more than 1e-6, nor do more bits", () => {
    const model = create(1)
    learn(model, 1)
    const before = logits(model)
    for (const step of [2, 3, 4, 5]) {
      for (const side of ["user", "item"] as const)
        for (const id of [...model.tables[side].ids()]) model.resize(side, id, { step })
      expect(furthest(logits(model), before), `step ${step}`).toBeLessThan(1e-6)
    }
  })

  test("fewer bits move a prediction by half a step of every number at most", () => {
    for (const [from, to, end] of [
      [4, 3, 32_767 / 2],
      [3, 2, 127],
    ]) {
      const model = create(from)
      learn(model, from)
      for (const side of ["user", "item"] as const) {
        const before = logits(model)
        const bound = largestMove(model, end)
        for (const id of [...model.tables[side].ids()]) model.resize(side, id, { step: to })
        const moved = furthest(logits(model), before)
        expect(moved).toBeGreaterThan(0)
        expect(moved).toBeLessThan(bound)
        // Rounding again changes nothing.
        const after = logits(model)
        for (const id of [...model.tables[side].ids()]) model.resize(side, id, { step: from })
        for (const id of [...model.tables[side].ids()]) model.resize(side, id, { step: to })
        expect(furthest(logits(model), after)).toBeLessThan(1e-6)
      }
    }
  })

  test("a rung of more bits is judged by what the row loses when it is rounded", () => {
    const model = create(3)
    learn(model, 5)
    const [user, item] = [3, [...model.tables.item.ids()][7]]
    // A dislike stands alone in ranking, too.
    const label = [model.outputs > 1 ? 1 : 0]
    const batch = { user: [user], item: [item], label, logChance: [Number.NaN] }
    const rungs = { user: new Float64Array(SIZES.length), item: new Float64Array(SIZES.length) }
    const saved = new State()
    model.save(saved)
    const state = copy(saved)
    const { losses } = model.predict(batch)
    model.train(batch, rungs)
    expect(rungs.user[3]).toBeCloseTo(losses[0], 7)
    for (const side of ["user", "item"] as const)
      for (const step of [2, 1, 0]) {
        model.load(copy(state))
        model.resize(side, side === "user" ? user : item, { step })
        // A shorter row has a scale of its own: what it is rounded to differs by less than a step.
        expect(rungs[side][step], `${side}, step ${step}`).toBeCloseTo(
          model.predict(batch).losses[0],
          step === 2 ? 3.5 : 2,
        )
      }
  })

  test("saved and loaded it goes on to the bit, and a run is the same again", () => {
    const [one, other] = [create(2), create(2)]
    learn(one, 1)
    learn(other, 1)
    expect(logits(other)).toEqual(logits(one))
    const state = new State()
    one.save(state)
    const loaded = create(2)
    loaded.load(copy(state))
    expect(logits(loaded)).toEqual(logits(one))
    learn(one, 2)
    learn(loaded, 2)
    expect(logits(loaded)).toEqual(logits(one))
    expect(furthest(logits(one), logits(other))).toBeGreaterThan(0.01)
  })
})

/** As a file would give it back. */
function copy(state: State): State {
  const arrays = new Map([...state.arrays].map(([name, array]) => [name, array.slice()]))
  for (const [name, { kind }] of state.sliced) arrays.set(name, state.take<StateArray>(name, kind as never).slice())
  return new State(arrays as typeof state.arrays, new Map(state.values))
}
