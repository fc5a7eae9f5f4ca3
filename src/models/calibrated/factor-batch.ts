/**
 * A batch of the rating model in the memory of the kernels: its pairs, and the rows they learn from, unpacked. Rows of the
 * tables stay as they are until `close`: who reads them meanwhile sees those of before.
 */

import { blocks } from "../../kernels/groups.ts"
import type { Address, Kernels, PackedForm, PairConstants } from "../../kernels/kernels.ts"
import { NONE } from "../../kernels/kernels.ts"
import {
  PACKED_AT,
  PACKED_BITS,
  PACKED_ID,
  PACKED_LIFT,
  PACKED_ROW,
  PACKED_SIZE,
  PACKED_STEP,
  PACKED_WORDS,
  ROW_HEAD,
} from "../../kernels/layout.ts"
import { SIDES, type Side } from "../../types.ts"
import type { EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch } from "../model.ts"
import type { Bits, Lift } from "../row-packing.ts"
import type { RungLosses } from "./rows.ts"
import { Slots } from "./slots.ts"

export interface FactorForm {
  tables: Record<Side, EmbeddingTable>
  sizes: readonly number[]
  /** Of all rungs. */
  bits: Bits
  seed: number
  lift: Lift
  passes: number
  constants: PairConstants
}

export class FactorBatch {
  readonly #kernels: Kernels
  readonly #form: FactorForm
  readonly #lift: Address
  readonly #ladder: Address
  readonly #global: Address
  readonly #base: Address
  readonly #slots: Record<Side, Slots> = { user: new Slots(), item: new Slots() }
  /** By slot: where its row stands. */
  readonly #rowOf: Record<Side, Int32Array> = { user: new Int32Array(64), item: new Int32Array(64) }
  /** By row of the batch and side: its slot. */
  #slotOf = new Int32Array(128)
  /** By slot: where its packed words stand, and how many there are. */
  readonly #packed: Record<Side, Int32Array> = { user: new Int32Array(64), item: new Int32Array(64) }
  readonly #words: Record<Side, Int32Array> = { user: new Int32Array(64), item: new Int32Array(64) }
  #records: Address = NONE

  constructor(kernels: Kernels, form: FactorForm) {
    this.#kernels = kernels
    this.#form = form
    const { numbers } = form.lift
    // Whole vectors are read past the end.
    this.#lift = kernels.allocate(numbers.length + 16)
    kernels.floats.fill(0, this.#lift, this.#lift + numbers.length + 16)
    kernels.floats.set(numbers, this.#lift)
    this.#ladder = kernels.allocate(form.sizes.length)
    kernels.ints.set(form.sizes, this.#ladder)
    this.#global = kernels.allocate(1)
    this.#base = kernels.mark()
  }

  /** Learns a batch all of whose ids have rows; returns the losses from before. g is read and written. */
  learn(batch: ModelBatch, global: Float64Array, rungs?: RungLosses): Float64Array {
    const k = this.#kernels
    const { length } = batch.user
    const { sizes, passes, constants } = this.#form
    const pairs = this.#place(batch)
    const [labels, losses] = [k.allocate(length), k.allocate(length)]
    const weights = batch.weight ? k.allocate(length) : NONE
    const judged = rungs ? this.#placeJudged(length, rungs) : NONE
    const { floats } = k
    floats.set(batch.label, labels)
    if (batch.weight) floats.set(batch.weight, weights)
    floats[this.#global] = global[0]
    k.learnPairs({
      ...{ pairs, labels, weights, losses, judged, passes, constants, rows: length, rungs: sizes.length },
      ...{ logits: NONE, lift: this.#lift, global: this.#global, ladder: this.#ladder },
    })
    k.run()
    global[0] = k.floats[this.#global]
    const out = new Float64Array(k.floats.subarray(losses, losses + length))
    if (rungs) this.#writeJudged(batch, judged, rungs)
    this.#pack()
    k.release(this.#base)
    return out
  }

  /** Logits of a batch all of whose ids have rows. */
  predict(batch: ModelBatch, global: Float64Array): Float64Array {
    const k = this.#kernels
    const { length } = batch.user
    const pairs = this.#place(batch)
    const logits = k.allocate(length)
    k.floats[this.#global] = global[0]
    k.learnPairs({
      ...{ pairs, logits, labels: NONE, weights: NONE, losses: NONE, judged: NONE, rows: length },
      ...{ passes: 0, rungs: 0, constants: this.#form.constants },
      ...{ lift: this.#lift, global: this.#global, ladder: this.#ladder },
    })
    k.run()
    const out = new Float64Array(k.floats.subarray(logits, logits + length))
    k.release(this.#base)
    return out
  }

  /** Unpacks the rows of a batch; returns where its pairs stand. */
  #place(batch: ModelBatch): Address {
    const k = this.#kernels
    const { length } = batch.user
    this.#number(batch)
    this.#unpack()
    const pairs = k.allocate(2 * length)
    const { ints } = k
    const [slotOf, { user, item }] = [this.#slotOf, this.#rowOf]
    for (let r = 0; r < length; r++) {
      ints[pairs + 2 * r] = user[slotOf[2 * r]]
      ints[pairs + 2 * r + 1] = item[slotOf[2 * r + 1]]
    }
    return pairs
  }

  /** Gives every id of a batch a slot. */
  #number({ user, item }: ModelBatch): void {
    const { length } = user
    if (this.#slotOf.length < 2 * length) this.#slotOf = new Int32Array(4 * length)
    for (const side of SIDES) this.#slots[side].begin(length)
    for (let r = 0; r < length; r++) {
      this.#slotOf[2 * r] = this.#slots.user.add(user[r])
      this.#slotOf[2 * r + 1] = this.#slots.item.add(item[r])
    }
  }

  /** Copies the rows as they are kept, and unpacks them. */
  #unpack(): void {
    const { tables, sizes, bits, lift } = this.#form
    const k = this.#kernels
    this.#records = k.allocate((this.#slots.user.count + this.#slots.item.count) * PACKED_WORDS)
    let record = this.#records
    for (const side of SIDES) {
      const table = tables[side]
      const { ids, count } = this.#slots[side]
      if (this.#rowOf[side].length < count)
        for (const columns of [this.#rowOf, this.#packed, this.#words]) columns[side] = new Int32Array(2 * count)
      const [rowOf, packedOf, wordsOf] = [this.#rowOf[side], this.#packed[side], this.#words[side]]
      const records = record
      let [words, numbers] = [0, 0]
      for (let slot = 0; slot < count; slot++, record += PACKED_WORDS) {
        const step = table.step(ids[slot])
        // Counted from where the first will be.
        rowOf[slot] = numbers
        packedOf[slot] = words
        wordsOf[slot] = table.wordsOf(step)
        words += wordsOf[slot]
        numbers += ROW_HEAD + blocks(sizes[step])
        k.ints[record + PACKED_STEP] = step
      }
      const packed = k.allocate(words)
      const row = k.allocate(numbers)
      const { ints } = k
      for (let slot = 0, record = records; slot < count; slot++, record += PACKED_WORDS) {
        const id = ids[slot]
        rowOf[slot] += row
        packedOf[slot] += packed
        ints[record + PACKED_AT] = packedOf[slot]
        ints[record + PACKED_ROW] = rowOf[slot]
        ints[record + PACKED_SIZE] = sizes[ints[record + PACKED_STEP]]
        ints[record + PACKED_BITS] = bits
        ints[record + PACKED_LIFT] = side === "item" ? lift.tail(id) : 0
        ints[record + PACKED_ID] = id
        table.copyWords(id, ints, packedOf[slot], wordsOf[slot])
      }
      k.unpackRows({ records, count, form: this.#formOf(side) })
    }
  }

  #formOf(side: Side): PackedForm {
    return { whole: 0, head: 3, vectors: 1, lift: side === "item" ? this.#lift : NONE }
  }

  /** Says where what is judged of the rows is to be written. */
  #placeJudged(length: number, rungs: RungLosses): Address {
    const k = this.#kernels
    const each = 2 * this.#form.sizes.length
    let count = 0
    for (let r = 0; r < length; r++) if (rungs.rows?.[r] !== 0) count++
    const places = k.allocate(length)
    let at = k.allocate(count * each)
    for (let r = 0; r < length; r++) {
      const isJudged = rungs.rows?.[r] !== 0
      k.ints[places + r] = isJudged ? at : NONE
      if (isJudged) at += each
    }
    return places
  }

  #writeJudged({ user, item }: ModelBatch, places: Address, rungs: RungLosses): void {
    const { tables, sizes } = this.#form
    const { floats, ints } = this.#kernels
    const { length } = sizes
    for (let r = 0; r < user.length; r++) {
      const from = ints[places + r]
      if (from === NONE) continue
      for (let rung = tables.user.step(user[r]); rung >= 0; rung--) rungs.user[r * length + rung] = floats[from + rung]
      for (let rung = tables.item.step(item[r]); rung >= 0; rung--)
        rungs.item[r * length + rung] = floats[from + length + rung]
    }
  }

  /** Packs the rows and puts them back. */
  #pack(): void {
    const { tables, seed } = this.#form
    const k = this.#kernels
    let records = this.#records
    for (const side of SIDES) {
      const { count } = this.#slots[side]
      k.packRows({ records, count, form: this.#formOf(side), seed })
      records += count * PACKED_WORDS
    }
    k.run()
    const { ints } = k
    for (const side of SIDES) {
      const { ids, count } = this.#slots[side]
      const [table, packed, words] = [tables[side], this.#packed[side], this.#words[side]]
      for (let slot = 0; slot < count; slot++) table.putWords(ids[slot], ints, packed[slot], words[slot])
    }
  }
}
