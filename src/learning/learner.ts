/** What the loop drives: something that prepares itself for a segment, learns a batch and is tested on one. */

import type { Limits } from "../ids/idle.ts"
import type { ArmScores, Reason, SizeChange } from "../ids/size-log.ts"
import type { State } from "../kernels/state.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { Outlook } from "../policies/outlook.ts"
import type { Segment, Side } from "../types.ts"
import type { Published, SharedRegion } from "./reader.ts"
import type { RowShare } from "./row-share.ts"

export interface SideStatus {
  /** Ids seen so far, in training or test rows. */
  seen: number
  /** Numbers held for them, and how many ids hold how many. */
  numbers: number
  histogram: Record<string, number>
  /** What their rows take, with everything that stands in them. */
  rowBytes: number
}

export interface LearnerStatus {
  user: SideStatus
  item: SideStatus
  embeddingBytes: number
  /** What the rows hold. */
  heldBytes: number
  /** What rows once took and others can have. */
  freeBytes?: number
  /** What is kept of ids beside their rows. */
  besideBytes?: number
  /** Share of the loss of biases alone that vectors save lately; rating prediction with a search. */
  vectorsSave?: number
}

/** What happened before the training step of a segment. */
export interface Preparation {
  /** Regret of this segment's round; undefined for a learner that makes no decisions. */
  regret?: Record<Side, number>
  /** Arms played in the round: how many, and how many of them grew. */
  played?: Record<Side, { all: number; grown: number }>
  /** Decisions taken: how many ids, and how many of them grew. */
  decided?: Record<Side, { all: number; grown: number }>
  /** Ids that lost a step of their size, how many, and ids that left: idle for long, or to make room. */
  shrunk?: Record<Side, number>
  left?: Record<Side, number[]>
  milliseconds: { policy: number; growth: number }
}

/** A size an id got: from which segment on, when (null where that is not known), and why. */
export interface SizeStep {
  segment: number
  time: number | null
  size: number
  why: Reason
  scores: ArmScores | null
}

export function toSteps(changes: readonly SizeChange[], sizes: readonly number[]): SizeStep[] {
  return changes.map(({ segment, time, step, why, scores }) => ({
    segment,
    time: time === 0 ? null : time,
    size: sizes[step],
    why,
    scores: scores ?? null,
  }))
}

/** What a learner knows of one id. */
export interface LearnerExplanation {
  size: number
  bytes: number
  history: SizeStep[]
  indicators: { frequency: number; diversity: number | null }
  bounds: { keep: number; grow: number } | null
}

/** Scores candidates for one user at a time, in the order of `items`. */
export interface Ranker {
  readonly items: Int32Array
  /** Until it is asked for another user. */
  scores(user: number): Float64Array
  release(): void
}

export interface Learner {
  /** Steps 1 to 3 of method.md §3: learn the policy on the last segment, decide, grow. `deciding`: the rows whose ids are decided on. */
  prepare(segment: Segment, labels: Float64Array, deciding: number): Preparation
  train(batch: ModelBatch): PassResult
  test(batch: ModelBatch): PassResult
  /** Scores of candidate items, for as long as the learner does not train. */
  rank(items: ArrayLike<number>): Ranker
  /** An event that counts in `rank` at once and is learned later, where a learner can; `unobserve` takes all such back, as `train` does. */
  observe?(user: number, item: number): void
  unobserve?(): void
  status(): LearnerStatus
  /** The bounds of its size policy over a grid of contexts, where it has some. */
  outlook?(): Outlook | undefined
  close(): void
  /** What the live engine needs; experiments do without. */
  readonly live?: LiveLearner | undefined
  /** Starts sharing with other processes; undefined for learners that cannot. */
  share?(): RowShare | undefined
}

/** A learner that can be saved, loaded, published and limited, and that can forget ids. */
export interface LiveLearner {
  /** Everything that decides what happens next, to the bit. */
  save(state: State): void
  load(state: State): void
  /** From now on the tables stay within the limits. Refuses bytes that one segment of `events` could not live in. */
  limit(limits: Limits, events: number): void
  /** Time passes without events: ids idle for long shrink and leave. Nothing else changes; undefined without idle limits. */
  advanceTime(milliseconds: number): Pick<Preparation, "shrunk" | "left"> | undefined
  /** Whether it uses the calling thread only. */
  alone?: boolean
  /** Drops everything kept of ids; they start from scratch when they come back. */
  forget(side: Side, ids: ReadonlySet<number>): void
  /** Brings one user's row into another's, by how often each was met; the first is to be forgotten. */
  merge?(from: number, into: number): void
  /** An item's features have changed. */
  changeFeatures(item: number): void
  /** Numbers a version needs of a region. */
  readonly floatsNeeded: number
  /** Writes a version for readers: large parts into the region, the rest in what is returned. */
  publish(region: SharedRegion): Published
  /** Undefined for an id without a row. */
  explain(side: Side, id: number): LearnerExplanation | undefined
}
