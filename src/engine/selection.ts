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
  /** Items that may not be taken. */
  blocked?: Blocked | undefined
  /** What no value of every 16 is above. */
  maxima?: Float32Array | undefined
}

/** Rankings that follow each other: one is made when those before it are used up. */
export type Rankings = Iterable<Ranked>

/** Places for new items, this many at the end of every page. */
export interface NewPlaces {
  /** New items of a page in the order they are given its places in. */
  of(page: number): Iterable<Chosen>
  /** Length of a page. */
  count: number
  most: number
}

export class Selection {
  readonly #catalogue: Catalogue
  readonly #reader: Reader
  readonly #rules: Rules
  readonly #total: number
  readonly chosen: Chosen[] = []
  readonly #items = new Set<number>()
  /** By cap: how many have a value. */
  readonly #taken: Map<string, number>[]

  constructor(p: { catalogue: Catalogue; reader: Reader; rules: Rules; total: number }) {
    this.#catalogue = p.catalogue
    this.#reader = p.reader
    this.#rules = p.rules
    this.#total = p.total
    this.#taken = p.rules.caps.map(() => new Map())
  }

  /** Takes the best of the first ranking, then of the next, until the list is full. */
  take(rankings: Rankings): void {
    this.#takeSome(this.#inOrder(rankings), this.#total)
  }

  /** The same page by page: what is new has its places first, and stands at the end. Returns the new items of each. */
  takePages(rankings: Rankings, { of, count, most }: NewPlaces): Chosen[][] {
    const others = this.#inOrder(rankings)
    const taken: Chosen[][] = []
    for (let from = 0; from < this.#total; from = this.chosen.length) {
      this.#takeSome(of(taken.length)[Symbol.iterator](), Math.min(from + most, this.#total))
      const own = this.chosen.splice(from)
      this.#takeSome(others, Math.min(from + count, this.#total) - own.length)
      this.chosen.push(...own)
      taken.push(own)
      if (this.chosen.length < from + count) break
    }
    return taken
  }

  /** Takes what comes next until the list has this many. */
  #takeSome(next: Iterator<Chosen>, length: number): void {
    while (this.chosen.length < length) {
      const { value, done } = next.next()
      if (done) return
      this.#add(value)
    }
  }

  #add(chosen: Chosen): void {
    if (this.#items.has(chosen.item) || !this.#admits(chosen.item)) return
    this.chosen.push(chosen)
    this.#items.add(chosen.item)
    this.#rules.caps.forEach(({ keys }, c) => {
      for (const key of keys(chosen.item)) this.#taken[c].set(key, (this.#taken[c].get(key) ?? 0) + 1)
    })
  }

  #admits(item: number): boolean {
    return this.#rules.caps.every(({ keys, most }, c) =>
      keys(item).every((key) => (this.#taken[c].get(key) ?? 0) < most),
    )
  }

  *#inOrder(rankings: Rankings): Generator<Chosen> {
    for (const ranked of rankings)
      if (this.#rules.diversity > 0) yield* this.#diverse(ranked)
      else yield* this.#best(ranked)
  }

  /** Best first. With caps more may be looked at than are taken. */
  *#best({ items, values, source, blocked, maxima }: Ranked): Generator<Chosen> {
    const toItem = (place: number) => (items ? items[place] : place)
    const isOut = blocked && ((place: number) => blocked.has(toItem(place)))
    const order = { isOut, maxima, tie: (place: number) => this.#catalogue.born(toItem(place)) }
    let seen = 0
    for (let wanted = Math.max(this.#total, this.#rules.diversity > 0 ? BLOCK : 1); ; wanted *= 4) {
      const places = best(values, wanted, order)
      for (; seen < places.length; seen++) yield { item: toItem(places[seen]), value: values[places[seen]], source }
      if (places.length < wanted) return
    }
  }

  *#diverse(ranked: Ranked): Generator<Chosen> {
    const order = this.#best(ranked)
    for (;;) {
      const block: Chosen[] = []
      for (let one = order.next(); !one.done; one = order.next()) {
        block.push(one.value)
        if (block.length === BLOCK) break
      }
      if (block.length === 0) return
      yield* this.#apart(block)
    }
  }

  /** Some items, best first, in an order that keeps what is alike apart. */
  *#apart(block: readonly Chosen[]): Generator<Chosen> {
    const { diversity } = this.#rules
    const least = block[block.length - 1].value
    const range = block[0].value - least || 1
    const likeness = new Float64Array(block.length)
    const left = new Set(block.keys())
    const liker = this.#likenessOf(block)
    while (left.size > 0) {
      let [next, highest] = [-1, Number.NEGATIVE_INFINITY]
      for (const at of left) {
        const value = (1 - diversity) * ((block[at].value - least) / range) - diversity * likeness[at]
        if (value > highest) [next, highest] = [at, value]
      }
      left.delete(next)
      yield block[next]
      if (!this.#items.has(block[next].item)) continue
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
