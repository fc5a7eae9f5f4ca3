/**
 * The study behind the calibrated default (docs/lab/calibration.md): one stream, the frontier by price beside the uniform
 * sizes, numbers held among ids of equal frequency (in the end, and when they were met in the second half), whether sizes
 * follow true dimensions, and how regret grows: as method.md counts it, and on the embedded stream beyond what the best
 * linear policy in hindsight would be charged.
 */

import { Indicators } from "../dist/ids/indicators.js"
import { Returns } from "../dist/ids/returns.js"
import { openData, Run, synthetic } from "../dist/index.js"
import { sigmoid } from "../dist/kernels/math.js"
import { Random } from "../dist/kernels/random.js"
import { State } from "../dist/kernels/state.js"
import { Rent } from "../dist/policies/rent.js"
import { cutSegments } from "../dist/stream/segments.js"
import { GENRES } from "../dist/stream/synthetic/items.js"
import { WIDTH } from "../dist/stream/synthetic/rating.js"
import { beyondHindsight, slope, watchRounds } from "./hindsight.mjs"

/** `npm run bench -- study --data <folder> [--rating-scale 0-10] [--task binary] [--limit n] [--seed n] [--methods a,b] [--prices 1,0.5]`, prices as multiples of 1e-4; without data the embedded stream, which may be `--stationary`, or `--oracle`: its dimensions are told. `--biases`: the same events with likes drawn from biases alone, fitted to them, so that no vector can pay. */
export async function run(words) {
  const given = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined)
  const path = given("--data") ?? "synthetic"
  const task = given("--task") ?? "binary"
  const limit = given("--limit") === undefined ? undefined : Number(given("--limit"))
  const seed = Number(given("--seed") ?? 1)
  const [min, max] = given("--rating-scale")?.split("-").map(Number) ?? []
  const ratingScale = max === undefined ? undefined : { min, max }
  const open = () =>
    path === "synthetic"
      ? synthetic({ interactions: limit ?? 300_000, stationary: words.includes("--stationary") })
      : openData(path, ratingScale ? { ratingScale } : {})
  const untell = words.includes("--oracle") ? seeTruth((await open()).truth) : undefined
  const likes = words.includes("--biases") ? await drawLikes(await open(), { seed, limit }) : undefined
  const wanted = (method) => given("--methods")?.split(",").includes(method) ?? true
  console.log(`${path}, ${task}, seed ${seed}`)
  console.log(
    "method                 price    quality          numbers user/item   bytes      held bytes  regret user/item   slope  per s",
  )
  for (const method of [
    "plain-bias",
    "never-grow",
    "random-grow",
    "uniform-4",
    "uniform-8",
    "uniform-16",
    "uniform-64",
    "fixed-128",
    "always-grow",
  ].filter(wanted))
    await one(open, { method, task, seed, limit, likes })
  const prices = (given("--prices") ?? "5,2,1,0.5,0.2,0.1,0.05").split(",").map(Number)
  if (!prices.every((price) => price >= 0))
    throw new Error(`bench study --prices: expected numbers from 0, got ${given("--prices")}`)
  for (const price of prices) {
    for (const method of ["dess-fre", "dess-cv"].filter(wanted))
      await one(open, { method, task, seed, limit, likes, price: 1e-4 * price })
  }
  untell?.()
}

async function one(open, options) {
  const stream = await open()
  const { limit, likes, ...run } = options
  const learning = new Run({ ...run, task: options.task }, stream.features)
  const counts = { user: new Map(), item: new Map() }
  const regret = []
  const rounds = stream.truth && options.method.startsWith("dess-") ? watchRounds(Rent, () => regret.length) : undefined
  const met = []
  for await (const segment of cutSegments(stream.batches(), limit ? { length: 500, limit } : { length: 500 })) {
    if (likes) segment.rating.set(likes.subarray(500 * segment.index, 500 * segment.index + segment.length))
    const report = learning.step(segment)
    for (const side of ["user", "item"])
      for (const id of segment[side]) {
        const count = (counts[side].get(id) ?? 0) + 1
        counts[side].set(id, count)
        if (isMiddle(count)) met.push({ segment: segment.index, side, size: sizeOf(learning, side, id) })
      }
    if (report.regret) regret.push(report.regret.user + report.regret.item)
  }
  rounds?.stop()
  const beyond = rounds ? beyondHindsight(rounds.rungs, regret.length) : undefined
  const r = learning.result()
  const quality =
    options.task === "topk"
      ? `${r.recall.toFixed(4)}/${r.ndcg.toFixed(4)}`
      : `${r.accuracy.toFixed(4)}/${r.loss.toFixed(5)}`
  const sizes = sizesOf(learning)
  const middle = sizes ? middleSizes(counts, sizes, met) : "–"
  const truth = sizes && stream.truth ? truths(stream.truth, counts, sizes) : undefined
  console.log(
    [
      options.method.padEnd(22),
      (options.price === undefined ? "" : options.price.toExponential(1)).padEnd(8),
      quality.padEnd(16),
      `${r.meanSize.user.toFixed(2)}/${r.meanSize.item.toFixed(2)}`.padEnd(19),
      String(r.embeddingBytes).padEnd(10),
      String(r.heldBytes).padEnd(11),
      (r.regret ? `${r.regret.user.toFixed(0)}/${r.regret.item.toFixed(0)}` : "–").padEnd(18),
      (regret.length > 40 ? slope(regret).toFixed(2) : "–").padEnd(6),
      Math.round(r.interactionsPerSecond),
      `  20–50 events: ${middle}`,
      options.price === undefined ? "" : `  ${returnsOf(learning)}`,
      truth ? `  truth: ${truth}` : "",
      beyond ? `  beyond hindsight: ${beyond.at(-1).toFixed(1)}, slope ${slope(beyond).toFixed(2)}` : "",
    ].join(" "),
  )
  learning.close()
}

/** Ratings of 5 and 1 for every event of a stream, from the chance of a like that its biases alone give. */
async function drawLikes(stream, { seed, limit }) {
  const rows = []
  for await (const { length, user, item, rating } of cutSegments(stream.batches(), limit ? { limit } : {}))
    for (let l = 0; l < length; l++) rows.push([user[l], item[l], rating[l] > 3.5 ? 1 : 0])
  const biases = { user: new Map(), item: new Map() }
  let base = 0
  const logit = ([user, item]) => base + (biases.user.get(user) ?? 0) + (biases.item.get(item) ?? 0)
  for (let pass = 0; pass < 5; pass++)
    for (const row of rows) {
      const error = sigmoid(logit(row)) - row[2]
      base -= 0.002 * error
      biases.user.set(row[0], (1 - 0.001) * (biases.user.get(row[0]) ?? 0) - 0.05 * error)
      biases.item.set(row[1], (1 - 0.001) * (biases.item.get(row[1]) ?? 0) - 0.05 * error)
    }
  const random = new Random(seed, "likes")
  return Float32Array.from(rows, (row) => (random.next() < sigmoid(logit(row)) ? 5 : 1))
}

/** Events a turn to be expected of a user of some thirty events, 100 turns after the last one. */
function returnsOf(run) {
  const state = new State()
  run.learner.save(state)
  const returns = new Returns()
  returns.load(state.at("returns"))
  return `come back after 100 turns: ${returns.rate("user", 32, 100).toExponential(1)}`
}

/** Size of every id, where the learner keeps rows. */
function sizesOf(run) {
  const { model } = run.learner
  if (!model?.tables) return undefined
  const of = (side) => {
    const table = model.tables[side]
    return new Map(Array.from(table.ids(), (id) => [id, model.sizes[table.step(id)]]))
  }
  return { user: of("user"), item: of("item") }
}

function sizeOf(run, side, id) {
  const { model } = run.learner
  const table = model?.tables?.[side]
  return table?.has(id) ? model.sizes[table.step(id)] : 0
}

function isMiddle(count) {
  return count >= 20 && count <= 50
}

/** Mean sizes of ids of middling frequency: in the end, and where they were met in the second half of the stream. */
function middleSizes(counts, sizes, met) {
  const mean = (values) => (values.reduce((sum, value) => sum + value, 0) / values.length || 0).toFixed(2)
  const half = (met.at(-1)?.segment ?? 0) / 2
  const sides = ["user", "item"]
  const end = sides.map((side) =>
    mean([...counts[side]].filter(([, count]) => isMiddle(count)).map(([id]) => sizes[side].get(id) ?? 0)),
  )
  const late = sides.map((side) =>
    mean(met.filter((one) => one.side === side && one.segment >= half).map(({ size }) => size)),
  )
  return `${end.join("/")}, when met ${late.join("/")}`
}

/** Puts the true dimension, as it is at the event, in the place of the diversity: the most a context could tell. */
function seeTruth(truth) {
  const { observeBatch, diversity } = Indicators.prototype
  const describe = (side, id, events) =>
    Math.sqrt(GENRES.length) * ((side === "user" ? truth.userDimension : truth.itemDimension)(id, events) / WIDTH)
  Indicators.prototype.observeBatch = function (segment, out, capped) {
    observeBatch.call(this, segment, out, capped)
    for (let l = 0; l < segment.length; l++) {
      out.ind[l] = describe("user", segment.user[l], out.userFrequency[l])
      out.pod[l] = describe("item", segment.item[l], out.itemFrequency[l])
    }
  }
  Indicators.prototype.diversity = function (side, id) {
    return describe(side, id, this.frequency(side, id))
  }
  return () => Object.assign(Indicators.prototype, { observeBatch, diversity })
}

function truths(truth, counts, sizes) {
  return ["user", "item"]
    .map((side) => {
      const ids = [...counts[side].keys()].filter((id) => sizes[side].has(id))
      const dimension = ids.map((id) =>
        side === "user" ? truth.userDimension(id, counts[side].get(id)) : truth.itemDimension(id, counts[side].get(id)),
      )
      return `${side} ${partial(
        ids.map((id) => sizes[side].get(id)),
        dimension,
        ids.map((id) => counts[side].get(id)),
      ).toFixed(3)}`
    })
    .join(", ")
}

/** Spearman's correlation of a and b, c held. */
function partial(a, b, c) {
  const [ra, rb, rc] = [a, b, c].map(ranks)
  const [ab, ac, bc] = [correlation(ra, rb), correlation(ra, rc), correlation(rb, rc)]
  return (ab - ac * bc) / Math.sqrt((1 - ac * ac) * (1 - bc * bc))
}

function ranks(values) {
  const order = values.map((_, i) => i).sort((i, j) => values[i] - values[j])
  const out = new Float64Array(values.length)
  for (let i = 0; i < order.length; ) {
    let j = i
    while (j < order.length && values[order[j]] === values[order[i]]) j++
    for (let k = i; k < j; k++) out[order[k]] = (i + j - 1) / 2
    i = j
  }
  return out
}

function correlation(a, b) {
  const mean = (x) => x.reduce((s, v) => s + v, 0) / x.length
  const [ma, mb] = [mean(a), mean(b)]
  let [ab, aa, bb] = [0, 0, 0]
  for (let i = 0; i < a.length; i++) {
    ab += (a[i] - ma) * (b[i] - mb)
    aa += (a[i] - ma) ** 2
    bb += (b[i] - mb) ** 2
  }
  return ab / Math.sqrt(aa * bb || 1)
}
