/** The way to the training thread and back. */

import { beforeAll, expect, test } from "vitest"
import { Learning } from "../../src/engine/learning.ts"
import { completeOptions } from "../../src/engine/options.ts"
import type { Learned } from "../../src/engine/trainer.ts"
import type { Segment } from "../../src/types.ts"
import { buildCommand } from "../support/command.ts"

beforeAll(buildCommand)

function segment(user: number): Segment {
  const rows = 20
  return {
    index: 0,
    length: rows,
    trainLength: rows,
    user: new Int32Array(rows).fill(user),
    item: Int32Array.from({ length: rows }, (_, i) => i),
    rating: new Float32Array(rows).fill(5),
    timestamp: new Float64Array(rows),
  }
}

async function start() {
  const { run, features, limits, publishDelay } = completeOptions({ model: "mf", sizes: [2, 4], threads: 1 })
  const learned: Learned[] = []
  const ends: string[] = []
  const learning = new Learning({
    run,
    trainer: { run, features, limits, segment: 500, publishDelay },
    onLearned: (one) => learned.push(one),
    onAged: () => {},
    onEnd: (error) => ends.push(error.message),
  })
  await learning.thread.ready()
  await learning.begin()
  return { learning, learned, ends }
}

test("orders are carried out in their order, however many wait", async () => {
  const { learning, learned, ends } = await start()
  for (let n = 1; n <= 12; n++) learning.learn(n, segment(n), performance.now())
  const explained = learning.ask({ kind: "explain", side: "user", index: 12 })
  expect(await explained).toMatchObject({ indicators: { frequency: 20 } })
  expect(learned.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
  await learning.ask({ kind: "publish" })
  expect(learning.reader.items).toHaveLength(20)
  expect(learning.freshness.length).toBeGreaterThan(0)
  expect(ends).toEqual([])
  await learning.close()
})

test("when training fails, waiting callers get the error, reading goes on, and closing works", async () => {
  const { learning, ends } = await start()
  learning.learn(1, segment(1), undefined)
  await learning.ask({ kind: "publish" })
  for (let n = 2; n <= 12; n++) learning.learn(n, segment(-7), undefined)
  await expect(learning.ask({ kind: "publish" })).rejects.toThrow(/index|id/)
  expect(ends).toHaveLength(1)
  expect(learning.reader.scores(1)).toHaveLength(20)
  await expect(learning.ask({ kind: "hash" })).rejects.toThrow()
  await learning.close()
})
