/**
 * The probe (method.md §6): what would each arm have earned? For every asked row and side, the id's row is tuned by one
 * plain SGD step of rate η at its size (keep) and one size up, warm-grown (grow), all else frozen, and the loss is
 * measured on the row itself or on another row of the batch.
 *
 * The ladder is affine, so with A_s = W_{n−1}…W_s a step on a row of size s_s moves its lifted vector by −η·A_s·A_sᵀ·g,
 * exactly, for any η, and a warm-grown row lifts to the same vector. So there is no network call per interaction:
 *
 *   one pass over the batch            → losses, g at every lifted vector
 *   g·A_s·A_sᵀ, rows ordered by size   → moved lifted vectors, both arms stacked
 *   one more pass of that side         → losses after tuning
 */

import { type Address, NONE, type Pairs } from "../../kernels/kernels.ts"
import type { Side } from "../../types.ts"
import type { ModelBatch } from "../model.ts"
import { type Distinct, findDistinct } from "./distinct.ts"
import type { Ladder, LadderPlaced } from "./ladder.ts"
import type { Model } from "./model.ts"

export interface ProbeSide {
  /** Rows of the batch to probe. */
  rows: Int32Array
  /** For each of them, the row of the batch whose loss is measured: the same row, or a later one of the same id. */
  evaluate: Int32Array
}

export interface ProbeRequest {
  batch: ModelBatch
  /** η */
  rate: number
  user: ProbeSide
  item: ProbeSide
}

/** One entry per asked row. */
export interface ProbeTable {
  before: Float64Array
  keep: Float64Array
  /** NaN where the id is at the top size. */
  grow: Float64Array
}

/** What both sides share: the frozen pass over the batch. */
interface Frozen {
  distinct: Record<Side, Distinct>
  placed: Record<Side, LadderPlaced>
  halves: Pairs
  kept: Address
  dLogits: Address
}

const other = (side: Side): Side => (side === "user" ? "item" : "user")

/** Probes the asked rows of a batch whose ids all have been met. The model is left as it was. */
export function probe(model: Model, request: ProbeRequest): Record<Side, ProbeTable> {
  const k = model.kernels
  const { batch } = request
  const mark = k.mark()
  const distinct = {
    user: findDistinct(batch.user, model.inputs.user.table),
    item: findDistinct(batch.item, model.inputs.item.table),
  }
  const ladders = { user: model.ladder("user"), item: model.ladder("item") }
  const placed = { user: ladders.user.place(distinct.user), item: ladders.item.place(distinct.item) }
  const pairs: Pairs = {
    user: ladders.user.forward(placed.user, false),
    item: ladders.item.forward(placed.item, false),
    userIndex: model.placeInts(distinct.user.index),
    itemIndex: model.placeInts(distinct.item.index),
    pairs: batch.user.length,
    columns: model.inputs.user.width,
  }
  const halves = {
    ...pairs,
    user: model.head.half("user", pairs.user, placed.user.count),
    item: model.head.half("item", pairs.item, placed.item.count),
  }
  const { logits, kept } = model.head.logits(halves, "keep")
  const { losses, dLogits } = model.queueLoss(logits, model.placeFloats(batch.label), pairs.pairs, true)
  const frozen = { distinct, placed, halves, kept, dLogits }
  const queued = {
    user: queueSide(model, request, { side: "user", frozen }),
    item: queueSide(model, request, { side: "item", frozen }),
  }
  k.run()
  const tables = {
    user: readSide(model, request.user, { ...queued.user, losses }),
    item: readSide(model, request.item, { ...queued.item, losses }),
  }
  k.release(mark)
  return tables
}

interface QueuedSide {
  /** Asked rows ordered by step of size: positions into request.rows. */
  order: Int32Array
  /** How many of them are below the top. */
  growable: number
  /** Losses after tuning: every keep, then every grow. */
  tuned: Address
}

function queueSide(model: Model, request: ProbeRequest, { side, frozen }: { side: Side; frozen: Frozen }): QueuedSide {
  const k = model.kernels
  const ladder = model.ladder(side)
  const { top } = ladder.table
  const { width } = ladder
  const { rows, evaluate } = request[side]
  const { order, bounds } = orderBySize(rows, frozen.distinct[side])
  const count = rows.length
  const growable = bounds[top]
  if (count === 0) return { order, growable, tuned: NONE }
  const total = count + growable

  // Asked rows in the order of their ids' sizes, every keep, then every grow.
  const rowIndex = k.allocate(count)
  const ownIndex = k.allocate(total)
  const movedIndex = k.allocate(total)
  const otherIndex = k.allocate(total)
  const labels = k.allocate(total)
  const [own, others] = [frozen.distinct[side].index, frozen.distinct[other(side)].index]
  const { ints, floats } = k
  for (let i = 0; i < total; i++) {
    const position = order[i < count ? i : i - count]
    if (i < count) ints[rowIndex + i] = rows[position]
    ints[ownIndex + i] = own[rows[position]]
    ints[movedIndex + i] = i
    ints[otherIndex + i] = others[evaluate[position]]
    floats[labels + i] = request.batch.label[evaluate[position]]
  }

  const { kept, dLogits, halves } = frozen
  const placed = frozen.placed[side]
  const g = model.head.gradient({ side, pairs: halves, kept, dLogits, rowIndex, rows: count })
  const through = { norm: ladder.norm, activation: placed.vectors, index: ownIndex }
  k.normalizeGradient({ out: g, dOut: g, ...through, rows: count, columns: width })

  const lifted = k.allocate(total * width)
  const vectors = k.allocate(total * width)
  const maps = ladder.composites()
  for (let s = 0; s <= top; s++) {
    const move = {
      model,
      ladder,
      maps,
      gradient: g + bounds[s] * width,
      rows: bounds[s + 1] - bounds[s],
      rate: request.rate,
    }
    const base = placed.levels[top]
    const keep = bounds[s]
    queueMove({ ...move, step: s, out: lifted + keep * width, base, index: ownIndex + keep })
    if (s === top) continue
    const grow = count + bounds[s]
    queueMove({ ...move, step: s + 1, out: lifted + grow * width, base, index: ownIndex + grow })
  }
  ladder.normalize(vectors, lifted, total)
  const half = model.head.half(side, vectors, total)
  const pairs: Pairs =
    side === "user"
      ? { ...halves, user: half, userIndex: movedIndex, itemIndex: otherIndex, pairs: total }
      : { ...halves, item: half, userIndex: otherIndex, itemIndex: movedIndex, pairs: total }
  const { logits } = model.head.logits(pairs)
  return { order, growable, tuned: model.queueLoss(logits, labels, total, false).losses }
}

/** Queues out = base[index] − η·g·A·Aᵀ for a row tuned at a step; at the top A is the identity. */
function queueMove(p: {
  model: Model
  ladder: Ladder
  maps: readonly Address[]
  step: number
  out: Address
  base: Address
  index: Address
  gradient: Address
  rows: number
  rate: number
}): void {
  const k = p.model.kernels
  const { out, base, index, rows, rate } = p
  if (rows === 0) return
  const { width } = p.ladder
  const size = p.ladder.table.sizes[p.step]
  const map = p.maps[p.step]
  let delta = p.gradient
  if (map !== NONE) {
    const down = k.allocate(rows * size)
    delta = k.allocate(rows * width)
    k.multiply({ out: down, left: p.gradient, right: map, rows, columns: size, inner: width })
    k.multiply({ out: delta, left: down, right: map, rows, columns: width, inner: size, transposeRight: true })
  }
  k.moveRows({ out, base, index, delta, rate, rows, columns: width })
}

/** Positions of the asked rows by step of their ids' sizes; those of step s are at bounds[s] … bounds[s+1]−1. */
function orderBySize(rows: Int32Array, distinct: Distinct): { order: Int32Array; bounds: Int32Array } {
  const { groups, index } = distinct
  const bounds = new Int32Array(groups.length)
  const steps = new Uint8Array(rows.length)
  for (let i = 0; i < rows.length; i++) {
    let s = 0
    while (index[rows[i]] >= groups[s + 1]) s++
    steps[i] = s
    bounds[s + 1]++
  }
  for (let s = 1; s < bounds.length; s++) bounds[s] += bounds[s - 1]
  const next = bounds.slice()
  const order = new Int32Array(rows.length)
  for (let i = 0; i < rows.length; i++) order[next[steps[i]]++] = i
  return { order, bounds }
}

function readSide(model: Model, request: ProbeSide, queued: QueuedSide & { losses: Address }): ProbeTable {
  const f = model.kernels.floats
  const count = request.rows.length
  const table = {
    before: new Float64Array(count),
    keep: new Float64Array(count),
    grow: new Float64Array(count).fill(Number.NaN),
  }
  for (let i = 0; i < count; i++) {
    const position = queued.order[i]
    table.before[position] = f[queued.losses + request.evaluate[position]]
    table.keep[position] = f[queued.tuned + i]
    if (i < queued.growable) table.grow[position] = f[queued.tuned + count + i]
  }
  return table
}
