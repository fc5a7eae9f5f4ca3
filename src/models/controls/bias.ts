/**
 * plain-bias (method §8): what the averages of user and item alone can say, learned event by event.
 *
 *   z = g + b_u + b_i        e = σ(z) − y, or softmax(z) − onehot(y) with one g, b_u, b_i per class
 *   g ← g − 0.002·e          a ← a + e²,  b ← b − 0.3·(e + 0.02·b)/√a   for b_u and b_i, a from 1
 *
 * Two whole passes over the segment's training pairs, in order. The reading of the method's open points: the gradient is
 * that of the logistic loss; L2 acts at every event on the two biases met, but stays out of the accumulator; all three
 * terms are stepped with the same e. Whole run in time order, binary, accuracy / loss: ML-1M .7111/.1900, MovieTweetings .7201/.1850.
 */

import { grown, nextCapacity } from "../../ids/growth.ts"
import { checkOutputs, type PlainModel } from "./model.ts"

const GLOBAL_RATE = 0.002
const RATE = 0.3
const L2 = 0.02

export class PlainBias implements PlainModel {
  readonly outputs: number
  readonly #global: Float64Array
  readonly #user: BiasColumn
  readonly #item: BiasColumn

  constructor(outputs = 1) {
    checkOutputs(outputs)
    this.outputs = outputs
    this.#global = new Float64Array(outputs)
    this.#user = new BiasColumn(outputs)
    this.#item = new BiasColumn(outputs)
  }

  get embeddingBytes(): number {
    return 4 * this.outputs * (this.#user.met + this.#item.met)
  }

  get heldBytes(): number {
    return this.#global.byteLength + this.#user.bytes + this.#item.bytes
  }

  score(z: Float64Array, user: number, item: number): void {
    const outputs = this.outputs
    this.#user.reserve(user)
    this.#item.reserve(item)
    const userBias = this.#user.bias
    const itemBias = this.#item.bias
    for (let k = 0; k < outputs; k++) {
      z[k] = this.#global[k] + userBias[user * outputs + k] + itemBias[item * outputs + k]
    }
  }

  step(errors: Float64Array, user: number, item: number): void {
    for (let k = 0; k < this.outputs; k++) this.#global[k] -= GLOBAL_RATE * errors[k]
    this.#user.step(errors, user)
    this.#item.step(errors, item)
  }
}

/** One side's biases and Adagrad accumulators (kept less their start of 1), `outputs` numbers per id. */
class BiasColumn {
  readonly outputs: number
  /** Ids met: one more than the largest index. */
  met = 0
  bias = new Float32Array(64)
  squares = new Float32Array(64)

  constructor(outputs: number) {
    this.outputs = outputs
  }

  get bytes(): number {
    return this.bias.byteLength + this.squares.byteLength
  }

  reserve(id: number): void {
    if (id < this.met) return
    this.met = id + 1
    const needed = this.met * this.outputs
    if (needed <= this.bias.length) return
    const capacity = nextCapacity(this.bias.length, needed)
    this.bias = grown(this.bias, capacity)
    this.squares = grown(this.squares, capacity)
  }

  step(errors: Float64Array, id: number): void {
    const { outputs, bias, squares } = this
    for (let k = 0; k < outputs; k++) {
      const at = id * outputs + k
      const error = errors[k]
      squares[at] += error * error
      bias[at] -= (RATE * (error + L2 * bias[at])) / Math.sqrt(1 + squares[at])
    }
  }
}
