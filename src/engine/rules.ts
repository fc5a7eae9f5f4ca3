/** What a request says of the items of its list, compiled once: the same rules asked for again are found again. */

import { DessError, show } from "../errors.ts"
import type { Catalogue } from "./catalogue.ts"
import { checkCategories, checkCount, checkObject, checkOptionNames } from "./check.ts"
import { FilterCompiler, type ItemTest } from "./filter.ts"
import type { Boost, ListOptions } from "./types.ts"

const MOST_BOOSTS = 100
const MOST_CAPS = 8
const LEAST_BOOST = 0.001
const MOST_BOOST = 1000
/** What several boosts make together lies between this and 1 over it: beyond, a chance is 0 or 1 to every digit. */
const MOST_TOGETHER = 1e6
/** Compiled rules kept, and their bytes: the ones used last. */
const MOST_KEPT = 64
const MOST_BYTES = 2 ** 23

export interface Cap {
  /** The values of an item of which at most this many stand in a list. */
  keys(item: number): readonly string[]
  most: number
}

/** Items that rules let through; what is found of an item is kept. */
export class Allowed {
  readonly #passes: ItemTest
  /** By item: 1 where it is let through, 2 where it is not. */
  readonly #known: Uint8Array

  constructor(passes: ItemTest, items: number) {
    this.#passes = passes
    this.#known = new Uint8Array(items)
  }

  get bytes(): number {
    return this.#known.byteLength
  }

  has(item: number): boolean {
    if (item >= this.#known.length) return false
    if (this.#known[item] === 0) this.#known[item] = this.#passes(item) ? 1 : 2
    return this.#known[item] === 1
  }
}

export interface Rules {
  /** Items that may stand in the list. Undefined: all may. */
  allowed?: Pick<Allowed, "has"> | undefined
  /** By item: what its odds, count or nearness are multiplied by. Undefined: 1. */
  factors?: Float32Array | undefined
  caps: readonly Cap[]
  /** 0 to 1. */
  diversity: number
}

interface Compiled extends Pick<Rules, "factors" | "caps"> {
  allowed: Allowed | undefined
  columns: ReadonlyMap<string, number>
  categories: number
  items: number
  bytes: number
}

export class RuleBook {
  readonly #catalogue: Catalogue
  /** By what was asked for; those used last at the end. */
  readonly #kept = new Map<string, Compiled>()
  bytes = 0

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue
  }

  compile(options: Pick<ListOptions, "filter" | "categories" | "boost" | "cap" | "diversity">): Rules {
    const { filter, categories, boost, cap } = options
    const diversity = checkDiversity(options.diversity)
    if (filter === undefined && categories === undefined && boost === undefined && cap === undefined)
      return { caps: [], diversity }
    const { allowed, caps } = this.#find({ filter, categories, cap })
    // Apart: they hold while what is filtered by changes.
    const factors = boost === undefined ? undefined : this.#find({ boost }).factors
    return { allowed, factors, caps, diversity }
  }

  #find(options: ListOptions): Compiled {
    const key = toKey(options)
    const known = this.#kept.get(key)
    if (known) this.#drop(key, known)
    const compiled = known && this.#isCurrent(known) ? known : this.#compile(options)
    this.#kept.set(key, compiled)
    this.bytes += compiled.bytes
    for (const [oldest, { bytes }] of this.#kept) {
      if (this.#kept.size <= MOST_KEPT && (this.bytes <= MOST_BYTES || this.#kept.size === 1)) break
      this.#drop(oldest, { bytes })
    }
    return compiled
  }

  #drop(key: string, { bytes }: Pick<Compiled, "bytes">): void {
    this.#kept.delete(key)
    this.bytes -= bytes
  }

  #isCurrent({ columns, categories, items }: Compiled): boolean {
    const { properties, categoriesVersion, itemCount } = this.#catalogue
    if (items !== itemCount || categories !== categoriesVersion) return false
    for (const [name, version] of columns) if (properties.find(name)?.version !== version) return false
    return true
  }

  #compile({ filter, categories, boost, cap }: ListOptions): Compiled {
    const { categoriesVersion, itemCount } = this.#catalogue
    const compiler = new FilterCompiler(this.#catalogue)
    const tests: ItemTest[] = []
    if (filter !== undefined) tests.push(compiler.compile(filter, "filter"))
    if (categories !== undefined) {
      const inside = checkCategories(categories).map((name) => this.#catalogue.itemsOf(name))
      tests.push((item) => inside.some((items) => items.has(item)))
    }
    const passes: ItemTest = (item) => tests.every((test) => test(item))
    const allowed = tests.length === 0 ? undefined : new Allowed(passes, itemCount)
    const factors = boost === undefined ? undefined : compileBoosts(boost, compiler, itemCount)
    const caps = cap === undefined ? [] : this.#caps(cap, compiler)
    const bytes = (allowed?.bytes ?? 0) + (factors?.byteLength ?? 0)
    return { allowed, factors, caps, columns: compiler.columns, categories: categoriesVersion, items: itemCount, bytes }
  }

  #caps(cap: unknown, compiler: FilterCompiler): Cap[] {
    checkObject("cap", cap)
    const names = Object.entries(cap as object)
    if (names.length > MOST_CAPS)
      throw new DessError(
        "INVALID_ARGUMENT",
        `cap: expected an object with at most ${MOST_CAPS} of category and properties, got ${show(cap)}`,
      )
    return names.map(([name, given]) => {
      const most = checkCount(`cap.${name}`, given, { least: 1, most: 1000, otherwise: 1000 })
      if (name === "category") return { most, keys: (item) => this.#catalogue.entry(item).categories }
      const column = compiler.column(name, `cap.${name}`)
      return { most, keys: (item) => column.keys(item) }
    })
  }
}

/** What was asked for, as a text; what JSON leaves out or changes, such as undefined or a date, is not the same without it. */
function toKey(options: object): string {
  try {
    return JSON.stringify(options, keepOdd)
  } catch {
    throw new DessError("INVALID_ARGUMENT", "filter: expected what JSON can hold, got something else")
  }
}

function keepOdd(this: Record<string, unknown>, name: string, value: unknown): unknown {
  return value === undefined || value !== this[name] ? { odd: typeof value } : value
}

function checkDiversity(value: unknown): number {
  if (value === undefined) return 0
  if (typeof value === "number" && value >= 0 && value <= 1) return value
  throw new DessError("INVALID_ARGUMENT", `diversity: expected a number from 0 to 1, got ${show(value)}`)
}

/** By item: all factors whose filter lets it through, multiplied. */
function compileBoosts(boosts: unknown, compiler: FilterCompiler, items: number): Float32Array {
  if (!Array.isArray(boosts) || boosts.length > MOST_BOOSTS)
    throw new DessError("INVALID_ARGUMENT", `boost: expected a list of at most ${MOST_BOOSTS}, got ${show(boosts)}`)
  const compiled = boosts.map((boost: Boost, n) => {
    const where = `boost[${n}]`
    checkOptionNames(where, boost, ["filter", "by"])
    const { filter, by } = boost
    if (!(typeof by === "number" && by >= LEAST_BOOST && by <= MOST_BOOST))
      throw new DessError(
        "INVALID_ARGUMENT",
        `${where}.by: expected a number from ${LEAST_BOOST} to ${MOST_BOOST}, got ${show(by)}`,
      )
    return { passes: compiler.compile(filter, `${where}.filter`), by }
  })
  const factors = new Float32Array(items)
  for (let item = 0; item < items; item++) {
    let product = 1
    for (const { passes, by } of compiled) if (passes(item)) product *= by
    factors[item] = Math.min(MOST_TOGETHER, Math.max(1 / MOST_TOGETHER, product))
  }
  return factors
}
