/** Replays a golden bandit case: every β, both scores, the arm, and θ at the end, to 1e-8·max(1, |want|). */

import { LinUcb, type LinUcbOptions } from "../../src/policies/lin-ucb.ts"

interface GoldenBandit extends LinUcbOptions {
  steps: { context: number[]; beta: number; scores: number[]; arm: number; reward: number }[]
  theta: number[][]
}

/** Throws an error that names the step and the value at the first difference. */
export function checkBandit(golden: unknown): void {
  const { steps, theta, ...options } = golden as GoldenBandit
  const { dimension, discount, forget, subgaussian, ridge, confidence, parameterBound, contextBound } = options
  const bandit = new LinUcb({
    ...{ dimension, discount, forget, subgaussian, arms: theta.length },
    ...(ridge === undefined ? {} : { ridge }),
    ...(confidence === undefined ? {} : { confidence }),
    ...(parameterBound === undefined ? {} : { parameterBound }),
    ...(contextBound === undefined ? {} : { contextBound }),
  })
  if (steps.length === 0) throw new Error("golden bandit: expected steps, got none")
  const scores = new Float64Array(theta.length)
  for (const [l, step] of steps.entries()) {
    const x = Float64Array.from(step.context)
    checkValue(`step ${l} beta`, bandit.beta(), step.beta)
    bandit.scores(scores, x)
    for (const [arm, want] of step.scores.entries()) checkValue(`step ${l} score of arm ${arm}`, scores[arm], want)
    const arm = bandit.choose(x)
    if (arm !== step.arm) throw new Error(`step ${l} arm: expected ${step.arm}, got ${arm}`)
    bandit.update(x, 0, arm, step.reward)
  }
  for (const [arm, want] of theta.entries()) {
    const got = bandit.theta(arm)
    for (const [i, value] of want.entries()) checkValue(`final theta of arm ${arm}, coordinate ${i}`, got[i], value)
  }
}

function checkValue(name: string, got: number, want: number): void {
  if (Math.abs(got - want) <= 1e-8 * Math.max(1, Math.abs(want))) return
  throw new Error(`${name}: expected ${want}, got ${got}`)
}
