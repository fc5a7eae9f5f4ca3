/**
 * The soft sum of DARTS and AutoEmb (method.md §8): every id holds a slice of each size and a mixture over them.
 *
 *   T_i = W_i·e_i + b_i        W_i: s_n × s_i, its own for each size
 *   vector = Σ_i p_i·tanh(norm(T_i)),   p = softmax(one number per size and id)
 *
 * One side norm is shared by all sizes: its statistics are those of all transformed slices of the batch together, so
 * that training and inference mean the same.
 */

import type { Address, Kernels } from "../../kernels/kernels.ts"
import type { AdamOptions, NormParameter, Parameter, Parameters } from "../../kernels/parameters.ts"
import type { Side } from "../../types.ts"
import { checkSizes, EmbeddingTable } from "../embedding-table.ts"
import type { Distinct } from "./distinct.ts"
import {
  commitRows,
  type EmbeddingInput,
  type Placed,
  placeCounts,
  placeRows,
  type RowGroup,
  stepRows,
} from "./input.ts"

export interface MixturePlaced extends Placed {
  /** The rows slice by slice [count×size]. */
  slices: Address[]
  /** All transformed slices, size by size [count×width] each, before and after norm and tanh. */
  transformed: Address
  activated: Address
  /** Each distinct id's count, repeated for every size. */
  stackedWeights: Address
  /** Numbers, softmax and gradient of the mixtures [count×sizes]. */
  logits: Address
  shares: Address
  dLogits: Address
  /** The whole rows [count×Σsizes], on their way through an optimizer step. */
  group: RowGroup
  mixtures: RowGroup
}

export interface MixtureOptions {
  side: Side
  sizes: readonly number[]
  seed: string
  precision: "single" | "double"
}

export class Mixture implements EmbeddingInput<MixturePlaced> {
  readonly table: EmbeddingTable
  readonly tables: readonly EmbeddingTable[]
  /** One free number per size and id; their softmax is the id's mixture. Uniform at first. */
  readonly mixtures: EmbeddingTable
  readonly width: number
  readonly sizes: readonly number[]
  readonly norm: NormParameter
  readonly maps: { weight: Parameter; bias: Parameter }[]
  readonly #kernels: Kernels
  readonly #total: number

  constructor(kernels: Kernels, parameters: Parameters, options: MixtureOptions) {
    const { side, sizes, seed, precision } = options
    checkSizes(sizes)
    this.#kernels = kernels
    this.sizes = sizes
    this.width = sizes[sizes.length - 1]
    this.#total = sizes.reduce((sum, size) => sum + size, 0)
    this.table = new EmbeddingTable({ sizes: [this.#total], seed, precision })
    this.mixtures = new EmbeddingTable({ sizes: [sizes.length], seed, deviation: 0, precision })
    this.tables = [this.table, this.mixtures]
    this.maps = sizes.map((size, i) => {
      const initial = { uniform: Math.max(1, size) }
      return {
        weight: parameters.declare(`${side}.slices.${i}.weight`, { rows: this.width, columns: size }, initial),
        bias: parameters.declare(`${side}.slices.${i}.bias`, { rows: 1, columns: this.width }, initial),
      }
    })
    this.norm = parameters.declareNorm(`${side}.norm`, this.width)
  }

  place(distinct: Distinct, training = false): MixturePlaced {
    const k = this.#kernels
    const placed = placeCounts(k, distinct)
    const { count } = placed
    const parts = this.sizes.length
    const value = k.allocate(count * this.#total)
    const slices = this.sizes.map((size) => k.allocate(count * size))
    const transformed = k.allocate(parts * count * this.width)
    const activated = k.allocate(parts * count * this.width)
    const stackedWeights = k.allocate(parts * count)
    const logits = k.allocate(count * parts)
    const shares = k.allocate(count * parts)
    const dLogits = k.allocate(count * parts)
    const f = k.floats
    for (const id of distinct.ids) this.mixtures.ensure(id)
    const all = { ids: distinct.ids, from: 0, to: count }
    const group = placeRows(k, { table: this.table, ...all, value }, training)
    const mixtures = placeRows(k, { table: this.mixtures, ...all, value: logits }, training)
    let offset = value
    this.sizes.forEach((columns, i) => {
      k.copyRows({ out: slices[i], input: offset, rows: count, columns, inputStride: this.#total })
      offset += columns
    })
    for (let i = 0; i < parts; i++) f.set(distinct.counts, stackedWeights + i * count)
    return { ...placed, slices, transformed, activated, stackedWeights, logits, shares, dLogits, group, mixtures }
  }

  #stack(placed: MixturePlaced): { weights: Address; total: number; rows: number; columns: number } {
    const parts = this.sizes.length
    return {
      weights: placed.stackedWeights,
      total: parts * placed.total,
      rows: parts * placed.count,
      columns: this.width,
    }
  }

  forward(placed: MixturePlaced, training: boolean): Address {
    const k = this.#kernels
    const { count, transformed, activated, slices, shares, logits } = placed
    const { width } = this
    const out = k.allocate(count * width)
    this.sizes.forEach((inner, i) => {
      const { weight, bias } = this.maps[i]
      const block = transformed + i * count * width
      k.multiply({
        out: block,
        left: slices[i],
        right: weight.value,
        rows: count,
        columns: width,
        inner,
        transposeRight: true,
        bias: bias.value,
      })
    })
    k.normalize({ out: activated, input: transformed, norm: this.norm, ...this.#stack(placed), training, tanh: true })
    k.mix({ out, shares, logits, parts: activated, count: this.sizes.length, rows: count, columns: width })
    return out
  }

  backward(placed: MixturePlaced, dVectors: Address): void {
    const k = this.#kernels
    const { count, transformed, activated, slices, shares, dLogits } = placed
    const { width } = this
    const parts = this.sizes.length
    const dActivated = k.allocate(parts * count * width)
    const dTransformed = k.allocate(parts * count * width)
    const dSlices = this.sizes.map((size) => k.allocate(count * size))
    placed.group.gradient = k.allocate(count * this.#total)
    k.mixBackward({
      dParts: dActivated,
      dLogits,
      dOut: dVectors,
      shares,
      parts: activated,
      count: parts,
      rows: count,
      columns: width,
    })
    k.normalizeBackward({
      dInput: dTransformed,
      dGamma: this.norm.gammaParameter.gradient,
      dBeta: this.norm.betaParameter.gradient,
      dOut: dActivated,
      input: transformed,
      out: activated,
      norm: this.norm,
      ...this.#stack(placed),
      tanh: true,
    })
    this.sizes.forEach((size, i) => {
      const { weight, bias } = this.maps[i]
      const block = dTransformed + i * count * width
      k.multiply({
        out: weight.gradient,
        left: block,
        right: slices[i],
        rows: width,
        columns: size,
        inner: count,
        transposeLeft: true,
      })
      k.columnSums({ out: bias.gradient, input: block, rows: count, columns: width })
      k.multiply({ out: dSlices[i], left: block, right: weight.value, rows: count, columns: size, inner: width })
    })
    let offset = placed.group.gradient
    this.sizes.forEach((columns, i) => {
      k.copyRows({ out: offset, input: dSlices[i], rows: count, columns, outStride: this.#total })
      offset += columns
    })
    placed.mixtures.gradient = dLogits
  }

  step(placed: MixturePlaced, adam: AdamOptions): void {
    stepRows(this.#kernels, { table: this.table, ids: placed.distinct.ids, group: placed.group }, adam)
  }

  commit(placed: MixturePlaced): void {
    commitRows(this.#kernels, { table: this.table, ids: placed.distinct.ids, group: placed.group })
  }

  rowGradient(placed: MixturePlaced, d: number): Address {
    return placed.group.gradient + d * this.#total
  }

  /** One Adam step on the batch's mixtures, from the gradient of the last backward pass. */
  stepMixtures(placed: MixturePlaced, adam: AdamOptions): void {
    const rows = { table: this.mixtures, ids: placed.distinct.ids, group: placed.mixtures }
    stepRows(this.#kernels, rows, adam)
    this.#kernels.run()
    commitRows(this.#kernels, rows)
  }
}
