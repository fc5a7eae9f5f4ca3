/** What a learner has counted of ids that come back. */

import { Returns } from "../../src/context/returns.ts"
import { State } from "../../src/kernels/state.ts"
import type { Factor } from "../../src/run/factor.ts"
import type { Run } from "../../src/run/loop.ts"

export function returnsOf({ learner }: Run): Returns {
  const state = new State()
  ;(learner as Factor).save(state)
  const returns = new Returns()
  returns.load(state.at("returns"))
  return returns
}
