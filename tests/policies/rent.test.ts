/** The calibrated policy: numbers that pay their rent are held, others are given back. */

import { describe, expect, test } from "vitest"
import { LastMet } from "../../src/ids/last-met.ts"
import { Returns } from "../../src/ids/returns.ts"
import { SmallColumn } from "../../src/ids/small-numbers.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import type { SizedLearner } from "../../src/learning/sized-learner.ts"
import type { RowModel } from "../../src/models/calibrated/rows.ts"
import type { Choices, Round } from "../../src/policies/policy.ts"
import { Rent } from "../../src/policies/rent.ts"
import type { Segment } from "../../src/types.ts"
import { noise, planted, taste } from "../support/planted.ts"
import { returnsOf } from "../support/returns.ts"

const SIZES = [0, 2, 6]
const OPTIONS = {
  context: "fre",
  dimension: 2,
  sizes: { user: SIZES, item: SIZES },
  discount: 0.999,
  subgaussian: 0.5,
  patience: 0.2,
  prior: 0.1,
  leastShare: 1e-9,
  usualLoss: 1,
} as const

/** Ids with the given second coordinate of their context, all at one step and one rate. */
function choices(values: readonly number[], p: { step: number; rate: number }): Choices & { rates: Float64Array } {
  return {
    length: values.length,
    ids: Int32Array.from(values, (_, i) => i),
    steps: new Uint8Array(values.length).fill(p.step),
    frequencies: Float64Array.from(values),
    contexts: Float64Array.from(values.flatMap((value) => [Math.SQRT1_2, value])),
    rates: new Float64Array(values.length).fill(p.rate),
  }
}

/** Teaches what the rung above `step` saved in each context. */
function teach(policy: Rent, values: readonly number[], saved: (value: number) => number, step = 0): Uint8Array {
  const given = choices(values, { step, rate: 1 })
  const growRewards = Float64Array.from(values, saved)
  const zeros = new Float64Array(values.length)
  const round: Round = { ...given, keepLosses: zeros, growLosses: zeros, keepRewards: zeros, growRewards }
  return policy.learn("user", round)
}

const contextsOf = (random: Random, count: number) => Array.from({ length: count }, () => 0.7 * random.next())

describe("the policy", () => {
  test("tries a rung that no id has held, and holds no rung of an id that is not met", () => {
    const policy = new Rent({ ...OPTIONS, price: 1e-5 })
    expect([...policy.decide("user", choices([0.1, 0.5], { step: 0, rate: 1 }))]).toEqual([1, 1])
    expect([...policy.decide("user", choices([0.1, 0.5], { step: 0, rate: 0 }))]).toEqual([0, 0])
    expect([...policy.release("user", choices([0.1, 0.5], { step: 1, rate: 0 }))]).toEqual([1, 1])
  })

  test("learns in which contexts a rung pays: there it grows, elsewhere it lets go", () => {
    const policy = new Rent({ ...OPTIONS, price: 0.002 })
    const random = new Random(1, "rent")
    const saved = (value: number) => (value < 0.35 ? 0.1 : -0.1) + 0.05 * random.normal()
    for (let n = 0; n < 20; n++) teach(policy, contextsOf(random, 200), saved)
    const at = (step: number) => choices([0.05, 0.65], { step, rate: 1 })
    expect([...policy.decide("user", at(0))]).toEqual([1, 0])
    expect([...policy.release("user", at(1))]).toEqual([0, 1])
    expect([...policy.decide("item", at(0))], "the items have learned nothing yet").toEqual([1, 1])
    expect([...policy.decide("user", at(1))], "nor has the rung above").toEqual([1, 1])
  })

  test("what is studied counts as what is played does, and nothing is played", () => {
    const [played, studied] = [new Rent({ ...OPTIONS, price: 0.002 }), new Rent({ ...OPTIONS, price: 0.002 })]
    const random = new Random(8, "rent")
    const at = [Float64Array.of(0.7, 0.2), { step: 1, rate: 0.3 }] as const
    for (let n = 0; n < 5; n++) {
      const values = contextsOf(random, 50)
      const saved = values.map(() => random.normal())
      const round = { ...choices(values, { step: 1, rate: 1 }), growRewards: Float64Array.from(saved) }
      const zeros = new Float64Array(values.length)
      const whole: Round = { ...round, keepLosses: zeros, growLosses: zeros, keepRewards: zeros }
      played.learn("user", whole)
      expect(studied.learnUnplayed("user", whole)).toBeUndefined()
      expect(studied.scores("user", ...at)).toEqual(played.scores("user", ...at))
    }
  })

  test("follows when what pays changes sides", () => {
    const policy = new Rent({ ...OPTIONS, price: 0.002 })
    const random = new Random(2, "rent")
    const at = choices([0.05, 0.65], { step: 0, rate: 1 })
    for (const sign of [1, -1, 1]) {
      for (let n = 0; n < 30; n++)
        teach(policy, contextsOf(random, 200), (value) => sign * (value < 0.35 ? 0.1 : -0.1) + 0.05 * random.normal())
      expect([...policy.decide("user", at)]).toEqual(sign === 1 ? [1, 0] : [0, 1])
    }
  })

  test("weighs the saving against rate and price: twice of both changes nothing", () => {
    const policy = new Rent({ ...OPTIONS, price: 1 })
    const random = new Random(3, "rent")
    for (let n = 0; n < 20; n++) teach(policy, contextsOf(random, 200), () => 0.05 + 0.01 * random.normal())
    const grows = (price: number, rate: number, value: number) => {
      policy.price = price
      return policy.decide("user", choices([value], { step: 0, rate }))[0]
    }
    const answers = new Set<number>()
    for (let n = 0; n < 200; n++) {
      const [price, rate, value] = [0.1 * random.next(), 3 * random.next(), 0.7 * random.next()]
      const one = grows(price, rate, value)
      expect(grows(2 * price, 2 * rate, value)).toBe(one)
      answers.add(one)
    }
    expect(answers.size, "both answers occur").toBe(2)
  })

  test("grows above the rent, lets go below the share of it that patience asks, here a fifth, and stays in between", () => {
    const policy = new Rent({ ...OPTIONS, price: 1 })
    const random = new Random(4, "rent")
    for (let n = 0; n < 50; n++) teach(policy, contextsOf(random, 200), () => 0.05)
    const bound = policy.scores("user", Float64Array.of(Math.SQRT1_2, 0.3), { step: 0, rate: 1 }).grow
    expect(bound).toBeGreaterThan(0.05)
    const act = (share: number) => {
      policy.price = bound / share / 2
      const at = { rate: 1 }
      return [
        policy.decide("user", choices([0.3], { step: 0, ...at }))[0],
        policy.release("user", choices([0.3], { step: 1, ...at }))[0],
      ]
    }
    expect([act(1.01), act(0.99), act(0.21), act(0.19)]).toEqual([
      [1, 0],
      [0, 0],
      [0, 0],
      [0, 1],
    ])
  })

  test("where nothing is asked another share of the rent is enough to let go; above the least price it is the usual one", () => {
    const policy = new Rent({ ...OPTIONS, leastShare: 1e-2, steadyPatience: 0.6 })
    const random = new Random(4, "rent")
    for (let n = 0; n < 50; n++) teach(policy, contextsOf(random, 200), () => 0.05)
    const bound = policy.scores("user", Float64Array.of(Math.SQRT1_2, 0.3), { step: 0, rate: 1 }).grow
    const released = (share: number) => {
      const rate = (share * 2 * policy.price) / bound
      return policy.release("user", choices([0.3], { step: 1, rate }))[0]
    }
    expect(policy.price).toBe(policy.leastPrice)
    expect([released(0.61), released(0.59)]).toEqual([0, 1])
    policy.price = 2 * policy.leastPrice
    expect([released(0.59), released(0.21), released(0.19)]).toEqual([0, 0, 1])
  })

  test("a rung both sides hold on less than a tenth of the events is tried anew after 80 turns, the next one if it is a success", () => {
    const policy = new Rent({ ...OPTIONS, price: 0.002 })
    const random = new Random(6, "rent")
    for (let n = 0; n < 20; n++)
      for (const step of [0, 1]) teach(policy, contextsOf(random, 200), () => -0.1 + 0.05 * random.normal(), step)
    const grows = (step: number) => policy.decide("user", choices([0.3], { step, rate: 1 }))[0]
    const pass = (turns: number, held: number[]) => {
      for (let n = 0; n < turns; n++) policy.advanceTime({ turns: 1, events: 500, held })
    }
    pass(200, [60, 0])
    expect([grows(0), grows(1)], "it is heard of").toEqual([0, 0])
    const state = new State()
    policy.save(state)
    policy.load(state)
    pass(60, [10, 0])
    expect([grows(0), grows(1)]).toEqual([1, 0])
    pass(100, [500, 0])
    expect([grows(0), grows(1)], "held, but nothing is known to be saved").toEqual([1, 0])
    teach(policy, contextsOf(random, 200), () => 0.05 * random.normal())
    pass(1, [500, 0])
    expect([grows(0), grows(1)], "nothing is saved").toEqual([0, 0])
    const saving = new State()
    policy.save(saving)
    policy.load(saving)
    teach(policy, contextsOf(random, 200), () => 0.05 + 0.05 * random.normal())
    pass(1, [500, 0])
    expect([grows(0), grows(1)]).toEqual([1, 1])
  })

  test("what is known, and how wide the spread is, survive saving", () => {
    const [policy, other] = [new Rent({ ...OPTIONS, price: 0.01 }), new Rent({ ...OPTIONS, price: 0.5 })]
    const random = new Random(5, "rent")
    for (let n = 0; n < 3; n++) teach(policy, contextsOf(random, 50), () => random.normal(), n % 2)
    const state = new State()
    policy.save(state)
    other.load(state)
    for (const step of [0, 1]) {
      const at = [Float64Array.of(0.7, 0.2), { step, rate: 0.3 }] as const
      expect(other.scores("user", ...at)).toEqual(policy.scores("user", ...at))
    }
    expect(other.price).toBe(0.01)
  })
})

const PLANTED: RunOptions = { method: "dess-fre", bits: "32", sizes: [2, 4, 8], protocol: "prequential", price: 3e-3 }

/** Mean sizes segment by segment, users and items together. */
function sizesOf(segments: Iterable<Segment>, options: RunOptions = PLANTED): { sizes: number[]; run: Run } {
  const run = new Run(options)
  const sizes = [...segments].map((segment) => {
    const { meanSize } = run.step(segment)
    return (meanSize.user + meanSize.item) / 2
  })
  run.close()
  return { sizes, run }
}

describe("on a stream whose right sizes are known", () => {
  const crowd = { users: 100, items: 80, segments: 60, seed: 1 }

  test("noise holds almost no numbers where structure holds them, at equal frequency", () => {
    const { sizes: noisy } = sizesOf(planted(crowd, (_u, _i, _n, random) => noise(random)))
    const { sizes: structured } = sizesOf(planted(crowd, taste))
    // There are trials.
    const late = noisy.slice(20)
    expect(late.reduce((sum, size) => sum + size, 0) / late.length).toBeLessThan(0.5)
    expect(structured[59]).toBeGreaterThan(1.9)
  })

  test("structure that comes after noise is found at once while some still hold numbers", () => {
    const run = new Run({ ...PLANTED, price: 1e-3, discount: 0.999 })
    const segments = planted({ ...crowd, segments: 120 }, (user, item, n, random) =>
      n < 60 ? noise(random) : taste(user, item),
    )
    const accuracy = Array.from(segments, (segment) => Number(run.step(segment).accuracy))
    run.close()
    expect(accuracy[59]).toBeLessThan(0.6)
    expect(accuracy[79]).toBeGreaterThan(0.9)
    expect(accuracy[119]).toBeGreaterThan(0.95)
  })

  test("when every taste changes, vectors follow within 20 segments however much they have learned, although one rating in five is wrong", () => {
    const other = (user: number, item: number) => taste(user << 1, item >> 1)
    for (const method of ["dess-fre", "uniform-8"])
      for (const before of [60, 400]) {
        const run = new Run({ method, protocol: "prequential", sizes: [2, 4, 8, 16] })
        const rate = (user: number, item: number, n: number, random: Random) => {
          const rating = n < before ? taste(user, item) : other(user, item)
          return random.next() < 0.8 ? rating : 6 - rating
        }
        const stream = planted({ users: 60, items: 40, segments: before + 30, seed: 1 }, rate)
        const accuracy = Array.from(stream, (segment) => Number(run.step(segment).accuracy))
        run.close()
        const mean = (from: number) => accuracy.slice(from, from + 10).reduce((sum, x) => sum + x, 0) / 10
        expect(mean(before - 10)).toBeGreaterThan(0.77)
        expect(accuracy[before]).toBeLessThan(0.6)
        expect(mean(before + 20), `${method} after ${before}`).toBeGreaterThan(0.77)
      }
  })

  /** Noise, and structure from segment `from` on for 60 segments, at a price at which noise holds next to nothing. */
  const lateStructure = (from: number) => {
    const run = new Run(PLANTED)
    const rate = (n: number) => n >= from && n < from + 60
    const segments = planted({ ...crowd, segments: from + 140 }, (user, item, n, random) =>
      rate(n) ? taste(user, item) : noise(random),
    )
    const reports = [...segments].map((segment) => run.step(segment))
    run.close()
    return { reports, size: (n: number) => (reports[n].meanSize.user + reports[n].meanSize.item) / 2 }
  }

  test("structure that comes after everything was given up is found again within 60 segments, and given up when it goes", () => {
    for (const from of [60, 220]) {
      const { reports, size } = lateStructure(from)
      const before = Array.from({ length: 20 }, (_, n) => size(from - 20 + n))
      expect(Math.min(...before), `nothing is held before ${from}, but for trials`).toBeLessThan(0.1)
      expect(reports[from - 1].accuracy).toBeLessThan(0.6)
      expect(reports[from + 59].accuracy).toBeGreaterThan(0.95)
      expect(size(from + 59)).toBeGreaterThan(1.9)
      expect(size(from + 139)).toBeLessThan(0.7)
    }
  })

  test("trials of noise are rare: on average an id holds less than 0.3 numbers", () => {
    const { sizes } = sizesOf(planted({ ...crowd, segments: 500 }, (_u, _i, _n, random) => noise(random)))
    const late = sizes.slice(100)
    expect(late.reduce((sum, size) => sum + size, 0) / late.length).toBeLessThan(0.3)
    expect(Math.max(...late), "there are trials").toBeGreaterThan(0.9)
  })

  test("an id holds up to 8 numbers for each event it has had, however little they cost", () => {
    const sizes = [2, 4, 8, 16, 64]
    const run = new Run({ method: "dess-fre", bits: "32", sizes, protocol: "prequential", price: 1e-9 })
    for (const segment of planted({ users: 1, items: 400, segments: 12, seed: 6 }, (user, item) => taste(user, item))) {
      // Each segment has users of its own: a hundred with one event, fifty with two, twenty-five with twelve.
      for (let r = 0; r < 500; r++)
        segment.user[r] =
          1000 * segment.index + (r < 100 ? r : r < 200 ? 100 + ((r - 100) >> 1) : 200 + ((r - 200) % 25))
      run.step(segment)
    }
    const { model } = run.learner as SizedLearner<RowModel>
    const most = (from: number, to: number) =>
      Math.max(...Array.from({ length: to - from }, (_, n) => model.sizes[model.tables.user.step(11_000 + from + n)]))
    expect([most(0, 100), most(100, 150), most(200, 225)]).toEqual([8, 16, 64])
    run.close()
  })

  test("of ids that all have a taste, those met often hold it and those met rarely do not", () => {
    const segments = function* (): Generator<Segment> {
      for (const segment of planted({ users: 40, items: 60, segments: 80, seed: 4 }, taste)) {
        const random = new Random(segment.index, "rare")
        const { user, item, rating } = segment
        // One event in ten is of one of 2000 rare users.
        for (let r = 0; r < 500; r += 10) {
          user[r] = 40 + random.integer(2000)
          rating[r] = taste(user[r], item[r])
        }
        yield segment
      }
    }
    const { run } = sizesOf(segments(), { ...PLANTED, price: 1e-1 })
    const { model } = run.learner as SizedLearner<RowModel>
    const mean = (from: number, to: number) => {
      const ids = [...model.tables.user.ids()].filter((id) => id >= from && id < to)
      return ids.reduce((sum, id) => sum + model.sizes[model.tables.user.step(id)], 0) / ids.length
    }
    expect(mean(0, 40)).toBeGreaterThan(1.9)
    expect(mean(40, 2040)).toBeLessThan(0.5)
  })
})

describe("returns", () => {
  test("tell how many events ids met so often have after such a pause, in any stream", () => {
    const returns = new Returns()
    const random = new Random(3, "returns")
    const truth = (frequency: number, idle: number) => (frequency >= 16 ? 0.4 : 0.05) / (1 + idle / 8)
    for (let n = 0; n < 60_000; n++) {
      const [frequency, idle] = [random.next() < 0.5 ? 5 : 40, 1 + random.integer(64)]
      returns.look("user", frequency, { idle, weight: 1 })
      if (random.next() < truth(frequency, idle)) returns.hit("user", frequency, idle)
    }
    for (const frequency of [5, 40])
      for (const idle of [3, 12, 48]) {
        const rate = returns.rate("user", frequency, idle)
        expect(Math.abs(Math.log(rate / truth(frequency, idle))), `${frequency}, ${idle}`).toBeLessThan(0.5)
      }
    expect(returns.rate("item", 5, 3), "the other side").toBe(0)
    expect(returns.rate("user", 5, Number.POSITIVE_INFINITY), "never seen").toBe(0)
    for (let n = 0; n < 100; n++) {
      for (let idle = 1; idle <= 60; idle++) returns.look("item", 40, { idle, weight: 1 })
      returns.hit("item", 40, 60)
    }
    expect(returns.rate("item", 40, 2), "who always comes back after 60 turns is expected before").toBeCloseTo(
      1 / 60,
      3,
    )
    const before = returns.rate("user", 40, 12)
    returns.advanceTime(5000)
    expect(returns.rate("user", 40, 12), "what was long ago says little").toBeLessThan(before / 10)
    const state = new State()
    returns.save(state)
    const other = new Returns()
    other.load(state)
    expect(other.rate("user", 40, 12)).toBe(returns.rate("user", 40, 12))
  })

  test.each(["prequential", "split"] as const)(
    "%s: of users who come in every fifth segment on average, ten events each time, as many are expected as come, to a half",
    (protocol) => {
      const run = new Run({ method: "dess-fre", bits: "32", protocol, price: 1e-4 })
      const random = new Random(5, "every fifth")
      for (const segment of planted({ users: 1, items: 40, segments: 400, seed: 4 }, () => 3)) {
        const here = Array.from({ length: 250 }, (_, user) => user).filter(() => random.next() < 0.2)
        for (let r = 0; r < 500; r++) segment.user[r] = here[r % here.length]
        run.step({ ...segment, trainLength: 400 })
      }
      const returns = returnsOf(run)
      // A turn is 145 events, half as many as there are ids; two events a segment are those of everybody.
      const expected = (2 * 145) / 500
      for (const idle of [5, 12])
        expect(Math.abs(returns.rate("user", 700, idle) / expected - 1), `${idle}`).toBeLessThan(0.5)
      run.close()
    },
  )

  test("users who have all of their events in one segment never come back, whichever rows are trained on", () => {
    const run = new Run({ method: "dess-fre", bits: "32", price: 1e-4 })
    for (const segment of planted({ users: 1, items: 40, segments: 100, seed: 4 }, () => 3)) {
      for (let r = 0; r < 500; r++) segment.user[r] = 50 * segment.index + (r % 50)
      run.step({ ...segment, trainLength: 400 })
    }
    const returns = returnsOf(run)
    for (const frequency of [1, 4, 10]) expect(returns.rate("user", frequency, 8), `${frequency}`).toBe(0)
    run.close()
  })

  test("an id first met is expected as often as those like it were, and one forgotten is met anew", () => {
    const run = new Run({ method: "dess-fre", bits: "32", sizes: [2, 4], price: 1e-4 })
    for (const segment of planted({ users: 1, items: 40, segments: 120, seed: 4 }, () => 3)) {
      // Users of the test rows are those of the next segment's training rows.
      for (let r = 0; r < 500; r++) segment.user[r] = 100 * (segment.index + (r < 400 ? 0 : 1)) + (r % 100)
      run.step({ ...segment, trainLength: 400 })
    }
    const rate = returnsOf(run).rate("user", 1, 0)
    expect(rate).toBeGreaterThan(1)
    const bounds = (run.learner as SizedLearner<RowModel>).explain("user", 100 * 120)?.bounds
    expect((bounds?.keep ?? 0) * rate, "keeping saves two numbers' rent until then").toBeCloseTo(2e-4, 9)
    run.close()
    const lastMet = new LastMet({ user: new SmallColumn(), item: new SmallColumn() })
    lastMet.meet("user", 3, 7)
    expect(lastMet.idle("user", 3, 9)).toBe(2)
    lastMet.forget("user", [3])
    expect([lastMet.idle("user", 3, 9), lastMet.idle("user", 900, 9)]).toEqual([Infinity, Infinity])
  })

  /** Fifteen users a segment, who come back after 40 segments, or others every time. */
  function visits(again: boolean): { run: Run; users: (segment: number) => number[] } {
    const users = (segment: number) => Array.from({ length: 15 }, (_, n) => 15 * (again ? segment % 40 : segment) + n)
    const run = new Run({ method: "dess-fre", bits: "32", sizes: [2, 4, 8], protocol: "prequential", price: 1e-2 })
    const stream = planted({ users: 1, items: 40, segments: 400, seed: 9 }, () => 3)
    for (const segment of stream) {
      const random = new Random(segment.index, "visits")
      const here = users(segment.index)
      for (let r = 0; r < 500; r++) {
        segment.user[r] = here[random.integer(here.length)]
        segment.rating[r] = taste(segment.user[r], segment.item[r])
      }
      run.step(segment)
    }
    return { run, users }
  }

  test("those who come back after 60 turns hold their numbers meanwhile, those who never do give them back", () => {
    const mean = (again: boolean, pauses: number[]) => {
      const { run, users } = visits(again)
      const { model } = run.learner as SizedLearner<RowModel>
      const { user: table } = model.tables
      const ids = pauses.flatMap((ago) => users(399 - ago))
      const size = ids.reduce((sum, id) => sum + model.sizes[table.step(id)], 0) / ids.length
      run.close()
      return size
    }
    // New users make a turn ever longer: 300 segments were about 80 turns, as 38 are for the others.
    const [regulars, passersBy] = [mean(true, [29, 32, 35, 38]), mean(false, [300, 310, 320, 330])]
    expect(regulars).toBeGreaterThan(1.5)
    expect(passersBy).toBeLessThan(0.5 * regulars)
  })
})
