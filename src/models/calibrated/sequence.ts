/**
 * The model of the calibrated recipe for top-k: a user is a vector of its own and what its latest items say.
 *
 *   x = p̂_u + Σ_a ω_a·ŷ_{j_a}     j_0 … j_{m−1}: the user's latest training items, m ≤ 20;  ω_a = 0.85^a/√(Σ 0.85^a)
 *   z_i = b_i + ⟨x, q̂_i⟩           p̂ = [p; 0]  ŷ = [y; 0]  q̂ = [q; ε(i)]: the ladder, as in factor.ts; ε ~ N(0, 0.019²)
 *   a new item's q_k = 16·2^−⌊log₄(k+1)⌋·ε_k, its y and a new p are 0
 *   π = softmax(z − log Q)          over a positive and its negatives; Q: the chance of each to be drawn as a negative
 *   e_j = π_j − [j is the positive]   a dislike stands alone: e = σ(z)      dx = Σ_j e_j·q̂_j
 *   b ← b − 0.1·e
 *   A ← A + ‖G‖²     q ← q − 0.3·(G + 0.007·q)/√min(A, 80)         G = e·x
 *   the same for p:  p ← p − 0.3·(G + 0.01·p)/√min(A, 80)          G = dx
 *   and for y:       y ← y − 0.7·(G + 0.015·ω·y)/√min(A, 80)       G = ω·dx      A_0 = 0.4, one A a vector
 *
 * Two passes over the rows of a segment, each with a share of the negatives for its own. A latest item without a row (one
 * of another process) counts as ŷ = 0. Rows: a user's is [latest items, A of p, p], an item's [b, A of q, A of y, q, y];
 * no moments. Growing, but from nothing, and a turn of the frame leave the accumulators alone.
 */

import { newBuffer } from "../../ids/columns.ts"
import type { Floats } from "../../kernels/kernels.ts"
import { exp, log, sigmoid } from "../../kernels/math.ts"
import type { State } from "../../kernels/state.ts"
import type { Side } from "../../types.ts"
import { EmbeddingTable } from "../embedding-table.ts"
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

const RECENT = 20
const DECAY = 0.85
/**
 * Of number 0 of a new item's q. It halves wherever k quadruples: short rows learn nearly as fast as long ones, whose first
 * steps go by ‖q‖.
 */
const DEVIATION = 0.3
/** ε is that much fainter: what stands in for numbers given back is noise. */
const LIFT = 1 / 16
const RATE = { bias: 0.1, item: 0.3, user: 0.3, input: 0.7 }
const L2 = { item: 0.007, user: 0.01, input: 0.015 }
/** A_0 of a vector. */
const SQUARES = 0.4
/** More than this slows no vector down: tastes move, and one that has learned much must follow. */
const MOST = 80
/** Over the rows of a segment. */
export const SEQUENCE_PASSES = 2

const NOTHING = new Float64Array(1)

/** Latest items stand in a row as 1 + their index, exact up to here; 0 is none. Later indices are not kept. */
const LAST_KEPT = 16_777_214

export interface SequenceOptions extends RowOptions {
  /** Default 2. */
  passes?: number
}

/** Numbers from a place on. */
interface Vector {
  numbers: Floats
  at: number
}

/** A positive and its negatives, or a dislike: row `own` of a batch and rows from … to−1 of this pass; how many items the user had met before. */
interface Group {
  own: number
  from: number
  to: number
  alone: boolean
  trail: number[]
  before: number
}

export class SequenceModel implements RowModel {
  readonly task = "topk"
  readonly outputs = 1
  readonly sizes: readonly number[]
  readonly bits: readonly Bits[]
  readonly seed: number
  readonly tables: Record<Side, EmbeddingTable>
  readonly heads = { user: RECENT + 1, item: 3 }
  readonly vectors = { user: 1, item: 2 }
  readonly warmupEvents = 5
  /** Much of what an item holds is in its y, which speaks for other items. */
  readonly global = new Float64Array(0)
  readonly slopes = Float64Array.of(1)
  segment = 0
  readonly through = new Int32Array(newBuffer(4), 0, 1)
  readonly #passes: number
  readonly noise: ItemNoise
  readonly fade: Float64Array
  /** 2^−⌊log₄(k+1)⌋: a float stays one. */
  readonly #start: Float64Array
  /** A row. */
  readonly #row: Float32Array
  /** x, its learned width, and dx. */
  readonly #x: Float64Array
  #width = 0
  readonly #dx: Float64Array
  /** Σ of the squares of the first n numbers of x, and of dx. */
  readonly #xSquares: Float64Array
  readonly #dxSquares: Float64Array
  /** j_a, ω_a and m. */
  readonly #latest = new Int32Array(RECENT)
  readonly #weights = new Float64Array(RECENT)
  #count = 0
  /** z − log Q of a group, the same without a rung, and e. */
  #z = new Float64Array(16)
  #other = new Float64Array(16)
  #errors = new Float64Array(16)
  /** A vector cut to 8 bits, and to 16. */
  readonly #cuts: readonly Float64Array[]

  constructor(options: SequenceOptions) {
    const { sizes, start, seed, passes = SEQUENCE_PASSES, bits = sizes.map(() => 32) } = options
    this.sizes = sizes
    this.bits = bits
    this.seed = seed
    this.#passes = passes
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
    this.#cuts = [new Float64Array(top), new Float64Array(top)]
    this.#x = new Float64Array(top)
    this.#dx = new Float64Array(top)
    this.#xSquares = new Float64Array(top + 1)
    this.#dxSquares = new Float64Array(top + 1)
  }

  get embeddingBytes(): number {
    const { user, item } = this.tables
    return 4 * (user.numbers - this.heads.user * user.count + item.numbers - (this.heads.item - 1) * item.count)
  }

  get heldBytes(): number {
    return this.tables.user.heldBytes + this.tables.item.heldBytes
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
    const [x, weights, latest, count] = [this.#x, this.#weights, this.#latest, this.#count]
    x.fill(0, 0, this.#width)
    const p = users.numbersOf(user)
    const at = users.placeOf(user) + this.heads.user
    let width = sizes[users.step(user)]
    for (let k = 0; k < width; k++) x[k] = p[at + k]
    let [sum, weight] = [0, 1]
    for (let a = 0; a < count; a++) {
      weights[a] = weight
      sum += weight
      weight *= DECAY
    }
    const scale = 1 / Math.sqrt(sum)
    for (let a = 0; a < count; a++) {
      const w = weights[a] * scale
      weights[a] = w
      if (!items.has(latest[a])) continue
      const size = sizes[items.step(latest[a])]
      const y = items.numbersOf(latest[a])
      const from = items.placeOf(latest[a]) + this.heads.item + size
      for (let k = 0; k < size; k++) x[k] += w * y[from + k]
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
    for (const side of ["user", "item"] as const)
      for (let r = 0; r < batch.user.length; r++) this.meetOne(side, batch[side][r])
    const trails = new Map<number, number[]>()
    const groups = this.#groups(batch, trails)
    this.#open(batch, trails)
    const losses = new Float64Array(groups.length)
    const rows = new Map<number, number>()
    if (rungs)
      for (const { own } of groups)
        if (rungs.rows?.[own] !== 0 && !rows.has(batch.item[own])) rows.set(batch.item[own], own)
    for (let pass = 0; pass < this.#passes; pass++)
      groups.forEach((whole, g) => {
        const group = this.#share(whole, pass)
        const loss = this.#weigh(batch, group)
        if (pass === 0) losses[g] = loss
        if (pass === 0 && rungs && rungs.rows?.[group.own] !== 0) {
          this.#judge(batch, group, { loss, rungs })
          this.#judgeInput(batch, group, { loss, rungs, rows })
        }
        this.#step(batch, group)
      })
    // Readers see all of the segment's items or none, and which it is.
    this.tables.user.guarded(() => {
      for (const [user, trail] of trails) this.#keepLatest(user, trail)
      Atomics.store(this.through, 0, this.segment)
    })
    if (touched) for (const trail of trails.values()) for (const item of trail) touched.add(item)
    if (touched) for (let r = 0; r < batch.item.length; r++) touched.add(batch.item[r])
    for (const side of ["user", "item"] as const) this.tables[side].close({ changed: true })
    return { logits: new Float64Array(0), losses }
  }

  #open(batch: ModelBatch, trails: ReadonlyMap<number, readonly number[]>): void {
    const { user, item } = this.tables
    user.open(batch.user)
    item.open(batch.item)
    for (const trail of trails.values()) item.open(trail)
  }

  /** Cuts a batch into groups and follows each user's items through it. */
  #groups(batch: ModelBatch, trails: Map<number, number[]>): Group[] {
    const { user, item, label, logChance } = batch
    const groups: Group[] = []
    for (let r = 0; r < user.length; r++) {
      const alone = label[r] === 0 && (groups.length === 0 || Number.isNaN(logChance?.[r] ?? 0))
      if (label[r] === 0 && !alone) {
        groups[groups.length - 1].to = r + 1
        continue
      }
      let trail = trails.get(user[r])
      if (!trail) {
        trail = this.latestOf(user[r])
        trails.set(user[r], trail)
      }
      groups.push({ own: r, from: r + 1, to: r + 1, alone, trail, before: trail.length })
      if (!alone && item[r] <= LAST_KEPT) trail.push(item[r])
    }
    return groups
  }

  /** The group with the negatives of one pass. */
  #share(group: Group, pass: number): Group {
    const count = group.to - group.from
    const at = (part: number) => group.from + Math.floor((count * part) / this.#passes)
    return { ...group, from: at(pass), to: at(pass + 1) }
  }

  /** Computes x, z − log Q and e of a group; returns its loss. */
  #weigh(batch: ModelBatch, group: Group): number {
    const { own, from, to, alone, trail, before } = group
    const count = Math.min(before, RECENT)
    for (let a = 0; a < count; a++) this.#latest[a] = trail[before - 1 - a]
    this.#count = count
    this.#combine(batch.user[own])
    const length = 1 + to - from
    if (length > this.#z.length) {
      this.#z = new Float64Array(2 * length)
      this.#other = new Float64Array(2 * length)
      this.#errors = new Float64Array(2 * length)
    }
    const [z, e] = [this.#z, this.#errors]
    for (let j = 0; j < length; j++) {
      const r = j === 0 ? own : from + j - 1
      z[j] = this.#score(batch.item[r]) - (alone ? 0 : (batch.logChance?.[r] ?? 0))
    }
    const loss = groupLoss(z, length, alone)
    if (alone) e[0] = sigmoid(z[0])
    else {
      // loss = log Σ exp(z) − z_0
      const all = loss + z[0]
      for (let j = 0; j < length; j++) e[j] = exp(z[j] - all)
      e[0] -= 1
    }
    return loss
  }

  /** Writes what the group would have cost with its user's p cut to each size up to its own; adds the same of its own item's q. */
  #judge(batch: ModelBatch, group: Group, p: { loss: number; rungs: RungLosses }): void {
    const { own, from, to, alone } = group
    const { user: users, item: items } = this.tables
    const [z, other, length] = [this.#z, this.#other, 1 + to - from]
    const [user, positive] = [batch.user[own], batch.item[own]]
    const at = own * this.sizes.length
    const held = users.step(user)
    p.rungs.user[at + held] = p.loss
    const p0 = { numbers: users.numbersOf(user), at: users.placeOf(user) + this.heads.user }
    let vector: Vector = p0
    for (let j = 0; j < length; j++) other[j] = z[j]
    for (let rung = held; rung > 0; rung--) {
      const cut = this.#cutTo("user", user, { rung, at: p0.at, isFirst: true })
      for (let j = 0; j < length; j++)
        other[j] -= this.#part(vector, j === 0 ? positive : batch.item[from + j - 1], { rung, cut })
      p.rungs.user[at + rung - 1] = groupLoss(other, length, alone)
      vector = cut ?? vector
    }
    const step = items.step(positive)
    p.rungs.item[at + step] += p.loss
    for (let j = 0; j < length; j++) other[j] = z[j]
    const q0 = { numbers: items.numbersOf(positive), at: items.placeOf(positive) + this.heads.item }
    let q: Vector = q0
    for (let rung = step; rung > 0; rung--) {
      const cut = this.#cutTo("item", positive, { rung, at: q0.at, isFirst: true })
      other[0] -= this.#itemRung(q, positive, { rung, cut })
      p.rungs.item[at + rung - 1] += groupLoss(other, length, alone)
      q = cut ?? q
    }
  }

  /** A vector as it would be a rung below with fewer bits; undefined where that has as many. */
  #cutTo(side: Side, id: number, p: { rung: number; at: number; isFirst: boolean }): Vector | undefined {
    const { rung, at, isFirst } = p
    if (this.bits[rung - 1] === this.bits[rung]) return undefined
    const numbers = this.#cuts[this.bits[rung - 1] === 8 ? 0 : 1]
    this.tables[side].cut(id, { at, isFirst, step: rung - 1 }, numbers)
    return { numbers, at: 0 }
  }

  /**
   * What the group would have cost with the y of a latest item cut to each size up to its own: of one of the m, which
   * stands for all of them and counts m times. It is put down to the first of `rows`, by item, that is the item's own; an
   * item without one in this batch is not judged by its y.
   */
  #judgeInput(
    batch: ModelBatch,
    { own, from, to, alone }: Group,
    p: { loss: number; rungs: RungLosses; rows: ReadonlyMap<number, number> },
  ): void {
    const count = this.#count
    if (count === 0) return
    // A draw that needs no state.
    const a = (Math.imul(own + batch.item[own] + 1, 0x9e3779b1) >>> 16) % count
    const { item: items } = this.tables
    const input = this.#latest[a]
    const row = p.rows.get(input)
    if (row === undefined) return
    const [z, other, length] = [this.#z, this.#other, 1 + to - from]
    const y0 = { numbers: items.numbersOf(input), at: items.placeOf(input) + this.heads.item + this.#size(input) }
    let y: Vector = y0
    for (let j = 0; j < length; j++) other[j] = z[j]
    for (let rung = items.step(input); rung > 0; rung--) {
      const cut = this.#cutTo("item", input, { rung, at: y0.at, isFirst: false })
      for (let j = 0; j < length; j++)
        other[j] -= this.#weights[a] * this.#part(y, batch.item[j === 0 ? own : from + j - 1], { rung, cut })
      p.rungs.item[row * this.sizes.length + rung - 1] += count * (groupLoss(other, length, alone) - p.loss)
      y = cut ?? y
    }
  }

  /** The part a rung of a vector of x, p or y, has in an item's z; `cut`: the vector a rung below, where that is rounded. */
  #part(vector: Vector, item: number, { rung, cut }: { rung: number; cut: Vector | undefined }): number {
    const table = this.tables.item
    const [low, high] = [this.sizes[rung - 1], this.sizes[rung]]
    const [p, q, noise] = [vector.numbers, table.numbersOf(item), this.noise.numbers]
    const a = vector.at
    const b = table.placeOf(item) + this.heads.item
    const size = this.#size(item)
    const held = Math.max(low, Math.min(high, size))
    const tail = this.noise.tail(item)
    let sum = 0
    for (let k = low; k < held; k++) sum += p[a + k] * q[b + k]
    for (let k = held; k < high; k++) sum += p[a + k] * this.fade[k] * noise[tail + k]
    if (cut)
      for (let k = 0; k < low; k++)
        sum += (p[a + k] - cut.numbers[k]) * (k < size ? q[b + k] : this.fade[k] * noise[tail + k])
    return sum
  }

  /** The part a rung of an item's q has in z, against ε in its place; `cut` as above. */
  #itemRung(q: Vector, item: number, { rung, cut }: { rung: number; cut: Vector | undefined }): number {
    const tail = this.noise.tail(item)
    const [numbers, at, width] = [q.numbers, q.at, this.#width]
    const [low, high] = [this.sizes[rung - 1], Math.min(this.sizes[rung], width)]
    let sum = 0
    for (let k = low; k < high; k++) sum += this.#x[k] * (numbers[at + k] - this.fade[k] * this.noise.numbers[tail + k])
    if (cut) for (let k = 0; k < Math.min(low, width); k++) sum += this.#x[k] * (numbers[at + k] - cut.numbers[k])
    return sum
  }

  /** One step on the errors of the group scored last. */
  #step(batch: ModelBatch, { own, from, to }: Group): void {
    const [dx, width, squares] = [this.#dx, this.#width, this.#dxSquares]
    dx.fill(0, 0, width)
    sumSquares(this.#xSquares, this.#x, width)
    this.#stepItem(batch.item[own], this.#errors[0])
    for (let r = from; r < to; r++) this.#stepItem(batch.item[r], this.#errors[1 + r - from])
    sumSquares(squares, dx, width)
    const { user: users, item: items } = this.tables
    const user = batch.user[own]
    const p = users.numbersOf(user)
    const at = users.placeOf(user) + this.heads.user
    const held = this.sizes[users.step(user)]
    const userRate = RATE.user * slowed(p, at - 1, squares[held])
    for (let k = 0; k < held; k++) p[at + k] -= userRate * (dx[k] + L2.user * p[at + k])
    for (let a = 0; a < this.#count; a++) {
      const item = this.#latest[a]
      if (!items.has(item)) continue
      const weight = this.#weights[a]
      const size = this.sizes[items.step(item)]
      const y = items.numbersOf(item)
      const head = items.placeOf(item) + this.heads.item
      const rate = RATE.input * weight * slowed(y, head - 1, weight * weight * squares[size])
      const b = head + size
      for (let k = 0; k < size; k++) y[b + k] -= rate * (dx[k] + L2.input * y[b + k])
    }
  }

  /** Adds e·q̂ to dx, and steps b and q. */
  #stepItem(item: number, e: number): void {
    const table = this.tables.item
    const [x, dx, width] = [this.#x, this.#dx, this.#width]
    const q = table.numbersOf(item)
    const b = table.placeOf(item)
    const at = b + this.heads.item
    const shared = Math.min(this.sizes[table.step(item)], width)
    q[b] -= RATE.bias * e
    const rate = RATE.item * slowed(q, at - 2, e * e * this.#xSquares[shared])
    for (let k = 0; k < shared; k++) {
      const qk = q[at + k]
      dx[k] += e * qk
      q[at + k] = qk - rate * (e * x[k] + L2.item * qk)
    }
    if (shared === width) return
    const [noise, fade] = [this.noise.numbers, this.fade]
    const tail = this.noise.tail(item)
    for (let k = shared; k < width; k++) dx[k] += e * fade[k] * noise[tail + k]
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
      losses[r] = softplus(label[r] === 1 ? -logits[r] : logits[r])
    }
    return { logits, losses }
  }

  logitsOf(out: Float32Array | Float64Array, user: number, items: ArrayLike<number>): void {
    this.#readLatest(user)
    this.#combineClosed(user)
    for (let i = 0; i < items.length; i++) out[i] = this.#score(items[i])
  }

  save(state: State): void {
    for (const side of ["user", "item"] as const) this.tables[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) this.tables[side].load(state.at(side))
  }
}

/** Writes Σ of the squares of the first n numbers to `out[n]`. */
function sumSquares(out: Float64Array, numbers: Float64Array, width: number): void {
  for (let k = 0; k < width; k++) out[k + 1] = out[k] + numbers[k] * numbers[k]
}

/** Adds ‖G‖² to the accumulator at `at`; returns what it slows the step down by. */
function slowed(row: Floats, at: number, squares: number): number {
  row[at] += squares
  return 1 / Math.sqrt(Math.min(row[at], MOST))
}

/** −log softmax(z)_0, or of a dislike −log(1 − σ(z_0)). */
function groupLoss(z: Float64Array, length: number, alone: boolean): number {
  if (alone) return softplus(z[0])
  let top = z[0]
  for (let j = 1; j < length; j++) if (z[j] > top) top = z[j]
  let sum = 0
  for (let j = 0; j < length; j++) sum += exp(z[j] - top)
  return log(sum) + top - z[0]
}

/** log(1 + e^x) */
function softplus(x: number): number {
  return x > 0 ? x + log(1 + exp(-x)) : log(1 + exp(x))
}
