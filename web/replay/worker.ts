/** Runs a method along the embedded stream: the same loop, models and Wasm kernels as in Node, in one thread. */

import { Run } from "../../src/learning/loop.ts"
import { SizedLearner } from "../../src/learning/sized-learner.ts"
import { Model } from "../../src/models/paper/model.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"
import type { FromWorker, ReplayOptions, ToWorker } from "./messages.ts"

let speed = 0
let wake = () => {}

const tell = (message: FromWorker) => postMessage(message)

addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if (data.type === "speed") {
    speed = data.speed
    wake()
  } else replay(data.options).catch((error: Error) => tell({ type: "error", message: error.message }))
})

async function replay({ interactions, ...options }: ReplayOptions): Promise<void> {
  const stream = synthetic({ interactions, seed: options.seed })
  // One thread or many, the bits are the same.
  const run = new Run({ ...options, threads: 1 }, stream.features)
  try {
    let last = performance.now()
    for await (const segment of cutSegments(stream.batches(), { length: 500 })) {
      last = await waitSince(last)
      const report = run.step(segment)
      tell({ type: "segment", report, outlook: run.learner.outlook?.() })
    }
    const model = run.learner instanceof SizedLearner ? run.learner.model : undefined
    const kernels = model instanceof Model ? model.kernels.kind : "none"
    tell({ type: "end", result: run.result(), kernels })
  } finally {
    run.close()
  }
}

/** Until the next segment is due, however the speed changes meanwhile; returns when it was. A late one is not made up for. */
async function waitSince(last: number): Promise<number> {
  for (;;) {
    await new Promise<void>((resolve) => {
      wake = resolve
      if (speed > 0) setTimeout(resolve, Math.max(0, last + 1000 / speed - performance.now()))
    })
    const due = last + 1000 / speed
    if (performance.now() >= due) return Math.max(due, performance.now() - 100)
  }
}
