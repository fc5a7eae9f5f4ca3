/**
 * The reading side of a live learner. A learner publishes versions; a reader, on another thread, scores with the last
 * one. What a version keeps of its items is written straight into the reader's working memory (a room); the rest is
 * small, or has changed little since the version before, and comes by message.
 */

import { findDistinct } from "../embedding/distinct.ts"
import type { Address } from "../kernels/kernels.ts"
import type { StateArray } from "../kernels/state.ts"
import type { Model } from "../models/model.ts"
import type { Side } from "../types.ts"

/** A stretch of memory that writer and reader see: `floats[at]` to `floats[at + length − 1]`. */
export interface Room {
  floats: Float32Array
  at: number
  length: number
}

/** A version, but for what stands in the room. */
export interface Published {
  /** Items that can be scored; scores come in this order. */
  items: Int32Array
  arrays: Record<string, StateArray>
}

export interface Reader {
  /** Items of the version. */
  readonly items: Int32Array
  /** Logits per pair. */
  readonly outputs: number
  /** Reserves a room of so many numbers or more. */
  reserve(length: number): Room
  /** Goes over to a version written to a room. */
  apply(published: Published, room: Room): void
  knows(side: Side, id: number): boolean
  /** Logits [items×outputs] of a known user and every item. */
  scores(user: number): Float32Array
  /** Logits [items×outputs] of a known user and some known items. */
  scoresOf(user: number, items: ArrayLike<number>): Float32Array
  /** Cosines between a known item and every item. */
  nearest(item: number): Float32Array
}

const ABSENT = 255

/** Ids lifted at a time when a version is written. */
const CHUNK = 4096

/** Numbers per item in a room: its vector, and what is kept of it for ranking, where that is something else. */
export function roomPerItem(model: Model): number {
  const { width } = model.inputs.item
  return model.head.kind === "ncf" ? width + model.head.rankWidth : width
}

/** Writes items to a room, in their order: first all vectors, then what ranking keeps. */
export function writeItems(model: Model, items: Int32Array, room: Room): void {
  const k = model.kernels
  const { width } = model.inputs.item
  const { rankWidth } = model.head
  const ranked = model.head.kind === "ncf"
  const second = room.at + items.length * width
  for (let from = 0; from < items.length; from += CHUNK) {
    const mark = k.mark()
    const distinct = findDistinct(items.subarray(from, from + CHUNK), model.inputs.item.table)
    const count = distinct.ids.length
    const vectors = model.inputs.item.forward(model.inputs.item.place(distinct), false)
    const half = ranked ? model.head.rankHalf("item", vectors, count) : vectors
    k.run()
    const f = k.floats
    // The distinct ids stand ordered by size.
    for (let i = 0; i < count; i++) {
      const [source, target] = [distinct.index[i], from + i]
      room.floats.set(f.subarray(vectors + source * width, vectors + (source + 1) * width), room.at + target * width)
      if (ranked)
        room.floats.set(
          f.subarray(half + source * rankWidth, half + (source + 1) * rankWidth),
          second + target * rankWidth,
        )
    }
    k.release(mark)
  }
}

/** The rows of some users, those without a row marked as absent. */
export function packUsers(model: Model, users: Iterable<number>): Record<"ids" | "steps" | "rows", StateArray> {
  const { table } = model.inputs.user
  const ids = Int32Array.from(users)
  const steps = Uint8Array.from(ids, (id) => (table.has(id) ? table.step(id) : ABSENT))
  const rows = new Float32Array(steps.reduce((sum, step) => sum + (step === ABSENT ? 0 : table.sizes[step]), 0))
  let at = 0
  ids.forEach((id, i) => {
    if (steps[i] === ABSENT) return
    table.read(id, rows, at)
    at += table.sizes[steps[i]]
  })
  return { ids, steps, rows }
}

/** Reads versions of a network: items in the room, dense parameters and changed user rows by message. */
export class NetworkReader implements Reader {
  items: Int32Array = new Int32Array(0)
  readonly outputs: number
  readonly #model: Model
  /** Place of an item in the version + 1, 0 for none. */
  #place = new Int32Array(0)
  /** Vectors, and what is kept for ranking. */
  #vectors: Address = 0
  #half: Address = 0
  /** Zeros, and 0, 1, 2 …, for as many pairs as there are items. */
  #zeros: Address = 0
  #counting: Address = 0
  #indexed = 0
  #centered: { mean: Float32Array; scale: Float32Array } | undefined

  constructor(model: Model) {
    this.#model = model
    this.outputs = model.outputs
  }

  reserve(length: number): Room {
    const k = this.#model.kernels
    const at = k.allocate(length)
    return { floats: k.floats as Float32Array, at, length }
  }

  apply({ items, arrays }: Published, room: Room): void {
    const model = this.#model
    const { values, running, userIds, userSteps, userRows } = arrays
    model.parameters.setValues({ values: values as Float32Array, running: running as Float32Array })
    const { table } = model.inputs.user
    let at = 0
    for (let i = 0; i < userIds.length; i++) {
      const [id, step] = [userIds[i], userSteps[i]]
      if (step === ABSENT) {
        if (table.has(id)) table.free(id)
        continue
      }
      table.ensure(id)
      table.replace(id, step, userRows as Float32Array, at)
      at += table.sizes[step]
    }
    this.#vectors = room.at
    this.#half = model.head.kind === "ncf" ? room.at + items.length * model.inputs.item.width : room.at
    this.items = items
    this.#centered = undefined
    const place = new Int32Array(items.reduce((most, id) => Math.max(most, id + 1), 0))
    items.forEach((id, i) => {
      place[id] = i + 1
    })
    this.#place = place
    this.#index(items.length)
  }

  #index(count: number): void {
    if (count <= this.#indexed) return
    const k = this.#model.kernels
    this.#indexed = Math.ceil(1.5 * count)
    this.#zeros = k.allocate(this.#indexed)
    this.#counting = k.allocate(this.#indexed)
    k.ints.fill(0, this.#zeros, this.#zeros + this.#indexed)
    for (let i = 0; i < this.#indexed; i++) k.ints[this.#counting + i] = i
  }

  knows(side: Side, id: number): boolean {
    return side === "user" ? this.#model.inputs.user.table.has(id) : this.#place[id] > 0
  }

  scores(user: number): Float32Array {
    return this.#score(user, this.#counting, this.items.length)
  }

  scoresOf(user: number, items: ArrayLike<number>): Float32Array {
    this.#index(items.length)
    const k = this.#model.kernels
    const mark = k.mark()
    const index = this.#model.placeInts(Int32Array.from(items, (item) => this.#place[item] - 1))
    const scores = this.#score(user, index, items.length)
    k.release(mark)
    return scores
  }

  #score(user: number, itemIndex: Address, pairs: number): Float32Array {
    const model = this.#model
    const k = model.kernels
    const mark = k.mark()
    const input = model.inputs.user
    const placed = input.place(findDistinct([user], input.table))
    const half = model.head.rankHalf("user", input.forward(placed, false), 1)
    const logits = model.head.rank({
      user: half,
      item: this.#half,
      userIndex: this.#zeros,
      itemIndex,
      pairs,
      columns: input.width,
    })
    k.run()
    const scores = (k.floats as Float32Array).slice(logits, logits + pairs * this.outputs)
    k.release(mark)
    return scores
  }

  /** cos(v_i − m, v_j − m) for all j, m the mean vector: what all items share says nothing about likeness. */
  nearest(item: number): Float32Array {
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
    return cosines
  }

  /** The mean vector, and 1/‖v_i − m‖; once per version. */
  #center(): { mean: Float32Array; scale: Float32Array } {
    if (this.#centered) return this.#centered
    const k = this.#model.kernels
    const { width: columns } = this.#model.inputs.item
    const rows = this.items.length
    const mark = k.mark()
    const [sums, squares, along, zero] = [k.allocate(columns), k.allocate(rows), k.allocate(rows), k.allocate(1)]
    const pairs = { userIndex: this.#counting, itemIndex: this.#counting, pairs: rows, columns }
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
