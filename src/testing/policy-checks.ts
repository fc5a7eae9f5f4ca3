/** The contract of size policies: an author runs the checks that dess runs on its own. */

import { deepStrictEqual, ok } from "node:assert/strict"
import { Random } from "../kernels/random.ts"
import { DEFAULT_SIZES } from "../models/model.ts"
import { type CreatePolicy, type OwnOptions, openPolicy, type PolicyStart } from "../policies/own.ts"
import type { Choices, Round, SizePolicy } from "../policies/policy.ts"
import { PRESETS } from "../policies/presets.ts"
import { SIDES } from "../types.ts"
import { type Check, figuresOf, SEEDS } from "./check.ts"

export interface PolicyCheckOptions {
  /** Whose contexts and rewards the policy is shown (calibrated). */
  recipe?: "calibrated" | "paper"
  /** Whether the same question always gets the same answer while nothing is learned (true). */
  deterministic?: boolean
  /** The author's own options. */
  options?: OwnOptions
}

/** The input of a policy in these checks. */
export function policyStart(
  seed: number,
  { recipe = "calibrated", options = {} }: PolicyCheckOptions = {},
): PolicyStart {
  const constant = PRESETS[recipe].constant ? 1 : 0
  const bytes = DEFAULT_SIZES.map((size) => 4 * (size + 1))
  return {
    task: "binary",
    seed,
    sizes: DEFAULT_SIZES,
    bytes: { user: bytes, item: bytes },
    contextLengths: { none: 0, fre: 1 + constant, cv: 2 + constant },
    features: true,
    options,
  }
}

/** Ids to decide on as the loop shows them: coordinates in (0, 1/√d], the last one constant with the calibrated recipe. */
export function drawChoices(
  length: number,
  policy: Pick<SizePolicy, "context">,
  p: { random: Random } & PolicyCheckOptions,
): Choices {
  const { random, recipe = "calibrated" } = p
  const dimension = policyStart(1, p).contextLengths[policy.context]
  const largest = 1 / Math.sqrt(Math.max(1, dimension))
  const constant = PRESETS[recipe].constant && dimension > 0
  return {
    length,
    ids: Int32Array.from({ length }, (_, i) => i),
    steps: Uint8Array.from({ length }, () => random.integer(2)),
    frequencies: Float64Array.from({ length: dimension === 0 ? 0 : length }, () => 1 + random.integer(500)),
    contexts: Float64Array.from({ length: length * dimension }, (_, i) =>
      constant && i % dimension === dimension - 1 ? largest : largest * (0.05 + 0.95 * random.next()),
    ),
  }
}

/** A round in which growing pays `share` (0.6) of the time. */
export function drawRound(
  length: number,
  policy: Pick<SizePolicy, "context">,
  p: { random: Random; share?: number } & PolicyCheckOptions,
): Round {
  const { random, share = 0.6, recipe = "calibrated" } = p
  const keepLosses = Float64Array.from({ length }, () => random.next())
  const growLosses = keepLosses.map((loss) => loss + (random.next() < share ? -0.01 : 0.01))
  const growRewards = keepLosses.map((loss, l) => (loss - growLosses[l] > 0 ? 1 : 0))
  const complement = PRESETS[recipe].keepReward === "complement"
  const keepRewards = growRewards.map((reward) => (complement ? 1 - reward : 0))
  return { ...drawChoices(length, policy, p), keepLosses, growLosses, keepRewards, growRewards }
}

/** The contract of every size policy. */
export function policyChecks(create: CreatePolicy, options: PolicyCheckOptions = {}): Check[] {
  const { deterministic = true } = options
  const make = (seed: number) => {
    const start = policyStart(seed, options)
    return openPolicy(create(start), start)
  }
  const using = (random: Random, share?: number) => ({ ...options, random, ...(share !== undefined && { share }) })
  /** What it answers to a fixed sequence of rounds and choices. */
  const interview = (policy: SizePolicy, seed: number) => {
    const p = using(new Random("interview", seed))
    return Array.from({ length: 4 }, () =>
      SIDES.map((side) => [
        [...policy.learn(side, drawRound(40, policy, p))],
        [...policy.decide(side, drawChoices(15, policy, p))],
      ]),
    )
  }
  return [
    {
      name: "answers every row of a round and every choice with one arm, 0 or 1",
      run() {
        const policy = make(1)
        const p = using(new Random("arms", 1))
        for (const length of [1, 2, 37])
          for (const side of SIDES) {
            const played = policy.learn(side, drawRound(length, policy, p))
            const decided = policy.decide(side, drawChoices(length + 1, policy, p))
            deepStrictEqual([played.length, decided.length], [length, length + 1])
            for (const arm of [...played, ...decided]) ok(arm === 0 || arm === 1, `arm: expected 0 or 1, got ${arm}`)
          }
      },
    },
    {
      name: "gives the same arms for the same seed and the same rounds",
      run() {
        for (const seed of SEEDS) deepStrictEqual(interview(make(seed), seed), interview(make(seed), seed))
      },
    },
    ...SIDES.map((side) => ({
      name: `learns the ${side}s on their own`,
      run() {
        const other = side === "user" ? "item" : "user"
        const [alone, both] = [make(1), make(1)]
        const random = new Random("sides", side)
        for (let t = 0; t < 4; t++) {
          both.learn(other, drawRound(30, both, using(random, 1)))
          both.decide(other, drawChoices(30, both, using(random)))
          const [round, choices] = [drawRound(20, both, using(random)), drawChoices(20, both, using(random))]
          deepStrictEqual([...both.learn(side, round)], [...alone.learn(side, round)])
          deepStrictEqual([...both.decide(side, choices)], [...alone.decide(side, choices)])
        }
      },
    })),
    {
      name: "decides without learning: asking changes no later round",
      run() {
        const [asked, silent] = [make(1), make(1)]
        const p = using(new Random("asking", 1))
        for (let t = 0; t < 5; t++)
          for (const side of SIDES) {
            const [round, choices] = [drawRound(25, asked, p), drawChoices(25, asked, p)]
            const first = [...asked.decide(side, choices)]
            const second = [...asked.decide(side, choices)]
            if (deterministic) deepStrictEqual(second, first)
            deepStrictEqual([...asked.learn(side, round)], [...silent.learn(side, round)])
          }
      },
    },
    {
      name: "takes an empty round and an empty choice as nothing at all",
      run() {
        const [policy, twin] = [make(1), make(1)]
        const p = using(new Random("empty", 1))
        for (const side of SIDES) {
          deepStrictEqual(policy.learn(side, drawRound(0, policy, p)).length, 0)
          deepStrictEqual(policy.decide(side, drawChoices(0, policy, p)).length, 0)
        }
        deepStrictEqual(interview(policy, 5), interview(twin, 5))
      },
    },
    {
      name: "leaves the round and the choices as they were",
      run() {
        const policy = make(1)
        const p = using(new Random("untouched", 1))
        const [round, choices] = [drawRound(30, policy, p), drawChoices(30, policy, p)]
        const before = structuredClone([round, choices])
        policy.learn("user", round)
        policy.decide("user", choices)
        deepStrictEqual([round, choices], before)
      },
    },
    {
      name: "runs along a stream, and a second time with the same figures",
      async run() {
        const { recipe = "calibrated", options: own = {} } = options
        const asked = { policy: create, ownOptions: own, recipe, sizes: [2, 4, 8] }
        const first = await figuresOf(asked)
        ok(first.length > 5)
        deepStrictEqual(await figuresOf(asked), first)
      },
    },
  ]
}
