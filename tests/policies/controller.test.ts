/** The controller network of ESAPN and AutoEmb, and ESAPN's way of learning with it. */

import { afterEach, describe, expect, test, vi } from "vitest"
import { openKernels } from "../../src/kernels/open.ts"
import { Parameters } from "../../src/kernels/parameters.ts"
import { Random } from "../../src/kernels/random.ts"
import { Plain } from "../../src/models/paper/plain.ts"
import { Controller, type ControllerInput, softmaxRow } from "../../src/policies/controller.ts"
import { Esapn } from "../../src/policies/esapn.ts"
import type { Choices, Round } from "../../src/policies/policy.ts"
import type { Side } from "../../src/types.ts"
import { checkKnobs, type Knob } from "../support/finite-differences.ts"
import { expectSameBits, expectSameRow, readRow, SIDES } from "../support/model-state.ts"
import { DOUBLE, REFERENCE, TWINS, type Twin } from "../support/twins.ts"

afterEach(() => {
  vi.restoreAllMocks()
})

const FAST = TWINS[TWINS.length - 1]

function open(twin: Twin, shape: { second: number; outputs: number }, seed = "controller test"): Controller {
  return new Controller({ kernels: twin.open(), ...shape, seed })
}

/** Rows with repeated frequencies and repeated rows of the second input. */
function drawInput(random: Random, p: { rows: number; seconds: number; second: number }): ControllerInput {
  return {
    frequencies: Float64Array.from({ length: p.rows }, () => 1 + random.integer(p.rows)),
    second: Float64Array.from({ length: p.seconds * p.second }, () => Math.fround(random.normal())),
    secondIndex: Int32Array.from({ length: p.rows }, () => random.integer(p.seconds)),
  }
}

/** One step towards the class of every row, by cross-entropy. */
function teach(controller: Controller, input: ControllerInput, answers: ArrayLike<number>): void {
  const pass = controller.forward(input)
  const outputs = pass.logits.length / answers.length
  const gradient = new Float64Array(pass.logits.length)
  for (let r = 0; r < answers.length; r++) {
    softmaxRow(gradient, pass.logits, r * outputs, outputs)
    gradient[r * outputs + answers[r]] -= 1
  }
  controller.learn(pass, gradient)
}

/** A controller with its parameters and its rows laid open. */
function openBare() {
  const allocate = vi.spyOn(Parameters.prototype, "allocate")
  const place = vi.spyOn(Plain.prototype, "place")
  const backward = vi.spyOn(Plain.prototype, "backward")
  const kernels = DOUBLE.open()
  const controller = new Controller({ kernels, second: 3, outputs: 2, seed: "bare" })
  const [parameters] = allocate.mock.contexts as Parameters[]
  // The table is known when the first row has been placed.
  const table = () => (place.mock.contexts[0] as Plain).table
  const dense = () =>
    parameters.list.map(({ value, rows, columns }) => kernels.floats.slice(value, value + rows * columns))
  /** The gradients of the last step, of each frequency's row at the address given. */
  const rowGradients = () => {
    const [placed, dRows] = backward.mock.calls[backward.mock.calls.length - 1]
    return [...placed.distinct.ids].map((id, d) => ({ id, gradient: dRows + d * 32 }))
  }
  return { kernels, controller, parameters, table, dense, rowGradients }
}

describe("the controller", () => {
  test("steps by the gradient of what it is asked for: finite differences, float64, within 1e-7 of max(|slope|, 0.01)", () => {
    const { kernels, controller, parameters, table: find, dense, rowGradients } = openBare()
    const random = new Random("controller gradient")
    const input = drawInput(random, { rows: 6, seconds: 3, second: 3 })
    expect(new Set(Array.from(input.frequencies)).size).toBeLessThan(6)
    teach(controller, input, [0, 1, 1, 0, 1, 0])
    const pulls = Float64Array.from({ length: 12 }, () => random.normal())
    const table = find()
    // Numbers of few bits: rows are float32, and finite differences have to turn them exactly.
    for (const id of table.ids())
      table.replace(
        id,
        0,
        readRow(table, id).value.map((x) => Math.round(1024 * x) / 1024),
        0,
      )
    const [values, rows] = [dense(), new Map([...table.ids()].map((id) => [id, readRow(table, id).value]))]
    controller.learn(controller.forward(input), pulls)
    const knobs: Knob[] = []
    for (const { name, value, gradient, rows, columns } of parameters.list) {
      const all = Array.from({ length: rows * columns }, (_, i) => i)
      for (const i of all.length <= 2 ? all : Array.from({ length: 6 }, () => random.integer(all.length)))
        knobs.push({
          name: `${name}[${i}]`,
          claimed: kernels.floats[gradient + i],
          get: () => kernels.floats[value + i],
          set: (x) => {
            kernels.floats[value + i] = x
          },
        })
    }
    for (const { id, gradient } of rowGradients())
      for (const i of [0, 31])
        knobs.push({
          name: `frequency ${id}[${i}]`,
          claimed: kernels.floats[gradient + i],
          width: 2 ** -14,
          get: () => readRow(table, id).value[i],
          set: (x) => {
            const { value } = readRow(table, id)
            value[i] = x
            table.replace(id, 0, value, 0)
          },
        })
    parameters.list.forEach(({ value }, p) => {
      kernels.floats.set(values[p], value)
    })
    for (const [id, value] of rows) table.replace(id, 0, value, 0)
    const objective = () => {
      const { logits, mark } = controller.forward(input)
      kernels.release(mark)
      return logits.reduce((sum, z, i) => sum + pulls[i] * z, 0)
    }
    checkKnobs(objective, knobs, 1e-7)
  })

  test("steps by Adam of rate 1e-4: all parameters, and the rows of the frequencies at hand, once each", () => {
    const { kernels, controller, parameters, table: find, dense, rowGradients } = openBare()
    const input = drawInput(new Random("controller step"), { rows: 6, seconds: 3, second: 3 })
    controller.judge({ ...input, frequencies: [70, 71, 72, 73, 74, 75] })
    controller.judge(input)
    const table = find()
    const read = () => new Map([...table.ids()].map((id) => [id, readRow(table, id)]))
    const [before, rows] = [dense(), read()]
    teach(controller, input, [0, 1, 1, 0, 1, 0])
    // The first step: w −= rate·g/(|g| + ε), g with L2.
    const stepped = (w: number, gradient: number) =>
      w - (1e-4 * (gradient + 1e-3 * w)) / (Math.abs(gradient + 1e-3 * w) + 1e-8)
    const gradients = parameters.list.map(({ gradient }) => gradient)
    dense().forEach((values, p) => {
      values.forEach((now, i) => {
        const want = stepped(before[p][i], kernels.floats[gradients[p] + i])
        if (!(Math.abs(now - want) < 1e-9))
          expect.fail(`${parameters.list[p].name}[${i}]: expected ${want}, got ${now}`)
      })
    })
    const met = new Map(rowGradients().map(({ id, gradient }) => [id, gradient]))
    expect([...met.keys()].sort()).toEqual([...new Set(Array.from(input.frequencies))].sort())
    for (const [id, now] of read()) {
      const was = rows.get(id)
      const gradient = met.get(id)
      if (gradient === undefined) expectSameRow(now, was, `frequency ${id}, not at hand`)
      else {
        expect(now.steps).toBe(1)
        now.value.forEach((value, i) => {
          const want = stepped(was?.value[i] ?? Number.NaN, kernels.floats[gradient + i])
          expect(Math.abs(value - want), `frequency ${id}[${i}]`).toBeLessThan(1e-6)
        })
      }
    }
  })

  test("learns to grow if and only if the frequency is above 50, for 100 frequencies, in 300 steps", () => {
    for (const seed of ["a", "b"]) {
      const controller = open(FAST, { second: 3, outputs: 2 }, seed)
      const input = {
        frequencies: Float64Array.from({ length: 100 }, (_, i) => i + 1),
        second: Float64Array.of(1, 0, 0, 0, 1, 0, 0, 0, 1),
        secondIndex: Int32Array.from({ length: 100 }, (_, i) => i % 3),
      }
      const answers = Array.from(input.frequencies, (frequency) => (frequency > 50 ? 1 : 0))
      const right = () => {
        const logits = controller.judge(input)
        return answers.filter((answer, i) => answer === (logits[2 * i + 1] > logits[2 * i] ? 1 : 0)).length
      }
      expect(right(), "before").toBeLessThan(75)
      for (let step = 0; step < 300; step++) teach(controller, input, answers)
      expect(right(), `seed ${seed}`).toBeGreaterThanOrEqual(98)
    }
  })

  test("tells rows apart by the second input alone, in 100 steps", () => {
    const controller = open(FAST, { second: 2, outputs: 3 })
    const second = Float64Array.of(1, 0, 0, 1, 0.5, 0.5)
    const rows = Array.from({ length: 30 }, (_, i) => i)
    const input = {
      frequencies: Float64Array.from(rows, (i) => 1 + Math.floor(i / 3)),
      second,
      secondIndex: Int32Array.from(rows, (i) => i % 3),
    }
    for (let step = 0; step < 100; step++)
      teach(
        controller,
        input,
        rows.map((i) => i % 3),
      )
    const logits = controller.judge(input)
    for (const i of rows) {
      const row = [...logits.subarray(3 * i, 3 * i + 3)]
      expect(row.indexOf(Math.max(...row))).toBe(i % 3)
    }
  })

  test.each(TWINS)("judges a row by running statistics: the same bits whatever stands beside it ($name)", (twin) => {
    const controller = open(twin, { second: 3, outputs: 4 })
    const random = new Random("neighbours")
    const input = drawInput(random, { rows: 13, seconds: 5, second: 3 })
    for (let step = 0; step < 3; step++)
      teach(
        controller,
        input,
        Array.from({ length: 13 }, (_, r) => r % 4),
      )
    const all = controller.judge(input)
    expect(all.every(Number.isFinite)).toBe(true)
    for (const rows of [[0], [12, 3], [5, 5, 5], [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]) {
      const some = controller.judge({
        frequencies: rows.map((r) => input.frequencies[r]),
        // Each row brings a copy of its own.
        second: Float64Array.from(
          rows.flatMap((r) => [...input.second.subarray(3 * input.secondIndex[r]).slice(0, 3)]),
        ),
        secondIndex: Int32Array.from(rows.keys()),
      })
      rows.forEach((r, i) => {
        expectSameBits(some.subarray(4 * i, 4 * i + 4), all.subarray(4 * r, 4 * r + 4), `row ${r} among ${rows}`)
      })
    }
  })

  test("trains by the statistics of the batch, judges by running ones that come to meet them", () => {
    const controller = open(REFERENCE, { second: 2, outputs: 2 })
    const kernels = REFERENCE.open()
    const twin = new Controller({ kernels, second: 2, outputs: 2, seed: "controller test" })
    const input = drawInput(new Random("statistics"), { rows: 8, seconds: 4, second: 2 })
    const distance = () => {
      const pass = twin.forward(input)
      kernels.release(pass.mark)
      return Math.max(...twin.judge(input).map((z, i) => Math.abs(z - pass.logits[i])))
    }
    const first = distance()
    for (let pass = 0; pass < 40; pass++) distance()
    expect(first).toBeGreaterThan(0.1)
    // What is left is the unbiased variance, 8/7 of the batch's.
    expect(distance()).toBeLessThan(0.2 * first)
    // Nothing was learned meanwhile: in training mode both are the same network.
    const [untouched, tried] = [controller.forward(input), twin.forward(input)]
    expectSameBits(tried.logits, untouched.logits, "logits in training")
  })

  test("is left as it was by judging, also of frequencies never met", () => {
    const [asked, silent] = [open(REFERENCE, { second: 2, outputs: 2 }), open(REFERENCE, { second: 2, outputs: 2 })]
    const random = new Random("asking")
    for (let step = 0; step < 3; step++) {
      const input = drawInput(random, { rows: 7, seconds: 2, second: 2 })
      const other = drawInput(random, { rows: 9, seconds: 3, second: 2 })
      expectSameBits(asked.judge(other), asked.judge(other), "the same answer twice")
      for (const controller of [asked, silent]) teach(controller, input, [0, 1, 0, 1, 1, 0, 0])
      expectSameBits(asked.judge(input), silent.judge(input), `step ${step}`)
    }
  })

  test("takes all frequencies from 10,000 on as one", () => {
    const controller = open(REFERENCE, { second: 1, outputs: 2 })
    const judge = (frequency: number) =>
      controller.judge({ frequencies: [frequency], second: Float64Array.of(1), secondIndex: Int32Array.of(0) })
    expectSameBits(judge(123_456_789), judge(10_000), "above the cap")
    expect(judge(9_999)).not.toEqual(judge(10_000))
  })

  test("gives working memory back after judging and after learning", () => {
    const kernels = REFERENCE.open()
    const controller = new Controller({ kernels, second: 2, outputs: 2, seed: "memory" })
    const mark = kernels.mark()
    const input = drawInput(new Random("memory"), { rows: 5, seconds: 2, second: 2 })
    controller.judge(input)
    expect(kernels.mark()).toBe(mark)
    teach(controller, input, [0, 1, 0, 1, 0])
    expect(kernels.mark()).toBe(mark)
  })

  test("learns the same bits on one, two and three threads, other ones from another seed", async () => {
    const life = async (threads: number, seed: string) => {
      const kernels = openKernels({ threads })
      await kernels.ready()
      const controller = new Controller({ kernels, second: 6, outputs: 6, seed })
      const random = new Random("threads")
      const answers = Array.from({ length: 150 }, (_, r) => r % 6)
      for (let step = 0; step < 3; step++)
        teach(controller, drawInput(random, { rows: 150, seconds: 90, second: 6 }), answers)
      const logits = controller.judge(drawInput(random, { rows: 40, seconds: 9, second: 6 }))
      kernels.close()
      return logits
    }
    const one = await life(1, "a")
    for (const threads of [2, 3]) expectSameBits(await life(threads, "a"), one, `${threads} threads`)
    expect(await life(1, "b")).not.toEqual(one)
  })
})

test("softmaxRow writes one row's softmax, in place too, also of huge numbers", () => {
  const logits = Float64Array.of(9, 1, 2, 3, 9)
  const out = new Float64Array(5)
  softmaxRow(out, logits, 1, 3)
  const powers = [1, 2, 3].map(Math.exp)
  const want = powers.map((power) => power / powers.reduce((a, b) => a + b, 0))
  want.forEach((share, i) => {
    expect(out[1 + i]).toBeCloseTo(share, 14)
  })
  expect([out[0], out[4]]).toEqual([0, 0])
  softmaxRow(logits, logits, 1, 3)
  expectSameBits(logits.subarray(1, 4), out.subarray(1, 4), "in place")
  expect([logits[0], logits[4]]).toEqual([9, 9])
  softmaxRow(out, Float64Array.of(1e308, -1e308), 0, 2)
  expect([...out.subarray(0, 2)]).toEqual([1, 0])
})

describe("ESAPN", () => {
  const SIZES = [2, 4, 8]
  const create = (seed: number, twin = REFERENCE) => new Esapn({ kernels: twin.open(), sizes: SIZES, seed })

  const choose = (ids: readonly number[]): Choices => ({
    length: ids.length,
    ids: Int32Array.from(ids),
    steps: Uint8Array.from(ids, (id) => id % 2),
    frequencies: Float64Array.from(ids, (id) => 1 + (id % 60)),
    contexts: new Float64Array(0),
  })
  const play = (
    ids: readonly number[],
    losses: { keep: (l: number) => number; grow: (l: number) => number },
  ): Round => {
    const rows = Array.from(ids.keys())
    const [keepLosses, growLosses] = [Float64Array.from(rows, losses.keep), Float64Array.from(rows, losses.grow)]
    // What the bandits are paid is none of its business.
    const nothing = new Float64Array(ids.length).fill(Number.NaN)
    return { ...choose(ids), keepLosses, growLosses, keepRewards: nothing, growRewards: nothing }
  }

  test("is rewarded with the mean of the id's last 5 recorded losses less the new one, by the arm it played, per side", () => {
    const learn = vi.spyOn(Controller.prototype, "learn")
    const policy = create(1)
    const random = new Random("rewards")
    const recorded: Record<Side, Map<number, number[]>> = { user: new Map(), item: new Map() }
    let [first, full, compared] = [0, 0, 0]
    for (let t = 0; t < 5; t++)
      for (const side of SIDES) {
        const ids = Array.from({ length: 17 }, () => random.integer(6))
        const round = play(ids, { keep: () => random.next(), grow: () => 2 * random.next() })
        const arms = policy.learn(side, round)
        const [pass, gradient] = learn.mock.calls[learn.mock.calls.length - 1]
        for (let l = 0; l < 17; l++) {
          const past = recorded[side].get(ids[l]) ?? []
          const loss = arms[l] === 1 ? round.growLosses[l] : round.keepLosses[l]
          const window = past.slice(-5)
          const reward = window.length === 0 ? 0 : window.reduce((a, b) => a + b, 0) / window.length - loss
          if (window.length === 0) first++
          if (past.length > 5) full++
          recorded[side].set(ids[l], [...past, loss])
          // −reward·∇ log π(arm) = reward·(π − onehot(arm))
          const grow = 1 / (1 + Math.exp(pass.logits[2 * l] - pass.logits[2 * l + 1]))
          const want = [reward * (1 - grow - (arms[l] === 0 ? 1 : 0)), reward * (grow - (arms[l] === 1 ? 1 : 0))]
          expect(Math.abs(gradient[2 * l] - want[0]) + Math.abs(gradient[2 * l + 1] - want[1])).toBeLessThan(1e-12)
          compared++
        }
      }
    expect(compared).toBe(5 * 2 * 17)
    expect([first, full > 20]).toEqual([12, true])
  })

  test("reads the frequency and the size of every row, as its controller knows them", () => {
    const forward = vi.spyOn(Controller.prototype, "forward")
    const judge = vi.spyOn(Controller.prototype, "judge")
    const policy = create(1)
    const ids = [3, 8, 3, 11]
    policy.learn("item", play(ids, { keep: () => 0.1, grow: () => 0.2 }))
    policy.decide("item", choose([8, 3]))
    for (const [[input], want] of [
      [forward.mock.calls[0], ids],
      [judge.mock.calls[0], [8, 3]],
    ] as const) {
      expect([...Array.from(input.frequencies)]).toEqual(want.map((id) => 1 + id))
      want.forEach((id, l) => {
        const at = 3 * input.secondIndex[l]
        expect([...input.second.subarray(at, at + 3)]).toEqual([0, 1, 2].map((step) => (step === id % 2 ? 1 : 0)))
      })
    }
  })

  test("samples while it learns: each arm as often as its chance says, within four standard errors", () => {
    const forward = vi.spyOn(Controller.prototype, "forward")
    const policy = create(3, FAST)
    const ids = Array.from({ length: 800 }, (_, i) => i % 40)
    for (const side of SIDES) {
      const arms = policy.learn(side, play(ids, { keep: () => 1, grow: () => 1 }))
      const { value: pass } = forward.mock.results[forward.mock.results.length - 1] as {
        value: { logits: Float64Array }
      }
      const chances = ids.map((_, l) => 1 / (1 + Math.exp(pass.logits[2 * l] - pass.logits[2 * l + 1])))
      const mean = chances.reduce((a, b) => a + b, 0)
      const deviation = Math.sqrt(chances.reduce((sum, p) => sum + p * (1 - p), 0))
      const grown = arms.reduce((a, b) => a + b, 0)
      expect(Math.abs(grown - mean)).toBeLessThan(4 * deviation)
      // An id's rows are alike, and yet not all are answered alike.
      const alike = [...new Set(ids)].filter((id) => {
        const answers = arms.filter((_, l) => ids[l] === id)
        return answers.every((arm) => arm === answers[0])
      })
      expect(alike.length).toBeLessThan(4)
    }
  })

  test("takes the likelier arm to act, an even chance keeps", () => {
    const judge = vi.spyOn(Controller.prototype, "judge")
    const policy = create(1)
    const choices = choose(Array.from({ length: 40 }, (_, i) => i))
    for (const side of SIDES) {
      const arms = policy.decide(side, choices)
      const { value } = judge.mock.results[judge.mock.results.length - 1] as { value: Float64Array }
      expect([...arms]).toEqual([...choices.ids.map((_, i) => (value[2 * i + 1] > value[2 * i] ? 1 : 0))])
      expect(new Set(arms).size, "both answers are met").toBe(2)
      expect([...policy.decide(side, choices)]).toEqual([...arms])
    }
    judge.mockReturnValue(new Float64Array(80))
    expect([...policy.decide("user", choices)]).toEqual(new Array(40).fill(0))
  })

  test("plays the same arms for the same seed, others for another, and users and items are drawn apart", () => {
    const ids = Array.from({ length: 60 }, (_, i) => i % 15)
    const life = (seed: number, side: Side) => {
      const policy = create(seed)
      const random = new Random("life")
      return [0, 1, 2].flatMap(() => [
        ...policy.learn(side, play(ids, { keep: () => random.next(), grow: () => random.next() })),
        ...policy.decide(side, choose(ids)),
      ])
    }
    const first = life(1, "user")
    expect(life(1, "user")).toEqual(first)
    expect(life(2, "user")).not.toEqual(first)
    expect(life(1, "item")).not.toEqual(first)
  })

  test.each([
    ["grow", 1],
    ["keep", 0],
  ] as const)(
    "comes to %s for more than nine tenths of its ids in 200 rounds of 60 when that arm's loss is always lower",
    (_, better) => {
      const policy = create(1, FAST)
      const ids = Array.from({ length: 60 }, (_, i) => i)
      const random = new Random("preference")
      const low = () => 0.1 + 0.1 * random.next()
      const high = () => 0.5 + 0.1 * random.next()
      const share = () =>
        policy.decide("user", choose(ids)).reduce((sum, arm) => sum + (arm === better ? 1 : 0), 0) / 60
      expect(share(), "before").toBeLessThan(0.8)
      for (let t = 0; t < 200; t++) {
        const order = ids.map(() => random.integer(60))
        policy.learn("user", play(order, better === 1 ? { keep: high, grow: low } : { keep: low, grow: high }))
      }
      expect(share()).toBeGreaterThan(0.9)
    },
  )

  test("comes to tell sizes apart: grows at the first size, where that pays, and keeps at the second", () => {
    const policy = create(1, FAST)
    const ids = Array.from({ length: 60 }, (_, i) => i)
    const random = new Random("sizes")
    const loss = (pays: boolean) => (pays ? 0.1 : 0.5) + 0.1 * random.next()
    for (let t = 0; t < 200; t++)
      policy.learn("item", play(ids, { keep: (l) => loss(l % 2 === 1), grow: (l) => loss(l % 2 === 0) }))
    const arms = policy.decide("item", choose(ids))
    const right = arms.filter((arm, i) => arm === 1 - (i % 2)).length
    expect(right).toBeGreaterThan(54)
  })
})
