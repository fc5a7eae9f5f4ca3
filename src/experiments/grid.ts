/** A grid of runs: the request, validated and completed. */

import { DessError, show } from "../errors.ts"
import {
  needsNetwork,
  type OptionsWith,
  type OptionValues,
  RUN_DEFAULTS,
  SETTINGS,
  settingOf,
  withDefaults,
} from "../learning/options.ts"
import { checkSchema } from "../learning/schema.ts"
import { type DataEntry, findData, type GridData, isImplicit } from "./data.ts"
import { runOptionsOf, splitMethod } from "./method-text.ts"
import { PAPER_GRIDS, type PaperName } from "./paper-grids.ts"
import { loadPlugin, type Plugin } from "./plugin.ts"
import { GRID_SCHEMA, gridName } from "./schema.ts"

type ListName = Exclude<OptionsWith<{ grid: "list" }>, "seed">
type ValueName = OptionsWith<{ grid: "value" }>

/** `tasks: ["binary", "topk"]` of the option `task`, … */
type Lists = { [K in ListName as `${K}s`]?: readonly OptionValues[K][] }

/** Every key is optional; `GRID_SCHEMA` says what each means. */
export interface Grid extends Lists, Partial<Pick<OptionValues, ValueName>> {
  paper?: PaperName
  data?: readonly (string | DataEntry)[]
  seeds?: number | readonly number[]
  controls?: boolean
  /** A module with methods of one's own; relative to the config file. */
  plugin?: string
}

type Decided = "methods" | "tasks" | "models" | "recipes" | "protocols" | "controls"

/** Presets without a list of their own follow the recipes. */
export type FullGrid = Omit<Grid, "paper" | "data" | "seeds" | "plugin"> &
  Required<Pick<Grid, Decided>> & { data: readonly GridData[]; seeds: readonly number[]; own?: Plugin }

const DEFAULTS = {
  methods: ["dess-cv", "dess-fre"],
  tasks: [RUN_DEFAULTS.task],
  data: ["synthetic"],
  seeds: 5,
  protocols: [RUN_DEFAULTS.protocol],
  controls: true,
} as const satisfies Grid

/** Completes a grid with what its files say: the methods of its module, and the task of data without ratings. */
export async function openGrid(grid: Grid, base = "."): Promise<FullGrid> {
  const plugin = grid.plugin === undefined ? undefined : await loadPlugin(String(grid.plugin), base)
  const full = completeGrid(grid, base, plugin)
  if (grid.tasks !== undefined || grid.paper !== undefined) return full
  for (const data of full.data) if (!(await isImplicit(data))) return full
  return completeGrid({ ...grid, tasks: ["topk"] }, base, plugin)
}

/** Refuses what is not a grid and fills in the defaults. Relative paths start from `base`; `own` is what its module has. */
export function completeGrid(grid: Grid, base = ".", own?: Plugin): FullGrid {
  checkSchema(grid, GRID_SCHEMA, "grid")
  const { $schema: _, paper, plugin: __, ...given } = grid as Grid & { $schema?: string }
  const asked = { ...DEFAULTS, ...(paper === undefined ? {} : PAPER_GRIDS[paper]), ...given }
  const merged = { ...asked, ...recipesAndModels(asked) }
  for (const { order: _, ...options } of settingOptions(merged)) {
    for (const task of merged.tasks) withDefaults({ ...options, method: "dess-fre", task, horizon: 1 })
    for (const method of merged.methods) runOptionsOf(method, settingOf(options).sizes, own)
  }
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
    ...(own && { own }),
    methods: distinct(merged.methods),
    data,
    seeds: typeof seeds === "number" ? Array.from({ length: seeds }, (_, i) => i + 1) : distinct(seeds),
  }
}

/** The options of every setting of a grid: its lists crossed with each other; what is not asked for is left out. */
export function settingOptions(grid: Grid): Partial<OptionValues>[] {
  let all: Partial<OptionValues>[] = [{}]
  for (const [name, option] of SETTINGS) {
    const given = grid[gridName(name, option) as keyof Grid]
    if (given === undefined) continue
    const values = option.grid === "list" ? (given as readonly unknown[]) : [given]
    all = all.flatMap((options) => values.map((value) => ({ ...options, [name]: value })))
  }
  return all
}

/** Defaults as of a run: options that only the paper's recipe has choose it, and a recipe chooses its head. */
function recipesAndModels(grid: Grid & Pick<Required<Grid>, "methods">): Pick<Required<Grid>, "recipes" | "models"> {
  const network =
    (grid.models ?? []).some((model) => needsNetwork({ model })) ||
    grid.methods.some((text) => needsNetwork({ method: splitMethod(text).method }))
  const recipes = grid.recipes ?? [network ? "paper" : RUN_DEFAULTS.recipe]
  return { recipes, models: grid.models ?? [recipes.includes("calibrated") ? RUN_DEFAULTS.model : "ncf"] }
}

const distinct = <T>(values: readonly T[]): T[] => [...new Set(values)]
