/** The soft sum of DARTS and AutoEmb: its kernels on every twin, its gradients, what it learns and what it refuses. */

import { describe, expect, test } from "vitest"
import { openKernels } from "../../../src/kernels/open.ts"
import { Random } from "../../../src/kernels/random.ts"
import { ReferenceKernels } from "../../../src/kernels/reference.ts"
import type { ModelBatch } from "../../../src/models/model.ts"
import { Model, type ModelOptions } from "../../../src/models/paper/model.ts"
import { Ranking } from "../../../src/models/paper/ranking.ts"
import { accuracy, checkerboard, cut } from "../../support/checkerboard.ts"
import { checkKnobs, modelKnobs, slope, summedLoss } from "../../support/finite-differences.ts"
import { type Build, perform, type Shape } from "../../support/kernels.ts"
import { drawMixtures, expectSameMixtures, mixtureKnobs, readMixtures } from "../../support/mixtures.ts"
import {
  expectRefusal,
  expectSameBits,
  expectSameRow,
  expectSameScores,
  expectSameState,
  readRow,
  readState,
  SIDES,
  unlikeOutputs,
} from "../../support/model-state.ts"
import { naivePass } from "../../support/naive-network.ts"
import { DOUBLE, REFERENCE, TWINS, type Twin } from "../../support/twins.ts"

const HEADS = ["ncf", "mf", "distance"] as const
const TASKS = ["binary", "multiclass", "topk"] as const
const FAST = (["simd", "relaxed-simd"] as const).filter((kind) => TWINS.some(({ name }) => name === kind))

// The parts to mix are as many as a shape has outputs.
const mix: Build = (board, { rows, columns, outputs: count }) =>
  board.kernels.mix({
    out: board.output("out", rows * columns),
    shares: board.output("shares", rows * count),
    logits: board.normals(rows * count, 3),
    parts: board.normals(count * rows * columns),
    ...{ count, rows, columns },
  })

const mixBackward: Build = (board, { rows, columns, outputs: count }) => {
  const shares = Array.from({ length: rows }, () => {
    const drawn = Array.from({ length: count }, () => board.random.next())
    const sum = drawn.reduce((a, b) => a + b, 0)
    return drawn.map((share) => share / sum)
  })
  board.kernels.mixBackward({
    dParts: board.output("dParts", count * rows * columns),
    dLogits: board.output("dLogits", rows * count),
    dOut: board.normals(rows * columns),
    shares: board.values(shares.flat()),
    parts: board.normals(count * rows * columns),
    ...{ count, rows, columns },
  })
}

const shaped = (rows: number, columns: number, outputs: number): Shape => {
  return { rows, columns, outputs, inner: 0, users: 0, items: 0 }
}

describe.each(Object.entries({ mix, mixBackward }))("the kernel %s", (_, build) => {
  const truth = new ReferenceKernels("double")
  const shapes = [
    ...[0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 67].flatMap((n) => [shaped(n, 13, 3), shaped(5, n, 6)]),
    ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map((count) => shaped(7, 5, count)),
    ...[shaped(1, 1, 1), shaped(3, 515, 2), shaped(97, 128, 6)],
  ]

  test.each(TWINS)("agrees with the double reference to 1e-5 of the largest value on $name", (twin) => {
    const kernels = twin.open()
    for (const [seed, shape] of shapes.entries()) {
      const got = perform(kernels, build, shape, seed)
      for (const [name, want] of Object.entries(perform(truth, build, shape, seed))) {
        const unit = want.reduce((max, x) => Math.max(max, Math.abs(x)), 1)
        const wrong = want.findIndex((x, i) => !(Math.abs(got[name][i] - x) <= 1e-5 * unit))
        expect(wrong, `${name} of ${JSON.stringify(shape)}: position of a wrong value`).toBe(-1)
      }
    }
  })

  test.each(FAST)("gives the same bits on one, two and three threads (%s)", async (kind) => {
    const all = [1, 2, 3].map((threads) => openKernels({ kind, threads }))
    try {
      for (const kernels of all) await kernels.ready()
      for (const shape of [shaped(101, 128, 6), shaped(41, 301, 7), shaped(301, 20, 6)]) {
        const [one, ...more] = all.map((kernels) => perform(kernels, build, shape, 1))
        for (const other of more)
          for (const [name, values] of Object.entries(one)) expectSameBits(other[name], values, name)
      }
    } finally {
      for (const kernels of all) kernels.close()
    }
  })
})

describe("the softmax of mix", () => {
  const shares = (twin: Twin, logits: readonly number[]) => {
    const build: Build = (board) =>
      board.kernels.mix({
        out: board.output("out", 5),
        shares: board.output("shares", logits.length),
        logits: board.values(logits),
        parts: board.values(new Array(5 * logits.length).fill(1)),
        ...{ count: logits.length, rows: 1, columns: 5 },
      })
    return perform(twin.open(), build, shaped(1, 5, logits.length), 1)
  }

  test.each(TWINS)("is even for equal numbers, finite for huge ones and NaN where one is NaN ($name)", (twin) => {
    for (const value of [0, -0, 5, -1e4, 3e38])
      for (const share of shares(twin, [value, value, value, value]).shares) expect(share).toBe(0.25)
    expect(shares(twin, [-3e38, 3e38, 0]).shares).toEqual([0, 1, 0])
    expect(shares(twin, [1000, 0, -1000]).out).toEqual([1, 1, 1, 1, 1])
    const spoilt = shares(twin, [0, Number.NaN, 1])
    for (const value of [...spoilt.shares, ...spoilt.out]) expect(value).toBeNaN()
  })
})

test("mixBackward is the gradient of mix: finite differences, float64, within 1e-8", () => {
  const k = new ReferenceKernels("double")
  const [count, rows, columns] = [3, 2, 4]
  const random = new Random("mix gradient")
  const draw = (length: number) => {
    const address = k.allocate(length)
    for (let i = 0; i < length; i++) k.floats[address + i] = random.normal()
    return address
  }
  const [out, shares, dParts, dLogits, dOut] = [8, 6, 24, 6, 8].map(draw)
  const [logits, parts] = [draw(rows * count), draw(count * rows * columns)]
  const shape = { count, rows, columns }
  const objective = () => {
    k.mix({ out, shares, logits, parts, ...shape })
    let sum = 0
    for (let i = 0; i < rows * columns; i++) sum += k.floats[dOut + i] * k.floats[out + i]
    return sum
  }
  objective()
  k.mixBackward({ dParts, dLogits, dOut, shares, parts, ...shape })
  for (const [value, gradient, length] of [
    [logits, dLogits, rows * count],
    [parts, dParts, count * rows * columns],
  ])
    for (let i = 0; i < length; i++) {
      const set = (x: number) => {
        k.floats[value + i] = x
      }
      const claimed = k.floats[gradient + i]
      expect(Math.abs(slope(objective, { get: () => k.floats[value + i], set }) - claimed)).toBeLessThan(1e-8)
    }
})

function open(twin: Twin, options: Omit<ModelOptions, "kernels"> = {}): Model {
  const kernels = twin.open()
  return new Model({ kernels, precision: twin.precision, input: "mixture", sizes: [1, 2, 4], hidden: 3, ...options })
}

function randomBatch(random: Random, model: Model, shape: { rows: number; users: number; items: number }): ModelBatch {
  const column = (bound: number) => Int32Array.from({ length: shape.rows }, () => random.integer(bound))
  return { user: column(shape.users), item: column(shape.items), label: column(model.task === "multiclass" ? 5 : 2) }
}

/** A model in the middle of its life: mixtures that differ, norms and parameters that are no longer those of the start. */
function openTrained(twin: Twin, options: Omit<ModelOptions, "kernels"> = {}) {
  const model = open(twin, options)
  const random = new Random("mixture test", model.head.kind, model.task)
  const shape = { rows: 12, users: 5, items: 5 }
  const batch = randomBatch(random, model, shape)
  model.meet(batch)
  unlikeOutputs(model, random)
  drawMixtures(model, random)
  for (let step = 0; step < 3; step++) model.train(randomBatch(random, model, shape))
  return { model, batch, random }
}

describe("gradients of the summed loss, float64: every parameter, row and mixture number within 1e-7 of max(|slope|, 0.01)", () => {
  for (const head of HEADS)
    test.each(TASKS)(`${head}, %s: agree with finite differences`, (task) => {
      const { model, batch } = openTrained(DOUBLE, { head, task })
      const pass = model.backpropagate(batch)
      const knobs = [...modelKnobs(model, pass), ...mixtureKnobs(model, pass)]
      model.kernels.release(pass.mark)
      checkKnobs(() => summedLoss(model, batch), knobs, 1e-7)
    })

  test("with sizes of their own for users and items, too", () => {
    const sizes = { user: [1, 3], item: [1, 2, 3] }
    const { model, batch } = openTrained(DOUBLE, { sizes })
    const pass = model.backpropagate(batch)
    const knobs = [...modelKnobs(model, pass), ...mixtureKnobs(model, pass)]
    model.kernels.release(pass.mark)
    checkKnobs(() => summedLoss(model, batch), knobs, 1e-7)
  })
})

describe("a batch with repeated ids", () => {
  const near = (label: string, got: ArrayLike<number>, want: readonly number[]) => {
    expect(got.length, label).toBe(want.length)
    want.forEach((x, i) => {
      expect(Math.abs(got[i] - x), `${label}[${i}]`).toBeLessThan(1e-12 * Math.max(1, Math.abs(x)))
    })
  }
  for (const head of HEADS)
    test.each(TASKS)(`gives what a row-by-row ${head} network gives (%s), to 1e-12`, (task) => {
      const { model, batch } = openTrained(DOUBLE, { head, task })
      expect(new Set(Array.from(batch.user)).size).toBeLessThan(batch.user.length / 2)
      near("inference logits", model.predict(batch).logits, naivePass(model, batch, false).logits.flat())
      const want = naivePass(model, batch, true)
      const pass = model.backpropagate(batch)
      near("logits", pass.logits, want.logits.flat())
      near("losses", pass.losses, want.losses)
      for (const norm of model.parameters.norms) {
        const { mean, variance } = want.running.get(norm.name) ?? { mean: [], variance: [] }
        const read = (at: number) => model.kernels.floats.subarray(at, at + norm.columns)
        near(`${norm.name} mean`, read(norm.mean), mean)
        near(`${norm.name} variance`, read(norm.variance), variance)
      }
      model.discard(pass)
    })
})

describe("a step on the mixtures", () => {
  const adam = { rate: 0.02, beta1: 0.8, beta2: 0.95, epsilon: 1e-8, l2: 0.01 }

  test("is Adam with each id's own step count on the ids of the batch, once each, float64 to 1e-12", () => {
    const { model, random } = openTrained(DOUBLE)
    let compared = 0
    for (let step = 0; step < 5; step++) {
      const batch = randomBatch(random, model, { rows: 4, users: 5, items: 5 })
      const [before, state] = [readMixtures(model), readState(model)]
      const pass = model.backpropagate(batch)
      const claims = new Map(mixtureKnobs(model, pass).map(({ name, claimed }) => [name, claimed]))
      for (const side of SIDES) model.mixture(side).stepMixtures(pass.placed[side] as never, adam)
      model.discard(pass)
      for (const side of SIDES)
        for (const [id, was] of before[side]) {
          const now = readRow(model.mixture(side).mixtures, id)
          if (!Array.from(batch[side]).includes(id)) {
            expectSameRow(now, was, `${side} ${id}, not in the batch`)
            continue
          }
          expect(now.steps).toBe(was.steps + 1)
          was.value.forEach((value, i) => {
            const g = (claims.get(`${side} mixture ${id}[${i}]`) ?? Number.NaN) + adam.l2 * value
            const m = (adam.beta1 * was.first[i] + (1 - adam.beta1) * g) / (1 - adam.beta1 ** now.steps)
            const v = (adam.beta2 * was.second[i] + (1 - adam.beta2) * g * g) / (1 - adam.beta2 ** now.steps)
            const want = value - (adam.rate * m) / (Math.sqrt(v) + adam.epsilon)
            expect(Math.abs(now.value[i] - want), `${side} ${id}, step ${now.steps}`).toBeLessThan(1e-12)
            compared++
          })
        }
      expectSameState(readState(model), state, "the model")
    }
    expect(compared).toBeGreaterThan(50)
    const counts = [...readMixtures(model).item.values()].map(({ steps }) => steps)
    expect(new Set(counts).size, "mixtures of different step counts").toBeGreaterThan(1)
  })

  test("lowers the loss of its batch, the model left as it is", () => {
    for (const head of HEADS) {
      const { model, batch } = openTrained(DOUBLE, { head })
      const losses = [summedLoss(model, batch)]
      for (let step = 0; step < 20; step++) {
        const pass = model.backpropagate(batch)
        for (const side of SIDES) model.mixture(side).stepMixtures(pass.placed[side] as never, { ...adam, l2: 0 })
        model.discard(pass)
        losses.push(summedLoss(model, batch))
      }
      expect(losses[5]).toBeLessThan(losses[0])
      expect(losses[20]).toBeLessThan(losses[5])
    }
  })

  test("is no part of the model's own step: training moves no mixture", () => {
    const { model, batch } = openTrained(REFERENCE)
    const before = readMixtures(model)
    model.train(batch)
    expectSameMixtures(readMixtures(model), before)
  })
})

describe("the checkerboard: more than 95 % of 256 pairs right after 100 steps of 64 rows", () => {
  const board = checkerboard({ users: 16, items: 16, seed: 3 })
  const learn = (twin: Twin, options: Omit<ModelOptions, "kernels">, steps: number): void => {
    const model = open(twin, { sizes: [2, 4, 6], hidden: 8, adam: { rate: 0.03 }, ...options })
    const top = model.task === "multiclass" ? 4 : 1
    const batch = { ...board, label: Array.from(board.label, (label) => top * label) }
    const measure = () => accuracy(model.predict(batch).logits, batch.label)
    expect(measure(), "before learning").toBeLessThan(0.7)
    for (let step = 0; step < steps; step++) {
      const from = 64 * (step % 4)
      model.train(cut(batch, from, from + 64))
    }
    expect(measure()).toBeGreaterThan(0.95)
  }
  for (const head of HEADS) {
    test.each(TWINS)(`${head} learns it on the $name twin`, (twin) => learn(twin, { head }, 100))
    test(`${head} learns it as topk`, () => learn(REFERENCE, { head, task: "topk" }, 100))
    test(`${head} learns it as multiclass, in 200 steps`, () =>
      learn(REFERENCE, { head, task: "multiclass", adam: { rate: 0.1 } }, 200))
  }
})

test("a ranking gives the logits of predict, to rounding, on every twin and with every head", () => {
  for (const twin of TWINS)
    for (const head of HEADS) {
      const { model } = openTrained(twin, { head, sizes: [2, 4, 7, 17], hidden: 13 })
      const items = [4, 0, 3, 77, 1]
      const user = new Array(items.length).fill(2)
      const want = model.predict({ user, item: items, label: [0, 0, 0, 0, 0] }).logits
      const before = readState(model)
      const ranking = new Ranking(model, items)
      expect([...ranking.items]).toEqual(items)
      expectSameScores(ranking.scores(2), want, { model, label: `${twin.name}, ${head}` })
      ranking.release()
      expectSameState(readState(model), before)
    }
})

describe("ids and bad input", () => {
  test("an id met first gets a row of every size and an even mixture, and both count as memory", () => {
    const { model } = openTrained(REFERENCE)
    const numbers = model.embeddingBytes / 4
    model.meet({ user: [70], item: [80] })
    for (const [side, id] of [
      ["user", 70],
      ["item", 80],
    ] as const) {
      const { table, mixtures } = model.mixture(side)
      expect([table.size(id), mixtures.size(id)]).toEqual([7, 3])
      expect(readRow(mixtures, id).value.every((number) => number === 0)).toBe(true)
      expect([...mixtures.ids()]).toEqual([...table.ids()])
    }
    expect(model.embeddingBytes / 4).toBe(numbers + 2 * 10)
  })

  test("a refused batch leaves no new row and no new mixture", () => {
    for (const twin of TWINS) {
      const { model } = openTrained(twin)
      const huge = twin.precision === "double" ? 1.7e308 : 3e38
      const { weight } = model.mixture("user").maps[2]
      model.kernels.floats.fill(2, weight.value, weight.value + 16)
      model.inputs.user.table.replace(4, 0, new Float64Array(7).fill(huge), 0)
      model.meet({ user: [50], item: [50] })
      const [numbers, mixtures] = [model.embeddingBytes, readMixtures(model)]
      expectRefusal(model, () => model.train({ user: [4, 49], item: [48, 1], label: [1, 0] }), {
        code: "NUMERIC",
        message: /expected finite/,
      })
      expect(model.embeddingBytes, twin.name).toBe(numbers)
      expect(SIDES.map((side) => [...readMixtures(model)[side].keys()])).toEqual(
        SIDES.map((side) => [...mixtures[side].keys()]),
      )
    }
  })

  test("sizes that are not strictly increasing are refused before anything is allocated", () => {
    const kernels = REFERENCE.open()
    const mark = kernels.mark()
    for (const sizes of [[4, 2], [2, 2], [], [2.5], [0]])
      expect(() => new Model({ kernels, input: "mixture", sizes })).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringMatching(/^sizes: expected .*got/) }),
      )
    expect(kernels.mark()).toBe(mark)
  })

  test("size 0 is a size: its slice is its map's bias", () => {
    const { model, batch } = openTrained(REFERENCE, { sizes: [0, 2, 4] })
    expect(model.train(batch).losses.every(Number.isFinite)).toBe(true)
    expect(model.inputs.user.table.size(1)).toBe(6)
  })

  test("a ladder is refused by a model that mixes, and a mixture by every other", () => {
    const { model } = openTrained(REFERENCE)
    const want = { code: "INVALID_ARGUMENT", message: /^ladder of the items: / } as const
    expectRefusal(model, () => model.ladder("item"), want)
    for (const input of ["ladder", "plain"] as const)
      expect(() => open(REFERENCE, { input }).mixture("user")).toThrow(/^mixture of the users: expected/)
  })
})
