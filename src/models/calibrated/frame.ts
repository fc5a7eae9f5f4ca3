/**
 * The frame of a factor model: its coordinates turned so that the first ones carry the most.
 *
 * ⟨Rp, Rq⟩ = ⟨p, q⟩ for an orthogonal R, so a turn changes no prediction between full rows; a shorter row keeps the part
 * of the turned vector it has numbers for. With R from C = Σ w_i·q_i·q_iᵀ, descending, leaving off the last numbers of a
 * row is the least-squares way to shorten it. (Both sides learn from the same products, so the frame suits the users as
 * well: plain gradient steps keep PᵀP and QᵀQ in proportion, those of factor.ts nearly so.)
 */

import { newBuffer } from "../../ids/columns.ts"
import { SIDES, type Side } from "../../types.ts"
import type { RowModel } from "./rows.ts"

/** What is left between two directions, as a share of all: less does not change which ones carry the most. */
const SMALL = 1e-9
/** The same in a turn: the next one puts the rest right. */
const ENOUGH = 1e-6
/** Later than any id. */
const ALL = 0x7fffffff
/** Places of what a frame tells: how many turns there were, and the first id of each side the last one has not reached. */
const TURNS = 0
const REACHED: Record<Side, number> = { user: 1, item: 2 }

/** What another thread needs to follow the turns. */
export interface SharedFrame {
  state: SharedArrayBuffer
  matrices: SharedArrayBuffer
}

/**
 * How far the frame of a model has turned since the beginning, R_n···R_1, after the last turn and the one before. A turn
 * takes its time: rows from some id on are still in the frame before it.
 */
export class Frame {
  readonly #width: number
  readonly #state: Int32Array
  readonly #matrices: Float64Array

  constructor(width: number, shared?: SharedFrame) {
    this.#width = width
    this.#state = new Int32Array(shared?.state ?? newBuffer(12), 0, 3)
    this.#matrices = new Float64Array(shared?.matrices ?? newBuffer(16 * width * width), 0, 2 * width * width)
    if (shared) return
    for (const side of SIDES) this.#state[REACHED[side]] = ALL
    for (let k = 0; k < width; k++) this.#matrices[k * width + k] = 1
  }

  share(): SharedFrame {
    const [state, matrices] = [this.#state.buffer, this.#matrices.buffer]
    return { state: state as SharedArrayBuffer, matrices: matrices as SharedArrayBuffer }
  }

  get turns(): number {
    return Atomics.load(this.#state, TURNS)
  }

  /** The turns an id's row has been through. */
  of(side: Side, id: number): number {
    return this.turns - (id < Atomics.load(this.#state, REACHED[side]) ? 0 : 1)
  }

  /** R_n···R_1 of the last n, or the one before. */
  matrix(turns: number): Float64Array {
    const { length } = this.#matrices
    const half = length / 2
    return this.#matrices.subarray((turns % 2) * half, (turns % 2) * half + half)
  }

  /** From now on no row has been through the next turn, R of `width` rows and columns. */
  begin(turn: Float64Array, width: number): void {
    const full = this.#width
    const [before, after] = [this.matrix(this.turns), this.matrix(this.turns + 1)]
    after.set(before)
    for (let r = 0; r < width; r++)
      for (let c = 0; c < full; c++) {
        let sum = 0
        for (let k = 0; k < width; k++) sum += turn[r * width + k] * before[k * full + c]
        after[r * full + c] = sum
      }
    for (const side of SIDES) Atomics.store(this.#state, REACHED[side], 0)
    Atomics.add(this.#state, TURNS, 1)
  }

  /** The rows of a side up to an id, or all of them, have been through the turn. */
  reach(side: Side, id = ALL - 1): void {
    Atomics.store(this.#state, REACHED[side], id + 1)
  }
}

/** y = A·Bᵀ·x: what was turned as B says, turned as A says. Numbers x does not have are 0. */
export function turnBetween(y: Float64Array, x: ArrayLike<number>, p: { from: Float64Array; to: Float64Array }): void {
  const width = y.length
  const back = new Float64Array(width)
  for (let r = 0; r < x.length; r++) for (let c = 0; c < width; c++) back[c] += p.from[r * width + c] * x[r]
  for (let r = 0; r < width; r++) {
    let sum = 0
    for (let c = 0; c < width; c++) sum += p.to[r * width + c] * back[c]
    y[r] = sum
  }
}

/** Turns the model's frame; `weigh` says how much an item counts. */
export function turnFrame(model: RowModel, weigh: (item: number) => number, frame?: Frame): void {
  const { width } = model
  if (width < 2) return
  const moments = secondMoments(model, width, weigh)
  const turn = eigenvectors(moments, width, ENOUGH)
  const scratch = { turned: new Float64Array(width), held: new Float64Array(width) }
  const { user, item } = model.tables
  // Guarded: a reader must not see the new number of turns with the old cursor, or the other way round.
  user.guarded(() => item.guarded(() => frame?.begin(turn, width)))
  for (const side of SIDES) {
    const table = model.tables[side]
    const next = { side, id: 0, turn, ...scratch }
    const turnNext = () => {
      turnRow(model, next)
      frame?.reach(side, next.id)
    }
    for (let id = 0; id < table.reach; id++) {
      if (!table.has(id)) continue
      next.id = id
      table.guarded(turnNext)
    }
    frame?.reach(side)
  }
}

function turnRow(
  model: RowModel,
  p: { side: Side; id: number; turn: Float64Array; turned: Float64Array; held: Float64Array },
): void {
  const { side, id, turn, turned, held } = p
  const width = turned.length
  const table = model.tables[side]
  const whole = model.sizes[table.step(id)]
  const size = Math.min(width, whole)
  if (size === 0) return
  table.open([id])
  const row = table.numbersOf(id)
  for (let v = 0; v < model.vectors[side]; v++) {
    const at = table.placeOf(id) + model.heads[side] + v * whole
    for (let k = 0; k < size; k++) held[k] = row[at + k]
    multiply(turned, turn, held, { width, size })
    for (let r = 0; r < size; r++) row[at + r] = turned[r]
  }
  table.close({ changed: true })
}

/** y = A·x of the first rows and columns, four rows at a time: a number of x is read once for all of them. */
function multiply(y: Float64Array, a: Float64Array, x: Float64Array, p: { width: number; size: number }): void {
  const { width, size } = p
  let r = 0
  for (; r + 3 < size; r += 4) {
    const [a0, a1, a2, a3] = [r * width, (r + 1) * width, (r + 2) * width, (r + 3) * width]
    let s0 = 0
    let s1 = 0
    let s2 = 0
    let s3 = 0
    for (let k = 0; k < size; k++) {
      const xk = x[k]
      s0 += a[a0 + k] * xk
      s1 += a[a1 + k] * xk
      s2 += a[a2 + k] * xk
      s3 += a[a3 + k] * xk
    }
    y[r] = s0
    y[r + 1] = s1
    y[r + 2] = s2
    y[r + 3] = s3
  }
  for (; r < size; r++) {
    let sum = 0
    for (let k = 0; k < size; k++) sum += a[r * width + k] * x[k]
    y[r] = sum
  }
}

/** Σ w_i·q_i·q_iᵀ; q is the first vector of an item. */
function secondMoments(model: RowModel, width: number, weigh: (item: number) => number): Float64Array {
  const table = model.tables.item
  const moments = new Float64Array(width * width)
  const row = new Float32Array(table.sizes[table.top])
  const at = model.heads.item
  for (let id = 0; id < table.reach; id++) {
    if (!table.has(id)) continue
    const size = Math.min(width, model.sizes[table.step(id)])
    const weight = weigh(id)
    if (weight === 0) continue
    table.read(id, row, 0)
    for (let j = 0; j < size; j++) {
      const scaled = weight * row[at + j]
      for (let k = 0; k <= j; k++) moments[j * width + k] += scaled * row[at + k]
    }
  }
  for (let j = 0; j < width; j++) for (let k = 0; k < j; k++) moments[k * width + j] = moments[j * width + k]
  return moments
}

/**
 * Eigenvectors of a symmetric matrix as rows, largest eigenvalue first, by cyclic Jacobi rotations. Between two turns the
 * matrix stays nearly diagonal, so a few sweeps do. A row keeps the sign of its own coordinate, so that a frame at rest
 * stays at rest.
 */
export function eigenvectors(matrix: Float64Array, width: number, least = SMALL): Float64Array {
  const a = matrix.slice()
  const v = new Float64Array(width * width)
  for (let i = 0; i < width; i++) v[i * width + i] = 1
  let trace = 0
  for (let i = 0; i < width; i++) trace += a[i * width + i]
  const small = least * trace
  for (let sweep = 0; sweep < 12; sweep++) {
    let turned = false
    for (let p = 0; p < width; p++)
      for (let q = p + 1; q < width; q++) {
        const apq = a[p * width + q]
        if (Math.abs(apq) <= small) continue
        turned = true
        const theta = (a[q * width + q] - a[p * width + p]) / (2 * apq)
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1))
        const c = 1 / Math.sqrt(t * t + 1)
        rotate(a, v, { width, p, q, c, s: t * c })
      }
    if (!turned) break
  }
  const order = Array.from({ length: width }, (_, i) => i).sort((i, j) => a[j * width + j] - a[i * width + i] || i - j)
  const out = new Float64Array(width * width)
  order.forEach((from, to) => {
    const sign = v[from * width + from] < 0 ? -1 : 1
    for (let k = 0; k < width; k++) out[to * width + k] = sign * v[from * width + k]
  })
  return out
}

/** A ← JᵀAJ and V ← JᵀV (eigenvectors as rows) for a rotation of rows and columns p and q. */
function rotate(
  a: Float64Array,
  v: Float64Array,
  { width, p, q, c, s }: { width: number; p: number; q: number; c: number; s: number },
): void {
  for (let k = 0; k < width; k++) {
    const akp = a[k * width + p]
    const akq = a[k * width + q]
    a[k * width + p] = c * akp - s * akq
    a[k * width + q] = s * akp + c * akq
  }
  for (let k = 0; k < width; k++) {
    const apk = a[p * width + k]
    const aqk = a[q * width + k]
    a[p * width + k] = c * apk - s * aqk
    a[q * width + k] = s * apk + c * aqk
    const vpk = v[p * width + k]
    const vqk = v[q * width + k]
    v[p * width + k] = c * vpk - s * vqk
    v[q * width + k] = s * vpk + c * vqk
  }
}
