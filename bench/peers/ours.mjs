/** `dess` on what the stream peers are given, in a process of its own, so that its peak memory is its own. One JSON line. */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Run } from "../../dist/learning/loop.js"

const { values } = parseArgs({
  options: {
    given: { type: "string" },
    method: { type: "string" },
    threads: { type: "string", default: "2" },
    segments: { type: "string", default: "1000000000" },
  },
})
const read = (name, kind) => {
  const bytes = readFileSync(join(values.given, name))
  return new kind(bytes.buffer, bytes.byteOffset, bytes.length / kind.BYTES_PER_ELEMENT)
}
const meta = JSON.parse(readFileSync(join(values.given, "meta.json"), "utf8"))
const [user, item, label] = [
  read("user.bin", Int32Array),
  read("item.bin", Int32Array),
  read("label.bin", Float32Array),
]
const features = read("features.bin", Float32Array)
const width = features.length / meta.items
const present = Uint8Array.from({ length: meta.items }, (_, i) =>
  features.subarray(i * width, (i + 1) * width).some((x) => x !== 0) ? 1 : 0,
)
const columns = Array.from({ length: width }, (_, c) => `feature ${c}`)
const run = new Run(
  { method: values.method, recipe: "paper", model: "ncf", threads: Number(values.threads) },
  { columns, values: features, present },
)
// Every id has its row from the start, as the peers' tables have.
const all = (count) => Int32Array.from({ length: count }, (_, id) => id)
run.learner.model.meet({ user: all(meta.users), item: all(meta.items) })

const [losses, times, processor] = [[], [], []]
const phases = { policy: 0, growth: 0, train: 0, inference: 0 }
let last
for (let at = 0; at + meta.segment <= user.length && losses.length < Number(values.segments); at += meta.segment) {
  const to = at + meta.segment
  const segment = {
    length: meta.segment,
    user: user.slice(at, to),
    item: item.slice(at, to),
    rating: Float32Array.from(label.subarray(at, to), (liked) => (liked ? 5 : 1)),
    timestamp: new Float64Array(meta.segment),
    index: losses.length,
    trainLength: meta.train,
  }
  const [begin, beginProcessor] = [performance.now(), process.cpuUsage()]
  last = run.step(segment)
  times.push((performance.now() - begin) / 1000)
  const { user: own, system } = process.cpuUsage(beginProcessor)
  processor.push((own + system) / 1e6)
  losses.push(last.loss)
  for (const phase of Object.keys(phases)) phases[phase] += last.milliseconds[phase]
}
run.close()
for (const phase of Object.keys(phases)) phases[phase] /= losses.length
const peakBytes = process.resourceUsage().maxRSS * 1024
const { kind } = run.learner.model.kernels
console.log(
  JSON.stringify({
    times,
    processor,
    losses,
    peakBytes,
    meanSize: last.meanSize,
    phases,
    kind,
    threads: Number(values.threads),
  }),
)
