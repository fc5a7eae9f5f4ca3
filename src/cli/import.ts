/** `dess import`: a table of events or items into a recommender's directory, or to a running service. */

import { parseColumnChoice } from "../datasets/header.ts"
import { createEventReader, createItemReader } from "../datasets/live-rows.ts"
import { readTable } from "../datasets/table.ts"
import { Recommender } from "../engine/open.ts"
import type { Event, ItemEntry } from "../engine/types.ts"
import { DessError } from "../errors.ts"
import { openRemote } from "../server/client.ts"
import { observePatiently } from "../server/lines.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import { describeFlags, onlyFile, parseArguments, type parseFlags, runFlags } from "./flags.ts"
import { formatSeconds, noteLatin1, Progress, ReplayLine } from "./terminal.ts"

const FLAGS = {
  directory: {
    type: "string",
    description: "of a recommender that no service has open; created when missing",
    examples: ["<dir>"],
  },
  url: {
    type: "string",
    description: "of a running service; the key is taken from DESS_WRITE_KEY",
    examples: ["<url>"],
  },
  items: { type: "boolean", description: "the file has items, not events" },
  columns: {
    type: "string",
    description: "columns that are not recognised",
    examples: ["user=…,item=…,rating=…,timestamp=…"],
  },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const
const CREATION_FLAGS = {
  ...runFlags(["task"], () => "what is learned (topk)"),
  features: { type: "array", items: { type: "string" }, description: "names of the item features" },
  ratingScale: { type: "string", description: "of the ratings (0-5)", examples: ["<lo-hi>"] },
} as const

const HELP = `dess import – bring events or items into a recommender

Usage: dess import <file> (--directory <dir> | --url <url>) [options]

The file is CSV or TSV with a header, JSON lines, or Parquet (needs @duckdb/node-api); CSV and JSON lines may be gzip.
Events have the columns user and item, and where there are any rating, timestamp and key (of idempotency). Items have
item and any of categories (a|b in CSV), hidden and features. Without keys a file that is imported twice counts twice.

${describeFlags({ Options: FLAGS, "A directory that is created by it": CREATION_FLAGS })}

Examples
  dess import movies.csv --items --directory data
  dess import ratings.csv --directory data
  dess import clicks.ndjson.gz --url http://127.0.0.1:8080`

const BATCH = 2000

/** Where rows go. */
export interface Target {
  observe(events: Event[]): Promise<{ accepted: number; duplicates: number }>
  putItems(items: ItemEntry[]): Promise<number>
  close(): Promise<void>
}

export async function importCommand(args: string[]): Promise<void> {
  const { values, positionals } = parseArguments(args, { ...FLAGS, ...CREATION_FLAGS })
  if (values.help) return console.log(HELP)
  const { directory, url, items } = values
  const file = onlyFile("import", positionals)
  if ((directory === undefined) === (url === undefined))
    throw new DessError("INVALID_ARGUMENT", "target: expected --directory or --url, one of them (dess import --help)")
  const choice = values.columns === undefined ? {} : parseColumnChoice(values.columns)
  const target = url === undefined ? await openDirectory(values) : openRemote(url, process.env.DESS_WRITE_KEY)
  const progress = new Progress("import")
  const started = performance.now()
  const counts = { rows: 0, accepted: 0, duplicates: 0 }
  let keys = 0
  let isReported = false
  try {
    const readEvent = createEventReader(choice)
    const readItem = createItemReader(choice)
    for await (const { rows, where, latin1 = false } of readTable(file)) {
      if (latin1 && !isReported) noteLatin1(file)
      isReported = latin1
      for (let from = 0; from < rows.length; from += BATCH) {
        const batch = rows.slice(from, from + BATCH)
        if (items) counts.accepted += await target.putItems(batch.map((row, r) => readItem(row, () => where(from + r))))
        else {
          const events = batch.map((row, r) => readEvent(row, () => where(from + r)))
          for (const { key } of events) if (key !== undefined) keys++
          const done = await target.observe(events)
          counts.accepted += done.accepted
          counts.duplicates += done.duplicates
        }
        counts.rows += batch.length
        progress.update(counts.rows)
      }
    }
  } catch (error) {
    if (error instanceof DessError && counts.rows > 0)
      throw new DessError(error.code, `${error.message}; the ${counts.rows} rows before were taken`, { cause: error })
    throw error
  } finally {
    progress.done()
    await target.close()
  }
  const seconds = (performance.now() - started) / 1000
  if (values.json) return console.log(JSON.stringify({ ...counts, seconds: Number(seconds.toFixed(1)) }))
  if (!items && keys < counts.rows)
    console.error("dess: not every row has a key; the same file imported again would count twice")
  const again = counts.duplicates > 0 ? `, ${counts.duplicates.toLocaleString("en")} known already` : ""
  console.log(
    `${counts.accepted.toLocaleString("en")} ${items ? "items" : "events"} taken${again}, in ${formatSeconds(seconds)}`,
  )
}

type DirectoryFlags = ReturnType<typeof parseFlags<typeof FLAGS & typeof CREATION_FLAGS>>

async function openDirectory({ directory, task, features, ratingScale }: DirectoryFlags): Promise<Target> {
  const line = new ReplayLine("replaying the journal")
  const recommender = await Recommender.open({
    onReplay: (progress) => line.update(progress),
    directory,
    task,
    features,
    scale: ratingScale === undefined ? undefined : parseRatingScale(ratingScale),
  }).finally(() => line.done())
  return {
    observe: (events) => observePatiently(recommender, events),
    putItems: (items) => recommender.putItems(items),
    close: () => recommender.close(),
  }
}
