/** From a grid to its cells: one run each, with a key that says which run it is. */

import { defaultNegatives, dropUndefined, type RunOptions } from "../run/options.ts"
import { parseMethod } from "../search/methods.ts"
import type { Order } from "../stream/order.ts"
import type { HeadKind, Task } from "../types.ts"
import { controlsOf, methodKind } from "./controls.ts"
import type { FullGrid, GridData } from "./grid.ts"

/** Everything that makes cells comparable with each other. */
export interface Setting {
  preset: NonNullable<RunOptions["preset"]>
  recipe: NonNullable<RunOptions["recipe"]>
  protocol: NonNullable<RunOptions["protocol"]>
  order: Order
  segment: number
  sizes: readonly number[]
  k: number
  negatives: number
  limit: number | null
  /** Held only where they are not the default, so that results without them keep their keys. */
  ranking?: "bpr"
  norm?: "batch"
  discount?: number | "auto"
  variation?: number
  price?: number
  memoryBudget?: number
}

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

/** All cells: whole tables for the first seed, then for the next, so that a run stopped early still compares everybody. */
export function expandGrid(grid: FullGrid): Cell[] {
  const cells: Cell[] = []
  for (const setting of settings(grid))
    for (const seed of grid.seeds)
      for (const data of grid.data)
        for (const task of grid.tasks)
          for (const model of grid.models)
            for (const method of methodsOf(grid, task))
              cells.push({ data, task, model, method, seed, ...matchOf(grid, method), setting })
  const keys = new Set<string>()
  return cells.filter((cell) => keys.size < keys.add(cellKey(cell)).size)
}

function settings(grid: FullGrid): Setting[] {
  const { segment, sizes, k, limit = null, ranking, norm, discount, variation, price, memoryBudget } = grid
  const rest = {
    ...{ segment, sizes, k, limit },
    ...(ranking === "bpr" ? { ranking } : {}),
    ...(norm === "batch" ? { norm } : {}),
    ...dropUndefined({ discount, variation, price, memoryBudget }),
  }
  return grid.presets.flatMap((preset) =>
    grid.recipes.flatMap((recipe) => {
      const { negatives = defaultNegatives(recipe, ranking) } = grid
      return grid.protocols.flatMap((protocol) =>
        grid.orders.map((order) => ({ preset, recipe, protocol, order, negatives, ...rest })),
      )
    }),
  )
}

/** The grid's methods that can do the task, then the controls; random-grow after everybody. */
function methodsOf(grid: FullGrid, task: Task): string[] {
  const fitting = grid.methods.filter(
    (method) => task === "topk" || parseMethod(method, grid.sizes).family !== "ranker",
  )
  const controls = grid.controls ? controlsOf(task, grid.sizes) : []
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
