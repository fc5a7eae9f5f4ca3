/** Reusable buffers for choices and rounds of rungs: arrays are longer than their content. */

import type { Choices, Round } from "../policies/policy.ts"

export class RatedChoices implements Choices {
  length = 0
  ids = new Int32Array(0)
  steps = new Uint8Array(0)
  frequencies = new Float64Array(0)
  contexts = new Float64Array(0)
  rates = new Float64Array(0)
  readonly #dimension: number

  constructor(dimension: number) {
    this.#dimension = dimension
  }

  /** Reserves capacity; the content is lost. */
  resize(length: number): this {
    this.length = length
    if (length <= this.ids.length) return this
    makeRoom(this, 2 * length, this.#dimension)
    return this
  }

  /** Takes those of others that `take` wants, in order; of itself, too. */
  copy(from: RatedChoices, take: (i: number) => boolean): this {
    const d = this.#dimension
    const { length } = from
    if (from !== this) this.resize(length)
    let to = 0
    for (let i = 0; i < length; i++) {
      if (!take(i)) continue
      this.ids[to] = from.ids[i]
      this.steps[to] = from.steps[i]
      this.frequencies[to] = from.frequencies[i]
      this.rates[to] = from.rates[i]
      for (let c = 0; c < d; c++) this.contexts[to * d + c] = from.contexts[i * d + c]
      to++
    }
    this.length = to
    return this
  }
}

export class RungRound implements Round {
  length = 0
  ids = new Int32Array(0)
  steps = new Uint8Array(0)
  frequencies = new Float64Array(0)
  contexts = new Float64Array(0)
  keepLosses = new Float64Array(0)
  growLosses = new Float64Array(0)
  keepRewards = new Float64Array(0)
  growRewards = new Float64Array(0)
  readonly #dimension: number

  constructor(dimension: number) {
    this.#dimension = dimension
  }

  /** Reserves capacity; the content is lost. */
  resize(length: number): this {
    this.length = length
    if (length <= this.ids.length) return this
    makeRoom(this, 2 * length, this.#dimension)
    return this
  }
}

/** Replaces every column by a longer one; the content is lost. */
function makeRoom(rows: RatedChoices | RungRound, length: number, dimension: number): void {
  for (const [name, column] of Object.entries(rows)) {
    if (!ArrayBuffer.isView(column)) continue
    const kind = column.constructor as new (length: number) => ArrayBufferView
    Object.assign(rows, { [name]: new kind(name === "contexts" ? length * dimension : length) })
  }
}
