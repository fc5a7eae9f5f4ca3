/**
 * The fast twin: SIMD in Wasm, any number of threads. Operations are written to a tape; `run()` crosses into Wasm once
 * and works through it. Operations worth it are cut into parts, by outputs, which threads take as they come.
 */

import { DessError, show } from "../errors.ts"
import type {
  Adam,
  Address,
  ColumnSums,
  CopyRows,
  Correlate,
  Fill,
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
import * as layout from "./layout.ts"
import { Pool, sleepOn } from "./pool.ts"
import { Tape } from "./tape.ts"
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
  /** Whether the module wants shared memory; several threads do. */
  shared: boolean
}

export class WasmKernels implements Kernels {
  readonly kind: "simd" | "relaxed-simd"
  readonly threads: number
  alone = false
  floats!: Float32Array
  ints!: Int32Array
  readonly #memory: WasmMemory
  readonly #exports: KernelExports
  readonly #pool: Pool | undefined
  readonly #grain: number
  #top: number
  #closed = false

  readonly #tape = new Tape()
  /** Products queued so far: tells one from the next. */
  #products = 0

  constructor({ kind, threads, module, grain, shared }: WasmOptions) {
    this.kind = kind
    this.threads = threads
    this.#grain = grain
    const reserved = layout.SCRATCH + threads * layout.SCRATCH_BYTES
    this.#top = reserved / 4
    this.#memory = createMemory(reserved + 16 * PAGE, shared)
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
    const held = this.floats.byteLength
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
    this.#work(false)
  }

  start(): void {
    this.#work(true)
  }

  #work(leave: boolean): void {
    if (this.#closed) throw new DessError("INVALID_ARGUMENT", "kernels: expected open kernels, got closed ones")
    const tape = this.#tape
    try {
      this.#exports.settle()
      for (let start = 0; start < tape.length; ) {
        const end = tape.cut(start, layout.TAPE_BYTES / 4)
        this.ints.set(tape.words.subarray(start, end), layout.TAPE / 4)
        const shared = !this.alone && this.#pool !== undefined && this.#pool.ready > 0
        this.#exports.run(layout.TAPE, layout.TAPE + (end - start) * 4, shared, leave && end === tape.length)
        start = end
      }
    } catch (cause) {
      this.close()
      const message = "kernels: expected addresses and indices inside the working memory, got one outside it"
      throw new DessError("INVALID_ARGUMENT", message, { cause })
    } finally {
      tape.length = 0
    }
  }

  close(): void {
    if (!this.#closed) this.#exports.stop()
    this.#closed = true
  }

  /** Starts an operation; `nanoseconds` is what one thread takes for it, roughly. */
  #begin(code: number, nanoseconds: number, partsPerThread = PARTS_PER_THREAD): Tape {
    const most = this.alone || this.threads === 1 ? 1 : Math.min(this.threads * partsPerThread, layout.MAXIMUM_PARTS)
    return this.#tape.begin(code, Math.max(1, Math.floor(Math.min(most, nanoseconds / this.#grain))))
  }

  multiply(p: Multiply): void {
    // Cut by rows, more parts cost nothing; cut by columns, every part reads all of the left side, or packs a transposed one.
    const parts = p.rows > p.columns ? 2 * PARTS_PER_THREAD : p.transposeLeft ? 2 : PARTS_PER_THREAD
    const tape = this.#begin(layout.MULTIPLY, p.rows * p.columns * (p.inner / 20 + 0.3), parts)
    tape.putAddresses(p.out, p.left, p.right, p.bias ?? 0)
    tape.put(p.rows, p.columns, p.inner)
    const transposes = (p.transposeLeft ? layout.TRANSPOSE_LEFT : 0) | (p.transposeRight ? layout.TRANSPOSE_RIGHT : 0)
    this.#products = (this.#products + 1) | 0
    tape.put(transposes | (p.accumulate ? layout.ACCUMULATE : 0), this.#products)
    tape.end()
  }

  normalize(p: Normalize): void {
    const tape = this.#begin(layout.NORMALIZE, p.rows * p.columns * (p.tanh ? 1.2 : 0.5))
    tape.putAddresses(p.out, p.input, p.weights)
    tape.put(p.rows, p.columns, (p.training ? layout.TRAINING : 0) | (p.tanh ? layout.TANH : 0))
    tape.putFloats(p.total, unbias(p.total))
    tape.putNorm(p.norm)
    tape.end()
  }

  normalizeBackward(p: NormalizeBackward): void {
    const tape = this.#begin(layout.NORMALIZE_BACKWARD, p.rows * p.columns)
    tape.putAddresses(p.dInput, p.dGamma, p.dBeta, p.dOut, p.input, p.out, p.weights)
    tape.put(p.rows, p.columns, p.tanh ? layout.TANH : 0)
    tape.putFloats(p.total)
    tape.putNorm(p.norm)
    tape.end()
  }

  normalizeGradient(p: NormalizeGradient): void {
    const tape = this.#begin(layout.NORMALIZE_GRADIENT, p.rows * p.columns * 0.4)
    tape.putAddresses(p.out, p.dOut, p.activation, p.index)
    tape.put(p.rows, p.columns)
    tape.putNorm(p.norm)
    tape.end()
  }

  hiddenTrain(p: HiddenTrain): void {
    const tape = this.#begin(layout.HIDDEN_TRAIN, p.pairs * p.columns * 1.5)
    tape.putAddresses(p.out, p.bias)
    tape.putFloats(p.pairs, unbias(p.pairs))
    tape.putPairs(p)
    tape.putNorm(p.norm)
    tape.end()
  }

  hiddenTrainBackward(p: HiddenTrainBackward): void {
    const tape = this.#begin(layout.HIDDEN_TRAIN_BACKWARD, p.pairs * p.columns * (1.5 + 0.3 * p.outputs))
    tape.putAddresses(p.out, p.bias, p.dUser, p.dItem, p.dGamma, p.dBeta, p.dLogits, p.weight)
    tape.put(p.outputs, p.users, p.items)
    tape.putFloats(p.pairs)
    tape.putPairs(p)
    tape.putNorm(p.norm)
    tape.end()
  }

  hiddenInfer(p: HiddenInfer): void {
    const tape = this.#begin(layout.HIDDEN_INFER, p.pairs * p.columns * (1 + 0.2 * p.outputs))
    tape.putAddresses(p.logits, p.activation, p.bias, p.weight, p.outputBias)
    tape.put(p.outputs)
    tape.putPairs(p)
    tape.putNorm(p.norm)
    tape.end()
  }

  hiddenInferGradient(p: HiddenInferGradient): void {
    const tape = this.#begin(layout.HIDDEN_INFER_GRADIENT, p.rows * p.columns * (0.3 + 0.2 * p.outputs))
    tape.putAddresses(p.out, p.dLogits, p.activation, p.rowIndex, p.weight)
    tape.put(p.rows, p.columns, p.outputs)
    tape.putNorm(p.norm)
    tape.end()
  }

  hiddenPowers(p: HiddenPowers): void {
    const tape = this.#begin(layout.HIDDEN_POWERS, p.rows * p.columns * 2)
    tape.putAddresses(p.out, p.largest, p.half, p.bias)
    tape.put(p.rows, p.columns)
    tape.putFloats(p.limit)
    tape.putNorm(p.norm)
    tape.end()
  }

  hiddenScores(p: HiddenScores): void {
    const tape = this.#begin(layout.HIDDEN_SCORES, p.rows * p.columns * (0.3 + 0.1 * p.outputs))
    tape.putAddresses(p.scores, p.user, p.items, p.weight, p.outputBias)
    tape.put(p.rows, p.columns, p.outputs)
    tape.end()
  }

  project(p: Project): void {
    const tape = this.#begin(layout.PROJECT, p.rows * p.outputs * (5 + p.columns * 0.15))
    tape.putAddresses(p.out, p.input, p.weight, p.bias)
    tape.put(p.rows, p.columns, p.outputs)
    tape.end()
  }

  correlate(p: Correlate): void {
    const tape = this.#begin(layout.CORRELATE, p.count * (0.2 + p.columns * 0.06))
    tape.putAddresses(p.out, p.input, p.weight)
    tape.put(p.count, p.columns)
    tape.end()
  }

  scoreChunks(p: ScoreChunks): void {
    const tape = this.#begin(layout.SCORE_CHUNKS, p.count * (3 + p.columns * 0.04))
    tape.putAddresses(p.out, p.chunks, p.x, p.sums, p.lift.x, p.lift.noise)
    tape.put(p.slots, p.count, p.bits, p.columns, p.lift.columns)
    tape.putFloats(p.factor, p.base, p.lift.factor)
    tape.end()
  }

  loss(p: Loss): void {
    const tape = this.#begin(layout.LOSS, p.rows * p.outputs * 6)
    tape.putAddresses(p.losses, p.dLogits, p.logits, p.labels)
    tape.put(p.rows, p.outputs, LOSS_KINDS[p.kind])
    tape.end()
  }

  pairScore(p: PairScore): void {
    const tape = this.#begin(layout.PAIR_SCORE, p.pairs * (5 + p.columns * 0.2))
    tape.putAddresses(p.out)
    tape.put(METRICS[p.metric])
    tape.putFloats(p.factor)
    tape.putPairs(p)
    tape.end()
  }

  pairScoreBackward(p: PairScoreBackward): void {
    const tape = this.#begin(layout.PAIR_SCORE_BACKWARD, (p.pairs + p.users + p.items) * p.columns * 0.5)
    tape.putAddresses(p.dUser, p.dItem, p.dScores)
    tape.put(METRICS[p.metric])
    tape.putFloats(p.factor)
    tape.put(p.users, p.items)
    tape.putPairs(p)
    tape.end()
  }

  pairScoreGradient(p: PairScoreGradient): void {
    const tape = this.#begin(layout.PAIR_SCORE_GRADIENT, p.rows * (5 + p.columns * 0.3))
    tape.putAddresses(p.out, p.dScores, p.rowIndex)
    tape.put(p.rows, METRICS[p.metric])
    tape.putFloats(p.factor)
    if (p.side === "user") tape.putAddresses(p.user, p.item, p.userIndex, p.itemIndex)
    else tape.putAddresses(p.item, p.user, p.itemIndex, p.userIndex)
    tape.put(p.columns)
    tape.end()
  }

  columnSums(p: ColumnSums): void {
    const tape = this.#begin(layout.COLUMN_SUMS, p.rows * (1 + p.columns * 0.2))
    tape.putAddresses(p.out, p.input)
    tape.put(p.rows, p.columns)
    tape.end()
  }

  moveRows(p: MoveRows): void {
    const tape = this.#begin(layout.MOVE_ROWS, p.rows * (3 + p.columns * 0.3))
    tape.putAddresses(p.out, p.base, p.index, p.delta)
    tape.put(p.rows, p.columns)
    tape.putFloats(p.rate)
    tape.end()
  }

  mix(p: Mix): void {
    const tape = this.#begin(layout.MIX, p.rows * p.count * (5 + p.columns * 0.15))
    tape.putAddresses(p.out, p.shares, p.logits, p.parts)
    tape.put(p.count, p.rows, p.columns)
    tape.end()
  }

  mixBackward(p: MixBackward): void {
    const tape = this.#begin(layout.MIX_BACKWARD, p.rows * p.count * (5 + p.columns * 0.3))
    tape.putAddresses(p.dParts, p.dLogits, p.dOut, p.shares, p.parts)
    tape.put(p.count, p.rows, p.columns)
    tape.end()
  }

  adam(p: Adam): void {
    const tape = this.#begin(layout.ADAM, p.rows * (10 + p.columns * 0.8))
    tape.putAddresses(p.value, p.gradient, p.first, p.second, p.corrections)
    tape.put(p.rows, p.columns, p.momentStride ?? p.columns)
    tape.putFloats(p.rate, p.beta1, 1 - p.beta1, p.beta2, 1 - p.beta2, p.epsilon, p.l2)
    tape.end()
  }

  copyRows(p: CopyRows): void {
    const tape = this.#begin(layout.COPY_ROWS, p.rows * (5 + p.columns * 0.15))
    tape.putAddresses(p.out, p.input)
    tape.put(p.rows, p.columns, p.outStride ?? p.columns, p.inputStride ?? p.columns)
    tape.end()
  }

  learnGroups(p: LearnGroups): void {
    const { rate, l2, most, fusion } = p.constants
    const tape = this.#tape.begin(layout.LEARN_GROUPS, 1)
    tape.putAddresses(p.groups, p.rows, p.chances, p.features, p.fusion, p.decay, p.lift, p.work, p.losses)
    tape.put(p.from, p.to, p.pass, p.passes, p.widest, p.longest, p.latest, p.rungs)
    tape.putAddresses(p.ladder)
    tape.putFloats(
      rate.slow,
      rate.item,
      rate.user,
      rate.input,
      l2.item,
      l2.user,
      l2.input,
      most,
      fusion.rate,
      fusion.most,
      rate.quick,
      rate.mix,
    )
    tape.end()
  }

  sumWords(p: SumWords): void {
    const tape = this.#tape.begin(layout.SUM_WORDS, 1)
    tape.putAddresses(p.out, p.values, p.slots, p.items, p.sums, p.roots)
    tape.put(p.limit, p.rows.length)
    for (const { at, length, scorer, factor } of p.rows) tape.putAddresses(at).put(length, scorer).putFloats(factor)
    tape.end()
  }

  fuseLogs(p: FuseLogs): void {
    const tape = this.#begin(layout.FUSE_LOGS, p.count * 10)
    tape.putAddresses(p.out, p.sums, p.items, p.roots, p.to, p.slots)
    tape.put(p.count)
    for (let k = 0; k < layout.SCORERS; k++) tape.putFloats(p.weights[k])
    tape.end()
  }

  sumPowers(p: SumPowers): void {
    const tape = this.#tape.begin(layout.SUM_POWERS, 1)
    tape.putAddresses(p.out, p.maxima, p.input)
    tape.put(p.count)
    tape.end()
  }

  scoreRows(p: ScoreRows): void {
    const tape = this.#begin(layout.SCORE_ROWS, p.count * (5 + p.columns * 0.15))
    tape.putAddresses(p.out, p.rows, p.x, p.lift)
    tape.put(p.count, p.columns)
    tape.end()
  }

  learnPairs(p: LearnPairs): void {
    const { rate, l2, most } = p.constants
    const tape = this.#tape.begin(layout.LEARN_PAIRS, 1)
    tape.putAddresses(p.pairs, p.labels, p.weights, p.losses, p.judged, p.logits, p.lift, p.global, p.ladder)
    tape.put(p.rows, p.passes, p.rungs)
    tape.putFloats(rate.global, rate.bias, l2.bias, rate.user, rate.item, most, l2.user, l2.item)
    tape.end()
  }

  unpackRows(p: UnpackRows): void {
    const tape = this.#tape.begin(layout.UNPACK_ROWS, 1)
    tape.putAddresses(p.records, p.form.lift)
    tape.put(p.count, p.form.whole, p.form.head, p.form.vectors)
    tape.end()
  }

  packRows(p: PackRows): void {
    const tape = this.#tape.begin(layout.PACK_ROWS, 1)
    tape.putAddresses(p.records, p.form.lift)
    tape.put(p.count, p.form.whole, p.form.head, p.form.vectors, p.seed)
    tape.end()
  }

  fill(p: Fill): void {
    const tape = this.#begin(layout.FILL, p.count * 0.1)
    tape.putAddresses(p.out)
    tape.put(p.count)
    tape.putFloats(p.value)
    tape.end()
  }
}

/** From the biased variance of `total` rows to the unbiased one. */
function unbias(total: number): number {
  return total > 1 ? total / (total - 1) : 1
}
