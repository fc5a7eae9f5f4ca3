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
  let sorted = true
  let signed = false
  for (let i = 0; i < timestamp.length; i++) {
    if (i > 0 && timestamp[i] < timestamp[i - 1]) sorted = false
    if (timestamp[i] < 0 || Object.is(timestamp[i], -0)) signed = true
  }
  if (sorted) return undefined
  if (signed) return rows(timestamp.length).sort((a, b) => timestamp[a] - timestamp[b] || a - b)
  return radixOrder(timestamp)
}

/**
 * The bits of non-negative doubles, read as whole numbers, are in the order of their values: least digit first,
 * 16 bits at a time, leaving out the digits all rows share (whole seconds need three passes, not four).
 */
function radixOrder(timestamp: Float64Array): Uint32Array {
  const { length } = timestamp
  const digits = new Uint16Array(timestamp.buffer, timestamp.byteOffset, 4 * length)
  let from: Uint32Array = rows(length)
  let to: Uint32Array = new Uint32Array(length)
  for (let digit = 0; digit < 4; digit++) {
    const place = new Uint32Array(65536)
    for (let i = digit; i < digits.length; i += 4) place[digits[i]]++
    if (place[digits[digit]] === length) continue
    for (let value = 0, next = 0; value < 65536; value++) {
      const count = place[value]
      place[value] = next
      next += count
    }
    for (let i = 0; i < length; i++) to[place[digits[4 * from[i] + digit]]++] = from[i]
    const swap = from
    from = to
    to = swap
  }
  return from
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
