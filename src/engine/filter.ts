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
import { checkObject } from "./check.ts"
import { LONGEST_TEXT, type PropertyColumn, type Scalar } from "./item-properties.ts"

const MOST_CONDITIONS = 100
const DEEPEST = 8
const MOST_VALUES = 1000
type Bound = (bound: Scalar) => (value: Scalar) => boolean
const RANGES: Readonly<Record<string, Bound>> = {
  lt: (bound) => (value) => value < bound,
  lte: (bound) => (value) => value <= bound,
  gt: (bound) => (value) => value > bound,
  gte: (bound) => (value) => value >= bound,
}
const WORDS = ["eq", "in", ...Object.keys(RANGES)]

/** Whether an item is let through. Only items that come up for a list are asked about. */
export type ItemTest = (item: number) => boolean

/** What a condition says of one value, and the values it names. */
interface Condition {
  test(value: Scalar): boolean
  named: readonly Scalar[]
  isRange: boolean
}

/** Compiles filters over a catalogue; remembers which columns they went by. */
export class FilterCompiler {
  readonly #catalogue: Catalogue
  /** Names of properties, with the version of each. */
  readonly columns = new Map<string, number>()
  #conditions = 0

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue
  }

  /** `where` is for errors. */
  compile(filter: unknown, where: string, depth = 0): ItemTest {
    checkObject(where, filter)
    if (depth > DEEPEST)
      throw new DessError("INVALID_ARGUMENT", `${where}: expected a depth of at most ${DEEPEST}, got more`)
    return allOf(
      Object.entries(filter as object).map(([name, value]) =>
        this.#part(name, value, { where: `${where}.${name}`, depth }),
      ),
    )
  }

  #part(name: string, value: unknown, p: { where: string; depth: number }): ItemTest {
    if (++this.#conditions > MOST_CONDITIONS)
      throw new DessError("INVALID_ARGUMENT", `filter: expected at most ${MOST_CONDITIONS} conditions, got more`)
    if (name === "not") {
      const passes = this.compile(value, p.where, p.depth + 1)
      return (item) => !passes(item)
    }
    if (name === "any" || name === "all") return this.#several(name, value, p)
    return name === "category" ? this.#category(value, p.where) : this.#property(name, value, p.where)
  }

  #several(name: "any" | "all", value: unknown, { where, depth }: { where: string; depth: number }): ItemTest {
    if (!Array.isArray(value) || value.length === 0 || value.length > MOST_CONDITIONS)
      throw new DessError(
        "INVALID_ARGUMENT",
        `${where}: expected a list of 1 to ${MOST_CONDITIONS} filters, got ${show(value)}`,
      )
    const parts = value.map((one, n) => this.compile(one, `${where}[${n}]`, depth + 1))
    return name === "all" ? allOf(parts) : (item) => parts.some((passes) => passes(item))
  }

  #category(value: unknown, where: string): ItemTest {
    const { named, isRange } = readCondition(value, where)
    const inside = named.map((name) => {
      if (isRange || typeof name !== "string")
        throw new DessError(
          "INVALID_ARGUMENT",
          `${where}: expected a category or { "in": [categories] }, got ${show(value)}`,
        )
      return this.#catalogue.itemsOf(name)
    })
    const [only] = inside
    return inside.length === 1 ? (item) => only.has(item) : (item) => inside.some((items) => items.has(item))
  }

  #property(name: string, value: unknown, where: string): ItemTest {
    const condition = readCondition(value, where)
    const column = this.column(name, where)
    for (const one of condition.named)
      if (!column.hasType(typeof one as "string"))
        throw new DessError(
          "INVALID_ARGUMENT",
          `${where}: expected ${typesOf(column)} as items have it, got ${show(one)}`,
        )
    return matchColumn(column, condition)
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
}

function allOf(parts: readonly ItemTest[]): ItemTest {
  if (parts.length === 1) return parts[0]
  return (item) => {
    for (let n = 0; n < parts.length; n++) if (!parts[n](item)) return false
    return true
  }
}

function matchColumn(column: PropertyColumn, { test, named, isRange }: Condition): ItemTest {
  const { numbers, codes, lists, values } = column
  const wanted = isRange ? undefined : new Set(named.map((value) => column.codeOf(value)))
  const [only] = wanted ?? []
  if (wanted?.size === 1 && lists.size === 0 && typeof named[0] !== "number")
    return (item) => item < codes.length && codes[item] === only
  const fits = (code: number) => (wanted ? wanted.has(code) : test(values[code] as Scalar))
  return (item) => {
    const number = item < numbers.length ? numbers[item] : Number.NaN
    if (!Number.isNaN(number)) return test(number)
    const code = item < codes.length ? codes[item] : 0
    if (code !== 0) return fits(code)
    return lists.get(item)?.some(fits) ?? false
  }
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
  const [first, second = first, ...others] = words.map(([word], n) => RANGES[word](named[n]))
  const type = typeof named[0]
  const test = (one: Scalar) => typeof one === type && first(one) && second(one) && others.every((holds) => holds(one))
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
