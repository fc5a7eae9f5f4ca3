/** The contract of every size policy, and what each is known to do. A new policy joins by a line in POLICIES. */

import { describe, expect, test } from "vitest"
import { Random } from "../../src/kernels/random.ts"
import { PaperFamily } from "../../src/learning/paper-family.ts"
import { SizedLearner } from "../../src/learning/sized-learner.ts"
import { Model } from "../../src/models/paper/model.ts"
import { AlwaysGrow, NeverGrow, RandomGrow } from "../../src/policies/controls.ts"
import { Dess } from "../../src/policies/dess.ts"
import { Esapn } from "../../src/policies/esapn.ts"
import type { Choices, SizePolicy } from "../../src/policies/policy.ts"
import { PRESETS, type Preset } from "../../src/policies/presets.ts"
import { drawChoices, drawRound, policyChecks } from "../../src/testing.ts"
import type { Segment, Side } from "../../src/types.ts"
import { SIDES } from "../support/model-state.ts"
import { record, segmentsOf } from "../support/runs.ts"
import { REFERENCE, TWINS } from "../support/twins.ts"

interface Case {
  name: string
  preset: Preset
  create: (seed: number) => SizePolicy
  /** Coordinates of the contexts it is given. */
  dimension: number
  /** Whether the same question always gets the same answer while nothing is learned. */
  deterministic: boolean
}

function dess(context: "fre" | "cv", preset: Preset): Case {
  const dimension = (context === "cv" ? 2 : 1) + (preset.constant ? 1 : 0)
  const { subgaussian, discount, forget } = preset
  return {
    name: `dess-${context} (${preset.name})`,
    preset,
    create: () => new Dess(context, { dimension, subgaussian, discount, forget }),
    dimension,
    deterministic: true,
  }
}

const { paper, calibrated } = PRESETS
const fastest = TWINS[TWINS.length - 1]
const plain = { preset: paper, dimension: 0 }

const POLICIES: readonly Case[] = [
  { ...plain, name: "never-grow", create: () => new NeverGrow(), deterministic: true },
  { ...plain, name: "always-grow", create: () => new AlwaysGrow(), deterministic: true },
  {
    ...plain,
    name: "random-grow",
    create: (seed) => new RandomGrow({ probability: { user: 0.3, item: 0.6 }, seed }),
    deterministic: false,
  },
  dess("fre", paper),
  dess("cv", paper),
  dess("fre", calibrated),
  dess("cv", calibrated),
  {
    name: "esapn",
    preset: paper,
    create: (seed) => new Esapn({ kernels: fastest.open(), sizes: [2, 3, 4], seed }),
    dimension: 1,
    deterministic: true,
  },
]

const draw = (length: number, given: Case, random: Random) =>
  drawChoices(length, given.create(1), { random, recipe: given.preset.name })
const play = (length: number, given: Case, p: { random: Random; share?: number }) =>
  drawRound(length, given.create(1), { ...p, recipe: given.preset.name })

describe.each(POLICIES)("the policy $name", (given) => {
  const { create, deterministic } = given
  const checks = policyChecks(({ seed }) => create(seed), { recipe: given.preset.name, deterministic })

  test.each(checks)("$name", ({ run }) => run())

  test("is never offered an id at the top size, nor an id twice in one choice", async () => {
    const stream = record({ interactions: 400, users: 30, items: 60 })
    const offered = { round: [] as number[], choice: [] as number[] }
    const policy = create(1)
    const model = new Model({ kernels: REFERENCE.open(), sizes: [2, 3, 4], hidden: 4 })
    const watched: SizePolicy = {
      context: policy.context,
      firstSegment: policy.firstSegment,
      learn(side, round) {
        checkOffer(side, round)
        offered.round.push(round.length)
        return policy.learn(side, round)
      },
      decide(side, choices) {
        checkOffer(side, choices)
        expect(new Set(choices.ids).size).toBe(choices.length)
        offered.choice.push(choices.length)
        return policy.decide(side, choices)
      },
    }
    const checkOffer = (side: Side, { length, ids, steps }: Choices) => {
      const { table } = model.inputs[side]
      expect([ids.length, steps.length]).toEqual([length, length])
      for (let i = 0; i < length; i++) expect([table.step(ids[i]), ids[i] % 3 > 0]).toEqual([steps[i], true])
      for (const step of steps) expect(step).toBeLessThan(table.top)
    }
    // Every third id is at the top from the start, so that policies which never grow are tried too.
    model.meet(stream.batch)
    for (const side of SIDES)
      for (let step = 0; step < 2; step++)
        model.ladder(side).grow([...model.inputs[side].table.ids()].filter((id) => id % 3 === 0))
    const network = new SizedLearner(new PaperFamily(model), {
      search: { policy: watched, preset: given.preset, initial: "warm", features: stream.features },
    })
    for (const segment of await segmentsOf(stream, 100)) stepNetwork(network, segment)
    expect(Math.max(...offered.round)).toBeGreaterThan(20)
    expect(Math.max(...offered.choice)).toBeGreaterThan(5)
  })
})

function stepNetwork(network: SizedLearner<Model>, segment: Segment): void {
  const label = Float64Array.from(segment.rating, (rating) => (rating > 3.5 ? 1 : 0))
  const { trainLength } = segment
  network.prepare(segment, label, trainLength)
  const part = (from: number, to: number) => ({
    user: segment.user.subarray(from, to),
    item: segment.item.subarray(from, to),
    label: label.subarray(from, to),
  })
  network.train(part(0, trainLength))
  network.test(part(trainLength, segment.length))
}

describe("the controls", () => {
  const named = (name: string) => POLICIES.find((given) => given.name === name) as Case
  const [never, always, random] = [named("never-grow"), named("always-grow"), named("random-grow")]
  const rounds = (given: Case) => ({
    round: play(500, given, { random: new Random("controls") }),
    choices: draw(500, given, new Random("controls")),
  })
  const share = (arms: Uint8Array) => arms.reduce((sum, arm) => sum + arm, 0) / arms.length

  test("never-grow keeps and always-grow grows, whatever pays", () => {
    for (const [given, arm] of [[never, 0] as const, [always, 1] as const]) {
      const { round, choices } = rounds(given)
      const policy = given.create(1)
      for (const side of SIDES)
        expect([share(policy.learn(side, round)), share(policy.decide(side, choices))]).toEqual([arm, arm])
    }
  })

  test("only always-grow acts at the first segment", () => {
    expect(POLICIES.filter(({ create }) => create(1).firstSegment === 1).map(({ name }) => name)).toEqual([
      "always-grow",
    ])
  })

  test("random-grow grows with the probability of the side, within four standard errors", () => {
    const { round, choices } = rounds(random)
    const policy = random.create(1)
    for (const [side, p] of [["user", 0.3] as const, ["item", 0.6] as const])
      for (const arms of [policy.learn(side, round), policy.decide(side, choices)])
        expect(Math.abs(share(arms) - p)).toBeLessThan(4 * Math.sqrt((p * (1 - p)) / 500))
  })

  test("random-grow decides the same whether or not it played rounds before, and another way for another seed", () => {
    const { round, choices } = rounds(random)
    const [played, fresh, other] = [random.create(1), random.create(1), random.create(2)]
    for (const side of SIDES) {
      played.learn(side, round)
      const arms = [...played.decide(side, choices)]
      expect(arms).toEqual([...fresh.decide(side, choices)])
      expect(arms).not.toEqual([...other.decide(side, choices)])
    }
  })

  test("random-grow takes the probabilities 0 and 1 at their word and refuses any outside", () => {
    const { choices } = rounds(random)
    const policy = new RandomGrow({ probability: { user: 0, item: 1 }, seed: 1 })
    expect([share(policy.decide("user", choices)), share(policy.decide("item", choices))]).toEqual([0, 1])
    for (const wrong of [-0.01, 1.01, Number.NaN])
      expect(() => new RandomGrow({ probability: { user: 0.5, item: wrong }, seed: 1 })).toThrow(
        /probability of the items: expected a number from 0 to 1, got/,
      )
  })
})

describe("dess", () => {
  const cases = POLICIES.filter(({ name }) => name.startsWith("dess"))

  test.each(cases)("$name learns from what the arm it played earned, never from what the other would have", (given) => {
    const [policy, twin] = [given.create(1), given.create(1)]
    const random = new Random("bandit feedback")
    for (let t = 0; t < 5; t++)
      for (const side of SIDES) {
        const round = play(40, given, { random })
        const arms = policy.learn(side, round)
        const other = {
          ...round,
          keepRewards: round.keepRewards.map((reward, l) => (arms[l] === 0 ? reward : 99)),
          growRewards: round.growRewards.map((reward, l) => (arms[l] === 1 ? reward : -99)),
        }
        expect([...twin.learn(side, other)]).toEqual([...arms])
      }
  })

  test.each(cases)("$name grows exactly where the upper bound of growing is the larger", (given) => {
    const policy = given.create(1)
    const random = new Random("scores")
    policy.learn("user", play(60, given, { random }))
    const choices = draw(40, given, random)
    const arms = policy.decide("user", choices)
    for (let i = 0; i < choices.length; i++) {
      const context = choices.contexts.slice(i * given.dimension, (i + 1) * given.dimension)
      const scores = policy.scores?.("user", context)
      expect(arms[i]).toBe(scores && scores.grow > scores.keep ? 1 : 0)
    }
  })

  test("with one coordinate and no constant every id gets the same answer, whatever its context", () => {
    const given = dess("fre", paper)
    const policy = given.create(1)
    const random = new Random("context free")
    const seen = new Set<number>()
    for (let t = 0; t < 30; t++) {
      const arms = new Set(policy.decide("user", draw(50, given, random)))
      expect(arms.size).toBe(1)
      for (const arm of arms) seen.add(arm)
      policy.learn("user", play(3, given, { random, share: t < 15 ? 0 : 1 }))
    }
    expect(seen.size, "both answers are met").toBe(2)
  })

  test("with a constant it learns to grow the ids for which growing pays and to keep the others", () => {
    const given = dess("fre", calibrated)
    const policy = given.create(1)
    const random = new Random("threshold")
    const pays = (context: number) => context > 0.45
    for (let t = 0; t < 10; t++) {
      const round = play(200, given, { random })
      round.growRewards = Float64Array.from({ length: 200 }, (_, l) => (pays(round.contexts[2 * l]) ? 1 : 0))
      round.keepRewards = round.growRewards.map((reward) => 1 - reward)
      policy.learn("item", round)
    }
    const choices = draw(300, given, random)
    const arms = policy.decide("item", choices)
    let [clear, right] = [0, 0]
    for (let i = 0; i < choices.length; i++) {
      const context = choices.contexts[2 * i]
      if (Math.abs(context - 0.45) < 0.1) continue
      clear++
      if (arms[i] === (pays(context) ? 1 : 0)) right++
    }
    expect(clear).toBeGreaterThan(100)
    expect(right / clear).toBeGreaterThan(0.9)
  })
})
