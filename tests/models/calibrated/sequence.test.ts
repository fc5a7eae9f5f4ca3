/** The top-k model of the calibrated recipe: against its equations, and what growth, turns and state must not change. */

import { describe, expect, test } from "vitest"
import { History } from "../../../src/ids/history.ts"
import { openKernels } from "../../../src/kernels/open.ts"
import { Random } from "../../../src/kernels/random.ts"
import { State } from "../../../src/kernels/state.ts"
import { createReader } from "../../../src/learning/create.ts"
import { Run } from "../../../src/learning/loop.ts"
import { NegativeMixture } from "../../../src/learning/negative-mixture.ts"
import { withDefaults } from "../../../src/learning/options.ts"
import { TopkEvaluator } from "../../../src/learning/topk-evaluator.ts"
import { turnFrame } from "../../../src/models/calibrated/frame.ts"
import type { Neighbours } from "../../../src/models/calibrated/neighbours.ts"
import { SequenceModel } from "../../../src/models/calibrated/sequence.ts"
import type { ModelBatch } from "../../../src/models/model.ts"
import { expectClose } from "../../support/close.ts"
import { neighbourScores } from "../../support/neighbour-scores.ts"

const SIZES = [0, 2, 4, 8]
const ITEMS = 30
const USERS = 8

/** Groups of a positive and four negatives, with chances. */
function groups(count: number, seed: number): ModelBatch & { logChance: number[] } {
  const random = new Random(seed, "groups")
  const batch = { user: [] as number[], item: [] as number[], label: [] as number[], logChance: [] as number[] }
  for (let g = 0; g < count; g++) {
    const user = random.integer(USERS)
    for (let j = 0; j < 5; j++) {
      batch.user.push(user)
      batch.item.push(random.integer(ITEMS))
      batch.label.push(j === 0 ? 1 : 0)
      batch.logChance.push(-1 - 3 * random.next())
    }
  }
  return batch
}

/** A model that has learned a while with rows of all sizes. */
function trained(p: { passes?: number; sizes?: readonly number[]; mixed?: boolean } = {}): SequenceModel {
  const { sizes = SIZES, mixed = true } = p
  const model = new SequenceModel({ sizes, start: sizes.length - 1, seed: 3, ...p })
  for (let id = 0; id < ITEMS; id++) model.meetOne("item", id)
  for (let id = 0; id < USERS; id++) model.meetOne("user", id)
  if (mixed) {
    for (let id = 0; id < ITEMS; id++) model.resize("item", id, { step: id % sizes.length })
    for (let id = 0; id < USERS; id++) model.resize("user", id, { step: (id + 1) % sizes.length })
  }
  for (let n = 0; n < 40; n++) model.train(groups(20, n))
  return model
}

const ALL = Int32Array.from({ length: ITEMS }, (_, i) => i)

function scores(model: SequenceModel): number[][] {
  return Array.from({ length: USERS }, (_, user) => {
    const out = new Float64Array(ITEMS)
    model.logitsOf(out, user, ALL)
    return [...out]
  })
}

function worst(a: number[][], b: number[][]): number {
  return Math.max(...a.flatMap((row, u) => row.map((x, i) => Math.abs(x - b[u][i]))))
}

/** A row's head and vectors, filled up to the top size with what `tail` says. */
function vectors(model: SequenceModel, side: "user" | "item", id: number, tail?: Float32Array): number[][] {
  const table = model.tables[side]
  const row = new Float32Array(table.size(id))
  table.read(id, row, 0)
  const [head, size] = [model.heads[side], model.sizes[table.step(id)]]
  const top = model.sizes[model.sizes.length - 1]
  return Array.from({ length: model.vectors[side] }, (_, v) =>
    Array.from({ length: top }, (_, k) => (k < size ? row[head + v * size + k] : v === 0 ? (tail?.[k] ?? 0) : 0)),
  )
}

/** ε of the items: what q grows to from nothing. */
const NOISE = Array.from({ length: ITEMS }, (_, item) => {
  const fresh = new SequenceModel({ sizes: SIZES, start: 0, seed: 3 })
  fresh.meetOne("item", item)
  fresh.resize("item", item, { step: SIZES.length - 1 })
  return Float32Array.from(vectors(fresh, "item", item)[0])
})

test("a new item's q is ε, 16 times as large, and half of that wherever k quadruples; a cold one is a new one", () => {
  const model = new SequenceModel({ sizes: SIZES, start: SIZES.length - 1, seed: 3 })
  model.meetOne("item", 5)
  const want = Array.from(NOISE[5], (number, k) => (16 * number) / 2 ** Math.floor(Math.log(k + 1.5) / Math.log(4)))
  expect(vectors(model, "item", 5)[0]).toEqual(want)
  model.resize("item", 5, { step: 0 })
  model.resize("item", 5, { step: SIZES.length - 1, cold: true })
  expect(vectors(model, "item", 5)[0]).toEqual(want)
  expect(Math.abs(NOISE[5][0])).toBeGreaterThan(0)
})

/** b, or with `at` 1 what the quick bias is above the slow one. */
const bias = (model: SequenceModel, item: number, at = 0) => {
  const { item: table } = model.tables
  return (table.numbersOf(item) as Float32Array)[table.placeOf(item) + at]
}

/** t and its accumulator. */
function mixOf(model: SequenceModel): number[] {
  const all = model.fusion.all()
  return Array.from(all.subarray(-2))
}

/** x and z by the equations, with plain arrays. */
function defined(model: SequenceModel, user: number): { x: number[]; weights: number[]; z: number[] } {
  const latest = model.latestOf(user).reverse()
  const total = latest.reduce((sum, _, a) => sum + 0.9 ** a, 0)
  const weights = latest.map((_, a) => 0.9 ** a / Math.sqrt(total))
  const x = [...vectors(model, "user", user)[0]]
  latest.forEach((item, a) => {
    vectors(model, "item", item)[1].forEach((y, k) => {
      x[k] += weights[a] * y
    })
  })
  const beside = [...ALL].map((i) =>
    neighbourScores(model.neighbours as Neighbours, latest, i).reduce(
      (sum, f, k) => sum + model.fusion.weights[k] * f,
      0,
    ),
  )
  const z = [...ALL].map((i) =>
    vectors(model, "item", i, NOISE[i])[0].reduce((sum, q, k) => sum + q * x[k], bias(model, i) + beside[i]),
  )
  return { x, weights, z }
}

describe("the sequence model", () => {
  test("scores all items as its equations say, rows of all sizes, to 1e-6", () => {
    const model = trained()
    const all = scores(model)
    for (let user = 0; user < USERS; user++)
      defined(model, user).z.forEach((z, i) => {
        expect(Math.abs(z - all[user][i])).toBeLessThan(1e-6)
      })
    expect(Math.max(...all.flat().map(Math.abs)), "there is something to score").toBeGreaterThan(0.5)
    expect(Math.max(...model.fusion.weights), "neighbours count").toBeGreaterThan(0)
  })

  test("growing a row to any size above changes no score at all, to 1e-12", () => {
    const model = trained()
    const before = scores(model)
    for (const side of ["user", "item"] as const)
      for (const id of [...model.tables[side].ids()])
        for (let step = model.tables[side].step(id) + 1; step < SIZES.length; step++) model.resize(side, id, { step })
    expect(worst(before, scores(model))).toBeLessThan(1e-12)
    model.resize("item", 7, { step: 0 })
    expect(worst(before, scores(model)), "shrinking does").toBeGreaterThan(1e-4)
  })

  test("turning the frame changes no score of full rows, to 1e-5, and sorts what the coordinates carry", () => {
    const model = trained({ mixed: false })
    const before = scores(model)
    const carried = () =>
      Array.from({ length: 8 }, (_, k) => [...ALL].reduce((sum, i) => sum + vectors(model, "item", i)[0][k] ** 2, 0))
    const loose = carried()
    turnFrame(model, () => 1)
    const tight = carried()
    expect(worst(before, scores(model))).toBeLessThan(1e-5)
    expect(tight).toEqual(tight.toSorted((a, b) => b - a))
    expect(loose).not.toEqual(loose.toSorted((a, b) => b - a))
  })

  test.each([
    ["as they have become", undefined],
    ["beyond 80", 500],
  ])("steps down the gradient of its loss, found by central differences, by Adagrad: accumulators %s", (_, sum) => {
    const model = trained({ passes: 1 })
    for (const side of ["user", "item"] as const)
      for (const id of model.tables[side].ids())
        for (let v = 1; sum !== undefined && v <= model.vectors[side]; v++)
          model.tables[side].numbersOf(id)[model.tables[side].placeOf(id) + model.heads[side] - v] = sum
    const batch = groups(1, 77)
    const user = batch.user[0]
    const candidates = Array.from(batch.item)
    const loss = () => {
      const { z } = defined(model, user)
      const shifted = candidates.map((i, j) => z[i] - batch.logChance[j])
      return Math.log(shifted.reduce((sum, s) => sum + Math.exp(s), 0)) - shifted[0]
    }
    const { weights } = defined(model, user)
    const latest = model.latestOf(user).reverse()
    // `sum`: where the accumulator of the knob's vector stands.
    const knobs: { side: "user" | "item"; id: number; at: number; rate: number; decay: number; sum: number }[] = []
    const size = (side: "user" | "item", id: number) => SIZES[model.tables[side].step(id)]
    for (let k = 0; k < size("user", user); k++)
      knobs.push({ side: "user", id: user, at: 21 + k, rate: 0.3, decay: 0.01, sum: 20 })
    for (const id of new Set(candidates)) {
      if (candidates.filter((other) => other === id).length > 1) continue
      for (let k = 0; k < size("item", id); k++)
        knobs.push({ side: "item", id, at: 4 + k, rate: 0.3, decay: 0.007, sum: 2 })
    }
    latest.forEach((id, a) => {
      if (latest.indexOf(id) !== a || latest.lastIndexOf(id) !== a) return
      for (let k = 0; k < size("item", id); k++)
        knobs.push({ side: "item", id, at: 4 + size("item", id) + k, rate: 0.7, decay: 0.015 * weights[a], sum: 3 })
    })
    const cell = ({ side, id, at }: Pick<(typeof knobs)[number], "side" | "id" | "at">) => {
      const numbers = model.tables[side].numbersOf(id)
      return { numbers, at: model.tables[side].placeOf(id) + at }
    }
    const gradients = knobs.map((knob) => {
      const { numbers, at } = cell(knob)
      const old = numbers[at]
      const width = 1 / 4096
      numbers[at] = old + width
      const [high, up] = [loss(), numbers[at]]
      numbers[at] = old - width
      const [low, down] = [loss(), numbers[at]]
      numbers[at] = old
      return (high - low) / (up - down)
    })
    const before = knobs.map((knob) => cell(knob).numbers[cell(knob).at])
    const expected = knobs.map(({ side, id, rate, decay, sum: at }, n) => {
      const same = knobs.map((other) => other.side === side && other.id === id && other.sum === at)
      const squares = gradients.reduce((all, gradient, m) => (same[m] ? all + gradient ** 2 : all), 0)
      const head = cell({ side, id, at })
      const total = Math.min(80, head.numbers[head.at] + squares)
      return before[n] - (rate / Math.sqrt(total)) * (gradients[n] + decay * before[n])
    })
    const state = new State()
    const { fusion } = model
    fusion.save(state)
    const weighed = fusion.weights.slice()
    const slopes = weighed.map((w, k) => {
      fusion.weights[k] = w + 1e-4
      const high = loss()
      fusion.weights[k] = w - 1e-4
      const low = loss()
      fusion.weights[k] = w
      return (high - low) / 2e-4
    })
    const squares = state.take("squares", Float64Array).slice()
    model.train(batch)
    slopes.forEach((slope, k) => {
      const next = weighed[k] - (0.1 * slope) / Math.sqrt(squares[k] + slope * slope)
      expect(Math.abs(fusion.weights[k] - Math.max(0, next)), `weight ${k}`).toBeLessThan(1e-6)
    })
    let moved = 0
    knobs.forEach((knob, n) => {
      const now = cell(knob).numbers[cell(knob).at]
      expect(Math.abs(now - expected[n]), `${knob.side} ${knob.id}[${knob.at}]`).toBeLessThan(2e-6)
      moved = Math.max(moved, Math.abs(now - before[n]))
    })
    expect(knobs.length).toBeGreaterThan(30)
    expect(moved).toBeGreaterThan(1e-3)
  })

  test("of an item's two biases each learns as if it were alone, and the one that says more gets a larger part", () => {
    const model = trained({ passes: 1 })
    const batch = groups(1, 77)
    const candidates = Array.from(batch.item)
    const { z } = defined(model, batch.user[0])
    const [t, squares] = mixOf(model)
    const m = 1 / (1 + Math.exp(-t))
    const gap = candidates.map((i) => bias(model, i, 1))
    expect(Math.max(...gap.map(Math.abs)), "they differ").toBeGreaterThan(0.01)
    const errors = (share: number) => {
      const own = candidates.map((i, j) => Math.exp(z[i] - batch.logChance[j] + share * gap[j]))
      const sum = own.reduce((all, one) => all + one, 0)
      return own.map((one, j) => one / sum - (j === 0 ? 1 : 0))
    }
    const [both, slow, quick] = [errors(0), errors(-m), errors(1 - m)]
    const expected = new Map([...ALL].map((i) => [i, [bias(model, i), bias(model, i, 1)]]))
    candidates.forEach((i, j) => {
      const [less, more] = [-0.03 * slow[j], -0.15 * quick[j]]
      const now = expected.get(i) as number[]
      now[0] += less + m * (more - less)
      now[1] += more - less
    })
    const slope = m * (1 - m) * both.reduce((sum, error, j) => sum + error * gap[j], 0)
    model.train(batch)
    for (const [i, numbers] of expected)
      for (const at of [0, 1]) expect(Math.abs(bias(model, i, at) - numbers[at]), `${i}[${at}]`).toBeLessThan(2e-6)
    expect(mixOf(model)[0]).toBeCloseTo(t - (0.2 * slope) / Math.sqrt(squares + slope * slope), 5)
  })

  test("judges every rung of the user and of the positive: the loss after shrinking to it, before anything is learned", () => {
    const model = trained({ passes: 1 })
    for (const seed of [201, 202, 203, 204, 205, 206]) {
      const batch = groups(1, seed)
      const [user, item] = [batch.user[0], batch.item[0]]
      const floats = () => new Float64Array(batch.user.length * SIZES.length)
      const copy = (): SequenceModel => {
        const state = new State()
        model.save(state)
        const twin = new SequenceModel({ sizes: SIZES, start: 3, seed: 3, passes: 1 })
        twin.load(state)
        return twin
      }
      const rungs = { user: floats(), item: floats() }
      const full = copy().train(batch, rungs).losses[0]
      const steps = { user: model.tables.user.step(user), item: model.tables.item.step(item) }
      expect([rungs.user[steps.user], rungs.item[steps.item]]).toEqual([full, full])
      for (let step = 0; step < steps.user; step++) {
        const shrunk = copy()
        shrunk.resize("user", user, { step })
        expect(shrunk.train(batch).losses[0]).toBeCloseTo(rungs.user[step], 5)
      }
      const distinct = Array.from(batch.item).indexOf(item, 1) < 0 && !model.latestOf(user).includes(item)
      for (let step = 0; distinct && step < steps.item; step++) {
        const shrunk = copy()
        shrunk.resize("item", item, { step })
        expect(shrunk.train(batch).losses[0]).toBeCloseTo(rungs.item[step], 5)
      }
    }
  })

  test("judges what an item's y does for its user's later events: of one of the latest, counted for all of them", () => {
    const model = trained({ passes: 1 })
    const copy = (of: SequenceModel): SequenceModel => {
      const state = new State()
      of.save(state)
      const twin = new SequenceModel({ sizes: SIZES, start: 3, seed: 3, passes: 1 })
      twin.load(state)
      return twin
    }
    const user = USERS
    // Seven events of one user, each with three negatives: no item is both.
    const events = [11, 15, 3, 7, 19, 23, 27].map((item, n) => [
      item,
      ...[0, 1, 2].map((j) => 4 * ((n + 2 * j) % 7) + j),
    ])
    const group = (items: number[]) => ({
      user: items.map(() => user),
      item: items,
      label: items.map((_, j) => (j === 0 ? 1 : 0)),
      logChance: items.map(() => -2),
    })
    const together = (groups: number[][]): ModelBatch => ({
      ...group(groups.flat()),
      label: groups.flatMap((items) => group(items).label),
    })
    const judged = (batch: ModelBatch) => {
      const floats = () => new Float64Array(batch.user.length * SIZES.length)
      const rungs = { user: floats(), item: floats() }
      copy(model).train(batch, rungs)
      return rungs.item
    }
    const seen = new Set<number>()
    for (let n = 1; n < events.length; n++) {
      const before = events.slice(0, n)
      const [without, withIt] = [judged(together(before)), judged(together([...before, events[n]]))]
      const learned = copy(model)
      learned.train(together(before))
      const full = copy(learned).train(group(events[n])).losses[0]
      // Exactly one of the latest items was judged by it.
      const changed = before.flatMap((_, m) => {
        const from = 4 * m * SIZES.length
        return withIt.subarray(from, from + SIZES.length).some((loss, k) => loss !== without[from + k]) ? [m] : []
      })
      expect(changed.length, `event ${n}`).toBeLessThanOrEqual(1)
      for (const m of changed) {
        const item = before[m][0]
        seen.add(n - m)
        for (let to = 0; to < learned.tables.item.step(item); to++) {
          const shrunk = copy(learned)
          shrunk.resize("item", item, { step: to })
          // Only its y: q of the shrunk item is in nobody's score here.
          const cut = shrunk.train(group(events[n])).losses[0]
          const at = 4 * m * SIZES.length + to
          expect(withIt[at] - without[at], `event ${n}, item ${item}, step ${to}`).toBeCloseTo(n * (cut - full), 4)
        }
      }
    }
    expect(seen.size, "items of several ages").toBeGreaterThan(1)
  })

  test("growing and shrinking leave accumulators alone; numbers that are all new begin with new ones", () => {
    const model = trained()
    for (const side of ["user", "item"] as const) {
      const { [side]: table } = model.tables
      const sums = (id: number) => {
        const row = new Float32Array(table.size(id))
        table.read(id, row, 0)
        return [...row.slice(model.heads[side] - model.vectors[side], model.heads[side])]
      }
      const fresh = Array.from({ length: model.vectors[side] }, () => Math.fround(0.4))
      const id = [...table.ids()].find((one) => table.step(one) === 2) ?? 0
      const learned = sums(id)
      for (const sum of learned) expect(sum).toBeGreaterThan(0.41)
      for (const step of [3, 1, 2, 0]) {
        model.resize(side, id, { step })
        expect(sums(id)).toEqual(learned)
      }
      model.resize(side, id, { step: 1 })
      expect(sums(id)).toEqual(fresh)
      const other = [...table.ids()].find((one) => table.step(one) === 2) ?? 0
      model.resize(side, other, { step: 3, cold: true })
      expect(sums(other)).toEqual(fresh)
    }
  })

  test("refuses a row whose accumulators are below their start", () => {
    const model = trained()
    const row = new Float32Array(model.tables.item.size(0))
    model.tables.item.read(0, row, 0)
    expect(model.accepts("item", row)).toBe(true)
    for (const at of [2, 3]) expect(model.accepts("item", row.with(at, 0.3))).toBe(false)
  })

  test("a dislike stands alone: its item falls for its user, and is not among the latest", () => {
    const model = trained()
    const before = scores(model)
    const latest = model.latestOf(2)
    const { losses } = model.train({ user: [2], item: [5], label: [0], logChance: [Number.NaN] })
    expect(losses[0]).toBeCloseTo(Math.log(1 + Math.exp(before[2][5])), 6)
    expect(scores(model)[2][5]).toBeLessThan(before[2][5] - 0.01)
    expect(model.latestOf(2)).toEqual(latest)
  })

  test("keeps the last 20 training items of a user, and forgets an item everywhere", () => {
    const model = new SequenceModel({ sizes: SIZES, start: 1, seed: 1 })
    for (let n = 0; n < 25; n++) model.train({ user: [4], item: [n], label: [1] })
    expect(model.latestOf(4)).toEqual(Array.from({ length: 20 }, (_, n) => n + 5))
    model.train({ user: [5], item: [1], label: [1] })
    expect(model.forget("item", new Set([7, 24]))).toEqual([4])
    expect(model.latestOf(4)).toEqual(Array.from({ length: 20 }, (_, n) => n + 5).filter((n) => n !== 7 && n !== 24))
    expect(model.tables.item.has(7)).toBe(false)
  })

  test("loaded from a state it goes on to the same bits", () => {
    const model = trained()
    const state = new State()
    model.save(state)
    const twin = new SequenceModel({ sizes: SIZES, start: 1, seed: 3 })
    twin.load(state)
    for (const one of [model, twin]) one.train(groups(30, 99))
    expect(scores(twin)).toEqual(scores(model))
    expect(twin.latestOf(3)).toEqual(model.latestOf(3))
    expect(twin.heldBytes).toBe(model.heldBytes)
  })

  test("learns two colours: each user is ranked the items of its own", () => {
    const model = new SequenceModel({ sizes: [4], start: 0, seed: 1 })
    const random = new Random(5, "colours")
    for (let n = 0; n < 3000; n++) {
      const user = random.integer(20)
      const own = 2 * random.integer(20) + (user % 2)
      const item = [own, ...Array.from({ length: 4 }, () => random.integer(40))]
      model.train({ user: item.map(() => user), item, label: [1, 0, 0, 0, 0] })
    }
    const items = Int32Array.from({ length: 40 }, (_, i) => i)
    for (let user = 0; user < 20; user++) {
      const out = new Float64Array(40)
      model.logitsOf(out, user, items)
      const best = [...items].toSorted((a, b) => out[b] - out[a]).slice(0, 20)
      expect(best.filter((i) => i % 2 === user % 2).length).toBeGreaterThanOrEqual(19)
    }
  })
})

describe("the mixture of negatives", () => {
  test("is half uniform over the items seen, half the last 4,000 positives, never the user's own; Q says so", () => {
    const history = new History()
    const mixture = new NegativeMixture(1)
    for (let n = 0; n < 5000; n++) {
      // Item 0 makes up the first 1,000, which the window has left behind; then 1 comes three times in four.
      const item = n < 1000 ? 0 : n % 4 < 3 ? 1 : 2 + (n % 8)
      history.add([9], [item])
      mixture.add(item)
    }
    history.add([9, 3], [20, 20])
    const { seen } = history
    const chances = new Map(Array.from(seen, (item) => [item, Math.exp(mixture.logChance(item, seen.length))]))
    expect([...chances.values()].reduce((a, b) => a + b)).toBeCloseTo(1, 12)
    expect(chances.get(0)).toBeCloseTo(0.5 / seen.length, 12)
    expect(chances.get(1)).toBeCloseTo(0.5 / seen.length + 0.5 * 0.75, 12)
    const count = 20_000
    const items = new Int32Array(count)
    expect(mixture.draw(history, 1, { items, at: 0, count })).toBe(count)
    for (const [item, chance] of chances) {
      const share = items.reduce((sum, drawn) => sum + (drawn === item ? 1 : 0), 0) / count
      expect(Math.abs(share - chance), `item ${item}`).toBeLessThan(5 * Math.sqrt(chance / count))
    }
    mixture.draw(history, 3, { items, at: 0, count })
    expect(items).not.toContain(20)
    expect(mixture.draw(history, 9, { items, at: 0, count }), "a user who has met everything").toBe(0)
  })

  test("goes on from a state with the same draws, and forgets items", () => {
    const history = new History()
    const [one, two] = [new NegativeMixture(1), new NegativeMixture(2)]
    for (let n = 0; n < 4500; n++) {
      history.add([n % 7], [(n * n) % 91])
      one.add((n * n) % 91)
    }
    const draw = (mixture: NegativeMixture) => {
      const items = new Int32Array(50)
      mixture.draw(history, 50, { items, at: 0, count: 50 })
      return [...items]
    }
    const state = new State()
    one.save(state)
    two.load(state)
    for (const mixture of [one, two]) for (let n = 0; n < 300; n++) mixture.add(n % 5)
    expect(draw(two)).toEqual(draw(one))
    one.forget(new Set([3]))
    expect(Math.exp(one.logChance(3, 10))).toBeCloseTo(0.05, 12)
  })

  test("comes with the batch: negatives for two passes, chances for all, dislikes alone", () => {
    const exam = new TopkEvaluator({ k: 2, negatives: 3, seed: 1, mixture: true })
    const rows = { user: [0, 1, 2], item: [0, 1, 2], label: [1, 0, 1] }
    const { user, label, logChance } = exam.training(rows)
    expect(Array.from(user)).toEqual([0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2])
    expect(Array.from(label)).toEqual([1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    expect(Array.from(logChance ?? [], Number.isNaN).indexOf(true)).toBe(7)
    expect(logChance?.[0]).toBeCloseTo(Math.log(0.5 / 3 + 0.5 / 2), 12)
  })
})

describe("the calibrated recipe for top-k, live", () => {
  test.each([
    ["1e-6", "32", 1e-6],
    ["2e-4", "8", 2e-4],
    ["2e-4", "16", 2e-4],
  ] as const)(
    "a reader of its versions scores to %s what the learner scores in %s bits, items that left included",
    (_, bits, tolerance) => {
      const live = { testUsers: 4, smallestBatch: 1, remembered: 10 }
      const options = {
        task: "topk",
        method: "dess-fre",
        sizes: [2, 4, 8],
        bits,
        seed: 2,
        protocol: "prequential",
        live,
      } as const
      const run = new Run(options)
      const kernels = openKernels({ threads: 1, shared: true })
      const reader = createReader(withDefaults(options), kernels)
      const learner = run.learner.live
      if (!learner) throw new Error("a live run has a live learner")
      for (let n = 0; n < 12; n++) {
        const rows = Array.from({ length: 60 }, (_, r) => ({ user: (r * 7 + n) % 13, item: (r * 5 + n * n) % 41 }))
        run.step({
          index: n,
          length: 60,
          trainLength: 60,
          time: n * 1000,
          user: Int32Array.from(rows, ({ user }) => user),
          item: Int32Array.from(rows, ({ item }) => item),
          rating: Float32Array.from(rows, (_, r) => (r % 6 === 0 ? 1 : 5)),
          timestamp: Float64Array.from(rows, () => n),
        })
        if (n === 7) learner.forget("item", new Set([3, 4]))
        const room = reader.reserve(learner.floatsNeeded)
        reader.apply(learner.publish(room), room)
        const ranking = run.learner.rank([...reader.items])
        for (let user = 0; user < 13; user++)
          if (reader.knows("user", user)) expectClose(reader.scores(user), ranking.scores(user), tolerance)
      }
      expect(reader.items.length).toBeGreaterThan(30)
      run.close()
      kernels.close()
    },
  )
})
