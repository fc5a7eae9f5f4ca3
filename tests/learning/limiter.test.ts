/** The memory budget of the calibrated recipe: kept after every operation, whatever comes. */

import { describe, expect, test } from "vitest"
import { hashState } from "../../src/engine/safetensors.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { liveOf, Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { SizedLearner } from "../../src/learning/sized-learner.ts"
import type { RowModel } from "../../src/models/calibrated/rows.ts"
import type { Segment } from "../../src/types.ts"
import { noise, planted, type Row, segmentOf, taste } from "../support/planted.ts"

function factorOf(run: Run): SizedLearner<RowModel> {
  if (!(run.learner instanceof SizedLearner)) throw new Error("expected the calibrated recipe")
  return run.learner as SizedLearner as SizedLearner<RowModel>
}

/** The least budget a run of these options takes, as its refusal says it. */
function leastBudget(options: RunOptions): number {
  try {
    new Run({ ...options, memoryBudget: 1 })
  } catch (error) {
    return Number(/at least (\d+) bytes/.exec((error as Error).message)?.[1])
  }
  throw new Error("expected a refusal")
}

/** Everything a run holds: rows, and what is kept of ids beside them. */
function heldOf(run: Run): number {
  const { heldBytes, besideBytes = 0 } = run.learner.status()
  return heldBytes + besideBytes
}

/** Calls back after every operation of a table that can change what it holds. */
function watch({ model }: SizedLearner<RowModel>, check: () => void): void {
  for (const table of [model.tables.user, model.tables.item])
    for (const name of ["ensure", "replace", "free", "reserve"] as const) {
      const own = table[name] as (...given: unknown[]) => unknown
      Object.defineProperty(table, name, {
        value: (...given: unknown[]) => {
          const result = own.apply(table, given)
          check()
          return result
        },
      })
    }
}

/** Hot ids, ids never met before, ids of long ago, and bursts of nothing but new ones. */
function* restless(random: Random, p: { length: number; segments: number; most: number }): Generator<Segment> {
  const next = { user: 10, item: 10 }
  for (let n = 0; n < p.segments; n++) {
    const burst = random.next() < 0.15
    const calm = random.next() < 0.5
    const draw = (side: "user" | "item") => {
      const fresh = burst ? 1 : calm ? 0.02 : 0.3
      if (random.next() < fresh && next[side] < p.most) return next[side]++
      return random.next() < 0.5 ? random.integer(10) : random.integer(next[side])
    }
    const rows = Array.from({ length: 2 + random.integer(p.length - 1) }, (): Row => {
      const [user, item] = [draw("user"), draw("item")]
      return [user, item, random.next() < 0.5 ? noise(random) : taste(user, item)]
    })
    const segment = segmentOf(rows, n)
    yield { ...segment, trainLength: Math.max(1, Math.floor(0.8 * segment.length)) }
  }
}

const SIZES = [
  [2, 4, 8],
  [2, 4, 8, 16, 64, 128],
  [1, 32],
  [3, 100],
]

describe("a budget", () => {
  test("is kept at any moment, on streams of many new ids and bursts, whatever the sizes and the task", () => {
    let [full, left] = [0, 0]
    for (let seed = 1; seed <= 24; seed++) {
      const random = new Random(seed, "budget test")
      const length = 20 + random.integer(200)
      const options: RunOptions = {
        ...{ method: "dess-fre", segment: length, sizes: SIZES[seed % SIZES.length], seed },
        ...{ task: (["binary", "multiclass", "topk"] as const)[seed % 3], price: random.next() < 0.5 ? 0 : 1e-5 },
        protocol: random.next() < 0.5 ? "split" : "prequential",
      }
      // Every id met so far keeps a place of five bytes, and 15 or so beside, with a quarter to spare.
      const most = 400 + random.integer(1200)
      const memoryBudget = Math.ceil(leastBudget(options) * (1 + random.next()) + 2 * 20 * 1.25 * most)
      const run = new Run({ ...options, memoryBudget })
      const { model } = factorOf(run)
      watch(factorOf(run), () => {
        const held = model.heldBytes + model.tables.user.freeBytes + model.tables.item.freeBytes
        if (held > memoryBudget) expect.fail(`seed ${seed}: ${held} of ${memoryBudget} bytes`)
      })
      for (const segment of restless(random, { length, segments: 60, most })) {
        run.step(segment)
        const held = heldOf(run)
        if (held > memoryBudget) expect.fail(`seed ${seed}: ${held} of ${memoryBudget} bytes`)
        if (held > 0.9 * memoryBudget) full++
        left += run.left.user.length + run.left.item.length
      }
      run.close()
    }
    expect(full, "segments that nearly filled the budget").toBeGreaterThan(100)
    expect(left, "ids that had to leave").toBeGreaterThan(100)
  })

  test("has room for new ids even when none is idle: those of the segment give up what they have grown", () => {
    const options: RunOptions = {
      ...{ method: "dess-fre", segment: 400, sizes: [2, 64], bits: "32", price: 0, protocol: "prequential" },
    }
    const memoryBudget = leastBudget(options) + 2000
    const run = new Run({ ...options, memoryBudget })
    const { model } = factorOf(run)
    watch(factorOf(run), () => expect(model.heldBytes).toBeLessThanOrEqual(memoryBudget))
    const rows = (ids: number) =>
      Array.from({ length: 400 }, (_, r): Row => [r % ids, (r * 7) % ids, taste(r % ids, (r * 7) % ids)])
    for (let n = 0; n < 6; n++) run.step(segmentOf(rows(100), n))
    expect(heldOf(run)).toBeGreaterThan(0.6 * memoryBudget)
    const before = model.vectorNumbers("user")
    const report = run.step(segmentOf(rows(400), 6))
    expect(run.left, "nobody left").toEqual({ user: [], item: [] })
    expect(run.shrunk.user).toBeGreaterThan(0)
    expect([report.heldBytes <= memoryBudget, model.tables.user.count]).toEqual([true, 400])
    expect(before).toBeGreaterThan(1000)
    run.close()
  })

  test.each(["binary", "topk"] as const)("%s: what is cut keeps the first numbers of each of its vectors", (task) => {
    const options: RunOptions = {
      ...{ method: "dess-fre", segment: 400, sizes: [2, 100], bits: "32", price: 0, protocol: "prequential", task },
    }
    const memoryBudget = leastBudget(options) + (task === "topk" ? 12_000 : 32_000)
    const run = new Run({ ...options, memoryBudget })
    const { model } = factorOf(run)
    const rows = (ids: number) =>
      Array.from({ length: 400 }, (_, r): Row => [r % ids, (r * 7) % ids, taste(r % ids, (r * 7) % ids)])
    for (let n = 0; n < 9; n++) run.step(segmentOf(rows(100), n))
    const read = (id: number) => {
      const row = new Float32Array(model.tables.item.size(id))
      model.tables.item.read(id, row, 0)
      const { item: head } = model.heads
      const held = (row.length - head) / model.vectors.item
      const vectors = Array.from({ length: model.vectors.item }, (_, v) =>
        row.slice(head + v * held, head + (v + 1) * held),
      )
      return { head: [...row.slice(0, head)], vectors, held }
    }
    const ids = [...model.tables.item.ids()]
    const before = ids.map(read)
    // Room is made for the ids of a segment before anything is learned of it.
    let cut = 0
    model.meetOne = () => {
      throw new Error("room has been made")
    }
    expect(() => run.step(segmentOf(rows(400), 9))).toThrow("room has been made")
    ids.forEach((id, i) => {
      const { head, vectors, held } = read(id)
      if (held < before[i].held) cut++
      expect(head).toEqual(before[i].head)
      vectors.forEach((vector, v) => {
        expect([...vector], `item ${id}, vector ${v}`).toEqual([...before[i].vectors[v].slice(0, held)])
      })
    })
    expect(cut).toBeGreaterThan(0)
    run.close()
  })

  test("ids start one size lower where they would fill more than half of a budget, so that all have room", () => {
    const options: RunOptions = { method: "dess-fre", segment: 100, sizes: [2, 16, 64], protocol: "prequential" }
    const segments = [...planted({ users: 400, items: 300, segments: 60, seed: 3 }, taste)]
    /** The sizes and bits users start with, segment by segment. */
    const startsOf = (task: "binary" | "topk", memoryBudget: number) => {
      const run = new Run({ ...options, task, memoryBudget })
      const { model } = factorOf(run)
      const starts = segments.map((segment) => {
        run.step({ ...segment, user: segment.user.map((user) => user + 20 * segment.index) })
        const { start } = model.tables.user
        return `${model.sizes[start]}@${model.bits[start]}`
      })
      run.close()
      return starts
    }
    for (const [task, usual, lower] of [
      ["binary", "2@8", "0@8"],
      ["topk", "64@8", "16@8"],
    ] as const) {
      expect(new Set(startsOf(task, 10_000_000))).toEqual(new Set([usual]))
      const starts = startsOf(task, leastBudget({ ...options, task }) + (task === "topk" ? 200_000 : 60_000))
      expect(new Set(starts), task).toEqual(new Set([usual, lower]))
    }
    const uniform = new Run({ ...options, method: "uniform-16" })
    const learner = factorOf(uniform)
    learner.limit({ bytes: 90_000 }, 100)
    for (const segment of segments) uniform.step(segment)
    expect(learner.model.heldBytes).toBeGreaterThan(45_000)
    expect(uniform.result().meanSize, "16 for everybody stays 16").toEqual({ user: 16, item: 16 })
    uniform.close()
    const run = new Run({ ...options, memoryBudget: leastBudget(options) + 30_000 })
    for (const segment of segments) run.step(segment)
    const { user, item } = factorOf(run).model.tables
    expect([user.count, item.count]).toEqual([400, 300])
    run.close()
  })

  test("where new ids need room, idle ones give up their numbers, and few of those who never come back are forgotten", () => {
    const options: RunOptions = { method: "dess-fre", segment: 100, sizes: [2, 16, 64], protocol: "prequential" }
    const most = 900
    const memoryBudget = leastBudget(options) + 2 * 5 * 1.25 * most + 60_000
    const run = new Run({ ...options, price: 0, memoryBudget })
    const { model } = factorOf(run)
    watch(factorOf(run), () => expect(model.heldBytes).toBeLessThanOrEqual(memoryBudget))
    const random = new Random(1, "window")
    let [left, shrunk] = [0, 0]
    for (let n = 0; n < 80; n++) {
      // Of the ids from 10n on forty are about.
      const rows = Array.from({ length: 100 }, (): Row => {
        const [user, item] = [10 * n + random.integer(40), 10 * n + random.integer(40)]
        return [user, item, taste(user, item)]
      })
      run.step(segmentOf(rows, n))
      left += run.left.user.length + run.left.item.length
      shrunk += run.shrunk.user + run.shrunk.item
    }
    // Where the price is above what biases of ids never seen to come back are worth, these leave rather than stay without numbers.
    expect(left, "only those of whom next to nothing is expected").toBeLessThan(0.2 * 2 * 840)
    expect(shrunk).toBeGreaterThan(100)
    run.close()
  })

  test("steers the price: up while the tables are full, down while there is room", () => {
    const options: RunOptions = {
      ...{ method: "dess-fre", segment: 100, sizes: [2, 4, 8, 16, 64, 128], protocol: "prequential" },
    }
    const priceAfter = (memoryBudget: number) => {
      const run = new Run({ ...options, memoryBudget })
      const prices = []
      for (const segment of planted({ users: 300, items: 200, segments: 30, seed: 1 }, taste)) {
        run.step(segment)
        prices.push(priceOf(run))
      }
      run.close()
      return prices
    }
    const least = leastBudget(options)
    const roomy = priceAfter(100 * least)
    expect(Math.max(...roomy), "no more is asked where there is room").toBeLessThanOrEqual(LEAST)
    expect(Math.min(...roomy), "less, but not nothing").toBeGreaterThanOrEqual(LEAST / 8.001)
    const tight = priceAfter(Math.ceil(1.05 * least))
    expect(Math.max(...tight)).toBeGreaterThan(2 * LEAST)
  })

  test("the price falls with the events, however they are cut into segments", () => {
    const fallWith = (length: number) => {
      const run = new Run({ method: "dess-fre", protocol: "prequential", memoryBudget: 1e9, price: 1 })
      const rows = Array.from({ length: 36 }, (_, n): Row => [n % 5, n % 7, 5])
      run.step(segmentOf(rows.slice(0, 35), 0))
      const before = priceOf(run)
      for (let n = 0; n < rows.length; n += length) run.step(segmentOf(rows.slice(n, n + length), n + 1))
      const after = priceOf(run)
      run.close()
      return before / after
    }
    // Twelve ids: six turns of six events.
    for (const length of [1, 12, 36]) expect(fallWith(length) / Math.exp(0.15 * 6), `${length}`).toBeCloseTo(1, 6)
  })

  test("a place for every id is part of what is held: a stream of too many ids is refused, not let through", () => {
    const options: RunOptions = { method: "dess-fre", segment: 50, sizes: [2, 4], protocol: "prequential" }
    const memoryBudget = leastBudget(options)
    const run = new Run({ ...options, memoryBudget })
    expect(() => run.step(segmentOf([[100_000, 0, 5]], 0))).toThrow(/memory budget: expected room for one segment and/)
    run.close()
  })

  test("who leaves for a segment that does not fit is told of, and a replay, which does not measure, has the same state", () => {
    const options: RunOptions = {
      task: "topk",
      method: "dess-fre",
      segment: 50,
      sizes: [2, 4],
      protocol: "prequential",
    }
    const memoryBudget = 3 * leastBudget(options)
    const runs = [false, true].map((unmeasured) => ({
      run: new Run({ ...options, memoryBudget, live: { remembered: 10, testUsers: 100, smallestBatch: 1 } }),
      unmeasured,
    }))
    const rows = (from: number) => Array.from({ length: 50 }, (_, n): Row => [from + n, from + n, 5])
    const hashes = runs.map(({ run, unmeasured }) => {
      for (let n = 0; n < 4; n++) run.step(segmentOf(rows(50 * n), n), { unmeasured })
      expect(() => run.step(segmentOf([[100_000, 0, 5]], 4), { unmeasured })).toThrow(/memory budget: expected room/)
      expect(run.left.item.length).toBeGreaterThan(0)
      for (let n = 5; n < 10; n++) run.step(segmentOf(rows(20), n), { unmeasured })
      const state = new State()
      run.save(state)
      run.close()
      return hashState(state)
    })
    expect(hashes[0]).toBe(hashes[1])
  })

  test("set again when nobody is left it knows what it knew: a start sets it, a run that was never interrupted does not", () => {
    const limits = { bytes: 400_000, process: { user: 27, item: 47, met: 9 } }
    const hashes = [false, true].map((again) => {
      const run = new Run({
        method: "dess-fre",
        segment: 50,
        sizes: [2, 4],
        protocol: "prequential",
        live: { remembered: 9, testUsers: 100, smallestBatch: 1 },
      })
      liveOf(run.learner).limit(limits, 50)
      const rows = Array.from({ length: 50 }, (_, n): Row => [n, n, 5])
      run.step(segmentOf(rows, 0))
      for (const side of ["user", "item"] as const) run.forget(side, new Set(rows.map(([user]) => user)))
      if (again) liveOf(run.learner).limit(limits, 50)
      run.step(segmentOf(rows.slice(0, 20), 1))
      const state = new State()
      run.save(state)
      run.close()
      return hashState(state)
    })
    expect(hashes[0]).toBe(hashes[1])
  })
})

/** In least prices. */
const LEAST = 1

/** How many times the least price is asked, as a saved run tells it. */
function priceOf(run: Run): number {
  const state = new State()
  factorOf(run).save(state)
  return state.at("policy").take("price", Float64Array)[0]
}
