/**
 * The hard lift (method.md §2): a row of size s_i climbs the affine maps i … n−1 to width s_n, then side norm and tanh.
 *
 *   E_{i+1} = W_i E_i + b_i        W_i: s_{i+1} × s_i
 *   lifted  = E_n                  vectors = tanh(norm(lifted))
 *
 * Distinct ids are ordered by size, so that level k is one matrix [rows of size ≤ s_k  ×  s_k] whose last rows are the
 * raw rows of size s_k: every map is one matrix product.
 */

import { DessError, show } from "../../errors.ts"
import type { Address, Kernels } from "../../kernels/kernels.ts"
import type { AdamOptions, NormParameter, Parameter, Parameters } from "../../kernels/parameters.ts"
import type { Side } from "../../types.ts"
import type { EmbeddingTable } from "../embedding-table.ts"
import { type Distinct, findDistinct } from "./distinct.ts"
import {
  commitRows,
  type EmbeddingInput,
  type Placed,
  placeCounts,
  placeRows,
  type RowGroup,
  stepRows,
} from "./input.ts"
import { leastSquares } from "./least-squares.ts"

export interface LadderPlaced extends Placed {
  /** levels[k]: rows of size ≤ s_k at width s_k. */
  levels: Address[]
  /** Gradients of the levels, set by `backward`. */
  dLevels: Address[]
  vectors: Address
  groups: RowGroup[]
}

export class Ladder implements EmbeddingInput<LadderPlaced> {
  readonly table: EmbeddingTable
  readonly tables: readonly EmbeddingTable[]
  readonly width: number
  readonly norm: NormParameter
  readonly maps: { weight: Parameter; bias: Parameter }[] = []
  readonly #kernels: Kernels

  constructor(kernels: Kernels, parameters: Parameters, options: { side: Side; table: EmbeddingTable }) {
    const { side, table } = options
    this.#kernels = kernels
    this.table = table
    this.tables = [table]
    this.width = table.sizes[table.top]
    for (let k = 0; k < table.top; k++) {
      const [from, to] = [table.sizes[k], table.sizes[k + 1]]
      const initial = { uniform: Math.max(1, from) }
      this.maps.push({
        weight: parameters.declare(`${side}.ladder.${k}.weight`, { rows: to, columns: from }, initial),
        bias: parameters.declare(`${side}.ladder.${k}.bias`, { rows: 1, columns: to }, initial),
      })
    }
    this.norm = parameters.declareNorm(`${side}.norm`, this.width)
  }

  place(distinct: Distinct, training = false): LadderPlaced {
    const k = this.#kernels
    const placed = placeCounts(k, distinct)
    const { sizes } = this.table
    const levels = sizes.map((size, s) => k.allocate(distinct.groups[s + 1] * size))
    const vectors = k.allocate(placed.count * this.width)
    const { ids } = distinct
    const groups = sizes.map((size, s) => {
      const [from, to] = [distinct.groups[s], distinct.groups[s + 1]]
      return placeRows(k, { table: this.table, ids, from, to, value: levels[s] + from * size }, training)
    })
    return { ...placed, levels, dLevels: [], vectors, groups }
  }

  /** Queues the climb; the lifted rows [count×width] are the last level. */
  lift(placed: LadderPlaced): Address {
    const { top } = this.table
    for (let s = 0; s < top; s++)
      this.#climb(s, { out: placed.levels[s + 1], rows: placed.levels[s], count: placed.distinct.groups[s + 1] })
    return placed.levels[top]
  }

  /** Queues out = rows·W_sᵀ + b_s. Growing a row goes through here too, so that a grown row lifts to the same bits. */
  #climb(s: number, { out, rows, count }: { out: Address; rows: Address; count: number }): void {
    const map = this.maps[s]
    const [inner, columns] = [this.table.sizes[s], this.table.sizes[s + 1]]
    this.#kernels.multiply({
      out,
      left: rows,
      right: map.weight.value,
      rows: count,
      columns,
      inner,
      transposeRight: true,
      bias: map.bias.value,
    })
  }

  /** Queues side norm and tanh with running statistics over lifted rows of any origin. */
  normalize(out: Address, lifted: Address, rows: number): void {
    const shape = { rows, columns: this.width, weights: 0, total: rows }
    this.#kernels.normalize({ out, input: lifted, norm: this.norm, ...shape, training: false, tanh: true })
  }

  forward(placed: LadderPlaced, training: boolean): Address {
    const input = this.lift(placed)
    const { vectors: out, weights, total, count: rows } = placed
    this.#kernels.normalize({
      out,
      input,
      norm: this.norm,
      weights,
      total,
      rows,
      columns: this.width,
      training,
      tanh: true,
    })
    return out
  }

  backward(placed: LadderPlaced, dVectors: Address): void {
    const k = this.#kernels
    const { sizes, top } = this.table
    const { levels, weights, total, count, vectors } = placed
    const dLevels = sizes.map((size, s) => k.allocate(placed.distinct.groups[s + 1] * size))
    placed.dLevels = dLevels
    k.normalizeBackward({
      dInput: dLevels[top],
      dGamma: this.norm.gammaParameter.gradient,
      dBeta: this.norm.betaParameter.gradient,
      dOut: dVectors,
      input: levels[top],
      out: vectors,
      norm: this.norm,
      weights,
      total,
      rows: count,
      columns: this.width,
      tanh: true,
    })
    for (let s = top - 1; s >= 0; s--) {
      const rows = placed.distinct.groups[s + 1]
      const [narrow, wide] = [sizes[s], sizes[s + 1]]
      const { weight, bias } = this.maps[s]
      const above = dLevels[s + 1]
      k.multiply({
        out: weight.gradient,
        left: above,
        right: levels[s],
        rows: wide,
        columns: narrow,
        inner: rows,
        transposeLeft: true,
      })
      k.columnSums({ out: bias.gradient, input: above, rows, columns: wide })
      k.multiply({ out: dLevels[s], left: above, right: weight.value, rows, columns: narrow, inner: wide })
    }
    placed.groups.forEach((group, s) => {
      group.gradient = dLevels[s] + group.from * sizes[s]
    })
  }

  step(placed: LadderPlaced, adam: AdamOptions): void {
    for (const group of placed.groups)
      stepRows(this.#kernels, { table: this.table, ids: placed.distinct.ids, group }, adam)
  }

  commit(placed: LadderPlaced): void {
    for (const group of placed.groups) commitRows(this.#kernels, { table: this.table, ids: placed.distinct.ids, group })
  }

  rowGradient(placed: LadderPlaced, d: number): Address {
    const s = this.table.step(placed.distinct.ids[d])
    return placed.dLevels[s] + d * this.table.sizes[s]
  }

  /**
   * Queues A_s = W_{n−1}…W_s [width × s_s] for every step; the top one is the identity and is left out (NONE).
   */
  composites(): Address[] {
    const k = this.#kernels
    const { sizes, top } = this.table
    const maps: Address[] = sizes.map(() => 0)
    for (let s = top - 1; s >= 0; s--) {
      if (s === top - 1) maps[s] = this.maps[s].weight.value
      else {
        maps[s] = k.allocate(this.width * sizes[s])
        k.multiply({
          out: maps[s],
          left: maps[s + 1],
          right: this.maps[s].weight.value,
          rows: this.width,
          columns: sizes[s],
          inner: sizes[s + 1],
        })
      }
    }
    return maps
  }

  /** Moves each id one size up. Warm: E ← W E + b, every prediction stays as it is. Cold: a fresh random row. Zero: zeros. */
  grow(ids: ArrayLike<number>, initial: "warm" | "cold" | "zero" = "warm"): void {
    const k = this.#kernels
    const { table } = this
    for (let i = 0; i < ids.length; i++)
      if (table.step(ids[i]) === table.top)
        throw new DessError(
          "INVALID_ARGUMENT",
          `grow of id ${ids[i]}: expected a size below the top ${this.width}, it is there already`,
        )
    if (ids.length === 0) return
    const distinct = findDistinct(ids, table)
    if (initial !== "warm") {
      for (const id of distinct.ids) table.growCold(id, initial)
      return
    }
    const mark = k.mark()
    const grown: { id: number; step: number; at: Address }[] = []
    for (let s = 0; s < table.top; s++) {
      const [from, to] = [distinct.groups[s], distinct.groups[s + 1]]
      if (from === to) continue
      const [narrow, wide] = [table.sizes[s], table.sizes[s + 1]]
      const rows = k.allocate((to - from) * narrow)
      const out = k.allocate((to - from) * wide)
      for (let d = from; d < to; d++) {
        table.read(distinct.ids[d], k.floats, rows + (d - from) * narrow)
        grown.push({ id: distinct.ids[d], step: s + 1, at: out + (d - from) * wide })
      }
      this.#climb(s, { out, rows, count: to - from })
    }
    k.run()
    try {
      for (const { id, step, at } of grown) table.checkNumbers(id, step, k.floats, at)
      for (const { id, step, at } of grown) table.replace(id, step, k.floats, at)
    } finally {
      k.release(mark)
    }
  }

  /**
   * Moves each id one size down to the row that lifts nearest to where it was: argmin_E ‖A_s E − A_{s+1}(E_{s+1} − b_s)‖.
   * Returns how far each id's lifted vector moved.
   */
  shrink(ids: ArrayLike<number>): Float64Array {
    const k = this.#kernels
    const { table, width } = this
    for (let i = 0; i < ids.length; i++)
      if (table.step(ids[i]) === 0)
        throw new DessError(
          "INVALID_ARGUMENT",
          `shrink of id ${show(ids[i])}: expected a size above the smallest ${table.sizes[0]}, it is there already`,
        )
    const mark = k.mark()
    const maps = this.composites()
    k.run()
    const moved = new Float64Array(ids.length)
    const shrunk: { id: number; step: number; row: Float64Array }[] = []
    for (let i = 0; i < ids.length; i++) {
      const s = table.step(ids[i]) - 1
      const [narrow, wide] = [table.sizes[s], table.sizes[s + 1]]
      const row = new Float64Array(wide)
      table.read(ids[i], row, 0)
      const f = k.floats
      for (let c = 0; c < wide; c++) row[c] -= f[this.maps[s].bias.value + c]
      // target = A_{s+1}(E − b), the identity at the top
      const target = new Float64Array(width)
      for (let r = 0; r < width; r++) {
        if (maps[s + 1] === 0) target[r] = row[r]
        else for (let c = 0; c < wide; c++) target[r] += f[maps[s + 1] + r * wide + c] * row[c]
      }
      const { solution, distance } = leastSquares(f.subarray(maps[s], maps[s] + width * narrow), target, narrow)
      moved[i] = distance
      shrunk.push({ id: ids[i], step: s, row: solution })
    }
    k.release(mark)
    for (const { id, step, row } of shrunk) table.checkNumbers(id, step, row, 0)
    for (const { id, step, row } of shrunk) table.replace(id, step, row, 0)
    return moved
  }
}
