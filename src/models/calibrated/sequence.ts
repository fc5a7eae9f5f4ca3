/**
 * The model of the calibrated recipe for top-k: a user is a vector of its own and what its latest items say.
 *
 *   x = p̂_u + Σ_a ω_a·ŷ_{j_a}     j_0 … j_{m−1}: the user's latest training items, m ≤ 20;  ω_a = 0.9^a/√(Σ 0.9^a)
 *   z_i = b_i + ⟨x, q̂_i⟩           p̂ = [p; 0]  ŷ = [y; 0]  q̂ = [q; ε(i)]: the ladder, as in factor.ts; ε ~ N(0, 0.019²)
 *   a new item's q_k = 16·2^−⌊log₄(k+1)⌋·ε_k, its y and a new p are 0
 *   π = softmax(ζ − log Q)          over a positive and its negatives; Q: the chance of each to be drawn as a negative
 *   e_j = π_j − [j is the positive]   a dislike stands alone: e = σ(z)      dx = Σ_j e_j·q̂_j
 *   b = (1 − m)·s + m·r     s ← s − 0.03·e_s     r ← r − 0.15·e_r     e_s, e_r: with s and with r in place of b
 *   t ← t − 0.2·g/√min(A, 10⁵)     g = m·(1 − m)·Σ_j e_j·(r_j − s_j)     m = σ(t), t in −4 … 4
 *   A ← A + ‖G‖²     q ← q − 0.3·(G + 0.007·q)/√min(A, 80)         G = e·x
 *   the same for p:  p ← p − 0.3·(G + 0.01·p)/√min(A, 80)          G = dx
 *   and for y:       y ← y − 0.7·(G + 0.015·ω·y)/√min(A, 80)       G = ω·dx      A_0 = 0.4, one A a vector
 *
 * Beside z stand the neighbours of the latest items (neighbours.ts), with weights that are learned (fusion.ts), and e is
 * that of their sum: the vectors learn what neighbours do not know.
 *
 *   ζ_i = z_i + Σ_k w_k·f_k(i)
 *
 * An event of weight w has w times the error e, and counts as w for neighbours.
 *
 * Where people may come back to an item (`repeats`), how often the next one is the a-th of the different latest ones is
 * counted; such an item is scored by that instead: its chance is P_a, all others share 1 − Σ P_a as the softmax has it.
 *
 * Two passes over the rows of a segment, each with a share of the negatives for its own. A latest item without a row (one
 * of another process) counts as ŷ = 0. Rows: a user's is [latest items, A of p, p], an item's [b, r − s, A of q, A of y, q, y];
 * no moments. Growing, but from nothing, and a turn of the frame leave the accumulators alone.
 */

import { newBuffer } from "../../ids/columns.ts"
import type { Address, Floats, Kernels } from "../../kernels/kernels.ts"
import { SCORERS } from "../../kernels/layout.ts"
import { exp, log } from "../../kernels/math.ts"
import { openKernels } from "../../kernels/open.ts"
import type { State } from "../../kernels/state.ts"
import { SIDES, type Side } from "../../types.ts"
import { EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch, PassResult } from "../model.ts"
import type { Bits } from "../row-packing.ts"
import { FUSION_RATES, Fusion } from "./fusion.ts"
import { Neighbours } from "./neighbours.ts"
import {
  freeRows,
  ItemNoise,
  type ItemParts,
  largestSize,
  liftOf,
  ROUNDED,
  type RowModel,
  type RowOptions,
  type RungLosses,
} from "./rows.ts"
import { SequenceBatch } from "./sequence-batch.ts"

const RECENT = 20
const DECAY = 0.9
/**
 * Of number 0 of a new item's q. It halves wherever k quadruples: short rows learn nearly as fast as long ones, whose first
 * steps go by ‖q‖.
 */
const DEVIATION = 0.3
/** ε is that much fainter: what stands in for numbers given back is noise. */
const LIFT = 1 / 16
const RATE = { slow: 0.03, quick: 0.15, mix: 0.2, item: 0.3, user: 0.3, input: 0.7 }
const L2 = { item: 0.007, user: 0.01, input: 0.015 }
/** A_0 of a vector. */
const SQUARES = 0.4
/** More than this slows no vector down: tastes move, and one that has learned much must follow. */
const MOST = 80
/** Over the rows of a segment. */
export const SEQUENCE_PASSES = 2
/** What is thought of coming back before anything is known, in events, and the most all latest items may have together. */
const REPEATS = { seen: 0.01, of: 1, most: 0.95 }

/** ω_a of m latest items at m·RECENT + a. */
const DECAYS = new Float64Array((RECENT + 1) * RECENT)
for (let m = 1; m <= RECENT; m++) {
  let [sum, weight] = [0, 1]
  for (let a = 0; a < m; a++, weight *= DECAY) {
    DECAYS[m * RECENT + a] = weight
    sum += weight
  }
  for (let a = 0; a < m; a++) DECAYS[m * RECENT + a] /= Math.sqrt(sum)
}

const NOTHING = new Float64Array(1)

/** Latest items stand in a row as 1 + their index, exact up to here; 0 is none. Later indices are not kept. */
const LAST_KEPT = 16_777_214

export interface SequenceOptions extends RowOptions {
  /** Default 2. */
  passes?: number
  /** What it learns with. Default: the fastest of this machine, of which simd and relaxed-simd give the same bits. */
  kernels?: Kernels
}

export class SequenceModel implements RowModel {
  readonly task = "topk"
  readonly outputs = 1
  readonly sizes: readonly number[]
  readonly bits: readonly Bits[]
  readonly seed: number
  readonly tables: Record<Side, EmbeddingTable>
  readonly heads = { user: RECENT + 1, item: 4 }
  readonly vectors = { user: 1, item: 2 }
  readonly warmupEvents = 5
  /** By place among the different latest items: how often it came again, and how often it could have. */
  readonly global = new Float64Array(2 * RECENT)
  readonly slopes = Float64Array.of(1)
  segment = 0
  readonly through = new Int32Array(newBuffer(4), 0, 1)
  readonly #passes: number
  #kernels: Kernels | undefined
  #batch: SequenceBatch | undefined
  readonly noise: ItemNoise
  readonly neighbours = new Neighbours()
  readonly fusion = new Fusion(SCORERS)
  readonly fade: Float64Array
  /** 2^−⌊log₄(k+1)⌋: a float stays one. */
  readonly #start: Float64Array
  /** A row. */
  readonly #row: Float32Array
  /** x, and its learned width. */
  readonly #x: Float64Array
  #width = 0
  /** j_a and m. */
  readonly #latest = new Int32Array(RECENT)
  #count = 0
  /** Latest items of users before what was observed and not learned. */
  readonly #observed = new Map<number, number[]>()

  constructor(options: SequenceOptions) {
    const { sizes, start, seed, passes = SEQUENCE_PASSES, bits = sizes.map(() => 32) } = options
    this.sizes = sizes
    this.bits = bits
    this.seed = seed
    this.#passes = passes
    this.#kernels = options.kernels
    const make = (side: Side) =>
      new EmbeddingTable({
        sizes: sizes.map((size) => this.heads[side] + this.vectors[side] * size),
        start,
        deviation: 0,
        moments: false,
        packing:
          side === "user"
            ? { bits, seed, whole: RECENT, head: 1, vectors: 1 }
            : { bits, seed, whole: 0, head: this.heads.item, vectors: 2, lift: liftOf(this.noise, LIFT) },
      })
    const top = sizes[sizes.length - 1]
    this.noise = new ItemNoise(seed, top, DEVIATION)
    this.fade = new Float64Array(top).fill(LIFT)
    this.tables = { user: make("user"), item: make("item") }
    this.#row = new Float32Array(Math.max(...this.tables.user.sizes, ...this.tables.item.sizes))
    this.#start = Float64Array.from({ length: top }, (_, k) => 1 / (1 << ((31 - Math.clz32(k + 1)) >> 1)))
    this.#x = new Float64Array(top)
  }

  get embeddingBytes(): number {
    const { user, item } = this.tables
    return 4 * (user.numbers - this.heads.user * user.count + item.numbers - (this.heads.item - 1) * item.count)
  }

  get heldBytes(): number {
    return this.tables.user.heldBytes + this.tables.item.heldBytes
  }

  get besideBytes(): number {
    return this.neighbours.allottedBytes
  }

  vectorNumbers(side: Side): number {
    const table = this.tables[side]
    return table.numbers - this.heads[side] * table.count
  }

  /** The users' latest items have the items' size. */
  get width(): number {
    return largestSize(this, "item")
  }

  meetOne(side: Side, id: number): boolean {
    const table = this.tables[side]
    return !table.has(id) && table.guarded(() => this.#meetNew(side, id))
  }

  #meetNew(side: Side, id: number): boolean {
    const table = this.tables[side]
    table.ensure(id)
    const row = this.#row.fill(0, 0, table.size(id))
    this.renew(side, row)
    if (side === "item")
      this.#fillNoise(id, row, { at: this.heads.item, from: 0, to: this.#size(id), scale: this.#start })
    table.write(id, row, 0, 0)
    return true
  }

  #size(item: number): number {
    return this.sizes[this.tables.item.step(item)]
  }

  /** Numbers `from` … `to`−1 of q that an item does not hold: those it was lifted with, or of a new row. */
  #fillNoise(item: number, target: Floats, p: { at: number; from: number; to: number; scale: Float64Array }): void {
    const tail = this.noise.tail(item)
    for (let k = p.from; k < p.to; k++) target[p.at + k] = p.scale[k] * this.noise.numbers[tail + k]
  }

  /** Latest items are whole numbers, and accumulators only grow. */
  accepts(side: Side, row: ArrayLike<number>): boolean {
    for (let v = 1; v <= this.vectors[side]; v++) if (!(row[this.heads[side] - v] >= ROUNDED * SQUARES)) return false
    if (side === "user")
      for (let a = 0; a < RECENT; a++)
        if (!Number.isInteger(row[a]) || row[a] < 0 || row[a] > LAST_KEPT + 1) return false
    return true
  }

  resize(side: Side, id: number, p: { step: number; cold?: boolean }): void {
    const table = this.tables[side]
    const head = this.heads[side]
    const [size, next] = [this.sizes[table.step(id)], this.sizes[p.step]]
    const longest = head + this.vectors[side] * this.sizes[this.sizes.length - 1]
    if (this.#old.length < longest) {
      this.#old = new Float32Array(longest)
      this.#new = new Float32Array(longest)
    }
    const [old, row] = [this.#old, this.#new]
    row.fill(0, 0, head + this.vectors[side] * next)
    table.read(id, old, 0)
    for (let k = 0; k < head; k++) row[k] = old[k]
    const kept = p.cold ? 0 : Math.min(size, next)
    for (let v = 0; v < this.vectors[side]; v++)
      for (let k = 0; k < kept; k++) row[head + v * next + k] = old[head + v * size + k]
    if (p.cold || size === 0) this.renew(side, row)
    const scale = p.cold ? this.#start : this.fade
    if (side === "item") this.#fillNoise(id, row, { at: head, from: kept, to: next, scale })
    table.replace(id, p.step, row, 0)
  }

  renew(side: Side, row: Float32Array): void {
    row.fill(SQUARES, this.heads[side] - this.vectors[side], this.heads[side])
  }

  renumber(row: Float32Array, indexOf: (item: number) => number | undefined): void {
    let kept = 0
    for (let a = 0; a < RECENT && row[a] > 0; a++) {
      const index = indexOf(row[a] - 1)
      if (index !== undefined && index <= LAST_KEPT) row[kept++] = index + 1
    }
    row.fill(0, kept, RECENT)
  }

  /** An item that leaves is struck from every user's latest. */
  forget(side: Side, ids: ReadonlySet<number>): number[] {
    freeRows(this.tables[side], ids)
    if (side === "user") return []
    this.neighbours.forget(ids)
    const changed: number[] = []
    for (const user of this.tables.user.ids()) {
      this.#readLatest(user)
      if (!this.#latest.subarray(0, this.#count).some((item) => ids.has(item))) continue
      const rest = this.latestOf(user).filter((item) => !ids.has(item))
      this.tables.user.guarded(() => this.#keepLatest(user, rest))
      changed.push(user)
    }
    return changed
  }

  /** A user's latest items, oldest first. */
  latestOf(user: number): number[] {
    this.#readLatest(user)
    return Array.from(this.#latest.subarray(0, this.#count)).reverse()
  }

  addLatest(user: number, items: readonly number[]): void {
    if (items.length > 0) this.#keepLatest(user, [...this.latestOf(user), ...items.filter((item) => item <= LAST_KEPT)])
  }

  /** A row before and after a change of its size. */
  #old = new Float32Array(0)
  #new = new Float32Array(0)

  /** x. */
  combined(user: number): Float64Array {
    this.#readLatest(user)
    this.#combineClosed(user)
    return this.#x.subarray(0, this.#width)
  }

  combinedBy(user: number, inputOf: (item: number) => Floats): Float64Array {
    const users = this.tables.user
    users.read(user, this.#row, 0)
    this.#width = this.combineRow(this.#x, { row: this.#row, step: users.step(user) }, inputOf)
    return this.#x.subarray(0, this.#width)
  }

  combineRow(
    out: Float64Array,
    { row, step }: { row: Float32Array; step: number },
    inputOf: (item: number) => Floats,
  ): number {
    const [latest, from] = [this.#latest, this.heads.user]
    let count = 0
    while (count < RECENT && row[count] > 0) latest[count] = row[count++] - 1
    this.#count = count
    let width = this.sizes[step]
    for (let k = 0; k < width; k++) out[k] = row[from + k]
    for (let a = 0; a < count; a++) {
      const w = DECAYS[count * RECENT + a]
      const y = inputOf(latest[a])
      const { length } = y
      for (; width < length; width++) out[width] = 0
      let k = 0
      // Unrolled because V8 does not: two thirds of the time.
      for (; k + 4 <= length; k += 4) {
        out[k] += w * y[k]
        out[k + 1] += w * y[k + 1]
        out[k + 2] += w * y[k + 2]
        out[k + 3] += w * y[k + 3]
      }
      for (; k < length; k++) out[k] += w * y[k]
    }
    return width
  }

  /** x of a user whose row, and those of its latest items, may be packed. */
  #combineClosed(user: number): void {
    const { user: users, item: items } = this.tables
    const keepUsers = users.open([user])
    const keepItems = items.open(this.#latest.subarray(0, this.#count))
    this.#combine(user)
    users.close({ changed: false, keep: keepUsers })
    items.close({ changed: false, keep: keepItems })
  }

  /** Users have no biases. */
  baseOf(): Float64Array {
    return NOTHING
  }

  readonly #writeLatest = (user: number, out: Int32Array): number => {
    this.#readLatest(user)
    out.set(this.#latest)
    return this.#count
  }

  /** An event that counts in lists at once and is learned later: training takes it back first, and learns it in its turn. */
  observe(user: number, item: number): void {
    this.meetOne("user", user)
    const latest = this.latestOf(user)
    if (!this.#observed.has(user)) this.#observed.set(user, latest.slice())
    if (item <= LAST_KEPT) latest.push(item)
    this.#keepLatest(user, latest)
  }

  /** Takes back all that was observed and not learned. */
  unobserve(): void {
    for (const [user, latest] of this.#observed) if (this.tables.user.has(user)) this.#keepLatest(user, latest)
    this.#observed.clear()
  }

  #readLatest(user: number): void {
    const latest = this.#latest
    this.tables.user.readWhole(user, latest, RECENT)
    let count = 0
    while (count < RECENT && latest[count] > 0) latest[count++]--
    this.#count = count
  }

  #keepLatest(user: number, trail: readonly number[]): void {
    const [table, row] = [this.tables.user, this.#row]
    table.read(user, row, 0)
    for (let a = 0; a < RECENT; a++) row[a] = a < trail.length ? trail[trail.length - 1 - a] + 1 : 0
    table.write(user, row, 0, 0)
  }

  /** x of a user and the latest items read. */
  #combine(user: number): void {
    const { user: users, item: items } = this.tables
    const { sizes } = this
    const [x, latest, count] = [this.#x, this.#latest, this.#count]
    x.fill(0, 0, this.#width)
    const p = users.numbersOf(user)
    const at = users.placeOf(user) + this.heads.user
    let width = sizes[users.step(user)]
    for (let k = 0; k < width; k++) x[k] = p[at + k]
    for (let a = 0; a < count; a++) {
      const w = DECAYS[count * RECENT + a]
      if (!items.has(latest[a])) continue
      const size = sizes[items.step(latest[a])]
      const y = items.numbersOf(latest[a])
      const first = items.placeOf(latest[a]) + this.heads.item + size
      for (let k = 0; k < size; k++) x[k] += w * y[first + k]
      if (size > width) width = size
    }
    this.#width = width
  }

  /** z of an item, given x. */
  #score(item: number): number {
    const table = this.tables.item
    const [x, width] = [this.#x, this.#width]
    if (table.isClosed(item)) return this.#scoreClosed(item)
    const q = table.numbersOf(item)
    const at = table.placeOf(item)
    const shared = Math.min(this.sizes[table.step(item)], width)
    const from = at + this.heads.item
    let z = q[at]
    for (let k = 0; k < shared; k++) z += x[k] * q[from + k]
    if (shared < width) {
      const [noise, fade] = [this.noise.numbers, this.fade]
      const tail = this.noise.tail(item)
      for (let k = shared; k < width; k++) z += x[k] * fade[k] * noise[tail + k]
    }
    return z
  }

  /** The same of an item whose row stays packed. */
  #scoreClosed(item: number): number {
    const table = this.tables.item
    const [x, width, noise, fade] = [this.#x, this.#width, this.noise.numbers, this.fade]
    const tail = this.noise.tail(item)
    let z = table.headOf(item, 0) + table.product(item, { numbers: x, at: 0, length: width })
    for (let k = 0; k < width; k++) z += x[k] * fade[k] * noise[tail + k]
    return z
  }

  train(batch: ModelBatch, rungs?: RungLosses, touched?: { add(item: number): void }): PassResult {
    this.unobserve()
    this.#batch ??= this.#openKernels()
    const work = this.#batch
    const { neighbours } = this
    work.open(batch, { latestOf: this.#writeLatest, neighbours, ...(rungs && { rungs }) })
    if (batch.repeats) work.eachEvent((event) => this.#countRepeat(event))
    for (let pass = 0; pass < this.#passes; pass++) work.learn(pass)
    const losses = work.losses()
    // Readers see all of the segment's items or none, and which it is.
    work.close(() => Atomics.store(this.through, 0, this.segment), touched)
    return { logits: new Float64Array(0), losses }
  }

  #countRepeat({ item, latest, weight }: { item: number; latest: readonly number[]; weight: number }): void {
    const different = [...new Set(latest)]
    const place = different.indexOf(item)
    if (place >= 0) this.global[place] += weight
    for (let a = 0; a < different.length; a++) this.global[RECENT + a] += weight
  }

  repeatOdds(user: number): Map<number, number> | undefined {
    if (this.global[RECENT] === 0) return undefined
    const latest = [...new Set(this.latestOf(user).reverse())]
    const chances = latest.map((_, a) => (this.global[a] + REPEATS.seen) / (this.global[RECENT + a] + REPEATS.of))
    const sum = chances.reduce((total, chance) => total + chance, 0)
    const scale = Math.min(1, REPEATS.most / sum)
    return new Map(latest.map((item, a) => [item, log((scale * chances[a]) / (1 - scale * sum))]))
  }

  #useKernels(): Kernels {
    this.#kernels ??= openKernels({ threads: 1 })
    return this.#kernels
  }

  #openKernels(): SequenceBatch {
    const { tables, sizes, bits, seed, noise } = this
    return new SequenceBatch(this.#useKernels(), {
      meet: (side, id) => this.meetOne(side, id),
      ...{ tables, sizes, bits, seed, lift: liftOf(noise, LIFT), decay: DECAYS, latest: RECENT, lastKept: LAST_KEPT },
      passes: this.#passes,
      constants: { rate: RATE, l2: L2, most: MOST, fusion: FUSION_RATES },
      fusion: this.fusion,
    })
  }

  /** Logits, and the logistic loss of each row. */
  predict(batch: ModelBatch): PassResult {
    const { user, item, label } = batch
    const logits = new Float64Array(user.length)
    const losses = new Float64Array(user.length)
    for (let r = 0; r < user.length; r++) {
      this.meetOne("user", user[r])
      this.meetOne("item", item[r])
      this.#readLatest(user[r])
      this.#combineClosed(user[r])
      logits[r] = this.#score(item[r])
      this.addNeighbours(logits.subarray(r, r + 1), user[r], [item[r]])
      losses[r] = softplus(label[r] === 1 ? -logits[r] : logits[r])
    }
    return { logits, losses }
  }

  /** Makes items ready to be scored for many users, until it trains again. */
  rank(items: ArrayLike<number>): (out: Float64Array, user: number) => void {
    this.#batch ??= this.#openKernels()
    const work = this.#batch
    work.openItems(items)
    return (out, user) => {
      work.score(out, this.combined(user))
      this.addNeighbours(out, user, items)
    }
  }

  logitsOf(out: Float32Array | Float64Array, user: number, items: ArrayLike<number>): void {
    this.#readLatest(user)
    this.#combineClosed(user)
    for (let i = 0; i < items.length; i++) out[i] = this.#score(items[i])
    this.addNeighbours(out, user, items)
  }

  /** b, ⟨p, q̂⟩, each ω·⟨ŷ, q̂⟩ and what neighbours say. */
  partsOf(user: number, items: readonly number[]): ItemParts[] {
    const { user: users, item: table } = this.tables
    const latest = this.latestOf(user).reverse()
    const vectorOf = (side: Side, id: number, v: number): Float64Array => {
      const row = new Float32Array(this.tables[side].size(id))
      this.tables[side].read(id, row, 0)
      const size = this.sizes[this.tables[side].step(id)]
      return Float64Array.from(row.subarray(this.heads[side] + v * size, this.heads[side] + (v + 1) * size))
    }
    const p = users.has(user) ? vectorOf("user", user, 0) : new Float64Array(0)
    const inputs = latest.map((item, a) =>
      (table.has(item) ? vectorOf("item", item, 1) : new Float64Array(0)).map(
        (number) => DECAYS[latest.length * RECENT + a] * number,
      ),
    )
    const beside = new Float64Array(items.length)
    this.addNeighbours(beside, user, items)
    return items.map((item, i) => {
      const [q, tail] = [vectorOf("item", item, 0), this.noise.tail(item)]
      const dot = (vector: Float64Array) =>
        vector.reduce((sum, x, k) => sum + x * (k < q.length ? q[k] : this.fade[k] * this.noise.numbers[tail + k]), 0)
      const near = latest.map((other, a) => DECAYS[latest.length * RECENT + a] * this.neighbours.share(other, item))
      return { bias: table.headOf(item, 0), taste: dot(p), inputs: inputs.map(dot), near, neighbours: beside[i] }
    })
  }

  /** Adds to z of a user and items what neighbours say. */
  addNeighbours(out: Float32Array | Float64Array, user: number, items: ArrayLike<number>): void {
    const { neighbours, fusion } = this
    this.#readLatest(user)
    if (neighbours.open(this.#latest, this.#count)) neighbours.addScores(out, items, fusion.weights)
  }

  addNeighboursTo(to: Address, limit: number, user: number): void {
    const { neighbours, fusion } = this
    if (fusion.weights.every((weight) => weight === 0)) return
    this.#readLatest(user)
    if (neighbours.open(this.#latest, this.#count)) neighbours.addScoresTo(to, limit, fusion.weights)
  }

  save(state: State): void {
    for (const side of SIDES) this.tables[side].save(state.at(side))
    this.neighbours.save(state.at("neighbours"))
    this.fusion.save(state.at("fusion"))
    if (this.global[RECENT] > 0) state.put("repeats", this.global)
  }

  load(state: State): void {
    for (const side of SIDES) this.tables[side].load(state.at(side))
    if (state.has("repeats")) this.global.set(state.take("repeats", Float64Array))
    else this.global.fill(0)
    // Snapshots from before there were neighbours: they are counted from here on.
    if (!state.at("fusion").has("weights")) {
      this.neighbours.clear()
      this.fusion.reset()
      return
    }
    if (state.at("neighbours").has("reach")) this.neighbours.load(state.at("neighbours"))
    this.fusion.load(state.at("fusion"))
  }
}

/** log(1 + e^x) */
function softplus(x: number): number {
  return x > 0 ? x + log(1 + exp(-x)) : log(1 + exp(x))
}
