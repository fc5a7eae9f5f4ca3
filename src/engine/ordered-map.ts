/** A map that can also be read in order of its keys. Sorting waits until somebody reads. */

import type { KeyRange } from "./sorted-run.ts"

export class OrderedMap<V> {
  readonly #values = new Map<string, V>()
  /** In order, each once; some may be gone. */
  #sorted: string[] = []
  /** Keys not in `#sorted` yet, or in it from before they were deleted. */
  #fresh: string[] = []

  get size(): number {
    return this.#values.size
  }

  get(key: string): V | undefined {
    return this.#values.get(key)
  }

  /** A key set again counts as the newest. */
  set(key: string, value: V): void {
    if (!this.#values.delete(key)) this.#fresh.push(key)
    this.#values.set(key, value)
  }

  delete(key: string): boolean {
    const found = this.#values.delete(key)
    // So that what comes and goes unread does not pile up.
    if (this.#fresh.length + this.#sorted.length > 2 * this.#values.size + 1000) this.#sort()
    return found
  }

  has(key: string): boolean {
    return this.#values.has(key)
  }

  /** The key that was set before all others. */
  get oldest(): string | undefined {
    return this.#values.keys().next().value
  }

  /** In order of the keys. */
  *range({ start, end }: KeyRange): Generator<[string, V]> {
    if (this.#fresh.length > 0) this.#sort()
    const sorted = this.#sorted
    for (let i = lowerBound(sorted, start); i < sorted.length; i++) {
      const key = sorted[i]
      if (end !== undefined && key >= end) return
      const value = this.#values.get(key)
      if (value !== undefined) yield [key, value]
    }
  }

  /** Into a new array: readers under way keep theirs. */
  #sort(): void {
    const [old, fresh, merged] = [this.#sorted, this.#fresh.sort(), [] as string[]]
    for (let i = 0, j = 0; i < old.length || j < fresh.length; ) {
      const key = j === fresh.length || (i < old.length && old[i] <= fresh[j]) ? old[i++] : fresh[j++]
      if (key !== merged.at(-1) && this.#values.has(key)) merged.push(key)
    }
    this.#sorted = merged
    this.#fresh = []
  }
}

function lowerBound(sorted: readonly string[], key: string): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (sorted[middle] < key) low = middle + 1
    else high = middle
  }
  return low
}
