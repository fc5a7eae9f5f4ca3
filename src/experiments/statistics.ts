/** What the tables need of statistics: mean, standard deviation, and the paired t-test over seeds. */

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
