/** `dess report`: tables, statistics and figures of what `dess compare` has measured. */

import { join } from "node:path"
import { DessError, show } from "../errors.ts"
import { writeParquetFiles } from "../experiments/parquet-files.ts"
import { buildReport, drawFigures, type Report } from "../experiments/report.ts"
import { type CellRecord, readResults } from "../experiments/results.ts"
import { writeReport } from "../experiments/write-report.ts"
import { describeFlags, parseArguments } from "./flags.ts"
import { formatTables } from "./report-text.ts"

const FLAGS = {
  out: {
    type: "string",
    description:
      "where the files go (<dir>/report): report.html (one page, needs nothing else), report.md, summary.csv, runs.csv, latex/*.tex, figures/*.svg and *.pdf, segments.parquet, users.parquet",
    examples: ["<dir>"],
  },
  noFigures: { type: "boolean", description: "tables only" },
  json: { type: "boolean", description: "the tables as one JSON object on stdout" },
} as const

const HELP = `dess report – tables, statistics and figures of a comparison

Usage: dess report <dir> [options]

The results folder of dess compare may still be growing.

${describeFlags({ Options: FLAGS })}

Tables are laid out like the paper's; where a data set is one of the paper's four (ml-20m, ml-latest, amazon-books,
amazon-cds) the paper's figures stand beside ours. Mean ± standard deviation over seeds; a star where a method beats
every baseline (every control, where none was run), a dagger where one beats it, in every paired test (seeds, blocks
of the stream, users) after Holm's correction for all of these pairs; below each table which controls beat which
method, and which cannot be told apart.

Examples
  dess report results/compare
  dess report results/table2 --out docs/table2
  dess report results/compare --no-figures --json | jq '.parts[0].tables[0].notes'`

export async function reportCommand(args: string[]): Promise<void> {
  const { values, positionals } = parseArguments(args, FLAGS)
  if (values.help) return console.log(HELP)
  const [directory, ...more] = positionals
  if (directory === undefined || more.length > 0)
    throw new DessError("INVALID_ARGUMENT", `dess report: expected one results folder, got ${show(positionals)}`)
  const records = readResults(directory)
  if (records.length === 0)
    throw new DessError("NOT_FOUND", `results folder ${directory}: expected at least one finished cell, got none yet`)
  const report = buildReport(records, { figures: !values.noFigures })
  const pictures = await drawOrTell(report)
  const files = writeReport(values.out ?? join(directory, "report"), { report, records, pictures })
  await writeParquetOrTell(values.out ?? join(directory, "report"), records)
  if (values.json) console.log(JSON.stringify(asJson(report)))
  else console.log(`${formatTables(report, { costs: true })}\n\n${files.slice(0, 4).join("\n")}`)
}

/** DuckDB, which writes Parquet, is optional. */
async function writeParquetOrTell(directory: string, records: readonly CellRecord[]): Promise<void> {
  try {
    await writeParquetFiles(directory, records)
  } catch (error) {
    if (!(error instanceof DessError) || error.code !== "UNSUPPORTED") throw error
    process.stderr.write(`dess: ${error.message}\n`)
  }
}

/** The packages that draw to files are optional: without them only the page, which draws its own, has figures. */
async function drawOrTell(report: Report): Promise<Record<string, string>> {
  try {
    return await drawFigures(report)
  } catch (error) {
    if (!(error instanceof DessError) || error.code !== "UNSUPPORTED") throw error
    process.stderr.write(`dess: ${error.message}\n`)
    return {}
  }
}

function asJson({ title, facts, parts }: Report): object {
  return {
    title,
    facts,
    parts: parts.map((part) => ({
      title: part.title,
      tables: part.tables,
      costs: part.blocks.map(({ title: name, costs }) => ({ ...costs, title: name })),
      differences: part.blocks.flatMap(({ title: name, differences }) =>
        differences ? [{ ...differences, title: name }] : [],
      ),
    })),
  }
}
