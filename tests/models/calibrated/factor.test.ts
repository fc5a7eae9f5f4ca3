/** The model of the calibrated recipe: growth, gradients, the frame. */

import { describe, expect, test } from "vitest"
import { Random } from "../../../src/kernels/random.ts"
import { FactorModel } from "../../../src/models/calibrated/factor.ts"
import { eigenvectors, turnFrame } from "../../../src/models/calibrated/frame.ts"
import type { ModelBatch } from "../../../src/models/model.ts"
import { expectSameBits, SIDES } from "../../support/model-state.ts"

const [USERS, ITEMS] = [12, 15]

function rows(count: number, random: Random, classes = 2): ModelBatch {
  const column = (below: number) => Int32Array.from({ length: count }, () => random.integer(below))
  return { user: column(USERS), item: column(ITEMS), label: Float64Array.from(column(classes)) }
}

/** Every pair there is. */
const PAIRS: ModelBatch = {
  user: Int32Array.from({ length: USERS * ITEMS }, (_, r) => r % USERS),
  item: Int32Array.from({ length: USERS * ITEMS }, (_, r) => Math.floor(r / USERS)),
  label: new Float64Array(USERS * ITEMS),
}

/** A model with rows of many sizes that has learned something. */
function trained(task: "binary" | "multiclass", seed: number): { model: FactorModel; random: Random } {
  const random = new Random(seed, "factor test")
  const sizes = [0]
  for (let k = 0; k < 4; k++) sizes.push(sizes[k] + 1 + random.integer(9))
  const model = new FactorModel({ task, sizes, start: random.integer(sizes.length), seed })
  const classes = task === "multiclass" ? 5 : 2
  for (let n = 0; n < 6; n++) {
    model.train(rows(80, random, classes))
    model.predict(PAIRS)
    for (const side of SIDES)
      for (const id of [...model.tables[side].ids()])
        if (random.next() < 0.5) model.resize(side, id, { step: random.integer(sizes.length) })
  }
  model.train(rows(80, random, classes))
  return { model, random }
}

const logits = (model: FactorModel) => model.predict(PAIRS).logits

describe("growth", () => {
  test.each(["binary", "multiclass"] as const)("%s: preserves every prediction to the bit", (task) => {
    for (let seed = 1; seed <= 12; seed++) {
      const { model, random } = trained(task, seed)
      const before = logits(model)
      let grown = 0
      for (const side of SIDES)
        for (const id of [...model.tables[side].ids()]) {
          const step = model.tables[side].step(id)
          const up = step + random.integer(model.sizes.length - step)
          if (up > step) grown++
          model.resize(side, id, { step: up })
        }
      expect(grown).toBeGreaterThan(0)
      expectSameBits(logits(model), before, `seed ${seed}`)
    }
  })

  test("cold growth does not: all numbers are those of a new row", () => {
    for (const side of SIDES) {
      const { model } = trained("binary", 3)
      const top = model.sizes.length - 1
      for (const id of model.tables[side].ids()) model.resize(side, id, { step: top - 1 })
      for (let n = 0; n < 3; n++) model.train(rows(80, new Random(n, "more")))
      const before = logits(model)
      for (const id of model.tables[side].ids()) model.resize(side, id, { step: top, cold: true })
      expect([...logits(model)]).not.toEqual([...before])
    }
  })

  test("shrinking leaves the last numbers off, and growing again does not bring them back", () => {
    for (const task of ["binary", "multiclass"] as const) {
      const { model } = trained(task, 5)
      const top = model.sizes.length - 1
      for (const side of SIDES) for (const id of model.tables[side].ids()) model.resize(side, id, { step: top })
      for (let n = 0; n < 4; n++) model.train(rows(80, new Random(n, "again"), task === "binary" ? 2 : 5))
      const full = logits(model)
      const table = model.tables.user
      const row = (id: number) => {
        const target = new Float32Array(table.sizes[table.step(id)])
        table.read(id, target, 0)
        return target
      }
      const long = row(0)
      for (const id of table.ids()) model.resize("user", id, { step: 1 })
      const kept = long.slice(0, model.sizes[1] + model.heads.user)
      kept[model.heads.user - 1] =
        0.8 + (long[model.heads.user - 1] - 0.8) * Math.sqrt(model.sizes[1] / model.sizes[top])
      expect([...row(0)]).toEqual([...kept])
      const short = logits(model)
      expect([...short]).not.toEqual([...full])
      for (const id of table.ids()) model.resize("user", id, { step: top })
      expectSameBits(logits(model), short, task)
    }
  })

  test("shrinking changes a score by no more than the numbers left off can: ‖p‖·‖q − ε‖ of an item, ‖p‖·‖q̂‖ of a user", () => {
    for (let seed = 1; seed <= 6; seed++)
      for (const side of SIDES) {
        const { model } = trained("binary", seed)
        const top = model.sizes.length - 1
        for (const name of SIDES) for (const id of model.tables[name].ids()) model.resize(name, id, { step: top })
        for (let n = 0; n < 4; n++) model.train(rows(80, new Random(n, "bound")))
        const from = model.sizes[top - 1]
        const rest = (name: "user" | "item", id: number) => {
          const row = new Float32Array(model.tables[name].size(id))
          model.tables[name].read(id, row, 0)
          return [...row.slice(model.heads[name] + from)]
        }
        const length = (values: number[]) => Math.hypot(...values)
        const noise = (item: number, k: number) => model.noise.numbers[model.noise.tail(item) + from + k]
        const bounds = Array.from(PAIRS.user, (user, r) => {
          const q = rest("item", PAIRS.item[r])
          const lost = side === "user" ? q : q.map((value, k) => value - noise(PAIRS.item[r], k))
          return length(rest("user", user)) * length(lost)
        })
        const before = logits(model)
        for (const id of model.tables[side].ids()) model.resize(side, id, { step: top - 1 })
        const after = logits(model)
        const moved = after.map((value, r) => Math.abs(value - before[r]))
        moved.forEach((by, r) => {
          expect(by).toBeLessThanOrEqual(bounds[r] + 1e-9)
        })
        expect(Math.max(...moved)).toBeGreaterThan(1e-4)
      }
  })

  test("growing and shrinking give a vector the accumulator one of its length would have, and one that keeps nothing starts anew", () => {
    const model = new FactorModel({ task: "binary", sizes: [0, 2, 8], start: 1, seed: 1 })
    const squares = (side: "user" | "item") => model.tables[side].numbersOf(0)[model.tables[side].placeOf(0) + 2]
    for (let n = 0; n < 50; n++) model.train({ user: [0], item: [0], label: [n % 2] })
    for (const side of SIDES) {
      const learned = squares(side)
      expect(learned).toBeGreaterThan(Math.fround(0.8) + 1e-4)
      for (const [step, share] of [
        [2, 2],
        [1, 1],
        [0, 0],
      ]) {
        model.resize(side, 0, { step })
        expect(squares(side)).toBeCloseTo(0.8 + (learned - 0.8) * share, 6)
      }
      model.resize(side, 0, { step: 1 })
      expect(squares(side), "from nothing").toBeCloseTo(0.8, 6)
      for (let n = 0; n < 50; n++) model.train({ user: [0], item: [0], label: [n % 2] })
      expect(squares(side)).toBeGreaterThan(Math.fround(0.8) + 1e-5)
      model.resize(side, 0, { step: 2, cold: true })
      expect(squares(side), "cold").toBeCloseTo(0.8, 6)
      expect(model.accepts(side, Float32Array.of(0, 0.5, squares(side)))).toBe(true)
      expect(model.accepts(side, Float32Array.of(0, 0.5, 0.79))).toBe(false)
    }
  })

  test("a vector of a fresh item is not zero, or nothing would ever be learned", () => {
    const model = new FactorModel({ task: "binary", sizes: [0, 4], start: 1, seed: 1 })
    for (let n = 0; n < 300; n++) {
      const [user, item] = [n % 4, Math.floor(n / 4) % 4]
      model.train({ user: [user], item: [item], label: [(user + item) % 2] })
    }
    const { losses } = model.predict({ user: [0, 1, 0, 1], item: [0, 0, 1, 1], label: [0, 1, 1, 0] })
    for (const loss of losses) expect(loss).toBeLessThan(0.05)
  })
})

/** One row's parameters, in the order g, b_u, b_i, p, q. */
interface Parameters {
  global: number[]
  userBias: number[]
  itemBias: number[]
  p: number[]
  q: number[]
}

/** −log P(label) + Σ λ/2·θ², which training descends; the binary task reports another loss. */
function penalized(at: Parameters, label: number, classes: number): number {
  const { global, userBias, itemBias, p, q } = at
  const product = p.reduce((sum, value, k) => sum + value * q[k], 0)
  const z = global.map((g, c) => {
    const slope = classes === 1 ? 1 : (2 * c) / (classes - 1) - 1
    return g + userBias[c] + itemBias[c] + slope * product
  })
  const square = (values: number[]) => values.reduce((sum, value) => sum + value * value, 0)
  const penalty = 0.01 * (square(userBias) + square(itemBias)) + 0.0025 * square(p) + 0.005 * square(q)
  if (classes === 1) return Math.log(1 + Math.exp(label === 1 ? -z[0] : z[0])) + penalty
  return Math.log(z.reduce((sum, value) => sum + Math.exp(value), 0)) - z[label] + penalty
}

describe("training", () => {
  test.each([
    ["binary", 1],
    ["multiclass", 0],
    ["multiclass", 3],
  ] as const)("%s, label %i: two steps down the gradient by finite differences, to 1e-6", (task, label) => {
    const { model } = trained(task, 9)
    const top = model.sizes.length - 1
    for (const side of SIDES) for (const id of [2, 3]) model.resize(side, id, { step: top })
    for (let n = 0; n < 20; n++) model.train({ user: [2, 3], item: [3, 2], label: [n % 2, label] })
    const { outputs } = model
    const read = (side: "user" | "item") => {
      const row = new Float32Array(model.tables[side].sizes[top])
      model.tables[side].read(2, row, 0)
      return {
        bias: [...row.slice(0, outputs)],
        sums: [...row.slice(outputs, 2 * outputs)],
        squares: row[2 * outputs],
        vector: [...row.slice(model.heads[side])],
      }
    }
    const [user, item] = [read("user"), read("item")]
    const at: Parameters = {
      global: [...model.global],
      userBias: user.bias,
      itemBias: item.bias,
      p: user.vector,
      q: item.vector,
    }
    const sums = { userBias: user.sums, itemBias: item.sums }
    const squares = { p: user.squares, q: item.squares }
    for (let pass = 0; pass < 2; pass++) {
      const gradient = (name: keyof Parameters) =>
        at[name].map((_, k) => {
          const h = 1e-5
          const moved = (by: number) => ({ ...at, [name]: at[name].map((value, j) => (j === k ? value + by : value)) })
          return (penalized(moved(h), label, outputs) - penalized(moved(-h), label, outputs)) / (2 * h)
        })
      const slopes = { global: gradient("global"), p: gradient("p"), q: gradient("q") }
      for (const name of ["p", "q"] as const)
        squares[name] += slopes[name].reduce((sum, g) => sum + g * g, 0) / Math.sqrt(slopes[name].length)
      const biases = { userBias: gradient("userBias"), itemBias: gradient("itemBias") }
      at.global = at.global.map((value, k) => value - 0.002 * slopes.global[k])
      at.p = at.p.map((value, k) => value - (0.4 / Math.sqrt(Math.min(10, squares.p))) * slopes.p[k])
      at.q = at.q.map((value, k) => value - (0.1 / Math.sqrt(Math.min(10, squares.q))) * slopes.q[k])
      for (const name of ["userBias", "itemBias"] as const)
        at[name] = at[name].map((value, k) => {
          sums[name][k] += biases[name][k] ** 2
          return value - (0.3 / Math.sqrt(sums[name][k])) * biases[name][k]
        })
    }
    model.train({ user: [2], item: [2], label: [label] })
    const near = (got: ArrayLike<number>, want: number[]) =>
      want.forEach((value, k) => {
        expect(Math.abs(got[k] - value)).toBeLessThan(1e-6)
      })
    near(model.global, at.global)
    near(read("user").bias, at.userBias)
    near(read("item").bias, at.itemBias)
    near(read("user").vector, at.p)
    near(read("item").vector, at.q)
    near([read("user").squares, read("item").squares], [squares.p, squares.q])
    expect(Math.min(squares.p - user.squares, squares.q - item.squares)).toBeGreaterThan(1e-4)
    expect(Math.max(...at.p.map((value, k) => Math.abs(value - user.vector[k])))).toBeGreaterThan(1e-4)
  })

  test("what a rung saves is the difference of the losses with it and without it", () => {
    for (const task of ["binary", "multiclass"] as const) {
      const { model } = trained(task, 4)
      const batch = rows(1, new Random(8, "judge"))
      const rungs = { user: new Float64Array(4), item: new Float64Array(4) }
      const [user, item] = [batch.user[0], batch.item[0]]
      for (const [side, id] of [
        ["user", user],
        ["item", item],
      ] as const)
        model.resize(side, id, { step: 2 })
      const twin = (side: "user" | "item", step: number) => {
        const { model: copy } = trained(task, 4)
        for (const [name, id] of [
          ["user", user],
          ["item", item],
        ] as const)
          copy.resize(name, id, { step: 2 })
        copy.resize(side, side === "user" ? user : item, { step })
        return copy.predict(batch).losses[0]
      }
      const cut = (side: "user" | "item") => [0, 1, 2].map((step) => twin(side, step))
      const expected = { user: cut("user"), item: cut("item") }
      model.train(batch, rungs)
      for (const side of SIDES) {
        expected[side].forEach((loss, step) => {
          expect(rungs[side][step], `${side} at step ${step}`).toBeCloseTo(loss, 6)
        })
        expect(new Set(expected[side]).size, "the sizes differ").toBe(3)
      }
    }
  })
})

describe("the frame", () => {
  /** Σ w·q·qᵀ of a model whose items all have the top size. */
  function moments(model: FactorModel, weigh: (item: number) => number): number[][] {
    const width = model.sizes[model.sizes.length - 1]
    const sums = Array.from({ length: width }, () => Array<number>(width).fill(0))
    const row = new Float32Array(width + model.heads.item)
    for (const id of model.tables.item.ids()) {
      model.tables.item.read(id, row, 0)
      const q = row.slice(model.heads.item)
      for (let j = 0; j < width; j++) for (let k = 0; k < width; k++) sums[j][k] += weigh(id) * q[j] * q[k]
    }
    return sums
  }

  test.each(["binary", "multiclass"] as const)(
    "%s: a turn keeps the scores between full rows to 1e-5 and puts the largest second moments first",
    (task) => {
      const { model, random } = trained(task, 2)
      const top = model.sizes.length - 1
      for (const side of SIDES) for (const id of model.tables[side].ids()) model.resize(side, id, { step: top })
      for (let n = 0; n < 10; n++) model.train(rows(100, random, task === "binary" ? 2 : 5))
      const before = logits(model)
      const weigh = (item: number) => 1 + (item % 3)
      turnFrame(model, weigh)
      const after = logits(model)
      for (let r = 0; r < before.length; r++) expect(Math.abs(after[r] - before[r])).toBeLessThan(1e-5)
      expect([...after]).not.toEqual([...before])
      const sums = moments(model, weigh)
      const trace = sums.reduce((sum, row, k) => sum + row[k], 0)
      for (let j = 0; j < sums.length; j++)
        for (let k = 0; k < sums.length; k++) {
          if (j !== k) expect(Math.abs(sums[j][k])).toBeLessThan(1e-5 * trace)
          if (k === j + 1) expect(sums[j][j]).toBeGreaterThanOrEqual(sums[k][k] - 1e-6 * trace)
        }
      // At rest it stays at rest.
      const rest = logits(model)
      turnFrame(model, weigh)
      logits(model).forEach((value, r) => {
        expect(Math.abs(value - rest[r])).toBeLessThan(1e-5)
      })
    },
  )

  test("eigenvectors of a known matrix, largest eigenvalue first, each with the sign of its own coordinate", () => {
    const half = Math.SQRT1_2
    const near = (got: Float64Array, want: number[]) =>
      want.forEach((value, k) => {
        expect(got[k]).toBeCloseTo(value, 10)
      })
    near(eigenvectors(Float64Array.of(2, 1, 1, 2), 2), [half, half, half, -half])
    near(eigenvectors(Float64Array.of(5, 0, 0, 0, 3, 0, 0, 0, 1), 3), [1, 0, 0, 0, 1, 0, 0, 0, 1])
    near(eigenvectors(Float64Array.of(1, 0, 0, 0, 3, 0, 0, 0, 2), 3), [0, 1, 0, 0, 0, 1, 1, 0, 0])
    near(eigenvectors(new Float64Array(4), 2), [1, 0, 0, 1])
  })

  test("eigenvectors of random matrices are orthonormal and diagonal, descending, to 1e-7", () => {
    for (let seed = 1; seed <= 10; seed++) {
      const random = new Random(seed, "eigen")
      const n = 2 + random.integer(20)
      const a = new Float64Array(n * n)
      for (let j = 0; j < n; j++) for (let k = 0; k <= j; k++) a[j * n + k] = a[k * n + j] = random.normal()
      for (let j = 0; j < n; j++) a[j * n + j] += 8
      const v = eigenvectors(a, n)
      const form = (i: number, j: number) => {
        let [product, dot] = [0, 0]
        for (let k = 0; k < n; k++) {
          dot += v[i * n + k] * v[j * n + k]
          for (let l = 0; l < n; l++) product += v[i * n + k] * a[k * n + l] * v[j * n + l]
        }
        return { product, dot }
      }
      for (let i = 0; i < n; i++)
        for (let j = 0; j < n; j++) {
          const { product, dot } = form(i, j)
          expect(dot, `seed ${seed}`).toBeCloseTo(i === j ? 1 : 0, 9)
          if (i !== j) expect(Math.abs(product), `seed ${seed}`).toBeLessThan(1e-6)
          if (j === i + 1) expect(form(i, i).product).toBeGreaterThanOrEqual(form(j, j).product - 1e-9)
        }
    }
  })
})
