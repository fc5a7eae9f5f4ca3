/** Item files of MovieLens and data sets of the same form: titles, and genres as multi-hot features. */

import { existsSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { DessError, show } from "../errors.ts"
import type { FeatureTable } from "../stream/features.ts"
import { textFile } from "./bytes.ts"
import { RATINGS_FILES } from "./formats.ts"
import { type RecordFormat, readRecords, recordTexts } from "./records.ts"

export interface Movie {
  title: string
  genres: readonly string[]
}

/** By outside item id. */
export type Movies = ReadonlyMap<string, Movie>

/** Genres that mean "none entered": such an item has no entry, which is not the same as an entry of zeros. */
const NO_GENRES = new Set(["", "(no genres listed)", "unknown", "N/A", "\\N"])

/** The flags of MovieLens 100k's `u.item`, as its `u.genre` names them. */
const GENRES_100K =
  "unknown|Action|Adventure|Animation|Children's|Comedy|Crime|Documentary|Drama|Fantasy|Film-Noir|Horror|Musical|Mystery|Romance|Sci-Fi|Thriller|War|Western"

/** Reads the item file that stands beside a ratings file, whichever of the known ones is there. */
export async function readMovies(ratings: string): Promise<Movies | undefined> {
  const items = ratings.replace(/\.inter$/, ".item")
  if (items !== ratings) return existsSync(items) ? readPublishedItems(items) : undefined
  if (!RATINGS_FILES.includes(basename(ratings))) return undefined
  const file = findItemFile(dirname(ratings))
  if (file === undefined) return undefined
  return basename(file) === "movies.csv" ? readMoviesCsv(file) : readPublishedItems(file)
}

/** The item file of a MovieLens folder. */
export function findItemFile(folder: string): string | undefined {
  const found = ["movies.csv", "movies.dat", "u.item"].find((name) => existsSync(join(folder, name)))
  return found === undefined ? undefined : join(folder, found)
}

/** The items of a file in a published form whose columns have no usual header; undefined for another file. */
export async function readPublishedItems(path: string): Promise<Movies | undefined> {
  if (basename(path) === "movies.dat") return readMoviesDat(path)
  if (path.endsWith(".item") && basename(path) !== "u.item") return readRecboleItems(path)
  if (basename(path) !== "u.item") return undefined
  const genres = join(dirname(path), "u.genre")
  return readMovies100k(path, existsSync(genres) ? genres : undefined)
}

/** Genres as 0/1 columns in alphabetical order; nothing when no item has a genre. */
export function genreFeatures(movies: Movies): FeatureTable | undefined {
  const names = new Set<string>()
  for (const { genres } of movies.values()) for (const name of genres) names.add(name)
  if (names.size === 0) return undefined
  const columns = [...names].sort()
  const rows = new Map<string, Float32Array>()
  const vectors = new Map<string, Float32Array>() // items of the same genres share one
  for (const [id, { genres }] of movies) {
    if (genres.length === 0) continue
    const key = genres.join("|")
    const vector = vectors.get(key) ?? Float32Array.from(columns, (name) => Number(genres.includes(name)))
    vectors.set(key, vector)
    rows.set(id, vector)
  }
  return { columns, rows }
}

/** `movies.dat`: id::title::genre|genre. The title is all that stands between. */
async function readMoviesDat(path: string): Promise<Movies> {
  const movies = new Map<string, Movie>()
  for await (const { texts, where } of readRows(path, { delimiter: "::", quoted: false })) {
    if (texts.length < 3) refuse("id::title::genres", texts.join("::"), where)
    movies.set(texts[0], { title: texts.slice(1, -1).join("::"), genres: splitGenres(texts[texts.length - 1]) })
  }
  return movies
}

/** `movies.csv`: a header with an id, `title` and `genres`. */
async function readMoviesCsv(path: string): Promise<Movies> {
  const movies = new Map<string, Movie>()
  let header: { id: number; title: number; genres: number; width: number } | undefined
  for await (const { texts, where } of readRows(path, { delimiter: ",", quoted: true })) {
    if (header === undefined) {
      const names = texts.map((text) => text.toLowerCase().replace(/[^a-z]/g, ""))
      const id = names.findIndex((name) => ["movieid", "itemid", "id", "imdbid", "item"].includes(name))
      header = { id, title: names.indexOf("title"), genres: names.indexOf("genres"), width: texts.length }
      if (id < 0 || header.title < 0 || header.genres < 0) {
        refuse("a header with movieId, title, genres", texts.join(","), where)
      }
    } else {
      if (texts.length !== header.width) refuse(`${header.width} fields`, texts.join(","), where)
      movies.set(texts[header.id], { title: texts[header.title], genres: splitGenres(texts[header.genres]) })
    }
  }
  return movies
}

/** `u.item` (id|title|…|flags) with the names of its flags in `u.genre` (name|place), the usual ones without it. */
async function readMovies100k(itemPath: string, genrePath: string | undefined): Promise<Movies> {
  const format = { delimiter: "|", quoted: false }
  const genres: string[] = genrePath === undefined ? GENRES_100K.split("|") : []
  for await (const { texts, where } of genrePath === undefined ? [] : readRows(genrePath, format)) {
    if (texts.length !== 2 || !/^\d+$/.test(texts[1])) refuse("genre|place", texts.join("|"), where)
    genres[Number(texts[1])] = texts[0]
  }
  const movies = new Map<string, Movie>()
  for await (const { texts, where } of readRows(itemPath, format)) {
    const flags = texts.slice(-genres.length)
    if (texts.length < genres.length + 2 || flags.some((flag) => flag !== "0" && flag !== "1")) {
      refuse(`id|title|…|${genres.length} flags`, texts.join("|"), where)
    }
    const set = genres.filter((name, g) => flags[g] === "1" && !NO_GENRES.has(name))
    movies.set(texts[0], { title: texts[1], genres: set })
  }
  return movies
}

/** RecBole's `.item`: tab-separated, `name:type` in the header, genres in `genre`, `class` or a sequence of categories, with spaces between. */
async function readRecboleItems(path: string): Promise<Movies> {
  const movies = new Map<string, Movie>()
  let header: { id: number; title: number; genres: number; width: number } | undefined
  for await (const { texts, where } of readRows(path, { delimiter: "\t", quoted: false })) {
    if (header === undefined) {
      const names = texts.map((text) => text.replace(/:\w+$/, "").toLowerCase())
      const named = names.findIndex((name) => ["genre", "genres", "class"].includes(name))
      const genres = named < 0 ? texts.findIndex((text) => /^categor(y|ies):token_seq$/i.test(text)) : named
      const title = names.findIndex((name) => name.includes("title"))
      header = { id: names.indexOf("item_id"), title, genres, width: texts.length }
      if (header.id < 0) refuse("a header with item_id:token", texts.join(" "), where)
    } else {
      const { id, title, genres, width } = header
      if (texts.length !== width) refuse(`${width} fields`, texts.join(" "), where)
      const text = genres < 0 ? "" : texts[genres]
      const words = NO_GENRES.has(text) ? [] : text.split(" ").filter((word) => !NO_GENRES.has(word))
      movies.set(texts[id], { title: title < 0 ? "" : texts[title], genres: words })
    }
  }
  return movies
}

async function* readRows(path: string, format: RecordFormat): AsyncGenerator<{ texts: string[]; where: string }> {
  for await (const block of readRecords(textFile(path), format)) {
    for (let r = 0; r < block.count; r++) {
      yield { texts: recordTexts(block, r), where: `${path}, line ${block.line[r]}` }
    }
  }
}

function splitGenres(text: string): string[] {
  return text.split("|").filter((name) => !NO_GENRES.has(name))
}

function refuse(expected: string, got: string, where: string): never {
  throw new DessError("INVALID_DATA", `item line: expected ${expected}, got ${show(got)} (${where})`)
}
