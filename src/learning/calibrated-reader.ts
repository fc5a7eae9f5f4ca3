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
import { Frame, turnBetween } from "../models/calibrated/frame.ts"
import { PackedItems } from "../models/calibrated/packed-items.ts"
import type { RowModel } from "../models/calibrated/rows.ts"
import { readGuarded } from "../models/embedding-table.ts"
import type { Side } from "../types.ts"
import type { Asker, LabelledTrial, Published, Reader, SharedRegion } from "./reader.ts"

/** The index a user's row has in the small model. */
const ASKED = 0

export class CalibratedReader implements Reader {
  readonly outputs: number
  readonly follow: Reader["follow"]
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
    this.#packed = new PackedItems(own, kernels)
    const { user, item } = own.tables
    this.#turned = new Float64Array(own.fade.length)
    this.#row = new Float32Array(Math.max(user.sizes[user.top], item.sizes[item.top]))
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
      for (const side of ["user", "item"] as const) this.#learner.tables[side].readFrom(rows.tables[side])
      this.#frame = new Frame(this.#own.fade.length, rows.frame)
      this.#turns = rows.turns
      this.#through = rows.through
      this.#matrix = arrays.frame as Float64Array<ArrayBuffer>
    }
    this.#learner.global.set(arrays.global)
    this.refresh(arrays.changed)
  }

  /** Packs items anew whose rows have changed. */
  refresh(items: ArrayLike<number>): void {
    const row = { step: 0, numbers: this.#row, at: 0 }
    for (let i = 0; i < items.length; i++) {
      row.step = this.#read("item", items[i])
      this.#packed.set(items[i], row.step < 0 ? undefined : row)
    }
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

  /** Answers with a user's row, and those of items it is read with, in the own model; a new one for no user. */
  #asking<T>({ user, recent }: Asker, items: Iterable<number>, answer: (user: number) => T): T {
    const own = this.#own
    own.global.set(this.#learner.global)
    if (user === undefined || !this.#take("user", user, ASKED)) own.meetOne("user", ASKED)
    if (recent) own.addLatest?.(ASKED, recent(this.#readThrough))
    const taken = new Set([...(own.latestOf?.(ASKED) ?? []), ...items])
    try {
      for (const item of taken) this.#take("item", item)
      return answer(ASKED)
    } finally {
      this.#drop("user", ASKED)
      for (const item of taken) this.#drop("item", item)
    }
  }

  knows(side: Side, id: number): boolean {
    return side === "item" ? this.#packed.has(id) : this.#learner.tables.user.has(id)
  }

  scores(user: number): Float32Array {
    return this.#scores({ user })
  }

  #scores(asker: Asker): Float32Array {
    return this.#asking(asker, [], (asked) => this.#packed.scores(asked))
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
        return this.#packed.scores(asked)
      })
    } finally {
      this.refresh([...touched])
    }
  }

  /** cos(q_i, q_j) over the numbers both hold; 0 where one holds none. */
  nearest(item: number): Float32Array {
    const { items } = this
    const [own, other] = [new Float64Array(this.#own.fade.length), new Float64Array(this.#own.fade.length)]
    const size = this.#packed.readVector(item, own)
    return Float32Array.from(items, (id) => cosine(own, other, Math.min(size, this.#packed.readVector(id, other))))
  }

  users(): Int32Array {
    return Int32Array.from(this.#learner.tables.user.ids())
  }

  nearestUsers(user: number, others: Int32Array): Float32Array {
    const vectorOf = (one: number) => this.#asking({ user: one }, [], (asked) => this.#own.combined(asked).slice())
    const own = vectorOf(user)
    return Float32Array.from(others, (other) => {
      const vector = vectorOf(other)
      return cosine(own, vector, Math.min(own.length, vector.length))
    })
  }
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
