/**
 * Items with few events start where items like them stand. Alike are items with a category, a value of a property or nearly
 * the direction of a feature vector in common: each of these is a group, and a small group says more than a large one.
 *
 *   m = Σ_g m_g/|g| / Σ_g 1/|g|             m_g: the mean logit of the other items of group g, for this very user
 *   z' = max(z, (n·z + 5·m)/(n + 5))        n: its events; z' = m where it has no row yet
 *
 * In m_g an item of n events counts n/(n + 20): where hardly anything is settled yet, those few items are the popular ones,
 * and standing where they stand would put what nobody has met before what is liked.
 *
 * A logit is linear in an item's vector, so z' is that of a row which started at the weighted mean of those items' rows.
 * With every event its own counts for more. Directions are told apart by the sides of random planes that vectors lie on:
 * 8 times 16 planes, of which items have the first 4, 8, 12 or 16 in common.
 *
 * Places kept by `fresh` go to items with less than 5 events, by the upper bound z' + log((n + ½)/(1 + s/20)), s: places it
 * was given before. n + ½ is half an event more than it had: what is new is given credit, what was taken up gets on, and
 * what was shown 20 times and not taken up has half its odds and goes again.
 */

import { Random } from "../kernels/random.ts"
import { best as bestOf } from "./best.ts"
import type { Catalogue } from "./catalogue.ts"
import type { Chosen, Ranked } from "./selection.ts"

/** Events by which half of what an item's own vector says is believed, of itself and of items like it. */
const KIN = 5
const SETTLED = 20
/** What others of a group must count together: less is what rounding leaves. */
const LEAST_WEIGHT = 1e-6
/** Up to here an item may have a place that is kept for what is new. */
const FRESH_EVENTS = 5
/** Events an item is given credit for, and places given to it by which its odds are halved. */
const CREDIT = 0.5
const SHOWN = 20
/** Places that new items are looked for at first. */
const FIRST_PLACES = 16
/** Planes: so many times, and how many of them a group has in common. */
const SIGNATURES = 8
const LEVELS = [4, 8, 12, 16]
const PLANES = 16

/** Items and what they are ranked by. */
export interface Scored {
  items: Int32Array
  values: Float32Array
}

interface Group {
  /** Its items, in the order they became known. */
  members: number[]
  /** Newcomers in it. */
  uses: number
  /** For one list: its values, each times what it counts, and what they count together. */
  sum: number
  total: number
}

/** Newcomers and the items they are drawn to: kept from list to list, and brought up to date by what has changed. */
class Kin {
  readonly newcomers = new Map<number, Group[]>()
  /** Only those that newcomers are in. */
  readonly groups = new Map<number, Group>()
  /** The groups of every item. */
  readonly #groupsOf = new Map<number, number[]>()

  update(catalogue: Catalogue): void {
    const { kinChanges } = catalogue
    if (kinChanges !== "all" && kinChanges.size === 0) return
    const changed = kinChanges === "all" ? new Set([...catalogue.entries.keys(), ...this.#groupsOf.keys()]) : kinChanges
    catalogue.kinChanges = new Set()
    const created = new Set<number>()
    const touched = new Set<Group>()
    for (const item of changed) {
      const now = catalogue.entries.has(item) ? groupsOf(catalogue, item) : undefined
      const isNew = now !== undefined && catalogue.isNewcomer(item)
      const known = this.#groupsOf.get(item)
      const stays = known && now && known.length === now.length && known.every((group, g) => group === now[g])
      if (stays && isNew === this.newcomers.has(item)) continue
      this.#remove(item)
      if (!now) continue
      this.#groupsOf.set(item, now)
      if (isNew) this.#addNewcomer(item, now, created)
      for (const group of now) if (!created.has(group)) this.#join(item, group, touched)
    }
    if (created.size > 0)
      for (const [item, groups] of this.#groupsOf)
        for (const group of groups) if (created.has(group)) this.#join(item, group, touched)
    for (const { members } of touched) members.sort((a, b) => catalogue.born(a) - catalogue.born(b))
  }

  #addNewcomer(item: number, groups: number[], created: Set<number>): void {
    const own = groups.map((hash) => {
      const known = this.groups.get(hash)
      if (known) {
        known.uses++
        return known
      }
      const group = { members: [], uses: 1, sum: 0, total: 0 }
      this.groups.set(hash, group)
      created.add(hash)
      return group
    })
    this.newcomers.set(item, own)
  }

  #join(item: number, group: number, touched: Set<Group>): void {
    const known = this.groups.get(group)
    if (!known) return
    known.members.push(item)
    touched.add(known)
  }

  #remove(item: number): void {
    const isNew = this.newcomers.delete(item)
    for (const group of this.#groupsOf.get(item) ?? []) {
      const known = this.groups.get(group)
      if (isNew && known && --known.uses === 0) this.groups.delete(group)
      const members = this.groups.get(group)?.members
      const at = members?.indexOf(item) ?? -1
      if (at >= 0) members?.splice(at, 1)
    }
    this.#groupsOf.delete(item)
  }
}

const kinOf = new WeakMap<Catalogue, Kin>()

function findKin(catalogue: Catalogue): Kin {
  const kin = kinOf.get(catalogue) ?? new Kin()
  kinOf.set(catalogue, kin)
  kin.update(catalogue)
  return kin
}

/** The groups an item is in, as hashes. */
function groupsOf(catalogue: Catalogue, item: number): number[] {
  const entry = catalogue.entry(item)
  const { properties } = catalogue
  return [
    ...entry.categories.map((name) => hashOf(`c${name}`)),
    ...[...properties.names].flatMap((name) =>
      (properties.find(name)?.codedKeys(item) ?? []).map((key) => hashOf(`p${name}\n${key}`)),
    ),
    ...(entry.features ? signaturesOf(entry.features) : []),
  ]
}

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

/** By item, while values are drawn: its place among those scored, what its value counts, and the value times that. */
let places = new Int32Array(0)
let weights = new Float64Array(0)
let weighted = new Float64Array(0)

function weigh({ items, values }: Scored, catalogue: Catalogue): void {
  if (places.length < catalogue.itemCount) {
    places = new Int32Array(2 * catalogue.itemCount)
    weights = new Float64Array(places.length)
    weighted = new Float64Array(places.length)
  }
  places.fill(-1)
  weights.fill(0)
  weighted.fill(0)
  for (let i = 0; i < items.length; i++) {
    const item = items[i]
    if (item >= places.length) continue
    places[item] = i
    if (Number.isNaN(values[i])) continue
    const events = catalogue.events(item)
    weights[item] = events / (events + SETTLED)
    weighted[item] = weights[item] * values[i]
  }
}

function sumUp(group: Group): void {
  const { members } = group
  let [sum, total] = [0, 0]
  for (let m = 0; m < members.length; m++) {
    sum += weighted[members[m]]
    total += weights[members[m]]
  }
  group.sum = sum
  group.total = total
}

/** The mean over an item's groups of the values of their other items; NaN where there are none. */
function meanOf(item: number, groups: readonly Group[]): number {
  let [sum, total] = [0, 0]
  for (let g = 0; g < groups.length; g++) {
    const group = groups[g]
    const rest = group.total - weights[item]
    if (!(rest > LEAST_WEIGHT)) continue
    const share = 1 / (group.members.length - 1)
    sum += (share * (group.sum - weighted[item])) / rest
    total += share
  }
  return total === 0 ? Number.NaN : sum / total
}

/** The values with those of newcomers drawn to items like them; newcomers without a value come behind. */
export function drawToKin({ items, values }: Scored, catalogue: Catalogue): Scored {
  if (catalogue.entries.size === 0) return { items, values }
  const { newcomers, groups } = findKin(catalogue)
  if (newcomers.size === 0) return { items, values }
  weigh({ items, values }, catalogue)
  for (const group of groups.values()) sumUp(group)
  const out = values.slice()
  const behind: Record<"items" | "values", number[]> = { items: [], values: [] }
  for (const [item, own] of newcomers) {
    const mean = meanOf(item, own)
    if (Number.isNaN(mean)) continue
    const place = places[item]
    if (place < 0) {
      behind.items.push(item)
      behind.values.push(mean)
      continue
    }
    const value = values[place]
    const events = Number.isNaN(value) ? 0 : catalogue.events(item)
    out[place] = events === 0 ? mean : Math.max(value, (events * value + KIN * mean) / (events + KIN))
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

/** New items in the order of their upper bounds; first those that pages before had, in the order they had them. */
export function* orderFresh(ranked: Ranked, catalogue: Catalogue, before: readonly number[]): Generator<Chosen> {
  const { items = new Int32Array(0), values, source, blocked } = ranked
  const places = new Map<number, number>()
  const bounds = Float64Array.from(items, (item, i) => {
    if (before.includes(item)) places.set(item, i)
    const events = catalogue.events(item)
    if (events >= FRESH_EVENTS || !catalogue.isNewcomer(item)) return Number.NEGATIVE_INFINITY
    return values[i] + Math.log((events + CREDIT) / (1 + catalogue.shown.count(item) / SHOWN))
  })
  const isOut = (place: number) => blocked?.has(items[place]) === true
  for (const item of before) {
    const place = places.get(item)
    if (place !== undefined && values[place] > Number.NEGATIVE_INFINITY && !isOut(place))
      yield { item, value: values[place], source }
  }
  const order = { isOut, tie: (place: number) => catalogue.born(items[place]) }
  for (let wanted = FIRST_PLACES, seen = 0; ; wanted *= 4) {
    const best = bestOf(bounds, wanted, order)
    for (; seen < best.length; seen++) yield { item: items[best[seen]], value: values[best[seen]], source }
    if (best.length < wanted) return
  }
}
