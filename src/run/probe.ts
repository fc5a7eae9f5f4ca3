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

import { type Distinct, findDistinct } from "../embedding/distinct.ts"
import type { LadderPlaced } from "../embedding/ladder.ts"
import { type Address, NONE, type Pairs } from "../kernels/kernels.ts"
import type { Model, ModelBatch } from "../models/model.ts"
import type { Side } from "../types.ts"

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
  const { sizes, top } = ladder.table
  const { width } = ladder
  const { rows, evaluate } = request[side]
  const { index } = frozen.distinct[side]
  const order = orderBySize(rows, frozen.distinct[side])
  const count = rows.length
  if (count === 0) return { order, growable: 0, tuned: NONE }
  const own = Int32Array.from(order, (position) => index[rows[position]])
  const bounds = groupBounds(own, frozen.distinct[side])
  const growable = bounds[top]

  const rowIndex = model.placeInts(Int32Array.from(order, (position) => rows[position]))
  const ownIndex = k.allocate(count + growable)
  k.ints.set(own, ownIndex)
  k.ints.set(own.subarray(0, growable), ownIndex + count)
  const placed = frozen.placed[side]

  const g = model.head.gradient({
    side,
    pairs: frozen.halves,
    kept: frozen.kept,
    dLogits: frozen.dLogits,
    rowIndex,
    rows: count,
  })
  k.normalizeGradient({
    out: g,
    dOut: g,
    norm: ladder.norm,
    activation: placed.vectors,
    index: ownIndex,
    rows: count,
    columns: width,
  })

  const maps = ladder.composites()
  const deltas = k.allocate((count + growable) * width)
  for (let s = 0; s <= top; s++) {
    const [from, to] = [bounds[s], bounds[s + 1]]
    const step = { gradient: g + from * width, rows: to - from, width }
    queueMove(model, { ...step, out: deltas + from * width, map: maps[s], size: sizes[s] })
    if (s < top)
      queueMove(model, { ...step, out: deltas + (count + from) * width, map: maps[s + 1], size: sizes[s + 1] })
  }
  const total = count + growable
  const lifted = k.allocate(total * width)
  const vectors = k.allocate(total * width)
  k.moveRows({
    out: lifted,
    base: placed.levels[top],
    index: ownIndex,
    delta: deltas,
    rate: request.rate,
    rows: total,
    columns: width,
  })
  ladder.normalize(vectors, lifted, total)
  const half = model.head.half(side, vectors, total)

  const otherIndex = frozen.distinct[other(side)].index
  const evaluated = (i: number) => evaluate[order[i < count ? i : i - count]]
  const own2 = model.placeInts(Int32Array.from({ length: total }, (_, i) => i))
  const other2 = model.placeInts(Int32Array.from({ length: total }, (_, i) => otherIndex[evaluated(i)]))
  const labels = model.placeFloats(Float64Array.from({ length: total }, (_, i) => request.batch.label[evaluated(i)]))
  const pairs: Pairs =
    side === "user"
      ? { ...frozen.halves, user: half, userIndex: own2, itemIndex: other2, pairs: total }
      : { ...frozen.halves, item: half, userIndex: other2, itemIndex: own2, pairs: total }
  const { logits } = model.head.logits(pairs)
  return { order, growable, tuned: model.queueLoss(logits, labels, total, false).losses }
}

/** Queues out = g·A·Aᵀ; without a map (the top size) out = g. */
function queueMove(
  model: Model,
  p: { out: Address; gradient: Address; map: Address; rows: number; size: number; width: number },
): void {
  const k = model.kernels
  if (p.rows === 0) return
  if (p.map === NONE) {
    const index = model.placeInts(Int32Array.from({ length: p.rows }, (_, i) => i))
    const zero = k.allocate(p.rows * p.width)
    k.fill({ out: zero, value: 0, count: p.rows * p.width })
    k.moveRows({ out: p.out, base: zero, index, delta: p.gradient, rate: -1, rows: p.rows, columns: p.width })
    return
  }
  const down = k.allocate(p.rows * p.size)
  k.multiply({ out: down, left: p.gradient, right: p.map, rows: p.rows, columns: p.size, inner: p.width })
  k.multiply({
    out: p.out,
    left: down,
    right: p.map,
    rows: p.rows,
    columns: p.width,
    inner: p.size,
    transposeRight: true,
  })
}

/** Positions of the asked rows in the order of their ids' sizes: distinct ids already are. */
function orderBySize(rows: Int32Array, distinct: Distinct): Int32Array {
  const order = Int32Array.from(rows.keys())
  const steps = distinct.groups.length - 1
  const next = new Int32Array(steps + 1)
  const step = Uint8Array.from(rows, (row) => stepOf(distinct, distinct.index[row]))
  for (let i = 0; i < rows.length; i++) next[step[i] + 1]++
  for (let s = 1; s <= steps; s++) next[s] += next[s - 1]
  for (let i = 0; i < rows.length; i++) order[next[step[i]]++] = i
  return order
}

function stepOf(distinct: Distinct, position: number): number {
  let s = 0
  while (position >= distinct.groups[s + 1]) s++
  return s
}

/** bounds[s] … bounds[s+1]−1 are the ordered rows whose id has step s. */
function groupBounds(own: Int32Array, distinct: Distinct): Int32Array {
  const bounds = new Int32Array(distinct.groups.length)
  for (const position of own) bounds[stepOf(distinct, position) + 1]++
  for (let s = 1; s < bounds.length; s++) bounds[s] += bounds[s - 1]
  return bounds
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
