/** Writes and reads versions of the paper's networks. */

import type { Address, Floats } from "../kernels/kernels.ts"
import { unpackRows } from "../models/packed-rows.ts"
import { findDistinct } from "../models/paper/distinct.ts"
import type { Candidates } from "../models/paper/head.ts"
import type { Model } from "../models/paper/model.ts"
import type { Side } from "../types.ts"
import type { Published, Reader, SharedRegion } from "./reader.ts"

/** Ids lifted at a time when a version is written. */
const CHUNK = 4096

/** Numbers per item in a region: its vector, and what is kept of it for ranking, where that is something else. */
export function floatsPerItem(model: Model): number {
  const { width } = model.inputs.item
  return ranksVectors(model) ? width : width + model.head.halfWidth
}

/** Whether an item's vector is all a ranking needs of it. */
function ranksVectors(model: Model): boolean {
  return model.head.kind !== "ncf"
}

/**
 * Writes items to a region, in their order: first all vectors, then what ranking keeps. That is powers for all of them,
 * or, where they are not safe for one, halves for all; says whether it is powers.
 */
export function writeItems(model: Model, items: Int32Array, region: SharedRegion): boolean {
  const powers = !ranksVectors(model) && writeAs("powers", model, { items, region })
  return powers || !writeAs("halves", model, { items, region })
}

/** False where powers are not safe; then it stops. */
function writeAs(form: "powers" | "halves", model: Model, to: { items: Int32Array; region: SharedRegion }): boolean {
  const { items, region } = to
  const { kernels: k, head } = model
  const { width } = model.inputs.item
  const { halfWidth } = head
  const second = region.at + items.length * width
  for (let from = 0; from < items.length; from += CHUNK) {
    const mark = k.mark()
    const distinct = findDistinct(items.subarray(from, from + CHUNK), model.inputs.item.table)
    const { index } = distinct
    const rows = distinct.ids.length
    const vectors = model.inputs.item.forward(model.inputs.item.place(distinct), false)
    const half = head.half("item", vectors, rows)
    const out = form === "powers" ? k.allocate(rows * halfWidth) : half
    const safe = form === "halves" || head.candidates({ half, rows, out }).powers
    k.run()
    if (safe) {
      writeRows(region.floats, region.at + from * width, { rows: k.floats, at: vectors, width, index })
      if (!ranksVectors(model))
        writeRows(region.floats, second + from * halfWidth, { rows: k.floats, at: out, width: halfWidth, index })
    }
    k.release(mark)
    if (!safe) return false
  }
  return true
}

/** Copies rows in the order of an index: the distinct ids of a batch stand ordered by size. */
function writeRows(
  target: Float32Array,
  to: number,
  source: { rows: Floats; at: Address; width: number; index: Int32Array },
): void {
  const { rows, at, width, index } = source
  for (let i = 0; i < index.length; i++) {
    const from = at + index[i] * width
    target.set(rows.subarray(from, from + width), to + i * width)
  }
}

function meanRow(rows: Float32Array, width: number): Float64Array {
  const mean = new Float64Array(width)
  for (let i = 0; i < rows.length; i++) mean[i % width] += (rows[i] * width) / rows.length
  return mean
}

/** Reads versions of a network: items in the region, dense parameters and changed user rows in the message. */
export class PaperReader implements Reader {
  items: Int32Array = new Int32Array(0)
  readonly outputs: number
  readonly #model: Model
  /** Place of an item in the version + 1, 0 for none. */
  #place = new Int32Array(0)
  /** Vectors, and what is kept for ranking. */
  #vectors: Address = 0
  #candidates: Candidates = { items: 0, rows: 0, powers: false }
  #centered: { mean: Float32Array; scale: Float32Array } | undefined

  #userMean: Float64Array | undefined

  constructor(model: Model) {
    this.#model = model
    this.outputs = model.outputs
  }

  get packedBytes(): number {
    return 4 * this.items.length * floatsPerItem(this.#model)
  }

  reserve(length: number): SharedRegion {
    const k = this.#model.kernels
    const at = k.allocate(length)
    return { floats: k.floats as Float32Array, at, length }
  }

  apply({ items = new Int32Array(0), arrays }: Published, region: SharedRegion): void {
    const model = this.#model
    const { values, running, userIds, userSteps, userRows, powers } = arrays
    model.parameters.setValues({ values: values as Float32Array, running: running as Float32Array })
    unpackRows(model.inputs.user.table, { ids: userIds, steps: userSteps, rows: userRows })
    this.#vectors = region.at
    const ranked = ranksVectors(model) ? region.at : region.at + items.length * model.inputs.item.width
    this.#candidates = { items: ranked, rows: items.length, powers: powers[0] === 1 }
    this.items = items
    this.#centered = undefined
    this.#userMean = undefined
    const place = new Int32Array(items.reduce((most, id) => Math.max(most, id + 1), 0))
    items.forEach((id, i) => {
      place[id] = i + 1
    })
    this.#place = place
  }

  knows(side: Side, id: number): boolean {
    return side === "user" ? this.#model.inputs.user.table.has(id) : this.#place[id] > 0
  }

  scores(user: number): Float32Array {
    return this.#score(user, this.#candidates)
  }

  scoresOf(user: number, items: ArrayLike<number>): Float32Array {
    const { kernels: k, head } = this.#model
    const { halfWidth } = head
    const mark = k.mark()
    const chosen = k.allocate(items.length * halfWidth)
    for (let i = 0; i < items.length; i++) {
      const from = this.#candidates.items + (this.#place[items[i]] - 1) * halfWidth
      k.floats.copyWithin(chosen + i * halfWidth, from, from + halfWidth)
    }
    const scores = this.#score(user, { ...this.#candidates, items: chosen, rows: items.length })
    k.release(mark)
    return scores
  }

  #score(user: number, candidates: Candidates): Float32Array {
    const model = this.#model
    const k = model.kernels
    const mark = k.mark()
    const input = model.inputs.user
    const placed = input.place(findDistinct([user], input.table))
    const half = model.head.half("user", input.forward(placed, false), 1)
    const logits = model.head.scores(half, candidates)
    k.run()
    const scores = (k.floats as Float32Array).slice(logits, logits + candidates.rows * this.outputs)
    k.release(mark)
    return scores
  }

  /** cos(v_i − m, v_j − m) for all j, m the mean vector: what all items share does not make them similar. */
  nearest(item: number, others?: Int32Array): Float32Array {
    const k = this.#model.kernels
    const { width: columns } = this.#model.inputs.item
    const rows = this.items.length
    const mark = k.mark()
    const { mean, scale } = this.#center()
    const [weight, out, zero] = [k.allocate(columns), k.allocate(rows), k.allocate(1)]
    const f = k.floats
    const own = this.#vectors + (this.#place[item] - 1) * columns
    let shift = 0
    for (let c = 0; c < columns; c++) {
      f[weight + c] = f[own + c] - mean[c]
      shift += f[weight + c] * mean[c]
    }
    f[zero] = -shift
    k.project({ out, input: this.#vectors, weight, bias: zero, rows, columns, outputs: 1 })
    k.run()
    const cosines = (k.floats as Float32Array).slice(out, out + rows)
    k.release(mark)
    const ownScale = scale[this.#place[item] - 1]
    for (let i = 0; i < rows; i++) cosines[i] *= ownScale * scale[i]
    return others ? Float32Array.from(others, (other) => cosines[this.#place[other] - 1]) : cosines
  }

  users(): Int32Array {
    return Int32Array.from(this.#model.inputs.user.table.ids())
  }

  /** As for items, m the mean of the first few thousand users. */
  nearestUsers(user: number, others: Int32Array): Float32Array {
    const { width } = this.#model.inputs.user
    this.#userMean ??= meanRow(this.#lift(this.users().subarray(0, CHUNK)), width)
    const mean = this.#userMean
    const own = this.#lift(Int32Array.of(user))
    const rows = this.#lift(others)
    return Float32Array.from(others, (_, i) => {
      let [product, mine, theirs] = [0, 0, 0]
      for (let c = 0; c < width; c++) {
        const [a, b] = [own[c] - mean[c], rows[i * width + c] - mean[c]]
        product += a * b
        mine += a * a
        theirs += b * b
      }
      return mine > 0 && theirs > 0 ? product / Math.sqrt(mine * theirs) : 0
    })
  }

  /** Full-width vectors of users [users×width], in their order. */
  #lift(users: Int32Array): Float32Array {
    const { kernels: k } = this.#model
    const input = this.#model.inputs.user
    const mark = k.mark()
    const distinct = findDistinct(users, input.table)
    const vectors = input.forward(input.place(distinct), false)
    k.run()
    const rows = new Float32Array(users.length * input.width)
    writeRows(rows, 0, { rows: k.floats, at: vectors, width: input.width, index: distinct.index })
    k.release(mark)
    return rows
  }

  /** The mean vector, and 1/‖v_i − m‖; once per version. */
  #center(): { mean: Float32Array; scale: Float32Array } {
    if (this.#centered) return this.#centered
    const k = this.#model.kernels
    const { width: columns } = this.#model.inputs.item
    const rows = this.items.length
    const mark = k.mark()
    const [sums, squares, along, zero] = [k.allocate(columns), k.allocate(rows), k.allocate(rows), k.allocate(1)]
    const counting = this.#model.placeInts(Int32Array.from(this.items.keys()))
    const pairs = { userIndex: counting, itemIndex: counting, pairs: rows, columns }
    k.columnSums({ out: sums, input: this.#vectors, rows, columns })
    k.pairScore({ ...pairs, user: this.#vectors, item: this.#vectors, out: squares, metric: "dot", factor: 1 })
    k.run()
    const f = k.floats
    let square = 0
    for (let c = 0; c < columns; c++) {
      f[sums + c] /= rows
      square += f[sums + c] * f[sums + c]
    }
    f[zero] = 0
    k.project({ out: along, input: this.#vectors, weight: sums, bias: zero, rows, columns, outputs: 1 })
    k.run()
    const scale = new Float32Array(rows)
    for (let i = 0; i < rows; i++) {
      const distance = k.floats[squares + i] - 2 * k.floats[along + i] + square
      scale[i] = distance > 0 ? 1 / Math.sqrt(distance) : 0
    }
    this.#centered = { mean: (k.floats as Float32Array).slice(sums, sums + columns), scale }
    k.release(mark)
    return this.#centered
  }
}
