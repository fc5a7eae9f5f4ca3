/** Everything that only reads: the last published version and the catalogue. */

import { DessError, show } from "../errors.ts"
import type { LearnerExplanation } from "../run/learner.ts"
import type { LabelledTrial } from "../run/reader.ts"
import { classLabel } from "../stream/labels.ts"
import type { Side } from "../types.ts"
import type { Catalogue } from "./catalogue.ts"
import { type CheckedTrial, checkCategories, checkCount, checkName, checkSide, toArray } from "./check.ts"
import { chooseItems, chooseSimilar, expected, sigmoid, softmax } from "./choose.ts"
import type { Learning } from "./learning.ts"
import type {
  Explanation,
  Id,
  ItemView,
  Prediction,
  Recommendation,
  RecommendOptions,
  SimilarOptions,
} from "./types.ts"

const MOST_ITEMS = 1000
const MOST_OFFSET = 10_000
const MOST_LISTED = 100_000

export class Reading {
  readonly #catalogue: Catalogue
  readonly #learning: Learning

  constructor(catalogue: Catalogue, learning: Learning) {
    this.#catalogue = catalogue
    this.#learning = learning
  }

  recommend(user: Id, options: RecommendOptions, trials: readonly CheckedTrial[] = []): Recommendation[] {
    const { item: items, user: users } = this.#catalogue.names
    const count = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const offset = checkCount("offset", options.offset, { least: 0, most: MOST_OFFSET, otherwise: 0 })
    const find = (ids: readonly Id[]) =>
      toArray("items", ids)
        .map((id) => items.find(checkName("item", id)))
        .filter((index) => index !== undefined)
    const list = chooseItems(this.#catalogue, this.#learning.reader, {
      user: users.find(checkName("user", user)),
      total: offset + count,
      exclude: find(options.exclude ?? []),
      only: options.only && find(options.only),
      categories: options.categories && new Set(checkCategories(options.categories)),
      seen: options.seen ?? false,
      trials: this.#label(trials),
    })
    return offset === 0 ? list : list.slice(offset)
  }

  /** Items nobody has met are left out: there is nothing to try. */
  #label(trials: readonly CheckedTrial[]): LabelledTrial[] {
    const classes = this.#learning.reader.outputs > 1
    return trials.flatMap(({ item: name, rating }) => {
      const item = this.#catalogue.names.item.find(name)
      return item === undefined ? [] : [{ item, label: classes ? classLabel(rating) : this.#catalogue.like(rating) }]
    })
  }

  similar(item: Id, options: SimilarOptions): Recommendation[] {
    const total = checkCount("count", options.count, { least: 1, most: MOST_ITEMS, otherwise: 10 })
    const categories = options.categories && new Set(checkCategories(options.categories))
    return chooseSimilar(this.#catalogue, this.#learning.reader, { item: this.#find("item", item), total, categories })
  }

  predict(pair: { user: Id; item: Id }): Prediction {
    const [user, item] = [checkName("user", pair?.user), checkName("item", pair?.item)]
    const { reader } = this.#learning
    const indices = { user: this.#catalogue.names.user.find(user), item: this.#catalogue.names.item.find(item) }
    const known = {
      user: indices.user !== undefined && reader.knows("user", indices.user),
      item: indices.item !== undefined && reader.knows("item", indices.item),
    }
    const both = known.user && known.item
    const logits = both ? reader.scoresOf(indices.user as number, [indices.item as number]) : undefined
    const average = this.#catalogue.average()
    if (reader.outputs === 1) return { user, item, score: logits ? sigmoid(logits[0]) : average.likes, known }
    const probabilities = logits ? softmax(logits) : average.classes
    return { user, item, score: expected(probabilities), probabilities, known }
  }

  /** Asks the training thread; answered between two segments. */
  async explain(side: Side, id: Id): Promise<Explanation> {
    const index = this.#find(side, id)
    const known = await this.#learning.thread.ask<LearnerExplanation | undefined>({ kind: "explain", side, index })
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
    const offset = checkCount("offset", options.offset, { least: 0, most: Number.MAX_SAFE_INTEGER, otherwise: 0 })
    const count = checkCount("count", options.count, { least: 1, most: MOST_LISTED, otherwise: 100 })
    return this.#catalogue.names[checkSide(side)].list(offset, count)
  }

  history(user: Id, options: { count?: number }): string[] {
    const count = checkCount("count", options.count, { least: 1, most: MOST_LISTED, otherwise: 100 })
    const index = this.#catalogue.names.user.find(checkName("user", user))
    if (index === undefined) return []
    const items = this.#catalogue.history(index).slice(-count).reverse()
    return Array.from(items, (item) => this.#catalogue.names.item.name(item) ?? "")
  }

  *items(): Generator<ItemView & { features: readonly number[] | null }> {
    for (const [index, { features }] of this.#catalogue.entries) yield { ...this.#catalogue.view(index), features }
  }
}
