/**
 * Rows in 16 or 8 bits a number.
 *
 *   a number is c·s, |c| ≤ 32767 or 127; one s a vector, kept as a bfloat16
 *   16 bits   s is a power of two
 *    8 bits   the largest number of a vector is ±127·s
 *   the head: half floats (11 significant bits, up to 65504); whole numbers below 2^24 in 24 bits
 *
 * The first vector of an item is kept as what it differs by from the numbers the item is lifted with, so that numbers a row
 * does not hold are zeros of one it grows to, and growing rounds nothing. Nor does going from 8 bits to 16 or 32, nor
 * packing again what was unpacked. Rounding is to the nearest, or stochastic after a row was trained: up or down by chance,
 * right on average. Chance is hashed from the seed, the id and the head, which every event moves: it needs no state, so
 * runs, threads and replays agree to the bit.
 */

import { floatBits, fromBrain, fromHalf, largest, mix, next, toBrain, toHalf, toPower } from "../kernels/codes.ts"
import type { Floats } from "../kernels/kernels.ts"

export const BITS = [8, 16, 32] as const
export type Bits = (typeof BITS)[number]

/** Numbers the first vector is kept relative to: those from `tail(id)` on. */
export interface Lift {
  numbers: Float32Array
  tail(id: number): number
}

export interface PackingOptions {
  /** Bits of a number, by step. */
  bits: readonly Bits[]
  /** A row starts with whole numbers below 2^24, behind a 0 only more of them … */
  whole: number
  /** … then come other numbers … */
  head: number
  /** … and vectors of equal size. */
  vectors: number
  seed: number
  lift?: Lift
}

/** A buffer of packed rows; a row's place counts in 4 bytes. */
export interface PackedBuffer {
  halves: Uint16Array
  bytes: Int8Array
}

/** Writes numbers as c, rounded to the nearest; returns s. */
export function toCodes(codes: Int32Array, numbers: Float64Array, p: { size: number; bits: 8 | 16 }): number {
  const most = largest(numbers, p.size)
  const scale = most === 0 ? 0 : fromBrain(p.bits === 16 ? toPower(most / 32_767) : toBrain(most / 127, -1))
  const [steps, end] = [most === 0 ? 0 : 1 / scale, p.bits === 16 ? 32_767 : 127]
  for (let k = 0; k < p.size; k++) codes[k] = Math.max(-end, Math.min(end, Math.floor(numbers[k] * steps + 0.5)))
  return scale
}

export class RowPacking {
  readonly #options: PackingOptions
  /** Numbers of a vector, by step. */
  readonly #sizes: readonly number[]
  /** Bytes of a row, by step. */
  readonly bytes: readonly number[]
  /** A vector, and its c. */
  readonly #work: Float64Array
  readonly #codes: Int32Array

  /** `lengths`: numbers of a row, head included, by step. */
  constructor(lengths: readonly number[], options: PackingOptions) {
    const { bits, whole, head, vectors } = options
    this.#options = options
    this.#sizes = lengths.map((length) => (length - whole - head) / vectors)
    this.#work = new Float64Array(Math.max(...this.#sizes))
    this.#codes = new Int32Array(this.#work.length)
    this.bytes = this.#sizes.map((size, step) => {
      if (bits[step] === 32) return 4 * lengths[step]
      return 2 * head + this.#scaleBytes(step) + (vectors * size * bits[step]) / 8 + 3 * whole
    })
  }

  get bits(): readonly Bits[] {
    return this.#options.bits
  }

  isPacked(step: number): boolean {
    return this.#options.bits[step] !== 32
  }

  #scaleBytes(step: number): number {
    return this.#sizes[step] > 0 ? 2 * this.#options.vectors : 0
  }

  /** Where the whole numbers of a row begin, in bytes from its start. */
  #wholeAt(step: number): number {
    return this.bytes[step] - 3 * this.#options.whole
  }

  /** Reads the whole numbers of a row. */
  readWhole(from: PackedBuffer, row: { place: number; step: number }, target: { [k: number]: number }): void {
    const { bytes } = from
    let b = 4 * row.place + this.#wholeAt(row.step)
    for (let k = 0; k < this.#options.whole; k++, b += 3)
      target[k] = (bytes[b] & 0xff) | ((bytes[b + 1] & 0xff) << 8) | ((bytes[b + 2] & 0xff) << 16)
  }

  /** Writes the whole numbers of a row. */
  writeWhole(into: { bytes: Int8Array; place: number }, step: number, numbers: ArrayLike<number>): void {
    const { bytes } = into
    let b = 4 * into.place + this.#wholeAt(step)
    for (let k = 0; k < this.#options.whole; k++, b += 3) {
      bytes[b] = numbers[k]
      bytes[b + 1] = numbers[k] >> 8
      bytes[b + 2] = numbers[k] >> 16
    }
  }

  /** Reads one number of the head. */
  readHead(from: PackedBuffer, row: { place: number }, k: number): number {
    return fromHalf(from.halves[2 * row.place + k - this.#options.whole])
  }

  unpack(
    from: PackedBuffer,
    row: { place: number; step: number; id: number },
    out: { numbers: Floats; at: number },
  ): void {
    const { whole, head, vectors, bits, lift } = this.#options
    const { place, step, id } = row
    const { halves, bytes } = from
    const target = out.numbers
    let { at } = out
    if (whole > 0) {
      const end = at + whole
      let b = 4 * place + this.#wholeAt(step)
      for (let last = 1; at < end && last !== 0; b += 3) {
        last = (bytes[b] & 0xff) | ((bytes[b + 1] & 0xff) << 8) | ((bytes[b + 2] & 0xff) << 16)
        target[at++] = last
      }
      while (at < end) target[at++] = 0
    }
    let h = 2 * place
    for (let k = 0; k < head; k++) target[at++] = fromHalf(halves[h++])
    const size = this.#sizes[step]
    if (size === 0) return
    const first = at
    const codes = h + vectors
    for (let v = 0; v < vectors; v++) {
      const scale = fromBrain(halves[h++])
      if (bits[step] === 16) {
        const from = codes + v * size
        for (let k = 0; k < size; k++) target[at + k] = scale * ((halves[from + k] << 16) >> 16)
      } else {
        const from = 2 * codes + v * size
        for (let k = 0; k < size; k++) target[at + k] = scale * bytes[from + k]
      }
      at += size
    }
    if (!lift) return
    const { numbers } = lift
    const tail = lift.tail(id)
    for (let k = 0; k < size; k++) target[first + k] += numbers[tail + k]
  }

  /** `stochastic`: rounds by chance. */
  pack(
    into: PackedBuffer,
    row: { place: number; step: number; id: number; stochastic?: boolean },
    source: { numbers: Floats; at: number },
  ): void {
    const { whole, head, vectors, bits, seed } = this.#options
    const { place, step, id, stochastic = false } = row
    const { halves, bytes } = into
    const { numbers } = source
    let { at } = source
    if (whole > 0) {
      let b = 4 * place + this.#wholeAt(step)
      for (let k = 0; k < whole; k++, b += 3) {
        const n = numbers[at++]
        bytes[b] = n
        bytes[b + 1] = n >> 8
        bytes[b + 2] = n >> 16
      }
    }
    let state = mix(id ^ Math.imul(seed + 1, 0x9e3779b1))
    if (stochastic) for (let k = 0; k < head; k++) state = mix(state ^ floatBits(numbers[at + k]))
    let h = 2 * place
    for (let k = 0; k < head; k++) {
      state = next(state)
      halves[h++] = toHalf(numbers[at++], stochastic ? state >>> 19 : -1)
    }
    const size = this.#sizes[step]
    if (size === 0) return
    const codes = h + vectors
    // 0 … 1, or 0.5.
    const [spread, offset] = stochastic ? [1 / 0x1_00_0000, 0] : [0, 0.5]
    for (let v = 0; v < vectors; v++, at += size) {
      const work = this.#workOn(numbers, { at, size, id, lifted: v === 0 })
      const most = largest(work, size)
      state = next(state)
      if (bits[step] === 16) {
        const brain = most === 0 ? 0 : toPower(most / 32_767)
        const steps = most === 0 ? 0 : 1 / fromBrain(brain)
        const to = codes + v * size
        halves[h++] = brain
        for (let k = 0; k < size; k++) {
          state = next(state)
          // Cutting off rounds down what is above 0.
          halves[to + k] = ((work[k] * steps + (state >>> 8) * spread + offset + 32_768) | 0) - 32_768
        }
      } else {
        const brain = most === 0 ? 0 : toBrain(most / 127, stochastic ? state >>> 16 : -1)
        const steps = most === 0 ? 0 : 1 / fromBrain(brain)
        const to = 2 * codes + v * size
        halves[h++] = brain
        for (let k = 0; k < size; k++) {
          state = next(state)
          const code = ((work[k] * steps + (state >>> 8) * spread + offset + 128) | 0) - 128
          bytes[to + k] = Math.max(-127, Math.min(127, code))
        }
        if (most > 0)
          for (let k = 0; k < size; k++) if (Math.abs(work[k]) === most) bytes[to + k] = work[k] > 0 ? 127 : -127
      }
    }
  }

  /** A vector as it is kept. */
  #workOn(numbers: Floats, p: { at: number; size: number; id: number; lifted: boolean }): Float64Array {
    const work = this.#work
    const { lift } = this.#options
    const { at, size } = p
    if (lift && p.lifted) {
      const tail = lift.tail(p.id)
      for (let k = 0; k < size; k++) work[k] = numbers[at + k] - lift.numbers[tail + k]
    } else for (let k = 0; k < size; k++) work[k] = numbers[at + k]
    return work
  }

  /** Writes what would be left of a vector of a row cut to a step: its first numbers, rounded to the nearest; returns how many. */
  cut(numbers: Floats, p: { at: number; id: number; lifted: boolean; step: number }, out: Float64Array): number {
    const size = this.#sizes[p.step]
    const bits = this.#options.bits[p.step]
    const work = this.#workOn(numbers, { ...p, size })
    const { lift } = this.#options
    const scale = bits === 32 ? 0 : toCodes(this.#codes, work, { size, bits })
    const tail = lift && p.lifted ? lift.tail(p.id) : -1
    for (let k = 0; k < size; k++) {
      const rounded = bits === 32 ? work[k] : scale * this.#codes[k]
      out[k] = lift && tail >= 0 ? rounded + lift.numbers[tail + k] : rounded
    }
    return size
  }

  /** Σ x_k·d_k over the first numbers of a packed row's first vector, d what it holds beyond what it is lifted with. */
  product(
    from: PackedBuffer,
    row: { place: number; step: number },
    x: { numbers: Floats; at: number; length: number },
  ): number {
    const { head, bits, vectors } = this.#options
    const { numbers, at } = x
    const length = Math.min(x.length, this.#sizes[row.step])
    if (length === 0) return 0
    const { halves, bytes } = from
    const h = 2 * row.place + head
    const codes = h + vectors
    let sum = 0
    if (bits[row.step] === 16)
      for (let k = 0; k < length; k++) sum += numbers[at + k] * ((halves[codes + k] << 16) >> 16)
    else for (let k = 0; k < length; k++) sum += numbers[at + k] * bytes[2 * codes + k]
    return sum * fromBrain(halves[h])
  }
}
