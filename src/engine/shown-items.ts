/** How often new items were given a reserved place (`fresh`): counted at once, written to the journal or cluster later. */

/** Approximate bytes of a map entry. */
const BYTES_PER_ITEM = 40

/** Items and how often. */
export type Shown = [item: number, count: number][]

export class ShownItems {
  readonly #counts = new Map<number, number>()
  /** Counted but not written yet. */
  #pending = new Map<number, number>()

  get bytes(): number {
    return BYTES_PER_ITEM * (this.#counts.size + this.#pending.size)
  }

  count(item: number): number {
    return (this.#counts.get(item) ?? 0) + (this.#pending.get(item) ?? 0)
  }

  add(item: number): void {
    this.#pending.set(item, (this.#pending.get(item) ?? 0) + 1)
  }

  get isPending(): boolean {
    return this.#pending.size > 0
  }

  /** Takes the counts to be written. They count again once they are put. */
  take(): Shown {
    const taken = [...this.#pending]
    this.#pending = new Map()
    return taken
  }

  /** Adds counts that were written. */
  put(shown: Shown): void {
    for (const [item, count] of shown) this.#counts.set(item, (this.#counts.get(item) ?? 0) + count)
  }

  /** Replaces the counts by those written elsewhere. */
  replace(shown: Shown): void {
    this.#counts.clear()
    this.put(shown)
  }

  drop(item: number): void {
    this.#counts.delete(item)
    this.#pending.delete(item)
  }

  all(): Shown {
    return [...this.#counts]
  }
}

/** New items of pages that are remembered, of all askers together: of those who asked last. */
const MOST_REMEMBERED = 100_000

/** The new items on the pages that somebody was given, so that the next page has others: that they were shown changes their order. */
export class FreshPages {
  readonly #pages = new Map<number | string, readonly number[]>()
  #remembered = 0

  of(asking: number | string): readonly number[] {
    return this.#pages.get(asking) ?? []
  }

  set(asking: number | string, items: readonly number[]): void {
    this.drop(asking)
    this.#pages.set(asking, items)
    this.#remembered += items.length + 1
    for (const oldest of this.#pages.keys()) {
      if (this.#remembered <= MOST_REMEMBERED) break
      this.drop(oldest)
    }
  }

  drop(asking: number | string): void {
    const items = this.#pages.get(asking)
    if (items === undefined) return
    this.#pages.delete(asking)
    this.#remembered -= items.length + 1
  }
}
