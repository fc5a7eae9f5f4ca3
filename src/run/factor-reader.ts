/** Reads versions of a factor model: the rows that changed come by message, and a copy of the model scores with them. */

import type { EmbeddingTable } from "../embedding/table.ts"
import type { Floats, Kernels } from "../kernels/kernels.ts"
import type { RowModel } from "../models/rows.ts"
import type { Side } from "../types.ts"
import { PackedItems } from "./packed-items.ts"
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
  readonly #packed: PackedItems

  constructor(model: RowModel, kernels: Kernels) {
    this.#model = model
    this.#kernels = kernels
    this.outputs = model.outputs
    this.#packed = new PackedItems(model, kernels)
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
    this.refresh(arrays["item.ids"])
    this.items = items
  }

  /** To be called after rows of items changed in the model itself. */
  refresh(items: ArrayLike<number>): void {
    this.#packed.update(items)
  }

  knows(side: Side, id: number): boolean {
    return this.#model.tables[side].has(id)
  }

  scores(user: number): Float32Array {
    return this.#packed.scores(user, this.items)
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
      this.#packed.update(before.item.ids)
      return this.scores(user)
    } finally {
      unpackRows(users, before.user)
      unpackRows(items, before.item)
      this.#packed.update(before.item.ids)
      model.global.set(before.global)
    }
  }

  /** cos(q_i, q_j) over the numbers both hold; 0 where one holds none. */
  nearest(item: number): Float32Array {
    const { sizes, heads, tables } = this.#model
    const { item: table } = tables
    const from = table.placeOf(item) + heads.item
    const own = table.numbersOf(item).slice(from, from + sizes[table.step(item)])
    const { items } = this
    const out = new Float32Array(items.length)
    for (let i = 0; i < items.length; i++) {
      const row = { numbers: table.numbersOf(items[i]), at: table.placeOf(items[i]) + heads.item }
      out[i] = cosine(own, row, Math.min(own.length, sizes[table.step(items[i])]))
    }
    return out
  }

  users(): Int32Array {
    return Int32Array.from(this.#model.tables.user.ids())
  }

  nearestUsers(user: number, others: Int32Array): Float32Array {
    const own = this.#model.combined(user).slice()
    return Float32Array.from(others, (other) => {
      const numbers = this.#model.combined(other)
      return cosine(own, { numbers, at: 0 }, Math.min(own.length, numbers.length))
    })
  }
}

/** Over the first `shared` numbers: those both have. */
function cosine(own: Floats, { numbers, at }: { numbers: Floats; at: number }, shared: number): number {
  let product = 0
  let mine = 0
  let theirs = 0
  for (let k = 0; k < shared; k++) {
    const a = own[k]
    const b = numbers[at + k]
    product += a * b
    mine += a * a
    theirs += b * b
  }
  return mine > 0 && theirs > 0 ? product / Math.sqrt(mine * theirs) : 0
}
