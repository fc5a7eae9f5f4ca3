/** The distinct ids of a batch column. In time order a segment of 500 has about a dozen users: work is done once per id. */

import type { EmbeddingTable } from "../embedding-table.ts"

export interface Distinct {
  /** Distinct ids, ordered by step of size, then by first appearance. */
  ids: Int32Array
  /** How often each occurs. */
  counts: Int32Array
  /** For every row of the column, the position of its id in `ids`. */
  index: Int32Array
  /** groups[s] ids lie below step s; ids of step s are at groups[s] … groups[s+1]−1. */
  groups: Int32Array
}

/** Position of an id during one call; the stamp marks stale entries. */
let positions = new Int32Array(1024)
let stamps = new Int32Array(1024)
let stamp = 0

export function findDistinct(column: ArrayLike<number>, table: EmbeddingTable): Distinct {
  const rows = column.length
  const found = new Int32Array(rows)
  const first = new Int32Array(rows)
  const perStep = new Int32Array(table.sizes.length + 1)
  let distinct = 0
  if (stamp === 0x7fffffff) {
    stamps.fill(0)
    stamp = 0
  }
  const now = ++stamp
  let [place, seen] = [positions, stamps]
  for (let r = 0; r < rows; r++) {
    const id = column[r]
    if (id >= seen.length) {
      table.step(id) // refuses an unknown id before room is made for it
      extend(id)
      place = positions
      seen = stamps
    }
    if (seen[id] !== now) {
      seen[id] = now
      place[id] = distinct
      found[distinct++] = id
      perStep[table.step(id) + 1]++
    }
    first[r] = place[id]
  }
  for (let s = 1; s < perStep.length; s++) perStep[s] += perStep[s - 1]
  const groups = perStep.slice()
  const ids = new Int32Array(distinct)
  const order = new Int32Array(distinct)
  for (let d = 0; d < distinct; d++) {
    const position = perStep[table.step(found[d])]++
    order[d] = position
    ids[position] = found[d]
  }
  const index = new Int32Array(rows)
  const counts = new Int32Array(distinct)
  for (let r = 0; r < rows; r++) {
    const position = order[first[r]]
    index[r] = position
    counts[position]++
  }
  return { ids, counts, index, groups }
}

function extend(id: number): void {
  const capacity = Math.max(id + 1, 2 * positions.length)
  const moved = new Int32Array(capacity)
  moved.set(positions)
  positions = moved
  const grown = new Int32Array(capacity)
  grown.set(stamps)
  stamps = grown
}
