/** The learner of the calibrated recipe: a factor model learned event by event, and for methods that search a size policy. */

import type { Limits } from "../ids/idle.ts"
import type { State } from "../kernels/state.ts"
import { Frame, turnFrame } from "../models/calibrated/frame.ts"
import type { RowModel } from "../models/calibrated/rows.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import { Esapn } from "../policies/esapn.ts"
import type { Outlook } from "../policies/outlook.ts"
import type { Segment, Side } from "../types.ts"
import { FactorRows, SEGMENT, SIDES } from "./factor-rows.ts"
import { FactorSearch } from "./factor-search.ts"
import { FactorShare } from "./factor-share.ts"
import { saveJudged } from "./judged-rows.ts"
import {
  type Learner,
  type LearnerExplanation,
  type LearnerStatus,
  type LiveLearner,
  type Preparation,
  type Ranker,
  toSteps,
} from "./learner.ts"
import type { LiveRun } from "./options.ts"
import type { Published } from "./reader.ts"
import { createContexts, type SearchOptions } from "./round.ts"

/** The frame is turned after so much time; a frame wider than 64 numbers, which costs more, less often. */
const TURN = 20

export class FactorLearner implements Learner, LiveLearner {
  readonly model: RowModel
  readonly live: LiveLearner | undefined
  readonly #rows: FactorRows
  readonly #search: FactorSearch | undefined
  #share: FactorShare | undefined
  readonly #frame: Frame
  #turned = 0

  constructor(model: RowModel, search?: SearchOptions, live?: LiveRun) {
    this.model = model
    this.#frame = new Frame(model.sizes[model.sizes.length - 1])
    if (live) this.live = this
    const { context, indicators } = createContexts(search)
    const forget = (side: Side, ids: ReadonlySet<number>) => this.forget(side, ids)
    this.#rows = new FactorRows(model, { indicators, live: live !== undefined, resizes: search !== undefined, forget })
    if (search) this.#search = new FactorSearch(this.#rows, search, context)
  }

  /** ESAPN keeps a network of its own and losses of every id, which do not add up. */
  share(): FactorShare | undefined {
    if (this.#search?.options.policy instanceof Esapn) return undefined
    this.#share ??= new FactorShare(this.#rows, this.#search)
    this.#rows.share = this.#share
    return this.#share
  }

  prepare(segment: Segment, _labels: Float64Array, deciding: number): Preparation {
    const rows = this.#rows
    const search = this.#search
    rows.segments++
    rows.clock = segment.time ?? 0
    rows.time += segment.length / SEGMENT
    const start = performance.now()
    const gone = rows.limiter.makeRoom(segment, rows.segments)
    if (!search) {
      rows.meet(segment)
      return { ...gone, milliseconds: { policy: 0, growth: 0 } }
    }
    const { policy } = search.options
    const preparation = {
      ...search.learn(),
      decided: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
      shrunk: gone?.shrunk ?? { user: 0, item: 0 },
      ...(gone ? { left: gone.left } : {}),
      milliseconds: { policy: 0, growth: 0 },
    }
    if (!this.#share) search.advanceTime(segment.length)
    rows.meet({ user: segment.user.subarray(0, deciding), item: segment.item.subarray(0, deciding) })
    rows.expect(segment)
    const waiting = search.observe(segment, deciding)
    const decided = performance.now()
    if (rows.segments >= policy.firstSegment)
      for (const side of SIDES) {
        const { all, grown, shrunk } = search.decide(side, waiting)
        preparation.decided[side] = { all, grown }
        preparation.shrunk[side] += shrunk
      }
    if (policy.release) {
      for (const side of SIDES) preparation.shrunk[side] += search.sweep(side)
      if (!this.#share) this.#turn()
    }
    rows.meetAll(segment)
    search.observeRest(segment, deciding)
    search.arrange(Math.round(SEGMENT * rows.time))
    rows.arrived.clear()
    search.steer(segment.length)
    search.wait(waiting)
    preparation.milliseconds = { policy: decided - start, growth: performance.now() - decided }
    return preparation
  }

  #turn(): void {
    const { time, activity, live } = this.#rows
    if (time - this.#turned < TURN * Math.max(1, this.model.width / 64)) return
    this.#turned = time
    turnFrame(this.model, (item) => activity.rate("item", item, time), this.#frame)
    if (live) this.#rows.changeAll()
  }

  train(batch: ModelBatch): PassResult {
    const touched = this.live ? this.#rows.changed : undefined
    if (this.#share) this.#noteItems(batch)
    if (!this.#search) return this.model.train(batch, undefined, touched)
    return this.#search.judge(batch, (rungs) => this.model.train(batch, rungs, touched))
  }

  /** Every item that training on a batch moves, before it does. */
  #noteItems(batch: ModelBatch): void {
    const users = new Set<number>()
    for (let r = 0; r < batch.user.length; r++) {
      this.model.meetOne("item", batch.item[r])
      this.#rows.note("item", batch.item[r])
      users.add(batch.user[r])
    }
    for (const user of users) for (const item of this.#share?.latest(user) ?? []) this.#rows.note("item", item)
  }

  test(batch: ModelBatch): PassResult {
    return this.model.predict(batch)
  }

  rank(items: readonly number[]): Ranker {
    const ids = Int32Array.from(items)
    for (const id of ids) this.model.meetOne("item", id)
    const scores = (user: number): Float64Array => {
      this.model.meetOne("user", user)
      const { outputs } = this.model
      const out = new Float64Array(ids.length * outputs)
      this.model.logitsOf(out, user, ids)
      return outputs === 1 ? out : out.filter((_, at) => at % outputs === 0)
    }
    // Experiments rank for many users at a time: unpacking all items once is faster. A live learner would hold them twice.
    const table = this.model.tables.item
    if (this.live) return { items: ids, scores, release: () => {} }
    const keep = table.open(ids)
    return { items: ids, scores, release: () => table.close({ changed: false, keep }) }
  }

  status(): LearnerStatus {
    return this.#rows.status()
  }

  outlook(): Outlook | undefined {
    return this.#search?.outlook()
  }

  close(): void {
    this.#search?.options.policy.close?.()
  }

  limit(limits: Limits, events: number): void {
    this.#rows.limit(limits, events)
  }

  advanceTime(milliseconds: number): Pick<Preparation, "shrunk" | "left"> | undefined {
    this.#rows.clock = milliseconds
    return this.#rows.limiter.advanceTime(milliseconds, this.#rows.segments)
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.#rows.forget(side, ids)
    this.#search?.forget(side, ids)
  }

  changeFeatures(item: number): void {
    this.#rows.indicators.changeFeatures(item)
  }

  /** Everything goes by message. */
  readonly floatsNeeded = 0

  /** Readers see the rows themselves; they are told which items changed, and how the frame stands. */
  publish(): Published {
    const { model } = this
    const turns = this.#frame.turns
    const tables = { user: model.tables.user.share(), item: model.tables.item.share() }
    return {
      arrays: {
        global: model.global.slice(),
        changed: this.#rows.changed.take(),
        frame: this.#frame.matrix(turns).slice(),
      },
      rows: { tables, frame: this.#frame.share(), turns },
    }
  }

  explain(side: Side, id: number): LearnerExplanation | undefined {
    const table = this.model.tables[side]
    if (!table.has(id)) return undefined
    const { indicators, sizeLog } = this.#rows
    const frequency = indicators.frequency(side, id)
    const diversity = this.#search?.options.policy.context === "cv" ? indicators.diversity(side, id) : null
    const bounds = this.#search?.bounds(side, id, { frequency, diversity: diversity ?? 0 }) ?? null
    const { sizes } = this.model
    const history = toSteps(sizeLog?.of(side, id) ?? [], sizes)
    return {
      size: sizes[table.step(id)],
      bytes: table.rowBytes(id),
      history,
      indicators: { frequency, diversity },
      bounds,
    }
  }

  save(state: State): void {
    const rows = this.#rows
    state.set("segments", rows.segments)
    state.put("time", Float64Array.of(rows.time, this.#turned))
    state.set("cursor", { ...(this.#search?.cursor ?? { user: 0, item: 0 }) })
    this.model.save(state.at("model"))
    this.#search?.options.policy.save?.(state.at("policy"))
    rows.indicators.save(state.at("indicators"))
    rows.activity.save(state.at("activity"))
    rows.returns.save(state.at("returns"))
    rows.limiter.save(state.at("idle"))
    rows.sizeLog?.save(state.at("sizeLog"))
    if (this.#search) this.#search.saveWaiting(state.at("waiting"))
    else saveJudged(state.at("waiting"), undefined)
  }

  load(state: State): void {
    const rows = this.#rows
    rows.segments = state.get<number>("segments")
    const time = state.take("time", Float64Array)
    rows.time = time[0]
    this.#turned = time[1]
    if (this.#search) Object.assign(this.#search.cursor, state.get("cursor"))
    this.model.load(state.at("model"))
    this.#search?.options.policy.load?.(state.at("policy"))
    rows.indicators.load(state.at("indicators"))
    rows.activity.load(state.at("activity"))
    rows.returns.load(state.at("returns"))
    rows.limiter.load(state.at("idle"))
    rows.sizeLog?.load(state.at("sizeLog"))
    this.#search?.loadWaiting(state.at("waiting"))
    this.#share?.restart()
    rows.changeAll()
  }
}
