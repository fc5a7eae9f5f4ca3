/** The loop of every method against PyTorch's: rates on the same segments, peak memory, and whether both compute the same. */

import { execFile } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { openData } from "../../dist/datasets/open.js"
import { synthetic } from "../../dist/stream/synthetic/synthetic.js"
import { SEGMENT, takeEvents, writeGiven } from "./given.mjs"
import { findPython } from "./peer.mjs"

const execute = promisify(execFile)
const here = (name) => fileURLToPath(new URL(name, import.meta.url))

export const METHODS = ["dess-cv", "fixed-128", "esapn", "darts", "autoemb"]
/** What a plain loop in PyTorch reaches here on one thread: a slower peer proves nothing. */
const PLAIN_LOOP = 57_000
/** Segments left out at the start. */
const WARM_UP = { fastest: 50, usual: 1 }
/** Largest difference of a segment's test loss, from the same parameters. A DESS decision may turn on a rounding. */
const TOLERANCE = { "dess-cv": 1e-2, other: 1e-3 }

/** The streams at the two sizes. @param {{data?: string, events: number}} options */
async function openStreams({ data, events }) {
  const small = data ? await openData(data) : synthetic({ interactions: 1_000_209, users: 6040, items: 3706 })
  const counts = { user: 138_493, item: 27_278 }
  const large = synthetic({ interactions: 20_000_263, users: counts.user, items: counts.item })
  const source = data ? "the folder given" : "embedded stream"
  const own = { user: small.users, item: small.items }
  return [
    { size: "ML-1M", source, events: await takeEvents(small, { limit: events, counts: own }) },
    { size: "ml-20m", source: "embedded stream", events: await takeEvents(large, { limit: events, counts }) },
  ]
}

/**
 * @param {{folder: string, quick: boolean, data?: string, methods?: string[], segments?: number, say: (text: string) => void}} options
 * @returns {Promise<{headlines: object[], rows: object[], notes: string[]}>}
 */
export async function compareTraining({ folder, quick, data, methods = METHODS, segments = 200, say }) {
  const python = await findPython()
  const lengths = quick ? { ours: 60, usual: 4, check: 10 } : { ours: segments, usual: 20, check: 40 }
  const seconds = quick ? 10 : 20
  const [headlines, rows, notes] = [[], [], []]
  const streams = await openStreams({ data, events: lengths.ours * SEGMENT })
  for (const { size, source, events } of streams) {
    const given = join(folder, size)
    writeGiven(given, events)
    notes.push(
      `${size}: ${source}, its first ${lengths.ours * SEGMENT} events; every id of ${events.counts.user} users and ${events.counts.item} items has its row from the start`,
    )
    for (const method of methods) {
      say(`training, ${size}, ${method}`)
      try {
        const runs = await runInTurns(python, { given, method, lengths, seconds, quick })
        const result = { size, method, ...runs }
        rows.push(...describe(result))
        if (python) headlines.push(headline(result))
        if (python && method === "fixed-128" && size === "ML-1M") notes.push(judgePeer(runs.theirs.fastest))
      } catch (error) {
        process.exitCode = 1
        notes.push(`${size}, ${method}: not measured: ${error.message}`)
      }
    }
  }
  if (python) {
    say("training, the same numbers?")
    for (const method of methods)
      notes.push(await checkSame(python, { folder, method, events: streams[0].events, segments: lengths.check }))
  }
  return { headlines, rows, notes }
}

/** Ours and the peer in turns and equally often, so that a busy minute meets both. */
async function runInTurns(python, { given, method, lengths, seconds, quick }) {
  const [mine, theirs] = [[], { fastest: [], usual: [] }]
  const threadCounts = quick ? [1] : [1, 2]
  // What the peer's idle threads do: sleeping suits a busy machine, spinning a quiet one.
  for (const idle of quick ? ["sleep"] : ["sleep", "spin"])
    for (const threads of threadCounts) {
      const common = { given, method, threads, segments: lengths.ours }
      mine.push(await runOurs(common))
      if (python) theirs.fastest.push(await runPython(python, { ...common, form: "fastest", idle }))
    }
  for (const threads of python ? threadCounts : []) {
    const common = { given, method, threads, segments: lengths.usual }
    theirs.usual.push(await runPython(python, { ...common, form: "usual", seconds }))
  }
  // Slow ones are stopped: what all of them ran is compared.
  return { mine, theirs, usualSegments: Math.min(...theirs.usual.map(({ times }) => times.length)) }
}

/** Interactions per second over segments from … to. */
function rate(run, from, to, clock = "times") {
  const times = run[clock]
  const counted = times.slice(Math.min(from, times.length - 1), to)
  return (SEGMENT * counted.length) / counted.reduce((sum, time) => sum + time, 0)
}

const best = (runs, from, to, clock) => Math.max(...runs.map((run) => rate(run, from, to, clock)))

function headline({ size, method, mine, theirs, usualSegments }) {
  const fastest = best(mine, WARM_UP.fastest) / best(theirs.fastest, WARM_UP.fastest)
  const usual = best(mine, WARM_UP.usual, usualSegments) / best(theirs.usual, WARM_UP.usual, usualSegments)
  const target = { "dess-cv": [2, 10], "fixed-128": [2, undefined] }[method] ?? []
  const show = (value, wanted) =>
    `${value.toFixed(2)}×${wanted === undefined ? "" : ` (target ${wanted}×${value >= wanted ? "" : ", missed"})`}`
  const one = (runs) => runs.filter(({ threads }) => threads === 1)
  const processor =
    best(one(mine), WARM_UP.fastest, undefined, "processor") /
    best(one(theirs.fastest), WARM_UP.fastest, undefined, "processor")
  return {
    size,
    method,
    "dess / fastest PyTorch": show(fastest, target[0]),
    "dess / usual PyTorch": show(usual, target[1]),
    "one thread, by processor time, fastest": `${processor.toFixed(2)}×`,
  }
}

function describe({ size, method, mine, theirs, usualSegments }) {
  const row = (who, runs, from, to) => ({
    size,
    method,
    who,
    "1 thread /s": pick(runs, 1, from, to),
    "2 threads /s": pick(runs, 2, from, to),
    "1 thread, per processor second": pick(runs, 1, from, to, "processor"),
    "peak MB": Math.round(Math.min(...runs.map(({ peakBytes }) => peakBytes)) / 1e6),
    "mean loss": (sum(runs[0].losses) / runs[0].losses.length).toFixed(4),
    segments: runs[0].losses.length,
  })
  const rows = [row("dess", mine, WARM_UP.fastest)]
  if (theirs.fastest.length > 0) {
    rows.push(row("PyTorch, fastest", theirs.fastest, WARM_UP.fastest))
    rows.push({
      ...row("dess, on the next line's segments", mine, WARM_UP.usual, usualSegments),
      segments: usualSegments,
      "mean loss": (sum(mine[0].losses.slice(0, usualSegments)) / usualSegments).toFixed(4),
    })
    rows.push(row("PyTorch, usual", theirs.usual, WARM_UP.usual, usualSegments))
  }
  return rows
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)

function pick(runs, threads, from, to, clock) {
  const own = runs.filter((run) => run.threads === threads)
  return own.length === 0 ? "–" : Math.round(best(own, from, to, clock))
}

function judgePeer(runs) {
  const one = runs.filter(({ threads }) => threads === 1)
  const [reached, processor] = ["times", "processor"].map((clock) => best(one, WARM_UP.fastest, undefined, clock))
  const show = (value) => Math.round(value).toLocaleString("en")
  const verdict =
    reached >= PLAIN_LOOP
      ? "a fair peer"
      : processor >= PLAIN_LOOP
        ? "a fair peer on a busy machine: repeat this on a quiet one"
        : "short of it, the ratio flatters us, unless the machine is busy"
  return `fastest PyTorch, fixed-128, ML-1M, one thread: ${show(reached)}/s, ${show(processor)} per processor second; a plain loop reaches ${show(PLAIN_LOOP)} on a quiet EPYC: ${verdict}`
}

/** Ours and the fastest form from the same first parameters, segment by segment. */
async function checkSame(python, { folder, method, events, segments }) {
  const given = join(folder, `start-${method}`)
  const length = segments * SEGMENT
  const [user, item, label] = [events.user, events.item, events.label].map((column) => column.slice(0, length))
  const most = (ids) => ids.reduce((a, b) => Math.max(a, b), 0) + 1
  writeGiven(
    given,
    { user, item, label, counts: { user: most(user), item: most(item) }, features: events.features },
    { start: method },
  )
  const ours = await runOurs({ given, method, threads: 1, segments })
  const theirs = await runPython(python, { given, method, form: "fastest", threads: 1, segments })
  const furthest = Math.max(...ours.losses.map((loss, n) => Math.abs(loss - theirs.losses[n])))
  const tolerance = TOLERANCE[method] ?? TOLERANCE.other
  const verdict = `${method}: test losses of ${segments} segments from the same parameters differ by at most ${furthest.toExponential(1)} (tolerance ${tolerance})`
  if (furthest <= tolerance) return verdict
  process.exitCode = 1
  return `**its ratios mean nothing: PyTorch computes something else.** ${verdict}`
}

async function runOurs({ given, method, threads, segments }) {
  const words = ["--given", given, "--method", method, "--threads", `${threads}`, "--segments", `${segments}`]
  return JSON.parse((await execute(process.execPath, [here("ours.mjs"), ...words], { maxBuffer: 1e9 })).stdout)
}

async function runPython({ command, env }, { given, method, form, threads, segments, idle = "sleep", seconds = 1e9 }) {
  const words = Object.entries({ given, method, form, threads, segments, idle, seconds }).flatMap(([k, x]) => [
    `--${k}`,
    `${x}`,
  ])
  return JSON.parse((await execute(command, [here("stream.py"), ...words], { env, maxBuffer: 1e9 })).stdout)
}
