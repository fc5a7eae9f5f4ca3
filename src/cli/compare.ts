/** `dess compare`: a grid of runs, in parallel, resumable. */

import { readFileSync, writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { dirname, join, relative } from "node:path"
import { DessError, show } from "../errors.ts"
import { cellKey, expandGrid } from "../experiments/cells.ts"
import { type Comparison, compare } from "../experiments/compare.ts"
import { DATA_OPTIONS, type DataEntry, notesOf } from "../experiments/data.ts"
import { type Grid, openGrid } from "../experiments/grid.ts"
import { buildReport } from "../experiments/report.ts"
import { isDone } from "../experiments/results.ts"
import { GRID_KEYS, GRID_SCHEMA } from "../experiments/schema.ts"
import { dropUndefined, RUN_OPTIONS } from "../learning/options.ts"
import { CompareView, describeCell } from "./compare-view.ts"
import { describeFlags, parseFlags } from "./flags.ts"
import { untilStopped } from "./interrupt.ts"
import { makeFolder } from "./output.ts"
import { formatTables } from "./report-text.ts"
import { formatSeconds, plain } from "./terminal.ts"

/** The keys that are options of every run, or else the lists and the paper's experiments. */
const keysOf = (every: boolean) =>
  Object.fromEntries(Object.entries(GRID_KEYS).filter(([name]) => Object.hasOwn(RUN_OPTIONS, name) === every))

const DATA = {
  data: {
    type: "array",
    items: { type: "string" },
    description: "give it once per data set (synthetic)",
    examples: ["<folder|file|synthetic>"],
    repeated: true,
  },
  ...DATA_OPTIONS,
} as const
const FILES = {
  noControls: { type: "boolean", description: "only the methods named" },
  config: { type: "string", description: "the grid as a file; flags override it", examples: ["<grid.json>"] },
  schema: { type: "boolean", description: "print the JSON Schema of that file" },
} as const
const count = { type: "integer", minimum: 1 } as const
const WORK = {
  out: {
    type: "string",
    description: "results folder: results.jsonl, a line per finished cell (results/compare)",
    examples: ["<dir>"],
  },
  jobs: { ...count, description: "cells at a time, each in its own process (all cores; 1 for --paper time)" },
  threads: { ...count, description: "threads per cell (1)" },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const

export const COMPARE_FLAGS = { ...DATA, ...GRID_KEYS, ...FILES, ...WORK } as typeof DATA & typeof FILES & typeof WORK

const HELP = `dess compare – run a grid of methods × tasks × models × data × seeds

Usage: dess compare [options]

Every grid also holds the controls of its tasks.

${describeFlags({
  "Grid (lists with commas)": { ...keysOf(false), ...FILES },
  "Every run": keysOf(true),
  "Data (what is said of it is said of all)": DATA,
  Work: WORK,
})}

A comparison that was stopped goes on where it was when the same command is given again; cells that failed are tried
again. Exit code 1 if a cell failed. dess report <dir> makes tables and figures of the results.

Examples
  dess compare --data ml-latest-small --methods dess-cv,dess-fre --seeds 2
  dess compare --paper table2 --data ml-1m --limit 200000 --seeds 3 --out results/table2
  dess compare --config grid.json --jobs 4 --out results/mine && dess report results/mine
  dess compare --methods dess-fre --no-controls --interactions 20000 --seeds 7,8,9
  dess compare --plugin ./mine.mjs --methods mine,mine:least=20,dess-fre --seeds 3`

export async function compareCommand(args: string[]): Promise<void> {
  const values = parseFlags(args.map(pluralOf), COMPARE_FLAGS)
  if (values.help) return console.log(HELP)
  if (values.schema) return console.log(JSON.stringify(GRID_SCHEMA, null, 2))
  const config = values.config === undefined ? {} : readConfig(values.config)
  const base = values.config === undefined ? "." : dirname(values.config)
  const given = await rebase(config, base)
  const grid: Grid = { ...given, ...gridOf(values, given.data) }
  const full = await openGrid(grid)
  const out = values.out ?? join("results", grid.paper ?? "compare")
  const { jobs = grid.paper === "time" ? 1 : availableParallelism(), threads = 1 } = values
  for (const data of full.data)
    for (const note of await notesOf(data)) process.stderr.write(`dess: ${data.name}: ${note}\n`)
  const cells = expandGrid(full)
  const view = new CompareView(new Map(cells.map((cell) => [cellKey(cell), cell])), jobs)
  const started = performance.now()
  const comparison = await untilStopped((signal) =>
    compare(grid, {
      out,
      jobs,
      threads,
      signal,
      command: ["dess", "compare", ...args].map(quoteWord).join(" "),
      onStart: (cell, key) => view.start(cell, key),
      onProgress: (key, interactions, total) => view.progress(key, interactions, total),
      onCell: (record, kept) => view.end(record, kept),
    }),
  ).finally(() => view.close())
  writeConfig(out, grid)
  tell(comparison, { out, seconds: (performance.now() - started) / 1000, json: values.json === true })
}

const quoteWord = (word: string) => (/^[\w./:=,@+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)

/** The grid as a file beside its results: `dess compare --config` of it makes them again. Paths start from the file. */
function writeConfig(out: string, grid: Grid): void {
  const from = (path: string) => (path === "synthetic" ? path : relative(out, path) || ".")
  const data = grid.data?.map((entry) =>
    typeof entry === "string" ? from(entry) : { ...entry, path: from(entry.path) },
  )
  const plugin = grid.plugin === undefined ? {} : { plugin: from(grid.plugin) }
  makeFolder(out)
  writeFileSync(join(out, "config.json"), `${JSON.stringify({ ...grid, ...(data && { data }), ...plugin }, null, 2)}\n`)
}

/** `--recipe paper`, as dess run has it, means `--recipes paper`. */
function pluralOf(argument: string): string {
  return argument.replace(/^--\w+(?==|$)/, (flag) =>
    Object.hasOwn(GRID_KEYS, `${flag.slice(2)}s`) ? `${flag}s` : flag,
  )
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

/** Checks the file's grid and makes its paths start from the file's folder. */
async function rebase(config: Grid, base: string): Promise<Grid> {
  const { data, own } = await openGrid(config, base)
  return {
    ...config,
    ...(own && { plugin: own.path }),
    ...(config.data && { data: data.map(({ bytes: _, ...entry }) => entry) }),
  }
}

type Values = ReturnType<typeof parseFlags<typeof COMPARE_FLAGS>>

/** The part of a grid that flags give. */
export function gridOf(values: Values, data: Grid["data"]): Grid {
  const keys = Object.entries(values).filter(([name]) => Object.hasOwn(GRID_KEYS, name))
  const more = { data: dataOf(values, data), controls: values.noControls ? false : undefined }
  return { ...Object.fromEntries(keys), ...dropUndefined(more) }
}

/** The data of --data, or else of the config file, each with the flags about data. */
function dataOf(values: Values, data: Grid["data"]): DataEntry[] | undefined {
  const about = Object.fromEntries(Object.entries(values).filter(([name]) => Object.hasOwn(DATA_OPTIONS, name)))
  const entries = values.data ?? data ?? ["synthetic"]
  if (values.data === undefined && Object.keys(about).length === 0) return undefined
  return entries.map((entry) => ({ ...(typeof entry === "string" ? { path: entry } : entry), ...about }))
}
