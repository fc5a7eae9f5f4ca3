/**
 * The recommendation model: two embedding inputs, a head, a loss and Adam. It owns the tables and the dense parameters;
 * every number is computed by the kernels. Method.md §2 and §3.
 */

import { DessError, show } from "../../errors.ts"
import { type Address, type Floats, type Kernels, type LossKind, NONE, type Pairs } from "../../kernels/kernels.ts"
import { ADAM, type AdamOptions, Parameters } from "../../kernels/parameters.ts"
import { Random } from "../../kernels/random.ts"
import type { State } from "../../kernels/state.ts"
import { type HeadKind, SIDES, type Side, type Task } from "../../types.ts"
import { EmbeddingTable } from "../embedding-table.ts"
import { DEFAULT_SIZES, type ModelBatch, type PassResult, type SizedModel } from "../model.ts"
import { bprGradient } from "./bpr.ts"
import { type Distinct, findDistinct } from "./distinct.ts"
import type { Head, HeadBatch } from "./head.ts"
import type { EmbeddingInput, Placed } from "./input.ts"
import { Ladder } from "./ladder.ts"
import { MetricHead } from "./metric.ts"
import { Mixture } from "./mixture.ts"
import { NcfHead } from "./ncf.ts"
import { Plain } from "./plain.ts"

/** ladder: rows of any size, lifted. plain: one size, rows handed on as they are. mixture: all sizes at once, mixed. */
export type InputKind = "ladder" | "plain" | "mixture"

export interface ModelOptions {
  kernels: Kernels
  task?: Task
  head?: HeadKind
  input?: InputKind
  sizes?: readonly number[] | Record<Side, readonly number[]>
  /** The step of the sizes new ids start at. */
  start?: number
  hidden?: number
  adam?: Partial<AdamOptions>
  /** What the top-k task optimises: cross-entropy, or BPR between each positive and the negatives that follow it. */
  ranking?: "bce" | "bpr"
  /** Which statistics `predict` normalises with: the running ones, or those of the very batch it predicts. */
  norm?: "running" | "batch"
  seed?: number
  precision?: "single" | "double"
  /** Without, the model can predict and not learn. Default true. */
  moments?: boolean
}

/** A training pass between backward and step. */
export interface Pass extends PassResult {
  placed: Record<Side, Placed>
  /** The running statistics before it. */
  running: Floats
  mark: Address
}

const LOSSES: Record<Task, LossKind> = { binary: "squared", multiclass: "softmax", topk: "logistic" }

export class Model implements SizedModel {
  readonly task: Task
  readonly outputs: number
  readonly kernels: Kernels
  readonly parameters: Parameters
  readonly inputs: Record<Side, EmbeddingInput>
  /** The tables of the rows; a mixture has others beside them. */
  readonly tables: Record<Side, EmbeddingTable>
  readonly sizes: readonly number[]
  readonly head: Head
  readonly adam: AdamOptions
  readonly #ranking: "bce" | "bpr"
  readonly #norm: "running" | "batch"

  constructor(options: ModelOptions) {
    const {
      kernels,
      task = "binary",
      head = "ncf",
      input = "ladder",
      start = 0,
      hidden = 512,
      seed = 1,
      precision = "single",
      moments = true,
    } = options
    if (!Number.isInteger(hidden) || hidden < 1)
      throw new DessError("INVALID_ARGUMENT", `hidden: expected a whole number from 1, got ${show(hidden)}`)
    const given = options.sizes ?? DEFAULT_SIZES
    const sizes = "user" in given ? given : { user: given, item: given }
    this.kernels = kernels
    this.task = task
    this.outputs = task === "multiclass" ? 5 : 1
    this.adam = { ...ADAM, ...options.adam }
    this.#ranking = task === "topk" ? (options.ranking ?? "bce") : "bce"
    this.#norm = options.norm ?? "running"
    for (const [name, value] of Object.entries(this.adam))
      if (!(value >= 0 && value < Number.POSITIVE_INFINITY))
        throw new DessError("INVALID_ARGUMENT", `adam ${name}: expected a number from 0, got ${show(value)}`)
    this.parameters = new Parameters(kernels)
    const build = (side: Side): EmbeddingInput => {
      const names = { side, seed: `${seed} ${side}`, precision }
      if (input === "mixture") return new Mixture(kernels, this.parameters, { ...names, sizes: sizes[side] })
      const table = new EmbeddingTable({ ...names, sizes: sizes[side], start, moments })
      return input === "ladder" ? new Ladder(kernels, this.parameters, { side, table }) : new Plain(kernels, table)
    }
    this.inputs = { user: build("user"), item: build("item") }
    this.tables = { user: this.inputs.user.table, item: this.inputs.item.table }
    this.sizes = this.tables.user.sizes
    const width = this.inputs.user.width
    if (width !== this.inputs.item.width)
      throw new DessError(
        "INVALID_ARGUMENT",
        `sizes: expected the same top size on both sides, got ${width} and ${this.inputs.item.width}`,
      )
    const shape = { width, hidden, outputs: this.outputs }
    this.head =
      head === "ncf"
        ? new NcfHead(kernels, this.parameters, shape)
        : new MetricHead(kernels, this.parameters, { kind: head, ...shape })
    this.parameters.allocate(new Random(seed, "parameters"))
  }

  /** The ladder of a side; only hard methods have one. */
  ladder(side: Side): Ladder {
    const input = this.inputs[side]
    if (input instanceof Ladder) return input
    throw new DessError(
      "INVALID_ARGUMENT",
      `ladder of the ${side}s: expected a model of variable sizes, this one has a fixed size`,
    )
  }

  /** The mixture of a side; only soft methods have one. */
  mixture(side: Side): Mixture {
    const input = this.inputs[side]
    if (input instanceof Mixture) return input
    throw new DessError(
      "INVALID_ARGUMENT",
      `mixture of the ${side}s: expected a model that mixes sizes, this one does not`,
    )
  }

  /** Refuses a batch the model cannot learn from, before anything is touched. */
  #check(batch: ModelBatch): void {
    const rows = batch.user.length
    if (batch.item.length !== rows || batch.label.length !== rows)
      throw new DessError(
        "INVALID_ARGUMENT",
        `batch: expected columns of one length, got ${rows}, ${batch.item.length} and ${batch.label.length}`,
      )
    const top = this.task === "multiclass" ? 4 : 1
    for (let r = 0; r < rows; r++) {
      const label = batch.label[r]
      if (!(label >= 0 && label <= top && Number.isInteger(label)))
        throw new DessError(
          "INVALID_DATA",
          `label of row ${r}: expected ${top === 1 ? "0 or 1" : "a class from 0 to 4"}, got ${show(label)}`,
        )
    }
    for (const side of SIDES) {
      const ids = batch[side]
      for (let r = 0; r < rows; r++)
        if (!(Number.isInteger(ids[r]) && ids[r] >= 0 && ids[r] < 0x7fffffff))
          throw new DessError("INVALID_DATA", `${side} of row ${r}: expected an id from 0, got ${show(ids[r])}`)
    }
  }

  /** Gives every id of a batch a row; returns those that had none. */
  meet(batch: { user: ArrayLike<number>; item: ArrayLike<number> }): Record<Side, number[]> {
    const fresh: Record<Side, number[]> = { user: [], item: [] }
    for (const side of SIDES) {
      const ids = batch[side]
      const [first, ...others] = this.inputs[side].tables
      for (let r = 0; r < ids.length; r++) {
        if (first.has(ids[r])) continue
        first.ensure(ids[r])
        fresh[side].push(ids[r])
      }
      for (const table of others) for (let r = 0; r < ids.length; r++) table.ensure(ids[r])
    }
    return fresh
  }

  meetOne(side: Side, id: number): boolean {
    const isNew = !this.tables[side].has(id)
    for (const table of this.inputs[side].tables) table.ensure(id)
    return isNew
  }

  resize(side: Side, id: number, { step, cold = false }: { step: number; cold?: boolean }): void {
    const ladder = this.ladder(side)
    while (ladder.table.step(id) < step) ladder.grow([id], cold ? "cold" : "warm")
    while (ladder.table.step(id) > step) ladder.shrink([id])
  }

  forget(side: Side, ids: Iterable<number>): number[] {
    for (const table of this.inputs[side].tables) for (const id of ids) if (table.has(id)) table.free(id)
    return []
  }

  placeInts(values: ArrayLike<number>): Address {
    const address = this.kernels.allocate(values.length)
    this.kernels.ints.set(values, address)
    return address
  }

  placeFloats(values: ArrayLike<number>): Address {
    const address = this.kernels.allocate(values.length)
    this.kernels.floats.set(values, address)
    return address
  }

  /** Brings both sides of a batch into working memory and queues their vectors. */
  #vectors(batch: { user: ArrayLike<number>; item: ArrayLike<number> }, training: boolean) {
    const distinct: Record<Side, Distinct> = {
      user: findDistinct(batch.user, this.inputs.user.table),
      item: findDistinct(batch.item, this.inputs.item.table),
    }
    const placed = {
      user: this.inputs.user.place(distinct.user, training),
      item: this.inputs.item.place(distinct.item, training),
    }
    const pairs: Pairs = {
      user: this.inputs.user.forward(placed.user, training),
      item: this.inputs.item.forward(placed.item, training),
      userIndex: this.placeInts(distinct.user.index),
      itemIndex: this.placeInts(distinct.item.index),
      pairs: batch.user.length,
      columns: this.inputs.user.width,
    }
    return { placed, pairs }
  }

  /** Queues losses of logits; returns where they will stand. */
  queueLoss(logits: Address, labels: Address, rows: number, gradient: boolean): { losses: Address; dLogits: Address } {
    const losses = this.kernels.allocate(rows)
    const dLogits = gradient ? this.kernels.allocate(rows * this.outputs) : NONE
    this.kernels.loss({ kind: LOSSES[this.task], losses, dLogits, logits, labels, rows, outputs: this.outputs })
    return { losses, dLogits }
  }

  /** Copies the result of a pass out. */
  #result(logits: Address, losses: Address, rows: number): PassResult {
    const f = this.kernels.floats
    const result = { logits: new Float64Array(rows * this.outputs), losses: new Float64Array(rows) }
    for (let i = 0; i < result.logits.length; i++) result.logits[i] = f[logits + i]
    for (let i = 0; i < rows; i++) result.losses[i] = f[losses + i]
    return result
  }

  /** One training pass up to the gradients; `apply` or `discard` must follow. */
  backpropagate(batch: ModelBatch): Pass {
    const pass = this.#startPass(batch)
    this.kernels.run()
    return pass
  }

  /** A training pass whose last gradient may still be under way. */
  #startPass(batch: ModelBatch): Pass {
    this.#check(batch)
    const fresh = this.meet(batch)
    const k = this.kernels
    const mark = k.mark()
    const running = this.parameters.saveRunning()
    const { placed, pairs } = this.#vectors(batch, true)
    const labels = this.placeFloats(batch.label)
    const head: HeadBatch = {
      ...pairs,
      users: placed.user.count,
      items: placed.item.count,
      userWeights: placed.user.weights,
      itemWeights: placed.item.weights,
      kept: [],
    }
    const logits = this.head.forward(head)
    const { losses, dLogits } = this.queueLoss(logits, labels, pairs.pairs, true)
    if (this.#ranking === "bpr") {
      k.run()
      const gradient = new Float64Array(pairs.pairs)
      bprGradient(gradient, k.floats.subarray(logits, logits + pairs.pairs), batch.label)
      k.floats.set(gradient, dLogits)
    }
    const { dUser, dItem, queueRest } = this.head.backward(head, dLogits)
    this.inputs.user.backward(placed.user, dUser)
    this.inputs.item.backward(placed.item, dItem)
    queueRest?.()
    k.start()
    const result = this.#result(logits, losses, pairs.pairs)
    const bad = result.losses.findIndex((loss) => !Number.isFinite(loss))
    if (bad >= 0 || !this.parameters.isRunningFinite()) {
      k.run()
      this.parameters.restoreRunning(running)
      k.release(mark)
      const what = bad >= 0 ? `loss of row ${bad}` : "running statistics"
      const got = bad >= 0 ? result.losses[bad] : "numbers too large for them"
      for (const side of SIDES) this.forget(side, fresh[side])
      throw new DessError("NUMERIC", `${what}: expected finite numbers, got ${got}; the batch was not learned`)
    }
    return { ...result, placed, running, mark }
  }

  /** Ends a pass without learning from it. */
  discard(pass: Pass): void {
    this.parameters.restoreRunning(pass.running)
    this.kernels.release(pass.mark)
  }

  /** Steps rows and dense parameters by the gradients of a pass, and ends it. */
  apply(pass: Pass): void {
    const k = this.kernels
    for (const side of SIDES) this.inputs[side].step(pass.placed[side], this.adam)
    k.run()
    this.parameters.step(this.adam)
    k.start()
    for (const side of SIDES) this.inputs[side].commit(pass.placed[side])
    k.run()
    k.release(pass.mark)
  }

  /** One mini-batch step: predicts with batch statistics, learns, and returns what it predicted. */
  train(batch: ModelBatch): PassResult {
    if (batch.user.length === 0) return { logits: new Float64Array(0), losses: new Float64Array(0) }
    const pass = this.#startPass(batch)
    this.apply(pass)
    return { logits: pass.logits, losses: pass.losses }
  }

  /**
   * Logits and losses with running statistics: a row's result never depends on its neighbours, unless the model was made
   * to normalise with the batch's. Ids met here first get their row.
   */
  predict(batch: ModelBatch): PassResult {
    this.#check(batch)
    const rows = batch.user.length
    if (rows === 0) return { logits: new Float64Array(0), losses: new Float64Array(0) }
    this.meet(batch)
    if (this.#norm === "batch") {
      const pass = this.backpropagate(batch)
      this.discard(pass)
      return { logits: pass.logits, losses: pass.losses }
    }
    const k = this.kernels
    const mark = k.mark()
    const { placed, pairs } = this.#vectors(batch, false)
    const halves = {
      ...pairs,
      user: this.head.half("user", pairs.user, placed.user.count),
      item: this.head.half("item", pairs.item, placed.item.count),
    }
    const { logits } = this.head.logits(halves)
    const { losses } = this.queueLoss(logits, this.placeFloats(batch.label), rows, false)
    k.run()
    const result = this.#result(logits, losses, rows)
    k.release(mark)
    return result
  }

  save(state: State): void {
    this.parameters.save(state.at("parameters"))
    for (const side of SIDES)
      this.inputs[side].tables.forEach((table, t) => {
        table.save(state.at(`${side}.${t}`))
      })
  }

  load(state: State): void {
    this.parameters.load(state.at("parameters"))
    for (const side of SIDES)
      this.inputs[side].tables.forEach((table, t) => {
        table.load(state.at(`${side}.${t}`))
      })
  }

  vectorNumbers(side: Side): number {
    return this.tables[side].numbers
  }

  get #allTables(): EmbeddingTable[] {
    return [...this.inputs.user.tables, ...this.inputs.item.tables]
  }

  get embeddingBytes(): number {
    return this.#allTables.reduce((sum, table) => sum + table.embeddingBytes, 0)
  }

  get heldBytes(): number {
    return this.#allTables.reduce((sum, table) => sum + table.heldBytes, 0)
  }
}
