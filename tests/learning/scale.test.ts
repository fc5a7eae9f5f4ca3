/** The policy is free of scale: what an id gets does not depend on how many others there are, nor on the segment. */

import { expect, test } from "vitest"
import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"
import type { InteractionBatch } from "../../src/types.ts"

const SIDES = ["user", "item"] as const

/** Copies of a stream, each with ids of its own, event by event in turn. */
async function interleaved(p: { events: number; copies: number; seed: number }): Promise<InteractionBatch> {
  const stream = synthetic({ interactions: p.events, users: p.events / 40, items: p.events / 60, seed: p.seed })
  const length = p.events * p.copies
  const all = {
    length,
    user: new Int32Array(length),
    item: new Int32Array(length),
    rating: new Float32Array(length),
    timestamp: new Float64Array(length),
  }
  for await (const one of cutSegments(stream.batches(), { length: p.events }))
    for (let at = 0; at < length; at++) {
      const [row, copy] = [Math.floor(at / p.copies), at % p.copies]
      for (const side of SIDES) all[side][at] = one[side][row] * p.copies + copy
      all.rating[at] = one.rating[row]
      all.timestamp[at] = one.timestamp[row]
    }
  return all
}

/** Mean sizes over time. */
async function sizesOf(batch: InteractionBatch, options: RunOptions & { segment: number }) {
  const run = new Run({ method: "dess-fre", ...options })
  for await (const segment of cutSegments([batch], { length: options.segment })) run.step(segment)
  const { meanSizeOverTime } = run.result()
  run.close()
  return meanSizeOverTime
}

/** A site of a few hundred ids learns less in a turn than a larger one, so there is a little more of everything. */
const CASES: [string, RunOptions, number][] = [
  ["rating prediction, nothing asked", { task: "binary", sizes: [2, 4, 8, 16, 32] }, 60_000],
  ["rating prediction at a price", { task: "binary", sizes: [2, 4, 8, 16, 32], price: 3e-5 }, 150_000],
  ["ranking, nothing asked", { task: "topk" }, 15_000],
]

test.each(CASES)(
  "%s: sizes over time of four copies, and with segments of 100 and 2,000, are within .75 to 1.33 of one's",
  async (_name, options, events) => {
    for (const seed of [1, 2]) {
      const [one, four] = [
        await interleaved({ events, copies: 1, seed }),
        await interleaved({ events, copies: 4, seed }),
      ]
      const expected = await sizesOf(one, { ...options, segment: 500 })
      const others = {
        "four copies": await sizesOf(four, { ...options, segment: 500 }),
        "segments of 100": await sizesOf(one, { ...options, segment: 100 }),
        "segments of 2,000": await sizesOf(one, { ...options, segment: 2000 }),
      }
      for (const [what, sizes] of Object.entries(others))
        for (const side of SIDES) {
          const ratio = sizes[side] / expected[side]
          expect(ratio, `seed ${seed}, ${what}, ${side}: ${sizes[side]} beside ${expected[side]}`).toBeGreaterThan(0.75)
          expect(ratio, `seed ${seed}, ${what}, ${side}: ${sizes[side]} beside ${expected[side]}`).toBeLessThan(1.33)
        }
    }
  },
  120_000,
)
