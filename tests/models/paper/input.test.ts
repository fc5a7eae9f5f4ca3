/** The contract of every embedding input: ids in, full-width vectors out, gradient back in. A new input joins by a line in INPUTS. */

import { describe, expect, test } from "vitest"
import { openKernels } from "../../../src/kernels/open.ts"
import { Random } from "../../../src/kernels/random.ts"
import type { ModelBatch } from "../../../src/models/model.ts"
import { findDistinct } from "../../../src/models/paper/distinct.ts"
import type { EmbeddingInput, Placed } from "../../../src/models/paper/input.ts"
import { Model, type ModelOptions } from "../../../src/models/paper/model.ts"
import { checkKnobs, type Knob, modelKnobs } from "../../support/finite-differences.ts"
import { drawMixtures } from "../../support/mixtures.ts"
import { expectSameBits, expectSameRow, expectSameState, readRow, readState, SIDES } from "../../support/model-state.ts"
import { DOUBLE, REFERENCE, TWINS, type Twin } from "../../support/twins.ts"

interface Case {
  name: string
  options: Pick<ModelOptions, "input" | "sizes">
  /** Brings the ids that have been met into unlike states. */
  vary(model: Model, random: Random): void
}

const INPUTS: readonly Case[] = [
  {
    name: "ladder",
    options: { input: "ladder", sizes: [2, 3, 5] },
    vary(model) {
      for (const side of SIDES) {
        const ladder = model.ladder(side)
        const ids = [...ladder.table.ids()]
        ladder.grow(ids.filter((id) => id % 3 > 0))
        ladder.grow(ids.filter((id) => id % 3 > 1))
        expect(Math.min(...ladder.table.histogram()), "rows of every size").toBeGreaterThan(0)
      }
    },
  },
  { name: "plain", options: { input: "plain", sizes: [5] }, vary: () => {} },
  { name: "mixture", options: { input: "mixture", sizes: [2, 3, 5] }, vary: drawMixtures },
]

const IDS = 9

function randomBatch(random: Random, rows: number): ModelBatch {
  const column = (bound: number) => Int32Array.from({ length: rows }, () => random.integer(bound))
  return { user: column(IDS), item: column(IDS), label: column(2) }
}

/** A model in the middle of its life, all of its ids known. */
function openTrained(twin: Twin, given: Case, options: Omit<ModelOptions, "kernels"> = {}) {
  const model = new Model({ kernels: twin.open(), precision: twin.precision, hidden: 4, ...given.options, ...options })
  const random = new Random("inputs test", given.name)
  const ids = Array.from({ length: IDS }, (_, id) => id)
  model.meet({ user: ids, item: ids })
  given.vary(model, random)
  for (let step = 0; step < 3; step++) model.train(randomBatch(random, 12))
  return { model, input: model.inputs.user, random }
}

/** The vectors of a column's ids, by id. Nothing is kept. */
function vectorsOf(model: Model, input: EmbeddingInput, column: readonly number[]): Map<number, Float64Array> {
  const k = model.kernels
  const mark = k.mark()
  const placed = input.place(findDistinct(column, input.table))
  const at = input.forward(placed, false)
  k.run()
  const { width } = input
  const read = (d: number) => Float64Array.from(k.floats.subarray(at + d * width, at + (d + 1) * width))
  const vectors = new Map([...placed.distinct.ids].map((id, d) => [id, read(d)]))
  k.release(mark)
  return vectors
}

/**
 * A training pass on a column whose row r pulls its vector by pulls[r]; the gradient at a distinct id's vector is the
 * sum over its rows. Ends before the step.
 */
function pull(model: Model, input: EmbeddingInput, p: { column: readonly number[]; pulls: Float64Array }) {
  const k = model.kernels
  const { width } = input
  const mark = k.mark()
  const placed = input.place(findDistinct(p.column, input.table), true)
  const vectors = input.forward(placed, true)
  const dVectors = k.allocate(placed.count * width)
  k.floats.fill(0, dVectors, dVectors + placed.count * width)
  for (let i = 0; i < p.pulls.length; i++)
    k.floats[dVectors + placed.distinct.index[Math.floor(i / width)] * width + (i % width)] += p.pulls[i]
  input.backward(placed, dVectors)
  k.run()
  let objective = 0
  for (let i = 0; i < placed.count * width; i++) objective += k.floats[dVectors + i] * k.floats[vectors + i]
  return { placed, mark, objective }
}

describe.each(INPUTS)("the input $name", (given) => {
  const column = [4, 1, 4, 7, 4, 1, 2]
  const adam = { rate: 0.02, beta1: 0.8, beta2: 0.95, epsilon: 1e-8, l2: 0.01 }
  const drawPulls = (input: EmbeddingInput, rows: number) => {
    const random = new Random("pulls")
    return Float64Array.from({ length: rows * input.width }, () => random.normal())
  }

  test("places each distinct id of a column once, with how often it occurs", () => {
    const { model, input } = openTrained(REFERENCE, given)
    const k = model.kernels
    const mark = k.mark()
    const placed = input.place(findDistinct(column, input.table))
    const { ids, index } = placed.distinct
    expect([...ids].sort()).toEqual([1, 2, 4, 7])
    expect([placed.count, placed.total]).toEqual([4, column.length])
    const times = new Map([...ids].map((id, d) => [id, k.floats[placed.weights + d]]))
    expect([1, 2, 4, 7].map((id) => times.get(id))).toEqual([2, 1, 3, 1])
    expect([...index].map((d) => ids[d])).toEqual(column)
    k.release(mark)
  })

  test.each(TWINS)("gives an id the same vector whatever stands beside it, to the bit ($name)", (twin) => {
    const { model, input } = openTrained(twin, given, {
      sizes: given.name === "plain" ? [19] : [2, 7, 19],
    })
    const before = readState(model)
    const all = vectorsOf(model, input, [0, 1, 2, 3, 4, 5, 6, 7, 8])
    for (const some of [[8], [3, 3, 3], [5, 2], column, [8, 7, 6, 5, 4, 3, 2, 1]])
      for (const [id, vector] of vectorsOf(model, input, some)) {
        expectSameBits(vector, all.get(id) ?? [], `id ${id} among ${some}`)
        expect(vector.length).toBe(input.width)
        expect(vector.every(Number.isFinite)).toBe(true)
      }
    expect(new Set([...all.values()].map(String)).size, "unlike vectors").toBe(IDS)
    expectSameState(readState(model), before, "looking changes nothing")
  })

  test("gives the same vectors before and after a training pass that is not learned from", () => {
    const { model, input } = openTrained(REFERENCE, given)
    const before = vectorsOf(model, input, column)
    const running = model.parameters.saveRunning()
    const { mark } = pull(model, input, { column, pulls: drawPulls(input, column.length) })
    model.parameters.restoreRunning(running)
    model.kernels.release(mark)
    for (const [id, vector] of vectorsOf(model, input, column)) expectSameBits(vector, before.get(id) ?? [], `id ${id}`)
  })

  test("brings back the gradient of all numbers it holds, summed over repeated ids: finite differences, float64, 1e-7", () => {
    const { model, input } = openTrained(DOUBLE, given)
    const pulls = drawPulls(input, column.length)
    const objective = () => {
      const pass = pull(model, input, { column, pulls })
      model.kernels.release(pass.mark)
      return pass.objective
    }
    const pass = pull(model, input, { column, pulls })
    const knobs = inputKnobs(model, pass.placed)
    model.kernels.release(pass.mark)
    expect(knobs.length).toBeGreaterThanOrEqual(given.name === "plain" ? 20 : 50)
    checkKnobs(objective, knobs, 1e-7)
  })

  test("keeps the table as it is until the commit, then has stepped each id once and no other", () => {
    const { model, input } = openTrained(REFERENCE, given)
    const rows = () => new Map([...input.table.ids()].map((id) => [id, readRow(input.table, id)]))
    const before = rows()
    const { placed, mark } = pull(model, input, { column, pulls: drawPulls(input, column.length) })
    input.step(placed, adam)
    model.kernels.run()
    for (const [id, row] of rows()) expectSameRow(row, before.get(id), `${id} before the commit`)
    input.commit(placed)
    model.kernels.release(mark)
    for (const [id, row] of rows())
      if (column.includes(id)) {
        expect(row.steps, `steps of ${id}`).toBe((before.get(id)?.steps ?? 0) + 1)
        expect(row.value).not.toEqual(before.get(id)?.value)
      } else expectSameRow(row, before.get(id), `${id}, not in the column`)
  })

  test("steps rows by Adam, each with its own step count, from the gradient it shows: float64 to 1e-12", () => {
    const { model, input, random } = openTrained(DOUBLE, given)
    const k = model.kernels
    const counts = new Set<number>()
    for (let step = 0; step < 6; step++) {
      const column = Array.from({ length: 4 }, () => random.integer(IDS))
      const { placed, mark } = pull(model, input, { column, pulls: drawPulls(input, 4) })
      const before = [...placed.distinct.ids].map((id, d) => {
        const at = input.rowGradient(placed, d)
        return { id, was: readRow(input.table, id), gradient: k.floats.slice(at, at + input.table.size(id)) }
      })
      input.step(placed, adam)
      k.run()
      input.commit(placed)
      k.release(mark)
      for (const { id, was, gradient } of before) {
        const now = readRow(input.table, id)
        counts.add(now.steps)
        was.value.forEach((value, i) => {
          const g = gradient[i] + adam.l2 * value
          const m = (adam.beta1 * was.first[i] + (1 - adam.beta1) * g) / (1 - adam.beta1 ** now.steps)
          const v = (adam.beta2 * was.second[i] + (1 - adam.beta2) * g * g) / (1 - adam.beta2 ** now.steps)
          const want = value - (adam.rate * m) / (Math.sqrt(v) + adam.epsilon)
          expect(Math.abs(now.value[i] - want), `id ${id}, step ${now.steps}`).toBeLessThan(1e-12)
        })
      }
    }
    expect(counts.size, "rows of different step counts").toBeGreaterThan(2)
  })

  test("holds all it counts in its tables, the rows first", () => {
    const { model, input } = openTrained(REFERENCE, given)
    expect(input.tables[0]).toBe(input.table)
    for (const table of input.tables) expect([...table.ids()]).toEqual([...input.table.ids()])
    const numbers = SIDES.flatMap((side) => model.inputs[side].tables.map((table) => table.numbers))
    expect(model.embeddingBytes).toBe(4 * numbers.reduce((a, b) => a + b, 0))
  })

  test.each(TWINS)("a model's discarded pass leaves everything as it was, to the bit ($name)", (twin) => {
    for (const head of ["ncf", "mf", "distance"] as const) {
      const [passed, twinned] = [openTrained(twin, given, { head }), openTrained(twin, given, { head })]
      const batch = randomBatch(passed.random, 12)
      const before = readState(passed.model)
      const others = () =>
        SIDES.flatMap((side) =>
          passed.model.inputs[side].tables
            .slice(1)
            .flatMap((table) => [...table.ids()].map((id) => readRow(table, id))),
        )
      const held = others()
      passed.model.discard(passed.model.backpropagate(batch))
      expectSameState(readState(passed.model), before, head)
      others().forEach((row, i) => {
        expectSameRow(row, held[i], `${head}, beside the rows`)
      })
      expectSameBits(passed.model.train(batch).logits, twinned.model.train(batch).logits, `${head}: logits`)
      expectSameState(readState(passed.model), readState(twinned.model), `${head}: learning afterwards`)
    }
  })

  test("learns the same bits on one, two and three threads", async () => {
    const states = []
    for (const threads of [1, 2, 3]) {
      const kernels = openKernels({ threads })
      await kernels.ready()
      const twin: Twin = { name: `${threads} threads`, precision: "single", open: () => kernels }
      const sizes = given.name === "plain" ? [64] : [2, 16, 64]
      const { model, random } = openTrained(twin, given, { sizes, hidden: 96 })
      for (let step = 0; step < 3; step++) model.train(randomBatch(random, 150))
      states.push(readState(model))
      kernels.close()
    }
    for (const state of states.slice(1))
      expectSameState({ ...state, workingMemory: states[0].workingMemory }, states[0], "threads")
  })
})

/** The rows of a placed column of users and the users' dense parameters, with the gradients of a pass. */
function inputKnobs(model: Model, placed: Placed): Knob[] {
  const none = { distinct: { ids: new Int32Array(0) } } as Placed
  const pass = { placed: { user: placed, item: none } } as Parameters<typeof modelKnobs>[1]
  return modelKnobs(model, pass).filter(({ name }) => name.startsWith("user"))
}

test("rows without moments are read and replaced, and refused for training", () => {
  const model = new Model({ kernels: openKernels({ threads: 1 }), sizes: [2, 3], hidden: 4, moments: false })
  const batch = { user: [0, 1], item: [0, 1], label: [0, 1] }
  model.meet(batch)
  const { table } = model.inputs.user
  table.replace(0, 1, Float32Array.of(9, 1, 2, 3), 1)
  const read = new Float32Array(5)
  table.read(0, read, 1)
  expect([...read]).toEqual([0, 1, 2, 3, 0])
  expect(model.predict(batch).logits.every(Number.isFinite)).toBe(true)
  expect(() => model.train(batch)).toThrow("rows placed for training: expected a table with moments, got one without")
  model.kernels.close()
})
