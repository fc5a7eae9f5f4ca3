/** `dess export`: a recommender's events or items as a table. */

import { resolve } from "node:path"
import { openTableWriter, type TableColumns } from "../datasets/table-writer.ts"
import { openContents } from "../engine/contents.ts"
import { DessError } from "../errors.ts"
import { describeFlags, onlyFile, parseArguments } from "./flags.ts"
import { Progress } from "./terminal.ts"

const FLAGS = {
  directory: { type: "string", description: "of the recommender; no service may have it open", examples: ["<dir>"] },
  items: { type: "boolean", description: "the items with their categories and features, not the events" },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const

const HELP = `dess export – write a recommender's events or items to a file

Usage: dess export <file> --directory <dir> [--items] [--json]

The file ends in .csv, .ndjson, .jsonl or .parquet (needs @duckdb/node-api). Events are those the journal keeps beside
snapshots as keepJournal says, by default all. Nothing in the directory is changed.

${describeFlags({ Options: FLAGS })}

Examples
  dess export events.parquet --directory data
  dess export items.ndjson --items --directory data`

const EVENTS: TableColumns = { user: "VARCHAR", item: "VARCHAR", rating: "DOUBLE", timestamp: "DOUBLE" }
const ITEMS: TableColumns = { item: "VARCHAR", categories: "VARCHAR[]", hidden: "BOOLEAN", features: "FLOAT[]" }

export async function exportCommand(args: string[]): Promise<void> {
  const { values, positionals } = parseArguments(args, FLAGS)
  if (values.help) return console.log(HELP)
  const file = onlyFile("export", positionals)
  const { directory, items } = values
  if (directory === undefined)
    throw new DessError("INVALID_ARGUMENT", "--directory: expected a recommender's, got none (dess export --help)")
  const writer = await openTableWriter(file, items ? ITEMS : EVENTS)
  const progress = new Progress("export")
  let rows = 0
  let gone: string[] = []
  try {
    const contents = await openContents(resolve(directory))
    try {
      gone = items ? [] : contents.gone
      for await (const row of items ? contents.items() : contents.events()) {
        writer.add({ ...row })
        progress.update(++rows)
      }
    } finally {
      await contents.close()
    }
    await writer.finish()
  } catch (error) {
    writer.abandon()
    throw error
  } finally {
    progress.done()
  }
  if (values.json) return console.log(JSON.stringify({ file, rows, isWhole: gone.length === 0 }))
  for (const text of gone) process.stderr.write(`dess: ${text} (--keep-journal all keeps them)\n`)
  console.log(`${rows.toLocaleString("en")} ${items ? "items" : "events"} written to ${file}`)
}
