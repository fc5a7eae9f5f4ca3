/**
 * One arm of non-stationary LinUCB (lin-ucb.ts) for the rewards of a rung, made to learn many rows at once: evidence is
 * summed, the sums are added and discounted together, and the estimate is made when a bound is asked for.
 *
 *   V ← κV + (1−κ)λI + Σxxᵀ    Ṽ ← κ²Ṽ + (1−κ²)λI + Σxxᵀ    b ← κb + Σrx    w ← κ²w + n    κ = γⁿ for n rows
 *   UCB = xᵀθ + u·β·√(xᵀV⁻¹ṼV⁻¹x)    θ = V⁻¹b    β as in lin-ucb.ts
 *
 * Rewards count in u, the root mean square of recent ones: σ is a share of it.
 */

import { exp, log } from "../kernels/math.ts"
import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { State } from "../kernels/state.ts"
import { confidenceRadius } from "./lin-ucb.ts"

const RIDGE = 0.1
const CONFIDENCE = 0.01
/** The root mean square of rewards is taken for `prior` until this many rows say otherwise. */
const PRIOR_ROWS = 20
/** No count of rows of another process is larger. */
const MOST = 1e12

export interface RungBanditOptions {
  /** Coordinates of a context. */
  dimension: number
  /** γ, per row. */
  discount: number
  /** σ, in root mean squares of the rewards. */
  subgaussian: number
  /** A first guess of their root mean square. */
  prior: number
}

/** Sums over rows: places in one array of doubles. Matrices are symmetric: row by row up to the diagonal. */
const ROWS = 0
const SQUARES = 1
const RESPONSE = 2

export class RungBandit {
  readonly #options: RungBanditOptions
  /** What β is made of. */
  readonly #beta: Parameters<typeof confidenceRadius>[0]
  readonly #dimension: number
  /** Where Σxxᵀ starts among the sums. */
  readonly #gramAt: number
  /** Rows and Σr², discounted; b; V. */
  readonly #known: Float64Array
  readonly #gramSquared: Float64Array
  /** w */
  #weight = 0
  /** Not yet added. */
  readonly #fresh: Float64Array
  /** Added since evidence was last written, where that is asked for. */
  #since: Float64Array | undefined
  /** V's factor, the diagonal as its reciprocal; θ; what follows. Made again where something was learned. */
  #isEstimated = false
  readonly #factor: Float64Array
  readonly #theta: Float64Array
  /** (u·β)²·V⁻¹ṼV⁻¹ */
  readonly #width: Float64Array
  readonly #solved: Float64Array
  /** u·β·V⁻¹ */
  readonly #inverse: Float64Array

  constructor(options: RungBanditOptions) {
    const { dimension: d } = options
    this.#options = options
    const { subgaussian, discount } = options
    const bounds = { confidence: CONFIDENCE, parameterBound: 1, contextBound: 1 }
    this.#beta = { dimension: d, subgaussian, discount, ridge: RIDGE, ...bounds }
    this.#dimension = d
    this.#gramAt = RESPONSE + d
    const length = this.#gramAt + (d * (d + 1)) / 2
    this.#known = new Float64Array(length)
    this.#gramSquared = new Float64Array(length - this.#gramAt)
    this.#fresh = new Float64Array(length)
    this.#factor = new Float64Array(d * d)
    this.#theta = new Float64Array(d)
    this.#width = new Float64Array(d * d)
    this.#solved = new Float64Array(d)
    this.#inverse = new Float64Array(d * d)
    this.#addRidge(RIDGE, RIDGE)
  }

  /** Notes the reward of a row with the context at `x[offset …]`; it counts from the next `learn` on. */
  note(x: Float64Array, offset: number, reward: number): void {
    const fresh = this.#fresh
    const d = this.#dimension
    let at = this.#gramAt
    fresh[ROWS]++
    fresh[SQUARES] += reward * reward
    for (let i = 0; i < d; i++) {
      const xi = x[offset + i]
      fresh[RESPONSE + i] += reward * xi
      for (let j = 0; j <= i; j++) fresh[at++] += xi * x[offset + j]
    }
  }

  /** Learns what was noted, all of it at once: the rows of a round are discounted together, as others that are told of them will. */
  learn(): void {
    const fresh = this.#fresh
    if (fresh[ROWS] === 0) return
    this.#add(fresh)
    const since = this.#since
    if (since) for (let k = 0; k < fresh.length; k++) since[k] += fresh[k]
    fresh.fill(0)
  }

  #add(sums: Float64Array): void {
    const [known, gramSquared] = [this.#known, this.#gramSquared]
    const kept = exp(sums[ROWS] * log(this.#options.discount))
    for (let k = 0; k < known.length; k++) known[k] = kept * known[k] + sums[k]
    for (let k = 0; k < gramSquared.length; k++) gramSquared[k] = kept * kept * gramSquared[k] + sums[this.#gramAt + k]
    this.#addRidge((1 - kept) * RIDGE, (1 - kept * kept) * RIDGE)
    this.#weight = kept * kept * this.#weight + sums[ROWS]
    this.#isEstimated = false
  }

  #addRidge(ridge: number, ridgeSquared: number): void {
    for (let i = 0, at = 0; i < this.#dimension; i++) {
      at += i
      this.#known[this.#gramAt + at + i] += ridge
      this.#gramSquared[at + i] += ridgeSquared
    }
  }

  /** UCB of the context at `x[offset …]`. */
  bound(x: Float64Array, offset: number): number {
    const mean = this.mean(x, offset)
    const [width, d] = [this.#width, this.#dimension]
    let square = 0
    for (let i = 0, at = 0; i < d; i++) {
      let sum = 0
      for (let j = 0; j < d; j++) sum += width[at++] * x[offset + j]
      square += x[offset + i] * sum
    }
    return mean + Math.sqrt(Math.max(0, square))
  }

  /** xᵀθ */
  mean(x: Float64Array, offset: number): number {
    this.learn()
    if (!this.#isEstimated) this.#estimate()
    let mean = 0
    for (let i = 0; i < this.#dimension; i++) mean += this.#theta[i] * x[offset + i]
    return mean
  }

  #estimate(): void {
    const [known, factor, d] = [this.#known, this.#factor, this.#dimension]
    for (let i = 0, at = this.#gramAt; i < d; i++) {
      for (let j = 0; j < i; j++) {
        let sum = known[at++]
        for (let k = 0; k < j; k++) sum -= factor[i * d + k] * factor[j * d + k]
        factor[i * d + j] = sum * factor[j * d + j]
      }
      let pivot = known[at++]
      for (let k = 0; k < i; k++) pivot -= factor[i * d + k] * factor[i * d + k]
      factor[i * d + i] = 1 / Math.sqrt(pivot)
    }
    for (let i = 0; i < d; i++) this.#solved[i] = known[RESPONSE + i]
    this.#solve()
    this.#theta.set(this.#solved)
    const { prior } = this.#options
    const unit = Math.sqrt((known[SQUARES] + PRIOR_ROWS * prior * prior) / (known[ROWS] + PRIOR_ROWS))
    this.#widen(unit * confidenceRadius(this.#beta, this.#weight))
    this.#isEstimated = true
  }

  /** (u·β)²·V⁻¹ṼV⁻¹: column by column of V⁻¹, which is symmetric. */
  #widen(radius: number): void {
    const [inverse, width, y, d] = [this.#inverse, this.#width, this.#solved, this.#dimension]
    for (let i = 0; i < d; i++) {
      y.fill(0)
      y[i] = radius
      this.#solve()
      inverse.set(y, i * d)
    }
    for (let i = 0; i < d; i++)
      for (let j = 0; j < d; j++) {
        let sum = 0
        for (let k = 0, at = 0; k < d; k++)
          for (let l = 0; l <= k; l++, at++) {
            const product = inverse[i * d + k] * inverse[j * d + l]
            sum += this.#gramSquared[at] * (l === k ? product : product + inverse[i * d + l] * inverse[j * d + k])
          }
        width[i * d + j] = sum
      }
  }

  /** y ← V⁻¹y */
  #solve(): void {
    const [factor, y, d] = [this.#factor, this.#solved, this.#dimension]
    for (let i = 0; i < d; i++) {
      let sum = y[i]
      for (let k = 0; k < i; k++) sum -= factor[i * d + k] * y[k]
      y[i] = sum * factor[i * d + i]
    }
    for (let i = d - 1; i >= 0; i--) {
      const solved = y[i] * factor[i * d + i]
      y[i] = solved
      for (let k = 0; k < i; k++) y[k] -= factor[i * d + k] * solved
    }
  }

  /** From now on what is learned is also kept apart, for `writeEvidence`. */
  record(): void {
    this.learn()
    this.#since = new Float64Array(this.#known.length)
  }

  /** What was learned since: sums without what was known before. */
  writeEvidence(out: Packer): void {
    this.learn()
    const since = this.#since ?? new Float64Array(1)
    out.count(since[ROWS])
    if (since[ROWS] > 0) for (let k = 1; k < since.length; k++) out.double(since[k])
    since.fill(0)
  }

  /** Reads it; the result learns it, after all that is known. */
  readEvidence(from: Unpacker): () => void {
    const rows = from.count()
    if (rows === 0) return () => {}
    const sums = new Float64Array(this.#known.length)
    sums[ROWS] = rows
    sums.set(from.doubles(sums.length - 1), 1)
    this.#check(from, sums, sums.subarray(this.#gramAt))
    return () => {
      this.learn()
      this.#add(sums)
    }
  }

  /** All that is known, in doubles. */
  writeAll(out: Packer): void {
    this.learn()
    out.double(this.#weight)
    for (const value of this.#known) out.double(value)
    for (const value of this.#gramSquared) out.double(value)
  }

  readAll(from: Unpacker): () => void {
    const weight = from.double()
    const known = from.doubles(this.#known.length)
    const gramSquared = from.doubles(this.#gramSquared.length)
    if (!(weight >= 0 && weight <= MOST)) throw from.damaged("a weight from 0", weight)
    this.#check(from, known, known.subarray(this.#gramAt))
    this.#check(from, known, gramSquared)
    return () => this.#restore(weight, known, gramSquared)
  }

  /** Refuses what cannot be sums over rows. */
  #check(from: Unpacker, sums: Float64Array, gram: Float64Array): void {
    const [rows, squares] = [sums[ROWS], sums[SQUARES]]
    if (!(rows >= 0 && rows <= MOST && squares >= 0)) throw from.damaged("rows and squares from 0", [rows, squares])
    const diagonal = (i: number) => gram[(i * (i + 1)) / 2 + i]
    for (let i = 0, at = 0; i < this.#dimension; i++)
      for (let j = 0; j <= i; j++) {
        const value = gram[at++]
        if (!(diagonal(i) >= 0 && value * value <= diagonal(i) * diagonal(j) * (1 + 1e-6)))
          throw from.damaged("a matrix of sums of products", value)
      }
  }

  #restore(weight: number, known: Float64Array, gramSquared: Float64Array): void {
    this.#fresh.fill(0)
    this.#weight = weight
    this.#known.set(known)
    this.#gramSquared.set(gramSquared)
    this.#isEstimated = false
  }

  save(state: State): void {
    this.learn()
    state.put("weight", Float64Array.of(this.#weight))
    state.put("known", this.#known)
    state.put("gramSquared", this.#gramSquared)
  }

  load(state: State): void {
    const [weight] = state.take("weight", Float64Array)
    this.#restore(weight, state.take("known", Float64Array), state.take("gramSquared", Float64Array))
  }
}
