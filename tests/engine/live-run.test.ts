/** What live use adds to a run: small segments, limits, leaving, versions for readers. */

import { describe, expect, test } from "vitest"
import { openKernels } from "../../src/kernels/open.ts"
import { createReader } from "../../src/learning/create.ts"
import { Run } from "../../src/learning/loop.ts"
import { type RunOptions, withDefaults } from "../../src/learning/options.ts"
import { floatsPerItem, PaperReader, writeItems } from "../../src/learning/paper-reader.ts"
import { packRows } from "../../src/models/packed-rows.ts"
import { Model } from "../../src/models/paper/model.ts"
import type { NcfHead } from "../../src/models/paper/ncf.ts"
import type { Segment } from "../../src/types.ts"

const LIVE = { testUsers: 4, smallestBatch: 64, remembered: 100 }
const DAY = 86_400_000

function segment(rows: readonly (readonly [number, number, number])[], index: number, time = index * 1000): Segment {
  return {
    index,
    length: rows.length,
    trainLength: rows.length,
    time,
    user: Int32Array.from(rows, ([user]) => user),
    item: Int32Array.from(rows, ([, item]) => item),
    rating: Float32Array.from(rows, ([, , rating]) => rating),
    timestamp: Float64Array.from(rows, () => index),
  }
}

/** Even users like even items, odd users odd ones. */
function checkerboard(count: number, at: number): [number, number, number][] {
  return Array.from({ length: count }, (_, i) => {
    const n = at + i
    const [user, item] = [(n * 7) % 12, (n * 5 + (n % 3)) % 16]
    return [user, item, user % 2 === item % 2 ? 5 : 1]
  })
}

function open(options: RunOptions): Run {
  return new Run({ protocol: "prequential", threads: 1, seed: 2, live: LIVE, ...options })
}

describe("one event per segment", () => {
  test("is learned: the pattern is found, which a batch of one row cannot teach a network with batch norms", () => {
    const accuracy = (smallestBatch: number, recipe: "paper" | "calibrated" = "paper") => {
      const live = { ...LIVE, smallestBatch }
      const run = open({ method: "dess-fre", task: "binary", sizes: [2, 4, 8], recipe, live })
      let hits = 0
      const [all, late] = [900, 300]
      for (let n = 0; n < all; n++) {
        const report = run.step(segment(checkerboard(1, n), n))
        if (n >= all - late) hits += report.accuracy ?? 0
      }
      run.close()
      return hits / late
    }
    expect(accuracy(64)).toBeGreaterThan(0.9)
    expect(accuracy(1)).toBeLessThan(0.75)
    expect(accuracy(1, "calibrated"), "event by event there are no batches").toBeGreaterThan(0.9)
  })
})

describe("limits", () => {
  const stream = (n: number, ids: number): [number, number, number][] =>
    Array.from({ length: 400 }, (_, i) => [(n * 37 + i * 11) % ids, (n * 53 + i * 17) % ids, 1 + ((n + i) % 5)])

  /** A window of ids that moves on: each is met a few times, those behind it never come back. */
  const moving = (n: number) =>
    stream(n, 601).map(([user, item, rating]) => [user + n * 250, item + n * 250, rating] as const)

  /** Steps with at most this many bytes; the growth of users and items, and who left. */
  function walk(method: string, bytes: number) {
    const run = open({ method, task: "binary", model: "mf" })
    run.learner.live?.limit({ bytes }, 500)
    const told = { grown: 0, left: 0, held: 0 }
    for (let n = 0; n < 40; n++) {
      const rows = moving(n)
      const report = run.step(segment(rows, n))
      const { heldBytes, besideBytes = 0 } = run.learner.status()
      told.held = Math.max(told.held, heldBytes + besideBytes)
      told.grown += (report.decided?.user.grown ?? 0) + (report.decided?.item.grown ?? 0)
      told.left += run.left.user.length + run.left.item.length
      for (const id of run.left.user) expect(rows.some(([user]) => user === id)).toBe(false)
    }
    run.close()
    return told
  }

  test.each(["always-grow", "fixed-64"])(
    "%s: held bytes never exceed the budget; growth is refused, and the longest idle leave for the new",
    (method) => {
      const free = walk(method, 1e12)
      const bytes = method === "fixed-64" ? 4_000_000 : method === "always-grow" ? 780_000 : 400_000
      expect(free.held).toBeGreaterThan(1.2 * bytes)
      const bound = walk(method, bytes)
      expect(free.left).toBe(0)
      // Of ids that are refused a time is left, which does not count.
      expect(bound.held).toBeLessThanOrEqual(1.005 * bytes)
      expect(bound.left).toBeGreaterThan(100)
      if (method === "always-grow") expect(bound.grown).toBeLessThan(free.grown)
    },
  )

  test("a budget that one segment could not live in is refused, with the least there must be", () => {
    const run = open({ method: "dess-fre" })
    expect(() => run.learner.live?.limit({ bytes: 1000 }, 500)).toThrow(
      /memory budget: expected at least \d+ bytes, got 1000/,
    )
    run.close()
  })

  test("an id idle for long shrinks step by step, then leaves, and comes back as new", () => {
    const run = open({ method: "always-grow", task: "binary", sizes: [2, 4, 8] })
    run.learner.live?.limit({ shrinkAfter: DAY, leaveAfter: 10 * DAY }, 500)
    const rows = checkerboard(60, 0)
    let now = 0
    /** Time passes in steps that are no jumps; the last of them is a segment. */
    const stepAt = (part: Segment) => {
      const time = part.time ?? 0
      let shrunk = 0
      const left: number[] = []
      const take = () => {
        shrunk += run.shrunk.user
        left.push(...run.left.user)
      }
      for (now = Math.max(now, DAY); now < time; now += DAY / 4) {
        run.advanceTime(now)
        take()
      }
      run.step(part)
      take()
      return { shrunk, left }
    }
    for (let n = 0; n < 4; n++) stepAt(segment(rows, n, DAY))
    expect(run.learner.live?.explain("user", 0)?.size).toBe(8)
    const others = rows.map(([user, item, rating]) => [user + 100, item + 100, rating] as const)
    expect(stepAt(segment(others, 4, 2.5 * DAY)).shrunk).toBe(12)
    expect(run.learner.live?.explain("user", 0)?.size).toBe(4)
    stepAt(segment(others, 5, 4 * DAY))
    expect(run.learner.live?.explain("user", 0)?.size).toBe(2)
    expect(run.learner.live?.explain("user", 0)?.history.map(({ why, size }) => `${why} ${size}`)).toEqual([
      "met 2",
      "grown 4",
      "grown 8",
      "idle 4",
      "idle 2",
    ])
    expect(stepAt(segment(others, 6, 12 * DAY)).left).toContain(0)
    expect(run.learner.live?.explain("user", 0)).toBeUndefined()
    stepAt(segment(rows, 7, 12 * DAY))
    const time = segment(rows, 7, 12 * DAY).time
    expect(run.learner.live?.explain("user", 0)?.history).toEqual([
      { segment: 8, time, size: 2, why: "met", scores: null },
      { segment: 8, time, size: 4, why: "grown", scores: null },
    ])
    run.close()
  })
})

test.each([
  { recipe: "calibrated", model: "mf" },
  { recipe: "paper", preset: "calibrated", model: "ncf" },
] as const)("every size says why, with the bounds it was decided by ($recipe)", (options) => {
  const run = open({ ...options, method: "dess-fre", task: "binary", sizes: [2, 4, 8, 16] })
  const rows = checkerboard(300, 0)
  for (let n = 0; n < 30; n++) run.step(segment(rows, n, 1000 * (n + 1)))
  const reasons = new Set<string>()
  for (let user = 0; user < 12; user++) {
    const { history = [], size } = run.learner.live?.explain("user", user) ?? {}
    expect(history.length).toBeLessThanOrEqual(10)
    expect(history.at(-1)?.size).toBe(size)
    history.forEach(({ why, scores, size: now, segment: number, time }, i) => {
      reasons.add(why)
      expect(time).toBe(1000 * number)
      if (why === "met") {
        expect(scores).toBeNull()
        return
      }
      if (!scores) throw new Error(`${why}: expected scores`)
      expect(scores.grow).toBeGreaterThanOrEqual(scores.estimate)
      const before = history[i - 1]?.size
      if (why === "released") {
        if (before !== undefined) expect(now).toBeLessThan(before)
        expect(scores.grow).toBeLessThan(scores.keep)
      } else {
        if (before !== undefined) expect(now).toBeGreaterThan(before)
        expect(scores.grow).toBeGreaterThan(scores.keep)
        if (options.recipe === "calibrated") expect(scores.estimate > scores.keep).toBe(why === "grown")
      }
    })
  }
  expect(reasons).toContain("explored")
  run.close()
})

test("the size log of a row cut for memory says so", () => {
  const run = open({ method: "dess-fre", bits: "32", task: "binary", model: "mf", sizes: [2, 4, 8, 16] })
  const rows = Array.from(
    { length: 4000 },
    (_, i) => [i % 500, (i * 7) % 501, (i % 2) + (i % 501) / 200 > 1.5 ? 5 : 1] as const,
  )
  for (let n = 0; n < 8; n++) run.step(segment(rows, n, 1000 * (n + 1)))
  const { heldBytes, besideBytes = 0 } = run.learner.status()
  run.learner.live?.limit({ bytes: heldBytes + besideBytes }, 1)
  // The same ids and as many new ones: nobody is idle, and there is no room.
  run.step(
    segment([...rows, ...rows.map(([user, item, rating]) => [user + 600, item + 600, rating] as const)], 8, 9000),
  )
  const cut = Array.from({ length: 500 }, (_, user) => run.learner.live?.explain("user", user)?.history ?? [])
  expect(cut.flat().map(({ why }) => why)).toContain("budget")
  run.close()
})

describe("a reader of published versions", () => {
  test.each([
    [2e-6, { method: "dess-fre", model: "ncf", task: "topk" }],
    [2e-4, { method: "dess-fre", model: "mf", task: "binary" }],
    [2e-6, { method: "fixed-8", model: "ncf", task: "multiclass" }],
    [2e-4, { method: "dess-fre", model: "mf", task: "topk" }],
    [2e-4, { method: "dess-fre", model: "mf", task: "multiclass" }],
    [2e-6, { method: "fixed-8", model: "mf", task: "binary" }],
  ] as const)("scores as the learner, to %f: %j", (tolerance, options) => {
    const run = open({ ...options, sizes: [2, 4, 8] })
    const kernels = openKernels({ shared: true, threads: 1 })
    const reader = createReader(withDefaults({ ...options, sizes: [2, 4, 8], seed: 2, live: LIVE }), kernels)
    const live = run.learner.live
    if (!live) throw new Error("expected a live learner")
    for (let n = 0; n < 4; n++) {
      run.step(segment(checkerboard(80, 80 * n), n))
      if (n === 3) run.forget("user", new Set([3]))
      const room = reader.reserve(live.floatsNeeded)
      reader.apply(live.publish(room), room)
      const ranking = run.learner.rank(Array.from(reader.items))
      for (const user of [0, 1, 5]) {
        const scores = reader.scores(user)
        const { outputs } = reader
        const expected = ranking.scores(user)
        ranking.items.forEach((item, i) => {
          const place = reader.items.indexOf(item)
          expect(Math.abs(scores[place * outputs] - expected[i])).toBeLessThan(tolerance)
          expect(Math.abs(reader.scoresOf(user, [item])[0] - expected[i])).toBeLessThan(2e-6)
        })
      }
      ranking.release()
    }
    expect(reader.knows("user", 3)).toBe(false)
    expect(reader.knows("user", 4)).toBe(true)
    const cosines = reader.nearest(reader.items[0])
    expect(cosines[0]).toBeCloseTo(1, 3)
    for (const cosine of cosines) expect(Math.abs(cosine)).toBeLessThan(1.001)
    run.close()
    kernels.close()
  })

  test.each([
    { factor: 1, powers: true },
    { factor: 1e4, powers: false },
  ])("scores as Model.predict, to 2e-6, where weights are $factor times as large (powers: $powers)", (options) => {
    const open = () =>
      new Model({
        kernels: openKernels({ shared: true, threads: 1 }),
        head: "ncf",
        task: "multiclass",
        sizes: [2, 4],
        hidden: 12,
      })
    const [model, read] = [open(), open()]
    const rows = checkerboard(200, 0)
    const [user, item, label] = [0, 1, 2].map((column) => rows.map((row) => row[column] - (column === 2 ? 1 : 0)))
    for (let n = 0; n < 3; n++) model.train({ user, item, label })
    const { itemWeight } = model.head as NcfHead
    for (let i = 0; i < itemWeight.rows * itemWeight.columns; i++)
      model.kernels.floats[itemWeight.value + i] *= options.factor
    const reader = new PaperReader(read)
    const items = Int32Array.from(model.inputs.item.table.ids())
    const room = reader.reserve(items.length * floatsPerItem(model))
    const powers = writeItems(model, items, room)
    expect(powers).toBe(options.powers)
    const {
      ids: userIds,
      steps: userSteps,
      rows: userRows,
    } = packRows(model.inputs.user.table, model.inputs.user.table.ids())
    const arrays = { ...model.parameters.copyValues(), userIds, userSteps, userRows, powers: Uint8Array.of(+powers) }
    reader.apply({ items, arrays }, room)
    const want = model.predict({ user: [...items].fill(3), item: items, label: [...items].fill(0) }).logits
    const scores = reader.scores(3)
    expect(scores).toHaveLength(want.length)
    scores.forEach((score, i) => {
      expect(Math.abs(score - want[i])).toBeLessThan(2e-6)
    })
    expect(reader.scoresOf(3, [items[5], items[2]])).toEqual(
      Float32Array.from([...scores.slice(25, 30), ...scores.slice(10, 15)]),
    )
    model.kernels.close()
    read.kernels.close()
  })
})
