/** The learners of the plain controls: no network, no sizes. */

import {
  learnPairs,
  type Pairs,
  type PlainModel,
  type PlainRanker,
  taskLoss,
  writeLogits,
} from "../models/controls/model.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import { type Segment, SIDES, type Side } from "../types.ts"
import type { Learner, LearnerStatus, Preparation, Ranker, SideStatus } from "./learner.ts"

export class ControlLearner implements Learner {
  readonly #model: PlainModel
  readonly #seen: Record<Side, Set<number>> = { user: new Set(), item: new Set() }

  constructor(model: PlainModel) {
    this.#model = model
  }

  prepare(segment: Segment): Preparation {
    for (const side of SIDES) for (const id of segment[side]) this.#seen[side].add(id)
    return { milliseconds: { policy: 0, growth: 0 } }
  }

  train(batch: ModelBatch): PassResult {
    const result = this.test(batch)
    learnPairs(this.#model, { ...pairsOf(batch), label: batch.label })
    return result
  }

  test(batch: ModelBatch): PassResult {
    const rows = batch.user.length
    const { outputs } = this.#model
    const logits = new Float64Array(rows * outputs)
    writeLogits(logits, this.#model, pairsOf(batch))
    const losses = new Float64Array(rows)
    for (let r = 0; r < rows; r++) losses[r] = taskLoss(logits.subarray(r * outputs, (r + 1) * outputs), batch.label[r])
    return { logits, losses }
  }

  /** Ranks by the first output's logit. */
  rank(items: ArrayLike<number>): Ranker {
    const item = Int32Array.from(items)
    const scores = (user: number): Float64Array => {
      const { outputs } = this.#model
      const logits = new Float64Array(item.length * outputs)
      const users = new Int32Array(item.length).fill(user)
      writeLogits(logits, this.#model, { length: item.length, user: users, item })
      return outputs === 1 ? logits : logits.filter((_, i) => i % outputs === 0)
    }
    return { items: item, scores, release: () => {} }
  }

  status(): LearnerStatus {
    const ids = this.#seen.user.size + this.#seen.item.size
    const { embeddingBytes, heldBytes } = this.#model
    const perId = ids === 0 ? 0 : embeddingBytes / 4 / ids
    const side = (name: Side): SideStatus => ({
      seen: this.#seen[name].size,
      numbers: perId * this.#seen[name].size,
      histogram: {},
      rowBytes: ids === 0 ? 0 : (heldBytes * this.#seen[name].size) / ids,
    })
    return { user: side("user"), item: side("item"), embeddingBytes, heldBytes }
  }

  close(): void {}
}

/** A ranker of the top-k task; it learns the positives and knows no losses. */
export class ControlRanking implements Learner {
  readonly #ranker: PlainRanker
  readonly #seen: Record<Side, Set<number>> = { user: new Set(), item: new Set() }

  constructor(ranker: PlainRanker) {
    this.#ranker = ranker
  }

  prepare(segment: Segment): Preparation {
    for (const side of SIDES) for (const id of segment[side]) this.#seen[side].add(id)
    return { milliseconds: { policy: 0, growth: 0 } }
  }

  train(batch: ModelBatch): PassResult {
    const rows = Int32Array.from(batch.label, (_, r) => r).filter((r) => batch.label[r] === 1)
    const user = rows.map((r) => batch.user[r])
    const item = rows.map((r) => batch.item[r])
    this.unobserve()
    this.#ranker.learn({ length: rows.length, user, item })
    return { logits: new Float64Array(0), losses: new Float64Array(0) }
  }

  test(): PassResult {
    return { logits: new Float64Array(0), losses: new Float64Array(0) }
  }

  rank(items: ArrayLike<number>): Ranker {
    const ids = Int32Array.from(items)
    const all = new Float64Array(ids.reduce((most, id) => Math.max(most, id + 1), 0))
    const scores = (user: number): Float64Array => {
      this.#ranker.scores(all, user)
      return Float64Array.from(ids, (id) => all[id])
    }
    return { items: ids, scores, release: () => {} }
  }

  observe(user: number, item: number): void {
    this.#ranker.observe?.(user, item)
  }

  unobserve(): void {
    this.#ranker.unobserve?.()
  }

  status(): LearnerStatus {
    const { heldBytes } = this.#ranker
    const ids = this.#seen.user.size + this.#seen.item.size
    const side = (name: Side): SideStatus => {
      const seen = this.#seen[name].size
      return { seen, numbers: 0, histogram: {}, rowBytes: ids === 0 ? 0 : (heldBytes * seen) / ids }
    }
    return { user: side("user"), item: side("item"), embeddingBytes: 0, heldBytes }
  }

  close(): void {}
}

function pairsOf(batch: ModelBatch): Pairs {
  return { length: batch.user.length, user: Int32Array.from(batch.user), item: Int32Array.from(batch.item) }
}
