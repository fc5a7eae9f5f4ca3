/** From which segment on an id had which size: what `explain` shows. */

import { Lists } from "../context/lists.ts"
import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"

/** Changes kept per id; of more the oldest goes. */
const KEPT = 16

export class SizeLog {
  /** Two cells a change: segment and step. */
  readonly #changes: Record<Side, Lists> = { user: new Lists(), item: new Lists() }

  add(side: Side, id: number, segment: number, step: number): void {
    const changes = this.#changes[side]
    if (changes.count(id) === 2 * KEPT) {
      changes.remove(id, 0)
      changes.remove(id, 0)
    }
    changes.append(id, segment)
    changes.append(id, step)
  }

  /** Oldest first. */
  of(side: Side, id: number): { segment: number; step: number }[] {
    const { cells, start } = this.#changes[side]
    const found: { segment: number; step: number }[] = []
    for (let c = 0; c < this.#changes[side].count(id); c += 2)
      found.push({ segment: cells[start[id] + c], step: cells[start[id] + c + 1] })
    return found
  }

  forget(side: Side, ids: Iterable<number>): void {
    for (const id of ids) this.#changes[side].clear(id)
  }

  save(state: State): void {
    for (const side of ["user", "item"] as const) this.#changes[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of ["user", "item"] as const) this.#changes[side].load(state.at(side))
  }
}
