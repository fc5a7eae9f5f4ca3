/** `dess demo` (npm start): DESS against the controls and fixed sizes on the embedded stream, one table at the end. */

import { join } from "node:path"
import { memoryCurve, SeriesRecorder } from "../experiments/series.ts"
import type { RunOptions } from "../learning/options.ts"
import type { RunResult, SegmentReport } from "../learning/report.ts"
import { DEFAULT_SIZES } from "../models/model.ts"
import { type SyntheticStream, synthetic } from "../stream/synthetic/synthetic.ts"
import { describeFlags, parseFlags, runFlags } from "./flags.ts"
import { untilStopped } from "./interrupt.ts"
import { makeFolder, writeFiles } from "./output.ts"
import { drive } from "./run.ts"
import {
  formatBytes,
  formatMarkdown,
  formatMeasure,
  formatPercent,
  formatSeconds,
  formatTable,
  type TableColumn,
} from "./terminal.ts"

const FLAGS = {
  interactions: { type: "integer", minimum: 1, description: "length of the stream (200000)" },
  ...runFlags(["seed"]),
  out: { type: "string", description: "folder of the report (report)", examples: ["<dir>"] },
} as const

const HELP = `dess demo – compare DESS with its controls on the embedded stream

Usage: dess demo [options]

${describeFlags({ Options: FLAGS })}

Example
  dess demo --interactions 20000`

interface Entry {
  name: string
  options: RunOptions
}

/** DESS, the same model at other sizes, fixed sizes, and the plain models. */
const ENTRIES: readonly Entry[] = [
  { name: "dess-fre (calibrated)", options: { method: "dess-fre" } },
  { name: "dess-cv (calibrated)", options: { method: "dess-cv" } },
  { name: "dess-cv (paper)", options: { method: "dess-cv", preset: "paper" } },
  { name: "random-grow", options: { method: "random-grow" } },
  { name: "never-grow", options: { method: "never-grow" } },
  { name: "always-grow", options: { method: "always-grow" } },
  ...DEFAULT_SIZES.map((size) => ({ name: `uniform-${size}`, options: { method: `uniform-${size}` } })),
  { name: "uniform-4@8", options: { method: "uniform-4@8" } },
  { name: "uniform-16@8", options: { method: "uniform-16@8" } },
  { name: "fixed-128", options: { method: "fixed-128" } },
  { name: "fixed-222", options: { method: "fixed-222" } },
  { name: "plain-bias", options: { method: "plain-bias" } },
  { name: "plain-factor-4", options: { method: "plain-factor-4" } },
]

const COLUMNS: readonly TableColumn[] = [
  { title: "method" },
  { title: "accuracy", align: "right" },
  { title: "loss", align: "right" },
  { title: "user size", align: "right" },
  { title: "item size", align: "right" },
  { title: "rows", align: "right" },
  { title: "regret users", align: "right" },
  { title: "regret items", align: "right" },
  { title: "events/s", align: "right" },
]

export async function demoCommand(args: string[]): Promise<void> {
  const { help, interactions = 200_000, seed = 1, out = "report" } = parseFlags(args, FLAGS)
  if (help) {
    console.log(HELP)
    return
  }
  const started = performance.now()
  const stream = synthetic({ interactions, seed })
  makeFolder(out)
  const results = await untilStopped((signal) => runEntries(stream, seed, signal))
  const rows = results.map(({ name, result }) => cells(name, result))
  const [{ result: first }] = results
  rows.push(["majority class", formatPercent(first.majorityAccuracy), ...Array(COLUMNS.length - 2).fill("–")])
  const took = formatSeconds((performance.now() - started) / 1000)
  const stopped = results.length < ENTRIES.length || results.some(({ whole }) => !whole)
  const title = `The embedded stream: ${first.interactions.toLocaleString("en")} interactions, binary task, calibrated recipe, seed ${seed}, ${took}${stopped ? "; stopped before the end" : ""}.`
  console.log(`\n${formatTable(COLUMNS, rows)}\n\n${title}`)
  writeFiles(out, {
    "demo.md": `# DESS and its controls\n\n${title}\n\n${formatMarkdown(COLUMNS, rows)}\n`,
    "demo.json": `${JSON.stringify(results, null, 2)}\n`,
  })
  console.log(`Report: ${join(out, "demo.md")}`)
  if (stopped) process.exitCode = 130
}

interface Outcome {
  name: string
  /** Whether it saw the whole stream. */
  whole: boolean
  result: RunResult
}

/** One after the other until the signal; the method it stopped says how far it came. */
async function runEntries(stream: SyntheticStream, seed: number, signal: AbortSignal): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const recorder = new SeriesRecorder()
  for (const { name, options: own } of ENTRIES) {
    if (signal.aborted) break
    const options = { ...own, seed }
    const follow = own.method === "random-grow" ? memoryCurve(recorder.series()) : undefined
    const report = outcomes.length === 0 ? (segment: SegmentReport) => recorder.add(segment) : undefined
    const matched = { ...options, ...(follow && { follow }) }
    const result = await drive(stream, matched, { label: name.padEnd(26), signal, report })
    const whole = result.interactions === stream.interactions
    const far = whole ? "" : `, first ${result.interactions.toLocaleString("en")}`
    outcomes.push({ name: `${name}${follow ? " (equal bytes)" : ""}${far}`, whole, result })
  }
  return outcomes
}

function cells(name: string, r: RunResult): string[] {
  return [
    name,
    formatPercent(r.accuracy),
    formatMeasure(r.loss),
    r.meanSize.user.toFixed(1),
    r.meanSize.item.toFixed(1),
    formatBytes(r.rowBytes),
    r.regret === null ? "–" : r.regret.user.toFixed(0),
    r.regret === null ? "–" : r.regret.item.toFixed(0),
    Math.round(r.interactionsPerSecond).toLocaleString("en"),
  ]
}
