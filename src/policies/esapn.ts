/**
 * ESAPN (Liu et al., SIGIR '20) as method.md §8 has it: a policy network per side, trained by REINFORCE, reads an id's
 * frequency and size and says keep or grow. It samples to learn and takes the likelier arm to act.
 *
 *   reward = mean of the id's last 5 recorded losses − the loss under the arm played     (0 before any is recorded)
 *   ∇ = −reward · ∇ log π(arm), summed over the round
 */

import type { Kernels } from "../kernels/kernels.ts"
import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { Controller, type ControllerInput, softmaxRow } from "./controller.ts"
import type { Choices, Round, SizePolicy } from "./policy.ts"

const RECORDED = 5

export class Esapn implements SizePolicy {
  readonly context = "fre"
  readonly firstSegment = 2
  readonly #steps: number
  readonly #kernels: Kernels
  readonly #controllers: Record<Side, Controller>
  readonly #random: Record<Side, Random>
  /** The last losses of each id, oldest first. */
  readonly #losses: Record<Side, Map<number, number[]>> = { user: new Map(), item: new Map() }

  constructor(options: { kernels: Kernels; sizes: readonly number[]; seed: number }) {
    const { kernels, sizes, seed } = options
    this.#steps = sizes.length
    this.#kernels = kernels
    const build = (side: Side) =>
      new Controller({ kernels, second: sizes.length, outputs: 2, seed: `${seed} esapn ${side}` })
    this.#controllers = { user: build("user"), item: build("item") }
    this.#random = { user: new Random(seed, "esapn", "user"), item: new Random(seed, "esapn", "item") }
  }

  #input(rows: { length: number; frequencies: Float64Array; steps: Uint8Array }): ControllerInput {
    const oneHot = new Float64Array(this.#steps * this.#steps)
    for (let s = 0; s < this.#steps; s++) oneHot[s * this.#steps + s] = 1
    const { length } = rows
    const [frequencies, steps] = [rows.frequencies.subarray(0, length), rows.steps.subarray(0, length)]
    return { frequencies, second: oneHot, secondIndex: Int32Array.from(steps) }
  }

  learn(side: Side, round: Round): Uint8Array {
    const arms = new Uint8Array(round.length)
    if (round.length === 0) return arms
    const controller = this.#controllers[side]
    const pass = controller.forward(this.#input(round))
    const chances = new Float64Array(pass.logits.length)
    const gradient = new Float64Array(pass.logits.length)
    for (let l = 0; l < round.length; l++) {
      softmaxRow(chances, pass.logits, 2 * l, 2)
      const arm = this.#random[side].next() < chances[2 * l + 1] ? 1 : 0
      arms[l] = arm
      const reward = this.#reward(side, round.ids[l], arm === 1 ? round.growLosses[l] : round.keepLosses[l])
      // d(−r·log π(a))/dz = r·(π − onehot(a))
      for (let a = 0; a < 2; a++) gradient[2 * l + a] = reward * (chances[2 * l + a] - (a === arm ? 1 : 0))
    }
    controller.learn(pass, gradient)
    return arms
  }

  #reward(side: Side, id: number, loss: number): number {
    const recorded = this.#losses[side].get(id) ?? []
    this.#losses[side].set(id, recorded)
    let sum = 0
    for (const past of recorded) sum += past
    const reward = recorded.length === 0 ? 0 : sum / recorded.length - loss
    recorded.push(loss)
    if (recorded.length > RECORDED) recorded.shift()
    return reward
  }

  /** Where the kernels are its own. */
  close(): void {
    this.#kernels.close()
  }

  save(state: State): void {
    for (const side of SIDES) {
      const at = state.at(side)
      this.#controllers[side].save(at.at("controller"))
      this.#random[side].save(at)
      const recorded = [...this.#losses[side]]
      at.put("recorded", Int32Array.from(recorded.flatMap(([id, losses]) => [id, losses.length])))
      at.put("losses", Float64Array.from(recorded.flatMap(([, losses]) => losses)))
    }
  }

  load(state: State): void {
    for (const side of SIDES) {
      const at = state.at(side)
      this.#controllers[side].load(at.at("controller"))
      this.#random[side].load(at)
      const recorded = at.take("recorded", Int32Array)
      const losses = at.take("losses", Float64Array)
      this.#losses[side].clear()
      for (let r = 0, from = 0; r < recorded.length; r += 2) {
        this.#losses[side].set(recorded[r], Array.from(losses.subarray(from, from + recorded[r + 1])))
        from += recorded[r + 1]
      }
    }
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids) this.#losses[side].delete(id)
  }

  decide(side: Side, choices: Choices): Uint8Array {
    const arms = new Uint8Array(choices.length)
    if (choices.length === 0) return arms
    const logits = this.#controllers[side].judge(this.#input(choices))
    for (let i = 0; i < arms.length; i++) arms[i] = logits[2 * i + 1] > logits[2 * i] ? 1 : 0
    return arms
  }
}
