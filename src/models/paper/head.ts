/**
 * What turns a user vector and an item vector into logits. Training works on a whole batch with batch statistics;
 * inference is cut in two, `half` (what one side contributes, once per distinct id) and `logits` (per pair), so that a
 * ranking computes the item half once per model version.
 */

import type { Address, Kernels, Pairs } from "../../kernels/kernels.ts"
import type { HeadKind, Side } from "../../types.ts"

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
  /**
   * Queues the way back; returns the gradients of the vectors, summed per distinct id. `queueRest`, if there is one,
   * queues what only the optimizer step needs: it can wait until the way back is queued to its end.
   */
  backward(batch: HeadBatch, dLogits: Address): { dUser: Address; dItem: Address; queueRest?: () => void }
  /** Columns of a half. */
  readonly halfWidth: number
  /** Queues one side's half of `rows` vectors [rows×halfWidth], with running statistics. */
  half(side: Side, vectors: Address, rows: number): Address
  /** Queues the logits of pairs of halves; keeps what `gradient` needs when asked. */
  logits(pairs: Pairs, keep?: "keep"): { logits: Address; kept: Address }
  /** Runs what is queued; makes items' halves ready, at `out` [rows×halfWidth], for scoring one user against all of them. */
  candidates(items: { half: Address; rows: number; out: Address }): Candidates
  /** Queues the logits [rows×outputs] of one user's half with every candidate. */
  scores(user: Address, candidates: Candidates): Address
  /** Queues, for chosen pairs, the gradient at one side's vector [rows×width] of a loss with the given dLogits. */
  gradient(request: HalfGradient): Address
}

/** Items of one model version, ready to be ranked. */
export interface Candidates {
  /** [rows×halfWidth]: the halves, or powers of them where the head found a faster form that is safe for these. */
  items: Address
  rows: number
  powers: boolean
}

/** Candidates as they are: halves. */
export function keepHalves(
  kernels: Kernels,
  p: { half: Address; count: number; rows: number; out: Address },
): Candidates {
  kernels.run()
  kernels.floats.copyWithin(p.out, p.half, p.half + p.count)
  return { items: p.out, rows: p.rows, powers: false }
}

/** One user's half with every candidate's, as pairs. */
export function pairsOf(kernels: Kernels, p: { user: Address; candidates: Candidates; columns: number }): Pairs {
  const { items: item, rows } = p.candidates
  const userIndex = kernels.allocate(rows)
  const itemIndex = kernels.allocate(rows)
  kernels.ints.fill(0, userIndex, userIndex + rows)
  for (let r = 0; r < rows; r++) kernels.ints[itemIndex + r] = r
  return { user: p.user, item, userIndex, itemIndex, pairs: rows, columns: p.columns }
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
