/** What the model thinks of pairs; those of one user are scored together. */

import type { Asker, LabelledTrial, Reader } from "../learning/reader.ts"
import { findAsker } from "./asking.ts"
import type { Catalogue } from "./catalogue.ts"
import { checkName, checkOptionNames } from "./check.ts"
import { chances, expected, scoreItems, scoresOf, sigmoid, softmax, sumPowers } from "./choose.ts"
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
  source: PredictionSource,
  { checked, places, predictions }: { checked: CheckedPair[]; places: readonly number[]; predictions: Prediction[] },
): void {
  const { catalogue, reader, recent } = source
  const { user } = checked[places[0]]
  const asker = findAsker(catalogue, reader, { user: catalogue.find("user", user), recent: recent(user) })
  const items = places.map((place) => catalogue.names.item.find(checked[place].item))
  const isKnown = (item: number | undefined): item is number => item !== undefined && reader.knows("item", item)
  const about = (i: number) => ({
    user,
    item: checked[places[i]].item,
    known: { user: asker !== undefined, item: isKnown(items[i]) },
  })
  if (reader.follow) {
    const isNamed = items.some((item) => item !== undefined)
    const chanceOf = asker && isNamed ? chancesOf(source, asker) : undefined
    // What nothing is known of has the chance of any item.
    const any = 1 / (reader.items.length + 1)
    items.forEach((item, i) => {
      const chance = item === undefined ? undefined : chanceOf?.(item)
      predictions[places[i]] = { ...about(i), score: chance ?? any }
    })
    return
  }
  const scored = asker ? items.filter(isKnown) : []
  const logits = scored.length > 0 ? scoresOf(reader, asker as Asker, Int32Array.from(scored)) : new Float32Array(0)
  const average = catalogue.average()
  const { outputs } = reader
  let at = 0
  items.forEach((item, i) => {
    const from = asker && isKnown(item) ? outputs * at++ : undefined
    if (outputs === 1) {
      const score = from === undefined ? average.likes : sigmoid(logits[from])
      predictions[places[i]] = { ...about(i), score }
      return
    }
    const probabilities = from === undefined ? average.classes : softmax(logits.subarray(from, from + outputs))
    predictions[places[i]] = { ...about(i), score: expected(probabilities), probabilities }
  })
}

/** Of items that a list has a score for: the chance that of all items this one comes next, as the list says it. */
function chancesOf({ catalogue, reader }: PredictionSource, asker: Asker): (item: number) => number | undefined {
  const { items, values } = scoreItems(catalogue, reader, { asker }).drawn
  const toChance = chances(sumPowers(reader, values))
  const places = new Int32Array(catalogue.itemCount).fill(-1)
  for (let i = 0; i < items.length; i++) places[items[i]] = i
  return (item) => {
    const chance = places[item] < 0 ? Number.NaN : toChance(values[places[item]])
    return Number.isNaN(chance) ? undefined : chance
  }
}
