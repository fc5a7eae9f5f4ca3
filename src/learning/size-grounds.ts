/** What a policy thought of a size it chose, in the words of the size log. */

import type { ArmScores, Reason } from "../ids/size-log.ts"
import type { PolicyScores } from "../policies/policy.ts"

/** Why a row grew: the measured best, or to find out. */
export function whyGrown(scores: PolicyScores | undefined): Reason {
  return scores && scores.means.grow <= scores.means.keep ? "explored" : "grown"
}

export function toArmScores(scores: PolicyScores | undefined): ArmScores | undefined {
  return scores && { keep: scores.keep, grow: scores.grow, estimate: scores.means.grow }
}
