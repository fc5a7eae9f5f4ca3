/** The contract of every model: gradients, the checkerboard, distinct ids, lazy rows, inference row by row, bad input. */

import { describe, expect, test } from "vitest"
import { openKernels } from "../../../src/kernels/open.ts"
import { Random } from "../../../src/kernels/random.ts"
import type { ModelBatch } from "../../../src/models/model.ts"
import { Model, type ModelOptions } from "../../../src/models/paper/model.ts"
import type { HeadKind, Task } from "../../../src/types.ts"
import { accuracy, checkerboard, cut } from "../../support/checkerboard.ts"
import { checkKnobs, modelKnobs, summedLoss } from "../../support/finite-differences.ts"
import {
  expectRefusal,
  expectSameBits,
  expectSameRow,
  expectSameState,
  readRow,
  readState,
  SIDES,
  unlikeOutputs,
} from "../../support/model-state.ts"
import { naivePass } from "../../support/naive-network.ts"
import { DOUBLE, REFERENCE, TWINS, type Twin } from "../../support/twins.ts"

const HEADS: readonly HeadKind[] = ["ncf", "mf", "distance"]
const TASKS: readonly Task[] = ["binary", "multiclass", "topk"]

function open(twin: Twin, options: Omit<ModelOptions, "kernels">): Model {
  const kernels = twin.open()
  return new Model({ kernels, precision: twin.precision, sizes: [2, 3, 5], hidden: 4, ...options })
}

function randomBatch(random: Random, model: Model, shape: { rows: number; users: number; items: number }): ModelBatch {
  const column = (bound: number) => Int32Array.from({ length: shape.rows }, () => random.integer(bound))
  return {
    user: column(shape.users),
    item: column(shape.items),
    label: column(model.task === "multiclass" ? 5 : 2),
  }
}

/** Rows of every size, and norms and dense parameters that are no longer those of the start. */
function openMixed(twin: Twin, options: Omit<ModelOptions, "kernels">, shape = { rows: 14, users: 5, items: 6 }) {
  const model = open(twin, options)
  const random = new Random("models test", model.head.kind, model.task)
  const batch = randomBatch(random, model, shape)
  model.meet(batch)
  unlikeOutputs(model, random)
  if ((options.input ?? "ladder") === "ladder")
    for (const side of SIDES) {
      const ladder = model.ladder(side)
      const { top } = ladder.table
      for (let s = 0; s < top; s++)
        ladder.grow([...ladder.table.ids()].filter((id) => ladder.table.step(id) === s && id % (top + 1) > s))
      expect(Math.min(...ladder.table.histogram()), "rows of every size").toBeGreaterThan(0)
    }
  for (let step = 0; step < 3; step++) model.train(randomBatch(random, model, shape))
  return { model, batch, random }
}

describe("gradients of the summed loss, training mode, float64: every parameter and row within 1e-7 of max(|slope|, 0.01)", () => {
  for (const head of HEADS)
    for (const task of TASKS) {
      test(`${head}, ${task}: agree with finite differences`, () => {
        const { model, batch } = openMixed(DOUBLE, { head, task })
        const pass = model.backpropagate(batch)
        const knobs = modelKnobs(model, pass)
        model.kernels.release(pass.mark)
        checkKnobs(() => summedLoss(model, batch), knobs, 1e-7)
      })
      test(`${head}, ${task}, plain rows: agree with finite differences`, () => {
        const { model, batch } = openMixed(DOUBLE, { head, task, input: "plain", sizes: [3] })
        const pass = model.backpropagate(batch)
        const knobs = modelKnobs(model, pass)
        model.kernels.release(pass.mark)
        checkKnobs(() => summedLoss(model, batch), knobs, 1e-7)
      })
    }
})

describe("a batch with repeated ids", () => {
  const near = (label: string, got: ArrayLike<number>, want: readonly number[], tolerance: number) => {
    expect(got.length, label).toBe(want.length)
    want.forEach((x, i) => {
      if (!(Math.abs(got[i] - x) <= tolerance * Math.max(1, Math.abs(x))))
        expect.fail(`${label}[${i}]: expected ${x}, got ${got[i]}`)
    })
  }
  for (const head of HEADS)
    for (const task of TASKS)
      test(`gives what a row-by-row ${head} network gives (${task}): values to 1e-12, gradients to 1e-7`, () => {
        const { model, batch } = openMixed(DOUBLE, { head, task })
        expect(new Set(Array.from(batch.user)).size).toBeLessThan(batch.user.length / 2)
        const inference = naivePass(model, batch, false)
        const predicted = model.predict(batch)
        near("inference logits", predicted.logits, inference.logits.flat(), 1e-12)
        near("inference losses", predicted.losses, inference.losses, 1e-12)
        const want = naivePass(model, batch, true)
        const pass = model.backpropagate(batch)
        const knobs = modelKnobs(model, pass)
        model.kernels.release(pass.mark)
        near("logits", pass.logits, want.logits.flat(), 1e-12)
        near("losses", pass.losses, want.losses, 1e-12)
        const f = model.kernels.floats
        for (const norm of model.parameters.norms) {
          const { mean, variance } = want.running.get(norm.name) ?? { mean: [], variance: [] }
          near(`${norm.name} mean`, f.subarray(norm.mean, norm.mean + norm.columns), mean, 1e-12)
          near(`${norm.name} variance`, f.subarray(norm.variance, norm.variance + norm.columns), variance, 1e-12)
        }
        checkKnobs(() => naivePass(model, batch, true).losses.reduce((a, b) => a + b, 0), knobs, 1e-7)
      })
})

describe("the checkerboard: more than 95 % of 256 pairs right after 100 steps of 64 rows, rows of every size", () => {
  const board = checkerboard({ users: 16, items: 16, seed: 3 })
  const learn = (twin: Twin, options: Omit<ModelOptions, "kernels">, steps: number): void => {
    for (const seed of [1, 2]) {
      const model = open(twin, { sizes: [2, 4, 8], hidden: 16, adam: { rate: 0.03 }, seed, ...options })
      const top = model.task === "multiclass" ? 4 : 1
      const batch = { ...board, label: Array.from(board.label, (label) => top * label) }
      const measure = () => accuracy(model.predict(batch).logits, batch.label)
      model.meet(batch)
      for (const side of SIDES) {
        model.ladder(side).grow(Array.from({ length: 10 }, (_, id) => id))
        model.ladder(side).grow(Array.from({ length: 5 }, (_, id) => id))
      }
      expect(measure(), "before learning").toBeLessThan(0.7)
      for (let step = 0; step < steps; step++) {
        const from = 64 * (step % 4)
        model.train(cut(batch, from, from + 64))
      }
      expect(measure(), `seed ${seed}`).toBeGreaterThan(0.95)
    }
  }
  for (const head of HEADS) {
    for (const twin of TWINS) test(`${head} learns it on the ${twin.name} twin`, () => learn(twin, { head }, 100))
    test(`${head} learns it as topk`, () => learn(REFERENCE, { head, task: "topk" }, 100))
    test(`${head} learns it as multiclass, in 200 steps`, () =>
      learn(REFERENCE, { head, task: "multiclass", adam: { rate: 0.1 } }, 200))
  }
})

describe("lazy rows", () => {
  test("rows that are not in the batch keep every bit, those in it step once however often they occur", () => {
    for (const head of HEADS) {
      const { model } = openMixed(REFERENCE, { head })
      const before = readState(model)
      model.train({ user: [1, 1, 1, 3], item: [2, 4, 2, 2], label: [1, 0, 1, 1] })
      const after = readState(model)
      for (const [side, met] of [
        ["user", [1, 3]],
        ["item", [2, 4]],
      ] as const)
        for (const [id, row] of before.rows[side]) {
          const now = after.rows[side].get(id)
          if (met.some((one) => one === id)) {
            expect(now?.steps, `${head} ${side} ${id}`).toBe(row.steps + 1)
            expect(now?.value, `${head} ${side} ${id}`).not.toEqual(row.value)
          } else expectSameRow(now, row, `${head} ${side} ${id}`)
        }
    }
  })

  test("each row steps by Adam with its own step count, float64 to 1e-12", () => {
    const adam = { rate: 0.02, beta1: 0.8, beta2: 0.95, epsilon: 1e-8, l2: 0.01 }
    const { model, random } = openMixed(DOUBLE, { adam })
    let compared = 0
    for (let step = 0; step < 5; step++) {
      const before = readState(model)
      const batch = randomBatch(random, model, { rows: 3, users: 5, items: 6 })
      const pass = model.backpropagate(batch)
      const gradients = SIDES.map((side) =>
        [...pass.placed[side].distinct.ids].map((id, d) => {
          const at = model.inputs[side].rowGradient(pass.placed[side], d)
          return { id, gradient: model.kernels.floats.slice(at, at + model.inputs[side].table.size(id)) }
        }),
      )
      model.apply(pass)
      SIDES.forEach((side, s) => {
        for (const { id, gradient } of gradients[s]) {
          const was = before.rows[side].get(id)
          if (!was) expect.fail(`${side} ${id} was not there`)
          const now = readRow(model.inputs[side].table, id)
          gradient.forEach((raw, i) => {
            const g = raw + adam.l2 * was.value[i]
            const m = adam.beta1 * was.first[i] + (1 - adam.beta1) * g
            const v = adam.beta2 * was.second[i] + (1 - adam.beta2) * g * g
            const t = was.steps + 1
            const mean = m / (1 - adam.beta1 ** t)
            const square = v / (1 - adam.beta2 ** t)
            const want = was.value[i] - (adam.rate * mean) / (Math.sqrt(square) + adam.epsilon)
            expect(Math.abs(now.value[i] - want), `${side} ${id}, step ${t}`).toBeLessThan(1e-12)
            compared++
          })
        }
      })
    }
    expect(compared).toBeGreaterThan(30)
    const counts = [...readState(model).rows.user.values()].map(({ steps }) => steps)
    expect(new Set(counts).size, "rows of different step counts").toBeGreaterThan(1)
  })

  test("dense parameters step even when no gradient reached them: by L2 alone, float64 to 1e-12", () => {
    for (const l2 of [0.01, 0]) {
      const model = open(DOUBLE, { sizes: [2, 4], adam: { l2, rate: 0.01 } })
      const batch = { user: [0, 1, 2], item: [0, 1, 2], label: [1, 0, 1] }
      model.meet(batch)
      for (const side of SIDES) model.ladder(side).grow([0, 1, 2])
      const { weight, bias } = model.ladder("user").maps[0]
      const read = () =>
        [weight, bias].flatMap(({ value, rows, columns }) => [
          ...model.kernels.floats.subarray(value, value + rows * columns),
        ])
      const before = read()
      model.train(batch)
      read().forEach((now, i) => {
        const g = l2 * before[i]
        expect(Math.abs(now - (before[i] - (0.01 * g) / (Math.abs(g) + 1e-8)))).toBeLessThan(1e-12)
        if (l2 === 0) expect(now).toBe(before[i])
        else expect(Math.abs(now - before[i])).toBeGreaterThan(0.009)
      })
    }
  })
})

describe("inference", () => {
  for (const twin of TWINS)
    test(`of one row does not depend on its neighbours, to the bit (${twin.name})`, () => {
      for (const head of HEADS) {
        const { model, random } = openMixed(
          twin,
          { head, task: head === "mf" ? "multiclass" : "binary", sizes: [2, 4, 7, 17], hidden: 13 },
          { rows: 40, users: 11, items: 23 },
        )
        const batch = randomBatch(random, model, { rows: 67, users: 11, items: 23 })
        model.meet(batch)
        const { outputs } = model
        const all = model.predict(batch)
        for (const length of [1, 2, 3, 5, 16, 33])
          for (let from = 0; from + length <= 67; from += length) {
            const part = model.predict(cut(batch, from, from + length))
            const label = `${head}, rows ${from} to ${from + length - 1}`
            expectSameBits(part.logits, all.logits.subarray(from * outputs, (from + length) * outputs), label)
            expectSameBits(part.losses, all.losses.subarray(from, from + length), label)
          }
      }
    })

  test("gives ids it meets first a row of their own, and leaves everything else as it was", () => {
    const { model } = openMixed(REFERENCE, {})
    const before = readState(model)
    const { logits } = model.predict({ user: [70, 1], item: [2, 80], label: [1, 0] })
    expect(logits.every(Number.isFinite)).toBe(true)
    const after = readState(model)
    for (const [side, id] of [
      ["user", 70],
      ["item", 80],
    ] as const) {
      const random = new Random(`1 ${side}`, "row", id, 0)
      const row = after.rows[side].get(id)
      expect([row?.step, row?.steps]).toEqual([0, 0])
      expectSameBits(row?.value ?? [], [Math.fround(random.normal()), Math.fround(random.normal())], `${side} ${id}`)
      after.rows[side].delete(id)
    }
    expectSameState({ ...after, heldBytes: before.heldBytes }, before)
    expectSameBits(model.predict({ user: [70, 1], item: [2, 80], label: [1, 0] }).logits, logits, "logits again")
  })

  test("of known ids leaves the model as it was", () => {
    const { model, batch } = openMixed(REFERENCE, {})
    const before = readState(model)
    model.predict(batch)
    model.predict({ user: [], item: [], label: [] })
    expectSameState(readState(model), before)
  })

  for (const twin of TWINS)
    test(`with the statistics of its batch is what training predicts, and leaves the model as it was (${twin.name})`, () => {
      const { model, batch } = openMixed(twin, { norm: "batch" })
      const running = openMixed(twin, {}).model.predict(batch).logits
      const before = readState(model)
      const { logits, losses } = model.predict(batch)
      expectSameState(readState(model), before)
      expect([...logits]).not.toEqual([...running])
      const trained = model.train(batch)
      expectSameBits(logits, trained.logits, "logits")
      expectSameBits(losses, trained.losses, "losses")
    })
})

test("the same seed gives the same bits and another seed others, on every twin", () => {
  for (const twin of TWINS) {
    const life = (seed: number) => {
      const { model, random } = openMixed(twin, { seed })
      for (let step = 0; step < 5; step++) model.train(randomBatch(random, model, { rows: 20, users: 9, items: 9 }))
      return readState(model)
    }
    const first = life(7)
    expectSameState(life(7), first, twin.name)
    const other = life(8)
    expect(other.dense).not.toEqual(first.dense)
    expect(other.rows.user.get(0)?.value).not.toEqual(first.rows.user.get(0)?.value)
  }
})

describe("bad input", () => {
  const both = (model: Model, batch: ModelBatch, want: Parameters<typeof expectRefusal>[2]) => {
    expectRefusal(model, () => model.train(batch), want)
    expectRefusal(model, () => model.predict(batch), want)
  }

  test("labels out of range are refused with what was expected and what came", () => {
    for (const task of TASKS) {
      const { model } = openMixed(REFERENCE, { task })
      const bad = [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, task === "multiclass" ? 5 : 2]
      for (const label of bad)
        both(
          model,
          { user: [0, 77], item: [1, 78], label: [1, label] },
          { code: "INVALID_DATA", message: /^label of row 1: expected (0 or 1|a class from 0 to 4), got/ },
        )
    }
    const { model } = openMixed(REFERENCE, { task: "multiclass" })
    expect(model.predict({ user: [0], item: [1], label: [4] }).losses).toHaveLength(1)
  })

  test("columns of different lengths are refused", () => {
    const { model } = openMixed(REFERENCE, {})
    for (const [user, item, label] of [
      [[1], [1, 2], [1, 1]],
      [[1, 2], [1], [1, 1]],
      [[1, 77], [1, 2], [1]],
    ])
      both(model, { user, item, label }, { code: "INVALID_ARGUMENT", message: /^batch: .* got \d, \d and \d/ })
  })

  test("ids that are no whole numbers from 0 are refused, and the good ids beside them get no row", () => {
    const { model } = openMixed(REFERENCE, {})
    for (const id of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31]) {
      const want = { code: "INVALID_DATA", message: /^(user|item) of row 1: .*got/ } as const
      both(model, { user: [77, id], item: [1, 1], label: [1, 1] }, want)
      both(model, { user: [77, 78], item: [1, id], label: [1, 1] }, want)
    }
  })

  test("options outside their domain are refused before anything is allocated", () => {
    const kernels = REFERENCE.open()
    const mark = kernels.mark()
    const bad: [Omit<ModelOptions, "kernels">, RegExp][] = [
      [{ sizes: [4, 2] }, /^sizes: .*got \[4,2\]/],
      [{ sizes: [] }, /^sizes: /],
      [{ sizes: { user: [2, 4], item: [2, 8] } }, /^sizes: .*got 4 and 8/],
      [{ hidden: 0 }, /^hidden: .*got 0/],
      [{ hidden: 1.5 }, /^hidden: .*got 1.5/],
      [{ start: 6 }, /start: .*got 6/],
    ]
    for (const [options, message] of bad) {
      expect(() => new Model({ kernels, ...options })).toThrow(
        expect.objectContaining({
          name: "DessError",
          code: "INVALID_ARGUMENT",
          message: expect.stringMatching(message),
        }),
      )
      expect(kernels.mark()).toBe(mark)
    }
  })

  test("a thread count that is no whole number from 1 to 64 is refused", () => {
    for (const threads of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 65])
      expect(() => openKernels({ threads })).toThrow(
        expect.objectContaining({
          name: "DessError",
          code: "INVALID_ARGUMENT",
          message: expect.stringMatching(/^threads: expected .*got/),
        }),
      )
  })

  test("a ladder is refused by a model of a fixed size", () => {
    const { model } = openMixed(REFERENCE, { input: "plain", sizes: [3] })
    expectRefusal(model, () => model.ladder("user"), { code: "INVALID_ARGUMENT", message: /ladder of the users: / })
  })
})

describe("numbers that stop being finite", () => {
  for (const twin of TWINS)
    for (const head of HEADS)
      test(`a row whose loss overflows teaches ${head} nothing: state and later learning stay the same bits (${twin.name})`, () => {
        const huge = twin.precision === "double" ? 1.7e308 : 3e38
        const [spoilt, clean] = [0, 1].map(() => openMixed(twin, { head }))
        const batch = { user: [1, 2, 3, 4], item: [2, 0, 1, 1], label: [1, 0, 1, 1] }
        for (const { model } of [spoilt, clean]) {
          const { table } = model.inputs.user
          table.replace(4, 0, Float64Array.of(huge, huge), 0)
          const { weight } = model.ladder("user").maps[0]
          model.kernels.floats.fill(2, weight.value, weight.value + weight.rows * weight.columns)
        }
        expectRefusal(spoilt.model, () => spoilt.model.train(batch), {
          code: "NUMERIC",
          message: /^loss of row \d: .*got NaN/,
        })
        for (const { model } of [spoilt, clean]) {
          model.inputs.user.table.replace(4, 0, Float64Array.of(1, 2), 0)
          model.train(batch)
        }
        expectSameState(readState(spoilt.model), readState(clean.model), "after a good batch")
      })

  for (const twin of TWINS)
    test(`a row so large that only a running variance overflows is refused as well (${twin.name})`, () => {
      const { model } = openMixed(twin, {})
      const large = twin.precision === "double" ? 1e160 : 1e25
      model.inputs.user.table.replace(4, 0, Float64Array.of(large, large), 0)
      expectRefusal(model, () => model.train({ user: [1, 4], item: [2, 0], label: [1, 0] }), {
        code: "NUMERIC",
        message: /expected .*finite/,
      })
    })
})
