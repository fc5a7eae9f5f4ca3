/**
 * What the calibrated default could have been instead (docs/lab/calibration.md): other rewards, constants, ways to explore and
 * contexts of its policy, without one of its parts, other recipes for the rows; which ids gain from a rung; and how fast
 * vectors follow when every taste changes. dess-cv, binary or `--task topk`.
 */

import { Returns } from "../dist/ids/returns.js"
import { openData, Run, synthetic } from "../dist/index.js"
import { Random } from "../dist/kernels/random.js"
import { CalibratedFamily } from "../dist/learning/calibrated-family.js"
import { withDefaults } from "../dist/learning/options.js"
import { SizedLearner } from "../dist/learning/sized-learner.js"
import { FactorModel } from "../dist/models/calibrated/factor.js"
import { SequenceModel } from "../dist/models/calibrated/sequence.js"
import { PRESETS } from "../dist/policies/presets.js"
import { LEAST_SHARE, USUAL_LOSS } from "../dist/policies/rent.js"
import { cutSegments } from "../dist/stream/segments.js"
import { printGains } from "./variants/gains.mjs"
import { exploring, POLICY_VARIANTS, Variant } from "./variants/policy.mjs"
import { ROW_VARIANTS, uniformLearner } from "./variants/rows.mjs"

const SIDES = ["user", "item"]
/** As in src/learning/create.ts: a first guess at Δ, and the size ids start with. */
const TASKS = { binary: { spread: 0.05, start: 2 }, topk: { spread: 0.3, start: 64 } }

/** What a part of the default is replaced by; each returns what puts it back. */
const PARTS = {
  "returns not learned": () => replace(Returns.prototype, "rate", () => 0),
  "only the last rung judged": () => replace(Variant.prototype, "learnUnplayed", () => {}),
  "new numbers renew the accumulator": () => {
    const { resize } = FactorModel.prototype
    return replace(FactorModel.prototype, "resize", function (side, id, p) {
      const [kept, size] = [this.sizes[this.tables[side].step(id)], this.sizes[p.step]]
      resize.call(this, side, id, p)
      const table = this.tables[side]
      const at = table.placeOf(id) + 2
      if (size > kept) table.numbersOf(id)[at] = (kept * table.numbersOf(id)[at] + (size - kept) * 0.8) / size
    })
  },
  "no rung is tried anew": () => replace(Variant.prototype, "advanceTime", () => {}),
}

/** Of ranking: the start, the price, the lift, when a rung may be judged, and the frame, which a width of 0 leaves alone. */
const RANKING = {
  "the default": {},
  "ids start with 16 numbers": { start: 16 },
  "ids start with 128 numbers": { start: 128 },
  "ids start with 128 numbers, the frame is not turned": { start: 128, still: true },
  "the frame is not turned": { still: true },
  "a fifth of the price": { price: 0.2 * LEAST_SHARE * USUAL_LOSS.topk },
  "five times the price": { price: 5 * LEAST_SHARE * USUAL_LOSS.topk },
  "ε as large as a new item's numbers": { lift: 1 },
  "rungs judged from the first event on": { warmupEvents: 0 },
  "σ .5, patience .2": { settings: { subgaussian: 0.5, patience: 0.2 } },
}

function replace(prototype, name, by) {
  const own = Object.getOwnPropertyDescriptor(prototype, name)
  prototype[name] = by
  return () => {
    if (own) Object.defineProperty(prototype, name, own)
    else delete prototype[name]
  }
}

/** `npm run bench -- variants [--data <folder>] [--rating-scale 0-10] [--task topk] [--limit n] [--seeds n] [--parts <some of those below>] [--only <text of a name>]` */
export async function run(words) {
  const given = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined)
  const limit = given("--limit") === undefined ? undefined : Number(given("--limit"))
  const seeds = Array.from({ length: Number(given("--seeds") ?? 1) }, (_, i) => i + 1)
  const task = given("--task") ?? "binary"
  const all =
    task === "topk" ? "ranking,parts,rewards,explore" : "parts,rewards,constants,explore,context,who,rows,drift"
  const parts = (given("--parts") ?? all).split(",")
  const unknown = parts.find((part) => !all.split(",").includes(part))
  if (unknown !== undefined) throw new Error(`bench variants --parts: expected some of ${all}, got ${unknown}`)
  const wanted = (name) => name.includes(given("--only") ?? "")
  const [min, max] = given("--rating-scale")?.split("-").map(Number) ?? []
  const stream = given("--data")
    ? await openData(given("--data"), max === undefined ? {} : { ratingScale: { min, max } })
    : synthetic({ interactions: limit ?? 300_000 })
  const data = { task, segments: [], features: stream.features }
  for await (const segment of cutSegments(stream.batches(), limit ? { limit } : {})) data.segments.push(segment)
  const quality = task === "topk" ? "Recall@10 | NDCG@10" : "accuracy | loss"
  console.log(`| variant | seed | ${quality} | numbers user/item | embedding kB | over time |`)
  console.log("|---|---:|---:|---:|---:|---:|---:|")
  const variants = { ...POLICY_VARIANTS, ranking: RANKING }
  // Two rewards are made of a rating's label, and one part is of its model.
  const fits = (name) => task !== "topk" || !/same event|next event|accumulator/.test(name)
  for (const part of parts) {
    for (const [name, variant] of Object.entries(variants[part] ?? {}))
      for (const seed of seeds) if (wanted(name) && fits(name)) search(data, { name, seed, variant })
    if (part === "parts")
      for (const [name, change] of Object.entries(PARTS))
        for (const seed of seeds)
          if (wanted(name) && fits(name)) {
            const restore = change()
            search(data, { name, seed, variant: {} })
            restore()
          }
    if (part === "rows")
      for (const variant of ROW_VARIANTS)
        for (const seed of seeds)
          if (wanted(variant.name)) {
            const { options, learner } = uniformLearner(variant, seed)
            report(data, { learner, options, name: `${options.method}, ${variant.name}` })
          }
  }
  if (parts.includes("who"))
    printGains(search(data, { name: "the default, watched", seed: 1, variant: { watched: true } }))
  if (parts.includes("drift")) for (const before of [60, 400, 1200]) drift(before)
}

/** Runs dess-cv with a variant of its policy; returns the policy. */
function search(data, { name, seed, variant }) {
  const { task, features } = data
  const { spread, start } = TASKS[task]
  const options = { method: "dess-cv", task, seed }
  const sizes = [0, ...withDefaults(options).sizes]
  const Model = task === "topk" ? SequenceModel : FactorModel
  const model = new Model({ task, sizes, start: sizes.indexOf(variant.start ?? start), seed })
  if (variant.lift !== undefined) model.fade.fill(variant.lift)
  if (variant.warmupEvents !== undefined) Object.defineProperty(model, "warmupEvents", { value: variant.warmupEvents })
  if (variant.still) Object.defineProperty(model, "width", { value: 0 })
  const policy = new Variant(model, variant, { seed, spread, price: variant.price })
  const learner = new SizedLearner(new CalibratedFamily(model), {
    search: { policy, preset: PRESETS.calibrated, initial: "warm", features },
  })
  const train = learner.train.bind(learner)
  if (task !== "topk") learner.train = (batch) => policy.see(batch, model, () => train(batch))
  exploring(variant, seed, () => report(data, { learner, options, name }))
  return policy
}

function report(data, { learner, options, name }) {
  const run = new Run(options, data.features)
  run.learner.close()
  run.learner = learner
  for (const segment of data.segments) run.step(segment)
  const r = run.result()
  const kilobytes = (bytes) => (bytes / 1000).toFixed(0)
  const { user, item } = r.embeddingBytesOverTime
  const quality =
    options.task === "topk"
      ? `${r.recall.toFixed(4)} | ${r.ndcg.toFixed(4)}`
      : `${r.accuracy.toFixed(4)} | ${r.loss.toFixed(5)}`
  console.log(
    `| ${name} | ${options.seed} | ${quality} | ${SIDES.map((side) => r.meanSize[side].toFixed(2)).join(" / ")} | ${kilobytes(r.embeddingBytes)} | ${kilobytes(user + item)} |`,
  )
}

/**
 * Sixty users who like one half of forty items, one rating in five wrong; after this many segments each likes another half.
 * Says after how many more segments ten in a row have an accuracy of .75, 8 numbers for everybody.
 */
function drift(before) {
  for (const most of [10, Number.POSITIVE_INFINITY]) {
    const { options, learner } = uniformLearner({ optimizer: "row adagrad", rate: 0.4, most }, 1)
    const run = new Run({ ...options, protocol: "prequential" })
    run.learner.close()
    run.learner = learner
    const random = new Random(1, "drift")
    const accuracy = []
    for (let n = 0; n < before + 200; n++) accuracy.push(run.step(driftSegment(n, before, random)).accuracy)
    run.close()
    const mean = (from) => accuracy.slice(from, from + 10).reduce((sum, value) => sum + value, 0) / 10
    const after = Array.from({ length: 190 }, (_, n) => n).find((n) => mean(before + n) >= 0.75)
    console.log(
      `every taste changes after ${before} segments, A up to ${most}: back at .75 after ${after ?? "more than 190"}`,
    )
  }
}

function driftSegment(index, before, random) {
  const rows = Array.from({ length: 500 }, () => {
    const [user, item] = [random.integer(60), random.integer(40)]
    const likes = index < before ? (user >> 1) % 2 === item % 2 : user % 2 === (item >> 1) % 2
    return [user, item, likes === random.next() < 0.8 ? 5 : 1]
  })
  const column = (at) => rows.map((row) => row[at])
  return {
    index,
    length: 500,
    trainLength: 500,
    time: 1000 * index,
    user: Int32Array.from(column(0)),
    item: Int32Array.from(column(1)),
    rating: Float32Array.from(column(2)),
    timestamp: new Float64Array(500).fill(index),
  }
}
