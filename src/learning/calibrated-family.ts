/** The family of the calibrated recipe: rows learned event by event, each row's rungs judged while it is trained on. */

import { growable } from "../ids/columns.ts"
import type { State } from "../kernels/state.ts"
import { Frame, turnFrame } from "../models/calibrated/frame.ts"
import { packedBytes } from "../models/calibrated/packed-items.ts"
import type { RowModel, RungLosses } from "../models/calibrated/rows.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { Context } from "../policies/context.ts"
import { Esapn } from "../policies/esapn.ts"
import type { Segment, Side } from "../types.ts"
import type { ModelFamily } from "./family.ts"
import type { SearchOptions } from "./judge.ts"
import type { Ranker } from "./learner.ts"
import type { Limited } from "./limiter.ts"
import type { Published } from "./reader.ts"
import { RowShare } from "./row-share.ts"
import { RungJudge } from "./rung-judge.ts"
import type { SizedRows } from "./sized-rows.ts"

/**
 * The frame is turned after this many turns of the clock, and a share of all there were: as rows settle, so does the frame.
 * At the latest after this many, since tastes move. That of ranking stays as it is: rows are wide from the start, and those
 * shorter than the widest would lose what a turn moves beyond their end.
 */
const TURN = { first: 5, share: 0.5, last: 100 }

const NOBODY = { user: [], item: [] }
/** Bytes kept of an id beside its row, about: how often and when it was met. */
const BESIDE = 4

export class CalibratedFamily implements ModelFamily<RowModel> {
  readonly model: RowModel
  readonly publishedSide = "item"
  /** Readers see the rows themselves. */
  readonly floatsNeeded = 0
  readonly #frame: Frame
  #published: { turns: number; matrix: Float64Array } | undefined
  #turned = 0
  #search: RungJudge | undefined

  constructor(model: RowModel) {
    this.model = model
    this.#frame = new Frame(model.sizes[model.sizes.length - 1])
  }

  limited(rows: SizedRows<RowModel>, searched: boolean) {
    const { tables } = this.model
    return {
      beside: () => rows.besideBytes,
      besideEach: tables.user.notes ? 0 : BESIDE,
      // A reader packs the first vector of every item.
      packed: (side: Side, step: number) => (side === "item" ? packedBytes(this.model, step) : 0),
      ...(searched && {
        leaving: () => this.#search?.takeLeaving() ?? NOBODY,
        idle: (side: Side, id: number) => rows.idleClass(side, id),
        shrink: (side: Side, id: number) => rows.resize(side, id, { step: tables[side].step(id) - 1, why: "idle" }),
        cut: this.#cutter(rows),
      }),
    }
  }

  #cutter(rows: SizedRows<RowModel>): NonNullable<Limited["cut"]> {
    const { tables, sizes, heads, vectors } = this.model
    const row = new Float32Array(Math.max(tables.user.sizes[tables.user.top], tables.item.sizes[tables.item.top]))
    return {
      take(side, id, step) {
        const table = tables[side]
        const [size, first, head] = [table.size(id), sizes[step], heads[side]]
        table.read(id, row, 0)
        const notes = table.notesOf(id)
        table.free(id)
        // The head, and the first numbers of every vector.
        const cut = row.slice(0, table.sizes[step])
        const held = (size - head) / vectors[side]
        for (let v = 1; v < vectors[side]; v++)
          cut.set(row.subarray(head + v * held, head + v * held + first), head + v * first)
        return { step, row: cut, notes }
      },
      put(side, id, { step, row, notes }) {
        tables[side].ensure(id)
        tables[side].replace(id, step, row, 0)
        tables[side].putNotes(id, notes)
        rows.resized(side, id, { step, why: "budget" })
      },
    }
  }

  createJudge(rows: SizedRows<RowModel>, search: SearchOptions, context: Context | undefined): RungJudge {
    this.#search = new RungJudge(rows, search, context)
    return this.#search
  }

  begin(segment: Segment, rows: SizedRows<RowModel>): void {
    this.model.segment = segment.index + 1
    this.model.neighbours?.allot(rows.limiter.bytes)
  }

  train(batch: ModelBatch, p: { rungs?: RungLosses; touched?: { add(item: number): void } }): PassResult {
    return this.model.train(batch, p.rungs, p.touched)
  }

  rank(items: ArrayLike<number>, live: boolean): Ranker {
    const ids = Int32Array.from(items)
    for (const id of ids) this.model.meetOne("item", id)
    const { outputs } = this.model
    const out = new Float64Array(ids.length * outputs)
    // Experiments rank for many users at a time: unpacking all items once is faster. A live learner would hold them twice.
    const fast = live ? undefined : this.model.rank?.(ids)
    const scores = (user: number): Float64Array => {
      this.model.meetOne("user", user)
      if (fast) fast(out, user)
      else this.model.logitsOf(out, user, ids)
      return outputs === 1 ? out : out.filter((_, at) => at % outputs === 0)
    }
    if (live || fast) return { items: ids, scores, release: () => {} }
    const table = this.model.tables.item
    const keep = table.open(ids)
    return { items: ids, scores, release: () => table.close({ changed: false, keep }) }
  }

  /** Names the items that changed, and how the frame stands. */
  publish(changed: Int32Array): Published {
    const { model } = this
    const turns = this.#frame.turns
    const tables = { user: model.tables.user.share(), item: model.tables.item.share() }
    return {
      arrays: {
        ...{ global: model.global.slice(), changed, frame: this.#publishedFrame(turns) },
        ...(model.fusion && { weights: model.fusion.weights.slice() }),
      },
      rows: {
        ...{ tables, frame: this.#frame.share(), turns, through: model.through },
        ...(model.neighbours && { neighbours: model.neighbours.table.share() }),
      },
    }
  }

  /** How the frame stands, in shared memory: a message does not copy it, and it is written once a turn. */
  #publishedFrame(turns: number): Float64Array {
    if (this.#published?.turns !== turns) {
      const matrix = this.#frame.matrix(turns)
      this.#published = { turns, matrix: growable("f64", matrix.length, matrix.length) }
      this.#published.matrix.set(matrix)
    }
    return this.#published.matrix
  }

  /** Numbers are the mean of both rows by how often each was met; the latest items of `from` are the latest of all. */
  merge(rows: SizedRows<RowModel>, from: number, into: number): void {
    const { model } = this
    const table = model.tables.user
    if (!table.has(from)) return
    const theirs = new Float32Array(table.size(from))
    table.read(from, theirs, 0)
    const latest = model.latestOf?.(from) ?? []
    const step = table.step(from)
    const [fresh, weight] = [model.meetOne("user", into), rows.indicators.frequency("user", from)]
    if (fresh) {
      model.resize("user", into, { step })
      // By the segment's clock: that of the last reading is no part of a snapshot.
      const { segments: segment, sizeLog } = rows
      sizeLog?.add("user", into, { segment, time: sizeLog.timeOf(segment), step, why: "met" })
      rows.note("user", into)
    }
    const share = fresh ? 1 : weight / Math.max(1, weight + rows.indicators.frequency("user", into))
    const own = new Float32Array(table.size(into))
    table.read(into, own, 0)
    const first = model.latestOf ? model.heads.user - model.vectors.user : 0
    for (let k = first; k < Math.min(own.length, theirs.length); k++) own[k] += share * (theirs[k] - own[k])
    table.guarded(() => {
      table.write(into, own, 0, 0)
      model.addLatest?.(into, latest)
    })
  }

  /** Turns the frame when it is due, for a policy that cuts rows. Many processes would have to turn it at once. */
  settle(rows: SizedRows<RowModel>): void {
    const { time, indicators, live, share } = rows
    if (share || !this.#search?.options.policy.release) return
    if (this.model.task === "topk") return
    if (time - this.#turned < Math.min(TURN.last, Math.max(TURN.first, TURN.share * time))) return
    this.#turned = time
    turnFrame(this.model, (item) => indicators.frequency("item", item), live ? this.#frame : undefined)
    if (live) rows.changeAll()
  }

  /** ESAPN keeps a network of its own and losses of every id, which do not add up. */
  share(rows: SizedRows<RowModel>): RowShare | undefined {
    if (this.#search?.options.policy instanceof Esapn) return undefined
    return new RowShare(rows, this.#search)
  }

  save(state: State, { time, lastMet, returns }: SizedRows<RowModel>): void {
    state.put("time", Float64Array.of(time, this.#turned))
    lastMet.save(state.at("lastMet"))
    returns.save(state.at("returns"))
  }

  load(state: State, rows: SizedRows<RowModel>): void {
    const [time, turned] = state.take("time", Float64Array)
    rows.time = time
    this.#turned = turned
    rows.lastMet.load(state.at("lastMet"))
    rows.returns.load(state.at("returns"))
  }

  close(): void {
    this.#search?.options.policy.close?.()
  }
}
