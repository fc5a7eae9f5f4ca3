/** `dess sweep`: a search over the options of methods, validated on the first part of the stream, reported on the rest. */

import { DessError, show } from "../errors.ts"
import { DATA_OPTIONS } from "../experiments/data.ts"
import type { Grid } from "../experiments/grid.ts"
import { GRID_KEYS } from "../experiments/schema.ts"
import { type Space, type Sweep, sweep } from "../experiments/sweep.ts"
import { formatMean, formatMeasure, measureTitle } from "../experiments/tables.ts"
import { COMPARE_FLAGS, gridOf } from "./compare.ts"
import { describeFlags, parseFlags, readList } from "./flags.ts"
import { untilStopped } from "./interrupt.ts"
import { formatTable } from "./terminal.ts"

const { noControls: _, config: __, schema: ___, out: ____, ...SHARED } = COMPARE_FLAGS
const OWN = {
  vary: {
    type: "array",
    items: { type: "string" },
    description: "an option and its values; give it once per option, all combinations are tried",
    examples: ["<option=a,b,c>"],
    repeated: true,
  },
  validation: { type: "number", description: "share of the stream that is for choosing (0.3)" },
  out: { type: "string", description: "results folder (results/sweep)", examples: ["<dir>"] },
} as const
const FLAGS = { ...SHARED, ...OWN }

const HELP = `dess sweep – search over methods' own options

Usage: dess sweep --methods <a,b> --vary <option=values> [options]

Every combination is run on the first part of the stream with the first seed. The best of each method is run along the whole
stream with all seeds, and measured on the rest, which nothing was chosen by. How many combinations each was given is told,
and which options it does not have. A value that a method refuses of an option it has is an error, and so is an option of none.

${describeFlags({ Search: OWN, Data: DATA_OPTIONS, Grid: GRID_KEYS })}

Examples
  dess sweep --methods dess-fre,fixed-16 --vary price=0,0.0001,0.001 --seeds 3
  dess sweep --data clicks.csv --plugin ./mine.mjs --methods mine,dess-fre --vary least=5,10,20 --vary bits=8,16`

export async function sweepCommand(args: string[]): Promise<void> {
  const values = parseFlags(args, FLAGS)
  if (values.help) return console.log(HELP)
  const { vary = [], validation, out = "results/sweep", jobs, threads, json, ...rest } = values
  const grid: Grid = gridOf(rest, undefined)
  const options = {
    out,
    ...(validation !== undefined && { validation }),
    ...(jobs && { jobs }),
    ...(threads && { threads }),
  }
  const result = await untilStopped((signal) => sweep(grid, spaceOf(vary), { ...options, signal }))
  console.log(json ? JSON.stringify(result) : describe(result))
}

function spaceOf(vary: readonly string[]): Space {
  const space: Record<string, string[]> = {}
  for (const text of vary) {
    const [, name = "", values = ""] = /^(\w+)=(.+)$/.exec(text) ?? []
    if (name === "" || Object.hasOwn(space, name))
      throw new DessError("INVALID_ARGUMENT", `--vary: expected <option>=<a,b,c>, each once, got ${show(text)}`)
    space[name] = readList("vary", values)
  }
  if (vary.length === 0) throw new DessError("INVALID_ARGUMENT", "--vary: expected an option and its values, got none")
  return space
}

function describe({ measure, cut, interactions, tuned }: Sweep): string {
  const count = (n: number) => n.toLocaleString("en")
  const rows = tuned.map(({ method, budget, chosen, validation, report }) => [
    method,
    String(budget),
    chosen,
    formatMeasure(measure, validation),
    report ? `${formatMean(measure, report.mean, report.deviation)} (${report.seeds})` : "–",
  ])
  const columns = ["method", "tried", "chosen", `${measureTitle(measure, 10)}, validation`, "on the rest (seeds)"].map(
    (title) => ({ title }),
  )
  const foreign = tuned.flatMap(({ method, foreign }) =>
    foreign.length === 0 ? [] : [`\n${method} does not have ${foreign.join(", ")}: run as it is.`],
  )
  return `${formatTable(columns, rows)}\n${foreign.join("")}\nChosen on the first ${count(cut)} of ${count(interactions)} interactions with one seed; measured on the rest alone.`
}
