/**
 * The kernels' contract as data: every operation builds a random case of a given shape on any twin, and says where its
 * outputs are. The same seed gives the same numbers whatever the twin, so outputs can be compared.
 */

import type { Address, Kernels, Norm } from "../../src/kernels/kernels.ts"
import { NONE } from "../../src/kernels/kernels.ts"
import { exp } from "../../src/kernels/math.ts"
import { Random } from "../../src/kernels/random.ts"

const UNTOUCHED = 12345.5

/** A twin with a seeded source of inputs. Every block ends with a guard that no operation may touch. */
export class Board {
  readonly outputs: { name: string; address: Address; count: number }[] = []
  readonly #guards: Address[] = []
  readonly kernels: Kernels
  readonly random: Random

  constructor(kernels: Kernels, seed: number) {
    this.kernels = kernels
    this.random = new Random(seed)
  }

  #guarded(count: number): Address {
    const address = this.kernels.allocate(count + 3)
    this.kernels.floats.fill(UNTOUCHED, address, address + count + 3)
    this.#guards.push(address + count)
    return address
  }

  /** A block of normal numbers, the same single-precision numbers on every twin. */
  normals(count: number, scale = 1, shift = 0): Address {
    return this.values(Array.from({ length: count }, () => shift + scale * this.random.normal()))
  }

  values(values: readonly number[]): Address {
    const address = this.#guarded(values.length)
    this.kernels.floats.set(values.map(Math.fround), address)
    return address
  }

  indices(count: number, bound: number): Address {
    const address = this.kernels.allocate(count)
    for (let i = 0; i < count; i++) this.kernels.ints[address + i] = this.random.integer(bound)
    return address
  }

  output(name: string, count: number): Address {
    const address = this.#guarded(count)
    this.outputs.push({ name, address, count })
    return address
  }

  /** A block that is read and changed. */
  inOut(name: string, count: number, shift = 0): Address {
    const address = this.normals(count, 1, shift)
    this.outputs.push({ name, address, count })
    return address
  }

  norm(columns: number): Norm {
    const positive = (name: string) => {
      const address = this.inOut(name, columns)
      for (let c = 0; c < columns; c++) this.kernels.floats[address + c] = 0.5 + this.random.integer(8) / 8
      return address
    }
    return {
      gamma: this.normals(columns, 0.5, 1),
      beta: this.normals(columns, 0.5),
      mean: this.inOut("mean", columns),
      variance: positive("variance"),
      center: this.inOut("center", columns),
      scale: positive("scale"),
      epsilon: 1e-5,
      momentum: 0.1,
    }
  }

  /** Runs what is queued and reads the outputs. */
  finish(): Record<string, number[]> {
    this.kernels.run()
    const f = this.kernels.floats
    for (const guard of this.#guards)
      for (let i = 0; i < 3; i++)
        if (f[guard + i] !== UNTOUCHED) throw new Error(`a block was written past its end, at ${guard + i}`)
    return Object.fromEntries(this.outputs.map((o) => [o.name, [...f.subarray(o.address, o.address + o.count)]]))
  }
}

export interface Shape {
  rows: number
  columns: number
  inner: number
  outputs: number
  users: number
  items: number
}

export type Build = (board: Board, shape: Shape) => void

function pairs(board: Board, { rows, columns, users, items }: Shape) {
  return {
    user: board.normals(users * columns),
    item: board.normals(items * columns),
    userIndex: board.indices(rows, users),
    itemIndex: board.indices(rows, items),
    pairs: rows,
    columns,
  }
}

function weights(board: Board, rows: number) {
  const counts = Array.from({ length: rows }, () => 1 + board.random.integer(3))
  return { weights: board.values(counts), total: counts.reduce((sum, w) => sum + w, 0) }
}

function multiply(transposeLeft: boolean, transposeRight: boolean, start: "zero" | "bias" | "accumulate"): Build {
  return (board, { rows, columns, inner }) =>
    board.kernels.multiply({
      left: board.normals(rows * inner, 0.5),
      right: board.normals(inner * columns, 0.5),
      bias: start === "bias" ? board.normals(columns) : NONE,
      out: start === "accumulate" ? board.inOut("out", rows * columns) : board.output("out", rows * columns),
      accumulate: start === "accumulate",
      ...{ rows, columns, inner, transposeLeft, transposeRight },
    })
}

function normalize(training: boolean, tanh: boolean): Build {
  return (board, { rows, columns }) =>
    board.kernels.normalize({
      out: board.output("out", rows * columns),
      input: board.normals(rows * columns, 1, 0.5),
      norm: board.norm(columns),
      ...weights(board, rows),
      ...{ rows, columns, training, tanh },
    })
}

function normalizeBackward(tanh: boolean): Build {
  return (board, { rows, columns }) =>
    board.kernels.normalizeBackward({
      dInput: board.output("dInput", rows * columns),
      dGamma: board.output("dGamma", columns),
      dBeta: board.output("dBeta", columns),
      dOut: board.normals(rows * columns),
      input: board.normals(rows * columns),
      out: board.normals(rows * columns, 0.3),
      norm: board.norm(columns),
      ...weights(board, rows),
      ...{ rows, columns, tanh },
    })
}

function normalizeGradient(withActivation: boolean, withIndex: boolean, inPlace: boolean): Build {
  return (board, { rows, columns }) => {
    const out = inPlace ? board.inOut("out", rows * columns) : board.output("out", rows * columns)
    board.kernels.normalizeGradient({
      out,
      dOut: inPlace ? out : board.normals(rows * columns),
      norm: board.norm(columns),
      activation: withActivation ? board.normals(rows * columns, 0.3) : NONE,
      index: withIndex ? board.indices(rows, rows) : NONE,
      ...{ rows, columns },
    })
  }
}

function hiddenInfer(keepActivation: boolean): Build {
  return (board, shape) => {
    const { rows, columns, outputs } = shape
    board.kernels.hiddenInfer({
      logits: board.output("logits", rows * outputs),
      activation: keepActivation ? board.output("activation", rows * columns) : NONE,
      bias: board.normals(columns),
      norm: board.norm(columns),
      weight: board.normals(outputs * columns, 0.3),
      outputBias: board.normals(outputs),
      outputs,
      ...pairs(board, shape),
    })
  }
}

function hiddenPowers(withBias: boolean, limit: number): Build {
  return (board, { rows, columns }) =>
    board.kernels.hiddenPowers({
      out: board.output("out", rows * columns),
      largest: board.output("largest", columns),
      half: board.normals(rows * columns),
      bias: withBias ? board.normals(columns) : NONE,
      norm: board.norm(columns),
      ...{ limit, rows, columns },
    })
}

function hiddenScores(several: boolean): Build {
  return (board, { rows, columns, outputs: most }) => {
    const outputs = several ? most : 1
    const powers = (count: number) => board.values(Array.from({ length: count }, () => exp(3 * board.random.normal())))
    board.kernels.hiddenScores({
      scores: board.output("scores", rows * outputs),
      user: powers(columns),
      items: powers(rows * columns),
      weight: board.normals(outputs * columns, 0.3),
      outputBias: board.normals(outputs),
      ...{ rows, columns, outputs },
    })
  }
}

function loss(kind: "squared" | "logistic" | "softmax", gradient: boolean): Build {
  return (board, { rows, outputs: several }) => {
    const outputs = kind === "softmax" ? several : 1
    const classes = kind === "softmax" ? outputs : 2
    board.kernels.loss({
      kind,
      losses: board.output("losses", rows),
      dLogits: gradient ? board.output("dLogits", rows * outputs) : NONE,
      logits: board.normals(rows * outputs, 4),
      labels: board.values(Array.from({ length: rows }, () => board.random.integer(classes))),
      ...{ rows, outputs },
    })
  }
}

/** `rows` items in an order of their own, in chunks of 16. */
function scoreChunks(board: Board, { rows, columns }: Shape): void {
  const { kernels } = board
  const chunks = board.indices(Math.ceil(rows / 16) + 1, 1)
  for (let c = 0; c < Math.ceil(rows / 16); c++) {
    const at = board.normals(16 * (2 + columns), 0.3)
    kernels.ints[chunks + c] = at
    for (let t = 0; t < 16; t++) kernels.ints[at + t] = (16 * c + t + 3) % rows
  }
  kernels.scoreChunks({
    ...{ out: board.output("out", rows), chunks, slots: 16, count: rows, bits: 32, columns, x: board.normals(columns) },
    ...{ factor: 1, base: 0.5, sums: board.normals(16_384), lift: { x: NONE, noise: NONE, columns: 0, factor: 1 } },
  })
}

function pairScore(metric: "dot" | "distance"): Build {
  return (board, shape) =>
    board.kernels.pairScore({ out: board.output("out", shape.rows), metric, factor: 0.25, ...pairs(board, shape) })
}

function pairScoreBackward(metric: "dot" | "distance"): Build {
  return (board, shape) => {
    const { rows, columns, users, items } = shape
    board.kernels.pairScoreBackward({
      dUser: board.output("dUser", users * columns),
      dItem: board.output("dItem", items * columns),
      dScores: board.normals(rows),
      factor: 0.25,
      ...{ metric, users, items },
      ...pairs(board, shape),
    })
  }
}

function pairScoreGradient(metric: "dot" | "distance", side: "user" | "item"): Build {
  return (board, shape) => {
    const rows = Math.ceil(shape.rows / 2)
    board.kernels.pairScoreGradient({
      out: board.output("out", rows * shape.columns),
      dScores: board.normals(shape.rows),
      rowIndex: board.indices(rows, shape.rows),
      factor: 0.25,
      ...{ rows, side, metric },
      ...pairs(board, shape),
    })
  }
}

const ADAM = { rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, l2: 1e-3 }

function adam(board: Board, rows: number, columns: number): void {
  const value = board.inOut("value", rows * columns)
  const second = board.inOut("second", rows * columns)
  const f = board.kernels.floats
  for (let i = 0; i < rows * columns; i++) f[second + i] = Math.abs(f[second + i])
  board.kernels.adam({
    ...{ value, second, rows, columns },
    first: board.inOut("first", rows * columns),
    gradient: board.normals(rows * columns),
    corrections: board.values(Array.from({ length: 2 * rows }, (_, i) => 1 + i / 8)),
    ...ADAM,
  })
}

/** Adam on rows whose moments stand as in the table: first ones, second ones. */
function adamRows(board: Board, rows: number, columns: number): void {
  const first = board.inOut("moments", 2 * rows * columns)
  const [second, momentStride] = [first + columns, 2 * columns]
  const f = board.kernels.floats
  for (let r = 0; r < rows; r++)
    for (let c = 0; c < columns; c++) f[second + r * momentStride + c] = Math.abs(f[second + r * momentStride + c])
  board.kernels.adam({
    ...{ value: board.inOut("value", rows * columns), first, second, momentStride, rows, columns },
    gradient: board.normals(rows * columns),
    corrections: board.values(Array.from({ length: 2 * rows }, (_, i) => 1 + i / 8)),
    ...ADAM,
  })
}

/** Every operation in every variant, by a name that reads well in a test's title. */
export const OPERATIONS: Record<string, Build> = {
  "multiply plain": multiply(false, false, "zero"),
  "multiply plain, with bias": multiply(false, false, "bias"),
  "multiply plain, accumulating": multiply(false, false, "accumulate"),
  "multiply transposed left": multiply(true, false, "zero"),
  "multiply transposed left, accumulating": multiply(true, false, "accumulate"),
  "multiply transposed right, with bias": multiply(false, true, "bias"),
  "multiply transposed right, accumulating": multiply(false, true, "accumulate"),
  "multiply transposed both": multiply(true, true, "zero"),
  "normalize in training": normalize(true, false),
  "normalize in training, tanh": normalize(true, true),
  "normalize with running statistics": normalize(false, false),
  "normalize with running statistics, tanh": normalize(false, true),
  normalizeBackward: normalizeBackward(false),
  "normalizeBackward, tanh": normalizeBackward(true),
  normalizeGradient: normalizeGradient(false, false, false),
  "normalizeGradient with activation, in place": normalizeGradient(true, false, true),
  "normalizeGradient with indexed activation": normalizeGradient(true, true, false),
  hiddenTrain: (board, shape) =>
    board.kernels.hiddenTrain({
      out: board.output("out", shape.rows * shape.columns),
      bias: board.normals(shape.columns),
      norm: board.norm(shape.columns),
      ...pairs(board, shape),
    }),
  hiddenTrainBackward: (board, shape) => {
    const { rows, columns, outputs, users, items } = shape
    board.kernels.hiddenTrainBackward({
      out: board.normals(rows * columns, 0.3),
      bias: board.normals(columns),
      norm: board.norm(columns),
      dUser: board.output("dUser", users * columns),
      dItem: board.output("dItem", items * columns),
      dGamma: board.output("dGamma", columns),
      dBeta: board.output("dBeta", columns),
      dLogits: board.normals(rows * outputs),
      weight: board.normals(outputs * columns, 0.3),
      ...{ outputs, users, items },
      ...pairs(board, shape),
    })
  },
  hiddenInfer: hiddenInfer(false),
  "hiddenInfer, keeping the activation": hiddenInfer(true),
  hiddenInferGradient: (board, shape) => {
    const { columns, outputs } = shape
    const rows = Math.ceil(shape.rows / 2)
    board.kernels.hiddenInferGradient({
      out: board.output("out", rows * columns),
      dLogits: board.normals(shape.rows * outputs),
      activation: board.normals(shape.rows * columns, 0.3),
      rowIndex: board.indices(rows, shape.rows),
      weight: board.normals(outputs * columns, 0.3),
      norm: board.norm(columns),
      ...{ rows, columns, outputs },
    })
  },
  project: (board, { rows, columns, outputs }) =>
    board.kernels.project({
      out: board.output("out", rows * outputs),
      input: board.normals(rows * columns),
      weight: board.normals(outputs * columns, 0.3),
      bias: board.normals(outputs),
      ...{ rows, columns, outputs },
    }),
  correlate: (board, { rows, columns }) =>
    board.kernels.correlate({
      out: board.output("out", rows),
      input: board.normals(rows + columns - 1),
      weight: board.normals(columns, 0.3),
      ...{ count: rows, columns },
    }),
  scoreChunks,
  sumWords: (board, { rows, columns }) => {
    const { kernels, random } = board
    const lengths = [8 * rows, 8, 8 * columns]
    const limit = columns + 1
    const named = new Set<number>()
    const factors = [0.5, 2, 1]
    const given = lengths.map((length, r) => {
      const at = board.indices(length, 1)
      for (let n = 0; n < length; n++) {
        const number = random.integer(columns + 3)
        kernels.ints[at + n] = number === 0 ? 0 : (random.integer(255) << 24) | number
        if (number > 0 && number <= limit) named.add(number)
      }
      return { at, length, scorer: r, factor: factors[r] }
    })
    const slots = board.indices(limit + 1, 1)
    const values = board.values(Array.from({ length: 257 }, () => Math.abs(random.normal())))
    const roots = board.values(Array.from({ length: 2 * limit }, (_, n) => 1 + (n % 5)))
    const [out, items] = [board.indices(2, 1), board.indices(limit + 1, 1)]
    // Only of items named, and room for one more: what lies behind is not written.
    const sums = board.values(new Array(4 * (limit + 1)).fill(0))
    board.outputs.push({ name: "sums", address: sums, count: 4 * named.size })
    kernels.sumWords({ out, values, slots, items, sums, roots, limit, rows: given })
    const to = board.inOut("to", limit)
    const fused = { out: board.output("fused", named.size), sums, items, roots, to, slots, count: named.size }
    kernels.fuseLogs({ ...fused, weights: [0.5, 2, 1, 0] })
  },
  fuseLogs: (board, { rows }) => {
    const sums = board.normals(4 * rows)
    const { floats } = board.kernels
    for (let i = 0; i < 4 * rows; i++)
      floats[sums + i] = i % 7 === 0 || i % 40 > 30 ? 0 : Math.abs(100 * floats[sums + i])
    const roots = board.values(Array.from({ length: 2 * rows }, (_, n) => 1 + (n % 5)))
    const items = board.indices(rows, rows)
    const out = board.output("out", rows)
    board.kernels.fuseLogs({
      ...{ out, sums, items, roots, to: NONE, slots: NONE, count: rows },
      weights: [0.5, 0, 2, 1],
    })
  },
  sumPowers: (board, { rows }) => {
    // Of none the largest is −∞.
    const count = rows + 1
    const input = board.normals(count, 3)
    if (count > 4) board.kernels.floats[input + 2] = Number.NaN
    if (count > 4) board.kernels.floats[input + 3] = Number.NEGATIVE_INFINITY
    const maxima = board.output("maxima", Math.ceil(count / 16))
    board.kernels.sumPowers({ out: board.output("out", 2), maxima, input, count })
  },
  "loss squared": loss("squared", true),
  "loss squared, no gradient": loss("squared", false),
  "loss logistic": loss("logistic", true),
  "loss softmax": loss("softmax", true),
  "loss softmax, no gradient": loss("softmax", false),
  "hiddenPowers, with bias": hiddenPowers(true, 20),
  "hiddenPowers, without bias, cut off": hiddenPowers(false, 0.5),
  hiddenScores: hiddenScores(false),
  "hiddenScores, several outputs": hiddenScores(true),
  "pairScore dot": pairScore("dot"),
  "pairScore distance": pairScore("distance"),
  "pairScoreBackward dot": pairScoreBackward("dot"),
  "pairScoreBackward distance": pairScoreBackward("distance"),
  "pairScoreGradient dot, user": pairScoreGradient("dot", "user"),
  "pairScoreGradient distance, user": pairScoreGradient("distance", "user"),
  "pairScoreGradient distance, item": pairScoreGradient("distance", "item"),
  columnSums: (board, { rows, columns }) =>
    board.kernels.columnSums({
      out: board.output("out", columns),
      input: board.normals(rows * columns),
      ...{ rows, columns },
    }),
  moveRows: (board, { rows, columns, items }) =>
    board.kernels.moveRows({
      out: board.output("out", rows * columns),
      base: board.normals(items * columns),
      index: board.indices(rows, items),
      delta: board.normals(rows * columns),
      rate: 0.1,
      ...{ rows, columns },
    }),
  "adam row by row": (board, { rows, columns }) => adam(board, rows, columns),
  "adam on one block": (board, { rows, columns }) => adam(board, 1, rows * columns),
  "adam on whole rows": (board, { rows, columns }) => adamRows(board, rows, columns),
  "copyRows to rows further apart": (board, { rows, columns }) =>
    board.kernels.copyRows({
      out: board.inOut("out", rows * (columns + 2)),
      input: board.normals(rows * columns),
      ...{ rows, columns, outStride: columns + 2 },
    }),
  "copyRows from rows further apart": (board, { rows, columns }) =>
    board.kernels.copyRows({
      out: board.output("out", rows * columns),
      input: board.normals(rows * (columns + 3)),
      ...{ rows, columns, inputStride: columns + 3 },
    }),
  fill: (board, { rows, columns }) =>
    board.kernels.fill({ out: board.output("out", rows * columns), value: 1.5, count: rows * columns }),
}

/** The outputs of one operation on one twin. */
export function perform(kernels: Kernels, build: Build, shape: Shape, seed: number): Record<string, number[]> {
  const mark = kernels.mark()
  const board = new Board(kernels, seed)
  build(board, shape)
  const outputs = board.finish()
  kernels.release(mark)
  return outputs
}
