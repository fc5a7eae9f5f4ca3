/**
 * The NCF head (method.md §2): concat → norm → linear → norm → tanh → linear.
 *
 * The concat is never built. The first norm is affine per column and the first linear layer is a sum over columns, so
 *   hidden(u, i) = W_u·norm(û) + W_i·norm(î) + b
 * splits into a user half and an item half, each computed once per distinct id.
 */

import { type Address, type Kernels, NONE, type Norm, type Pairs } from "../../kernels/kernels.ts"
import { type NormParameter, type Parameter, type Parameters, sliceNorm } from "../../kernels/parameters.ts"
import type { Side } from "../../types.ts"
import { type Candidates, type HalfGradient, type Head, type HeadBatch, keepHalves, pairsOf } from "./head.ts"

/**
 * Ranking multiplies e^{2y} of a user and an item. An item's |y| must stay below this, which normalised sums do by far,
 * or the candidates are ranked pair by pair; a user's is cut off where tanh is ±1 with every such item (to 4·10⁻⁹).
 */
const ITEM_LIMIT = 20
const USER_LIMIT = 30

export class NcfHead implements Head {
  readonly kind = "ncf"
  readonly outputs: number
  readonly halfWidth: number
  readonly inputNorm: NormParameter
  /** The first layer, [hidden×width] each. */
  readonly userWeight: Parameter
  readonly itemWeight: Parameter
  readonly hiddenBias: Parameter
  readonly hiddenNorm: NormParameter
  readonly outputWeight: Parameter
  readonly outputBias: Parameter
  readonly #kernels: Kernels
  readonly #width: number
  /** Known once the parameters have their places. */
  #sideNorms: Record<Side, Norm> | undefined

  constructor(kernels: Kernels, parameters: Parameters, options: { width: number; hidden: number; outputs: number }) {
    const { width, hidden, outputs } = options
    this.#kernels = kernels
    this.#width = width
    this.outputs = outputs
    this.halfWidth = hidden
    this.inputNorm = parameters.declareNorm("head.inputNorm", 2 * width)
    const first = { uniform: 2 * width }
    this.userWeight = parameters.declare("head.hidden.weight.user", { rows: hidden, columns: width }, first)
    this.itemWeight = parameters.declare("head.hidden.weight.item", { rows: hidden, columns: width }, first)
    this.hiddenBias = parameters.declare("head.hidden.bias", { rows: 1, columns: hidden }, first)
    this.hiddenNorm = parameters.declareNorm("head.hiddenNorm", hidden)
    this.outputWeight = parameters.declare(
      "head.output.weight",
      { rows: outputs, columns: hidden },
      { uniform: hidden },
    )
    this.outputBias = parameters.declare("head.output.bias", { rows: 1, columns: outputs }, { uniform: hidden })
  }

  /** The part of the first norm one side goes through. */
  #sideNorm(side: Side): Norm {
    this.#sideNorms ??= { user: sliceNorm(this.inputNorm, 0), item: sliceNorm(this.inputNorm, this.#width) }
    return this.#sideNorms[side]
  }

  #weight(side: Side): Parameter {
    return side === "user" ? this.userWeight : this.itemWeight
  }

  /** Queues norm and first layer of one side; returns the normalised vectors and the half. */
  #halfOf(side: Side, vectors: Address, batch: { rows: number; weights: Address; total: number; training: boolean }) {
    const k = this.#kernels
    const normalised = k.allocate(batch.rows * this.#width)
    const half = k.allocate(batch.rows * this.halfWidth)
    k.normalize({
      out: normalised,
      input: vectors,
      norm: this.#sideNorm(side),
      ...batch,
      columns: this.#width,
      tanh: false,
    })
    k.multiply({
      out: half,
      left: normalised,
      right: this.#weight(side).value,
      rows: batch.rows,
      columns: this.halfWidth,
      inner: this.#width,
      transposeRight: true,
    })
    return { normalised, half }
  }

  forward(batch: HeadBatch): Address {
    const k = this.#kernels
    const shape = { total: batch.pairs, training: true }
    const user = this.#halfOf("user", batch.user, { rows: batch.users, weights: batch.userWeights, ...shape })
    const item = this.#halfOf("item", batch.item, { rows: batch.items, weights: batch.itemWeights, ...shape })
    const hidden = k.allocate(batch.pairs * this.halfWidth)
    const logits = k.allocate(batch.pairs * this.outputs)
    k.hiddenTrain({ ...this.#hidden(batch, user.half, item.half), out: hidden })
    k.project({
      out: logits,
      input: hidden,
      weight: this.outputWeight.value,
      bias: this.outputBias.value,
      rows: batch.pairs,
      columns: this.halfWidth,
      outputs: this.outputs,
    })
    batch.kept = [user.normalised, user.half, item.normalised, item.half, hidden]
    return logits
  }

  #hidden(pairs: Pairs, user: Address, item: Address) {
    const { userIndex, itemIndex } = pairs
    const bias = this.hiddenBias.value
    return {
      user,
      item,
      userIndex,
      itemIndex,
      pairs: pairs.pairs,
      columns: this.halfWidth,
      bias,
      norm: this.hiddenNorm,
    }
  }

  backward(batch: HeadBatch, dLogits: Address): { dUser: Address; dItem: Address; queueRest: () => void } {
    const k = this.#kernels
    const [userNormalised, userHalf, itemNormalised, itemHalf, hidden] = batch.kept
    const { outputs, halfWidth } = this
    const dUserHalf = k.allocate(batch.users * halfWidth)
    const dItemHalf = k.allocate(batch.items * halfWidth)
    k.multiply({
      out: this.outputWeight.gradient,
      left: dLogits,
      right: hidden,
      rows: outputs,
      columns: halfWidth,
      inner: batch.pairs,
      transposeLeft: true,
    })
    k.columnSums({ out: this.outputBias.gradient, input: dLogits, rows: batch.pairs, columns: outputs })
    k.hiddenTrainBackward({
      ...this.#hidden(batch, userHalf, itemHalf),
      out: hidden,
      dUser: dUserHalf,
      dItem: dItemHalf,
      dGamma: this.hiddenNorm.gammaParameter.gradient,
      dBeta: this.hiddenNorm.betaParameter.gradient,
      dLogits,
      weight: this.outputWeight.value,
      outputs,
      users: batch.users,
      items: batch.items,
    })
    const side = { total: batch.pairs, columns: this.#width }
    const user = {
      ...side,
      dHalf: dUserHalf,
      normalised: userNormalised,
      vectors: batch.user,
      rows: batch.users,
      weights: batch.userWeights,
    }
    const item = {
      ...side,
      dHalf: dItemHalf,
      normalised: itemNormalised,
      vectors: batch.item,
      rows: batch.items,
      weights: batch.itemWeights,
    }
    const dUser = this.#halfBackward("user", user)
    const dItem = this.#halfBackward("item", item)
    // The largest product of a step comes last, for the other threads to be busy with while rows are fetched.
    const queueRest = () => {
      this.#weightGradient("user", user)
      this.#weightGradient("item", item)
    }
    return { dUser, dItem, queueRest }
  }

  #weightGradient(side: Side, p: { dHalf: Address; normalised: Address; rows: number; columns: number }): void {
    this.#kernels.multiply({
      out: this.#weight(side).gradient,
      left: p.dHalf,
      right: p.normalised,
      rows: this.halfWidth,
      columns: p.columns,
      inner: p.rows,
      transposeLeft: true,
    })
  }

  #halfBackward(
    side: Side,
    p: {
      dHalf: Address
      normalised: Address
      vectors: Address
      rows: number
      weights: Address
      total: number
      columns: number
    },
  ): Address {
    const k = this.#kernels
    const { rows, columns, weights, total } = p
    const weight = this.#weight(side)
    const dNormalised = k.allocate(rows * columns)
    const dVectors = k.allocate(rows * columns)
    k.multiply({ out: dNormalised, left: p.dHalf, right: weight.value, rows, columns, inner: this.halfWidth })
    const offset = side === "user" ? 0 : this.#width
    k.normalizeBackward({
      dInput: dVectors,
      dGamma: this.inputNorm.gammaParameter.gradient + offset,
      dBeta: this.inputNorm.betaParameter.gradient + offset,
      dOut: dNormalised,
      input: p.vectors,
      out: p.normalised,
      norm: this.#sideNorm(side),
      weights,
      total,
      rows,
      columns,
      tanh: false,
    })
    return dVectors
  }

  half(side: Side, vectors: Address, rows: number): Address {
    return this.#halfOf(side, vectors, { rows, weights: NONE, total: rows, training: false }).half
  }

  logits(pairs: Pairs, keep?: "keep"): { logits: Address; kept: Address } {
    const k = this.#kernels
    const logits = k.allocate(pairs.pairs * this.outputs)
    const kept = keep ? k.allocate(pairs.pairs * this.halfWidth) : NONE
    k.hiddenInfer({
      ...this.#hidden(pairs, pairs.user, pairs.item),
      logits,
      activation: kept,
      weight: this.outputWeight.value,
      outputBias: this.outputBias.value,
      outputs: this.outputs,
    })
    return { logits, kept }
  }

  /** Queues e^{2y} of one side's halves, at `out`; returns where the largest |y| of every column will stand. */
  #powers(side: Side, p: { half: Address; rows: number; out: Address; limit: number }): Address {
    const k = this.#kernels
    const largest = k.allocate(this.halfWidth)
    const bias = side === "item" ? this.hiddenBias.value : NONE
    k.hiddenPowers({ ...p, largest, bias, norm: this.hiddenNorm, columns: this.halfWidth })
    return largest
  }

  candidates({ half, rows, out }: { half: Address; rows: number; out: Address }): Candidates {
    const k = this.#kernels
    const count = rows * this.halfWidth
    const largest = this.#powers("item", { half, rows, out, limit: ITEM_LIMIT })
    k.run()
    const safe = k.floats.subarray(largest, largest + this.halfWidth).every((y) => y <= ITEM_LIMIT)
    return safe ? { items: out, rows, powers: true } : keepHalves(k, { half, rows, out, count })
  }

  scores(user: Address, candidates: Candidates): Address {
    const k = this.#kernels
    const { items, rows, powers } = candidates
    const { outputs, halfWidth: columns } = this
    if (!powers) return this.logits(pairsOf(k, { user, candidates, columns })).logits
    const own = k.allocate(columns)
    const scores = k.allocate(rows * outputs)
    this.#powers("user", { half: user, rows: 1, out: own, limit: USER_LIMIT })
    const [weight, outputBias] = [this.outputWeight.value, this.outputBias.value]
    k.hiddenScores({ scores, user: own, items, weight, outputBias, rows, columns, outputs })
    return scores
  }

  gradient(request: HalfGradient): Address {
    const k = this.#kernels
    const { side, rows, kept, dLogits, rowIndex } = request
    const dHidden = k.allocate(rows * this.halfWidth)
    const dVectors = k.allocate(rows * this.#width)
    k.hiddenInferGradient({
      out: dHidden,
      dLogits,
      activation: kept,
      rowIndex,
      weight: this.outputWeight.value,
      norm: this.hiddenNorm,
      rows,
      columns: this.halfWidth,
      outputs: this.outputs,
    })
    k.multiply({
      out: dVectors,
      left: dHidden,
      right: this.#weight(side).value,
      rows,
      columns: this.#width,
      inner: this.halfWidth,
    })
    const norm = this.#sideNorm(side)
    k.normalizeGradient({
      out: dVectors,
      dOut: dVectors,
      norm,
      activation: NONE,
      index: NONE,
      rows,
      columns: this.#width,
    })
    return dVectors
  }
}
