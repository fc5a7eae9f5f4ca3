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
/** Approximate bytes of an asker, of a page of theirs, and of an item there. */
const BYTES_PER_ASKER = 120
const BYTES_PER_PAGE = 32
const BYTES_PER_PLACE = 8

/** Page by page: new items that it was given. */
type Pages = readonly (readonly number[])[]

/** The new items on the pages that somebody was given, so that the next page has others: that they were shown changes their order. */
export class FreshPages {
  readonly #pages = new Map<number | string, Pages>()
  #bytes = 0

  of(asking: number | string): Pages {
    return this.#pages.get(asking) ?? []
  }

  set(asking: number | string, pages: Pages): void {
    this.drop(asking)
    this.#pages.set(asking, pages)
    this.#bytes += bytesOf(asking, pages)
    for (const oldest of this.#pages.keys()) {
      if (this.#bytes <= MOST_BYTES) break
      this.drop(oldest)
    }
  }

  drop(asking: number | string): void {
    const pages = this.#pages.get(asking)
    if (pages === undefined) return
    this.#pages.delete(asking)
    this.#bytes -= bytesOf(asking, pages)
  }
}

function bytesOf(asking: number | string, pages: Pages): number {
  const places = pages.reduce((sum, { length }) => sum + length, 0)
  const own = typeof asking === "string" ? asking.length : 0
  return BYTES_PER_ASKER + own + BYTES_PER_PAGE * pages.length + BYTES_PER_PLACE * places
}
