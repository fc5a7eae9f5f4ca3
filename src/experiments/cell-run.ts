/** Runs one cell in this process. */

import { type Liked, likedOf } from "../datasets/data-stream.ts"
import { DessError } from "../errors.ts"
import { matchProbability } from "../learning/equal-memory.ts"
import { runStream } from "../learning/loop.ts"
import { dropInapplicable, dropUndefined, type RunOptions } from "../learning/options.ts"
import type { RunResult } from "../learning/report.ts"
import { UserScores } from "../learning/user-scores.ts"
import type { MemoryCurve } from "../policies/budget-controls.ts"
import { parseMethod } from "../policies/methods.ts"
import type { Stream } from "../stream/stream.ts"
import type { Side } from "../types.ts"
import type { Cell } from "./cells.ts"
import { openEntry } from "./data.ts"
import { runOptionsOf, splitMethod } from "./method-text.ts"
import { loadPlugin, type Plugin } from "./plugin.ts"
import { type Series, SeriesRecorder } from "./series.ts"
import { type KeptUsers, keepUsers } from "./user-scores.ts"

/** The output of `dess run --json`. */
export type RunSummary = RunResult & {
  method: string
  preset: string
  recipe: string
  task: string
  model: string
  protocol: string
  order: string
  seed: number
  data: string
  /** Binary task. */
  liked?: Liked
  peakRssBytes: number
}

/** How closely a matched random-grow met its memory. */
export interface Match {
  method: string
  /** With the paper recipe, where it takes nothing back. */
  probability?: Record<Side, number>
  /** Time-averaged bytes, both sides, of embeddings or, where bytes are followed, of rows: of the run it is compared with, and its own. */
  targetBytes: number
  bytes: number
}

/** The run a cell is matched with: its embedding bytes, and bytes of rows along the stream. */
export interface Reference {
  method: string
  bytes: Record<Side, number>
  rowBytes?: Record<Side, number>
  curve?: MemoryCurve
}

export interface CellJob {
  cell: Cell
  threads: number
  reference?: Reference
}

export type CellOutcome =
  | { status: "done"; result: RunSummary; series: Series; users?: KeptUsers; match?: Match }
  /** The method does not support this data; trying again does not help. */
  | { status: "unsupported"; message: string }
  | { status: "failed"; message: string }

/** Runs the cell to its end; `onProgress` gets the interactions done and, where known, the whole. Errors are thrown. */
export async function runCell(
  job: CellJob,
  onProgress: (interactions: number, total?: number) => void = () => {},
): Promise<CellOutcome> {
  const { cell, threads, reference } = job
  const { method, task, model, seed, setting } = cell
  const { order } = setting
  const plugin = cell.plugin && (await loadPlugin(cell.plugin.path, ".", cell.plugin.sha256))
  const { limit, ...options } = optionsOf(cell, plugin)
  const stream = await openEntry(cell.data, { seed, order, limit })
  if (stream.implicit && task !== "topk")
    return { status: "unsupported", message: `${task} needs ratings and ${cell.data.name} has none; use topk` }
  if (needsFeatures(cell) && stream.features === undefined)
    return {
      status: "unsupported",
      message: `${method} needs item features and ${cell.data.name} has none; use dess-fre`,
    }
  const total = Math.min(limit ?? Number.POSITIVE_INFINITY, stream.interactions ?? Number.POSITIVE_INFINITY)
  const base: RunOptions = {
    ...options,
    threads,
    ...(Number.isFinite(total) ? { horizon: total } : {}),
    ...dropUndefined({ limit, likeThreshold: stream.likeThreshold }),
  }
  const matched = reference && (await matchMemory(stream, base, reference))
  const recorder = new SeriesRecorder()
  const userScores = new UserScores()
  const run = runStream(stream, { ...base, ...matched, userScores })
  let turned = performance.now()
  for (;;) {
    let step: Awaited<ReturnType<typeof run.next>>
    try {
      step = await run.next()
    } catch (error) {
      // A plugin says what it does not support when it is created.
      if (!cell.plugin || !(error instanceof DessError) || error.code !== "UNSUPPORTED") throw error
      return { status: "unsupported", message: error.message }
    }
    const { value, done } = step
    if (done) {
      const { preset, recipe, protocol } = setting
      const named = { method, preset, recipe, task, model, protocol, order, seed, data: cell.data.name }
      const liked = task === "binary" ? { liked: likedOf(stream) } : {}
      const result = { ...named, ...liked, ...value, peakRssBytes: process.resourceUsage().maxRSS * 1024 }
      const series = recorder.series()
      const users = keepUsers(userScores)
      if (!matched || !reference) return { status: "done", result, series, users }
      const sum = (bytes: Record<Side, number>) => bytes.user + bytes.item
      const { method: other, bytes, rowBytes } = reference
      const match =
        "follow" in matched
          ? { method: other, targetBytes: sum(rowBytes ?? bytes), bytes: sum(value.rowBytesOverTime) }
          : { method: other, ...matched, targetBytes: sum(bytes), bytes: sum(value.embeddingBytesOverTime) }
      return { status: "done", result, series, users, match }
    }
    recorder.add(value)
    if (performance.now() - turned < 100) continue
    onProgress(value.interactions, Number.isFinite(total) ? total : undefined)
    // The loop only computes: let messages in and out.
    await new Promise((resolve) => setImmediate(resolve))
    turned = performance.now()
  }
}

/** The options that make random-grow hold what another run holds. */
async function matchMemory(
  stream: Stream,
  options: RunOptions,
  { bytes, curve }: Reference,
): Promise<{ probability: Record<Side, number> } | { follow: MemoryCurve }> {
  if (options.recipe === "calibrated" && curve) return { follow: curve }
  const { probability } = await matchProbability(stream, options, bytes)
  return { probability }
}

/** The options a cell is run with; those of the dess methods are not for the others, which hold what they hold. */
export function optionsOf(cell: Cell, plugin?: Plugin): RunOptions {
  const { task, model, seed, setting } = cell
  const { order: _, limit, ...rest } = setting
  const asked = runOptionsOf(cell.method, setting.sizes, plugin)
  return dropInapplicable({ task, model, seed, ...(limit === null ? {} : { limit }), ...rest, ...asked })
}

function needsFeatures(cell: Cell): boolean {
  if (cell.plugin) return false
  const method = parseMethod(splitMethod(cell.method).method, cell.setting.sizes)
  return method.family === "search" && method.policy.name === "dess" && method.policy.context === "cv"
}
