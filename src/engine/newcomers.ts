/**
 * Items with few events start where items like them stand. Alike are items with a category, a value of a property or nearly
 * the direction of a feature vector in common: each of these is a group, and a small group says more than a large one.
 *
 *   m = Σ_g m_g/|g| / Σ_g 1/|g|             m_g: the mean logit of the settled items of group g, for this very user
 *   z' = max(z, (n·z + 5·m)/(n + 5))        n: its events; z' = m where it has no row yet
 *
 * A logit is linear in an item's vector, so z' is that of a row which started at the weighted mean of those items' rows.
 * With every event its own counts for more. Directions are told apart by the sides of random planes that vectors lie on:
 * 8 times 16 planes, of which items have the first 4, 8, 12 or 16 in common.
 *
 * Places kept by `fresh` go to items with less than 5 events, by the upper bound z' + 1/√(1 + n) − log(1 + s/20), s: places
 * it was given before. After 20 of them its odds are halved, and what is not taken up goes again.
 */

import { Random } from "../kernels/random.ts"
import { best } from "./best.ts"
import { type Catalogue, NEWCOMER_EVENTS } from "./catalogue.ts"

/** Events by which half of what an item's own vector says is believed. */
const KIN = 5
/** Up to here an item may have a place that is kept for what is new. */
const FRESH_EVENTS = 5
/** Places given to an item by which its odds are halved. */
const SHOWN = 20
/** Planes: so many times, and how many of them a group has in common. */
const SIGNATURES = 8
const LEVELS = [4, 8, 12, 16]
const PLANES = 16

/** Items and what they are ranked by. */
export interface Scored {
  items: Int32Array
  values: Float32Array
}

/** Newcomers and the items they are drawn to, as indices: found once for all lists until one of them changes. */
interface Kin {
  newcomersVersion: number
  entriesVersion: number
  /** Newcomers in some group, and where the groups of each begin in `groups`. */
  newcomers: Int32Array
  starts: Int32Array
  groups: Int32Array
  /** By group: its items that are no newcomers. */
  members: Int32Array[]
  /** By item: its place among those scored, while values are drawn. */
  places: Int32Array
}

const kinOf = new WeakMap<Catalogue, Kin>()

function findKin(catalogue: Catalogue): Kin {
  const { newcomersVersion, entriesVersion, itemCount } = catalogue
  const known = kinOf.get(catalogue)
  if (known?.newcomersVersion === newcomersVersion && known.entriesVersion === entriesVersion) return known
  const newcomers = [...catalogue.entries.keys()].filter((item) => catalogue.isNewcomer(item))
  const groups = new Map<number, number[]>()
  const own = newcomers.map((item) => groupsOf(catalogue, item))
  for (const some of own) for (const group of some) groups.set(group, [])
  if (groups.size > 0)
    for (const item of catalogue.entries.keys()) {
      if (catalogue.events(item) < NEWCOMER_EVENTS) continue
      for (const group of groupsOf(catalogue, item)) groups.get(group)?.push(item)
    }
  const indices = new Map([...groups].filter(([, { length }]) => length > 0).map(([group], index) => [group, index]))
  const [kept, starts, all]: [number[], number[], number[]] = [[], [0], []]
  newcomers.forEach((item, n) => {
    const found = [...own[n]].flatMap((group) => indices.get(group) ?? [])
    if (found.length === 0) return
    kept.push(item)
    all.push(...found)
    starts.push(all.length)
  })
  const kin: Kin = {
    ...{ newcomersVersion, entriesVersion },
    newcomers: Int32Array.from(kept),
    starts: Int32Array.from(starts),
    groups: Int32Array.from(all),
    members: [...indices.keys()].map((group) => Int32Array.from(groups.get(group) as number[])),
    places: known && known.places.length >= itemCount ? known.places : new Int32Array(itemCount),
  }
  kinOf.set(catalogue, kin)
  return kin
}

/** The groups an item is in, as hashes; kept with its entry, which is another object once it has changed. */
function groupsOf(catalogue: Catalogue, item: number): Int32Array {
  const entry = catalogue.entry(item)
  const known = groupsOfEntries.get(entry)
  if (known) return known
  const { properties } = catalogue
  const groups = Int32Array.from([
    ...entry.categories.map((name) => hashOf(`c${name}`)),
    ...[...properties.names].flatMap((name) =>
      (properties.find(name)?.codedKeys(item) ?? []).map((key) => hashOf(`p${name}\n${key}`)),
    ),
    ...(entry.features ? signaturesOf(entry.features) : []),
  ])
  groupsOfEntries.set(entry, groups)
  return groups
}

const groupsOfEntries = new WeakMap<object, Int32Array>()

/** FNV-1a, of 32 bits: two groups in a billion are one. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash | 0
}

/** By length of vectors: normals of the planes, one after the other. */
const planesOf = new Map<number, Float32Array>()

function signaturesOf(vector: readonly number[]): number[] {
  const { length } = vector
  let planes = planesOf.get(length)
  if (!planes) {
    const random = new Random(1, "planes")
    planes = Float32Array.from({ length: SIGNATURES * PLANES * length }, () => random.normal())
    planesOf.set(length, planes)
  }
  if (vector.every((number) => number === 0)) return []
  const groups: number[] = []
  let at = 0
  for (let s = 0; s < SIGNATURES; s++) {
    let sides = `v${s}`
    for (let p = 1; p <= PLANES; p++) {
      let sum = 0
      for (let k = 0; k < length; k++) sum += planes[at++] * vector[k]
      sides += sum > 0 ? "+" : "-"
      if (LEVELS.includes(p)) groups.push(hashOf(sides))
    }
  }
  return groups
}

/** The mean value of a group's items; NaN where none has a value. */
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
  const { newcomers, starts, groups, members, places } = findKin(catalogue)
  if (newcomers.length === 0) return { items, values }
  places.fill(-1)
  for (let i = 0; i < items.length; i++) if (items[i] < places.length) places[items[i]] = i
  const means = Float64Array.from(members, (some) => meanOf(some, places, values))
  const out = values.slice()
  const behind: Record<"items" | "values", number[]> = { items: [], values: [] }
  for (let n = 0; n < newcomers.length; n++) {
    let [sum, total] = [0, 0]
    for (let g = starts[n]; g < starts[n + 1]; g++) {
      const mean = means[groups[g]]
      if (Number.isNaN(mean)) continue
      const weight = 1 / members[groups[g]].length
      sum += weight * mean
      total += weight
    }
    if (total === 0) continue
    const [item, mean] = [newcomers[n], sum / total]
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

/** New items for so many places, by their upper bounds; −∞ among the values: may not be taken. They count as shown. */
export function chooseFresh({ items, values }: Scored, catalogue: Catalogue, count: number): number[] {
  const bounds = Float64Array.from(items, (item, i) => {
    const events = catalogue.events(item)
    if (events >= FRESH_EVENTS || !catalogue.isNewcomer(item)) return Number.NEGATIVE_INFINITY
    return values[i] + 1 / Math.sqrt(1 + events) - Math.log(1 + catalogue.shown.count(item) / SHOWN)
  })
  const places = best(bounds, count)
  for (const place of places) catalogue.shown.add(items[place])
  return places
}
