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
