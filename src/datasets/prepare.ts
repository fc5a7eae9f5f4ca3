/**
 * Data as published → a folder that is read back as a stream in constant memory: interactions in time order (equal
 * times in the order of the source) with dense indices by first appearance, the ids behind the indices, item features,
 * and a manifest. Everything is made in `<out>.partial-<process>` and renamed when it is whole.
 */

import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { basename, join, resolve } from "node:path"
import { DessError, show } from "../errors.ts"
import { DEFAULT_SCALE, type RatingScale } from "../stream/interaction.ts"
import { LIKE_THRESHOLD } from "../stream/labels.ts"
import { detectPacking, type TextFile, textFile } from "./bytes.ts"
import { scaleThreshold } from "./data-stream.ts"
import { type Duck, duckTextFile, openDuck, quote } from "./duck.ts"
import { filterRows } from "./filters.ts"
import { describeReading, nameOf, type Rows, readTexts } from "./formats.ts"
import type { ColumnChoice, Reading } from "./header.ts"
import { writeItems } from "./item-files.ts"
import { type Filters, INTERACTIONS, ITEMS, MANIFEST, type Manifest, USERS, VERSION } from "./manifest.ts"
import { type NameArena, NameTable } from "./names.ts"
import { claimPartial, describeFiles, moveInto, refuseTaken, writingError } from "./out-folder.ts"
import { readParquet } from "./parquet.ts"
import { download, PUBLISHED, publishedName } from "./publishers.ts"
import { newTally, type RatingBlock, type ReadOptions, refuseEmpty, refuseUnknownTypes } from "./ratings.ts"
import { chooseEntries, findSource, type Source } from "./source.ts"
import { extractEntry, listZip } from "./zip.ts"

export interface PrepareOptions extends Partial<Filters> {
  /** The folder to make. */
  out: string
  /** Whether it may take the place of a folder that `dess prepare` made before. */
  replace?: boolean
  columns?: ColumnChoice
  /** Every row is a positive, whether there are ratings or not. */
  implicit?: boolean
  /** Kinds of events that count. */
  types?: readonly string[]
  ratingScale?: RatingScale
  /** On the scale of the source. */
  likeThreshold?: number
  /** What DuckDB may take; the process takes more by the size of its id maps. */
  memoryBytes?: number
  threads?: number
  /** Where files fetched by name are kept. */
  downloads?: string
  /** Address to fetch them from instead of the publisher's. */
  mirror?: string
  signal?: AbortSignal
}

/** How far it is: bytes when fetching, files when unpacking, rows when reading. */
export interface PrepareProgress {
  phase: "download" | "unpack" | "read" | "filter" | "sort" | "write"
  done?: number
  total?: number
}

/** Prepares a folder, an archive, a file or a data set known by name; returns what the manifest says. */
export async function* prepareData(from: string, options: PrepareOptions): AsyncGenerator<PrepareProgress, Manifest> {
  const out = resolve(options.out)
  const { ratingScale = DEFAULT_SCALE, likeThreshold } = options
  const filters = checkFilters(options)
  scaleThreshold(likeThreshold, ratingScale)
  refuseTaken(out, options.replace ?? false)
  const named = !existsSync(from)
  const partial = claimPartial(out)
  const work = join(partial, "work")
  let unpacked: string | undefined
  try {
    const path = named ? yield* fetchNamed(from, options) : from
    mkdirSync(work, { recursive: true })
    const packing = statSync(path).isDirectory() ? "none" : await detectPacking(path)
    if (packing === "zip") unpacked = yield* unpack(path, join(work, "unpacked"))
    const source = await findSource(unpacked ?? path)
    const result = yield* makeTables({ ...options, ratingScale, filters, source, partial, work })
    rmSync(work, { recursive: true })
    const manifest: Manifest = {
      format: "dess-data",
      version: VERSION,
      name: named ? from : (publishedName(path) ?? nameOf(path)),
      source: {
        from: named ? PUBLISHED[from] : resolve(path),
        form: source.form,
        bytes: result.bytes,
        ...(result.latin1 ? { encoding: "latin-1" } : {}),
      },
      ...result.counts,
      ...(result.reading.implicit ? { implicit: true } : {}),
      reading: result.reading,
      ...(result.notes.length > 0 ? { notes: result.notes } : {}),
      ratingScale,
      likeThreshold: likeThreshold ?? (LIKE_THRESHOLD * ratingScale.max) / 5,
      filters,
      dropped: result.dropped,
      ...(result.features === undefined ? {} : { features: result.features }),
      files: await describeFiles(partial),
    }
    writeFileSync(join(partial, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`)
    moveInto(out, partial)
    return manifest
  } catch (error) {
    if (options.signal?.aborted)
      throw new DessError("INTERRUPTED", "preparation interrupted; nothing was written", { cause: error })
    if (error instanceof DessError && unpacked !== undefined) {
      throw new DessError(error.code, error.message.replaceAll(unpacked, from), { cause: error })
    }
    throw writingError(out, error)
  } finally {
    if (existsSync(partial)) rmSync(partial, { recursive: true })
  }
}

interface TableOptions extends PrepareOptions {
  ratingScale: RatingScale
  filters: Filters
  source: Source
  partial: string
  work: string
}

type Tables = Pick<Manifest, "dropped"> & {
  bytes: number
  latin1: boolean
  counts: Pick<Manifest, "interactions" | "users" | "items" | "firstTimestamp" | "lastTimestamp">
  features: Manifest["features"] | undefined
  reading: Reading
  notes: string[]
}

/** Reads, filters, sorts, numbers and writes. */
async function* makeTables(options: TableOptions): AsyncGenerator<PrepareProgress, Tables> {
  const {
    source,
    filters,
    partial,
    work,
    signal,
    memoryBytes = 1.5 * 2 ** 30,
    threads = availableParallelism(),
  } = options
  const duck = await openDuck({ memoryBytes, threads, temporary: join(work, "duckdb") })
  const interrupt = () => duck.interrupt()
  signal?.addEventListener("abort", interrupt)
  try {
    const users = new NameTable()
    const items = new NameTable()
    const [path] = source.files
    const packed = (await detectPacking(path)) === "zstd"
    const texts = source.files.map((file) => (packed ? duckTextFile(duck, file) : textFile(file)))
    const tally = newTally()
    const wanted = options.types && { types: new Set(options.types) }
    const reader = { scale: options.ratingScale, names: { users, items }, tally, ...wanted }
    const { types: _, ...rest } = options
    const { reading, blocks } = await readSource(duck, texts, { ...rest, ...reader })
    yield* storeRows(duck, blocks, options)
    refuseUnknownTypes(options.types, tally, reading)
    if (tally.rows === 0) refuseEmpty(path)
    yield { phase: "filter" }
    const dropped = await filterRows(duck, filters)
    yield { phase: "sort" }
    const counts = await numberRows(duck)
    yield { phase: "write" }
    await duck.run(`COPY (SELECT "user", item, rating, timestamp FROM sorted JOIN user_index USING (u) JOIN item_index USING (i)
      ORDER BY sorted.rowid) TO ${quote(join(partial, INTERACTIONS))} (FORMAT parquet, COMPRESSION zstd)`)
    await duck.run("DROP TABLE sorted")
    await writeUsers(duck, users.names, partial)
    const features = await writeItems(duck, { ratings: source.files[0], names: items.names, into: partial })
    await checkLengths(duck, counts, partial)
    const bytes = source.files.reduce((sum, file) => sum + statSync(file).size, 0)
    const notes = describeReading(reading, tally)
    return { dropped, counts, features, bytes, latin1: texts.some(({ latin1 }) => latin1), reading, notes }
  } finally {
    signal?.removeEventListener("abort", interrupt)
    duck.close()
  }
}

async function readSource(
  duck: Duck,
  texts: readonly TextFile[],
  options: Omit<TableOptions, "types"> & ReadOptions,
): Promise<Rows> {
  const { source, columns: choice = {}, implicit = false, scale, names, tally, types } = options
  const reader = { scale, names, tally, ...(types && { types }) }
  if (source.form === "parquet") return readParquet(duck, source.files, { choice, implicit, ...reader })
  return readTexts(texts, { choice, implicit }, reader)
}

/** Puts the rows in a table; `position` is their place in the source, which settles equal times. */
async function* storeRows(
  duck: Duck,
  blocks: AsyncIterable<RatingBlock>,
  { signal }: TableOptions,
): AsyncGenerator<PrepareProgress> {
  await duck.run("CREATE TABLE rows (u INTEGER, i INTEGER, rating FLOAT, timestamp DOUBLE, position INTEGER)")
  const writer = await duck.write("rows", ["INTEGER", "INTEGER", "FLOAT", "DOUBLE", "INTEGER"])
  let position = 0
  for await (const { length, user, item, rating, timestamp } of blocks) {
    for (let row = 0; row < length; row++) writer.add(user[row], item[row], rating[row], timestamp[row], position++)
    signal?.throwIfAborted()
    yield { phase: "read", done: position }
  }
  writer.finish()
}

/** Sorts by time and numbers the ids by first appearance. */
async function numberRows(duck: Duck): Promise<Tables["counts"]> {
  const interactions = await duck.number("SELECT count(*) FROM rows")
  if (interactions === 0) throw new DessError("INVALID_DATA", "filters: expected to leave interactions, got none left")
  await duck.run("CREATE TABLE sorted AS SELECT u, i, rating, timestamp FROM rows ORDER BY timestamp, position")
  await duck.run("DROP TABLE rows")
  for (const [side, column] of [
    ["user", "u"],
    ["item", "i"],
  ]) {
    await duck.run(`CREATE TABLE ${side}_index AS SELECT ${column}, (row_number() OVER (ORDER BY first) - 1)::INTEGER AS "${side}"
      FROM (SELECT ${column}, min(rowid) AS first FROM sorted GROUP BY ${column})`)
  }
  return {
    interactions,
    users: await duck.number("SELECT count(*) FROM user_index"),
    items: await duck.number("SELECT count(*) FROM item_index"),
    firstTimestamp: await duck.number("SELECT min(timestamp) FROM sorted"),
    lastTimestamp: await duck.number("SELECT max(timestamp) FROM sorted"),
  }
}

/** Nothing is taken for whole that does not hold what it should. */
async function checkLengths(duck: Duck, counts: Tables["counts"], folder: string): Promise<void> {
  const { interactions, users, items } = counts
  for (const [file, expected] of Object.entries({ [INTERACTIONS]: interactions, [USERS]: users, [ITEMS]: items })) {
    const got = await duck.number(`SELECT count(*) FROM read_parquet(${quote(join(folder, file))})`)
    if (got !== expected) throw new Error(`${file}: expected ${expected} rows, got ${got}`)
  }
}

async function writeUsers(duck: Duck, names: NameArena, into: string): Promise<void> {
  await duck.run(`CREATE TABLE users ("user" INTEGER, name VARCHAR)`)
  const writer = await duck.write("users", ["INTEGER", "VARCHAR"])
  let user = 0
  for await (const { length, columns } of duck.stream(`SELECT u FROM user_index ORDER BY "user"`)) {
    for (let k = 0; k < length; k++) writer.add(user++, names.text(Number(columns[0].getItem(k))))
  }
  writer.finish()
  await duck.run(
    `COPY (SELECT * FROM users ORDER BY "user") TO ${quote(join(into, USERS))} (FORMAT parquet, COMPRESSION zstd)`,
  )
  await duck.run("DROP TABLE users")
}

async function* fetchNamed(name: string, options: PrepareOptions): AsyncGenerator<PrepareProgress, string> {
  if (!Object.hasOwn(PUBLISHED, name)) {
    const known = Object.keys(PUBLISHED).join(", ")
    throw new DessError("NOT_FOUND", `source: expected a file, a folder or one of ${known}, got ${show(name)}`)
  }
  const fetching = download(name, options)
  let step = await fetching.next()
  for (; step.done !== true; step = await fetching.next()) yield { phase: "download", ...step.value }
  return step.value
}

async function* unpack(path: string, into: string): AsyncGenerator<PrepareProgress, string> {
  mkdirSync(into, { recursive: true })
  const entries = await listZip(path)
  const chosen = new Set(chooseEntries(entries.map((entry) => entry.name)))
  let done = 0
  for (const entry of entries) {
    if (!chosen.has(entry.name)) continue
    yield { phase: "unpack", done: done++, total: chosen.size }
    // The name only: an archive has no say in where its files go.
    const target = join(into, basename(entry.name))
    if (existsSync(target)) {
      throw new DessError(
        "INVALID_DATA",
        `zip file: expected each file once, got ${show(basename(entry.name))} twice (${path})`,
      )
    }
    await extractEntry(path, entry, target)
  }
  return into
}

function checkFilters({ dedupe = "none", minRatings = 1, kCore = 1 }: PrepareOptions): Filters {
  for (const [name, value] of Object.entries({ "min ratings": minRatings, "k-core": kCore })) {
    if (Number.isSafeInteger(value) && value >= 1) continue
    throw new DessError("INVALID_ARGUMENT", `${name}: expected a whole number, 1 or more, got ${show(value)}`)
  }
  if (dedupe !== "last" && dedupe !== "first" && dedupe !== "none") {
    throw new DessError("INVALID_ARGUMENT", `dedupe: expected last, first or none, got ${show(dedupe)}`)
  }
  return { dedupe, minRatings, kCore }
}
