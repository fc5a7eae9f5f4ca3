/**
 * What the paper proves about the bandit: Theorem 1, Corollary 1 and its rate, as printed.
 *
 *   L   length                B   variation: Σ_l max_a ‖θ*_{l+1,a} − θ*_{l,a}‖ (or a bound on it)
 *   d   dimension             k   largest, c   smallest value of ⟨x, θ⟩
 *   D   window: how far back the proof looks
 *
 * The theorem needs c > 0 and the estimator of `forget: "all"`; k/c makes it very loose, so it is a yardstick for
 * growth in L, never a value to expect. (Lemma 1 and 2 print L² where the proof uses U².)
 */

import { DessError, show } from "../errors.ts"
import { exp, log } from "../kernels/math.ts"
import { confidenceRadius } from "./lin-ucb.ts"

export interface RegretBoundOptions {
  length: number
  dimension: number
  discount: number
  variation: number
  /** k */
  largestReward: number
  /** c */
  smallestReward: number
  /** D; by default ⌈ln L/(1−γ)⌉, the choice of Corollary 1's proof. */
  window?: number
  ridge?: number
  confidence?: number
  parameterBound?: number
  contextBound?: number
  subgaussian?: number
}

/** The three parts of the bound and their sum. */
export interface RegretBound {
  /** From the width of the confidence ellipsoid. */
  estimation: number
  /** From what is older than the window. */
  forgotten: number
  /** From the drift inside the window. */
  drift: number
  total: number
}

/** Corollary 1: γ = 1 − (B/(√d·L))^{2/5}. */
export function discountFor(variation: number, dimension: number, length: number): number {
  checkStream(variation, dimension, length)
  const ratio = variation / (Math.sqrt(dimension) * length)
  if (ratio >= 1) {
    throw new DessError(
      "INVALID_ARGUMENT",
      `variation: expected less than √dimension·length = ${Math.sqrt(dimension) * length}, got ${show(variation)}`,
    )
  }
  return 1 - realPower(ratio, 2 / 5)
}

/** Corollary 1: the regret grows like d^{9/10}·B^{1/5}·L^{4/5}, up to constants and logarithms. */
export function regretRate(variation: number, dimension: number, length: number): number {
  checkStream(variation, dimension, length)
  return realPower(dimension, 9 / 10) * realPower(variation, 1 / 5) * realPower(length, 4 / 5)
}

/** Theorem 1. */
export function regretBound(options: RegretBoundOptions): RegretBound {
  const { length: L, dimension: d, discount: gamma, variation: B, largestReward: k, smallestReward: c } = options
  const { ridge = 0.1, confidence = 0.01, parameterBound: S = 1, contextBound: U = 1, subgaussian = 0.5 } = options
  checkStream(B, d, L)
  if (!(gamma > 0 && gamma < 1)) {
    throw new DessError("INVALID_ARGUMENT", `discount: expected a number between 0 and 1, got ${show(gamma)}`)
  }
  if (!(c > 0 && k >= c && k < Number.POSITIVE_INFINITY)) {
    throw new DessError(
      "INVALID_ARGUMENT",
      `rewards: expected 0 < smallestReward ≤ largestReward, got ${show(c)} and ${show(k)}`,
    )
  }
  const window = options.window ?? Math.max(1, Math.ceil(log(L) / (1 - gamma)))
  if (!Number.isInteger(window) || window < 1) {
    throw new DessError("INVALID_ARGUMENT", `window: expected a whole number from 1, got ${show(window)}`)
  }
  const lost = 1 - gamma
  const weight = (1 - realPower(gamma, 2 * L)) / (1 - gamma * gamma)
  const beta = confidenceRadius(
    { dimension: d, ridge, confidence, parameterBound: S, contextBound: U, subgaussian, discount: gamma },
    weight,
  )
  const spread = -L * log(gamma) + log(1 + (U * U * (1 - realPower(gamma, L))) / (ridge * d * lost))
  const estimation = ((Math.sqrt(32 * Math.max(1, (U * U) / ridge)) * k) / c) * beta * Math.sqrt(d * L * spread)
  const old = (8 * k * k * S * U * U * U * realPower(gamma, window) * L) / (c * ridge * lost)
  const forgotten = old * (1 + U / Math.sqrt(ridge * lost))
  const shift = ((4 * k * k * U * window) / c) * Math.sqrt(d / (ridge * lost)) * B
  const drift = shift * (1 + U / Math.sqrt(ridge * lost))
  return { estimation, forgotten, drift, total: estimation + forgotten + drift }
}

/** x^a for x ≥ 0 and any a > 0. */
function realPower(x: number, a: number): number {
  return x === 0 ? 0 : exp(a * log(x))
}

function checkStream(variation: number, dimension: number, length: number): void {
  if (!(variation >= 0 && variation < Number.POSITIVE_INFINITY)) {
    throw new DessError("INVALID_ARGUMENT", `variation: expected a number from 0, got ${show(variation)}`)
  }
  if (!Number.isInteger(dimension) || dimension < 1) {
    throw new DessError("INVALID_ARGUMENT", `dimension: expected a whole number from 1, got ${show(dimension)}`)
  }
  if (!Number.isInteger(length) || length < 1) {
    throw new DessError("INVALID_ARGUMENT", `length: expected a whole number from 1, got ${show(length)}`)
  }
}
