/**
 * One score from several scorers: weights learned from the events themselves. Each event is a list that was right or wrong
 * before it is learned, so a scorer that helps on this stream gets a weight, and that of one that does not goes to 0.
 *
 *   ζ_c = z_c + Σ_k w_k·f_k(c)     z: the score of the model, f_k: those of the others; w starts at 0
 *   e = softmax(ζ − log Q) − [c is the event's item]   over the item and its negatives      g_k = Σ_c e_c·f_k(c)
 *   A_k ← A_k + g_k²     w_k ← max(0, w_k − 0.1·g_k/√min(A_k, 10⁵))       A_0 = 10
 *
 * The model learns by the same e: what the others do not know yet.
 *
 * Beside them stands how much of an item's bias is the quick one of two (sequence.ts): m = σ(t), t from 0.
 */

import type { Floats } from "../../kernels/kernels.ts"
import type { State } from "../../kernels/state.ts"

const SQUARES = 10
/** What a step is multiplied by, and the most an accumulator counts. */
export const FUSION_RATES = { rate: 0.1, most: 100_000 }
/** t, and its accumulator, at first. */
const MIX = [0, 1]

export class Fusion {
  readonly weights: Float64Array
  readonly #squares: Float64Array
  /** t and its accumulator. */
  readonly #mix = Float64Array.from(MIX)
  /** Weights and accumulators as other processes know them. */
  #shared: Float64Array

  constructor(scorers: number) {
    this.weights = new Float64Array(scorers)
    this.#squares = new Float64Array(scorers).fill(SQUARES)
    this.#shared = this.all()
  }

  reset(): void {
    this.weights.fill(0)
    this.#squares.fill(SQUARES)
    this.#mix.set(MIX)
  }

  /** How many numbers it is. */
  get count(): number {
    return 2 * this.weights.length + 2
  }

  /** Writes all numbers, for the kernels to learn them. */
  write(floats: Floats, at: number): void {
    floats.set(this.all(), at)
  }

  /** Takes over what was learned of them. */
  read(floats: Floats, at: number): void {
    this.#set(floats.subarray(at, at + this.count))
  }

  /** What was learned since the last time, for other processes: steps add up, and so do squares. */
  takeLearned(): Float64Array {
    const now = this.all()
    const learned = now.map((number, k) => number - this.#shared[k])
    this.#shared = now
    return learned
  }

  /** Adds what another process learned: all others know of it, too. */
  add(learned: Float64Array): void {
    const { length } = this.weights
    for (let k = 0; k < length; k++) {
      this.weights[k] = Math.max(0, this.weights[k] + learned[k])
      this.#squares[k] += learned[length + k]
    }
    for (let k = 0; k < 2; k++) this.#mix[k] += learned[2 * length + k]
    for (let k = 0; k < learned.length; k++) this.#shared[k] += learned[k]
  }

  /** Weights, their accumulators, t and its accumulator. */
  all(): Float64Array {
    return Float64Array.of(...this.weights, ...this.#squares, ...this.#mix)
  }

  #set(all: Floats): void {
    const { length } = this.weights
    this.weights.set(all.subarray(0, length))
    this.#squares.set(all.subarray(length, 2 * length))
    this.#mix.set(all.subarray(2 * length))
  }

  /** Takes over all numbers from another process. */
  put(all: Float64Array): void {
    this.#set(all)
    this.record()
  }

  /** Starts recording what is learned, to be shared. */
  record(): void {
    this.#shared = this.all()
  }

  save(state: State): void {
    state.put("weights", this.weights)
    state.put("squares", this.#squares)
    state.put("mix", this.#mix)
  }

  load(state: State): void {
    this.reset()
    this.weights.set(state.take("weights", Float64Array))
    this.#squares.set(state.take("squares", Float64Array))
    this.#mix.set(state.take("mix", Float64Array))
  }
}
