/**
 * How near the loop comes to what this machine can do: GFLOP/s of its matrix products over the time of each phase, beside
 * the best our kernel reaches on a large square product, measured in the same run, and PyTorch's, whose vectors are wider.
 * Only products count as work.
 */

import { openKernels } from "../../dist/kernels/open.js"
import { Run } from "../../dist/learning/loop.js"
import { Ranking } from "../../dist/models/paper/ranking.js"
import { buildModel, ITEMS } from "../rank.mjs"
import { measure } from "../report.mjs"
import { HIDDEN, SEGMENT } from "./given.mjs"
import { measureNative } from "./peer.mjs"

const WIDTH = 768
const WARM_UP = 10
/** Methods of the kernels that queue nothing. */
const QUIET = new Set(["constructor", "allocate", "mark", "release", "run", "ready", "close"])

/** GFLOP/s of a square product. */
async function measurePeak(threads, seconds) {
  const kernels = openKernels({ threads })
  await kernels.ready()
  const [left, right, out] = [0, 1, 2].map(() => kernels.allocate(WIDTH * WIDTH))
  kernels.floats.fill(0.5, left, left + WIDTH * WIDTH)
  kernels.floats.fill(0.25, right, right + WIDTH * WIDTH)
  const { best } = measure(
    () => {
      kernels.multiply({ out, left, right, rows: WIDTH, columns: WIDTH, inner: WIDTH })
      kernels.run()
    },
    { seconds, chunk: 1 },
  )
  kernels.close()
  return (2 * WIDTH ** 3) / best / 1e6
}

/** Runs the events with the kernels overheard; `alone` runs every operation by itself, to time it (milliseconds). */
function runOverheard(events, { method, threads, segments, alone }) {
  const run = new Run({ method, recipe: "paper", model: "ncf", threads }, events.features)
  const { kernels } = run.learner.model
  const work = { policy: 0, train: 0, inference: 0 }
  const spent = { products: 0, all: 0 }
  let phase = "policy"
  overhear(kernels, (operation, call) => {
    if (operation?.inner !== undefined) work[phase] += 2 * operation.rows * operation.columns * operation.inner
    const begin = performance.now()
    call()
    if (!alone) return
    kernels.run()
    const took = performance.now() - begin
    spent.all += took
    if (operation?.inner !== undefined) spent.products += took
  })
  for (const [name, of] of Object.entries({ prepare: "policy", train: "train", test: "inference" })) {
    const original = run.learner[name].bind(run.learner)
    run.learner[name] = (...words) => {
      phase = of
      return original(...words)
    }
  }
  const milliseconds = { policy: 0, growth: 0, train: 0, inference: 0 }
  let whole = 0
  for (let n = 0; n < segments; n++) {
    if (n === WARM_UP) for (const counter of [work, spent]) for (const key of Object.keys(counter)) counter[key] = 0
    const at = n * SEGMENT
    const cut = (column) => column.slice(at, at + SEGMENT)
    const begin = performance.now()
    const report = run.step({
      length: SEGMENT,
      user: cut(events.user),
      item: cut(events.item),
      rating: Float32Array.from(cut(events.label), (liked) => (liked ? 5 : 1)),
      timestamp: new Float64Array(SEGMENT),
      index: n,
      trainLength: 0.8 * SEGMENT,
    })
    if (n < WARM_UP) continue
    whole += performance.now() - begin
    for (const key of Object.keys(milliseconds)) milliseconds[key] += report.milliseconds[key]
  }
  run.close()
  return { work, spent, milliseconds, whole, segments: segments - WARM_UP }
}

function overhear(kernels, hear) {
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(kernels))) {
    const own = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(kernels), name)
    if (QUIET.has(name) || typeof own?.value !== "function") continue
    kernels[name] = (operation) => hear(operation, () => own.value.call(kernels, operation))
  }
}

/** Full ranking: GFLOP/s of making all items ready, milliseconds a user then takes and GB/s at which the items are read. */
async function measureRanking(threads, seconds) {
  const model = buildModel(threads)
  await model.kernels.ready()
  const item = Int32Array.from({ length: ITEMS }, (_, id) => id)
  new Ranking(model, item).release()
  let work = 0
  const { kernels } = model
  const own = kernels.multiply
  kernels.multiply = (operation) => {
    work += 2 * operation.rows * operation.columns * operation.inner
    own.call(kernels, operation)
  }
  new Ranking(model, item).release()
  const once = work
  const ready = measure(() => new Ranking(model, item).release(), { seconds, chunk: 1 })
  const ranking = new Ranking(model, item)
  const each = measure(() => ranking.scores(3), { seconds, chunk: 1 })
  kernels.close()
  return { rate: once / ready.best / 1e6, milliseconds: each.best, read: (4 * ITEMS * HIDDEN) / each.best / 1e6 }
}

/** GB/s at which memory is copied, read and written together. */
function measureCopy(seconds) {
  const [from, to] = [new Float32Array(2 ** 24).fill(1), new Float32Array(2 ** 24)]
  const { best } = measure(() => void to.set(from), { seconds, chunk: 1 })
  return (8 * 2 ** 24) / best / 1e6
}

/**
 * @param {{events: object, quick: boolean, say: (text: string) => void}} options
 * @returns {Promise<{headlines: object[], notes: string[]}>}
 */
export async function measureRoofline({ events, quick, say }) {
  const segments = Math.min(quick ? 30 : 200, Math.floor(events.user.length / SEGMENT))
  const [headlines, notes] = [[], []]
  for (const threads of [1, 2]) {
    say(`roofline, ${threads} threads`)
    const rows = []
    const peaks = [await measurePeak(threads, quick ? 0.5 : 2)]
    for (const method of ["dess-cv", "fixed-128"]) {
      const { work, milliseconds, whole, segments: counted } = runOverheard(events, { method, threads, segments })
      const alone = runOverheard(events, { method, threads, segments: Math.min(segments, 60), alone: true })
      const total = work.policy + work.train + work.inference
      const rate = (flops, ms) => (ms > 0 ? flops / ms / 1e6 : 0)
      rows.push({
        method,
        threads,
        whole: rate(total, whole),
        policy: rate(work.policy, milliseconds.policy),
        train: rate(work.train, milliseconds.train),
        inference: rate(work.inference, milliseconds.inference),
        ofKernels: alone.spent.products / alone.spent.all,
        ofLoop: alone.spent.products / alone.whole,
        milliseconds: Object.fromEntries(Object.entries(milliseconds).map(([key, ms]) => [key, ms / counted])),
      })
    }
    peaks.push(await measurePeak(threads, quick ? 0.5 : 2))
    const peak = Math.max(...peaks)
    const share = (value, least = 0) => {
      const part = (100 * value) / peak
      const target = least === 0 ? "" : `; target ≥ ${least} %${part < least ? ", missed" : ""}`
      return `${value.toFixed(1)} (${part.toFixed(0)} %${target})`
    }
    for (const row of rows) {
      const { milliseconds: ms } = row
      headlines.push({
        method: row.method,
        threads,
        "roofline GFLOP/s": peak,
        "whole loop": share(row.whole),
        policy: row.method === "dess-cv" ? share(row.policy, 40) : "–",
        training: share(row.train, row.method === "dess-cv" ? 40 : 0),
        "time in products": `${(100 * row.ofLoop).toFixed(0)} % (of kernels ${(100 * row.ofKernels).toFixed(0)} %)`,
        "ms policy, train, test": [ms.policy, ms.train, ms.inference].map((x) => x.toFixed(2)).join(", "),
        "policy / training":
          row.method === "dess-cv"
            ? `${(ms.policy / ms.train).toFixed(2)}× (target ≤ 3×${ms.policy > 3 * ms.train ? ", missed" : ""})`
            : "–",
      })
    }
    const { rate, milliseconds, read } = await measureRanking(threads, quick ? 0.5 : 2)
    notes.push(
      `ranking, ${threads} thread${threads > 1 ? "s" : ""}: making ${ITEMS} items ready ${share(rate)} GFLOP/s of the roofline; then ${milliseconds.toFixed(1)} ms a user, ${read.toFixed(1)} GB/s read`,
    )
  }
  notes.push(`memory is copied at ${measureCopy(quick ? 0.5 : 2).toFixed(1)} GB/s, read and written together`)
  const native = await measureNative()
  if (native)
    notes.push(
      `the PyTorch peer's product, 500×256×512, one thread: ${native.toFixed(1)} GFLOP/s, by the processor's full vectors`,
    )
  return { headlines, notes }
}
