/**
 * What turns a user vector and an item vector into logits. Training works on a whole batch with batch statistics;
 * inference is cut in two, `half` (what one side contributes, once per distinct id) and `logits` (per pair), so that a
 * ranking computes the item half once per model version.
 */

import type { Address, Pairs } from "../kernels/kernels.ts"
import type { HeadKind, Side } from "../types.ts"

/** A training batch on its way through a head: vectors of distinct ids and the pairs between them. */
export interface HeadBatch extends Pairs {
  users: number
  items: number
  /** How often each distinct id occurs. */
  userWeights: Address
  itemWeights: Address
  /** What the forward pass keeps for the backward pass. */
  kept: Address[]
}

export interface Head {
  readonly kind: HeadKind
  readonly outputs: number
  /** Queues logits [pairs×outputs] with batch statistics. */
  forward(batch: HeadBatch): Address
  /** Queues the way back; returns the gradients of the vectors, summed per distinct id. */
  backward(batch: HeadBatch, dLogits: Address): { dUser: Address; dItem: Address }
  /** Columns of a half. */
  readonly halfWidth: number
  /** Queues one side's half of `rows` vectors [rows×halfWidth], with running statistics. */
  half(side: Side, vectors: Address, rows: number): Address
  /** Queues the logits of pairs of halves; keeps what `gradient` needs when asked. */
  logits(pairs: Pairs, keep?: "keep"): { logits: Address; kept: Address }
  /**
   * For ranking many items with one user: what is kept per id [rows×rankWidth], made from its half, and the logits from
   * that. The same numbers as `logits` but for the last bits, and faster. Every pair's user is the first one.
   */
  readonly rankWidth: number
  rankHalf(side: Side, vectors: Address, rows: number): Address
  rank(pairs: Pairs): Address
  /** Queues, for chosen pairs, the gradient at one side's vector [rows×width] of a loss with the given dLogits. */
  gradient(request: HalfGradient): Address
}

export interface HalfGradient {
  side: Side
  pairs: Pairs
  kept: Address
  dLogits: Address
  /** Which pairs: ints. */
  rowIndex: Address
  rows: number
}
