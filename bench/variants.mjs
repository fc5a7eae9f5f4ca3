/**
 * What the calibrated default could have been instead (docs/calibration.md): without one of its parts, other ways to
 * explore, more context, fewer events judged, one size at a time, other lifts, other row optimizers; and which ids gain
 * from a rung. Binary, dess-cv.
 */

import { Returns } from "../dist/context/returns.js"
import { openData, Run, synthetic } from "../dist/index.js"
import { Random } from "../dist/kernels/random.js"
import { FactorModel } from "../dist/models/factor.js"
import { Factor } from "../dist/run/factor.js"
import { withDefaults } from "../dist/run/options.js"
import { RungWeights } from "../dist/run/rung-weights.js"
import { LinUcb } from "../dist/search/lin-ucb.js"
import { PRESETS } from "../dist/search/presets.js"
import { RENT, Rent } from "../dist/search/rent.js"
import { cutSegments } from "../dist/stream/segments.js"
import { ROW_VARIANTS, uniformLearner } from "./variants/rows.mjs"

const SIDES = ["user", "item"]
const { bound } = LinUcb.prototype
const mean = (bandit, arm, x, offset) => bound.call(bandit, arm, x, { offset, unit: 0 })

/** What takes the place of UCB(Δ | x); the draws are the variant's own. */
const EXPLORATION = {
  ucb: () => bound,
  thompson: (random) =>
    function (arm, x, p) {
      const middle = mean(this, arm, x, p.offset)
      return middle + (random.normal() * (bound.call(this, arm, x, p) - middle)) / this.beta()
    },
  "thompson, β wide": (random) =>
    function (arm, x, p) {
      const middle = mean(this, arm, x, p.offset)
      return middle + random.normal() * (bound.call(this, arm, x, p) - middle)
    },
  "ucb, ε-greedy .01 after 20,000 events": (random) =>
    function (arm, x, p) {
      if (this.updates < 20_000) return bound.call(this, arm, x, p)
      return random.next() < 0.01 ? 1 : mean(this, arm, x, p.offset)
    },
  // An explored rung is taken to save 1, the largest loss there is.
  "ε-greedy .05": (random) =>
    function (arm, x, { offset }) {
      return random.next() < 0.05 ? 1 : mean(this, arm, x, offset)
    },
  "ε-greedy .01": (random) =>
    function (arm, x, { offset }) {
      return random.next() < 0.01 ? 1 : mean(this, arm, x, offset)
    },
  greedy: () =>
    function (arm, x, { offset }) {
      return mean(this, arm, x, offset)
    },
}

/** What a part of the default is replaced by; each returns what puts it back. */
const PARTS = {
  "as it is": () => () => {},
  "returns not learned": () => replace(Returns.prototype, "rate", () => 0),
  "only the last rung judged": () => replace(Variant.prototype, "study", () => {}),
  "rungs not weighed": () =>
    replace(RungWeights.prototype, "of", (_side, { length }) => new Float64Array(length).fill(1)),
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
}

function replace(prototype, name, by) {
  const before = prototype[name]
  prototype[name] = by
  return () => {
    prototype[name] = before
  }
}

/** ε, for so many numbers for everybody. */
const DEVIATIONS = [0.005, 0.01, 0.02, 0.03, 0.05, 0.08]
const WIDTHS = [2, 8, 64]

/** A further coordinate in [0, 1] from what is known of an id before the segment. */
const COORDINATES = {
  "+ nothing (always 0)": () => 0,
  "+ recent loss": (known) => Math.min(1, 2 * known.loss),
  "+ time since last seen": (known, now) => Math.log(1 + now - known.last) / Math.log(2001),
  "+ gradient norm": (known) => Math.min(1, known.gradient),
}

/** `npm run bench -- variants [--data <folder>] [--rating-scale 0-10] [--limit n] [--seeds n] [--parts parts,explore,context,lifts,who,rows] [--only <text of a name>]` */
export async function run(words) {
  const given = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined)
  const limit = given("--limit") === undefined ? undefined : Number(given("--limit"))
  const seeds = Array.from({ length: Number(given("--seeds") ?? 2) }, (_, i) => i + 1)
  const parts = (given("--parts") ?? "parts,explore,context,lifts,who,rows").split(",")
  const wanted = (name) => name.includes(given("--only") ?? "")
  const [min, max] = given("--rating-scale")?.split("-").map(Number) ?? []
  const stream = given("--data")
    ? await openData(given("--data"), max === undefined ? {} : { ratingScale: { min, max } })
    : synthetic({ interactions: limit ?? 300_000 })
  const data = { segments: [], features: stream.features }
  for await (const segment of cutSegments(stream.batches(), limit ? { limit } : {})) data.segments.push(segment)
  console.log("| variant | seed | accuracy | loss | numbers user/item | embedding kB | over time |")
  console.log("|---|---:|---:|---:|---:|---:|---:|")
  if (parts.includes("parts"))
    for (const name of Object.keys(PARTS))
      for (const seed of seeds)
        if (wanted(name)) {
          const restore = PARTS[name]()
          search(data, { name, seed })
          restore()
        }
  if (parts.includes("lifts"))
    for (const deviation of DEVIATIONS)
      for (const width of WIDTHS) {
        const options = { method: `uniform-${width}`, task: "binary", seed: 1 }
        const model = new FactorModel({ task: "binary", sizes: [width], start: 0, seed: 1 })
        for (let k = 0; k < model.noise.numbers.length; k++) model.noise.numbers[k] *= deviation / 0.02
        const name = `${options.method}, lifted with N(0, ${deviation}²)`
        if (wanted(name)) report(data, { learner: new Factor(model), options, name })
      }
  if (parts.includes("explore"))
    for (const name of Object.keys(EXPLORATION))
      for (const seed of seeds) if (wanted(name)) search(data, { name, seed })
  if (parts.includes("context")) {
    search(data, { name: "one event in ten judged", seed: 1, judged: 0.1 })
    search(data, { name: "one size at a time", seed: 1, single: true })
    for (const name of Object.keys(COORDINATES)) if (wanted(name)) search(data, { name, seed: 1 })
  }
  if (parts.includes("rows"))
    for (const variant of ROW_VARIANTS)
      for (const seed of seeds)
        if (wanted(variant.name)) {
          const { options, learner } = uniformLearner(variant, seed)
          report(data, { learner, options, name: `${options.method}, ${variant.name}` })
        }
  if (parts.includes("who")) printGains(search(data, { name: "default, who gains", seed: 1, watched: true }))
}

/** Runs dess-cv with a variant of its policy; returns the policy. */
function search(data, variant) {
  const { name, seed } = variant
  const options = { method: "dess-cv", task: "binary", seed }
  const model = new FactorModel({ task: "binary", sizes: [0, ...withDefaults(options).sizes], start: 1, seed })
  const policy = new Variant(model, variant)
  const { features } = data
  const learner = new Factor(model, { policy, preset: PRESETS.calibrated, initial: "warm", features })
  const train = learner.train.bind(learner)
  learner.train = (batch) => policy.see(batch, model, () => train(batch))
  LinUcb.prototype.bound = (EXPLORATION[name] ?? EXPLORATION.ucb)(new Random(seed, "variants"))
  report(data, { learner, options, name })
  LinUcb.prototype.bound = bound
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
  console.log(
    `| ${name} | ${options.seed} | ${r.accuracy.toFixed(4)} | ${r.loss.toFixed(5)} | ${SIDES.map((side) => r.meanSize[side].toFixed(2)).join(" / ")} | ${kilobytes(r.embeddingBytes)} | ${kilobytes(user + item)} |`,
  )
}

/** The default's policy, with what a variant changes; counts of what is known of an id are those before its segment. */
class Variant extends Rent {
  /** Rows learned from, if they are watched. */
  rows = []
  #variant
  #coordinate
  #random
  #known = { user: new Map(), item: new Map() }
  /** What was known of the ids of each row of the last segment. */
  #before = { user: [], item: [] }
  #now = 0
  #grown = { user: new Set(), item: new Set() }

  constructor({ tables }, variant) {
    const coordinate = COORDINATES[variant.name]
    super({
      context: "cv",
      dimension: coordinate ? 4 : 3,
      sizes: { user: tables.user.sizes, item: tables.item.sizes },
      price: PRESETS.calibrated.rent,
      ...RENT,
      prior: 0.05,
    })
    this.#variant = variant
    this.#coordinate = coordinate
    this.#random = new Random(variant.seed, "judged")
  }

  /** Takes note of every row a segment trains on. */
  see(batch, model, train) {
    const lengths = SIDES.map((side) => Array.from(batch[side], (id) => lengthOf(model, side, id)))
    for (const side of SIDES) this.#before[side] = Array.from(batch[side], (id) => ({ id, ...this.#of(side, id) }))
    const result = train()
    SIDES.forEach((side, at) => {
      for (let r = 0; r < batch.user.length; r++) {
        const { first, loss, gradient } = this.#of(side, batch[side][r])
        const next = { first, last: this.#now, loss: loss + 0.1 * (result.losses[r] - loss), gradient }
        next.gradient += 0.1 * (Math.sqrt(result.losses[r]) * lengths[1 - at][r] - gradient)
        this.#known[side].set(batch[side][r], next)
      }
      this.#grown[side].clear()
    })
    this.#now++
    return result
  }

  #of(side, id) {
    return this.#known[side].get(id) ?? { first: this.#now, last: this.#now, loss: 0.2, gradient: 0 }
  }

  learn(side, round) {
    const wide = this.#watch(side, round)
    const { judged } = this.#variant
    if (judged === undefined) return super.learn(side, wide)
    const arms = new Uint8Array(round.length)
    for (let l = 0; l < round.length; l++)
      if (this.#random.next() < judged) arms.set(super.learn(side, rowOf(wide, l)), l)
    return arms
  }

  study(side, round) {
    const wide = this.#watch(side, round)
    const { judged } = this.#variant
    if (judged === undefined) super.study(side, wide)
    else for (let l = 0; l < round.length; l++) if (this.#random.next() < judged) super.study(side, rowOf(wide, l))
  }

  /** Writes down a round if it is watched; returns it with the variant's context. */
  #watch(side, round) {
    const before = new Map(this.#before[side].map((known) => [known.id, known]))
    if (this.#variant.watched)
      for (let l = 0; l < round.length; l++) {
        const [diversity, frequency] = [round.contexts[3 * l + 1], round.frequencies[l]]
        const age = this.#now - 1 - before.get(round.ids[l]).first
        this.rows.push({ side, step: round.steps[l], frequency, age, diversity, saved: round.growRewards[l] })
      }
    return this.#widen(round, (l) => this.#coordinate(before.get(round.ids[l]), this.#now - 1))
  }

  decide(side, choices) {
    const arms = super.decide(side, this.#wideNow(side, choices))
    if (this.#variant.single)
      choices.ids.forEach((id, i) => {
        if (this.#grown[side].has(id)) arms[i] = 0
        else if (arms[i] === 1) this.#grown[side].add(id)
      })
    return arms
  }

  release(side, choices) {
    return super.release(side, this.#wideNow(side, choices))
  }

  #wideNow(side, choices) {
    return this.#widen(choices, (i) => this.#coordinate(this.#of(side, choices.ids[i]), this.#now))
  }

  /** Contexts with one coordinate more, of length 1 at most as before. */
  #widen(choices, coordinate) {
    if (!this.#coordinate) return choices
    const contexts = new Float64Array(4 * choices.length)
    for (let l = 0; l < choices.length; l++) {
      for (let c = 0; c < 3; c++) contexts[4 * l + c] = choices.contexts[3 * l + c] * Math.sqrt(3 / 4)
      contexts[4 * l + 3] = coordinate(l) / 2
    }
    return { ...choices, contexts }
  }
}

function rowOf(round, l) {
  const cut = (values) => values.slice((l * values.length) / round.length, ((l + 1) * values.length) / round.length)
  return Object.fromEntries(Object.entries(round).map(([key, value]) => [key, key === "length" ? 1 : cut(value)]))
}

function lengthOf(model, side, id) {
  const table = model.tables[side]
  if (!table.has(id)) return 0
  const at = table.placeOf(id) + model.heads[side]
  let sum = 0
  for (let k = 0; k < model.sizes[table.step(id)]; k++) sum += table.numbersOf(id)[at + k] ** 2
  return Math.sqrt(sum)
}

/** Mean Δ of the rows of each rung, in 1e-4 with twice its standard error, by what was known of the id. */
function printGains({ rows }) {
  const frequencyOf = bucket("frequency", [8, 32, 128, 512])
  for (const side of SIDES)
    for (let step = 0; step < 6; step++) {
      const own = rows.filter((row) => row.side === side && row.step === step)
      if (own.length < 1000) continue
      // Thirds of the rows of like frequency: diversity grows with frequency.
      for (const like of groups(own, frequencyOf).values()) {
        like.sort((a, b) => a.diversity - b.diversity)
        like.forEach((row, i) => {
          row.third = `diversity third ${1 + Math.floor((3 * i) / like.length)}`
        })
      }
      console.log(`\n${side}, rung ${step + 1}:`)
      for (const by of [frequencyOf, bucket("age", [5, 20, 100, 500]), (row) => row.third]) {
        const parts = [...groups(own, by)].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
        console.log(parts.map(([name, group]) => `${name}: ${gain(group)}`).join(", "))
      }
    }
}

function groups(rows, by) {
  const out = new Map()
  for (const row of rows) {
    if (!out.has(by(row))) out.set(by(row), [])
    out.get(by(row)).push(row)
  }
  return out
}

function bucket(name, edges) {
  return (row) => `${name} ${[0, ...edges].findLast((edge) => row[name] >= edge)}+`
}

function gain(rows) {
  let [sum, squares] = [0, 0]
  for (const { saved } of rows) {
    sum += saved
    squares += saved * saved
  }
  const average = sum / rows.length
  const error = 2 * Math.sqrt((squares / rows.length - average * average) / rows.length)
  return `${(1e4 * average).toFixed(1)} ± ${(1e4 * error).toFixed(1)} (${rows.length})`
}
