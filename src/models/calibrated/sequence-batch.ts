/**
 * A batch of the ranking model in the memory of the kernels: its groups, and the rows they learn from, unpacked. Rows of the
 * tables stay as they are until `close`: who reads them meanwhile sees those of before.
 */

import { blocks, groupWork } from "../../kernels/groups.ts"
import type { Address, Floats, GroupConstants, Kernels, LearnGroups, PackedForm } from "../../kernels/kernels.ts"
import { NONE } from "../../kernels/kernels.ts"
import {
  GROUP_ALONE,
  GROUP_COUNT,
  GROUP_FROM,
  GROUP_INPUT,
  GROUP_JUDGED,
  GROUP_OWN,
  GROUP_TO,
  GROUP_TRAIL,
  GROUP_USER,
  GROUP_WEIGHT,
  GROUP_WORDS,
  PACKED_AT,
  PACKED_BITS,
  PACKED_ID,
  PACKED_LIFT,
  PACKED_ROW,
  PACKED_SIZE,
  PACKED_STEP,
  PACKED_WORDS,
  ROW_HEAD,
  SCORERS,
} from "../../kernels/layout.ts"
import { SIDES, type Side } from "../../types.ts"
import type { EmbeddingTable } from "../embedding-table.ts"
import type { ModelBatch } from "../model.ts"
import type { Bits, Lift } from "../row-packing.ts"
import type { Fusion } from "./fusion.ts"
import type { Neighbours } from "./neighbours.ts"
import type { RungLosses } from "./rows.ts"
import { Slots } from "./slots.ts"

/** What a batch is made of. */
export interface SequenceForm {
  tables: Record<Side, EmbeddingTable>
  /** Gives an id a row where it has none. */
  meet: (side: Side, id: number) => void
  sizes: readonly number[]
  bits: readonly Bits[]
  seed: number
  lift: Lift
  /** ω_a of m latest items at m·latest + a. */
  decay: Float64Array
  latest: number
  /** Items of a higher index do not stand for users. */
  lastKept: number
  passes: number
  constants: GroupConstants
  fusion: Fusion
}

/** What a batch is opened with. */
interface OpenOptions {
  /** Writes a user's latest items, the latest first, and says how many. */
  latestOf: (user: number, out: Int32Array) => number
  /** Counts the batch, and says what it knew of each row before its group was counted. */
  neighbours?: Neighbours
  rungs?: RungLosses
}

export class SequenceBatch {
  readonly #kernels: Kernels
  readonly #form: SequenceForm
  readonly #lift: Address
  readonly #decay: Address
  readonly #base: Address
  readonly #slots: Record<Side, Slots> = { user: new Slots(), item: new Slots() }
  /** By slot: where its row stands. */
  readonly #rowOf: Record<Side, Int32Array> = { user: new Int32Array(64), item: new Int32Array(64) }
  /** By user slot: where its trail starts and ends now. */
  #starts = new Int32Array(65)
  #ends = new Int32Array(64)
  /** The items of every user in order, before the batch and in it, and where their rows stand. */
  #trail = new Int32Array(64)
  #trailRows = new Int32Array(64)
  #trailsAt = 0
  #groups = new Int32Array(GROUP_WORDS * 64)
  #rows = new Int32Array(64)
  readonly #whole: Int32Array
  #batch: ModelBatch | undefined
  /** Groups of the batch. */
  count = 0
  #judged: { out: Address; rungs: RungLosses; own: Map<number, number> } | undefined
  #end: Address = 0
  /** Where things stand. */
  readonly #operation: LearnGroups
  #records: Address = 0
  readonly #packed: Record<Side, Address> = { user: 0, item: 0 }

  constructor(kernels: Kernels, form: SequenceForm) {
    this.#kernels = kernels
    this.#form = form
    this.#whole = new Int32Array(form.latest)
    const { lift, decay, sizes } = form
    // Whole blocks are read past the end.
    const length = lift.numbers.length + 16
    this.#lift = kernels.allocate(length)
    this.#decay = kernels.allocate(decay.length)
    kernels.floats.fill(0, this.#lift, this.#lift + length)
    kernels.floats.set(lift.numbers, this.#lift)
    kernels.floats.set(decay, this.#decay)
    const ladder = kernels.allocate(2 * sizes.length)
    kernels.ints.set([...sizes, ...form.bits], ladder)
    const fusion = kernels.allocate(form.fusion.count)
    this.#base = kernels.mark()
    const widest = blocks(Math.max(...sizes))
    const { passes, latest, constants } = form
    this.#operation = {
      ...{ groups: NONE, rows: NONE, chances: NONE, features: NONE, fusion, losses: NONE, work: NONE },
      ...{ from: 0, to: 0, pass: 0, passes, decay: this.#decay, latest, lift: this.#lift },
      ...{ widest, longest: 1, constants, ladder, rungs: sizes.length },
    }
  }

  /** Starts over with no rows. */
  #begin(rows: number): void {
    this.#kernels.release(this.#base)
    for (const side of SIDES) this.#slots[side].begin(side === "user" ? 64 : rows)
    this.#end = this.#base
  }

  /** Takes up items instead of a batch, to be scored until the next batch. */
  openItems(items: ArrayLike<number>): void {
    this.#begin(items.length)
    if (this.#rows.length < items.length) this.#rows = new Int32Array(2 * items.length)
    for (let i = 0; i < items.length; i++) this.#rows[i] = this.#rowAt("item", items[i])
    const k = this.#kernels
    k.allocate(this.#end - this.#base)
    this.#layOutRows()
    this.#operation.rows = k.allocate(items.length)
    this.#operation.work = k.allocate(this.#operation.widest + items.length)
    k.ints.set(this.#rows.subarray(0, items.length), this.#operation.rows)
    this.#unpack()
  }

  /** Writes b + ⟨x, q̂⟩ of the items taken up. */
  score(out: Float32Array | Float64Array, x: Floats): void {
    const k = this.#kernels
    const { rows, work, widest, lift } = this.#operation
    const at = work + widest
    k.floats.fill(0, work, at)
    k.floats.set(x, work)
    k.scoreRows({ out: at, rows, count: out.length, x: work, columns: x.length, lift })
    k.run()
    out.set(k.floats.subarray(at, at + out.length))
  }

  /** Takes up a batch. */
  open(batch: ModelBatch, { latestOf, neighbours, rungs }: OpenOptions): void {
    this.#batch = batch
    const { length } = batch.user
    this.#begin(length)
    this.#listGroups(batch)
    this.#follow(batch, latestOf)
    this.#kernels.allocate(this.#end - this.#base)
    if (rungs) this.#judge(rungs)
    this.#operation.features = neighbours ? this.#kernels.allocate(SCORERS * length) : NONE
    this.#layOut(length)
    if (neighbours) this.#countNeighbours(neighbours)
    this.#unpack()
  }

  /** Adds an id; returns its slot. */
  #add(side: Side, id: number): number {
    const slots = this.#slots[side]
    const before = slots.count
    const slot = slots.add(id)
    if (slots.count === before) return slot
    const { tables, sizes, meet } = this.#form
    meet(side, id)
    if (slot === this.#rowOf[side].length) this.#rowOf[side] = doubled(this.#rowOf[side])
    this.#rowOf[side][slot] = this.#end
    this.#end += ROW_HEAD + (side === "user" ? 1 : 2) * blocks(sizes[tables[side].step(id)])
    return slot
  }

  /** Adds an id; returns where its row stands. */
  #rowAt(side: Side, id: number): Address {
    const slot = this.#add(side, id)
    return this.#rowOf[side][slot]
  }

  /** Cuts the batch into groups: a positive and its negatives, or a dislike. */
  #listGroups({ user, item, label, logChance }: ModelBatch): void {
    const { length } = user
    if (this.#rows.length < length) this.#rows = new Int32Array(2 * length)
    this.#ends.fill(0)
    this.count = 0
    let longest = 1
    let group = -GROUP_WORDS
    for (let r = 0; r < length; r++) {
      this.#rows[r] = this.#rowAt("item", item[r])
      const isNegative = label[r] === 0 && this.count > 0 && !Number.isNaN(logChance?.[r] ?? 0)
      if (isNegative) {
        this.#groups[group + GROUP_TO] = r + 1
        longest = Math.max(longest, r + 1 - this.#groups[group + GROUP_OWN])
        continue
      }
      group += GROUP_WORDS
      this.count++
      if (group + GROUP_WORDS > this.#groups.length) this.#groups = doubled(this.#groups)
      const slot = this.#add("user", user[r])
      if (slot >= this.#ends.length) this.#ends = doubled(this.#ends)
      const groups = this.#groups
      groups[group + GROUP_USER] = slot
      groups[group + GROUP_OWN] = r
      groups[group + GROUP_FROM] = r + 1
      groups[group + GROUP_TO] = r + 1
      groups[group + GROUP_ALONE] = label[r] === 0 ? 1 : 0
      groups[group + GROUP_JUDGED] = NONE
      groups[group + GROUP_INPUT] = -1
      this.#ends[slot]++
    }
    // Whole vectors of four are written.
    this.#operation.longest = (longest + 3) & ~3
    this.#operation.to = this.count
  }

  /** Follows each user's items through the batch. */
  #follow({ item }: ModelBatch, latestOf: OpenOptions["latestOf"]): void {
    const { latest: most, lastKept, tables } = this.#form
    const users = this.#slots.user
    if (this.#starts.length <= users.count) this.#starts = new Int32Array(2 * users.count + 1)
    const [starts, ends] = [this.#starts, this.#ends]
    const latest = new Int32Array(most)
    let at = 0
    for (let slot = 0; slot < users.count; slot++) {
      const count = latestOf(users.ids[slot], latest)
      const needed = at + count + ends[slot]
      while (needed > this.#trail.length) {
        this.#trail = doubled(this.#trail)
        this.#trailRows = doubled(this.#trailRows)
      }
      starts[slot] = at
      ends[slot] = at + count
      for (let a = count - 1; a >= 0; a--, at++) {
        this.#trail[at] = latest[a]
        this.#trailRows[at] = tables.item.has(latest[a]) ? this.#rowAt("item", latest[a]) : NONE
      }
      at = needed
    }
    starts[users.count] = at
    const groups = this.#groups
    for (let group = 0; group < this.count * GROUP_WORDS; group += GROUP_WORDS) {
      const slot = groups[group + GROUP_USER]
      groups[group + GROUP_TRAIL] = ends[slot] - 1
      groups[group + GROUP_COUNT] = Math.min(most, ends[slot] - starts[slot])
      const own = groups[group + GROUP_OWN]
      if (groups[group + GROUP_ALONE] === 1 || item[own] > lastKept) continue
      this.#trail[ends[slot]] = item[own]
      this.#trailRows[ends[slot]++] = this.#rows[own]
    }
  }

  /** Makes room for the rows as they are kept, and for what says where they are. */
  #layOutRows(): void {
    const { tables } = this.#form
    const { user, item } = this.#slots
    this.#records = this.#kernels.allocate((user.count + item.count) * PACKED_WORDS)
    for (const side of SIDES) {
      let words = 0
      const { ids, count } = this.#slots[side]
      for (let slot = 0; slot < count; slot++) words += tables[side].wordsOf(tables[side].step(ids[slot]))
      this.#packed[side] = this.#kernels.allocate(words)
    }
  }

  /** Says where everything stands, and puts it there. */
  #layOut(length: number): void {
    const k = this.#kernels
    const trail = this.#starts[this.#slots.user.count]
    const at = this.#operation
    this.#layOutRows()
    at.groups = k.allocate(this.count * GROUP_WORDS)
    at.rows = k.allocate(length)
    at.chances = k.allocate(length)
    at.losses = k.allocate(this.count)
    this.#trailsAt = k.allocate(trail)
    at.work = k.allocate(groupWork(at))
    const [floats, ints] = [k.floats, k.ints]
    const groups = this.#groups
    for (let group = 0; group < this.count * GROUP_WORDS; group += GROUP_WORDS) {
      groups[group + GROUP_TRAIL] += this.#trailsAt
      groups[group + GROUP_USER] = this.#rowOf.user[groups[group + GROUP_USER]]
    }
    ints.set(groups.subarray(0, this.count * GROUP_WORDS), at.groups)
    ints.set(this.#rows.subarray(0, length), at.rows)
    ints.set(this.#trailRows.subarray(0, trail), this.#trailsAt)
    const { logChance, weight } = this.#batch as ModelBatch
    for (let g = 0; g < this.count; g++)
      floats[at.groups + g * GROUP_WORDS + GROUP_WEIGHT] = weight?.[groups[g * GROUP_WORDS + GROUP_OWN]] ?? 1
    for (let r = 0; r < length; r++) floats[at.chances + r] = logChance?.[r] || 0
  }

  /** Writes what neighbours say of every row of the batch, as they are just before its group is counted. */
  #countNeighbours(neighbours: Neighbours): void {
    const { item, weight } = this.#batch as ModelBatch
    const groups = this.#groups
    const [f, at] = [this.#kernels.floats, this.#operation.features]
    const latest = this.#whole
    f.fill(0, at, at + SCORERS * item.length)
    for (let group = 0; group < this.count * GROUP_WORDS; group += GROUP_WORDS) {
      const count = groups[group + GROUP_COUNT]
      if (count === 0) continue
      const trail = groups[group + GROUP_TRAIL] - this.#trailsAt
      for (let a = 0; a < count; a++) latest[a] = this.#trail[trail - a]
      const [own, to] = [groups[group + GROUP_OWN], groups[group + GROUP_TO]]
      if (neighbours.open(latest, count))
        for (let r = own; r < to; r++)
          if (neighbours.score(item[r]))
            for (let k = 0; k < SCORERS; k++) f[at + SCORERS * r + k] = neighbours.scores[k]
      if (groups[group + GROUP_ALONE] === 0)
        neighbours.count(item[own], latest, { length: count, weight: weight?.[own] ?? 1 })
    }
  }

  /** Calls with every event but dislikes, and the user's latest items before it, the latest first. */
  eachEvent(visit: (event: { item: number; latest: number[]; weight: number }) => void): void {
    const { item, weight } = this.#batch as ModelBatch
    const groups = this.#groups
    for (let group = 0; group < this.count * GROUP_WORDS; group += GROUP_WORDS) {
      if (groups[group + GROUP_ALONE] === 1) continue
      const own = groups[group + GROUP_OWN]
      const trail = groups[group + GROUP_TRAIL] - this.#trailsAt
      const latest = Array.from({ length: groups[group + GROUP_COUNT] }, (_, a) => this.#trail[trail - a])
      visit({ item: item[own], latest, weight: weight?.[own] ?? 1 })
    }
  }

  /** Copies the rows as they are kept, and unpacks them. */
  #unpack(): void {
    const { tables, sizes, bits, lift } = this.#form
    const k = this.#kernels
    const { ints } = k
    let record = this.#records
    for (const side of SIDES) {
      const table = tables[side]
      const { ids, count } = this.#slots[side]
      const records = record
      let packed = this.#packed[side]
      for (let slot = 0; slot < count; slot++, record += PACKED_WORDS) {
        const id = ids[slot]
        const step = table.step(id)
        ints[record + PACKED_AT] = packed
        ints[record + PACKED_ROW] = this.#rowOf[side][slot]
        ints[record + PACKED_SIZE] = sizes[step]
        ints[record + PACKED_BITS] = bits[step]
        ints[record + PACKED_LIFT] = side === "item" ? lift.tail(id) : 0
        ints[record + PACKED_ID] = id
        ints[record + PACKED_STEP] = step
        table.copyWords(id, ints, packed)
        packed += table.wordsOf(step)
      }
      k.unpackRows({ records, count, form: this.#formOf(side) })
    }
    k.run()
  }

  #formOf(side: Side): PackedForm {
    const { latest } = this.#form
    if (side === "user") return { whole: latest, head: 1, vectors: 1, lift: NONE }
    return { whole: 0, head: 4, vectors: 2, lift: this.#lift }
  }

  /** Learns all groups in a pass. */
  learn(pass: number): void {
    const { fusion } = this.#form
    this.#operation.pass = pass
    fusion.write(this.#kernels.floats, this.#operation.fusion)
    this.#kernels.learnGroups(this.#operation)
    this.#kernels.run()
    fusion.read(this.#kernels.floats, this.#operation.fusion)
  }

  /**
   * Has groups judged while they are learned first: those of the rows of `rungs`, by its user's p, its own item's q, and the y
   * of one of the latest items. That one stands for all of them and counts for all; it is put down to the first judged row of
   * the batch that is the item's own, and an item without one is not judged by its y.
   */
  #judge(rungs: RungLosses): void {
    const { item } = this.#batch as ModelBatch
    const groups = this.#groups
    const own = new Map<number, number>()
    let judged = 0
    for (let group = 0; group < this.count * GROUP_WORDS; group += GROUP_WORDS) {
      const row = groups[group + GROUP_OWN]
      if (rungs.rows?.[row] === 0) continue
      judged++
      if (!own.has(item[row])) own.set(item[row], row)
    }
    const words = 3 * this.#form.sizes.length
    const out = this.#kernels.allocate(judged * words)
    this.#judged = { out, rungs, own }
    let at = out
    for (let group = 0; group < this.count * GROUP_WORDS; group += GROUP_WORDS) {
      const row = groups[group + GROUP_OWN]
      if (rungs.rows?.[row] === 0) continue
      groups[group + GROUP_JUDGED] = at
      at += words
      const count = groups[group + GROUP_COUNT]
      // A draw that needs no state.
      const a = count === 0 ? -1 : (Math.imul(row + item[row] + 1, 0x9e3779b1) >>> 16) % count
      const input = groups[group + GROUP_TRAIL] - a
      groups[group + GROUP_INPUT] = a >= 0 && own.has(this.#trail[input]) ? a : -1
    }
  }

  /** Writes what was judged. */
  #writeJudged(): void {
    if (!this.#judged) return
    const { rungs, own } = this.#judged
    const [groups, f] = [this.#groups, this.#kernels.floats]
    const { tables, sizes } = this.#form
    const { user, item } = this.#batch as ModelBatch
    const { length } = sizes
    for (let group = 0; group < this.count * GROUP_WORDS; group += GROUP_WORDS) {
      const at = groups[group + GROUP_JUDGED]
      if (at === NONE) continue
      const row = groups[group + GROUP_OWN]
      for (let rung = tables.user.step(user[row]); rung >= 0; rung--) rungs.user[row * length + rung] = f[at + rung]
      for (let rung = tables.item.step(item[row]); rung >= 0; rung--)
        rungs.item[row * length + rung] += f[at + length + rung]
      if (groups[group + GROUP_INPUT] < 0) continue
      const input = this.#trail[groups[group + GROUP_TRAIL] - this.#trailsAt - groups[group + GROUP_INPUT]]
      const [to, count] = [own.get(input) as number, groups[group + GROUP_COUNT]]
      const held = tables.item.step(input)
      const loss = f[at + 2 * length + held]
      for (let rung = held - 1; rung >= 0; rung--)
        rungs.item[to * length + rung] += count * (f[at + 2 * length + rung] - loss)
    }
    this.#judged = undefined
  }

  losses(): Float64Array {
    const { losses } = this.#operation
    return Float64Array.from(this.#kernels.floats.subarray(losses, losses + this.count))
  }

  /**
   * Packs the rows and puts them back, those of all users with their latest items at once; `done` is called with them.
   * `touched` takes the items.
   */
  close(done: () => void, touched?: { add(item: number): void }): void {
    const { tables, seed } = this.#form
    const k = this.#kernels
    this.#writeJudged()
    let records = this.#records
    for (const side of SIDES) {
      const { count } = this.#slots[side]
      k.packRows({ records, count, form: this.#formOf(side), seed })
      records += count * PACKED_WORDS
    }
    k.run()
    const { ints } = k
    const { user, item } = tables
    const into = { floats: new Float32Array(ints.buffer), bytes: new Int8Array(ints.buffer), place: this.#packed.user }
    user.guarded(() => {
      const { ids, count } = this.#slots.user
      for (let slot = 0; slot < count; slot++) {
        user.writeWhole(ids[slot], into, this.#wholeOf(slot))
        user.putWords(ids[slot], ints, into.place)
        into.place += user.wordsOf(user.step(ids[slot]))
      }
      done()
    })
    let packed = this.#packed.item
    const { ids, count } = this.#slots.item
    for (let slot = 0; slot < count; slot++) {
      item.putWords(ids[slot], ints, packed)
      packed += item.wordsOf(item.step(ids[slot]))
      touched?.add(ids[slot])
    }
    k.release(this.#base)
    this.#batch = undefined
  }

  /** 1 + the latest items of a user, the latest first, and 0 where there are fewer. */
  #wholeOf(slot: number): Int32Array {
    const { latest } = this.#form
    const [start, end] = [this.#starts[slot], this.#ends[slot]]
    for (let a = 0; a < latest; a++) this.#whole[a] = end - 1 - a >= start ? this.#trail[end - 1 - a] + 1 : 0
    return this.#whole
  }
}

function doubled(array: Int32Array): Int32Array<ArrayBuffer> {
  const more = new Int32Array(2 * array.length)
  more.set(array)
  return more
}
