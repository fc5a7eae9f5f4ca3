/**
 * Which items are met soon after which: of every item j the strongest of them, at most 256.
 *
 *   an event of item i, the user's latest items j_0 … j_{m−1}, m ≤ 10:   C_{j_a i} += 0.8^a     C_{i j_a} += 0.2·0.8^a
 *   R_j = Σ of all that was ever added to C_j, also for items that are not listed
 *   N(i | j) = C_{ji}/((10 + R_j)^¾·(1 + R_i)^¼)     between how likely i is next, which what is popular always is, and a
 *                                                  cosine, which what is rare always is; a row of little says little
 *   what the latest say: s_0 = Σ_a 0.8^a·N(i | j_a) / Σ 0.8^a     the latest alone: s_1 = N(i | j_0)     f_k = log(1 + 100·s_k)
 *
 * A row is [R, sets of 8 items (1 + index; 0 is none) and their 8 weights]. An item has its place in one set, by a hash, so
 * that finding it looks at 8 numbers. Where a set is full, the row doubles, up to 32 sets; then a newcomer wears the
 * smallest weight of its set down by its own, and takes the slot once that is the larger (Misra and Gries, 1982): what is
 * met often stays, what is met once passes by. A row whose R passes 2^16 is halved: what it learned long ago counts less
 * and less, by events of its own.
 *
 * The rows stand in a table as vectors do: counted, saved, and read by other threads in the same way.
 */

import { floatBits } from "../../kernels/codes.ts"
import type { Address, Floats, Kernels } from "../../kernels/kernels.ts"
import { SCORERS } from "../../kernels/layout.ts"
import { log } from "../../kernels/math.ts"
import { openKernels } from "../../kernels/open.ts"
import type { State } from "../../kernels/state.ts"
import { EmbeddingTable, readGuarded } from "../embedding-table.ts"

const DECAY = 0.8
/** What the other direction counts. */
const BACK = 0.2
const WAYS = 8
const SETS = [1, 2, 4, 8, 16, 32]
const HEAD = 1
const SET = 2 * WAYS
/** R of a row that is halved. */
const FULL = 65_536
/** R by which half of what a row says is believed, about. */
const ENOUGH = 10
/** Latest items that are counted and read. */
const LATEST = 10
/** Numbers of the longest row. */
const LONGEST = HEAD + SET * SETS[SETS.length - 1]
/** Indices beyond are no exact floats, and not counted. */
const LAST_KEPT = 16_777_214
/** A likelihood that is as good as none: 1/ε. */
const CLEAR = 100

const NOTHING: ReadonlyMap<number, number> = new Map()

/** A row of the smallest size. */
const ONE = SETS.map((_, step) => (step === 0 ? 1 : 0))

/** 0.8^a */
const FADE = new Float64Array(LATEST).fill(1)
for (let a = 1; a < LATEST; a++) FADE[a] = DECAY * FADE[a - 1]

export class Neighbours {
  readonly table = new EmbeddingTable({
    sizes: SETS.map((sets) => HEAD + SET * sets),
    deviation: 0,
    moments: false,
  })
  /** The most bytes it may hold: no row is added or doubled beyond. */
  mostBytes = Number.POSITIVE_INFINITY
  /** The rows read: where they stand, their masks of sets, and what a C of theirs counts in s_0 but for R_i. */
  readonly #arrays: Floats[] = []
  readonly #ints: Int32Array[] = []
  readonly #places = new Int32Array(LATEST)
  readonly #masks = new Int32Array(LATEST)
  readonly #faded = new Float64Array(LATEST)
  #open = 0
  /** Rows copied from another thread's, and the mask of the last. */
  #copies = new Float32Array(0)
  #copiedInts = new Int32Array(0)
  #copiedMask = 0
  /** What leads from the latest item's part of s_0 to s_1: Σ 0.8^a, 0 where it has no row. */
  #firstWeight = 0
  /** f of the item asked about last. */
  readonly scores = new Float64Array(SCORERS)
  /** By item: 1 + its place among those that rows opened name, 0 for others; and the items named. */
  #slots = new Int32Array(0)
  #touched = new Int32Array(0)
  #totals = new Float32Array(0)
  #isOutdated = false
  readonly #openKernels: () => Kernels
  #kernels: Kernels | undefined
  /** By item j, what was added to C_{ji} here and is to be told. */
  #added: Map<number, Map<number, number>> | undefined
  /** Another thread's, whose rows are read where there is none here, and whose R_i count. */
  source: Neighbours | undefined

  /** What scores of many items are computed with. Default: the fastest of this machine. */
  constructor(kernels: () => Kernels = () => openKernels({ threads: 1 })) {
    this.#openKernels = kernels
  }

  get heldBytes(): number {
    return this.table.heldBytes
  }

  /** What it may hold until more is allotted; without a budget what it holds. */
  get allottedBytes(): number {
    return Number.isFinite(this.mostBytes) ? this.mostBytes : this.heldBytes
  }

  /** Says how far it may grow in the segment to come: up to a quarter of a budget, a little at a time. */
  allot(budget: number | undefined): void {
    const { heldBytes } = this
    this.mostBytes =
      budget === undefined
        ? Number.POSITIVE_INFINITY
        : Math.max(heldBytes, Math.min(budget / 4, heldBytes + budget / 64))
  }

  /** C_{ji}. */
  weight(j: number, i: number): number {
    if (!this.table.has(j)) return 0
    const [row, place] = [this.table.numbersOf(j), this.table.placeOf(j)]
    const at = find(row, place + HEAD + SET * (hash(i) & this.#mask(j)), i)
    return at < 0 ? 0 : row[at + WAYS]
  }

  /** R_j. */
  total(j: number): number {
    return this.table.has(j) ? this.table.numbersOf(j)[this.table.placeOf(j)] : 0
  }

  #mask(item: number): number {
    return SETS[this.table.step(item)] - 1
  }

  /** Counts an event of an item by a user with so many latest items, the latest first. `weight`: how many events it is. */
  count(item: number, latest: ArrayLike<number>, { length, weight = 1 }: { length: number; weight?: number }): void {
    if (item > LAST_KEPT || weight === 0) return
    const most = Math.min(length, LATEST)
    for (let a = 0; a < most; a++) {
      if (latest[a] === item) continue
      this.#addHere(latest[a], item, weight * FADE[a])
      this.#addHere(item, latest[a], weight * BACK * FADE[a])
    }
  }

  #addHere(j: number, i: number, g: number): void {
    this.add(j, i, g)
    if (!this.#added) return
    const row = this.#added.get(j) ?? new Map<number, number>()
    row.set(i, (row.get(i) ?? 0) + g)
    this.#added.set(j, row)
  }

  /** Keeps what is counted from now on, to be taken for other processes. */
  record(): void {
    this.#added = new Map()
  }

  /** What was counted in a row here since the last time: items and what was added to C. */
  takeAdded(j: number): ReadonlyMap<number, number> {
    const added = this.#added?.get(j)
    this.#added?.delete(j)
    return added ?? NOTHING
  }

  /** R of a row, its items and their C. */
  entries(j: number): { total: number; weights: Map<number, number> } {
    const weights = new Map<number, number>()
    if (!this.table.has(j)) return { total: 0, weights }
    const [row, from] = [this.table.numbersOf(j), this.table.placeOf(j) + HEAD]
    const end = from + SET * (this.#mask(j) + 1)
    for (let set = from; set < end; set += SET)
      for (let k = set; k < set + WAYS && row[k] > 0; k++) weights.set(row[k] - 1, row[k + WAYS])
    return { total: this.total(j), weights }
  }

  /** N(i | j) of the items i in a row that were counted as two events or more. */
  likelihoods(j: number): Map<number, number> {
    const { total, weights } = this.entries(j)
    const root = Math.sqrt(ENOUGH + total)
    const row = root * Math.sqrt(root)
    const likely = new Map<number, number>()
    for (const [i, c] of weights) if (c >= 2) likely.set(i, c / (row * Math.sqrt(Math.sqrt(1 + this.total(i)))))
    return likely
  }

  /** Replaces a row by what another process has of it. */
  put(j: number, { total, weights }: { total: number; weights: ReadonlyMap<number, number> }): void {
    if (this.table.has(j)) this.table.free(j)
    for (const [i, c] of weights) this.add(j, i, c)
    if (this.table.has(j)) this.table.numbersOf(j)[this.table.placeOf(j)] = total
  }

  /** Adds g to C_{ji}. */
  add(j: number, i: number, g: number): void {
    const { table } = this
    if (!table.has(j)) {
      if (this.heldBytes + table.bytesToAdd(ONE, j) > this.mostBytes) return
      table.guarded(() => table.ensure(j))
    }
    let row = table.numbersOf(j)
    let place = table.placeOf(j)
    const h = hash(i)
    const wanted = floatBits(i + 1)
    const mask = this.#mask(j)
    row[place] += g
    if (row[place] > FULL) halve(row, place, HEAD + SET * (mask + 1))
    let set = place + HEAD + SET * (h & mask)
    let at = findSlot(table.intsOf(j), set, wanted)
    while (at < 0 && this.#double(j)) {
      row = table.numbersOf(j)
      place = table.placeOf(j)
      set = place + HEAD + SET * (h & this.#mask(j))
      at = findSlot(table.intsOf(j), set, wanted)
    }
    if (at >= 0) {
      row[at] = i + 1
      row[at + WAYS] += g
      return
    }
    let least = set + WAYS
    for (let k = least + 1; k < set + SET; k++) if (row[k] < row[least]) least = k
    if (row[least] > g) row[least] -= g
    else {
      row[least - WAYS] = i + 1
      row[least] = g
    }
  }

  /** Gives a row twice the sets; false where it has all, or there are no bytes for them. */
  #double(item: number): boolean {
    const { table } = this
    const step = table.step(item)
    if (step === table.top) return false
    const added = SETS.map((_, s) => (s === step + 1 ? 1 : 0))
    if (this.heldBytes + table.bytesToAdd(added, item) > this.mostBytes) return false
    const old = new Float32Array(table.sizes[step])
    table.read(item, old, 0)
    const row = new Float32Array(table.sizes[step + 1])
    row[0] = old[0]
    const mask = SETS[step + 1] - 1
    for (let set = HEAD; set < old.length; set += SET)
      for (let k = set; k < set + WAYS && old[k] > 0; k++) {
        const at = find(row, HEAD + SET * (hash(old[k] - 1) & mask), old[k] - 1, true)
        row[at] = old[k]
        row[at + WAYS] = old[k + WAYS]
      }
    table.replace(item, step + 1, row, 0)
    return true
  }

  /** Reads the rows of a user's latest items, the latest first, for `score` and `addScores`; false where there are none. */
  open(latest: ArrayLike<number>, length: number): boolean {
    const { table } = this
    let [count, sum] = [0, 0]
    let hasFirst = false
    const most = Math.min(length, LATEST)
    for (let a = 0; a < most; a++) {
      sum += FADE[a]
      const j = latest[a]
      const isHere = table.has(j)
      if (!isHere && !this.#copy(j, a)) continue
      const row = isHere ? table.numbersOf(j) : this.#copies
      const place = isHere ? table.placeOf(j) : a * LONGEST
      if (!(row[place] > 0)) continue
      this.#arrays[count] = row
      this.#ints[count] = isHere ? table.intsOf(j) : this.#copiedInts
      this.#places[count] = place + HEAD
      this.#masks[count] = isHere ? this.#mask(j) : this.#copiedMask
      // The latest item's row, where it has one, is the first.
      if (a === 0) hasFirst = true
      const root = Math.sqrt(ENOUGH + row[place])
      this.#faded[count++] = FADE[a] / (root * Math.sqrt(root))
    }
    for (let r = 0; r < count; r++) this.#faded[r] /= sum
    this.#firstWeight = hasFirst ? sum : 0
    this.#open = count
    return count > 0
  }

  /** Copies the row of latest item a from the table of another thread; false where there is none. */
  #copy(item: number, a: number): boolean {
    if (!this.source) return false
    const { table } = this.source
    if (this.#copies.length === 0) {
      this.#copies = new Float32Array(LATEST * LONGEST)
      this.#copiedInts = new Int32Array(this.#copies.buffer)
    }
    const step = readGuarded(table, () => {
      if (!table.has(item)) return -1
      table.read(item, this.#copies, a * LONGEST)
      return table.step(item)
    })
    this.#copiedMask = (SETS[step] ?? 1) - 1
    return step >= 0
  }

  /** Writes `scores` of an item, given the rows opened; false where all are 0. */
  score(item: number): boolean {
    const h = hash(item)
    const wanted = floatBits(item + 1)
    const [ints, places, masks, open] = [this.#ints, this.#places, this.#masks, this.#open]
    let [faded, first] = [0, 0]
    for (let r = 0; r < open; r++) {
      const at = findItem(ints[r], places[r] + SET * (h & masks[r]), wanted)
      if (at < 0) continue
      faded += this.#faded[r] * this.#arrays[r][at + WAYS]
      if (r === 0) first = faded
    }
    if (faded === 0) {
      this.scores.fill(0)
      return false
    }
    this.#write({ faded, first, total: this.total(item) })
    return true
  }

  #write({ faded, first, total }: { faded: number; first: number; total: number }): void {
    const rarity = 1 / Math.sqrt(Math.sqrt(1 + total))
    this.scores[0] = log(1 + CLEAR * faded * rarity)
    this.scores[1] = first > 0 ? log(1 + CLEAR * first * this.#firstWeight * rarity) : 0
  }

  /** Adds Σ w_k·f_k of items to `out`, given the rows opened. */
  addScores(out: Float32Array | Float64Array, items: ArrayLike<number>, weights: ArrayLike<number>): void {
    this.#kernels ??= this.#openKernels()
    const k = this.#kernels
    const mark = k.mark()
    let stride = 0
    for (let r = 0; r < this.#open; r++) stride += WAYS * (this.#masks[r] + 1)
    const sums = k.allocate(4 * stride)
    const count = this.#sumRows(k.floats, sums, stride)
    this.#readTotals({ floats: k.floats, at: sums + 2 * stride, count })
    const fused = sums + 3 * stride
    const factors = [CLEAR, CLEAR * this.#firstWeight]
    k.fuseLogs({ out: fused, sums, stride, count, weights, factors })
    k.run()
    const [f, slots] = [k.floats, this.#slots]
    const touched = this.#touched
    // Mostly an item stands at its own index.
    let others = 0
    for (let t = 0; t < count; t++) {
      const item = touched[t]
      if (items[item] === item) {
        out[item] += f[fused + t]
        slots[item] = 0
      } else others++
    }
    for (let i = 0; others > 0 && i < items.length; i++) {
      const slot = slots[items[i]]
      if (slot > 0) out[i] += f[fused + slot - 1]
    }
    for (let t = 0; t < count; t++) slots[touched[t]] = 0
    k.release(mark)
  }

  /** Sums what the rows opened say of every item they name, two columns of `stride` numbers; returns how many items. */
  #sumRows(f: Floats, sums: Address, stride: number): number {
    let count = 0
    let slots = this.#slots
    if (this.#touched.length < stride) this.#touched = new Int32Array(2 * stride)
    const touched = this.#touched
    for (let r = 0; r < this.#open; r++) {
      const [row, faded] = [this.#arrays[r], this.#faded[r]]
      const end = this.#places[r] + SET * (this.#masks[r] + 1)
      for (let set = this.#places[r]; set < end; set += SET)
        for (let k = set; k < set + WAYS; k++) {
          const item = (row[k] | 0) - 1
          if (item < 0) break
          if (item >= slots.length) slots = this.#enlargeSlots(item)
          let slot = slots[item]
          if (slot === 0) {
            touched[count++] = item
            slot = slots[item] = count
            const at = sums + slot - 1
            f[at] = f[at + stride] = 0
          }
          const at = sums + slot - 1
          f[at] += faded * row[k + WAYS]
          if (r === 0) f[at + stride] = f[at]
        }
    }
    return count
  }

  /** R_i of the items touched. */
  #readTotals({ floats, at, count }: { floats: Floats; at: Address; count: number }): void {
    const { source } = this
    const touched = this.#touched
    if (!source) {
      for (let t = 0; t < count; t++) floats[at + t] = this.total(touched[t])
      return
    }
    const totals = this.#knownTotals()
    for (let t = 0; t < count; t++) {
      let total = totals[touched[t]]
      if (Number.isNaN(total)) {
        total = readGuarded(source.table, () => source.total(touched[t]))
        totals[touched[t]] = total
      }
      floats[at + t] = total
    }
  }

  /** R_i of the source as far as they were read since the last version; NaN for others. */
  #knownTotals(): Float32Array {
    if (this.#totals.length < this.#slots.length) this.#totals = new Float32Array(this.#slots.length).fill(Number.NaN)
    else if (this.#isOutdated) this.#totals.fill(Number.NaN)
    this.#isOutdated = false
    return this.#totals
  }

  /** The source has changed: R_i are read anew. */
  outdate(): void {
    this.#isOutdated = true
  }

  #enlargeSlots(item: number): Int32Array<ArrayBuffer> {
    const larger = new Int32Array(Math.max(1024, 2 * (item + 1)))
    larger.set(this.#slots)
    this.#slots = larger
    return larger
  }

  /** Items leave, also from the rows of others. */
  forget(items: ReadonlySet<number>): void {
    const { table } = this
    for (const item of items) if (table.has(item)) table.free(item)
    for (const j of table.ids()) {
      const row = table.numbersOf(j)
      const from = table.placeOf(j) + HEAD
      const end = from + SET * (this.#mask(j) + 1)
      for (let set = from; set < end; set += SET)
        for (let k = set; k < set + WAYS && row[k] > 0; )
          if (items.has(row[k] - 1)) strike(row, set, k)
          else k++
    }
  }

  /** Drops everything. */
  clear(): void {
    for (const item of [...this.table.ids()]) this.table.free(item)
  }

  save(state: State): void {
    this.table.save(state)
  }

  load(state: State): void {
    this.table.load(state)
  }
}

function hash(item: number): number {
  return Math.imul(item + 1, 0x9e3779b1) >>> 20
}

/** Where an item stands in a set, or, if asked for, the first free slot; −1 where neither is there. */
function find(row: Floats, set: number, item: number, free = false): number {
  for (let k = set; k < set + WAYS; k++) {
    if (row[k] === item + 1) return k
    if (row[k] === 0) return free ? k : -1
  }
  return -1
}

/** Where a float of these bits stands in a set, −1 where it does not. Whole numbers compare faster than floats, and unrolled. */
function findItem(ints: Int32Array, set: number, wanted: number): number {
  if (ints[set] === wanted) return set
  if (ints[set + 1] === wanted) return set + 1
  if (ints[set + 2] === wanted) return set + 2
  if (ints[set + 3] === wanted) return set + 3
  if (ints[set + 4] === wanted) return set + 4
  if (ints[set + 5] === wanted) return set + 5
  if (ints[set + 6] === wanted) return set + 6
  if (ints[set + 7] === wanted) return set + 7
  return -1
}

/** The same, or the first free slot; −1 where neither is there. */
function findSlot(ints: Int32Array, set: number, wanted: number): number {
  for (let k = set; k < set + WAYS; k++) if (ints[k] === wanted || ints[k] === 0) return k
  return -1
}

/** The last of a set moves into a slot that falls free. */
function strike(row: Floats, set: number, at: number): void {
  let last = at
  while (last + 1 < set + WAYS && row[last + 1] > 0) last++
  row[at] = row[last]
  row[at + WAYS] = row[last + WAYS]
  row[last] = 0
  row[last + WAYS] = 0
}

function halve(row: Floats, place: number, length: number): void {
  row[place] /= 2
  for (let set = place + HEAD; set < place + length; set += SET)
    for (let k = set + WAYS; k < set + SET; k++) row[k] /= 2
}
