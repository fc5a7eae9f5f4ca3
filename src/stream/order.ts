/** The order in which rows are met: by time (stable), or shuffled by a seed. An order is an index of rows. */

import { DessError, show } from "../errors.ts"
import { Random } from "../kernels/random.ts"

export type Order = "time" | "shuffled"

/** Refuses an order that is neither "time" nor "shuffled". */
export function checkOrder(value: unknown): Order {
  if (value === "time" || value === "shuffled") return value
  throw new DessError("INVALID_ARGUMENT", `order: expected "time" or "shuffled", got ${show(value)}`)
}

/** Rows by ascending timestamp, equal ones in the order given; nothing when the rows are in that order already. */
export function timeOrder(timestamp: Float64Array): Uint32Array | undefined {
  const { length } = timestamp
  let sorted = true
  let first = Number.POSITIVE_INFINITY
  let last = Number.NEGATIVE_INFINITY
  for (let i = 0; i < length; i++) {
    const time = timestamp[i]
    if (time < last) sorted = false
    else last = time
    if (time < first) first = time
  }
  if (sorted) return undefined

  // 64-bit keys, time above row, go through the engine's native sort: 20 million rows in 3 s. The words lie low first.
  const keys = new BigUint64Array(length)
  const words = new Uint32Array(keys.buffer)
  const scale = 0xffffffff / (last - first)
  for (let i = 0; i < length; i++) {
    words[2 * i] = i
    words[2 * i + 1] = Math.floor((timestamp[i] - first) * scale)
  }
  keys.sort()
  const order = new Uint32Array(length)
  for (let i = 0; i < length; i++) order[i] = words[2 * i]
  for (let start = 0, end = 1; start < length; start = end++) {
    while (end < length && words[2 * end + 1] === words[2 * start + 1]) end++
    if (end - start > 1) sortRun(order.subarray(start, end), timestamp)
  }
  return order
}

/** Rows too close in time for 32 bits. */
function sortRun(run: Uint32Array, timestamp: Float64Array): void {
  for (let i = 1; i < run.length; i++) {
    if (timestamp[run[i]] >= timestamp[run[i - 1]]) continue
    run.sort((a, b) => timestamp[a] - timestamp[b] || a - b)
    return
  }
}

/** All rows in a random order (Fisher–Yates). */
export function shuffledOrder(length: number, seed: number): Uint32Array {
  const order = rows(length)
  const random = new Random(seed, "shuffle")
  for (let i = length - 1; i > 0; i--) {
    const j = random.integer(i + 1)
    const held = order[i]
    order[i] = order[j]
    order[j] = held
  }
  return order
}

function rows(length: number): Uint32Array {
  const index = new Uint32Array(length)
  for (let i = 0; i < length; i++) index[i] = i
  return index
}
