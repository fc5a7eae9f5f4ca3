/**
 * Reads a model of the calibrated recipe while it learns. Rows are not copied for it: it sees the learner's memory, and copies the few rows
 * a request needs into a small model of its own. Only items have a second form here, packed for scoring them all; these
 * are a version, renewed when one is published.
 *
 * What a request sees: every row is as it was at one moment (`readGuarded`), a user's with all that is learned by now;
 * all of them in the frame the packed items are in, whatever turns the learner's have been through since (frame.ts). A
 * user's row comes with the last segment whose items it holds: what was accepted after that counts as its latest items.
 */

import type { Floats, Kernels } from "../kernels/kernels.ts"
import { exp, log } from "../kernels/math.ts"
import { Frame, turnBetween } from "../models/calibrated/frame.ts"
import { PackedItems } from "../models/calibrated/packed-items.ts"
import type { ItemParts, RowModel } from "../models/calibrated/rows.ts"
import { readGuarded } from "../models/embedding-table.ts"
import { SIDES, type Side } from "../types.ts"
import type { Asker, ItemLifts, LabelledTrial, Powers, Published, Reader, SharedRegion } from "./reader.ts"

/** Items that an item's parts are compared with, about. */
const COMPARED = 200

/** Numbers of items' second vectors that are kept, at the sizes' largest: 16 MB. */
const MOST_INPUTS = 4_194_304

/** The index a user's row has in the small model. */
const ASKED = 0

export class CalibratedReader implements Reader {
  readonly outputs: number
  readonly follow: Reader["follow"]
  readonly following: Reader["following"]
  readonly lifts: NonNullable<Reader["lifts"]> | undefined
  /** The learner's rows. */
  readonly #learner: RowModel
  /** The rows of a request. */
  readonly #own: RowModel
  readonly #kernels: Kernels
  readonly #packed: PackedItems
  readonly #row: Float32Array
  /** The frame of the learner's rows, and the one the packed items are in. */
  #frame: Frame | undefined
  #turns = 0
  #matrix = new Float64Array(0)
  /** The last segment whose items are in users' rows: shared, and as it was when a row was read last. */
  #through: Int32Array | undefined
  #readThrough = 0
  readonly #turned: Float64Array
  readonly #combined: Float64Array
  /** Second vectors of items, as long as this version is the last. */
  #inputs: (Float32Array | undefined)[] = []
  #inputCount = 0
  /** The row that is read, and the turns it had been through; made once: it is asked for at every item of every version. */
  readonly #asked: { side: Side; id: number; turns: number } = { side: "item", id: 0, turns: 0 }
  readonly #copyRow = (): number => {
    const { side, id } = this.#asked
    const table = this.#learner.tables[side]
    this.#asked.turns = 0
    if (side === "user" && this.#through) this.#readThrough = Atomics.load(this.#through, 0)
    if (!table.has(id)) return -1
    table.read(id, this.#row, 0)
    this.#asked.turns = this.#frame?.of(side, id) ?? 0
    return table.step(id)
  }

  /** `learner` and `own` are models of the same options. */
  constructor(learner: RowModel, own: RowModel, kernels: Kernels) {
    this.#learner = learner
    this.#own = own
    this.#kernels = kernels
    this.outputs = own.outputs
    if (learner.neighbours) own.neighbours?.follow(learner.neighbours, kernels)
    this.#packed = new PackedItems(own, kernels)
    const { user, item } = own.tables
    this.#turned = new Float64Array(own.fade.length)
    this.#combined = new Float64Array(own.fade.length)
    const beside = own.neighbours?.table.sizes.at(-1) ?? 0
    this.#row = new Float32Array(Math.max(user.sizes[user.top], item.sizes[item.top], beside))
    if (own.partsOf) this.lifts = (asker, items) => this.#lifts(asker, items)
    const { neighbours } = learner
    if (neighbours) this.following = (item) => readGuarded(neighbours.table, () => neighbours.likelihoods(item))
    if (own.addLatest) this.follow = (asker, items) => (items ? this.#scoresOf(asker, items) : this.#scores(asker))
  }

  get items(): Int32Array {
    return this.#packed.items
  }

  get packedBytes(): number {
    return this.#packed.bytes
  }

  reserve(length: number): SharedRegion {
    const at = this.#kernels.allocate(length)
    return { floats: this.#kernels.floats as Float32Array, at, length }
  }

  apply({ arrays, rows }: Published): void {
    if (rows) {
      for (const side of SIDES) this.#learner.tables[side].readFrom(rows.tables[side])
      if (rows.neighbours) this.#learner.neighbours?.table.readFrom(rows.neighbours)
      this.#frame = new Frame(this.#own.fade.length, rows.frame)
      this.#turns = rows.turns
      this.#through = rows.through
      this.#matrix = arrays.frame as Float64Array<ArrayBuffer>
    }
    this.#learner.global.set(arrays.global)
    if (arrays.weights) this.#learner.fusion?.weights.set(arrays.weights)
    this.refresh(arrays.changed)
  }

  /** Packs items again whose rows have changed. */
  refresh(items: ArrayLike<number>): void {
    this.#clearInputs()
    this.#own.neighbours?.outdate()
    const row = { step: 0, numbers: this.#row, at: 0 }
    for (let i = 0; i < items.length; i++) {
      row.step = this.#read("item", items[i])
      this.#packed.set(items[i], row.step < 0 ? undefined : row)
    }
  }

  #clearInputs(): void {
    if (this.#inputCount > 0) this.#inputs.fill(undefined)
    this.#inputCount = 0
  }

  /** Copies a row as it is now, in the frame of the packed items; returns its step, −1 where there is none. */
  #read(side: Side, id: number): number {
    this.#asked.side = side
    this.#asked.id = id
    const step = readGuarded(this.#learner.tables[side], this.#copyRow)
    const { turns } = this.#asked
    if (step >= 0 && turns !== this.#turns) this.#turn(side, step, turns)
    return step
  }

  /** Copies a row into the own model; false where there is none. */
  #take(side: Side, id: number, as = id): boolean {
    const step = this.#read(side, id)
    if (step < 0) return false
    this.#own.tables[side].ensure(as)
    this.#own.tables[side].replace(as, step, this.#row, 0)
    return true
  }

  /** Copies an item's neighbours into the own model. */
  #takeNeighbours(item: number): void {
    const [from, to] = [this.#learner.neighbours?.table, this.#own.neighbours?.table]
    if (!from || !to) return
    for (const row of this.#own.neighbours?.rowsOf(item) ?? []) {
      const step = readGuarded(from, () => {
        if (!from.has(row)) return -1
        from.read(row, this.#row, 0)
        return from.step(row)
      })
      if (step < 0) continue
      to.ensure(row)
      to.replace(row, step, this.#row, 0)
    }
  }

  #turn(side: Side, step: number, turns: number): void {
    const { sizes, heads, vectors } = this.#own
    const [size, from] = [sizes[step], (this.#frame as Frame).matrix(turns)]
    const turned = this.#turned
    for (let v = 0; v < vectors[side]; v++) {
      const vector = this.#row.subarray(heads[side] + v * size, heads[side] + (v + 1) * size)
      turnBetween(turned, vector, { from, to: this.#matrix })
      vector.set(turned.subarray(0, size))
    }
  }

  #drop(side: Side, id: number): void {
    if (this.#own.tables[side].has(id)) this.#own.tables[side].free(id)
  }

  /** Takes a user's row into the own model, a new one for no user. */
  #takeUser({ user, recent }: Asker): void {
    const own = this.#own
    own.global.set(this.#learner.global)
    if (this.#learner.fusion) own.fusion?.weights.set(this.#learner.fusion.weights)
    if (user === undefined || !this.#take("user", user, ASKED)) own.meetOne("user", ASKED)
    if (recent) own.addLatest?.(ASKED, recent(this.#readThrough))
  }

  /** Answers with logits of all items: rows it is read with are not taken into the own model but for the user's. */
  #askingAll<T>(asker: Asker, answer: (user: number, logits: Float32Array) => T): T {
    const own = this.#own
    if (!own.combinedBy) return this.#asking(asker, [], (asked) => answer(asked, this.#fused(asked)))
    this.#takeUser(asker)
    try {
      return answer(ASKED, this.#fused(ASKED, own.combinedBy(ASKED, this.#inputOf)))
    } finally {
      this.#drop("user", ASKED)
    }
  }

  /** Answers with a user's row, and those of items it is read with, in the own model; a new one for no user. */
  #asking<T>(asker: Asker, items: Iterable<number>, answer: (user: number) => T): T {
    const own = this.#own
    this.#takeUser(asker)
    const taken = new Set([...(own.latestOf?.(ASKED) ?? []), ...items])
    try {
      for (const item of taken) {
        this.#take("item", item)
        this.#takeNeighbours(item)
      }
      return answer(ASKED)
    } finally {
      own.neighbours?.clear()
      this.#drop("user", ASKED)
      for (const item of taken) this.#drop("item", item)
    }
  }

  knows(side: Side, id: number): boolean {
    return side === "item" ? this.#packed.has(id) : this.#learner.tables.user.has(id)
  }

  scores(user: number): Float32Array {
    return this.#scores({ user }).slice()
  }

  #scores(asker: Asker): Float32Array {
    return this.#askingAll(asker, (asked, logits) => {
      const odds = this.#own.repeatOdds?.(asked)
      return odds ? repeated(logits, this.items, odds) : logits
    })
  }

  #lifts(asker: Asker, items: readonly number[]): ItemLifts[] {
    const every = Math.max(1, Math.floor(this.items.length / COMPARED))
    const others = Array.from(this.items).filter((_, i) => i % every === 0)
    return this.#asking(asker, [...items, ...others], (asked) => {
      const own = this.#own
      const partsOf = own.partsOf?.bind(own) as NonNullable<RowModel["partsOf"]>
      const odds = own.repeatOdds?.(asked)
      const there = others.filter((item) => own.tables.item.has(item))
      const compared = partsOf(asked, there)
      const mean = (get: (parts: ItemParts) => number) =>
        compared.reduce((sum, parts) => sum + get(parts), 0) / Math.max(1, compared.length)
      const [bias, taste] = [mean((parts) => parts.bias), mean((parts) => parts.taste)]
      const latest = [...(own.latestOf?.(asked) ?? [])].reverse()
      const inputs = latest.map((_, a) => mean((parts) => parts.inputs[a]))
      const known = items.filter((item) => own.tables.item.has(item))
      const parts = new Map(partsOf(asked, known).map((one, i) => [known[i], one]))
      return items.map((item) => {
        const one = parts.get(item)
        return {
          base: bias + taste + inputs.reduce((sum, input) => sum + input, 0),
          isKnown: one !== undefined,
          taste: one ? one.taste - taste : 0,
          latest: latest.map((other, a) => ({ item: other, lift: one ? one.inputs[a] - inputs[a] : 0 })),
          neighbours: one?.neighbours ?? 0,
          near: latest.map((other, a) => ({ item: other, lift: one?.near[a] ?? 0 })),
          popularity: one ? one.bias - bias : 0,
          again: odds?.has(item) ?? false,
        }
      })
    })
  }

  sumPowers(logits: Float32Array): Powers {
    return this.#packed.sumPowers(logits)
  }

  comeBack(asker: Asker): Map<number, number> {
    // Nobody has come back yet: nothing to be read.
    if (this.#learner.global.every((number) => number === 0)) return new Map()
    const odds = this.#oddsOf(asker)
    const unknown = [...(odds ?? [])].filter(([item]) => !this.#packed.has(item))
    if (!odds || unknown.length === 0) return new Map()
    return this.#askingAll(asker, (_, logits) => {
      const rest = restOf(logits, this.items, odds)
      return new Map(unknown.map(([item, own]) => [item, rest + own]))
    })
  }

  #oddsOf(asker: Asker): Map<number, number> | undefined {
    this.#takeUser(asker)
    try {
      return this.#own.repeatOdds?.(ASKED)
    } finally {
      this.#drop("user", ASKED)
    }
  }

  /** Logits of a user of the own model and all items. */
  #fused(asked: number, x?: Floats): Float32Array {
    const [own, { reach }] = [this.#own, this.#packed]
    own.neighbours?.reserve(reach)
    return this.#packed.scores(asked, x, (to) => own.addNeighboursTo?.(to, reach, asked))
  }

  scoresOf(user: number, items: ArrayLike<number>): Float32Array {
    return this.#scoresOf({ user }, items)
  }

  #scoresOf(asker: Asker, items: ArrayLike<number>): Float32Array {
    const some = Array.from(items)
    const { outputs } = this
    return this.#asking(asker, some, (asked) => {
      const here = some.filter((item) => this.#own.tables.item.has(item))
      const logits = new Float32Array(here.length * outputs)
      this.#own.logitsOf(logits, asked, here)
      const odds = this.#own.repeatOdds?.(asked)
      if (odds && here.some((item) => odds.has(item))) {
        const rest = restOf(logits, this.items, odds)
        here.forEach((item, i) => {
          logits[i] = odds.has(item) ? rest + (odds.get(item) as number) : logits[i]
        })
      }
      if (here.length === some.length) return logits
      // Some have left since the request.
      const out = new Float32Array(some.length * outputs).fill(Number.NaN)
      let from = 0
      some.forEach((item, i) => {
        if (!this.#own.tables.item.has(item)) return
        out.set(logits.subarray(from, from + outputs), i * outputs)
        from += outputs
      })
      return out
    })
  }

  /** Learns in the own model. */
  preview(asker: Asker, trials: readonly LabelledTrial[]): Float32Array {
    const items = trials.map(({ item }) => item)
    const touched = new Set<number>()
    try {
      return this.#asking(asker, items, (asked) => {
        this.#own.train(
          {
            user: trials.map(() => asked),
            item: items,
            label: trials.map(({ label }) => label),
            // No negatives are drawn: a row of label 0 is an own one.
            logChance: trials.map(({ label }) => (label === 0 ? Number.NaN : 0)),
          },
          undefined,
          touched,
        )
        const { item: table } = this.#own.tables
        for (const item of touched) {
          table.read(item, this.#row, 0)
          this.#packed.set(item, { step: table.step(item), numbers: this.#row, at: 0 })
        }
        return this.#fused(asked).slice()
      })
    } finally {
      this.refresh([...touched])
    }
  }

  /** cos(q_i, q_j) over the numbers both hold; 0 where one holds none. */
  nearest(item: number, items = this.items): Float32Array {
    const [own, other] = [new Float64Array(this.#own.fade.length), new Float64Array(this.#own.fade.length)]
    const size = this.#packed.readVector(item, own)
    return Float32Array.from(items, (id) => cosine(own, other, Math.min(size, this.#packed.readVector(id, other))))
  }

  among(items: Int32Array): (place: number) => Float32Array {
    const vectors = Array.from(items, (item) => {
      const size = this.#packed.readVector(item, this.#turned)
      return this.#turned.slice(0, size)
    })
    return (place) => {
      const own = vectors[place]
      const out = new Float32Array(vectors.length)
      for (let i = 0; i < out.length; i++) out[i] = cosine(own, vectors[i], Math.min(own.length, vectors[i].length))
      return out
    }
  }

  users(): Int32Array {
    return Int32Array.from(this.#learner.tables.user.ids())
  }

  /** cos(x_u, x_v) over the numbers both have. Rows of the others are not taken into the own model. */
  nearestUsers(user: number, others: Int32Array): Float32Array {
    const model = this.#own
    const own = this.#asking({ user }, [], (asked) => Float64Array.from(model.combined(asked)))
    // ‖own‖² by how many numbers count.
    const squares = new Float64Array(own.length + 1)
    for (let k = 0; k < own.length; k++) squares[k + 1] = squares[k] + own[k] * own[k]
    const from = { row: this.#row, step: 0 }
    const other = this.#combined
    const out = new Float32Array(others.length)
    for (let i = 0; i < others.length; i++) {
      from.step = this.#read("user", others[i])
      if (from.step < 0) continue
      const shared = Math.min(own.length, model.combineRow(other, from, this.#inputOf))
      let [product, theirs] = [0, 0]
      for (let k = 0; k < shared; k++) {
        product += own[k] * other[k]
        theirs += other[k] * other[k]
      }
      const mine = squares[shared]
      if (mine > 0 && theirs > 0) out[i] = product / Math.sqrt(mine * theirs)
    }
    return out
  }

  /** What an item counts as among a user's latest: its second vector. Users have many in common: each is read once a version. */
  readonly #inputOf = (item: number): Float32Array => {
    const known = this.#inputs[item]
    if (known) return known
    const step = this.#read("item", item)
    const [size, head] = [step < 0 ? 0 : this.#own.sizes[step], this.#own.heads.item]
    const input = this.#row.slice(head + size, head + 2 * size)
    if (this.#inputCount * this.#own.fade.length >= MOST_INPUTS) this.#clearInputs()
    this.#inputCount++
    // Of a length from the beginning: one with far gaps would be as slow as a map.
    if (item >= this.#inputs.length) this.#inputs.length = Math.max(2 * item, 1024)
    this.#inputs[item] = input
    return input
  }
}

/** log Σ exp of the logits of items the user has not met recently. */
function restOf(logits: Float32Array, items: Int32Array, odds: ReadonlyMap<number, number>): number {
  let top = Number.NEGATIVE_INFINITY
  for (let i = 0; i < items.length; i++) if (logits[i] > top && !odds.has(items[i])) top = logits[i]
  let sum = 0
  for (let i = 0; i < items.length; i++) if (!odds.has(items[i])) sum += exp(logits[i] - top)
  return sum > 0 ? top + log(sum) : 0
}

/** Logits with those of latest items by how likely they are to come again. */
function repeated(logits: Float32Array, items: Int32Array, odds: ReadonlyMap<number, number>): Float32Array {
  const rest = restOf(logits, items, odds)
  const out = logits.slice()
  for (let i = 0; i < items.length; i++) {
    const own = odds.get(items[i])
    if (own !== undefined) out[i] = rest + own
  }
  return out
}

/** Over the first `shared` numbers: those both have. */
function cosine(a: Floats, b: Floats, shared: number): number {
  let [product, mine, theirs] = [0, 0, 0]
  for (let k = 0; k < shared; k++) {
    product += a[k] * b[k]
    mine += a[k] * a[k]
    theirs += b[k] * b[k]
  }
  return mine > 0 && theirs > 0 ? product / Math.sqrt(mine * theirs) : 0
}
