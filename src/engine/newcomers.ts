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
 * what was shown 20 times and not taken up has half its odds and goes again. Where even the highest is below a tenth of the
 * odds of what stands at the end of the page otherwise, that stays: it costs the others a third of what it does else.
 * Of an item without events and items like it nothing is known but that it is new: its z' is the mean of all new ones and
 * their deviation, and its first 20 places need not be worth it.
 */

import { Random } from "../kernels/random.ts"
import { best as bestOf } from "./best.ts"
import type { Blocked } from "./blocked.ts"
import type { Catalogue } from "./catalogue.ts"
import type { Chosen } from "./selection.ts"

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
/** A place is given where the upper bound is at least this much of the odds of the item that stands there otherwise. */
const WORTH = 0.1
/** Places that new items are looked for at first. */
const FIRST_PLACES = 16
/** Planes: this many times, and how many of them a group has in common. */
const SIGNATURES = 8
const LEVELS = [4, 8, 12, 16]
const PLANES = 16

/** Items and what they are ranked by. */
export interface Scored {
  items: Int32Array
  values: Float32Array
}

/** What places may be kept for. */
export interface Candidates {
  known: Scored
  unknown: Scored
  blocked: Blocked
}

/** All items that were put and the groups they are in: kept from list to list, and brought up to date by what has changed. */
class Kin {
  /** By item: the slots of its groups. */
  readonly #slotsOf: (number[] | undefined)[] = []
  #known: number[] = []
  readonly #newcomers = new Set<number>()
  /** The slot of every group that an item is in. */
  readonly #slots = new Map<number, number>()
  readonly #hashes: number[] = []
  readonly #free: number[] = []
  /** By slot: how many items are in the group. */
  readonly sizes: number[] = []
  /** In the order they became known. */
  items = new Int32Array(0)
  /** By place in that order: where the slots of an item's groups that others are in begin, and one more. */
  starts = new Int32Array(1)
  slots = new Int32Array(0)
  /** By slot: what each of an item's others counts there. */
  shares = new Float64Array(0)
  /** Places of newcomers. */
  newcomers = new Int32Array(0)

  update(catalogue: Catalogue): void {
    const { kinChanges } = catalogue
    if (kinChanges !== "all" && kinChanges.size === 0) return
    const changed = kinChanges === "all" ? new Set([...catalogue.entries.keys(), ...this.#known]) : kinChanges
    catalogue.kinChanges = new Set()
    let isSame = true
    for (const item of changed) if (this.#put(item, catalogue)) isSame = false
    if (!isSame) this.#arrange(catalogue)
  }

  /** Whether anything is different now. */
  #put(item: number, catalogue: Catalogue): boolean {
    const before = this.#slotsOf[item]
    if (!catalogue.entries.has(item)) {
      if (!before) return false
      this.#slotsOf[item] = undefined
      this.#newcomers.delete(item)
      this.#leave(before)
      return true
    }
    const now = groupsOf(catalogue, item)
    const isNew = catalogue.isNewcomer(item)
    const stays = before?.length === now.length && now.every((group, g) => group === this.#hashes[before[g]])
    if (stays && isNew === this.#newcomers.has(item)) return false
    if (isNew) this.#newcomers.add(item)
    else this.#newcomers.delete(item)
    if (!before) this.#known.push(item)
    this.#slotsOf[item] = now.map((group) => this.#join(group))
    if (before) this.#leave(before)
    return true
  }

  #join(group: number): number {
    let slot = this.#slots.get(group)
    if (slot === undefined) {
      slot = this.#free.pop() ?? this.sizes.length
      this.#slots.set(group, slot)
      this.#hashes[slot] = group
      this.sizes[slot] = 0
    }
    this.sizes[slot]++
    return slot
  }

  #leave(slots: readonly number[]): void {
    for (const slot of slots) {
      if (--this.sizes[slot] > 0) continue
      this.#slots.delete(this.#hashes[slot])
      this.#free.push(slot)
    }
  }

  #arrange(catalogue: Catalogue): void {
    const before = (a: number, b: number) => catalogue.born(a) - catalogue.born(b) || a - b
    const items = this.#known.filter((item) => this.#slotsOf[item])
    if (items.some((item, i) => i > 0 && before(items[i - 1], item) > 0)) items.sort(before)
    this.#known = items
    this.items = Int32Array.from(items)
    const { sizes } = this
    this.shares = Float64Array.from(sizes, (size) => 1 / (size - 1))
    this.starts = new Int32Array(items.length + 1)
    for (let i = 0; i < items.length; i++) {
      let shared = 0
      for (const slot of this.#slotsAt(i)) if (sizes[slot] > 1) shared++
      this.starts[i + 1] = this.starts[i] + shared
    }
    this.slots = new Int32Array(this.starts[items.length])
    this.newcomers = new Int32Array(this.#newcomers.size)
    let [at, found] = [0, 0]
    for (let i = 0; i < items.length; i++) {
      const own = this.#slotsAt(i)
      for (let g = 0; g < own.length; g++) if (sizes[own[g]] > 1) this.slots[at++] = own[g]
      if (this.#newcomers.has(items[i])) this.newcomers[found++] = i
    }
  }

  #slotsAt(place: number): readonly number[] {
    return this.#slotsOf[this.#known[place]] as number[]
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
  places.fill(-1, 0, catalogue.itemCount)
  weights.fill(0, 0, catalogue.itemCount)
  weighted.fill(0, 0, catalogue.itemCount)
  const events = catalogue.eventCounts
  const [placeAt, weightAt, valueAt] = [places, weights, weighted]
  for (let i = 0; i < items.length; i++) {
    const item = items[i]
    if (item >= placeAt.length) continue
    placeAt[item] = i
    const value = values[i]
    if (Number.isNaN(value)) continue
    const count = item < events.length ? events[item] : 0
    const weight = count / (count + SETTLED)
    weightAt[item] = weight
    valueAt[item] = weight * value
  }
}

/** By slot: the values of a group's items, each times what it counts, and what they count together. */
let sums = new Float64Array(0)
let totals = new Float64Array(0)

function sumUp({ items, starts, slots, sizes }: Kin): void {
  if (sums.length < sizes.length) {
    sums = new Float64Array(2 * sizes.length)
    totals = new Float64Array(2 * sizes.length)
  }
  sums.fill(0)
  totals.fill(0)
  // By names of its own: a variable of the module is looked up at every use.
  const [sumAt, totalAt, weightAt, valueAt] = [sums, totals, weights, weighted]
  for (let i = 0; i < items.length; i++) {
    const weight = weightAt[items[i]]
    if (weight === 0) continue
    const value = valueAt[items[i]]
    for (let at = starts[i]; at < starts[i + 1]; at++) {
      const slot = slots[at]
      sumAt[slot] += value
      totalAt[slot] += weight
    }
  }
}

/** By newcomer: the mean over an item's groups of the values of their other items; NaN where there are none. */
let means = new Float64Array(0)

function findMeans({ items, starts, slots, shares, newcomers }: Kin): Float64Array {
  if (means.length < newcomers.length) means = new Float64Array(2 * newcomers.length)
  const [sumAt, totalAt, weightAt, valueAt, meanAt] = [sums, totals, weights, weighted, means]
  for (let n = 0; n < newcomers.length; n++) {
    const place = newcomers[n]
    const item = items[place]
    // Not in one line: this makes no object.
    const weight = weightAt[item]
    const value = valueAt[item]
    const end = starts[place + 1]
    let sum = 0
    let total = 0
    for (let at = starts[place]; at < end; at++) {
      const slot = slots[at]
      const rest = totalAt[slot] - weight
      if (rest > LEAST_WEIGHT) {
        sum += (shares[slot] * (sumAt[slot] - value)) / rest
        total += shares[slot]
      }
    }
    // NaN of none.
    meanAt[n] = sum / total
  }
  return meanAt
}

/** What was drawn last. */
let drawn: Scored = { items: new Int32Array(0), values: new Float32Array(0) }

/**
 * The values with those of newcomers drawn to items like them; newcomers without a value come behind. A view until the next
 * call.
 */
export function drawToKin({ items, values }: Scored, catalogue: Catalogue): Scored {
  if (catalogue.entries.size === 0) return { items, values }
  const kin = findKin(catalogue)
  const { newcomers } = kin
  if (newcomers.length === 0) return { items, values }
  const events = catalogue.eventCounts
  weigh({ items, values }, catalogue)
  sumUp(kin)
  const [means, placeAt] = [findMeans(kin), places]
  const most = items.length + newcomers.length
  if (drawn.items.length < most)
    drawn = { items: new Int32Array(most + (most >> 2)), values: new Float32Array(most + (most >> 2)) }
  const { items: all, values: out } = drawn
  all.set(items)
  out.set(values)
  let length = items.length
  for (let n = 0; n < newcomers.length; n++) {
    const mean = means[n]
    if (Number.isNaN(mean)) continue
    const item = kin.items[newcomers[n]]
    const place = placeAt[item]
    if (place < 0) {
      all[length] = item
      out[length++] = mean
      continue
    }
    const value = values[place]
    const count = Number.isNaN(value) || item >= events.length ? 0 : events[item]
    out[place] = count === 0 ? mean : Math.max(value, (count * value + KIN * mean) / (count + KIN))
  }
  return { items: all.subarray(0, length), values: out.subarray(0, length) }
}

/** With more items at the end. */
export function append({ items, values }: Scored, more: Record<"items" | "values", ArrayLike<number>>): Scored {
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

/** Items that were put, of which nothing is known, with what they may be: the mean of new ones and their deviation. */
export function findUnknown({ items, values }: Scored, catalogue: Catalogue, only: Int32Array | undefined): Scored {
  const kin = findKin(catalogue)
  // By item: 1 where it may be unknown.
  const open = new Uint8Array(catalogue.itemCount)
  for (const place of kin.newcomers) open[kin.items[place]] = 1
  if (only) {
    const wanted = new Uint8Array(open.length)
    for (const item of only) wanted[item] = open[item]
    open.set(wanted)
  }
  let [count, sum, squares] = [0, 0, 0]
  for (let i = 0; i < items.length; i++) {
    const value = values[i]
    if (Number.isNaN(value)) continue
    open[items[i]] = 0
    if (value === Number.NEGATIVE_INFINITY || !isFresh(items[i], catalogue)) continue
    count++
    sum += value
    squares += value ** 2
  }
  const mean = count === 0 ? 0 : sum / count
  const deviation = count === 0 ? 0 : Math.sqrt(Math.max(0, squares / count - mean ** 2))
  const unknown: number[] = []
  for (const place of kin.newcomers) if (open[kin.items[place]] === 1) unknown.push(kin.items[place])
  return { items: Int32Array.from(unknown), values: new Float32Array(unknown.length).fill(mean + deviation) }
}

function isFresh(item: number, catalogue: Catalogue): boolean {
  return catalogue.events(item) < FRESH_EVENTS && catalogue.isNewcomer(item)
}

/** What is added for a new item's events, and taken off for places it was given. */
const CREDITS = Float64Array.from({ length: FRESH_EVENTS }, (_, events) => Math.log(events + CREDIT))

/** The upper bounds of new items; −∞ for all others. */
function boundsOf({ items, values }: Scored, catalogue: Catalogue): Float64Array {
  const bounds = new Float64Array(items.length).fill(Number.NEGATIVE_INFINITY)
  for (let i = 0; i < items.length; i++) {
    const item = items[i]
    if (!isFresh(item, catalogue)) continue
    const shown = catalogue.shown.count(item)
    bounds[i] = values[i] + CREDITS[catalogue.events(item)] - (shown === 0 ? 0 : Math.log(1 + shown / SHOWN))
  }
  return bounds
}

/**
 * New items of each page of a list: those that the page had before; on others in the order of their upper bounds, down to
 * a share of what the page ends with otherwise, then those that nothing is known of, each for its first places.
 */
export function freshPlaces(
  { known, unknown, blocked }: Candidates,
  catalogue: Catalogue,
  { before, whole, count }: { before: readonly (readonly number[])[]; whole: number; count: number },
): (page: number) => Iterable<Chosen> {
  const { items, values } = append(known, unknown)
  const sought = new Set(before.flat())
  const places = new Map<number, number>()
  for (let i = 0; sought.size > 0 && i < items.length; i++) if (sought.has(items[i])) places.set(items[i], i)
  const bounds = boundsOf({ items, values }, catalogue)
  const order = {
    isOut: (place: number) => blocked.has(items[place]),
    tie: (place: number) => catalogue.born(items[place]),
  }
  const toChosen = (place: number): Chosen => ({
    ...{ item: items[place], value: values[place] },
    source: place < known.items.length ? "model" : "new",
  })
  const ends = bestOf(known.values, whole, order)
  const worthy = bestFirst(bounds, order)
  const first = known.items.length
  const free = bestFirst(bounds.subarray(first), {
    isOut: (n) => order.isOut(first + n) || catalogue.shown.count(unknown.items[n]) >= SHOWN,
    tie: (n) => order.tie(first + n),
  })
  let next = worthy.next()
  return function* (page) {
    for (const item of before[page] ?? []) {
      const place = places.get(item)
      if (place !== undefined && values[place] > Number.NEGATIVE_INFINITY && !order.isOut(place)) yield toChosen(place)
    }
    if (page < before.length) return
    const end = ends[(page + 1) * count - 1]
    const least = end === undefined ? Number.NEGATIVE_INFINITY : known.values[end] + Math.log(WORTH)
    while (!next.done && bounds[next.value] >= least) {
      const place = next.value
      next = worthy.next()
      yield toChosen(place)
    }
    for (let one = free.next(); !one.done; one = free.next()) yield toChosen(first + one.value)
  }
}

function* bestFirst(values: Float64Array, order: Parameters<typeof bestOf>[2]): Generator<number, undefined> {
  for (let wanted = FIRST_PLACES, seen = 0; ; wanted *= 4) {
    const best = bestOf(values, wanted, order)
    for (; seen < best.length; seen++) yield best[seen]
    if (best.length < wanted) return undefined
  }
}
