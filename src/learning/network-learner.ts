/**
 * The learner of every method with a network: a model, and for those that search a size policy (method.md §3).
 * The contexts of a segment are taken once, when it arrives, row by row; they serve the decisions on its training part
 * now and the bandit's round on all of it at the next segment.
 *
 * Live, on top: batches too small for batch statistics are learned together with the rows right before them (so a row
 * may be stepped several times when events are rare); the tables stay within limits; ids can be forgotten; versions are
 * published; the whole is saved and loaded.
 */

import type { Limits } from "../ids/idle.ts"
import type { Indicators } from "../ids/indicators.ts"
import { type ArmScores, type Reason, SizeLog } from "../ids/size-log.ts"
import type { State } from "../kernels/state.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import { packRows } from "../models/packed-rows.ts"
import { Ladder } from "../models/paper/ladder.ts"
import type { Model } from "../models/paper/model.ts"
import { type ProbeSide, probe } from "../models/paper/probe.ts"
import { Ranking } from "../models/paper/ranking.ts"
import type { Context } from "../policies/context.ts"
import { type Outlook, outlookOf } from "../policies/outlook.ts"
import type { Choices, PolicyScores, Round } from "../policies/policy.ts"
import type { Preset } from "../policies/presets.ts"
import type { Segment, Side } from "../types.ts"
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
import { Limiter } from "./limiter.ts"
import type { LiveRun } from "./options.ts"
import { floatsPerItem, type Published, type SharedRegion, writeItems } from "./reader.ts"
import { RecentRows } from "./recent-rows.ts"
import { createContexts, playRound, type SearchOptions } from "./round.ts"
import { toArmScores, whyGrown } from "./size-grounds.ts"
import { loadWaiting, saveWaiting, type Waiting, withoutIds } from "./waiting-segment.ts"

const SIDES = ["user", "item"] as const

export class NetworkLearner implements Learner, LiveLearner {
  readonly model: Model
  readonly live: LiveLearner | undefined
  readonly #search: SearchOptions | undefined
  readonly #context: Context | undefined
  readonly #indicators: Indicators
  #waiting: Waiting | undefined
  #segments = 0
  /** When the segment at hand was closed, or time advanced without one, in milliseconds; and what the policy thinks of those it lets grow in it. */
  #clock = 0
  readonly #growScores: Record<Side, Map<number, PolicyScores>> = { user: new Map(), item: new Map() }
  /** Live only. */
  readonly #recent: RecentRows | undefined
  readonly #sizeLog: SizeLog | undefined
  readonly #limiter: Limiter
  /** Users whose rows may differ from those published last. */
  readonly #changed = new Set<number>()

  constructor(model: Model, search?: SearchOptions, live?: LiveRun) {
    this.model = model
    this.#limiter = new Limiter({
      tables: { user: model.inputs.user.table, item: model.inputs.item.table },
      forget: (side, ids) => this.forget(side, ids),
      ...(model.inputs.user instanceof Ladder && { shrink: (side, id) => this.#shrink(side, id) }),
    })
    if (live) {
      this.live = this
      this.#recent = new RecentRows(live.smallestBatch, model.task === "topk")
      this.#sizeLog = new SizeLog()
    }
    this.#search = search
    const { context, indicators } = createContexts(search)
    this.#context = context
    this.#indicators = indicators
  }

  prepare(segment: Segment, labels: Float64Array, deciding: number): Preparation {
    this.#segments++
    this.#clock = segment.time ?? 0
    this.#growScores.user.clear()
    this.#growScores.item.clear()
    const search = this.#search
    if (!search) {
      const gone = this.#makeRoom(segment)
      this.#meet(segment)
      return { ...gone, milliseconds: { policy: 0, growth: 0 } }
    }
    const start = performance.now()
    const preparation: Preparation = {
      regret: { user: 0, item: 0 },
      played: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
      decided: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
      milliseconds: { policy: 0, growth: 0 },
    }
    if (this.#waiting) Object.assign(preparation, this.#learn(search, this.#waiting))
    Object.assign(preparation, this.#makeRoom(segment))
    this.#meet({ user: segment.user.subarray(0, deciding), item: segment.item.subarray(0, deciding) })
    const waiting = this.#observe(segment, labels)
    this.#waiting = waiting
    const acting = this.#segments >= search.policy.firstSegment
    const growing = {
      user: this.#decide("user", { search, waiting, deciding, acting, preparation }),
      item: this.#decide("item", { search, waiting, deciding, acting, preparation }),
    }
    const decided = performance.now()
    const affordable = this.#limiter.affordable(growing)
    for (const side of SIDES) {
      if (preparation.decided) preparation.decided[side].grown = affordable[side].length
      this.model.ladder(side).grow(affordable[side], search.initial)
      for (const id of affordable[side]) {
        const scores = this.#growScores[side].get(id)
        this.#note(side, [id], whyGrown(scores), toArmScores(scores))
      }
    }
    // Ids first met in a test row are seen ids too, also where no test predicts them (top-k: cold items).
    this.#meet(segment)
    preparation.milliseconds = { policy: decided - start, growth: performance.now() - decided }
    return preparation
  }

  /** Gives the ids of a segment their rows. */
  #meet(segment: { user: Int32Array; item: Int32Array }): void {
    const fresh = this.model.meet(segment)
    for (const side of SIDES) this.#note(side, fresh[side], "met")
  }

  /** Notes the size ids have from this segment on, and why. */
  #note(side: Side, ids: Iterable<number>, why: Reason, scores?: ArmScores): void {
    const { table } = this.model.inputs[side]
    const at = { segment: this.#segments, time: this.#clock, why, scores }
    if (this.#sizeLog) for (const id of ids) this.#sizeLog.add(side, id, { ...at, step: table.step(id) })
  }

  #makeRoom(segment: Segment): Pick<Preparation, "shrunk" | "left"> | undefined {
    if (this.live) for (const id of segment.user) this.#changed.add(id)
    return this.#limiter.makeRoom(segment, this.#segments)
  }

  #shrink(side: Side, id: number): void {
    this.model.ladder(side).shrink([id])
    this.#note(side, [id], "idle")
    if (side === "user") this.#changed.add(id)
  }

  /** Takes the indicators of a segment, row by row, into context vectors. */
  #observe(segment: Segment, labels: Float64Array): Waiting {
    const { length } = segment
    // Copies: the segment's own memory may be used again once it is learned.
    const batch = { user: segment.user.slice(), item: segment.item.slice(), label: labels }
    const context = this.#context
    const empty = new Float64Array(0)
    if (!context) return { batch, contexts: { user: empty, item: empty }, frequencies: { user: empty, item: empty } }
    const columns = {
      userFrequency: new Float64Array(length),
      itemFrequency: new Float64Array(length),
      ind: new Float64Array(length),
      pod: new Float64Array(length),
    }
    const skip = { user: this.#atTop("user", segment.user), item: this.#atTop("item", segment.item) }
    this.#indicators.observeBatch(segment, columns, skip)
    const d = context.dimension
    const user = new Float64Array(length * d)
    const item = new Float64Array(length * d)
    for (let l = 0; l < length; l++) {
      context.write(user, l * d, columns.userFrequency[l], columns.ind[l])
      context.write(item, l * d, columns.itemFrequency[l], columns.pod[l])
    }
    return {
      batch,
      contexts: { user, item },
      frequencies: { user: columns.userFrequency, item: columns.itemFrequency },
    }
  }

  /** Rows whose id is at the top size: nothing is left to decide there. */
  #atTop(side: Side, ids: Int32Array): Uint8Array {
    const { table } = this.model.inputs[side]
    const top = new Uint8Array(ids.length)
    for (let l = 0; l < ids.length; l++) top[l] = table.has(ids[l]) && table.step(ids[l]) === table.top ? 1 : 0
    return top
  }

  /** Step 1: probes the waiting segment and lets the policy play and learn it. */
  #learn(search: SearchOptions, waiting: Waiting): Required<Pick<Preparation, "regret" | "played">> {
    const { policy, preset } = search
    const { batch } = waiting
    const asked = { user: this.#ask("user", batch, preset), item: this.#ask("item", batch, preset) }
    const result = {
      regret: { user: 0, item: 0 },
      played: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
    }
    const tables = probe(this.model, { batch, rate: preset.probeRate, ...asked })
    for (const side of ["user", "item"] as const) {
      const { rows } = asked[side]
      const round = this.#round(side, { rows, waiting, losses: tables[side], preset })
      const { regret, played } = playRound(policy, side, round)
      result.regret[side] = regret
      result.played[side] = played
    }
    return result
  }

  /** Rows whose id can still grow, and where each tuned row is judged. */
  #ask(side: Side, batch: ModelBatch, preset: Preset): ProbeSide {
    const ids = batch[side]
    const { table } = this.model.inputs[side]
    const next = preset.evaluate === "next" ? nextRows(ids) : undefined
    const rows = new Int32Array(ids.length)
    const evaluate = new Int32Array(ids.length)
    let count = 0
    for (let l = 0; l < ids.length; l++) {
      if (table.step(ids[l]) === table.top || next?.[l] === -1) continue
      rows[count] = l
      evaluate[count++] = next ? next[l] : l
    }
    return { rows: rows.subarray(0, count), evaluate: evaluate.subarray(0, count) }
  }

  #round(
    side: Side,
    p: { rows: Int32Array; waiting: Waiting; losses: { keep: Float64Array; grow: Float64Array }; preset: Preset },
  ): Round {
    const { rows, waiting, losses, preset } = p
    const { table } = this.model.inputs[side]
    const chosen = this.#choices(side, rows, waiting)
    const keepRewards = new Float64Array(rows.length)
    const growRewards = new Float64Array(rows.length)
    for (let l = 0; l < rows.length; l++) {
      const step = chosen.steps[l]
      const cost = preset.price * (table.sizes[step + 1] - table.sizes[step])
      growRewards[l] = losses.keep[l] - losses.grow[l] > cost ? 1 : 0
      keepRewards[l] = preset.keepReward === "complement" ? 1 - growRewards[l] : 0
    }
    return { ...chosen, keepLosses: losses.keep, growLosses: losses.grow, keepRewards, growRewards }
  }

  /** What a policy is told of the ids at some rows of a waiting segment. */
  #choices(side: Side, rows: Int32Array, waiting: Waiting): Choices {
    const { table } = this.model.inputs[side]
    const d = this.#context?.dimension ?? 0
    const { length } = rows
    const [all, allContexts, allFrequencies] = [waiting.batch[side], waiting.contexts[side], waiting.frequencies[side]]
    const ids = new Int32Array(length)
    const steps = new Uint8Array(length)
    const frequencies = new Float64Array(length)
    const contexts = new Float64Array(length * d)
    for (let l = 0; l < length; l++) {
      const row = rows[l]
      ids[l] = all[row]
      steps[l] = table.step(all[row])
      if (d > 0) frequencies[l] = allFrequencies[row]
      for (let c = 0; c < d; c++) contexts[l * d + c] = allContexts[row * d + c]
    }
    return { length, ids, steps, frequencies, contexts }
  }

  /** Step 2: each distinct id of the first `deciding` rows that can grow is decided once, at its last occurrence there. */
  #decide(
    side: Side,
    p: { search: SearchOptions; waiting: Waiting; deciding: number; acting: boolean; preparation: Preparation },
  ): number[] {
    const { search, waiting, deciding, acting, preparation } = p
    const { table } = this.model.inputs[side]
    const ids = waiting.batch[side]
    const last = new Map<number, number>()
    for (let l = 0; l < deciding; l++) last.set(ids[l], l)
    const rows: number[] = []
    for (const [id, row] of last) if (table.step(id) < table.top) rows.push(row)
    if (!acting) return []
    const choices = this.#choices(side, Int32Array.from(rows), waiting)
    const growing = this.#growing(side, choices, search)
    if (preparation.decided) preparation.decided[side] = { all: choices.length, grown: growing.length }
    return growing
  }

  #growing(side: Side, choices: Choices, search: SearchOptions): number[] {
    const arms = search.policy.decide(side, choices)
    const growing: number[] = []
    const d = this.#context?.dimension ?? 0
    for (let i = 0; i < choices.length; i++) {
      if (arms[i] !== 1) continue
      growing.push(choices.ids[i])
      const context = choices.contexts.subarray(i * d, (i + 1) * d)
      const scores = this.#sizeLog && search.policy.scores?.(side, context)
      if (scores) this.#growScores[side].set(choices.ids[i], scores)
    }
    return growing
  }

  train(batch: ModelBatch): PassResult {
    if (batch.user.length === 0) return this.model.train(batch)
    const { rows, added } = this.#recent?.extend(batch) ?? { rows: batch, added: 0 }
    for (let r = 0; r < added; r++) this.#changed.add(rows.user[r])
    const { logits, losses } = this.model.train(rows)
    return { logits: logits.subarray(added * this.model.outputs), losses: losses.subarray(added) }
  }

  test(batch: ModelBatch): PassResult {
    return this.model.predict(batch)
  }

  rank(items: ArrayLike<number>): Ranker {
    return new Ranking(this.model, items)
  }

  status(): LearnerStatus {
    const side = (name: Side): SideStatus => {
      const { table } = this.model.inputs[name]
      const histogram: Record<string, number> = {}
      table.histogram().forEach((rows, step) => {
        histogram[table.sizes[step]] = rows
      })
      return { seen: table.count, numbers: table.numbers, histogram }
    }
    return {
      user: side("user"),
      item: side("item"),
      embeddingBytes: this.model.embeddingBytes,
      heldBytes: this.model.heldBytes,
      besideBytes: this.#indicators.bytes + (this.#sizeLog?.bytes ?? 0) + this.#limiter.idleBytes,
    }
  }

  outlook(): Outlook | undefined {
    if (!this.#search || !this.#context) return undefined
    const largest = Math.sqrt(this.#search.features?.columns.length ?? 0)
    return outlookOf(this.#search.policy, this.#context, largest)
  }

  close(): void {
    this.model.kernels.close()
  }

  set alone(alone: boolean) {
    this.model.kernels.alone = alone
  }

  limit(limits: Limits, events: number): void {
    this.#limiter.set(limits, events)
  }

  advanceTime(milliseconds: number): Pick<Preparation, "shrunk" | "left"> | undefined {
    this.#clock = milliseconds
    return this.#limiter.advanceTime(milliseconds, this.#segments)
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    const { tables } = this.model.inputs[side]
    for (const id of ids) {
      for (const table of tables) if (table.has(id)) table.free(id)
      if (side === "user") this.#changed.add(id)
    }
    this.#indicators.forget(side, ids)
    this.#search?.policy.forget?.(side, ids)
    this.#limiter.forget(side, ids)
    this.#sizeLog?.forget(side, ids)
    this.#recent?.forget(side, ids)
    if (this.#waiting) this.#waiting = withoutIds(this.#waiting, side, ids)
  }

  changeFeatures(item: number): void {
    this.#indicators.changeFeatures(item)
  }

  get floatsNeeded(): number {
    return this.model.inputs.item.table.count * floatsPerItem(this.model)
  }

  publish(region: SharedRegion): Published {
    const items = Int32Array.from(this.model.inputs.item.table.ids())
    const powers = Uint8Array.of(writeItems(this.model, items, region) ? 1 : 0)
    const { ids, steps, rows } = packRows(this.model.inputs.user.table, this.#changed)
    this.#changed.clear()
    const users = { userIds: ids, userSteps: steps, userRows: rows }
    return { items, arrays: { ...this.model.parameters.copyValues(), ...users, powers } }
  }

  explain(side: Side, id: number): LearnerExplanation | undefined {
    const { table } = this.model.inputs[side]
    if (!table.has(id)) return undefined
    const frequency = this.#indicators.frequency(side, id)
    const diverse = this.#search?.policy.context === "cv"
    const diversity = diverse ? this.#indicators.diversity(side, id) : null
    let bounds: LearnerExplanation["bounds"] = null
    if (this.#context && this.#search?.policy.scores && table.step(id) < table.top) {
      const context = new Float64Array(this.#context.dimension)
      this.#context.write(context, 0, frequency, diversity ?? 0)
      const { keep, grow } = this.#search.policy.scores(side, context)
      bounds = { keep, grow }
    }
    const history = toSteps(this.#sizeLog?.of(side, id) ?? [], table.sizes)
    return { size: table.size(id), bytes: table.rowBytes(id), history, indicators: { frequency, diversity }, bounds }
  }

  save(state: State): void {
    state.set("segments", this.#segments)
    this.model.save(state.at("model"))
    this.#search?.policy.save?.(state.at("policy"))
    this.#indicators.save(state.at("indicators"))
    this.#limiter.save(state.at("idle"))
    this.#recent?.save(state.at("recent"))
    this.#sizeLog?.save(state.at("sizeLog"))
    saveWaiting(state.at("waiting"), this.#waiting)
  }

  load(state: State): void {
    this.#segments = state.get<number>("segments")
    this.model.load(state.at("model"))
    this.#search?.policy.load?.(state.at("policy"))
    this.#indicators.load(state.at("indicators"))
    this.#limiter.load(state.at("idle"))
    this.#recent?.load(state.at("recent"))
    this.#sizeLog?.load(state.at("sizeLog"))
    this.#changed.clear()
    for (const id of this.model.inputs.user.table.ids()) this.#changed.add(id)
    this.#waiting = loadWaiting(state.at("waiting"))
  }
}

/** For each row the next row of the same id, or −1. */
function nextRows(ids: ArrayLike<number>): Int32Array {
  const next = new Int32Array(ids.length)
  const later = new Map<number, number>()
  for (let l = ids.length - 1; l >= 0; l--) {
    next[l] = later.get(ids[l]) ?? -1
    later.set(ids[l], l)
  }
  return next
}
