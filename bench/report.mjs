/** What every bench shares: timing, a sink, tables, ratios, and the batches that both we and the peer train on. */

import { Random } from "../dist/kernels/random.js"

/** Keeps the engine from dropping a computation whose result nobody reads. */
let sunk = 0

/**
 * Swallows a value; a number or the first element of an array is really read.
 * @param {unknown} value
 */
export function sink(value) {
  const number = typeof value === "number" ? value : ArrayBuffer.isView(value) ? value[0] : 1
  sunk = (sunk + number) % 1e9
}

/** @returns {number} what the sink holds: print it where a bench must be beyond doubt */
export function sinkTotal() {
  return sunk
}

/**
 * Calls a function over and over and times it in chunks, milliseconds per call.
 * @param {() => unknown} call
 * @param {{seconds?: number, warmup?: number, chunk?: number}} [options] `seconds` to measure, after `warmup` seconds that
 *   do not count; `chunk` calls are one timing (default: as many as take about a millisecond)
 * @returns {{best: number, mean: number, sd: number, times: number[]}} over chunks; `times` has each of them
 */
export function measure(call, { seconds = 1, warmup = seconds / 3, chunk } = {}) {
  const start = performance.now()
  let calls = 0
  do {
    sink(call())
    calls++
  } while (performance.now() - start < warmup * 1000)
  const perCall = (performance.now() - start) / calls
  const size = chunk ?? Math.max(1, Math.ceil(1 / perCall))
  const times = []
  const until = performance.now() + seconds * 1000
  while (performance.now() < until || times.length < 3) {
    const begin = performance.now()
    for (let i = 0; i < size; i++) sink(call())
    times.push((performance.now() - begin) / size)
  }
  return summarize(times)
}

/**
 * Best (smallest), mean and population standard deviation, and the times themselves.
 * @param {readonly number[]} times
 */
export function summarize(times) {
  const mean = times.reduce((sum, x) => sum + x, 0) / times.length
  const variance = times.reduce((sum, x) => sum + (x - mean) ** 2, 0) / times.length
  return { best: times.reduce((least, x) => Math.min(least, x)), mean, sd: Math.sqrt(variance), times: [...times] }
}

/**
 * How many times a is b: "2.13×".
 * @param {number} a
 * @param {number} b
 */
export function ratio(a, b) {
  return `${(a / b).toFixed(2)}×`
}

/**
 * Prints rows as an aligned Markdown table; the first row's keys are the head, numbers stand to the right.
 * @param {readonly Record<string, string | number>[]} rows
 */
export function printTable(rows) {
  if (rows.length === 0) return
  const names = Object.keys(rows[0])
  const cells = rows.map((row) => names.map((name) => formatCell(row[name])))
  const right = names.map((name) => rows.every((row) => /^[\d.−-]/.test(formatCell(row[name]))))
  const widths = names.map((name, c) => Math.max(name.length, ...cells.map((row) => row[c].length)))
  const line = (row) => row.map((x, c) => (right[c] ? x.padStart(widths[c]) : x.padEnd(widths[c]))).join(" | ")
  console.log(`| ${line(names)} |`)
  console.log(`|${widths.map((width, c) => "-".repeat(width + 1) + (right[c] ? ":" : "-")).join("|")}|`)
  for (const row of cells) console.log(`| ${line(row)} |`)
}

/** Whole numbers in groups of three, others to three significant digits or better. */
function formatCell(value) {
  if (typeof value !== "number") return String(value ?? "")
  if (Math.abs(value) >= 1000 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US")
  return Math.abs(value) >= 100 ? value.toFixed(1) : value.toPrecision(3)
}

/** The default ladder, and the share of the distinct ids of each side that is held at each of its sizes. */
const SIZES = [2, 4, 8, 16, 64, 128]
const SHARES = {
  user: [0.15, 0.2, 0.2, 0.2, 0.15, 0.1], // mean size 28
  item: [0.02, 0.03, 0.05, 0.1, 0.2, 0.6], // mean size 92
}

/**
 * A training batch with a stated number of distinct ids. A segment of 500 of MovieLens 1M in time order has 12 distinct
 * users (median; 80 % of the segments have 6 to 35), the busiest with 155 rows, and 425 distinct items, none more than
 * about four times; `users: 12, items: 400` is that. `users: 500` is the other extreme, nothing shared on the user side.
 * Users are of mixed size, items mostly large, as a few hundred segments of growth leave them.
 * @param {{rows?: number, users?: number, items?: number, seed?: number, model?: "ladder" | "fixed"}} [options]
 *   `fixed` is one size of 128 for every id, without a ladder
 */
export function makeBatch({ rows = 500, users = 12, items = 400, seed = 1, model = "ladder" } = {}) {
  const random = new Random(seed, "bench", users, items)
  const side = (count, skew) => drawColumn({ random, rows, count, skew })
  const user = side(users, 2) // the busiest of 12 gets about 150 rows
  const item = side(items, 1)
  const label = Array.from({ length: rows }, () => (random.next() < 0.575 ? 1 : 0))
  const classes = (count, shares) => (model === "fixed" ? new Array(count).fill(0) : drawClasses(random, count, shares))
  return {
    model,
    sizes: model === "fixed" ? [128] : SIZES,
    hidden: 512,
    /** `sizes[k]` is the index into the ladder's sizes of distinct id k. */
    user: { sizes: classes(users, SHARES.user) },
    item: { sizes: classes(items, SHARES.item) },
    rows: { user, item, label },
  }
}

/** Every id once, the rest of the rows drawn as ⌊count·uˢᵏᵉʷ⌋, then shuffled. */
function drawColumn({ random, rows, count, skew }) {
  if (count > rows) throw new RangeError(`distinct ids: expected at most ${rows} (one per row), got ${count}`)
  const draw = () => Math.floor(count * random.next() ** skew)
  const column = Array.from({ length: rows }, (_, row) => (row < count ? row : draw()))
  return shuffle(random, column)
}

/** Size classes in the stated shares, exact to rounding, in random order. */
function drawClasses(random, count, shares) {
  const classes = []
  let share = 0
  shares.forEach((part, k) => {
    share += part
    while (classes.length < Math.round(share * count)) classes.push(k)
  })
  return shuffle(random, classes)
}

function shuffle(random, values) {
  for (let i = values.length - 1; i > 0; i--) {
    const j = random.integer(i + 1)
    const value = values[i]
    values[i] = values[j]
    values[j] = value
  }
  return values
}
