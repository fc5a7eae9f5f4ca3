/** From scores to a list: the model's best first; where it has nothing to say, what is trending; then what is new. */

import { DessError } from "../errors.ts"
import type { Asker, LabelledTrial, Reader } from "../learning/reader.ts"
import { findAsker, type Someone, trialsOf } from "./asking.ts"
import type { Catalogue } from "./catalogue.ts"
import type { Recommendation, Source } from "./types.ts"

/** Events by which half of what an item's vector says is believed. */
const ENOUGH = 10

export interface ListQuery extends Someone {
  /** Length of the list, what is left out at its beginning included. */
  total: number
  exclude: readonly number[]
  only: readonly number[] | undefined
  categories: ReadonlySet<string> | undefined
  seen: boolean
  /** What the user is thought to have done on top. */
  trials?: readonly LabelledTrial[] | undefined
}

export function chooseItems(catalogue: Catalogue, reader: Reader, query: ListQuery): Recommendation[] {
  const { total } = query
  const blocked = findBlocked(catalogue, query)
  const only = query.only && Int32Array.from(new Set(query.only))
  const list: Recommendation[] = []
  const add = (item: number, score: number, source: Source) => {
    blocked[item] = 1
    list.push({ item: catalogue.names.item.name(item) ?? "", score, source })
  }
  const isKnown = (item: number) => reader.knows("item", item)
  const asker = findAsker(catalogue, reader, query)
  const trials = (query.trials ?? trialsOf(reader, query)).filter(({ item }) => isKnown(item))
  if (asker || trials.length > 0) {
    const tried = trials.length > 0 ? tryOut(reader, asker, trials) : undefined
    const items = only && !tried ? only.filter(isKnown) : reader.items
    const logits = tried ?? scoresOf(reader, asker as Asker, only && items)
    const values = toValues(logits, reader.outputs)
    block(values, items, blocked)
    if (only && tried) keepOnly(values, items, only)
    for (const place of best(values, total)) add(items[place], toScore(values[place], reader.outputs), "model")
  }
  // Then the rest, in the order asked for or of the indices.
  const length = only?.length ?? blocked.length
  const fillUp = (source: Source, rate: (item: number) => number) => {
    if (list.length >= total) return
    const values = new Float64Array(length)
    for (let i = 0; i < length; i++) {
      const item = only ? only[i] : i
      values[i] = blocked[item] === 0 ? rate(item) : Number.NEGATIVE_INFINITY
    }
    for (const i of best(values, total - list.length)) add(only ? only[i] : i, source === "new" ? 0 : values[i], source)
  }
  fillUp("trending", (item) => catalogue.trend(item) || Number.NEGATIVE_INFINITY)
  fillUp("new", (item) => catalogue.born(item))
  return list
}

/** Logits of some items, or of all. */
export function scoresOf(reader: Reader, asker: Asker, items: Int32Array | undefined): Float32Array {
  if (reader.follow) return reader.follow(asker, items)
  const user = asker.user as number
  return items ? reader.scoresOf(user, items) : reader.scores(user)
}

/** −∞ for all other items. */
function keepOnly(values: Float32Array, items: Int32Array, only: Int32Array): void {
  const wanted = new Set(only)
  for (let i = 0; i < items.length; i++) if (!wanted.has(items[i])) values[i] = Number.NEGATIVE_INFINITY
}

/** Logits of all items after the trials. */
function tryOut(reader: Reader, asker: Asker | undefined, trials: readonly LabelledTrial[]): Float32Array {
  if (reader.preview) return reader.preview(asker ?? { user: undefined }, trials)
  throw new DessError("UNSUPPORTED", "preview: expected the calibrated recipe, this recommender has the paper's")
}

/** Items nearest to one, by the model (none where it holds no numbers); of the same categories where the model does not know it. */
export function chooseSimilar(
  catalogue: Catalogue,
  reader: Reader,
  query: { item: number; total: number; categories: ReadonlySet<string> | undefined },
): Recommendation[] {
  const { item, total, categories } = query
  const nobody = { user: undefined, total, exclude: [item], only: undefined, seen: true }
  if (!reader.knows("item", item)) {
    const own = new Set(catalogue.entry(item).categories)
    return chooseItems(catalogue, reader, { ...nobody, categories: categories ?? (own.size > 0 ? own : undefined) })
  }
  const nearness = findNearness(catalogue, reader, item)
  block(nearness, reader.items, findBlocked(catalogue, { ...nobody, categories }))
  return best(nearness, total).map((place) => ({
    item: catalogue.names.item.name(reader.items[place]) ?? "",
    score: nearness[place],
    source: "model",
  }))
}

/** How near all items are to one: cosines, each times n/(n + 10) for the events of either; −∞ where one has no vector. */
function findNearness(catalogue: Catalogue, reader: Reader, item: number): Float32Array {
  const nearness = reader.nearest(item)
  const { items } = reader
  const own = support(catalogue.events(item))
  for (let i = 0; i < nearness.length; i++) {
    const cosine = nearness[i]
    nearness[i] = cosine === 0 ? Number.NEGATIVE_INFINITY : cosine * own * support(catalogue.events(items[i]))
  }
  return nearness
}

function support(events: number): number {
  return events / (events + ENOUGH)
}

/** By item: 1 where it may not stand in the list. */
function findBlocked(catalogue: Catalogue, query: ListQuery): Uint8Array {
  const { itemCount, names } = catalogue
  const blocked = new Uint8Array(itemCount)
  names.item.markNameless(blocked)
  for (const item of query.exclude) blocked[item] = 1
  if (!query.seen) {
    for (const { item } of query.trials ?? []) blocked[item] = 1
    for (const { item } of query.recent ?? []) blocked[item] = 1
  }
  if (!query.seen && query.user !== undefined) for (const item of catalogue.history(query.user)) blocked[item] = 1
  for (const item of catalogue.hidden) blocked[item] = 1
  if (!query.categories) return blocked
  const outside = new Uint8Array(blocked.length).fill(1)
  for (const category of query.categories) for (const item of catalogue.itemsOf(category)) outside[item] = blocked[item]
  return outside
}

/** −∞ for blocked items, and for those without a score. */
function block(values: Float32Array, items: Int32Array, blocked: Uint8Array): void {
  for (let i = 0; i < items.length; i++)
    if (blocked[items[i]] !== 0 || Number.isNaN(values[i])) values[i] = Number.NEGATIVE_INFINITY
}

/** What is ranked by: the logit, or of several classes the expected rating. */
function toValues(logits: Float32Array, outputs: number): Float32Array {
  if (outputs === 1) return logits
  const values = new Float32Array(logits.length / outputs)
  for (let i = 0; i < values.length; i++) {
    const from = i * outputs
    let most = logits[from]
    for (let c = 1; c < outputs; c++) if (logits[from + c] > most) most = logits[from + c]
    let [sum, weighted] = [0, 0]
    for (let c = 0; c < outputs; c++) {
      const power = Math.exp(logits[from + c] - most)
      sum += power
      weighted += power * (c + 1)
    }
    values[i] = weighted / sum
  }
  return values
}

/** From what is ranked by to what is told. */
function toScore(value: number, outputs: number): number {
  return outputs === 1 ? sigmoid(value) : value
}

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x))
}

export function softmax(logits: ArrayLike<number>): number[] {
  const all = Array.from(logits)
  const most = Math.max(...all)
  const powers = all.map((x) => Math.exp(x - most))
  const sum = powers.reduce((total, x) => total + x, 0)
  return powers.map((x) => x / sum)
}

/** The mean of the ratings 1, 2, … */
export function expected(probabilities: readonly number[]): number {
  return probabilities.reduce((sum, p, k) => sum + p * (k + 1), 0)
}

/** Up to here a short sorted list is quickest. */
const FEW = 128

function bestOfMany(values: Float32Array | Float64Array, count: number): number[] {
  const least = values.length > count ? kthLargest(values.slice(), count) : Number.NEGATIVE_INFINITY
  const found: number[] = []
  let equals = 0
  for (let i = 0; i < values.length; i++) {
    if (values[i] > least) found.push(i)
    else if (values[i] === least) equals++
  }
  for (let i = 0; equals > 0 && found.length < count && least > Number.NEGATIVE_INFINITY && i < values.length; i++)
    if (values[i] === least) found.push(i)
  return found.sort((a, b) => values[b] - values[a] || a - b)
}

/** By halving where it must be; the values are shuffled. */
function kthLargest(values: Float32Array | Float64Array, k: number): number {
  let [low, high] = [0, values.length - 1]
  while (low < high) {
    const pivot = values[(low + high) >> 1]
    let [i, j] = [low, high]
    while (i <= j) {
      while (values[i] > pivot) i++
      while (values[j] < pivot) j--
      if (i > j) break
      const value = values[i]
      values[i++] = values[j]
      values[j--] = value
    }
    if (k - 1 <= j) high = j
    else if (k - 1 >= i) low = i
    else break
  }
  return values[k - 1]
}

/** Places of the `count` largest values, best first; of equals the earlier. −∞ is never chosen. */
export function best(values: Float32Array | Float64Array, count: number): number[] {
  if (count > FEW) return bestOfMany(values, count)
  const found: number[] = []
  let least = Number.NEGATIVE_INFINITY
  for (let i = 0; i < values.length; i++) {
    const value = values[i]
    if (!(value > least)) continue
    let at = found.length
    while (at > 0 && values[found[at - 1]] < value) at--
    found.splice(at, 0, i)
    if (found.length > count) found.pop()
    if (found.length === count) least = values[found[count - 1]]
  }
  return found
}
