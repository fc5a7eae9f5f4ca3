/** What the model thinks of pairs; those of one user are scored together. */

import type { Asker, LabelledTrial, Reader } from "../learning/reader.ts"
import { findAsker } from "./asking.ts"
import type { Catalogue } from "./catalogue.ts"
import { checkName, checkOptionNames } from "./check.ts"
import { chances, expected, scoresOf, sigmoid, softmax, sumPowers } from "./choose.ts"
import { drawToKin, type Scored } from "./newcomers.ts"
import type { Pause } from "./turns.ts"
import type { Id, Prediction } from "./types.ts"

/** Up to here no pause is needed. */
export const PAIRS_AT_ONCE = 256

export interface Pair {
  user: Id
  item: Id
}

/** What predictions are made of; `recent`: what a user did that neither rows nor catalogue tell. */
export interface PredictionSource {
  catalogue: Catalogue
  reader: Reader
  recent(user: string): readonly LabelledTrial[]
}

interface CheckedPair {
  user: string
  item: string
}

function checkPair(pair: Pair): CheckedPair {
  if (typeof pair === "object" && pair !== null) checkOptionNames("pair", pair, ["user", "item"])
  return { user: checkName("user", pair?.user), item: checkName("item", pair?.item) }
}

/** In the order of the pairs. */
export function predictSome(source: PredictionSource, pairs: readonly Pair[]): Prediction[] {
  const checked = pairs.map(checkPair)
  const predictions = new Array<Prediction>(pairs.length)
  for (const places of placesByUser(checked)) predictAt(source, { checked, places, predictions })
  return predictions
}

/** The same with a pause after every few hundred; each piece by the version there is. */
export async function predictInPieces(
  source: PredictionSource,
  pairs: readonly Pair[],
  pause: Pause,
): Promise<Prediction[]> {
  const checked: CheckedPair[] = []
  for (const pair of pairs) {
    checked.push(checkPair(pair))
    if (checked.length % PAIRS_AT_ONCE === 0) await pause()
  }
  const predictions = new Array<Prediction>(pairs.length)
  for (const all of placesByUser(checked))
    for (let from = 0; from < all.length; from += PAIRS_AT_ONCE) {
      const places = all.length <= PAIRS_AT_ONCE ? all : all.slice(from, from + PAIRS_AT_ONCE)
      predictAt(source, { checked, places, predictions })
      const rest = pause()
      if (rest) await rest
    }
  return predictions
}

/** For each user the places of its pairs. */
function placesByUser(pairs: readonly CheckedPair[]): Iterable<number[]> {
  const places = new Map<string, number[]>()
  pairs.forEach(({ user }, place) => {
    const own = places.get(user)
    if (own) own.push(place)
    else places.set(user, [place])
  })
  return places.values()
}

/** Predicts for the pairs at some places, all of one user. */
function predictAt(
  { catalogue, reader, recent }: PredictionSource,
  { checked, places, predictions }: { checked: CheckedPair[]; places: readonly number[]; predictions: Prediction[] },
): void {
  const { user } = checked[places[0]]
  const asker = findAsker(catalogue, reader, { user: catalogue.find("user", user), recent: recent(user) })
  const userKnown = asker !== undefined
  const scored: number[] = []
  const known: boolean[] = []
  for (const place of places) {
    const item = catalogue.names.item.find(checked[place].item)
    const itemKnown = item !== undefined && reader.knows("item", item)
    known.push(itemKnown)
    if (userKnown && itemKnown) scored.push(item)
  }
  const logits = scored.length > 0 ? scoresOf(reader, asker as Asker, Int32Array.from(scored)) : undefined
  const average = catalogue.average()
  // Of lists: the chance of all items that this one comes next, and of one that is not known that of any.
  const all = logits && reader.follow ? reader.follow(asker as Asker) : undefined
  const drawn = all && drawToKin({ items: reader.items, values: all }, catalogue)
  const chance = drawn ? chances(sumPowers(reader, drawn.values)) : sigmoid
  const newcomers = drawn && valuesOfNewcomers(catalogue, drawn, scored)
  const any = reader.follow ? 1 / (reader.items.length + 1) : average.likes
  const { outputs } = reader
  let at = 0
  for (let i = 0; i < places.length; i++) {
    const from = logits && known[i] ? outputs * at++ : undefined
    const { item } = checked[places[i]]
    const both = { user: userKnown, item: known[i] }
    if (outputs === 1) {
      const score = logits && from !== undefined ? chance(newcomers?.get(scored[from]) ?? logits[from]) : any
      predictions[places[i]] = { user, item, score, known: both }
      continue
    }
    const probabilities =
      logits && from !== undefined ? softmax(logits.subarray(from, from + outputs)) : average.classes
    predictions[places[i]] = { user, item, score: expected(probabilities), probabilities, known: both }
  }
}

/** What newcomers among the scored are worth once drawn to items like them; no pass over all items where there are none. */
function valuesOfNewcomers(
  catalogue: Catalogue,
  { items, values }: Scored,
  scored: readonly number[],
): ReadonlyMap<number, number> {
  const drawn = new Map<number, number>()
  const sought = new Set(scored.filter((item) => catalogue.isNewcomer(item)))
  if (sought.size === 0) return drawn
  for (let i = 0; i < items.length; i++) if (sought.has(items[i])) drawn.set(items[i], values[i])
  return drawn
}
