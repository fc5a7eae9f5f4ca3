/**
 * Judges both arms of a rung during training. Before a row of a segment is learned, it is predicted with its user, and
 * with its item, cut to every size up to the one held. The policy learns from these predictions at the next segment
 * (method.md §3, step 1): it plays the last rung held and learns about those below. Then it decides on the ids of that
 * segment, and on ids that are no longer met.
 */

import { DistinctIds } from "../ids/distinct-ids.ts"
import { Warmup } from "../ids/warmup.ts"
import { exp, log } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import { type RowModel, type RungLosses, rungEnergy } from "../models/calibrated/rows.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { OwnRows } from "../models/own/row-model.ts"
import type { Context } from "../policies/context.ts"
import type { ArrangedRows, PolicyScores, Round } from "../policies/policy.ts"
import { RENT } from "../policies/rent.ts"
import { type Segment, SIDES, type Side } from "../types.ts"
import {
  type Decided,
  type Judge,
  nothingPlayed,
  type Played,
  playRound,
  type SearchOptions,
  toArmScores,
  whyGrown,
} from "./judge.ts"
import { emptyJudged, heldOn, type Judged, loadJudged, saveJudged, withoutRows } from "./judged-rows.ts"
import { RatedChoices, RungRound } from "./rung-choices.ts"
import { SegmentMemory } from "./segment-memory.ts"
import type { Resizing, SizedRows } from "./sized-rows.ts"

/**
 * Ids checked per event and side, so that each is checked every few turns; slower where only numbers that cost nothing
 * are given back. And for how many turns an id met lately may be away.
 */
const SWEEP = 0.25
const LEISURELY_SWEEP = 1 / 8
const TIGHT_SWEEP = 1
const IDLE = 1

/** Events judged per turn: as many as a site of 1,000 ids has. What is known of a rung, and how fast, is so the same on larger ones. */
const JUDGED = 500

/** Events per turn everybody counts for in ranking where nothing is asked: rows start wide there, and few change. */
const USUAL_RATE = 2
/** The most an id counts for at the least price; the higher the price, the more. */
const MOST_RATE = 4

/** No id grows to more numbers than this times its events: exploring a rung is left to ids that could use it. */
const NUMBERS_PER_EVENT = 8

/**
 * Under a budget the price follows the share of it that is used. From `SPARE` on it rises and falls with it, by a fifth for a
 * hundredth of the budget, and what ids had to give up for new ones counts as used. Beside that it moves as long as `FULL` is
 * not reached, or more: by a factor of e^0.15 a turn at most, where the share is `ROOM` away. It stays between an eighth of
 * the least price, since who names a budget wants it used, and 1.
 */
const FULL = 0.96
const ROOM = 0.05
const SPEED = 0.15
const SPARE = 0.8
const GRIP = 20
const BELOW_LEAST = 1 / 8
const HIGHEST_PRICE = 1
const NO_ARMS = new Uint8Array(0)

/** Share of the loss of its events that an id's biases are taken to save: on ML-1M those of both sides save a fifth. */
const BIAS_WORTH = 0.2

/** A model whose rungs it can judge. */
type JudgedModel = RowModel | OwnRows

export class RungJudge<M extends JudgedModel = RowModel> implements Judge {
  readonly options: SearchOptions
  readonly needsRows = false
  readonly context: Context | undefined
  readonly #rows: SizedRows<M>
  readonly #cursor: Record<Side, number> = { user: 0, item: 0 }
  /** Ids swept in the segment at hand, before the cursor. */
  readonly #swept: Record<Side, number> = { user: 0, item: 0 }
  /** Ids at rest that may leave before the next segment. */
  readonly #leaving: Record<Side, number[]> = { user: [], item: [] }
  readonly #warmup: Warmup
  #waiting: Judged | undefined
  /** The rows of the segment at hand that are judged. */
  #deciding: Judged | undefined
  /** The rows to be trained on next. */
  #training: Record<Side, Int32Array> | undefined
  /** Turns of the segment at hand, and its events; all events so far. */
  #turns = 0
  #length = 0
  #events = 0
  readonly #memory = new SegmentMemory()
  /** What was learned ahead of the next segment. */
  #early: Played | undefined
  /** When ids were looked at last; with other processes more time passes than that of the segments here. */
  #looked = 0
  /** Ids of the segment at hand to be decided on. */
  readonly #due: Record<Side, DistinctIds> = { user: new DistinctIds(), item: new DistinctIds() }
  /** Room for choices and rounds, used again and again. */
  readonly #gathered: RatedChoices
  readonly #growing: RatedChoices
  readonly #rounds: Record<"last" | "below", RungRound>
  /** Losses by rung of the rows of a batch. */
  readonly #losses: Record<Side, Float64Array> = { user: new Float64Array(0), item: new Float64Array(0) }
  /** Whether returns are counted in the segment at hand. */
  #counts = false
  /** Share of a budget that was used after the last segment. */
  #used = 0
  /** Rows seen, of which a share is judged. */
  #seen = 0
  /** Losses of judged rows, and what they would have been with biases alone, discounted. */
  #withAndWithout = { held: 0, none: 0 }

  constructor(rows: SizedRows<M>, options: SearchOptions, context: Context | undefined) {
    this.#rows = rows
    this.options = options
    this.context = context
    const dimension = context?.dimension ?? 0
    this.#gathered = new RatedChoices(dimension)
    this.#growing = new RatedChoices(dimension)
    this.#rounds = { last: new RungRound(dimension), below: new RungRound(dimension) }
    this.#warmup = new Warmup(rows.model.warmupEvents)
  }

  /** Step 1: the policy plays and learns the rows judged in the last segment. */
  learn(): Played {
    this.#memory.begin()
    const early = this.#early
    this.#early = undefined
    if (early) return early
    const result = nothingPlayed()
    const waiting = this.#waiting
    if (!waiting || waiting.trained === 0) return result
    const { policy } = this.options
    for (const side of SIDES) {
      const { regret, played } = playRound(policy, side, this.#round(side, waiting, "last"))
      policy.learnUnplayed?.(side, this.#round(side, waiting, "below"))
      result.regret[side] = regret
      result.played[side] = played
    }
    return result
  }

  /** Tells the policy how much time has passed, and which rungs the rows it has just learned were held on. */
  #advanceTime(turns: number): void {
    const { length } = this.#rows.model.sizes
    this.options.policy.advanceTime?.({ turns, ...heldOn(this.#waiting, length - 1) })
  }

  /** Lets the policy learn at once what it would learn at the next segment. */
  learnNow(): void {
    this.#early ??= this.learn()
    this.#waiting = undefined
  }

  /** The last rung held on each row, or those below it, each as a choice between the size below (keep) and its own (grow). */
  #round(side: Side, waiting: Judged, part: "last" | "below"): Round {
    const { preset, policy } = this.options
    const { costs } = this.#rows.model.tables[side]
    const d = this.context?.dimension ?? 0
    const { trained } = waiting
    const held = waiting.steps[side]
    const own = {
      ids: waiting.ids[side],
      frequencies: waiting.frequencies[side],
      contexts: waiting.contexts[side],
      rates: waiting.rates[side],
      losses: waiting.losses[side],
    }
    const isPaper = preset.name === "paper"
    let length = 0
    for (let l = 0; l < trained; l++) if (held[l] > 0) length += part === "last" ? 1 : held[l] - 1
    const round = this.#rounds[part].resize(length)
    const price = policy.price ?? this.options.price ?? 0
    let i = 0
    for (let l = 0; l < trained; l++) {
      const end = part === "last" ? held[l] : held[l] - 1
      for (let step = part === "last" ? Math.max(0, end - 1) : 0; step < end; step++) {
        const at = l * costs.length + step
        const saved = own.losses[at] - own.losses[at + 1]
        round.steps[i] = step
        for (let c = 0; c < d; c++) round.contexts[i * d + c] = own.contexts[l * d + c]
        round.growRewards[i] = isPaper ? (saved > 0 ? 1 : 0) : saved
        // What is only played.
        if (part === "last") {
          round.ids[i] = own.ids[l]
          round.frequencies[i] = own.frequencies[l]
          round.keepLosses[i] = own.losses[at]
          round.growLosses[i] = own.losses[at + 1]
          round.keepRewards[i] = isPaper ? 0 : (price * (costs[step + 1] - costs[step])) / own.rates[l]
        }
        i++
      }
    }
    return round
  }

  /**
   * Takes in the rows to be trained on, one by one, and indicators and rates of those to be judged. The other rows wait for
   * `finish`: nothing that is decided may know of them.
   */
  observe(segment: Segment, { deciding }: { deciding: number }): void {
    this.#rows.expect(segment)
    this.#length = segment.length
    this.#events += segment.length
    this.#turns = this.#rows.advance(segment.length)
    if (!this.#rows.share) this.#advanceTime(this.#turns)
    this.#training = { user: segment.user.subarray(0, deciding), item: segment.item.subarray(0, deciding) }
    const { indicators, returns, turn, model } = this.#rows
    this.#counts = this.options.policy.release !== undefined && (this.#isAsked || model.task !== "topk")
    if (this.#counts) returns.advanceTime(segment.length * turn)
    const waiting = emptyJudged(this.#chooseJudged(deciding), {
      d: this.context?.dimension ?? 0,
      sizes: model.sizes.length,
    })
    const unjudged = this.#memory.bytes(deciding).fill(1)
    for (const row of waiting.rows) unjudged[row] = 0
    const floats = () => this.#memory.floats(deciding)
    const seen = { userFrequency: floats(), itemFrequency: floats(), ind: floats(), pod: floats() }
    const batch = { length: deciding, user: segment.user, item: segment.item }
    indicators.observeBatch(batch, seen, { user: unjudged, item: unjudged })
    for (const side of SIDES) this.#due[side].clear()
    const [users, items] = [this.#due.user, this.#due.item]
    let next = 0
    for (let l = 0; l < deciding; l++) {
      const at = this.#timeOf(segment, l)
      const [user, item] = [segment.user[l], segment.item[l]]
      const [byUser, byItem] = [seen.userFrequency[l], seen.itemFrequency[l]]
      this.#meet("user", user, byUser - 1, at)
      this.#meet("item", item, byItem - 1, at)
      if (this.#isDue(byUser)) users.add(user)
      if (this.#isDue(byItem) && this.#rows.decides("item", item)) items.add(item)
      if (unjudged[l] === 1) continue
      this.#observeOne(waiting, "user", next, { id: user, frequency: byUser, diversity: seen.ind[l] })
      this.#observeOne(waiting, "item", next, { id: item, frequency: byItem, diversity: seen.pod[l] })
      next++
    }
    this.#deciding = waiting
  }

  /**
   * Whether an id is decided on at its event of this number: a policy that releases sees little new in a quarter more, and
   * below 16 it may grow only where its events have doubled.
   */
  #isDue(frequency: number): boolean {
    if (!this.options.policy.release) return true
    return frequency < 16 ? (frequency & (frequency - 1)) === 0 : frequency % (1 << (29 - Math.clz32(frequency))) === 0
  }

  /** Which of the next rows are judged. */
  #chooseJudged(count: number): Int32Array {
    const share = this.options.policy.release ? Math.min(1, JUDGED * this.#rows.turn) : 1
    const rows = new Int32Array(count)
    let length = 0
    for (let row = 0; row < count; row++) {
      // Multiples of the golden section: an even share of every part of the stream.
      this.#seen = (this.#seen + 1) >>> 0
      if (Math.imul(this.#seen, 0x9e3779b1) >>> 0 < share * 0x1_0000_0000) rows[length++] = row
    }
    return rows.subarray(0, length)
  }

  #observeOne(waiting: Judged, side: Side, to: number, p: { id: number; frequency: number; diversity: number }): void {
    const { context } = this
    waiting.ids[side][to] = p.id
    waiting.frequencies[side][to] = p.frequency
    waiting.rates[side][to] = this.#rate(side, p.frequency, 0)
    context?.write(waiting.contexts[side], to * context.dimension, this.#frequency(p.frequency), p.diversity)
  }

  /** Counts the rows that decided nothing, once all is decided: they are events of their ids like any other. */
  #observeRest(segment: Segment, deciding: number): void {
    const { indicators } = this.#rows
    for (let l = deciding; l < segment.length; l++) {
      const at = this.#timeOf(segment, l)
      for (const side of SIDES) {
        const id = segment[side][l]
        this.#meet(side, id, indicators.frequency(side, id), at)
      }
      indicators.observe(segment.user[l], segment.item[l])
    }
  }

  /** When a row of the segment at hand was. */
  #timeOf({ length }: Segment, row: number): number {
    const { time, turn } = this.#rows
    return time - (length - 1 - row) * turn
  }

  /** Counts an event of an id that was met so often before. */
  #meet(side: Side, id: number, frequency: number, at: number): void {
    const { lastMet, returns, arrived } = this.#rows
    const idle = lastMet.meet(side, id, at)
    if (this.#counts && idle < Number.POSITIVE_INFINITY && !(side === "user" && arrived.size > 0 && arrived.has(id)))
      returns.hit(side, frequency, idle)
  }

  /** Looks at the ids swept last: so much time they are there to be met. */
  #look(): void {
    const { indicators, lastMet, returns, time } = this.#rows
    const elapsed = time - this.#looked
    this.#looked = time
    if (!this.#counts) return
    for (const side of SIDES) {
      const table = this.#rows.model.tables[side]
      const looks = this.#swept[side]
      for (let n = 1; n <= looks; n++) {
        const id = (this.#cursor[side] + table.reach - n) % table.reach
        if (!table.has(id) || !this.#rows.decides(side, id)) continue
        const idle = lastMet.idle(side, id, time)
        const weight = (elapsed * table.reach) / looks
        if (Number.isFinite(idle)) returns.look(side, indicators.frequency(side, id), { idle, weight })
      }
    }
  }

  /** Events per turn to be expected of an id: what ids like it have, or what everybody counts for. */
  #rate(side: Side, frequency: number, idle: number): number {
    const { leastRate = 0 } = this.options.policy
    if (!this.#counts) return USUAL_RATE
    const rate = frequency > 0 ? this.#rows.returns.rate(side, frequency, idle) : 0
    return leastRate === 0 ? rate || 1 : Math.max(leastRate, Math.min(MOST_RATE / leastRate, rate))
  }

  /** Whether more is asked for than numbers that cost nothing. */
  get #isAsked(): boolean {
    const { leastRate = 1, release } = this.options.policy
    return leastRate < 1 || (release !== undefined && this.#rows.limiter.bytes !== undefined)
  }

  /** A rung is worth what it will be once it can be judged: rarer ids were never seen to show anything. */
  #frequency(frequency: number): number {
    return Math.max(frequency, this.#rows.model.warmupEvents)
  }

  decide(): Record<Side, Decided> {
    const decided = { user: { all: 0, grown: 0, shrunk: 0 }, item: { all: 0, grown: 0, shrunk: 0 } }
    if (this.#rows.segments < this.options.policy.firstSegment) return decided
    for (const side of SIDES) decided[side] = this.#decide(side, this.#length)
    return decided
  }

  finish(segment: Segment): void {
    const [waiting, training] = [this.#deciding, this.#training]
    if (!waiting || !training) return
    this.#deciding = undefined
    this.#observeRest(segment, training.user.length)
    this.#arrange()
    this.#rows.arrived.clear()
    this.#look()
    this.#steer(this.#turns)
    this.#wait(waiting, training)
  }

  /**
   * Steps 2 and 3: each distinct id of the segment that is due is decided once, as of its last row: grow, keep, or let a
   * rung go. A policy that releases also goes through the ids next in turn: those met lately are due, too, the others may
   * only give numbers back, a rung at a time.
   */
  #decide(side: Side, events: number): Decided {
    const due = this.#due[side]
    if (side === "item" && this.#rows.share) for (const id of this.#rows.share.visited()) due.add(id)
    const resting = this.#sweep(side, events)
    const settled = this.#settle(side, this.#gather(side, due.ids))
    if (resting.length > 0) settled.shrunk += this.#releaseResting(side, resting)
    return settled
  }

  /** Goes on to the next ids. A policy that releases has those due that were met lately; returns those that were not and hold numbers. */
  #sweep(side: Side, events: number): number[] {
    const { model, lastMet, time } = this.#rows
    const { release } = this.options.policy
    const table = model.tables[side]
    const resting: number[] = []
    let id = this.#cursor[side]
    const { price = 0, leastPrice = 0 } = this.options.policy
    const isTight = this.#rows.limiter.bytes !== undefined && price > leastPrice
    const share = isTight ? TIGHT_SWEEP : this.#isAsked ? SWEEP : LEISURELY_SWEEP
    const idleFrom = Math.max(IDLE, time - this.#looked)
    this.#swept[side] = Math.min(Math.ceil(share * events), table.reach)
    for (let n = this.#swept[side]; n > 0; n--) {
      if (release && table.has(id) && this.#rows.decides(side, id)) {
        lastMet.look(side, id, time)
        const idle = lastMet.idle(side, id, time)
        if (idle < idleFrom) this.#due[side].add(id)
        else if (table.step(id) > 0) {
          if (!this.#due[side].has(id)) resting.push(id)
        } else if (this.#mayLeave(side, id, idle)) this.#leaving[side].push(id)
      }
      id = id + 1 >= table.reach ? 0 : id + 1
    }
    this.#cursor[side] = id
    return resting
  }

  /** Ids at rest give back a rung, or, where more is asked for, all they are not worth: they may leave altogether. */
  #releaseResting(side: Side, ids: readonly number[]): number {
    const all = this.#gather(side, ids)
    if (!this.#isAsked) return this.#release(side, all)
    const { policy } = this.options
    const choices = this.#growing.copy(all, () => true)
    const smaller = new Map<number, Resizing>()
    while (choices.length > 0) {
      const arms = policy.release?.(side, choices) ?? NO_ARMS
      for (let i = 0; i < choices.length; i++) {
        if (arms[i] !== 1) continue
        const scores = toArmScores(this.#scores(side, choices, { at: i, down: 1 }))
        choices.steps[i]--
        smaller.set(choices.ids[i], { step: choices.steps[i], why: "released", scores })
      }
      choices.copy(choices, (i) => arms[i] === 1 && choices.steps[i] > 0)
    }
    const { lastMet, time } = this.#rows
    let shrunk = 0
    for (const [id, resizing] of smaller) {
      if (resizing.step === 0 && this.#mayLeave(side, id, lastMet.idle(side, id, time))) this.#leaving[side].push(id)
      if (!this.#rows.affordable(side, resizing.step)) continue
      this.#rows.resize(side, id, resizing)
      shrunk++
    }
    return shrunk
  }

  /** Whether the biases of an id at rest are worth less than their bytes; under a budget alone does anybody leave. */
  #mayLeave(side: Side, id: number, idle: number): boolean {
    const { model, indicators, limiter, returns } = this.#rows
    const { price, loss } = this.options.policy
    if (limiter.bytes === undefined || price === undefined || loss === undefined || model.task === "topk") return false
    const rate = returns.rate(side, indicators.frequency(side, id), idle)
    return rate * BIAS_WORTH * loss < (price * model.tables[side].stepBytes(0)) / 4
  }

  /** Ids that may leave, given once. */
  takeLeaving(): Record<Side, number[]> {
    const leaving = { user: this.#leaving.user, item: this.#leaving.item }
    for (const side of SIDES) this.#leaving[side] = []
    return leaving
  }

  /** Grows ids as long as the policy says so (all at most once, where it takes nothing back), and lets rungs of others go. */
  #settle(side: Side, all: RatedChoices): Decided {
    const { policy } = this.options
    const choices = this.#growing.copy(all, (i) => this.#mayGrow(side, all.steps[i], all.frequencies[i]))
    const grown = new Map<number, Resizing>()
    // Where no budget asks whether the next size fits, a row moves once, however many sizes it climbs.
    const moves = this.#rows.limiter.bytes !== undefined
    while (choices.length > 0) {
      const arms = policy.decide(side, choices)
      for (let i = 0; i < choices.length; i++) {
        if (arms[i] === 0) continue
        const [id, step] = [choices.ids[i], choices.steps[i] + 1]
        if (moves && !this.#rows.affordable(side, step)) {
          arms[i] = 0
          continue
        }
        const resizing = this.#growth(side, choices, i)
        if (moves) this.#rows.resize(side, id, resizing)
        grown.set(id, resizing)
        choices.steps[i] = step
      }
      if (!policy.release) break
      choices.copy(choices, (i) => arms[i] === 1 && this.#mayGrow(side, choices.steps[i], choices.frequencies[i]))
    }
    for (const [id, resizing] of grown) {
      if (!moves) this.#rows.resize(side, id, resizing)
      this.#warmup.reset(side, id)
    }
    const done = { all: all.length, grown: grown.size, shrunk: 0 }
    if (!policy.release) return done
    const mayShrink = (id: number) => !grown.has(id) && this.#warmup.isDone(side, id)
    choices.copy(all, (i) => all.steps[i] > 0 && mayShrink(all.ids[i]))
    return { ...done, shrunk: this.#release(side, choices) }
  }

  /** Below the top; and for a policy that may climb several sizes at once, only as far as the id has evidence for. */
  #mayGrow(side: Side, step: number, frequency: number): boolean {
    const { tables, sizes } = this.#rows.model
    if (step === tables[side].top) return false
    return !this.options.policy.release || sizes[step + 1] <= NUMBERS_PER_EVENT * frequency
  }

  /** One size more for a choice, and why. */
  #growth(side: Side, choices: RatedChoices, at: number): Resizing {
    const scores = this.#scores(side, choices, { at, down: 0 })
    const cold = this.options.initial === "cold"
    return { step: choices.steps[at] + 1, cold, why: whyGrown(scores), scores: toArmScores(scores) }
  }

  /** What the policy thinks of a choice's rung, `down` below the one ahead; only for those who log it. */
  #scores(side: Side, choices: RatedChoices, p: { at: number; down: number }): PolicyScores | undefined {
    const { policy } = this.options
    if (!this.#rows.sizeLog || !policy.scores || !this.context) return undefined
    const d = this.context.dimension
    const context = choices.contexts.subarray(p.at * d, (p.at + 1) * d)
    return policy.scores(side, context, { step: choices.steps[p.at] - p.down, rate: choices.rates[p.at] })
  }

  #release(side: Side, choices: RatedChoices): number {
    const { policy } = this.options
    if (!policy.release || choices.length === 0) return 0
    const arms = policy.release(side, choices)
    let shrunk = 0
    for (let i = 0; i < choices.length; i++)
      if (arms[i] === 1 && this.#rows.affordable(side, choices.steps[i] - 1)) {
        const scores = toArmScores(this.#scores(side, choices, { at: i, down: 1 }))
        this.#rows.resize(side, choices.ids[i], { step: choices.steps[i] - 1, why: "released", scores })
        shrunk++
      }
    return shrunk
  }

  /** Choices of ids with everything as it is now; those met in the segment at hand as of when they were. */
  #gather(side: Side, ids: ArrayLike<number>): RatedChoices {
    const { model, indicators, lastMet, time } = this.#rows
    const { context } = this
    const d = context?.dimension ?? 0
    const choices = this.#gathered.resize(ids.length)
    choices.ids.set(ids)
    const elapsed = time - this.#looked
    for (let i = 0; i < ids.length; i++) {
      const frequency = indicators.frequency(side, ids[i])
      choices.steps[i] = model.tables[side].step(ids[i])
      choices.frequencies[i] = frequency
      const idle = lastMet.idle(side, ids[i], time)
      choices.rates[i] = this.#rate(side, frequency, Math.max(0, idle - elapsed))
      const diversity = this.options.policy.context === "cv" ? indicators.diversity(side, ids[i]) : 0
      context?.write(choices.contexts, i * d, this.#frequency(frequency), diversity)
    }
    return choices
  }

  /** Under a budget the price follows the bytes: it rises when they near the budget and falls while they are far from it. */
  #steer(turns: number): void {
    const { policy } = this.options
    const { limiter } = this.#rows
    const { bytes, gaveWay } = limiter
    if (bytes === undefined || policy.price === undefined) return
    limiter.giveBack()
    const used = limiter.held / bytes
    const added = Math.max(SPARE, used) - Math.max(SPARE, this.#used) + gaveWay / bytes
    this.#used = used
    const away = Math.max(-1, Math.min(1, (used - FULL) / ROOM))
    const price = policy.price * exp(Math.min(1, SPEED * turns) * away + GRIP * added)
    policy.price = Math.max(BELOW_LEAST * (policy.leastPrice ?? 0), Math.min(HIGHEST_PRICE, price))
  }

  /** The rows judged, at the sizes their ids have now, wait to be trained on; of unripe ones nothing is judged. */
  #wait(waiting: Judged, rows: Record<Side, Int32Array>): void {
    this.#waiting = waiting
    for (const side of SIDES) {
      const { model } = this.#rows
      const [table, ids, steps] = [model.tables[side], waiting.ids[side], waiting.steps[side]]
      if (model.warmupEvents === 0) for (let l = 0; l < ids.length; l++) steps[l] = table.step(ids[l])
      else
        for (let l = 0, next = 0; l < rows[side].length; l++) {
          const id = rows[side][l]
          if (waiting.rows[next] === l) steps[next++] = this.#warmup.isDone(side, id) ? table.step(id) : 0
          this.#warmup.add(side, id)
        }
    }
  }

  /** Trains with what judges the rungs, and keeps the judgement. */
  train(batch: ModelBatch, train: (rungs?: RungLosses) => PassResult): PassResult {
    const [waiting, training] = [this.#waiting, this.#training]
    if (!waiting || !training) return train()
    this.#training = undefined
    const { length } = this.#rows.model.sizes
    const places = placesOf(batch, training, waiting.rows)
    const judged = new Uint8Array(batch.user.length)
    for (const place of places) judged[place] = 1
    for (const side of SIDES) {
      const needed = batch.user.length * length
      if (this.#losses[side].length < needed) this.#losses[side] = new Float64Array(needed)
      else this.#losses[side].fill(0, 0, needed)
    }
    const rungs: RungLosses = { ...this.#losses, rows: judged }
    const result = train(rungs)
    for (const side of SIDES)
      for (let row = 0; row < places.length; row++) {
        const [to, from] = [row * length, places[row] * length]
        for (let step = 0; step < length; step++) waiting.losses[side][to + step] = rungs[side][from + step]
      }
    waiting.trained = places.length
    this.#compareWithNone(waiting)
    return result
  }

  /** Counts what the rows cost, and what they would have without vectors: of a user without one only biases are left. */
  #compareWithNone({ trained, steps, losses }: Judged): void {
    const { model } = this.#rows
    if (model.task === "topk" || trained === 0) return
    const { length } = model.sizes
    const kept = exp(trained * log(RENT.discount))
    let [held, none] = [0, 0]
    for (let row = 0; row < trained; row++) {
      held += losses.user[row * length + steps.user[row]]
      none += losses.user[row * length]
    }
    this.#withAndWithout = {
      held: kept * this.#withAndWithout.held + held,
      none: kept * this.#withAndWithout.none + none,
    }
  }

  /** Share of the loss of biases alone that vectors save lately; not known of ranking, where items stand for users, too. */
  get vectorsSave(): number | undefined {
    const { held, none } = this.#withAndWithout
    return none > 0 ? 1 - held / none : undefined
  }

  /** Lets a policy that sets sizes by itself do so. */
  #arrange(): void {
    const { policy } = this.options
    policy.arrange?.({ user: this.#arranged("user"), item: this.#arranged("item") }, this.#events)
  }

  #arranged(side: Side): ArrangedRows {
    const { model, indicators } = this.#rows
    const table = model.tables[side]
    return {
      get reach() {
        return table.reach
      },
      get bytes() {
        return table.liveBytes
      },
      costs: model.sizes.map((_, step) => table.stepBytes(step)),
      step: (id) => (table.has(id) ? table.step(id) : -1),
      frequency: (id) => indicators.frequency(side, id),
      energy: (id) => ("energy" in model ? model.energy(side, id) : rungEnergy(model, side, id)),
      resize: (id, step) => {
        const grows = step > table.step(id)
        this.#rows.resize(side, id, { step, why: grows ? "grown" : "released" })
        if (grows) this.#warmup.reset(side, id)
      },
    }
  }

  /** What the policy thinks of an id's next rung; null at the top. */
  bounds(
    side: Side,
    id: number,
    seen: { frequency: number; diversity: number },
  ): { keep: number; grow: number } | null {
    const { model } = this.#rows
    const { policy } = this.options
    const step = model.tables[side].step(id)
    if (!this.context || !policy.scores || step === model.tables[side].top) return null
    const context = new Float64Array(this.context.dimension)
    const idle = this.#rows.lastMet.idle(side, id, this.#rows.time)
    this.context.write(context, 0, this.#frequency(seen.frequency), seen.diversity)
    const { keep, grow } = policy.scores(side, context, { step, rate: this.#rate(side, seen.frequency, idle) })
    return { keep, grow }
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.options.policy.forget?.(side, ids)
    for (const id of ids) this.#warmup.reset(side, id)
    if (this.#waiting) this.#waiting = withoutRows(this.#waiting, side, ids)
  }

  save(state: State): void {
    state.set("cursor", { ...this.#cursor })
    for (const side of SIDES) state.put(`leaving.${side}`, Int32Array.from(this.#leaving[side]))
    const waiting = state.at("waiting")
    saveJudged(waiting, this.#waiting)
    this.#warmup.save(waiting.at("ripeness"))
    const { held, none } = this.#withAndWithout
    waiting.put("counted", Float64Array.of(this.#looked, this.#seen, this.#events, held, none, this.#used))
  }

  load(state: State): void {
    Object.assign(this.#cursor, state.get("cursor"))
    for (const side of SIDES) this.#leaving[side] = Array.from(state.take(`leaving.${side}`, Int32Array))
    const waiting = state.at("waiting")
    this.#waiting = loadJudged(waiting)
    this.#warmup.load(waiting.at("ripeness"))
    const [looked, seen, events, held = 0, none = 0, used = 0] = waiting.take("counted", Float64Array)
    this.#withAndWithout = { held, none }
    this.#looked = looked
    this.#used = used
    this.#seen = seen
    this.#events = events
  }
}

/** Where the judged of the rows trained on are in a batch: sampled negatives follow their row and are judged with it. */
function placesOf(batch: ModelBatch, training: Record<Side, Int32Array>, judged: Int32Array): Int32Array {
  const places = new Int32Array(judged.length)
  let [row, length] = [0, 0]
  for (let b = 0; b < batch.user.length && length < judged.length; b++) {
    if (batch.user[b] !== training.user[row] || batch.item[b] !== training.item[row]) continue
    if (row === judged[length]) places[length++] = b
    row++
  }
  return places.subarray(0, length)
}
