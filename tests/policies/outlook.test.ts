/** What a policy says of every context. */

import { expect, test } from "vitest"
import { Run } from "../../src/learning/loop.ts"
import { createContext } from "../../src/policies/context.ts"
import { NeverGrow } from "../../src/policies/controls.ts"
import { Dess } from "../../src/policies/dess.ts"
import { outlookOf } from "../../src/policies/outlook.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"

const BANDIT = { dimension: 3, subgaussian: 0.5, discount: 0.999, forget: "all" } as const

test("an outlook holds the bounds of both arms for every frequency and diversity, in rows of one diversity", () => {
  const context = createContext({ kind: "cv", constant: true, featureColumns: 16 })
  const policy = new Dess("cv", BANDIT)
  const contexts = new Float64Array(3)
  context.write(contexts, 0, 10, 1)
  const columns = { ids: new Int32Array(1), steps: new Uint8Array(1), frequencies: new Float64Array([10]) }
  const losses = { keepLosses: new Float64Array([1]), growLosses: new Float64Array(1) }
  const rewards = { keepRewards: new Float64Array(1), growRewards: new Float64Array([1]) }
  for (let i = 0; i < 5; i++) policy.learn("user", { length: 1, ...columns, contexts, ...losses, ...rewards })
  const outlook = outlookOf(policy, context, 4)
  if (!outlook) throw new Error("no outlook")
  const { frequencies, diversities } = outlook
  expect(outlook.user.keep).toHaveLength(frequencies.length * diversities.length)
  const [row, column] = [2, frequencies.indexOf(100)]
  const vector = new Float64Array(3)
  context.write(vector, 0, 100, diversities[row])
  const { keep, grow } = policy.scores("user", vector)
  const at = row * frequencies.length + column
  expect([outlook.user.keep[at], outlook.user.grow[at]]).toEqual([keep, grow])
  expect(outlook.user.grow).not.toEqual(outlook.item.grow)
})

test("a policy that reads the frequency alone has one row, and one without bounds has none", () => {
  const context = createContext({ kind: "fre", constant: true })
  expect(outlookOf(new Dess("fre", { ...BANDIT, dimension: 2 }), context, 0)?.diversities).toEqual([0])
  expect(outlookOf(new NeverGrow(), context, 0)).toBeUndefined()
})

test("asking a run for its outlook changes nothing", async () => {
  const stream = synthetic({ interactions: 2000 })
  const runs = [0, 1].map(() => new Run({ method: "dess-cv", threads: 1 }, stream.features))
  for await (const segment of cutSegments(stream.batches(), { length: 500 })) {
    const [left, right] = runs.map((run) => run.step(segment))
    expect(runs[1].learner.outlook?.()?.item.grow.every(Number.isFinite)).toBe(true)
    expect(right.loss).toBe(left.loss)
    expect(right.decided).toEqual(left.decided)
  }
  for (const run of runs) run.close()
})
