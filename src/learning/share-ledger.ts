/**
 * What a learner that shares its rows keeps track of: rows touched, items as they were before training, changes waiting to
 * be sent, how many events were reported with them, items trained elsewhere, and ids whose size is decided here.
 */

import type { Indicators } from "../ids/indicators.ts"
import type { Packer } from "../kernels/packing.ts"
import type { EmbeddingTable } from "../models/embedding-table.ts"
import { SIDES, type Side } from "../types.ts"
import type { Limiter } from "./limiter.ts"

/** What training changed in an item. */
export interface ItemChange {
  index: number
  change: Uint8Array
}

/** An item before it was trained on. */
export interface Base {
  step: number
  row: Float32Array
  /** When it was met last. */
  met: number
}

interface LedgerParts {
  items: EmbeddingTable
  indicators: Indicators
  limiter: Limiter
}

export class ShareLedger {
  isOwner: (item: number) => boolean = () => true
  /** Items as they were before they were trained on. */
  readonly bases = new Map<number, Base>()
  readonly #parts: LedgerParts
  /** Events of items learned here that changes have reported. */
  readonly #reportedEvents = new Map<number, number>()
  #settled: { index: number; write: (out: Packer) => void }[] = []
  readonly #touched: Record<Side, Set<number>> = { user: new Set(), item: new Set() }
  readonly #visited = new Set<number>()

  constructor(parts: LedgerParts) {
    this.#parts = parts
  }

  /** Starts over with the rows as they are: nothing has changed since. */
  restart(): void {
    const { items, indicators } = this.#parts
    this.bases.clear()
    this.#settled = []
    this.#reportedEvents.clear()
    for (const item of items.ids()) this.#reportedEvents.set(item, indicators.eventsHere(item))
    this.#visited.clear()
    for (const side of SIDES) this.#touched[side].clear()
  }

  touch(side: Side, id: number): void {
    this.#touched[side].add(id)
  }

  untouch(side: Side, id: number): void {
    this.#touched[side].delete(id)
  }

  takeTouched(): Record<Side, number[]> {
    const user = [...this.#touched.user]
    const item = [...this.#touched.item].filter((id) => this.isOwner(id))
    for (const side of SIDES) this.#touched[side].clear()
    return { user, item }
  }

  /** Drops everything about an item. */
  leave(item: number): void {
    this.bases.delete(item)
    this.#reportedEvents.delete(item)
    this.#visited.delete(item)
  }

  /** Notes that an item was changed elsewhere; returns whether it is owned here. */
  visit(item: number): boolean {
    this.touch("item", item)
    if (!this.isOwner(item)) return false
    this.#visited.add(item)
    return true
  }

  /** Items owned here that changed elsewhere and wait for a decision; each is returned once. */
  takeVisited(): number[] {
    const found = [...this.#visited].filter((item) => this.isOwner(item) && this.#parts.items.has(item))
    this.#visited.clear()
    return found
  }

  decide(isOwner: (item: number) => boolean): void {
    const { items, limiter } = this.#parts
    this.isOwner = isOwner
    for (const item of items.ids()) if (!isOwner(item)) limiter.forget("item", [item])
  }

  /** Events of an item learned here since the last call. */
  takeEvents(item: number): number {
    const here = this.#parts.indicators.eventsHere(item)
    const events = here - (this.#reportedEvents.get(item) ?? 0)
    this.#reportedEvents.set(item, here)
    return events
  }

  /** Adds a change to those waiting to be sent. */
  setAside(index: number, write: (out: Packer) => void): void {
    this.#settled.push({ index, write })
  }

  /** The changes set aside, once `settle` has been asked for those of every item with a base. */
  takeChanges(seal: (write: (out: Packer) => void) => Uint8Array, settle: (item: number) => void): ItemChange[] {
    for (const item of [...this.bases.keys()]) settle(item)
    const changes = this.#settled.map(({ index, write }) => ({ index, change: seal(write) }))
    this.#settled = []
    return changes
  }
}
