import { once } from "node:events"
import { Worker } from "node:worker_threads"
import { expect, test } from "vitest"
import { openKernels } from "../../src/kernels/open.ts"
import { CalibratedReader } from "../../src/learning/calibrated-reader.ts"
import type { Published } from "../../src/learning/reader.ts"
import { SequenceModel } from "../../src/models/calibrated/sequence.ts"
import { expectClose } from "../support/close.ts"

interface Message {
  wanted: Float64Array[]
  published: Published
}

test("lists are the same to 1e-4 while another thread turns the frame and moves rows, however late versions come", async () => {
  const worker = new Worker(new URL("../support/turning-rows.mjs", import.meta.url), { execArgv: [] })
  const kernels = openKernels({ threads: 1, shared: true })
  try {
    const waiting: Message[] = []
    worker.on("message", (message: Message) => waiting.push(message))
    const [first] = (await once(worker, "message")) as [Message]
    const model = () => new SequenceModel({ sizes: [2, 8], start: 1, seed: 3 })
    const reader = new CalibratedReader(model(), model(), kernels)
    reader.apply(first.published)
    const until = performance.now() + 1500
    let [asked, versions] = [0, 0]
    while (performance.now() < until) {
      for (let n = 0; n < 200; n++, asked++) {
        const user = asked % first.wanted.length
        expectClose(reader.scores(user), first.wanted[user], 1e-4)
      }
      expect(reader.knows("user", 5)).toBe(true)
      expectClose(reader.scoresOf(5, [3, 1]), [first.wanted[5][3], first.wanted[5][1]], 1e-4)
      await new Promise((resolve) => setTimeout(resolve, 3))
      const next = waiting.shift()
      if (!next) continue
      versions++
      reader.apply(next.published)
    }
    expect([asked > 200, versions > 1]).toEqual([true, true])
  } finally {
    await worker.terminate()
    kernels.close()
  }
})
