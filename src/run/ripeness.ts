/** How many events each id has learned its last rung from, up to the few it takes before the rung can be judged. */

import { grown, nextCapacity } from "../context/growth.ts"
import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"

export class Ripeness {
  readonly #needed: number
  readonly #events: Record<Side, Uint8Array> = { user: new Uint8Array(64), item: new Uint8Array(64) }

  constructor(needed: number) {
    this.#needed = needed
  }

  isRipe(side: Side, id: number): boolean {
    return this.#needed === 0 || this.#events[side][id] >= this.#needed
  }

  /** Counts an event of an id. */
  add(side: Side, id: number): void {
    if (this.#needed === 0 || this.isRipe(side, id)) return
    const events = this.#events[side]
    if (id >= events.length) this.#events[side] = grown(events, nextCapacity(events.length, id + 1))
    this.#events[side][id]++
  }

  /** The id has a rung it has not learned from, or is gone. */
  reset(side: Side, id: number): void {
    if (id < this.#events[side].length) this.#events[side][id] = 0
  }

  save(state: State): void {
    state.put("user", this.#events.user)
    state.put("item", this.#events.item)
  }

  load(state: State): void {
    this.#events.user = state.take("user", Uint8Array).slice()
    this.#events.item = state.take("item", Uint8Array).slice()
  }
}
