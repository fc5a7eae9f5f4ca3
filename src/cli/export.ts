/** `dess export`: a recommender's events, items or lists as a table. */

import { existsSync } from "node:fs"
import { resolve } from "node:path"
import { openTableWriter, type TableColumns } from "../datasets/table-writer.ts"
import { openContents } from "../engine/contents.ts"
import { Recommender } from "../engine/open.ts"
import { DessError, show } from "../errors.ts"
import { describeFlags, onlyFile, parseArguments } from "./flags.ts"
import { Progress, ReplayLine } from "./terminal.ts"

const FLAGS = {
  directory: { type: "string", description: "of the recommender; no service may have it open", examples: ["<dir>"] },
  items: { type: "boolean", description: "the items with all that is said of them, not the events" },
  lists: { type: "boolean", description: "everybody's list, not the events" },
  count: { type: "integer", minimum: 1, maximum: 1000, description: "items a list (10)" },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const

const HELP = `dess export – write a recommender's events, items or lists to a file

Usage: dess export <file> --directory <dir> [--items | --lists] [--json]

The file ends in .csv, .ndjson, .jsonl or .parquet (needs @duckdb/node-api). Events are those the journal keeps beside
snapshots as keepJournal says, by default all. Nothing in the directory is changed by
them. --lists opens the recommender, learns what its journal has, and writes a row an item: user, rank, item, score.

${describeFlags({ Options: FLAGS })}

Examples
  dess export events.parquet --directory data
  dess export items.ndjson --items --directory data
  dess export lists.parquet --lists --count 20 --directory data`

const EVENTS: TableColumns = {
  ...{ user: "VARCHAR", item: "VARCHAR", rating: "DOUBLE", timestamp: "DOUBLE" },
  ...{ type: "VARCHAR", weight: "DOUBLE" },
}
/** Users asked for at a time. */
const PAGE = 1000
const LISTS: TableColumns = { user: "VARCHAR", rank: "INTEGER", item: "VARCHAR", score: "DOUBLE" }
const ITEMS: TableColumns = {
  item: "VARCHAR",
  title: "VARCHAR",
  categories: "VARCHAR[]",
  properties: "VARCHAR",
  expires: "DOUBLE",
  hidden: "BOOLEAN",
  features: "FLOAT[]",
}

export async function exportCommand(args: string[]): Promise<void> {
  const { values, positionals } = parseArguments(args, FLAGS)
  if (values.help) return console.log(HELP)
  const file = onlyFile("export", positionals)
  const { directory, items, lists } = values
  if (directory === undefined)
    throw new DessError("INVALID_ARGUMENT", "--directory: expected a recommender's, got none (dess export --help)")
  if (items && lists) throw new DessError("INVALID_ARGUMENT", "export: expected --items or --lists, got both")
  if (values.count !== undefined && !lists)
    throw new DessError("INVALID_ARGUMENT", "--count: expected with --lists only")
  const writer = await openTableWriter(file, lists ? LISTS : items ? ITEMS : EVENTS)
  const progress = new Progress("export")
  let rows = 0
  const gone: string[] = []
  try {
    if (lists)
      for await (const row of listsOf(resolve(directory), values.count ?? 10, gone)) {
        writer.add(row)
        progress.update(++rows)
      }
    else {
      const contents = await openContents(resolve(directory))
      try {
        if (!items) gone.push(...contents.gone)
        for await (const row of items ? contents.items() : contents.events()) {
          const properties = "properties" in row ? JSON.stringify(row.properties) : undefined
          writer.add({ ...row, properties })
          progress.update(++rows)
        }
      } finally {
        await contents.close()
      }
    }
    await writer.finish()
  } catch (error) {
    writer.abandon()
    throw error
  } finally {
    progress.done()
  }
  if (values.json) return console.log(JSON.stringify({ file, rows, isWhole: gone.length === 0 }))
  for (const text of gone) process.stderr.write(`dess: ${text}\n`)
  console.log(`${rows.toLocaleString("en")} ${lists ? "rows of lists" : items ? "items" : "events"} written to ${file}`)
}

/** The list of every user there is; what is gone of what they were learned from is added to `gone`. */
async function* listsOf(directory: string, count: number, gone: string[]) {
  if (!existsSync(directory))
    throw new DessError("NOT_FOUND", `directory: expected a recommender's, got ${show(directory)}`)
  const line = new ReplayLine("replaying the journal")
  const recommender = await Recommender.open({ directory, onReplay: (progress) => line.update(progress) }).finally(() =>
    line.done(),
  )
  try {
    gone.push(...(recommender.status().damaged ?? []))
    for (let offset = 0; ; offset += PAGE) {
      const users = recommender.ids("user", { offset, count: PAGE })
      for (const user of users) {
        const list = await recommender.recommend(user, { count })
        for (let rank = 0; rank < list.length; rank++)
          yield { user, rank: rank + 1, item: list[rank].item, score: list[rank].score }
      }
      if (users.length < PAGE) return
    }
  } finally {
    await recommender.close()
  }
}
