/** The training thread: whatever comes from it, the program goes on. */

import { expect, test } from "vitest"
import { completeOptions } from "../../src/engine/options.ts"
import { TrainingThread } from "../../src/engine/training-thread.ts"

test("an answer that cannot be taken up ends the training, and whoever waits is told", async () => {
  const { run, features, limits, segment, publishDelay } = completeOptions({})
  const ends: string[] = []
  const thread = new TrainingThread({ run, features, limits, segment, publishDelay, spareThread: false }, (update) => {
    if (update.kind !== "ended") throw new RangeError("offset is out of bounds")
    ends.push(update.error.message)
  })
  await thread.ready()
  const columns = { user: Int32Array.of(0), item: Int32Array.of(0), rating: Float32Array.of(5) }
  const times = { timestamp: Float64Array.of(1), time: 1, index: 0, length: 1, trainLength: 1 }
  thread.tell({ kind: "segment", number: 1, segment: { ...columns, ...times } })
  await expect(thread.ask({ kind: "hash" })).rejects.toMatchObject({
    code: "CLOSED",
    message: expect.stringContaining("offset is out of bounds"),
  })
  await expect(thread.ask({ kind: "hash" })).rejects.toMatchObject({ code: "CLOSED" })
  expect(ends).toHaveLength(1)
  await thread.close()
})
