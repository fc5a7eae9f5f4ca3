/** Draws from any discrete distribution in constant time (Walker's alias method, Vose's construction). */

import type { Random } from "../../kernels/random.ts"

export class AliasTable {
  readonly #chance: Float64Array
  readonly #alias: Int32Array
  readonly #work: Int32Array
  #length = 0

  constructor(capacity: number) {
    this.#chance = new Float64Array(capacity)
    this.#alias = new Int32Array(capacity)
    this.#work = new Int32Array(capacity)
  }

  /** Takes the first `length` weights, none negative, not all zero. */
  build(weight: Float64Array, length: number): void {
    const chance = this.#chance
    const alias = this.#alias
    const work = this.#work
    this.#length = length
    let sum = 0
    for (let i = 0; i < length; i++) sum += weight[i]
    // Poor cells (chance below 1) are stacked from the left of `work`, rich ones from the right.
    let poor = 0
    let rich = length
    for (let i = 0; i < length; i++) {
      chance[i] = (weight[i] * length) / sum
      alias[i] = i
      if (chance[i] < 1) work[poor++] = i
      else work[--rich] = i
    }
    while (poor > 0 && rich < length) {
      const low = work[--poor]
      const high = work[rich]
      alias[low] = high
      chance[high] -= 1 - chance[low]
      if (chance[high] >= 1) continue
      rich++
      work[poor++] = high
    }
    // What rounding left over is full.
    while (poor > 0) chance[work[--poor]] = 1
    while (rich < length) chance[work[rich++]] = 1
  }

  /** An index, in proportion to its weight. */
  pick(random: Random): number {
    const x = (random.bits() / 4294967296) * this.#length
    const cell = Math.floor(x)
    return x - cell < this.#chance[cell] ? cell : this.#alias[cell]
  }
}
