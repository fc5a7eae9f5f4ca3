/** DESS: one non-stationary LinUCB bandit per side decides from an id's context whether it grows (method.md §5). */

import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { readBandit, readBanditEvidence, writeBandit, writeBanditEvidence } from "./bandit-bytes.ts"
import { LinUcb, type LinUcbOptions } from "./lin-ucb.ts"
import type { Choices, PolicyScores, Round, SizePolicy } from "./policy.ts"

export class Dess implements SizePolicy {
  readonly context: "fre" | "cv"
  readonly firstSegment = 2
  readonly #dimension: number
  readonly #bandits: Record<Side, LinUcb>

  constructor(context: "fre" | "cv", bandit: LinUcbOptions) {
    this.context = context
    this.#dimension = bandit.dimension
    this.#bandits = { user: new LinUcb(bandit), item: new LinUcb(bandit) }
  }

  learn(side: Side, round: Round): Uint8Array {
    const bandit = this.#bandits[side]
    const arms = new Uint8Array(round.length)
    for (let l = 0; l < round.length; l++) {
      const at = l * this.#dimension
      const arm = bandit.choose(round.contexts, at)
      bandit.update(round.contexts, at, arm, arm === 1 ? round.growRewards[l] : round.keepRewards[l])
      arms[l] = arm
    }
    return arms
  }

  decide(side: Side, choices: Choices): Uint8Array {
    const bandit = this.#bandits[side]
    const arms = new Uint8Array(choices.length)
    for (let i = 0; i < choices.length; i++) arms[i] = bandit.choose(choices.contexts, i * this.#dimension)
    return arms
  }

  scores(side: Side, context: Float64Array): PolicyScores {
    const bandit = this.#bandits[side]
    const of = (unit: number) => ({
      keep: bandit.bound(0, context, { offset: 0, unit }),
      grow: bandit.bound(1, context, { offset: 0, unit }),
    })
    return { ...of(1), means: of(0) }
  }

  record(): void {
    for (const side of SIDES) this.#bandits[side].record()
  }

  writeEvidence(out: Packer): void {
    for (const side of SIDES) writeBanditEvidence(out, this.#bandits[side])
  }

  readEvidence(from: Unpacker): () => void {
    const additions = SIDES.map((side) => readBanditEvidence(from, this.#bandits[side]))
    return () => {
      for (const add of additions) add()
    }
  }

  writeAll(out: Packer): void {
    for (const side of SIDES) writeBandit(out, this.#bandits[side])
  }

  readAll(from: Unpacker): () => void {
    const steps = SIDES.map((side) => readBandit(from, this.#bandits[side]))
    return () => {
      for (const take of steps) take()
    }
  }

  save(state: State): void {
    for (const side of SIDES) this.#bandits[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of SIDES) this.#bandits[side].load(state.at(side))
  }
}
