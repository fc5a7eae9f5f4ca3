/**
 * How the arms of a rung are judged, and what every judge needs. There are two: `RungJudge` compares the losses of
 * a row cut to each size while it is trained on; `ProbeJudge` asks the probe of the paper.
 */

import type { Counts } from "../ids/counts.ts"
import { Indicators } from "../ids/indicators.ts"
import type { ArmScores, Reason } from "../ids/size-log.ts"
import type { State } from "../kernels/state.ts"
import type { RungLosses } from "../models/calibrated/rows.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import { type Context, createContext } from "../policies/context.ts"
import type { PolicyScores, Round, SizePolicy } from "../policies/policy.ts"
import type { Preset } from "../policies/presets.ts"
import type { ItemFeatures, Segment, Side } from "../types.ts"
import type { Preparation } from "./learner.ts"

export interface SearchOptions {
  policy: SizePolicy
  preset: Preset
  initial: "warm" | "cold"
  /** Loss that one more number for everybody must save per event; a policy that steers it has its own. */
  price?: number
  features: ItemFeatures | undefined
}

/** The arms played in a round, and their regret. */
export type Played = Required<Pick<Preparation, "regret" | "played">>

/** Ids of one side that were decided on: how many, how many of them grew, and how many rows lost a step of their size. */
export interface Decided {
  all: number
  grown: number
  shrunk: number
}

export interface Judge {
  readonly context: Context | undefined
  /** Share of the loss that vectors save lately, where that is judged. */
  readonly vectorsSave?: number | undefined
  /** It reads the rows of the last segment when it learns, so it learns before any of them leaves. */
  readonly needsRows: boolean
  /** Step 1: the policy plays and learns the last segment. */
  learn(): Played
  /** Takes the contexts of a segment, row by row. The first `deciding` rows are those whose ids are decided on. */
  observe(segment: Segment, p: { labels: Float64Array; deciding: number }): void
  /** Steps 2 and 3: each distinct id of the deciding rows is decided once, and resized. */
  decide(): Record<Side, Decided>
  /** After all ids of the segment have their rows. */
  finish?(segment: Segment): void
  /** Trains, and judges on the way where it can. */
  train(batch: ModelBatch, train: (rungs?: RungLosses) => PassResult): PassResult
  /** What the policy thinks of an id's next rung; null at the top. */
  bounds(side: Side, id: number, seen: { frequency: number; diversity: number }): { keep: number; grow: number } | null
  forget(side: Side, ids: ReadonlySet<number>): void
  save(state: State): void
  load(state: State): void
}

/** The indicators and context vectors a policy reads; no context for one that reads none. */
export function createContexts(
  search: SearchOptions | undefined,
  counts?: Record<Side, Counts>,
): {
  context: Context | undefined
  indicators: Indicators
} {
  const kind = search?.policy.context ?? "none"
  const features = kind === "cv" ? search?.features : undefined
  const constant = search?.preset.constant ?? false
  return {
    context: kind === "none" ? undefined : createContext({ kind, constant, featureColumns: features?.columns.length }),
    indicators: new Indicators({ features, counts }),
  }
}

export function nothingPlayed(): Played {
  return { regret: { user: 0, item: 0 }, played: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } } }
}

/** Lets a policy play and learn a round, and counts its regret and the arms that grew. */
export function playRound(
  policy: SizePolicy,
  side: Side,
  round: Round,
): { regret: number; played: { all: number; grown: number } } {
  const arms = policy.learn(side, round)
  let regret = 0
  let grown = 0
  for (let l = 0; l < round.length; l++) {
    const [keep, grow] = [round.keepRewards[l], round.growRewards[l]]
    regret += Math.max(keep, grow) - (arms[l] === 1 ? grow : keep)
    grown += arms[l]
  }
  return { regret, played: { all: round.length, grown } }
}

/** Why a row grew: the measured best, or to find out. */
export function whyGrown(scores: PolicyScores | undefined): Reason {
  return scores && scores.means.grow <= scores.means.keep ? "explored" : "grown"
}

/** Scores as the size log keeps them. */
export function toArmScores(scores: PolicyScores | undefined): ArmScores | undefined {
  return scores && { keep: scores.keep, grow: scores.grow, estimate: scores.means.grow }
}
