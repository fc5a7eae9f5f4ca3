import { readdirSync, readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { DessError } from "../../src/errors.ts"
import { Random } from "../../src/kernels/random.ts"
import { LinUcb, type LinUcbOptions } from "../../src/policies/lin-ucb.ts"
import { checkBandit } from "../support/golden-bandit.ts"

const folder = new URL("../golden/", import.meta.url)
const cases = readdirSync(folder).filter((name) => name.startsWith("bandit"))
const readCase = (name: string) => JSON.parse(readFileSync(new URL(name, folder), "utf8"))

const paper: LinUcbOptions = { dimension: 2, subgaussian: 3, discount: 0.99, forget: "selected" }

/** §5 written out: plain sums over the whole past, no recursion, no stored inverse. */
class DefinedBandit {
  readonly options: Required<LinUcbOptions>
  readonly past: { x: number[]; arm: number; reward: number }[] = []

  constructor(options: LinUcbOptions) {
    this.options = { arms: 2, ridge: 0.1, confidence: 0.01, parameterBound: 1, contextBound: 1, ...options }
  }

  beta(): number {
    const { dimension: d, ridge, confidence, parameterBound, contextBound, subgaussian, discount } = this.options
    let weight = 0
    for (let k = 0; k < this.past.length; k++) weight += discount ** (2 * k)
    return (
      Math.sqrt(ridge) * parameterBound +
      subgaussian *
        Math.sqrt(2 * Math.log(1 / confidence) + d * Math.log(1 + (contextBound ** 2 * weight) / (ridge * d)))
    )
  }

  /** Σ over the arm's plays of discount^age·xxᵀ + λI, and the same for r·x. */
  sums(arm: number, discount: number): { gram: number[][]; response: number[] } {
    const { dimension: d, ridge, forget } = this.options
    const gram = Array.from({ length: d }, (_, i) => Array.from({ length: d }, (_, j) => (i === j ? ridge : 0)))
    const response = Array<number>(d).fill(0)
    const plays = forget === "all" ? this.past : this.past.filter((play) => play.arm === arm)
    for (const [k, play] of plays.entries()) {
      if (play.arm !== arm) continue
      const weight = discount ** (plays.length - 1 - k)
      for (let i = 0; i < d; i++) {
        for (let j = 0; j < d; j++) gram[i][j] += weight * play.x[i] * play.x[j]
        response[i] += weight * play.reward * play.x[i]
      }
    }
    return { gram, response }
  }

  score(arm: number, x: number[]): number {
    const { gram, response } = this.sums(arm, this.options.discount)
    const squared = this.sums(arm, this.options.discount ** 2).gram
    const y = solve(gram, x)
    const theta = solve(gram, response)
    const dot = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * b[i], 0)
    return (
      dot(x, theta) +
      this.beta() *
        Math.sqrt(
          dot(
            y,
            squared.map((row) => dot(row, y)),
          ),
        )
    )
  }
}

/** Gaussian elimination with pivots. */
function solve(matrix: number[][], right: number[]): number[] {
  const d = right.length
  const rows = matrix.map((row, i) => [...row, right[i]])
  for (let c = 0; c < d; c++) {
    let pivot = c
    for (let r = c + 1; r < d; r++) if (Math.abs(rows[r][c]) > Math.abs(rows[pivot][c])) pivot = r
    ;[rows[c], rows[pivot]] = [rows[pivot], rows[c]]
    for (let r = 0; r < d; r++) {
      if (r === c) continue
      const factor = rows[r][c] / rows[c][c]
      for (let k = c; k <= d; k++) rows[r][k] -= factor * rows[c][k]
    }
  }
  return rows.map((row, i) => row[d] / row[i])
}

function drawContext(random: Random, dimension: number): Float64Array {
  return Float64Array.from({ length: dimension }, () => random.next() / Math.sqrt(dimension))
}

describe("the golden bandit cases", () => {
  it("are there", () => {
    expect(cases.length).toBeGreaterThanOrEqual(3)
  })

  it.each(cases)("%s agrees in every beta, score, arm and theta to 1e-8", (name) => {
    checkBandit(readCase(name))
  })

  it("are refused by the comparer when one value is wrong, so it can fail", () => {
    const change = (edit: (golden: ReturnType<typeof readCase>) => void) => {
      const golden = readCase(cases[0])
      edit(golden)
      return () => checkBandit(golden)
    }
    expect(change((golden) => (golden.steps[7].beta += 1e-7))).toThrow("step 7 beta")
    expect(change((golden) => (golden.steps[9].scores[1] += 1e-7))).toThrow("step 9 score of arm 1")
    expect(change((golden) => (golden.steps[3].arm = 1 - golden.steps[3].arm))).toThrow("step 3 arm")
    expect(change((golden) => (golden.theta[1][0] += 1e-7))).toThrow("final theta of arm 1, coordinate 0")
    expect(change((golden) => (golden.discount = 0.98))).toThrow("step 2 beta")
  })
})

describe("a bandit", () => {
  it("equals the sums of its definition for every dimension, discount and way to forget, to 1e-8", () => {
    for (let seed = 1; seed <= 24; seed++) {
      const random = new Random(seed, "bandit")
      const dimension = 1 + (seed % 6)
      const options: LinUcbOptions = {
        dimension,
        arms: 2 + (seed % 2),
        ridge: 0.01 + random.next(),
        confidence: 0.001 + 0.5 * random.next(),
        parameterBound: 2 * random.next(),
        contextBound: 0.5 + random.next(),
        subgaussian: 3 * random.next(),
        discount: [1, 0.999, 0.9, 0.5][seed % 4],
        forget: random.next() < 0.5 ? "all" : "selected",
      }
      const bandit = new LinUcb(options)
      const defined = new DefinedBandit(options)
      const scores = new Float64Array(bandit.arms)
      for (let l = 0; l < 60; l++) {
        const x = drawContext(random, dimension)
        bandit.scores(scores, x)
        for (let arm = 0; arm < bandit.arms; arm++) {
          const want = defined.score(arm, [...x])
          const difference = Math.abs(scores[arm] - want) / Math.max(1, Math.abs(want))
          expect(difference, `seed ${seed}, step ${l}, arm ${arm}`).toBeLessThan(1e-8)
        }
        expect(bandit.beta(), `seed ${seed}, step ${l}`).toBeCloseTo(defined.beta(), 9)
        const arm = random.integer(bandit.arms)
        const reward = random.next() < 0.5 ? 1 : 0
        bandit.update(x, 0, arm, reward)
        defined.past.push({ x: [...x], arm, reward })
      }
      expect(bandit.updates).toBe(60)
    }
  })

  it("stays finite and exact after 200,000 updates of nearly equal contexts", () => {
    const random = new Random(1, "long")
    const bandit = new LinUcb({ ...paper, dimension: 3, discount: 0.9999, forget: "all" })
    const x = new Float64Array(3)
    for (let l = 0; l < 200_000; l++) {
      for (let i = 0; i < 3; i++) x[i] = 0.5 + 1e-3 * random.next()
      bandit.update(x, 0, l & 1, 0.5)
    }
    const { gram, response } = bandit.state()
    for (const arm of [0, 1]) {
      const rows = [0, 1, 2].map((i) => [...gram.subarray(9 * arm + 3 * i, 9 * arm + 3 * i + 3)])
      const want = solve(rows, [...response.subarray(3 * arm, 3 * arm + 3)])
      for (let i = 0; i < 3; i++) expect(bandit.theta(arm)[i]).toBeCloseTo(want[i], 8)
    }
    expect(Number.isFinite(bandit.beta())).toBe(true)
  })

  it("keeps arm 0 on a tie, and takes the first of several best arms", () => {
    const bandit = new LinUcb({ ...paper, arms: 4 })
    expect(bandit.choose(Float64Array.of(0.5, 0.5))).toBe(0)
    bandit.update(Float64Array.of(0.5, 0.5), 0, 0, 0)
    expect(bandit.choose(Float64Array.of(0.5, 0.5))).toBe(1)
    expect(bandit.choose(Float64Array.of(0, 0))).toBe(0)
  })

  it("does not look at the context with one coordinate and no constant: every x > 0 gives the same arm", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = new Random(seed, "one coordinate")
      const bandit = new LinUcb({ ...paper, dimension: 1, forget: seed % 2 === 0 ? "all" : "selected" })
      for (let l = 0; l < 300; l++) {
        const arm = bandit.choose(Float64Array.of(1))
        for (const x of [1e-6, 0.01, random.next() + 1e-9, 0.99]) {
          expect(bandit.choose(Float64Array.of(x)), `seed ${seed}, step ${l}, x ${x}`).toBe(arm)
        }
        // Rewards that depend on the context as strongly as they can: it does not help.
        const x = 0.01 + 0.99 * random.next()
        bandit.update(Float64Array.of(x), 0, arm, (arm === 1) === x > 0.5 ? 1 : 0)
      }
    }
  })

  it("does look at the context once a constant is there", () => {
    const random = new Random(4, "constant")
    const bandit = new LinUcb({ ...paper, subgaussian: 0.1, discount: 0.999, forget: "all" })
    for (let l = 0; l < 4000; l++) {
      const x = Float64Array.of(random.next() / Math.SQRT2, Math.SQRT1_2)
      const arm = l < 500 ? l % 2 : bandit.choose(x)
      bandit.update(x, 0, arm, (arm === 1) === x[0] > 0.35 ? 1 : 0)
    }
    expect(bandit.choose(Float64Array.of(0.05, Math.SQRT1_2))).toBe(0)
    expect(bandit.choose(Float64Array.of(0.65, Math.SQRT1_2))).toBe(1)
  })

  it("reads contexts from an offset", () => {
    const [a, b] = [new LinUcb(paper), new LinUcb(paper)]
    const wide = Float64Array.of(9, 9, 0.3, 0.4, 9)
    a.update(wide, 2, 1, 1)
    b.update(Float64Array.of(0.3, 0.4), 0, 1, 1)
    expect(a.state()).toEqual(b.state())
    expect(a.choose(wide, 2)).toBe(b.choose(Float64Array.of(0.3, 0.4)))
  })

  it("goes on to the same bits from a saved state", () => {
    const random = new Random(6, "state")
    const bandit = new LinUcb({ ...paper, dimension: 3, forget: "all" })
    const play = (one: LinUcb, x: Float64Array) => one.update(x, 0, one.choose(x), x[0] > 0.2 ? 1 : 0)
    for (let l = 0; l < 100; l++) play(bandit, drawContext(random, 3))
    const saved = bandit.state()
    const other = new LinUcb({ ...paper, dimension: 3, forget: "all" })
    other.restore(saved)
    for (let l = 0; l < 100; l++) {
      const x = drawContext(random, 3)
      play(bandit, x)
      play(other, x)
    }
    expect(other.state()).toEqual(bandit.state())
    expect(other.beta()).toBe(bandit.beta())
    expect(other.theta(1)).toEqual(bandit.theta(1))
    expect(saved.updates).toBe(100)
  })

  it("refuses options outside their domain, naming what was expected and what came", () => {
    const bad: [Partial<LinUcbOptions>, RegExp][] = [
      [{ dimension: 0 }, /bandit dimension: expected a whole number from 1 to 64, got 0/],
      [{ dimension: 1.5 }, /got 1.5/],
      [{ arms: 1 }, /bandit arms/],
      [{ ridge: 0 }, /bandit ridge: expected a positive number, got 0/],
      [{ ridge: Number.NaN }, /got NaN/],
      [{ confidence: 0 }, /bandit confidence/],
      [{ confidence: 1 }, /bandit confidence/],
      [{ parameterBound: -1 }, /bandit parameterBound/],
      [{ contextBound: Number.POSITIVE_INFINITY }, /bandit contextBound/],
      [{ subgaussian: -0.5 }, /bandit subgaussian/],
      [{ discount: 0 }, /bandit discount/],
      [{ discount: 1.01 }, /expected a number above 0 and up to 1, got 1.01/],
      [{ discount: "0.9" as unknown as number }, /got "0.9"/],
      [{ forget: "none" as "all" }, /bandit forget: expected "selected" or "all", got "none"/],
    ]
    for (const [options, message] of bad) {
      expect(() => new LinUcb({ ...paper, ...options })).toThrow(message)
      expect(() => new LinUcb({ ...paper, ...options })).toThrow(DessError)
    }
  })

  it("refuses arms, contexts, rewards and states that do not fit, and is left as it was", () => {
    const bandit = new LinUcb(paper)
    const before = bandit.state()
    const x = Float64Array.of(0.1, 0.2)
    for (const arm of [-1, 2, 0.5, Number.NaN])
      expect(() => bandit.update(x, 0, arm, 1)).toThrow(/arm: expected 0 to 1/)
    expect(() => bandit.update(x, 0, 0, Number.NaN)).toThrow(/expected finite numbers/)
    expect(() => bandit.update(x, 1, 0, 1)).toThrow(/expected finite numbers/)
    expect(() => bandit.update(Float64Array.of(0.1, Number.NaN), 0, 0, 1)).toThrow(/expected finite numbers/)
    expect(() => bandit.restore(new LinUcb({ ...paper, dimension: 3 }).state())).toThrow(
      /expected 2 arms of dimension 2/,
    )
    expect(() => bandit.restore({ ...before, updates: -1 })).toThrow(/bandit state/)
    expect(bandit.state()).toEqual(before)
  })
})
