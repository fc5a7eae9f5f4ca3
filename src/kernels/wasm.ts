/**
 * The fast twin: SIMD in Wasm, any number of threads. Operations are written to a tape; `run()` crosses into Wasm once
 * and works through it. Operations worth it are cut into parts, by outputs, which threads take as they come.
 */

import { DessError, show } from "../errors.ts"
import type {
  Adam,
  Address,
  ColumnSums,
  Fill,
  HiddenInfer,
  HiddenInferGradient,
  HiddenTrain,
  HiddenTrainBackward,
  Kernels,
  Loss,
  Mix,
  MixBackward,
  MoveRows,
  Multiply,
  Norm,
  Normalize,
  NormalizeBackward,
  NormalizeGradient,
  PairScore,
  PairScoreBackward,
  PairScoreGradient,
  Pairs,
  Project,
} from "./kernels.ts"
import * as layout from "./layout.ts"
import { Pool, sleepOn } from "./pool.ts"
import { type KernelExports, Wasm, type WasmMemory, type WasmModule } from "./webassembly.ts"

const PAGE = 65536
const MAXIMUM_PAGES = 65536
/** Vectors are loaded whole, also at the end of a block: so much may be read, and is not used, past the last one. */
const SLACK = 128
/** An operation is cut into a few parts for each thread, so that a thread that is held up holds up little. */
const PARTS_PER_THREAD = 4

const LOSS_KINDS = { squared: layout.SQUARED, logistic: layout.LOGISTIC, softmax: layout.SOFTMAX }
const METRICS = { dot: layout.DOT, distance: layout.DISTANCE }

/** Memory that may grow to 4 GiB, or as far as the machine allows. */
function createMemory(bytes: number, shared: boolean): WasmMemory {
  const initial = Math.ceil(bytes / PAGE)
  for (let maximum = MAXIMUM_PAGES; ; maximum /= 2) {
    try {
      return new Wasm!.Memory({ initial, maximum, shared })
    } catch (error) {
      if (maximum / 2 < Math.max(initial, 1024)) throw error
    }
  }
}

export interface WasmOptions {
  kind: "simd" | "relaxed-simd"
  threads: number
  module: WasmModule
  /** Nanoseconds, roughly, of the smallest part worth giving to a thread. */
  grain: number
}

export class WasmKernels implements Kernels {
  readonly kind: "simd" | "relaxed-simd"
  readonly threads: number
  floats!: Float32Array
  ints!: Int32Array
  readonly #memory: WasmMemory
  readonly #exports: KernelExports
  readonly #pool: Pool | undefined
  readonly #grain: number
  #top: number
  #closed = false

  /** The tape, and where the operation being written starts. */
  #tape = new Int32Array(4096)
  #tapeFloats = new Float32Array(this.#tape.buffer)
  #length = 0
  #start = 0

  constructor({ kind, threads, module, grain }: WasmOptions) {
    this.kind = kind
    this.threads = threads
    this.#grain = grain
    const reserved = layout.SCRATCH + threads * layout.SCRATCH_BYTES
    this.#top = reserved / 4
    this.#memory = createMemory(reserved + 16 * PAGE, threads > 1)
    const sleep = threads > 1 ? sleepOn(this.#memory) : () => {}
    this.#exports = new Wasm!.Instance(module, { env: { memory: this.#memory, sleep } }).exports
    this.#pool = threads > 1 ? new Pool(module, this.#memory, threads - 1) : undefined
    this.#refresh()
  }

  #refresh(): void {
    this.floats = new Float32Array(this.#memory.buffer)
    this.ints = new Int32Array(this.#memory.buffer)
  }

  allocate(count: number): Address {
    if (!(count >= 0)) throw new DessError("INVALID_ARGUMENT", `allocate: expected a count, got ${show(count)}`)
    const address = this.#top
    const top = address + Math.ceil(count / 16) * 16
    const needed = top * 4 + SLACK
    const held = this.#memory.buffer.byteLength
    if (needed > held) {
      const pages = Math.ceil((needed - held) / PAGE)
      // Half as much again, so that growing is rare; exactly what is needed where that is too much.
      const generous = Math.max(pages, Math.ceil(held / PAGE / 2))
      if (!this.#grow(generous) && !this.#grow(pages))
        throw new DessError(
          "UNSUPPORTED",
          `working memory: expected room for ${needed} bytes, got no more than ${held}`,
        )
    }
    this.#top = top
    return address
  }

  #grow(pages: number): boolean {
    try {
      this.#memory.grow(pages)
    } catch {
      return false
    }
    this.#refresh()
    return true
  }

  mark(): Address {
    return this.#top
  }

  release(mark: Address): void {
    this.#top = mark
  }

  async ready(): Promise<void> {
    await this.#pool?.allReady()
  }

  run(): void {
    if (this.#closed) throw new DessError("INVALID_ARGUMENT", "kernels: expected open kernels, got closed ones")
    const tape = this.#tape
    const end = this.#length
    this.#length = 0
    for (let start = 0; start < end; ) {
      // As many whole operations as the tape's place in memory holds.
      let stop = start
      while (stop < end && stop + tape[stop + 1] - start <= layout.TAPE_BYTES / 4) stop += tape[stop + 1]
      this.ints.set(tape.subarray(start, stop), layout.TAPE / 4)
      this.#enter(layout.TAPE + (stop - start) * 4)
      start = stop
    }
  }

  #enter(tapeEnd: number): void {
    try {
      this.#exports.run(layout.TAPE, tapeEnd, this.#pool !== undefined && this.#pool.ready > 0)
    } catch (cause) {
      this.close()
      const message = "kernels: expected addresses and indices inside the working memory, got one outside it"
      throw new DessError("INVALID_ARGUMENT", message, { cause })
    }
  }

  close(): void {
    if (!this.#closed) this.#exports.stop()
    this.#closed = true
  }

  /** Starts an operation; `nanoseconds` is what one thread takes for it, roughly. */
  #begin(code: number, nanoseconds: number): void {
    this.#start = this.#length
    const most = this.threads === 1 ? 1 : Math.min(this.threads * PARTS_PER_THREAD, layout.MAXIMUM_PARTS)
    this.#put(code, 0, Math.max(1, Math.floor(Math.min(most, nanoseconds / this.#grain))))
  }

  #end(): void {
    this.#tape[this.#start + 1] = this.#length - this.#start
  }

  /** Makes room on the tape. */
  #reserve(words: number): void {
    if (this.#length + words <= this.#tape.length) return
    const tape = new Int32Array(2 * this.#tape.length)
    tape.set(this.#tape)
    this.#tape = tape
    this.#tapeFloats = new Float32Array(tape.buffer)
  }

  #put(...values: number[]): void {
    this.#reserve(values.length)
    for (const value of values) this.#tape[this.#length++] = value
  }

  #putFloats(...values: number[]): void {
    this.#reserve(values.length)
    for (const value of values) this.#tapeFloats[this.#length++] = value
  }

  /** Addresses count floats, Wasm counts bytes. */
  #putAddresses(...addresses: Address[]): void {
    this.#reserve(addresses.length)
    for (const address of addresses) this.#tape[this.#length++] = address * 4
  }

  #putNorm(norm: Norm): void {
    this.#putAddresses(norm.gamma, norm.beta, norm.mean, norm.variance, norm.center, norm.scale)
    this.#putFloats(norm.epsilon, norm.momentum)
  }

  #putPairs(p: Pairs): void {
    this.#putAddresses(p.user, p.item, p.userIndex, p.itemIndex)
    this.#put(p.pairs, p.columns)
  }

  multiply(p: Multiply): void {
    this.#begin(layout.MULTIPLY, p.rows * p.columns * (p.inner / 20 + 0.3))
    this.#putAddresses(p.out, p.left, p.right, p.bias ?? 0)
    this.#put(p.rows, p.columns, p.inner)
    const transposes = (p.transposeLeft ? layout.TRANSPOSE_LEFT : 0) | (p.transposeRight ? layout.TRANSPOSE_RIGHT : 0)
    this.#put(transposes | (p.accumulate ? layout.ACCUMULATE : 0))
    this.#end()
  }

  normalize(p: Normalize): void {
    this.#begin(layout.NORMALIZE, p.rows * p.columns * (p.tanh ? 1.2 : 0.5))
    this.#putAddresses(p.out, p.input, p.weights)
    this.#put(p.rows, p.columns, (p.training ? layout.TRAINING : 0) | (p.tanh ? layout.TANH : 0))
    this.#putFloats(p.total, unbias(p.total))
    this.#putNorm(p.norm)
    this.#end()
  }

  normalizeBackward(p: NormalizeBackward): void {
    this.#begin(layout.NORMALIZE_BACKWARD, p.rows * p.columns)
    this.#putAddresses(p.dInput, p.dGamma, p.dBeta, p.dOut, p.input, p.out, p.weights)
    this.#put(p.rows, p.columns, p.tanh ? layout.TANH : 0)
    this.#putFloats(p.total)
    this.#putNorm(p.norm)
    this.#end()
  }

  normalizeGradient(p: NormalizeGradient): void {
    this.#begin(layout.NORMALIZE_GRADIENT, p.rows * p.columns * 0.4)
    this.#putAddresses(p.out, p.dOut, p.activation, p.index)
    this.#put(p.rows, p.columns)
    this.#putNorm(p.norm)
    this.#end()
  }

  hiddenTrain(p: HiddenTrain): void {
    this.#begin(layout.HIDDEN_TRAIN, p.pairs * p.columns * 1.5)
    this.#putAddresses(p.out, p.bias)
    this.#putFloats(p.pairs, unbias(p.pairs))
    this.#putPairs(p)
    this.#putNorm(p.norm)
    this.#end()
  }

  hiddenTrainBackward(p: HiddenTrainBackward): void {
    this.#begin(layout.HIDDEN_TRAIN_BACKWARD, p.pairs * p.columns * (1.5 + 0.3 * p.outputs))
    this.#putAddresses(p.out, p.bias, p.dUser, p.dItem, p.dBias, p.dGamma, p.dBeta, p.dLogits, p.weight)
    this.#put(p.outputs, p.users, p.items)
    this.#putFloats(p.pairs)
    this.#putPairs(p)
    this.#putNorm(p.norm)
    this.#end()
  }

  hiddenInfer(p: HiddenInfer): void {
    this.#begin(layout.HIDDEN_INFER, p.pairs * p.columns * (1 + 0.2 * p.outputs))
    this.#putAddresses(p.logits, p.activation, p.bias, p.weight, p.outputBias)
    this.#put(p.outputs)
    this.#putPairs(p)
    this.#putNorm(p.norm)
    this.#end()
  }

  hiddenInferGradient(p: HiddenInferGradient): void {
    this.#begin(layout.HIDDEN_INFER_GRADIENT, p.rows * p.columns * (0.3 + 0.2 * p.outputs))
    this.#putAddresses(p.out, p.dLogits, p.activation, p.rowIndex, p.weight)
    this.#put(p.rows, p.columns, p.outputs)
    this.#putNorm(p.norm)
    this.#end()
  }

  project(p: Project): void {
    this.#begin(layout.PROJECT, p.rows * p.outputs * (5 + p.columns * 0.15))
    this.#putAddresses(p.out, p.input, p.weight, p.bias)
    this.#put(p.rows, p.columns, p.outputs)
    this.#end()
  }

  loss(p: Loss): void {
    this.#begin(layout.LOSS, p.rows * p.outputs * 6)
    this.#putAddresses(p.losses, p.dLogits, p.logits, p.labels)
    this.#put(p.rows, p.outputs, LOSS_KINDS[p.kind])
    this.#end()
  }

  pairScore(p: PairScore): void {
    this.#begin(layout.PAIR_SCORE, p.pairs * (5 + p.columns * 0.2))
    this.#putAddresses(p.out)
    this.#put(METRICS[p.metric])
    this.#putFloats(p.factor)
    this.#putPairs(p)
    this.#end()
  }

  pairScoreBackward(p: PairScoreBackward): void {
    this.#begin(layout.PAIR_SCORE_BACKWARD, (p.pairs + p.users + p.items) * p.columns * 0.5)
    this.#putAddresses(p.dUser, p.dItem, p.dScores)
    this.#put(METRICS[p.metric])
    this.#putFloats(p.factor)
    this.#put(p.users, p.items)
    this.#putPairs(p)
    this.#end()
  }

  pairScoreGradient(p: PairScoreGradient): void {
    this.#begin(layout.PAIR_SCORE_GRADIENT, p.rows * (5 + p.columns * 0.3))
    this.#putAddresses(p.out, p.dScores, p.rowIndex)
    this.#put(p.rows, METRICS[p.metric])
    this.#putFloats(p.factor)
    if (p.side === "user") this.#putAddresses(p.user, p.item, p.userIndex, p.itemIndex)
    else this.#putAddresses(p.item, p.user, p.itemIndex, p.userIndex)
    this.#put(p.columns)
    this.#end()
  }

  columnSums(p: ColumnSums): void {
    this.#begin(layout.COLUMN_SUMS, p.rows * (1 + p.columns * 0.2))
    this.#putAddresses(p.out, p.input)
    this.#put(p.rows, p.columns)
    this.#end()
  }

  moveRows(p: MoveRows): void {
    this.#begin(layout.MOVE_ROWS, p.rows * (3 + p.columns * 0.3))
    this.#putAddresses(p.out, p.base, p.index, p.delta)
    this.#put(p.rows, p.columns)
    this.#putFloats(p.rate)
    this.#end()
  }

  mix(p: Mix): void {
    this.#begin(layout.MIX, p.rows * p.count * (5 + p.columns * 0.15))
    this.#putAddresses(p.out, p.shares, p.logits, p.parts)
    this.#put(p.count, p.rows, p.columns)
    this.#end()
  }

  mixBackward(p: MixBackward): void {
    this.#begin(layout.MIX_BACKWARD, p.rows * p.count * (5 + p.columns * 0.3))
    this.#putAddresses(p.dParts, p.dLogits, p.dOut, p.shares, p.parts)
    this.#put(p.count, p.rows, p.columns)
    this.#end()
  }

  adam(p: Adam): void {
    this.#begin(layout.ADAM, p.rows * (10 + p.columns * 0.8))
    this.#putAddresses(p.value, p.gradient, p.first, p.second, p.corrections)
    this.#put(p.rows, p.columns)
    this.#putFloats(p.rate, p.beta1, 1 - p.beta1, p.beta2, 1 - p.beta2, p.epsilon, p.l2)
    this.#end()
  }

  fill(p: Fill): void {
    this.#begin(layout.FILL, p.count * 0.1)
    this.#putAddresses(p.out)
    this.#put(p.count)
    this.#putFloats(p.value)
    this.#end()
  }
}

/** From the biased variance of `total` rows to the unbiased one. */
function unbias(total: number): number {
  return total > 1 ? total / (total - 1) : 1
}
