/** Test results of a run by user, when asked for. */

export class UserScores {
  /** Tests of a user: rows, or lists. */
  counts: number[] = []
  /** Sums over them: hits and losses, or Recall@k and NDCG@k. */
  first: number[] = []
  second: number[] = []

  add(user: number, first: number, second: number): void {
    while (this.counts.length <= user) {
      this.counts.push(0)
      this.first.push(0)
      this.second.push(0)
    }
    this.counts[user]++
    this.first[user] += first
    this.second[user] += second
  }
}
