/**
 * The MF and distance heads (method.md §2): one score per pair, then a learnable scale and bias per output.
 *
 *   mf:       score = ⟨û, î⟩ / √s_n        distance: score = −‖û − î‖² / s_n
 *   logit_k = scale_k·score + bias_k
 */

import type { Address, Kernels, Metric, Pairs } from "../../kernels/kernels.ts"
import type { Parameter, Parameters } from "../../kernels/parameters.ts"
import type { Side } from "../../types.ts"
import { type Candidates, type HalfGradient, type Head, type HeadBatch, keepHalves, pairsOf } from "./head.ts"

export class MetricHead implements Head {
  readonly kind: "mf" | "distance"
  readonly outputs: number
  readonly halfWidth: number
  readonly scale: Parameter
  readonly bias: Parameter
  readonly #kernels: Kernels
  readonly #metric: Metric
  readonly #factor: number

  constructor(
    kernels: Kernels,
    parameters: Parameters,
    options: { kind: "mf" | "distance"; width: number; outputs: number },
  ) {
    const { kind, width, outputs } = options
    this.kind = kind
    this.#kernels = kernels
    this.#metric = kind === "mf" ? "dot" : "distance"
    this.#factor = kind === "mf" ? 1 / Math.sqrt(width) : 1 / width
    this.outputs = outputs
    this.halfWidth = width
    this.scale = parameters.declare("head.scale", { rows: 1, columns: outputs }, 1)
    this.bias = parameters.declare("head.bias", { rows: 1, columns: outputs }, 0)
  }

  #form(): { metric: Metric; factor: number } {
    return { metric: this.#metric, factor: this.#factor }
  }

  logits(pairs: Pairs): { logits: Address; kept: Address } {
    const k = this.#kernels
    const scores = k.allocate(pairs.pairs)
    const logits = k.allocate(pairs.pairs * this.outputs)
    k.pairScore({ ...pairs, ...this.#form(), out: scores })
    k.project({
      out: logits,
      input: scores,
      weight: this.scale.value,
      bias: this.bias.value,
      rows: pairs.pairs,
      columns: 1,
      outputs: this.outputs,
    })
    return { logits, kept: scores }
  }

  forward(batch: HeadBatch): Address {
    const { logits, kept } = this.logits(batch)
    batch.kept = [kept]
    return logits
  }

  #dScores(dLogits: Address, pairs: number): Address {
    const k = this.#kernels
    const dScores = k.allocate(pairs)
    k.multiply({ out: dScores, left: dLogits, right: this.scale.value, rows: pairs, columns: 1, inner: this.outputs })
    return dScores
  }

  backward(batch: HeadBatch, dLogits: Address): { dUser: Address; dItem: Address } {
    const k = this.#kernels
    const dUser = k.allocate(batch.users * this.halfWidth)
    const dItem = k.allocate(batch.items * this.halfWidth)
    k.multiply({
      out: this.scale.gradient,
      left: dLogits,
      right: batch.kept[0],
      rows: this.outputs,
      columns: 1,
      inner: batch.pairs,
      transposeLeft: true,
    })
    k.columnSums({ out: this.bias.gradient, input: dLogits, rows: batch.pairs, columns: this.outputs })
    const dScores = this.#dScores(dLogits, batch.pairs)
    const { user, item, userIndex, itemIndex, pairs, columns, users, items } = batch
    k.pairScoreBackward({
      user,
      item,
      userIndex,
      itemIndex,
      pairs,
      columns,
      ...this.#form(),
      dUser,
      dItem,
      dScores,
      users,
      items,
    })
    return { dUser, dItem }
  }

  half(_side: Side, vectors: Address): Address {
    return vectors
  }

  candidates({ half, rows, out }: { half: Address; rows: number; out: Address }): Candidates {
    return keepHalves(this.#kernels, { half, rows, out, count: rows * this.halfWidth })
  }

  scores(user: Address, candidates: Candidates): Address {
    return this.logits(pairsOf(this.#kernels, { user, candidates, columns: this.halfWidth })).logits
  }

  gradient(request: HalfGradient): Address {
    const { side, pairs, dLogits, rowIndex, rows } = request
    const dScores = this.#dScores(dLogits, pairs.pairs)
    const out = this.#kernels.allocate(rows * this.halfWidth)
    this.#kernels.pairScoreGradient({ ...pairs, ...this.#form(), out, dScores, rowIndex, rows, side })
    return out
  }
}
