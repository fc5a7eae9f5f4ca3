/**
 * The top-k task (method.md §2, §9). Every interaction is a positive; training adds sampled negatives. The test ranks
 * all items seen so far for each test user, the user's history masked; a test item never seen before is a miss. The
 * score of a list of the items met by most users is reported beside it.
 * Live (`likeThreshold`, `testUsers`): a rating at or below the threshold is a negative. Ranking everything for everyone
 * would take longer than learning, so only the first few users of a segment are tested, and only one segment in as many
 * as there are items / 500; the others report no test users.
 */

import { History } from "../ids/history.ts"
import type { State } from "../kernels/state.ts"
import { SEQUENCE_PASSES } from "../models/calibrated/sequence.ts"
import type { ModelBatch } from "../models/model.ts"
import { rankingQuality } from "../models/paper/ranking.ts"
import { binaryLabel } from "../stream/labels.ts"
import type { Segment, Side } from "../types.ts"
import type { Learner } from "./learner.ts"
import { NOTHING, type Score } from "./metrics.ts"
import { NegativeMixture } from "./negative-mixture.ts"
import { NegativeSampler } from "./negative-sampler.ts"
import { bestUnmet } from "./ranked.ts"
import { SegmentMemory } from "./segment-memory.ts"
import type { EvaluatorHistory, TaskEvaluator } from "./task-evaluator.ts"
import type { UserScores } from "./user-scores.ts"

export class TopkEvaluator implements TaskEvaluator {
  readonly #k: number
  readonly #negatives: number
  readonly #likeThreshold: number | undefined
  readonly #testUsers: number
  readonly #users: UserScores | undefined
  /** Segments since the last tested one. */
  #untested = 0
  readonly #history = new History()
  readonly #sampler: NegativeSampler | NegativeMixture
  readonly #memory = new SegmentMemory()

  constructor(options: {
    k: number
    negatives: number
    seed: number
    /** Negatives of the calibrated recipe, with their chances, drawn for each pass. Default: uniform ones. */
    mixture?: boolean
    /** Default: every interaction is a positive. */
    likeThreshold?: number | undefined
    /** Users tested per segment. Default: all. */
    testUsers?: number | undefined
    userScores?: UserScores | undefined
  }) {
    this.#users = options.userScores
    this.#k = options.k
    this.#likeThreshold = options.likeThreshold
    this.#testUsers = options.testUsers ?? Number.POSITIVE_INFINITY
    this.#negatives = options.mixture ? SEQUENCE_PASSES * options.negatives : options.negatives
    this.#sampler = options.mixture ? new NegativeMixture(options.seed) : new NegativeSampler(options.seed)
  }

  labels(segment: Segment): Float64Array {
    const labels = new Float64Array(segment.length).fill(1)
    if (this.#likeThreshold !== undefined)
      for (let r = 0; r < labels.length; r++) labels[r] = binaryLabel(segment.rating[r], this.#likeThreshold)
    return labels
  }

  /** Each positive followed by its negatives, drawn from what is not in the history, these rows included. */
  training(rows: ModelBatch): ModelBatch {
    this.#history.add(rows.user, rows.item)
    const mixture = this.#sampler instanceof NegativeMixture ? this.#sampler : undefined
    if (mixture) for (let r = 0; r < rows.user.length; r++) if (rows.label[r] === 1) mixture.add(rows.item[r])
    const seen = this.#history.seen.length
    const most = rows.user.length * (1 + this.#negatives)
    const memory = this.#memory
    memory.begin()
    const [user, item, label] = [memory.ints(most), memory.ints(most), memory.floats(most)]
    const logChance = memory.floats(mixture ? most : 0)
    const weight = memory.floats(rows.weight ? most : 0)
    let at = 0
    for (let r = 0; r < rows.user.length; r++) {
      const from = at
      if (rows.weight) weight[at] = rows.weight[r]
      user[at] = rows.user[r]
      item[at] = rows.item[r]
      label[at++] = rows.label[r]
      if (rows.label[r] === 0) {
        if (mixture) logChance[from] = Number.NaN
        continue
      }
      const out = { items: item, at, count: this.#negatives }
      const drawn =
        mixture && rows.repeats
          ? mixture.drawOthers(this.#history, rows.item[r], out)
          : this.#sampler.draw(this.#history, rows.user[r], out)
      user.fill(rows.user[r], at, at + drawn)
      at += drawn
      if (mixture) for (let b = from; b < at; b++) logChance[b] = mixture.logChance(item[b], seen)
    }
    const batch = {
      ...{ user: user.subarray(0, at), item: item.subarray(0, at), label: label.subarray(0, at) },
      ...(rows.weight && { weight: weight.subarray(0, at) }),
      ...(rows.repeats && { repeats: true }),
    }
    return mixture ? { ...batch, logChance: logChance.subarray(0, at) } : batch
  }

  test(learner: Learner, rows: ModelBatch): Score {
    const relevant = new Map<number, Set<number>>()
    const due = this.#isDue()
    for (let r = 0; due && r < rows.user.length; r++) {
      if (rows.label[r] === 0 || this.#history.has(rows.user[r], rows.item[r])) continue
      if (relevant.size >= this.#testUsers && !relevant.has(rows.user[r])) continue
      const items = relevant.get(rows.user[r]) ?? new Set<number>()
      relevant.set(rows.user[r], items.add(rows.item[r]))
    }
    const score = { ...NOTHING, rows: rows.user.length, users: relevant.size }
    if (relevant.size > 0) {
      const ranking = learner.rank(this.#history.seen)
      const popular = this.#history.byPopularity()
      for (const [user, items] of relevant) {
        const list = bestUnmet(ranking, { history: this.#history, user, k: this.#k })
        const { recall, ndcg } = rankingQuality(list, items, this.#k)
        score.recall += recall
        score.ndcg += ndcg
        this.#users?.add(user, recall, ndcg)
        const everybody = rankingQuality(this.#firstUnmet(popular, user), items, this.#k)
        score.popularRecall += everybody.recall
        score.popularNdcg += everybody.ndcg
        score.recallCeiling += Math.min(this.#k, items.size) / items.size
      }
      ranking.release()
    }
    this.#history.add(rows.user, rows.item)
    return score
  }

  /** The first k of a list that a user has not met. */
  #firstUnmet(list: ArrayLike<number>, user: number): number[] {
    const found: number[] = []
    for (let i = 0; i < list.length && found.length < this.#k; i++)
      if (!this.#history.has(user, list[i])) found.push(list[i])
    return found
  }

  skip(rows: ModelBatch): void {
    this.#isDue()
    this.#history.add(rows.user, rows.item)
  }

  #isDue(): boolean {
    const pause = this.#testUsers === Number.POSITIVE_INFINITY ? 1 : Math.ceil(this.#history.seen.length / 500)
    this.#untested++
    if (this.#untested < pause) return false
    this.#untested = 0
    return true
  }

  readonly history: EvaluatorHistory = {
    met: (user) => [...this.#history.of(user)],
    put: (user, items) => this.#history.put(user, items),
    drop: (side, id) => {
      if (side === "user") return this.#history.forget("user", new Set([id]))
      this.#history.leaveOut(id)
      if (this.#sampler instanceof NegativeMixture) this.#sampler.forget(new Set([id]))
    },
    meet: (item) => this.#history.meet(item),
  }

  get bytes(): number {
    return this.#history.bytes
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.#history.forget(side, ids)
    if (side === "item" && this.#sampler instanceof NegativeMixture) this.#sampler.forget(ids)
  }

  save(state: State): void {
    state.set("untested", this.#untested)
    this.#history.save(state.at("history"))
    this.#sampler.save(state.at("sampler"))
  }

  load(state: State): void {
    this.#untested = state.get<number>("untested")
    this.#history.load(state.at("history"))
    this.#sampler.load(state.at("sampler"))
  }
}
