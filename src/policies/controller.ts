/**
 * The controller network that ESAPN and AutoEmb share (method.md §8): a 32-wide embedding of the id's frequency (capped
 * at 10,000) → norm, beside a second input (the size as one-hot, or the last mixture) → linear 512 → norm → tanh →
 * linear. Adam 1e-4; embedding rows are lazy like all rows. As in the NCF head, the first layer is split
 * into a frequency half and a second half, each computed once per distinct row.
 */

import type { Address, Kernels } from "../kernels/kernels.ts"
import { exp } from "../kernels/math.ts"
import { ADAM, type NormParameter, type Parameter, Parameters } from "../kernels/parameters.ts"
import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"
import { EmbeddingTable } from "../models/embedding-table.ts"
import { findDistinct } from "../models/paper/distinct.ts"
import { Plain, type PlainPlaced } from "../models/paper/plain.ts"

const FREQUENCY_CAP = 10_000
const FREQUENCY_WIDTH = 32
const HIDDEN = 512
const CONTROLLER_ADAM = { ...ADAM, rate: 1e-4 }

export interface ControllerOptions {
  kernels: Kernels
  /** Width of the second input. */
  second: number
  outputs: number
  /** Names the random stream of the first values. */
  seed: string
}

/** Rows to judge: a frequency each, and a row of the second input's matrix. */
export interface ControllerInput {
  frequencies: ArrayLike<number>
  /** [distinct×second] */
  second: Float64Array
  /** Which row of `second`, per row. */
  secondIndex: Int32Array
}

/** A training pass between forward and `learn`. */
export interface ControllerPass {
  logits: Float64Array
  mark: Address
  placed: PlainPlaced
  addresses: {
    normalised: Address
    frequencyHalf: Address
    second: Address
    secondHalf: Address
    hidden: Address
    userIndex: Address
    itemIndex: Address
  }
  rows: number
  seconds: number
}

export class Controller {
  readonly #kernels: Kernels
  readonly #options: ControllerOptions
  readonly #parameters: Parameters
  readonly #frequencies: Plain
  readonly #norm: NormParameter
  readonly #frequencyWeight: Parameter
  readonly #secondWeight: Parameter
  readonly #bias: Parameter
  readonly #hiddenNorm: NormParameter
  readonly #outputWeight: Parameter
  readonly #outputBias: Parameter

  constructor(options: ControllerOptions) {
    const { kernels, second, outputs, seed } = options
    this.#kernels = kernels
    this.#options = options
    const parameters = new Parameters(kernels)
    this.#parameters = parameters
    this.#frequencies = new Plain(kernels, new EmbeddingTable({ sizes: [FREQUENCY_WIDTH], seed: `${seed} frequency` }))
    const first = { uniform: FREQUENCY_WIDTH + second }
    this.#norm = parameters.declareNorm("controller.norm", FREQUENCY_WIDTH)
    this.#frequencyWeight = parameters.declare(
      "controller.hidden.frequency",
      { rows: HIDDEN, columns: FREQUENCY_WIDTH },
      first,
    )
    this.#secondWeight = parameters.declare("controller.hidden.second", { rows: HIDDEN, columns: second }, first)
    this.#bias = parameters.declare("controller.hidden.bias", { rows: 1, columns: HIDDEN }, first)
    this.#hiddenNorm = parameters.declareNorm("controller.hiddenNorm", HIDDEN)
    this.#outputWeight = parameters.declare(
      "controller.output.weight",
      { rows: outputs, columns: HIDDEN },
      { uniform: HIDDEN },
    )
    this.#outputBias = parameters.declare("controller.output.bias", { rows: 1, columns: outputs }, { uniform: HIDDEN })
    parameters.allocate(new Random(seed, "controller"))
  }

  save(state: State): void {
    this.#parameters.save(state)
    this.#frequencies.table.save(state.at("frequency"))
  }

  load(state: State): void {
    this.#parameters.load(state)
    this.#frequencies.table.load(state.at("frequency"))
  }

  /** Brings the inputs into working memory and queues both halves of the first layer. */
  #halves(input: ControllerInput, training: boolean) {
    const k = this.#kernels
    const { second } = this.#options
    const capped = Int32Array.from(input.frequencies, (frequency) => Math.min(FREQUENCY_CAP, frequency))
    for (const frequency of capped) this.#frequencies.table.ensure(frequency)
    const rows = capped.length
    const seconds = input.second.length / second
    const distinct = findDistinct(capped, this.#frequencies.table)
    const placed = this.#frequencies.place(distinct, training)
    const normalised = k.allocate(placed.count * FREQUENCY_WIDTH)
    const frequencyHalf = k.allocate(placed.count * HIDDEN)
    const secondMatrix = k.allocate(input.second.length)
    const secondHalf = k.allocate(seconds * HIDDEN)
    const userIndex = k.allocate(rows)
    const itemIndex = k.allocate(rows)
    k.floats.set(input.second, secondMatrix)
    k.ints.set(distinct.index, userIndex)
    k.ints.set(input.secondIndex, itemIndex)
    const { count, weights, total } = placed
    k.normalize({
      out: normalised,
      input: placed.group.value,
      norm: this.#norm,
      weights,
      total,
      rows: count,
      columns: FREQUENCY_WIDTH,
      training,
      tanh: false,
    })
    k.multiply({
      out: frequencyHalf,
      left: normalised,
      right: this.#frequencyWeight.value,
      rows: count,
      columns: HIDDEN,
      inner: FREQUENCY_WIDTH,
      transposeRight: true,
    })
    k.multiply({
      out: secondHalf,
      left: secondMatrix,
      right: this.#secondWeight.value,
      rows: seconds,
      columns: HIDDEN,
      inner: second,
      transposeRight: true,
    })
    return { placed, rows, seconds, normalised, frequencyHalf, second: secondMatrix, secondHalf, userIndex, itemIndex }
  }

  #pairs(h: { frequencyHalf: Address; secondHalf: Address; userIndex: Address; itemIndex: Address; rows: number }) {
    const { userIndex, itemIndex, rows: pairs } = h
    return {
      user: h.frequencyHalf,
      item: h.secondHalf,
      userIndex,
      itemIndex,
      pairs,
      columns: HIDDEN,
      bias: this.#bias.value,
      norm: this.#hiddenNorm,
    }
  }

  /** Logits [rows×outputs] with running statistics. */
  judge(input: ControllerInput): Float64Array {
    const k = this.#kernels
    const { outputs } = this.#options
    const mark = k.mark()
    const halves = this.#halves(input, false)
    const logits = k.allocate(halves.rows * outputs)
    k.hiddenInfer({
      ...this.#pairs(halves),
      logits,
      activation: 0,
      weight: this.#outputWeight.value,
      outputBias: this.#outputBias.value,
      outputs,
    })
    k.run()
    const result = Float64Array.from(k.floats.subarray(logits, logits + halves.rows * outputs))
    k.release(mark)
    return result
  }

  /** Logits with batch statistics; `learn` must follow. */
  forward(input: ControllerInput): ControllerPass {
    const k = this.#kernels
    const { outputs } = this.#options
    const mark = k.mark()
    const { placed, rows, seconds, ...addresses } = this.#halves(input, true)
    const hidden = k.allocate(rows * HIDDEN)
    const logits = k.allocate(rows * outputs)
    k.hiddenTrain({ ...this.#pairs({ ...addresses, rows }), out: hidden })
    k.project({
      out: logits,
      input: hidden,
      weight: this.#outputWeight.value,
      bias: this.#outputBias.value,
      rows,
      columns: HIDDEN,
      outputs,
    })
    k.run()
    const result = Float64Array.from(k.floats.subarray(logits, logits + rows * outputs))
    return { logits: result, mark, placed, addresses: { ...addresses, hidden }, rows, seconds }
  }

  /** Steps everything by the gradient at the logits, and ends the pass. */
  learn(pass: ControllerPass, dLogitValues: Float64Array): void {
    const k = this.#kernels
    const { outputs, second } = this.#options
    const { placed, rows, seconds } = pass
    const a = pass.addresses
    const dLogits = k.allocate(rows * outputs)
    const dFrequencyHalf = k.allocate(placed.count * HIDDEN)
    const dSecondHalf = k.allocate(seconds * HIDDEN)
    const dNormalised = k.allocate(placed.count * FREQUENCY_WIDTH)
    const dRows = k.allocate(placed.count * FREQUENCY_WIDTH)
    k.floats.set(dLogitValues, dLogits)
    k.multiply({
      out: this.#outputWeight.gradient,
      left: dLogits,
      right: a.hidden,
      rows: outputs,
      columns: HIDDEN,
      inner: rows,
      transposeLeft: true,
    })
    k.columnSums({ out: this.#outputBias.gradient, input: dLogits, rows, columns: outputs })
    k.hiddenTrainBackward({
      ...this.#pairs({ ...a, rows }),
      out: a.hidden,
      dUser: dFrequencyHalf,
      dItem: dSecondHalf,
      dGamma: this.#hiddenNorm.gammaParameter.gradient,
      dBeta: this.#hiddenNorm.betaParameter.gradient,
      dLogits,
      weight: this.#outputWeight.value,
      outputs,
      users: placed.count,
      items: seconds,
    })
    k.multiply({
      out: this.#secondWeight.gradient,
      left: dSecondHalf,
      right: a.second,
      rows: HIDDEN,
      columns: second,
      inner: seconds,
      transposeLeft: true,
    })
    k.multiply({
      out: this.#frequencyWeight.gradient,
      left: dFrequencyHalf,
      right: a.normalised,
      rows: HIDDEN,
      columns: FREQUENCY_WIDTH,
      inner: placed.count,
      transposeLeft: true,
    })
    k.multiply({
      out: dNormalised,
      left: dFrequencyHalf,
      right: this.#frequencyWeight.value,
      rows: placed.count,
      columns: FREQUENCY_WIDTH,
      inner: HIDDEN,
    })
    k.normalizeBackward({
      dInput: dRows,
      dGamma: this.#norm.gammaParameter.gradient,
      dBeta: this.#norm.betaParameter.gradient,
      dOut: dNormalised,
      input: placed.group.value,
      out: a.normalised,
      norm: this.#norm,
      weights: placed.weights,
      total: placed.total,
      rows: placed.count,
      columns: FREQUENCY_WIDTH,
      tanh: false,
    })
    this.#frequencies.backward(placed, dRows)
    this.#parameters.step(CONTROLLER_ADAM)
    this.#frequencies.step(placed, CONTROLLER_ADAM)
    k.run()
    this.#frequencies.commit(placed)
    k.release(pass.mark)
  }
}

/** Writes softmax(logits[at … at+count)) to out from the same place. */
export function softmaxRow(out: Float64Array, logits: Float64Array, at: number, count: number): void {
  let max = Number.NEGATIVE_INFINITY
  for (let c = 0; c < count; c++) max = Math.max(max, logits[at + c])
  let sum = 0
  for (let c = 0; c < count; c++) {
    out[at + c] = exp(logits[at + c] - max)
    sum += out[at + c]
  }
  for (let c = 0; c < count; c++) out[at + c] /= sum
}
