/**
 * `dess import`: a table of events or items into a recommender's directory, or to a running service.
 *
 * The file is read twice: once to check every row, and only then to take them. How far a directory has taken a file is
 * kept with the events, so that a second try goes on where the first one stopped. A service gets a key for every row.
 */

import { createHash } from "node:crypto"
import { createReadStream } from "node:fs"
import {
  type ColumnChoice,
  describeColumns,
  findEventColumns,
  findItemColumn,
  findKindColumns,
  parseColumnChoice,
} from "../datasets/header.ts"
import { createEventReader, createItemReader } from "../datasets/live-rows.ts"
import { readTable } from "../datasets/table.ts"
import { checkEvents } from "../engine/check.ts"
import { readCreated } from "../engine/directory.ts"
import { checkTypes, type EventTypes } from "../engine/event-types.ts"
import { checkItems } from "../engine/item-entries.ts"
import { Recommender } from "../engine/open.ts"
import type { Event, ItemEntry, ObserveOptions } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { openRemote } from "../server/client.ts"
import { observePatiently } from "../server/lines.ts"
import { parseRatingScale, type RatingScale } from "../stream/interaction.ts"
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
    examples: ["user=…,item=…,rating=…,timestamp=…,type=…,weight=…"],
  },
  type: { type: "string", description: "type of every event of the file, such as purchase", examples: ["<name>"] },
  skipBad: { type: "boolean", description: "pass over rows that are not valid, and say how many" },
  again: { type: "boolean", description: "take a file that was taken before once more" },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const
const TYPE_FLAGS = {
  types: {
    type: "string",
    description: "what events of each type weigh, as JSON; kept with the directory",
    examples: ['{"view":0.2,"purchase":1}'],
  },
  leaveOut: { type: "array", items: { type: "string" }, description: "types whose item is left out of lists" },
} as const
const CREATION_FLAGS = {
  ...runFlags(["task"], () => "what is learned (topk)"),
  ...runFlags(["method"], () => "how embeddings are sized, as in dess run --help"),
  features: { type: "array", items: { type: "string" }, description: "names of the item features" },
  ratingScale: { type: "string", description: "of the ratings (0-5)", examples: ["<lo-hi>"] },
  likeThreshold: { type: "number", description: "a rating above it is a like (3.5 of 5)", examples: ["<rating>"] },
} as const

const HELP = `dess import – bring events or items into a recommender

Usage: dess import <file> (--directory <dir> | --url <url>) [options]

The file is a table with a header (separated by comma, tab, semicolon, | or ::), JSON lines, or Parquet (needs
@duckdb/node-api); text may be gzip. Events have the columns user and item, and where there are any rating, timestamp,
type (or event, action), weight and key (of idempotency). Items have item and any of title, categories (a|b in CSV),
properties (a JSON object), expires, hidden and features. What a type weighs is said with --types, here or when the
service was started.

Every row is checked before the first is taken: one that is not valid is named with its line, and nothing is taken. A
file that was taken before is not taken again; where an import was interrupted, the next one goes on from there. Events
are taken in order of time: a file of up to 2 million rows that is not in that order is sorted.

${describeFlags({ Options: FLAGS, "Types of events of a directory": TYPE_FLAGS, "A directory that is created by it": CREATION_FLAGS })}

Examples
  dess import movies.csv --items --directory data
  dess import ratings.csv --directory data
  dess import purchases.csv --type purchase --columns user=customer,item=sku --directory data
  dess import clicks.ndjson.gz --url http://127.0.0.1:8080 --skip-bad`

const BATCH = 2000
/** Rows that are sorted by time in memory, where a file is not. */
const MOST_SORTED = 2_000_000
/** Milliseconds between two lines about progress where there is no terminal. */
const LINE_EVERY = 5000
/** Bad rows that are named. */
const MOST_NAMED = 5

interface Target {
  observe(events: Event[], options?: ObserveOptions): Promise<{ accepted: number; duplicates: number }>
  putItems(items: ItemEntry[]): Promise<number>
  /** How far a file was taken; undefined where that is not kept. */
  source?: ((name: string) => string | undefined) | undefined
  /** Of its events, where a directory keeps them. */
  types?: EventTypes | undefined
  close(): Promise<void>
}

type Flags = ReturnType<typeof parseFlags<typeof FLAGS & typeof TYPE_FLAGS & typeof CREATION_FLAGS>>

export async function importCommand(args: string[]): Promise<void> {
  const { values, positionals } = parseArguments(args, { ...FLAGS, ...TYPE_FLAGS, ...CREATION_FLAGS })
  if (values.help) return console.log(HELP)
  const { directory, url, items } = values
  const path = onlyFile("import", positionals)
  if ((directory === undefined) === (url === undefined))
    throw new DessError("INVALID_ARGUMENT", "target: expected --directory or --url, one of them (dess import --help)")
  const started = performance.now()
  // A directory that is there says what types weigh; one that is not is made when the file is known to be good.
  const known = directory !== undefined && readCreated(directory) ? await openDirectory(values) : undefined
  const file = new ImportFile(path, values, known?.types)
  const total = await file.check().catch(async (error) => {
    await known?.close()
    throw error
  })
  const name = `import:${await file.hash()}`
  const target: Target =
    known ?? (url === undefined ? await openDirectory(values) : openRemote(url, process.env.DESS_WRITE_KEY))
  const progress = new Progress("import", total, LINE_EVERY)
  const counts = { rows: 0, accepted: 0, duplicates: 0 }
  try {
    const before = values.again ? 0 : Number(target.source?.(name) ?? 0)
    for await (const batch of file.batches()) {
      const from = counts.rows
      counts.rows += batch.length
      if (items) counts.accepted += await target.putItems(batch as ItemEntry[])
      else {
        const events = (batch as Event[]).slice(Math.max(0, before - from))
        const taken = batch.length - events.length
        const done = target.source
          ? await target.observe(events, { source: { name, position: String(counts.rows) } })
          : await target.observe(events.map((event, e) => ({ key: `${name}:${from + e}`, ...event })))
        counts.accepted += done.accepted
        counts.duplicates += done.duplicates + taken
      }
      progress.update(counts.rows)
    }
  } catch (error) {
    if (error instanceof DessError && counts.rows > 0)
      throw new DessError(
        error.code,
        `${error.message}; ${counts.accepted.toLocaleString("en")} rows were taken, the same command goes on from there`,
        { cause: error },
      )
    throw error
  } finally {
    progress.done()
    await target.close()
  }
  const seconds = (performance.now() - started) / 1000
  const bad = file.bad
  if (values.json) return console.log(JSON.stringify({ ...counts, bad, seconds: Number(seconds.toFixed(1)) }))
  const again = counts.duplicates > 0 ? `, ${counts.duplicates.toLocaleString("en")} known already` : ""
  const passed = bad > 0 ? `, ${bad.toLocaleString("en")} bad rows passed over` : ""
  const noun = items ? "items" : "events"
  console.log(`${counts.accepted.toLocaleString("en")} ${noun} taken${again}${passed}, in ${formatSeconds(seconds)}`)
}

/** A file's rows as events or items, checked as the recommender checks them. */
class ImportFile {
  readonly #path: string
  readonly #values: Flags
  readonly #columns: readonly string[] | undefined
  readonly #scale: RatingScale | undefined
  readonly #types: EventTypes | undefined
  readonly #now = Date.now() / 1000
  /** Rows that are not valid, as far as it was read last. */
  bad = 0
  #isReported = false
  #isChecked = false
  #share = 0
  /** Whether every event has a time, and whether one has an earlier time than the one before. */
  readonly #times = { areKnown: true, areMixed: false, last: Number.NEGATIVE_INFINITY }
  #isSorted = false

  constructor(path: string, values: Flags, types: EventTypes | undefined) {
    this.#path = path
    this.#values = values
    this.#types = values.types === undefined ? types : checkTypes(parseTypes(values.types), values.leaveOut)
    const created = values.directory === undefined ? undefined : readCreated(values.directory)
    this.#columns = created?.features ?? values.features
    const given = values.ratingScale === undefined ? { min: 0, max: 5 } : parseRatingScale(values.ratingScale)
    // What a service was created with, it alone knows.
    this.#scale = values.url === undefined ? (created?.scale ?? given) : undefined
  }

  /** Reads all of it; refuses at the first bad row unless they are passed over. Returns how many there are to take. */
  async check(): Promise<number> {
    const progress = new Progress("checking", undefined, LINE_EVERY)
    let rows = 0
    try {
      for await (const batch of this.batches()) {
        rows += batch.length
        progress.update(rows, this.#share)
      }
    } catch (error) {
      if (error instanceof DessError && error.code === "INVALID_DATA")
        throw new DessError(error.code, `${error.message}; nothing was taken (--skip-bad passes over such rows)`, {
          cause: error,
        })
      throw error
    } finally {
      progress.done()
    }
    this.#isChecked = true
    this.#isSorted = this.#times.areKnown && this.#times.areMixed && rows <= MOST_SORTED
    if (this.#isSorted) process.stderr.write("dess: rows are not in order of time: they are taken by their time\n")
    else if (this.#times.areMixed)
      process.stderr.write(
        `dess: rows are not in order of time and are taken as they come: ${
          this.#times.areKnown
            ? `more than ${MOST_SORTED.toLocaleString("en")} are not sorted here`
            : "some have no time"
        }; lists are better when the file is sorted by time\n`,
      )
    return rows
  }

  /** Of the file and of how it is read. */
  async hash(): Promise<string> {
    const { columns, type, items, skipBad } = this.#values
    const hash = createHash("sha256").update(JSON.stringify([columns, type, items, skipBad]))
    for await (const chunk of createReadStream(this.#path)) hash.update(chunk as Buffer)
    return hash.digest("hex").slice(0, 32)
  }

  #noteTime({ timestamp }: Event): void {
    const times = this.#times
    if (typeof timestamp !== "number") times.areKnown = false
    else {
      times.areMixed ||= timestamp < times.last
      times.last = timestamp
    }
  }

  /** In order of time, where the file is not and can be sorted. */
  async *batches(): AsyncGenerator<Event[] | ItemEntry[]> {
    if (!this.#isSorted) {
      yield* this.#read()
      return
    }
    const all: Event[] = []
    for await (const batch of this.#read()) for (const event of batch) all.push(event as Event)
    all.sort((a, b) => Number(a.timestamp) - Number(b.timestamp))
    for (let from = 0; from < all.length; from += BATCH) yield all.slice(from, from + BATCH)
  }

  async *#read(): AsyncGenerator<Event[] | ItemEntry[]> {
    const { columns, skipBad } = this.#values
    const choice = columns === undefined ? {} : parseColumnChoice(columns)
    const read = this.#reader(choice)
    this.bad = 0
    const onBad = skipBad ? (error: DessError) => this.#passOver(error) : undefined
    const onShare = (share: number) => {
      this.#share = share
    }
    let batch: (Event | ItemEntry)[] = []
    for await (const { rows, where, latin1 = false } of readTable(this.#path, { onBad, onShare })) {
      if (!this.#isReported && rows.length > 0) {
        this.#report(Object.keys(rows[0]), choice, where(0))
        if (latin1) noteLatin1(this.#path)
      }
      for (let r = 0; r < rows.length; r++) {
        try {
          batch.push(read(rows[r], () => where(r)))
        } catch (error) {
          if (!onBad || !(error instanceof DessError)) throw error
          onBad(error)
          continue
        }
        if (batch.length < BATCH) continue
        yield batch as Event[]
        batch = []
      }
    }
    if (batch.length > 0) yield batch as Event[]
  }

  /** Says which columns are taken for what; refuses a header that lacks one. */
  #report(names: readonly string[], choice: ColumnChoice, where: string): void {
    const taken = this.#values.items
      ? placesOf(names, { item: findItemColumn(names, choice, where) }, ITEM_COLUMNS)
      : placesOf(names, { ...findEventColumns(names, choice, where), ...findKindColumns(names, choice, where) }, [
          "key",
        ])
    process.stderr.write(`dess: columns: ${describeColumns(names, taken)}\n`)
    this.#isReported = true
  }

  #reader(choice: ColumnChoice) {
    const { items, type } = this.#values
    const readItem = createItemReader(choice)
    const readEvent = createEventReader(choice)
    return (row: Record<string, unknown>, where: () => string): Event | ItemEntry => {
      if (items) {
        const item = readItem(row, where)
        atLine(where, () => checkItems(item, this.#columns))
        return item
      }
      const event: Event = { ...(type === undefined ? {} : { type }), ...readEvent(row, where) }
      if (!this.#isChecked) this.#noteTime(event)
      const scale = this.#scale
      if (scale) atLine(where, () => checkEvents(event, { scale, now: this.#now, types: this.#types }))
      return event
    }
  }

  #passOver(error: DessError): void {
    this.bad++
    if (this.#isChecked) return
    if (this.bad <= MOST_NAMED) process.stderr.write(`dess: passed over: ${error.message}\n`)
    else if (this.bad === MOST_NAMED + 1) process.stderr.write("dess: passed over: more such rows\n")
  }
}

const ITEM_COLUMNS = ["title", "categories", "genres", "properties", "expires", "hidden", "features"]

function placesOf(names: readonly string[], places: Record<string, number | undefined>, more: readonly string[]) {
  const found = more.filter((name) => names.includes(name)).map((name) => [name, names.indexOf(name)])
  return { ...places, ...Object.fromEntries(found) } as Record<string, number | undefined>
}

function atLine(where: () => string, check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof DessError)) throw error
    throw new DessError("INVALID_DATA", `${error.message.replace(/ \(entry 0\)$/, "")} (${where()})`, { cause: error })
  }
}

async function openDirectory(values: Flags): Promise<Target> {
  const { directory, task, method, features, ratingScale, likeThreshold, types, leaveOut } = values
  const line = new ReplayLine("replaying the journal")
  const recommender = await Recommender.open({
    onReplay: (progress) => line.update(progress),
    directory,
    ...{ task, features, leaveOut },
    types: types === undefined ? undefined : parseTypes(types),
    ...(method === undefined ? {} : { method }),
    ...(likeThreshold === undefined ? {} : { likeThreshold }),
    scale: ratingScale === undefined ? undefined : parseRatingScale(ratingScale),
  }).finally(() => line.done())
  return {
    // Every row of a file is an event, also a second of the same user, item and type.
    observe: (events, options) => observePatiently(recommender, events, { ...options, replace: true }),
    putItems: (items) => recommender.putItems(items),
    source: (name) => recommender.source(name),
    types: (recommender as Recommender & { types?: EventTypes }).types,
    close: () => recommender.close(),
  }
}

/** Types and weights as a flag has them: JSON. The engine looks at what is in it. */
function parseTypes(text: string): Record<string, number> {
  try {
    return JSON.parse(text) as Record<string, number>
  } catch {
    throw new DessError(
      "INVALID_ARGUMENT",
      `--types: expected JSON such as {"view":0.2,"purchase":1}, got ${show(text)}`,
    )
  }
}
