/** The soft methods: what DARTS and AutoEmb do to the mixtures, what they leave alone, and all searched baselines along a stream. */

import { afterEach, describe, expect, test, vi } from "vitest"
import { Run } from "../../src/learning/loop.ts"
import { SizedLearner } from "../../src/learning/sized-learner.ts"
import { SoftLearner } from "../../src/learning/soft-learner.ts"
import { DEFAULT_SIZES, type ModelBatch } from "../../src/models/model.ts"
import { Model, type ModelOptions } from "../../src/models/paper/model.ts"
import { Controller, type ControllerInput, type ControllerPass } from "../../src/policies/controller.ts"
import type { Segment, Side } from "../../src/types.ts"
import { slope } from "../support/finite-differences.ts"
import { expectSameMixtures, type Mixtures, mixtureKnob, readMixtures } from "../support/mixtures.ts"
import { expectSameBits, expectSameRow, type ModelState, readState, SIDES } from "../support/model-state.ts"
import { record, runAll, segmentsOf, untimed } from "../support/runs.ts"
import { DOUBLE, REFERENCE, type Twin } from "../support/twins.ts"

const HEADS = ["ncf", "mf", "distance"] as const
const TASKS = ["binary", "multiclass", "topk"] as const
const METHODS = ["esapn", "darts", "autoemb"] as const

const LENGTH = 150
const STREAM = record({ interactions: 4 * LENGTH, users: 30, items: 80 })
/** Shorter ones, for the reference twin. */
const SEGMENTS = (await segmentsOf(STREAM, 40)).slice(0, 5)

afterEach(() => {
  vi.restoreAllMocks()
})

function open(method: "darts" | "autoemb", twin: Twin = REFERENCE, options: Omit<ModelOptions, "kernels"> = {}) {
  const model = new Model({
    kernels: twin.open(),
    precision: twin.precision,
    input: "mixture",
    sizes: [2, 3, 5],
    hidden: 4,
    ...options,
  })
  return { model, learner: new SoftLearner(model, { method, seed: 1 }) }
}

const labels = (segment: Segment) => Float64Array.from(segment.rating, (rating) => (rating > 3.5 ? 1 : 0))

function part(segment: Segment, from: number, to: number): ModelBatch {
  const { user, item } = segment
  return { user: user.subarray(from, to), item: item.subarray(from, to), label: labels(segment).subarray(from, to) }
}

const whole = (segment: Segment) => part(segment, 0, segment.length)
const prepare = (learner: SoftLearner, segment: Segment) =>
  learner.prepare(segment, labels(segment), segment.trainLength)

/** Training step and test of a segment. */
function work(learner: SoftLearner, segment: Segment): void {
  learner.train(part(segment, 0, segment.trainLength))
  learner.test(part(segment, segment.trainLength, segment.length))
}

const distinct = (ids: Iterable<number>) => [...new Set(ids)]

const softmax = (logits: ArrayLike<number>) => {
  const powers = Array.from(logits, (z) => Math.exp(z))
  return powers.map((power) => power / powers.reduce((a, b) => a + b, 0))
}

/** The summed loss in training mode; the model is put back. */
function lossOf(model: Model, batch: ModelBatch): number {
  const pass = model.backpropagate(batch)
  model.discard(pass)
  return pass.losses.reduce((sum, loss) => sum + loss, 0)
}

/** Asks that rows, dense parameters and running statistics are as they were; rows may have been added. */
function expectModelKept(model: Model, before: ModelState): void {
  const after = readState(model)
  expectSameBits(after.dense, before.dense, "dense parameters and moments")
  expectSameBits(after.running, before.running, "running statistics")
  expect([after.denseSteps, after.workingMemory]).toEqual([before.denseSteps, before.workingMemory])
  for (const side of SIDES)
    for (const [id, row] of before.rows[side]) expectSameRow(after.rows[side].get(id), row, `${side} ${id}`)
}

describe.each(["darts", "autoemb"] as const)("%s", (method) => {
  test("searches the mixtures and leaves the model as it is: rows, parameters, statistics, working memory", () => {
    for (const head of HEADS) {
      const { model, learner } = open(method, REFERENCE, { head })
      for (const segment of SEGMENTS) {
        const [state, mixtures] = [readState(model), readMixtures(model)]
        prepare(learner, segment)
        expectModelKept(model, state)
        if (segment.index > 0) expect(readMixtures(model)).not.toEqual(mixtures)
        const searched = readMixtures(model)
        work(learner, segment)
        expectSameMixtures(readMixtures(model), searched, "the model's own work moves no mixture")
        expect(readState(model).dense).not.toEqual(state.dense)
      }
    }
  })

  test("does not look ahead: labels and test rows of the segment at hand change no mixture of its training rows", () => {
    const [plain, changed] = [open(method), open(method)]
    for (const segment of SEGMENTS.slice(0, 4)) {
      const { user, item, trainLength } = segment
      const shift = (ids: Int32Array) => ids.map((id, l) => (l < trainLength ? id : 200 + l))
      prepare(plain.learner, segment)
      const other = { ...segment, user: shift(user), item: shift(item) }
      const opposite = labels(segment).map((label) => 1 - label)
      if (segment.index === 3) changed.learner.prepare(other, opposite, trainLength)
      else prepare(changed.learner, segment)
      const want = readMixtures(plain.model)
      const got = readMixtures(changed.model)
      for (const side of SIDES)
        for (const id of distinct(segment[side].subarray(0, trainLength)))
          expectSameRow(got[side].get(id), want[side].get(id), `${side} ${id} of segment ${segment.index + 1}`)
      for (const { learner } of [plain, changed]) work(learner, segment)
    }
  })

  test("holds a mixture for every id it has seen and counts it as memory", () => {
    const { model, learner } = open(method)
    const seen: Record<Side, Set<number>> = { user: new Set(), item: new Set() }
    for (const segment of SEGMENTS) {
      prepare(learner, segment)
      const status = learner.status()
      for (const side of SIDES) {
        for (const id of segment[side]) seen[side].add(id)
        expect(distinct(readMixtures(model)[side].keys()).sort()).toEqual([...seen[side]].sort())
        const { size } = seen[side]
        expect(status[side]).toMatchObject({ seen: size, numbers: 13 * size, histogram: { 13: size } })
      }
      expect(status.embeddingBytes).toBe(4 * 13 * (seen.user.size + seen.item.size))
      work(learner, segment)
    }
  })
})

describe("DARTS", () => {
  test("starts from even mixtures", () => {
    const { model, learner } = open("darts")
    prepare(learner, SEGMENTS[0])
    work(learner, SEGMENTS[0])
    for (const side of SIDES)
      for (const [id, { value, steps }] of readMixtures(model)[side]) {
        expect(softmax(value), `${side} ${id}`).toEqual([1 / 3, 1 / 3, 1 / 3])
        expect(steps).toBe(0)
      }
  })

  test("moves the mixtures of the ids of the previous segment, its test rows too, once each, and no other", () => {
    const { model, learner } = open("darts")
    let others = 0
    for (const segment of SEGMENTS) {
      const before = readMixtures(model)
      prepare(learner, segment)
      const after = readMixtures(model)
      for (const side of SIDES) {
        const previous = segment.index === 0 ? [] : [...SEGMENTS[segment.index - 1][side]]
        for (const [id, row] of before[side]) {
          const now = after[side].get(id)
          if (previous.includes(id)) {
            expect(now?.steps, `${side} ${id}`).toBe(row.steps + 1)
            expect(now?.value, `${side} ${id}`).not.toEqual(row.value)
          } else {
            expectSameRow(now, row, `${side} ${id}, not in the previous segment`)
            others++
          }
        }
      }
      work(learner, segment)
    }
    expect(others, "ids that had to stay").toBeGreaterThan(30)
  })

  test("steps against the slope of the previous segment's loss by Adam's first step of 1e-4: finite differences", () => {
    for (const head of HEADS) {
      const { model, learner } = open("darts", DOUBLE, { head })
      prepare(learner, SEGMENTS[0])
      work(learner, SEGMENTS[0])
      const batch = whole(SEGMENTS[0])
      const slopes = SIDES.flatMap((side) =>
        distinct(SEGMENTS[0][side])
          .slice(0, 4)
          .flatMap((id) => {
            const knobs = [0, 1, 2].map((at) => mixtureKnob(model, { side, id, at }))
            return knobs.map((knob) => ({ knob, slope: slope(() => lossOf(model, batch), knob) }))
          }),
      )
      expect(slopes.filter(({ slope }) => Math.abs(slope) > 1e-5).length).toBeGreaterThan(slopes.length / 2)
      prepare(learner, SEGMENTS[1])
      for (const { knob, slope } of slopes) {
        const want = (-1e-4 * slope) / (Math.abs(slope) + 1e-8)
        if (Math.abs(slope) > 1e-5) expect(Math.abs(knob.get() - want), `${head} ${knob.name}`).toBeLessThan(1e-7)
      }
    }
  })
})

describe("AutoEmb", () => {
  /** Calls of a controller's method with what it gave, and the mixtures as they stood right after. */
  function watch<Name extends "forward" | "judge">(name: Name, model: Model) {
    const original = Controller.prototype[name] as (
      this: Controller,
      input: ControllerInput,
    ) => ReturnType<Controller[Name]>
    const calls: { input: ControllerInput; result: ReturnType<Controller[Name]>; mixtures: Mixtures }[] = []
    const spy = vi.spyOn(Controller.prototype, name) as unknown as {
      mockImplementation(act: typeof original): void
    }
    spy.mockImplementation(function (input) {
      const result = original.call(this, input)
      calls.push({ input, result, mixtures: readMixtures(model) })
      return result
    })
    return calls
  }

  /** Frequencies after the first `rows` rows of the stream. */
  const countUpTo = (side: Side, rows: number) => {
    const counts = new Map<number, number>()
    for (const id of STREAM.batch[side].subarray(0, rows)) counts.set(id, (counts.get(id) ?? 0) + 1)
    return counts
  }

  /** Asks that a controller was shown these ids' frequencies and the mixtures they had. */
  function expectShown(
    input: ControllerInput,
    want: { ids: readonly number[]; side: Side; rows: number; mixtures: Mixtures },
  ) {
    const { ids, side, rows, mixtures } = want
    const counts = countUpTo(side, rows)
    expect(Array.from(input.frequencies)).toEqual(ids.map((id) => counts.get(id)))
    ids.forEach((id, i) => {
      const at = 3 * input.secondIndex[i]
      softmax(mixtures[side].get(id)?.value ?? [0, 0, 0]).forEach((share, c) => {
        expect(Math.abs(input.second[at + c] - share), `${side} ${id}`).toBeLessThan(1e-12)
      })
    })
  }

  test("sets the mixtures of the training rows' ids by their frequency and last mixture, and of no other", () => {
    const { model, learner } = open("autoemb")
    const calls = watch("judge", model)
    for (const segment of SEGMENTS) {
      prepare(learner, segment)
      const after = readMixtures(model)
      expect(calls).toHaveLength(2)
      calls.splice(0).forEach(({ input, result, mixtures }, s) => {
        const side = SIDES[s]
        const ids = distinct(segment[side].subarray(0, segment.trainLength))
        expectShown(input, { ids, side, rows: 40 * segment.index + segment.trainLength, mixtures })
        for (const [id, row] of mixtures[side]) {
          const i = ids.indexOf(id)
          if (i < 0) expectSameRow(after[side].get(id), row, `${side} ${id}, not at hand`)
          else
            expectSameBits(
              after[side].get(id)?.value ?? [],
              Float32Array.from(result.subarray(3 * i, 3 * i + 3)),
              `${side} ${id}`,
            )
        }
      })
      work(learner, segment)
    }
    const values = SIDES.flatMap((side) => [...readMixtures(model)[side].values()].map(({ value }) => String(value)))
    expect(new Set(values).size, "mixtures that differ").toBeGreaterThan(20)
  })

  test("trains on the whole previous segment: shown frequency and last mixture, judged by the mixtures it then sets", () => {
    const { model, learner } = open("autoemb")
    const forward = watch("forward", model)
    const learned: Mixtures[] = []
    const { learn } = Controller.prototype
    vi.spyOn(Controller.prototype, "learn").mockImplementation(function (this: Controller, pass, gradient) {
      learned.push(readMixtures(model))
      learn.call(this, pass, gradient)
    })
    for (const segment of SEGMENTS) {
      const before = readMixtures(model)
      prepare(learner, segment)
      const calls = forward.splice(0)
      const [atItems] = learned.splice(0)
      expect(calls).toHaveLength(segment.index === 0 ? 0 : 2)
      calls.forEach(({ input, result }, s) => {
        const side = SIDES[s]
        const ids = distinct(SEGMENTS[segment.index - 1][side])
        expectShown(input, { ids, side, rows: 40 * segment.index, mixtures: before })
        ids.forEach((id, i) => {
          const want = Float32Array.from(result.logits.subarray(3 * i, 3 * i + 3))
          expectSameBits(atItems[side].get(id)?.value ?? [], want, `${side} ${id} in the model's pass`)
        })
      })
      work(learner, segment)
    }
  })

  test.each(HEADS)("trains its controllers through the softmax, against the loss: finite differences (%s)", (head) => {
    const { model, learner } = open("autoemb", DOUBLE, { head })
    const inputs = new Map<ControllerPass, ControllerInput>()
    const { forward, learn } = Controller.prototype
    vi.spyOn(Controller.prototype, "forward").mockImplementation(function (this: Controller, input) {
      const pass = forward.call(this, input)
      inputs.set(pass, input)
      return pass
    })
    let previous = SEGMENTS[0]
    let learned = 0
    vi.spyOn(Controller.prototype, "learn").mockImplementation(function (this: Controller, pass, gradient) {
      // Working memory is a stack, so the items' pass ends first.
      const side = SIDES[1 - (learned++ % 2)]
      const batch = whole(previous)
      distinct(previous[side])
        .slice(0, 4)
        .forEach((id, i) => {
          for (const at of [0, 1, 2]) {
            const measured = slope(() => lossOf(model, batch), mixtureKnob(model, { side, id, at }))
            const error = Math.abs(measured - gradient[3 * i + at]) / Math.max(Math.abs(measured), 0.01)
            expect(error, `${side} ${id}[${at}]: ${measured} and ${gradient[3 * i + at]}`).toBeLessThan(1e-7)
          }
        })
      learn.call(this, pass, gradient)
      const input = inputs.get(pass)
      if (!input) expect.fail("a pass that was never begun")
      const again = forward.call(this, input)
      model.kernels.release(again.mark)
      const change = gradient.reduce((sum, g, i) => sum + g * (again.logits[i] - pass.logits[i]), 0)
      expect(change, `first-order change of the ${side}s' loss`).toBeLessThan(0)
    })
    for (const segment of SEGMENTS.slice(0, 3)) {
      prepare(learner, segment)
      work(learner, segment)
      previous = segment
    }
    expect(learned).toBe(4)
  })
})

describe("along a stream", () => {
  const finite = (value: unknown): boolean =>
    typeof value === "number"
      ? Number.isFinite(value)
      : typeof value !== "object" || value === null || Object.values(value).every(finite)

  /** A run whose threads are all up before it starts. */
  async function runReady(options: ConstructorParameters<typeof Run>[0]): Promise<string> {
    const run = new Run({ sizes: [2, 4, 8], ...options }, STREAM.features)
    const { learner } = run
    if (!(learner instanceof SizedLearner || learner instanceof SoftLearner))
      expect.fail("expected a method with a network")
    if (learner.model instanceof Model) await learner.model.kernels.ready()
    const reports = (await segmentsOf(STREAM, LENGTH)).map((segment) => run.step(segment))
    run.close()
    return untimed({ reports, result: run.result() })
  }

  for (const method of METHODS)
    for (const model of HEADS)
      test.each(TASKS)(`${method} with ${model}, %s: finite, the same twice and on two threads`, async (task) => {
        const options = { method, model, task }
        const { reports, result } = await runAll(STREAM, { ...options, segment: LENGTH })
        expect(reports).toHaveLength(4)
        expect(finite({ reports, result })).toBe(true)
        expect(result.embeddingBytes).toBeGreaterThan(0)
        expect(await runReady({ ...options, threads: 2 })).toBe(untimed({ reports, result }))
      })

  test.each(METHODS)("%s: the same on one, two and three threads, another way for another seed", async (method) => {
    for (const protocol of ["split", "prequential"] as const) {
      const one = await runReady({ method, protocol, threads: 1 })
      for (const threads of [2, 3]) expect(await runReady({ method, protocol, threads })).toBe(one)
      expect(await runReady({ method, protocol, threads: 1, seed: 2 })).not.toBe(one)
    }
  })

  test.each(["darts", "autoemb"])("%s holds 228 numbers for every id seen, whatever the task", async (method) => {
    for (const task of TASKS) {
      const { reports, result } = await runAll(STREAM, { method, task, sizes: DEFAULT_SIZES, segment: LENGTH })
      reports.forEach((report, t) => {
        const seen = SIDES.map((side) => new Set(STREAM.batch[side].subarray(0, (t + 1) * LENGTH)).size)
        expect(report.meanSize).toEqual({ user: 228, item: 228 })
        expect(report.sizeHistogram).toEqual({ user: { 228: seen[0] }, item: { 228: seen[1] } })
        expect(report.embeddingBytes).toBe(4 * 228 * (seen[0] + seen[1]))
        expect([report.regret, report.played, report.decided]).toEqual([null, null, null])
      })
      expect(result.meanSizeOverTime).toEqual({ user: 228, item: 228 })
      expect([result.regret, result.growShare]).toEqual([null, null])
    }
  })

  test.each(METHODS)("%s takes segments of one row, one size alone and the size 0", async (method) => {
    for (const task of TASKS)
      for (const options of [
        { segment: 1, limit: 8, protocol: "prequential" as const },
        { sizes: [4] },
        { sizes: [0, 4] },
      ])
        expect(finite(await runAll(STREAM, { method, task, limit: 301, segment: LENGTH, ...options }))).toBe(true)
  })

  test("esapn grows some ids and not all, from the second segment on", async () => {
    const { reports, result } = await runAll(STREAM, { method: "esapn", preset: "paper", segment: LENGTH })
    expect(reports[0]).toMatchObject({ meanSize: { user: 2, item: 2 } })
    for (const side of SIDES) {
      expect(reports[1].decided?.[side].all).toBeGreaterThan(0)
      expect(result.growShare?.[side]).toBeGreaterThan(0.2)
      expect(result.growShare?.[side]).toBeLessThan(0.8)
      expect(result.meanSize[side]).toBeGreaterThan(2)
      expect(result.meanSize[side]).toBeLessThan(8)
    }
  })
})
