/** A grid of runs: what a person asks for, checked and completed. */

import { existsSync, readdirSync, statSync } from "node:fs"
import { isAbsolute, join, resolve } from "node:path"
import { nameOf } from "../datasets/formats.ts"
import { parseColumnChoice } from "../datasets/header.ts"
import { isPrepared, readManifest } from "../datasets/manifest.ts"
import { DessError, show } from "../errors.ts"
import { dropUndefined, needsNetwork, RUN_DEFAULTS, type RunOptions, withDefaults } from "../run/options.ts"
import { parseMethod } from "../search/methods.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import type { Order } from "../stream/order.ts"
import type { HeadKind, Task } from "../types.ts"
import { PAPER_GRIDS, type PaperName } from "./paper-grids.ts"
import { GRID_SCHEMA } from "./schema.ts"
import { checkSchema } from "./schema-check.ts"

export interface DataEntry {
  /** "synthetic", or a file or folder. */
  path: string
  name?: string
  /** As `--columns` takes it. */
  columns?: string
  ratingScale?: string
  likeThreshold?: number
  /** Of the synthetic stream. */
  interactions?: number
  users?: number
  items?: number
}

/** Every key is optional; schema.ts says what each means. */
export interface Grid {
  paper?: PaperName
  methods?: readonly string[]
  tasks?: readonly Task[]
  models?: readonly HeadKind[]
  data?: readonly (string | DataEntry)[]
  seeds?: number | readonly number[]
  presets?: readonly NonNullable<RunOptions["preset"]>[]
  recipes?: readonly NonNullable<RunOptions["recipe"]>[]
  protocols?: readonly NonNullable<RunOptions["protocol"]>[]
  orders?: readonly Order[]
  sizes?: readonly number[]
  segment?: number
  limit?: number
  k?: number
  negatives?: number
  ranking?: NonNullable<RunOptions["ranking"]>
  norm?: NonNullable<RunOptions["norm"]>
  discount?: NonNullable<RunOptions["discount"]>
  variation?: number
  /** Of the dess methods; the others hold what they hold. */
  price?: number
  memoryBudget?: number
  controls?: boolean
}

/** A data set that is there, under the name the tables use. */
export interface GridData extends DataEntry {
  name: string
  /** Bytes of its files: a file of another length is other data. */
  bytes: number
}

/** Keys without a default of their own. */
type Open = "limit" | "negatives" | "ranking" | "norm" | "discount" | "variation" | "price" | "memoryBudget"

export type FullGrid = Required<Omit<Grid, "paper" | "data" | "seeds" | Open>> &
  Pick<Grid, Open> & { data: readonly GridData[]; seeds: readonly number[] }

const DEFAULTS = {
  methods: ["dess-cv", "dess-fre"],
  tasks: [RUN_DEFAULTS.task],
  data: ["synthetic"],
  seeds: 5,
  presets: [RUN_DEFAULTS.preset],
  protocols: [RUN_DEFAULTS.protocol],
  orders: ["time"],
  sizes: RUN_DEFAULTS.sizes,
  segment: RUN_DEFAULTS.segment,
  k: RUN_DEFAULTS.k,
  controls: true,
} as const satisfies Grid

/** Refuses what is not a grid and fills in the defaults. Relative paths start from `base`. */
export function completeGrid(grid: Grid, base = "."): FullGrid {
  checkSchema(grid, GRID_SCHEMA, "grid")
  const { $schema: _, paper, ...own } = grid as Grid & { $schema?: string }
  const asked = { ...DEFAULTS, ...(paper === undefined ? {} : PAPER_GRIDS[paper]), ...own }
  const merged = { ...asked, ...recipesAndModels(asked) }
  const { sizes, segment, ranking, norm, discount, variation, price, memoryBudget } = merged
  const every = { sizes, segment, ranking, norm, discount, variation, horizon: 1 }
  for (const recipe of merged.recipes)
    for (const protocol of merged.protocols)
      for (const task of merged.tasks) withDefaults(dropUndefined({ ...every, recipe, protocol, task }))
  for (const recipe of merged.recipes)
    for (const preset of merged.presets)
      withDefaults(dropUndefined({ method: "dess-fre", recipe, preset, sizes, price, memoryBudget }))
  for (const method of merged.methods) parseMethod(method, merged.sizes)
  const data = merged.data.map((entry) => findData(typeof entry === "string" ? { path: entry } : entry, base))
  const double = data.find(({ name }, i) => data.findIndex((other) => other.name === name) < i)
  if (double)
    throw new DessError(
      "INVALID_ARGUMENT",
      `grid data: expected different names, got ${show(double.name)} twice; give one of them a name of its own`,
    )
  const { seeds } = merged
  return {
    ...merged,
    methods: distinct(merged.methods),
    data,
    seeds: typeof seeds === "number" ? Array.from({ length: seeds }, (_, i) => i + 1) : distinct(seeds),
  }
}

/** As a run has them: what only the paper's recipe has asks for it, and a recipe brings its head. */
function recipesAndModels(grid: Grid & Pick<Required<Grid>, "methods">): Pick<Required<Grid>, "recipes" | "models"> {
  const network =
    (grid.models ?? []).some((model) => needsNetwork({ model })) ||
    grid.methods.some((method) => needsNetwork({ method }))
  const recipes = grid.recipes ?? [network ? "paper" : RUN_DEFAULTS.recipe]
  return { recipes, models: grid.models ?? [recipes.includes("calibrated") ? RUN_DEFAULTS.model : "ncf"] }
}

const distinct = <T>(values: readonly T[]): T[] => [...new Set(values)]

function findData(entry: DataEntry, base: string): GridData {
  if (entry.ratingScale !== undefined) parseRatingScale(entry.ratingScale)
  if (entry.columns !== undefined) parseColumnChoice(entry.columns)
  if (entry.path === "synthetic") {
    for (const key of ["columns", "ratingScale"] as const)
      if (entry[key] !== undefined)
        throw new DessError(
          "INVALID_ARGUMENT",
          `grid data ${key}: expected with a file or folder, got it with "synthetic"`,
        )
    const { interactions = 100_000 } = entry
    const name = entry.name ?? (interactions === 100_000 ? "synthetic" : `synthetic-${interactions}`)
    return { ...entry, interactions, name, bytes: 0 }
  }
  for (const key of ["interactions", "users", "items"] as const)
    if (entry[key] !== undefined)
      throw new DessError(
        "INVALID_ARGUMENT",
        `grid data ${key}: expected with the synthetic stream only, got it with ${show(entry.path)}; use limit`,
      )
  const path = isAbsolute(entry.path) ? entry.path : resolve(base, entry.path)
  if (!existsSync(path))
    throw new DessError("NOT_FOUND", `grid data: expected "synthetic", a file or a folder, got nothing at ${path}`)
  // What dess prepare made knows what it is, wherever it lies.
  const prepared = statSync(path).isDirectory() && isPrepared(path) ? readManifest(path).name : undefined
  const name = entry.name ?? prepared ?? nameOf(path)
  return { ...entry, path, name, bytes: bytesOf(path) }
}

/** Bytes of a file, or of the files directly in a folder. */
function bytesOf(path: string): number {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.size
  return readdirSync(path).reduce((sum, file) => {
    const inner = statSync(join(path, file), { throwIfNoEntry: false })
    return sum + (inner?.isFile() ? inner.size : 0)
  }, 0)
}
