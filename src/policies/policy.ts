/**
 * What every size policy looks like to the loop. Once per segment a policy learns from a round of probed interactions,
 * then decides, id by id, whether to keep or grow. Each side (users, items) is learned on its own.
 */

import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { State } from "../kernels/state.ts"
import type { Arm, Side } from "../types.ts"

/** The probed interactions of one side of D_{t−1}, in stream order; ids at the top size are not among them. */
export interface Round {
  length: number
  ids: Int32Array
  /** Step of the id's size. */
  steps: Uint8Array
  /** FRE as of the interaction. */
  frequencies: Float64Array
  /** Contexts as of the interaction [length×dimension]; empty for a policy without context. */
  contexts: Float64Array
  /** Losses after tuning, at the size and one size up. */
  keepLosses: Float64Array
  growLosses: Float64Array
  /** What each arm earns. */
  keepRewards: Float64Array
  growRewards: Float64Array
}

/** Ids to decide on, each once. */
export interface Choices {
  length: number
  ids: Int32Array
  steps: Uint8Array
  frequencies: Float64Array
  /** [length×dimension] */
  contexts: Float64Array
  /** Events per turn to be expected of the id; only policies that release ask. */
  rates?: Float64Array
}

/** Upper confidence bounds of both arms, and the estimates without the confidence term. */
export interface PolicyScores {
  keep: number
  grow: number
  means: { keep: number; grow: number }
}

/** The rows of a side, for a policy that sets sizes by itself. */
export interface ArrangedRows {
  /** No id from here on has a row. */
  readonly reach: number
  /** What all rows take, and one of each step. */
  readonly bytes: number
  readonly costs: readonly number[]
  /** −1 without a row. */
  step(id: number): number
  /** How often an id was met. */
  frequency(id: number): number
  /** Σ of squares of the numbers of its last rung. */
  energy(id: number): number
  resize(id: number, step: number): void
}

export interface SizePolicy {
  /** Which context it reads. */
  readonly context: "none" | "fre" | "cv"
  /** The first segment (from 1) it decides at. */
  readonly firstSegment: 1 | 2
  /** Plays and learns a round; returns the arms played. */
  learn(side: Side, round: Round): Uint8Array
  /** Learns a round that is not played: of rungs below the last one held. */
  learnUnplayed?(side: Side, round: Round): void
  /** Decides without learning: 1 grows. */
  decide(side: Side, choices: Choices): Uint8Array
  /** Releases what the policy allocated. */
  close?(): void
  /** A policy that takes numbers back: 1 gives up the last rung held. It may also grow an id several sizes at a time. */
  release?(side: Side, choices: Choices): Uint8Array
  /** Sets sizes of any ids once those of a segment have rows. `events`: so far. */
  arrange?(rows: Record<Side, ArrangedRows>, events: number): void
  /** Called after each round with the time passed, in turns, and the events on which both sides held each rung. */
  advanceTime?(p: { turns: number; events: number; held: readonly number[] }): void
  /** What one more number for everybody must save per event, in loss; for policies that release. */
  price?: number
  /** Mean loss of a recent event. */
  readonly loss?: number
  /** The price without a budget; a budget may ask for more. */
  readonly leastPrice?: number
  /** Events per turn everybody is expected to have at least. */
  readonly leastRate?: number
  /** The bounds of both arms for a context, if the policy has bounds. */
  scores?(side: Side, context: Float64Array, at?: { step: number; rate: number }): PolicyScores
  /** What it has learned, where it learns. */
  save?(state: State): void
  load?(state: State): void
  /** What it has learned since recording began: written here, added up from many processes. */
  record?(): void
  writeEvidence?(out: Packer): void
  readEvidence?(firstSegment: Unpacker): () => void
  /** All it has learned, for a process that knows nothing yet. */
  writeAll?(out: Packer): void
  readAll?(firstSegment: Unpacker): () => void
  /** Drops the state of ids that leave. */
  forget?(side: Side, ids: Iterable<number>): void
}

/** The arm every interaction of a round is answered with. */
export function playAll(length: number, arm: Arm): Uint8Array {
  return new Uint8Array(length).fill(arm)
}
