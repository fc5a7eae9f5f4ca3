/** Outside ids to dense indices, in order of first sight, and back. */

import { DessError, show } from "../errors.ts"

export class IdMap {
  // A Map, not an object: "__proto__" is an id like any other.
  readonly #index = new Map<string, number>()
  readonly #names: string[] = []

  get size(): number {
    return this.#names.length
  }

  /** The names by index. */
  get names(): readonly string[] {
    return this.#names
  }

  /** The index of an id, given on first sight. */
  index(id: string | number): number {
    const name = String(id)
    const known = this.#index.get(name)
    if (known !== undefined) return known
    const index = this.#names.length
    this.#index.set(name, index)
    this.#names.push(name)
    return index
  }

  /** The index of an id seen before. */
  find(id: string | number): number | undefined {
    return this.#index.get(String(id))
  }

  /** The id at an index. */
  name(index: number): string {
    return nameAt("id", this.#names, index)
  }
}

/** The name at an index; the error for an unknown one names the valid indices. */
export function nameAt(noun: string, names: readonly string[], index: number): string {
  const name = names[index]
  if (name !== undefined) return name
  const expected = names.length === 0 ? "none, nothing was seen" : `a whole number from 0 to ${names.length - 1}`
  throw new DessError("NOT_FOUND", `${noun} index: expected ${expected}, got ${show(index)}`)
}
