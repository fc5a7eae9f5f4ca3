/** A model of rows from outside: its author writes the arithmetic of a pair, everything around it is here. */

import { DessError, show } from "../../errors.ts"
import type { State } from "../../kernels/state.ts"
import { SIDES, type Side, type Task } from "../../types.ts"
import { freeRows, type RungLosses } from "../calibrated/rows.ts"
import { taskLoss, toErrors } from "../controls/model.ts"
import { EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch, PassResult, SizedModel } from "../model.ts"

/**
 * A row is `head` numbers that every id has (biases, optimizer state) and a vector of the size the policy chose. The two
 * rows of a pair may differ in size: what one has beyond the other meets nothing. Rows are views: change them in place,
 * keep none.
 */
export interface OwnRowModel {
  /** Numbers of a row whatever its size. */
  readonly head: number
  /** Events an id learns a rung from before it is judged by it. Default 0. */
  readonly warmupEvents?: number
  /** Passes over a segment's rows. Default 2. */
  readonly passes?: number
  /** Writes the numbers of a row from place `from` on: a new id's, or those it grew by. A pair must score as before. */
  fill(row: Float32Array, p: { side: Side; id: number; from: number }): void
  /** Writes the logits of a pair: one, or one per class. */
  score(z: Float64Array, user: Float32Array, item: Float32Array): void
  /** One step down the errors of the logits of a pair just scored. */
  step(errors: Float64Array, user: Float32Array, item: Float32Array): void
}

/** The rows of such a model. */
export class OwnRows implements SizedModel {
  readonly task: Task
  readonly outputs: number
  readonly sizes: readonly number[]
  readonly tables: Record<Side, EmbeddingTable>
  readonly warmupEvents: number
  readonly #own: OwnRowModel

  constructor(own: OwnRowModel, p: { task: Task; sizes: readonly number[]; start: number }) {
    const { head, warmupEvents = 0, passes = 2 } = own
    for (const [name, value, least] of [
      ["head", head, 0],
      ["warmupEvents", warmupEvents, 0],
      ["passes", passes, 1],
    ] as const)
      if (!Number.isSafeInteger(value) || value < least)
        throw new DessError(
          "INVALID_ARGUMENT",
          `model ${name}: expected a whole number from ${least}, got ${show(value)}`,
        )
    this.#own = own
    this.task = p.task
    this.outputs = p.task === "multiclass" ? 5 : 1
    this.sizes = p.sizes
    this.warmupEvents = warmupEvents
    const options = { sizes: p.sizes.map((size) => head + size), start: p.start, deviation: 0, moments: false }
    this.tables = { user: new EmbeddingTable(options), item: new EmbeddingTable(options) }
  }

  get embeddingBytes(): number {
    return this.tables.user.embeddingBytes + this.tables.item.embeddingBytes
  }

  get heldBytes(): number {
    return this.tables.user.heldBytes + this.tables.item.heldBytes
  }

  vectorNumbers(side: Side): number {
    const table = this.tables[side]
    return table.numbers - this.#own.head * table.count
  }

  meetOne(side: Side, id: number): boolean {
    if (!this.tables[side].ensure(id)) return false
    this.#own.fill(this.#row(side, id), { side, id, from: 0 })
    return true
  }

  /** Up: the numbers so far, and what the author fills in; `cold`: all of the vector new. Down: numbers are left off. */
  resize(side: Side, id: number, { step, cold = false }: { step: number; cold?: boolean }): void {
    const table = this.tables[side]
    const before = this.#row(side, id).slice()
    const row = new Float32Array(table.sizes[step])
    row.set(before.subarray(0, row.length))
    table.replace(id, step, row, 0)
    const from = cold ? this.#own.head : before.length
    if (from < row.length) this.#own.fill(this.#row(side, id), { side, id, from })
  }

  forget(side: Side, ids: ReadonlySet<number>): number[] {
    freeRows(this.tables[side], ids)
    return []
  }

  predict(batch: ModelBatch): PassResult {
    const rows = batch.user.length
    const { outputs } = this
    const [logits, losses, z] = [new Float64Array(rows * outputs), new Float64Array(rows), new Float64Array(outputs)]
    for (let r = 0; r < rows; r++) {
      this.#score(z, batch.user[r], batch.item[r])
      logits.set(z, r * outputs)
      losses[r] = taskLoss(z, batch.label[r])
    }
    return { logits, losses }
  }

  /** Learns rows in order; losses and logits are from before each was learned. */
  train(batch: ModelBatch, rungs?: RungLosses): PassResult {
    const rows = batch.user.length
    const { outputs } = this
    const [logits, losses, z] = [new Float64Array(rows * outputs), new Float64Array(rows), new Float64Array(outputs)]
    const { passes = 2 } = this.#own
    for (let pass = 0; pass < passes; pass++) {
      // Negatives follow the row they were drawn for.
      let own = 0
      for (let r = 0; r < rows; r++) {
        const [user, item, label] = [batch.user[r], batch.item[r], batch.label[r]]
        if (label === 1 || !batch.logChance || Number.isNaN(batch.logChance[r])) own = r
        if (pass === 0) {
          this.#score(z, user, item)
          logits.set(z, r * outputs)
          losses[r] = taskLoss(z, label)
          if (rungs && rungs.rows?.[own] !== 0) this.#judge(rungs, batch, { row: r, own })
        }
        this.#score(z, user, item)
        toErrors(z, label)
        this.#own.step(z, this.#row("user", user), this.#row("item", item))
      }
    }
    return { logits, losses }
  }

  /** Logits [items×outputs] of a user and items. */
  logitsOf(out: Float64Array, user: number, items: ArrayLike<number>): void {
    const z = new Float64Array(this.outputs)
    for (let i = 0; i < items.length; i++) {
      this.#score(z, user, items[i])
      out.set(z, i * this.outputs)
    }
  }

  /** Σ of squares of the numbers of an id's last rung. */
  energy(side: Side, id: number): number {
    const step = this.tables[side].step(id)
    if (step === 0) return 0
    const { head } = this.#own
    const last = this.#row(side, id).subarray(head + this.sizes[step - 1], head + this.sizes[step])
    return last.reduce((sum, number) => sum + number * number, 0)
  }

  save(state: State): void {
    for (const side of SIDES) this.tables[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of SIDES) this.tables[side].load(state.at(side))
  }

  /** The losses of a row with the numbers of one side cut to each size; those of negatives count for their user. */
  #judge(rungs: RungLosses, batch: ModelBatch, { row, own }: { row: number; own: number }): void {
    const rows = { user: this.#row("user", batch.user[row]), item: this.#row("item", batch.item[row]) }
    const z = new Float64Array(this.outputs)
    const ids = { user: batch.user[row], item: batch.item[row] }
    for (const side of row === own ? SIDES : (["user"] as const))
      for (let step = 0; step <= this.tables[side].step(ids[side]); step++) {
        const cut = { ...rows, [side]: rows[side].subarray(0, this.#own.head + this.sizes[step]) }
        this.#own.score(z, cut.user, cut.item)
        rungs[side][own * this.sizes.length + step] += taskLoss(z, batch.label[row])
      }
  }

  #score(z: Float64Array, user: number, item: number): void {
    this.meetOne("user", user)
    this.meetOne("item", item)
    this.#own.score(z, this.#row("user", user), this.#row("item", item))
  }

  #row(side: Side, id: number): Float32Array {
    const table = this.tables[side]
    const [numbers, at] = [table.numbersOf(id) as Float32Array, table.placeOf(id)]
    return numbers.subarray(at, at + table.size(id))
  }
}
