/** `dess run`: one method along one stream. */

import { parseArgs } from "node:util"
import { type DataStream, describeLiked, type Liked, likedOf } from "../datasets/data-stream.ts"
import { parseColumnChoice } from "../datasets/header.ts"
import { openData } from "../datasets/open.ts"
import { DessError, show } from "../errors.ts"
import { chosenDiscount } from "../run/create.ts"
import { runStream } from "../run/loop.ts"
import { dropUndefined, RUN_DEFAULTS, type RunOptions, withDefaults } from "../run/options.ts"
import type { RunResult, SegmentReport } from "../run/report.ts"
import { PRESETS } from "../search/presets.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import { checkOrder, type Order } from "../stream/order.ts"
import { shuffleStream } from "../stream/shuffled.ts"
import type { Stream } from "../stream/stream.ts"
import { synthetic } from "../stream/synthetic.ts"
import { readBytes, readDiscount, readNumber, readWhole } from "./flags.ts"
import { untilStopped } from "./interrupt.ts"
import { makeFolder, writeFiles } from "./output.ts"
import { formatBytes, formatMeasure, formatPercent, formatTable, noteLatin1, Progress } from "./terminal.ts"

const HELP = `dess run – run one method along a stream and print what it measured

Usage: dess run [options]

Data
  --data <folder|file|synthetic>   a MovieLens folder, a CSV/TSV with a header, or the embedded stream (synthetic)
  --interactions, --users, --items <n>   size of the embedded stream (100000 interactions)
  --columns user=…,item=…,rating=…,timestamp=…   names (or places from 1) of columns that are not recognised
  --rating-scale <lo-hi>           scale of the ratings, e.g. 0-10 (0-5)
  --like-threshold <x>             a rating above it is liked (3.5 on the 0-5 scale)
  --order time|shuffled            order of the stream (time)
  --limit <n>                      only the first n interactions

Method
  --method <name>                  dess-cv, dess-fre, dess-cv-cold, dess-fre-cold, fixed-<n>, uniform-<s>, never-grow,
                                   always-grow, random-grow, esapn, darts, autoemb, plain-bias, plain-factor-<k>;
                                   top-k: plain-popular, plain-trending, plain-knn (${RUN_DEFAULTS.method})
  --preset paper|calibrated        reward and exploration of the policy (${RUN_DEFAULTS.preset})
  --recipe paper|calibrated        how the model learns (${RUN_DEFAULTS.recipe}; paper for ncf, distance, darts, autoemb and,
                                   unless asked for, esapn)
  --task binary|multiclass|topk    what is predicted (${RUN_DEFAULTS.task})
  --k <n>                          length of the list (top-k task, ${RUN_DEFAULTS.k})
  --ranking bce|bpr                what the top-k task optimises (${RUN_DEFAULTS.ranking})
  --negatives <n>                  negatives per positive (top-k task, 10; paper recipe 4, 10 with bpr)
  --model ncf|mf|distance          the head (${RUN_DEFAULTS.model}; ncf with the paper recipe)
  --sizes 2,4,8                    sizes of the ladder (${RUN_DEFAULTS.sizes.join(",")})
  --discount <x>|auto              the bandit's γ instead of the preset's; auto: Corollary 1's, needs --variation
  --variation <B>                  how far the best parameters are thought to move along the stream
  --price <x>                      of dess, calibrated: loss a number must save per 500 events to be held (${PRESETS.calibrated.rent})
  --memory-budget <bytes|1MB>      of dess, calibrated: the most the tables may hold; the price is steered to keep it
  --probability <p> or <pu,pi>     of random-grow: chance that a decision grows (0.1)

Run
  --segment <n>                    interactions per segment (${RUN_DEFAULTS.segment})
  --protocol split|prequential     (${RUN_DEFAULTS.protocol})
  --norm running|batch             statistics a test normalises with; batch: of the rows tested, as public code does
                                   (${RUN_DEFAULTS.norm})
  --seed <n>  --threads <n>        (1, all cores)
  --json                           one JSON object on stdout
  --out <dir>                      also write result.json and segments.jsonl there

Examples
  dess run
  dess run --data ml-1m --method dess-cv --preset paper --recipe paper
  dess run --data ratings.csv --method fixed-128 --json
  dess run --interactions 1000000 --method always-grow --out results/always`

const OPTIONS = {
  data: { type: "string" },
  interactions: { type: "string" },
  users: { type: "string" },
  items: { type: "string" },
  "rating-scale": { type: "string" },
  "like-threshold": { type: "string" },
  order: { type: "string" },
  limit: { type: "string" },
  method: { type: "string" },
  preset: { type: "string" },
  recipe: { type: "string" },
  task: { type: "string" },
  model: { type: "string" },
  k: { type: "string" },
  negatives: { type: "string" },
  ranking: { type: "string" },
  discount: { type: "string" },
  variation: { type: "string" },
  columns: { type: "string" },
  sizes: { type: "string" },
  price: { type: "string" },
  "memory-budget": { type: "string" },
  probability: { type: "string" },
  segment: { type: "string" },
  protocol: { type: "string" },
  norm: { type: "string" },
  seed: { type: "string" },
  threads: { type: "string" },
  json: { type: "boolean" },
  out: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const

export async function runCommand(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: OPTIONS, strict: true })
  if (values.help) {
    console.log(HELP)
    return
  }
  const seed = whole("seed", values.seed) ?? RUN_DEFAULTS.seed
  const order: Order = values.order === undefined ? "time" : checkOrder(values.order)
  const limit = whole("limit", values.limit, 1)
  const given = { ...readOptions(values), seed, ...dropUndefined({ limit }) }
  // Refused before the data are read, whose length is not known yet.
  withDefaults({ horizon: 1, ...given })
  const stream = await openStream({ ...values, seed, order, limit })
  if (stream.encoding === "latin-1") noteLatin1(stream.name)
  if (values.out !== undefined) makeFolder(values.out)
  const horizon = Math.min(limit ?? Number.POSITIVE_INFINITY, stream.interactions ?? Number.POSITIVE_INFINITY)
  const method = given.method ?? (stream.features === undefined ? "dess-fre" : RUN_DEFAULTS.method)
  const { likeThreshold } = stream
  const options: RunOptions = { ...given, method, horizon, ...dropUndefined({ likeThreshold }) }
  const { result, segments, interrupted } = await untilStopped(async (signal) => ({
    ...(await drive(stream, options, { label: method, signal })),
    interrupted: signal.aborted,
  }))
  const full = withDefaults(options)
  const { preset, recipe, task, model, protocol, norm } = full
  const named = {
    ...{ method, preset, recipe, task, model, protocol },
    ...(norm === "batch" ? { norm } : {}),
    ...dropUndefined({ discount: chosenDiscount(full, stream.features) }),
    order,
    seed,
    data: stream.name,
  }
  const peakRssBytes = process.resourceUsage().maxRSS * 1024
  const liked = task === "binary" ? { liked: likedOf(stream) } : {}
  const summary = { ...named, ...liked, ...result, peakRssBytes, ...(interrupted ? { interrupted } : {}) }
  console.log(values.json ? JSON.stringify(summary) : describe(summary))
  if (interrupted) {
    process.exitCode = 130
    process.stderr.write(`dess: stopped after ${result.interactions} interactions; the figures are of these\n`)
  }
  if (values.out !== undefined)
    writeFiles(values.out, {
      "segments.jsonl": segments.map((segment) => `${JSON.stringify(segment)}\n`).join(""),
      "result.json": `${JSON.stringify(summary, null, 2)}\n`,
    })
}

type Values = { [Name in Exclude<keyof typeof OPTIONS, "json" | "help">]?: string | undefined }

/** The flags that speak of the run, not of its data. */
function readOptions(values: Values): RunOptions {
  const { discount, variation, price, probability } = values
  const budget = values["memory-budget"]
  return dropUndefined({
    method: values.method,
    preset: values.preset,
    recipe: values.recipe,
    task: values.task,
    model: values.model,
    protocol: values.protocol,
    k: whole("k", values.k, 1),
    negatives: whole("negatives", values.negatives, 1),
    ranking: values.ranking,
    norm: values.norm,
    discount: discount === undefined ? undefined : readDiscount(discount),
    variation: variation === undefined ? undefined : readNumber("variation", variation),
    price: price === undefined ? undefined : readNumber("price", price),
    memoryBudget: budget === undefined ? undefined : readBytes("memory-budget", budget),
    sizes: values.sizes?.split(",").map((text) => readNumber("sizes", text)),
    segment: whole("segment", values.segment, 1),
    threads: whole("threads", values.threads),
    probability: probability === undefined ? undefined : parseProbability(probability),
  }) as RunOptions
}

type Summary = RunResult & { method: string; data: string; liked?: Liked; discount?: number; peakRssBytes: number }

/** Opens what --data names. */
async function openStream(
  values: Omit<Values, "seed" | "order" | "limit"> & { seed: number; order: Order; limit: number | undefined },
): Promise<Stream & Partial<Pick<DataStream, "likeThreshold" | "ratingScale" | "encoding">>> {
  const { data = "synthetic", seed, order, limit } = values
  const likeThreshold =
    values["like-threshold"] === undefined ? undefined : readNumber("like-threshold", values["like-threshold"])
  if (data === "synthetic") {
    for (const name of ["rating-scale", "columns"] as const)
      if (values[name] !== undefined)
        throw new DessError("INVALID_ARGUMENT", `--${name}: expected with --data only; the embedded stream has its own`)
    const size = {
      interactions: whole("interactions", values.interactions, 1) ?? 100_000,
      users: whole("users", values.users, 1),
      items: whole("items", values.items, 1),
    }
    const embedded = synthetic(dropUndefined({ ...size, seed }))
    const stream = order === "shuffled" ? shuffleStream(embedded, seed) : embedded
    return Object.assign(stream, dropUndefined({ likeThreshold }))
  }
  for (const name of ["interactions", "users", "items"] as const)
    if (values[name] !== undefined)
      throw new DessError(
        "INVALID_ARGUMENT",
        `--${name}: expected with the embedded stream only; with --data use --limit`,
      )
  return openData(
    data,
    dropUndefined({
      order,
      seed,
      limit,
      columns: values.columns === undefined ? undefined : parseColumnChoice(values.columns),
      ratingScale: values["rating-scale"] === undefined ? undefined : parseRatingScale(values["rating-scale"]),
      likeThreshold,
    }),
  )
}

/** Runs to the end, or until the signal, with a progress bar. */
export async function drive(
  stream: Stream,
  options: RunOptions,
  p: { label: string; signal: AbortSignal },
): Promise<{ result: RunResult; segments: SegmentReport[] }> {
  const total =
    options.limit === undefined ? stream.interactions : Math.min(options.limit, stream.interactions ?? options.limit)
  const progress = new Progress(p.label, total)
  const run = runStream(stream, options)
  const segments: SegmentReport[] = []
  let turned = performance.now()
  try {
    for (;;) {
      const { value, done } = await run.next(p.signal.aborted)
      if (done) return { result: value, segments }
      segments.push(value)
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

/** The task's figures; the last quarter of the stream in brackets; dashes where no row was tested. */
function measureRows(s: Summary): string[][] {
  const { lastQuarter } = s
  const both = (name: "recall" | "ndcg" | "loss") =>
    `${formatMeasure(s[name])} (last quarter ${formatMeasure(lastQuarter[name])})`
  if (s.k !== undefined)
    return [
      [`recall@${s.k}`, both("recall")],
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
    ["embedding bytes", `${formatBytes(s.embeddingBytes)} (held ${formatBytes(s.heldBytes)})`],
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

const whole = (flag: string, text: string | undefined, least = 0): number | undefined =>
  text === undefined ? undefined : readWhole(flag, text, least)

function parseProbability(text: string): { user: number; item: number } {
  const [user, item = user, ...more] = text.split(",").map((part) => readNumber("probability", part))
  if (more.length > 0)
    throw new DessError("INVALID_ARGUMENT", `--probability: expected one or two numbers, got ${show(text)}`)
  return { user, item }
}
