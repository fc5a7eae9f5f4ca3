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
 * move: where p and q are both 0, so are both gradients. A vector has one accumulator for all of its numbers, which
 * growing and a turn of the frame leave alone. A row is [biases, their accumulators, the vector's accumulator, vector];
 * it needs no moments.
 */

import type { Floats } from "../../kernels/kernels.ts"
import { exp, log, sigmoid } from "../../kernels/math.ts"
import type { State } from "../../kernels/state.ts"
import type { Side, Task } from "../../types.ts"
import { checkRungs, EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch, PassResult } from "../model.ts"
import type { Bits } from "../row-packing.ts"
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

export interface FactorOptions extends RowOptions {
  task: Exclude<Task, "topk">
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

  constructor(options: FactorOptions) {
    const { task, sizes, start, seed, bits = sizes.map(() => 32) } = options
    checkRungs(sizes, bits)
    this.task = task
    this.outputs = task === "multiclass" ? 5 : 1
    this.sizes = sizes
    this.bits = bits
    this.seed = seed
    const { outputs } = this
    const head = 2 * outputs + 1
    this.heads = { user: head, item: head }
    const top = sizes[sizes.length - 1]
    this.noise = new ItemNoise(seed, top, DEVIATION)
    this.fade = new Float64Array(top).fill(1)
    const packing = { bits, whole: 0, head, vectors: 1, seed }
    const rows = { sizes: sizes.map((size) => size + head), start, deviation: 0, moments: false, packing }
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
    for (const side of ["user", "item"] as const) {
      const ids = rows[side]
      for (let r = 0; r < ids.length; r++) this.meetOne(side, ids[r])
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

  /** g + b_u */
  baseOf(user: number): Float64Array {
    for (let c = 0; c < this.outputs; c++) this.#base[c] = this.global[c] + this.tables.user.headOf(user, c)
    return this.#base
  }

  /** Writes g + b_u + b_i to the base logits; returns ⟨p̂, q̂⟩. */
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
    let product = 0
    for (let k = 0; k < shared; k++) product += p[a + k] * q[b + k]
    if (shared < size) {
      const noise = this.noise.numbers
      const tail = this.noise.tail(item)
      for (let k = shared; k < size; k++) product += p[a + k] * noise[tail + k]
    }
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
    const losses = new Float64Array(user.length)
    this.meet(batch)
    this.#open(batch)
    if (touched) for (let r = 0; r < item.length; r++) touched.add(item[r])
    for (let pass = 0; pass < PASSES; pass++)
      for (let r = 0; r < user.length; r++) {
        const product = this.#score(user[r], item[r])
        if (pass === 0 && rungs && rungs.rows?.[r] !== 0) this.#judge(batch, r, { product, rungs })
        const loss = this.#loss(product, label[r])
        if (pass === 0) losses[r] = loss
        this.#step(user[r], item[r])
      }
    this.#close(true)
    return { logits: new Float64Array(0), losses }
  }

  #open(batch: ModelBatch): void {
    for (const side of ["user", "item"] as const) this.tables[side].open(batch[side])
  }

  #close(changed: boolean): void {
    for (const side of ["user", "item"] as const) this.tables[side].close({ changed })
  }

  /** Writes what row r would have cost with either side cut to each size up to its own. */
  #judge(batch: ModelBatch, r: number, p: { product: number; rungs: RungLosses }): void {
    const [user, item, label] = [batch.user[r], batch.item[r], batch.label[r]]
    const at = r * this.sizes.length
    const full = this.#loss(p.product, label)
    for (const side of ["user", "item"] as const) {
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

  /** One step on the errors of the last loss. */
  #step(user: number, item: number): void {
    const { user: users, item: items } = this.tables
    const { outputs } = this
    const p = users.numbersOf(user)
    const q = items.numbersOf(item)
    let a = users.placeOf(user)
    let b = items.placeOf(item)
    let error = 0
    for (let c = 0; c < outputs; c++) {
      const e = this.#errors[c]
      this.global[c] -= GLOBAL_RATE * e
      stepBias(p, a + c, { outputs, error: e })
      stepBias(q, b + c, { outputs, error: e })
      error += this.slopes[c] * e
    }
    const size = this.sizes[users.step(user)]
    if (size === 0) return
    a += this.heads.user
    b += this.heads.item
    const shared = Math.min(size, this.sizes[items.step(item)])
    const noise = this.noise.numbers
    const tail = this.noise.tail(item)
    let ofUser = 0
    let ofItem = 0
    for (let k = 0; k < shared; k++) {
      const pk = p[a + k]
      const qk = q[b + k]
      ofUser += square(error * qk + L2.user * pk)
      ofItem += square(error * pk + L2.item * qk)
    }
    for (let k = shared; k < size; k++) ofUser += square(error * noise[tail + k] + L2.user * p[a + k])
    p[a - 1] += ofUser / Math.sqrt(size)
    const rate = RATE.user / Math.sqrt(Math.min(p[a - 1], MOST))
    for (let k = shared; k < size; k++) p[a + k] -= rate * (error * noise[tail + k] + L2.user * p[a + k])
    if (shared === 0) return
    q[b - 1] += ofItem / Math.sqrt(shared)
    const itemRate = RATE.item / Math.sqrt(Math.min(q[b - 1], MOST))
    for (let k = 0; k < shared; k++) {
      const pk = p[a + k]
      const qk = q[b + k]
      p[a + k] = pk - rate * (error * qk + L2.user * pk)
      q[b + k] = qk - itemRate * (error * pk + L2.item * qk)
    }
  }

  predict(batch: ModelBatch): PassResult {
    const { user, item, label } = batch
    const { outputs } = this
    const logits = new Float64Array(user.length * outputs)
    const losses = new Float64Array(user.length)
    this.meet(batch)
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
    for (const side of ["user", "item"] as const) this.tables[side].save(state.at(side))
  }

  load(state: State): void {
    this.global.set(state.take("global", Float64Array))
    for (const side of ["user", "item"] as const) this.tables[side].load(state.at(side))
  }
}

function square(x: number): number {
  return x * x
}

/** One Adagrad step of the bias at `at`, its accumulator `outputs` further on. */
function stepBias(row: ArrayLike<number>, at: number, p: { outputs: number; error: number }): void {
  const numbers = row as Float32Array
  const gradient = p.error + BIAS_L2 * numbers[at]
  const sum = numbers[at + p.outputs] + gradient * gradient
  numbers[at + p.outputs] = sum
  numbers[at] -= (BIAS_RATE / Math.sqrt(sum)) * gradient
}
