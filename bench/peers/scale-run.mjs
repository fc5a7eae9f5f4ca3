/** One run of `bench -- scale`: node scale-run.mjs <paper|default> <events>. One JSON line. */

import { Run } from "../../dist/learning/loop.js"
import { cutSegments } from "../../dist/stream/segments.js"
import { synthetic } from "../../dist/stream/synthetic/synthetic.js"

const PARTS = 10
const [recipe, limit] = [process.argv[2], Number(process.argv[3])]
const stream = synthetic({ interactions: 20_000_263, users: 138_493, items: 27_278 })
const paper = { recipe: "paper", model: "ncf" }
const run = new Run({ method: "dess-cv", ...(recipe === "paper" ? paper : {}) }, stream.features)
const segments = Math.ceil(limit / 500)
const peak = () => process.resourceUsage().maxRSS * 1024

const tenths = []
const fresh = () => ({ begin: performance.now(), phases: { policy: 0, growth: 0, train: 0, inference: 0 }, spent: 0 })
const start = performance.now()
let [part, n, report] = [fresh(), 0, undefined]
let counted = 0
for await (const segment of cutSegments(stream.batches(), { length: 500, limit })) {
  const begin = performance.now()
  report = run.step(segment)
  part.spent += performance.now() - begin
  n++
  counted++
  for (const phase of Object.keys(part.phases)) part.phases[phase] += report.milliseconds[phase]
  if (n === 50) {
    // Compilation is over; the first tenth counts from here.
    part = fresh()
    counted = 0
  }
  if (Math.floor((n * PARTS) / segments) === tenths.length || n === 50) continue
  const wall = performance.now() - part.begin
  for (const phase of Object.keys(part.phases)) part.phases[phase] /= counted
  tenths.push({
    events: report.interactions,
    // per segment of this tenth, times those of a whole one, so that the shortened first compares
    seconds: ((wall / counted) * segments) / PARTS / 1000,
    phases: part.phases,
    streaming: (wall - part.spent) / counted,
    peakBytes: peak(),
    meanSize: report.meanSize,
  })
  part = fresh()
  counted = 0
}
const seconds = (performance.now() - start) / 1000
const { accuracy, loss, meanSize, heldBytes } = run.result()
const { rss, heapUsed, arrayBuffers } = process.memoryUsage()
const kernels = run.learner.model?.kernels?.floats?.buffer.byteLength ?? 0
const memory = {
  "peak RSS": peak(),
  RSS: rss,
  heap: heapUsed,
  "array buffers": arrayBuffers,
  "of them embedding tables": heldBytes,
  "kernels' memory": kernels,
}
run.close()
console.log(JSON.stringify({ seconds, peakBytes: peak(), accuracy, loss, meanSize, tenths, memory }))
