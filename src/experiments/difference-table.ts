/** How large the differences of a block are, and which tests carry them. */

import { type Comparison, compareEntries, type JudgedComparison, judge } from "./comparisons.ts"
import { MAJORITY } from "./controls.ts"
import { type Block, baselinesOf, bestBaseline, bestOf, type Entry, MEASURES, type Measure } from "./summary.ts"
import { formatMeasure, formatP, measureTitle, type Row, type Table } from "./tables.ts"

/**
 * Each DESS method, and each from outside, against whom it has to beat; undefined where nobody was run for that. The best are
 * picked by the figures that are tested, so all they were picked from are of the family.
 */
export function differenceTable(block: Block, id: string): Table | undefined {
  const family = MEASURES[block.task].flatMap((measure) =>
    block.entries
      .filter(({ kind }) => kind === "dess" || kind === "own")
      .flatMap((entry) => opponentsOf(block, entry).map((other) => compareEntries(entry, other, measure))),
  )
  const tested = family.filter(({ seeds, time, users }) => seeds || time || users)
  if (tested.length === 0) return undefined
  const shown = judge(tested).filter(({ a, b, measure }) => shownOf(block, a, measure).includes(b))
  return {
    id,
    title: "Differences, and what carries them",
    columns: [
      { title: "Method", text: true },
      { title: "against", text: true },
      { title: "Measure", text: true },
      { title: "Difference" },
      { title: "95 % interval" },
      { title: "Hedges' g" },
      { group: "p after Holm's correction", title: "seeds" },
      { group: "p after Holm's correction", title: "time" },
      { group: "p after Holm's correction", title: "users" },
      { title: "Verdict", text: true },
    ],
    rows: shown.map((one) => rowOf(one, block)),
    notes: [
      "Against: the best baseline, the best control, and random-grow at its memory. Seeds: paired t-test. Time: paired bootstrap of blocks of neighbouring pieces of the stream (2,000 draws), mean over seeds; interval and g are of it, else of users. Users: paired, each user one draw. A difference counts where all tests agree with p < .05 after Holm's correction for all baselines and controls, those without a row here, too, and more than one seed was run.",
    ],
  }
}

const controlsOf = (block: Block) => block.entries.filter(({ kind, label }) => kind === "control" && label !== MAJORITY)

function opponentsOf(block: Block, entry: Entry): Entry[] {
  return [...new Set([...baselinesOf(block, entry), ...controlsOf(block)])]
}

/** Those of them that have a row. */
function shownOf(block: Block, entry: Entry, measure: Measure): (Entry | undefined)[] {
  const controls = controlsOf(block)
  const matched = controls.filter(
    ({ method, runs }) => method === "random-grow" && runs[0].match?.method === entry.method,
  )
  return [bestBaseline(block, measure, entry), bestOf(controls, measure), ...matched]
}

/** The test an interval is taken from. */
const intervalOf = ({ time, users }: Comparison) => time ?? users

function rowOf(one: JudgedComparison, block: Block): Row {
  const { a, b, measure, adjusted, verdict } = one
  const interval = intervalOf(one)
  const signed = (value: number) => {
    const text = formatMeasure(measure, Math.abs(value), Math.abs(value) < 0.0005 ? 1 : 0)
    if (Number(text) === 0) return "0"
    return `${value < 0 ? "−" : "+"}${text}`
  }
  const p = (value: number | undefined) =>
    value === undefined ? "–" : formatP(value).replace("p = ", "").replace("p ", "")
  const texts = [
    a.label,
    b.label,
    measureTitle(measure, block.setting.k),
    signed(one.seeds?.difference ?? interval?.difference ?? 0),
    interval ? `${signed(interval.low)} to ${signed(interval.high)}` : "–",
    interval ? interval.effect.toFixed(2).replace("-", "−") : "–",
    p(adjusted.seeds),
    p(adjusted.time),
    p(adjusted.users),
    verdict,
  ]
  return { kind: a.kind, cells: texts.map((text) => ({ text })) }
}
