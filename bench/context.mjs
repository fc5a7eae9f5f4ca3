// @ts-check
/** What one interaction costs the indicators, and whether that grows along a long stream: last tenth against first. */

import { ratio, sink, summarize } from "./report.mjs"

const INTERACTIONS = 2_000_000
const TENTHS = 10
const BATCH = 500
const REPEATS = 3
const ITEMS = 4000
const GENRES = 18
/** Users who may come back; the oldest leaves for good when a new one arrives. */
const ACTIVE = 3000

/** @typedef {{ length: number, user: Int32Array, item: Int32Array }} Batch */

/** @param {typeof import("../src/kernels/random.ts").Random} Random */
function makeFeatures(Random) {
  const random = new Random(1, "bench features")
  const values = new Float32Array(ITEMS * GENRES)
  for (let item = 0; item < ITEMS; item++) {
    const genres = 1 + random.integer(3)
    for (let g = 0; g < genres; g++) values[item * GENRES + Math.floor(GENRES * random.next() ** 2)] = 1
  }
  const columns = Array.from({ length: GENRES }, (_, g) => `genre ${g}`)
  return { columns, values, present: new Uint8Array(ITEMS).fill(1) }
}

/**
 * Users in bursts of about forty, half of them new; skewed items. The mixture is the same from the first event to the last.
 * @param {typeof import("../src/kernels/random.ts").Random} Random
 * @returns {() => Batch}
 */
function makeStream(Random) {
  const random = new Random(1, "bench stream")
  const length = INTERACTIONS / TENTHS
  const user = new Int32Array(length)
  const item = new Int32Array(length)
  let users = 0
  let current = 0
  return () => {
    for (let l = 0; l < length; l++) {
      if (random.next() < 1 / 40) {
        const isNew = users === 0 || random.next() < 0.5
        current = isNew ? users++ : users - 1 - random.integer(Math.min(users, ACTIVE))
      }
      user[l] = current
      item[l] = Math.floor(ITEMS * random.next() ** 3)
    }
    return { length, user, item }
  }
}

/** Measures, prints, and returns nanoseconds per interaction (best of the repeats) and the ratio of the tenths. */
async function benchContext() {
  const { Indicators } = await import("../dist/ids/indicators.js")
  const { Random } = await import("../dist/kernels/random.js")
  const features = makeFeatures(Random)
  const column = () => new Float64Array(BATCH)
  const out = { userFrequency: column(), itemFrequency: column(), ind: column(), pod: column() }

  /** Nanoseconds per interaction of every tenth. @param {number} tenths */
  const run = (tenths) => {
    const next = makeStream(Random)
    const indicators = new Indicators({ features })
    /** @type {number[]} */
    const times = []
    for (let tenth = 0; tenth < tenths; tenth++) {
      const { length, user, item } = next()
      const begin = performance.now()
      for (let from = 0; from < length; from += BATCH) {
        const to = Math.min(length, from + BATCH)
        indicators.observeBatch(
          { length: to - from, user: user.subarray(from, to), item: item.subarray(from, to) },
          out,
        )
        sink(out.ind[0] + out.pod[0])
      }
      times.push(((performance.now() - begin) * 1e6) / length)
    }
    return { times, bytes: indicators.bytes }
  }

  run(1)
  const runs = Array.from({ length: REPEATS }, () => run(TENTHS))
  const { best, mean, sd } = summarize(runs.map(({ times }) => times.reduce((sum, time) => sum + time, 0) / TENTHS))
  const first = Math.min(...runs.map(({ times }) => times[0]))
  const last = Math.min(...runs.map(({ times }) => times[TENTHS - 1]))
  console.log(`indicators, ${INTERACTIONS.toLocaleString("en")} interactions, ${GENRES} feature columns`)
  console.log(`  ns per interaction  best ${best.toFixed(0)}, mean ${mean.toFixed(0)} ± ${sd.toFixed(0)}`)
  console.log(`  first tenth ${first.toFixed(0)}, last tenth ${last.toFixed(0)}, ratio ${ratio(last, first)}`)
  console.log(`  held ${(runs[0].bytes / 2 ** 20).toFixed(1)} MiB`)
  return { nanoseconds: best, ratio: last / first }
}

export { benchContext, benchContext as run }
