/**
 * Which items are met after which: of every item j the strongest of those soon after it, and of those right after it, at
 * most 248 each.
 *
 *   an event of item i, the user's latest items j_0 … j_{m−1}, m ≤ 10
 *   right after:  C¹_{j_0 i} += 1
 *   soon after:   C⁰_{j_a i} += 0.9^a     C⁰_{i j_a} += 0.2·0.9^a     a ≥ 1
 *   R_j = Σ of all that was ever added to C_j, also for items that are not listed
 *   N(i | j) = C_{ji}/((10 + R_j)^¾·(1 + R_i)^¼)     between how likely i is next, which what is popular always is, and a
 *                                                  cosine, which what is rare always is; a row of little says little
 *   s_0 = Σ_a 0.9^a·N⁰(i | j_a) / Σ 0.9^a     s_{1+a} = N¹(i | j_a), a < 3     f_k = log(1 + 100·s_k)
 *
 * Soon after tells what a user is at, right after the very next step: one count of both blurs the two.
 *
 * A row is R and sets of 8 words. A word is 1 + an item's index in 24 bits, 0 for none, and C in 8: one of 254 values on
 * a logarithmic scale, 4 % apart, rounded up or down by chance so that it is right on average (Morris, 1978). The chance is
 * hashed from the row as it stands, so whoever counts the same events has the same bits.
 *
 * A newcomer that would count next to nothing in a row of much is let in by chance too, as more: rows hold what their
 * evidence can tell apart. An item stands in one of two sets, found by a hash: the second where the first is full. Where
 * both are, and all in them counts, the row grows, up to 31 sets; else the newcomer wears the smallest weight down by its
 * own, and takes the slot once that is the larger (Misra and Gries, 1982): what is met often stays, what is met once
 * passes by. A row whose R passes 2^16 is halved: what it learned long ago counts less and less, by events of its own.
 *
 * The rows stand in a table as vectors do: counted, saved, and read by other threads in the same way.
 */

import { mix } from "../../kernels/codes.ts"
import type { Address, Floats, Kernels, WordRow } from "../../kernels/kernels.ts"
import { SCORERS } from "../../kernels/layout.ts"
import { log } from "../../kernels/math.ts"
import { openKernels } from "../../kernels/open.ts"
import type { State } from "../../kernels/state.ts"
import { EmbeddingTable, readGuarded } from "../embedding-table.ts"
import { NeighbourScores } from "./neighbour-scores.ts"

const DECAY = 0.9
/** What the other direction counts. */
const BACK = 0.2
/** Items of a set. */
const SET = 8
/** Sets of a row: those of which a chunk of the table holds rows with little left over. */
const SETS = [1, 2, 3, 4, 5, 7, 10, 13, 18, 25, 31]
const HEAD = 1
/** An item's place in a word, 1 + its index; what it weighs stands above. */
const INDEX = 0xffffff
const CODE = 24
/** The smallest C, and from how much on a ratio lies between one and the next. */
const LEAST = 0.1
const RATIO = 1.0407
/** C by code. 127 and 255 are none: with some indices the word would be a float that is no number. */
const VALUES = new Float64Array(257).fill(Number.POSITIVE_INFINITY)
for (let code = 0, value = LEAST; code < 255; code++) {
  VALUES[code] = value
  if (code !== 126) value = RATIO * value + LEAST
}
/** The least weight of a new entry, over (10 + R)^¾: N·(1 + R_i)^¼. Less is negligible. */
const COUNTS = 0.016
/** R of a row that is halved. */
const FULL = 65_536
/** R by which half of what a row says is believed, about. */
const ENOUGH = 10
/** Latest items that are counted and read, and those of which it is read what came right after. */
const LATEST = 10
const STEPS = SCORERS - 1
/** Rows that are read for a user. */
const READ = LATEST + STEPS
/** An item's rows stand at 2·item and the next: what comes soon after it, and right after. */
const [SOON, RIGHT] = [0, 1]
/** Numbers of the longest row. */
const LONGEST = HEAD + SET * SETS[SETS.length - 1]
/** Indices beyond are not counted. */
const LAST_KEPT = INDEX - 1
/** A negligible likelihood: 1/ε. */
const CLEAR = 100

const NOTHING: ReadonlyMap<number, number> = new Map()

/** A row of the smallest size. */
const ONE = SETS.map((_, step) => (step === 0 ? 1 : 0))

/** 0.9^a */
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
  /** The rows read: where they stand, their sets, the k of their s_k, and what a C of theirs counts in 100·s_k but for R_i. */
  readonly #ints: Int32Array[] = []
  readonly #places = new Int32Array(READ)
  readonly #sets = new Int32Array(READ)
  readonly #scorers = new Int32Array(READ)
  readonly #faded = new Float64Array(READ)
  #open = 0
  /** By row read: whether it was copied from another thread's. */
  readonly #isCopied = new Uint8Array(READ)
  /** R of the row copied last, and where its words stand. */
  #copiedTotal = 0
  #copiedTo: Address = 0
  /** f of the item asked about last. */
  readonly scores = new Float64Array(SCORERS)
  #openKernels: () => Kernels
  #opened: NeighbourScores | undefined
  /** By row, what was added here and has not been reported to other processes. */
  #added: Map<number, Map<number, number>> | undefined
  /** Another thread's, whose rows are read where there is none here, and whose R_i count. */
  #source: Neighbours | undefined

  /** Opens what scores of many items are computed with, and nothing else. Default: the fastest of this machine. */
  constructor(kernels: () => Kernels = () => openKernels({ threads: 1 })) {
    this.#openKernels = kernels
  }

  get #scores(): NeighbourScores {
    this.#opened ??= new NeighbourScores(this.#openKernels(), { values: VALUES, words: READ * (LONGEST + 1) })
    return this.#opened
  }

  /** From now on reads what another thread counts, and computes with these kernels. */
  follow(source: Neighbours, kernels: Kernels): void {
    this.#source = source
    this.#openKernels = () => kernels
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

  /** The rows of an item, as `entries`, `put`, `add` and `takeAdded` know them. */
  rowsOf(item: number): [soon: number, right: number] {
    return [2 * item + SOON, 2 * item + RIGHT]
  }

  /** C of an item in row j. */
  weight(j: number, i: number): number {
    if (!this.table.has(j)) return 0
    const row = this.table.intsOf(j)
    const at = find(row, { from: this.table.placeOf(j) + HEAD, sets: this.#setsOf(j), item: i })
    return at < 0 ? 0 : VALUES[row[at] >>> CODE]
  }

  /** R of row j. */
  total(j: number): number {
    return this.table.has(j) ? this.table.numbersOf(j)[this.table.placeOf(j)] : 0
  }

  /** The share of an item among those met after another. */
  share(other: number, item: number): number {
    const [soon, right] = this.rowsOf(other)
    const total = this.total(soon) + this.total(right)
    return total > 0 ? (this.weight(soon, item) + this.weight(right, item)) / total : 0
  }

  #setsOf(j: number): number {
    return SETS[this.table.step(j)]
  }

  /** Counts an event of an item by a user with this many latest items, the latest first. `weight`: how many events it is. */
  count(item: number, latest: ArrayLike<number>, { length, weight = 1 }: { length: number; weight?: number }): void {
    if (item > LAST_KEPT || weight === 0) return
    const most = Math.min(length, LATEST)
    if (most > 0 && latest[0] !== item) this.#addHere(2 * latest[0] + RIGHT, item, weight)
    for (let a = 1; a < most; a++) {
      if (latest[a] === item) continue
      this.#addHere(2 * latest[a] + SOON, item, weight * FADE[a])
      this.#addHere(2 * item + SOON, latest[a], weight * BACK * FADE[a])
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

  /** R of a row, its items, by index, and their C. */
  entries(j: number): { total: number; weights: Map<number, number> } {
    const weights = new Map<number, number>()
    if (!this.table.has(j)) return { total: 0, weights }
    const words = this.#words(j).sort((a, b) => (a & INDEX) - (b & INDEX))
    for (const word of words) weights.set((word & INDEX) - 1, VALUES[word >>> CODE])
    return { total: this.total(j), weights }
  }

  /** N⁰ + N¹ of the items after an item that were counted as two events or more. */
  likelihoods(item: number): Map<number, number> {
    const likely = new Map<number, number>()
    const counted = new Map<number, number>()
    for (const kind of [SOON, RIGHT]) {
      const { total, weights } = this.entries(2 * item + kind)
      const root = Math.sqrt(ENOUGH + total)
      const row = root * Math.sqrt(root)
      for (const [i, c] of weights) {
        likely.set(i, (likely.get(i) ?? 0) + c / (row * this.#root(2 * i + kind)))
        counted.set(i, (counted.get(i) ?? 0) + c)
      }
    }
    for (const [i, c] of counted) if (c < 2) likely.delete(i)
    return likely
  }

  /** The words of a row. */
  #words(j: number): Int32Array<ArrayBuffer> {
    const from = this.table.placeOf(j) + HEAD
    return Int32Array.from(
      this.table
        .intsOf(j)
        .subarray(from, from + SET * this.#setsOf(j))
        .filter((word) => word !== 0),
    )
  }

  /** Replaces a row by what another process has of it. */
  put(j: number, { total, weights }: { total: number; weights: ReadonlyMap<number, number> }): void {
    if (this.table.has(j)) this.table.free(j)
    if (weights.size === 0 || !this.#ensure(j)) return
    this.table.numbersOf(j)[this.table.placeOf(j)] = total
    const strongest = [...weights].filter(([i]) => i <= LAST_KEPT).sort((a, b) => b[1] - a[1])
    const words = strongest.map(([i, c]) => toWord(i, Math.max(0, round(c, 0, 0.5))))
    this.#arrange(j, words, 0)
  }

  /** Makes a row where there is none; false where there are no bytes for it. */
  #ensure(j: number): boolean {
    const { table } = this
    if (table.has(j)) return true
    if (this.heldBytes + table.bytesToAdd(ONE, j) > this.mostBytes) return false
    return table.guarded(() => table.ensure(j))
  }

  /** Adds g to C of an item in row j. */
  add(j: number, i: number, g: number): void {
    if (!this.#ensure(j)) return
    const { table } = this
    const numbers = table.numbersOf(j)
    const place = table.placeOf(j)
    const row = table.intsOf(j)
    const sets = this.#setsOf(j)
    numbers[place] += g
    if (numbers[place] > FULL) halve(numbers, row, { place, end: place + HEAD + SET * sets })
    const chance = (mix(row[place] ^ Math.imul(j + 1, 0x9e3779b1) ^ Math.imul(i + 1, 0x85ebca77)) >>> 0) / 4_294_967_296
    const at = find(row, { from: place + HEAD, sets, item: i })
    if (at >= 0) {
      const code = row[at] >>> CODE
      row[at] = toWord(i, round(VALUES[code] + g, code, chance))
      return
    }
    const root = Math.sqrt(ENOUGH + numbers[place])
    const counts = Math.max(LEAST, COUNTS * root * Math.sqrt(root))
    if (g >= counts) this.#admit(j, { i, g, counts, chance })
    else if (chance * counts < g) this.#admit(j, { i, g: counts, counts, chance: (chance * counts) / g })
  }

  /** Gives an item that is not in a row a slot there, where it finds one. */
  #admit(j: number, p: { i: number; g: number; counts: number; chance: number }): void {
    const { i, g, counts, chance } = p
    const { table } = this
    for (;;) {
      const row = table.intsOf(j)
      const at = slotOf(row, { from: table.placeOf(j) + HEAD, sets: this.#setsOf(j), item: i })
      const word = row[at]
      const held = word === 0 ? 0 : VALUES[word >>> CODE]
      if (held >= counts && this.#grow(j)) continue
      const code = held > g ? round(held - g, word >>> CODE, chance) : -1
      row[at] = code >= 0 ? toWord((word & INDEX) - 1, code) : toWord(i, Math.max(0, round(g, 0, chance)))
      return
    }
  }

  /** Gives a row more sets; false where it has all, or there are no bytes for them. */
  #grow(j: number): boolean {
    const step = this.table.step(j)
    return step < this.table.top && this.#arrange(j, this.#words(j), step + 1)
  }

  /** Puts words into a row of a step, or a larger one that has slots for all, as far as bytes allow; the first have first choice. */
  #arrange(j: number, words: ArrayLike<number>, least: number): boolean {
    const { table } = this
    let step = least
    while (step < table.top && (words.length > SET * SETS[step] || !arrange(words, SETS[step]))) step++
    const mayHold = () => {
      const added = SETS.map((_, s) => (s === step ? 1 : 0))
      return step <= table.step(j) || this.heldBytes + table.bytesToAdd(added, j) <= this.mostBytes
    }
    while (step > least && !mayHold()) step--
    if (!mayHold()) return false
    const row = arrange(words, SETS[step], true) as Int32Array
    row[0] = table.intsOf(j)[table.placeOf(j)]
    table.replace(j, step, new Float32Array(row.buffer), 0)
    return true
  }

  /** Reads the rows of a user's latest items, the latest first, for `score` and `addScores`; false where there are none. */
  open(latest: ArrayLike<number>, length: number): boolean {
    this.#open = 0
    const most = Math.min(length, LATEST)
    let sum = 0
    for (let a = 0; a < most; a++) sum += FADE[a]
    // The few items that came right after stand together so, which is quicker to add up.
    for (let a = 0; a < most && a < STEPS; a++) this.#openRow(2 * latest[a] + RIGHT, 1 + a, 1)
    for (let a = 0; a < most; a++) this.#openRow(2 * latest[a] + SOON, 0, FADE[a] / sum)
    return this.#open > 0
  }

  /** Reads a row, where there is one, that counts so much in s_k. */
  #openRow(j: number, k: number, part: number): void {
    const { table } = this
    const r = this.#open
    const isHere = table.has(j)
    const sets = isHere ? this.#setsOf(j) : this.#copy(j, r)
    if (sets === 0) return
    const total = isHere ? this.total(j) : this.#copiedTotal
    if (!(total > 0)) return
    this.#ints[r] = isHere ? table.intsOf(j) : this.#scores.kernels.ints
    this.#places[r] = isHere ? table.placeOf(j) + HEAD : this.#copiedTo
    this.#isCopied[r] = isHere ? 0 : 1
    this.#sets[r] = sets
    this.#scorers[r] = k
    const root = Math.sqrt(ENOUGH + total)
    this.#faded[r] = (CLEAR * part) / (root * Math.sqrt(root))
    this.#open++
  }

  /** Where the words of the r-th row read may stand: as odd as where they come from, since they are copied two at a time so. */
  #copyAt(r: number, place: number): Address {
    return this.#scores.rows + r * (LONGEST + 1) + (place & 1)
  }

  /** Copies the words of row j from the table of another thread, to be read as the r-th; returns its sets, 0 where there is none. */
  #copy(j: number, r: number): number {
    if (!this.#source) return 0
    const { table } = this.#source
    const { ints } = this.#scores.kernels
    return readGuarded(table, () => {
      if (!table.has(j)) return 0
      const [place, sets] = [table.placeOf(j), SETS[table.step(j)]]
      const from = place + HEAD
      this.#copiedTotal = table.numbersOf(j)[place]
      this.#copiedTo = this.#copyAt(r, from)
      ints.set(table.intsOf(j).subarray(from, from + SET * sets), this.#copiedTo)
      return sets
    })
  }

  /** Writes `scores` of an item, given the rows opened; false where all are 0. */
  score(item: number): boolean {
    const h = hash(item)
    const [ints, places, sets, open] = [this.#ints, this.#places, this.#sets, this.#open]
    const { scores } = this
    scores.fill(0)
    let isNamed = false
    for (let r = 0; r < open; r++) {
      const row = ints[r]
      const set = (h * sets[r]) >>> HASHED
      let at = findIn(row, places[r] + SET * set, item + 1)
      if (at === FULL_SET) at = findIn(row, places[r] + SET * (set + 1 === sets[r] ? 0 : set + 1), item + 1)
      if (at < 0) continue
      scores[this.#scorers[r]] += this.#faded[r] * VALUES[row[at] >>> CODE]
      isNamed = true
    }
    if (!isNamed) return false
    if (scores[0] > 0) scores[0] = log(1 + scores[0] / this.#root(2 * item + SOON))
    for (let k = 1; k < SCORERS; k++) if (scores[k] > 0) scores[k] = log(1 + scores[k] / this.#root(2 * item + RIGHT))
    return true
  }

  /** (1 + R)^¼ of row j. */
  #root(j: number): number {
    return Math.sqrt(Math.sqrt(1 + this.total(j)))
  }

  /** Adds Σ w_k·f_k of items to `out`, given the rows opened. */
  addScores(out: Float32Array | Float64Array, items: ArrayLike<number>, weights: ArrayLike<number>): void {
    if (!this.#source) this.#scores.outdate()
    this.#scores.add(out, items, this.#said(weights))
  }

  /** The same for the scores of all items below a limit, which stand in the kernels' memory; there is room for them. */
  addScoresTo(to: Address, limit: number, weights: ArrayLike<number>): void {
    this.#scores.addTo(to, limit, this.#said(weights))
  }

  /** Makes room for so many items, before others take memory of the kernels for a while. */
  reserve(items: number): void {
    this.#scores.reserve(items)
  }

  #said(weights: ArrayLike<number>) {
    const { ints } = this.#scores.kernels
    const rows: WordRow[] = []
    for (let r = 0; r < this.#open; r++) {
      const [place, length] = [this.#places[r], SET * this.#sets[r]]
      const isCopied = this.#isCopied[r] === 1
      const at = isCopied ? place : this.#copyAt(r, place)
      if (!isCopied) ints.set(this.#ints[r].subarray(place, place + length), at)
      rows.push({ at, length, scorer: this.#scorers[r], factor: this.#faded[r] })
    }
    return { rows, weights, totalOf: this.#totalOf }
  }

  readonly #totalOf = (item: number, kind: number): number => {
    const row = 2 * item + kind
    const source = this.#source
    return source ? readGuarded(source.table, () => source.total(row)) : this.total(row)
  }

  /** The source has changed: R_i are read again. */
  outdate(): void {
    this.#opened?.outdate()
  }

  /** Items leave, also from the rows of others. */
  forget(items: ReadonlySet<number>): void {
    const { table } = this
    for (const item of items) for (const row of this.rowsOf(item)) if (table.has(row)) table.free(row)
    for (const j of table.ids()) {
      const words = this.#words(j)
      const left = words.filter((word) => !items.has((word & INDEX) - 1))
      if (left.length < words.length) this.#arrange(j, left, table.step(j))
    }
  }

  /** Drops everything. */
  clear(): void {
    for (const row of [...this.table.ids()]) this.table.free(row)
  }

  save(state: State): void {
    this.table.save(state)
  }

  load(state: State): void {
    this.table.load(state)
  }
}

/** Bits of a hash. */
const HASHED = 16

function hash(item: number): number {
  return Math.imul(item + 1, 0x9e3779b1) >>> (32 - HASHED)
}

function toWord(item: number, code: number): number {
  return (code << CODE) | (item + 1)
}

/** The code of a C, the one below or above by chance; −1 for none. `near`: where the search starts. */
function round(c: number, near: number, chance: number): number {
  let code = near
  while (c >= VALUES[code + 1]) code++
  while (code >= 0 && c < VALUES[code]) code--
  const below = code < 0 ? 0 : VALUES[code]
  if (chance * (VALUES[code + 1] - below) < c - below) code++
  return code === 127 ? 126 : code
}

interface Sought {
  /** Where the sets of a row begin. */
  from: number
  sets: number
  item: number
}

/** Where an item stands in a row, −1 where it does not. */
function find(row: Int32Array, { from, sets, item }: Sought): number {
  const set = (hash(item) * sets) >>> HASHED
  const at = findIn(row, from + SET * set, item + 1)
  if (at !== FULL_SET) return at
  return Math.max(-1, findIn(row, from + SET * ((set + 1) % sets), item + 1))
}

/** What `findIn` says of a set without the item that has no free slot: it may stand in the next. */
const FULL_SET = -2

/** Where an item stands in a set. Unrolled, since every negative asks ten rows. */
function findIn(row: Int32Array, set: number, wanted: number): number {
  if ((row[set] & INDEX) === wanted) return set
  if ((row[set + 1] & INDEX) === wanted) return set + 1
  if ((row[set + 2] & INDEX) === wanted) return set + 2
  if ((row[set + 3] & INDEX) === wanted) return set + 3
  if ((row[set + 4] & INDEX) === wanted) return set + 4
  if ((row[set + 5] & INDEX) === wanted) return set + 5
  if ((row[set + 6] & INDEX) === wanted) return set + 6
  if ((row[set + 7] & INDEX) === wanted) return set + 7
  return row[set + 7] === 0 ? -1 : FULL_SET
}

/** The slot an item that is not in a row may take: a free one, else that of the smallest weight. */
function slotOf(row: Int32Array, { from, sets, item }: Sought): number {
  const set = (hash(item) * sets) >>> HASHED
  let least = from + SET * set
  for (const one of [set, (set + 1) % sets])
    for (let k = from + SET * one; k < from + SET * (one + 1); k++) {
      if (row[k] === 0) return k
      if (row[k] >>> CODE < row[least] >>> CODE) least = k
    }
  return least
}

/** A row of words, each in its set or, the last ones of a set that has too many, the next; undefined where one finds no slot, unless it may be left out. */
function arrange(words: ArrayLike<number>, sets: number, mayDrop = false): Int32Array<ArrayBuffer> | undefined {
  const own = Array.from({ length: sets }, (): number[] => [])
  const most = Math.min(words.length, SET * sets)
  for (let n = 0; n < most; n++) own[(hash((words[n] & INDEX) - 1) * sets) >>> HASHED].push(words[n])
  const beyond = sets === 1 ? 0 : SET
  // How many the set before has too many: the last one's go to the first.
  let taken = 0
  for (let s = 0; s < 2 * sets; s++) taken = Math.min(beyond, Math.max(0, taken + own[s % sets].length - SET))
  const row = new Int32Array(HEAD + SET * sets)
  const used = new Int32Array(sets)
  for (let s = 0; s < sets; s++) {
    const room = SET - taken
    taken = Math.max(0, own[s].length - room)
    if (taken > beyond && !mayDrop) return undefined
    taken = Math.min(beyond, taken)
    own[s].slice(0, room + taken).forEach((word, n) => {
      const set = n < room ? s : (s + 1) % sets
      row[HEAD + SET * set + used[set]++] = word
    })
  }
  return row
}

/** Halves what a row holds, right on average. */
function halve(numbers: Floats, row: Int32Array, { place, end }: { place: number; end: number }): void {
  numbers[place] /= 2
  for (let k = place + HEAD; k < end; k++) {
    if (row[k] === 0) continue
    const code = row[k] >>> CODE
    const chance = (mix(row[k] ^ k) >>> 0) / 4_294_967_296
    row[k] = toWord((row[k] & INDEX) - 1, Math.max(0, round(VALUES[code] / 2, code, chance)))
  }
}
