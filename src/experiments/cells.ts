/** From a grid to its cells: one run each, with a key that says which run it is. */

import { type Setting, settingOf } from "../learning/options.ts"
import { isCalibrated, parseMethod } from "../policies/methods.ts"
import type { HeadKind, Task } from "../types.ts"
import { controlsOf, methodKind } from "./controls.ts"
import type { GridData } from "./data.ts"
import { type FullGrid, settingOptions } from "./grid.ts"

export interface Cell {
  data: GridData
  task: Task
  model: HeadKind
  method: string
  seed: number
  /** random-grow: the methods whose memory it is to match; the first that runs on this data counts. */
  match?: readonly string[]
  setting: Setting
}

/**
 * The same run has the same key wherever its data lies. Of the methods to match only the first is part of it:
 * the others are what is left when the data has no features.
 */
export function cellKey(cell: Cell): string {
  const { path: _, ...data } = cell.data
  const { setting, task, model, method, seed, match } = cell
  return JSON.stringify({ data: sorted(data), task, model, method, seed, match: match?.[0], ...sorted(setting) })
}

function sorted(record: object): object {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The key of another method's run in the same place. */
export function siblingKey(cell: Cell, method: string): string {
  const { match: _, ...rest } = cell
  return cellKey({ ...rest, method })
}

/** All cells: whole tables for the first seed, then for the next, so that a comparison stopped early still has all methods. */
export function expandGrid(grid: FullGrid): Cell[] {
  const cells: Cell[] = []
  for (const setting of settingOptions(grid).map(settingOf))
    for (const seed of grid.seeds)
      for (const data of grid.data)
        for (const task of grid.tasks)
          for (const model of grid.models)
            for (const method of methodsOf(grid, task, setting.recipe))
              cells.push({ data, task, model, method, seed, ...matchOf(grid, method), setting })
  const keys = new Set<string>()
  return cells.filter((cell) => keys.size < keys.add(cellKey(cell)).size)
}

/** The grid's methods that can do the task with the recipe, then the controls; random-grow last. */
function methodsOf(grid: FullGrid, task: Task, recipe: Setting["recipe"]): string[] {
  const fitting = grid.methods.filter(
    (method) =>
      (task === "topk" || parseMethod(method, grid.sizes).family !== "ranker") &&
      (recipe === "calibrated" || !isCalibrated(method)),
  )
  const controls = grid.controls ? controlsOf(task, grid.sizes, recipe) : []
  const names = [...new Set([...fitting, ...controls])]
  const matchable = names.some((name) => methodKind(name) === "dess")
  const random = names.filter((name) => name === "random-grow" && (matchable || grid.methods.includes(name)))
  return [...names.filter((name) => name !== "random-grow"), ...random]
}

/** Warm methods first: random-grow starts warm itself, so that only the choices differ. */
const MATCHED = ["dess-cv", "dess-fre"]

function matchOf(grid: FullGrid, method: string): { match?: readonly string[] } {
  const own = grid.methods.filter((name) => methodKind(name) === "dess")
  const match = [...new Set([...MATCHED.filter((name) => own.includes(name)), ...own])]
  return method === "random-grow" && match.length > 0 ? { match } : {}
}
