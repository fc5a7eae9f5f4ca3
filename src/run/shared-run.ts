/** A run as one of many: its learner and what its exam keeps of ids, in one piece of bytes per row. */

import { DessError } from "../errors.ts"
import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { Side } from "../types.ts"
import type { Exam } from "./exam.ts"
import type { Learner } from "./learner.ts"
import {
  type DenseShare,
  Envelope,
  type ItemChange,
  type Renumber,
  type SharedLearner,
  type Sharing,
} from "./shared.ts"

/** Item indices up to here. */
const LAST = 0x7fff_fffe

export class SharedRun implements SharedLearner {
  readonly #sharing: Sharing
  readonly #exam: Exam
  readonly #envelope: Envelope

  constructor(learner: Learner, exam: Exam) {
    const sharing = learner.share?.()
    if (!sharing)
      throw new DessError(
        "UNSUPPORTED",
        "method: expected dess-cv, dess-fre, fixed-<n>, uniform-<s>, never-, always- or random-grow, which many processes can share, got another; esapn, darts, autoemb and plain-… learn in one process",
      )
    this.#sharing = sharing
    this.#exam = exam
    this.#envelope = new Envelope(sharing.shape)
  }

  has(side: Side, index: number): boolean {
    return this.#sharing.has(side, index)
  }

  missing(segment: { user: ArrayLike<number>; item: ArrayLike<number> }): Record<Side, number[]> {
    const away = (side: Side, ids: Iterable<number>) => [...new Set(ids)].filter((id) => !this.has(side, id))
    const users = new Set(Array.from(segment.user))
    const items = new Set(Array.from(segment.item))
    for (const user of users) for (const item of this.#sharing.latest(user)) items.add(item)
    return { user: away("user", users), item: away("item", items) }
  }

  takeRow(side: Side, index: number, renumber?: Renumber): Uint8Array | undefined {
    if (!this.has(side, index)) return undefined
    return this.#envelope.seal(`${side} row`, (out: Packer) => {
      this.#sharing.writeRow(side, index, out, renumber)
      if (side !== "user") return
      const met = this.met(index)
      out.set(renumber ? met.map(renumber).filter((item) => item !== undefined) : met)
    })
  }

  putRow(side: Side, index: number, row: Uint8Array): void {
    this.#envelope.open(`${side} row`, row, (from: Unpacker) => {
      checkIndex(index)
      const put = this.#sharing.readRow(side, index, from)
      const met = side === "user" ? from.set(LAST) : []
      if (met.length > 0 && !this.#exam.history) throw from.damaged("no items of a history", met.length)
      return () => {
        put()
        if (side === "user") this.#exam.history?.put(index, met)
        else this.#exam.history?.meet(index)
      }
    })
  }

  dropRow(side: Side, index: number): void {
    this.#sharing.drop(side, index)
    this.#exam.history?.drop(side, index)
  }

  met(user: number): readonly number[] {
    return this.#exam.history?.met(user) ?? []
  }

  decide(isHome: (item: number) => boolean): void {
    this.#sharing.decide(isHome)
  }

  takeTouched(): Record<Side, number[]> {
    return this.#sharing.takeTouched()
  }

  takeChanges(): ItemChange[] {
    return this.#sharing.takeChanges((write) => this.#envelope.seal("item change", write))
  }

  addChange(item: number, change: Uint8Array): void {
    this.#envelope.open("item change", change, (from) => {
      checkIndex(item)
      const add = this.#sharing.readChange(item, from)
      return () => {
        add()
        this.#exam.history?.meet(item)
      }
    })
  }

  takeEvidence(): Uint8Array {
    return this.#envelope.seal("evidence", (out) => this.#sharing.writeEvidence(out))
  }

  addEvidence(evidence: Uint8Array): void {
    this.#envelope.open("evidence", evidence, (from) => this.#sharing.readEvidence(from))
  }

  takeDense(): Uint8Array {
    return this.#envelope.seal("dense part", (out) => this.#sharing.writeDense(out))
  }

  putDense(dense: Uint8Array): void {
    this.#envelope.open("dense part", dense, (from) => this.#sharing.readDense(from))
  }

  takeDenseChange(): Uint8Array | undefined {
    const write = this.#sharing.takeDenseChange?.()
    return write && this.#envelope.seal("dense change", write)
  }

  addDenseChange(change: Uint8Array, { own } = { own: false }): void {
    this.#envelope.open("dense change", change, (from) => {
      const add = this.#sharing.readDenseChange?.(from)
      if (!add) throw from.damaged("a learner with such a part", "one without")
      return () => add(own)
    })
  }

  averageDense(parts: readonly DenseShare[], own: number): void {
    const open = parts.map(({ change, weight }) => ({ from: this.#envelope.begin("dense change", change), weight }))
    const apply = this.#sharing.readDenseMean?.(open, own)
    for (const { from } of open) from.end()
    apply?.()
  }
}

function checkIndex(index: number): void {
  if (!Number.isInteger(index) || index < 0 || index > LAST)
    throw new DessError("INVALID_ARGUMENT", `row index: expected a whole number from 0, got ${index}`)
}
