/** Tables as data: columns in groups, rows of texts. How they look is up to the terminal, Markdown, CSV and HTML. */

import type { MethodKind } from "./controls.ts"
import { compareMethods, MAJORITY } from "./controls.ts"
import { paperFigure } from "./paper.ts"
import {
  type Block,
  bestBaseline,
  bestOf,
  type Entry,
  isBetter,
  type Measure,
  sampleOf,
  testEntries,
} from "./summary.ts"

export interface Column {
  /** Columns of one group stand under a common head. */
  group?: string
  title: string
  /** The paper's figures, not ours. */
  paper?: boolean
  text?: boolean
}

export interface TableCell {
  text: string
  /** The best of its column. */
  best?: boolean
}

export interface Row {
  kind: MethodKind
  /** One per column. */
  cells: readonly TableCell[]
}

export interface Table {
  id: string
  title: string
  columns: readonly Column[]
  rows: readonly Row[]
  /** Sentences below it. */
  notes: readonly string[]
}

/** The head of a measure's column; `k` is the length of a ranked list. */
export function measureTitle(measure: Measure, k: number): string {
  if (measure === "accuracy") return "Accuracy %"
  return measure === "loss" ? "Loss" : `${measure === "recall" ? "Recall" : "NDCG"}@${k}`
}

/** A measure as the paper prints it. */
export function formatMeasure(measure: Measure, value: number): string {
  return measure === "accuracy" ? (100 * value).toFixed(2) : value.toFixed(4)
}

export function formatP(p: number): string {
  return p < 0.001 ? "p < .001" : `p = ${p.toFixed(3).replace(/^0/, "")}`
}

/** `**` for p < .01, `*` for p < .05; daggers where the difference is to the worse. */
export function starsOf(p: number, better: boolean): string {
  if (!(p < 0.05)) return ""
  return (better ? "*" : "†").repeat(p < 0.01 ? 2 : 1)
}

export const STARS_NOTE =
  "Mean ± standard deviation over seeds, the best of each column in bold. */**: better than the best baseline with p < .05/.01 (paired t-test over seeds, two-sided); †/††: worse."

/** A column of a table of measures. */
export interface MeasureColumn {
  group: string
  title: string
  block: Block
  measure: Measure
}

/** Methods down, data sets and measures across; where the paper has figures they stand beside ours. */
export function measureTable(
  head: { id: string; title: string; notes: readonly string[] },
  wanted: readonly MeasureColumn[],
): Table {
  const methods = new Map<string, Entry>()
  for (const { block } of wanted) for (const entry of block.entries) methods.set(entry.label, entry)
  const names = [...new Set([...methods.keys(), ...wanted.flatMap(({ block }) => block.unsupported)])]
  names.sort(compareMethods)
  const drawn = wanted.map((column) => drawColumn(column, names))
  const columns: Column[] = [{ title: "Method", text: true }, ...drawn.flatMap(({ columns }) => columns)]
  const rows = names.map((name, i): Row => {
    const kind = methods.get(name)?.kind ?? "dess"
    return { kind, cells: [{ text: name }, ...drawn.flatMap(({ cells }) => cells[i])] }
  })
  return { ...head, columns, rows }
}

/** Our column, followed by the paper's if it has one; `cells` by name. */
function drawColumn(wanted: MeasureColumn, names: readonly string[]): { columns: Column[]; cells: TableCell[][] } {
  const { block, measure, group, title } = wanted
  const best = bestOf(block.entries, measure)?.label
  const baseline = bestBaseline(block, measure)
  const ours = names.map((name): TableCell => {
    const entry = block.entries.find(({ label }) => label === name)
    if (entry === undefined) return { text: block.unsupported.includes(name) ? "N/A" : "–" }
    const text = describeSample(entry, measure, baseline)
    return name === best ? { text, best: true } : { text }
  })
  const theirs = names.map((name) => paperFigure(block, name, measure))
  if (theirs.every((value) => value === undefined))
    return { columns: [{ group, title }], cells: ours.map((cell) => [cell]) }
  const paper = theirs.map((value): TableCell => ({ text: value === undefined ? "–" : formatMeasure(measure, value) }))
  return {
    columns: [
      { group, title },
      { group, title: "paper", paper: true },
    ],
    cells: ours.map((cell, i) => [cell, paper[i]]),
  }
}

function describeSample(entry: Entry, measure: Measure, baseline: Entry | undefined): string {
  const sample = sampleOf(entry, measure)
  if (sample === undefined) return "–"
  const spread =
    sample.values.length > 1 && entry.label !== MAJORITY ? ` ± ${formatMeasure(measure, sample.deviation)}` : ""
  const test = entry.kind === "dess" && baseline ? testEntries(entry, baseline, measure) : undefined
  const stars = test ? starsOf(test.p, isBetter(measure, test.difference, 0)) : ""
  return `${formatMeasure(measure, sample.mean)}${spread}${stars}`
}
