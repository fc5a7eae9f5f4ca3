/** The last rows learned, which small batches are learned together with: one row has no batch statistics. */

import type { State } from "../kernels/state.ts"
import type { ModelBatch } from "../models/model.ts"
import type { Side } from "../types.ts"

export class RecentRows {
  readonly #length: number
  readonly #grouped: boolean
  #user: number[] = []
  #item: number[] = []
  #label: number[] = []

  /** `length`: how many rows a batch is brought up to. `grouped`: negatives (label 0) belong to the positive before them. */
  constructor(length: number, grouped: boolean) {
    this.#length = length
    this.#grouped = grouped
  }

  /** The batch with as many of the last rows before it as it lacks, and how many those are; then remembers its rows. */
  extend(batch: ModelBatch): { rows: ModelBatch; added: number } {
    const lacking = this.#length - batch.user.length
    let from = this.#user.length - Math.max(0, Math.min(lacking, this.#user.length))
    while (this.#grouped && from < this.#user.length && this.#label[from] === 0) from++
    const added = this.#user.length - from
    const join = (rows: number[], more: ArrayLike<number>) => rows.slice(from).concat(Array.from(more))
    const rows =
      added === 0
        ? batch
        : {
            user: join(this.#user, batch.user),
            item: join(this.#item, batch.item),
            label: join(this.#label, batch.label),
          }
    const keep = (kept: number[], more: ArrayLike<number>) =>
      kept.concat(Array.from(more).slice(-this.#length)).slice(-this.#length)
    this.#user = keep(this.#user, batch.user)
    this.#item = keep(this.#item, batch.item)
    this.#label = keep(this.#label, batch.label)
    return { rows, added }
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    const column = side === "user" ? this.#user : this.#item
    const keep = (rows: number[]) => rows.filter((_, r) => !ids.has(column[r]))
    const [user, item, label] = [keep(this.#user), keep(this.#item), keep(this.#label)]
    this.#user = user
    this.#item = item
    this.#label = label
  }

  save(state: State): void {
    state.put("user", Int32Array.from(this.#user))
    state.put("item", Int32Array.from(this.#item))
    state.put("label", Uint8Array.from(this.#label))
  }

  load(state: State): void {
    this.#user = Array.from(state.take("user", Int32Array))
    this.#item = Array.from(state.take("item", Int32Array))
    this.#label = Array.from(state.take("label", Uint8Array))
  }
}
