/** What the learners that search have in common: a policy with its contexts, and a round played. */

import { Indicators } from "../ids/indicators.ts"
import { type Context, createContext } from "../policies/context.ts"
import type { Round, SizePolicy } from "../policies/policy.ts"
import type { Preset } from "../policies/presets.ts"
import type { ItemFeatures, Side } from "../types.ts"

export interface SearchOptions {
  policy: SizePolicy
  preset: Preset
  initial: "warm" | "cold"
  /** Loss that one more number for everybody must save per event; a policy that steers it has its own. */
  price?: number
  features: ItemFeatures | undefined
}

/** The indicators and context vectors a policy reads; no context for one that reads none. */
export function createContexts(search: SearchOptions | undefined): {
  context: Context | undefined
  indicators: Indicators
} {
  const kind = search?.policy.context ?? "none"
  const features = kind === "cv" ? search?.features : undefined
  const constant = search?.preset.constant ?? false
  return {
    context: kind === "none" ? undefined : createContext({ kind, constant, featureColumns: features?.columns.length }),
    indicators: new Indicators({ features }),
  }
}

/** Lets a policy play and learn a round; what its arms gave away, and how many grew. */
export function playRound(
  policy: SizePolicy,
  side: Side,
  round: Round,
): { regret: number; played: { all: number; grown: number } } {
  const arms = policy.learn(side, round)
  let regret = 0
  let grown = 0
  for (let l = 0; l < round.length; l++) {
    const [keep, grow] = [round.keepRewards[l], round.growRewards[l]]
    regret += Math.max(keep, grow) - (arms[l] === 1 ? grow : keep)
    grown += arms[l]
  }
  return { regret, played: { all: round.length, grown } }
}
