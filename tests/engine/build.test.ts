/** What is learned, frozen. Where a hash changes, LEARNING in src/learning/version.ts changes with it, and so does every hash here. */

import { createHash } from "node:crypto"
import { expect, test } from "vitest"
import { thisBuild } from "../../src/engine/build.ts"
import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { SizedLearner } from "../../src/learning/sized-learner.ts"
import { LEARNING } from "../../src/learning/version.ts"
import type { EmbeddingTable } from "../../src/models/embedding-table.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"

const LIVE = { testUsers: 4, smallestBatch: 32, remembered: 100 }
const stream = synthetic({ interactions: 900, users: 40, items: 60, seed: 5 })

/** What was measured at every segment, who left and who shrank, and in the end every row: however it is stored. */
async function learn(options: RunOptions): Promise<string> {
  const run = new Run({ ...options, seed: 3, protocol: "prequential", threads: 1, live: LIVE }, stream.features)
  run.learner.live?.limit({ shrinkAfter: 240_000, leaveAfter: 900_000 }, 500)
  const hash = createHash("sha256")
  let index = 0
  for await (const segment of cutSegments(stream.batches(), { length: 100 })) {
    const report = run.step({ ...segment, time: 1_700_000_000_000 + index++ * 60_000 })
    const { milliseconds: _, heldBytes: __, rowBytes: ___, recallCeiling: ____, ...measured } = report
    hash.update(JSON.stringify([measured, run.shrunk, run.left]))
    if (index === 5) run.forget("user", new Set([segment.user[0]]))
  }
  for (const table of tablesOf(run))
    for (const id of table.ids()) {
      const row = new Float32Array(table.size(id))
      table.read(id, row, 0)
      hash.update(`${id} ${row.join(" ")};`)
    }
  run.close()
  return hash.digest("hex").slice(0, 16)
}

function tablesOf({ learner }: Run): EmbeddingTable[] {
  if (learner instanceof SizedLearner) {
    const { tables, neighbours } = learner.model
    return [tables.user, tables.item, ...(neighbours ? [neighbours.table] : [])]
  }
  throw new Error("expected a learner with tables")
}

/** For this LEARNING, and no other. */
const FROZEN = {
  learning: "16",
  hashes: {
    "dess-fre binary": "06af10fe263fa0a1",
    "dess-fre topk": "1509ff59939c2bd2",
    "dess-fre multiclass": "147d513cbf300713",
    "dess-cv binary": "06af10fe263fa0a1",
    "dess-cv topk": "e3b1b4c505e48f01",
    "dess-cv multiclass": "147d513cbf300713",
    "uniform-8 binary": "535d21d6645ad1c1",
    "uniform-8 topk": "5408bb2b636195f6",
    "uniform-8 multiclass": "904c5fbcfd05cee8",
    "fixed-16 binary": "091929bd1ffdb08a",
    "fixed-16 topk": "a590d890337c1a46",
    "fixed-16 multiclass": "eb06df29d9f24d45",
    "dess-cv topk paper ncf": "945fa888b6a0dfa7",
    "dess-cv topk paper mf": "e64d50001163a91c",
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
