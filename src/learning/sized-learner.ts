/**
 * The learner of every method that gives ids vectors: a model of one of the two families, and for methods that search
 * a size policy with its judge (method.md §3). The contexts of a segment are taken once, when it arrives; they serve
 * the decisions on its training part now, and the policy's round at the next segment.
 *
 * Live, on top: the tables stay within limits, ids can be forgotten, versions are published, and all of it is saved
 * and loaded.
 */

import type { Limits } from "../ids/idle.ts"
import type { State } from "../kernels/state.ts"
import type { ModelBatch, PassResult, SizedModel } from "../models/model.ts"
import { type Outlook, outlookOf } from "../policies/outlook.ts"
import type { Segment, Side } from "../types.ts"
import type { ModelFamily } from "./family.ts"
import { createContexts, type Judge, type SearchOptions } from "./judge.ts"
import {
  type Learner,
  type LearnerExplanation,
  type LearnerStatus,
  type LiveLearner,
  type Preparation,
  type Ranker,
  toSteps,
} from "./learner.ts"
import type { Published, SharedRegion } from "./reader.ts"
import type { RowShare } from "./row-share.ts"
import { SizedRows, smallCounts } from "./sized-rows.ts"

export class SizedLearner<M extends SizedModel = SizedModel> implements Learner, LiveLearner {
  readonly model: M
  readonly live: LiveLearner | undefined
  readonly #family: ModelFamily<M>
  readonly #rows: SizedRows<M>
  readonly #search: SearchOptions | undefined
  readonly #judge: Judge | undefined

  constructor(family: ModelFamily<M>, { search, live = false }: { search?: SearchOptions; live?: boolean } = {}) {
    this.model = family.model
    this.#family = family
    this.#search = search
    if (live) this.live = this
    const { context, indicators } = createContexts(search, smallCounts(family.model.tables))
    const forget = (side: Side, ids: ReadonlySet<number>) => this.forget(side, ids)
    this.#rows = new SizedRows(family, { indicators, live, searched: search !== undefined, forget })
    if (search) this.#judge = family.createJudge(this.#rows, search, context)
  }

  prepare(segment: Segment, labels: Float64Array, deciding: number): Preparation {
    const rows = this.#rows
    const judge = this.#judge
    rows.begin(segment)
    this.#family.begin?.(segment, rows)
    const start = performance.now()
    const early = judge?.needsRows ? judge.learn() : undefined
    const gone = rows.limiter.makeRoom(segment, rows.segments)
    if (!judge) {
      rows.meet(segment)
      return { ...gone, milliseconds: { policy: 0, growth: 0 } }
    }
    const learned = early ?? judge.learn()
    rows.meet({ user: segment.user.subarray(0, deciding), item: segment.item.subarray(0, deciding) })
    judge.observe(segment, { labels, deciding })
    const observed = performance.now()
    const decided = judge.decide()
    this.#family.settle?.(rows)
    // Ids first met in a test row are seen ids too, also where no test predicts them (top-k: cold items).
    rows.meetAll(segment)
    judge.finish?.(segment)
    const shrunk = (side: Side) => (gone?.shrunk[side] ?? 0) + decided[side].shrunk
    return {
      ...learned,
      decided: { user: counts(decided.user), item: counts(decided.item) },
      shrunk: { user: shrunk("user"), item: shrunk("item") },
      ...(gone ? { left: gone.left } : {}),
      milliseconds: { policy: observed - start, growth: performance.now() - observed },
    }
  }

  train(batch: ModelBatch): PassResult {
    this.#rows.share?.noteTraining(batch)
    const touched = this.live ? { touched: this.#rows.changed } : {}
    if (!this.#judge) return this.#family.train(batch, touched)
    return this.#judge.train(batch, (rungs) => this.#family.train(batch, { ...touched, ...(rungs && { rungs }) }))
  }

  test(batch: ModelBatch): PassResult {
    return this.model.predict(batch)
  }

  rank(items: ArrayLike<number>): Ranker {
    return this.#family.rank(items, this.live !== undefined)
  }

  observe(user: number, item: number): void {
    this.model.observe?.(user, item)
  }

  unobserve(): void {
    this.model.unobserve?.()
  }

  status(): LearnerStatus {
    const vectorsSave = this.#judge?.vectorsSave
    return { ...this.#rows.status(), ...(vectorsSave !== undefined && { vectorsSave }) }
  }

  outlook(): Outlook | undefined {
    if (!this.#search || !this.#judge?.context) return undefined
    const { policy, features } = this.#search
    return outlookOf(policy, this.#judge.context, Math.sqrt(features?.columns.length ?? 0))
  }

  share(): RowShare | undefined {
    this.#rows.share ??= this.#family.share?.(this.#rows)
    return this.#rows.share
  }

  set alone(alone: boolean) {
    this.#family.alone = alone
  }

  limit(limits: Limits, events: number): void {
    this.#rows.limiter.set(limits, events)
  }

  advanceTime(milliseconds: number): Pick<Preparation, "shrunk" | "left"> | undefined {
    this.#rows.clock = milliseconds
    return this.#rows.limiter.advanceTime(milliseconds, this.#rows.segments)
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.#rows.forget(side, ids)
    this.#judge?.forget(side, ids)
    this.#family.forget?.(side, ids)
  }

  merge(from: number, into: number): void {
    this.#family.merge?.(this.#rows, from, into)
  }

  changeFeatures(item: number): void {
    this.#rows.indicators.changeFeatures(item)
  }

  get floatsNeeded(): number {
    return this.#family.floatsNeeded
  }

  publish(region: SharedRegion): Published {
    return this.#family.publish(this.#rows.changed.take(), region)
  }

  explain(side: Side, id: number): LearnerExplanation | undefined {
    const table = this.model.tables[side]
    if (!table.has(id)) return undefined
    const { indicators, sizeLog } = this.#rows
    const frequency = indicators.frequency(side, id)
    const diversity = this.#search?.policy.context === "cv" ? indicators.diversity(side, id) : null
    const { sizes } = this.model
    return {
      size: sizes[table.step(id)],
      bytes: table.rowBytes(id),
      history: toSteps(sizeLog?.of(side, id) ?? [], sizes),
      indicators: { frequency, diversity },
      bounds: this.#judge?.bounds(side, id, { frequency, diversity: diversity ?? 0 }) ?? null,
    }
  }

  save(state: State): void {
    this.#rows.save(state)
    this.#family.save(state, this.#rows)
    this.#search?.policy.save?.(state.at("policy"))
    this.#judge?.save(state)
  }

  load(state: State): void {
    this.#rows.load(state)
    this.#family.load(state, this.#rows)
    this.#search?.policy.load?.(state.at("policy"))
    this.#judge?.load(state)
    this.#rows.share?.restart()
    this.#rows.changeAll()
  }

  close(): void {
    this.#family.close()
  }
}

function counts({ all, grown }: { all: number; grown: number }): { all: number; grown: number } {
  return { all, grown }
}
