/** Opens a path as a stream: a MovieLens folder, a CSV, TSV or NDJSON file, or what `dess prepare` made. */

import { basename } from "node:path"
import { streamFromColumns } from "../stream/columns.ts"
import { DEFAULT_SCALE } from "../stream/interaction.ts"
import { type DataStream, type OpenOptions, scaleThreshold } from "./data-stream.ts"
import { openEventFiles } from "./event-files.ts"
import { describeReading, nameOf } from "./formats.ts"
import type { Reading } from "./header.ts"
import { isPrepared, readManifest } from "./manifest.ts"
import { genreFeatures, readMovies } from "./movies.ts"
import { NameTable } from "./names.ts"
import { openPrepared } from "./prepared.ts"
import { collectColumns, newTally, refuseEmpty, refuseUnknownTypes } from "./ratings.ts"

export type { DataStream, OpenOptions } from "./data-stream.ts"

/** Opens a folder or file as a stream. */
export async function openData(path: string, options: OpenOptions = {}): Promise<DataStream> {
  if (isPrepared(path)) return openPrepared(path, options)
  const { ratingScale = DEFAULT_SCALE, likeThreshold, columns: _, implicit: __, types, onRead, ...rest } = options
  const reader = readerOf(options)
  const { names, tally } = reader
  const { files, reading, blocks, isLatin1 } = await openEventFiles(path, {
    ...reader,
    onShare: (share) => onRead?.(tally.rows, share),
  })
  const columns = await collectColumns(blocks, names)
  refuseUnknownTypes(types, tally, reading)
  const [file] = files
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
    ...(isLatin1() ? { encoding: "latin-1" } : {}),
    reading,
    notes,
    ...(reading.implicit ? { implicit: true } : {}),
    ratingScale,
    likeThreshold: scaleThreshold(likeThreshold, ratingScale),
    ...(movies === undefined ? {} : { itemTitle: (index) => movies.get(stream.itemName(index))?.title }),
  }
}

/** Which columns of the data would be taken for what, by the beginning of its files; no row is kept. */
export async function peekData(path: string, options: OpenOptions = {}): Promise<Reading> {
  if (isPrepared(path)) {
    const { reading = { taken: {}, ignored: [], untimed: false }, implicit = false } = readManifest(path)
    return { ...reading, implicit }
  }
  return (await openEventFiles(path, readerOf(options))).reading
}

function readerOf({ ratingScale = DEFAULT_SCALE, columns: choice = {}, implicit = false, types }: OpenOptions) {
  const names = { users: new NameTable(), items: new NameTable() }
  return { choice, implicit, scale: ratingScale, names, tally: newTally(), ...(types && { types: new Set(types) }) }
}
