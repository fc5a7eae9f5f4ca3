/** The controls that learn nothing (method.md §8): a policy that does not beat them has learned nothing either. */

import { DessError, show } from "../errors.ts"
import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { type Choices, playAll, type Round, type SizePolicy } from "./policy.ts"

/** Every id stays at the smallest size. */
export class NeverGrow implements SizePolicy {
  readonly context = "none"
  readonly firstSegment = 2
  learn(_side: Side, round: Round): Uint8Array {
    return playAll(round.length, 0)
  }
  decide(_side: Side, choices: Choices): Uint8Array {
    return playAll(choices.length, 0)
  }
}

/** Every id grows whenever it is met, from the first segment on. */
export class AlwaysGrow implements SizePolicy {
  readonly context = "none"
  readonly firstSegment = 1
  learn(_side: Side, round: Round): Uint8Array {
    return playAll(round.length, 1)
  }
  decide(_side: Side, choices: Choices): Uint8Array {
    return playAll(choices.length, 1)
  }
}

/** Each decision grows with a probability per side: equal memory, no knowledge. */
export class RandomGrow implements SizePolicy {
  readonly context = "none"
  readonly firstSegment = 2
  readonly #probability: Record<Side, number>
  readonly #deciding: Record<Side, Random>
  readonly #playing: Record<Side, Random>

  constructor(options: { probability: Record<Side, number>; seed: number }) {
    const { probability, seed } = options
    if (typeof probability?.user !== "number" || typeof probability.item !== "number")
      throw new DessError(
        "INVALID_ARGUMENT",
        `probability: expected { user, item }, numbers from 0 to 1, got ${show(probability)}`,
      )
    for (const side of SIDES)
      if (!(probability[side] >= 0 && probability[side] <= 1))
        throw new DessError(
          "INVALID_ARGUMENT",
          `probability of the ${side}s: expected a number from 0 to 1, got ${show(probability[side])}`,
        )
    this.#probability = { ...probability }
    this.#deciding = { user: new Random(seed, "random-grow", "user"), item: new Random(seed, "random-grow", "item") }
    this.#playing = { user: new Random(seed, "random-play", "user"), item: new Random(seed, "random-play", "item") }
  }

  learn(side: Side, round: Round): Uint8Array {
    return this.#draw(side, this.#playing[side], round.length)
  }

  decide(side: Side, choices: Choices): Uint8Array {
    return this.#draw(side, this.#deciding[side], choices.length)
  }

  save(state: State): void {
    for (const side of SIDES) {
      this.#deciding[side].save(state.at(`deciding.${side}`))
      this.#playing[side].save(state.at(`playing.${side}`))
    }
  }

  load(state: State): void {
    for (const side of SIDES) {
      this.#deciding[side].load(state.at(`deciding.${side}`))
      this.#playing[side].load(state.at(`playing.${side}`))
    }
  }

  #draw(side: Side, random: Random, length: number): Uint8Array {
    const arms = new Uint8Array(length)
    for (let i = 0; i < length; i++) arms[i] = random.next() < this.#probability[side] ? 1 : 0
    return arms
  }
}
