/**
 * `dess import`: a table of events or items into a recommender's directory, or to a running service.
 *
 * The file is read twice: once to check every row, and only then to take them. How far a directory has taken a file is
 * kept with the events, so that a second try goes on where the first one stopped. A service gets a key for every row.
 */

import { createHash, randomUUID } from "node:crypto"
import { createReadStream } from "node:fs"
import { openEventFiles } from "../datasets/event-files.ts"
import { describeSignal } from "../datasets/formats.ts"
import { type ColumnChoice, describeColumns, parseColumnChoice } from "../datasets/header.ts"
import { ANY_RATING, EventMaker } from "../datasets/live-events.ts"
import { itemFileOf, readItems } from "../datasets/live-items.ts"
import { newTally, refuseEmpty } from "../datasets/ratings.ts"
import { findSource } from "../datasets/source.ts"
import { checkEvents } from "../engine/check.ts"
import { readCreated } from "../engine/directory.ts"
import { checkTypes, type EventTypes } from "../engine/event-types.ts"
import { checkItems } from "../engine/item-entries.ts"
import { Recommender } from "../engine/open.ts"
import { DEFAULT_KEYS } from "../engine/options.ts"
import type { Event, ItemEntry, ObserveOptions } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { DATA_OPTIONS } from "../experiments/data.ts"
import { openRemote } from "../server/client.ts"
import { observePatiently } from "../server/lines.ts"
import { DEFAULT_SCALE, parseRatingScale, type RatingScale } from "../stream/interaction.ts"
import { describeFlags, flagOf, onlyFile, parseArguments, type parseFlags, runFlags } from "./flags.ts"
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
    description: "names, or places from 1, of columns that are not recognised",
    examples: ["user=…,item=…,rating=…,timestamp=…,type=…,weight=…,key=…"],
  },
  type: DATA_OPTIONS.type,
  as: { type: "string", description: "type of every event that has none, such as purchase", examples: ["<type>"] },
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

Usage: dess import <file|folder> (--directory <dir> | --url <url>) [options]

Takes what dess run takes: a MovieLens folder, a table (separated by comma, tab, semicolon, | or ::), JSON lines, or
Parquet (needs @duckdb/node-api); text may be gzip. Events have the columns user and item, and where there are any rating,
timestamp, type (or event, action), weight and key (of idempotency). Items have item and any of title, categories (a|b in
CSV), properties (a JSON object), expires, hidden and features. Which columns are taken for what is said. What a type
weighs is said with --types, here or when the service was started.

Every row is checked before the first is taken: one that is not valid is named with its line, and nothing is taken. A
file that was taken before is not taken again (a directory refuses it with other columns, too); where an import was
interrupted, the next one goes on from there. Events are taken in order of time, whatever the order of the file.

${describeFlags({ Options: FLAGS, "Types of events of a directory": TYPE_FLAGS, "A directory that is created by it": CREATION_FLAGS })}

Examples
  dess import ml-1m --items --directory data && dess import ml-1m --directory data
  dess import ratings.csv --directory data
  dess import purchases.csv --as purchase --columns user=customer,item=sku --directory data
  dess import clicks.ndjson.gz --url http://127.0.0.1:8080 --skip-bad`

const BATCH = 2000
/** Rows that are sorted by time in memory at once, where a file is not in that order. */
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
  refuseIdle(values)
  const started = performance.now()
  // A directory that is there says what types weigh; one that is not is made when the file is known to be good.
  const made = directory !== undefined && readCreated(directory) ? await openDirectory(values) : undefined
  const file = new ImportFile(path, values, made?.types)
  const total = await file.check().catch(async (error) => {
    await made?.close()
    throw error
  })
  const { content, reading } = await file.hash()
  // A directory knows how far it has taken a file, a service the key of each row: whatever the columns are called.
  const again = url !== undefined && values.again ? `:${randomUUID()}` : ""
  const name = `import:${content}${again}`
  const target: Target =
    made ?? (url === undefined ? await openDirectory(values) : openRemote(url, process.env.DESS_WRITE_KEY))
  // From the first batch on: sorting before it says nothing of the time that taking needs.
  let progress: Progress | undefined
  const counts = { rows: 0, accepted: 0, duplicates: 0 }
  let repeated = 0
  if (url !== undefined && !items && total > DEFAULT_KEYS)
    note(
      `a service remembers the keys of its last ${DEFAULT_KEYS.toLocaleString("en")} events (--idempotency-keys): should this stop, a second try may take rows twice; --directory is safe`,
    )
  try {
    const before = values.again ? 0 : takenBefore(target.source?.(name), reading)
    for await (const batch of file.batches()) {
      progress ??= new Progress("import", total, LINE_EVERY)
      const from = counts.rows
      counts.rows += batch.length
      if (items) counts.accepted += await target.putItems(batch as ItemEntry[])
      else {
        const events = (batch as Event[]).slice(Math.max(0, before - from))
        const taken = batch.length - events.length
        const done = target.source
          ? await target.observe(events, { source: { name, position: `${counts.rows} ${reading}` } })
          : await target.observe(events.map((event, e) => ({ key: `${name}:${from + e}`, ...event })))
        counts.accepted += done.accepted
        counts.duplicates += done.duplicates + taken
        repeated += done.duplicates
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
    progress?.done()
    await target.close()
  }
  const seconds = (performance.now() - started) / 1000
  const bad = file.bad
  if (values.json) return console.log(JSON.stringify({ ...counts, bad, seconds: Number(seconds.toFixed(1)) }))
  if (repeated > 0)
    note(
      `${repeated.toLocaleString("en")} of the rows ${url === undefined ? "repeat the user, item, type and time of another, and count once" : "were taken before (--again takes them once more), or repeat others"}`,
    )
  const known = counts.duplicates > 0 ? `, ${counts.duplicates.toLocaleString("en")} known already` : ""
  const passed = bad > 0 ? `, ${bad.toLocaleString("en")} bad rows passed over` : ""
  const noun = items ? "items" : "events"
  console.log(`${counts.accepted.toLocaleString("en")} ${noun} taken${known}${passed}, in ${formatSeconds(seconds)}`)
}

const note = (text: string) => process.stderr.write(`dess: ${text}\n`)

/** Rows of a file that a directory has taken; refuses to take them once more in another reading. */
function takenBefore(position: string | undefined, reading: string): number {
  if (position === undefined) return 0
  const [rows, by] = position.split(" ")
  if (by !== reading)
    throw new DessError(
      "INVALID_ARGUMENT",
      "file: expected the --columns, --type and --as it was taken with before, got others; nothing was taken (--again takes all of it once more)",
    )
  return Number(rows)
}

/** Refuses options that would change nothing. */
function refuseIdle(values: Flags): void {
  const given = (names: readonly string[]) => names.find((name) => values[name as keyof Flags] !== undefined)
  const kept = given([...Object.keys(TYPE_FLAGS), ...Object.keys(CREATION_FLAGS)])
  if (values.url !== undefined && kept !== undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      `--${flagOf(kept)}: expected with --directory only: a service has its own settings`,
    )
  const ofEvents = values.items ? given(["type", "as", "again", ...Object.keys(TYPE_FLAGS)]) : undefined
  if (ofEvents !== undefined)
    throw new DessError("INVALID_ARGUMENT", `--${flagOf(ofEvents)}: expected with events, got it with --items`)
}

/** A file's rows as events or items, checked as the recommender checks them. */
class ImportFile {
  readonly #path: string
  readonly #values: Flags
  readonly #choice: ColumnChoice
  readonly #features: readonly string[] | undefined
  readonly #scale: RatingScale
  readonly #types: EventTypes | undefined
  readonly #now = Date.now() / 1000
  /** Rows that are not valid, as far as it was read last. */
  bad = 0
  #isReported = false
  #isChecked = false
  #share = 0
  readonly #times = new Times()

  constructor(path: string, values: Flags, types: EventTypes | undefined) {
    this.#path = path
    this.#values = values
    this.#choice = columnsOf(values) === undefined ? {} : parseColumnChoice(columnsOf(values) ?? "")
    this.#types = values.types === undefined ? types : checkTypes(parseTypes(values.types), values.leaveOut)
    const created = values.directory === undefined ? undefined : readCreated(values.directory)
    this.#features = created?.features ?? values.features
    const given = values.ratingScale === undefined ? DEFAULT_SCALE : parseRatingScale(values.ratingScale)
    // What a service was created with, it alone knows.
    this.#scale = values.url === undefined ? (created?.scale ?? given) : ANY_RATING
  }

  /** Reads all of it; refuses at the first bad row unless they are passed over. Returns how many there are to take. */
  async check(): Promise<number> {
    const progress = new Progress("checking", undefined, LINE_EVERY)
    let rows = 0
    try {
      for await (const batch of this.#read()) {
        rows += batch.length
        progress.update(rows, this.#share)
      }
    } catch (error) {
      if (!(error instanceof DessError) || error.code !== "INVALID_DATA") throw error
      const remedy = this.#isReported ? " (--skip-bad passes over such rows)" : ""
      throw new DessError(error.code, `${error.message}; nothing was taken${remedy}`, { cause: error })
    } finally {
      progress.done()
    }
    if (rows === 0 && this.bad === 0) refuseEmpty(this.#path)
    this.#isChecked = true
    const order = this.#values.items ? undefined : this.#times.note(MOST_SORTED)
    if (order !== undefined) note(order)
    return rows
  }

  /** Of what is in the file, and of how it is read. */
  async hash(): Promise<{ content: string; reading: string }> {
    // Not of skipBad: a file without bad rows gives the same events with and without it, one with them only with it.
    const { as, items } = this.#values
    const reading = createHash("sha256").update(JSON.stringify([columnsOf(this.#values), as, items]))
    const hash = createHash("sha256")
    const files = items ? [itemFileOf(this.#path)] : (await findSource(this.#path)).files
    for (const file of files) for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer)
    return { content: hash.digest("hex").slice(0, 32), reading: reading.digest("hex").slice(0, 8) }
  }

  /** In order of time where the file is not: the rows of one span after the other, each sorted in memory. */
  async *batches(): AsyncGenerator<Event[] | ItemEntry[]> {
    if (this.#values.items || !this.#times.areMixed) {
      yield* this.#read()
      return
    }
    const spans = this.#times.spans(MOST_SORTED)
    for (const [part, [from, to]] of spans.entries()) {
      const some: (Event & { timestamp: number })[] = []
      const progress = new Progress(`sorting part ${part + 1} of ${spans.length}`, undefined, LINE_EVERY)
      let rows = 0
      for await (const batch of this.#readEvents()) {
        for (const event of batch) {
          const { timestamp = 0 } = event
          if (timestamp >= from && timestamp < to) some.push({ ...event, timestamp })
        }
        rows += batch.length
        progress.update(rows, this.#share)
      }
      progress.done()
      some.sort((a, b) => a.timestamp - b.timestamp)
      for (let first = 0; first < some.length; first += BATCH) yield some.slice(first, first + BATCH)
    }
  }

  #read(): AsyncGenerator<Event[] | ItemEntry[]> {
    return this.#values.items ? this.#readItems() : this.#readEvents()
  }

  async *#readEvents(): AsyncGenerator<Event[]> {
    const { as: type, skipBad } = this.#values
    this.bad = 0
    const maker = new EventMaker()
    const tally = newTally()
    const { reading, blocks, isLatin1 } = await openEventFiles(this.#path, {
      ...{ choice: this.#choice, live: true, scale: this.#scale, names: maker.names, tally },
      ...this.#reports(),
    })
    this.#report(describeColumns(reading))
    const rules = { scale: this.#scale, now: this.#now, types: this.#types }
    let batch: Event[] = []
    for await (const rows of blocks) {
      for (let row = 0; row < rows.length; row++) {
        const event = maker.make(rows, row, type)
        // What was valid when it was checked is so still, unless bad rows were passed over.
        if (!this.#isChecked || skipBad) {
          const isValid = this.#isValid(
            () => checkEvents(event, rules),
            () => rows.where(row),
          )
          if (!isValid) continue
        }
        if (!this.#isChecked) this.#times.take(event.timestamp)
        batch.push(event)
        if (batch.length < BATCH) continue
        yield batch
        batch = []
      }
      maker.trim()
    }
    if (batch.length > 0) yield batch
    if (this.#isChecked) return
    for (const text of describeSignal(reading, tally)) note(text)
    if (isLatin1()) noteLatin1(this.#path)
  }

  async *#readItems(): AsyncGenerator<ItemEntry[]> {
    this.bad = 0
    let batch: ItemEntry[] = []
    const items = readItems(this.#path, {
      choice: this.#choice,
      onColumns: (text) => this.#report(text),
      ...this.#reports(),
    })
    for await (const { item, where } of items) {
      if (!this.#isValid(() => checkItems(item, this.#features), where)) continue
      batch.push(item)
      if (batch.length < BATCH) continue
      yield batch
      batch = []
    }
    if (batch.length > 0) yield batch
  }

  /** Whether a row passes a check; throws where it does not and is not passed over. */
  #isValid(check: () => void, where: () => string): boolean {
    try {
      check()
      return true
    } catch (error) {
      if (!(error instanceof DessError)) throw error
      const message = `${error.message.replace(/ \(entry 0\)$/, "")} (${where()})`
      const bad = new DessError("INVALID_DATA", message, { cause: error })
      if (!this.#values.skipBad) throw bad
      this.#passOver(bad)
      return false
    }
  }

  #reports() {
    return {
      onBad: this.#values.skipBad ? (error: DessError) => this.#passOver(error) : undefined,
      onShare: (share: number) => {
        this.#share = share
      },
    }
  }

  /** Says which columns are taken for what, once. */
  #report(columns: string): void {
    if (!this.#isReported) process.stderr.write(`dess: ${columns}\n`)
    this.#isReported = true
  }

  #passOver(error: DessError): void {
    this.bad++
    if (this.#isChecked) return
    if (this.bad <= MOST_NAMED) process.stderr.write(`dess: passed over: ${error.message}\n`)
    else if (this.bad === MOST_NAMED + 1) process.stderr.write("dess: passed over: more such rows\n")
  }
}

/** The times of a file's events: whether they are in order, and where to cut them. */
export class Times {
  #areKnown = true
  #isOrdered = true
  #last = Number.NEGATIVE_INFINITY
  #count = 0
  /** Every so many of them. */
  #stride = 1
  #sample: number[] = []

  take(time: number | undefined): void {
    if (time === undefined) {
      this.#areKnown = false
      return
    }
    if (time < this.#last) this.#isOrdered = false
    this.#last = time
    if (this.#count++ % this.#stride > 0) return
    this.#sample.push(time)
    if (this.#sample.length < 1 << 16) return
    this.#sample = this.#sample.filter((_, at) => at % 2 === 0)
    this.#stride *= 2
  }

  /** Whether events have to be sorted. */
  get areMixed(): boolean {
    return this.#areKnown && !this.#isOrdered
  }

  /** What its owner should know, where this many can be sorted at once. */
  note(most: number): string | undefined {
    if (this.areMixed) {
      const parts = Math.ceil(this.#count / most)
      const cost = parts > 1 ? `, and the file is read ${parts} times more (sort it by time to save that)` : ""
      return `rows are not in order of time: they are taken by their time${cost}`
    }
    if (this.#isOrdered) return undefined
    return "rows are not in order of time and are taken as they come: some have no time; lists are better when all have one"
  }

  /** Spans of time with about this many events each; the upper end does not belong to a span. */
  spans(most: number): [number, number][] {
    const sorted = Float64Array.from(this.#sample).sort()
    const parts = Math.ceil(this.#count / most)
    const cuts = Array.from({ length: parts - 1 }, (_, p) => sorted[Math.floor(((p + 1) * sorted.length) / parts)])
    const ends = [...new Set([Number.NEGATIVE_INFINITY, ...cuts, Number.POSITIVE_INFINITY])]
    return ends.slice(1).map((end, at) => [ends[at], end])
  }
}

/** Names of columns as they are asked for. */
function columnsOf({ columns, type }: Flags): string | undefined {
  const all = [columns, type === undefined ? undefined : `type=${type}`].filter((part) => part !== undefined)
  return all.length === 0 ? undefined : all.join(",")
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
    types: recommender.types,
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
