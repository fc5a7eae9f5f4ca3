/** `dess demo` (npm start): predictions and lists of DESS against a handful of controls on the embedded stream. */

import { join } from "node:path"
import { memoryCurve, SeriesRecorder } from "../experiments/series.ts"
import type { RunOptions } from "../learning/options.ts"
import type { RunResult, SegmentReport } from "../learning/report.ts"
import { type SyntheticStream, synthetic } from "../stream/synthetic/synthetic.ts"
import { renderDemo } from "./demo-page.ts"
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

interface Part {
  title: string
  measure: "loss" | "ndcg"
  entries: readonly Entry[]
  columns: readonly TableColumn[]
  cells(result: RunResult): string[]
}

const entry = (method: string, own: RunOptions = {}): Entry => ({ name: method, options: { method, ...own } })
const right = (title: string): TableColumn => ({ title, align: "right" })
const SIZES = [right("user"), right("item"), right("held"), right("events/s")]

/** DESS and a handful of controls: the same model at one size for all, sizes by chance, the paper's policy, no vectors. */
const PARTS: readonly Part[] = [
  {
    title: "Predictions: is an event a like?",
    measure: "loss",
    entries: [
      entry("dess-fre"),
      entry("random-grow"),
      entry("uniform-4"),
      entry("uniform-16"),
      entry("uniform-16@8"),
      entry("fixed-128"),
      entry("plain-bias"),
      { name: "dess-cv, paper's policy", options: { method: "dess-cv", preset: "paper" } },
    ],
    columns: [{ title: "method" }, right("accuracy"), right("loss"), ...SIZES],
    cells: (result) => [formatPercent(result.accuracy), formatMeasure(result.loss)],
  },
  {
    title: "Lists: are the next events among ten of all items?",
    measure: "ndcg",
    entries: ["dess-fre", "fixed-128", "plain-neighbours", "plain-knn", "plain-popular"].map((method) =>
      entry(method, { task: "topk" }),
    ),
    columns: [{ title: "method" }, right("recall@10"), right("NDCG@10"), ...SIZES],
    cells: (result) => [formatMeasure(result.recall), formatMeasure(result.ndcg)],
  },
]

/**
 * Ranking all items takes longer than one prediction: lists are made along a shorter stream. Its users choose by taste,
 * since there is nothing to learn for lists where they choose by popularity.
 */
const LISTS_SHARE = 0.3

const LEGEND = `loss: squared error of the predicted probability, less is better.
user, item: how many numbers a vector has on average.
held: bytes of all that is kept of ids (vectors, counts, what users chose).
random-grow grows ids by chance until it has the bytes of dess-fre.
Lists are made along a stream of their own, whose users choose by taste and by
what they chose last (dess run --choice taste).`

export async function demoCommand(args: string[]): Promise<void> {
  const { help, interactions = 200_000, seed = 1, out = "report" } = parseFlags(args, FLAGS)
  if (help) {
    console.log(HELP)
    return
  }
  const started = performance.now()
  const streams = [
    synthetic({ interactions, seed }),
    synthetic({ interactions: Math.ceil(interactions * LISTS_SHARE), choice: "taste", seed }),
  ]
  makeFolder(out)
  const parts = await untilStopped(async (signal) => {
    const outcomes: Outcome[][] = []
    for (const [p, { entries }] of PARTS.entries())
      if (!signal.aborted) outcomes.push(await runEntries(streams[p], { entries, seed, signal }))
    return outcomes
  })
  const stopped = parts.length < PARTS.length || parts.some((part, p) => !isWhole(part, PARTS[p]))
  const tables = parts.map((outcomes, p) => {
    const { title, columns, measure } = PARTS[p]
    const length = Math.max(...outcomes.map(({ result }) => result.interactions)).toLocaleString("en")
    return {
      title: `${title} (${length} events).`,
      measure: measure === "loss" ? "loss, less is better" : "NDCG@10, more is better",
      columns,
      rows: outcomes.map((one) => cells(one, PARTS[p])),
      points: outcomes.map(({ name, result }) => ({ name, bytes: heldOf(result), value: result[measure] ?? 0 })),
    }
  })
  const took = formatSeconds((performance.now() - started) / 1000)
  const last = `The embedded stream, default recipe, seed ${seed}, ${took}${stopped ? "; stopped before the end" : ""}.`
  for (const { title, columns, rows } of tables) console.log(`\n${title}\n\n${formatTable(columns, rows)}`)
  console.log(`\n${LEGEND}\n\n${last}`)
  const text = tables.map(({ title, columns, rows }) => `## ${title}\n\n${formatMarkdown(columns, rows)}\n\n`)
  writeFiles(out, {
    "demo.md": `# DESS and its controls\n\n${last}\n\n${text.join("")}${LEGEND}\n`,
    "demo.html": renderDemo(last, LEGEND, tables),
    "demo.json": `${JSON.stringify(parts.flat(), null, 2)}\n`,
  })
  console.log(`Report: ${join(out, "demo.html")}`)
  if (stopped) process.exitCode = 130
}

interface Outcome {
  name: string
  /** Whether it saw the whole stream. */
  whole: boolean
  result: RunResult
}

const isWhole = (outcomes: readonly Outcome[], { entries }: Part) =>
  outcomes.length === entries.length && outcomes.every(({ whole }) => whole)

/** One after the other until the signal; the method it stopped says how far it came. */
async function runEntries(
  stream: SyntheticStream,
  { entries, seed, signal }: { entries: readonly Entry[]; seed: number; signal: AbortSignal },
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const recorder = new SeriesRecorder()
  for (const { name, options: own } of entries) {
    if (signal.aborted && outcomes.length > 0) break
    const options = { ...own, seed }
    const follow = own.method === "random-grow" ? memoryCurve(recorder.series()) : undefined
    const report = outcomes.length === 0 ? (segment: SegmentReport) => recorder.add(segment) : undefined
    const matched = { ...options, ...(follow && { follow }) }
    const result = await drive(stream, matched, { label: name.padEnd(24), signal, report })
    const whole = result.interactions === stream.interactions
    const far = whole ? "" : `, first ${result.interactions.toLocaleString("en")}`
    outcomes.push({ name: `${name}${follow ? " (equal bytes)" : ""}${far}`, whole, result })
  }
  return outcomes
}

const heldOf = ({ memory: { rows, indicators, met } }: RunResult) => rows + indicators + met

function cells({ name, result }: Outcome, part: Part): string[] {
  return [
    name,
    ...part.cells(result),
    result.meanSize.user.toFixed(1),
    result.meanSize.item.toFixed(1),
    formatBytes(heldOf(result)),
    Math.round(result.interactionsPerSecond).toLocaleString("en"),
  ]
}
