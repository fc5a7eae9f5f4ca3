/** `dess run`: one method along one stream. */

import { describeLiked, type Liked, likedOf } from "../datasets/data-stream.ts"
import { boundHeaps } from "../engine/process-memory.ts"
import { checkTask, DATA_OPTIONS, isImplicit, openEntry } from "../experiments/data.ts"
import { runOptionsOf, splitMethod } from "../experiments/method-text.ts"
import { loadPlugin } from "../experiments/plugin.ts"
import { chosenDiscount } from "../learning/create.ts"
import { runStream } from "../learning/loop.ts"
import {
  dropUndefined,
  OPTION_ENTRIES,
  type OptionsWith,
  RUN_DEFAULTS,
  RUN_OPTIONS,
  type RunOption,
  type RunOptions,
  usualSizes,
  withDefaults,
} from "../learning/options.ts"
import type { NextQuality, NextResult, RunResult, SegmentReport } from "../learning/report.ts"
import type { Stream } from "../stream/stream.ts"
import { describeFlags, parseFlags, runFlags } from "./flags.ts"
import { untilStopped } from "./interrupt.ts"
import { makeFolder, writeFiles } from "./output.ts"
import { formatBytes, formatMeasure, formatPercent, formatTable, noteLatin1, Progress } from "./terminal.ts"

type Heading = NonNullable<RunOption["group"]>
type RunFlag = OptionsWith<{ group: Heading }>

/** The options of a run that stand under these headings. */
const flagsOf = (...headings: Heading[]) =>
  runFlags(OPTION_ENTRIES.filter(([, { group }]) => group && headings.includes(group)).map(([name]) => name as RunFlag))

const DATA = {
  data: {
    type: "string",
    description:
      "a MovieLens folder, a CSV/TSV with a header, what dess prepare made, or the embedded stream (synthetic)",
    examples: ["<folder|file|synthetic>"],
  },
  ...DATA_OPTIONS,
} as const
const PLUGIN = {
  plugin: {
    type: "string",
    description: "a module with methods of your own, whose names --method then takes",
    examples: ["<mine.mjs>"],
  },
} as const
const OUTPUT = {
  json: { type: "boolean", description: "one JSON object on stdout" },
  out: { type: "string", description: "also write result.json and segments.jsonl there", examples: ["<dir>"] },
} as const

export const RUN_FLAGS = { ...DATA, ...flagsOf("Data", "Method", "Run", "Advanced"), ...PLUGIN, ...OUTPUT }

const HELP = `dess run – run one method along a stream and print what it measured

Usage: dess run [options]

${describeFlags({
  Data: { ...DATA, ...flagsOf("Data") },
  Method: { ...flagsOf("Method"), ...PLUGIN },
  Run: { ...flagsOf("Run"), ...OUTPUT },
  Advanced: flagsOf("Advanced"),
})}

Examples
  dess run
  dess run --data ml-1m --method dess-cv --recipe paper
  dess run --data ratings.csv --method fixed-128 --json
  dess run --interactions 1000000 --method always-grow --out results/always
  dess run --plugin ./mine.mjs --method mine:least=8`

export async function runCommand(args: string[]): Promise<void> {
  const {
    help,
    json,
    out,
    data: path = "synthetic",
    order = RUN_OPTIONS.order.default,
    plugin: module,
    ...values
  } = parseFlags(args, RUN_FLAGS)
  if (help) {
    console.log(HELP)
    return
  }
  const { columns, ratingScale, likeThreshold, interactions, users, items, choice, implicit, type, types, ...options } =
    values
  const entry = {
    path,
    ...dropUndefined({
      columns,
      ratingScale,
      likeThreshold,
      interactions,
      users,
      items,
      choice,
      implicit,
      type,
      types,
    }),
  }
  // Without ratings there is only one task.
  const task = options.task ?? ((await isImplicit(entry)) ? "topk" : RUN_DEFAULTS.task)
  const method = options.method ?? RUN_DEFAULTS.method
  const plugin = module === undefined ? undefined : await loadPlugin(module)
  const { method: _, ...rest } = options
  const { method: builtIn } = splitMethod(method)
  const sizes = options.sizes ?? usualSizes({ ...dropUndefined(rest), method: builtIn })
  const given: RunOptions & { seed: number } = {
    seed: RUN_DEFAULTS.seed,
    ...rest,
    task,
    sizes,
    ...runOptionsOf(method, sizes, plugin),
  }
  const { seed, limit } = given
  // Refused before the data are read, whose length is not known yet.
  withDefaults({ horizon: 1, ...given })
  const reading = new Progress("reading")
  const onRead = (rows: number, share: number) => reading.update(rows, share)
  const stream = await openEntry(entry, { seed, order, limit, onRead }).finally(() => reading.done())
  if (stream.encoding === "latin-1") noteLatin1(stream.name)
  for (const note of stream.notes ?? []) process.stderr.write(`dess: ${stream.name}: ${note}\n`)
  checkTask(task, stream, stream.name)
  if (out !== undefined) makeFolder(out)
  const horizon = Math.min(limit ?? Number.POSITIVE_INFINITY, stream.interactions ?? Number.POSITIVE_INFINITY)
  const known = { horizon: Number.isFinite(horizon) ? horizon : undefined, likeThreshold: stream.likeThreshold }
  const whole = { ...given, ...dropUndefined(known) }
  // What a segment leaves behind would else be most of what a run takes.
  await boundHeaps()
  const lines: string[] = []
  // Only for the file: thousands of reports are most of what a long run would keep.
  const report = out === undefined ? undefined : (segment: SegmentReport) => lines.push(`${JSON.stringify(segment)}\n`)
  const { result, interrupted } = await untilStopped(async (signal) => ({
    result: await drive(stream, whole, { label: method, signal, report }),
    interrupted: signal.aborted,
  }))
  const full = withDefaults(whole)
  const { preset, recipe, model, protocol, norm } = full
  const named = {
    ...{ method, preset, recipe, task, model, protocol },
    ...(plugin ? { plugin: plugin.sha256 } : {}),
    ...(norm === "batch" ? { norm } : {}),
    ...dropUndefined({ discount: chosenDiscount(full, stream.features) }),
    order,
    seed,
    data: stream.name,
  }
  const peakRssBytes = process.resourceUsage().maxRSS * 1024
  const liked = task === "binary" ? { liked: likedOf(stream) } : {}
  const summary = { ...named, ...liked, ...result, peakRssBytes, ...(interrupted ? { interrupted } : {}) }
  console.log(json ? JSON.stringify(summary) : describe(summary))
  if (interrupted) {
    process.exitCode = 130
    process.stderr.write(`dess: stopped after ${result.interactions} interactions; the figures are of these\n`)
  }
  if (out !== undefined)
    writeFiles(out, {
      "segments.jsonl": lines.join(""),
      "result.json": `${JSON.stringify(summary, null, 2)}\n`,
    })
}

type Summary = RunResult & { method: string; data: string; liked?: Liked; discount?: number; peakRssBytes: number }

/** Runs to the end, or until the signal, with a progress bar. */
export async function drive(
  stream: Stream,
  options: RunOptions,
  p: { label: string; signal: AbortSignal; report?: ((segment: SegmentReport) => void) | undefined },
): Promise<RunResult> {
  const total =
    options.limit === undefined ? stream.interactions : Math.min(options.limit, stream.interactions ?? options.limit)
  const progress = new Progress(p.label, total)
  const run = runStream(stream, options)
  let turned = performance.now()
  try {
    for (;;) {
      const { value, done } = await run.next(p.signal.aborted)
      if (done) return value
      p.report?.(value)
      progress.update(value.interactions)
      // The loop is all computing: let Ctrl-C in.
      if (performance.now() - turned > 50) {
        await new Promise((resolve) => setImmediate(resolve))
        turned = performance.now()
      }
    }
  } finally {
    progress.done()
  }
}

/** HR@10 and NDCG@10 of "Time to Split" (RecSys '25) on MovieLens 1M, 5-core: trained up to the .9 quantile of time, then frozen. */
const PUBLISHED = { "SASRec+": [0.2062, 0.1121], GRU4Rec: [0.1992, 0.1084] } as const

/** Frozen and online, and published figures where the targets are the same. */
function nextRows(next: NextResult, k: number, data: string): string[][] {
  const row = (q: NextQuality) =>
    `${formatMeasure(q.hr)} / ${formatMeasure(q.ndcg)} / ${formatMeasure(q.mrr)}, over users ${formatMeasure(q.users.hr)} / ${formatMeasure(q.users.ndcg)} / ${formatMeasure(q.users.mrr)}; coverage ${formatPercent(q.coverage)}, long tail ${formatPercent(q.tail)}`
  const same = data === "ml-1m" && k === 10 && next.events === 999_611 && next.targets === 99_932
  return [
    ["targets", `${next.targets.toLocaleString("en")} (${next.users} users, ${next.items} items)`],
    ["", `HR / NDCG / MRR@${k}`],
    ["frozen at the cut", row(next.frozen)],
    [`learned every ${next.every}`, row(next.online)],
    ...(same
      ? Object.entries(PUBLISHED).map(([name, [hr, ndcg]]) => [
          `${name}, published, frozen`,
          `${formatMeasure(hr)} / ${formatMeasure(ndcg)}`,
        ])
      : []),
  ]
}

/** The task's figures; the last quarter of the stream in brackets; dashes where no row was tested. */
function measureRows(s: Summary): string[][] {
  const { lastQuarter } = s
  const both = (name: "recall" | "ndcg" | "loss") =>
    `${formatMeasure(s[name])} (last quarter ${formatMeasure(lastQuarter[name])})`
  if (s.next !== undefined) return nextRows(s.next, s.k ?? 0, s.data)
  if (s.k !== undefined)
    return [
      [`recall@${s.k}`, `${both("recall")}; at most ${formatMeasure(s.recallCeiling)}`],
      [`ndcg@${s.k}`, both("ndcg")],
    ]
  const rest = `last quarter ${formatPercent(lastQuarter.accuracy)}, majority class ${formatPercent(s.majorityAccuracy)}`
  return [
    ["accuracy", `${formatPercent(s.accuracy)} (${rest})`],
    ["loss", both("loss")],
  ]
}

function describe(s: Summary): string {
  const both = (pair: Record<"user" | "item", number> | null, digits: number) =>
    pair === null ? "–" : `${pair.user.toFixed(digits)} users, ${pair.item.toFixed(digits)} items`
  const rows = [
    [
      "interactions",
      `${s.interactions.toLocaleString("en")} in ${s.segments.toLocaleString("en")} segments (${s.data})`,
    ],
    ...(s.liked === undefined ? [] : [["liked", describeLiked(s.liked)]]),
    ...measureRows(s),
    ["mean size", both(s.meanSize, 1)],
    [
      "embedding bytes",
      `${formatBytes(s.embeddingBytes)} (rows ${formatBytes(s.rowBytes)}, held ${formatBytes(s.heldBytes)})`,
    ],
    ...(s.vectorsSave === undefined ? [] : [["vectors", describeVectors(s.vectorsSave)]]),
    ["regret", both(s.regret, 0)],
    ...(s.discount === undefined ? [] : [["discount γ", `${s.discount.toFixed(6)} (Corollary 1)`]]),
    [
      "milliseconds",
      `${Object.entries(s.milliseconds)
        .map(([phase, ms]) => `${phase} ${ms.toFixed(2)}`)
        .join(", ")} per segment`,
    ],
    [
      "speed",
      `${Math.round(s.interactionsPerSecond).toLocaleString("en")} interactions/s, peak memory ${formatBytes(s.peakRssBytes)}`,
    ],
  ]
  return formatTable([{ title: s.method }, { title: "" }], rows)
}

/** Below this share of the loss vectors are hardly worth their memory. */
const HARDLY = 0.01

/** "save 2.4 % of the loss" */
function describeVectors(saved: number): string {
  const hardly = saved < HARDLY ? ": they hardly pay here" : ""
  return `save ${(100 * saved).toFixed(1)} % of the loss of biases alone${hardly}`
}
