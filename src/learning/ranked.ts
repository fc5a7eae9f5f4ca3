/** The list a ranking makes for one user. */

import type { History } from "../ids/history.ts"
import { topPositions } from "../models/paper/ranking.ts"
import type { Ranker } from "./learner.ts"

/** The best k items for a user, what the user has met left out. `ranking`: of the items seen so far. */
export function bestUnmet(ranking: Ranker, p: { history: History; user: number; k: number }): number[] {
  const { history, user } = p
  const { items } = ranking
  const scores = ranking.scores(user)
  const met = history.of(user)
  let isMoved = false
  for (let m = 0; m < met.length; m++) {
    const place = history.placeOf(met[m])
    if (items[place] === met[m]) scores[place] = Number.NEGATIVE_INFINITY
    else isMoved = true
  }
  // A model may rank items in an order of its own.
  if (isMoved)
    for (let i = 0; i < items.length; i++) if (history.has(user, items[i])) scores[i] = Number.NEGATIVE_INFINITY
  return topPositions(scores, p.k).map((position) => items[position])
}
