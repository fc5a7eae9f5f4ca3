/** Results as CSV: one file with a row per run, one with a row per method and measure. */

import { SETTINGS, type Setting } from "../learning/options.ts"
import { MAJORITY } from "./controls.ts"
import { bytesOverTime } from "./cost-table.ts"
import { paperFigure } from "./paper.ts"
import { type CellRecord, isDone } from "./results.ts"
import { holm, type PairedTest } from "./statistics.ts"
import {
  type Block,
  baselinesOf,
  bestBaseline,
  type Entry,
  gatherBlocks,
  MEASURES,
  type Measure,
  sampleOf,
  testEntries,
} from "./summary.ts"

type Value = string | number | undefined | null

/** `memory_budget` of `memoryBudget`. */
const SETTING_COLUMNS = SETTINGS.map(([name]) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`))

function settingValues(setting: Setting): Value[] {
  return SETTINGS.map(([name]) => setting[name]).map((value) => (typeof value === "object" ? value?.join(" ") : value))
}

/** One row per finished run. */
export function renderRunsCsv(records: readonly CellRecord[]): string {
  const head = [
    ...["data", "task", "model", "method", "matched", "seed"],
    ...SETTING_COLUMNS,
    ...["interactions", "accuracy", "loss", "recall", "ndcg", "majority_accuracy", "last_quarter_accuracy"],
    ...[
      "last_quarter_loss",
      "last_quarter_recall",
      "last_quarter_ndcg",
      "embedding_bytes",
      "embedding_bytes_over_time",
    ],
    ...[
      "row_bytes",
      "row_bytes_over_time",
      "held_bytes",
      "user_size",
      "item_size",
      "user_regret",
      "item_regret",
      "policy_ms",
      "growth_ms",
      "train_ms",
    ],
    ...["inference_ms", "interactions_per_second", "peak_rss_bytes", "recall_ceiling"],
  ]
  const rows = records.filter(isDone).map(({ cell, result: r, match }): Value[] => [
    ...[cell.data.name, cell.task, cell.model, cell.method, match?.method, cell.seed],
    ...settingValues(cell.setting),
    ...[r.interactions, r.accuracy, r.loss, r.recall, r.ndcg, r.majorityAccuracy],
    ...[r.lastQuarter.accuracy, r.lastQuarter.loss, r.lastQuarter.recall, r.lastQuarter.ndcg],
    ...[r.embeddingBytes, r.embeddingBytesOverTime.user + r.embeddingBytesOverTime.item],
    // Results kept from before rows had bits lack them.
    ...[r.rowBytes, r.rowBytesOverTime && r.rowBytesOverTime.user + r.rowBytesOverTime.item, r.heldBytes],
    ...[r.meanSize.user, r.meanSize.item, r.regret?.user, r.regret?.item],
    ...[r.milliseconds.policy, r.milliseconds.growth, r.milliseconds.train, r.milliseconds.inference],
    ...[r.interactionsPerSecond, r.peakRssBytes, r.recallCeiling],
  ])
  return render([head, ...rows])
}

/**
 * One row per method and measure: mean, deviation, the paper's figure, and the test over seeds against the best baseline, as it
 * is (`p`) and after Holm's correction (`p_holm`).
 */
export function renderSummaryCsv(records: readonly CellRecord[]): string {
  const head = [
    ...["data", "task", "model"],
    ...SETTING_COLUMNS,
    ...["method", "kind", "measure"],
    ...["seeds", "mean", "deviation", "paper", "embedding_bytes_over_time"],
    ...["baseline", "difference", "t", "degrees", "p", "p_holm"],
  ]
  const rows = gatherBlocks(records).flatMap((block) => {
    const tests = testsOf(block)
    return MEASURES[block.task].flatMap((measure) => {
      const baseline = bestBaseline(block, measure)
      return block.entries.flatMap((entry): Value[][] => {
        const sample = sampleOf(entry, measure)
        if (sample === undefined) return []
        const test = tests.find(({ a, b, of }) => a === entry && b === baseline && of === measure)
        const bytes = entry.label === MAJORITY ? undefined : bytesOverTime(entry)
        return [
          [
            ...[block.data, block.task, block.model],
            ...settingValues(block.setting),
            ...[entry.label, entry.kind, measure, sample.values.length, sample.mean, sample.deviation],
            ...[paperFigure(block, entry.label, measure), bytes],
            ...[test?.b.label, test?.difference, test?.t, test?.degrees, test?.p, test?.corrected],
          ],
        ]
      })
    })
  })
  return render([head, ...rows])
}

interface Tested extends PairedTest {
  a: Entry
  b: Entry
  of: Measure
  /** p after Holm's correction. */
  corrected: number
}

/** Every method against every baseline, of which the best is picked by the figures that are tested: one family for a block. */
function testsOf(block: Block): Tested[] {
  const family = MEASURES[block.task].flatMap((of) =>
    block.entries.flatMap((a) =>
      baselinesOf(block).flatMap((b) => {
        const test = a === b ? undefined : testEntries(a, b, of)
        return test ? [{ ...test, a, b, of }] : []
      }),
    ),
  )
  const corrected = holm(family.map(({ p }) => p))
  return family.map((test, i) => ({ ...test, corrected: corrected[i] }))
}

function render(rows: readonly (readonly Value[])[]): string {
  return rows.map((row) => `${row.map(field).join(",")}\r\n`).join("")
}

/** RFC 4180; a text that a spreadsheet would take for a formula gets an apostrophe before it. */
function field(value: Value): string {
  if (value === undefined || value === null) return ""
  if (typeof value === "number") return String(value)
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
