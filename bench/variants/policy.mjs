/** The default's policy with one thing changed: how rungs are rewarded, weighed, explored, and what is known of an id. */

import { Random } from "../../dist/kernels/random.js"
import { LinUcb } from "../../dist/policies/lin-ucb.js"
import { LEAST_SHARE, RENT, Rent, USUAL_LOSS } from "../../dist/policies/rent.js"
import { lossesAfter, lossesOfProbe } from "./rewards.mjs"

const SIDES = ["user", "item"]
const { bound } = LinUcb.prototype
const mean = (bandit, arm, x, offset) => bound.call(bandit, arm, x, { offset, unit: 0 })

/** What takes the place of UCB(Δ | x); the draws are the variant's own. */
const EXPLORATION = {
  ucb: () => bound,
  thompson: (random) =>
    function (arm, x, p) {
      const middle = mean(this, arm, x, p.offset)
      return middle + (random.normal() * (bound.call(this, arm, x, p) - middle)) / this.beta()
    },
  "thompson, β wide": (random) =>
    function (arm, x, p) {
      const middle = mean(this, arm, x, p.offset)
      return middle + random.normal() * (bound.call(this, arm, x, p) - middle)
    },
  "ucb, ε-greedy .01 after 20,000 events": (random) =>
    function (arm, x, p) {
      if (this.updates < 20_000) return bound.call(this, arm, x, p)
      return random.next() < 0.01 ? 1 : mean(this, arm, x, p.offset)
    },
  // An explored rung is taken to save 1, the largest loss there is.
  "ε-greedy .01": (random) =>
    function (arm, x, { offset }) {
      return random.next() < 0.01 ? 1 : mean(this, arm, x, offset)
    },
  greedy: () =>
    function (arm, x, { offset }) {
      return mean(this, arm, x, offset)
    },
}

/** A further coordinate in [0, 1] from what is known of an id before the segment. */
const COORDINATES = {
  "nothing (always 0)": () => 0,
  "recent loss": (known) => Math.min(1, 2 * known.loss),
  "time since last seen": (known, now) => Math.log(1 + now - known.last) / Math.log(2001),
  "gradient norm": (known) => Math.min(1, known.gradient),
  "current size": (known) => Math.log2(1 + known.size) / 7.1,
}

/** By part: name, and what is changed. */
export const POLICY_VARIANTS = {
  parts: { "the default": {} },
  rewards: {
    "same event, after it is learned": { reward: "after" },
    "next event, after a probe of one step, η = .1": { reward: "probe", rate: 0.1 },
    "next event, after a probe of one step, η = 1": { reward: "probe", rate: 1 },
    "mean of the id's rows left in the segment": { reward: "rest" },
    "one event in ten judged": { judged: 0.1 },
    "threshold zero": { threshold: "zero" },
    "threshold running median": { threshold: "median" },
    "price per number, whatever the rate": { rates: 0.3 },
    "one bandit per side": { pooled: true },
    "one size at a time": { single: true },
  },
  constants: {
    "patience .3": { settings: { patience: 0.3 } },
    "patience .2": { settings: { patience: 0.2 } },
    "patience .05": { settings: { patience: 0.05 } },
    "σ 1": { settings: { subgaussian: 1 } },
    "σ .5": { settings: { subgaussian: 0.5 } },
    "σ .5, patience .2": { settings: { subgaussian: 0.5, patience: 0.2 } },
    "σ .12": { settings: { subgaussian: 0.12 } },
    "discount .9999": { settings: { discount: 0.9999 } },
    "discount .999999": { settings: { discount: 0.999999 } },
    "ids start with their bias": { start: 0 },
    "ids start with 8 numbers": { start: 8 },
    "ids start with 16 numbers": { start: 16 },
  },
  explore: Object.fromEntries(Object.keys(EXPLORATION).map((explore) => [explore, { explore }])),
  context: Object.fromEntries(Object.keys(COORDINATES).map((coordinate) => [`+ ${coordinate}`, { coordinate }])),
}

/** Runs with a variant's way to explore. */
export function exploring({ explore = "ucb" }, seed, run) {
  LinUcb.prototype.bound = EXPLORATION[explore](new Random(seed, "variants"))
  try {
    return run()
  } finally {
    LinUcb.prototype.bound = bound
  }
}

/** The policy with what a variant changes; counts of what is known of an id are those before its segment. */
export class Variant extends Rent {
  /** Rows learned from, if they are watched. */
  rows = []
  #variant
  #coordinate
  #random
  #known = { user: new Map(), item: new Map() }
  /** What was known of the ids of each row of the last segment, and other rewards of its rows. */
  #before = { user: new Map(), item: new Map() }
  #rewards
  #now = 0
  #grown = { user: new Set(), item: new Set() }
  #median = new Map()
  #sizes

  constructor({ tables, sizes }, variant, { seed, spread, price = 1e-4 }) {
    const coordinate = COORDINATES[variant.coordinate]
    super({
      context: "cv",
      dimension: coordinate ? 4 : 3,
      sizes: { user: tables.user.sizes, item: tables.item.sizes },
      price,
      leastShare: LEAST_SHARE,
      usualLoss: USUAL_LOSS.binary,
      ...RENT,
      ...variant.settings,
      // Where rewards are 0 and 1, that is their spread.
      prior: variant.threshold ? 1 : spread,
    })
    this.#variant = variant
    this.#coordinate = coordinate
    this.#random = new Random(seed, "judged")
    this.#sizes = sizes
  }

  /** Takes note of every row a segment trains on. */
  see(batch, model, train) {
    const { reward, rate } = this.#variant
    const lengths = SIDES.map((side) => Array.from(batch[side], (id) => lengthOf(model, side, id)))
    for (const side of SIDES)
      this.#before[side] = new Map(Array.from(batch[side], (id) => [id, this.#of(side, id, model)]))
    if (reward === "probe") this.#rewards = lossesOfProbe(model, batch, rate)
    const result = train()
    if (reward === "after") this.#rewards = lossesAfter(model, batch)
    SIDES.forEach((side, at) => {
      for (let r = 0; r < batch.user.length; r++) {
        const { first, loss, gradient } = this.#of(side, batch[side][r], model)
        const next = { first, last: this.#now, loss: loss + 0.1 * (result.losses[r] - loss), gradient }
        next.gradient += 0.1 * (Math.sqrt(result.losses[r]) * lengths[1 - at][r] - gradient)
        this.#known[side].set(batch[side][r], next)
      }
    })
    this.#now++
    return result
  }

  #of(side, id, model) {
    const known = this.#known[side].get(id) ?? { first: this.#now, last: this.#now, loss: 0.2, gradient: 0 }
    const table = model?.tables[side]
    return { ...known, size: table?.has(id) ? model.sizes[table.step(id)] : 0 }
  }

  learn(side, round) {
    const arms = new Uint8Array(round.length)
    const { rows, changed } = this.#change(side, round)
    const played = super.learn(side, changed)
    rows.forEach((l, at) => {
      arms[l] = played[at]
    })
    return arms
  }

  learnUnplayed(side, round) {
    super.learnUnplayed(side, this.#change(side, round).changed)
  }

  /** A new segment begins, of any task. */
  advanceTime(time) {
    super.advanceTime(time)
    for (const side of SIDES) this.#grown[side].clear()
  }

  /** A round as the variant sees it, and which rows are left of it. */
  #change(side, round) {
    const { judged = 1, reward, threshold, pooled } = this.#variant
    const before = this.#before[side]
    if (this.#variant.watched) this.#watch(side, round)
    let saved = Array.from(round.growRewards)
    if (reward === "rest") saved = meansOfRest(round)
    else if (reward) saved = this.#otherRewards(side, round)
    const rows = saved
      .map((value, l) => (Number.isFinite(value) && (judged === 1 || this.#random.next() < judged) ? l : -1))
      .filter((l) => l >= 0)
    const changed = pick(
      this.#widen(round, (l) => this.#coordinate(before.get(round.ids[l]), this.#now - 1)),
      rows,
    )
    rows.forEach((l, at) => {
      changed.growRewards[at] = saved[l]
      if (threshold) changed.growRewards[at] = saved[l] > this.#thresholdFor(side, round.steps[l], saved[l]) ? 1 : 0
      if (threshold) changed.keepRewards[at] = 0.5
      if (pooled) changed.growRewards[at] *= this.#numbers(0) / this.#numbers(round.steps[l])
    })
    if (pooled) changed.steps.fill(0)
    return { rows, changed }
  }

  #numbers(step) {
    return this.#sizes[step + 1] - this.#sizes[step]
  }

  #thresholdFor(side, step, saved) {
    if (this.#variant.threshold === "zero") return 0
    const key = `${side} ${step}`
    const median = this.#median.get(key) ?? 0
    this.#median.set(key, median + (saved > median ? 1e-5 : -1e-5))
    return median
  }

  /** The n-th row of an id on a rung gets the reward of its n-th row in the segment. */
  #otherRewards(side, round) {
    const seen = new Map()
    return Array.from(round.ids, (id, l) => {
      const key = id * 8 + round.steps[l]
      const n = seen.get(key) ?? 0
      seen.set(key, n + 1)
      return this.#rewards[side].get(id)?.[n]?.[round.steps[l]] ?? Number.NaN
    })
  }

  #watch(side, round) {
    for (let l = 0; l < round.length; l++) {
      const [diversity, frequency] = [round.contexts[3 * l + 1], round.frequencies[l]]
      const age = this.#now - 1 - this.#before[side].get(round.ids[l]).first
      this.rows.push({ side, step: round.steps[l], frequency, age, diversity, saved: round.growRewards[l] })
    }
  }

  decide(side, choices) {
    const arms = this.#ask(side, choices, { down: 0, ask: super.decide, above: 1 })
    if (this.#variant.single)
      choices.ids.forEach((id, i) => {
        if (this.#grown[side].has(id)) arms[i] = 0
        else if (arms[i] === 1) this.#grown[side].add(id)
      })
    return arms
  }

  release(side, choices) {
    return this.#ask(side, choices, { down: 1, ask: super.release, above: 0 })
  }

  #ask(side, choices, { down, ask, above }) {
    const { pooled, rates, threshold } = this.#variant
    let seen = this.#widen(choices, (i) => {
      const known = this.#of(side, choices.ids[i])
      return this.#coordinate({ ...known, size: this.#sizes[choices.steps[i]] }, this.#now)
    })
    if (rates) seen = { ...seen, rates: new Float64Array(choices.length).fill(rates) }
    if (threshold) {
      const at = (i) => ({ step: choices.steps[i] - down, rate: 1 })
      const context = (i) => seen.contexts.subarray(3 * i, 3 * i + 3)
      return Uint8Array.from(choices.ids, (_, i) => {
        const pays = this.scores(side, context(i), at(i)).grow > 0.5 && (seen.rates?.[i] ?? 0) > 0
        return pays === (above === 1) ? 1 : 0
      })
    }
    // With one bandit per side every rung is the first, and saves what two of its numbers do.
    if (pooled) seen = { ...seen, steps: new Uint8Array(choices.length).fill(down) }
    return ask.call(this, side, seen)
  }

  /** Contexts with one coordinate more, of length 1 at most as before. */
  #widen(choices, coordinate) {
    if (!this.#coordinate) return choices
    const contexts = new Float64Array(4 * choices.length)
    for (let l = 0; l < choices.length; l++) {
      for (let c = 0; c < 3; c++) contexts[4 * l + c] = choices.contexts[3 * l + c] * Math.sqrt(3 / 4)
      contexts[4 * l + 3] = coordinate(l) / 2
    }
    return { ...choices, contexts }
  }
}

/** For each row the mean of what this and the id's later rows on the same rung saved. */
function meansOfRest(round) {
  const sums = new Map()
  const out = new Array(round.length)
  for (let l = round.length - 1; l >= 0; l--) {
    const key = round.ids[l] * 8 + round.steps[l]
    const { sum, count } = sums.get(key) ?? { sum: 0, count: 0 }
    const next = { sum: sum + round.growRewards[l], count: count + 1 }
    sums.set(key, next)
    out[l] = next.sum / next.count
  }
  return out
}

/** A copy of a round with some of its rows. */
function pick(round, rows) {
  const cut = (values) => {
    const width = values.length / (round.length || 1)
    const out = new values.constructor(rows.length * width)
    rows.forEach((row, at) => {
      for (let c = 0; c < width; c++) out[at * width + c] = values[row * width + c]
    })
    return out
  }
  return Object.fromEntries(
    Object.entries(round).map(([key, value]) => [key, key === "length" ? rows.length : cut(value)]),
  )
}

function lengthOf(model, side, id) {
  const table = model.tables[side]
  if (!table.has(id)) return 0
  const at = table.placeOf(id) + model.heads[side]
  let sum = 0
  for (let k = 0; k < model.sizes[table.step(id)]; k++) sum += table.numbersOf(id)[at + k] ** 2
  return Math.sqrt(sum)
}
