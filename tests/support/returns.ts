/** What a learner has counted of ids that come back. */

import { Returns } from "../../src/ids/returns.ts"
import { State } from "../../src/kernels/state.ts"
import type { Run } from "../../src/learning/loop.ts"
import type { SizedLearner } from "../../src/learning/sized-learner.ts"

export function returnsOf({ learner }: Run): Returns {
  const state = new State()
  ;(learner as SizedLearner).save(state)
  const returns = new Returns()
  returns.load(state.at("returns"))
  return returns
}
