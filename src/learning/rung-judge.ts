/**
 * Judges both arms of a rung while rows are trained on. Each row of a segment is predicted with
 * its user, and its item, cut to every size up to the one held before it is learned, and the policy learns these at the
 * next segment (method.md §3, step 1): it plays the last rung held and studies those below. Then it decides on the ids of
 * that segment, and on ids that are met no more.
 */

import { Warmup } from "../ids/warmup.ts"
import { exp, log } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import { type RowModel, type RungLosses, rungEnergy } from "../models/calibrated/rows.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { Context } from "../policies/context.ts"
import type { ArrangedRows, Choices, PolicyScores, Round } from "../policies/policy.ts"
import type { Segment, Side } from "../types.ts"
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
import { heldOn, type Judged, loadJudged, saveJudged, withoutRows } from "./judged-rows.ts"
import { RungWeights } from "./rung-weights.ts"
import { SegmentMemory } from "./segment-memory.ts"
import { SEGMENT, SIDES, type SizedRows } from "./sized-rows.ts"

/** Ids per side and segment looked at for numbers to take back, if they have not been met for so long. */
const SWEEP = 2048
const IDLE = 5

/** No id grows to more numbers than this times its events: exploring a rung is left to ids that could use it. */
const NUMBERS_PER_EVENT = 16

/** Shares of a budget above and below which the price moves, and how far it may. */
const FULL = 0.95
const SPARE = 0.85
const LOWEST_PRICE = 1e-9
const HIGHEST_PRICE = 1

export class RungJudge implements Judge {
  readonly options: SearchOptions
  readonly needsRows = false
  readonly context: Context | undefined
  readonly #rows: SizedRows<RowModel>
  readonly #cursor: Record<Side, number> = { user: 0, item: 0 }
  readonly #warmup: Warmup
  readonly #weights: RungWeights
  readonly #memory = new SegmentMemory()
  #waiting: Judged | undefined
  /** The rows of the segment at hand that its ids are decided at. */
  #deciding: Judged | undefined
  /** What was learned ahead of the next segment. */
  #early: Played | undefined
  /** When returns were counted last; with other processes more time passes than that of the segments here. */
  #counted = 0
  #elapsed = 0
  /** Returns among the rows that decide nothing, to be counted when all is decided. */
  readonly #late: { side: Side; frequency: number; idle: number }[] = []

  constructor(rows: SizedRows<RowModel>, options: SearchOptions, context: Context | undefined) {
    this.#rows = rows
    this.options = options
    this.context = context
    this.#warmup = new Warmup(rows.model.warmupEvents)
    this.#weights = new RungWeights(rows.model)
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
  #advanceTime(events: number): void {
    const held = heldOn(this.#waiting, this.#rows.model.sizes.length - 1)
    this.options.policy.advanceTime?.({ segments: events / SEGMENT, events: this.#waiting?.trained ?? 0, held })
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
    const ends = waiting.steps[side]
    let length = 0
    for (let l = 0; l < waiting.trained; l++) if (ends[l] > 0) length += part === "last" ? 1 : ends[l] - 1
    const [rows, steps] = [this.#memory.ints(length), this.#memory.bytes(length)]
    let at = 0
    for (let l = 0; l < waiting.trained; l++) {
      const end = part === "last" ? ends[l] : ends[l] - 1
      for (let step = part === "last" ? Math.max(0, end - 1) : 0; step < end; step++) {
        rows[at] = l
        steps[at++] = step
      }
    }
    const choices = this.#choices(side, rows, waiting)
    choices.steps.set(steps)
    const floats = () => this.#memory.floats(length)
    const [keepLosses, growLosses, keepRewards, growRewards] = [floats(), floats(), floats(), floats()]
    const price = policy.price ?? preset.rent
    for (let i = 0; i < length; i++) {
      const step = steps[i]
      const at = rows[i] * costs.length + step
      keepLosses[i] = waiting.losses[side][at]
      growLosses[i] = waiting.losses[side][at + 1]
      const saved = keepLosses[i] - growLosses[i]
      if (preset.name === "paper") growRewards[i] = saved > 0 ? 1 : 0
      else {
        growRewards[i] = saved
        keepRewards[i] = (price * (costs[step + 1] - costs[step])) / waiting.rates[side][rows[i]]
      }
    }
    return { ...choices, keepLosses, growLosses, keepRewards, growRewards }
  }

  #choices(side: Side, rows: Int32Array, waiting: Judged): Choices {
    const d = this.context?.dimension ?? 0
    const choices = this.#emptyChoices(rows.length, d)
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i]
      choices.ids[i] = waiting.ids[side][row]
      choices.steps[i] = waiting.steps[side][row]
      choices.frequencies[i] = waiting.frequencies[side][row]
      choices.rates[i] = waiting.rates[side][row]
      for (let c = 0; c < d; c++) choices.contexts[i * d + c] = waiting.contexts[side][row * d + c]
    }
    return choices
  }

  #emptyChoices(length: number, dimension: number): Choices & { rates: Float64Array } {
    const memory = this.#memory
    return {
      length,
      ids: memory.ints(length),
      steps: memory.bytes(length),
      frequencies: memory.floats(length),
      contexts: memory.floats(length * dimension),
      rates: memory.floats(length),
    }
  }

  /**
   * Takes indicators and rates of the rows to be trained on, one by one. Those of the others wait for `observeRest`: nothing
   * that is decided may know of them.
   */
  observe(segment: Segment, { deciding }: { deciding: number }): void {
    const { length } = segment
    if (!this.#rows.share) this.#advanceTime(length)
    this.#rows.expect(segment)
    const { indicators, activity, returns, time } = this.#rows
    this.#elapsed = this.#counted > 0 ? time - this.#counted : length / SEGMENT
    this.#counted = time
    if (this.options.policy.release) this.#countReturns(segment, deciding)
    returns.advanceTime(length / SEGMENT)
    const floats = () => this.#memory.floats(deciding)
    const columns = { userFrequency: floats(), itemFrequency: floats(), ind: floats(), pod: floats() }
    const user = segment.user.subarray(0, deciding)
    const item = segment.item.subarray(0, deciding)
    indicators.observeBatch({ length: deciding, user, item }, columns)
    const { context } = this
    const d = context?.dimension ?? 0
    const pair = <T>(make: () => T): Record<Side, T> => ({ user: make(), item: make() })
    const copy = (ids: Int32Array) => {
      const copied = this.#memory.ints(deciding)
      copied.set(ids)
      return copied
    }
    const waiting: Judged = {
      ids: { user: copy(user), item: copy(item) },
      contexts: pair(() => this.#memory.floats(deciding * d)),
      frequencies: { user: columns.userFrequency, item: columns.itemFrequency },
      rates: pair(floats),
      steps: pair(() => this.#memory.bytes(deciding)),
      losses: pair(() => this.#memory.floats(deciding * this.#rows.model.sizes.length)),
      trained: 0,
    }
    for (let l = 0; l < deciding; l++)
      for (const side of SIDES) {
        const id = segment[side][l]
        activity.meet(side, id, time)
        waiting.rates[side][l] = this.#rate(side, id, waiting.frequencies[side][l])
        const diversity = side === "user" ? columns.ind[l] : columns.pod[l]
        context?.write(waiting.contexts[side], l * d, this.#frequency(waiting.frequencies[side][l]), diversity)
      }
    this.#deciding = waiting
  }

  decide(): Record<Side, Decided> {
    const { policy } = this.options
    const decided = { user: { all: 0, grown: 0, shrunk: 0 }, item: { all: 0, grown: 0, shrunk: 0 } }
    if (this.#rows.segments >= policy.firstSegment && this.#deciding)
      for (const side of SIDES) decided[side] = this.#decide(side, this.#deciding)
    if (policy.release) for (const side of SIDES) decided[side].shrunk += this.#sweep(side)
    return decided
  }

  finish(segment: Segment): void {
    const waiting = this.#deciding
    if (!waiting) return
    this.#deciding = undefined
    this.#observeRest(segment, waiting.ids.user.length)
    this.#arrange(Math.round(SEGMENT * this.#rows.time))
    this.#rows.arrived.clear()
    this.#steer(segment.length)
    this.#wait(waiting)
  }

  /** Counts the rows that decided nothing, once all is decided: they are events of their ids like any other. */
  #observeRest(segment: Segment, deciding: number): void {
    const { activity, indicators, returns, time } = this.#rows
    for (const { side, frequency, idle } of this.#late.splice(0)) returns.hit(side, frequency, idle)
    for (let l = deciding; l < segment.length; l++) {
      indicators.observe(segment.user[l], segment.item[l])
      for (const side of SIDES) activity.meet(side, segment[side][l], time)
    }
  }

  /** Looks at ids, and counts the rows to be trained on; only a policy that releases asks who comes back. */
  #countReturns(segment: Segment, deciding: number): void {
    for (const side of SIDES) this.#look(side)
    for (let l = 0; l < segment.length; l++)
      for (const side of SIDES) {
        const found = this.#foundBefore(side, segment[side][l])
        if (found && l < deciding) this.#rows.returns.hit(side, found.frequency, found.idle)
        else if (found) this.#late.push({ side, ...found })
      }
  }

  /** How often an id had been met before the time at hand began, and how long ago; nothing for one that was not here. */
  #foundBefore(side: Side, id: number): { frequency: number; idle: number } | undefined {
    const { indicators, activity, arrived, time } = this.#rows
    const idle = activity.idle(side, id, time - this.#elapsed)
    if (!Number.isFinite(idle) || (side === "user" && arrived.has(id))) return undefined
    return { frequency: indicators.frequency(side, id), idle }
  }

  /** Looks at the ids next in turn, as they were before the time at hand began: so much time they were there to be met. */
  #look(side: Side): void {
    const { model, returns } = this.#rows
    const table = model.tables[side]
    const looks = Math.min(SWEEP, table.reach)
    const weight = (this.#elapsed * table.reach) / looks
    for (let n = 0; n < looks; n++) {
      const id = (this.#cursor[side] + n) % table.reach
      const found = table.has(id) && this.#rows.decides(side, id) ? this.#foundBefore(side, id) : undefined
      if (found) returns.look(side, found.frequency, { idle: found.idle, weight })
    }
  }

  /** Events per segment to be expected of an id: those of late, or what ids like it have. */
  #rate(side: Side, id: number, frequency: number): number {
    const { activity, returns, time } = this.#rows
    const own = activity.rate(side, id, time)
    // For other policies nobody counts.
    if (!this.options.policy.release || frequency === 0) return own
    return Math.max(own, returns.rate(side, frequency, activity.idle(side, id, time)))
  }

  /** A rung is worth what it will be once it can be judged: rarer ids were never seen to show anything. */
  #frequency(frequency: number): number {
    return Math.max(frequency, this.#rows.model.warmupEvents)
  }

  /** Steps 2 and 3: each distinct id of the segment is decided once, at its last row: grow, keep, or let a rung go. */
  #decide(side: Side, waiting: Judged): Decided {
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
  ): Decided {
    const { policy } = this.options
    const table = this.#rows.model.tables[side]
    const grown = new Set<number>()
    let rows = all
    while (rows.length > 0) {
      rows = rows.filter((row) => this.#mayGrow(side, p.id(row), p.frequency(row)))
      const choices = p.see(rows)
      if (policy.release) choices.weights = this.#weigh(side, choices, false)
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
  #sweep(side: Side): number {
    const { model, activity, time } = this.#rows
    const table = model.tables[side]
    const ids: number[] = []
    let id = this.#cursor[side]
    for (let n = Math.min(SWEEP, table.reach); n > 0; n--) {
      if (table.has(id) && table.step(id) > 0 && this.#rows.decides(side, id))
        if (activity.idle(side, id, time) >= IDLE) ids.push(id)
      id = id + 1 >= table.reach ? 0 : id + 1
    }
    this.#cursor[side] = id
    const choices = this.#gather(side, Int32Array.from(ids))
    choices.weights = this.#weigh(side, choices, true)
    return this.#release(side, choices)
  }

  #weigh(side: Side, choices: Choices, learn: boolean): Float64Array {
    return this.#weights.of(side, choices, { learn, out: this.#memory.floats(choices.length) })
  }

  /** Choices of ids with everything as it is now. */
  #gather(side: Side, ids: Int32Array): Choices {
    const { model, indicators } = this.#rows
    const { context } = this
    const d = context?.dimension ?? 0
    const choices = { ...this.#emptyChoices(ids.length, d), ids }
    for (let i = 0; i < ids.length; i++) {
      choices.steps[i] = model.tables[side].step(ids[i])
      choices.frequencies[i] = indicators.frequency(side, ids[i])
      choices.rates[i] = this.#rate(side, ids[i], choices.frequencies[i])
      const diversity = this.options.policy.context === "cv" ? indicators.diversity(side, ids[i]) : 0
      context?.write(choices.contexts, i * d, this.#frequency(choices.frequencies[i]), diversity)
    }
    return choices
  }

  /** Under a budget the price follows the bytes: it rises when they near the budget and falls while they are far from it. */
  #steer(events: number): void {
    const { policy } = this.options
    const { bytes } = this.#rows.limiter
    if (bytes === undefined || policy.price === undefined) return
    const used = this.#rows.limiter.held / bytes
    const time = events / SEGMENT
    // A segment of a few events moves it by their share.
    const by = (factor: number) => (time < 1 ? exp(time * log(factor)) : factor)
    if (used > FULL) policy.price = Math.min(HIGHEST_PRICE, policy.price * by(1.2))
    else if (used < SPARE) policy.price = Math.max(LOWEST_PRICE, policy.price / by(1.1))
  }

  /** The rows of a segment, at the sizes they have now, are to be judged when they are trained on; unripe ones as if they held nothing. */
  #wait(waiting: Judged): void {
    for (const side of SIDES) {
      const table = this.#rows.model.tables[side]
      for (let l = 0; l < waiting.ids[side].length; l++) {
        const id = waiting.ids[side][l]
        waiting.steps[side][l] = this.#warmup.isDone(side, id) ? table.step(id) : 0
        this.#warmup.add(side, id)
      }
    }
    this.#waiting = waiting
  }

  /** Trains with what judges the rungs, and keeps the judgement. */
  train(batch: ModelBatch, train: (rungs?: RungLosses) => PassResult): PassResult {
    if (!this.#waiting) return train()
    const floats = () => this.#memory.floats(batch.user.length * this.#rows.model.sizes.length)
    const rungs: RungLosses = { user: floats(), item: floats() }
    const result = train(rungs)
    this.#note(batch, rungs, this.#waiting)
    return result
  }

  /** Hands what was judged to the rows it belongs to; sampled negatives follow their row and are judged with it. */
  #note(batch: ModelBatch, rungs: RungLosses, waiting: Judged): void {
    const { ids, losses } = waiting
    const { length } = this.#rows.model.sizes
    let row = 0
    for (let b = 0; b < batch.user.length && row < ids.user.length; b++) {
      if (batch.user[b] !== ids.user[row] || batch.item[b] !== ids.item[row]) continue
      for (let k = 0; k < length; k++) {
        losses.user[row * length + k] = rungs.user[b * length + k]
        losses.item[row * length + k] = rungs.item[b * length + k]
      }
      row++
    }
    waiting.trained = row
  }

  /** Lets a policy that sets sizes by itself do so. `events`: so far. */
  #arrange(events: number): void {
    const { policy } = this.options
    policy.arrange?.({ user: this.#arranged("user"), item: this.#arranged("item") }, events)
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
      energy: (id) => rungEnergy(model, side, id),
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
    this.context.write(context, 0, this.#frequency(seen.frequency), seen.diversity)
    const { keep, grow } = policy.scores(side, context, { step, rate: this.#rate(side, id, seen.frequency) })
    return { keep, grow }
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.options.policy.forget?.(side, ids)
    for (const id of ids) this.#warmup.reset(side, id)
    if (this.#waiting) this.#waiting = withoutRows(this.#waiting, side, ids)
  }

  save(state: State): void {
    state.set("cursor", { ...this.#cursor })
    const waiting = state.at("waiting")
    saveJudged(waiting, this.#waiting)
    this.#warmup.save(waiting.at("ripeness"))
    this.#weights.save(waiting.at("weights"))
    waiting.put("counted", Float64Array.of(this.#counted))
  }

  load(state: State): void {
    Object.assign(this.#cursor, state.get("cursor"))
    const waiting = state.at("waiting")
    this.#waiting = loadJudged(waiting)
    this.#warmup.load(waiting.at("ripeness"))
    this.#weights.load(waiting.at("weights"))
    this.#counted = waiting.take("counted", Float64Array)[0]
  }
}
