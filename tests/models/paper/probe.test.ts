/** The probe against a plain one: clone the row, take one step, measure. */

import { describe, expect, test } from "vitest"
import { Random } from "../../../src/kernels/random.ts"
import type { ModelBatch } from "../../../src/models/model.ts"
import { Model } from "../../../src/models/paper/model.ts"
import { type ProbeSide, type ProbeTable, probe } from "../../../src/models/paper/probe.ts"
import type { HeadKind, Side, Task } from "../../../src/types.ts"
import { slope } from "../../support/finite-differences.ts"
import {
  expectRefusal,
  expectSameBits,
  expectSameState,
  readRow,
  readState,
  SIDES,
  unlikeOutputs,
} from "../../support/model-state.ts"
import { DOUBLE, REFERENCE, TWINS, type Twin } from "../../support/twins.ts"

const HEADS: readonly HeadKind[] = ["ncf", "mf", "distance"]
const ROWS = 23
const SIZES = [2, 3, 5, 9]

/** A trained model with rows of every size on both sides, the top included, and a batch of its ids. */
function build(twin: Twin, options: { head?: HeadKind; task?: Task; sizes?: readonly number[] } = {}) {
  const kernels = twin.open()
  const model = new Model({ kernels, precision: twin.precision, sizes: SIZES, hidden: 6, ...options })
  const random = new Random("probe test", model.head.kind, model.task)
  const draw = (): ModelBatch => {
    const column = (bound: number) => Int32Array.from({ length: ROWS }, () => random.integer(bound))
    return { user: column(8), item: column(9), label: column(model.outputs === 1 ? 2 : 5) }
  }
  const batch = draw()
  model.meet(batch)
  unlikeOutputs(model, random)
  for (const side of SIDES) {
    const ladder = model.ladder(side)
    const { table } = ladder
    for (let s = 0; s < table.top; s++) ladder.grow([...table.ids()].filter((id) => table.step(id) === s && id % 4 > s))
    expect(Math.min(...table.histogram()), "rows of every size").toBeGreaterThan(0)
  }
  for (let step = 0; step < 4; step++) model.train(draw())
  return { model, batch }
}

const allRows = Int32Array.from({ length: ROWS }, (_, row) => row)
const SAME: ProbeSide = { rows: allRows, evaluate: allRows }

/** Each row with the next one of the same id; rows without are left out. In a shuffled order, to be told apart. */
function nextRows(batch: ModelBatch, side: Side): ProbeSide {
  const ids = Array.from(batch[side])
  const found = ids.map((id, row) => ({ row, next: ids.indexOf(id, row + 1) })).filter(({ next }) => next >= 0)
  found.sort((a, b) => ((a.row * 7) % ROWS) - ((b.row * 7) % ROWS))
  return { rows: Int32Array.from(found, ({ row }) => row), evaluate: Int32Array.from(found, ({ next }) => next) }
}

/** One SGD step of an id's row on one interaction, through `predict` alone; the loss after it, on another interaction. */
function tuneRow(
  model: Model,
  batch: ModelBatch,
  p: { side: Side; row: number; evaluate: number; rate: number },
): number {
  const { table } = model.inputs[p.side]
  const pair = (row: number) => ({ user: [batch.user[row]], item: [batch.item[row]], label: [batch.label[row]] })
  const id = batch[p.side][p.row]
  const { step, value } = readRow(table, id)
  const gradient = value.map((_, i) =>
    slope(() => model.predict(pair(p.row)).losses[0], {
      get: () => value[i],
      set: (x) => table.replace(id, step, value.with(i, x), 0),
    }),
  )
  table.replace(
    id,
    step,
    value.map((x, i) => x - p.rate * gradient[i]),
    0,
  )
  const [loss] = model.predict(pair(p.evaluate)).losses
  table.replace(id, step, value, 0)
  return loss
}

function plainProbe(model: Model, batch: ModelBatch, p: { side: Side; asked: ProbeSide; rate: number }): ProbeTable {
  const { side, asked, rate } = p
  const { table } = model.inputs[side]
  const { losses } = model.predict(batch)
  const result = { before: [] as number[], keep: [] as number[], grow: [] as number[] }
  asked.rows.forEach((row, i) => {
    const evaluate = asked.evaluate[i]
    const id = batch[side][row]
    const { step, value } = readRow(table, id)
    result.before.push(losses[evaluate])
    result.keep.push(tuneRow(model, batch, { side, row, evaluate, rate }))
    if (step === table.top) result.grow.push(Number.NaN)
    else {
      model.ladder(side).grow([id])
      result.grow.push(tuneRow(model, batch, { side, row, evaluate, rate }))
      table.replace(id, step, value, 0)
    }
  })
  return {
    before: Float64Array.from(result.before),
    keep: Float64Array.from(result.keep),
    grow: Float64Array.from(result.grow),
  }
}

function expectNear(got: ProbeTable, want: ProbeTable, label: string): void {
  for (const part of ["before", "keep", "grow"] as const) {
    expect(got[part].length, `${label} ${part}`).toBe(want[part].length)
    want[part].forEach((x, i) => {
      if (Number.isNaN(x) ? !Number.isNaN(got[part][i]) : !(Math.abs(got[part][i] - x) <= 1e-8))
        expect.fail(`${label} ${part}[${i}]: expected ${x}, got ${got[part][i]}`)
    })
  }
}

/** Largest |keep − before| and |keep − grow|: shows that a comparison compares something. */
function effects({ before, keep, grow }: ProbeTable): { tuning: number; delta: number } {
  const largest = (a: Float64Array, b: Float64Array) =>
    a.reduce((most, x, i) => (Number.isNaN(b[i]) ? most : Math.max(most, Math.abs(x - b[i]))), 0)
  return { tuning: largest(keep, before), delta: largest(keep, grow) }
}

describe("the probe agrees with a plain one to 1e-8 in float64 (one SGD step by finite differences through predict)", () => {
  for (const head of HEADS)
    for (const task of ["binary", "multiclass", "topk"] as const)
      test(`${head}, ${task}, on the same row and on the id's next one, at small and large rates`, () => {
        const { model, batch } = build(DOUBLE, { head, task })
        for (const rate of [0.1, 3])
          for (const asked of [
            { user: SAME, item: SAME },
            { user: nextRows(batch, "user"), item: nextRows(batch, "item") },
          ]) {
            const got = probe(model, { batch, rate, ...asked })
            for (const side of SIDES) {
              expect(asked[side].rows.length).toBeGreaterThan(8)
              expectNear(got[side], plainProbe(model, batch, { side, asked: asked[side], rate }), `${side} at ${rate}`)
              const { tuning, delta } = effects(got[side])
              expect(tuning).toBeGreaterThan(1e-4)
              expect(delta).toBeGreaterThan(1e-4)
            }
          }
      })

  test("with a first size of 0, whose rows cannot be tuned", () => {
    const { model, batch } = build(DOUBLE, { sizes: [0, 2, 3, 5] })
    const got = probe(model, { batch, rate: 0.5, user: SAME, item: SAME })
    for (const side of SIDES) {
      expectNear(got[side], plainProbe(model, batch, { side, asked: SAME, rate: 0.5 }), side)
      let empty = 0
      allRows.forEach((row) => {
        if (model.inputs[side].table.size(batch[side][row]) > 0) return
        empty++
        expect(got[side].keep[row]).toBe(got[side].before[row])
        expect(got[side].grow[row]).not.toBe(got[side].before[row])
      })
      expect(empty).toBeGreaterThan(0)
    }
  })
})

for (const twin of TWINS)
  test(`before tuning both arms have the same loss: at rate 0 keep, grow and before agree to the bit (${twin.name})`, () => {
    for (const head of HEADS) {
      const { model, batch } = build(twin, { head })
      for (const asked of [
        { user: SAME, item: SAME },
        { user: nextRows(batch, "user"), item: nextRows(batch, "item") },
      ]) {
        const tables = probe(model, { batch, rate: 0, ...asked })
        const { losses } = model.predict(batch)
        for (const side of SIDES) {
          const { rows, evaluate } = asked[side]
          const { table } = model.inputs[side]
          const { before, keep, grow } = tables[side]
          const want = Float64Array.from(evaluate, (row) => losses[row])
          const label = `${head} ${side}`
          expectSameBits(before, want, `${label} before`)
          expectSameBits(keep, want, `${label} keep`)
          const atTop = Array.from(rows, (row) => table.step(batch[side][row]) === table.top)
          expect(new Set(atTop).size, "rows at the top and below").toBe(2)
          expectSameBits(
            grow,
            want.map((x, i) => (atTop[i] ? Number.NaN : x)),
            `${label} grow`,
          )
        }
      }
    }
  })

for (const twin of TWINS)
  test(`the probe leaves every bit of the model as it was and gives the same answer again (${twin.name})`, () => {
    for (const head of HEADS) {
      const { model, batch } = build(twin, { head })
      const request = { batch, rate: 0.5, user: SAME, item: nextRows(batch, "item") }
      const before = readState(model)
      const { logits } = model.predict(batch)
      const first = probe(model, request)
      expectSameState(readState(model), before)
      expectSameBits(model.predict(batch).logits, logits, "logits")
      const second = probe(model, request)
      for (const side of SIDES)
        for (const part of ["before", "keep", "grow"] as const)
          expectSameBits(second[side][part], first[side][part], `${side} ${part}`)
    }
  })

test("an id at the top has no grow arm: NaN there, a number everywhere else", () => {
  const { model, batch } = build(REFERENCE)
  const tables = probe(model, { batch, rate: 0.1, user: SAME, item: SAME })
  for (const side of SIDES) {
    const { table } = model.inputs[side]
    const top = Array.from(batch[side], (id) => table.step(id) === table.top)
    expect(Array.from(tables[side].grow, Number.isNaN)).toEqual(top)
    expect(tables[side].keep.every(Number.isFinite)).toBe(true)
    model.ladder(side).grow([...table.ids()].filter((id) => table.step(id) < table.top))
    while (Math.min(...[...table.ids()].map((id) => table.step(id))) < table.top)
      model.ladder(side).grow([...table.ids()].filter((id) => table.step(id) < table.top))
  }
  const atTop = probe(model, { batch, rate: 0.1, user: SAME, item: SAME })
  for (const side of SIDES) {
    expect(atTop[side].grow.every(Number.isNaN)).toBe(true)
    expect(atTop[side].keep.every(Number.isFinite)).toBe(true)
  }
})

test("one row's answer does not depend on which other rows are asked, and no rows at all give empty tables", () => {
  for (const twin of TWINS) {
    const { model, batch } = build(twin)
    const all = probe(model, { batch, rate: 0.3, user: SAME, item: SAME })
    const none = { rows: new Int32Array(0), evaluate: new Int32Array(0) }
    const empty = probe(model, { batch, rate: 0.3, user: none, item: none })
    for (const side of SIDES)
      for (const part of ["before", "keep", "grow"] as const) expect(empty[side][part]).toHaveLength(0)
    for (const side of SIDES) {
      const few = Int32Array.of(17, 3, 3, 11, 0)
      const asked = { user: none, item: none, [side]: { rows: few, evaluate: few } }
      const tables = probe(model, { batch, rate: 0.3, ...asked })
      for (const part of ["before", "keep", "grow"] as const)
        expectSameBits(
          tables[side][part],
          few.length ? Float64Array.from(few, (row) => all[side][part][row]) : [],
          part,
        )
    }
  }
})

test("an id that has not been met is refused, and so is a model of a fixed size", () => {
  const { model, batch } = build(REFERENCE)
  for (const side of SIDES) {
    const column = Int32Array.from(batch[side])
    column[5] = 1_000_000
    expectRefusal(
      model,
      () => probe(model, { batch: { ...batch, [side]: column }, rate: 0.1, user: SAME, item: SAME }),
      {
        code: "NOT_FOUND",
        message: /got 1000000/,
      },
    )
  }
  const plain = new Model({ kernels: REFERENCE.open(), input: "plain", sizes: [3], hidden: 4 })
  plain.meet(batch)
  expectRefusal(plain, () => probe(plain, { batch, rate: 0.1, user: SAME, item: SAME }), {
    code: "INVALID_ARGUMENT",
    message: /variable sizes/,
  })
})
