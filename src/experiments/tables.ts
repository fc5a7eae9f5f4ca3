/** Tables as data: columns in groups, rows of texts. How they look is up to the terminal, Markdown, CSV and HTML. */

import { compareEntries, type JudgedComparison, judge } from "./comparisons.ts"
import type { MethodKind } from "./controls.ts"
import { compareMethods, MAJORITY } from "./controls.ts"
import { paperFigure } from "./paper.ts"
import { type Block, baselinesOf, bestOf, type Entry, type Measure, sampleOf } from "./summary.ts"

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

/** A measure as the paper prints it; `more` decimals where that says nothing. */
export function formatMeasure(measure: Measure, value: number, more = 0): string {
  return measure === "accuracy" ? (100 * value).toFixed(2 + more) : value.toFixed(4 + more)
}

/** Decimals that a deviation needs to show a digit, up to two more than usual; undefined where even they show none. */
function decimalsFor(measure: Measure, deviation: number): number | undefined {
  return [0, 1, 2].find((more) => Number(formatMeasure(measure, deviation, more)) > 0)
}

export function formatP(p: number): string {
  return p < 0.001 ? "p < .001" : `p = ${p.toFixed(3).replace(/^0/, "")}`
}

/** `**` for p < .01, `*` for p < .05 where a method beats all it was judged against; daggers where one of them beats it. */
function starsOf(judged: readonly JudgedComparison[]): string {
  const ps = (wanted: string) => judged.flatMap(({ verdict, p }) => (verdict === wanted && p !== undefined ? [p] : []))
  const [better, worse] = [ps("better"), ps("worse")]
  if (worse.length > 0) return "†".repeat(Math.min(...worse) < 0.01 ? 2 : 1)
  if (better.length === 0 || better.length < judged.length) return ""
  return "*".repeat(Math.max(...better) < 0.01 ? 2 : 1)
}

export const STARS_NOTE =
  "Mean ± standard deviation over seeds (none where they do not differ), the best of each column in bold. */**: better than every baseline (control, where none was run) with p < .05/.01, †/††: worse than one at least, in every paired test that can be made: over seeds (t), over blocks of the stream (bootstrap) and over users; two-sided, after Holm's correction for all pairs of the table's methods and baselines."

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
  const stars = starsIn(wanted)
  const drawn = wanted.map((column) => drawColumn(column, names, stars))
  const columns: Column[] = [{ title: "Method", text: true }, ...drawn.flatMap(({ columns }) => columns)]
  const rows = names.map((name, i): Row => {
    const kind = methods.get(name)?.kind ?? "dess"
    return { kind, cells: [{ text: name }, ...drawn.flatMap(({ cells }) => cells[i])] }
  })
  return { ...head, columns, rows }
}

/** The stars of a table, by column and method: one family of tests. */
function starsIn(wanted: readonly MeasureColumn[]): Map<MeasureColumn, Map<string, string>> {
  const family = wanted.flatMap((column) =>
    column.block.entries
      .filter(({ kind }) => kind === "dess" || kind === "own")
      .flatMap((entry) =>
        baselinesOf(column.block, entry)
          .filter((other) => sampleOf(other, column.measure) !== undefined)
          .map((other) => ({ column, comparison: compareEntries(entry, other, column.measure) })),
      ),
  )
  const judged = judge(family.map(({ comparison }) => comparison))
  return new Map(
    wanted.map((column) => {
      const own = judged.filter((_, i) => family[i].column === column)
      const subjects = new Set(own.map(({ a }) => a))
      return [column, new Map([...subjects].map((entry) => [entry.label, starsOf(own.filter(({ a }) => a === entry))]))]
    }),
  )
}

/** Our column, followed by the paper's if it has one; `cells` by name. */
function drawColumn(
  wanted: MeasureColumn,
  names: readonly string[],
  stars: ReadonlyMap<MeasureColumn, ReadonlyMap<string, string>>,
): { columns: Column[]; cells: TableCell[][] } {
  const { block, measure, group, title } = wanted
  const best = bestOf(block.entries, measure)?.label
  const ours = names.map((name): TableCell => {
    const entry = block.entries.find(({ label }) => label === name)
    if (entry === undefined) return { text: block.unsupported.includes(name) ? "N/A" : "–" }
    const text = `${describeSample(entry, measure)}${stars.get(wanted)?.get(name) ?? ""}`
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

function describeSample(entry: Entry, measure: Measure): string {
  const sample = sampleOf(entry, measure)
  if (sample === undefined) return "–"
  return formatMean(measure, sample.mean, entry.label === MAJORITY ? 0 : sample.deviation)
}

/** Mean ± standard deviation, with the decimals the deviation needs; without it where none shows. */
export function formatMean(measure: Measure, mean: number, deviation: number): string {
  const more = decimalsFor(measure, deviation)
  if (more === undefined) return formatMeasure(measure, mean)
  return `${formatMeasure(measure, mean, more)} ± ${formatMeasure(measure, deviation, more)}`
}
