/** Streams whose right sizes are known. */

import { Random } from "../../src/kernels/random.ts"
import type { Segment } from "../../src/types.ts"

/** One event: who, what, and the rating. */
export type Row = readonly [user: number, item: number, rating: number]

export function segmentOf(rows: readonly Row[], index: number): Segment {
  return {
    index,
    length: rows.length,
    trainLength: rows.length,
    time: index * 1000,
    user: Int32Array.from(rows, ([user]) => user),
    item: Int32Array.from(rows, ([, item]) => item),
    rating: Float32Array.from(rows, ([, , rating]) => rating),
    timestamp: Float64Array.from(rows, () => index),
  }
}

/** Each user likes one half of the items and dislikes the other; whose half is which is not said by any bias. */
export const taste = (user: number, item: number) => ((user >> 1) % 2 === item % 2 ? 5 : 1)

export const noise = (random: Random) => (random.next() < 0.5 ? 5 : 1)

/** Segments of 500 events of users and items drawn evenly; `rate` says what they think of each other. */
export function* planted(
  p: { users: number; items: number; segments: number; seed: number; from?: number },
  rate: (user: number, item: number, segment: number, random: Random) => number,
): Generator<Segment> {
  const random = new Random(p.seed, "planted")
  for (let n = 0; n < p.segments; n++) {
    const rows = Array.from({ length: 500 }, (): Row => {
      const [user, item] = [random.integer(p.users), random.integer(p.items)]
      return [user, item, rate(user, item, n, random)]
    })
    yield segmentOf(rows, n + (p.from ?? 0))
  }
}
