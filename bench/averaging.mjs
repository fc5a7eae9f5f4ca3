/**
 * Many trainers in one process on a MovieLens folder: accuracy of a network whose dense part is averaged, against one
 * trainer on the same segments. Users belong to one of 16 partitions, each segment to one; rows of items are exchanged
 * after every segment of each trainer, the dense part after --average events.
 * npm run bench -- averaging --data <MovieLens folder> [--events 1000209] [--trainers 1,2,4] [--average 2000]
 *   [--law mean|sum] [--segment 500] [--recipe paper]
 */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { completeOptions } from "../dist/engine/options.js"
import { Run } from "../dist/run/loop.js"

const PARTITIONS = 16
const partitionOf = (index) => (Math.imul(index + 1, 0x9e3779b1) >>> 8) % PARTITIONS

/** By partition: [user, item, rating, timestamp], in time order. */
function readParts(data, count) {
  const lines = readFileSync(join(data, "ratings.dat"), "latin1").trim().split("\n")
  const rows = lines.map((line) => line.split("::").map(Number)).sort((a, b) => a[3] - b[3])
  const parts = Array.from({ length: PARTITIONS }, () => [])
  for (const row of rows.slice(0, count)) parts[partitionOf(row[0])].push(row)
  return parts
}

/** Changes to their homes, evidence to everybody, then rows from their homes. */
function exchangeItems(runs) {
  const home = (item) => partitionOf(item) % runs.length
  const changes = runs.map((run) => run.shared.takeChanges())
  const evidence = runs.map((run) => run.shared.takeEvidence())
  runs.forEach((run, t) => {
    for (let from = 0; from < runs.length; from++) {
      if (from === t) continue
      for (const { index, change } of changes[from]) if (home(index) === t) run.shared.addChange(index, change)
      run.shared.addEvidence(evidence[from])
    }
  })
  runs.forEach((run, t) => {
    for (const item of run.shared.takeTouched().item) {
      const row = run.shared.takeRow("item", item)
      runs.forEach((other, o) => {
        if (o !== t && row) other.shared.putRow("item", item, row)
      })
    }
  })
}

/** The first takes the mean, or adds up; the others go over to it. */
function exchangeDense([home, ...others], learned, law) {
  const parts = others
    .map((run, t) => ({ change: run.shared.takeDenseChange(), weight: learned[t + 1] }))
    .filter(({ change }) => change !== undefined)
  if (law === "sum") for (const { change } of parts) home.shared.addDenseChange(change)
  else home.shared.averageDense(parts, learned[0])
  const dense = home.shared.takeDense()
  for (const run of others) run.shared.putDense(dense)
  learned.fill(0)
}

function simulate(parts, p) {
  const runs = Array.from({ length: p.trainers }, () => new Run(p.run))
  runs.forEach((run, t) => {
    run.shared.decide((item) => partitionOf(item) % p.trainers === t)
  })
  const learned = runs.map(() => 0)
  let [hits, rows, index] = [0, 0, 0]
  const learn = (t, some) => {
    const column = (c, Kind) => Kind.from(some, (row) => row[c])
    const { accuracy, testRows } = runs[t].step({
      user: column(0, Int32Array),
      item: column(1, Int32Array),
      rating: column(2, Float32Array),
      timestamp: column(3, Float64Array),
      length: some.length,
      trainLength: some.length,
      index: index++,
      time: 0,
    })
    learned[t] += some.length
    hits += (accuracy ?? 0) * testRows
    rows += testRows
  }
  for (let from = 0; parts.some(({ length }) => length > from); from += p.segment)
    for (let first = 0; first < PARTITIONS; first += p.trainers) {
      for (let t = 0; t < p.trainers; t++) {
        const some = (parts[first + t] ?? []).slice(from, from + p.segment)
        if (some.length > 0) learn(t, some)
      }
      if (p.trainers === 1) continue
      exchangeItems(runs)
      if (Math.max(...learned) >= p.average) exchangeDense(runs, learned, p.law)
    }
  for (const run of runs) run.close()
  return hits / rows
}

export async function run(args) {
  const { values } = parseArgs({
    args,
    options: {
      data: { type: "string" },
      events: { type: "string", default: "1000209" },
      trainers: { type: "string", default: "1,2,4" },
      average: { type: "string", default: "2000" },
      law: { type: "string", default: "mean" },
      segment: { type: "string", default: "500" },
      recipe: { type: "string", default: "paper" },
    },
  })
  if (values.data === undefined) return console.log("left out: --data, a MovieLens folder")
  const { recipe } = values
  const segment = Number(values.segment)
  const options = { task: "binary", method: "dess-fre", recipe, preset: recipe, segment, threads: 1 }
  const { run: full } = completeOptions(options)
  const parts = readParts(values.data, Number(values.events))
  for (const trainers of values.trainers.split(",").map(Number)) {
    const start = process.cpuUsage()
    const accuracy = simulate(parts, { run: full, trainers, segment, average: Number(values.average), law: values.law })
    const { user, system } = process.cpuUsage(start)
    console.log(
      `${trainers} trainers, ${values.law}: accuracy ${accuracy.toFixed(4)}; ${((user + system) / 1e6).toFixed(0)} s`,
    )
  }
}
