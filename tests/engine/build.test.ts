/** What is learned, frozen. Where a hash changes, LEARNING in src/engine/build.ts changes with it, and so does every hash here. */

import { expect, test } from "vitest"
import { LEARNING, thisBuild } from "../../src/engine/build.ts"
import { hashState } from "../../src/engine/safetensors.ts"
import { State } from "../../src/kernels/state.ts"
import { Run } from "../../src/run/loop.ts"
import type { RunOptions } from "../../src/run/options.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic.ts"

const LIVE = { testUsers: 4, smallestBatch: 32, remembered: 100 }
const stream = synthetic({ interactions: 900, users: 40, items: 60, seed: 5 })

async function learn(options: RunOptions): Promise<string> {
  const run = new Run({ ...options, seed: 3, protocol: "prequential", threads: 1, live: LIVE }, stream.features)
  run.learner.live?.limit({ shrinkAfter: 240_000, leaveAfter: 900_000 }, 500)
  let index = 0
  for await (const segment of cutSegments(stream.batches(), { length: 100 })) {
    run.step({ ...segment, time: 1_700_000_000_000 + index++ * 60_000 })
    if (index === 5) run.forget("user", new Set([segment.user[0]]))
  }
  const state = new State()
  run.save(state)
  run.close()
  return hashState(state).slice(0, 16)
}

/** For this LEARNING, and no other. */
const FROZEN = {
  learning: "2",
  hashes: {
    "dess-fre binary": "a30c6fea3d59f3c6",
    "dess-fre topk": "bfdf1a666c1bcd23",
    "dess-fre multiclass": "37c628610d43b475",
    "dess-cv binary": "deef2a7f16e5a24f",
    "dess-cv topk": "ee8bf9991af18917",
    "dess-cv multiclass": "6540bb7ce9f29048",
    "uniform-8 binary": "03e90ce51aec8bc8",
    "uniform-8 topk": "8c44235b65c51068",
    "uniform-8 multiclass": "bf314ca8971227c2",
    "fixed-16 binary": "0ea8598aed4e32b5",
    "fixed-16 topk": "e8ee350e93b9cb16",
    "fixed-16 multiclass": "4526fbf49bbde153",
    "dess-cv topk paper ncf": "7aa1c6bbfde0939e",
    "dess-cv topk paper mf": "07f477f858ab5c8f",
  } as Record<string, string>,
}

const CASES: Record<string, RunOptions> = {}
for (const method of ["dess-fre", "dess-cv", "uniform-8", "fixed-16"])
  for (const task of ["binary", "topk", "multiclass"] as const)
    CASES[`${method} ${task}`] = { method, task, sizes: method === "fixed-16" ? [8, 16] : [2, 4, 8] }
for (const model of ["ncf", "mf"] as const)
  CASES[`dess-cv topk paper ${model}`] = {
    method: "dess-cv",
    task: "topk",
    recipe: "paper",
    preset: "calibrated",
    model,
    sizes: [2, 4, 8],
  }

test("every case has a frozen hash", () => {
  expect(FROZEN.learning, "LEARNING changed: freeze the hashes of the new one").toBe(LEARNING)
  expect(Object.keys(FROZEN.hashes).sort()).toEqual(Object.keys(CASES).sort())
  expect(thisBuild()).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/), learning: LEARNING })
})

test.each(Object.entries(CASES))(
  "%s: the same events give the frozen state, or LEARNING is another",
  async (name, options) => {
    expect(await learn(options), "another state is learned: change LEARNING and these hashes together").toBe(
      FROZEN.hashes[name],
    )
  },
)
