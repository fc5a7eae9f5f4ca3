/** Records in order: blocks of runs that may be compared with each other, and their measures over the seeds. */

import { isDefault, SETTINGS, type Setting, wordsOf } from "../learning/options.ts"
import type { HeadKind, Task } from "../types.ts"
import { compareMethods, MAJORITY, type MethodKind, methodKind } from "./controls.ts"
import type { GridData } from "./data.ts"
import { type CellRecord, type DoneRecord, isDone } from "./results.ts"
import { mean, type PairedTest, pairedTest, standardDeviation } from "./statistics.ts"

/** One method in a block, with a run per seed. */
export interface Entry {
  /** The method, and what a matched control was matched with. */
  label: string
  method: string
  kind: MethodKind
  /** In order of their seeds. */
  runs: readonly DoneRecord[]
}

/** All methods on one data set, task and model in one setting. */
export interface Block {
  setting: Setting
  data: string
  task: Task
  model: HeadKind
  entries: readonly Entry[]
  /** Labels of methods that cannot work on this data. */
  unsupported: readonly string[]
}

export type Measure = "accuracy" | "loss" | "recall" | "ndcg"

export const MEASURES: Record<Task, readonly [Measure, Measure]> = {
  binary: ["accuracy", "loss"],
  multiclass: ["accuracy", "loss"],
  topk: ["recall", "ndcg"],
}

export const isBetter = (measure: Measure, a: number, b: number): boolean => (measure === "loss" ? a < b : a > b)

/** A measure of one entry over its seeds. */
export interface Sample {
  seeds: readonly number[]
  values: readonly number[]
  mean: number
  deviation: number
}

export function sampleOf(entry: Entry, measure: Measure): Sample | undefined {
  const read = entry.label === MAJORITY && measure === "accuracy" ? "majorityAccuracy" : measure
  const found = entry.runs.flatMap(({ cell, result }) => {
    const value = result[read]
    return value === undefined || value === null ? [] : [{ seed: cell.seed, value }]
  })
  if (found.length === 0 || (entry.label === MAJORITY && measure !== "accuracy")) return undefined
  const values = found.map(({ value }) => value)
  return { seeds: found.map(({ seed }) => seed), values, mean: mean(values), deviation: standardDeviation(values) }
}

/** Mean over the seeds of any figure of the runs. */
export function meanOf(entry: Entry, read: (run: DoneRecord) => number): number {
  return mean(entry.runs.map(read))
}

/** The paired test of a against b over the seeds both have. */
export function testEntries(a: Entry, b: Entry, measure: Measure): PairedTest | undefined {
  const [left, right] = [sampleOf(a, measure), sampleOf(b, measure)]
  if (left === undefined || right === undefined) return undefined
  const common = left.seeds.filter((seed) => right.seeds.includes(seed))
  const pick = ({ seeds, values }: Sample) => common.map((seed) => values[seeds.indexOf(seed)])
  return pairedTest(pick(left), pick(right))
}

/** The entry with the best mean; undefined where none was measured. */
export function bestOf(entries: readonly Entry[], measure: Measure): Entry | undefined {
  let best: { entry: Entry; value: number } | undefined
  for (const entry of entries) {
    const value = sampleOf(entry, measure)?.mean
    if (value !== undefined && (best === undefined || isBetter(measure, value, best.value))) best = { entry, value }
  }
  return best?.entry
}

/**
 * What a method is tested against: the paper's baselines, or the controls where none was run. For a method from outside DESS
 * is a baseline, too.
 */
export function baselinesOf(block: Block, of?: Entry): readonly Entry[] {
  const baselines = block.entries.filter(({ kind }) => kind === "baseline" || (of?.kind === "own" && kind === "dess"))
  return baselines.length > 0 ? baselines : block.entries.filter(({ kind }) => kind === "control")
}

export function bestBaseline(block: Block, measure: Measure, of?: Entry): Entry | undefined {
  return bestOf(baselinesOf(block, of), measure)
}

/** Sorts records into blocks, in the order they were first met. */
export function gatherBlocks(records: readonly CellRecord[]): Block[] {
  const names = nameData(records)
  const groups = new Map<string, CellRecord[]>()
  for (const record of records) {
    const { setting, data, task, model } = record.cell
    const place = JSON.stringify([settingKey(setting), dataKey(data), task, model])
    groups.set(place, [...(groups.get(place) ?? []), record])
  }
  return [...groups.values()].map((group) => {
    const { setting, task, model, data: own } = group[0].cell
    const data = names.get(dataKey(own)) ?? own.name
    const unsupported = group.filter(({ status }) => status === "unsupported").map(labelOf)
    const entries = gatherEntries(group.filter(isDone))
    return { setting, data, task, model, entries, unsupported: [...new Set(unsupported)] }
  })
}

/** A name for each data set there is: read or labelled in another way, or of other bytes, it is another. */
function nameData(records: readonly CellRecord[]): Map<string, string> {
  const names = new Map<string, string>()
  for (const { cell } of records) {
    const key = dataKey(cell.data)
    if (names.has(key)) continue
    const { name, likeThreshold } = cell.data
    const full = likeThreshold === undefined ? name : `${name} (liked above ${likeThreshold})`
    const taken = new Set(names.values())
    let free = full
    for (let n = 2; taken.has(free); n++) free = `${full} (${n})`
    names.set(key, free)
  }
  return names
}

function dataKey({ path: _, ...data }: GridData): string {
  return JSON.stringify(Object.entries(data).sort(([a], [b]) => (a < b ? -1 : 1)))
}

function gatherEntries(records: readonly DoneRecord[]): Entry[] {
  const byLabel = new Map<string, Map<number, DoneRecord>>()
  for (const record of records) {
    const label = labelOf(record)
    byLabel.set(label, (byLabel.get(label) ?? new Map()).set(record.cell.seed, record))
  }
  const entries = [...byLabel].map(([label, bySeed]): Entry => {
    const runs = [...bySeed.values()].sort((a, b) => a.cell.seed - b.cell.seed)
    const { method } = runs[0].cell
    return { label, method, kind: runs[0].cell.plugin ? "own" : methodKind(method), runs }
  })
  // Every run knows how often the majority class is right; the entry with most seeds is used.
  const mostSeeds = entries.reduce<Entry | undefined>(
    (most, entry) => (entry.runs.length > (most?.runs.length ?? 0) ? entry : most),
    undefined,
  )
  if (typeof mostSeeds?.runs[0].result.majorityAccuracy === "number")
    entries.push({ label: MAJORITY, method: MAJORITY, kind: "control", runs: mostSeeds.runs })
  return entries.sort((a, b) => compareMethods(a.label, b.label))
}

function labelOf({ cell, match }: CellRecord): string {
  const reference = match?.method ?? cell.match?.[0]
  return reference === undefined ? cell.method : `${cell.method} = ${reference}`
}

/** Settings with the same key may share a table. */
export function settingKey(setting: Setting): string {
  return JSON.stringify(Object.entries(setting).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A setting in one line: what always counts, and what is not the default. */
export function describeSetting(setting: Setting): string {
  return SETTINGS.flatMap(([name, { titled, title = `${wordsOf(name)} {}` }]) => {
    const value = setting[name] ?? undefined
    if (value === undefined || (!titled && isDefault(name, setting))) return []
    return title.replace("{}", formatSetting(value))
  }).join(", ")
}

/** A value of a setting as people read it. */
export function formatSetting(value: NonNullable<Setting[keyof Setting]>, separator = " "): string {
  if (typeof value === "object") return value.join(separator)
  return Number.isInteger(value) ? value.toLocaleString("en") : String(value)
}

export function describeBlock({ data, task, model }: Block): string {
  return `${data}, ${task === "topk" ? "top-k" : task}, ${model}`
}
