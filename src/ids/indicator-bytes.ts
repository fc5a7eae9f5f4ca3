/** The indicators of one id, in bytes. */

import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { Side } from "../types.ts"
import type { Indicators, ItemIndicators, UserIndicators } from "./indicators.ts"

/** The largest feature that is taken from elsewhere. */
const LARGEST = 1e9

interface At {
  side: Side
  id: number
}

export function writeIndicators(out: Packer, indicators: Indicators, { side, id }: At): void {
  if (side === "user") {
    writeUser(out, indicators.ofUser(id))
    return
  }
  const { frequency, pod, measuredAt } = indicators.ofItem(id)
  out.count(frequency)
  out.float(pod)
  out.count(measuredAt)
}

/** Reads them; the result takes them up. */
export function readIndicators(from: Unpacker, indicators: Indicators, { side, id }: At): () => void {
  if (side === "user") {
    const user = readUser(from, indicators.columns)
    return () => indicators.putUser(id, user)
  }
  const item = readItem(from)
  return () => indicators.putItem(id, item)
}

/** A user's frequency, and what it has met: of each vector how many entries, whether all are 1, and its count. */
function writeUser(out: Packer, { frequency, met }: UserIndicators): void {
  out.count(frequency)
  out.count(met.length)
  for (const { entries, count } of met) {
    const plain = entries.every(({ value }) => value === 1)
    out.count(2 * entries.length + (plain ? 1 : 0))
    for (const { column, value } of entries) {
      out.count(column)
      if (!plain) out.double(value)
    }
    out.count(count)
  }
}

function readUser(from: Unpacker, columns: number): UserIndicators {
  const frequency = from.count(0xffff_ffff)
  const met: UserIndicators["met"] = []
  for (let n = from.count(columns === 0 ? 0 : frequency); n > 0; n--) {
    const head = from.count(2 * columns + 1)
    const entries = Array.from({ length: head >> 1 }, () => {
      const column = from.count(columns - 1)
      const value = head % 2 === 1 ? 1 : from.double()
      if (Math.abs(value) > LARGEST) throw from.damaged(`features up to ${LARGEST}`, value)
      return { column, value }
    })
    const count = from.count(frequency)
    if (count === 0) throw from.damaged("vectors that were met", 0)
    met.push({ entries, count })
  }
  return { frequency, met }
}

function readItem(from: Unpacker): ItemIndicators {
  const item = { frequency: from.count(0xffff_ffff), pod: from.float(), measuredAt: from.count(0xffff_ffff) }
  if (item.pod < 0) throw from.damaged("a diversity from 0", item.pod)
  return item
}
