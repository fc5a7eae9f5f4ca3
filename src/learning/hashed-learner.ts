/**
 * The control `hash-<rows>`: ids share rows by two hashes (method.md §8). What an id has learned beyond a new row is the
 * sum of two rows of a table of this many, and what a segment changes in it goes to both, half and half. The model is that of
 * the calibrated recipe; it holds the rows of one batch at a time. A user's latest items, which are not learned, are its own.
 */

import { Random } from "../kernels/random.ts"
import type { RowModel } from "../models/calibrated/rows.ts"
import { EmbeddingTable } from "../models/embedding-table.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { Bits } from "../models/row-packing.ts"
import { type Segment, SIDES, type Side } from "../types.ts"
import type { Learner, LearnerStatus, Preparation, Ranker, SideStatus } from "./learner.ts"

/** Bytes of one of a user's latest items. */
const LATEST_BYTES = 3

export interface HashOptions {
  /** Of each side. */
  rows: number
  bits: Bits
  seed: number
}

/** A row in the model, and what it was when it was put there. */
interface Loaded {
  side: Side
  id: number
  row: Float32Array
}

export class HashedLearner implements Learner {
  readonly #model: RowModel
  readonly #options: HashOptions
  readonly #shared: Record<Side, EmbeddingTable>
  /** Numbers of a row that are not learned: a user's latest items. */
  readonly #whole: Record<Side, number>
  readonly #latest = new Map<number, Float32Array>()
  readonly #seen: Record<Side, Set<number>> = { user: new Set(), item: new Set() }

  /** `model` has one size. */
  constructor(model: RowModel, options: HashOptions) {
    this.#model = model
    this.#options = options
    const { heads, vectors, tables } = model
    this.#whole = { user: model.latestOf ? heads.user - vectors.user : 0, item: 0 }
    const make = (side: Side) => {
      const [whole, head] = [0, heads[side] - this.#whole[side]]
      return new EmbeddingTable({
        sizes: [tables[side].sizes[0] - this.#whole[side]],
        deviation: 0,
        moments: false,
        packing: { bits: [options.bits], whole, head, vectors: vectors[side], seed: options.seed },
      })
    }
    this.#shared = { user: make("user"), item: make("item") }
  }

  prepare(segment: Segment): Preparation {
    for (const side of SIDES) for (const id of segment[side]) this.#seen[side].add(id)
    return { milliseconds: { policy: 0, growth: 0 } }
  }

  /** The two rows of an id. */
  #rowsOf(side: Side, id: number): [number, number] {
    const random = new Random(this.#options.seed, "hash", side, id)
    return [random.integer(this.#options.rows), random.integer(this.#options.rows)]
  }

  /** Puts rows of ids into the model; those that are there stay. */
  #load(side: Side, ids: Iterable<number>): Loaded[] {
    const [table, shared, whole] = [this.#model.tables[side], this.#shared[side], this.#whole[side]]
    const part = new Float32Array(shared.sizes[0])
    const loaded: Loaded[] = []
    for (const id of ids) {
      if (!this.#model.meetOne(side, id)) continue
      const row = new Float32Array(table.size(id))
      table.read(id, row, 0)
      for (const at of this.#rowsOf(side, id)) {
        if (!shared.has(at)) continue
        shared.read(at, part, 0)
        for (let k = 0; k < part.length; k++) row[whole + k] += part[k]
      }
      if (whole > 0) row.set(this.#latest.get(id) ?? [])
      table.write(id, row, 0, 0)
      loaded.push({ side, id, row })
    }
    return loaded
  }

  #loadBatch(batch: ModelBatch): Loaded[] {
    const { latestOf } = this.#model
    const users = this.#load("user", Array.from(batch.user))
    const items = this.#load("item", Array.from(batch.item))
    const latest = users.flatMap(({ id }) => this.#load("item", latestOf?.call(this.#model, id) ?? []))
    return [...users, ...items, ...latest]
  }

  #unload(loaded: readonly Loaded[]): void {
    for (const { side, id } of loaded) this.#model.tables[side].free(id)
  }

  /** Gives half of what changed in each row to each of its two. */
  #store(loaded: readonly Loaded[]): void {
    for (const { side, id, row: before } of loaded) {
      const [table, shared, whole] = [this.#model.tables[side], this.#shared[side], this.#whole[side]]
      const after = new Float32Array(before.length)
      table.read(id, after, 0)
      if (whole > 0) this.#latest.set(id, after.slice(0, whole))
      for (const at of this.#rowsOf(side, id)) {
        shared.ensure(at)
        shared.open([at])
        const [numbers, from] = [shared.numbersOf(at), shared.placeOf(at)]
        for (let k = whole; k < after.length; k++) numbers[from + k - whole] += (after[k] - before[k]) / 2
      }
    }
    for (const side of SIDES) this.#shared[side].close({ changed: true })
  }

  train(batch: ModelBatch): PassResult {
    const loaded = this.#loadBatch(batch)
    const result = this.#model.train(batch)
    this.#store(loaded)
    this.#unload(loaded)
    return result
  }

  test(batch: ModelBatch): PassResult {
    const loaded = this.#loadBatch(batch)
    const result = this.#model.predict(batch)
    this.#unload(loaded)
    return result
  }

  rank(items: ArrayLike<number>): Ranker {
    const ids = Int32Array.from(items)
    const loaded = this.#load("item", ids)
    const { outputs } = this.#model
    const scores = (user: number): Float64Array => {
      const [one] = this.#load("user", [user])
      const latest = this.#load("item", this.#model.latestOf?.(user) ?? [])
      const out = new Float64Array(ids.length * outputs)
      this.#model.logitsOf(out, user, ids)
      this.#unload([one, ...latest])
      return outputs === 1 ? out : out.filter((_, at) => at % outputs === 0)
    }
    return { items: ids, scores, release: () => this.#unload(loaded) }
  }

  status(): LearnerStatus {
    const latestBytes = LATEST_BYTES * this.#whole.user * this.#latest.size
    const side = (name: Side): SideStatus => {
      const { numbers, liveBytes } = this.#shared[name]
      const own = name === "user" ? latestBytes : 0
      return { seen: this.#seen[name].size, numbers, histogram: {}, rowBytes: liveBytes + own }
    }
    const { user, item } = this.#shared
    return {
      user: side("user"),
      item: side("item"),
      embeddingBytes: user.embeddingBytes + item.embeddingBytes,
      heldBytes: user.heldBytes + item.heldBytes + latestBytes,
    }
  }

  close(): void {}
}
