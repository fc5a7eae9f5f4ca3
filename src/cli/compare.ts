/** `dess compare`: a grid of runs, in parallel, resumable. */

import { readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { dirname, join } from "node:path"
import { parseArgs } from "node:util"
import { DessError, show } from "../errors.ts"
import { cellKey, expandGrid } from "../experiments/cells.ts"
import { type Comparison, compare } from "../experiments/compare.ts"
import { completeGrid, type DataEntry, type Grid } from "../experiments/grid.ts"
import { buildReport } from "../experiments/report.ts"
import { isDone } from "../experiments/results.ts"
import { GRID_SCHEMA, PAPER_NAMES } from "../experiments/schema.ts"
import { CompareView, describeCell } from "./compare-view.ts"
import { readBytes, readDiscount, readList, readNumber, readWhole } from "./flags.ts"
import { untilStopped } from "./interrupt.ts"
import { formatTables } from "./report-text.ts"
import { formatSeconds, plain } from "./terminal.ts"

const HELP = `dess compare – run a grid of methods × tasks × models × data × seeds

Usage: dess compare [options]

Grid (lists with commas; every grid also holds the controls of its tasks)
  --methods <names>                as dess run --method takes them (dess-cv,dess-fre)
  --tasks binary,multiclass,topk   (binary)
  --models ncf,mf,distance         (mf; ncf with the paper recipe)
  --data <folder|file|synthetic>   give it once per data set (synthetic)
  --seeds <n> or <a,b,…>           how many seeds, from 1, or which (5)
  --presets, --recipes paper,calibrated   (calibrated; recipe paper for all where one of them needs it)
  --protocols split,prequential    --orders time,shuffled
  --no-controls                    only the methods named
  --paper <experiment>             ${PAPER_NAMES.join(", ")}:
                                   the paper's methods, tasks, models and five seeds, preset and recipe paper
  --config <grid.json>             the grid as a file; flags override it
  --schema                         print the JSON Schema of that file

Every run
  --limit <n>  --segment <n>  --sizes 2,4,8  --k <n>  --negatives <n>  --ranking bce|bpr
  --discount <x>|auto  --variation <B>  --norm running|batch          as dess run takes them
  --price <x>                      of the dess methods: loss a number must save per 500 events to be held
  --memory-budget <bytes|1MB>      of the dess methods: the most the tables may hold
  --columns user=…,item=…  --rating-scale <lo-hi>  --like-threshold <x>      for all data of --data
  --interactions, --users, --items <n>              of the synthetic stream

Work
  --out <dir>                      results folder: results.jsonl, a line per finished cell (results/compare)
  --jobs <n>                       cells at a time, each in its own process (all cores; 1 for --paper time)
  --threads <n>                    threads per cell (1)
  --json                           one JSON object on stdout

A comparison that was stopped goes on where it was when the same command is given again; cells that failed are tried
again. Exit code 1 if a cell failed. dess report <dir> makes tables and figures of the results.

Examples
  dess compare --data ml-latest-small --methods dess-cv,dess-fre --seeds 2
  dess compare --paper table2 --data ml-1m --limit 200000 --seeds 3 --out results/table2
  dess compare --config grid.json --jobs 4 --out results/mine && dess report results/mine
  dess compare --methods dess-fre --no-controls --interactions 20000 --seeds 7,8,9`

const TEXT = { type: "string" } as const
const OPTIONS = {
  methods: TEXT,
  tasks: TEXT,
  models: TEXT,
  data: { type: "string", multiple: true },
  seeds: TEXT,
  presets: TEXT,
  recipes: TEXT,
  protocols: TEXT,
  orders: TEXT,
  "no-controls": { type: "boolean" },
  paper: TEXT,
  config: TEXT,
  schema: { type: "boolean" },
  limit: TEXT,
  segment: TEXT,
  sizes: TEXT,
  k: TEXT,
  negatives: TEXT,
  ranking: TEXT,
  norm: TEXT,
  discount: TEXT,
  variation: TEXT,
  price: TEXT,
  "memory-budget": TEXT,
  columns: TEXT,
  "rating-scale": TEXT,
  "like-threshold": TEXT,
  interactions: TEXT,
  users: TEXT,
  items: TEXT,
  out: TEXT,
  jobs: TEXT,
  threads: TEXT,
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const

type Values = { [Name in keyof typeof OPTIONS]?: string | string[] | boolean | undefined }

export async function compareCommand(args: string[]): Promise<void> {
  const { values } = parseArgs({ args: args.map(pluralOf), options: OPTIONS, strict: true })
  if (values.help) return console.log(HELP)
  if (values.schema) return console.log(JSON.stringify(GRID_SCHEMA, null, 2))
  const config = values.config === undefined ? {} : readConfig(values.config)
  const base = values.config === undefined ? "." : dirname(values.config)
  const given = rebaseData(config, base)
  const grid = { ...given, ...gridOf(values, given.data) }
  const out = values.out ?? join("results", grid.paper ?? "compare")
  const jobs =
    values.jobs === undefined ? (grid.paper === "time" ? 1 : availableParallelism()) : readWhole("jobs", values.jobs, 1)
  const threads = values.threads === undefined ? 1 : readWhole("threads", values.threads, 1)
  const cells = expandGrid(completeGrid(grid))
  const view = new CompareView(new Map(cells.map((cell) => [cellKey(cell), cell])), jobs)
  const started = performance.now()
  const comparison = await untilStopped((signal) =>
    compare(grid, {
      out,
      jobs,
      threads,
      signal,
      onStart: (cell, key) => view.start(cell, key),
      onProgress: (key, interactions, total) => view.progress(key, interactions, total),
      onCell: (record, kept) => view.end(record, kept),
    }),
  ).finally(() => view.close())
  tell(comparison, { out, seconds: (performance.now() - started) / 1000, json: values.json === true })
}

/** `--preset paper`, as dess run has it, means `--presets paper`. */
function pluralOf(argument: string): string {
  return argument.replace(/^--(method|task|model|seed|preset|recipe|protocol|order)(?==|$)/, "--$1s")
}

function tell(comparison: Comparison, p: { out: string; seconds: number; json: boolean }): void {
  const { records, cells, computed, kept, interrupted } = comparison
  const failed = records.filter((record) => record.status === "failed")
  const unsupported = records.filter((record) => record.status === "unsupported")
  if (failed.length > 0 || !records.some(isDone)) process.exitCode = 1
  if (interrupted) process.exitCode = 130
  if (p.json) {
    const named = (list: typeof records) => list.map(({ cell, message }) => ({ cell: describeCell(cell), message }))
    const summary = { out: p.out, cells, computed, kept, interrupted, seconds: p.seconds }
    console.log(JSON.stringify({ ...summary, failed: named(failed), unsupported: named(unsupported) }))
    return
  }
  if (!interrupted) console.log(`${formatTables(buildReport(records))}\n`)
  for (const { cell, message = "" } of unsupported)
    console.log(`not possible: ${describeCell(cell)} (${plain(message)})`)
  for (const { cell, message = "" } of failed) console.log(`failed: ${describeCell(cell)} (${plain(message)})`)
  const finished = records.length - failed.length
  const rest = interrupted ? "; the same command goes on from here" : `; dess report ${p.out} makes tables and figures`
  console.log(
    `${finished} of ${cells} cells finished (${computed} now, ${kept} before) in ${formatSeconds(p.seconds)}${rest}.`,
  )
}

function readConfig(path: string): Grid {
  let text: string
  try {
    text = readFileSync(path, "utf8")
  } catch (error) {
    throw new DessError("NOT_FOUND", `--config: expected a JSON file, got ${show(path)} (${(error as Error).message})`)
  }
  try {
    return JSON.parse(text) as Grid
  } catch (error) {
    throw new DessError(
      "INVALID_DATA",
      `--config ${path}: expected JSON, got text that is not (${(error as Error).message})`,
    )
  }
}

/** Checks the file's grid and makes its data paths start from the file's folder. */
function rebaseData(config: Grid, base: string): Grid {
  const { data } = completeGrid(config, base)
  return config.data === undefined ? config : { ...config, data: data.map(({ bytes: _, ...entry }) => entry) }
}

function gridOf(values: Values, data: Grid["data"]): Grid {
  const text = (name: keyof Values) => values[name] as string | undefined
  const lists = ["methods", "tasks", "models", "presets", "recipes", "protocols", "orders"] as const
  const grid: Record<string, unknown> = {
    paper: text("paper"),
    data: dataOf(values, data),
    seeds: seedsOf(text("seeds")),
  }
  for (const name of lists) grid[name] = text(name) === undefined ? undefined : readList(name, text(name) ?? "")
  for (const name of ["limit", "segment", "k", "negatives"] as const)
    grid[name] = text(name) === undefined ? undefined : readWhole(name, text(name) ?? "", 1)
  for (const name of ["ranking", "norm"] as const) grid[name] = text(name)
  grid.discount = text("discount") && readDiscount(text("discount") ?? "")
  grid.variation = text("variation") && readNumber("variation", text("variation") ?? "")
  grid.price = text("price") && readNumber("price", text("price") ?? "")
  grid.memoryBudget = text("memory-budget") && readBytes("memory-budget", text("memory-budget") ?? "")
  const sizes = text("sizes")
  grid.sizes = sizes && readList("sizes", sizes).map((size) => readWhole("sizes", size, 1))
  grid.controls = values["no-controls"] ? false : undefined
  return Object.fromEntries(Object.entries(grid).filter(([, value]) => value !== undefined)) as Grid
}

function seedsOf(text: string | undefined): number | number[] | undefined {
  if (text === undefined) return undefined
  return text.includes(",")
    ? readList("seeds", text).map((seed) => readWhole("seeds", seed))
    : readWhole("seeds", text, 1)
}

/** The data of --data, or else of the config file, each with the flags that speak of data. */
function dataOf(values: Values, data: Grid["data"]): DataEntry[] | undefined {
  const about: Partial<DataEntry> = {}
  if (values.columns !== undefined) about.columns = String(values.columns)
  if (values["rating-scale"] !== undefined) about.ratingScale = String(values["rating-scale"])
  if (values["like-threshold"] !== undefined)
    about.likeThreshold = readNumber("like-threshold", String(values["like-threshold"]))
  for (const name of ["interactions", "users", "items"] as const)
    if (values[name] !== undefined) about[name] = readWhole(name, String(values[name]), 1)
  const entries = (values.data as string[] | undefined) ?? data ?? ["synthetic"]
  if (values.data === undefined && Object.keys(about).length === 0) return undefined
  return entries.map((entry) => ({ ...(typeof entry === "string" ? { path: entry } : entry), ...about }))
}
