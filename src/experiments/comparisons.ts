/**
 * One method against another, tested in every way the results allow: over seeds, over blocks of the stream, over users.
 * A difference is taken for one only where all of them agree, after Holm's correction within the table.
 */

import { MAJORITY } from "./controls.ts"
import type { Series } from "./series.ts"
import { blockTest, clusterTest, holm, type IntervalTest, mean, type PairedTest } from "./statistics.ts"
import { type Entry, isBetter, type Measure, testEntries } from "./summary.ts"
import { readUsers } from "./user-scores.ts"

/** The tests of a against b; one that cannot be made is missing. */
export interface Comparison {
  a: Entry
  b: Entry
  measure: Measure
  seeds?: PairedTest
  time?: IntervalTest
  users?: IntervalTest
}

export type Verdict = "better" | "worse" | "not distinguishable"

/** The same, with p-values as they are within a family and what they say together. */
export interface JudgedComparison extends Comparison {
  adjusted: { seeds?: number; time?: number; users?: number }
  /** The largest of them: what a star needs. */
  p?: number
  verdict: Verdict
}

/** Made once: stars, verdicts and differences ask for the same pairs. */
const made = new WeakMap<Entry, Map<Measure, Map<Entry, Comparison>>>()

export function compareEntries(a: Entry, b: Entry, measure: Measure): Comparison {
  const byMeasure = made.get(a) ?? new Map<Measure, Map<Entry, Comparison>>()
  const byOther = byMeasure.get(measure) ?? new Map<Entry, Comparison>()
  const comparison = byOther.get(b) ?? testAll(a, b, measure)
  made.set(a, byMeasure.set(measure, byOther.set(b, comparison)))
  return comparison
}

function testAll(a: Entry, b: Entry, measure: Measure): Comparison {
  const seeds = testEntries(a, b, measure)
  // The majority class has no run of its own, only its figure in those of others.
  if (a.label === MAJORITY || b.label === MAJORITY) return { a, b, measure, ...(seeds && { seeds }) }
  const time = timeTest(a, b, measure)
  const users = userTest(a, b, measure)
  return { a, b, measure, ...(seeds && { seeds }), ...(time && { time }), ...(users && { users }) }
}

export const LEVEL = 0.05

/** Corrects the p-values of a family of comparisons, kind by kind, and judges each. */
export function judge(family: readonly Comparison[]): JudgedComparison[] {
  const kinds = ["seeds", "time", "users"] as const
  const adjusted = family.map((): JudgedComparison["adjusted"] => ({}))
  for (const kind of kinds) {
    const tested = family.flatMap((comparison, i) => (comparison[kind] ? [{ i, p: comparison[kind].p }] : []))
    for (const [t, p] of holm(tested.map(({ p }) => p)).entries()) adjusted[tested[t].i][kind] = p
  }
  return family.map((comparison, i) => {
    const ps = Object.values(adjusted[i])
    const signs = kinds.flatMap((kind) => Math.sign(comparison[kind]?.difference ?? 0) || [])
    const agree = new Set(signs).size === 1
    // One seed leaves the luck of the draw untested.
    const proven = comparison.seeds !== undefined && agree && ps.every((p) => p < LEVEL)
    const better = isBetter(comparison.measure, signs[0] ?? 0, 0)
    return {
      ...comparison,
      adjusted: adjusted[i],
      ...(ps.length > 0 ? { p: Math.max(...ps) } : {}),
      verdict: proven ? (better ? "better" : "worse") : "not distinguishable",
    }
  })
}

/** Pairs of runs with the same seed. */
function pairsOf(a: Entry, b: Entry) {
  return a.runs.flatMap((run) => {
    const other = b.runs.find(({ cell }) => cell.seed === run.cell.seed)
    return other === undefined ? [] : [{ run, other }]
  })
}

/** Along the stream: differences of pieces, mean over the seeds both have. */
function timeTest(a: Entry, b: Entry, measure: Measure): IntervalTest | undefined {
  const columns = pairsOf(a, b).flatMap(({ run, other }) => {
    const piece = differencesOf(run.series, other.series, measure)
    return piece === undefined ? [] : [piece]
  })
  const [first] = columns
  if (first === undefined || columns.some(({ values }) => values.length !== first.values.length)) return undefined
  return blockTest(
    first.values.map((_, i) => mean(columns.map(({ values }) => values[i]))),
    first.weights,
  )
}

function differencesOf(a: Series, b: Series, measure: Measure): { values: number[]; weights: number[] } | undefined {
  const [left, right, weights] = [a[measure], b[measure], a.weights]
  if (!left || !right || !weights || left.length !== right.length) return undefined
  const kept = left.flatMap((x, i) => {
    const y = right[i]
    return x === null || y === null || y === undefined ? [] : [{ value: x - y, weight: weights[i] }]
  })
  return { values: kept.map(({ value }) => value), weights: kept.map(({ weight }) => weight) }
}

/** Over users: differences of their sums, summed over the seeds both have. */
function userTest(a: Entry, b: Entry, measure: Measure): IntervalTest | undefined {
  const place = measure === "accuracy" || measure === "recall" ? "first" : "second"
  let sums: number[] | undefined
  let counts: number[] = []
  for (const { run, other } of pairsOf(a, b)) {
    if (!run.users || !other.users) return undefined
    const [left, right] = [readUsers(run.users), readUsers(other.users)]
    if (left.counts.length !== right.counts.length) return undefined
    sums ??= new Array<number>(left.counts.length).fill(0)
    if (counts.length === 0) counts = new Array<number>(left.counts.length).fill(0)
    for (let u = 0; u < left.counts.length; u++) {
      sums[u] += left[place][u] - right[place][u]
      counts[u] += left.counts[u]
    }
  }
  return sums && clusterTest(sums, counts)
}
