/** How many events each id has learned its last rung from, up to the few it takes before the rung can be judged. */

import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { Columns } from "./columns.ts"

const eventColumn = () => new Columns({ events: "u8" })

export class Warmup {
  readonly #needed: number
  readonly #learned: Record<Side, ReturnType<typeof eventColumn>> = { user: eventColumn(), item: eventColumn() }

  constructor(needed: number) {
    this.#needed = needed
  }

  isDone(side: Side, id: number): boolean {
    const learned = this.#learned[side]
    return this.#needed === 0 || (id < learned.length && learned.at.events[id] >= this.#needed)
  }

  /** Counts an event of an id. */
  add(side: Side, id: number): void {
    if (this.isDone(side, id)) return
    const learned = this.#learned[side]
    learned.reserve(id)
    learned.at.events[id]++
  }

  /** The id has a rung it has not learned from, or is gone. */
  reset(side: Side, id: number): void {
    this.#learned[side].clear(id)
  }

  get bytes(): number {
    return this.#learned.user.bytes + this.#learned.item.bytes
  }

  save(state: State): void {
    for (const side of SIDES) this.#learned[side].save(state.at(side))
  }

  load(state: State): void {
    for (const side of SIDES) this.#learned[side].load(state.at(side))
  }
}
