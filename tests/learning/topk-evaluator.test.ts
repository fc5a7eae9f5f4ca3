/** The top-k task (method.md §2, §9): exact rankings, the measures by hand, whom negatives are drawn for. */

import { describe, expect, test, vi } from "vitest"
import { History } from "../../src/ids/history.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import type { Learner, Ranker } from "../../src/learning/learner.ts"
import { Run } from "../../src/learning/loop.ts"
import { NOTHING, quality } from "../../src/learning/metrics.ts"
import { NegativeSampler } from "../../src/learning/negative-sampler.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { TopkEvaluator } from "../../src/learning/topk-evaluator.ts"
import type { ModelBatch } from "../../src/models/model.ts"
import { Model } from "../../src/models/paper/model.ts"
import type { NcfHead } from "../../src/models/paper/ncf.ts"
import { Ranking, rankingQuality, topPositions } from "../../src/models/paper/ranking.ts"
import type { HeadKind, InteractionBatch, Segment, Task } from "../../src/types.ts"
import { expectSameBits, expectSameScores, SIDES } from "../support/model-state.ts"
import { record, runAll, segmentsOf } from "../support/runs.ts"
import { TWINS } from "../support/twins.ts"

const HEADS: readonly HeadKind[] = ["ncf", "mf", "distance"]

describe.each(TWINS)("a ranking on $name", (twin) => {
  const cases = HEADS.flatMap((head) => (["topk", "multiclass"] as const).map((task): [HeadKind, Task] => [head, task]))

  function openTrained(head: HeadKind, task: Task): Model {
    const { precision } = twin
    const model = new Model({ kernels: twin.open(), precision, sizes: [2, 3, 8], hidden: 12, task, head })
    const random = new Random("ranking", head)
    const draw = (rows: number): ModelBatch => ({
      user: Array.from({ length: rows }, () => random.integer(9)),
      item: Array.from({ length: rows }, () => random.integer(41)),
      label: Array.from({ length: rows }, () => random.integer(2)),
    })
    for (let step = 0; step < 3; step++) {
      model.train(draw(60))
      for (const side of SIDES) {
        const { table } = model.inputs[side]
        model.ladder(side).grow([...table.ids()].filter((id) => table.step(id) < 2 && random.integer(2) === 0))
      }
    }
    return model
  }

  /** Ranks every item for some users and compares with predict. */
  function checkRanking(model: Model): void {
    const items = [...model.inputs.item.table.ids()].reverse()
    const before = model.kernels.mark()
    const ranking = new Ranking(model, items)
    expect([...ranking.items].toSorted((a, b) => b - a)).toEqual(items)
    // User 20 has never been met.
    for (const user of [0, 5, 3, 20, 0]) {
      const got = ranking.scores(user)
      const item = [...ranking.items]
      const all = model.predict({ user: item.map(() => user), item, label: item.map(() => 0) }).logits
      const want = all.filter((_, i) => i % model.outputs === 0)
      expectSameScores(got, want, { model, label: `user ${user}` })
      const again = new Ranking(model, [item[7]])
      expectSameBits(again.scores(user), [got[7]], `user ${user}, item ${item[7]} alone`)
      again.release()
    }
    ranking.release()
    expect(model.kernels.mark()).toBe(before)
  }

  test.each(cases)(
    "%s, %s: the scores are the logits of Model.predict (ncf: to 2e-6, float64 to 1e-13)",
    (head, task) => checkRanking(openTrained(head, task)),
  )

  test("they are so, too, where sums are so large that tanh is 1 and exponentials would overflow", () => {
    for (const [user, item] of [
      [200, 1],
      [1, 200],
      [1e4, 1e4],
    ]) {
      const model = openTrained("ncf", "topk")
      const head = model.head as NcfHead
      for (const [weight, factor] of [
        [head.userWeight, user],
        [head.itemWeight, item],
      ] as const)
        for (let i = 0; i < weight.rows * weight.columns; i++) model.kernels.floats[weight.value + i] *= factor
      checkRanking(model)
    }
  })

  test("no item at all is a ranking too", () => {
    const model = new Model({ kernels: twin.open(), precision: twin.precision, sizes: [2, 4], hidden: 4 })
    const ranking = new Ranking(model, [])
    expect(ranking.scores(0)).toHaveLength(0)
    ranking.release()
  })
})

describe("the best of a list", () => {
  test("topPositions sorts the best first, equals by position, and leaves masked ones out", () => {
    expect(topPositions([1, 5, 3, 5, 4], 3)).toEqual([1, 3, 4])
    expect(topPositions([2, 2, 2, 2], 2)).toEqual([0, 1])
    expect(topPositions([Number.NEGATIVE_INFINITY, -1e300, Number.NaN, 0], 4)).toEqual([3, 1])
    expect(topPositions([], 3)).toEqual([])
  })

  test("topPositions agrees with a full sort of many scores with ties", () => {
    for (let seed = 0; seed < 50; seed++) {
      const random = new Random("top positions", seed)
      const scores = Array.from({ length: 40 }, () => random.integer(12))
      const sorted = scores.map((_, i) => i).toSorted((a, b) => scores[b] - scores[a] || a - b)
      for (const count of [1, 7, 40, 60])
        expect(topPositions(scores, count), `seed ${seed}`).toEqual(sorted.slice(0, count))
    }
  })

  test("recall and ndcg are those worked out by hand", () => {
    const list = [7, 1, 9, 4]
    const gain = (rank: number) => 1 / Math.log2(rank + 1)
    const check = (relevant: number[], k: number, recall: number, ndcg: number) => {
      const got = rankingQuality(list, new Set(relevant), k)
      expect(got.recall).toBeCloseTo(recall, 14)
      expect(got.ndcg).toBeCloseTo(ndcg, 14)
    }
    check([7], 4, 1, 1)
    check([1], 4, 1, gain(2) / gain(1))
    check([4, 7, 100], 4, 2 / 3, (gain(1) + gain(4)) / (gain(1) + gain(2) + gain(3)))
    // More relevant items than places: the ideal is a full list, recall is over all of them.
    check([7, 1, 100, 101, 102], 2, 2 / 5, 1)
    check([9, 4], 2, 0, 0)
    check([], 4, 0, 0)
  })

  test("a list shorter than k is judged by what it holds", () => {
    const { recall, ndcg } = rankingQuality([3], new Set([3, 8]), 10)
    expect(recall).toBe(0.5)
    expect(ndcg).toBeCloseTo(1 / (1 + 1 / Math.log2(3)), 14)
  })

  test("the metric is the mean over users, then over the segments with a test user", () => {
    const score = (users: number, recall: number, ndcg: number) => ({
      ...NOTHING,
      ...{ users, recall, ndcg },
    })
    const { recall, ndcg } = quality([score(4, 2, 1), score(0, 0, 0), score(1, 1, 0.5)])
    expect([recall, ndcg]).toEqual([(2 / 4 + 1) / 2, (1 / 4 + 0.5) / 2])
  })
})

/** Rows as a batch: pairs of user and item. */
function batchOf(pairs: readonly (readonly [number, number])[]): ModelBatch & InteractionBatch {
  const length = pairs.length
  return {
    length,
    user: Int32Array.from(pairs, ([user]) => user),
    item: Int32Array.from(pairs, ([, item]) => item),
    rating: new Float32Array(length).fill(1),
    timestamp: new Float64Array(length),
    label: new Float64Array(length).fill(1),
  }
}

/** A learner whose score of an item is the item's number, for everyone: item 9 before item 8. */
function highestFirst(asked: { items: number[]; users: number[] }): Learner {
  const rank = (items: readonly number[]): Ranker => {
    asked.items = [...items]
    return {
      items: Int32Array.from(items),
      scores: (user) => {
        asked.users.push(user)
        return Float64Array.from(items)
      },
      release: () => {},
    }
  }
  return {
    prepare: () => ({ milliseconds: { policy: 0, growth: 0 } }),
    train: () => expect.fail("an exam does not train"),
    test: () => expect.fail("top-k predicts no label"),
    rank,
    status: () => expect.fail("an exam asks for no status"),
    close: () => {},
  }
}

describe("the top-k exam", () => {
  const exam = () => new TopkEvaluator({ k: 2, negatives: 1, seed: 1 })

  test("ranks all items seen so far, training rows of the segment included, and masks the user's history", () => {
    const asked = { items: [] as number[], users: [] as number[] }
    const topk = exam()
    topk.training(
      batchOf([
        [0, 5],
        [0, 3],
        [1, 4],
        [1, 1],
      ]),
    )
    // Of user 0 items 5 and 3 are masked: his list is 4, 1. Of user 1 it is 5, 3.
    const score = topk.test(
      highestFirst(asked),
      batchOf([
        [0, 1],
        [1, 5],
        [1, 3],
      ]),
    )
    expect(asked).toEqual({ items: [5, 3, 4, 1], users: [0, 1] })
    expect(score.users).toBe(2)
    expect(score.recall).toBe(1 + 1)
    expect(score.ndcg).toBeCloseTo(1 / Math.log2(3) + 1, 14)
  })

  test("drops test items already in the history, and users of whom nothing is left", () => {
    const asked = { items: [] as number[], users: [] as number[] }
    const topk = exam()
    topk.training(
      batchOf([
        [0, 5],
        [0, 3],
        [1, 4],
      ]),
    )
    const score = topk.test(
      highestFirst(asked),
      batchOf([
        [0, 5],
        [1, 4],
        [1, 3],
        [1, 3],
      ]),
    )
    expect(asked.users).toEqual([1])
    // The list of user 1 is 5, 3: one relevant item, found at the second place, counted once.
    expect(score).toMatchObject({ users: 1, recall: 1 })
    expect(score.ndcg).toBeCloseTo(1 / Math.log2(3), 14)
    expect(
      topk.test(
        highestFirst(asked),
        batchOf([
          [0, 3],
          [1, 3],
        ]),
      ),
    ).toMatchObject({ users: 0, recall: 0, ndcg: 0 })
  })

  test("counts a cold item as a miss, and knows it from the next segment on", () => {
    const asked = { items: [] as number[], users: [] as number[] }
    const topk = exam()
    topk.training(batchOf([[0, 5]]))
    const cold = topk.test(
      highestFirst(asked),
      batchOf([
        [1, 9],
        [1, 5],
      ]),
    )
    expect(cold).toMatchObject({ users: 1, recall: 0.5 })
    topk.training(batchOf([[0, 4]]))
    expect(topk.test(highestFirst(asked), batchOf([[0, 9]]))).toMatchObject({ users: 1, recall: 1, ndcg: 1 })
    expect(asked.items).toEqual([5, 9, 4])
  })

  test("earlier test rows are history: they are masked", () => {
    const asked = { items: [] as number[], users: [] as number[] }
    const topk = exam()
    topk.training(batchOf([0, 1, 2, 7, 8].map((item) => [0, item] as const)))
    topk.test(
      highestFirst(asked),
      batchOf([
        [1, 8],
        [1, 7],
      ]),
    )
    // Were 8 and 7 not masked, item 2 would not be in a list of two.
    expect(topk.test(highestFirst(asked), batchOf([[1, 2]]))).toMatchObject({ users: 1, recall: 1, ndcg: 1 })
  })

  test("every row is a positive, whatever its rating", () => {
    const segment: Segment = { ...batchOf([[0, 1]]), weight: undefined, index: 0, trainLength: 1 }
    expect([...exam().labels(segment)]).toEqual([1])
  })

  test("training rows are the positives, each followed by its negatives", () => {
    const topk = new TopkEvaluator({ k: 10, negatives: 3, seed: 1 })
    const pairs = [
      [0, 0],
      [0, 1],
      [1, 2],
      [2, 3],
      [1, 4],
    ] as const
    const { user, item, label } = topk.training(batchOf(pairs))
    expect(user).toHaveLength(20)
    expect(Array.from(user)).toEqual([0, 0, 1, 2, 1].flatMap((one) => [one, one, one, one]))
    expect(Array.from(label)).toEqual(pairs.flatMap(() => [1, 0, 0, 0]))
    expect(pairs.map((_, r) => item[4 * r])).toEqual(pairs.map(([, positive]) => positive))
    const met = [new Set([0, 1]), new Set([2, 4]), new Set([3])]
    for (let r = 0; r < 20; r++) expect(met[user[r]].has(item[r])).toBe(label[r] === 1)
  })
})

test("popularity is reported beside the model, and items a user has met are left out of it", () => {
  const topk = new TopkEvaluator({ k: 1, negatives: 1, seed: 1 })
  topk.training(
    batchOf([
      [0, 5],
      [1, 7],
      [2, 7],
      [2, 7],
      [3, 5],
      [4, 7],
    ]),
  )
  // A ranker that always gets it wrong: 9 has not been met.
  const nobody = { items: Int32Array.of(9), scores: () => new Float64Array(1), release: () => {} } satisfies Ranker
  const learner = { rank: () => nobody } as unknown as Learner
  // 7 is the most popular: right for user 0; user 1 has met it and is told 5.
  const score = topk.test(
    learner,
    batchOf([
      [0, 7],
      [1, 5],
      [3, 8],
    ]),
  )
  expect([score.users, score.recall, score.popularRecall, score.popularNdcg]).toEqual([3, 0, 2, 2])
})

test("the ceiling of recall is what a list of all the right items would reach", () => {
  const topk = new TopkEvaluator({ k: 2, negatives: 1, seed: 1 })
  topk.training(batchOf([1, 2, 3, 4, 5].map((item): [number, number] => [9, item])))
  const wanted = [[1, 2, 3, 4, 5], [1, 2, 3], [4, 5], [3]]
  // An oracle: the right items first.
  const items = Int32Array.of(1, 2, 3, 4, 5)
  const scores = (user: number) => Float64Array.from(items, (item) => (wanted[user].includes(item) ? 1 : 0))
  const learner = { rank: () => ({ items, scores, release: () => {} }) } as unknown as Learner
  const rows = wanted.flatMap((right, user) => right.map((item): [number, number] => [user, item]))
  const score = topk.test(learner, batchOf(rows))
  expect(score.recallCeiling).toBeCloseTo(2 / 5 + 2 / 3 + 1 + 1, 12)
  expect(score.recall).toBeCloseTo(score.recallCeiling, 12)
  const [some, none] = [quality([score]), quality([])]
  expect(some.recallCeiling).toBeCloseTo((2 / 5 + 2 / 3 + 2) / 4, 12)
  expect(none.recallCeiling).toBeNull()
})

test("popularity counts users, not events, and follows what is put, forgotten and taken up again", () => {
  const history = new History()
  history.add([0, 1, 2, 0, 0], [10, 20, 20, 10, 30])
  expect(history.byPopularity()).toEqual([20, 10, 30])
  history.put(3, [30, 40])
  history.put(3, [30, 10])
  expect(history.byPopularity()).toEqual([10, 20, 30])
  history.forget("user", new Set([1, 0]))
  expect(history.byPopularity()).toEqual([10, 20, 30])
  history.forget("user", new Set([2]))
  history.forget("item", new Set([10]))
  history.add([4], [20])
  history.add([5], [20])
  const again = new History()
  const state = new State()
  history.save(state)
  again.load(state)
  expect(again.byPopularity()).toEqual([20, 30])
})

describe("negatives", () => {
  const history = (pairs: readonly (readonly [number, number])[]) => {
    const made = new History()
    const { user, item } = batchOf(pairs)
    made.add(user, item)
    return made
  }
  /** User 0 has met the first `met` of `all` items, user 1 all of them. */
  const met = (count: number, all: number) =>
    history([
      ...Array.from({ length: all }, (_, i) => [1, 10 * i] as const),
      ...Array.from({ length: count }, (_, i) => [0, 10 * i] as const),
    ])

  // The sampler rejects while most items are unmet and lists the rest when nearly all are met: both ways.
  test.each([
    [0, 12],
    [4, 12],
    [29, 32],
    [31, 32],
  ])("of a user who has met %i of %i items are uniform over the others (chi-square)", (count, all) => {
    const draws = 6000
    const items = new Int32Array(draws)
    expect(new NegativeSampler(3).draw(met(count, all), 0, { items, at: 0, count: draws })).toBe(draws)
    const counts = new Map<number, number>()
    for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1)
    const rest = all - count
    expect([...counts.keys()].toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: rest }, (_, i) => 10 * (count + i)),
    )
    const expected = draws / rest
    const chi = [...counts.values()].reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0)
    // Mean rest − 1, variance 2·(rest − 1); five standard deviations and a crumb.
    expect(chi).toBeLessThanOrEqual(rest - 1 + 5 * Math.sqrt(2 * (rest - 1)))
  })

  test("a user who has met everything gets none, and the batch goes on without", () => {
    const items = new Int32Array(4).fill(-1)
    expect(new NegativeSampler(3).draw(met(5, 5), 0, { items, at: 0, count: 4 })).toBe(0)
    expect([...items]).toEqual([-1, -1, -1, -1])
    const topk = new TopkEvaluator({ k: 10, negatives: 4, seed: 1 })
    const { user, item, label } = topk.training(
      batchOf([
        [0, 0],
        [0, 1],
        [1, 0],
      ]),
    )
    expect([Array.from(user), Array.from(item), Array.from(label)]).toEqual([
      [0, 0, 1, 1, 1, 1, 1],
      [0, 1, 0, 1, 1, 1, 1],
      [1, 1, 1, 0, 0, 0, 0],
    ])
  })

  test("are written from where they were asked for, the same for the same seed", () => {
    const draw = (seed: number) => {
      const items = new Int32Array(40).fill(-1)
      new NegativeSampler(seed).draw(met(2, 30), 0, { items, at: 5, count: 30 })
      return [...items]
    }
    const first = draw(1)
    expect(first.slice(0, 5)).toEqual([-1, -1, -1, -1, -1])
    expect(first.slice(35)).toEqual([-1, -1, -1, -1, -1])
    expect(first.slice(5, 35).every((item) => item >= 20)).toBe(true)
    expect(draw(1)).toEqual(first)
    expect(draw(2)).not.toEqual(first)
  })
})

const LENGTH = 200
const STREAM = record({ interactions: 6 * LENGTH, users: 40, items: 150 })
const SEGMENTS = await segmentsOf(STREAM, LENGTH)

/** The measures of one segment the plain way: sort all unmet items of every test user by score. */
function bruteForce(p: {
  segment: Segment
  from: number
  met: ReadonlyMap<number, ReadonlySet<number>>
  seen: readonly number[]
  k: number
  score: (user: number, item: number) => number
}): { recall: number; ndcg: number; users: number } {
  const relevant = new Map<number, Set<number>>()
  for (let r = p.from; r < p.segment.length; r++) {
    const [user, item] = [p.segment.user[r], p.segment.item[r]]
    if (p.met.get(user)?.has(item)) continue
    relevant.set(user, (relevant.get(user) ?? new Set()).add(item))
  }
  const total = { recall: 0, ndcg: 0, users: relevant.size }
  for (const [user, items] of relevant) {
    const open = p.seen.filter((item) => !p.met.get(user)?.has(item))
    const scored = open.map((item, order) => ({ item, order, score: p.score(user, item) }))
    scored.sort((a, b) => b.score - a.score || a.order - b.order)
    const list = scored.slice(0, p.k).map(({ item }) => item)
    const gains = list.map((item, rank) => (items.has(item) ? 1 / Math.log2(rank + 2) : 0))
    const ideal = Array.from({ length: Math.min(p.k, items.size) }, (_, rank) => 1 / Math.log2(rank + 2))
    const sum = (values: number[]) => values.reduce((a, b) => a + b, 0)
    total.recall += gains.filter((gain) => gain > 0).length / items.size / relevant.size
    total.ndcg += sum(gains) / sum(ideal) / relevant.size
  }
  return total
}

/** What has been met, kept the plain way. */
class Met {
  readonly items = new Map<number, Set<number>>()
  readonly seen: number[] = []

  add(segment: Segment, from: number, to: number): void {
    for (let r = from; r < to; r++) {
      const [user, item] = [segment.user[r], segment.item[r]]
      this.items.set(user, (this.items.get(user) ?? new Set()).add(item))
      if (!this.seen.includes(item)) this.seen.push(item)
    }
  }
}

describe("the top-k task along a stream", () => {
  test.each(HEADS)(
    "%s: recall and ndcg of every segment are those of a brute-force evaluation of the same model",
    (model) => {
      const k = 5
      const run = new Run(
        { task: "topk", method: "always-grow", model, sizes: [2, 4, 8], threads: 1, k },
        STREAM.features,
      )
      const met = new Met()
      const segments: { recall: number; ndcg: number }[] = []
      for (const segment of SEGMENTS) {
        const report = run.step(segment)
        met.add(segment, 0, segment.trainLength)
        // After its test the model is still the one that was tested; a logit does not depend on its neighbours.
        const logits = new Map<number, Float64Array>()
        const score = (user: number, item: number) => {
          const seen = met.seen
          const all = { user: seen.map(() => user), item: seen, label: seen.map(() => 1) }
          const row = logits.get(user) ?? run.learner.test(all).logits
          logits.set(user, row)
          return row[seen.indexOf(item)]
        }
        const want = bruteForce({ segment, from: segment.trainLength, met: met.items, seen: met.seen, k, score })
        met.add(segment, segment.trainLength, segment.length)
        expect(report.testUsers).toBe(want.users)
        expect(report.testRows).toBe(segment.length - segment.trainLength)
        expect(report.recall).toBeCloseTo(want.recall, 12)
        expect(report.ndcg).toBeCloseTo(want.ndcg, 12)
        segments.push(want)
      }
      const mean = (key: "recall" | "ndcg", of = segments) => of.reduce((sum, one) => sum + one[key], 0) / of.length
      const result = run.result()
      expect(result.recall).toBeCloseTo(mean("recall"), 12)
      expect(result.ndcg).toBeCloseTo(mean("ndcg"), 12)
      expect(result.lastQuarter.recall).toBeCloseTo(mean("recall", segments.slice(4)), 12)
      expect(result.k).toBe(k)
      expect(result.recall).toBeGreaterThan(0)
      expect(result).not.toHaveProperty("accuracy")
      run.close()
    },
  )

  test.each(["split", "prequential"] as const)(
    "%s: plain-popular and plain-trending rank by the counts of the rows trained on",
    async (protocol) => {
      for (const [method, decay] of [["plain-popular", 1] as const, ["plain-trending", 0.97] as const]) {
        const { reports, result } = await runAll(STREAM, { method, task: "topk", protocol, segment: LENGTH })
        const met = new Met()
        const counts = new Map<number, number>()
        const learn = (segment: Segment, to: number) => {
          for (const [item, count] of counts) counts.set(item, decay * count)
          for (let r = 0; r < to; r++) counts.set(segment.item[r], (counts.get(segment.item[r]) ?? 0) + 1)
          met.add(segment, 0, to)
        }
        for (const [t, segment] of SEGMENTS.entries()) {
          if (protocol === "split") learn(segment, segment.trainLength)
          const from = protocol === "split" ? segment.trainLength : 0
          const score = (_: number, item: number) => counts.get(item) ?? 0
          const want = bruteForce({ segment, from, met: met.items, seen: met.seen, k: 10, score })
          expect(reports[t].recall, `${method}, segment ${t + 1}`).toBeCloseTo(want.recall, 12)
          expect(reports[t].ndcg, `${method}, segment ${t + 1}`).toBeCloseTo(want.ndcg, 12)
          if (protocol === "split") met.add(segment, from, segment.length)
          else learn(segment, segment.length)
        }
        expect(result.recall).toBeGreaterThan(0)
        expect(result.embeddingBytes).toBe(0)
      }
    },
  )

  test("negatives count neither for growth nor for the round: the probe sees positives only", () => {
    const run = new Run({
      task: "topk",
      method: "always-grow",
      preset: "paper",
      recipe: "paper",
      sizes: [2, 4, 8],
      threads: 1,
    })
    const { learner } = run
    const train = vi.spyOn(learner, "train")
    const reports = SEGMENTS.slice(0, 3).map((segment) => run.step(segment))
    const [first] = train.mock.calls[0]
    expect(first.user.length, "four negatives for each positive").toBe(5 * SEGMENTS[0].trainLength)
    for (const side of SIDES) {
      expect(reports[0].decided?.[side].all).toBe(new Set(SEGMENTS[0][side].subarray(0, SEGMENTS[0].trainLength)).size)
      expect(reports[1].played?.[side].all).toBe(LENGTH)
    }
    run.close()
  })

  test.each(["dess-cv", "always-grow", "esapn", "darts", "autoemb", "uniform-4", "fixed-4"])(
    "%s: ids of test rows are seen ids, cold items and users that are not ranked among them",
    (method) => {
      const run = new Run({ task: "topk", method, sizes: [2, 4, 8], threads: 1 }, STREAM.features)
      const seen = { user: new Set<number>(), item: new Set<number>() }
      for (const segment of SEGMENTS.slice(0, 3)) {
        const report = run.step(segment)
        for (const side of SIDES) {
          for (const id of segment[side]) seen[side].add(id)
          const rows = Object.values(report.sizeHistogram[side]).reduce((sum, count) => sum + count, 0)
          expect(rows).toBe(seen[side].size)
          // A soft method holds all sizes and the mixture's numbers, 2 + 4 + 8 + 3, for each of them.
          if (method === "darts" || method === "autoemb") expect(report.meanSize[side]).toBe(17)
        }
      }
      run.close()
    },
  )

  test.each<[string, RunOptions]>([
    ["dess-cv", { method: "dess-cv" }],
    ["dess-fre, mf", { method: "dess-fre", model: "mf" }],
    ["fixed-4, distance", { method: "fixed-4", model: "distance" }],
    ["esapn", { method: "esapn" }],
    ["darts, mf", { method: "darts", model: "mf" }],
    ["autoemb", { method: "autoemb" }],
    ["plain-bias", { method: "plain-bias" }],
    ["plain-knn", { method: "plain-knn" }],
    ["isgd-4", { method: "isgd-4" }],
    ["ease-50", { method: "ease-50" }],
  ])("%s runs under the prequential protocol, from a first segment in which every item is cold", async (_, options) => {
    const { reports, result } = await runAll(STREAM, { ...options, task: "topk", protocol: "prequential", limit: 800 })
    expect(reports[0]).toMatchObject({ recall: 0, ndcg: 0, testUsers: new Set(SEGMENTS[0].user).size })
    expect(result.recall).toBeGreaterThan(0)
    expect(result.recall).toBeLessThan(1)
  })
})
