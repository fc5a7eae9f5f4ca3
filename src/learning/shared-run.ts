/**
 * A run as one of many: each trains on users of its own, all on the same items. Rows of ids travel as bytes, with what
 * the evaluator keeps of them; training leaves changes of items, which add up where the item is owned; the policy's
 * evidence, the global biases and the clock add up everywhere. Sums of changes are what one process would have learned,
 * but for what each did not know yet of the others (stale by the time between two exchanges).
 */

import { DessError } from "../errors.ts"
import type { RowModel } from "../models/calibrated/rows.ts"
import type { Side } from "../types.ts"
import { Envelope } from "./envelope.ts"
import type { Learner } from "./learner.ts"
import type { Renumber, RowShare } from "./row-share.ts"
import type { ItemChange } from "./share-ledger.ts"
import type { TaskEvaluator } from "./task-evaluator.ts"

/** Item indices up to here. */
const LAST = 0x7fff_fffe

export class SharedRun {
  readonly #share: RowShare
  readonly #evaluator: TaskEvaluator
  readonly #envelope: Envelope

  constructor(learner: Learner, evaluator: TaskEvaluator) {
    const share = learner.share?.()
    if (!share)
      throw new DessError(
        "UNSUPPORTED",
        "method: expected dess-cv, dess-fre, fixed-<n>, uniform-<s>, never-, always- or random-grow with the calibrated recipe, which many processes can share, got another; esapn, plain-… and the paper recipe learn in one process",
      )
    this.#share = share
    this.#evaluator = evaluator
    this.#envelope = new Envelope(share.shape)
  }

  /** What holds the rows, to score with. */
  get model(): RowModel {
    return this.#share.model
  }

  /** Whether a row is in memory. */
  has(side: Side, index: number): boolean {
    return this.#share.has(side, index)
  }

  /** The state of one id as bytes; undefined without a row. `renumber`: for a process where items have other indices. */
  takeRow(side: Side, index: number, renumber?: Renumber): Uint8Array | undefined {
    if (!this.has(side, index)) return undefined
    return this.#envelope.seal(`${side} row`, (out) => {
      this.#share.writeRow(side, index, out, renumber)
      if (side !== "user") return
      const met = this.met(index)
      out.set(renumber ? met.map(renumber).filter((item) => item !== undefined) : met)
    })
  }

  /** Adds or replaces a row. */
  putRow(side: Side, index: number, row: Uint8Array): void {
    this.#envelope.open(`${side} row`, row, (from) => {
      checkIndex(index)
      const put = this.#share.readRow(side, index, from)
      const met = side === "user" ? from.set(LAST) : []
      if (met.length > 0 && !this.#evaluator.history) throw from.damaged("no items of a history", met.length)
      return () => {
        put()
        if (side === "user") this.#evaluator.history?.put(index, met)
        else this.#evaluator.history?.meet(index)
      }
    })
  }

  /** Drops a row from memory only; changes not yet sent are kept and sent later. */
  dropRow(side: Side, index: number): void {
    this.#share.drop(side, index)
    this.#evaluator.history?.drop(side, index)
  }

  /** Top-k: the items a user in memory has met. */
  met(user: number): readonly number[] {
    return this.#evaluator.history?.met(user) ?? []
  }

  /** From now on: items whose size and stay are decided here; the others only follow. Default: all. */
  decide(isOwner: (item: number) => boolean): void {
    this.#share.decide(isOwner)
  }

  /** Users whose rows changed here since the last call, and items owned here; those without a row are gone. */
  takeTouched(): Record<Side, number[]> {
    return this.#share.takeTouched()
  }

  /** What training here changed in items, owned or not, since the last call. An item may occur more than once. */
  takeChanges(): ItemChange[] {
    return this.#share.takeChanges((write) => this.#envelope.seal("item change", write))
  }

  /** Adds a change made elsewhere, to the first row of an item that has none. */
  addChange(item: number, change: Uint8Array): void {
    this.#envelope.open("item change", change, (from) => {
      checkIndex(item)
      const add = this.#share.readChange(item, from)
      return () => {
        add()
        this.#evaluator.history?.meet(item)
      }
    })
  }

  /** What training here added to the global state since the last call. The rows judged last are learned first. */
  takeEvidence(): Uint8Array {
    return this.#envelope.seal("evidence", (out) => this.#share.writeEvidence(out))
  }

  addEvidence(evidence: Uint8Array): void {
    this.#envelope.open("evidence", evidence, (from) => this.#share.readEvidence(from))
  }

  /** All that belongs to no id. */
  takeGlobal(): Uint8Array {
    return this.#envelope.seal("global state", (out) => this.#share.writeGlobal(out))
  }

  /** Loads what others have learned, before the first segment; from then on it adds up by evidence. */
  putGlobal(state: Uint8Array): void {
    this.#envelope.open("global state", state, (from) => this.#share.readGlobal(from))
  }
}

function checkIndex(index: number): void {
  if (!Number.isInteger(index) || index < 0 || index > LAST)
    throw new DessError("INVALID_ARGUMENT", `row index: expected a whole number from 0, got ${index}`)
}
