/** Measures along the stream (method.md §9). */

/** What one segment's test gave, as sums. */
export interface Score {
  rows: number
  hits: number
  majorityHits: number
  loss: number
  /** Top-k: test users, and their Recall@k and NDCG@k summed. */
  users: number
  recall: number
  ndcg: number
  /** The same for a list of popular items. */
  popularRecall: number
  popularNdcg: number
  /** The most that Recall@k can be: min(k, relevant)/relevant. */
  recallCeiling: number
}

/** The score of no test. */
export const NOTHING: Readonly<Score> = {
  rows: 0,
  hits: 0,
  majorityHits: 0,
  loss: 0,
  users: 0,
  recall: 0,
  ndcg: 0,
  popularRecall: 0,
  popularNdcg: 0,
  recallCeiling: 0,
}

/** null where nothing was tested. */
export interface Quality {
  accuracy: number | null
  loss: number | null
  majorityAccuracy: number | null
  recall: number | null
  ndcg: number | null
  popularRecall: number | null
  popularNdcg: number | null
  recallCeiling: number | null
}

/** Rating tasks: means over rows. Top-k: means over users, then over segments with a test user. */
export function quality(scores: readonly Score[]): Quality {
  let [rows, hits, majorityHits, loss, ranked, recall, ndcg] = [0, 0, 0, 0, 0, 0, 0]
  let [popularRecall, popularNdcg, recallCeiling] = [0, 0, 0]
  for (const score of scores) {
    rows += score.rows
    hits += score.hits
    majorityHits += score.majorityHits
    loss += score.loss
    if (score.users === 0) continue
    ranked++
    recall += score.recall / score.users
    ndcg += score.ndcg / score.users
    popularRecall += score.popularRecall / score.users
    popularNdcg += score.popularNdcg / score.users
    recallCeiling += score.recallCeiling / score.users
  }
  const mean = (sum: number, count: number) => (count === 0 ? null : sum / count)
  return {
    accuracy: mean(hits, rows),
    loss: mean(loss, rows),
    majorityAccuracy: mean(majorityHits, rows),
    recall: mean(recall, ranked),
    ndcg: mean(ndcg, ranked),
    popularRecall: mean(popularRecall, ranked),
    popularNdcg: mean(popularNdcg, ranked),
    recallCeiling: mean(recallCeiling, ranked),
  }
}

/** A running mean. */
export class Mean {
  #sum = 0
  #count = 0

  add(value: number): void {
    this.#sum += value
    this.#count++
  }

  get value(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count
  }
}
