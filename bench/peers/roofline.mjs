/**
 * How near the loop comes to what this machine can do: GFLOP/s of its matrix products over the time of each phase, beside
 * the best our kernel reaches on a large square product, measured in the same run. Only products count as work.
 */

import { openKernels } from "../../dist/kernels/open.js"
import { Run } from "../../dist/run/loop.js"
import { measure } from "../report.mjs"
import { SEGMENT } from "./given.mjs"

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
  const run = new Run({ method, recipe: "paper", preset: "paper", model: "ncf", threads }, events.features)
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

/**
 * @param {{events: object, quick: boolean, say: (text: string) => void}} options
 * @returns {Promise<{headlines: object[], rows: object[]}>}
 */
export async function measureRoofline({ events, quick, say }) {
  const segments = Math.min(quick ? 30 : 200, Math.floor(events.user.length / SEGMENT))
  const [headlines, rows] = [[], []]
  for (const threads of [1, 2]) {
    say(`roofline, ${threads} threads`)
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
    for (const row of rows.slice(-2)) {
      const share = (value) => `${value.toFixed(1)} (${((100 * value) / peak).toFixed(0)} %)`
      const { milliseconds: ms } = row
      headlines.push({
        method: row.method,
        threads,
        "roofline GFLOP/s": peak,
        "whole loop": share(row.whole),
        policy: row.method === "dess-cv" ? share(row.policy) : "–",
        training: share(row.train),
        "time in products": `${(100 * row.ofLoop).toFixed(0)} % (of kernels ${(100 * row.ofKernels).toFixed(0)} %)`,
        "ms policy, train, test": [ms.policy, ms.train, ms.inference].map((x) => x.toFixed(2)).join(", "),
        "policy / training": row.method === "dess-cv" ? `${(ms.policy / ms.train).toFixed(2)}× (target ≤ 3×)` : "–",
      })
    }
  }
  return { headlines, rows }
}
