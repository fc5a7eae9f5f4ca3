/**
 * `npm run bench -- live --data <MovieLens folder>`: lists as the live recommender gives them, in the protocol of "Time to
 * Split" (RecSys '25): users and items with five events or more, consecutive repeats dropped, everything up to the .9
 * quantile of time learned before; every later event is asked for by `recommend` before it is `observe`d. What was observed
 * is waited for (`drain`) after every n events, or never.
 *
 * `--waits 20,500,never`, `--every 5` (asks for every fifth target; all are observed), `--build <folder>[,<folder>]`:
 * builds to compare, in turns, on the same learned state (default dist; the first one learns it, with `--seed n`, or it is
 * the directory of `--state`), `--limit n` targets.
 */

import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { printTable } from "./report.mjs"

const COUNT = 10

/** Events in order of time, those of rare users and items left out until all that is left has five. */
export function readFiveCore(path) {
  const lines = readFileSync(join(path, "ratings.dat"), "latin1").split("\n")
  let events = lines.flatMap((line) => {
    const [user, item, , time] = line.split("::")
    return time === undefined ? [] : [{ user, item, timestamp: Number(time) }]
  })
  events = events
    .map((event, at) => ({ event, at }))
    .sort((a, b) => a.event.timestamp - b.event.timestamp || a.at - b.at)
  events = events.map(({ event }) => event)
  for (let before = -1; before !== events.length; ) {
    before = events.length
    for (const side of ["user", "item"]) {
      const counts = new Map()
      for (const event of events) counts.set(event[side], (counts.get(event[side]) ?? 0) + 1)
      events = events.filter((event) => counts.get(event[side]) >= 5)
    }
  }
  const latest = new Map()
  return events.filter(({ user, item }) => {
    const isRepeat = latest.get(user) === item
    latest.set(user, item)
    return !isRepeat
  })
}

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]

/** Asks and observes; `wait` 0 never waits. */
async function follow(Recommender, { directory, targets, wait, every }) {
  const recommender = await Recommender.open({ directory, snapshotEvents: 100_000_000, snapshotDelay: "30d" })
  try {
    let [asked, hits, gain] = [0, 0, 0]
    const times = []
    const started = performance.now()
    for (let n = 0; n < targets.length; n++) {
      const event = targets[n]
      if (n % every === 0) {
        const before = performance.now()
        const list = await recommender.recommend(event.user, { count: COUNT })
        times.push(performance.now() - before)
        const place = list.findIndex(({ item }) => item === event.item)
        asked++
        if (place >= 0) {
          hits++
          gain += 1 / Math.log2(place + 2)
        }
      }
      for (;;) {
        try {
          await recommender.observe(event)
          break
        } catch (error) {
          if (error.code !== "BUSY") throw error
          await new Promise((done) => setTimeout(done, 20))
        }
      }
      if (wait > 0 && (n + 1) % wait === 0) await recommender.drain()
    }
    times.sort((a, b) => a - b)
    const seconds = (performance.now() - started) / 1000
    return {
      asked,
      hr: hits / asked,
      ndcg: gain / asked,
      p50: quantile(times, 0.5),
      p99: quantile(times, 0.99),
      seconds,
    }
  } finally {
    await recommender.close()
  }
}

async function learnPast(Recommender, events, options) {
  const recommender = await Recommender.open({ ...options, queue: 1_000_000 })
  for (let from = 0; from < events.length; from += 5000) await recommender.observe(events.slice(from, from + 5000))
  await recommender.close()
}

/** @param {string[]} given */
export async function run(given) {
  const flag = (name, otherwise) => {
    const at = given.indexOf(`--${name}`)
    return at < 0 ? otherwise : given[at + 1]
  }
  const data = flag("data", process.env.DESS_BENCH_DATA)
  if (data === undefined) throw new Error("data: expected --data <MovieLens folder>")
  const every = Number(flag("every", "5"))
  const builds = flag("build", "dist").split(",")
  const events = readFiveCore(data)
  const cut = quantile(
    events.map(({ timestamp }) => timestamp),
    0.9,
  )
  const past = events.filter(({ timestamp }) => timestamp <= cut)
  const targets = events.slice(past.length, past.length + Number(flag("limit", "1000000000")))
  console.log(`${past.length} events learned before, ${targets.length} targets, every ${every} asked for\n`)
  const open = async (build) => (await import(pathToFileURL(resolve(build, "index.js")).href)).Recommender
  const root = mkdtempSync(join(tmpdir(), "dess-live-"))
  try {
    const learned = flag("state", join(root, "learned"))
    const seed = Number(flag("seed", "1"))
    if (!given.includes("--state")) await learnPast(await open(builds[0]), past, { directory: learned, seed })
    const rows = []
    for (const name of flag("waits", "20,500,never").split(","))
      for (const build of builds) {
        const directory = join(root, "run")
        cpSync(learned, directory, { recursive: true })
        const wait = name === "never" ? 0 : Number(name)
        const found = await follow(await open(build), { directory, targets, wait, every })
        rmSync(directory, { recursive: true })
        const { asked, hr, ndcg, p50, p99, seconds } = found
        const row = { build, "waited for every": name, asked, "HR@10": hr.toFixed(4), "NDCG@10": ndcg.toFixed(4) }
        rows.push({ ...row, "p50 ms": p50.toFixed(2), "p99 ms": p99.toFixed(2), seconds: Math.round(seconds) })
        console.error(JSON.stringify(rows.at(-1)))
      }
    printTable(rows)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
