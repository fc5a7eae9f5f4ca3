/** Opens a path as a stream: a MovieLens folder, a CSV, TSV or NDJSON file, or what `dess prepare` made. */

import { existsSync, statSync } from "node:fs"
import { join } from "node:path"
import { DessError } from "../errors.ts"
import { streamFromColumns } from "../stream/columns.ts"
import { DEFAULT_SCALE } from "../stream/interaction.ts"
import { textFile } from "./bytes.ts"
import { type DataStream, type OpenOptions, scaleThreshold } from "./data-stream.ts"
import { nameOf, RATINGS_FILES, readText } from "./formats.ts"
import { isPrepared } from "./manifest.ts"
import { genreFeatures, readMovies } from "./movies.ts"
import { NameTable } from "./names.ts"
import { openPrepared } from "./prepared.ts"
import { collectColumns } from "./ratings.ts"

export type { DataStream, OpenOptions } from "./data-stream.ts"

/** Opens a folder or file as a stream. */
export async function openData(path: string, options: OpenOptions = {}): Promise<DataStream> {
  const stats = existsSync(path) ? statSync(path) : undefined
  if (stats === undefined) throw new DessError("NOT_FOUND", `data: expected a file or folder, got nothing at ${path}`)
  if (stats.isDirectory() && isPrepared(path)) return openPrepared(path, options)
  const file = stats.isDirectory() ? findRatings(path) : path
  const { ratingScale = DEFAULT_SCALE, likeThreshold, columns: choice = {}, ...rest } = options
  const names = { users: new NameTable(), items: new NameTable() }
  const text = textFile(file)
  const columns = await collectColumns(await readText(text, choice, { scale: ratingScale, names }), names, file)
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
    ...(text.latin1 ? { encoding: "latin-1" } : {}),
    ratingScale,
    likeThreshold: scaleThreshold(likeThreshold, ratingScale),
    ...(movies === undefined ? {} : { itemTitle: (index) => movies.get(stream.itemName(index))?.title }),
  }
}

function findRatings(folder: string): string {
  const file = RATINGS_FILES.find((name) => existsSync(join(folder, name)))
  if (file !== undefined) return join(folder, file)
  throw new DessError(
    "NOT_FOUND",
    `data folder: expected ${RATINGS_FILES.join(", ")} or what dess prepare made, got none of them (${folder})`,
  )
}
