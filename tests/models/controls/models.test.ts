import { describe, expect, it } from "vitest"
import { sigmoid } from "../../../src/kernels/math.ts"
import { Random } from "../../../src/kernels/random.ts"
import { PlainBias } from "../../../src/models/controls/bias.ts"
import { PlainFactor } from "../../../src/models/controls/factor.ts"
import { MajorityClass } from "../../../src/models/controls/majority.ts"
import {
  type LabelledPairs,
  learnPairs,
  type PlainModel,
  toErrors,
  writeLogits,
} from "../../../src/models/controls/model.ts"

function pairs(rows: [user: number, item: number, label: number][]): LabelledPairs {
  return {
    length: rows.length,
    user: Int32Array.from(rows, (row) => row[0]),
    item: Int32Array.from(rows, (row) => row[1]),
    label: Uint8Array.from(rows, (row) => row[2]),
  }
}

function predict(model: PlainModel, user: number, item: number): number[] {
  const out = new Float64Array(model.outputs)
  writeLogits(out, model, pairs([[user, item, 0]]))
  return [...out]
}

const models: [name: string, make: (outputs: number) => PlainModel][] = [
  ["plain-bias", (outputs) => new PlainBias(outputs)],
  ["plain-factor-4", (outputs) => new PlainFactor({ width: 4, outputs })],
]

describe.each(models)("%s", (_, make) => {
  it("learns which users and items are liked", () => {
    const model = make(1)
    const random = new Random(1, "biases")
    for (let segment = 0; segment < 60; segment++) {
      const rows = Array.from({ length: 50 }, (): [number, number, number] => {
        const [user, item] = [random.integer(20), random.integer(20)]
        return [user, item, random.next() < sigmoid((user < 10 ? 2 : -2) + (item < 10 ? 1 : -1)) ? 1 : 0]
      })
      learnPairs(model, pairs(rows))
    }
    for (let k = 0; k < 10; k++) {
      expect(predict(model, k, k)[0], `pair ${k}`).toBeGreaterThan(1)
      expect(predict(model, 10 + k, 10 + k)[0], `pair ${10 + k}`).toBeLessThan(-1)
    }
  })

  it("learns which class a user gives, with one logit per class", () => {
    const model = make(5)
    for (let segment = 0; segment < 30; segment++) {
      learnPairs(model, pairs(Array.from({ length: 50 }, (_, r) => [r % 5, (r + segment) % 9, r % 5])))
    }
    for (let user = 0; user < 5; user++) {
      const z = predict(model, user, 3)
      expect(z.indexOf(Math.max(...z)), `user ${user}`).toBe(user)
    }
  })

  it("gives the same bits for the same stream, and the same logits whichever other pairs are asked for", () => {
    const rows = Array.from({ length: 80 }, (_, r): [number, number, number] => [(r * 7) % 11, (r * 5) % 13, r % 2])
    const [a, b] = [make(1), make(1)]
    learnPairs(a, pairs(rows))
    predict(b, 12_000, 12_000)
    learnPairs(b, pairs(rows))
    for (const [user, item] of rows) expect(predict(a, user, item)).toEqual(predict(b, user, item))
  })

  it("predicts ids never met from what it knows of the rest", () => {
    const model = make(1)
    learnPairs(model, pairs(Array.from({ length: 100 }, (_, r) => [r, r, 1])))
    expect(predict(model, 5000, 5000)[0]).toBeGreaterThan(0)
    expect(predict(model, 5000, 5000)[0]).toBeLessThan(predict(model, 3, 3)[0])
  })

  it("counts the numbers of the ids met and the capacity it holds", () => {
    const model = make(5)
    expect(model.embeddingBytes).toBe(0)
    learnPairs(model, pairs([[9, 4, 0]]))
    const width = model instanceof PlainFactor ? model.width : 0
    expect(model.embeddingBytes).toBe(4 * (10 + 5) * (5 + width))
    expect(model.heldBytes).toBeGreaterThan(model.embeddingBytes)
  })

  it("refuses bad labels, negative ids and short columns before it learns anything", () => {
    const model = make(1)
    learnPairs(model, pairs([[0, 0, 1]]))
    const before = predict(model, 0, 0)
    expect(() =>
      learnPairs(
        model,
        pairs([
          [0, 0, 1],
          [0, 0, 2],
        ]),
      ),
    ).toThrow(/label of pair 1: expected 0 to 1, got 2/)
    expect(() => learnPairs(model, { ...pairs([[0, 0, 1]]), label: [Number.NaN] })).toThrow(/got NaN/)
    expect(() =>
      learnPairs(
        model,
        pairs([
          [0, 0, 1],
          [-1, 0, 1],
        ]),
      ),
    ).toThrow(/pair 1: expected indices from 0, got -1 and 0/)
    expect(() => learnPairs(model, { ...pairs([[0, 0, 1]]), length: 2 })).toThrow(/expected columns of 2 rows, got 1/)
    expect(() => make(0)).toThrow(/outputs/)
    expect(predict(model, 0, 0)).toEqual(before)
  })
})

it("plain-bias takes its first two steps as written: two passes, L2 outside the accumulator", () => {
  const model = new PlainBias()
  learnPairs(model, pairs([[0, 0, 1]]))
  let [global, bias, squares] = [0, 0, 1]
  for (let pass = 0; pass < 2; pass++) {
    const error = sigmoid(global + 2 * bias) - 1
    global -= 0.002 * error
    squares += error * error
    bias -= (0.3 * (error + 0.02 * bias)) / Math.sqrt(squares)
  }
  expect(predict(model, 0, 0)[0]).toBeCloseTo(global + 2 * bias, 6)
})

it("plain-factor finds a checkerboard that biases cannot see", () => {
  const rows: [number, number, number][] = []
  for (let user = 0; user < 12; user++) for (let item = 0; item < 12; item++) rows.push([user, item, (user + item) % 2])
  const right = (model: PlainModel) => {
    for (let segment = 0; segment < 150; segment++) learnPairs(model, pairs(rows))
    return (
      rows.filter(([user, item, label]) => predict(model, user, item)[0] > 0 === (label === 1)).length / rows.length
    )
  }
  expect(right(new PlainBias())).toBeLessThan(0.7)
  for (let seed = 1; seed <= 3; seed++) expect(right(new PlainFactor({ width: 4, seed })), `seed ${seed}`).toBe(1)
})

it("plain-factor starts users at 0 and differs by seed only through the items", () => {
  const [a, b] = [new PlainFactor({ width: 8, seed: 1 }), new PlainFactor({ width: 8, seed: 2 })]
  expect(predict(a, 0, 0)).toEqual([0])
  const rows = pairs([
    [0, 0, 1],
    [0, 0, 1],
    [0, 1, 0],
  ])
  learnPairs(a, rows)
  learnPairs(b, rows)
  expect(predict(a, 0, 1)).not.toEqual(predict(b, 0, 1))
  expect(predict(a, 1, 0)[0]).toBeCloseTo(predict(b, 1, 0)[0], 2)
})

it("plain-factor is refused a width that is no whole number from 1", () => {
  for (const width of [0, -4, 1.5, Number.NaN]) expect(() => new PlainFactor({ width })).toThrow(/plain-factor width/)
})

it("errors are the gradient of the logistic and the softmax loss, by finite differences to 1e-6", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed, "errors")
    const outputs = seed % 2 === 0 ? 1 : 5
    const z = Float64Array.from({ length: outputs }, () => 3 * random.normal())
    const label = random.integer(Math.max(2, outputs))
    const loss = (x: Float64Array) =>
      outputs === 1
        ? Math.log(1 + Math.exp(label === 1 ? -x[0] : x[0]))
        : Math.log(x.reduce((sum, value) => sum + Math.exp(value), 0)) - x[label]
    const errors = z.slice()
    toErrors(errors, label)
    for (let k = 0; k < outputs; k++) {
      const [up, down] = [z.slice(), z.slice()]
      up[k] += 1e-5
      down[k] -= 1e-5
      expect(Math.abs((loss(up) - loss(down)) / 2e-5 - errors[k]), `seed ${seed}, logit ${k}`).toBeLessThan(1e-6)
    }
  }
})

describe("the majority class", () => {
  it("follows the labels seen so far, the lowest of equals", () => {
    const majority = new MajorityClass()
    expect(majority.predict()).toBe(0)
    majority.learn([1])
    expect(majority.predict()).toBe(1)
    majority.learn(Uint8Array.of(0))
    expect(majority.predict()).toBe(0)
    const five = new MajorityClass(5)
    five.learn([3, 4, 3, 0, 4, 4])
    expect(five.predict()).toBe(4)
  })

  it("refuses labels that are no class", () => {
    expect(() => new MajorityClass(2).learn([2])).toThrow(/label 0: expected 0 to 1, got 2/)
    expect(() => new MajorityClass(1)).toThrow(/classes/)
  })
})
