/**
 * The dense parameters of a model: named matrices and batch norms in one contiguous block of working memory, with
 * gradients and Adam moments beside it, so that one operation steps them all. Every one is stepped every time.
 */

import { DessError } from "../errors.ts"
import type { Address, Floats, Kernels, Norm } from "./kernels.ts"
import { power } from "./math.ts"
import type { Random } from "./random.ts"
import type { State } from "./state.ts"

export interface AdamOptions {
  rate: number
  beta1: number
  beta2: number
  epsilon: number
  l2: number
}

export const ADAM: AdamOptions = { rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, l2: 1e-3 }

const REMEMBERED = 4096
const remembered = new Map<number, Float64Array>()

/** 1/(1 − βᵗ) of the first few thousand steps t, worked out once per β: every row of every batch asks for its own. */
export function biasCorrections(beta: number): Float64Array {
  const known =
    remembered.get(beta) ?? Float64Array.from({ length: REMEMBERED }, (_, step) => biasCorrection(beta, step))
  remembered.set(beta, known)
  return known
}

/** 1/(1 − βᵗ) */
export function biasCorrection(beta: number, step: number): number {
  return 1 / (1 - power(beta, step))
}

/** One named matrix; its addresses are set by `Parameters.allocate`. */
export interface Parameter {
  readonly name: string
  readonly rows: number
  readonly columns: number
  value: Address
  gradient: Address
}

/** A batch norm with its learnable part. */
export interface NormParameter extends Norm {
  readonly name: string
  readonly columns: number
  readonly gammaParameter: Parameter
  readonly betaParameter: Parameter
}

/** uniform: U(±1/√fanIn). A number: that value everywhere. */
export type Initial = { uniform: number } | number

/** Part of a norm, for a head that normalises two sides by one norm: the columns from `offset` on. */
export function sliceNorm(norm: Norm, offset: number): Norm {
  return {
    ...norm,
    gamma: norm.gamma + offset,
    beta: norm.beta + offset,
    mean: norm.mean + offset,
    variance: norm.variance + offset,
    center: norm.center + offset,
    scale: norm.scale + offset,
  }
}

export class Parameters {
  readonly list: Parameter[] = []
  readonly norms: NormParameter[] = []
  /** Learnable numbers, dense part only. */
  count = 0
  #steps = 0
  readonly #kernels: Kernels
  readonly #initials: Initial[] = []
  #values = 0
  #gradients = 0
  #first = 0
  #second = 0
  #corrections = 0
  #running = 0
  #runningCount = 0

  constructor(kernels: Kernels) {
    this.#kernels = kernels
  }

  get steps(): number {
    return this.#steps
  }

  declare(name: string, shape: { rows: number; columns: number }, initial: Initial): Parameter {
    const parameter = { name, ...shape, value: 0, gradient: 0 }
    this.list.push(parameter)
    this.#initials.push(initial)
    this.count += shape.rows * shape.columns
    return parameter
  }

  /** A batch norm of method.md §2: γ = 1, β = 0, running mean 0 and variance 1. */
  declareNorm(name: string, columns: number): NormParameter {
    const shape = { rows: 1, columns }
    const norm = {
      name,
      columns,
      gammaParameter: this.declare(`${name}.gamma`, shape, 1),
      betaParameter: this.declare(`${name}.beta`, shape, 0),
      gamma: 0,
      beta: 0,
      mean: 0,
      variance: 0,
      center: 0,
      scale: 0,
      epsilon: 1e-5,
      momentum: 0.1,
    }
    this.norms.push(norm)
    return norm
  }

  /** Gives everything declared its place and its first value. Called once, when all parts have declared. */
  allocate(random: Random): void {
    const k = this.#kernels
    for (const norm of this.norms) this.#runningCount += 2 * norm.columns
    const scratch = k.allocate(this.#runningCount)
    this.#running = k.allocate(this.#runningCount)
    this.#values = k.allocate(this.count)
    this.#gradients = k.allocate(this.count)
    this.#first = k.allocate(this.count)
    this.#second = k.allocate(this.count)
    this.#corrections = k.allocate(2)
    const f = k.floats
    f.fill(0, this.#gradients, this.#gradients + this.count)
    f.fill(0, this.#first, this.#first + this.count)
    f.fill(0, this.#second, this.#second + this.count)
    let offset = 0
    this.list.forEach((parameter, index) => {
      const length = parameter.rows * parameter.columns
      parameter.value = this.#values + offset
      parameter.gradient = this.#gradients + offset
      offset += length
      const initial = this.#initials[index]
      if (typeof initial === "number") f.fill(initial, parameter.value, parameter.value + length)
      else {
        const bound = 1 / Math.sqrt(initial.uniform)
        for (let i = 0; i < length; i++) f[parameter.value + i] = (2 * random.next() - 1) * bound
      }
    })
    offset = 0
    for (const norm of this.norms) {
      norm.gamma = norm.gammaParameter.value
      norm.beta = norm.betaParameter.value
      norm.mean = this.#running + offset
      norm.center = scratch + offset
      f.fill(0, norm.mean, norm.mean + norm.columns)
      offset += norm.columns
      norm.variance = this.#running + offset
      norm.scale = scratch + offset
      f.fill(1, norm.variance, norm.variance + norm.columns)
      offset += norm.columns
    }
  }

  /** A copy of the running statistics, to put back when a pass turns out not to be finite. */
  saveRunning(): Floats {
    return this.#kernels.floats.slice(this.#running, this.#running + this.#runningCount)
  }

  isRunningFinite(): boolean {
    const f = this.#kernels.floats
    let sum = 0
    for (let i = 0; i < this.#runningCount; i++) sum += f[this.#running + i] * 0
    return sum === 0
  }

  restoreRunning(saved: Floats): void {
    this.#kernels.floats.set(saved, this.#running)
  }

  /** A copy of the learnable numbers, and of the running statistics: all that inference needs. */
  copyValues(): { values: Float32Array; running: Float32Array } {
    const f = this.#kernels.floats
    return {
      values: Float32Array.from(f.subarray(this.#values, this.#values + this.count)),
      running: Float32Array.from(f.subarray(this.#running, this.#running + this.#runningCount)),
    }
  }

  /** Takes up what `copyValues` of equally declared parameters gave. */
  setValues({ values, running }: { values: Float32Array; running: Float32Array }): void {
    if (values.length !== this.count || running.length !== this.#runningCount)
      throw new DessError(
        "INVALID_DATA",
        `parameters: expected ${this.count} numbers and ${this.#runningCount} statistics, got ${values.length} and ${running.length}`,
      )
    this.#kernels.floats.set(values, this.#values)
    this.#kernels.floats.set(running, this.#running)
  }

  save(state: State): void {
    const f = this.#kernels.floats
    const copy = (at: Address, count: number) => f.slice(at, at + count)
    state.set("steps", this.#steps)
    state.put("values", copy(this.#values, this.count))
    state.put("first", copy(this.#first, this.count))
    state.put("second", copy(this.#second, this.count))
    state.put("running", copy(this.#running, this.#runningCount))
  }

  load(state: State): void {
    const f = this.#kernels.floats
    const kind = f instanceof Float64Array ? Float64Array : Float32Array
    const take = (name: string, at: Address, count: number) => {
      const array = state.take<Float32Array | Float64Array>(name, kind)
      if (array.length !== count)
        throw new DessError("INVALID_DATA", `state of ${name}: expected ${count} numbers, got ${array.length}`)
      f.set(array, at)
    }
    this.#steps = state.get<number>("steps")
    take("values", this.#values, this.count)
    take("first", this.#first, this.count)
    take("second", this.#second, this.count)
    take("running", this.#running, this.#runningCount)
  }

  /** Queues one Adam step on everything, from the gradients as they stand. */
  step(adam: AdamOptions): void {
    this.#steps++
    const f = this.#kernels.floats
    f[this.#corrections] = biasCorrection(adam.beta1, this.#steps)
    f[this.#corrections + 1] = biasCorrection(adam.beta2, this.#steps)
    this.#kernels.adam({
      value: this.#values,
      gradient: this.#gradients,
      first: this.#first,
      second: this.#second,
      corrections: this.#corrections,
      rows: 1,
      columns: this.count,
      ...adam,
    })
  }
}
