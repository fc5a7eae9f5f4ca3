/**
 * What the tables need of statistics: mean, standard deviation, paired tests over seeds, over blocks of the stream and over
 * users, and Holm's correction.
 */

import { Random } from "../kernels/random.ts"

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** Sample standard deviation (n − 1); 0 for a single value. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0
  const centre = mean(values)
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1))
}

export interface PairedTest {
  /** Mean of a − b. */
  difference: number
  t: number
  degrees: number
  /** Two-sided. */
  p: number
}

/** Paired t-test of two measurements of the same seeds, in the same order; undefined with fewer than two pairs. */
export function pairedTest(a: readonly number[], b: readonly number[]): PairedTest | undefined {
  if (a.length !== b.length || a.length < 2) return undefined
  const differences = a.map((value, i) => value - b[i])
  const difference = mean(differences)
  const degrees = a.length - 1
  const error = standardDeviation(differences) / Math.sqrt(a.length)
  // Seeds that all differ by the same amount leave no noise to compare with.
  if (error === 0) return { difference, t: difference === 0 ? 0 : difference / 0, degrees, p: difference === 0 ? 1 : 0 }
  const t = difference / error
  return { difference, t, degrees, p: studentTails(t, degrees) }
}

/** p-values as they are within a family of tests (Holm 1979): none is below its own, and the order stays. */
export function holm(ps: readonly number[]): number[] {
  const order = ps.map((_, i) => i).sort((a, b) => ps[a] - ps[b])
  const adjusted = new Array<number>(ps.length)
  let most = 0
  for (const [rank, i] of order.entries()) {
    most = Math.max(most, Math.min(1, (ps.length - rank) * ps[i]))
    adjusted[i] = most
  }
  return adjusted
}

export interface IntervalTest {
  difference: number
  /** 95 % interval of the difference. */
  low: number
  high: number
  p: number
  /** Hedges' g: the difference in standard deviations of what was paired. */
  effect: number
  /** Pairs. */
  count: number
}

const DRAWS = 2000
/** Fewer blocks or users say nothing. */
const FEWEST = 10

/**
 * Paired test along a stream: differences of consecutive pieces, each with its weight, resampled in blocks of neighbours,
 * since neighbours are alike (circular moving blocks of ∛n, 2,000 draws, seeded).
 */
export function blockTest(differences: readonly number[], weights: readonly number[]): IntervalTest | undefined {
  const n = differences.length
  if (n < FEWEST) return undefined
  const block = Math.max(1, Math.round(Math.cbrt(n)))
  const difference = weightedMean(differences, weights)
  const random = new Random(1, "bootstrap", n)
  const means = new Float64Array(DRAWS)
  for (let d = 0; d < DRAWS; d++) {
    let [sum, total] = [0, 0]
    for (let drawn = 0; drawn < n; drawn += block) {
      const start = random.integer(n)
      for (let k = 0; k < Math.min(block, n - drawn); k++) {
        const at = (start + k) % n
        sum += weights[at] * differences[at]
        total += weights[at]
      }
    }
    means[d] = total === 0 ? difference : sum / total
  }
  means.sort()
  const beyond = means.reduce(
    (count, value) => count + (Math.abs(value - difference) >= Math.abs(difference) ? 1 : 0),
    0,
  )
  return {
    difference,
    low: means[Math.floor(0.025 * DRAWS)],
    high: means[Math.ceil(0.975 * DRAWS) - 1],
    p: (1 + beyond) / (1 + DRAWS),
    effect: hedges(differences, weights, difference),
    count: n,
  }
}

/** Paired test over users: differences of sums over each user's rows, by the linearised ratio of sums. */
export function clusterTest(sums: readonly number[], counts: readonly number[]): IntervalTest | undefined {
  const n = counts.filter((count) => count > 0).length
  if (n < FEWEST) return undefined
  const total = counts.reduce((sum, count) => sum + count, 0)
  const difference = sums.reduce((sum, value) => sum + value, 0) / total
  let squares = 0
  for (let u = 0; u < sums.length; u++) squares += (sums[u] - difference * counts[u]) ** 2
  const error = Math.sqrt((squares * n) / (n - 1)) / total
  const p = error === 0 ? (difference === 0 ? 1 : 0) : studentTails(difference / error, n - 1)
  const reach = 1.96 * error
  const means = sums.map((sum, u) => (counts[u] > 0 ? sum / counts[u] : 0))
  const effect = hedges(means, counts, difference)
  return { difference, low: difference - reach, high: difference + reach, p, effect, count: n }
}

function weightedMean(values: readonly number[], weights: readonly number[]): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return total === 0 ? 0 : values.reduce((sum, value, i) => sum + weights[i] * value, 0) / total
}

function hedges(values: readonly number[], weights: readonly number[], difference: number): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const spread = values.reduce((sum, value, i) => sum + weights[i] * (value - difference) ** 2, 0) / total
  const degrees = values.length - 1
  if (!(spread > 0)) return 0
  return (difference / Math.sqrt(spread)) * (1 - 3 / (4 * degrees - 1))
}

/** P(|T| ≥ |t|) for Student's t: I_{ν/(ν+t²)}(ν/2, 1/2). */
export function studentTails(t: number, degrees: number): number {
  return incompleteBeta(degrees / (degrees + t * t), degrees / 2, 0.5)
}

/** The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22). */
export function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0
  if (x >= 1) return 1
  // The fraction converges fast below the mean of the distribution; above it the mirror image does.
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a)
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a
  return front * betaFraction(x, a, b)
}

/** 1/(1+ d₁/(1+ d₂/(1+ …))), evaluated from the front (modified Lentz). */
function betaFraction(x: number, a: number, b: number): number {
  const tiny = 1e-300
  const away = (value: number) => (Math.abs(value) < tiny ? tiny : value)
  let c = 1
  let d = 1 / away(1 - ((a + b) * x) / (a + 1))
  let value = d
  for (let m = 1; m <= 500; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m))
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))
    let change = 1
    for (const term of [even, odd]) {
      d = 1 / away(1 + term * d)
      c = away(1 + term / c)
      change = c * d
      value *= change
    }
    if (Math.abs(change - 1) < 1e-15) break
  }
  return value
}

const LANCZOS = [
  676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
  -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7,
]

/** ln Γ(x) for x > 0 (Lanczos, g = 7). */
function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x)
  const z = x - 1
  const series = LANCZOS.reduce((sum, weight, i) => sum + weight / (z + i + 1), 0.9999999999998099)
  const t = z + 7.5
  return 0.5 * Math.log(2 * Math.PI) + (z + 0.5) * Math.log(t) - t + Math.log(series)
}
