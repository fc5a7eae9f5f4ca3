/** The events of the synthetic stream, one after the other. See synthetic.ts for the whole. */

import { exp, log } from "../../kernels/math.ts"
import { Random } from "../../kernels/random.ts"
import { AliasTable } from "./alias.ts"
import type { Catalogue } from "./items.ts"
import { BASE, CHARACTER, logisticTable, NEEDED, ratingOf, WIDTH } from "./rating.ts"
import type { Plan, SyntheticBatch } from "./synthetic.ts"
import { Arrivals, drawEnds, expectedVisits, turnTaste, type Visitor } from "./users.ts"

const VISITS_AT_A_TIME = 5
/** Midnight, 1 January 2000. */
const START = 946684800
const YEAR = 31556952
/** Events are 1 to 16 seconds apart. */
const MEAN_STEP = 8.5
const TRIES = 12
/**
 * Choice by taste: items looked at, what a unit of taste · character adds to an item's log-odds, and what full likeness
 * to the last item adds. Set by controls alone, so that `plain-knn` stands to `plain-popular` about as on ML-1M's first
 * 60,000 events: recall 1.11 and NDCG 1.14 times (there 1.12 and 1.10).
 */
const LOOKED_AT = 100
const BY_TASTE = 1
const BY_LAST = 8
const LIKENESS = BY_LAST / (CHARACTER * CHARACTER * WIDTH)
/** The chance of an item outside the user's genres, at dimension 0. */
const OFF_FOCUS = 0.1
/** How far tastes turn, as tan(angle / 2). */
const TURN = 0.6
const SWING = 0.6
const NOVELTY = 2
const NOVELTY_LASTS = 0.05
const UNIT = 1 / 4294967296

export class Simulation {
  readonly #plan: Plan
  readonly #catalogue: Catalogue
  readonly #random: Random
  readonly #arrivals: Arrivals
  readonly #present: (Visitor | undefined)[]
  readonly #noise = logisticTable()
  /** Items are drawn from a table of their weights, which is renewed now and then. */
  readonly #table: AliasTable
  readonly #weight: Float64Array
  /** Per item: the position in the stream where it came, its events, and its coordinates that speak. */
  readonly #metAt: Float32Array
  readonly #events: Int32Array
  readonly #active: Uint8Array
  /** The items looked at, and the sum of their weights up to each. */
  readonly #looked = new Int32Array(LOOKED_AT)
  readonly #upTo = new Float64Array(LOOKED_AT)
  /** Mean seconds before a visit. */
  readonly #pause: number
  #event = 0
  #clock = START
  #regime = 0
  #met = 0
  #nextItemAt = 0
  #renewAt = 0

  constructor(plan: Plan, catalogue: Catalogue) {
    const { seed, interactions, users, items } = plan
    this.#plan = plan
    this.#catalogue = catalogue
    this.#random = new Random(seed, "events")
    this.#arrivals = new Arrivals(plan)
    this.#present = new Array(Math.min(VISITS_AT_A_TIME, users)).fill(undefined)
    this.#table = new AliasTable(items)
    this.#weight = new Float64Array(items)
    this.#metAt = new Float32Array(items)
    this.#events = new Int32Array(items)
    this.#active = new Uint8Array(items)
    const span = YEAR * Math.max(2, 3 * Math.sqrt(interactions / 1e6))
    this.#pause = Math.max(0, span - MEAN_STEP * interactions) / expectedVisits(plan)
  }

  /** Fills a batch with the next events. */
  fill(batch: SyntheticBatch): void {
    const { character, bias, dimension } = this.#catalogue
    const active = this.#active
    const events = this.#events
    for (let row = 0; row < batch.length; row++) {
      if (this.#event === this.#plan.changeAt) this.#changeRegime()
      // One draw serves three: 15 bits for the visit, 13 for the noise, 4 for the clock.
      const bits = this.#random.bits()
      const visitor = this.#visitor((bits >>> 17) % this.#present.length)
      const item = this.#item(visitor)
      if (visitor.active < visitor.dimension && visitor.events >= NEEDED[visitor.active]) visitor.active++
      if (active[item] < dimension[item] && events[item] >= NEEDED[active[item]]) active[item]++
      const { taste } = visitor
      const shared = Math.min(visitor.active, active[item])
      let score = BASE + visitor.bias + bias[item]
      for (let k = 0, j = item * WIDTH; k < shared; k++, j++) score += taste[k] * character[j]
      batch.user[row] = visitor.index
      batch.item[row] = item
      batch.rating[row] = ratingOf(score + this.#noise[(bits >>> 4) & 8191])
      batch.timestamp[row] = this.#clock
      batch.score[row] = score
      visitor.rate(item)
      events[item]++
      this.#event++
      this.#clock += 1 + (bits & 15)
    }
  }

  /** Whose turn it is; a visit that is over makes place for the next. */
  #visitor(place: number): Visitor {
    const { interactions, users } = this.#plan
    const visitor = this.#present[place]
    // Towards the end every event must bring a user, or not all would come.
    const hurry = users - this.#arrivals.introduced >= interactions - this.#event
    if (visitor !== undefined && visitor.left > 0 && !hurry) return visitor
    const next = this.#arrivals.next(hurry ? users : (users * (this.#event + 1)) / interactions)
    if (next === undefined) return this.#stay(visitor)
    const bits = visitor?.rated ?? new Uint32Array((this.#plan.items + 31) >>> 5)
    if (visitor !== undefined) {
      visitor.leave()
      this.#arrivals.release(visitor, 2 * visitor.events > this.#met)
    }
    next.enter(bits)
    this.#present[place] = next
    this.#turn(next)
    this.#clock += Math.round(this.#pause * -log((this.#random.bits() + 0.5) * UNIT))
    return next
  }

  /** No other user can come: the present ones go on. */
  #stay(visitor: Visitor | undefined): Visitor {
    if (visitor === undefined) return this.#present.find((other) => other !== undefined)!
    this.#arrivals.begin(visitor)
    return visitor
  }

  #turn(visitor: Visitor): void {
    const { seed, drift, interactions } = this.#plan
    if (visitor.regime !== this.#regime) drawEnds(visitor, seed, this.#regime)
    turnTaste(visitor, (TURN * drift * this.#event) / interactions)
  }

  #changeRegime(): void {
    this.#regime++
    for (const visitor of this.#present) if (visitor !== undefined) this.#turn(visitor)
  }

  #item(visitor: Visitor): number {
    const { items, interactions } = this.#plan
    const hurry = items - this.#met >= interactions - this.#event
    if (this.#met < items && (this.#event >= this.#nextItemAt || hurry)) return this.#newItem()
    if (this.#event >= this.#renewAt) this.#renewTable()
    return this.#plan.choice === "taste" ? this.#byTaste(visitor) : this.#byPopularity(visitor)
  }

  /** One of a few items drawn by popularity, in proportion to the exponential of its appeal. */
  #byTaste(visitor: Visitor): number {
    const { character, dimension } = this.#catalogue
    const { taste, last } = visitor
    let sum = 0
    for (let l = 0; l < LOOKED_AT; l++) {
      const item = this.#byPopularity(visitor)
      const shared = Math.min(visitor.dimension, dimension[item])
      let appeal = 0
      for (let k = 0, j = item * WIDTH; k < shared; k++, j++) appeal += BY_TASTE * taste[k] * character[j]
      if (last >= 0)
        for (let k = 0, j = item * WIDTH, i = last * WIDTH; k < WIDTH; k++, j++, i++)
          appeal += LIKENESS * character[i] * character[j]
      sum += exp(appeal)
      this.#looked[l] = item
      this.#upTo[l] = sum
    }
    const x = this.#random.bits() * UNIT * sum
    let l = 0
    while (l < LOOKED_AT - 1 && this.#upTo[l] <= x) l++
    return this.#looked[l]
  }

  #byPopularity(visitor: Visitor): number {
    const { genres, dimension } = this.#catalogue
    const { rated, focus } = visitor
    let item = 0
    for (let tries = 0; tries < TRIES; tries++) {
      item = this.#table.pick(this.#random)
      if ((rated[item >>> 5] >>> (item & 31)) & 1) continue
      if ((genres[item] & ~focus) === 0) return item
      const chance = OFF_FOCUS + ((1 - OFF_FOCUS) * dimension[item]) / (2 * WIDTH)
      if (this.#random.bits() * UNIT < chance) return item
    }
    for (let step = 0; step < this.#met; step++) {
      if (((rated[item >>> 5] >>> (item & 31)) & 1) === 0) return item
      item = item + 1 === this.#met ? 0 : item + 1
    }
    visitor.left = 1
    return item
  }

  #newItem(): number {
    const { items, interactions } = this.#plan
    const item = this.#met++
    this.#metAt[item] = this.#event / interactions
    this.#nextItemAt = interactions * exp((10 / 3) * log(this.#met / items))
    return item
  }

  #renewTable(): void {
    const { popularity, pace, phase } = this.#catalogue
    const now = this.#event / this.#plan.interactions
    const drift = Math.min(1, this.#plan.drift)
    for (let i = 0; i < this.#met; i++) {
      const turns = pace[i] * now + phase[i]
      const wave = 4 * Math.abs(turns - Math.floor(turns) - 0.5) - 1
      const novelty = Math.max(0, 1 - (now - this.#metAt[i]) / NOVELTY_LASTS)
      this.#weight[i] = popularity[i] * (1 + drift * SWING * wave) * (1 + drift * NOVELTY * novelty)
    }
    this.#table.build(this.#weight, this.#met)
    this.#renewAt = this.#event + Math.max(200, this.#met)
  }
}
