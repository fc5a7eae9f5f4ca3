/** The items of the synthetic stream, drawn by index: item 0 is the first to be met. See synthetic.ts for the whole. */

import { exp, log } from "../../kernels/math.ts"
import { Random } from "../../kernels/random.ts"
import type { ItemFeatures } from "../../types.ts"
import { AliasTable } from "./alias.ts"
import { CHARACTER, DIMENSIONS, ITEM_BIAS, POPULARITY_BIAS, WIDTH } from "./rating.ts"

/** MovieLens' genres; the numbers are their rough shares. */
const GENRE_SHARES: Readonly<Record<string, number>> = {
  Action: 13,
  Adventure: 7,
  Animation: 3,
  "Children's": 6,
  Comedy: 31,
  Crime: 5,
  Documentary: 3,
  Drama: 41,
  Fantasy: 2,
  "Film-Noir": 1,
  Horror: 9,
  Musical: 3,
  Mystery: 3,
  Romance: 12,
  "Sci-Fi": 7,
  Thriller: 13,
  War: 4,
  Western: 2,
}

export const GENRES = Object.keys(GENRE_SHARES)

/** The share of items without an entry; they suit every user's genres. */
const NO_ENTRY = 0.03
/** The share of an item's character that its genres explain. */
const GENRE_PART = 0.4

export interface Catalogue {
  items: number
  /** One bit per genre. */
  genres: Int32Array
  dimension: Uint8Array
  bias: Float64Array
  /** WIDTH numbers per item. */
  character: Float32Array
  /** The weight before drift. */
  popularity: Float64Array
  /** Waves per stream and where they start: how popularity drifts. */
  pace: Float32Array
  phase: Float32Array
  features: ItemFeatures
}

/** Draws all items. */
export function drawCatalogue(seed: number, items: number): Catalogue {
  const random = new Random(seed, "items")
  const table = genreTable()
  const prototypes = Float64Array.from({ length: GENRES.length * WIDTH }, () => (random.next() < 0.5 ? -1 : 1))
  const catalogue: Catalogue = {
    items,
    genres: new Int32Array(items),
    dimension: new Uint8Array(items),
    bias: new Float64Array(items),
    character: new Float32Array(items * WIDTH),
    popularity: new Float64Array(items),
    pace: new Float32Array(items),
    phase: new Float32Array(items),
    features: {
      columns: GENRES,
      values: new Float32Array(items * GENRES.length),
      present: new Uint8Array(items),
    },
  }
  // Zipf's law with a flattened head.
  const head = Math.min(60, items / 20)
  for (let i = 0; i < items; i++) {
    catalogue.popularity[i] = 1 / (i * exp(random.normal()) + head)
    catalogue.pace[i] = 1 + 3 * random.next()
    catalogue.phase[i] = random.next()
    catalogue.dimension[i] = DIMENSIONS[random.integer(DIMENSIONS.length)]
    catalogue.bias[i] = ITEM_BIAS * random.normal() + POPULARITY_BIAS * log(catalogue.popularity[i])
    const genres = drawGenres(table, random)
    drawCharacter(catalogue, i, { random, genres, prototypes })
    if (random.next() < NO_ENTRY) continue
    catalogue.features.present[i] = 1
    for (const genre of genres) {
      catalogue.genres[i] |= 1 << genre
      catalogue.features.values[i * GENRES.length + genre] = 1
    }
  }
  centre(catalogue)
  return catalogue
}

/** A table to draw genres from. */
export function genreTable(): AliasTable {
  const table = new AliasTable(GENRES.length)
  table.build(Float64Array.from(Object.values(GENRE_SHARES)), GENRES.length)
  return table
}

/** One, two or three different genres (0.45, 0.35, 0.2). */
function drawGenres(table: AliasTable, random: Random): number[] {
  const share = random.next()
  const count = share < 0.45 ? 1 : share < 0.8 ? 2 : 3
  const genres: number[] = []
  while (genres.length < count) {
    const genre = table.pick(random)
    if (!genres.includes(genre)) genres.push(genre)
  }
  return genres
}

/** character_k = CHARACTER · (√part · Σ prototypes / √genres + √(1 − part) · own), prototypes ±1, own normal. */
function drawCharacter(
  catalogue: Catalogue,
  item: number,
  { random, genres, prototypes }: { random: Random; genres: number[]; prototypes: Float64Array },
): void {
  const shared = Math.sqrt(GENRE_PART / genres.length)
  const own = Math.sqrt(1 - GENRE_PART)
  for (let k = 0; k < WIDTH; k++) {
    let sum = 0
    for (const genre of genres) sum += prototypes[genre * WIDTH + k]
    catalogue.character[item * WIDTH + k] = CHARACTER * (shared * sum + own * random.normal())
  }
}

/** Makes the biases zero on average over events. */
function centre({ items, bias, popularity }: Catalogue): void {
  let sum = 0
  let weight = 0
  for (let i = 0; i < items; i++) {
    sum += popularity[i] * bias[i]
    weight += popularity[i]
  }
  for (let i = 0; i < items; i++) bias[i] -= sum / weight
}
