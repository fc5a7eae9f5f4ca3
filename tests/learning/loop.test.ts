/** The order of work of method.md §3 and what each part of a segment may touch. */

import { afterEach, describe, expect, test, vi } from "vitest"
import { Indicators } from "../../src/ids/indicators.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { Run, runStream } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { SizedLearner } from "../../src/learning/sized-learner.ts"
import type { ModelBatch } from "../../src/models/model.ts"
import { packRows } from "../../src/models/packed-rows.ts"
import { Model } from "../../src/models/paper/model.ts"
import { AlwaysGrow, NeverGrow, RandomGrow } from "../../src/policies/controls.ts"
import { Dess } from "../../src/policies/dess.ts"
import { LinUcb } from "../../src/policies/lin-ucb.ts"
import type { Choices, Round, SizePolicy } from "../../src/policies/policy.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"
import type { Segment, Side } from "../../src/types.ts"
import { expectSameBits, readState, SIDES } from "../support/model-state.ts"
import { edit, record, runAll, segmentsOf, untimed } from "../support/runs.ts"
import { LIVE } from "../support/trainers.ts"

const LENGTH = 200
const STREAM = record({ interactions: 6 * LENGTH, users: 40, items: 150 })
const SEGMENTS = await segmentsOf(STREAM, LENGTH)
const OPTIONS: RunOptions = { threads: 1, sizes: [2, 4, 8], segment: LENGTH, recipe: "paper" }

const opened: Run[] = []

/** A run that is closed after the test. */
function open(options: RunOptions): Run {
  const run = new Run({ ...OPTIONS, ...options }, STREAM.features)
  opened.push(run)
  return run
}

afterEach(() => {
  for (const run of opened.splice(0)) run.close()
  vi.restoreAllMocks()
})

/** The network behind a run. */
function networkOf(run: Run): SizedLearner<Model> {
  if (!(run.learner instanceof SizedLearner && run.learner.model instanceof Model))
    throw new Error("expected a method with a network")
  return run.learner
}

const POLICY_CLASSES = { NeverGrow, AlwaysGrow, RandomGrow, Dess }

/** Calls back with every round and choice of a policy in a real run, before it answers. */
function watch(
  name: keyof typeof POLICY_CLASSES,
  seen: { learn?: (side: Side, round: Round) => void; decide?: (side: Side, choices: Choices) => void },
): void {
  const prototype: SizePolicy = POLICY_CLASSES[name].prototype
  const { learn, decide } = prototype
  vi.spyOn(prototype, "learn").mockImplementation(function (this: SizePolicy, side, round) {
    seen.learn?.(side, round)
    return learn.call(this, side, round)
  })
  vi.spyOn(prototype, "decide").mockImplementation(function (this: SizePolicy, side, choices) {
    seen.decide?.(side, choices)
    return decide.call(this, side, choices)
  })
}

const steps = (run: Run, side: Side): Map<number, number> => {
  const { table } = networkOf(run).model.inputs[side]
  return new Map([...table.ids()].map((id) => [id, table.step(id)]))
}

const distinct = (ids: Int32Array, length: number) => new Set(ids.subarray(0, length))

describe("the order of work", () => {
  test.each([
    ["split" as const, ["train", "test"]],
    ["prequential" as const, ["test", "train"]],
  ])("%s: the policy learns, then decides, then the model works", (protocol, last) => {
    const log: string[] = []
    watch("RandomGrow", {
      learn: (side) => log.push(`learn ${side}`),
      decide: (side) => log.push(`decide ${side}`),
    })
    const run = open({ method: "random-grow", protocol })
    for (const phase of ["train", "test"] as const) {
      const act = run.learner[phase].bind(run.learner)
      vi.spyOn(run.learner, phase).mockImplementation((batch) => {
        log.push(phase)
        return act(batch)
      })
    }
    for (const segment of SEGMENTS.slice(0, 3)) {
      log.push(`segment ${segment.index + 1}`)
      run.step(segment)
    }
    const policy = ["learn user", "learn item", "decide user", "decide item"]
    expect(log).toEqual(["segment 1", ...last, "segment 2", ...policy, ...last, "segment 3", ...policy, ...last])
  })

  test("the round of segment t holds the rows of segment t − 1, its test rows too, in order, as the model stands then", () => {
    const rounds: Record<Side, number[]>[] = []
    let want: Record<Side, number[]> = { user: [], item: [] }
    watch("NeverGrow", {
      learn(side, round) {
        if (side === "user") rounds.push({ user: [], item: [] })
        rounds[rounds.length - 1][side] = [...round.ids]
      },
    })
    const run = open({ method: "never-grow", preset: "paper" })
    for (const segment of SEGMENTS) {
      run.step(segment)
      if (segment.index > 0) expect(rounds[segment.index - 1]).toEqual(want)
      want = { user: [...segment.user], item: [...segment.item] }
    }
    expect(rounds).toHaveLength(SEGMENTS.length - 1)
  })

  test("always-grow acts from the first segment, all other policies from the second", () => {
    for (const method of ["always-grow", "never-grow", "random-grow", "dess-fre", "dess-cv", "esapn"]) {
      const run = open({ method, ...(method === "random-grow" ? { probability: { user: 1, item: 1 } } : {}) })
      const [first, second] = SEGMENTS.slice(0, 2).map((segment) => run.step(segment))
      const ids = (segment: Segment, side: Side) => distinct(segment[side], segment.trainLength).size
      for (const side of SIDES) {
        const all = method === "always-grow" ? ids(SEGMENTS[0], side) : 0
        expect(first.decided?.[side], method).toEqual({ all, grown: all })
        // Sizes 2, 4, 8: after one growth nobody is at the top yet, so all are decided on.
        expect(second.decided?.[side].all, method).toBe(ids(SEGMENTS[1], side))
      }
    }
  })

  test("rows have grown before the model trains on them", () => {
    const run = open({ method: "always-grow" })
    const train = run.learner.train.bind(run.learner)
    const seen: number[][] = []
    vi.spyOn(run.learner, "train").mockImplementation((batch) => {
      for (const side of SIDES) seen.push([...new Set(Array.from(batch[side], (id) => steps(run, side).get(id) ?? -1))])
      return train(batch)
    })
    run.step(SEGMENTS[0])
    expect(seen).toEqual([[1], [1]])
  })

  test.each(["split", "prequential"] as const)(
    "%s: each distinct id of the rows trained on is decided once, however often it occurs, and grows one size at most",
    (protocol) => {
      let decided: Record<Side, number[]> = { user: [], item: [] }
      watch("AlwaysGrow", {
        decide: (side, choices) => decided[side].push(...choices.ids),
      })
      const run = open({ method: "always-grow", protocol })
      for (const segment of SEGMENTS) {
        decided = { user: [], item: [] }
        const before = { user: steps(run, "user"), item: steps(run, "item") }
        run.step(segment)
        const training = protocol === "split" ? segment.trainLength : segment.length
        for (const side of SIDES) {
          const ids = distinct(segment[side], training)
          const below = [...ids].filter((id) => (before[side].get(id) ?? 0) < 2)
          expect(decided[side].toSorted()).toEqual(below.toSorted())
          for (const [id, step] of steps(run, side))
            expect(step).toBe(Math.min(2, (before[side].get(id) ?? 0) + (ids.has(id) ? 1 : 0)))
        }
      }
    },
  )

  test.each(["split", "prequential"] as const)(
    "%s: an id is decided with its indicators at its last occurrence in the rows trained on, earlier test rows counted",
    (protocol) => {
      const choices: Record<Side, Choices>[] = []
      watch("Dess", {
        decide(side, given) {
          if (side === "user") choices.push({ user: given, item: given })
          choices[choices.length - 1][side] = structuredClone(given)
        },
      })
      // Without learning the bandits of the paper keep everything: nobody reaches the top.
      vi.spyOn(Dess.prototype, "learn").mockImplementation((_, round) => new Uint8Array(round.length))
      const run = open({ method: "dess-cv", preset: "paper", protocol })
      const exact = new Indicators({ features: STREAM.features, exact: true })
      const testOnly: Record<Side, Set<number>> = { user: new Set(), item: new Set() }
      let fromTestRows = 0
      for (const segment of SEGMENTS) {
        run.step(segment)
        const training = protocol === "split" ? segment.trainLength : segment.length
        const want = { user: new Map<number, number[]>(), item: new Map<number, number[]>() }
        for (let l = 0; l < segment.length; l++) {
          exact.observe(segment.user[l], segment.item[l])
          for (const side of SIDES) {
            const id = segment[side][l]
            if (l < training) want[side].set(id, [exact.frequency(side, id), exact.diversity(side, id)])
            if (l < training && testOnly[side].delete(id)) fromTestRows++
            if (l >= training && exact.frequency(side, id) === 1) testOnly[side].add(id)
          }
        }
        if (segment.index === 0) continue
        for (const side of SIDES) {
          const got = choices[segment.index - 1][side]
          expect([...got.ids].toSorted()).toEqual([...want[side].keys()].toSorted())
          for (let i = 0; i < got.length; i++) {
            const [frequency, diversity] = want[side].get(got.ids[i]) ?? []
            const columns = STREAM.features.columns.length
            expect(got.frequencies[i]).toBe(frequency)
            expect(got.contexts[2 * i]).toBeCloseTo(Math.log(1 + frequency) / Math.log(10001) / Math.SQRT2, 12)
            expect(got.contexts[2 * i + 1]).toBeCloseTo(diversity / Math.sqrt(columns) / Math.SQRT2, 6)
          }
        }
      }
      expect(choices).toHaveLength(SEGMENTS.length - 1)
      if (protocol === "split") expect(fromTestRows, "ids first met in a test row and decided later").toBeGreaterThan(0)
    },
  )

  test("the contexts of a round are those as of each interaction", () => {
    const rounds: Round[] = []
    watch("Dess", { learn: (side, round) => side === "user" && rounds.push(round) })
    const run = open({ method: "dess-fre", preset: "paper", sizes: [2, 4, 8, 16, 32, 64, 65, 66] })
    for (const segment of SEGMENTS) run.step(segment)
    const counts = new Map<number, number>()
    for (const [t, round] of rounds.entries()) {
      const { user } = SEGMENTS[t]
      const want = [...user].map((id) => {
        counts.set(id, (counts.get(id) ?? 0) + 1)
        return counts.get(id) ?? 0
      })
      expect([...round.frequencies]).toEqual(want)
      for (const [l, frequency] of want.entries())
        expect(round.contexts[l]).toBeCloseTo(Math.log(1 + frequency) / Math.log(10001), 12)
    }
  })
})

describe("the rounds", () => {
  test("paper: every interaction is played on each side whose id is below the top, once", () => {
    const run = open({ method: "always-grow", preset: "paper" })
    let total = 0
    for (const segment of SEGMENTS) {
      const before = { user: steps(run, "user"), item: steps(run, "item") }
      const report = run.step(segment)
      for (const side of SIDES) {
        const ids = segment.index === 0 ? [] : [...SEGMENTS[segment.index - 1][side]]
        const open = ids.filter((id) => (before[side].get(id) ?? 0) < 2).length
        expect(report.played?.[side]).toEqual({ all: open, grown: open })
        total += ids.length - open
      }
    }
    expect(total, "rows left out, their id at the top").toBeGreaterThan(50)
  })

  test("calibrated: an interaction is played where the id comes again in the segment", () => {
    const run = open({ method: "never-grow", preset: "calibrated" })
    for (const segment of SEGMENTS) {
      const report = run.step(segment)
      if (segment.index === 0) continue
      const previous = SEGMENTS[segment.index - 1]
      for (const side of SIDES)
        expect(report.played?.[side]).toEqual({ all: LENGTH - distinct(previous[side], LENGTH).size, grown: 0 })
    }
  })

  test.each([
    ["paper" as const, { dimension: 2, subgaussian: 3, discount: 0.99, forget: "selected" as const }],
    ["calibrated" as const, { dimension: 3, subgaussian: 0.5, discount: 0.999, forget: "all" as const }],
  ])("%s: dess-cv plays the bandit with the constants of the table in §7", (preset, constants) => {
    const bandits = { user: new LinUcb(constants), item: new LinUcb(constants) }
    const { learn } = Dess.prototype
    let played = 0
    vi.spyOn(Dess.prototype, "learn").mockImplementation(function (this: Dess, side, round) {
      const arms = learn.call(this, side, round)
      for (let l = 0; l < round.length; l++) {
        const context = round.contexts.slice(l * constants.dimension, (l + 1) * constants.dimension)
        const got = this.scores(side, context)
        expect(bandits[side].choose(context, 0), `${side} ${l}`).toBe(arms[l])
        bandits[side].update(context, 0, arms[l], arms[l] === 1 ? round.growRewards[l] : round.keepRewards[l])
        if (l === round.length - 1) {
          const want = new Float64Array(2)
          bandits[side].scores(want, context)
          expect([got.keep, got.grow]).toEqual([...want])
        }
        played++
      }
      return arms
    })
    const run = open({ method: "dess-cv", preset, sizes: [2, 4, 8, 16, 32] })
    for (const segment of SEGMENTS.slice(0, 4)) run.step(segment)
    expect(played).toBeGreaterThan(300)
  })
})

/** Logits of the run's model for rows whose ids have all been met. */
function ask(run: Run, rows: { user: Int32Array; item: Int32Array }): Float64Array {
  return run.learner.test({ ...rows, label: new Float64Array(rows.user.length) }).logits
}

describe("what a test row may change", () => {
  const AT = 2
  const first = AT * LENGTH + SEGMENTS[AT].trainLength
  /** All test labels of segment 3 turned round. */
  const turned = edit(STREAM, ({ rating }) => {
    for (let r = first; r < (AT + 1) * LENGTH; r++) rating[r] = rating[r] > 3.5 ? 1 : 5
  })

  test.each("never-grow always-grow dess-cv esapn darts autoemb fixed-16 plain-bias plain-factor-4".split(" "))(
    "%s: a test label of segment t changes nothing of the model of segment t",
    async (method) => {
      const [run, other] = [open({ method }), open({ method })]
      const changed = await segmentsOf(turned, LENGTH)
      for (let t = 0; t <= AT; t++) {
        const [report, same] = [run.step(SEGMENTS[t]), other.step(changed[t])]
        expectSameBits(ask(other, SEGMENTS[t]), ask(run, SEGMENTS[t]), `${method}: logits after segment ${t + 1}`)
        expect(same.trainLoss).toBe(report.trainLoss)
        if (t === AT) expect(same.accuracy, "the test itself sees the label").not.toBe(report.accuracy)
      }
    },
  )

  test.each("never-grow always-grow dess-cv dess-fre uniform-4 fixed-16".split(" "))(
    "%s, calibrated recipe: a test label never reaches the model, later segments included",
    async (method) => {
      const [run, other] = [open({ method, recipe: "calibrated" }), open({ method, recipe: "calibrated" })]
      const changed = await segmentsOf(turned, LENGTH)
      for (const [t, segment] of SEGMENTS.entries()) {
        const [report, same] = [run.step(segment), other.step(changed[t])]
        expectSameBits(ask(other, segment), ask(run, segment), `${method}: logits after segment ${t + 1}`)
        expect([same.trainLoss, same.decided, same.meanSize]).toEqual([
          report.trainLoss,
          report.decided,
          report.meanSize,
        ])
        if (t === AT) expect(same.accuracy, "the test itself sees the label").not.toBe(report.accuracy)
      }
    },
  )

  test("at segment t + 1 it counts as validation: the round sees the new label, and sees nothing else that is new", async () => {
    const rounds: Round[][] = [[], []]
    let at = 0
    watch("Dess", { learn: (side, round) => side === "item" && rounds[at].push(round) })
    const options = { method: "dess-cv", sizes: [2, 3, 4, 5, 6, 7, 8], preset: "paper" as const }
    const [run, other] = [open(options), open(options)]
    const changed = await segmentsOf(turned, LENGTH)
    for (let t = 0; t <= AT + 1; t++) {
      at = 0
      run.step(SEGMENTS[t])
      at = 1
      other.step(changed[t])
    }
    const [before, after] = rounds.map((list) => list[AT])
    for (const losses of ["keepLosses", "growLosses"] as const)
      for (let l = 0; l < LENGTH; l++) {
        const same = before[losses][l] === after[losses][l]
        expect(same, `${losses} of row ${l}`).toBe(l < SEGMENTS[AT].trainLength)
      }
    expectSameBits(rounds[1][AT - 1].growLosses, rounds[0][AT - 1].growLosses, "the round before")
  })

  test("without a policy that learns it never reaches the model", async () => {
    for (const method of ["always-grow", "fixed-16"]) {
      const [run, other] = [open({ method }), open({ method })]
      const changed = await segmentsOf(turned, LENGTH)
      for (let t = 0; t < SEGMENTS.length; t++) {
        run.step(SEGMENTS[t])
        other.step(changed[t])
      }
      expectSameBits(ask(other, SEGMENTS[5]), ask(run, SEGMENTS[5]), method)
    }
  })

  test("prequential: a label changes nothing of the test of its own segment, and then trains the model", async () => {
    const [run, other] = [
      open({ method: "fixed-16", protocol: "prequential" }),
      open({ method: "fixed-16", protocol: "prequential" }),
    ]
    const changed = await segmentsOf(turned, LENGTH)
    const tested: Float64Array[] = []
    for (const one of [run, other]) {
      const test = one.learner.test.bind(one.learner)
      vi.spyOn(one.learner, "test").mockImplementation((batch) => {
        const result = test(batch)
        tested.push(result.logits)
        return result
      })
    }
    for (let t = 0; t <= AT; t++) {
      run.step(SEGMENTS[t])
      other.step(changed[t])
      expect(tested[2 * t]).toHaveLength(LENGTH)
      expectSameBits(tested[2 * t + 1], tested[2 * t], `tests of segment ${t + 1}`)
    }
    expect([...ask(other, SEGMENTS[AT])]).not.toEqual([...ask(run, SEGMENTS[AT])])
  })

  test("split: the test rows are the last fifth and the model trains on the first four", () => {
    const run = open({ method: "fixed-4" })
    const trained: ModelBatch[] = []
    const tested: ModelBatch[] = []
    vi.spyOn(run.learner, "train").mockImplementation((batch) => {
      trained.push(batch)
      return { logits: new Float64Array(160), losses: new Float64Array(160) }
    })
    vi.spyOn(run.learner, "test").mockImplementation((batch) => {
      tested.push(batch)
      return { logits: new Float64Array(40), losses: new Float64Array(40) }
    })
    run.step(SEGMENTS[0])
    const { user, item, rating } = SEGMENTS[0]
    const want = (from: number, to: number) => ({
      user: [...user.subarray(from, to)],
      item: [...item.subarray(from, to)],
      label: [...rating.subarray(from, to)].map((stars) => (stars > 3.5 ? 1 : 0)),
    })
    const columns = (batch: ModelBatch) => ({
      user: Array.from(batch.user),
      item: Array.from(batch.item),
      label: Array.from(batch.label),
    })
    expect(trained.map(columns)).toEqual([want(0, 160)])
    expect(tested.map(columns)).toEqual([want(160, 200)])
  })
})

describe("no look-ahead", () => {
  const KNOWN = 3

  test.each(["binary", "multiclass", "topk"] as const)(
    "%s: whoever stands in a segment's test rows, its training and its sizes are the same",
    async (task) => {
      const stream = synthetic({ interactions: 16_000, seed: 5 })
      const [run, twin] = [1, 2].map(
        () => new Run({ method: "dess-cv", task, protocol: "split", live: LIVE }, stream.features),
      )
      const random = new Random(3, "test rows")
      const rowsOf = ({ learner }: Run) => {
        const { model } = learner as SizedLearner
        return SIDES.map((side) => {
          const table = model.tables[side]
          return new Map(Array.from(table.ids(), (id) => [id, packRows(table, [id]).rows.join()]))
        })
      }
      for await (const segment of cutSegments(stream.batches(), { length: 500 })) {
        const known = rowsOf(run).map((rows) => [...rows.keys()])
        if (segment.index < 12 || segment.index % 4 > 0) {
          run.step(segment)
          continue
        }
        const state = new State()
        run.save(state)
        twin.load(state)
        run.step(segment)
        const other = { ...segment, user: segment.user.slice(), item: segment.item.slice() }
        for (let r = segment.trainLength; r < segment.length; r++)
          SIDES.forEach((side, s) => {
            other[side][r] = known[s][random.integer(known[s].length)]
          })
        twin.step(other)
        const [ours, theirs] = [rowsOf(run), rowsOf(twin)]
        SIDES.forEach((side, s) => {
          for (const id of known[s]) expect(theirs[s].get(id), `${side} ${id}`).toBe(ours[s].get(id))
        })
      }
      run.close()
      twin.close()
    },
  )

  test.each<[string, RunOptions]>([
    ["dess-cv", { method: "dess-cv" }],
    ["dess-cv, paper, prequential", { method: "dess-cv", preset: "paper", protocol: "prequential" }],
    ["always-grow", { method: "always-grow" }],
    ["random-grow", { method: "random-grow", probability: { user: 0.4, item: 0.4 } }],
    ["esapn", { method: "esapn" }],
    ["darts", { method: "darts" }],
    ["autoemb", { method: "autoemb" }],
    ["fixed-8", { method: "fixed-8" }],
    ["plain-factor-4, multiclass", { method: "plain-factor-4", task: "multiclass" }],
    ["dess-cv, top-k", { method: "dess-cv", task: "topk" }],
    ["plain-knn, top-k", { method: "plain-knn", task: "topk" }],
    ["isgd, top-k", { method: "isgd", task: "topk" }],
    ["ease, top-k", { method: "ease", task: "topk" }],
  ])("%s: what comes later never changes an earlier report", async (_, options) => {
    const { reports } = await runAll(STREAM, options)
    const cut = await runAll(STREAM, { ...options, limit: KNOWN * LENGTH })
    const later = edit(STREAM, ({ user, item, rating }) => {
      for (let r = KNOWN * LENGTH; r < user.length; r++) {
        user[r] = 40 + (r % 7)
        item[r] = (item[r] + 5) % 150
        rating[r] = 5.5 - rating[r]
      }
    })
    // Items met later get other features too.
    const met = new Set(STREAM.batch.item.subarray(0, KNOWN * LENGTH))
    const { columns, values, present } = STREAM.features
    const others = values.map((value, i) => (met.has(Math.floor(i / columns.length)) ? value : 1 - value))
    const changed = await runAll({ ...later, features: { columns, present, values: others } }, options)
    expect(cut.reports).toHaveLength(KNOWN)
    expect(untimed(cut.reports)).toBe(untimed(reports.slice(0, KNOWN)))
    expect(untimed(changed.reports.slice(0, KNOWN))).toBe(untimed(reports.slice(0, KNOWN)))
    expect(untimed(changed.reports)).not.toBe(untimed(reports))
  })
})

describe("the generator", () => {
  test("ends early when asked to, with what was measured, and closes its kernels", async () => {
    const close = vi.spyOn(SizedLearner.prototype, "close")
    const run = runStream(STREAM, { ...OPTIONS, method: "fixed-4" })
    const reports = [await run.next(), await run.next()]
    const { value, done } = await run.next(true)
    expect(done).toBe(true)
    expect(value).toMatchObject({ segments: 2, interactions: 2 * LENGTH })
    expect(reports.map(({ value }) => value.interactions)).toEqual([LENGTH, 2 * LENGTH])
    expect(close).toHaveBeenCalledTimes(1)
  })

  test("closes its kernels when the stream breaks", async () => {
    const close = vi.spyOn(SizedLearner.prototype, "close")
    const broken = {
      ...STREAM,
      *batches() {
        yield STREAM.batch
        throw new Error("disk gone")
      },
    }
    const run = runStream(broken, { ...OPTIONS, method: "fixed-4" })
    await expect(
      (async () => {
        for await (const _ of run);
      })(),
    ).rejects.toThrow("disk gone")
    expect(close).toHaveBeenCalledTimes(1)
  })

  test("refuses to go on when a loss is not a number, and says in which segment", () => {
    const run = open({ method: "fixed-4" })
    run.step(SEGMENTS[0])
    vi.spyOn(run.learner, "test").mockImplementation(() => ({
      logits: new Float64Array(40),
      losses: new Float64Array(40).fill(Number.NaN),
    }))
    expect(() => run.step(SEGMENTS[1])).toThrow(/loss of segment 2: expected a finite number, got NaN/)
  })

  test("a step leaves no working memory behind", () => {
    for (const method of ["dess-cv", "esapn", "fixed-4"])
      for (const task of ["binary", "topk"] as const) {
        const run = open({ method, task })
        const marks = SEGMENTS.slice(0, 4).map((segment) => {
          run.step(segment)
          return readState(networkOf(run).model).workingMemory
        })
        expect(new Set(marks).size, `${method} ${task}`).toBe(1)
      }
  })
})
