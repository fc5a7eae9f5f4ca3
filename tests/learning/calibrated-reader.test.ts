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

test("what is accepted counts once while another thread learns it: no item is missed, none counted twice", async () => {
  const worker = new Worker(new URL("../support/clicking-rows.mjs", import.meta.url), { execArgv: [] })
  const kernels = openKernels({ threads: 1, shared: true })
  try {
    const [published] = (await once(worker, "message")) as [Published]
    const model = () => new SequenceModel({ sizes: [2, 4], start: 1, seed: 3 })
    const own = model()
    /** What stood for the user when it was scored. */
    let latest: number[] = []
    const { combinedBy } = own
    own.combinedBy = (user, ...read) => {
      latest = own.latestOf(user)
      return combinedBy.call(own, user, ...read)
    }
    const reader = new CalibratedReader(model(), own, kernels)
    reader.apply(published)
    const through = published.rows?.through as Int32Array
    const items = (from: number, to: number) =>
      Array.from({ length: Math.max(0, to - from) }, (_, n) => ((from + n + 1) >> 1) % 50)
    const started = performance.now()
    let asked = 0
    const ahead = new Set<number>()
    // The trainer was ahead of what had been accepted, and behind it; on a busy machine that takes a while.
    const isRace = () => asked > 1000 && Math.min(...ahead) < 0 && Math.max(...ahead) > 0
    while (performance.now() < started + 1500 || (!isRace() && performance.now() < started + 30_000)) {
      for (let n = 0; n < 500; n++, asked++) {
        const accepted = Atomics.load(through, 0) + (n % 4)
        let learned = 0
        reader.follow?.({
          user: n % 60,
          recent(segment) {
            learned = segment
            return items(segment, accepted)
          },
        })
        ahead.add(learned - accepted)
        const last = Math.max(accepted, learned)
        expect(latest, `${learned} learned, ${accepted} accepted`).toEqual(items(Math.max(0, last - 20), last))
      }
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    expect([isRace(), Atomics.load(through, 0) > 100]).toEqual([true, true])
  } finally {
    await worker.terminate()
    kernels.close()
  }
}, 60_000)
