/**
 * The learner of the calibrated recipe: a factor model learned event by event, and for methods that search a size policy.
 * Both arms of a rung are judged on the way: each row of a segment is predicted with and without the last rung of its
 * user and of its item before it is learned, and the policy learns these at the next segment (method.md §3, step 1).
 */

import { Activity } from "../context/activity.ts"
import type { Context } from "../context/context.ts"
import type { Indicators } from "../context/indicators.ts"
import { exp, log } from "../kernels/math.ts"
import type { State } from "../kernels/state.ts"
import { turnFrame } from "../models/frame.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { RowModel, RungLosses } from "../models/rows.ts"
import type { Choices, PolicyScores, Round, SizePolicy } from "../search/policy.ts"
import type { Segment, Side } from "../types.ts"
import type { Limits } from "./idle.ts"
import { type Judged, loadJudged, saveJudged, withoutRows } from "./judged.ts"
import {
  type Learner,
  type LearnerExplanation,
  type LearnerStatus,
  type LiveLearner,
  type Preparation,
  type Ranker,
  type SideStatus,
  toSteps,
} from "./learner.ts"
import { type Limited, Limiter, type Unmet } from "./limiter.ts"
import type { LiveRun } from "./options.ts"
import { type Outlook, outlookOf } from "./outlook.ts"
import { packRows } from "./packed-rows.ts"
import type { Published } from "./reader.ts"
import { createContexts, playRound, type SearchOptions } from "./round.ts"
import { type ArmScores, type Reason, SizeLog, toArmScores, whyGrown } from "./size-log.ts"

const SIDES = ["user", "item"] as const

/** Time is counted in so many events, whatever the length of a segment. */
const SEGMENT = 500
/** The frame is turned after so much time; a frame wider than 64 numbers, which costs more, less often. */
const TURN = 20
/** Ids per side and segment looked at for numbers to take back, if they have not been met for so long. */
const SWEEP = 2048
const IDLE = 5

/** No id grows to more numbers than this times its events: exploring a rung is left to ids that could use it. */
const NUMBERS_PER_EVENT = 4

/** Shares of a budget above and below which the price moves, and how far it may. */
const FULL = 0.95
const SPARE = 0.85
const LOWEST_PRICE = 1e-9
const HIGHEST_PRICE = 1

/** Why a size changes. */
interface Grounds {
  why: Reason
  scores?: ArmScores | undefined
}

const NOBODY: Record<Side, Unmet> = { user: { rows: 0, largest: 0 }, item: { rows: 0, largest: 0 } }

export class Factor implements Learner, LiveLearner {
  readonly model: RowModel
  readonly live: LiveLearner | undefined
  readonly #limiter: Limiter
  readonly #sizeLog: SizeLog | undefined
  /** Live: ids whose rows may differ from those published last. */
  readonly #changed: Record<Side, Set<number>> = { user: new Set(), item: new Set() }
  #budget: number | undefined
  readonly #search: SearchOptions | undefined
  readonly #context: Context | undefined
  readonly #indicators: Indicators
  readonly #activity = new Activity()
  readonly #cursor: Record<Side, number> = { user: 0, item: 0 }
  #waiting: Judged | undefined
  /** Ids of the segment at hand that get their rows after the decisions. */
  #unmet = NOBODY
  #segments = 0
  /** When the segment at hand was closed, in milliseconds. */
  #clock = 0
  /** In segments of 500 events. */
  #time = 0
  #turned = 0

  constructor(model: RowModel, search?: SearchOptions, live?: LiveRun) {
    this.model = model
    this.#search = search
    if (live) {
      this.live = this
      this.#sizeLog = new SizeLog()
    }
    const shrink = (side: Side, id: number) =>
      this.#resize(side, id, { step: model.tables[side].step(id) - 1, why: "idle" })
    this.#limiter = new Limiter({
      tables: model.tables,
      forget: (side, ids) => this.forget(side, ids),
      ...(search ? { shrink, cut: this.#cutter() } : {}),
    })
    const { context, indicators } = createContexts(search)
    this.#context = context
    this.#indicators = indicators
  }

  prepare(segment: Segment, _labels: Float64Array, deciding: number): Preparation {
    this.#segments++
    this.#clock = segment.time ?? 0
    this.#time += segment.length / SEGMENT
    const search = this.#search
    const start = performance.now()
    const gone = this.#limiter.makeRoom(segment, this.#segments)
    if (!search) {
      this.#meet(segment)
      return { ...gone, milliseconds: { policy: 0, growth: 0 } }
    }
    const preparation = {
      regret: { user: 0, item: 0 },
      played: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
      decided: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
      shrunk: gone?.shrunk ?? { user: 0, item: 0 },
      ...(gone ? { left: gone.left } : {}),
      milliseconds: { policy: 0, growth: 0 },
    }
    for (const side of SIDES) this.#learn(side, search, preparation)
    this.#meet({ user: segment.user.subarray(0, deciding), item: segment.item.subarray(0, deciding) })
    this.#unmet = this.#limiter.unmet(segment)
    const waiting = this.#observe(segment, deciding)
    const decided = performance.now()
    if (this.#segments >= search.policy.from)
      for (const side of SIDES) this.#decide(side, { search, waiting, deciding, preparation })
    if (search.policy.release) {
      for (const side of SIDES) preparation.shrunk[side] += this.#sweep(side, search.policy)
      this.#turn()
    }
    // Ids first met in a test row are seen ids too.
    this.#meet(segment)
    this.#unmet = NOBODY
    this.#steer(search.policy, segment.length / SEGMENT)
    for (const side of SIDES) {
      const table = this.model.tables[side]
      for (let l = 0; l < deciding; l++) waiting.steps[side][l] = table.step(waiting.ids[side][l])
    }
    this.#waiting = waiting
    preparation.milliseconds = { policy: decided - start, growth: performance.now() - decided }
    return preparation
  }

  #cutter(): NonNullable<Limited["cut"]> {
    const { tables } = this.model
    return {
      take(side, id) {
        const table = tables[side]
        const row = new Float32Array(table.sizes[table.step(id)])
        table.read(id, row, 0)
        table.free(id)
        return row
      },
      put: (side, id, row) => {
        const { start } = tables[side]
        tables[side].ensure(id)
        tables[side].replace(id, start, row, 0)
        this.#logSize(side, id, { step: start, why: "budget" })
        if (this.live) this.#changed[side].add(id)
      },
    }
  }

  /** Gives the ids of a segment their rows. */
  #meet(segment: { user: Int32Array; item: Int32Array }): void {
    for (const side of SIDES) {
      const table = this.model.tables[side]
      for (const id of segment[side]) {
        if (this.live) this.#changed[side].add(id)
        if (this.model.meetOne(side, id)) this.#logSize(side, id, { step: table.step(id), why: "met" })
      }
    }
  }

  #resize(side: Side, id: number, p: { step: number; cold?: boolean } & Grounds): void {
    this.model.resize(side, id, p)
    this.#logSize(side, id, p)
    if (this.live) this.#changed[side].add(id)
  }

  #logSize(side: Side, id: number, { step, why, scores }: { step: number } & Grounds): void {
    this.#sizeLog?.add(side, id, { segment: this.#segments, time: this.#clock, step, why, scores })
  }

  /** What the policy thinks of a choice's rung, `down` below the one ahead; only for those who log it. */
  #scores(side: Side, choices: Choices, p: { at: number; down: number }): PolicyScores | undefined {
    const policy = this.#search?.policy
    if (!this.#sizeLog || !policy?.scores || !this.#context) return undefined
    const d = this.#context.dimension
    const context = choices.contexts.subarray(p.at * d, (p.at + 1) * d)
    return policy.scores(side, context, { step: choices.steps[p.at] - p.down, rate: choices.rates?.[p.at] ?? 0 })
  }

  /** Under a budget the price follows the bytes: it rises when they near the budget and falls while they are far from it. */
  #steer(policy: SizePolicy, time: number): void {
    if (this.#budget === undefined || policy.price === undefined) return
    const used = this.model.heldBytes / this.#budget
    // A segment of a few events moves it by their share.
    const by = (factor: number) => (time < 1 ? exp(time * log(factor)) : factor)
    if (used > FULL) policy.price = Math.min(HIGHEST_PRICE, policy.price * by(1.2))
    else if (used < SPARE) policy.price = Math.max(LOWEST_PRICE, policy.price / by(1.1))
  }

  /** Step 1: the policy plays and learns the rows judged in the last segment. */
  #learn(side: Side, search: SearchOptions, preparation: Preparation): void {
    const waiting = this.#waiting
    if (!waiting || waiting.trained === 0) return
    const { regret, played } = playRound(search.policy, side, this.#round(side, search, waiting))
    if (preparation.regret) preparation.regret[side] = regret
    if (preparation.played) preparation.played[side] = played
  }

  /** The rows whose id held a rung, each as a choice between the size below (keep) and the size held (grow). */
  #round(side: Side, search: SearchOptions, waiting: Judged): Round {
    const { preset } = search
    const { sizes } = this.model.tables[side]
    const rows: number[] = []
    for (let l = 0; l < waiting.trained; l++) if (waiting.steps[side][l] > 0) rows.push(l)
    const choices = this.#choices(side, Int32Array.from(rows), waiting)
    const { length } = choices
    const [keepLosses, growLosses] = [new Float64Array(length), new Float64Array(length)]
    const [keepRewards, growRewards] = [new Float64Array(length), new Float64Array(length)]
    const price = search.policy.price ?? preset.rent
    for (let i = 0; i < length; i++) {
      const step = --choices.steps[i]
      keepLosses[i] = waiting.without[side][rows[i]]
      growLosses[i] = waiting.full[side][rows[i]]
      const saved = keepLosses[i] - growLosses[i]
      if (preset.name === "paper") growRewards[i] = saved > 0 ? 1 : 0
      else {
        growRewards[i] = saved
        keepRewards[i] = (price * (sizes[step + 1] - sizes[step])) / waiting.rates[side][rows[i]]
      }
    }
    return { ...choices, keepLosses, growLosses, keepRewards, growRewards }
  }

  #choices(side: Side, rows: Int32Array, waiting: Judged): Choices & { rates: Float64Array } {
    const d = this.#context?.dimension ?? 0
    const { length } = rows
    const choices = {
      length,
      ids: new Int32Array(length),
      steps: new Uint8Array(length),
      frequencies: new Float64Array(length),
      contexts: new Float64Array(length * d),
      rates: new Float64Array(length),
    }
    for (let i = 0; i < length; i++) {
      const row = rows[i]
      choices.ids[i] = waiting.ids[side][row]
      choices.steps[i] = waiting.steps[side][row]
      choices.frequencies[i] = waiting.frequencies[side][row]
      choices.rates[i] = waiting.rates[side][row]
      for (let c = 0; c < d; c++) choices.contexts[i * d + c] = waiting.contexts[side][row * d + c]
    }
    return choices
  }

  /** Takes indicators and rates of a segment, row by row; only the rows to be trained on count as activity. */
  #observe(segment: Segment, deciding: number): Judged {
    const { length } = segment
    const columns = {
      userFrequency: new Float64Array(length),
      itemFrequency: new Float64Array(length),
      ind: new Float64Array(length),
      pod: new Float64Array(length),
    }
    const none = new Uint8Array(length)
    this.#indicators.observeBatch(segment, columns, { user: none, item: none })
    const context = this.#context
    const d = context?.dimension ?? 0
    const pair = <T>(make: () => T): Record<Side, T> => ({ user: make(), item: make() })
    const floats = () => new Float64Array(deciding)
    const waiting: Judged = {
      ids: { user: segment.user.slice(0, deciding), item: segment.item.slice(0, deciding) },
      contexts: pair(() => new Float64Array(deciding * d)),
      frequencies: {
        user: columns.userFrequency.slice(0, deciding),
        item: columns.itemFrequency.slice(0, deciding),
      },
      rates: pair(floats),
      steps: pair(() => new Uint8Array(deciding)),
      full: pair(floats),
      without: pair(floats),
      trained: 0,
    }
    for (let l = 0; l < deciding; l++)
      for (const side of SIDES) {
        const id = segment[side][l]
        this.#activity.meet(side, id, this.#time)
        waiting.rates[side][l] = this.#activity.rate(side, id, this.#time)
        const diversity = side === "user" ? columns.ind[l] : columns.pod[l]
        context?.write(waiting.contexts[side], l * d, waiting.frequencies[side][l], diversity)
      }
    return waiting
  }

  /** Steps 2 and 3: each distinct id of the segment is decided once, at its last row: grow, keep, or let a rung go. */
  #decide(side: Side, p: { search: SearchOptions; waiting: Judged; deciding: number; preparation: Preparation }): void {
    const { search, waiting, deciding, preparation } = p
    const { policy } = search
    const table = this.model.tables[side]
    const last = new Map<number, number>()
    for (let l = 0; l < deciding; l++) last.set(waiting.ids[side][l], l)
    let rows = Int32Array.from(last.values())
    const grown = new Set<number>()
    while (rows.length > 0) {
      rows = rows.filter((row) => this.#mayGrow(side, waiting.ids[side][row], waiting.frequencies[side][row]))
      const choices = this.#current(side, rows, waiting)
      const arms = policy.decide(side, choices)
      const growing: number[] = []
      for (let i = 0; i < choices.length; i++) {
        const id = choices.ids[i]
        if (arms[i] === 1 && this.#grow(side, search, { choices, at: i })) {
          grown.add(id)
          growing.push(rows[i])
        }
      }
      rows = policy.release ? Int32Array.from(growing) : new Int32Array(0)
    }
    if (preparation.decided) preparation.decided[side] = { all: last.size, grown: grown.size }
    if (!policy.release) return
    const holding = Int32Array.from(last.values()).filter((row) => {
      const id = waiting.ids[side][row]
      return !grown.has(id) && table.step(id) > 0
    })
    const choices = this.#current(side, holding, waiting)
    const shrunk = this.#release(side, policy, choices)
    if (preparation.shrunk) preparation.shrunk[side] += shrunk
  }

  /** Below the top; and for a policy that may climb several sizes at once, only as far as the id has evidence for. */
  #mayGrow(side: Side, id: number, frequency: number): boolean {
    const step = this.model.tables[side].step(id)
    if (step === this.model.tables[side].top) return false
    return !this.#search?.policy.release || this.model.sizes[step + 1] <= NUMBERS_PER_EVENT * frequency
  }

  /** Choices with the sizes as they are now. */
  #current(side: Side, rows: Int32Array, waiting: Judged): Choices {
    const choices = this.#choices(side, rows, waiting)
    const table = this.model.tables[side]
    for (let i = 0; i < choices.length; i++) choices.steps[i] = table.step(choices.ids[i])
    return choices
  }

  /** Grows a row by a size unless the budget has no room for it. */
  #grow(side: Side, search: SearchOptions, { choices, at }: { choices: Choices; at: number }): boolean {
    const id = choices.ids[at]
    const step = choices.steps[at] + 1
    if (!this.#affordable(side, step)) return false
    const scores = this.#scores(side, choices, { at, down: 0 })
    const grounds = { why: whyGrown(scores), scores: toArmScores(scores) }
    this.#resize(side, id, { step, cold: search.initial === "cold", ...grounds })
    return true
  }

  /** Whether there is room for one more row of a step, and for the ids still to be met. */
  #affordable(side: Side, step: number): boolean {
    if (this.#budget === undefined) return true
    const other = side === "user" ? "item" : "user"
    const added = this.#limiter.bytesToAdd(side, this.#unmet, step) + this.#limiter.bytesToAdd(other, this.#unmet)
    return this.model.heldBytes + added <= this.#budget
  }

  #release(side: Side, policy: SizePolicy, choices: Choices): number {
    if (!policy.release || choices.length === 0) return 0
    const arms = policy.release(side, choices)
    let shrunk = 0
    for (let i = 0; i < choices.length; i++)
      if (arms[i] === 1 && this.#affordable(side, choices.steps[i] - 1)) {
        const scores = toArmScores(this.#scores(side, choices, { at: i, down: 1 }))
        this.#resize(side, choices.ids[i], { step: choices.steps[i] - 1, why: "released", scores })
        shrunk++
      }
    return shrunk
  }

  /** Looks at the next ids in turn: those that are met no more give their numbers back, a rung at a time. */
  #sweep(side: Side, policy: SizePolicy): number {
    const table = this.model.tables[side]
    const ids: number[] = []
    let id = this.#cursor[side]
    for (let n = Math.min(SWEEP, table.reach); n > 0; n--) {
      if (table.has(id) && table.step(id) > 0 && this.#activity.idle(side, id, this.#time) >= IDLE) ids.push(id)
      id = id + 1 >= table.reach ? 0 : id + 1
    }
    this.#cursor[side] = id
    const context = this.#context
    const d = context?.dimension ?? 0
    const choices = {
      length: ids.length,
      ids: Int32Array.from(ids),
      steps: new Uint8Array(ids.length),
      frequencies: new Float64Array(ids.length),
      contexts: new Float64Array(ids.length * d),
      rates: new Float64Array(ids.length),
    }
    for (let i = 0; i < ids.length; i++) {
      choices.steps[i] = table.step(ids[i])
      choices.rates[i] = this.#activity.rate(side, ids[i], this.#time)
      choices.frequencies[i] = this.#indicators.frequency(side, ids[i])
      const diversity = policy.context === "cv" ? this.#indicators.diversity(side, ids[i]) : 0
      context?.write(choices.contexts, i * d, choices.frequencies[i], diversity)
    }
    return this.#release(side, policy, choices)
  }

  #turn(): void {
    if (this.#time - this.#turned < TURN * Math.max(1, this.model.width / 64)) return
    this.#turned = this.#time
    turnFrame(this.model, (item) => this.#activity.rate("item", item, this.#time))
    if (this.live) for (const side of SIDES) for (const id of this.model.tables[side].ids()) this.#changed[side].add(id)
  }

  train(batch: ModelBatch): PassResult {
    const touched = this.live ? this.#changed.item : undefined
    const waiting = this.#waiting
    if (!waiting) return this.model.train(batch, undefined, touched)
    const floats = () => new Float64Array(batch.user.length)
    const rungs: RungLosses = { full: floats(), without: { user: floats(), item: floats() } }
    const result = this.model.train(batch, rungs, touched)
    this.#note(batch, rungs, waiting)
    return result
  }

  /** Hands what was judged to the rows it belongs to; sampled negatives follow their row and are judged with it. */
  #note(batch: ModelBatch, rungs: RungLosses, waiting: Judged): void {
    const { ids, full, without } = waiting
    let row = 0
    for (let b = 0; b < batch.user.length && row < ids.user.length; b++) {
      if (batch.user[b] !== ids.user[row] || batch.item[b] !== ids.item[row]) continue
      for (const side of SIDES) {
        full[side][row] = rungs.full[b]
        without[side][row] = rungs.without[side][b]
      }
      row++
    }
    waiting.trained = row
  }

  test(batch: ModelBatch): PassResult {
    return this.model.predict(batch)
  }

  rank(items: readonly number[]): Ranker {
    const ids = Int32Array.from(items)
    for (const id of ids) this.model.meetOne("item", id)
    const scores = (user: number): Float64Array => {
      this.model.meetOne("user", user)
      const { outputs } = this.model
      const out = new Float64Array(ids.length * outputs)
      this.model.logitsOf(out, user, ids)
      return outputs === 1 ? out : out.filter((_, at) => at % outputs === 0)
    }
    return { items: ids, scores, release: () => {} }
  }

  status(): LearnerStatus {
    const side = (name: Side): SideStatus => {
      const table = this.model.tables[name]
      const histogram: Record<string, number> = {}
      table.histogram().forEach((rows, step) => {
        histogram[this.model.sizes[step]] = rows
      })
      return { seen: table.count, numbers: this.model.vectorNumbers(name), histogram }
    }
    const { embeddingBytes, heldBytes } = this.model
    return { user: side("user"), item: side("item"), embeddingBytes, heldBytes }
  }

  outlook(): Outlook | undefined {
    if (!this.#search || !this.#context) return undefined
    const largest = Math.sqrt(this.#search.features?.columns.length ?? 0)
    return outlookOf(this.#search.policy, this.#context, largest)
  }

  close(): void {}

  limit(limits: Limits, events: number): void {
    this.#limiter.set(limits, events)
    this.#budget = limits.bytes
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    const users = this.model.forget(side, ids)
    if (this.live) {
      for (const id of ids) this.#changed[side].add(id)
      for (const user of users) this.#changed.user.add(user)
    }
    this.#indicators.forget(side, ids)
    this.#activity.forget(side, ids)
    this.#limiter.forget(side, ids)
    this.#sizeLog?.forget(side, ids)
    this.#search?.policy.forget?.(side, ids)
    if (this.#waiting) this.#waiting = withoutRows(this.#waiting, side, ids)
  }

  changeFeatures(item: number): void {
    this.#indicators.changeFeatures(item)
  }

  /** Everything goes by message. */
  readonly roomNeeded = 0

  publish(): Published {
    const pack = (side: Side) => {
      const { ids, steps, rows } = packRows(this.model.tables[side], this.#changed[side])
      this.#changed[side].clear()
      return { [`${side}.ids`]: ids, [`${side}.steps`]: steps, [`${side}.rows`]: rows }
    }
    const items = Int32Array.from(this.model.tables.item.ids())
    return { items, arrays: { global: this.model.global.slice(), ...pack("user"), ...pack("item") } }
  }

  explain(side: Side, id: number): LearnerExplanation | undefined {
    const table = this.model.tables[side]
    if (!table.has(id)) return undefined
    const policy = this.#search?.policy
    const step = table.step(id)
    const frequency = this.#indicators.frequency(side, id)
    const diversity = policy?.context === "cv" ? this.#indicators.diversity(side, id) : null
    let bounds: LearnerExplanation["bounds"] = null
    if (this.#context && policy?.scores && step < table.top) {
      const context = new Float64Array(this.#context.dimension)
      this.#context.write(context, 0, frequency, diversity ?? 0)
      const rate = this.#activity.rate(side, id, this.#time)
      const { keep, grow } = policy.scores(side, context, { step, rate })
      bounds = { keep, grow }
    }
    const { sizes } = this.model
    const history = toSteps(this.#sizeLog?.of(side, id) ?? [], sizes)
    return { size: sizes[step], bytes: table.rowBytes(id), history, indicators: { frequency, diversity }, bounds }
  }

  save(state: State): void {
    state.set("segments", this.#segments)
    state.put("time", Float64Array.of(this.#time, this.#turned))
    state.set("cursor", { ...this.#cursor })
    this.model.save(state.at("model"))
    this.#search?.policy.save?.(state.at("policy"))
    this.#indicators.save(state.at("indicators"))
    this.#activity.save(state.at("activity"))
    this.#limiter.save(state.at("idle"))
    this.#sizeLog?.save(state.at("sizeLog"))
    saveJudged(state.at("waiting"), this.#waiting)
  }

  load(state: State): void {
    this.#segments = state.get<number>("segments")
    const time = state.take("time", Float64Array)
    this.#time = time[0]
    this.#turned = time[1]
    Object.assign(this.#cursor, state.get("cursor"))
    this.model.load(state.at("model"))
    this.#search?.policy.load?.(state.at("policy"))
    this.#indicators.load(state.at("indicators"))
    this.#activity.load(state.at("activity"))
    this.#limiter.load(state.at("idle"))
    this.#sizeLog?.load(state.at("sizeLog"))
    this.#waiting = loadJudged(state.at("waiting"))
    for (const side of SIDES) {
      this.#changed[side].clear()
      for (const id of this.model.tables[side].ids()) this.#changed[side].add(id)
    }
  }
}
