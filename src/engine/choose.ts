/** From scores to a list: the model's best first; where it has nothing to say, what is trending; then what is new. */

import { DessError } from "../errors.ts"
import type { Asker, LabelledTrial, Powers, Reader } from "../learning/reader.ts"
import { findAsker, type Someone, trialsOf } from "./asking.ts"
import { Blocked } from "./blocked.ts"
import type { Catalogue } from "./catalogue.ts"
import { append, type Candidates, drawToKin, findUnknown, freshPlaces, type Scored } from "./newcomers.ts"
import type { Rules } from "./rules.ts"
import { type Chosen, type Ranked, type Rankings, Selection } from "./selection.ts"
import type { Recommendation, Source } from "./types.ts"

/** Events after which an item's own vector counts for half. */
const ENOUGH = 10

export interface ListQuery extends Someone {
  /** Length of the list, what is left out at its beginning included. */
  total: number
  /** Of these, this many at the end are asked for. */
  count: number
  exclude: readonly number[]
  only: readonly number[] | undefined
  rules: Rules
  /** true: nothing that was met is left out, false: all of it; undefined: as types of events say. */
  seen: boolean | undefined
  /** Whether the list is for more than the next item. */
  lasting?: boolean | undefined
  /** Places of each page kept for items with few events; whether those in the list count as shown. */
  fresh?: number | undefined
  counted?: boolean | undefined
  /** Whose pages they are: the next one goes on where the one before ended. A user's index, or what a guest asked by. */
  asking?: number | string | undefined
  /** Hypothetical events of the user, on top of the real ones. */
  trials?: readonly LabelledTrial[] | undefined
  /** What the list begins with; "trending": what is popular. Default "model". */
  from?: Source | undefined
}

export function chooseItems(catalogue: Catalogue, reader: Reader, query: ListQuery): Recommendation[] {
  const { from = "model", rules } = query
  const blocked = new Blocked(catalogue, query)
  const only = query.only && Int32Array.from(new Set(query.only))
  const isKnown = (item: number) => reader.knows("item", item)
  const asker = from === "model" ? findAsker(catalogue, reader, query) : undefined
  const trials = (query.trials ?? trialsOf(reader, query)).filter(({ item }) => isKnown(item))
  const others = fillUp(catalogue, { blocked, only, rules, from })
  if (!asker && trials.length === 0) {
    const selection = new Selection({ catalogue, reader, ...query })
    selection.take(others)
    return describe(catalogue, selection.chosen, (value) => value)
  }
  let powers: Powers | undefined
  let scored = (value: number) => toScore(value, reader.outputs)
  const tried = trials.length > 0 ? tryOut(reader, asker, trials) : undefined
  // A chance is one of all items.
  const some = only && !tried && !reader.follow ? only.filter(isKnown) : undefined
  const { items, values } = tried
    ? toRanked(catalogue, reader, { items: reader.items, values: toValues(tried, reader.outputs) })
    : scoreItems(catalogue, reader, { asker: asker as Asker, some }).drawn
  if (query.lasting) outlast(values, items, catalogue)
  if (reader.follow && rules.factors) toLogOdds(reader, values)
  else if (reader.follow) {
    powers = sumPowers(reader, values)
    scored = chances(powers)
  }
  if (only) keepOnly(values, items, only)
  if (rules.factors) boost(values, items, { factors: rules.factors, isLogit: reader.outputs === 1 })
  // Values have only fallen since.
  const ranked: Ranked = { items, values, source: "model", blocked, maxima: powers?.maxima }
  const rankings = concat([ranked], others)
  if (!query.fresh) {
    const selection = new Selection({ catalogue, reader, ...query })
    selection.take(rankings)
    return describe(catalogue, selection.chosen, scored)
  }
  const unknown = findUnknown({ items, values }, catalogue, only)
  if (rules.factors) boost(unknown.values, unknown.items, { factors: rules.factors, isLogit: reader.outputs === 1 })
  const candidates = { known: { items, values }, unknown, blocked }
  return describe(catalogue, selectFresh(catalogue, reader, { candidates, rankings, query }), scored)
}

function* concat(first: Rankings, then: Rankings): Generator<Ranked> {
  yield* first
  yield* then
}

/** The list with places kept for new items: whole pages of it, of which those in the one asked for count as shown. */
function selectFresh(
  catalogue: Catalogue,
  reader: Reader,
  { candidates, rankings, query }: { candidates: Candidates; rankings: Rankings; query: ListQuery },
): Chosen[] {
  const { total, count, fresh = 0, counted = true, asking } = query
  const whole = count * Math.ceil(total / count)
  const selection = new Selection({ catalogue, reader, rules: query.rules, total: whole })
  const before = asking === undefined || total === count ? [] : catalogue.freshPages.of(asking)
  const of = freshPlaces(candidates, catalogue, { before, whole, count })
  const taken = selection.takePages(rankings, { of, count, most: Math.min(fresh, count) })
  if (asking !== undefined)
    catalogue.freshPages.set(
      asking,
      taken.map((page) => page.map(({ item }) => item)),
    )
  const list = selection.chosen.slice(0, total)
  const isNew = new Set(taken.flat())
  if (counted) for (const one of list.slice(total - count)) if (isNew.has(one)) catalogue.shown.add(one.item)
  return list
}

/** Ranking scores of all items, or some, for a user: the model's, with new items moved towards items like them. */
export function scoreItems(
  catalogue: Catalogue,
  reader: Reader,
  { asker, some }: { asker: Asker; some?: Int32Array | undefined },
): Record<"known" | "drawn", Scored> {
  // Before the scores, which are a view until the reader is asked again.
  const returning = reader.comeBack?.(asker)
  const values = toValues(scoresOf(reader, asker, some), reader.outputs)
  const known = withReturns({ items: some ?? reader.items, values }, returning)
  return { known, drawn: toRanked(catalogue, reader, known) }
}

function toRanked(catalogue: Catalogue, reader: Reader, scored: Scored): Scored {
  return reader.follow ? drawToKin(scored, catalogue) : scored
}

/** Logits as the log odds of the chances they stand for. */
function toLogOdds(reader: Reader, logits: Float32Array): void {
  const { top, sum } = sumPowers(reader, logits)
  const all = top + Math.log(sum)
  for (let i = 0; i < logits.length; i++) {
    const share = logits[i] - all
    const p = power(share)
    // log(1 − p) as a series; beyond, 1 − p is far from 1.
    const rest = p < 0.01 ? -p * (1 + p * (1 / 2 + p * (1 / 3 + p / 4))) : Math.log(Math.max(1e-9, 1 - p))
    logits[i] = share - rest
  }
}

/** From a logit to the chance that of all items this one comes next: softmax. */
export function chances({ top, sum }: Powers): (logit: number) => number {
  return (logit) => Math.exp(logit - top) / sum
}

/** The largest logit, and the sum of e^(logit − it), of a reader that follows. */
export function sumPowers(reader: Reader, logits: Float32Array): Powers {
  return reader.sumPowers?.(logits) as Powers
}

/** Powers of e are 0 below −35, and stand in a table in steps of 1/64. */
const LEAST_POWER = 35
const STEPS = 64
const POWERS = Float64Array.from({ length: LEAST_POWER * STEPS + 2 }, (_, n) => Math.exp(-n / STEPS))

/** e^x for x ≤ 0, to seven digits: many times as fast as Math.exp. */
function power(x: number): number {
  if (!(x > -LEAST_POWER)) return 0
  const n = (0.5 - x * STEPS) | 0
  const r = x + n / STEPS
  return POWERS[n] * (1 + r * (1 + r * (1 / 2)))
}

/** What is trending, then what is new: in the order asked for or of the indices. */
function* fillUp(
  catalogue: Catalogue,
  p: { blocked: Blocked; only: Int32Array | undefined; rules: Rules; from: Source },
): Generator<Ranked> {
  const { blocked, only, rules } = p
  const rank = (source: Source, rate: (item: number) => number): Ranked => {
    const values = new Float64Array(only?.length ?? catalogue.itemCount)
    for (let i = 0; i < values.length; i++) {
      const item = only ? only[i] : i
      values[i] = rate(item) * (rules.factors?.[item] ?? 1)
    }
    return { items: only, values, source, blocked }
  }
  if (p.from !== "new") yield rank("trending", (item) => catalogue.trend(item) || Number.NEGATIVE_INFINITY)
  yield rank("new", (item) => catalogue.born(item))
}

function describe(
  catalogue: Catalogue,
  chosen: readonly Chosen[],
  toScore: (value: number) => number,
): Recommendation[] {
  return chosen.map(({ item, value, source }) => ({
    item: catalogue.names.item.name(item) ?? "",
    score: source === "model" ? toScore(value) : source === "new" ? 0 : value,
    source,
  }))
}

/**
 * From what is next to what lasts: ζ/3 + log(1 + t), t an item's decayed count of likes. What a session is about passes by,
 * what is popular lately stays; the odds of the model, less sure of themselves, say for whom.
 */
export function outlast(values: Float32Array, items: Int32Array, catalogue: Catalogue): void {
  for (let i = 0; i < values.length; i++) values[i] = values[i] / 3 + Math.log(1 + catalogue.trend(items[i]))
}

/** Multiplies the odds that logits stand for, or other values. */
function boost(
  values: Float32Array,
  items: Int32Array,
  { factors, isLogit }: { factors: Float32Array; isLogit: boolean },
): void {
  let [last, added] = [1, 0]
  for (let i = 0; i < values.length; i++) {
    const item = items[i]
    if (item >= factors.length) continue
    const by = factors[item]
    if (by === 1) continue
    if (isLogit) {
      if (by !== last) [last, added] = [by, Math.log(by)]
      values[i] += added
    } else if (values[i] > 0) values[i] *= by
    else values[i] /= by
  }
}

/** Logits of some items, or of all. */
export function scoresOf(reader: Reader, asker: Asker, items: Int32Array | undefined): Float32Array {
  if (reader.follow) return reader.follow(asker, items)
  const user = asker.user as number
  return items ? reader.scoresOf(user, items) : reader.scores(user)
}

/** Adds items the user may come back to and the model does not know yet. */
function withReturns({ items, values }: Scored, returning: ReadonlyMap<number, number> | undefined): Scored {
  if (!returning || returning.size === 0) return { items, values }
  return append({ items, values }, { items: [...returning.keys()], values: [...returning.values()] })
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

/**
 * Items nearest to one, by the model; where there are too few, items that share a category with it, then others, both by
 * what is trending and then new.
 */
export function chooseSimilar(
  catalogue: Catalogue,
  reader: Reader,
  query: Omit<ListQuery, "seen" | "user" | "recent" | "trials" | "count"> & { item: number },
): Recommendation[] {
  const { item } = query
  const nobody = { ...query, user: undefined, exclude: [...query.exclude, item], seen: true }
  const selection = new Selection({ catalogue, reader, ...query })
  const blocked = new Blocked(catalogue, nobody)
  selection.take(rankSimilar(catalogue, reader, { ...query, blocked }))
  return describe(catalogue, selection.chosen, (nearness) => nearness)
}

function* rankSimilar(
  catalogue: Catalogue,
  reader: Reader,
  query: Pick<ListQuery, "only" | "rules"> & { item: number; blocked: Blocked },
): Generator<Ranked> {
  const { item, rules, blocked } = query
  const only = query.only && Int32Array.from(new Set(query.only))
  if (reader.knows("item", item)) {
    const values = findNearness(catalogue, reader, item)
    if (only) keepOnly(values, reader.items, only)
    if (rules.factors) boost(values, reader.items, { factors: rules.factors, isLogit: false })
    yield { items: reader.items, values, source: "model", blocked }
  }
  const alike = new Set(catalogue.entry(item).categories.flatMap((name) => [...catalogue.itemsOf(name)]))
  const first = only ? only.filter((other) => alike.has(other)) : Int32Array.from(alike)
  for (const some of [first, only]) yield* fillUp(catalogue, { blocked, only: some, rules, from: "trending" })
}

/**
 * How near all items are to one. First those that are met soon after it, by 1 + how likely; then the others, by the cosine;
 * −∞ where one has no vector. What counts is the less the fewer events either has: times n/(n + 10) of both.
 */
function findNearness(catalogue: Catalogue, reader: Reader, item: number): Float32Array {
  const nearness = reader.nearest(item)
  const following = reader.following?.(item)
  const { items } = reader
  const own = support(catalogue.events(item))
  for (let i = 0; i < nearness.length; i++) {
    const cosine = nearness[i]
    const likely = following?.get(items[i])
    const shrunk = own * support(catalogue.events(items[i]))
    if (likely !== undefined) nearness[i] = 1 + likely * shrunk
    else nearness[i] = cosine === 0 ? Number.NEGATIVE_INFINITY : cosine * shrunk
  }
  return nearness
}

function support(events: number): number {
  return events / (events + ENOUGH)
}

/** The ranking score: the logit, or with several classes the expected rating. */
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

/** From ranking score to the score in the answer. */
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
