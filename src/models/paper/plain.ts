/** Fixed sizes (method.md §8): one size for all, no ladder, no side norm; the rows are the vectors. */

import type { Address, Kernels } from "../../kernels/kernels.ts"
import type { AdamOptions } from "../../kernels/parameters.ts"
import type { EmbeddingTable } from "../embedding-table.ts"
import type { Distinct } from "./distinct.ts"
import {
  commitRows,
  type EmbeddingInput,
  type Placed,
  placeCounts,
  placeRows,
  type RowGroup,
  stepRows,
} from "./input.ts"

export interface PlainPlaced extends Placed {
  group: RowGroup
}

export class Plain implements EmbeddingInput<PlainPlaced> {
  readonly table: EmbeddingTable
  readonly tables: readonly EmbeddingTable[]
  readonly width: number
  readonly #kernels: Kernels

  constructor(kernels: Kernels, table: EmbeddingTable) {
    this.#kernels = kernels
    this.table = table
    this.tables = [table]
    this.width = table.sizes[table.start]
  }

  place(distinct: Distinct, training = false): PlainPlaced {
    const k = this.#kernels
    const placed = placeCounts(k, distinct)
    const value = k.allocate(placed.count * this.width)
    const choice = { table: this.table, ids: distinct.ids, from: 0, to: placed.count, value }
    return { ...placed, group: placeRows(k, choice, training) }
  }

  forward(placed: PlainPlaced): Address {
    return placed.group.value
  }

  backward(placed: PlainPlaced, dVectors: Address): void {
    placed.group.gradient = dVectors
  }

  step(placed: PlainPlaced, adam: AdamOptions): void {
    stepRows(this.#kernels, { table: this.table, ids: placed.distinct.ids, group: placed.group }, adam)
  }

  commit(placed: PlainPlaced): void {
    commitRows(this.#kernels, { table: this.table, ids: placed.distinct.ids, group: placed.group })
  }

  rowGradient(placed: PlainPlaced, d: number): Address {
    return placed.group.gradient + d * this.width
  }
}
