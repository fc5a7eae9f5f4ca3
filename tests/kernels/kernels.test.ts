/** One contract for every twin: the double-precision reference says what is right. */

import { afterAll, describe, expect, it } from "vitest"
import { NONE } from "../../src/kernels/kernels.ts"
import { tanh } from "../../src/kernels/math.ts"
import { openKernels } from "../../src/kernels/open.ts"
import { Random } from "../../src/kernels/random.ts"
import { ReferenceKernels } from "../../src/kernels/reference.ts"
import { type Build, OPERATIONS, perform, type Shape } from "../support/kernels.ts"

const TOLERANCE = 1e-4
const truth = new ReferenceKernels("double")
const twins = (["reference", "simd", "relaxed-simd"] as const).map((kind) => openKernels({ kind, threads: 1 }))
afterAll(() => {
  for (const kernels of twins) kernels.close()
})

const usual: Shape = { rows: 13, columns: 21, inner: 9, outputs: 3, users: 4, items: 11 }

/** The largest difference, counted in units of max(1, the largest value of that output). */
function largestError(got: Record<string, number[]>, expected: Record<string, number[]>): number {
  let worst = 0
  for (const [name, values] of Object.entries(expected)) {
    const unit = values.reduce((max, v) => Math.max(max, Math.abs(v)), 1)
    for (let i = 0; i < values.length; i++) {
      const bothNaN = Number.isNaN(got[name][i]) && Number.isNaN(values[i])
      const error = bothNaN ? 0 : Math.abs(got[name][i] - values[i]) / unit
      // A NaN that should not be is the worst error of all.
      worst = Math.max(error, worst)
    }
  }
  return worst
}

function check(build: Build, shape: Shape, seed: number): void {
  const expected = perform(truth, build, shape, seed)
  for (const kernels of twins) {
    const error = largestError(perform(kernels, build, shape, seed), expected)
    expect(error, `${kernels.kind}, ${JSON.stringify(shape)}, seed ${seed}`).toBeLessThan(TOLERANCE)
  }
}

describe(`the twins ${twins.map((kernels) => kernels.kind).join(", ")} agree with the double reference to ${TOLERANCE}`, () => {
  for (const [name, build] of Object.entries(OPERATIONS)) {
    it(`${name}: 0 to 67 columns, rows, inner`, () => {
      for (let n = 0; n <= 67; n++) {
        check(build, { ...usual, columns: n }, n)
        check(build, { ...usual, rows: n }, n)
        if (name.startsWith("multiply")) check(build, { ...usual, inner: n }, n)
      }
    })
    it(`${name}: random shapes`, () => {
      for (let seed = 1; seed <= 12; seed++) {
        const random = new Random(seed, "shape")
        const upTo = (n: number) => 1 + random.integer(n)
        const shape = { rows: upTo(70), columns: upTo(90), inner: upTo(600), outputs: upTo(6) }
        check(build, { ...shape, users: upTo(20), items: upTo(40) }, seed)
      }
    })
  }
  it("multiply: more columns than are packed at once, more inner than a panel is deep", () => {
    for (const name of ["multiply plain, accumulating", "multiply transposed both"])
      check(OPERATIONS[name], { ...usual, columns: 531, inner: 515 }, 1)
  })
  it("hiddenTrain and its backward: more pairs than scratch holds", () => {
    check(OPERATIONS.hiddenTrain, { ...usual, rows: 9_301, columns: 21, users: 40 }, 1)
    check(OPERATIONS.hiddenTrainBackward, { ...usual, rows: 4_700, columns: 21, users: 40 }, 1)
    check(OPERATIONS.hiddenTrainBackward, { ...usual, rows: 1_300, columns: 83, users: 40 }, 1)
  })
  it("hiddenInfer and normalize: more columns than are kept at hand", () => {
    check(OPERATIONS.hiddenInfer, { ...usual, columns: 1_047 }, 1)
    check(OPERATIONS["normalize in training, tanh"], { ...usual, columns: 1_047 }, 1)
  })
})

it("asking Wasm for more than 4 GiB is an error that leaves everything as it was", () => {
  for (const kernels of twins.filter(({ kind }) => kind !== "reference")) {
    const mark = kernels.mark()
    expect(() => kernels.allocate(2 ** 30)).toThrow(/working memory: expected room for \d+ bytes, got no more than/)
    expect(() => kernels.allocate(-1)).toThrow("allocate: expected a count, got -1")
    expect(kernels.allocate(1)).toBe(mark)
    kernels.release(mark)
  }
})

for (const kernels of twins) {
  describe(`${kernels.kind}`, () => {
    /** The kernels' own tanh: a norm that changes nothing, followed by tanh. */
    const tanhOf = (values: readonly number[]) => {
      const block = (value: number) => {
        const address = kernels.allocate(1)
        kernels.floats[address] = value
        return address
      }
      const mark = kernels.mark()
      const input = kernels.allocate(values.length)
      kernels.floats.set(values, input)
      const statistics = { mean: block(0), variance: block(1), center: block(0), scale: block(1) }
      const norm = { gamma: block(1), beta: block(0), ...statistics, epsilon: 0, momentum: 0.1 }
      const out = kernels.allocate(values.length)
      const sizes = { rows: values.length, columns: 1, total: values.length, weights: NONE }
      kernels.normalize({ out, input, norm, ...sizes, training: false, tanh: true })
      kernels.run()
      const result = [...kernels.floats.subarray(out, out + values.length)]
      kernels.release(mark)
      return result
    }

    it("tanh is right to 5e-7 of its value, odd, within ±1, and lets NaN through", () => {
      const values = Array.from({ length: 8_001 }, (_, i) => Math.fround((i - 4_000) / 300))
      for (let exponent = -126; exponent < 4; exponent++) values.push(2 ** exponent, -(2 ** exponent))
      const got = tanhOf(values)
      const mirrored = tanhOf(values.map((x) => -x))
      const isWrong = (x: number, i: number) =>
        !(Math.abs(got[i] - tanh(x)) <= 5e-7 * Math.abs(tanh(x)) && got[i] + mirrored[i] === 0 && Math.abs(got[i]) <= 1)
      expect(values.filter(isWrong)).toEqual([])
      const { POSITIVE_INFINITY: infinity, NaN: nan } = Number
      expect(tanhOf([20, -20, 1e30, infinity, -infinity, nan, 0])).toEqual([1, -1, 1, 1, -1, nan, 0])
    })

    it("losses of sure and of wrong answers are right to 1e-5 of their value", () => {
      // Past 20 the reference itself begins to lose digits.
      const logits = Array.from({ length: 161 }, (_, i) => i / 4 - 20)
      for (const kind of ["squared", "logistic", "softmax"] as const) {
        const build: Build = (board) => {
          const outputs = kind === "softmax" ? 3 : 1
          const rows = 2 * logits.length
          board.kernels.loss({
            losses: board.output("losses", rows),
            dLogits: board.output("dLogits", rows * outputs),
            logits: board.values([...logits, ...logits].flatMap((z) => (outputs === 3 ? [z, 0, -1] : [z]))),
            labels: board.values([...logits.map(() => 0), ...logits.map(() => 1)]),
            ...{ kind, rows, outputs },
          })
        }
        const expected = perform(truth, build, usual, 1)
        const got = perform(kernels, build, usual, 1)
        for (const name of ["losses", "dLogits"])
          expected[name].forEach((value, i) => {
            expect(Math.abs(got[name][i] / value - 1), `${kind} ${name}[${i}] = ${value}`).toBeLessThan(1e-5)
          })
      }
    })

    it("a NaN in the input comes out as NaN, and only where it belongs", () => {
      const got = perform(
        kernels,
        (board) => {
          const left = board.normals(7 * 5)
          board.kernels.floats[left + 3 * 5 + 2] = Number.NaN
          const right = board.normals(5 * 9)
          board.kernels.multiply({ out: board.output("out", 7 * 9), left, right, rows: 7, columns: 9, inner: 5 })
          const logits = board.values([Number.NaN, 1, 2, 3, 1, Number.NaN, 3, 4, 5])
          const labels = board.values([0, 1, 2])
          const losses = board.output("losses", 3)
          board.kernels.loss({ kind: "softmax", losses, dLogits: NONE, logits, labels, rows: 3, outputs: 3 })
        },
        usual,
        1,
      )
      expect(got.out.map(Number.isNaN)).toEqual(Array.from({ length: 63 }, (_, i) => Math.floor(i / 9) === 3))
      expect(got.losses.map(Number.isNaN)).toEqual([true, true, false])
    })

    it("takes a tape longer than its place in memory", () => {
      const mark = kernels.mark()
      const [sum, one] = [kernels.allocate(4), kernels.allocate(4)]
      kernels.floats.fill(0, sum, sum + 4)
      kernels.floats.fill(1, one, one + 4)
      // sum[2×2] += one[2×1]·one[1×2], ten thousand times.
      for (let i = 0; i < 10_000; i++)
        kernels.multiply({ out: sum, left: one, right: one, rows: 2, columns: 2, inner: 1, accumulate: true })
      kernels.run()
      expect([...kernels.floats.subarray(sum, sum + 4)]).toEqual([10_000, 10_000, 10_000, 10_000])
      kernels.release(mark)
    })

    it("gives out memory in cache lines, never address 0, and keeps what is there when it grows", () => {
      const mark = kernels.mark()
      const small = kernels.allocate(3)
      const next = kernels.allocate(1)
      kernels.floats[small] = 7
      const large = kernels.allocate(40_000_000)
      kernels.floats[large + 39_999_999] = 5
      expect(small).toBeGreaterThan(NONE)
      expect([small % 16, next - small, kernels.floats[small]]).toEqual([0, 16, 7])
      kernels.release(mark)
      expect(kernels.allocate(3)).toBe(small)
      kernels.release(mark)
    })
  })
}
