/** Why an item is in a list: the parts of its odds, and which of the user's items raise them. */

import type { Asker, ItemLifts, Reader } from "../learning/reader.ts"
import type { Catalogue } from "./catalogue.ts"
import { outlast, scoreItems } from "./choose.ts"
import type { Why } from "./types.ts"

/** The user's items that are named. */
const MOST_ITEMS = 5

const NOTHING: Why["parts"] = {
  ...{ taste: 0, recency: 0, neighbours: 0, popularity: 0, new: 0, again: 0, boost: 0, base: 0 },
}

export interface WhyQuery {
  /** undefined: the model knows nothing of them. */
  asker: Asker | undefined
  lasting: boolean
  /** By item: what its odds are multiplied by. */
  factors: Float32Array | undefined
}

/** The parts of the scores of some items. Items that are not from the model have none. */
export function explainItems(
  catalogue: Catalogue,
  reader: Reader,
  { asker, items, lasting, factors }: WhyQuery & { items: readonly number[] },
): Map<number, Why> {
  if (!asker || !reader.lifts || items.length === 0) return new Map()
  const { known, drawn } = scoreItems(catalogue, reader, { asker })
  const final = drawn.values.slice()
  if (lasting) outlast(final, drawn.items, catalogue)
  const odds = logOdds(final)
  const places = new Map(Array.from(drawn.items, (item, i) => [item, i]))
  const scale = lasting ? 1 / 3 : 1
  const explained = reader.lifts(asker, items).map((lifts, i): [number, Why] => {
    const item = items[i]
    const boost = Math.log(factors?.[item] ?? 1)
    const place = places.get(item)
    if (place === undefined) return [item, { parts: { ...NOTHING, boost }, items: [] }]
    const { logit, rest } = odds(place)
    if (lifts.again) return [item, { parts: { ...NOTHING, again: logit, boost }, items: [] }]
    // Those without a row come last.
    const own = place < known.values.length ? known.values[place] : Number.NaN
    const base = scale * lifts.base - rest
    const lasts = lasting ? Math.log(1 + catalogue.trend(item)) : 0
    if (Number.isNaN(own) || !lifts.isKnown)
      return [item, { parts: { ...NOTHING, new: logit - base - lasts, popularity: lasts, boost, base }, items: [] }]
    const parts = {
      ...NOTHING,
      taste: scale * lifts.taste,
      recency: scale * lifts.latest.reduce((sum, { lift }) => sum + lift, 0),
      neighbours: scale * lifts.neighbours,
      popularity: scale * lifts.popularity + lasts,
      new: scale * (drawn.values[place] - own),
      ...{ boost, base },
    }
    return [item, { parts, items: itemsOf(catalogue, lifts, scale) }]
  })
  return new Map(explained)
}

/** The explanation of an item that is not from the model: its `source` says all. */
export const UNEXPLAINED: Why = { parts: NOTHING, items: [] }

/** log(e^z / Σ e^z') of a place, z' of all others; `rest` is the log of that sum. */
function logOdds(values: Float32Array): (place: number) => { logit: number; rest: number } {
  let top = Number.NEGATIVE_INFINITY
  for (const value of values) if (value > top) top = value
  let sum = 0
  for (const value of values) if (!Number.isNaN(value)) sum += Math.exp(value - top)
  return (place) => {
    const own = Math.exp(values[place] - top)
    const rest = top + Math.log(Math.max(sum - own, 1e-9 * sum))
    return { logit: values[place] - rest, rest }
  }
}

/** What each of the latest items adds to `recency` and `neighbours`, most first; the latter in proportion to nearness. */
function itemsOf(catalogue: Catalogue, { latest, near, neighbours }: ItemLifts, scale: number): Why["items"] {
  const added = new Map<number, number>()
  const add = (item: number, lift: number) => added.set(item, (added.get(item) ?? 0) + scale * lift)
  for (const { item, lift } of latest) add(item, lift)
  const nearness = near.reduce((sum, { lift }) => sum + lift, 0)
  if (nearness > 0) for (const { item, lift } of near) add(item, (neighbours * lift) / nearness)
  return Array.from(added)
    .filter(([, adds]) => adds > 0)
    .sort(([, a], [, b]) => b - a)
    .flatMap(([index, adds]) => {
      const item = catalogue.names.item.name(index)
      return item === undefined ? [] : [{ item, adds }]
    })
    .slice(0, MOST_ITEMS)
}
