/**
 * The embedded stream: a seeded imitation of MovieLens whose truth is known. Frozen: studies rely on its numbers,
 * so a change of any constant or of the order of draws is a new stream and needs a new name.
 *
 * **Rating** of user u and item i at event t, an ordered logit in half steps from 0.5 to 5:
 *
 *     score  = 0.25 + bias_u + bias_i + Σ_{k < min(active_u, active_i)} taste_uk · character_ik
 *     rating = (1 + #{ cuts below score + logistic noise }) / 2          P(rating > 3.5) = sigmoid(score)
 *
 * Every id draws its dimension from 0, 1, 2, 4, 8, 12, 16, 16; of these coordinates the first speaks after 3 events of
 * the id, the 4th after 16, the 8th after 48, the 16th after 240 (`active`). bias_u ~ N(0, 1.35²), bias_i ~ N(0, 1.2²)
 * and higher for popular items, taste ~ N(0, 1), character ~ N(0, 0.85²), two fifths of it shared by items of like genres.
 *
 * **Users** come in order of index, evenly over the stream, and rate in visits; five visits run at a time and the next
 * event belongs to any of them. First visits last 65·e^(0.8z) events, later ones 28·e^(0.7z), z normal, both stretched
 * by interactions per user / 144.41. 37 % never return; 55 % may for about 3 % of the stream, 8 % for about 35 %.
 *
 * **Items** come in order of index, the i-th of I when (i/I)^(10/3) of the stream has passed. An event is of a new item
 * if one is due, else of one the user has not rated, drawn by popularity 1/(60 + i·e^z). Users keep to 2 + dimension
 * genres (all, from dimension 12 on): an item with another genre is taken in 10 % of cases, rising to 55 % with the
 * item's dimension. So IND tells of a user's dimension and POD of an item's. No pair comes twice, unless so few users
 * and items were asked for that those who are there have rated everything.
 *
 * **Choice.** What is drawn so depends on popularity and genres alone, so that a list can hardly be better than what is
 * popular. With `choice: "taste"` a user looks at 100 such items and takes one with odds e^appeal, appeal = Σ taste ·
 * character over all coordinates both have + 8 · likeness to the item before in the visit, as people do: ratings are
 * higher then, and lists can learn from tastes and from what follows what.
 *
 * **Drift** (times `drift`): popularity swings by ±60 % in one to four waves and is threefold when an item is new;
 * tastes turn by 62° over the whole stream. `change` draws all tastes again at one point.
 *
 * **Time** runs over 3·√(millions of interactions) years, at least 2: events are seconds apart, visits longer.
 *
 * Memory is that of the items and of the users who may still return, whatever the length.
 */

import { DessError, show } from "../../errors.ts"
import { exp, log } from "../../kernels/math.ts"
import type { InteractionBatch, ItemFeatures } from "../../types.ts"
import { checkRange, checkSeed, checkWhole } from "../check.ts"
import { emptyBatch, type NamedStream } from "../columns.ts"
import { Simulation } from "./events.ts"
import { drawCatalogue } from "./items.ts"
import { activeDimension, expectedRating, likeProbability } from "./rating.ts"
import { drawPerson } from "./users.ts"

/** Users and items grow with it and are held in memory. */
const MOST_INTERACTIONS = 1e9

export interface SyntheticOptions {
  interactions?: number
  /** By default one per 144.41 interactions, as in ML-20M. */
  users?: number
  /** By default 3,700 at a million interactions, 27,262 at 20 million. */
  items?: number
  seed?: number
  /** 0 to 2: how fast popularity and taste move. */
  drift?: number
  /** The same as `drift: 0`. Ids still come, and their coordinates still appear. */
  stationary?: boolean
  /** The fraction of the stream after which every user has another taste. */
  change?: { at: number }
  /** How users choose items: by popularity within their genres (default), or of these by taste and by what they chose last. */
  choice?: Choice
  /** Rows per batch; the interactions do not depend on it. */
  batchLength?: number
}

export const CHOICES = ["popular", "taste"] as const
export type Choice = (typeof CHOICES)[number]

/** A batch with the score behind each rating. For tests and oracles: a segment does not carry it. */
export interface SyntheticBatch extends InteractionBatch {
  score: Float32Array
}

/** What is known about the stream. */
export interface Truth {
  /** The dimension of an id, or the part of it that speaks after `events` events. */
  userDimension(index: number, events?: number): number
  itemDimension(index: number, events?: number): number
  /** Biases in logits. */
  userBias(index: number): number
  itemBias(index: number): number
  /** P(rating > 3.5) and the mean rating, given a score. */
  likeProbability(score: number): number
  expectedRating(score: number): number
}

export interface SyntheticStream extends NamedStream {
  readonly features: ItemFeatures
  readonly truth: Truth
  batches(): Iterable<SyntheticBatch>
}

/** The options, completed. `changeAt` is an event. */
export interface Plan {
  interactions: number
  users: number
  items: number
  seed: number
  drift: number
  changeAt: number
  choice: Choice
}

/** The stream of the given size and seed. */
export function synthetic(options: SyntheticOptions = {}): SyntheticStream {
  const plan = completePlan(options)
  const { interactions, users, items, seed } = plan
  const batchLength = checkWhole("batch length", options.batchLength ?? 8192, 1)
  const catalogue = drawCatalogue(seed, items)
  const person = (index: number) => drawPerson(seed, checkIndex("user", index, users))
  const item = (index: number) => checkIndex("item", index, items)

  function* batches(): Generator<SyntheticBatch> {
    const simulation = new Simulation(plan, catalogue)
    for (let start = 0; start < interactions; start += batchLength) {
      const length = Math.min(batchLength, interactions - start)
      const batch = { ...emptyBatch(length), score: new Float32Array(length) }
      simulation.fill(batch)
      yield batch
    }
  }

  return {
    name: "synthetic",
    interactions,
    users,
    items,
    features: catalogue.features,
    truth: {
      userDimension: (index, events) => activeDimension(person(index).dimension, events),
      itemDimension: (index, events) => activeDimension(catalogue.dimension[item(index)], events),
      userBias: (index) => person(index).bias,
      itemBias: (index) => catalogue.bias[item(index)],
      likeProbability,
      expectedRating,
    },
    batches,
    userName: (index) => `u${checkIndex("user", index, users)}`,
    itemName: (index) => `i${checkIndex("item", index, items)}`,
  }
}

function completePlan(options: SyntheticOptions): Plan {
  const interactions = checkWhole("interactions", options.interactions ?? 100_000, 1)
  checkRange("interactions", interactions, [1, MOST_INTERACTIONS])
  const users = options.users ?? Math.max(1, Math.round(interactions / 144.41))
  const items = options.items ?? defaultItems(interactions)
  for (const [name, count] of Object.entries({ users, items })) {
    if (checkWhole(name, count, 1) <= interactions) continue
    const expected = `at most the ${interactions} interactions`
    throw new DessError("INVALID_ARGUMENT", `${name}: expected ${expected}, got ${show(count)}`)
  }
  const drift = checkRange("drift", options.drift ?? 1, [0, 2])
  const change = options.change === undefined ? 1 : checkRange("change at", options.change.at, [0, 1])
  return {
    interactions,
    users,
    items,
    seed: checkSeed(options.seed ?? 1),
    drift: options.stationary ? 0 : drift,
    changeAt: Math.ceil(change * interactions),
    choice: checkChoice(options.choice ?? "popular"),
  }
}

function checkChoice(choice: Choice): Choice {
  if (CHOICES.includes(choice)) return choice
  throw new DessError("INVALID_ARGUMENT", `choice: expected ${CHOICES.join(" or ")}, got ${show(choice)}`)
}

/** 3,700 at a million interactions, growing with the cube root below and with its square above. */
function defaultItems(interactions: number): number {
  const millions = interactions / 1e6
  const growth = exp((millions < 1 ? 1 / 3 : 2 / 3) * log(millions))
  return Math.min(interactions, Math.round(3700 * growth))
}

function checkIndex(side: string, index: number, count: number): number {
  if (Number.isInteger(index) && index >= 0 && index < count) return index
  throw new DessError("NOT_FOUND", `${side} index: expected a whole number from 0 to ${count - 1}, got ${show(index)}`)
}
