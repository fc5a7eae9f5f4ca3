/**
 * The calibrated policy: a number pays rent. One LinUCB per side and rung (a size to the next) learns what the rung
 * saves per event, Δ = loss without it − loss with it, measured on every event of an id that holds it, before the event
 * is learned. Keeping the smaller size saves the rent until the id's next event, which is known:
 *
 *   grow    when rate·UCB(Δ | x) > price·(numbers of the rung)        rate: events per segment to be expected of the id
 *   let go  when rate·UCB(Δ | x) < price·(numbers of the rung)/10
 *
 * σ is measured: UCB counts in the root mean square of Δ so far, so a stream on which vectors do nothing stops exploring
 * early. A rung nobody has held yet has a wide bound and is tried. Departs from method.md §5 in learning the grow arm on
 * every event (its reward is always known) and in knowing the keep arm's reward; §3 in growing several sizes at once.
 */

import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"
import { LinUcb } from "./lin-ucb.ts"
import type { Choices, PolicyScores, Round, SizePolicy } from "./policy.ts"

/** γ: half of what is known is forgotten after 69,000 events of a rung. */
export const RENT_DISCOUNT = 0.99999

const GROW = 1
/** An id lets go of a rung that earns less than this share of its rent. */
const PATIENCE = 0.1
/** The spread of Δ is taken for `prior` until so many events say otherwise. */
const PRIOR_EVENTS = 5

export interface RentOptions {
  context: "fre" | "cv"
  dimension: number
  /** Numbers of a row, step by step. */
  sizes: Record<Side, readonly number[]>
  /** Loss per number and segment. */
  price: number
  discount: number
  subgaussian: number
  /** A first guess of the root mean square of Δ. */
  prior: number
}

interface Rung {
  bandit: LinUcb
  squares: number
  weight: number
}

export class Rent implements SizePolicy {
  readonly context: "fre" | "cv"
  readonly from = 2
  price: number
  readonly #options: RentOptions
  readonly #rungs: Record<Side, Rung[]>

  constructor(options: RentOptions) {
    const { context, dimension, sizes, price, discount, subgaussian } = options
    this.context = context
    this.price = price
    this.#options = options
    const rungs = (side: Side) =>
      sizes[side].slice(1).map(() => ({
        bandit: new LinUcb({ dimension, subgaussian, discount, forget: "selected" }),
        squares: 0,
        weight: 0,
      }))
    this.#rungs = { user: rungs("user"), item: rungs("item") }
  }

  learn(side: Side, round: Round): Uint8Array {
    const { dimension, discount } = this.#options
    const arms = new Uint8Array(round.length)
    for (let l = 0; l < round.length; l++) {
      const rung = this.#rungs[side][round.steps[l]]
      const at = l * dimension
      arms[l] = this.#bound(rung, round.contexts, at) > round.keepRewards[l] ? 1 : 0
      const reward = round.growRewards[l]
      rung.bandit.update(round.contexts, at, GROW, reward)
      rung.squares = discount * rung.squares + reward * reward
      rung.weight = discount * rung.weight + 1
    }
    return arms
  }

  decide(side: Side, choices: Choices): Uint8Array {
    return this.#compare(side, choices, { down: 0, holds: (earned, rent) => earned > rent })
  }

  release(side: Side, choices: Choices): Uint8Array {
    return this.#compare(side, choices, { down: 1, holds: (earned, rent) => earned < PATIENCE * rent })
  }

  /** Marks the choices whose rung, `down` below the one ahead, earns what `holds` asks. */
  #compare(
    side: Side,
    choices: Choices,
    p: { down: number; holds: (earned: number, rent: number) => boolean },
  ): Uint8Array {
    const { dimension } = this.#options
    const sizes = this.#options.sizes[side]
    const arms = new Uint8Array(choices.length)
    for (let i = 0; i < choices.length; i++) {
      const step = choices.steps[i] - p.down
      const rate = choices.rates?.[i] ?? 0
      const earned = rate * this.#bound(this.#rungs[side][step], choices.contexts, i * dimension)
      if (p.holds(earned, this.price * (sizes[step + 1] - sizes[step]))) arms[i] = 1
    }
    return arms
  }

  #bound(rung: Rung, contexts: Float64Array, offset: number): number {
    const { prior } = this.#options
    const unit = Math.sqrt((rung.squares + PRIOR_EVENTS * prior * prior) / (rung.weight + PRIOR_EVENTS))
    return rung.bandit.bound(GROW, contexts, { offset, unit })
  }

  /**
   * What the next rung is thought to save per event at most, and what it costs until the next event. Without a place to
   * look from: the first rung, for an id met once a segment.
   */
  scores(side: Side, context: Float64Array, at = { step: 0, rate: 0 }): PolicyScores {
    const sizes = this.#options.sizes[side]
    const rent = this.price * (sizes[at.step + 1] - sizes[at.step])
    const keep = at.rate > 0 ? rent / at.rate : rent
    const rung = this.#rungs[side][at.step]
    const measured = rung.bandit.bound(GROW, context, { offset: 0, unit: 0 })
    return { keep, grow: this.#bound(rung, context, 0), means: { keep, grow: measured } }
  }

  save(state: State): void {
    state.put("price", Float64Array.of(this.price))
    for (const side of ["user", "item"] as const)
      this.#rungs[side].forEach((rung, step) => {
        const at = state.at(`${side}.${step}`)
        rung.bandit.save(at)
        at.put("spread", Float64Array.of(rung.squares, rung.weight))
      })
  }

  load(state: State): void {
    this.price = state.take("price", Float64Array)[0]
    for (const side of ["user", "item"] as const)
      this.#rungs[side].forEach((rung, step) => {
        const at = state.at(`${side}.${step}`)
        rung.bandit.load(at)
        const spread = at.take("spread", Float64Array)
        rung.squares = spread[0]
        rung.weight = spread[1]
      })
  }
}
