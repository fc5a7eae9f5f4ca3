/** Reads versions of a factor model: the rows that changed come by message, and a copy of the model scores with them. */

import type { EmbeddingTable } from "../embedding/table.ts"
import type { Floats, Kernels } from "../kernels/kernels.ts"
import type { RowModel } from "../models/rows.ts"
import type { Side } from "../types.ts"
import { packRows, unpackRows } from "./packed-rows.ts"
import type { LabelledTrial, Published, Reader, Room } from "./reader.ts"

function firstFree(table: EmbeddingTable): number {
  let id = 0
  while (table.has(id)) id++
  return id
}

export class FactorReader implements Reader {
  items: Int32Array = new Int32Array(0)
  readonly outputs: number
  readonly #model: RowModel
  readonly #kernels: Kernels

  constructor(model: RowModel, kernels: Kernels) {
    this.#model = model
    this.#kernels = kernels
    this.outputs = model.outputs
  }

  reserve(length: number): Room {
    const at = this.#kernels.allocate(length)
    return { floats: this.#kernels.floats as Float32Array, at, length }
  }

  apply({ items, arrays }: Published): void {
    const model = this.#model
    model.global.set(arrays.global)
    for (const side of ["user", "item"] as const)
      unpackRows(model.tables[side], {
        ids: arrays[`${side}.ids`],
        steps: arrays[`${side}.steps`],
        rows: arrays[`${side}.rows`],
      })
    this.items = items
  }

  knows(side: Side, id: number): boolean {
    return this.#model.tables[side].has(id)
  }

  scores(user: number): Float32Array {
    return this.scoresOf(user, this.items)
  }

  scoresOf(user: number, items: ArrayLike<number>): Float32Array {
    const out = new Float32Array(items.length * this.outputs)
    this.#model.logitsOf(out, user, items)
    return out
  }

  /** Learns on its copy of the model and puts back every row that moved: nobody reads in between. */
  preview(given: number | undefined, trials: readonly LabelledTrial[]): Float32Array {
    const model = this.#model
    const { user: users, item: items } = model.tables
    const user = given ?? firstFree(users)
    const moved = new Set(trials.map(({ item }) => item))
    if (users.has(user)) for (const item of model.latestOf?.(user) ?? []) moved.add(item)
    const before = { user: packRows(users, [user]), item: packRows(items, moved), global: model.global.slice() }
    try {
      model.train({
        user: trials.map(() => user),
        item: trials.map(({ item }) => item),
        label: trials.map(({ label }) => label),
        // No negatives are drawn: a row of label 0 is an own one.
        logChance: trials.map(({ label }) => (label === 0 ? Number.NaN : 0)),
      })
      model.meetOne("user", user)
      return this.scores(user)
    } finally {
      unpackRows(users, before.user)
      unpackRows(items, before.item)
      model.global.set(before.global)
    }
  }

  /** cos(q_i, q_j) over the numbers both hold; 0 where one holds none. */
  nearest(item: number): Float32Array {
    const own = this.#row("item", item).slice()
    return Float32Array.from(this.items, (other) => cosine(own, this.#row("item", other)))
  }

  users(): Int32Array {
    return Int32Array.from(this.#model.tables.user.ids())
  }

  nearestUsers(user: number, others: Int32Array): Float32Array {
    const vector = (id: number) => this.#model.combined?.(id) ?? this.#row("user", id)
    const own = vector(user).slice()
    return Float32Array.from(others, (other) => cosine(own, vector(other)))
  }

  /** An id's first vector. */
  #row(side: Side, id: number): Floats {
    const { sizes, heads, tables } = this.#model
    const from = tables[side].placeOf(id) + heads[side]
    return tables[side].numbersOf(id).subarray(from, from + sizes[tables[side].step(id)])
  }
}

/** Over the numbers both have. */
function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const shared = Math.min(a.length, b.length)
  let [product, mine, theirs] = [0, 0, 0]
  for (let k = 0; k < shared; k++) {
    product += a[k] * b[k]
    mine += a[k] * a[k]
    theirs += b[k] * b[k]
  }
  return mine > 0 && theirs > 0 ? product / Math.sqrt(mine * theirs) : 0
}
