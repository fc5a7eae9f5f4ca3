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

/** Bytes of pages that are remembered, of all askers together: of those who asked last. */
const MOST_BYTES = 2 ** 21
/** Approximate bytes of an asker, and of an item of theirs. */
const BYTES_PER_ASKER = 120
const BYTES_PER_PLACE = 8

/** The new items on the pages that somebody was given, so that the next page has others: that they were shown changes their order. */
export class FreshPages {
  readonly #pages = new Map<number | string, readonly number[]>()
  #bytes = 0

  of(asking: number | string): readonly number[] {
    return this.#pages.get(asking) ?? []
  }

  set(asking: number | string, items: readonly number[]): void {
    this.drop(asking)
    this.#pages.set(asking, items)
    this.#bytes += bytesOf(asking, items)
    for (const oldest of this.#pages.keys()) {
      if (this.#bytes <= MOST_BYTES) break
      this.drop(oldest)
    }
  }

  drop(asking: number | string): void {
    const items = this.#pages.get(asking)
    if (items === undefined) return
    this.#pages.delete(asking)
    this.#bytes -= bytesOf(asking, items)
  }
}

function bytesOf(asking: number | string, items: readonly number[]): number {
  return BYTES_PER_ASKER + (typeof asking === "string" ? asking.length : 0) + BYTES_PER_PLACE * items.length
}
