/**
 * The calibrated policy: a number pays rent. One LinUCB per side and rung (a size to the next) learns what the rung
 * saves per event, Δ = loss cut to the size below − loss cut to its own, measured on events of ids that hold it or more,
 * before the event is learned. Keeping the smaller size saves the rent until the id's next event, which is known:
 *
 *   grow    when a·UCB(Δ | x) > π·(numbers of the rung)
 *   let go  when a·UCB(Δ | x) < 0.1·π·(numbers of the rung), 0.3 at the least price in rating prediction
 *
 * a: events per turn to be expected of the id, so 1 for an id of the mean rate. π: loss that one more number for everybody
 * must save per event. Neither changes where copies of a stream are interleaved, since a turn is then as much longer.
 * At the least price an id at rest counts like one of the mean rate (`leastRate`), so that nobody loses anything by not
 * being there; the higher the price is above it, the less so.
 *
 * σ is measured: UCB counts in the root mean square of Δ so far, so a stream on which vectors do nothing stops exploring
 * early. A rung nobody has held yet has a wide bound and is tried, and so it is again when next to nothing has been heard
 * of it for long: then both sides forget what they knew of it, at once, since a rung held on one side only shows nothing
 * (0 on the other times anything is 0). Departs from method.md §5 in learning the grow arm on
 * every event (its reward is always known) and in knowing the keep arm's reward; §3 in growing several sizes at once.
 */

import { exp, log } from "../kernels/math.ts"
import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { State } from "../kernels/state.ts"
import { SIDES, type Side, type Task } from "../types.ts"
import type { Choices, PolicyScores, Round, SizePolicy } from "./policy.ts"
import { RungBandit } from "./rung-bandit.ts"

/**
 * γ, per row judged: half of what is known of a rung is forgotten after 14,000, which take 28 turns where everybody holds
 * it, on any site of a thousand ids or more. σ, in root mean squares of Δ. And the share of its rent below which a rung is
 * let go: little, or rows would grow and shrink with the price.
 */
export const RENT = { discount: 0.99995, subgaussian: 0.25, patience: 0.1 } as const
/** The same at the least price, in rating prediction: it stands still. */
export const STEADY_PATIENCE = 0.3

/**
 * The price nobody has to name, as a share of the loss of an event: a number of 32 bits for everybody that does not save a
 * ten-thousandth of it makes no difference that could be measured (docs/lab/calibration.md). A share means the same whatever a
 * task counts its losses in, and on a stream that is hard to predict. The loss is the mean of the rows judged lately, and
 * the usual one for as many rows as a turn has.
 */
export const LEAST_SHARE = 1e-4
export const USUAL_LOSS: Record<Task, number> = { binary: 0.2, multiclass: 1.2, topk: 2 }
const USUAL_ROWS = 500

/**
 * Both sides hold a rung on this share of recent events (half of which are forgotten every 5 turns), or it is
 * tried again, 80 turns after the last time at the earliest: all counted in an id's own events, whatever the site. Where a trial of the first rung is a success, held on this
 * share of events and saving this many standard errors of what it saves, the rung above it is tried as well, and so on.
 */
const EVIDENCE_HALF_LIFE = 5
const LEAST_EVIDENCE = 0.1
const PAUSE = 80
const SUCCESS = 0.5
const BEYOND_DOUBT = 2

export interface RentOptions {
  context: "fre" | "cv"
  dimension: number
  /** Numbers of a row, step by step. */
  sizes: Record<Side, readonly number[]>
  /** Loss that one more number for everybody must save per event. Default: the least price. */
  price?: number | undefined
  /** The price at which numbers are given back only where that costs nothing that could be measured, as a share of the loss. */
  leastShare: number
  /** A first guess of the loss of an event. */
  usualLoss: number
  discount: number
  subgaussian: number
  patience: number
  /** The same at the least price. Default: the same. */
  steadyPatience?: number
  /** A first guess of the root mean square of Δ. */
  prior: number
}

export class Rent implements SizePolicy {
  readonly context: "fre" | "cv"
  readonly firstSegment = 2
  /** The price where one was named, else how many times the least price is asked: 1, or more for a budget. */
  #asked: number
  /** Losses of rows judged lately, and how many. */
  readonly #loss = { sum: 0, rows: 0 }
  /** The same of those recorded since evidence was last written. */
  readonly #lossSince = { sum: 0, rows: 0 }
  readonly #options: RentOptions
  readonly #rungs: Record<Side, RungBandit[]>
  /** Recent events on which both sides held each rung, and all of them. */
  readonly #evidence: Float64Array
  #events = 0
  /** Turns since a trial began. */
  #since = 0
  /** The next rung to be tried in a trial under way; 0 if there is none. */
  #next = 0
  /** Σ Δ and Σ Δ² of the rung tried last, both sides. */
  #saved = { sum: 0, squares: 0 }

  constructor(options: RentOptions) {
    const { context, sizes, price = 1 } = options
    this.context = context
    this.#asked = price
    this.#options = options
    const rungs = (side: Side) => sizes[side].slice(1).map(() => new RungBandit(options))
    this.#rungs = { user: rungs("user"), item: rungs("item") }
    this.#evidence = new Float64Array(sizes.user.length - 1)
  }

  get price(): number {
    return this.#isNamed ? this.#asked : this.#asked * this.leastPrice
  }

  set price(price: number) {
    this.#asked = this.#isNamed ? price : price / this.leastPrice
  }

  get #isNamed(): boolean {
    return this.#options.price !== undefined
  }

  get leastPrice(): number {
    return this.#options.leastShare * this.loss
  }

  get loss(): number {
    const { sum, rows } = this.#loss
    return (sum + USUAL_ROWS * this.#options.usualLoss) / (rows + USUAL_ROWS)
  }

  /** At the least price an id at rest counts like any other: it may come back, and should find what it had. */
  get leastRate(): number {
    const { price, leastPrice } = this
    return price > leastPrice ? leastPrice / price : 1
  }

  /** Takes in losses of rows. */
  #addLosses(sum: number, rows: number): void {
    const kept = exp(rows * log(this.#options.discount))
    this.#loss.sum = kept * this.#loss.sum + sum
    this.#loss.rows = kept * this.#loss.rows + rows
  }

  learn(side: Side, round: Round): Uint8Array {
    const arms = new Uint8Array(round.length)
    const { dimension } = this.#options
    // What the last round noted of rungs nobody has asked about since.
    for (const rung of this.#rungs[side]) rung.learn()
    for (let l = 0; l < round.length; l++) {
      const rung = this.#rungs[side][round.steps[l]]
      arms[l] = rung.bound(round.contexts, l * dimension) > round.keepRewards[l] ? 1 : 0
    }
    this.learnUnplayed(side, round)
    if (side === "user" && round.length > 0) {
      let sum = 0
      for (let l = 0; l < round.length; l++) sum += round.growLosses[l]
      this.#addLosses(sum, round.length)
      this.#lossSince.sum += sum
      this.#lossSince.rows += round.length
    }
    return arms
  }

  /** Notes a round; it is learned when a bound is asked for, together with what else is noted of it. */
  learnUnplayed(side: Side, round: Round): void {
    const { dimension } = this.#options
    const { steps, contexts, growRewards, length } = round
    for (let l = 0; l < length; l++) {
      const reward = growRewards[l]
      if (steps[l] === this.#next - 1) {
        this.#saved.sum += reward
        this.#saved.squares += reward * reward
      }
      this.#rungs[side][steps[l]].note(contexts, l * dimension, reward)
    }
  }

  /** Counts the evidence of each rung, and starts a trial where it is too little. */
  advanceTime(p: { turns: number; events: number; held: readonly number[] }): void {
    const { turns, events, held } = p
    const evidence = this.#evidence
    const kept = exp((-Math.LN2 * turns) / EVIDENCE_HALF_LIFE)
    this.#events = kept * this.#events + events
    for (let step = 0; step < evidence.length; step++) evidence[step] = kept * evidence[step] + held[step]
    this.#since += turns
    if (this.#since >= PAUSE && evidence[0] < LEAST_EVIDENCE * this.#events) {
      this.#startOver(0)
      this.#since = 0
    } else if (this.#next > 0 && this.#next < evidence.length && this.#succeeded()) this.#startOver(this.#next)
  }

  /** Whether the rung tried last is held, and saves what it should. */
  #succeeded(): boolean {
    const { sum, squares } = this.#saved
    return this.#evidence[this.#next - 1] > SUCCESS * this.#events && sum > BEYOND_DOUBT * Math.sqrt(squares)
  }

  /** Forgets what is known of a rung, which is tried from now on. */
  #startOver(step: number): void {
    for (const side of SIDES) this.#rungs[side][step] = new RungBandit(this.#options)
    this.#next = step + 1
    this.#saved = { sum: 0, squares: 0 }
  }

  /** Marks the choices whose next rung earns its rent. */
  decide(side: Side, choices: Choices): Uint8Array {
    return this.#compare(side, choices, true)
  }

  /** Marks those whose last rung does not earn a share of it. */
  release(side: Side, choices: Choices): Uint8Array {
    return this.#compare(side, choices, false)
  }

  #compare(side: Side, choices: Choices, grows: boolean): Uint8Array {
    const { dimension, patience: swinging, steadyPatience = swinging } = this.#options
    const patience = this.leastRate < 1 ? swinging : steadyPatience
    const price = grows ? this.price : patience * this.price
    const [sizes, rungs] = [this.#options.sizes[side], this.#rungs[side]]
    const { length, steps, contexts, rates } = choices
    const arms = new Uint8Array(length)
    for (let i = 0; i < length; i++) {
      const step = grows ? steps[i] : steps[i] - 1
      const earned = (rates?.[i] ?? 0) * rungs[step].bound(contexts, i * dimension)
      const rent = price * (sizes[step + 1] - sizes[step])
      if (grows ? earned > rent : earned < rent) arms[i] = 1
    }
    return arms
  }

  /**
   * What the next rung is thought to save per event at most, and what it costs until the next event. Without a place to
   * look from: the first rung, for an id met once a segment.
   */
  scores(side: Side, context: Float64Array, at = { step: 0, rate: 0 }): PolicyScores {
    const sizes = this.#options.sizes[side]
    const rent = this.price * (sizes[at.step + 1] - sizes[at.step])
    const keep = at.rate > 0 ? rent / at.rate : rent
    const rung = this.#rungs[side][at.step]
    return { keep, grow: rung.bound(context, 0), means: { keep, grow: rung.mean(context, 0) } }
  }

  record(): void {
    this.#lossSince.sum = 0
    this.#lossSince.rows = 0
    for (const rung of this.#all()) rung.record()
  }

  writeEvidence(out: Packer): void {
    const { sum, rows } = this.#lossSince
    out.count(rows)
    if (rows > 0) out.double(sum)
    Object.assign(this.#lossSince, { sum: 0, rows: 0 })
    for (const rung of this.#all()) rung.writeEvidence(out)
  }

  readEvidence(from: Unpacker): () => void {
    const rows = from.count()
    const sum = rows > 0 ? from.double() : 0
    if (!(sum >= 0)) throw from.damaged("losses from 0", sum)
    const take = inTurn(this.#all().map((rung) => rung.readEvidence(from)))
    return () => {
      if (rows > 0) this.#addLosses(sum, rows)
      take()
    }
  }

  writeAll(out: Packer): void {
    for (const value of [this.#asked, this.#loss.sum, this.#loss.rows]) out.double(value)
    for (const rung of this.#all()) rung.writeAll(out)
  }

  readAll(from: Unpacker): () => void {
    const [asked, sum, rows] = from.doubles(3)
    if (!(sum >= 0 && rows >= 0)) throw from.damaged("losses from 0", [sum, rows])
    const take = inTurn(this.#all().map((rung) => rung.readAll(from)))
    return () => {
      this.#asked = asked
      Object.assign(this.#loss, { sum, rows })
      take()
    }
  }

  #all(): RungBandit[] {
    return [...this.#rungs.user, ...this.#rungs.item]
  }

  save(state: State): void {
    state.put("price", Float64Array.of(this.#asked, this.#loss.sum, this.#loss.rows))
    state.put("heard", this.#evidence)
    const { sum, squares } = this.#saved
    state.put("trial", Float64Array.of(this.#events, this.#since, this.#next, sum, squares))
    for (const side of SIDES)
      this.#rungs[side].forEach((rung, step) => {
        rung.save(state.at(`${side}.${step}`))
      })
  }

  load(state: State): void {
    const [asked, losses, rows] = state.take("price", Float64Array)
    this.#asked = asked
    Object.assign(this.#loss, { sum: losses, rows })
    this.#evidence.set(state.take("heard", Float64Array))
    const trial = state.take("trial", Float64Array)
    this.#events = trial[0]
    this.#since = trial[1]
    this.#next = trial[2]
    this.#saved = { sum: trial[3], squares: trial[4] }
    for (const side of SIDES)
      this.#rungs[side].forEach((rung, step) => {
        rung.load(state.at(`${side}.${step}`))
      })
  }
}

function inTurn(steps: readonly (() => void)[]): () => void {
  return () => {
    for (const step of steps) step()
  }
}
