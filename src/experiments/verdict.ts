/** The sentences below a table: which controls beat which DESS method, and whether equal memory was put to use. */

import { compareEntries, type JudgedComparison, judge, type Verdict } from "./comparisons.ts"
import type { DoneRecord } from "./results.ts"
import { type Block, describeBlock, type Entry, isBetter, type Measure, sampleOf } from "./summary.ts"
import { formatMeasure, formatP } from "./tables.ts"

/** One sentence per DESS method, or method from outside, of the block; all its tests are one family. */
export function judgeControls(block: Block, measure: Measure): string[] {
  const controls = block.entries.filter(({ kind, method }) => kind === "control" || method.startsWith("fixed-"))
  const subjects = block.entries.filter(({ kind }) => kind === "dess" || kind === "own")
  const measured = (entry: Entry) => sampleOf(entry, measure) !== undefined
  const family = subjects.flatMap((entry) =>
    controls.filter(measured).map((control) => compareEntries(entry, control, measure)),
  )
  const judged = judge(family)
  return subjects.map((entry) => {
    const own = judged.filter(({ a }) => a === entry)
    return `${describeBlock(block)}, ${measure}: ${describeJudged(entry, own, measure)}`
  })
}

function describeJudged(entry: Entry, judged: readonly JudgedComparison[], measure: Measure): string {
  const own = sampleOf(entry, measure)
  if (own === undefined) return `${entry.label} was not measured.`
  const subject = `${entry.label} (${show(measure, own.mean)})`
  if (judged.length === 0) return `${subject} was run without controls, so nothing can be said about it.`
  const named = (verdict: Verdict) =>
    judged
      .filter((one) => one.verdict === verdict)
      .map(({ b, p }) => ({ b, p, value: sampleOf(b, measure)?.mean ?? 0 }))
      .sort((x, y) => (isBetter(measure, x.value, y.value) ? -1 : 1))
      .map(({ b, p, value }) => `${b.label} (${show(measure, value)}${p === undefined ? "" : `, ${formatP(p)}`})`)
  const [worse, better, open] = [named("worse"), named("better"), named("not distinguishable")]
  const parts = [
    worse.length > 0 ? `${subject} is beaten by ${joinNames(worse)}` : `no control beats ${subject}`,
    `${worse.length > 0 ? "" : "it "}beats ${better.length} of ${judged.length} controls`,
    ...(open.length > 0 ? [`${worse.length > 0 ? "" : "it "}is not distinguishable from ${joinNames(open)}`] : []),
  ]
  if (entry.runs.length < 2)
    return `${subject} was run with one seed, which decides nothing; beside it: ${joinNames(open)}${judgeEqualMemory(entry, judged, measure)}.`
  return `${parts.slice(0, -1).join(", ")}, and ${parts.at(-1)}${judgeEqualMemory(entry, judged, measure)}.`
}

/**
 * What the comparison at equal memory says about the policy itself. random-grow starts warm: beside a method that starts
 * cold it would speak of the start, not of the choices.
 */
function judgeEqualMemory(entry: Entry, judged: readonly JudgedComparison[], measure: Measure): string {
  if (entry.method.endsWith("-cold")) return ""
  const grown = judged.filter(({ b }) => b.method === "random-grow")
  const found =
    grown.find(({ b }) => b.runs[0].match?.method === entry.method) ?? grown.find(({ b }) => isEven(entry, b))
  if (found === undefined || sampleOf(found.b, measure) === undefined) return ""
  const proof = found.p === undefined ? " on a single seed" : ` (${formatP(found.p)})`
  const memory = isEven(entry, found.b) ? "at equal memory" : "at memory that could not be matched to 2 %"
  if (found.verdict === "better") return `; ${memory} it beats growing at random${proof}`
  return found.verdict === "worse"
    ? `; ${memory} growing at random beats it${proof}: its choices have gained nothing`
    : `; ${memory} it is not distinguishable from growing at random${proof}`
}

/** Whether two held the same bytes over time, to 2 %, with every seed both have. */
function isEven(a: Entry, b: Entry): boolean {
  const ratios = a.runs.flatMap((run) => {
    const other = b.runs.find(({ cell }) => cell.seed === run.cell.seed)
    return other === undefined ? [] : [bytesOf(other) / bytesOf(run)]
  })
  return ratios.length > 0 && ratios.every((ratio) => Math.abs(ratio - 1) <= 0.02)
}

/** Rows of the paper's recipe are all of one kind; results kept from before rows had bits know of embeddings only. */
function bytesOf({ result: { recipe, embeddingBytesOverTime, rowBytesOverTime } }: DoneRecord): number {
  const bytes = recipe === "paper" ? embeddingBytesOverTime : (rowBytesOverTime ?? embeddingBytesOverTime)
  return bytes.user + bytes.item
}

function show(measure: Measure, value: number): string {
  return measure === "accuracy" ? `${formatMeasure(measure, value)} %` : formatMeasure(measure, value)
}

/** The best few by name: a table of forty controls would make a paragraph that nobody reads. */
const MOST_NAMED = 6

function joinNames(all: readonly string[]): string {
  const more = all.length - MOST_NAMED
  const names = more > 1 ? [...all.slice(0, MOST_NAMED), `${more} more`] : all
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`
}
