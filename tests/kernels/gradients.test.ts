/** Every backward against finite differences of its forward, on the double-precision reference. */

import { describe, it } from "vitest"
import type { Address, Norm, Pairs } from "../../src/kernels/kernels.ts"
import { NONE } from "../../src/kernels/kernels.ts"
import { Random } from "../../src/kernels/random.ts"
import { ReferenceKernels } from "../../src/kernels/reference.ts"
import { checkKnobs, type Knob } from "../support/finite-differences.ts"

const TOLERANCE = 1e-6
const [ROWS, COLUMNS, OUTPUTS, USERS, ITEMS] = [7, 5, 3, 3, 4]

/** A fresh reference with random blocks, and the claims of a backward pass as knobs. */
function setUp(seed: number) {
  const k = new ReferenceKernels("double")
  const random = new Random(seed)
  const values = (numbers: readonly number[]): Address => {
    const address = k.allocate(numbers.length)
    k.floats.set(numbers, address)
    return address
  }
  const normals = (count: number, scale = 1, shift = 0) =>
    values(Array.from({ length: count }, () => shift + scale * random.normal()))
  const integers = (numbers: readonly number[]): Address => {
    const address = k.allocate(numbers.length)
    k.ints.set(numbers, address)
    return address
  }
  const norm = (): Norm => ({
    gamma: normals(COLUMNS, 0.3, 1),
    beta: normals(COLUMNS, 0.3),
    mean: normals(COLUMNS, 0.3),
    variance: values(Array.from({ length: COLUMNS }, (_, c) => 0.5 + c / 4)),
    center: k.allocate(COLUMNS),
    scale: k.allocate(COLUMNS),
    epsilon: 1e-5,
    momentum: 0.1,
  })
  const pairs = (): Pairs => ({
    user: normals(USERS * COLUMNS),
    item: normals(ITEMS * COLUMNS),
    userIndex: integers([0, 1, 2, 0, 0, 1, 2]),
    itemIndex: integers([0, 1, 2, 3, 0, 2, 2]),
    ...{ pairs: ROWS, columns: COLUMNS },
  })
  /** Numbers at `at` with the gradients claimed at `claims`. */
  const knobs = (name: string, at: Address, claims: Address, count: number): Knob[] =>
    Array.from({ length: count }, (_, i) => ({
      name: `${name}[${i}]`,
      claimed: k.floats[claims + i],
      get: () => k.floats[at + i],
      set: (x) => {
        k.floats[at + i] = x
      },
    }))
  /** Σ a[i]·b[i]: turns an output into one number. */
  const inner = (a: Address, b: Address, count: number) => {
    let sum = 0
    for (let i = 0; i < count; i++) sum += k.floats[a + i] * k.floats[b + i]
    return sum
  }
  return { k, values, normals, integers, norm, pairs, knobs, inner }
}

describe(`finite differences agree to ${TOLERANCE} with`, () => {
  it.each([true, false])("normalizeBackward, rows counted several times, tanh %s", (tanh) => {
    const { k, values, normals, norm, knobs, inner } = setUp(1)
    const count = ROWS * COLUMNS
    const [input, out, dOut, dInput] = [normals(count), k.allocate(count), normals(count), k.allocate(count)]
    const [dGamma, dBeta] = [k.allocate(COLUMNS), k.allocate(COLUMNS)]
    const shared = {
      weights: values([1, 2, 1, 3, 1, 1, 2]),
      total: 11,
      rows: ROWS,
      columns: COLUMNS,
      tanh,
      norm: norm(),
    }
    const loss = () => {
      k.normalize({ out, input, training: true, ...shared })
      return inner(out, dOut, count)
    }
    loss()
    k.normalizeBackward({ dInput, dGamma, dBeta, dOut, input, out, ...shared })
    const ofNorm = [...knobs("γ", shared.norm.gamma, dGamma, COLUMNS), ...knobs("β", shared.norm.beta, dBeta, COLUMNS)]
    checkKnobs(loss, [...knobs("input", input, dInput, count), ...ofNorm], TOLERANCE)
  })

  it.each([true, false])("normalizeGradient, tanh %s", (tanh) => {
    const { k, normals, norm, knobs, inner } = setUp(2)
    const count = ROWS * COLUMNS
    const [input, out, dOut, dInput] = [normals(count), k.allocate(count), normals(count), k.allocate(count)]
    const shared = { rows: ROWS, columns: COLUMNS, norm: norm() }
    const loss = () => {
      k.normalize({ out, input, training: false, tanh, weights: NONE, total: ROWS, ...shared })
      return inner(out, dOut, count)
    }
    loss()
    k.normalizeGradient({ out: dInput, dOut, activation: tanh ? out : NONE, index: NONE, ...shared })
    checkKnobs(loss, knobs("input", input, dInput, count), TOLERANCE)
  })

  it("hiddenTrainBackward", () => {
    const { k, normals, norm, pairs, knobs, inner } = setUp(3)
    const forward = { ...pairs(), bias: normals(COLUMNS), norm: norm(), out: k.allocate(ROWS * COLUMNS) }
    const [weight, zero, logits] = [normals(OUTPUTS * COLUMNS), normals(OUTPUTS, 0), k.allocate(ROWS * OUTPUTS)]
    const dLogits = normals(ROWS * OUTPUTS)
    const loss = () => {
      k.hiddenTrain(forward)
      const sizes = { rows: ROWS, columns: COLUMNS, outputs: OUTPUTS }
      k.project({ out: logits, input: forward.out, weight, bias: zero, ...sizes })
      return inner(logits, dLogits, ROWS * OUTPUTS)
    }
    loss()
    const [dUser, dItem] = [k.allocate(USERS * COLUMNS), k.allocate(ITEMS * COLUMNS)]
    const [zeros, dGamma, dBeta] = [k.allocate(COLUMNS), k.allocate(COLUMNS), k.allocate(COLUMNS)]
    k.floats.fill(0, zeros, zeros + COLUMNS)
    const sizes = { outputs: OUTPUTS, users: USERS, items: ITEMS }
    k.hiddenTrainBackward({ ...forward, dUser, dItem, dGamma, dBeta, dLogits, weight, ...sizes })
    const ofNorm = [
      ...knobs("γ", forward.norm.gamma, dGamma, COLUMNS),
      ...knobs("β", forward.norm.beta, dBeta, COLUMNS),
      ...knobs("bias", forward.bias, zeros, COLUMNS),
    ]
    const rows = [
      ...knobs("user", forward.user, dUser, USERS * COLUMNS),
      ...knobs("item", forward.item, dItem, ITEMS * COLUMNS),
    ]
    checkKnobs(loss, [...rows, ...ofNorm], TOLERANCE)
  })

  it("hiddenInferGradient", () => {
    const { k, normals, integers, norm, pairs, knobs, inner } = setUp(4)
    // A user for each pair, so that its row takes the gradient of that pair's sum alone.
    const index = integers([0, 1, 2, 3, 4, 5, 6])
    const activation = k.allocate(ROWS * COLUMNS)
    const blocks = { weight: normals(OUTPUTS * COLUMNS), outputBias: normals(OUTPUTS), outputs: OUTPUTS, norm: norm() }
    const user = normals(ROWS * COLUMNS)
    const logits = k.allocate(ROWS * OUTPUTS)
    const forward = { ...pairs(), user, userIndex: index, bias: normals(COLUMNS), logits, activation, ...blocks }
    const dLogits = normals(ROWS * OUTPUTS)
    const loss = () => {
      k.hiddenInfer(forward)
      return inner(logits, dLogits, ROWS * OUTPUTS)
    }
    loss()
    const out = k.allocate(ROWS * COLUMNS)
    k.hiddenInferGradient({ out, dLogits, activation, rowIndex: index, rows: ROWS, columns: COLUMNS, ...blocks })
    checkKnobs(loss, knobs("user", user, out, ROWS * COLUMNS), TOLERANCE)
  })

  it.each(["dot", "distance"] as const)("pairScoreBackward and pairScoreGradient, %s", (metric) => {
    const { k, normals, integers, pairs, knobs, inner } = setUp(5)
    const forward = { ...pairs(), metric, factor: 0.25 }
    const [out, dScores] = [k.allocate(ROWS), normals(ROWS)]
    const loss = () => {
      k.pairScore({ ...forward, out })
      return inner(out, dScores, ROWS)
    }
    const [dUser, dItem] = [k.allocate(USERS * COLUMNS), k.allocate(ITEMS * COLUMNS)]
    k.pairScoreBackward({ ...forward, dUser, dItem, dScores, users: USERS, items: ITEMS })
    const users = knobs("user", forward.user, dUser, USERS * COLUMNS)
    const items = knobs("item", forward.item, dItem, ITEMS * COLUMNS)
    checkKnobs(loss, [...users, ...items], TOLERANCE)

    // User 1 stands in pairs 1 and 5, item 3 in pair 3 alone: their rows take the sum of those pairs' gradients.
    const gradient = k.allocate(2 * COLUMNS)
    const ofUser = { ...forward, out: gradient, dScores, rowIndex: integers([1, 5]), rows: 2, side: "user" as const }
    k.pairScoreGradient(ofUser)
    for (let c = 0; c < COLUMNS; c++) k.floats[gradient + c] += k.floats[gradient + COLUMNS + c]
    checkKnobs(loss, knobs("user", forward.user + COLUMNS, gradient, COLUMNS), TOLERANCE)
    k.pairScoreGradient({ ...ofUser, rowIndex: integers([3]), rows: 1, side: "item" })
    checkKnobs(loss, knobs("item", forward.item + 3 * COLUMNS, gradient, COLUMNS), TOLERANCE)
  })

  it.each(["squared", "logistic", "softmax"] as const)("the gradient of the %s loss", (kind) => {
    const { k, values, normals, knobs, inner } = setUp(6)
    const ones = values(new Array(ROWS).fill(1))
    const outputs = kind === "softmax" ? OUTPUTS : 1
    const labels = values([0, 1, 1, 0, 1, 0, 0].map((label, r) => (kind === "softmax" ? r % OUTPUTS : label)))
    const [losses, dLogits] = [k.allocate(ROWS), k.allocate(ROWS * outputs)]
    const operation = { kind, losses, logits: normals(ROWS * outputs), labels, rows: ROWS, outputs }
    const loss = () => {
      k.loss({ ...operation, dLogits: NONE })
      return inner(losses, ones, ROWS)
    }
    k.loss({ ...operation, dLogits })
    checkKnobs(loss, knobs("logits", operation.logits, dLogits, ROWS * outputs), TOLERANCE)
  })
})
