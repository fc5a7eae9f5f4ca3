/**
 * Which items a filter lets through. A filter is JSON; everything it says must hold:
 *
 *   { "price": { "gte": 5, "lt": 20 }, "category": "horror", "inStock": true, "brand": { "in": ["Lux", "Nova"] } }
 *   { "any": [{ "tags": "sale" }, { "not": { "brand": "Lux" } }] }          any, all: a list of filters; not: a filter
 *
 * A value means: equal, or of a list that it is in it. An item without the property is not let through.
 */

import { DessError, show } from "../errors.ts"
import type { Catalogue } from "./catalogue.ts"
import { LONGEST_TEXT, type PropertyColumn, type Scalar } from "./item-properties.ts"

const MOST_CONDITIONS = 100
const DEEPEST = 8
const MOST_VALUES = 1000
const BOUNDS = { lt: (a: Scalar, b: Scalar) => a < b, lte: (a: Scalar, b: Scalar) => a <= b } as const
const OTHER_BOUNDS = { gt: (a: Scalar, b: Scalar) => a > b, gte: (a: Scalar, b: Scalar) => a >= b } as const
const RANGES: Readonly<Record<string, (a: Scalar, b: Scalar) => boolean>> = { ...BOUNDS, ...OTHER_BOUNDS }
const WORDS = ["eq", "in", ...Object.keys(RANGES)]

/** What a condition says of one value, and the values it names. */
interface Condition {
  test(value: Scalar): boolean
  named: readonly Scalar[]
  isRange: boolean
}

/** Compiles filters over a catalogue; remembers which columns they went by. */
export class FilterCompiler {
  readonly #catalogue: Catalogue
  readonly #length: number
  /** Names of properties, with the version of each. */
  readonly columns = new Map<string, number>()
  #conditions = 0

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue
    this.#length = catalogue.itemCount
  }

  /** By item: 1 where it is let through. `where` is for errors. */
  compile(filter: unknown, where: string, depth = 0): Uint8Array {
    if (typeof filter !== "object" || filter === null || Array.isArray(filter))
      throw new DessError("INVALID_ARGUMENT", `${where}: expected an object, got ${show(filter)}`)
    if (depth > DEEPEST)
      throw new DessError("INVALID_ARGUMENT", `${where}: expected a depth of at most ${DEEPEST}, got more`)
    const passes = new Uint8Array(this.#length).fill(1)
    for (const [name, value] of Object.entries(filter)) {
      const part = this.#part(name, value, { where: `${where}.${name}`, depth })
      for (let item = 0; item < passes.length; item++) passes[item] &= part[item]
    }
    return passes
  }

  #part(name: string, value: unknown, p: { where: string; depth: number }): Uint8Array {
    if (++this.#conditions > MOST_CONDITIONS)
      throw new DessError("INVALID_ARGUMENT", `filter: expected at most ${MOST_CONDITIONS} conditions, got more`)
    if (name === "not") return invert(this.compile(value, p.where, p.depth + 1))
    if (name === "any" || name === "all") return this.#several(name, value, p)
    return name === "category" ? this.#category(value, p.where) : this.#property(name, value, p.where)
  }

  #several(name: "any" | "all", value: unknown, { where, depth }: { where: string; depth: number }): Uint8Array {
    if (!Array.isArray(value) || value.length === 0 || value.length > MOST_CONDITIONS)
      throw new DessError(
        "INVALID_ARGUMENT",
        `${where}: expected a list of 1 to ${MOST_CONDITIONS} filters, got ${show(value)}`,
      )
    const parts = value.map((one, n) => this.compile(one, `${where}[${n}]`, depth + 1))
    return parts.reduce((all, part) => {
      for (let item = 0; item < all.length; item++)
        all[item] = name === "any" ? all[item] | part[item] : all[item] & part[item]
      return all
    })
  }

  #category(value: unknown, where: string): Uint8Array {
    const { named, isRange } = readCondition(value, where)
    const passes = new Uint8Array(this.#length)
    for (const name of named) {
      if (isRange || typeof name !== "string")
        throw new DessError(
          "INVALID_ARGUMENT",
          `${where}: expected a category or { "in": [categories] }, got ${show(value)}`,
        )
      for (const item of this.#catalogue.itemsOf(name)) passes[item] = 1
    }
    return passes
  }

  #property(name: string, value: unknown, where: string): Uint8Array {
    const condition = readCondition(value, where)
    const column = this.column(name, where)
    for (const one of condition.named)
      if (!column.hasType(typeof one as "string"))
        throw new DessError(
          "INVALID_ARGUMENT",
          `${where}: expected ${typesOf(column)} as items have it, got ${show(one)}`,
        )
    return this.#match(column, condition)
  }

  /** Refuses a property that no item has. */
  column(name: string, where: string): PropertyColumn {
    const column = this.#catalogue.properties.find(name)
    if (!column)
      throw new DessError(
        "INVALID_ARGUMENT",
        `${where}: expected a property that an item has (texts of up to ${LONGEST_TEXT} characters count), got ${show(name)}`,
      )
    this.columns.set(name, column.version)
    return column
  }

  #match({ numbers, codes, lists, values }: PropertyColumn, { test }: Condition): Uint8Array {
    const passes = new Uint8Array(this.#length)
    const end = passes.length
    for (let item = 0; item < numbers.length && item < end; item++) {
      const number = numbers[item]
      if (!Number.isNaN(number) && test(number)) passes[item] = 1
    }
    const fits = Uint8Array.from(values, (value) => (value !== undefined && test(value) ? 1 : 0))
    for (let item = 0; item < codes.length && item < end; item++) if (fits[codes[item]] === 1) passes[item] = 1
    for (const [item, list] of lists) for (let n = 0; n < list.length; n++) if (fits[list[n]] === 1) passes[item] = 1
    return passes
  }
}

function invert(passes: Uint8Array): Uint8Array {
  for (let item = 0; item < passes.length; item++) passes[item] ^= 1
  return passes
}

function readCondition(value: unknown, where: string): Condition {
  if (typeof value !== "object" || value === null) return isOneOf([value], where)
  const words = Object.entries(value)
  const isRange = words.every(([word]) => Object.hasOwn(RANGES, word))
  const [[word, given] = ["", undefined]] = words
  if (Array.isArray(value) || words.length === 0 || (!isRange && words.length > 1) || !WORDS.includes(word))
    throw new DessError(
      "INVALID_ARGUMENT",
      `${where}: expected a text, a number, true, false, or an object with eq, in, or some of lt, lte, gt, gte, got ${show(value)}`,
    )
  if (!isRange) return isOneOf(word === "eq" ? [given] : given, where)
  const named = words.map(([, bound]) => checkScalar(bound, where))
  if (named.some((bound) => typeof bound === "boolean" || typeof bound !== typeof named[0]))
    throw new DessError("INVALID_ARGUMENT", `${where}: expected numbers, or texts, got ${show(value)}`)
  const tests = words.map(([word], n) => ({ holds: RANGES[word], bound: named[n] }))
  const type = typeof named[0]
  const test = (one: Scalar) => typeof one === type && tests.every(({ holds, bound }) => holds(one, bound))
  return { test, named, isRange }
}

function isOneOf(values: unknown, where: string): Condition {
  if (!Array.isArray(values) || values.length === 0 || values.length > MOST_VALUES)
    throw new DessError("INVALID_ARGUMENT", `${where}: expected 1 to ${MOST_VALUES} values, got ${show(values)}`)
  const named = values.map((value) => checkScalar(value, where))
  const all = new Set(named)
  return { test: (value) => all.has(value), named, isRange: false }
}

function checkScalar(value: unknown, where: string): Scalar {
  if (typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value))) return value
  if (typeof value === "string" && value.length <= LONGEST_TEXT) return value
  throw new DessError(
    "INVALID_ARGUMENT",
    `${where}: expected a text of at most ${LONGEST_TEXT} characters, a finite number, true or false, got ${show(value)}`,
  )
}

function typesOf(column: PropertyColumn): string {
  const names = { number: "a number", string: "a text", boolean: "true or false" } as const
  const types = (Object.keys(names) as (keyof typeof names)[]).filter((type) => column.hasType(type))
  return types.map((type) => names[type]).join(" or ")
}
