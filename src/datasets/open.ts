/** Opens a path as a stream: a MovieLens folder, a CSV, TSV or NDJSON file, or what `dess prepare` made. */

import { existsSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { DessError } from "../errors.ts"
import { type Columns, streamFromColumns } from "../stream/columns.ts"
import { DEFAULT_SCALE } from "../stream/interaction.ts"
import { textFile } from "./bytes.ts"
import { type DataStream, type OpenOptions, scaleThreshold } from "./data-stream.ts"
import type { Duck } from "./duck.ts"
import { describeReading, type FileChoice, nameOf, type Rows, readTexts } from "./formats.ts"
import type { Reading } from "./header.ts"
import { isPrepared, readManifest } from "./manifest.ts"
import { genreFeatures, readMovies } from "./movies.ts"
import { NameTable } from "./names.ts"
import { openPrepared } from "./prepared.ts"
import { nothingAt } from "./publishers.ts"
import { collectColumns, type Names, newTally, type ReadOptions, refuseEmpty, refuseUnknownTypes } from "./ratings.ts"
import { findSource } from "./source.ts"

export type { DataStream, OpenOptions } from "./data-stream.ts"

/** Opens a folder or file as a stream. */
export async function openData(path: string, options: OpenOptions = {}): Promise<DataStream> {
  const stats = existsSync(path) ? statSync(path) : undefined
  if (stats === undefined) throw nothingAt(path)
  if (stats.isDirectory() && isPrepared(path)) return openPrepared(path, options)
  const { form, files } = await findSource(path)
  const [file] = files
  const { ratingScale = DEFAULT_SCALE, likeThreshold, columns: choice = {}, implicit = false, types, ...rest } = options
  if (choice.weight !== undefined)
    throw new DessError(
      "UNSUPPORTED",
      "columns: expected no weight in a stream of experiments, where every event counts once",
    )
  const names = { users: new NameTable(), items: new NameTable() }
  const tally = newTally()
  const reader = { scale: ratingScale, names, tally, ...(types && { types: new Set(types) }) }
  const texts = form === "parquet" ? [] : files.map((path) => textFile(path))
  const { columns, reading } =
    form === "parquet"
      ? await collectParquet(files, { choice, implicit, ...reader })
      : await collect(await readTexts(texts, { choice, implicit }, reader), names)
  refuseUnknownTypes(types, tally, reading)
  if (tally.rows === 0) refuseEmpty(file)
  const notes = [
    ...(files.length > 1 ? [`read as one: ${files.map((name) => basename(name)).join(", ")}`] : []),
    ...describeReading(reading, tally),
  ]
  const movies = await readMovies(file)
  const features = movies === undefined ? undefined : genreFeatures(movies)
  const stream = streamFromColumns({
    ...rest,
    name: nameOf(file),
    columns,
    ...(features === undefined ? {} : { features }),
  })
  return {
    ...stream,
    ...(texts.some(({ latin1 }) => latin1) ? { encoding: "latin-1" } : {}),
    reading,
    ...(notes.length > 0 ? { notes } : {}),
    ...(reading.implicit ? { implicit: true } : {}),
    ratingScale,
    likeThreshold: scaleThreshold(likeThreshold, ratingScale),
    ...(movies === undefined ? {} : { itemTitle: (index) => movies.get(stream.itemName(index))?.title }),
  }
}

/** Which columns of the data would be taken for what, by the beginning of its files; no row is kept. */
export async function peekData(path: string, options: OpenOptions = {}): Promise<Reading> {
  const nothing = { taken: {}, ignored: [], implicit: false, untimed: false }
  if (!existsSync(path)) throw nothingAt(path)
  if (statSync(path).isDirectory() && isPrepared(path)) {
    const { reading = nothing, implicit = false } = readManifest(path)
    return { ...reading, implicit }
  }
  const { form, files } = await findSource(path)
  const { ratingScale: scale = DEFAULT_SCALE, columns: choice = {}, implicit = false } = options
  const reader = { scale, names: { users: new NameTable(), items: new NameTable() }, tally: newTally() }
  if (form === "parquet")
    return withDuck((duck, parquet) => parquet.readParquet(duck, files, { choice, implicit, ...reader })).then(
      ({ reading }) => reading,
    )
  return (
    await readTexts(
      files.map((path) => textFile(path)),
      { choice, implicit },
      reader,
    )
  ).reading
}

interface Collected {
  columns: Columns
  reading: Reading
}

async function collect({ reading, blocks }: Rows, names: Names): Promise<Collected> {
  return { reading, columns: await collectColumns(blocks, names) }
}

async function collectParquet(files: readonly string[], options: ReadOptions & FileChoice): Promise<Collected> {
  return withDuck(async (duck, { readParquet }) => collect(await readParquet(duck, files, options), options.names))
}

/** Parquet is read with DuckDB, which is optional. */
async function withDuck<T>(work: (duck: Duck, parquet: typeof import("./parquet.ts")) => Promise<T>): Promise<T> {
  const { openDuck } = await import("./duck.ts")
  const duck = await openDuck({ memoryBytes: 2 ** 30, threads: 1, temporary: join(tmpdir(), `dess-${process.pid}`) })
  try {
    return await work(duck, await import("./parquet.ts"))
  } finally {
    duck.close()
  }
}
