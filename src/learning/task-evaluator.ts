/** A task as the loop sees it: which labels, what to train on, how to test. Rating prediction here, ranking in topk-evaluator.ts. */

import type { State } from "../kernels/state.ts"
import { MajorityClass } from "../models/controls/majority.ts"
import type { ModelBatch } from "../models/model.ts"
import { binaryLabel, classLabel } from "../stream/labels.ts"
import type { Segment, Side } from "../types.ts"
import type { Learner } from "./learner.ts"
import { NOTHING, type Score } from "./metrics.ts"
import type { UserScores } from "./user-scores.ts"

export interface TaskEvaluator {
  /** One label per row, as the probe and the training see it. */
  labels(segment: Segment): Float64Array
  /** What the learner trains on for these rows. */
  training(rows: ModelBatch): ModelBatch
  /** Tests the learner on rows it has not trained on. */
  test(learner: Learner, rows: ModelBatch): Score
  /** Instead of `test` where no score is wanted: updates what `test` would. Only where a test has no effect on learning. */
  skip?(rows: ModelBatch): void
  /** Bytes kept of ids, where any are. */
  readonly bytes?: number
  /** Drops the state of ids that leave. */
  forget(side: Side, ids: ReadonlySet<number>): void
  /** What is kept per user of the items it has met, and which items there are; for tasks that need it. */
  readonly history?: EvaluatorHistory
  save(state: State): void
  load(state: State): void
}

export interface EvaluatorHistory {
  met(user: number): readonly number[]
  put(user: number, items: readonly number[]): void
  /** Drops a user, or leaves an item out of what is drawn and ranked. */
  drop(side: Side, id: number): void
  /** An item there is. */
  meet(item: number): void
}

/** Binary (like or not) and multiclass (five classes) rating prediction. */
export class RatingEvaluator implements TaskEvaluator {
  readonly #outputs: number
  readonly #label: (rating: number) => number
  readonly #majority: MajorityClass

  readonly #users: UserScores | undefined

  constructor(options: { task: "binary" | "multiclass"; likeThreshold: number; userScores?: UserScores | undefined }) {
    const { task, likeThreshold, userScores } = options
    this.#users = userScores
    this.#outputs = task === "multiclass" ? 5 : 1
    this.#label = task === "multiclass" ? classLabel : (rating) => binaryLabel(rating, likeThreshold)
    this.#majority = new MajorityClass(task === "multiclass" ? 5 : 2)
  }

  labels(segment: Segment): Float64Array {
    const labels = new Float64Array(segment.length)
    for (let r = 0; r < labels.length; r++) labels[r] = this.#label(segment.rating[r])
    return labels
  }

  training(rows: ModelBatch): ModelBatch {
    this.#majority.learn(rows.label)
    return rows
  }

  /** Nothing is kept per id. */
  forget(): void {}

  save(state: State): void {
    this.#majority.save(state)
  }

  load(state: State): void {
    this.#majority.load(state)
  }

  test(learner: Learner, rows: ModelBatch): Score {
    const { logits, losses } = learner.test(rows)
    const majority = this.#majority.predict()
    const score = { ...NOTHING, rows: rows.label.length }
    for (let r = 0; r < score.rows; r++) {
      const hit = predicted(logits, r, this.#outputs) === rows.label[r] ? 1 : 0
      score.hits += hit
      this.#users?.add(rows.user[r], hit, losses[r])
      if (majority === rows.label[r]) score.majorityHits++
      score.loss += losses[r]
    }
    return score
  }
}

/** The label the logits say: the sign for one output, the largest for several. */
function predicted(logits: Float64Array, row: number, outputs: number): number {
  if (outputs === 1) return logits[row] > 0 ? 1 : 0
  let best = 0
  for (let o = 1; o < outputs; o++) if (logits[row * outputs + o] > logits[row * outputs + best]) best = o
  return best
}
