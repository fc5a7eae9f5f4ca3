/** Everything that only reads: the last published version and the catalogue. */

import { DessError, show } from "../errors.ts"
import type { LearnerExplanation } from "../learning/learner.ts"
import type { LabelledTrial, Reader } from "../learning/reader.ts"
import { classLabel } from "../stream/labels.ts"
import type { Side } from "../types.ts"
import type { Catalogue } from "./catalogue.ts"
import {
  type CheckedTrial,
  checkCategories,
  checkCount,
  checkName,
  checkOptionNames,
  checkSide,
  checkType,
  MOST_AT_ONCE,
  toArray,
} from "./check.ts"
import { best, chooseItems, chooseSimilar, type ListQuery } from "./choose.ts"
import type { FeedbackEntry, FeedbackKey, Lookup } from "./lookup.ts"
import { PAIRS_AT_ONCE, type Pair, type PredictionSource, predictInPieces, predictSome } from "./predictions.ts"
import { Turns } from "./turns.ts"
import type {
  Explanation,
  FeedbackOptions,
  FeedbackView,
  GuestOptions,
  Id,
  ItemView,
  Prediction,
  Recommendation,
  RecommendOptions,
  SimilarOptions,
  SimilarUser,
} from "./types.ts"

const MOST_ITEMS = 1000
const MOST_OFFSET = 10_000
const MOST_LISTED = 100_000
const USERS_AT_ONCE = 512
/** Entries of feedback looked at for one answer; of a rare type a page may be short. */
const MOST_LOOKED_AT = 10_000
/** The rating, on the internal scale, of what has none. */
const LIKED = 5

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

  constructor(catalogue: Catalogue, model: ReadModel) {
    this.#catalogue = catalogue
    this.#model = model
    this.#source = { catalogue, reader: model.reader, recent: (user) => this.#recent(user) }
  }

  /** For a user, with what it might do. */
  recommend(user: Id, options: RecommendOptions, trials?: readonly CheckedTrial[]): Recommendation[] {
    const name = checkName("user", user)
    return this.#list(options, {
      user: this.#catalogue.names.user.find(name),
      trials: trials && this.#label(trials),
      recent: this.#recent(name),
    })
  }

  #recent(user: string): LabelledTrial[] {
    return this.#label(this.#model.recent?.(user) ?? [])
  }

  /** For somebody without an id. */
  recommendToGuest({ items, ...options }: GuestOptions): Recommendation[] {
    const recent = toArray("items", items).map((item) => ({ item: checkName("item", item), rating: LIKED }))
    return this.#list(options, { user: undefined, recent: this.#label(recent) })
  }

  /** Indices of known items. */
  #findItems(ids: readonly Id[]): number[] {
    const { item: items } = this.#catalogue.names
    return toArray("items", ids)
      .map((id) => items.find(checkName("item", id)))
      .filter((index) => index !== undefined)
  }

  #list(options: RecommendOptions, asked: Pick<ListQuery, "user" | "recent" | "trials">): Recommendation[] {
    checkOptionNames("options", options, ["count", "offset", "exclude", "only", "categories", "seen"])
    const count = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const offset = checkCount("offset", options.offset, { least: 0, most: MOST_OFFSET, otherwise: 0 })
    const list = chooseItems(this.#catalogue, this.#model.reader, {
      ...asked,
      total: offset + count,
      exclude: this.#findItems(options.exclude ?? []),
      only: options.only && this.#findItems(options.only),
      categories: options.categories && new Set(checkCategories(options.categories)),
      seen: options.seen ?? false,
    })
    return offset === 0 ? list : list.slice(offset)
  }

  /** Items nobody has met are left out: there is nothing to try. */
  #label(trials: readonly CheckedTrial[]): LabelledTrial[] {
    const classes = this.#model.reader.outputs > 1
    return trials.flatMap(({ item: name, rating }) => {
      const item = this.#catalogue.names.item.find(name)
      return item === undefined ? [] : [{ item, label: classes ? classLabel(rating) : this.#catalogue.like(rating) }]
    })
  }

  similar(item: Id, options: SimilarOptions): Recommendation[] {
    checkOptionNames("options", options, ["count", "categories"])
    const total = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const categories = options.categories && new Set(checkCategories(options.categories))
    return chooseSimilar(this.#catalogue, this.#model.reader, { item: this.#find("item", item), total, categories })
  }

  /** A few hundred users at a time, so that others get a turn; each time by the version there is. */
  async similarUsers(user: Id, options: { count?: number | undefined }): Promise<SimilarUser[]> {
    checkOptionNames("options", options, ["count"])
    const count = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const index = this.#find("user", user)
    const { reader } = this.#model
    const names = this.#catalogue.names.user
    const own = names.name(index)
    return this.#turns.run(async (pause) => {
      let found: SimilarUser[] = []
      for (let from = 0; from < names.count; from += USERS_AT_ONCE) {
        // Forgotten meanwhile, and perhaps another user by now.
        if (names.name(index) !== own || !reader.knows("user", index)) return []
        const others = this.#knownUsers(from, index)
        const cosines = others.length === 0 ? new Float32Array(0) : reader.nearestUsers(index, others)
        const least = found.length < count ? Number.NEGATIVE_INFINITY : found[count - 1].score
        const near = best(cosines, count).filter((at) => cosines[at] > least)
        if (near.length > 0) {
          const some = near.map((at) => ({ user: names.name(others[at]) as string, score: cosines[at] }))
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
    let count = 0
    for (let id = from; id < end; id++) if (names.has(id) && id !== but && reader.knows("user", id)) known[count++] = id
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
    const events = side === "user" ? this.#catalogue.history(index).length : this.#catalogue.events(index)
    const explanation = { id: checkName(side, id), side, ...(known ?? nothing), events }
    return side === "item" ? { ...explanation, entry: this.#catalogue.view(index) } : explanation
  }

  #find(side: Side, id: Id): number {
    const index = this.#catalogue.names[checkSide(side)].find(checkName(side, id))
    if (index !== undefined) return index
    throw new DessError("NOT_FOUND", `${side}: expected one that has been met, got ${show(id)}`)
  }

  item(item: Id): ItemView | undefined {
    const index = this.#catalogue.names.item.find(checkName("item", item))
    return index === undefined ? undefined : this.#catalogue.view(index)
  }

  has(side: Side, id: Id): boolean {
    return this.#catalogue.names[checkSide(side)].find(checkName(side, id)) !== undefined
  }

  ids(side: Side, options: { offset?: number; count?: number }): string[] {
    const { offset, count } = checkPage(options)
    return this.#catalogue.names[checkSide(side)].list(offset, count)
  }

  history(user: Id, options: { count?: number }): string[] {
    const count = checkCount("count", options.count, { least: 1, most: MOST_LISTED, otherwise: 100 })
    const index = this.#catalogue.names.user.find(checkName("user", user))
    if (index === undefined) return []
    const items = this.#catalogue.history(index).slice(-count).reverse()
    return Array.from(items, (item) => this.#catalogue.names.item.name(item) ?? "")
  }

  /** The indices of a pair; undefined for an id that is not known. */
  pair(user: Id, item: Id): Record<Side, number | undefined> {
    const { user: users, item: items } = this.#catalogue.names
    return { user: users.find(checkName("user", user)), item: items.find(checkName("item", item)) }
  }

  async feedback(
    lookup: Lookup | undefined,
    options: FeedbackOptions,
  ): Promise<{ feedback: FeedbackView[]; next: string | null }> {
    checkOptionNames("options", options, ["user", "item", "type", "count", "after"])
    const count = checkCount("count", options.count, { least: 1, most: MOST_AT_ONCE, otherwise: 100 })
    const { user: users, item: items } = this.#catalogue.names
    const type = options.type === undefined ? undefined : checkType(options.type)
    const user = options.user === undefined ? undefined : users.find(checkName("user", options.user))
    const item = options.item === undefined ? undefined : items.find(checkName("item", options.item))
    const after = options.after === undefined ? undefined : readAfter(options.after)
    const unknown =
      (options.user !== undefined && user === undefined) || (options.item !== undefined && item === undefined)
    if (unknown) return { feedback: [], next: null }
    const { rows, next } = listFeedback(lookup?.feedback({ user, item, after }) ?? [], { type, count })
    const feedback = rows.flatMap((row) => {
      const names = { user: users.name(row.user), item: items.name(row.item) }
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

/** Which names to list. */
export function checkPage(options: { offset?: number; count?: number }): { offset: number; count: number } {
  return {
    offset: checkCount("offset", options.offset, { least: 0, most: Number.MAX_SAFE_INTEGER, otherwise: 0 }),
    count: checkCount("count", options.count, { least: 1, most: MOST_LISTED, otherwise: 100 }),
  }
}
