/** The differences between the two families of models: training, judging, ranking and publishing. */

import type { State } from "../kernels/state.ts"
import type { RungLosses } from "../models/calibrated/rows.ts"
import type { ModelBatch, PassResult, SizedModel } from "../models/model.ts"
import type { Context } from "../policies/context.ts"
import type { Segment, Side } from "../types.ts"
import type { Judge, SearchOptions } from "./judge.ts"
import type { Ranker } from "./learner.ts"
import type { Limited } from "./limiter.ts"
import type { Published, SharedRegion } from "./reader.ts"
import type { RowShare } from "./row-share.ts"
import type { SizedRows } from "./sized-rows.ts"

export interface ModelFamily<M extends SizedModel = SizedModel> {
  readonly model: M
  /** The side whose changed rows a version names; readers see all rows of the other side. */
  readonly publishedSide: Side
  /** Operations of limits on rows. `searched`: whether a policy chooses their sizes. */
  limited(
    rows: SizedRows<M>,
    searched: boolean,
  ): Pick<Limited, "shrink" | "cut" | "beside" | "besideEach" | "idle" | "leaving" | "packed">
  /** Called when a segment arrives. */
  begin?(segment: Segment, rows: SizedRows<M>): void
  createJudge(rows: SizedRows<M>, search: SearchOptions, context: Context | undefined): Judge
  /** `touched` takes the ids of the published side whose rows changed. */
  train(batch: ModelBatch, p: { rungs?: RungLosses; touched?: { add(id: number): void } }): PassResult
  rank(items: ArrayLike<number>, live: boolean): Ranker
  /** Numbers a version needs of a region. */
  readonly floatsNeeded: number
  publish(changed: Int32Array, region: SharedRegion): Published
  /** Called after the decisions of a segment. */
  settle?(rows: SizedRows<M>): void
  /** What processes of a cluster exchange; undefined if the learner cannot be shared. */
  share?(rows: SizedRows<M>): RowShare | undefined
  /** Whether it uses the calling thread only. */
  alone?: boolean
  /** Merges one user's row into another's. */
  merge?(rows: SizedRows<M>, from: number, into: number): void
  forget?(side: Side, ids: ReadonlySet<number>): void
  save(state: State, rows: SizedRows<M>): void
  load(state: State, rows: SizedRows<M>): void
  close(): void
}
