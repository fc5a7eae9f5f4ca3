/**
 * Algorithm 1 as a generator: one report per segment. There is only one loop; experiments, the live engine and
 * the dashboard consume this generator or its parts.
 *
 *   for each segment D_t:  1 the policy learns on D_{t−1}   2 it decides   3 rows grow   4 the model trains   5 it is tested
 *
 * split: trains on the first 80 %, is tested on the rest. prequential: is tested on all of it, then trains on all of it.
 */

import { DessError } from "../errors.ts"
import type { State } from "../kernels/state.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import { SAVED_METHOD_NAMES } from "../policies/methods.ts"
import { cutSegments } from "../stream/segments.ts"
import type { Stream } from "../stream/stream.ts"
import { type ItemFeatures, type Segment, SIDES, type Side } from "../types.ts"
import { createLearner, createTaskEvaluator } from "./create.ts"
import type { Learner, LiveLearner, Preparation, SideStatus } from "./learner.ts"
import { BudgetExceeded } from "./limiter.ts"
import { Mean, NOTHING, quality, type Score } from "./metrics.ts"
import { runNext } from "./next.ts"
import { type FullRunOptions, type RunOptions, withDefaults } from "./options.ts"
import type { Measures, Milliseconds, RunResult, SegmentReport } from "./report.ts"
import { SharedRun } from "./shared-run.ts"
import type { TaskEvaluator } from "./task-evaluator.ts"

/** Segments left out of the mean times. */
const WARM_UP = 10

/** One method on its way along one stream. */
export class Run {
  readonly learner: Learner
  /** Live: ids that lost a step of their size at the last segment or advance of time, and those that left. */
  shrunk: Record<Side, number> = { user: 0, item: 0 }
  left: Record<Side, number[]> = { user: [], item: [] }
  readonly #options: FullRunOptions
  readonly #evaluator: TaskEvaluator
  readonly #scores: Score[] = []
  readonly #sizes = { user: new Mean(), item: new Mean() }
  readonly #bytes = { user: new Mean(), item: new Mean() }
  readonly #rowBytes = { user: new Mean(), item: new Mean() }
  readonly #times = { policy: new Mean(), growth: new Mean(), train: new Mean(), inference: new Mean() }
  readonly #regret = { user: 0, item: 0 }
  readonly #played = { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } }
  #decides = false
  #segments = 0
  #interactions = 0
  #elapsed = 0
  #last: SegmentReport | undefined
  #shared: SharedRun | undefined

  constructor(options: RunOptions = {}, features?: ItemFeatures) {
    this.#options = withDefaults(options)
    this.#evaluator = createTaskEvaluator(this.#options)
    this.learner = createLearner(this.#options, features)
  }

  /** This run as one of many, from now on. */
  get shared(): SharedRun {
    this.#shared ??= new SharedRun(this.learner, this.#evaluator)
    return this.#shared
  }

  /** Bytes of what users have met, where the task keeps it. */
  get metBytes(): number {
    return this.#evaluator.bytes ?? 0
  }

  /** Steps 1 to 5 on one segment. `unmeasured`: skips the test where it only affects the report. */
  step(segment: Segment, { unmeasured = false } = {}): SegmentReport {
    const started = performance.now()
    const labels = this.#evaluator.labels(segment)
    const split = this.#options.protocol === "split"
    const training = split ? segment.trainLength : segment.length
    const trainBatch = slice(segment, labels, 0, training)
    const testBatch = split ? slice(segment, labels, training, segment.length) : trainBatch
    this.#takeGone(undefined)
    const preparation = this.#prepare(segment, labels, training)
    this.#takeGone(preparation)
    let [train, inference] = [0, 0]
    const learn = (): PassResult => {
      const batch = this.#evaluator.training(trainBatch)
      const start = performance.now()
      const result = this.learner.train(batch)
      train = performance.now() - start
      return result
    }
    const measure = (): Score => {
      if (unmeasured && this.#evaluator.skip) {
        this.#evaluator.skip(testBatch)
        return NOTHING
      }
      const start = performance.now()
      const score = this.#evaluator.test(this.learner, testBatch)
      inference = performance.now() - start
      return score
    }
    let trained: PassResult
    let score: Score
    if (split) {
      trained = learn()
      score = measure()
    } else {
      score = measure()
      trained = learn()
    }
    if (!Number.isFinite(score.loss))
      throw new DessError(
        "NUMERIC",
        `loss of segment ${this.#segments + 1}: expected a finite number, got ${score.loss}`,
      )
    this.#segments++
    if (score !== NOTHING) this.#scores.push(score)
    if (this.#scores.length > (this.#options.live?.remembered ?? Number.POSITIVE_INFINITY)) this.#scores.shift()
    this.#interactions += segment.length
    const report = this.#report(preparation, {
      score,
      trained,
      milliseconds: { ...preparation.milliseconds, train, inference },
    })
    this.#elapsed += performance.now() - started
    return report
  }

  #prepare(segment: Segment, labels: Float64Array, training: number): Preparation {
    try {
      return this.learner.prepare(segment, labels, training)
    } catch (error) {
      // Who left for a segment that did not fit has left.
      if (error instanceof BudgetExceeded) this.#takeGone(error.gone)
      throw error
    }
  }

  /** Live: time passes without events. Ids idle for long shrink and leave, as in `step`; nothing else changes. */
  advanceTime(milliseconds: number): void {
    this.#takeGone(liveOf(this.learner).advanceTime(milliseconds))
  }

  /** Notes ids that shrank and left, and drops what the evaluator keeps of those that left. */
  #takeGone(gone: Pick<Preparation, "shrunk" | "left"> | undefined): void {
    this.shrunk = gone?.shrunk ?? { user: 0, item: 0 }
    this.left = gone?.left ?? { user: [], item: [] }
    for (const side of SIDES) if (this.left[side].length > 0) this.#evaluator.forget(side, new Set(this.left[side]))
  }

  #report(
    preparation: Preparation,
    p: { score: Score; trained: PassResult; milliseconds: Milliseconds },
  ): SegmentReport {
    const { trained, milliseconds } = p
    const status = this.learner.status()
    const meanSize = { user: meanOf(status.user), item: meanOf(status.item) }
    for (const side of SIDES) {
      this.#sizes[side].add(meanSize[side])
      this.#bytes[side].add(4 * status[side].numbers)
      this.#rowBytes[side].add(status[side].rowBytes)
      this.#regret[side] += preparation.regret?.[side] ?? 0
      this.#played[side].all += preparation.played?.[side].all ?? 0
      this.#played[side].grown += preparation.played?.[side].grown ?? 0
    }
    if (preparation.regret) this.#decides = true
    for (const phase of ["policy", "growth", "train", "inference"] as const) {
      // A stream too short to leave them out keeps them.
      if (this.#segments === WARM_UP + 1) this.#times[phase] = new Mean()
      this.#times[phase].add(milliseconds[phase])
    }
    let trainLoss = 0
    for (const loss of trained.losses) trainLoss += loss
    this.#last = {
      segment: this.#segments,
      interactions: this.#interactions,
      testRows: p.score.rows,
      testUsers: p.score.users,
      ...this.#measures([p.score]),
      trainLoss: trained.losses.length === 0 ? 0 : trainLoss / trained.losses.length,
      meanSize,
      numbers: { user: status.user.numbers, item: status.item.numbers },
      sizeHistogram: { user: status.user.histogram, item: status.item.histogram },
      embeddingBytes: status.embeddingBytes,
      rowBytes: { user: status.user.rowBytes, item: status.item.rowBytes },
      heldBytes: status.heldBytes,
      regret: this.#decides ? { ...this.#regret } : null,
      played: preparation.played ?? null,
      decided: preparation.decided ?? null,
      milliseconds,
    }
    return this.#last
  }

  /** The figures of the run's task. */
  #measures(scores: readonly Score[]): Measures {
    const { accuracy, loss, majorityAccuracy, ...ranked } = quality(scores)
    const { recall, ndcg, popularRecall, popularNdcg, recallCeiling } = ranked
    return this.#options.task === "topk"
      ? { recall, ndcg, popularRecall, popularNdcg, k: this.#options.k, recallCeiling }
      : { accuracy, loss, majorityAccuracy }
  }

  /** What has been measured so far. */
  result(): RunResult {
    const last = this.#last
    const {
      majorityAccuracy: _,
      popularRecall: __,
      popularNdcg: ___,
      k: ____,
      recallCeiling: _____,
      ...lastQuarter
    } = this.#measures(this.#scores.slice(Math.floor(0.75 * this.#scores.length)))
    const empty = { user: {}, item: {} }
    const { heldBytes, freeBytes = 0, besideBytes = 0, vectorsSave } = this.learner.status()
    const share = (side: Side) => (this.#played[side].all === 0 ? 0 : this.#played[side].grown / this.#played[side].all)
    return {
      interactions: this.#interactions,
      segments: this.#segments,
      ...this.#measures(this.#scores),
      lastQuarter,
      embeddingBytes: last?.embeddingBytes ?? 0,
      embeddingBytesOverTime: { user: this.#bytes.user.value, item: this.#bytes.item.value },
      rowBytes: last ? last.rowBytes.user + last.rowBytes.item : 0,
      rowBytesOverTime: { user: this.#rowBytes.user.value, item: this.#rowBytes.item.value },
      heldBytes: last?.heldBytes ?? 0,
      memory: { rows: heldBytes + freeBytes, indicators: besideBytes, met: this.metBytes },
      meanSize: last?.meanSize ?? { user: 0, item: 0 },
      meanSizeOverTime: { user: this.#sizes.user.value, item: this.#sizes.item.value },
      sizeHistogram: last?.sizeHistogram ?? empty,
      regret: last?.regret ?? null,
      ...(vectorsSave !== undefined && { vectorsSave }),
      growShare: this.#decides ? { user: share("user"), item: share("item") } : null,
      milliseconds: {
        policy: this.#times.policy.value,
        growth: this.#times.growth.value,
        train: this.#times.train.value,
        inference: this.#times.inference.value,
      },
      interactionsPerSecond: this.#elapsed === 0 ? 0 : (1000 * this.#interactions) / this.#elapsed,
    }
  }

  /** Moves a user's events to another user, as its latest; nothing is kept of the first. */
  merge(from: number, into: number): void {
    const { history } = this.#evaluator
    const met = history && [...new Set([...history.met(into), ...history.met(from)])]
    liveOf(this.learner).merge?.(from, into)
    this.forget("user", new Set([from]))
    if (met && met.length > 0) history.put(into, met)
  }

  /** Drops everything kept of ids. */
  forget(side: Side, ids: ReadonlySet<number>): void {
    liveOf(this.learner).forget(side, ids)
    this.#evaluator.forget(side, ids)
  }

  /** Everything that decides the reports to come; of the figures so far only the sums that reports show. */
  save(state: State): void {
    state.set("segments", this.#segments)
    state.set("interactions", this.#interactions)
    state.set("decides", this.#decides)
    state.put("regret", Float64Array.of(this.#regret.user, this.#regret.item))
    this.#evaluator.save(state.at("exam"))
    liveOf(this.learner).save(state.at("learner"))
  }

  /** Restores what a run with the same options saved. */
  load(state: State): void {
    this.#segments = state.get<number>("segments")
    this.#interactions = state.get<number>("interactions")
    this.#decides = state.get<boolean>("decides")
    const [user, item] = state.take("regret", Float64Array)
    this.#regret.user = user
    this.#regret.item = item
    this.#evaluator.load(state.at("exam"))
    liveOf(this.learner).load(state.at("learner"))
  }

  close(): void {
    this.learner.close()
  }
}

/** The mean size of a vector by the histogram; for learners without sizes the numbers per id. */
function meanOf({ seen, numbers, histogram }: SideStatus): number {
  if (seen === 0) return 0
  const sizes = Object.entries(histogram)
  return (sizes.length === 0 ? numbers : sizes.reduce((sum, [size, ids]) => sum + Number(size) * ids, 0)) / seen
}

/** What a learner offers to the live engine, or a refusal. */
export function liveOf(learner: Learner): LiveLearner {
  if (learner.live) return learner.live
  throw new DessError(
    "UNSUPPORTED",
    `method: expected one that can be saved (${SAVED_METHOD_NAMES}) opened for live use, got another`,
  )
}

/** Runs a method along a stream; yields a report per segment and returns the whole run's figures. `next(true)` ends it early. */
export async function* runStream(
  stream: Stream,
  options: RunOptions = {},
): AsyncGenerator<SegmentReport, RunResult, boolean | undefined> {
  if (options.protocol === "next") return yield* runNext(stream, options)
  const run = new Run(options, stream.features)
  try {
    const { segment: length, limit } = withDefaults(options)
    for await (const segment of cutSegments(stream.batches(), limit === undefined ? { length } : { length, limit })) {
      const stop = yield run.step(segment)
      if (stop) break
    }
    return run.result()
  } finally {
    run.close()
  }
}

function slice(segment: Segment, labels: Float64Array, from: number, to: number): ModelBatch {
  return {
    user: segment.user.subarray(from, to),
    item: segment.item.subarray(from, to),
    label: labels.subarray(from, to),
    ...(segment.weight && { weight: segment.weight.subarray(from, to) }),
    ...(segment.repeats && { repeats: true }),
  }
}
