/**
 * What the rest of the process keeps of ids, so far as a learner can count it from the stream: a replay counts the same.
 * An index has a price whoever it belongs to; on top come the bytes of its name, and of a user those of the items it has met.
 */

import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { Columns } from "./columns.ts"

/** Bytes the rest of the process keeps of every index of a side, and of every item a user has met. */
export interface ProcessPrices extends Record<Side, number> {
  met: number
}

/** Items kept per user; of more the oldest is forgotten. */
export const LONGEST_HISTORY = 10_000

export class ProcessBytes {
  readonly #prices: Readonly<ProcessPrices>
  readonly #ids = {
    user: new Columns({ name: "u16", met: "u16" }),
    item: new Columns({ name: "u16", met: "u16" }),
  }
  /** Of names and of items met. */
  #bytes = 0
  /** Of item details, idempotency keys, feedback and notes. */
  propertyBytes = 0

  constructor(prices: Readonly<ProcessPrices>) {
    this.#prices = prices
  }

  /** Bytes of an index. */
  perId(side: Side): number {
    return this.#prices[side] + this.#ids[side].width
  }

  /** Indices there have been, of both sides. */
  get reach(): number {
    return this.#ids.user.length + this.#ids.item.length
  }

  /** What differs from id to id, of all that are here. */
  get bytes(): number {
    return this.#bytes + this.propertyBytes
  }

  /** An event of an id whose name has this many bytes. */
  meet(side: Side, id: number, nameBytes: number): void {
    const ids = this.#ids[side]
    ids.reserve(id)
    const { name, met } = ids.at
    this.#bytes += nameBytes - name[id]
    name[id] = nameBytes
    if (side === "item" || met[id] === LONGEST_HISTORY) return
    met[id]++
    this.#bytes += this.#prices.met
  }

  forget(side: Side, ids: Iterable<number>): void {
    const { name, met } = this.#ids[side].at
    for (const id of ids) {
      if (id >= this.#ids[side].length) continue
      this.#bytes -= name[id] + this.#prices.met * met[id]
      this.#ids[side].clear(id)
    }
  }

  save(state: State): void {
    state.set("prices", { ...this.#prices })
    state.set("bytes", this.#bytes)
    if (this.propertyBytes > 0) state.set("propertyBytes", this.propertyBytes)
    for (const side of SIDES) this.#ids[side].save(state.at(side))
  }

  /** As it was saved. */
  static from(state: State): ProcessBytes {
    const process = new ProcessBytes(state.get("prices") as unknown as ProcessPrices)
    process.#bytes = state.get<number>("bytes")
    if (state.has("propertyBytes")) process.propertyBytes = state.get<number>("propertyBytes")
    for (const side of SIDES) process.#ids[side].load(state.at(side))
    return process
  }
}
