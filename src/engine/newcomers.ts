/**
 * Items with few events. Their logits are drawn up to the mean of items that share categories with them, for this very user:
 * a logit is linear in an item's vector, so that is the logit of the mean vector. With every event their own counts for more.
 *
 *   z' = max(z, (n·z + 5·m)/(n + 5))     n: its events, m: the mean over its categories of their items' mean; no row: z' = m
 *
 * `fresh` places go to those with the highest upper bound z' + 1.5·√(log(1 + all places given)/(1 + its own + n)): what is
 * shown and not taken up goes again.
 */

import { best } from "./best.ts"
import { type Catalogue, NEWCOMER_EVENTS } from "./catalogue.ts"

/** Events by which half of what an item's own vector says is believed. */
const KIN = 5
const WIDTH = 1.5

/** Items and what they are ranked by. */
export interface Scored {
  items: Int32Array
  values: Float32Array
}

/** Newcomers and the items they are drawn to, as indices: found once for all lists until one of them changes. */
interface Kin {
  newcomersVersion: number
  categoriesVersion: number
  /** Newcomers with categories, and where those of each begin in `categories`. */
  newcomers: Int32Array
  starts: Int32Array
  categories: Int32Array
  /** By category: its items that are no newcomers. */
  members: Int32Array[]
  /** By item: its place among those scored, while values are drawn. */
  places: Int32Array
}

const kinOf = new WeakMap<Catalogue, Kin>()

function findKin(catalogue: Catalogue): Kin {
  const { newcomersVersion, categoriesVersion, itemCount } = catalogue
  const known = kinOf.get(catalogue)
  if (known?.newcomersVersion === newcomersVersion && known.categoriesVersion === categoriesVersion) return known
  const [newcomers, starts, categories]: [number[], number[], number[]] = [[], [0], []]
  const members: Int32Array[] = []
  const indices = new Map<string, number>()
  for (const [item, { categories: names }] of catalogue.entries) {
    if (names.length === 0 || !catalogue.isNewcomer(item)) continue
    for (const name of names) {
      let index = indices.get(name)
      if (index === undefined) {
        index = members.length
        indices.set(name, index)
        const settled = [...catalogue.itemsOf(name)].filter((one) => catalogue.events(one) >= NEWCOMER_EVENTS)
        members.push(Int32Array.from(settled))
      }
      categories.push(index)
    }
    newcomers.push(item)
    starts.push(categories.length)
  }
  const kin: Kin = {
    ...{ newcomersVersion, categoriesVersion, members },
    newcomers: Int32Array.from(newcomers),
    starts: Int32Array.from(starts),
    categories: Int32Array.from(categories),
    places: known && known.places.length >= itemCount ? known.places : new Int32Array(itemCount),
  }
  kinOf.set(catalogue, kin)
  return kin
}

/** The mean value of a category's items that are no newcomers; NaN where none has a value. */
function meanOf(members: Int32Array, places: Int32Array, values: Float32Array): number {
  let [sum, count] = [0, 0]
  for (let m = 0; m < members.length; m++) {
    const place = places[members[m]]
    if (place < 0 || Number.isNaN(values[place])) continue
    sum += values[place]
    count++
  }
  return count > 0 ? sum / count : Number.NaN
}

/** The values with those of newcomers drawn to items like them; newcomers without a value come behind. */
export function drawToKin({ items, values }: Scored, catalogue: Catalogue): Scored {
  if (catalogue.entries.size === 0) return { items, values }
  const { newcomers, starts, categories, members, places } = findKin(catalogue)
  if (newcomers.length === 0) return { items, values }
  places.fill(-1)
  for (let i = 0; i < items.length; i++) if (items[i] < places.length) places[items[i]] = i
  const means = Float64Array.from(members, (some) => meanOf(some, places, values))
  const out = values.slice()
  const behind: Record<"items" | "values", number[]> = { items: [], values: [] }
  for (let n = 0; n < newcomers.length; n++) {
    let [sum, count] = [0, 0]
    for (let c = starts[n]; c < starts[n + 1]; c++) {
      const mean = means[categories[c]]
      if (Number.isNaN(mean)) continue
      sum += mean
      count++
    }
    if (count === 0) continue
    const [item, mean] = [newcomers[n], sum / count]
    const place = places[item]
    if (place < 0) {
      behind.items.push(item)
      behind.values.push(mean)
      continue
    }
    const own = values[place]
    const events = Number.isNaN(own) ? 0 : catalogue.events(item)
    out[place] = events === 0 ? mean : Math.max(own, (events * own + KIN * mean) / (events + KIN))
  }
  return behind.items.length === 0 ? { items, values: out } : append({ items, values: out }, behind)
}

/** With more items at the end. */
export function append({ items, values }: Scored, more: Record<"items" | "values", number[]>): Scored {
  const { length } = items
  const all = {
    items: new Int32Array(length + more.items.length),
    values: new Float32Array(length + more.items.length),
  }
  all.items.set(items)
  all.items.set(more.items, length)
  all.values.set(values)
  all.values.set(more.values, length)
  return all
}

/** Newcomers for so many places, by their upper bounds; −∞ among the values: may not be taken. They count as shown. */
export function chooseFresh({ items, values }: Scored, catalogue: Catalogue, count: number): number[] {
  const { shown } = catalogue
  const total = Math.log(1 + catalogue.shownInAll)
  const bounds = Float64Array.from(items, (item, i) => {
    if (!catalogue.isNewcomer(item) || values[i] === Number.NEGATIVE_INFINITY) return Number.NEGATIVE_INFINITY
    const tries = 1 + (shown.get(item) ?? 0) + catalogue.events(item)
    return values[i] + WIDTH * Math.sqrt(total / tries)
  })
  const places = best(bounds, count)
  for (const place of places) catalogue.noteShown(items[place])
  return places
}
