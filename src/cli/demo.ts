/** `dess demo` (npm start): DESS against the controls and fixed sizes on the embedded stream, one table at the end. */

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { DEFAULT_SIZES } from "../models/model.ts"
import { runStream } from "../run/loop.ts"
import { matchProbability } from "../run/match.ts"
import type { RunOptions } from "../run/options.ts"
import type { RunResult } from "../run/report.ts"
import type { Stream } from "../stream/stream.ts"
import { synthetic } from "../stream/synthetic.ts"
import { makeFolder } from "./run.ts"
import { formatBytes, formatMarkdown, formatSeconds, formatTable, Progress, type TableColumn } from "./terminal.ts"

const HELP = `dess demo – compare DESS with its controls on the embedded stream

Usage: dess demo [--interactions 200000] [--seed 1] [--out report]

Example
  dess demo --interactions 20000`

interface Entry {
  name: string
  options: RunOptions
}

/** DESS, the same network at other sizes, fixed sizes, and models without a network. */
const ENTRIES: readonly Entry[] = [
  { name: "dess-cv (calibrated)", options: { method: "dess-cv", preset: "calibrated" } },
  { name: "dess-fre (calibrated)", options: { method: "dess-fre", preset: "calibrated" } },
  { name: "dess-cv (paper)", options: { method: "dess-cv", preset: "paper" } },
  { name: "random-grow (equal bytes)", options: { method: "random-grow" } },
  { name: "never-grow", options: { method: "never-grow" } },
  { name: "always-grow", options: { method: "always-grow" } },
  ...DEFAULT_SIZES.map((size) => ({ name: `uniform-${size}`, options: { method: `uniform-${size}` } })),
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
  { title: "embeddings", align: "right" },
  { title: "regret users", align: "right" },
  { title: "regret items", align: "right" },
  { title: "events/s", align: "right" },
]

export async function demoCommand(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      interactions: { type: "string", default: "200000" },
      seed: { type: "string", default: "1" },
      out: { type: "string", default: "report" },
      help: { type: "boolean", short: "h" },
    },
  })
  if (values.help) {
    console.log(HELP)
    return
  }
  const started = performance.now()
  const stream = synthetic({ interactions: Number(values.interactions), seed: Number(values.seed) })
  makeFolder(values.out)
  const results: { name: string; result: RunResult }[] = []
  let target: Record<"user" | "item", number> | undefined
  for (const entry of ENTRIES) {
    const options = { ...entry.options, seed: Number(values.seed) }
    const matched =
      entry.options.method === "random-grow" && target
        ? { probability: (await matchProbability(stream, options, target)).probability }
        : {}
    const result = await runToEnd(entry.name, stream, { ...options, ...matched })
    results.push({ name: entry.name, result })
    target ??= result.embeddingBytesOverTime
  }
  const rows = results.map(({ name, result }) => cells(name, result))
  rows.push(["majority class", percent(results[0].result.majorityAccuracy), ...Array(COLUMNS.length - 2).fill("–")])
  const took = formatSeconds((performance.now() - started) / 1000)
  const title = `The embedded stream: ${results[0].result.interactions.toLocaleString("en")} interactions, binary task, NCF head, seed ${values.seed}, ${took}.`
  console.log(`\n${formatTable(COLUMNS, rows)}\n\n${title}`)
  const markdown = join(values.out, "demo.md")
  writeFileSync(markdown, `# DESS and its controls\n\n${title}\n\n${formatMarkdown(COLUMNS, rows)}\n`)
  writeFileSync(join(values.out, "demo.json"), `${JSON.stringify(results, null, 2)}\n`)
  console.log(`Report: ${markdown}`)
}

async function runToEnd(name: string, stream: Stream, options: RunOptions): Promise<RunResult> {
  const progress = new Progress(name.padEnd(26), stream.interactions)
  const run = runStream(stream, options)
  for (;;) {
    const { value, done } = await run.next()
    if (done) {
      progress.done()
      return value
    }
    progress.update(value.interactions)
  }
}

const percent = (share = 0) => `${(100 * share).toFixed(2)} %`

function cells(name: string, r: RunResult): string[] {
  return [
    name,
    percent(r.accuracy),
    (r.loss ?? 0).toFixed(4),
    r.meanSize.user.toFixed(1),
    r.meanSize.item.toFixed(1),
    formatBytes(r.embeddingBytes),
    r.regret === null ? "–" : r.regret.user.toFixed(0),
    r.regret === null ? "–" : r.regret.item.toFixed(0),
    Math.round(r.interactionsPerSecond).toLocaleString("en"),
  ]
}
