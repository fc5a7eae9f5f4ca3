/**
 * A list in the making: items are taken best first, as far as caps and diversity let them.
 *
 * Diversity is maximal marginal relevance: of the next 100 items by value, again and again the one is taken whose
 * (1 − d) × relevance − d × (the largest likeness to one taken of them) is highest. Relevance is the value, from 0 for
 * the least to 1 for the most of the 100; likeness of two items the mean of the cosine of their vectors (0 where it is
 * negative) and of the share of their categories that both have; without categories the cosine.
 */

import type { Reader } from "../learning/reader.ts"
import { best } from "./best.ts"
import type { Blocked } from "./blocked.ts"
import type { Catalogue } from "./catalogue.ts"
import type { Rules } from "./rules.ts"
import type { Source } from "./types.ts"

const BLOCK = 100

export interface Chosen {
  item: number
  /** What it was ranked by. */
  value: number
  source: Source
}

/** Items with what they are ranked by; −∞ for those that may not be taken. */
export interface Ranked {
  /** Undefined: their indices are their places. */
  items?: Int32Array | undefined
  values: Float32Array | Float64Array
  source: Source
  blocked?: Blocked | undefined
  /** What no value of every 16 is above. */
  maxima?: Float32Array | undefined
}

export class Selection {
  readonly #catalogue: Catalogue
  readonly #reader: Reader
  readonly #rules: Rules
  readonly #total: number
  readonly chosen: Chosen[] = []
  /** By cap: how many have a value. */
  readonly #taken: Map<string, number>[]

  constructor(p: { catalogue: Catalogue; reader: Reader; rules: Rules; total: number }) {
    this.#catalogue = p.catalogue
    this.#reader = p.reader
    this.#rules = p.rules
    this.#total = p.total
    this.#taken = p.rules.caps.map(() => new Map())
  }

  get isFull(): boolean {
    return this.chosen.length >= this.#total
  }

  /** Takes the best of some items until the list is full. */
  take(ranked: Ranked): void {
    const { caps, diversity } = this.#rules
    if (diversity > 0) {
      this.#takeDiverse(ranked)
      return
    }
    const { values, source } = ranked
    const { toItem, order } = this.#orderOf(ranked)
    // With caps more may be looked at than are taken.
    let seen = 0
    for (let wanted = this.#total - this.chosen.length; !this.isFull; wanted *= 4) {
      const places = best(values, wanted, order)
      for (const place of places.slice(seen)) this.#add({ item: toItem(place), value: values[place], source })
      if (places.length < wanted || caps.length === 0) return
      seen = places.length
    }
  }

  #add(chosen: Chosen): void {
    if (this.isFull || !this.#admits(chosen.item)) return
    this.chosen.push(chosen)
    this.#rules.caps.forEach(({ keys }, c) => {
      for (const key of keys(chosen.item)) this.#taken[c].set(key, (this.#taken[c].get(key) ?? 0) + 1)
    })
  }

  #admits(item: number): boolean {
    return this.#rules.caps.every(({ keys, most }, c) =>
      keys(item).every((key) => (this.#taken[c].get(key) ?? 0) < most),
    )
  }

  /** Items by place, which may not be taken, and of equals the one that became known first. */
  #orderOf({ items, blocked, maxima }: Ranked) {
    const toItem = (place: number) => (items ? items[place] : place)
    const isOut = blocked && ((place: number) => blocked.has(toItem(place)))
    return { toItem, order: { isOut, maxima, tie: (place: number) => this.#catalogue.born(toItem(place)) } }
  }

  #takeDiverse(ranked: Ranked): void {
    const { values, source } = ranked
    const { toItem, order } = this.#orderOf(ranked)
    for (let from = 0; !this.isFull; from += BLOCK) {
      const places = best(values, from + BLOCK, order).slice(from)
      if (places.length === 0) return
      this.#takeBlock(places.map((place) => ({ item: toItem(place), value: values[place], source })))
    }
  }

  /** Some items, best first, in an order that keeps what is alike apart. */
  #takeBlock(block: readonly Chosen[]): void {
    const { diversity } = this.#rules
    const least = block[block.length - 1].value
    const range = block[0].value - least || 1
    const likeness = new Float64Array(block.length)
    const left = new Set(block.keys())
    const liker = this.#likenessOf(block)
    while (left.size > 0 && !this.isFull) {
      let [next, highest] = [-1, Number.NEGATIVE_INFINITY]
      for (const at of left) {
        const value = (1 - diversity) * ((block[at].value - least) / range) - diversity * likeness[at]
        if (value > highest) [next, highest] = [at, value]
      }
      left.delete(next)
      const before = this.chosen.length
      this.#add(block[next])
      if (this.chosen.length === before) continue
      const like = liker(next)
      for (const at of left) likeness[at] = Math.max(likeness[at], like(at))
    }
  }

  /** How alike items of a block are. */
  #likenessOf(block: readonly Chosen[]): (one: number) => (other: number) => number {
    const isKnown = block.map(({ item }) => this.#reader.knows("item", item))
    const known = Int32Array.from(block.filter((_, at) => isKnown[at]).map(({ item }) => item))
    const categories = block.map(({ item }) => this.#catalogue.entry(item).categories)
    const among = this.#reader.among?.(known)
    let places = 0
    const placeOf = isKnown.map((yes) => (yes ? places++ : -1))
    return (one) => {
      const cosinesOf = () => among?.(placeOf[one]) ?? this.#reader.nearest(block[one].item, known)
      const cosines = isKnown[one] ? cosinesOf() : undefined
      const own = new Set(categories[one])
      return (other) => {
        const cosine = cosines && placeOf[other] >= 0 ? Math.max(0, cosines[placeOf[other]]) : 0
        const shared = categories[other].filter((name) => own.has(name)).length
        const all = own.size + categories[other].length - shared
        return all === 0 ? cosine : (cosine + shared / all) / 2
      }
    }
  }
}
