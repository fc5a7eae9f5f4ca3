/** The sentences below a table: which controls beat which DESS method, and whether equal memory was put to use. */

import type { DoneRecord } from "./results.ts"
import { type Block, describeBlock, type Entry, isBetter, type Measure, sampleOf, testEntries } from "./summary.ts"
import { formatMeasure, formatP } from "./tables.ts"

/** One sentence per DESS method of the block. */
export function judgeControls(block: Block, measure: Measure): string[] {
  const controls = block.entries.filter(({ kind, method }) => kind === "control" || method.startsWith("fixed-"))
  return block.entries
    .filter(({ kind }) => kind === "dess")
    .map((entry) => `${describeBlock(block)}, ${measure}: ${judge(entry, controls, measure)}`)
}

function judge(entry: Entry, controls: readonly Entry[], measure: Measure): string {
  const own = sampleOf(entry, measure)
  if (own === undefined) return `${entry.label} was not measured.`
  const others = controls.flatMap((control) => {
    const value = sampleOf(control, measure)?.mean
    return value === undefined ? [] : [{ control, value }]
  })
  const subject = `${entry.label} (${show(measure, own.mean)})`
  if (others.length === 0) return `${subject} was run without controls, so nothing can be said about it.`
  const winners = others.filter(({ value }) => isBetter(measure, value, own.mean))
  winners.sort((a, b) => (isBetter(measure, a.value, b.value) ? -1 : 1))
  const named = winners.map(({ control, value }) => {
    const test = testEntries(control, entry, measure)
    return `${control.label} (${show(measure, value)}${test ? `, ${formatP(test.p)}` : ""})`
  })
  const beaten =
    named.length === 0
      ? `no control beats ${subject}`
      : `${subject} is beaten by ${joinNames(named)}, and beats ${others.length - named.length} of ${others.length} controls`
  return `${beaten}${judgeEqualMemory(entry, controls, measure)}.`
}

/**
 * What the comparison at equal memory says about the policy itself. random-grow starts warm: beside a method that starts
 * cold it would speak of the start, not of the choices.
 */
function judgeEqualMemory(entry: Entry, controls: readonly Entry[], measure: Measure): string {
  if (entry.method.endsWith("-cold")) return ""
  const grown = controls.filter(({ method }) => method === "random-grow")
  const random =
    grown.find(({ runs }) => runs[0].match?.method === entry.method) ?? grown.find((other) => isEven(entry, other))
  const [own, other] = [sampleOf(entry, measure), random && sampleOf(random, measure)]
  if (random === undefined || own === undefined || other === undefined) return ""
  const test = testEntries(entry, random, measure)
  const proof = test ? ` (${formatP(test.p)})` : " on a single seed"
  const memory = isEven(entry, random) ? "at equal memory" : "at memory that could not be matched to 2 %"
  if (!isBetter(measure, own.mean, other.mean))
    return `; ${memory} it does not beat growing at random${proof}: its choices have gained nothing`
  return test && test.p < 0.05
    ? `; ${memory} it beats growing at random${proof}`
    : `; ${memory} it is ahead of growing at random, which these seeds do not prove${proof}`
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

function joinNames(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`
}
