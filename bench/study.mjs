/**
 * The study behind the calibrated default (docs/calibration.md): one stream, the frontier by price beside the uniform
 * sizes, numbers held among ids of equal frequency, whether sizes follow true dimensions, and how regret grows: as
 * method.md counts it, and on the embedded stream beyond what the best linear policy in hindsight would be charged.
 */

import { openData, Run, synthetic } from "../dist/index.js"
import { PRESETS } from "../dist/search/presets.js"
import { Rent } from "../dist/search/rent.js"
import { cutSegments } from "../dist/stream/segments.js"

/** `npm run bench -- study --data <folder> [--rating-scale 0-10] [--task binary] [--limit n] [--seed n] [--methods a,b] [--prices 1,0.5]`, prices as multiples of the default's */
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
    await one(open, { method, task, seed, limit })
  for (const price of (given("--prices") ?? "5,2,1,0.5,0.2,0.1,0.05").split(",").map(Number)) {
    const base = (task === "binary" ? 1 : 6) * PRESETS.calibrated.rent
    for (const method of ["dess-fre", "dess-cv"].filter(wanted))
      await one(open, { method, task, seed, limit, price: base * price })
  }
}

async function one(open, options) {
  const stream = await open()
  const { limit, ...run } = options
  const learning = new Run({ ...run, task: options.task }, stream.features)
  const counts = { user: new Map(), item: new Map() }
  const regret = []
  const rounds = stream.truth && options.method.startsWith("dess-") ? watchRounds(() => regret.length) : undefined
  for await (const segment of cutSegments(stream.batches(), limit ? { length: 500, limit } : { length: 500 })) {
    const report = learning.step(segment)
    for (const side of ["user", "item"])
      for (const id of segment[side]) counts[side].set(id, (counts[side].get(id) ?? 0) + 1)
    if (report.regret) regret.push(report.regret.user + report.regret.item)
  }
  rounds?.stop()
  const beyond = rounds ? beyondHindsight(rounds.rows, regret.length) : undefined
  const r = learning.result()
  const quality =
    options.task === "topk"
      ? `${r.recall.toFixed(4)}/${r.ndcg.toFixed(4)}`
      : `${r.accuracy.toFixed(4)}/${r.loss.toFixed(5)}`
  const sizes = sizesOf(learning)
  const middle = sizes ? ["user", "item"].map((side) => middleSize(counts[side], sizes[side])).join("/") : "–"
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
      truth ? `  truth: ${truth}` : "",
      beyond ? `  beyond hindsight: ${beyond.at(-1).toFixed(1)}, slope ${slope(beyond).toFixed(2)}` : "",
    ].join(" "),
  )
  learning.close()
}

/** Writes down every row a rent policy plays, by side and rung, until stopped. */
function watchRounds(now) {
  const { learn } = Rent.prototype
  const rows = new Map()
  Rent.prototype.learn = function (side, round) {
    const arms = learn.call(this, side, round)
    const d = round.contexts.length / round.length
    for (let l = 0; l < round.length; l++) {
      const rung = `${side} ${round.steps[l]}`
      if (!rows.has(rung)) rows.set(rung, [])
      const context = round.contexts.slice(l * d, l * d + d)
      rows.get(rung).push({ at: now(), keep: round.keepRewards[l], grow: round.growRewards[l], arm: arms[l], context })
    }
    return arms
  }
  return {
    rows,
    stop: () => {
      Rent.prototype.learn = learn
    },
  }
}

/** What the best linear policy of each rung, fitted to all of its rows afterwards, earns more than was earned; cumulative. */
function beyondHindsight(rungs, length) {
  const out = new Float64Array(length)
  for (const rows of rungs.values()) {
    const theta = regress(rows)
    for (const { at, keep, grow, arm, context } of rows) {
      const best = dot(theta, context) > keep ? grow : keep
      out[Math.min(at, length - 1)] += best - (arm === 1 ? grow : keep)
    }
  }
  for (let t = 1; t < length; t++) out[t] += out[t - 1]
  return out
}

/** Ridge regression of what growing earned on the context. */
function regress(rows) {
  const d = rows[0].context.length
  const a = Array.from({ length: d }, (_, i) => Float64Array.from({ length: d + 1 }, (_, j) => (i === j ? 0.1 : 0)))
  for (const { grow, context } of rows)
    for (let i = 0; i < d; i++) {
      for (let j = 0; j < d; j++) a[i][j] += context[i] * context[j]
      a[i][d] += context[i] * grow
    }
  for (let i = 0; i < d; i++)
    for (let j = 0; j < d; j++) {
      if (j === i) continue
      const factor = a[j][i] / a[i][i]
      for (let k = i; k <= d; k++) a[j][k] -= factor * a[i][k]
    }
  return a.map((row, i) => row[d] / row[i])
}

function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0)
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

function middleSize(counts, sizes) {
  let [sum, n] = [0, 0]
  for (const [id, count] of counts)
    if (count >= 20 && count <= 50) {
      sum += sizes.get(id) ?? 0
      n++
    }
  return n === 0 ? "–" : (sum / n).toFixed(2)
}

/** Least-squares slope of log regret over log segment, the first tenth left out. */
function slope(regret) {
  let [n, sx, sy, sxx, sxy] = [0, 0, 0, 0, 0]
  for (let t = Math.floor(regret.length / 10); t < regret.length; t++) {
    const [x, y] = [Math.log(t + 1), Math.log(Math.max(1e-9, regret[t]))]
    n++
    sx += x
    sy += y
    sxx += x * x
    sxy += x * y
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx)
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
