/**
 * Transcendental functions in plain arithmetic, so that every engine gives the same bits.
 * Ports of fdlibm (Sun Microsystems, freely distributable); error below 1 ulp.
 * Only +, −, ×, ÷, Math.sqrt, Math.floor and Math.abs, which IEEE 754 fixes to the bit, are used.
 */

const LN2_HIGH = 6.9314718036912381649e-1
const LN2_LOW = 1.90821492927058770002e-10
const INVERSE_LN2 = Math.LOG2E

const bits = new DataView(new ArrayBuffer(8))

/** 2^n for −1022 ≤ n ≤ 1023. */
function powerOfTwo(n: number): number {
  bits.setUint32(0, (n + 1023) << 20)
  bits.setUint32(4, 0)
  return bits.getFloat64(0)
}

/** e^x */
export function exp(x: number): number {
  if (Number.isNaN(x)) return x
  if (x > 709.782712893384) return Number.POSITIVE_INFINITY
  if (x < -745.1332191019411) return 0
  let k = 0
  let high = x
  let low = 0
  if (x > 0.34657359027997264 || x < -0.34657359027997264) {
    k = Math.floor(INVERSE_LN2 * x + 0.5)
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
  }
  const r = high - low
  const t = r * r
  const c =
    r -
    t *
      (1.66666666666666019037e-1 +
        t *
          (-2.77777777770155933842e-3 +
            t * (6.61375632143793436117e-5 + t * (-1.6533902205465251539e-6 + t * 4.13813679705723846039e-8))))
  const y = 1 - (low - (r * c) / (2 - c) - high)
  if (k === 0) return y
  if (k > 1023) return y * powerOfTwo(k - 1) * 2
  if (k < -1021) return y * powerOfTwo(k + 1000) * powerOfTwo(-1000)
  return y * powerOfTwo(k)
}

/** Natural logarithm. */
export function log(x: number): number {
  if (!(x > 0)) return x === 0 ? Number.NEGATIVE_INFINITY : Number.NaN
  if (x === Number.POSITIVE_INFINITY) return x
  let k = 0
  let value = x
  if (value < 2.2250738585072014e-308) {
    value *= 18014398509481984
    k = -54
  }
  bits.setFloat64(0, value)
  const top = bits.getUint32(0)
  k += (top >>> 20) - 1023
  bits.setUint32(0, (top & 0xfffff) | 0x3ff00000)
  let f = bits.getFloat64(0)
  if (f > Math.SQRT2) {
    f *= 0.5
    k += 1
  }
  f -= 1
  const s = f / (2 + f)
  const z = s * s
  const w = z * z
  const even = w * (3.999999999940941908e-1 + w * (2.222219843214978396e-1 + w * 1.531383769920937332e-1))
  const odd =
    z *
    (6.66666666666673513e-1 +
      w * (2.857142874366239149e-1 + w * (1.818357216161805012e-1 + w * 1.479819860511658591e-1)))
  const half = 0.5 * f * f
  return k * LN2_HIGH - (half - (s * (half + even + odd) + k * LN2_LOW) - f)
}

/** e^x − 1 without cancellation for small x. */
function expMinusOne(x: number): number {
  if (Math.abs(x) < 1e-5) return x + x * x * (0.5 + x / 6)
  if (Math.abs(x) > 0.35) return exp(x) - 1
  // Kahan: (u − 1)·x / log u undoes the rounding of u = e^x.
  const u = exp(x)
  return ((u - 1) * x) / log(u)
}

/** Hyperbolic tangent. */
export function tanh(x: number): number {
  const a = Math.abs(x)
  if (a > 22) return x > 0 ? 1 : -1
  if (Number.isNaN(x)) return x
  const t = expMinusOne(2 * a)
  const y = t / (t + 2)
  return x < 0 ? -y : y
}

/** 1 / (1 + e^−x) */
export function sigmoid(x: number): number {
  if (x >= 0) return 1 / (1 + exp(-x))
  const e = exp(x)
  return e / (1 + e)
}

/** ln(1 + e^x) without overflow. */
export function softplus(x: number): number {
  const small = exp(-Math.abs(x))
  const u = 1 + small
  return Math.max(x, 0) + (u === 1 ? small : (log(u) * small) / (u - 1))
}

/** x^n for a whole n ≥ 0, by squaring. */
export function power(x: number, n: number): number {
  let result = 1
  let base = x
  for (let rest = n; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result *= base
    base *= base
  }
  return result
}
