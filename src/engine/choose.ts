/** From scores to a list: the model's best first; where it has nothing to say, what is trending; then what is new. */

import { DessError } from "../errors.ts"
import type { LabelledTrial, Reader } from "../run/reader.ts"
import type { Catalogue } from "./catalogue.ts"
import type { Recommendation, Source } from "./types.ts"

export interface Wish {
  /** Undefined for an unknown user. */
  user: number | undefined
  /** Length of the list, what is left out at its beginning included. */
  total: number
  exclude: readonly number[]
  only: readonly number[] | undefined
  categories: ReadonlySet<string> | undefined
  seen: boolean
  /** What the user is thought to have done on top; not with `only`. */
  trials?: readonly LabelledTrial[] | undefined
}

export function chooseItems(catalogue: Catalogue, reader: Reader, wish: Wish): Recommendation[] {
  const { user, total, only } = wish
  const may = allow(catalogue, wish)
  const list: Recommendation[] = []
  const taken = new Set<number>()
  const add = (item: number, score: number, source: Source) => {
    taken.add(item)
    list.push({ item: catalogue.names.item.name(item) ?? "", score, source })
  }
  const trials = wish.trials?.filter(({ item }) => reader.knows("item", item)) ?? []
  const known = user !== undefined && reader.knows("user", user) ? user : undefined
  if (known !== undefined || trials.length > 0) {
    const items = only ? Int32Array.from(new Set(only)).filter((item) => reader.knows("item", item)) : reader.items
    const logits =
      known === undefined || trials.length > 0
        ? tryOut(reader, known, trials)
        : only
          ? reader.scoresOf(known, items)
          : reader.scores(known)
    const values = toValues(logits, reader.outputs)
    for (let i = 0; i < items.length; i++) if (!may(items[i])) values[i] = Number.NEGATIVE_INFINITY
    for (const place of best(values, total)) add(items[place], toScore(values[place], reader.outputs), "model")
  }
  if (list.length >= total) return list
  const rest: number[] = []
  const candidates = only ? new Set(only) : countTo(catalogue.itemRoom)
  for (const item of candidates) if (!taken.has(item) && may(item)) rest.push(item)
  const trend = Float64Array.from(rest, (item) => catalogue.trend(item) || Number.NEGATIVE_INFINITY)
  for (const place of best(trend, total - list.length)) add(rest[place], trend[place], "trending")
  if (list.length >= total) return list
  const fresh = rest.filter((item) => !taken.has(item))
  const born = Float64Array.from(fresh, (item) => catalogue.born(item))
  for (const place of best(born, total - list.length)) add(fresh[place], 0, "new")
  return list
}

/** Logits of all items after the trials. */
function tryOut(reader: Reader, user: number | undefined, trials: readonly LabelledTrial[]): Float32Array {
  if (reader.preview) return reader.preview(user, trials)
  throw new DessError("UNSUPPORTED", "preview: expected the calibrated recipe, this recommender has the paper's")
}

/** Items nearest to one, by the model (none where it holds no numbers); of the same categories where the model does not know it. */
export function chooseSimilar(
  catalogue: Catalogue,
  reader: Reader,
  wish: { item: number; total: number; categories: ReadonlySet<string> | undefined },
): Recommendation[] {
  const { item, total, categories } = wish
  const nobody = { user: undefined, total, exclude: [item], only: undefined, seen: true }
  if (!reader.knows("item", item)) {
    const own = new Set(catalogue.entry(item).categories)
    return chooseItems(catalogue, reader, { ...nobody, categories: categories ?? (own.size > 0 ? own : undefined) })
  }
  const may = allow(catalogue, { ...nobody, categories })
  const cosines = reader.nearest(item)
  // 0 is no angle: one of the two has no vector.
  reader.items.forEach((other, i) => {
    if (cosines[i] === 0 || !may(other)) cosines[i] = Number.NEGATIVE_INFINITY
  })
  return best(cosines, total).map((place) => ({
    item: catalogue.names.item.name(reader.items[place]) ?? "",
    score: cosines[place],
    source: "model",
  }))
}

/** Whether an item may stand in the list. */
function allow(catalogue: Catalogue, wish: Wish): (item: number) => boolean {
  const blocked = new Uint8Array(catalogue.itemRoom)
  for (const item of wish.exclude) blocked[item] = 1
  if (!wish.seen) for (const { item } of wish.trials ?? []) blocked[item] = 1
  if (!wish.seen && wish.user !== undefined) for (const item of catalogue.history(wish.user)) blocked[item] = 1
  if (catalogue.hidden > 0) for (const [item, entry] of catalogue.entries) if (entry.hidden) blocked[item] = 1
  if (wish.categories) {
    const outside = new Uint8Array(blocked.length).fill(1)
    for (const category of wish.categories)
      for (const item of catalogue.itemsOf(category)) outside[item] = blocked[item]
    blocked.set(outside)
  }
  const { item: names } = catalogue.names
  return (item) => blocked[item] === 0 && names.name(item) !== undefined
}

/** What is ranked by: the logit, or of several classes the expected rating. */
function toValues(logits: Float32Array, outputs: number): Float32Array {
  if (outputs === 1) return logits
  const values = new Float32Array(logits.length / outputs)
  for (let i = 0; i < values.length; i++) values[i] = expected(softmax(logits.subarray(i * outputs, (i + 1) * outputs)))
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

function* countTo(end: number): Generator<number> {
  for (let i = 0; i < end; i++) yield i
}

/** Up to here a short sorted list is quickest. */
const FEW = 64

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
