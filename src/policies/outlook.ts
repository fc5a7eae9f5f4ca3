/** What a policy thinks: the upper confidence bounds of both arms over a grid of contexts, frequency × diversity. */

import type { Side } from "../types.ts"
import type { Context } from "./context.ts"
import type { SizePolicy } from "./policy.ts"

/** Bounds of both arms, diversity by diversity, each over all frequencies. */
export interface Bounds {
  keep: number[]
  grow: number[]
}

export interface Outlook extends Record<Side, Bounds> {
  frequencies: number[]
  /** Diversity as indicators have it; a single 0 for a policy that reads the frequency alone. */
  diversities: number[]
}

const FREQUENCIES = [1, 3, 10, 30, 100, 300, 1000, 3000]
/** As shares of the largest distance there can be: what is beyond half of it is rare. */
const DIVERSITIES = [0, 0.1, 0.2, 0.3, 0.4, 0.5]

/** Undefined for a policy without bounds. `largest`: the largest diversity there can be. */
export function outlookOf(policy: SizePolicy, context: Context, largest: number): Outlook | undefined {
  const { scores } = policy
  if (!scores) return undefined
  const diversities = policy.context === "cv" ? DIVERSITIES.map((share) => share * largest) : [0]
  const vector = new Float64Array(context.dimension)
  const bounds = (side: Side): Bounds => {
    const all: Bounds = { keep: [], grow: [] }
    for (const diversity of diversities)
      for (const frequency of FREQUENCIES) {
        context.write(vector, 0, frequency, diversity)
        const { keep, grow } = scores.call(policy, side, vector)
        all.keep.push(keep)
        all.grow.push(grow)
      }
    return all
  }
  return { frequencies: [...FREQUENCIES], diversities, user: bounds("user"), item: bounds("item") }
}
