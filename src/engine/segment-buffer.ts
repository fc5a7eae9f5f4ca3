/** Shared memory that passes a segment to the training thread: no copy, no garbage. */

import { type Segment, SIDES } from "../types.ts"

/** Bytes of a row: timestamp, user, item, rating, the bytes of both names, and its weight. */
const ROW = 8 + 4 + 4 + 4 + 2 + 2 + 4
/** Initial capacity in rows. */
const FIRST = 512

export class SegmentBuffer {
  #rows = FIRST
  #memory = new SharedArrayBuffer(ROW * FIRST)

  /** The segment in this memory, valid until the next one is written. */
  lend(segment: Segment): Segment {
    const { length } = segment
    if (length > this.#rows) {
      this.#rows = length
      this.#memory = new SharedArrayBuffer(ROW * length)
    }
    const [memory, rows] = [this.#memory, this.#rows]
    const lent: Segment = {
      ...segment,
      timestamp: new Float64Array(memory, 0, length),
      user: new Int32Array(memory, 8 * rows, length),
      item: new Int32Array(memory, 12 * rows, length),
      rating: new Float32Array(memory, 16 * rows, length),
    }
    for (const name of ["timestamp", "user", "item", "rating"] as const) lent[name].set(segment[name])
    const { nameBytes, weight } = segment
    if (weight) {
      lent.weight = new Float32Array(memory, 24 * rows, length)
      lent.weight.set(weight)
    }
    if (!nameBytes) return lent
    lent.nameBytes = {
      user: new Uint16Array(memory, 20 * rows, length),
      item: new Uint16Array(memory, 22 * rows, length),
    }
    for (const side of SIDES) lent.nameBytes[side].set(nameBytes[side])
    return lent
  }
}
