/** How often new items were given a place that is kept for them (`fresh`): counted at once, and told to whoever keeps it. */

/** About what a map has of an item. */
const BYTES_PER_ITEM = 40

/** Items and how often. */
export type Shown = [item: number, count: number][]

export class ShownItems {
  readonly #counts = new Map<number, number>()
  /** Counted and kept nowhere yet. */
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

  /** What is to be kept. It counts again once it is put. */
  take(): Shown {
    const taken = [...this.#pending]
    this.#pending = new Map()
    return taken
  }

  /** Takes in what was kept. */
  put(shown: Shown): void {
    for (const [item, count] of shown) this.#counts.set(item, (this.#counts.get(item) ?? 0) + count)
  }

  /** Takes what was kept elsewhere in place of it. */
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
