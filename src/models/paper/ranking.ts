/**
 * Full ranking over many items. The item half of the head is computed once per model version; a user then costs one
 * pass over the halves. Exact: the logits are those of `Model.predict`, to float32 rounding.
 */

import type { Address } from "../../kernels/kernels.ts"
import { log } from "../../kernels/math.ts"
import { findDistinct } from "./distinct.ts"
import type { Candidates } from "./head.ts"
import type { Model } from "./model.ts"

/** Item halves of one model version in working memory; release it before the model trains again. */
export class Ranking {
  readonly items: Int32Array
  readonly #model: Model
  readonly #mark: Address
  readonly #candidates: Candidates

  /** `items`: distinct ids, the candidates; one that has not been met gets its row. */
  constructor(model: Model, items: ArrayLike<number>) {
    const k = model.kernels
    for (let i = 0; i < items.length; i++) model.inputs.item.table.ensure(items[i])
    this.#model = model
    this.#mark = k.mark()
    const rows = items.length
    const distinct = findDistinct(items, model.inputs.item.table)
    this.items = distinct.ids
    // The place of the result is allocated first, so that what is only needed to make it can be given back.
    const out = k.allocate(rows * model.head.halfWidth)
    const inner = k.mark()
    const placed = model.inputs.item.place(distinct)
    const vectors = model.inputs.item.forward(placed, false)
    this.#candidates = model.head.candidates({ half: model.head.half("item", vectors, rows), rows, out })
    k.release(inner)
  }

  /** The logit of the first output for one user and every candidate, in the order of `items`. The user's row is met. */
  scores(user: number): Float64Array {
    const model = this.#model
    const k = model.kernels
    const mark = k.mark()
    model.inputs.user.table.ensure(user)
    const placed = model.inputs.user.place(findDistinct([user], model.inputs.user.table))
    const half = model.head.half("user", model.inputs.user.forward(placed, false), 1)
    const logits = model.head.scores(half, this.#candidates)
    k.run()
    const { outputs } = model
    const f = k.floats
    const scores = new Float64Array(this.items.length)
    for (let i = 0; i < scores.length; i++) scores[i] = f[logits + i * outputs]
    k.release(mark)
    return scores
  }

  release(): void {
    this.#model.kernels.release(this.#mark)
  }
}

/** Positions of the `count` largest scores, best first; of equals the earlier position. −∞ is never chosen. */
export function topPositions(scores: ArrayLike<number>, count: number): number[] {
  const best: number[] = []
  // Of the last, once there are enough.
  let least = count > 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  for (let i = 0; i < scores.length; i++) {
    const score = scores[i]
    if (!(score > least)) continue
    let at = best.length < count ? best.length : count - 1
    for (; at > 0 && scores[best[at - 1]] < score; at--) best[at] = best[at - 1]
    best[at] = i
    if (best.length === count) least = scores[best[count - 1]]
  }
  return best
}

/** Recall@k and NDCG@k of one list (method.md §9): hits / relevant, and the standard ideal min(|relevant|, k). */
export function rankingQuality(
  list: readonly number[],
  relevant: ReadonlySet<number>,
  k: number,
): { recall: number; ndcg: number } {
  let [hits, gain, ideal] = [0, 0, 0]
  for (let rank = 0; rank < Math.min(k, list.length); rank++) {
    if (!relevant.has(list[rank])) continue
    hits++
    gain += discount(rank)
  }
  for (let rank = 0; rank < Math.min(k, relevant.size); rank++) ideal += discount(rank)
  return { recall: relevant.size === 0 ? 0 : hits / relevant.size, ndcg: ideal === 0 ? 0 : gain / ideal }
}

const LN2 = log(2)

/** 1 / log2(rank + 2) */
function discount(rank: number): number {
  return LN2 / log(rank + 2)
}
