/** Titles and features of the items that are left, written by item index: tag genome where there is one, else genres. */

import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { DessError } from "../errors.ts"
import { textFile } from "./bytes.ts"
import { type Duck, quote } from "./duck.ts"
import { FEATURES, ITEMS, type Manifest } from "./manifest.ts"
import { genreFeatures, type Movies, readMovies } from "./movies.ts"
import type { NameArena } from "./names.ts"
import { readRecords, recordTexts } from "./records.ts"

export interface WriteOptions {
  /** The file whose items they are; the item files are beside it. */
  ratings: string
  /** By the numbers in `item_index.i`. */
  names: NameArena
  /** Folder to write to. */
  into: string
}

/** Writes the items and, where the source has any, their features; needs the table `item_index(i, item)`. */
export async function writeItems(duck: Duck, options: WriteOptions): Promise<Manifest["features"] | undefined> {
  const { ratings, names, into } = options
  const movies = await readMovies(ratings)
  await duck.run("CREATE TABLE items (item INTEGER, name VARCHAR, title VARCHAR)")
  const writer = await duck.write("items", ["INTEGER", "VARCHAR", "VARCHAR"])
  let item = 0
  for await (const { length, columns } of duck.stream("SELECT i FROM item_index ORDER BY item")) {
    for (let k = 0; k < length; k++) {
      const name = names.text(Number(columns[0].getItem(k)))
      writer.add(item++, name, movies?.get(name)?.title ?? null)
    }
  }
  writer.finish()
  await duck.run(
    `COPY (SELECT * FROM items ORDER BY item) TO ${quote(join(into, ITEMS))} (FORMAT parquet, COMPRESSION zstd)`,
  )
  const genome = join(dirname(ratings), "genome-scores.csv")
  if (movies !== undefined && existsSync(genome)) return writeGenome(duck, genome, into)
  return movies === undefined ? undefined : writeGenres(duck, movies, into)
}

async function writeGenres(duck: Duck, movies: Movies, into: string): Promise<Manifest["features"] | undefined> {
  const table = genreFeatures(movies)
  if (table === undefined) return undefined
  await duck.run("CREATE TABLE features (name VARCHAR, values FLOAT[])")
  const writer = await duck.write("features", ["VARCHAR", "FLOAT[]"])
  for (const [id, row] of table.rows as ReadonlyMap<string, Float32Array>) writer.add(id, duck.list(row))
  writer.finish()
  const items = await copyFeatures(duck, into)
  return items === 0 ? undefined : { kind: "genres", items, columns: [...table.columns] }
}

/** `genome-scores.csv` has a relevance in [0, 1] for every tag of every movie it has. */
async function writeGenome(duck: Duck, scores: string, into: string): Promise<Manifest["features"] | undefined> {
  const columns = await readTags(scores.replace(/scores\.csv$/, "tags.csv"))
  await duck.run(`CREATE TABLE features AS SELECT name, list(relevance ORDER BY tag) AS values FROM
    read_csv(${quote(scores)}, header = true, delim = ',', quote = '"', auto_detect = false,
      columns = {'name': 'VARCHAR', 'tag': 'INTEGER', 'relevance': 'FLOAT'})
    SEMI JOIN items USING (name) GROUP BY name`)
  const uneven = await duck.number(`SELECT count(*) FROM features WHERE len(values) <> ${columns.length}`)
  if (uneven > 0) {
    const expected = `${columns.length} scores for every movie, as many as there are tags`
    throw new DessError(
      "INVALID_DATA",
      `tag genome: expected ${expected}, got other counts for ${uneven} movies (${scores})`,
    )
  }
  const items = await copyFeatures(duck, into)
  return items === 0 ? undefined : { kind: "tag-genome", items, columns }
}

async function readTags(path: string): Promise<string[]> {
  const tags: [number, string][] = []
  for await (const block of readRecords(textFile(path), { delimiter: ",", quoted: true })) {
    for (let r = 0; r < block.count; r++) {
      const [id, tag] = recordTexts(block, r)
      if (/^\d+$/.test(id)) tags.push([Number(id), tag])
    }
  }
  return tags.sort(([a], [b]) => a - b).map(([, tag]) => tag)
}

/** Writes the features of the remaining items, and returns how many there are. */
async function copyFeatures(duck: Duck, into: string): Promise<number> {
  await duck.run(`COPY (SELECT item, values FROM features JOIN items USING (name) ORDER BY item)
    TO ${quote(join(into, FEATURES))} (FORMAT parquet, COMPRESSION zstd)`)
  return duck.number("SELECT count(*) FROM features JOIN items USING (name)")
}
