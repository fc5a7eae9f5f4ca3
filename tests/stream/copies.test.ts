import { expect, test } from "vitest"
import { copyStream } from "../../src/stream/copies.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"

test("copies of a stream come in turns, with ids of their own and the same ratings and times", async () => {
  const stream = synthetic({ interactions: 1000, seed: 3 })
  const copied = copyStream(stream, 3)
  expect(copied.interactions).toBe(3000)
  const plain: number[][] = []
  for (const { length, user, item, rating, timestamp } of stream.batches())
    for (let r = 0; r < length; r++) plain.push([user[r], item[r], rating[r], timestamp[r]])
  let at = 0
  for await (const { length, user, item, rating, timestamp } of copied.batches())
    for (let r = 0; r < length; r++, at++) {
      const [u, i, ...rest] = plain[Math.floor(at / 3)]
      expect([user[r], item[r], rating[r], timestamp[r]]).toEqual([3 * u + (at % 3), 3 * i + (at % 3), ...rest])
    }
  expect(at).toBe(3000)
})
