import { once } from "node:events"
import { Worker } from "node:worker_threads"
import { expect, test } from "vitest"
import { openKernels } from "../../src/kernels/open.ts"
import { Random } from "../../src/kernels/random.ts"
import { CalibratedReader } from "../../src/learning/calibrated-reader.ts"
import type { Published } from "../../src/learning/reader.ts"
import { FactorModel } from "../../src/models/calibrated/factor.ts"
import type { RowModel } from "../../src/models/calibrated/rows.ts"
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

test.each([
  ["binary", [8, 16, 32]],
  ["binary", [32, 32, 32]],
  ["topk", [8, 8, 32]],
] as const)("users nearest to a user are those of the plain cosine, rows in %s of %j bits", (task, bits) => {
  const kernels = openKernels({ threads: 1 })
  const options = { sizes: [2, 4, 8], bits: [...bits], start: 0, seed: 3 }
  const model = (): RowModel => (task === "topk" ? new SequenceModel(options) : new FactorModel({ ...options, task }))
  const [learner, random] = [model(), new Random(7, "nearest users")]
  for (let id = 0; id < 60; id++) {
    learner.meetOne("user", id)
    learner.meetOne("item", id)
  }
  for (let round = 0; round < 40; round++) {
    const some = () => Array.from({ length: 20 }, () => random.integer(60))
    const label = Array.from({ length: 20 }, () => random.integer(2))
    learner.train({ user: some(), item: some(), label, logChance: label.map(() => 0) })
    if (round === 20) for (let id = 0; id < 60; id++) learner.resize("user", id, { step: id % 3 })
    if (round === 20) for (let id = 0; id < 60; id++) learner.resize("item", id, { step: (id >> 2) % 3 })
  }
  const reader = new CalibratedReader(learner, model(), kernels)
  const others = Int32Array.from({ length: 60 }, (_, id) => id).filter((id) => id !== 5)
  const vectors = Array.from({ length: 60 }, (_, id) => Float64Array.from(learner.combined(id)))
  const wanted = Array.from(others, (id) => {
    const shared = Math.min(vectors[5].length, vectors[id].length)
    const [a, b] = [vectors[5].subarray(0, shared), vectors[id].subarray(0, shared)]
    const product = (x: Float64Array, y: Float64Array) => x.reduce((sum, value, k) => sum + value * y[k], 0)
    return product(a, b) / Math.sqrt(product(a, a) * product(b, b))
  })
  expectClose(reader.nearestUsers(5, others), wanted, 1e-6)
  // Somebody who left, or came later than the rows that are read.
  expect(Array.from(reader.nearestUsers(5, Int32Array.of(70)))).toEqual([0])
  kernels.close()
})
