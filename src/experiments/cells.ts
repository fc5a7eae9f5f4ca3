/** From a grid to its cells: one run each, with a key that says which run it is. */

import { type Setting, settingOf } from "../learning/options.ts"
import { isCalibrated, parseMethod } from "../policies/methods.ts"
import type { HeadKind, Task } from "../types.ts"
import { controlsOf, methodKind } from "./controls.ts"
import type { GridData } from "./data.ts"
import { type FullGrid, settingOptions } from "./grid.ts"
import { isOwn, splitMethod } from "./method-text.ts"
import type { PluginFile } from "./plugin.ts"

export interface Cell {
  data: GridData
  task: Task
  model: HeadKind
  method: string
  seed: number
  /** Where the method comes from, if not from dess. */
  plugin?: PluginFile
  /** random-grow: the methods whose memory it is to match; the first that runs on this data counts. */
  match?: readonly string[]
  /** Where those come from, if not from dess. */
  matchPlugin?: PluginFile
  setting: Setting
}

/**
 * The same run has the same key wherever its data lies. Of the methods to match only the first is part of it:
 * the others are what is left when the data has no features.
 */
export function cellKey(cell: Cell): string {
  const { path: _, ...data } = cell.data
  const { setting, task, model, method, seed, match, plugin } = cell
  const own = plugin && { plugin: plugin.sha256 }
  return JSON.stringify({
    data: sorted(data),
    task,
    model,
    method,
    seed,
    match: match?.[0],
    ...own,
    ...sorted(setting),
  })
}

function sorted(record: object): object {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The key of another method's run in the same place. */
export function siblingKey(cell: Cell, method: string): string {
  const { match: _, matchPlugin, ...rest } = cell
  return cellKey({ ...rest, method, ...(matchPlugin && { plugin: matchPlugin }) })
}

/** All cells: whole tables for the first seed, then for the next, so that a comparison stopped early still has all methods. */
export function expandGrid(grid: FullGrid): Cell[] {
  const cells: Cell[] = []
  for (const setting of settingOptions(grid).map(settingOf))
    for (const seed of grid.seeds)
      for (const data of grid.data)
        for (const task of grid.tasks)
          for (const model of grid.models)
            for (const method of methodsOf(grid, task, setting))
              for (const more of variantsOf(grid, method))
                cells.push({ data, task, model, method, seed, ...more, setting })
  const keys = new Set<string>()
  return cells.filter((cell) => keys.size < keys.add(cellKey(cell)).size)
}

/** The grid's methods that can do the task with the recipe, then the controls; random-grow last. */
function methodsOf(grid: FullGrid, task: Task, { recipe, sizes }: Setting): string[] {
  const fitting = grid.methods.filter((text) => {
    const { method, model } = splitMethod(text)
    // What a model from outside can do is known when it is made.
    if (isOwn(text, grid.own)) return recipe === "calibrated" || (model === undefined && isOwnPolicy(grid, method))
    return (
      (task === "topk" || parseMethod(method, sizes).family !== "ranker") &&
      (recipe === "calibrated" || !isCalibrated(method))
    )
  })
  const controls = grid.controls ? controlsOf(task, sizes, recipe) : []
  const names = [...new Set([...fitting, ...controls])]
  const matchable = names.some((name) => methodKind(name) === "dess" || isOwnPolicy(grid, name))
  const random = names.filter((name) => name === "random-grow" && (matchable || grid.methods.includes(name)))
  return [...names.filter((name) => name !== "random-grow"), ...random]
}

/** Warm methods first: random-grow starts warm itself, so that only the choices differ. */
const MATCHED = ["dess-cv", "dess-fre"]

/** random-grow is run once for the dess methods, and once for each policy from outside. */
function variantsOf(grid: FullGrid, method: string): Pick<Cell, "plugin" | "match" | "matchPlugin">[] {
  const { own } = grid
  const plugin = own && { path: own.path, sha256: own.sha256 }
  if (plugin && isOwn(method, own)) return [{ plugin }]
  if (method !== "random-grow") return [{}]
  const dess = grid.methods.filter((name) => methodKind(name) === "dess" && !isOwn(name, own))
  const match = [...new Set([...MATCHED.filter((name) => dess.includes(name)), ...dess])]
  const policies = plugin ? grid.methods.filter((name) => isOwnPolicy(grid, name)) : []
  const all = [
    ...(match.length > 0 ? [{ match }] : []),
    ...policies.map((name) => ({ match: [name], ...(plugin && { matchPlugin: plugin }) })),
  ]
  return all.length > 0 ? all : [{}]
}

/** A policy from outside over the rows of dess. */
function isOwnPolicy({ own }: FullGrid, text: string): boolean {
  const { method, model } = splitMethod(text)
  return own !== undefined && model === undefined && Object.hasOwn(own.policies, method)
}
