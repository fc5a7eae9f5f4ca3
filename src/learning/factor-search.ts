/**
 * How a factor learner searches sizes: both arms of a rung are judged on the way. Each row of a segment is predicted with
 * its user, and its item, cut to every size up to the one held before it is learned, and the policy learns these at the
 * next segment (method.md §3, step 1): it plays the last rung held and studies those below. Then it decides on the ids of
 * that segment, and on ids that are met no more.
 */

import { Warmup } from "../ids/warmup.ts"
import { exp, log } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import type { RungLosses } from "../models/calibrated/rows.ts"
import type { ModelBatch } from "../models/model.ts"
import type { Context } from "../policies/context.ts"
import { type Outlook, outlookOf } from "../policies/outlook.ts"
import type { Choices, PolicyScores, Round } from "../policies/policy.ts"
import type { Segment, Side } from "../types.ts"
import { type FactorRows, SIDES } from "./factor-rows.ts"
import { heldOn, type Judged, loadJudged, saveJudged, withoutRows } from "./judged-rows.ts"
import type { Preparation } from "./learner.ts"
import { playRound, type SearchOptions } from "./round.ts"
import { toArmScores, whyGrown } from "./size-grounds.ts"

/** Ids looked at per event and side, for numbers to take back if they have not been met for so many turns. */
const SWEEP = 1
const IDLE = 1

/** Events judged per turn: as many as a site of 4,000 ids has. What is known of a rung, and how fast, is so the same on larger ones. */
const JUDGED = Number(process.env.JU ?? 2000)

/** No id grows to more numbers than this times its events: exploring a rung is left to ids that could use it. */
const NUMBERS_PER_EVENT = 16

/** Shares of a budget above and below which the price moves, and how far it may. */
const FULL = 0.95
const SPARE = 0.85
const HIGHEST_PRICE = 1
/** What the price rises and falls by in a turn. */
const RISE = 4
const FALL = 2

/** What was played of a round, and what it gave away. */
export type Played = Required<Pick<Preparation, "regret" | "played">>

export class FactorSearch {
  readonly options: SearchOptions
  readonly context: Context | undefined
  readonly #rows: FactorRows
  readonly #cursor: Record<Side, number> = { user: 0, item: 0 }
  /** Ids swept in the segment at hand, before the cursor. */
  readonly #swept: Record<Side, number> = { user: 0, item: 0 }
  readonly #warmup: Warmup
  #waiting: Judged | undefined
  /** What was learned ahead of the next segment. */
  #early: Played | undefined
  /** When ids were looked at last; with other processes more time passes than that of the segments here. */
  #looked = 0
  /** Rows seen, of which a share is judged. */
  #seen = 0

  constructor(rows: FactorRows, options: SearchOptions, context: Context | undefined) {
    this.#rows = rows
    this.options = options
    this.context = context
    this.#warmup = new Warmup(rows.model.warmupEvents)
  }

  /** Step 1: the policy plays and learns the rows judged in the last segment. */
  learn(): Played {
    const early = this.#early
    this.#early = undefined
    if (early) return early
    const result: Played = {
      regret: { user: 0, item: 0 },
      played: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
    }
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
  advanceTime(turns: number): void {
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
    const { sizes } = this.#rows.model.tables[side]
    const d = this.context?.dimension ?? 0
    const [held, losses, price] = [waiting.steps[side], waiting.losses[side], policy.price ?? 0]
    let length = 0
    for (let l = 0; l < waiting.trained; l++)
      if (held[l] > 0) length += part === "last" ? 1 : held[l] - 1
    const choices = emptyChoices(length, d)
    const floats = () => new Float64Array(length)
    const round: Round = {
      ...choices,
      ...{ keepLosses: floats(), growLosses: floats(), keepRewards: floats(), growRewards: floats() },
    }
    let i = 0
    for (let l = 0; l < waiting.trained; l++) {
      const end = part === "last" ? held[l] : held[l] - 1
      for (let step = part === "last" ? Math.max(0, end - 1) : 0; step < end; step++) {
        this.#copy(side, waiting, { row: l, to: i, choices })
        round.steps[i] = step
        const at = l * sizes.length + step
        const saved = losses[at] - losses[at + 1]
        round.keepLosses[i] = losses[at]
        round.growLosses[i] = losses[at + 1]
        if (preset.name === "paper") round.growRewards[i] = saved > 0 ? 1 : 0
        else {
          round.growRewards[i] = saved
          round.keepRewards[i] = (price * (sizes[step + 1] - sizes[step])) / waiting.rates[side][l]
        }
        i++
      }
    }
    return round
  }

  #choices(side: Side, rows: Int32Array, waiting: Judged): Choices {
    const choices = emptyChoices(rows.length, this.context?.dimension ?? 0)
    for (let i = 0; i < rows.length; i++) this.#copy(side, waiting, { row: rows[i], to: i, choices })
    return choices
  }

  #copy(side: Side, waiting: Judged, p: { row: number; to: number; choices: Choices & { rates: Float64Array } }): void {
    const { row, to, choices } = p
    const d = this.context?.dimension ?? 0
    choices.ids[to] = waiting.ids[side][row]
    choices.steps[to] = waiting.steps[side][row]
    choices.frequencies[to] = waiting.frequencies[side][row]
    choices.rates[to] = waiting.rates[side][row]
    for (let c = 0; c < d; c++) choices.contexts[to * d + c] = waiting.contexts[side][row * d + c]
  }

  /**
   * Takes indicators and rates of the rows to be trained on, one by one. Those of the others wait for `observeRest`: nothing
   * that is decided may know of them.
   */
  observe(segment: Segment, deciding: number): Judged {
    const { length } = segment
    const { indicators, returns, turn } = this.#rows
    returns.advanceTime(length * turn)
    const columns = {
      userFrequency: new Float64Array(deciding),
      itemFrequency: new Float64Array(deciding),
      ind: new Float64Array(deciding),
      pod: new Float64Array(deciding),
    }
    const user = segment.user.subarray(0, deciding)
    const item = segment.item.subarray(0, deciding)
    indicators.observeBatch({ length: deciding, user, item }, columns)
    const { context } = this
    const d = context?.dimension ?? 0
    const pair = <T>(make: () => T): Record<Side, T> => ({ user: make(), item: make() })
    const floats = () => new Float64Array(deciding)
    const waiting: Judged = {
      ids: { user: user.slice(), item: item.slice() },
      contexts: pair(() => new Float64Array(deciding * d)),
      frequencies: { user: columns.userFrequency, item: columns.itemFrequency },
      rates: pair(floats),
      steps: pair(() => new Uint8Array(deciding)),
      losses: pair(() => new Float64Array(deciding * this.#rows.model.sizes.length)),
      judged: new Uint8Array(deciding),
      trained: 0,
    }
    for (let l = 0; l < deciding; l++)
      for (const side of SIDES) {
        const id = segment[side][l]
        const [frequency, at] = [waiting.frequencies[side][l], this.#timeOf(segment, l)]
        this.#meet(side, id, { frequency: frequency - 1, at })
        waiting.rates[side][l] = this.#rate(side, id, { frequency, at })
        const diversity = side === "user" ? columns.ind[l] : columns.pod[l]
        context?.write(waiting.contexts[side], l * d, this.#frequency(waiting.frequencies[side][l]), diversity)
      }
    return waiting
  }

  /** Counts the rows that decided nothing, once all is decided: they are events of their ids like any other. */
  observeRest(segment: Segment, deciding: number): void {
    const { indicators } = this.#rows
    for (let l = deciding; l < segment.length; l++) {
      for (const side of SIDES) {
        const id = segment[side][l]
        this.#meet(side, id, { frequency: indicators.frequency(side, id), at: this.#timeOf(segment, l) })
      }
      indicators.observe(segment.user[l], segment.item[l])
    }
  }

  /** When a row of the segment at hand was. */
  #timeOf({ length }: Segment, row: number): number {
    const { time, turn } = this.#rows
    return time - (length - 1 - row) * turn
  }

  /** Counts an event of an id that was met so often before; only a policy that releases asks who comes back. */
  #meet(side: Side, id: number, p: { frequency: number; at: number }): void {
    const { activity, returns, arrived } = this.#rows
    if (this.options.policy.release) {
      const idle = activity.idle(side, id, p.at)
      if (Number.isFinite(idle) && !(side === "user" && arrived.has(id))) returns.hit(side, p.frequency, idle)
    }
    activity.meet(side, id, p.at)
  }

  /** Looks at the ids swept last: so much time they are there to be met. */
  look(): void {
    const { indicators, activity, returns, time } = this.#rows
    const elapsed = time - this.#looked
    this.#looked = time
    if (!this.options.policy.release) return
    for (const side of SIDES) {
      const table = this.#rows.model.tables[side]
      const looks = this.#swept[side]
      for (let n = 1; n <= looks; n++) {
        const id = (this.#cursor[side] + table.reach - n) % table.reach
        if (!table.has(id) || !this.#rows.decides(side, id)) continue
        const idle = activity.idle(side, id, time)
        const weight = (elapsed * table.reach) / looks
        if (Number.isFinite(idle)) returns.look(side, indicators.frequency(side, id), { idle, weight })
      }
    }
  }

  /** Events per turn to be expected of an id: those of late, or what ids like it have. */
  #rate(side: Side, id: number, p: { frequency: number; at: number }): number {
    const { activity, returns } = this.#rows
    const own = activity.rate(side, id, p.at)
    const { release, leastRate = 0 } = this.options.policy
    // For other policies nobody counts.
    if (!release || p.frequency === 0) return own
    return Math.max(leastRate, own, returns.rate(side, p.frequency, activity.idle(side, id, p.at)))
  }

  /** A rung is worth what it will be once it can be judged: rarer ids were never seen to show anything. */
  #frequency(frequency: number): number {
    return Math.max(frequency, this.#rows.model.warmupEvents)
  }

  /** Steps 2 and 3: each distinct id of the segment is decided once, at its last row: grow, keep, or let a rung go. */
  decide(side: Side, waiting: Judged): { all: number; grown: number; shrunk: number } {
    const last = new Map<number, number>()
    for (let l = 0; l < waiting.ids[side].length; l++) {
      const id = waiting.ids[side][l]
      if (this.#rows.decides(side, id)) last.set(id, l)
    }
    const here = this.#settle(side, Int32Array.from(last.values()), {
      id: (row) => waiting.ids[side][row],
      frequency: (row) => waiting.frequencies[side][row],
      see: (rows) => this.#current(side, rows, waiting),
    })
    const visited = side === "item" ? this.#rows.share?.visited().filter((id) => !last.has(id)) : undefined
    if (!visited || visited.length === 0) return here
    const there = this.#settle(side, Int32Array.from(visited), {
      id: (id) => id,
      frequency: (id) => this.#rows.indicators.frequency(side, id),
      see: (ids) => this.#gather(side, ids),
    })
    return { all: here.all + there.all, grown: here.grown + there.grown, shrunk: here.shrunk + there.shrunk }
  }

  /** Grows ids as long as the policy says so (all at most once, where it takes nothing back), and lets rungs of others go. */
  #settle(
    side: Side,
    all: Int32Array,
    p: { id: (row: number) => number; frequency: (row: number) => number; see: (rows: Int32Array) => Choices },
  ): { all: number; grown: number; shrunk: number } {
    const { policy } = this.options
    const table = this.#rows.model.tables[side]
    const grown = new Set<number>()
    let rows = all
    while (rows.length > 0) {
      rows = rows.filter((row) => this.#mayGrow(side, p.id(row), p.frequency(row)))
      const choices = p.see(rows)
      const arms = policy.decide(side, choices)
      const growing: number[] = []
      for (let i = 0; i < choices.length; i++) {
        const id = choices.ids[i]
        if (arms[i] === 1 && this.#grow(side, choices, i)) {
          grown.add(id)
          growing.push(rows[i])
        }
      }
      rows = policy.release ? Int32Array.from(growing) : new Int32Array(0)
    }
    const done = { all: all.length, grown: grown.size, shrunk: 0 }
    if (!policy.release) return done
    const holding = all.filter(
      (row) => !grown.has(p.id(row)) && table.step(p.id(row)) > 0 && this.#warmup.isDone(side, p.id(row)),
    )
    return { ...done, shrunk: this.#release(side, p.see(holding)) }
  }

  /** Below the top; and for a policy that may climb several sizes at once, only as far as the id has evidence for. */
  #mayGrow(side: Side, id: number, frequency: number): boolean {
    const { tables, sizes } = this.#rows.model
    const step = tables[side].step(id)
    if (step === tables[side].top) return false
    return !this.options.policy.release || sizes[step + 1] <= NUMBERS_PER_EVENT * frequency
  }

  /** Choices with the sizes as they are now. */
  #current(side: Side, rows: Int32Array, waiting: Judged): Choices {
    const choices = this.#choices(side, rows, waiting)
    const table = this.#rows.model.tables[side]
    for (let i = 0; i < choices.length; i++) choices.steps[i] = table.step(choices.ids[i])
    return choices
  }

  /** Grows a row by a size unless the budget has no room for it. */
  #grow(side: Side, choices: Choices, at: number): boolean {
    const step = choices.steps[at] + 1
    if (!this.#rows.affordable(side, step)) return false
    const scores = this.#scores(side, choices, { at, down: 0 })
    const grounds = { why: whyGrown(scores), scores: toArmScores(scores) }
    this.#rows.resize(side, choices.ids[at], { step, cold: this.options.initial === "cold", ...grounds })
    this.#warmup.reset(side, choices.ids[at])
    return true
  }

  /** What the policy thinks of a choice's rung, `down` below the one ahead; only for those who log it. */
  #scores(side: Side, choices: Choices, p: { at: number; down: number }): PolicyScores | undefined {
    const { policy } = this.options
    if (!this.#rows.sizeLog || !policy.scores || !this.context) return undefined
    const d = this.context.dimension
    const context = choices.contexts.subarray(p.at * d, (p.at + 1) * d)
    return policy.scores(side, context, { step: choices.steps[p.at] - p.down, rate: choices.rates?.[p.at] ?? 0 })
  }

  #release(side: Side, choices: Choices): number {
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

  /** Goes through the ids next in turn: those that are met no more give their numbers back, a rung at a time. */
  sweep(side: Side, events: number): number {
    const { model, activity, time } = this.#rows
    const table = model.tables[side]
    const ids: number[] = []
    let id = this.#cursor[side]
    this.#swept[side] = Math.min(SWEEP * events, table.reach)
    for (let n = this.#swept[side]; n > 0; n--) {
      if (table.has(id) && table.step(id) > 0 && this.#rows.decides(side, id))
        if (activity.idle(side, id, time) >= IDLE) ids.push(id)
      id = id + 1 >= table.reach ? 0 : id + 1
    }
    this.#cursor[side] = id
    const choices = this.#gather(side, Int32Array.from(ids))
    return this.#release(side, choices)
  }

  /** Choices of ids with everything as it is now. */
  #gather(side: Side, ids: Int32Array): Choices {
    const { model, indicators } = this.#rows
    const { context } = this
    const d = context?.dimension ?? 0
    const choices = { ...emptyChoices(ids.length, d), ids }
    for (let i = 0; i < ids.length; i++) {
      choices.steps[i] = model.tables[side].step(ids[i])
      choices.frequencies[i] = indicators.frequency(side, ids[i])
      choices.rates[i] = this.#rate(side, ids[i], { frequency: choices.frequencies[i], at: this.#rows.time })
      const diversity = this.options.policy.context === "cv" ? indicators.diversity(side, ids[i]) : 0
      context?.write(choices.contexts, i * d, this.#frequency(choices.frequencies[i]), diversity)
    }
    return choices
  }

  /** Under a budget the price follows the bytes: it rises when they near the budget and falls while they are far from it. */
  steer(turns: number): void {
    const { policy } = this.options
    const { bytes } = this.#rows.limiter
    if (bytes === undefined || policy.price === undefined) return
    const used = this.#rows.limiter.held / bytes
    if (used > FULL) policy.price = Math.min(HIGHEST_PRICE, policy.price * exp(turns * log(RISE)))
    else if (used < SPARE) policy.price = Math.max(policy.leastPrice ?? 0, policy.price / exp(turns * log(FALL)))
  }

  /** The rows of a segment, at the sizes they have now, are to be judged when they are trained on; unripe ones as if they held nothing. */
  wait(waiting: Judged): void {
    const share = this.options.policy.release ? JUDGED * this.#rows.turn : 1
    for (let l = 0; l < waiting.judged.length; l++) {
      // Multiples of the golden section: an even share of every part of the stream.
      this.#seen = (this.#seen + 1) >>> 0
      waiting.judged[l] = Math.imul(this.#seen, 0x9e3779b1) >>> 0 < share * 0x1_0000_0000 ? 1 : 0
    }
    for (const side of SIDES) {
      const table = this.#rows.model.tables[side]
      for (let l = 0; l < waiting.ids[side].length; l++) {
        const id = waiting.ids[side][l]
        waiting.steps[side][l] = waiting.judged[l] === 1 && this.#warmup.isDone(side, id) ? table.step(id) : 0
        this.#warmup.add(side, id)
      }
    }
    this.#waiting = waiting
  }

  /** Trains with what judges the rungs, and keeps the judgement. */
  judge<T>(batch: ModelBatch, train: (rungs?: RungLosses) => T): T {
    if (!this.#waiting) return train()
    const floats = () => new Float64Array(batch.user.length * this.#rows.model.sizes.length)
    const rows = rowsOf(batch, this.#waiting.ids)
    const judged = new Uint8Array(batch.user.length)
    for (let row = 0; row < rows.length; row++) judged[rows[row]] = this.#waiting.judged[row]
    const rungs: RungLosses = { user: floats(), item: floats(), rows: judged }
    const result = train(rungs)
    this.#note(rows, rungs, this.#waiting)
    return result
  }

  /** Hands what was judged to the rows it belongs to. */
  #note(rows: Int32Array, rungs: RungLosses, { losses, judged }: Judged): void {
    const { length } = this.#rows.model.sizes
    for (let row = 0; row < rows.length; row++) {
      if (judged[row] === 0) continue
      for (let k = 0; k < length; k++) {
        losses.user[row * length + k] = rungs.user[rows[row] * length + k]
        losses.item[row * length + k] = rungs.item[rows[row] * length + k]
      }
    }
    if (this.#waiting) this.#waiting.trained = rows.length
  }

  outlook(): Outlook | undefined {
    const { policy, features } = this.options
    return this.context && outlookOf(policy, this.context, Math.sqrt(features?.columns.length ?? 0))
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
    this.context.write(context, 0, this.#frequency(seen.frequency), seen.diversity)
    const { keep, grow } = policy.scores(side, context, { step, rate: this.#rate(side, id, { frequency: seen.frequency, at: this.#rows.time }) })
    return { keep, grow }
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.options.policy.forget?.(side, ids)
    for (const id of ids) this.#warmup.reset(side, id)
    if (this.#waiting) this.#waiting = withoutRows(this.#waiting, side, ids)
  }

  get cursor(): Record<Side, number> {
    return this.#cursor
  }

  saveWaiting(state: State): void {
    saveJudged(state, this.#waiting)
    this.#warmup.save(state.at("ripeness"))
    state.put("counted", Float64Array.of(this.#looked, this.#seen))
  }

  loadWaiting(state: State): void {
    this.#waiting = loadJudged(state)
    this.#warmup.load(state.at("ripeness"))
    const [looked, seen] = state.take("counted", Float64Array)
    this.#looked = looked
    this.#seen = seen
  }
}

/** Where rows are in a batch: sampled negatives follow their row and are judged with it. */
function rowsOf(batch: ModelBatch, ids: Judged["ids"]): Int32Array {
  const rows = new Int32Array(ids.user.length)
  let row = 0
  for (let b = 0; b < batch.user.length && row < rows.length; b++)
    if (batch.user[b] === ids.user[row] && batch.item[b] === ids.item[row]) rows[row++] = b
  return rows.subarray(0, row)
}

function emptyChoices(length: number, dimension: number): Choices & { rates: Float64Array } {
  return {
    length,
    ids: new Int32Array(length),
    steps: new Uint8Array(length),
    frequencies: new Float64Array(length),
    contexts: new Float64Array(length * dimension),
    rates: new Float64Array(length),
  }
}
