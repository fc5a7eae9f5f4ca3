/** The reference twin: plain loops, the definition of correct. Runs in single or double precision, one thread, at once. */

import { DessError } from "../errors.ts"
import { liftPlace } from "./codes.ts"
import { learnGroups, packRows, scoreRows, unpackRows } from "./groups.ts"
import type {
  Adam,
  Address,
  ColumnSums,
  CopyRows,
  Correlate,
  Fill,
  Floats,
  FuseLogs,
  HiddenInfer,
  HiddenInferGradient,
  HiddenPowers,
  HiddenScores,
  HiddenTrain,
  HiddenTrainBackward,
  Kernels,
  LearnGroups,
  LearnPairs,
  Loss,
  Mix,
  MixBackward,
  MoveRows,
  Multiply,
  Norm,
  Normalize,
  NormalizeBackward,
  NormalizeGradient,
  PackRows,
  PairScore,
  PairScoreBackward,
  PairScoreGradient,
  Project,
  ScoreChunks,
  ScoreRows,
  SumPowers,
  SumWords,
  UnpackRows,
} from "./kernels.ts"
import { NONE } from "./kernels.ts"
import { SCORERS } from "./layout.ts"
import { exp, log, sigmoid, softplus, tanh } from "./math.ts"
import { learnPairs } from "./pairs.ts"

export type Precision = "single" | "double"

export class ReferenceKernels implements Kernels {
  readonly kind = "reference"
  readonly threads = 1
  alone = false
  floats: Floats
  ints: Int32Array
  #top = 16

  constructor(precision: Precision = "single") {
    this.floats = precision === "double" ? new Float64Array(1 << 16) : new Float32Array(1 << 16)
    this.ints = new Int32Array(1 << 16)
  }

  allocate(count: number): Address {
    const address = this.#top
    this.#top += Math.ceil(count / 16) * 16
    if (this.#top > this.floats.length) {
      const length = Math.max(this.#top, 2 * this.floats.length)
      const floats = this.floats instanceof Float64Array ? new Float64Array(length) : new Float32Array(length)
      floats.set(this.floats)
      this.floats = floats
      const ints = new Int32Array(length)
      ints.set(this.ints)
      this.ints = ints
    }
    return address
  }

  mark(): Address {
    return this.#top
  }

  release(mark: Address): void {
    this.#top = mark
  }

  run(): void {}

  start(): void {}

  async ready(): Promise<void> {}

  close(): void {}

  multiply(p: Multiply): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      for (let c = 0; c < p.columns; c++) {
        const o = p.out + r * p.columns + c
        let sum = p.accumulate ? f[o] : p.bias ? f[p.bias + c] : 0
        for (let k = 0; k < p.inner; k++) {
          const a = p.transposeLeft ? f[p.left + k * p.rows + r] : f[p.left + r * p.inner + k]
          const b = p.transposeRight ? f[p.right + c * p.inner + k] : f[p.right + k * p.columns + c]
          sum += a * b
        }
        f[o] = sum
      }
    }
  }

  /** Puts the statistics in use into center[c] and scale[c]; in training also moves the running ones. */
  #setStatistics(norm: Norm, c: number, batch?: { mean: number; variance: number; total: number }): void {
    const f = this.floats
    if (batch) {
      const unbiased = batch.total > 1 ? (batch.variance * batch.total) / (batch.total - 1) : batch.variance
      f[norm.mean + c] += norm.momentum * (batch.mean - f[norm.mean + c])
      f[norm.variance + c] += norm.momentum * (unbiased - f[norm.variance + c])
    }
    f[norm.center + c] = batch ? batch.mean : f[norm.mean + c]
    f[norm.scale + c] = 1 / Math.sqrt((batch ? batch.variance : f[norm.variance + c]) + norm.epsilon)
  }

  normalize(p: Normalize): void {
    const f = this.floats
    for (let c = 0; c < p.columns; c++) {
      if (p.training) {
        let sum = 0
        for (let r = 0; r < p.rows; r++) sum += f[p.weights + r] * f[p.input + r * p.columns + c]
        const mean = sum / p.total
        let squares = 0
        for (let r = 0; r < p.rows; r++) {
          const d = f[p.input + r * p.columns + c] - mean
          squares += f[p.weights + r] * d * d
        }
        this.#setStatistics(p.norm, c, { mean, variance: squares / p.total, total: p.total })
      } else this.#setStatistics(p.norm, c)
      const center = f[p.norm.center + c]
      const scale = f[p.norm.scale + c]
      for (let r = 0; r < p.rows; r++) {
        const y = (f[p.input + r * p.columns + c] - center) * scale * f[p.norm.gamma + c] + f[p.norm.beta + c]
        f[p.out + r * p.columns + c] = p.tanh ? tanh(y) : y
      }
    }
  }

  normalizeBackward(p: NormalizeBackward): void {
    const f = this.floats
    for (let c = 0; c < p.columns; c++) {
      const center = f[p.norm.center + c]
      const scale = f[p.norm.scale + c]
      const through = (r: number) => {
        const o = r * p.columns + c
        return p.tanh ? f[p.dOut + o] * (1 - f[p.out + o] * f[p.out + o]) : f[p.dOut + o]
      }
      let dBeta = 0
      let dGamma = 0
      for (let r = 0; r < p.rows; r++) {
        dBeta += through(r)
        dGamma += through(r) * (f[p.input + r * p.columns + c] - center) * scale
      }
      f[p.dBeta + c] = dBeta
      f[p.dGamma + c] = dGamma
      // dx = γ·scale·(dy − w·(Σdy + x̂·Σdy·x̂)/total)
      for (let r = 0; r < p.rows; r++) {
        const hat = (f[p.input + r * p.columns + c] - center) * scale
        const mean = (f[p.weights + r] * (dBeta + hat * dGamma)) / p.total
        f[p.dInput + r * p.columns + c] = f[p.norm.gamma + c] * scale * (through(r) - mean)
      }
    }
  }

  normalizeGradient(p: NormalizeGradient): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      const row = p.index === NONE ? r : this.ints[p.index + r]
      for (let c = 0; c < p.columns; c++) {
        const a = p.activation === NONE ? 0 : f[p.activation + row * p.columns + c]
        const o = r * p.columns + c
        f[p.out + o] = f[p.dOut + o] * (1 - a * a) * f[p.norm.gamma + c] * f[p.norm.scale + c]
      }
    }
  }

  #hiddenSum(p: HiddenTrain | HiddenInfer, pair: number, c: number): number {
    const f = this.floats
    const user = f[p.user + this.ints[p.userIndex + pair] * p.columns + c]
    return user + f[p.item + this.ints[p.itemIndex + pair] * p.columns + c] + f[p.bias + c]
  }

  hiddenTrain(p: HiddenTrain): void {
    const f = this.floats
    for (let c = 0; c < p.columns; c++) {
      let sum = 0
      for (let r = 0; r < p.pairs; r++) sum += this.#hiddenSum(p, r, c)
      const mean = sum / p.pairs
      let squares = 0
      for (let r = 0; r < p.pairs; r++) {
        const d = this.#hiddenSum(p, r, c) - mean
        squares += d * d
      }
      this.#setStatistics(p.norm, c, { mean, variance: squares / p.pairs, total: p.pairs })
      const center = f[p.norm.center + c]
      const scale = f[p.norm.scale + c]
      for (let r = 0; r < p.pairs; r++) {
        const y = (this.#hiddenSum(p, r, c) - center) * scale * f[p.norm.gamma + c] + f[p.norm.beta + c]
        f[p.out + r * p.columns + c] = tanh(y)
      }
    }
  }

  hiddenTrainBackward(p: HiddenTrainBackward): void {
    const f = this.floats
    f.fill(0, p.dUser, p.dUser + p.users * p.columns)
    f.fill(0, p.dItem, p.dItem + p.items * p.columns)
    const dy = new Float64Array(p.pairs)
    for (let c = 0; c < p.columns; c++) {
      const center = f[p.norm.center + c]
      const scale = f[p.norm.scale + c]
      let dBeta = 0
      let dGamma = 0
      for (let r = 0; r < p.pairs; r++) {
        let d = 0
        for (let o = 0; o < p.outputs; o++) d += f[p.dLogits + r * p.outputs + o] * f[p.weight + o * p.columns + c]
        const t = f[p.out + r * p.columns + c]
        dy[r] = d * (1 - t * t)
        dBeta += dy[r]
        dGamma += dy[r] * (this.#hiddenSum(p, r, c) - center) * scale
      }
      f[p.dBeta + c] = dBeta
      f[p.dGamma + c] = dGamma
      for (let r = 0; r < p.pairs; r++) {
        const hat = (this.#hiddenSum(p, r, c) - center) * scale
        const dh = f[p.norm.gamma + c] * scale * (dy[r] - (dBeta + hat * dGamma) / p.pairs)
        f[p.dUser + this.ints[p.userIndex + r] * p.columns + c] += dh
        f[p.dItem + this.ints[p.itemIndex + r] * p.columns + c] += dh
      }
    }
  }

  hiddenInfer(p: HiddenInfer): void {
    const f = this.floats
    for (let c = 0; c < p.columns; c++) this.#setStatistics(p.norm, c)
    const sums = new Float64Array(p.outputs)
    for (let r = 0; r < p.pairs; r++) {
      for (let o = 0; o < p.outputs; o++) sums[o] = f[p.outputBias + o]
      for (let c = 0; c < p.columns; c++) {
        const hat = (this.#hiddenSum(p, r, c) - f[p.norm.center + c]) * f[p.norm.scale + c]
        const t = tanh(hat * f[p.norm.gamma + c] + f[p.norm.beta + c])
        if (p.activation !== NONE) f[p.activation + r * p.columns + c] = t
        for (let o = 0; o < p.outputs; o++) sums[o] += t * f[p.weight + o * p.columns + c]
      }
      for (let o = 0; o < p.outputs; o++) f[p.logits + r * p.outputs + o] = sums[o]
    }
  }

  hiddenInferGradient(p: HiddenInferGradient): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      const pair = this.ints[p.rowIndex + r]
      for (let c = 0; c < p.columns; c++) {
        let d = 0
        for (let o = 0; o < p.outputs; o++) d += f[p.dLogits + pair * p.outputs + o] * f[p.weight + o * p.columns + c]
        const t = f[p.activation + pair * p.columns + c]
        f[p.out + r * p.columns + c] = d * (1 - t * t) * f[p.norm.gamma + c] * f[p.norm.scale + c]
      }
    }
  }

  hiddenPowers(p: HiddenPowers): void {
    const f = this.floats
    const { norm } = p
    for (let c = 0; c < p.columns; c++) {
      const factor = f[norm.gamma + c] / Math.sqrt(f[norm.variance + c] + norm.epsilon)
      const offset = p.bias === NONE ? 0 : (f[p.bias + c] - f[norm.mean + c]) * factor + f[norm.beta + c]
      let largest = 0
      for (let r = 0; r < p.rows; r++) {
        const y = f[p.half + r * p.columns + c] * factor + offset
        largest = Math.max(largest, Math.abs(y))
        f[p.out + r * p.columns + c] = exp(2 * Math.max(-p.limit, Math.min(p.limit, y)))
      }
      f[p.largest + c] = largest
    }
  }

  hiddenScores(p: HiddenScores): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      const item = p.items + r * p.columns
      for (let o = 0; o < p.outputs; o++) {
        let sum = f[p.outputBias + o]
        for (let c = 0; c < p.columns; c++)
          sum += f[p.weight + o * p.columns + c] * (1 - 2 / (f[p.user + c] * f[item + c] + 1))
        f[p.scores + r * p.outputs + o] = sum
      }
    }
  }

  project(p: Project): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      for (let o = 0; o < p.outputs; o++) {
        let sum = f[p.bias + o]
        for (let c = 0; c < p.columns; c++) sum += f[p.input + r * p.columns + c] * f[p.weight + o * p.columns + c]
        f[p.out + r * p.outputs + o] = sum
      }
    }
  }

  correlate(p: Correlate): void {
    const f = this.floats
    for (let t = 0; t < p.count; t++) {
      let sum = 0
      for (let k = 0; k < p.columns; k++) sum += f[p.weight + k] * f[p.input + t + k]
      f[p.out + t] = sum
    }
  }

  scoreChunks(p: ScoreChunks): void {
    const [f, { lift }] = [this.floats, p]
    if (f instanceof Float64Array && (!p.sums || p.bits < 32))
      throw new DessError("UNSUPPORTED", "codes: expected kernels of single precision, got double")
    const [bytes, halves] = [new Int8Array(f.buffer), new Int16Array(f.buffer)]
    const perWord = 32 / p.bits
    for (let i = 0; i < p.count; i++) {
      const at = this.ints[p.chunks + Math.floor(i / p.slots)] + (i % p.slots)
      const first = at + 2 * p.slots
      let product = 0
      for (let k = 0; k < p.columns; k++) {
        const word = first + (p.bits === 32 ? k : 1 + Math.floor(k / perWord)) * p.slots
        if (p.bits === 32) product += f[p.x + k] * f[word]
        else product += halves[2 * p.x + k] * (p.bits === 8 ? bytes[4 * word + (k % 4)] : halves[2 * word + (k % 2)])
      }
      if (p.bits < 32) product *= p.factor * f[first]
      const id = this.ints[at]
      const place = liftPlace(id)
      let lifted = p.sums ? f[p.sums + place] : 0
      for (let k = 0; !p.sums && k < lift.columns; k++)
        lifted += lift.factor * halves[2 * lift.x + k] * halves[2 * lift.noise + place + k]
      f[p.out + id] = p.base + f[at + p.slots] + (product + lifted)
    }
  }

  loss(p: Loss): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      const label = f[p.labels + r]
      const z = f[p.logits + r * p.outputs]
      if (p.kind === "squared") {
        const s = sigmoid(z)
        f[p.losses + r] = (s - label) * (s - label)
        if (p.dLogits !== NONE) f[p.dLogits + r] = 2 * (s - label) * s * (1 - s)
      } else if (p.kind === "logistic") {
        f[p.losses + r] = softplus(z) - label * z
        if (p.dLogits !== NONE) f[p.dLogits + r] = sigmoid(z) - label
      } else {
        let max = Number.NEGATIVE_INFINITY
        for (let o = 0; o < p.outputs; o++) max = Math.max(max, f[p.logits + r * p.outputs + o])
        let sum = 0
        for (let o = 0; o < p.outputs; o++) sum += exp(f[p.logits + r * p.outputs + o] - max)
        f[p.losses + r] = log(sum) + max - f[p.logits + r * p.outputs + label]
        if (p.dLogits !== NONE)
          for (let o = 0; o < p.outputs; o++)
            f[p.dLogits + r * p.outputs + o] = exp(f[p.logits + r * p.outputs + o] - max) / sum - (o === label ? 1 : 0)
      }
    }
  }

  pairScore(p: PairScore): void {
    const f = this.floats
    for (let r = 0; r < p.pairs; r++) {
      const u = p.user + this.ints[p.userIndex + r] * p.columns
      const i = p.item + this.ints[p.itemIndex + r] * p.columns
      let sum = 0
      for (let c = 0; c < p.columns; c++) {
        if (p.metric === "dot") sum += f[u + c] * f[i + c]
        else sum -= (f[u + c] - f[i + c]) * (f[u + c] - f[i + c])
      }
      f[p.out + r] = sum * p.factor
    }
  }

  pairScoreBackward(p: PairScoreBackward): void {
    const f = this.floats
    f.fill(0, p.dUser, p.dUser + p.users * p.columns)
    f.fill(0, p.dItem, p.dItem + p.items * p.columns)
    for (let r = 0; r < p.pairs; r++) {
      const u = this.ints[p.userIndex + r] * p.columns
      const i = this.ints[p.itemIndex + r] * p.columns
      const d = f[p.dScores + r] * p.factor
      for (let c = 0; c < p.columns; c++) {
        const a = f[p.user + u + c]
        const b = f[p.item + i + c]
        f[p.dUser + u + c] += p.metric === "dot" ? d * b : -2 * d * (a - b)
        f[p.dItem + i + c] += p.metric === "dot" ? d * a : 2 * d * (a - b)
      }
    }
  }

  pairScoreGradient(p: PairScoreGradient): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      const pair = this.ints[p.rowIndex + r]
      const u = p.user + this.ints[p.userIndex + pair] * p.columns
      const i = p.item + this.ints[p.itemIndex + pair] * p.columns
      const [own, other] = p.side === "user" ? [u, i] : [i, u]
      const d = f[p.dScores + pair] * p.factor
      for (let c = 0; c < p.columns; c++)
        f[p.out + r * p.columns + c] = p.metric === "dot" ? d * f[other + c] : -2 * d * (f[own + c] - f[other + c])
    }
  }

  columnSums(p: ColumnSums): void {
    const f = this.floats
    for (let c = 0; c < p.columns; c++) {
      let sum = 0
      for (let r = 0; r < p.rows; r++) sum += f[p.input + r * p.columns + c]
      f[p.out + c] = sum
    }
  }

  moveRows(p: MoveRows): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      const base = p.base + this.ints[p.index + r] * p.columns
      for (let c = 0; c < p.columns; c++)
        f[p.out + r * p.columns + c] = f[base + c] - p.rate * f[p.delta + r * p.columns + c]
    }
  }

  mix(p: Mix): void {
    const f = this.floats
    for (let r = 0; r < p.rows; r++) {
      const at = r * p.count
      let max = Number.NEGATIVE_INFINITY
      for (let i = 0; i < p.count; i++) max = Math.max(max, f[p.logits + at + i])
      let sum = 0
      for (let i = 0; i < p.count; i++) sum += exp(f[p.logits + at + i] - max)
      for (let i = 0; i < p.count; i++) f[p.shares + at + i] = exp(f[p.logits + at + i] - max) / sum
      for (let c = 0; c < p.columns; c++) {
        let mixed = 0
        for (let i = 0; i < p.count; i++) mixed += f[p.shares + at + i] * f[p.parts + (i * p.rows + r) * p.columns + c]
        f[p.out + r * p.columns + c] = mixed
      }
    }
  }

  mixBackward(p: MixBackward): void {
    const f = this.floats
    const d = new Float64Array(p.count)
    for (let r = 0; r < p.rows; r++) {
      const at = r * p.count
      let mean = 0
      for (let i = 0; i < p.count; i++) {
        const share = f[p.shares + at + i]
        const part = (i * p.rows + r) * p.columns
        d[i] = 0
        for (let c = 0; c < p.columns; c++) {
          const dOut = f[p.dOut + r * p.columns + c]
          d[i] += dOut * f[p.parts + part + c]
          f[p.dParts + part + c] = share * dOut
        }
        mean += share * d[i]
      }
      for (let i = 0; i < p.count; i++) f[p.dLogits + at + i] = f[p.shares + at + i] * (d[i] - mean)
    }
  }

  adam(p: Adam): void {
    const f = this.floats
    const { columns, momentStride = columns } = p
    for (let r = 0; r < p.rows; r++) {
      for (let c = 0; c < columns; c++) {
        const value = p.value + r * columns + c
        const first = p.first + r * momentStride + c
        const second = p.second + r * momentStride + c
        const g = f[p.gradient + r * columns + c] + p.l2 * f[value]
        f[first] = p.beta1 * f[first] + (1 - p.beta1) * g
        f[second] = p.beta2 * f[second] + (1 - p.beta2) * g * g
        const m = f[first] * f[p.corrections + 2 * r]
        const v = f[second] * f[p.corrections + 2 * r + 1]
        f[value] -= (p.rate * m) / (Math.sqrt(v) + p.epsilon)
      }
    }
  }

  copyRows(p: CopyRows): void {
    const { columns, outStride = columns, inputStride = columns } = p
    for (let r = 0; r < p.rows; r++) {
      const from = p.input + r * inputStride
      this.floats.copyWithin(p.out + r * outStride, from, from + columns)
    }
  }

  learnGroups(p: LearnGroups): void {
    learnGroups(this, p)
  }

  sumWords(p: SumWords): void {
    const { floats: f, ints } = this
    let [count, unknown] = [0, 0]
    for (const { at: from, length, scorer, factor } of p.rows)
      for (let at = from; at < from + length; at++) {
        const number = ints[at] & 0xffffff
        if (number === 0 || number > p.limit) continue
        if (ints[p.slots + number] === 0) {
          ints[p.items + count] = number - 1
          if (Number.isNaN(f[p.roots + 2 * (number - 1)])) unknown++
          f.fill(0, p.sums + SCORERS * count, p.sums + SCORERS * (count + 1))
          ints[p.slots + number] = ++count
        }
        f[p.sums + SCORERS * (ints[p.slots + number] - 1) + scorer] += factor * f[p.values + (ints[at] >>> 24)]
      }
    ints[p.out] = count
    ints[p.out + 1] = unknown
  }

  fuseLogs(p: FuseLogs): void {
    const f = this.floats
    for (let t = 0; t < p.count; t++) {
      const item = this.ints[p.items + t]
      const root = p.roots + 2 * item
      let sum = 0
      for (let k = 0; k < SCORERS; k++)
        sum += p.weights[k] * log(1 + f[p.sums + SCORERS * t + k] / f[root + Math.min(1, k)])
      f[p.out + t] = sum
      if (p.to === NONE) continue
      f[p.to + item] += sum
      this.ints[p.slots + 1 + item] = 0
    }
  }

  sumPowers(p: SumPowers): void {
    const f = this.floats
    let most = Number.NEGATIVE_INFINITY
    for (let t = 0; t < p.count; t += 16) {
      let top = Number.NEGATIVE_INFINITY
      for (let k = t; k < Math.min(t + 16, p.count); k++) if (f[p.input + k] > top) top = f[p.input + k]
      f[p.maxima + t / 16] = top
      most = Math.max(most, top)
    }
    let sum = 0
    for (let t = 0; t < p.count; t++) if (f[p.input + t] > Number.NEGATIVE_INFINITY) sum += exp(f[p.input + t] - most)
    f[p.out] = most
    f[p.out + 1] = sum
  }

  scoreRows(p: ScoreRows): void {
    scoreRows(this, p)
  }

  learnPairs(p: LearnPairs): void {
    learnPairs(this, p)
  }

  unpackRows(p: UnpackRows): void {
    unpackRows(this, p)
  }

  packRows(p: PackRows): void {
    packRows(this, p)
  }

  fill(p: Fill): void {
    this.floats.fill(p.value, p.out, p.out + p.count)
  }
}
