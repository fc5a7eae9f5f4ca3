/** Everything that only reads: the last published version and the catalogue. */

import { DessError, show } from "../errors.ts"
import type { LearnerExplanation } from "../learning/learner.ts"
import { dropUndefined } from "../learning/options.ts"
import type { LabelledTrial, Reader } from "../learning/reader.ts"
import { classLabel } from "../stream/labels.ts"
import type { Side } from "../types.ts"
import { findAsker } from "./asking.ts"
import { best } from "./best.ts"
import type { Catalogue } from "./catalogue.ts"
import {
  type CheckedTrial,
  checkCount,
  checkGuestItems,
  checkName,
  checkOptionNames,
  checkSide,
  checkTruth,
  checkType,
  MOST_AT_ONCE,
  toArray,
} from "./check.ts"
import { chooseItems, chooseSimilar, type ListQuery } from "./choose.ts"
import type { EventTypes } from "./event-types.ts"
import type { FeedbackEntry, FeedbackKey, Lookup } from "./lookup.ts"
import { PAIRS_AT_ONCE, type Pair, type PredictionSource, predictInPieces, predictSome } from "./predictions.ts"
import { RuleBook } from "./rules.ts"
import { Turns } from "./turns.ts"
import type {
  Explanation,
  FeedbackOptions,
  FeedbackView,
  GuestOptions,
  Id,
  Included,
  ItemView,
  ListOptions,
  PageOptions,
  Prediction,
  Recommendation,
  RecommendOptions,
  SimilarUser,
  Variant,
} from "./types.ts"
import { explainItems, UNEXPLAINED } from "./why.ts"

const LIST_OPTIONS = [
  ...(["count", "offset", "exclude", "only", "categories"] as const),
  ...(["filter", "boost", "cap", "diversity", "include", "counted"] as const),
] as const satisfies readonly (keyof ListOptions)[]
const INCLUDED: readonly Included[] = ["title", "categories", "properties"]
const MOST_ITEMS = 1000
const MOST_OFFSET = 10_000
const MOST_LISTED = 100_000
/** Users compared without a pause: about a millisecond. */
const USERS_AT_ONCE = 2048
/** The most items met that are given of a user. */
const MOST_MET = 20
const ITEMS_AT_ONCE = 2048
const LONGEST_QUERY = 256
/** Entries of feedback looked at for one answer; of a rare type a page may be short. */
const MOST_LOOKED_AT = 10_000

/** Where a page of feedback ended, as a text that says nothing. */
function writeAfter({ user, item, type }: FeedbackKey): string {
  return Buffer.from(JSON.stringify([user, item, type])).toString("base64url")
}

function readAfter(text: string): FeedbackKey {
  try {
    const [user, item, type] = JSON.parse(Buffer.from(text, "base64url").toString())
    if (Number.isSafeInteger(user) && Number.isSafeInteger(item)) return { user, item, type: checkType(type) }
  } catch {
    // falls through to the refusal
  }
  throw new DessError("INVALID_ARGUMENT", `after: expected what a page gave, got ${show(text)}`)
}

/** A page of entries, of one type where that is asked for, and after which to go on. */
function listFeedback(
  all: Iterable<FeedbackKey & FeedbackEntry>,
  { type, count }: { type: string | undefined; count: number },
): { rows: (FeedbackKey & FeedbackEntry)[]; next: FeedbackKey | undefined } {
  const rows: (FeedbackKey & FeedbackEntry)[] = []
  let looked = 0
  for (const row of all) {
    if (++looked > MOST_LOOKED_AT) return { rows, next: row }
    if (type !== undefined && row.type !== type) continue
    rows.push(row)
    if (rows.length === count) return { rows, next: row }
  }
  return { rows, next: undefined }
}

/** What it reads of the model: the last version, and what the learner knows of one id. */
export interface ReadModel {
  readonly reader: Reader
  /** What a user did that neither rows nor catalogue tell, oldest first. */
  recent?(user: string): readonly CheckedTrial[]
  /** Undefined for an id without a row. */
  explain(side: Side, index: number): Promise<LearnerExplanation | undefined>
}

export class Reading {
  readonly #catalogue: Catalogue
  readonly #model: ReadModel
  readonly #source: PredictionSource
  readonly #turns = new Turns()
  readonly rules: RuleBook
  readonly #types: () => EventTypes | undefined

  /** `types`: of events, as they are set now. */
  constructor(catalogue: Catalogue, model: ReadModel, types: () => EventTypes | undefined = () => undefined) {
    this.#catalogue = catalogue
    this.#model = model
    this.rules = new RuleBook(catalogue)
    this.#types = types
    this.#source = { catalogue, reader: model.reader, recent: (user) => this.#recent(user) }
  }

  /** For a user, with what it might do. */
  recommend(user: Id, options: RecommendOptions, trials?: readonly CheckedTrial[]): Recommendation[] {
    const name = checkName("user", user)
    const index = this.#catalogue.find("user", name)
    return this.#list(options, {
      user: index,
      asking: trials ? undefined : index,
      trials: trials && this.#label(trials),
      recent: this.#recent(name),
    })
  }

  /** For a user of a variant of lists. */
  recommendAs(variant: Variant | undefined, user: Id, options: RecommendOptions): Recommendation[] {
    const merged = { ...variant?.options, ...dropUndefined(options) }
    if (variant === undefined || variant.list === undefined || variant.list === "model")
      return this.recommend(user, merged)
    // What is asked for is checked, whichever list it is.
    const { seen } = this.#checkList(merged)
    if (variant.list === "off") {
      this.#checkPage(merged)
      return []
    }
    const name = checkName("user", user)
    const asked = { user: this.#catalogue.find("user", name), recent: this.#recent(name), trials: [], seen }
    return this.#page(merged, (query) =>
      chooseItems(this.#catalogue, this.#model.reader, { ...query, ...asked, from: "trending" }),
    )
  }

  #recent(user: string): LabelledTrial[] {
    return this.#label(this.#model.recent?.(user) ?? [])
  }

  /** For somebody without an id. */
  recommendToGuest({ items, ...options }: GuestOptions): Recommendation[] {
    const recent = this.#label(checkGuestItems(items, this.#types()))
    return this.#list(options, { user: undefined, asking: recent.map(({ item }) => item).join(), recent })
  }

  /** Indices of known items. */
  #findItems(noun: string, ids: readonly Id[]): number[] {
    const { item: items } = this.#catalogue.names
    if (!Array.isArray(ids))
      throw new DessError("INVALID_ARGUMENT", `${noun}: expected a list of ids, got ${show(ids)}`)
    return toArray(noun, ids)
      .map((id) => items.find(checkName("item", id)))
      .filter((index) => index !== undefined)
  }

  #checkList(options: RecommendOptions): Pick<ListQuery, "seen" | "lasting"> & { why: boolean; fresh: number } {
    checkOptionNames("options", options, [...LIST_OPTIONS, "seen", "lasting", "fresh", "why"])
    const seen = checkTruth("seen", options.seen)
    const lasting = checkTruth("lasting", options.lasting)
    const why = checkTruth("why", options.why) ?? false
    const fresh = checkCount("fresh", options.fresh, { least: 0, most: MOST_ITEMS, otherwise: 0 })
    const { reader } = this.#model
    if (lasting && !reader.follow)
      throw new DessError("UNSUPPORTED", "lasting: expected with the top-k task and the calibrated recipe only")
    if (why && !reader.lifts)
      throw new DessError("UNSUPPORTED", "why: expected the top-k task with the default recipe, got another")
    return { seen, lasting, why, fresh }
  }

  #list(options: RecommendOptions, asked: Pick<ListQuery, "user" | "recent" | "trials" | "asking">): Recommendation[] {
    const { why, seen, lasting, fresh } = this.#checkList(options)
    const { user, recent, trials, asking } = asked
    // Field by field: spreading takes twenty times as long.
    const list = this.#page(options, ({ total, count, counted, exclude, only, rules }) => {
      const query = { total, count, counted, exclude, only, rules, user, recent, trials, asking, seen, lasting, fresh }
      return chooseItems(this.#catalogue, this.#model.reader, query)
    })
    return why ? this.#explained(list, options, asked) : list
  }

  /** With what speaks for each item. */
  #explained(
    list: Recommendation[],
    options: RecommendOptions,
    asked: Pick<ListQuery, "user" | "recent">,
  ): Recommendation[] {
    const { reader } = this.#model
    const names = this.#catalogue.names.item
    const items = list.filter(({ source }) => source === "model").map(({ item }) => names.find(item) as number)
    const found = explainItems(this.#catalogue, reader, {
      asker: findAsker(this.#catalogue, reader, asked),
      ...{ items, lasting: options.lasting ?? false, factors: this.rules.compile(options).factors },
    })
    return list.map((one) => ({ ...one, why: found.get(names.find(one.item) as number) ?? UNEXPLAINED }))
  }

  #checkPage(options: ListOptions) {
    const count = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const offset = checkCount("offset", options.offset, { least: 0, most: MOST_OFFSET, otherwise: 0 })
    const query = {
      total: offset + count,
      count,
      counted: checkTruth("counted", options.counted),
      exclude: options.exclude === undefined ? [] : this.#findItems("exclude", options.exclude),
      only: options.only === undefined ? undefined : this.#findItems("only", options.only),
      rules: this.rules.compile(options),
    }
    return { offset, include: options.include === undefined ? [] : checkIncluded(options.include), query }
  }

  /** The part of a list that is asked for, with what is to come with its items. */
  #page(
    options: ListOptions,
    choose: (query: Pick<ListQuery, "total" | "count" | "counted" | "exclude" | "only" | "rules">) => Recommendation[],
  ): Recommendation[] {
    const { offset, include, query } = this.#checkPage(options)
    const list = choose(query)
    const page = offset === 0 ? list : list.slice(offset)
    return include.length === 0 ? page : page.map((one) => ({ ...one, ...this.#included(one.item, include) }))
  }

  #included(name: string, include: readonly Included[]): Partial<Pick<ItemView, Included>> {
    const view = this.item(name)
    return view ? Object.fromEntries(include.map((field) => [field, view[field]])) : {}
  }

  /** What is popular, or new. */
  general(from: "trending" | "new", options: ListOptions): Recommendation[] {
    checkOptionNames("options", options, LIST_OPTIONS)
    return this.#page(options, (query) =>
      chooseItems(this.#catalogue, this.#model.reader, { ...query, user: undefined, seen: true, from }),
    )
  }

  /** Items nobody has met are left out: there is nothing to try. */
  #label(trials: readonly CheckedTrial[]): LabelledTrial[] {
    const classes = this.#model.reader.outputs > 1
    return trials.flatMap(({ item: name, rating, stays = false }) => {
      const item = this.#catalogue.names.item.find(name)
      const label = classes ? classLabel(rating) : this.#catalogue.like(rating)
      return item === undefined ? [] : [{ item, label, stays }]
    })
  }

  similar(name: Id, options: ListOptions): Recommendation[] {
    checkOptionNames("options", options, LIST_OPTIONS)
    const item = this.#find("item", name)
    return this.#page(options, (query) => chooseSimilar(this.#catalogue, this.#model.reader, { ...query, item }))
  }

  /** Some users at a time, so that others get a turn; each time by the version there is. */
  async similarUsers(user: Id, options: { count?: number | undefined }): Promise<SimilarUser[]> {
    checkOptionNames("options", options, ["count"])
    const count = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const index = this.#find("user", user)
    const { reader } = this.#model
    const names = this.#catalogue.names.user
    const nameOf = (user: number) => this.#catalogue.nameOf("user", user)
    const own = nameOf(index)
    return this.#turns.run(async (pause) => {
      let found: SimilarUser[] = []
      for (let from = 0; from < names.count; from += USERS_AT_ONCE) {
        // Forgotten meanwhile, and perhaps another user by now.
        if (nameOf(index) !== own || !reader.knows("user", index)) return []
        const others = this.#knownUsers(from, index)
        const cosines = others.length === 0 ? new Float32Array(0) : reader.nearestUsers(index, others)
        const least = found.length < count ? Number.NEGATIVE_INFINITY : found[count - 1].score
        const near = best(cosines, count).filter((at) => cosines[at] > least)
        if (near.length > 0) {
          const some = near.map((at) => ({ user: nameOf(others[at]) as string, score: cosines[at] }))
          found = [...found, ...some].sort((a, b) => b.score - a.score).slice(0, count)
        }
        await pause()
      }
      return found
    })
  }

  /** Of the next users those that have a name and are in the model, but for one. */
  #knownUsers(from: number, but: number): Int32Array {
    const names = this.#catalogue.names.user
    const { reader } = this.#model
    const end = Math.min(names.count, from + USERS_AT_ONCE)
    const known = new Int32Array(end - from)
    const isNamed = (id: number) => this.#catalogue.has("user", id)
    let count = 0
    for (let id = from; id < end; id++) if (isNamed(id) && id !== but && reader.knows("user", id)) known[count++] = id
    return known.subarray(0, count)
  }

  predict(pair: Pair): Prediction {
    return this.predictSome([pair])[0]
  }

  /** Without a pause: for pairs that are few. */
  predictSome(pairs: readonly Pair[]): Prediction[] {
    return predictSome(this.#source, pairs)
  }

  /** In the order of the pairs; many at once have their turn, and pauses. */
  async predictAll(given: readonly Pair[]): Promise<Prediction[]> {
    const pairs = toArray("pairs", given)
    if (pairs.length <= PAIRS_AT_ONCE) return this.predictSome(pairs)
    return this.#turns.run((pause) => predictInPieces(this.#source, pairs, pause))
  }

  async explain(side: Side, id: Id): Promise<Explanation> {
    const index = this.#find(side, id)
    const known = await this.#model.explain(side, index)
    const nothing = { size: 0, bytes: 0, history: [], indicators: { frequency: 0, diversity: null }, bounds: null }
    const about = { id: checkName(side, id), side, ...(known ?? nothing) }
    if (side === "item") return { ...about, events: this.#catalogue.events(index), entry: this.#catalogue.view(index) }
    const history = this.#catalogue.history(index)
    const met = Array.from(history.slice(-MOST_MET)).reverse()
    return {
      ...about,
      events: history.length,
      met: met.map((item) => this.#catalogue.view(item)).map(({ item, title }) => ({ item, title })),
    }
  }

  #find(side: Side, id: Id): number {
    const index = this.#catalogue.find(checkSide(side), checkName(side, id))
    if (index !== undefined) return index
    throw new DessError("NOT_FOUND", `${side}: expected one that has been met, got ${show(id)}`)
  }

  item(item: Id): ItemView | undefined {
    const index = this.#catalogue.names.item.find(checkName("item", item))
    return index === undefined ? undefined : this.#catalogue.view(index)
  }

  /** A few hundred items at a time, so that others get a turn. */
  async search(query: string, options: PageOptions): Promise<ItemView[]> {
    const { offset, count } = checkPage(options)
    const matches = createMatch(query)
    const names = this.#catalogue.names.item
    return this.#turns.run(async (pause) => {
      const found: Record<"first" | "other", number[]> = { first: [], other: [] }
      const details = this.#catalogue.detailStore()?.allDetails()
      let next = details?.next().value
      for (let item = 0; item < names.count; item++) {
        if (item % ITEMS_AT_ONCE === ITEMS_AT_ONCE - 1) await pause()
        while (next && next.item < item) next = details?.next().value
        const name = names.name(item)
        if (name === undefined) continue
        const title = next?.item === item ? next.details.title : undefined
        const rank = matches([name, title ?? "", ...this.#catalogue.entry(item).categories])
        if (rank) found[rank].push(item)
      }
      const byArrival = (a: number, b: number) => this.#catalogue.born(a) - this.#catalogue.born(b)
      const page = [...found.first.sort(byArrival), ...found.other.sort(byArrival)].slice(offset, offset + count)
      return page.filter((item) => names.has(item)).map((item) => this.#catalogue.view(item))
    })
  }

  has(side: Side, id: Id): boolean {
    return this.#catalogue.find(checkSide(side), checkName(side, id)) !== undefined
  }

  ids(side: Side, options: PageOptions): string[] {
    const { offset, count } = checkPage(options)
    return this.#catalogue.list(checkSide(side), offset, count)
  }

  history(user: Id, options: { count?: number }): string[] {
    checkOptionNames("options", options, ["count"])
    const count = checkCount("count", options.count, { least: 1, most: MOST_LISTED, otherwise: 100 })
    const index = this.#catalogue.find("user", checkName("user", user))
    if (index === undefined) return []
    const items = this.#catalogue.history(index).slice(-count).reverse()
    return Array.from(items, (item) => this.#catalogue.names.item.name(item) ?? "")
  }

  /** The indices of a pair; undefined for an id that is not known. */
  pair(user: Id, item: Id): Record<Side, number | undefined> {
    const catalogue = this.#catalogue
    return {
      user: catalogue.find("user", checkName("user", user)),
      item: catalogue.find("item", checkName("item", item)),
    }
  }

  async feedback(
    lookup: Lookup | undefined,
    options: FeedbackOptions,
  ): Promise<{ feedback: FeedbackView[]; next: string | null }> {
    checkOptionNames("options", options, ["user", "item", "type", "count", "after"])
    const count = checkCount("count", options.count, { least: 1, most: MOST_AT_ONCE, otherwise: 100 })
    const catalogue = this.#catalogue
    const type = options.type === undefined ? undefined : checkType(options.type)
    const user = options.user === undefined ? undefined : catalogue.find("user", checkName("user", options.user))
    const item = options.item === undefined ? undefined : catalogue.find("item", checkName("item", options.item))
    const after = options.after === undefined ? undefined : readAfter(options.after)
    const unknown =
      (options.user !== undefined && user === undefined) || (options.item !== undefined && item === undefined)
    if (unknown) return { feedback: [], next: null }
    const { rows, next } = listFeedback(lookup?.feedback({ user, item, after }) ?? [], { type, count })
    const feedback = rows.flatMap((row) => {
      const names = { user: catalogue.nameOf("user", row.user), item: catalogue.nameOf("item", row.item) }
      if (names.user === undefined || names.item === undefined) return []
      const { timestamp, comment } = row
      return { user: names.user, item: names.item, type: row.type, timestamp, comment }
    })
    return { feedback, next: next ? writeAfter(next) : null }
  }

  *items(): Generator<ItemView & { features: readonly number[] | null }> {
    for (const [index, { features }] of this.#catalogue.entries) yield { ...this.#catalogue.view(index), features }
  }
}

/** Whether texts, id and title first, have every word of a query, and whether one of those two begins with it. */
function createMatch(query: unknown): (texts: string[]) => "first" | "other" | undefined {
  if (typeof query !== "string" || query.trim() === "" || query.length > LONGEST_QUERY)
    throw new DessError(
      "INVALID_ARGUMENT",
      `query: expected a text of 1 to ${LONGEST_QUERY} characters, got ${show(query)}`,
    )
  const whole = query.trim().toLowerCase()
  const words = whole.split(/\s+/)
  return (texts) => {
    const low = texts.map((text) => text.toLowerCase())
    if (!words.every((word) => low.some((text) => text.includes(word)))) return undefined
    return low[0].startsWith(whole) || low[1].startsWith(whole) ? "first" : "other"
  }
}

function checkIncluded(given: unknown): readonly Included[] {
  if (Array.isArray(given) && given.every((field) => INCLUDED.includes(field))) return given
  throw new DessError("INVALID_ARGUMENT", `include: expected some of ${INCLUDED.join(", ")}, got ${show(given)}`)
}

/** Which names to list. */
export function checkPage(options: PageOptions): { offset: number; count: number } {
  checkOptionNames("options", options, ["offset", "count"])
  return {
    offset: checkCount("offset", options.offset, { least: 0, most: Number.MAX_SAFE_INTEGER, otherwise: 0 }),
    count: checkCount("count", options.count, { least: 1, most: MOST_LISTED, otherwise: 100 }),
  }
}
