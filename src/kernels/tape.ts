/** The tape: operations as words, one after the other, each with its code, its length and its number of parts ahead. */

import type { Address, Norm, Pairs } from "./kernels.ts"

export class Tape {
  words = new Int32Array(4096)
  length = 0
  #floats = new Float32Array(this.words.buffer)
  #start = 0

  /** Starts an operation, which is to be cut into this many parts. */
  begin(code: number, parts: number): this {
    this.#start = this.length
    return this.put(code, 0, parts)
  }

  end(): void {
    this.words[this.#start + 1] = this.length - this.#start
  }

  /** Where the operations end that start at `start` and together take no more than `room` words. */
  cut(start: number, room: number): number {
    let end = start
    while (end < this.length && end + this.words[end + 1] - start <= room) end += this.words[end + 1]
    return end
  }

  #reserve(count: number): void {
    if (this.length + count <= this.words.length) return
    const words = new Int32Array(2 * this.words.length)
    words.set(this.words)
    this.words = words
    this.#floats = new Float32Array(words.buffer)
  }

  put(...values: number[]): this {
    this.#reserve(values.length)
    for (const value of values) this.words[this.length++] = value
    return this
  }

  putFloats(...values: number[]): this {
    this.#reserve(values.length)
    for (const value of values) this.#floats[this.length++] = value
    return this
  }

  /** Addresses count floats, Wasm counts bytes. */
  putAddresses(...addresses: Address[]): this {
    this.#reserve(addresses.length)
    for (const address of addresses) this.words[this.length++] = address * 4
    return this
  }

  putNorm(norm: Norm): this {
    this.putAddresses(norm.gamma, norm.beta, norm.mean, norm.variance, norm.center, norm.scale)
    return this.putFloats(norm.epsilon, norm.momentum)
  }

  putPairs(p: Pairs): this {
    return this.putAddresses(p.user, p.item, p.userIndex, p.itemIndex).put(p.pairs, p.columns)
  }
}
