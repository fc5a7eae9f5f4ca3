/** Numbers in 16 bits and the chance they are rounded by (models/row-packing.ts). */

const FLOAT = new Float32Array(1)
const INT = new Int32Array(FLOAT.buffer)
/** From the exponents of a half float to those of a float, and back. */
const UP = 0x1_0000_0000_0000 * 0x1_0000_0000_0000 * 0x1_0000
const DOWN = 1 / UP
const LARGEST = 65_504
/** A vector of smaller numbers is 0. */
const SMALLEST = 1e-30

/** A half float. */
export function fromHalf(half: number): number {
  INT[0] = (half & 0x7fff) << 13
  return half & 0x8000 ? -FLOAT[0] * UP : FLOAT[0] * UP
}

/** The half float of a number; `chance`: 13 random bits, −1 for the nearest. */
export function toHalf(number: number, chance: number): number {
  const size = Math.abs(number)
  FLOAT[0] = Math.min(size, LARGEST) * DOWN
  const bits = INT[0]
  const half = (bits + (chance < 0 ? 0xfff + ((bits >> 13) & 1) : chance)) >> 13
  return number < 0 ? half | 0x8000 : half
}

/** The bfloat16 of a number above 0; `chance`: 16 random bits, −1 for the nearest. */
export function toBrain(number: number, chance: number): number {
  FLOAT[0] = number
  return (INT[0] + (chance < 0 ? 0x7fff + ((INT[0] >> 16) & 1) : chance)) >>> 16
}

/** The bfloat16 of the power of two that is not below a number. */
export function toPower(number: number): number {
  FLOAT[0] = number
  return ((INT[0] + 0x7fffff) >>> 23) << 7
}

export function fromBrain(brain: number): number {
  INT[0] = brain << 16
  return FLOAT[0]
}

/** The magnitude of the largest number; 0 where it is negligible. */
export function largest(numbers: Float64Array, size: number): number {
  let most = 0
  for (let k = 0; k < size; k++) {
    const length = Math.abs(numbers[k])
    if (length > most) most = length
  }
  return most < SMALLEST ? 0 : most
}

/** A float as a whole number. */
export function floatBits(number: number): number {
  FLOAT[0] = number
  return INT[0]
}

/** The next of a row's random numbers. */
export function next(state: number): number {
  return (Math.imul(state, 0x915f77f5) + 0x6d2b79f5) | 0
}

/** Spreads a number over 32 bits (the finalizer of MurmurHash3). */
export function mix(state: number): number {
  let h = Math.imul(state ^ (state >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return h ^ (h >>> 16)
}

/** Where an item's lift starts, one of 16,384 places: drawn from its index. */
export function liftPlace(id: number): number {
  return Math.imul(id + 1, 0x9e3779b1) >>> 18
}
