/**
 * Non-stationary LinUCB with disjoint arms (method §5; Algorithm 1 of the paper).
 *
 *   x   context of dimension d, ‖x‖ ≤ U          λ   ridge              S   parameterBound    γ   discount
 *   r   reward                                   δ   confidence         U   contextBound      σ   subgaussian
 *   l   updates made so far, all arms together
 *
 *   V ← γV + hit·xxᵀ + (1−γ)λI      Ṽ ← γ²Ṽ + hit·xxᵀ + (1−γ²)λI      b ← γb + hit·r·x      θ = V⁻¹b
 *   β_l = √λ·S + σ·√(2·ln(1/δ) + d·ln(1 + U²·w_l/(λd)))      w_l = (1−γ^{2l})/(1−γ²), kept up as w ← γ²w + 1
 *   UCB = xᵀθ + β_l·√(xᵀV⁻¹ṼV⁻¹x)
 *
 * Ṽ has its own recursion: taking it from V makes the widths about 1.4 times too large.
 * V is factored again after every update (the ridge is topped up each time, so no rank-one formula holds) and V⁻¹ never
 * formed: y = V⁻¹x is two substitutions, the width √(yᵀṼy).
 */

import { DessError, show } from "../errors.ts"
import { exp, log } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"

export interface LinUcbOptions {
  /** d: coordinates of a context. */
  dimension: number
  /** σ: how noisy a reward is. */
  subgaussian: number
  /** γ in (0, 1]: what a past observation keeps of its weight per update. */
  discount: number
  /** "selected" discounts only the arm played (the letter of Algorithm 1), "all" every arm (what its theory assumes). */
  forget: "selected" | "all"
  arms?: number
  /** λ */
  ridge?: number
  /** δ: the probability with which the bound may fail. */
  confidence?: number
  /** S */
  parameterBound?: number
  /** U */
  contextBound?: number
}

/** Everything a bandit has learned; plain data. */
export interface LinUcbState {
  updates: number
  /** w_l */
  weight: number
  /** V and Ṽ arm by arm, row-major, and b arm by arm. */
  gram: Float64Array
  gramSquared: Float64Array
  response: Float64Array
}

/** What a bandit learned since some time: as its state, from 0 and without the ridge; how often each arm was discounted. */
export interface BanditEvidence extends LinUcbState {
  steps: Float64Array
}

/** β after `weight` = w_l = Σ_{k<l} γ^{2k}. */
export function confidenceRadius(options: Required<Omit<LinUcbOptions, "arms" | "forget">>, weight: number): number {
  const { dimension, ridge, confidence, parameterBound, contextBound, subgaussian } = options
  const spread = dimension * log(1 + (contextBound * contextBound * weight) / (ridge * dimension))
  return Math.sqrt(ridge) * parameterBound + subgaussian * Math.sqrt(-2 * log(confidence) + spread)
}

export class LinUcb {
  readonly dimension: number
  readonly arms: number
  readonly #options: Required<LinUcbOptions>

  #updates = 0
  #weight = 0
  #beta = 0
  /** V, Ṽ and V's factor: one d × d block per arm; b and θ: one row per arm. */
  readonly #gram: Float64Array
  readonly #gramSquared: Float64Array
  readonly #factor: Float64Array
  readonly #response: Float64Array
  readonly #theta: Float64Array
  readonly #solved: Float64Array
  #since: BanditEvidence | undefined

  constructor(options: LinUcbOptions) {
    const complete = {
      arms: 2,
      ridge: 0.1,
      confidence: 0.01,
      parameterBound: 1,
      contextBound: 1,
      ...options,
    }
    checkOptions(complete)
    const { dimension, arms, ridge } = complete
    this.#options = complete
    this.dimension = dimension
    this.arms = arms
    const block = dimension * dimension
    this.#gram = new Float64Array(arms * block)
    this.#gramSquared = new Float64Array(arms * block)
    this.#factor = new Float64Array(arms * block)
    this.#response = new Float64Array(arms * dimension)
    this.#theta = new Float64Array(arms * dimension)
    this.#solved = new Float64Array(dimension)
    for (let arm = 0; arm < arms; arm++) {
      for (let i = 0; i < dimension; i++) {
        this.#gram[arm * block + i * dimension + i] = ridge
        this.#gramSquared[arm * block + i * dimension + i] = ridge
      }
      this.#estimate(arm)
    }
    this.#beta = confidenceRadius(complete, 0)
  }

  /** l: updates made so far. */
  get updates(): number {
    return this.#updates
  }

  /** β_l, the factor of the width. */
  beta(): number {
    return this.#beta
  }

  /** Writes every arm's UCB for the context at `x[offset …]` to `out`. */
  scores(out: Float64Array, x: Float64Array, offset = 0): void {
    for (let arm = 0; arm < this.arms; arm++) out[arm] = this.#score(arm, x, offset)
  }

  /** One arm's UCB where σ and S count in `unit`s: what `scores` gives for rewards divided by it, times it. */
  bound(arm: number, x: Float64Array, p: { offset: number; unit: number }): number {
    return this.#score(arm, x, p.offset, p.unit)
  }

  /** The arm with the largest UCB; of equals the first, so ties keep arm 0. */
  choose(x: Float64Array, offset = 0): number {
    let best = 0
    let bestScore = this.#score(0, x, offset)
    for (let arm = 1; arm < this.arms; arm++) {
      const score = this.#score(arm, x, offset)
      if (score > bestScore) {
        best = arm
        bestScore = score
      }
    }
    return best
  }

  /** Learns the reward of the arm played for the context at `x[offset …]`. */
  update(x: Float64Array, offset: number, arm: number, reward: number): void {
    const d = this.dimension
    if (!(arm >= 0 && arm < this.arms && Number.isInteger(arm))) {
      throw new DessError("INVALID_ARGUMENT", `arm: expected 0 to ${this.arms - 1}, got ${show(arm)}`)
    }
    let sum = reward
    for (let i = 0; i < d; i++) sum += x[offset + i]
    if (!Number.isFinite(sum)) {
      throw new DessError(
        "INVALID_ARGUMENT",
        `context and reward: expected finite numbers, got ${show([...x.subarray(offset, offset + d)])} and ${show(reward)}`,
      )
    }
    const { discount, forget } = this.#options
    if (forget === "all") {
      for (let other = 0; other < this.arms; other++) this.#forget(other)
    } else {
      this.#forget(arm)
    }
    const gram = this.#gram
    const gramSquared = this.#gramSquared
    const block = arm * d * d
    if (this.#since) this.#keep(this.#since, { x, offset, arm, reward })
    for (let i = 0; i < d; i++) {
      const xi = x[offset + i]
      for (let j = 0; j < d; j++) {
        const product = xi * x[offset + j]
        gram[block + i * d + j] += product
        gramSquared[block + i * d + j] += product
      }
      this.#response[arm * d + i] += reward * xi
    }
    if (forget === "all") {
      for (let other = 0; other < this.arms; other++) this.#estimate(other)
    } else {
      this.#estimate(arm)
    }
    this.#updates += 1
    this.#weight = discount * discount * this.#weight + 1
    this.#beta = confidenceRadius(this.#options, this.#weight)
  }

  /** Starts recording what is learned, for `takeEvidence`. */
  record(): void {
    this.#since = this.#nothing()
  }

  #nothing(): BanditEvidence {
    const { arms, dimension: d } = this
    return {
      updates: 0,
      weight: 0,
      steps: new Float64Array(arms),
      gram: new Float64Array(arms * d * d),
      gramSquared: new Float64Array(arms * d * d),
      response: new Float64Array(arms * d),
    }
  }

  /** What was learned since the last call: sums that start from 0. */
  takeEvidence(): BanditEvidence {
    const since = this.#since ?? this.#nothing()
    this.#since = this.#nothing()
    return since
  }

  /**
   * Learns what another gathered, as if its updates had been made here, one after the other, after all that is known:
   * V ← γⁿV + (1−γⁿ)λI + ΔV, and alike for the others.
   */
  addEvidence(evidence: BanditEvidence): void {
    const { dimension: d, discount, ridge } = this.#options
    const logDiscount = log(discount)
    for (let arm = 0; arm < this.arms; arm++) {
      const n = evidence.steps[arm]
      if (n === 0) continue
      const kept = exp(n * logDiscount)
      const keptSquared = exp(2 * n * logDiscount)
      for (let k = arm * d * d; k < (arm + 1) * d * d; k++) {
        this.#gram[k] = kept * this.#gram[k] + evidence.gram[k]
        this.#gramSquared[k] = keptSquared * this.#gramSquared[k] + evidence.gramSquared[k]
      }
      for (let i = 0; i < d; i++) {
        this.#gram[arm * d * d + i * d + i] += (1 - kept) * ridge
        this.#gramSquared[arm * d * d + i * d + i] += (1 - keptSquared) * ridge
        this.#response[arm * d + i] = kept * this.#response[arm * d + i] + evidence.response[arm * d + i]
      }
      this.#estimate(arm)
    }
    this.#updates += evidence.updates
    this.#weight = exp(2 * evidence.updates * logDiscount) * this.#weight + evidence.weight
    this.#beta = confidenceRadius(this.#options, this.#weight)
  }

  /** θ of one arm, a copy. */
  theta(arm: number): Float64Array {
    return this.#theta.slice(arm * this.dimension, (arm + 1) * this.dimension)
  }

  /** What has been learned, a copy. */
  state(): LinUcbState {
    return {
      updates: this.#updates,
      weight: this.#weight,
      gram: this.#gram.slice(),
      gramSquared: this.#gramSquared.slice(),
      response: this.#response.slice(),
    }
  }

  /** Restores a state given by `state()` of a bandit with the same options; continues to the same bits. */
  restore(state: LinUcbState): void {
    const { updates, weight, gram, gramSquared, response } = state
    if (!Number.isInteger(updates) || updates < 0 || !Number.isFinite(weight)) {
      throw new DessError(
        "INVALID_DATA",
        `bandit state: expected a count and a weight, got ${show({ updates, weight })}`,
      )
    }
    if (
      gram.length !== this.#gram.length ||
      gramSquared.length !== this.#gramSquared.length ||
      response.length !== this.#response.length
    ) {
      throw new DessError(
        "INVALID_DATA",
        `bandit state: expected ${this.arms} arms of dimension ${this.dimension}, got ${gram.length} matrix entries and ${response.length} responses`,
      )
    }
    this.#updates = updates
    this.#weight = weight
    this.#gram.set(gram)
    this.#gramSquared.set(gramSquared)
    this.#response.set(response)
    for (let arm = 0; arm < this.arms; arm++) this.#estimate(arm)
    this.#beta = confidenceRadius(this.#options, weight)
  }

  save(state: State): void {
    const { updates, weight, gram, gramSquared, response } = this.state()
    state.set("updates", updates)
    state.put("weight", Float64Array.of(weight))
    state.put("gram", gram)
    state.put("gramSquared", gramSquared)
    state.put("response", response)
  }

  load(state: State): void {
    this.restore({
      updates: state.get<number>("updates"),
      weight: state.take("weight", Float64Array)[0],
      gram: state.take("gram", Float64Array),
      gramSquared: state.take("gramSquared", Float64Array),
      response: state.take("response", Float64Array),
    })
  }

  /** The same update for the sums kept apart, which have no ridge. */
  #keep(since: BanditEvidence, p: { x: Float64Array; offset: number; arm: number; reward: number }): void {
    const { dimension: d, discount, forget } = this.#options
    const { x, offset, arm, reward } = p
    for (let other = 0; other < this.arms; other++) {
      if (other !== arm && forget === "selected") continue
      since.steps[other]++
      for (let k = other * d * d; k < (other + 1) * d * d; k++) {
        since.gram[k] *= discount
        since.gramSquared[k] *= discount * discount
      }
      for (let i = other * d; i < (other + 1) * d; i++) since.response[i] *= discount
    }
    for (let i = 0; i < d; i++) {
      for (let j = 0; j < d; j++) {
        since.gram[arm * d * d + i * d + j] += x[offset + i] * x[offset + j]
        since.gramSquared[arm * d * d + i * d + j] += x[offset + i] * x[offset + j]
      }
      since.response[arm * d + i] += reward * x[offset + i]
    }
    since.updates++
    since.weight = discount * discount * since.weight + 1
  }

  /** xᵀθ + β·√(yᵀṼy), y = V⁻¹x */
  #score(arm: number, x: Float64Array, offset: number, unit = 1): number {
    const d = this.dimension
    const block = arm * d * d
    const theta = this.#theta
    const gramSquared = this.#gramSquared
    const y = this.#solved
    let mean = 0
    for (let i = 0; i < d; i++) {
      mean += theta[arm * d + i] * x[offset + i]
      y[i] = x[offset + i]
    }
    this.#solve(block)
    let square = 0
    for (let i = 0; i < d; i++) {
      const row = block + i * d
      // Ṽ is symmetric: twice the part left of the diagonal.
      let sum = 0
      for (let j = 0; j < i; j++) sum += gramSquared[row + j] * y[j]
      square += y[i] * (2 * sum + gramSquared[row + i] * y[i])
    }
    return mean + unit * this.#beta * Math.sqrt(Math.max(0, square))
  }

  /** One step of the discount without an observation. */
  #forget(arm: number): void {
    const { dimension: d, discount, ridge } = this.#options
    const squared = discount * discount
    const block = arm * d * d
    for (let k = 0; k < d * d; k++) {
      this.#gram[block + k] *= discount
      this.#gramSquared[block + k] *= squared
    }
    for (let i = 0; i < d; i++) {
      this.#gram[block + i * d + i] += (1 - discount) * ridge
      this.#gramSquared[block + i * d + i] += (1 - squared) * ridge
      this.#response[arm * d + i] *= discount
    }
  }

  /** V = CCᵀ, the diagonal of C kept as its reciprocal; then θ = V⁻¹b. */
  #estimate(arm: number): void {
    const d = this.dimension
    const block = arm * d * d
    const gram = this.#gram
    const factor = this.#factor
    for (let i = 0; i < d; i++) {
      const row = block + i * d
      for (let j = 0; j < i; j++) {
        const other = block + j * d
        let sum = gram[row + j]
        for (let k = 0; k < j; k++) sum -= factor[row + k] * factor[other + k]
        factor[row + j] = sum * factor[other + j]
      }
      let pivot = gram[row + i]
      for (let k = 0; k < i; k++) pivot -= factor[row + k] * factor[row + k]
      factor[row + i] = 1 / Math.sqrt(pivot)
    }
    const y = this.#solved
    for (let i = 0; i < d; i++) y[i] = this.#response[arm * d + i]
    this.#solve(block)
    for (let i = 0; i < d; i++) this.#theta[arm * d + i] = y[i]
  }

  /** y ← V⁻¹y by Cz = y, then Cᵀy = z, in place. */
  #solve(block: number): void {
    const d = this.dimension
    const factor = this.#factor
    const y = this.#solved
    for (let i = 0; i < d; i++) {
      const row = block + i * d
      let sum = y[i]
      for (let k = 0; k < i; k++) sum -= factor[row + k] * y[k]
      y[i] = sum * factor[row + i]
    }
    for (let i = d - 1; i >= 0; i--) {
      const sum = y[i] * factor[block + i * d + i]
      y[i] = sum
      for (let k = 0; k < i; k++) y[k] -= factor[block + i * d + k] * sum
    }
  }
}

function checkOptions(options: Required<LinUcbOptions>): void {
  const finite = (x: number) => Number.isFinite(x)
  check(options, "dimension", "a whole number from 1 to 64", (x) => Number.isInteger(x) && x >= 1 && x <= 64)
  check(options, "arms", "a whole number from 2", (x) => Number.isInteger(x) && x >= 2)
  check(options, "ridge", "a positive number", (x) => finite(x) && x > 0)
  check(options, "confidence", "a probability between 0 and 1", (x) => x > 0 && x < 1)
  check(options, "parameterBound", "a number from 0", (x) => finite(x) && x >= 0)
  check(options, "contextBound", "a positive number", (x) => finite(x) && x > 0)
  check(options, "subgaussian", "a number from 0", (x) => finite(x) && x >= 0)
  check(options, "discount", "a number above 0 and up to 1", (x) => x > 0 && x <= 1)
  if (options.forget !== "selected" && options.forget !== "all") {
    throw new DessError("INVALID_ARGUMENT", `bandit forget: expected "selected" or "all", got ${show(options.forget)}`)
  }
}

type NumberOption = Exclude<keyof LinUcbOptions, "forget">

function check(
  options: Required<LinUcbOptions>,
  name: NumberOption,
  wanted: string,
  holds: (value: number) => boolean,
): void {
  const value = options[name]
  if (typeof value !== "number" || !holds(value)) {
    throw new DessError("INVALID_ARGUMENT", `bandit ${name}: expected ${wanted}, got ${show(value)}`)
  }
}
