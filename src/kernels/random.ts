/** Seeded random numbers: sfc32 (C. Doty-Humphrey), 128 bits of state, the same sequence on every machine. */

import { log } from "./math.ts"
import type { State } from "./state.ts"

/** Mixes any number of words and numbers into 32 bits (FNV-1a with a final avalanche). */
function hash(parts: readonly (string | number)[], salt: number): number {
  let h = 0x811c9dc5 ^ salt
  for (const part of parts) {
    const text = typeof part === "number" ? `#${part}` : part
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
    h = Math.imul(h ^ 0xff, 0x01000193)
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** A stream of random numbers named by a seed and any further words: `new Random(7, "user", 12)`. */
export class Random {
  #a: number
  #b: number
  #c: number
  #counter = 1
  #spare = Number.NaN

  constructor(...name: (string | number)[]) {
    this.#a = hash(name, 1)
    this.#b = hash(name, 2)
    this.#c = hash(name, 3)
    for (let i = 0; i < 12; i++) this.bits()
  }

  /** 32 random bits as an unsigned integer. */
  bits(): number {
    const t = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + t) | 0
    return t >>> 0
  }

  /** Uniform in [0, 1), 53 bits. */
  next(): number {
    return (this.bits() * 2097152 + (this.bits() >>> 11)) / 9007199254740992
  }

  /** Uniform whole number in [0, bound). */
  integer(bound: number): number {
    return Math.floor(this.next() * bound)
  }

  /** Standard normal, by Marsaglia's polar method. */
  normal(): number {
    const spare = this.#spare
    if (!Number.isNaN(spare)) {
      this.#spare = Number.NaN
      return spare
    }
    for (;;) {
      const u = 2 * this.next() - 1
      const v = 2 * this.next() - 1
      const s = u * u + v * v
      if (s >= 1 || s === 0) continue
      const scale = Math.sqrt((-2 * log(s)) / s)
      this.#spare = v * scale
      return u * scale
    }
  }

  /** Everything needed to go on later from the same place. */
  state(): number[] {
    return [this.#a, this.#b, this.#c, this.#counter, this.#spare]
  }

  /** Takes up a state given by `state()`. */
  restore(state: readonly number[]): void {
    this.#a = state[0]
    this.#b = state[1]
    this.#c = state[2]
    this.#counter = state[3]
    this.#spare = state[4]
  }

  save(state: State): void {
    state.put("random", Float64Array.from(this.state()))
  }

  load(state: State): void {
    this.restore(Array.from(state.take("random", Float64Array)))
  }
}
