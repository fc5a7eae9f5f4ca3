/** Items that may not stand in the list in the making: few are noted for it, the others are asked about as they come up. */

import type { Catalogue } from "./catalogue.ts"
import type { ListQuery } from "./choose.ts"
import type { Rules } from "./rules.ts"

/** By item: the last list it was noted for. One list is made at a time. */
let notes = new Uint32Array(0)
let lists = 0

export class Blocked {
  readonly #catalogue: Catalogue
  readonly #allowed: Rules["allowed"]
  readonly #notes: Uint32Array
  readonly #list: number

  constructor(catalogue: Catalogue, query: Omit<ListQuery, "count">) {
    this.#catalogue = catalogue
    this.#allowed = query.rules.allowed
    if (notes.length < catalogue.itemCount || lists === 0xffffffff) {
      notes = new Uint32Array(catalogue.itemCount + (catalogue.itemCount >> 2))
      lists = 0
    }
    this.#notes = notes
    this.#list = ++lists
    this.#note(query)
  }

  #note({ user, seen, exclude, trials = [], recent = [] }: Omit<ListQuery, "count">): void {
    if (!seen && user !== undefined) {
      for (const item of this.#catalogue.history(user)) this.#notes[item] = this.#list
      if (seen === undefined) for (const item of this.#catalogue.staying(user)) this.#notes[item] = 0
    }
    if (!seen) {
      for (const { item } of trials) this.add(item)
      for (const { item, stays } of recent) if (!stays || seen === false) this.add(item)
    }
    for (const item of exclude) this.add(item)
    for (const item of this.#catalogue.unlisted()) this.add(item)
  }

  add(item: number): void {
    this.#notes[item] = this.#list
  }

  has(item: number): boolean {
    if (this.#notes[item] === this.#list || !this.#catalogue.names.item.has(item)) return true
    return this.#allowed !== undefined && !this.#allowed.has(item)
  }
}
