/**
 * The model of the calibrated recipe: biases, and vectors whose sizes differ from id to id, learned event by event.
 *
 *   z_c = g_c + b_uc + b_ic + s_c·⟨p̂_u, q̂_i⟩     one output: s = 1; classes 0 … K−1: s_c = 2c/(K−1) − 1
 *   p̂ = [p; 0]     q̂ = [q; ε(i)]                 the ladder: E_{k+1} = [E_k; 0] + b_k, b_k = 0 for a user and for an
 *                                                item the next numbers of ε(i), drawn once and for all from its index
 *   e_c = σ(z) − y, or softmax(z)_c − [c = y]    e = Σ_c s_c·e_c
 *   A ← A + G², b ← b − 0.3·G/√A, A_0 = 0.5, G = e_c + 0.02·b      g ← g − 0.002·e_c
 *   A ← A + ‖G‖²/√n, p ← p − 0.4·G/√min(A, 10), A_0 = 0.8, G = e·q̂ + 0.005·p      n: how many numbers step
 *   the same for q with 0.1 and G = e·p̂ + 0.01·q                    two passes over the rows of a segment
 *
 * Growing a row writes down the numbers it was lifted with, so no prediction changes. Without ε nothing would ever
 * move: where p and q are both 0, so are both gradients. A vector has one accumulator for all of its numbers, which a
 * turn of the frame leaves alone. ‖G‖² grows as n, what is added as √n: so what was added grows as √n with the vector, or
 * the next steps of one that has grown would be too long. A row is [biases, their accumulators, the vector's
 * accumulator, vector]; it needs no moments.
 */

import type { Floats, Kernels } from "../../kernels/kernels.ts"
import { exp, log, sigmoid } from "../../kernels/math.ts"
import { openKernels } from "../../kernels/open.ts"
import type { State } from "../../kernels/state.ts"
import { SIDES, type Side, type Task } from "../../types.ts"
import { checkRungs, EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch, PassResult } from "../model.ts"
import type { Bits } from "../row-packing.ts"
import { FactorBatch } from "./factor-batch.ts"
import {
  freeRows,
  ItemNoise,
  largestSize,
  liftOf,
  ROUNDED,
  type RowModel,
  type RowOptions,
  type RungLosses,
} from "./rows.ts"

const GLOBAL_RATE = 0.002
const BIAS_RATE = 0.3
const BIAS_L2 = 0.02
const ACCUMULATOR = 0.5
const RATE = { user: 0.4, item: 0.1 }
/** A_0 of a vector. */
const SQUARES = 0.8
/** More than this slows no vector down: tastes move, and one that has learned much must follow. */
const MOST = 10
const L2 = { user: 0.005, item: 0.01 }
const PASSES = 2
/** Of ε. */
const DEVIATION = 0.02

/** ⟨p, q̂⟩, ‖p‖², ‖q̂‖² over the numbers both hold, and over all of the user's. */
const PRODUCT = 0
const USER = 1
const ITEM = 2
const WHOLE_PRODUCT = 3
const WHOLE_USER = 4
const WHOLE_ITEM = 5

export interface FactorOptions extends RowOptions {
  task: Exclude<Task, "topk">
  /** That learn packed rows; own ones are opened otherwise. */
  kernels?: Kernels
}

export class FactorModel implements RowModel {
  readonly task: Task
  readonly outputs: number
  readonly sizes: readonly number[]
  readonly bits: readonly Bits[]
  readonly seed: number
  readonly tables: Record<Side, EmbeddingTable>
  readonly heads: Record<Side, number>
  readonly vectors = { user: 1, item: 1 }
  readonly warmupEvents = 0
  /** g */
  readonly global: Float64Array
  /** s */
  readonly slopes: Float64Array
  readonly noise: ItemNoise
  readonly fade: Float64Array
  readonly #base: Float64Array
  readonly #errors: Float64Array
  readonly #row: Float32Array
  readonly #worth: Float64Array
  /** A vector cut to a rung of fewer bits. */
  readonly #cut: Float64Array
  /** Of the pair scored last: numbers of the user, those the item holds as well, and sums over both parts. */
  #size = 0
  #shared = 0
  readonly #sums = new Float64Array(6)
  readonly #kernels: Kernels | undefined
  #batch: FactorBatch | undefined

  constructor(options: FactorOptions) {
    const { task, sizes, start, seed, notes = false, bits = sizes.map(() => 32) } = options
    checkRungs(sizes, bits)
    this.task = task
    this.outputs = task === "multiclass" ? 5 : 1
    this.sizes = sizes
    this.bits = bits
    this.seed = seed
    this.#kernels = options.kernels
    const { outputs } = this
    const head = 2 * outputs + 1
    this.heads = { user: head, item: head }
    const top = sizes[sizes.length - 1]
    this.noise = new ItemNoise(seed, top, DEVIATION)
    this.fade = new Float64Array(top).fill(1)
    const packing = { bits, whole: 0, head, vectors: 1, seed }
    const rows = { sizes: sizes.map((size) => size + head), start, deviation: 0, moments: false, packing, notes }
    this.tables = {
      user: new EmbeddingTable(rows),
      item: new EmbeddingTable({ ...rows, packing: { ...packing, lift: liftOf(this.noise, 1) } }),
    }
    this.global = new Float64Array(outputs)
    this.slopes = new Float64Array(outputs).fill(1)
    if (outputs > 1) for (let c = 0; c < outputs; c++) this.slopes[c] = (2 * c) / (outputs - 1) - 1
    this.#base = new Float64Array(outputs)
    this.#errors = new Float64Array(outputs)
    this.#row = new Float32Array(top + head)
    this.#worth = new Float64Array(sizes.length)
    this.#cut = new Float64Array(top)
  }

  get embeddingBytes(): number {
    const { user, item } = this.tables
    return 4 * (user.numbers + item.numbers - (this.outputs + 1) * (user.count + item.count))
  }

  get heldBytes(): number {
    return this.tables.user.heldBytes + this.tables.item.heldBytes
  }

  vectorNumbers(side: Side): number {
    const table = this.tables[side]
    return table.numbers - this.heads[side] * table.count
  }

  /** Gives every id a row. */
  meet(rows: { user: ArrayLike<number>; item: ArrayLike<number> }): void {
    for (const side of SIDES) {
      const ids = rows[side]
      const table = this.tables[side]
      for (let r = 0; r < ids.length; r++) if (!table.has(ids[r])) this.meetOne(side, ids[r])
    }
  }

  get width(): number {
    return Math.min(largestSize(this, "user"), largestSize(this, "item"))
  }

  forget(side: Side, ids: ReadonlySet<number>): number[] {
    freeRows(this.tables[side], ids)
    return []
  }

  meetOne(side: Side, id: number): boolean {
    return !this.tables[side].has(id) && this.#meetGuarded(side, id)
  }

  #meetGuarded(side: Side, id: number): boolean {
    return this.tables[side].guarded(() => this.#meetNew(side, id))
  }

  #meetNew(side: Side, id: number): boolean {
    const table = this.tables[side]
    table.ensure(id)
    const row = this.#row
    const { outputs } = this
    row.fill(0, 0, outputs)
    row.fill(ACCUMULATOR, outputs, 2 * outputs)
    row[2 * outputs] = SQUARES
    this.#fillTail(side, id, { target: row, at: this.heads[side], from: 0, to: this.sizes[table.step(id)] })
    table.write(id, row, 0, 0)
    return true
  }

  /** Accumulators only grow. */
  accepts(_side: Side, row: ArrayLike<number>): boolean {
    for (let c = this.outputs; c < 2 * this.outputs; c++) if (!(row[c] >= ROUNDED * ACCUMULATOR)) return false
    return row[2 * this.outputs] >= ROUNDED * SQUARES
  }

  resize(side: Side, id: number, p: { step: number; cold?: boolean }): void {
    const table = this.tables[side]
    const [kept, size] = [p.cold ? 0 : this.sizes[table.step(id)], this.sizes[p.step]]
    const row = this.#row
    table.read(id, row, 0)
    if (kept === 0) this.renew(side, row)
    else row[2 * this.outputs] = SQUARES + (row[2 * this.outputs] - SQUARES) * Math.sqrt(size / kept)
    this.#fillTail(side, id, { target: row, at: this.heads[side], from: kept, to: size })
    table.replace(id, p.step, row, 0)
  }

  renew(_side: Side, row: Float32Array): void {
    row[2 * this.outputs] = SQUARES
  }

  /** Numbers `from` … `to`−1 of a row that does not hold them. */
  #fillTail(side: Side, id: number, p: { target: ArrayLike<number>; at: number; from: number; to: number }): void {
    const target = p.target as Float32Array
    const tail = this.noise.tail(id)
    for (let k = p.from; k < p.to; k++) target[p.at + k] = side === "user" ? 0 : this.noise.numbers[tail + k]
  }

  /** p */
  combined(user: number): Floats {
    const table = this.tables.user
    table.read(user, this.#row, 0)
    return this.#row.subarray(this.heads.user, table.size(user))
  }

  combineRow(out: Float64Array, { row, step }: { row: Float32Array; step: number }): number {
    const [size, from] = [this.sizes[step], this.heads.user]
    for (let k = 0; k < size; k++) out[k] = row[from + k]
    return size
  }

  /** g + b_u */
  baseOf(user: number): Float64Array {
    for (let c = 0; c < this.outputs; c++) this.#base[c] = this.global[c] + this.tables.user.headOf(user, c)
    return this.#base
  }

  /** Writes g + b_u + b_i to the base logits, and the sums a step needs; returns ⟨p̂, q̂⟩. */
  #score(user: number, item: number): number {
    const { user: users, item: items } = this.tables
    const { outputs } = this
    if (items.isClosed(item)) return this.#scoreClosed(user, item)
    const p = users.numbersOf(user)
    const q = items.numbersOf(item)
    let a = users.placeOf(user)
    let b = items.placeOf(item)
    for (let c = 0; c < outputs; c++) this.#base[c] = this.global[c] + p[a + c] + q[b + c]
    a += this.heads.user
    b += this.heads.item
    const size = this.sizes[users.step(user)]
    const shared = Math.min(size, this.sizes[items.step(item)])
    this.#size = size
    this.#shared = shared
    // Two sums of each kind side by side: an addition waits for the one before it.
    let pq0 = 0
    let pq1 = 0
    let pp0 = 0
    let pp1 = 0
    let qq0 = 0
    let qq1 = 0
    let k = 0
    for (; k + 1 < shared; k += 2) {
      const p0 = p[a + k]
      const q0 = q[b + k]
      const p1 = p[a + k + 1]
      const q1 = q[b + k + 1]
      pq0 += p0 * q0
      pq1 += p1 * q1
      pp0 += p0 * p0
      pp1 += p1 * p1
      qq0 += q0 * q0
      qq1 += q1 * q1
    }
    for (; k < shared; k++) {
      const p0 = p[a + k]
      const q0 = q[b + k]
      pq0 += p0 * q0
      pp0 += p0 * p0
      qq0 += q0 * q0
    }
    const sums = this.#sums
    sums[PRODUCT] = pq0 + pq1
    sums[USER] = pp0 + pp1
    sums[ITEM] = qq0 + qq1
    if (shared < size) {
      // The product goes on in the same two sums, so that it does not depend on which of its numbers an item holds.
      const noise = this.noise.numbers
      const tail = this.noise.tail(item)
      for (; k < size; k++) {
        const p0 = p[a + k]
        const n0 = noise[tail + k]
        if ((k & 1) === 0) pq0 += p0 * n0
        else pq1 += p0 * n0
        pp0 += p0 * p0
        qq0 += n0 * n0
      }
    }
    const product = pq0 + pq1
    sums[WHOLE_PRODUCT] = product
    sums[WHOLE_USER] = pp0 + pp1
    sums[WHOLE_ITEM] = qq0 + qq1
    return product
  }

  /** The same of an item whose row stays packed. */
  #scoreClosed(user: number, item: number): number {
    const { user: users, item: items } = this.tables
    const p = users.numbersOf(user)
    const at = users.placeOf(user)
    for (let c = 0; c < this.outputs; c++) this.#base[c] = this.global[c] + p[at + c] + items.headOf(item, c)
    const x = { numbers: p, at: at + this.heads.user, length: this.sizes[users.step(user)] }
    const noise = this.noise.numbers
    const tail = this.noise.tail(item)
    let product = items.product(item, x)
    for (let k = 0; k < x.length; k++) product += p[x.at + k] * noise[tail + k]
    return product
  }

  /** Writes the part each rung of a side has in ⟨p̂, q̂⟩, an item's against ε in its place; returns the step held. */
  #parts(side: Side, user: number, item: number): number {
    const { user: users, item: items } = this.tables
    const [p, q, noise] = [users.numbersOf(user), items.numbersOf(item), this.noise.numbers]
    const a = users.placeOf(user) + this.heads.user
    const b = items.placeOf(item) + this.heads.item
    const tail = this.noise.tail(item)
    const [size, held] = [this.sizes[users.step(user)], this.sizes[items.step(item)]]
    const [id, at] = side === "user" ? [user, a] : [item, b]
    const step = this.tables[side].step(id)
    let [own, from]: [Floats, number] = side === "user" ? [p, a] : [q, b]
    for (let rung = step; rung > 0; rung--) {
      const low = this.sizes[rung - 1]
      const to = Math.min(this.sizes[rung], size)
      let sum = 0
      for (let k = low; k < to; k++) {
        const lifted = noise[tail + k]
        sum += side === "item" ? p[a + k] * (own[from + k] - lifted) : own[from + k] * (k < held ? q[b + k] : lifted)
      }
      if (this.bits[rung - 1] < this.bits[rung]) {
        this.tables[side].cut(id, { at, isFirst: true, step: rung - 1 }, this.#cut)
        for (let k = 0; k < Math.min(low, size); k++) {
          const other = side === "item" ? p[a + k] : k < held ? q[b + k] : noise[tail + k]
          sum += (own[from + k] - this.#cut[k]) * other
        }
        own = this.#cut
        from = 0
      }
      this.#worth[rung] = sum
    }
    return step
  }

  /** The task loss (method.md §2) of the base logits with a product; the errors e_c are left behind. */
  #loss(product: number, label: number): number {
    const { outputs } = this
    const e = this.#errors
    for (let c = 0; c < outputs; c++) e[c] = this.#base[c] + this.slopes[c] * product
    if (outputs === 1) {
      const z = e[0]
      e[0] = sigmoid(z) - label
      return e[0] * e[0]
    }
    let top = e[0]
    for (let c = 1; c < outputs; c++) if (e[c] > top) top = e[c]
    const own = e[label]
    let sum = 0
    for (let c = 0; c < outputs; c++) {
      e[c] = exp(e[c] - top)
      sum += e[c]
    }
    for (let c = 0; c < outputs; c++) e[c] /= sum
    e[label] -= 1
    return log(sum) + top - own
  }

  train(batch: ModelBatch, rungs?: RungLosses, touched?: { add(item: number): void }): PassResult {
    const { user, item, label } = batch
    this.meet(batch)
    if (touched) for (let r = 0; r < item.length; r++) touched.add(item[r])
    if (this.#isInKernels)
      return { logits: new Float64Array(0), losses: this.#inKernels().learn(batch, this.global, rungs) }
    const losses = new Float64Array(user.length)
    this.#open(batch)
    for (let pass = 0; pass < PASSES; pass++)
      for (let r = 0; r < user.length; r++) {
        const product = this.#score(user[r], item[r])
        if (pass === 0 && rungs && rungs.rows?.[r] !== 0) this.#judge(batch, r, { product, rungs })
        const loss = this.#loss(product, label[r])
        if (pass === 0) losses[r] = loss
        this.#step(user[r], item[r], batch.weight?.[r] ?? 1)
      }
    this.#close(true)
    return { logits: new Float64Array(0), losses }
  }

  /** Packed rows are unpacked and learned by the kernels, where one output and the same bits for all rungs make that simple. */
  get #isInKernels(): boolean {
    return this.outputs === 1 && this.bits[0] !== 32 && this.bits.every((bits) => bits === this.bits[0])
  }

  #inKernels(): FactorBatch {
    const { tables, sizes, seed } = this
    this.#batch ??= new FactorBatch(this.#kernels ?? openKernels({ threads: 1 }), {
      ...{ tables, sizes, bits: this.bits[0], seed, lift: liftOf(this.noise, 1), passes: PASSES },
      constants: {
        rate: { global: GLOBAL_RATE, bias: BIAS_RATE, ...RATE },
        l2: { bias: BIAS_L2, ...L2 },
        most: MOST,
      },
    })
    return this.#batch
  }

  #open(batch: ModelBatch): void {
    for (const side of SIDES) this.tables[side].open(batch[side])
  }

  #close(changed: boolean): void {
    for (const side of SIDES) this.tables[side].close({ changed })
  }

  /** Writes what row r would have cost with either side cut to each size up to its own. */
  #judge(batch: ModelBatch, r: number, p: { product: number; rungs: RungLosses }): void {
    const [user, item, label] = [batch.user[r], batch.item[r], batch.label[r]]
    const at = r * this.sizes.length
    const full = this.#loss(p.product, label)
    for (const side of SIDES) {
      const losses = p.rungs[side]
      const step = this.#parts(side, user, item)
      let product = p.product
      losses[at + step] = full
      for (let rung = step; rung > 0; rung--) {
        product -= this.#worth[rung]
        losses[at + rung - 1] = this.#loss(product, label)
      }
    }
  }

  /**
   * One step on the errors of the last loss, as of `w` events at once, with the sums that were taken with the score: so A
   * needs no pass of its own.
   */
  #step(user: number, item: number, w: number): void {
    if (w === 0) return
    const { user: users, item: items } = this.tables
    const { outputs } = this
    const p = users.numbersOf(user)
    const q = items.numbersOf(item)
    let a = users.placeOf(user)
    let b = items.placeOf(item)
    let error = 0
    for (let c = 0; c < outputs; c++) {
      const e = this.#errors[c]
      this.global[c] -= w * GLOBAL_RATE * e
      stepBias(p, a + c, { outputs, error: e, weight: w })
      stepBias(q, b + c, { outputs, error: e, weight: w })
      error += this.slopes[c] * e
    }
    const size = this.#size
    if (size === 0) return
    a += this.heads.user
    b += this.heads.item
    const shared = this.#shared
    const sums = this.#sums
    const ofUser = squareOf(error, L2.user, {
      other: sums[WHOLE_ITEM],
      product: sums[WHOLE_PRODUCT],
      own: sums[WHOLE_USER],
    })
    p[a - 1] += (w * ofUser) / Math.sqrt(size)
    const rate = (w * RATE.user) / Math.sqrt(Math.min(p[a - 1], MOST))
    const kept = 1 - rate * L2.user
    const step = rate * error
    if (shared < size) {
      const noise = this.noise.numbers
      const tail = this.noise.tail(item)
      for (let k = shared; k < size; k++) p[a + k] = kept * p[a + k] - step * noise[tail + k]
    }
    if (shared === 0) return
    const ofItem = squareOf(error, L2.item, { other: sums[USER], product: sums[PRODUCT], own: sums[ITEM] })
    q[b - 1] += (w * ofItem) / Math.sqrt(shared)
    const itemRate = (w * RATE.item) / Math.sqrt(Math.min(q[b - 1], MOST))
    const itemKept = 1 - itemRate * L2.item
    const itemStep = itemRate * error
    let k = 0
    for (; k + 1 < shared; k += 2) {
      const p0 = p[a + k]
      const q0 = q[b + k]
      const p1 = p[a + k + 1]
      const q1 = q[b + k + 1]
      p[a + k] = kept * p0 - step * q0
      q[b + k] = itemKept * q0 - itemStep * p0
      p[a + k + 1] = kept * p1 - step * q1
      q[b + k + 1] = itemKept * q1 - itemStep * p1
    }
    for (; k < shared; k++) {
      const p0 = p[a + k]
      const q0 = q[b + k]
      p[a + k] = kept * p0 - step * q0
      q[b + k] = itemKept * q0 - itemStep * p0
    }
  }

  predict(batch: ModelBatch): PassResult {
    const { user, item, label } = batch
    const { outputs } = this
    const losses = new Float64Array(user.length)
    this.meet(batch)
    if (this.#isInKernels) {
      const logits = this.#inKernels().predict(batch, this.global)
      for (let r = 0; r < user.length; r++) {
        const error = sigmoid(logits[r]) - label[r]
        losses[r] = error * error
      }
      return { logits, losses }
    }
    const logits = new Float64Array(user.length * outputs)
    this.#open(batch)
    for (let r = 0; r < user.length; r++) {
      const product = this.#score(user[r], item[r])
      losses[r] = this.#loss(product, label[r])
      for (let c = 0; c < outputs; c++) logits[r * outputs + c] = this.#base[c] + this.slopes[c] * product
    }
    this.#close(false)
    return { logits, losses }
  }

  logitsOf(out: Float32Array | Float64Array, user: number, items: ArrayLike<number>): void {
    const { outputs } = this
    const keep = this.tables.user.open([user])
    for (let i = 0; i < items.length; i++) {
      const product = this.#score(user, items[i])
      for (let c = 0; c < outputs; c++) out[i * outputs + c] = this.#base[c] + this.slopes[c] * product
    }
    this.tables.user.close({ changed: false, keep })
  }

  save(state: State): void {
    state.put("global", this.global)
    for (const side of SIDES) this.tables[side].save(state.at(side))
  }

  load(state: State): void {
    this.global.set(state.take("global", Float64Array))
    for (const side of SIDES) this.tables[side].load(state.at(side))
  }
}

/** ‖G‖² of G = e·other + λ·own. */
function squareOf(error: number, l2: number, sums: { other: number; product: number; own: number }): number {
  return error * error * sums.other + 2 * error * l2 * sums.product + l2 * l2 * sums.own
}

/** One Adagrad step of the bias at `at`, its accumulator `outputs` further on. */
function stepBias(numbers: Floats, at: number, p: { outputs: number; error: number; weight: number }): void {
  const gradient = p.error + BIAS_L2 * numbers[at]
  const sum = numbers[at + p.outputs] + p.weight * gradient * gradient
  numbers[at + p.outputs] = sum
  numbers[at] -= ((p.weight * BIAS_RATE) / Math.sqrt(sum)) * gradient
}
