/** Outside ids to dense indices and back. An index whose owner left is given to another id. */

import { grown, nextCapacity } from "../context/growth.ts"

export class Names {
  // A Map, not an object: "__proto__" is an id like any other.
  readonly #index = new Map<string, number>()
  readonly #names: (string | undefined)[] = []
  readonly #free: number[] = []
  /** By index: 1 where there is no name. */
  nameless = new Uint8Array(64).fill(1)

  get size(): number {
    return this.#index.size
  }

  find(name: string): number | undefined {
    return this.#index.get(name)
  }

  name(index: number): string | undefined {
    return this.#names[index]
  }

  /** The index of a name that has none. */
  add(name: string): number {
    const index = this.#free.pop() ?? this.#names.length
    this.set(index, name)
    return index
  }

  set(index: number, name: string): void {
    while (this.#names.length < index) this.#names.push(undefined)
    this.#names[index] = name
    this.#index.set(name, index)
    const held = this.nameless.length
    if (index >= held) this.nameless = grown(this.nameless, nextCapacity(held, index + 1)).fill(1, held)
    this.nameless[index] = 0
  }

  /** Takes a name away; the index is not given out again before `recycle`. */
  remove(index: number): void {
    const name = this.#names[index]
    if (name === undefined) return
    this.#index.delete(name)
    this.#names[index] = undefined
    this.nameless[index] = 1
  }

  recycle(index: number): void {
    this.#free.push(index)
  }

  /** After names were set: every index without one may be given out. */
  recycleAll(): void {
    this.#free.length = 0
    for (let index = this.#names.length - 1; index >= 0; index--)
      if (this.#names[index] === undefined) this.#free.push(index)
  }

  /** Names by index from a place on. */
  list(offset: number, count: number): string[] {
    const found: string[] = []
    let skip = offset
    for (let index = 0; index < this.#names.length && found.length < count; index++) {
      const name = this.#names[index]
      if (name === undefined) continue
      if (skip-- > 0) continue
      found.push(name)
    }
    return found
  }
}
