/**
 * plain-factor-<k> (method §8): the biases of plain-bias and one vector of width k per id, the same for all.
 *
 *   z = g + b_u + b_i + s·⟨p_u, q_i⟩      binary: s = 1; classes 0 … K−1: s_c = 2c/(K−1) − 1, evenly from −1 to 1
 *   p ← p − 0.3·(e·q + 0.01·p)            e = Σ_c s_c·error_c
 *   q ← q − 0.05·(e·p + 0.01·q)           with p as it was before its step
 *
 * p starts at 0, q at N(0, 0.1). Two whole passes over the segment's training pairs; biases and vectors step on the same error.
 * The fixed slopes for the classes are our choice: a rating's classes are ordered, so one product tilts them (on ML-1M
 * .4336/1.256 at width 4 against .4262/1.278 with an item vector per class).
 * Whole run in time order, binary, accuracy / loss, ten seeds: ML-1M .7155 ± .0004/.1873 at width 4, .7154 ± .0006/.1873 at
 * 16, .7146 ± .0004/.1878 at 32; MovieTweetings .7202 ± .0002/.1849 at width 4.
 */

import { DessError, show } from "../../errors.ts"
import { grown, nextCapacity } from "../../ids/growth.ts"
import { Random } from "../../kernels/random.ts"
import { PlainBias } from "./bias.ts"
import type { PlainModel } from "./model.ts"

const USER_RATE = 0.3
const ITEM_RATE = 0.05
const L2 = 0.01
const START = 0.1

export interface PlainFactorOptions {
  /** k: numbers per id. */
  width: number
  outputs?: number
  seed?: number
}

export class PlainFactor implements PlainModel {
  readonly outputs: number
  readonly width: number
  readonly #biases: PlainBias
  readonly #random: Random
  readonly #slopes: Float64Array
  #users = new Float32Array(0)
  #items = new Float32Array(0)
  /** Ids met: one more than the largest index. */
  #metUsers = 0
  #metItems = 0

  constructor(options: PlainFactorOptions) {
    const { width, outputs = 1, seed = 1 } = options
    if (!Number.isInteger(width) || width < 1 || width > 4096) {
      throw new DessError(
        "INVALID_ARGUMENT",
        `plain-factor width: expected a whole number from 1 to 4096, got ${show(width)}`,
      )
    }
    this.width = width
    this.outputs = outputs
    this.#biases = new PlainBias(outputs)
    this.#random = new Random(seed, "plain-factor")
    this.#slopes = Float64Array.from({ length: outputs }, (_, k) => (outputs === 1 ? 1 : (2 * k) / (outputs - 1) - 1))
  }

  get embeddingBytes(): number {
    return this.#biases.embeddingBytes + 4 * this.width * (this.#metUsers + this.#metItems)
  }

  get heldBytes(): number {
    return this.#biases.heldBytes + this.#users.byteLength + this.#items.byteLength
  }

  score(z: Float64Array, user: number, item: number): void {
    if (user >= this.#metUsers) this.#meetUser(user)
    if (item >= this.#metItems) this.#meetItem(item)
    this.#biases.score(z, user, item)
    const width = this.width
    const p = this.#users
    const q = this.#items
    const from = user * width
    const to = item * width
    let product = 0
    for (let f = 0; f < width; f++) product += p[from + f] * q[to + f]
    for (let k = 0; k < this.outputs; k++) z[k] += this.#slopes[k] * product
  }

  step(errors: Float64Array, user: number, item: number): void {
    let error = 0
    for (let k = 0; k < this.outputs; k++) error += this.#slopes[k] * errors[k]
    this.#biases.step(errors, user, item)
    const width = this.width
    const p = this.#users
    const q = this.#items
    const from = user * width
    const to = item * width
    for (let f = 0; f < width; f++) {
      const pf = p[from + f]
      const qf = q[to + f]
      p[from + f] = pf - USER_RATE * (error * qf + L2 * pf)
      q[to + f] = qf - ITEM_RATE * (error * pf + L2 * qf)
    }
  }

  #meetUser(user: number): void {
    this.#metUsers = user + 1
    const needed = this.#metUsers * this.width
    if (needed > this.#users.length) {
      this.#users = grown(this.#users, nextCapacity(Math.max(64 * this.width, this.#users.length), needed))
    }
  }

  /** Vectors are drawn in the order of the indices, so an item's start does not depend on who asks first. */
  #meetItem(item: number): void {
    const drawn = this.#metItems * this.width
    this.#metItems = item + 1
    const needed = this.#metItems * this.width
    if (needed > this.#items.length) {
      this.#items = grown(this.#items, nextCapacity(Math.max(64 * this.width, this.#items.length), needed))
    }
    for (let k = drawn; k < needed; k++) this.#items[k] = START * this.#random.normal()
  }
}
