/**
 * The learner of every method with a network: a model, and for those that search a size policy (method.md §3).
 * The contexts of a segment are taken once, when it arrives, row by row; they serve the decisions on its training part
 * now and the bandit's round on all of it at the next segment.
 *
 * Live, on top: batches too small for batch statistics are learned together with the rows right before them (so a row
 * may be stepped several times when events are rare); the tables stay within limits; ids can be forgotten; versions are
 * published; the whole is saved and loaded.
 */

import { type Context, createContext } from "../context/context.ts"
import { Indicators } from "../context/indicators.ts"
import { Ladder } from "../embedding/ladder.ts"
import { DessError } from "../errors.ts"
import type { State } from "../kernels/state.ts"
import type { Model, ModelBatch, PassResult } from "../models/model.ts"
import type { Choices, Round, SizePolicy } from "../search/policy.ts"
import type { Preset } from "../search/presets.ts"
import type { ItemFeatures, Segment, Side } from "../types.ts"
import { Idle, type Limits } from "./idle.ts"
import type {
  Learner,
  LearnerExplanation,
  LearnerStatus,
  LiveLearner,
  Preparation,
  Ranker,
  SideStatus,
} from "./learner.ts"
import type { LiveRun } from "./options.ts"
import { type ProbeSide, probe } from "./probe.ts"
import { Ranking } from "./ranking.ts"
import { type Published, packUsers, type Room, roomPerItem, writeItems } from "./reader.ts"
import { RecentRows } from "./recent-rows.ts"
import { SizeLog } from "./size-log.ts"

export interface SearchOptions {
  policy: SizePolicy
  preset: Preset
  initial: "warm" | "cold"
  features: ItemFeatures | undefined
}

/** A segment with its contexts, waiting to be the next round. */
interface Waiting {
  batch: ModelBatch
  contexts: Record<Side, Float64Array>
  frequencies: Record<Side, Float64Array>
}

const SIDES = ["user", "item"] as const

export class Network implements Learner, LiveLearner {
  readonly model: Model
  readonly live: LiveLearner | undefined
  readonly #search: SearchOptions | undefined
  readonly #context: Context | undefined
  readonly #indicators: Indicators
  #waiting: Waiting | undefined
  #segments = 0
  /** Live only. */
  readonly #recent: RecentRows | undefined
  readonly #sizeLog: SizeLog | undefined
  readonly #idle = new Idle()
  #limits: Limits | undefined
  /** Users whose rows may differ from those published last. */
  readonly #changed = new Set<number>()

  constructor(model: Model, search?: SearchOptions, live?: LiveRun) {
    this.model = model
    if (live) {
      this.live = this
      this.#recent = new RecentRows(live.smallestBatch, model.task === "topk")
      this.#sizeLog = new SizeLog()
    }
    this.#search = search
    const kind = search?.policy.context ?? "none"
    const features = kind === "cv" ? search?.features : undefined
    if (kind !== "none")
      this.#context = createContext({
        kind,
        constant: search?.preset.constant ?? false,
        featureColumns: features?.columns.length,
      })
    this.#indicators = new Indicators({ features })
  }

  prepare(segment: Segment, labels: Float64Array, deciding: number): Preparation {
    this.#segments++
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
    if (this.#waiting) this.#learn(search, this.#waiting, preparation)
    Object.assign(preparation, this.#makeRoom(segment))
    this.#meet({ user: segment.user.subarray(0, deciding), item: segment.item.subarray(0, deciding) })
    const waiting = this.#observe(segment, labels)
    this.#waiting = waiting
    const acting = this.#segments >= search.policy.from
    const growing = {
      user: this.#decide("user", { search, waiting, deciding, acting, preparation }),
      item: this.#decide("item", { search, waiting, deciding, acting, preparation }),
    }
    const decided = performance.now()
    this.#cut(growing, preparation)
    for (const side of SIDES) {
      this.model.ladder(side).grow(growing[side], search.initial)
      this.#note(side, growing[side])
    }
    // Ids first met in a test row are seen ids too, also where no test predicts them (top-k: cold items).
    this.#meet(segment)
    preparation.milliseconds = { policy: decided - start, growth: performance.now() - decided }
    return preparation
  }

  /** Gives the ids of a segment their rows. */
  #meet(segment: { user: Int32Array; item: Int32Array }): void {
    const fresh = this.model.meet(segment)
    for (const side of SIDES) this.#note(side, fresh[side])
  }

  /** Notes the size ids have from this segment on. */
  #note(side: Side, ids: Iterable<number>): void {
    if (this.#sizeLog)
      for (const id of ids) this.#sizeLog.add(side, id, this.#segments, this.model.inputs[side].table.step(id))
  }

  /** Live: lets idle ids shrink and leave, and the longest idle ones go until the ids of the segment have room. */
  #makeRoom(segment: Segment): Pick<Preparation, "shrunk" | "left"> {
    if (this.live) for (const id of segment.user) this.#changed.add(id)
    const limits = this.#limits
    if (!limits) return {}
    const shrunk = { user: 0, item: 0 }
    const left: Record<Side, number[]> = { user: [], item: [] }
    const milliseconds = segment.time ?? 0
    for (const side of SIDES) {
      this.#idle.meet(side, segment[side], { milliseconds, segment: this.#segments })
      const due = this.#idle.due(side, milliseconds, limits)
      this.#release(side, due.leave, left)
      shrunk[side] = this.#shrink(side, due.shrink)
    }
    const { bytes } = limits
    if (bytes === undefined) return { shrunk, left }
    while (this.model.heldBytes + this.#bytesToMeet(segment) > bytes) {
      const held = this.model.inputs.user.table.count + this.model.inputs.item.table.count
      const chosen = this.#idle.longest(Math.max(64, held >> 6), this.#segments)
      if (chosen.user.length + chosen.item.length === 0)
        throw new DessError("NUMERIC", `memory budget: expected room for one segment, got ${bytes} bytes`)
      for (const side of SIDES) this.#release(side, chosen[side], left)
    }
    return { shrunk, left }
  }

  /** Bytes that the rows of the segment's new ids would add. */
  #bytesToMeet(segment: Segment): number {
    let bytes = 0
    for (const side of SIDES) {
      const { table } = this.model.inputs[side]
      const fresh = new Set<number>()
      let most = 0
      for (const id of segment[side]) {
        if (!table.has(id)) fresh.add(id)
        most = Math.max(most, id)
      }
      bytes += table.bytesToAdd(addedAt(table.sizes.length, table.start, fresh.size), most)
    }
    return bytes
  }

  #release(side: Side, ids: readonly number[], left: Record<Side, number[]>): void {
    if (ids.length === 0) return
    this.forget(side, new Set(ids))
    for (const id of ids) left[side].push(id)
  }

  /** Moves ids above the smallest size one step down, where that needs no more bytes. Returns how many. */
  #shrink(side: Side, ids: readonly number[]): number {
    const input = this.model.inputs[side]
    if (!(input instanceof Ladder)) return 0
    const { table } = input
    const bytes = this.#limits?.bytes
    let count = 0
    for (const id of ids) {
      if (!table.has(id) || table.step(id) === 0) continue
      const added = addedAt(table.sizes.length, table.step(id) - 1, 1)
      if (bytes !== undefined && this.model.heldBytes + table.bytesToAdd(added, 0) > bytes) continue
      input.shrink([id])
      this.#note(side, [id])
      if (side === "user") this.#changed.add(id)
      count++
    }
    return count
  }

  /** Live: takes out of the lists what the limits have no bytes for. */
  #cut(growing: Record<Side, number[]>, preparation: Preparation): void {
    const bytes = this.#limits?.bytes
    if (bytes === undefined) return
    const room = bytes - this.model.heldBytes
    const spent = { user: 0, item: 0 }
    for (const side of SIDES) {
      const { table } = this.model.inputs[side]
      const added = new Int32Array(table.sizes.length)
      const other = side === "user" ? spent.item : spent.user
      growing[side] = growing[side].filter((id) => {
        const step = table.step(id) + 1
        added[step]++
        const cost = table.bytesToAdd(added, 0)
        if (cost + other <= room) {
          spent[side] = cost
          return true
        }
        added[step]--
        return false
      })
      if (preparation.decided) preparation.decided[side].grown = growing[side].length
    }
  }

  /** Takes the indicators of a segment, row by row, into context vectors. */
  #observe(segment: Segment, labels: Float64Array): Waiting {
    const { length } = segment
    const batch = { user: segment.user, item: segment.item, label: labels }
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
  #learn(search: SearchOptions, waiting: Waiting, preparation: Preparation): void {
    const { policy, preset } = search
    const { batch } = waiting
    const asked = { user: this.#ask("user", batch, preset), item: this.#ask("item", batch, preset) }
    const tables = probe(this.model, { batch, rate: preset.probeRate, ...asked })
    for (const side of ["user", "item"] as const) {
      const { rows } = asked[side]
      const round = this.#round(side, { rows, waiting, losses: tables[side], preset })
      const arms = policy.learn(side, round)
      let regret = 0
      let grown = 0
      for (let l = 0; l < rows.length; l++) {
        const [keep, grow] = [round.keepRewards[l], round.growRewards[l]]
        regret += Math.max(keep, grow) - (arms[l] === 1 ? grow : keep)
        grown += arms[l]
      }
      if (preparation.regret) preparation.regret[side] = regret
      if (preparation.played) preparation.played[side] = { all: rows.length, grown }
    }
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
    const arms = search.policy.decide(side, choices)
    const growing: number[] = []
    for (let i = 0; i < choices.length; i++) if (arms[i] === 1) growing.push(choices.ids[i])
    if (preparation.decided) preparation.decided[side] = { all: choices.length, grown: growing.length }
    return growing
  }

  train(batch: ModelBatch): PassResult {
    if (!this.#recent || batch.user.length === 0) return this.model.train(batch)
    const { rows, added } = this.#recent.extend(batch)
    for (let r = 0; r < added; r++) this.#changed.add(rows.user[r])
    const { logits, losses } = this.model.train(rows)
    return { logits: logits.subarray(added * this.model.outputs), losses: losses.subarray(added) }
  }

  test(batch: ModelBatch): PassResult {
    return this.model.predict(batch)
  }

  rank(items: readonly number[]): Ranker {
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
    }
  }

  close(): void {
    this.model.kernels.close()
  }

  limit(limits: Limits, events: number): void {
    const { bytes } = limits
    let least = 0
    for (const side of SIDES) {
      const { table } = this.model.inputs[side]
      // One segment of new ids at the first size, and a first chunk of every other.
      const added = new Int32Array(table.sizes.length).fill(1)
      added[table.start] = events
      const empty = this.model.emptyTable(side)
      least += empty.bytesToAdd(added, 2 * events)
    }
    if (bytes !== undefined && bytes < least)
      throw new DessError("INVALID_ARGUMENT", `memory budget: expected at least ${least} bytes, got ${bytes}`)
    this.#limits = limits
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    const { tables } = this.model.inputs[side]
    for (const id of ids) {
      for (const table of tables) if (table.has(id)) table.free(id)
      if (side === "user") this.#changed.add(id)
    }
    this.#indicators.forget(side, ids)
    this.#search?.policy.forget?.(side, ids)
    this.#idle.forget(side, ids)
    this.#sizeLog?.forget(side, ids)
    this.#recent?.forget(side, ids)
    if (this.#waiting) this.#waiting = this.#without(this.#waiting, side, ids)
  }

  /** A waiting segment without the rows of some ids. */
  #without(waiting: Waiting, side: Side, ids: ReadonlySet<number>): Waiting {
    const column = waiting.batch[side]
    const rows = Int32Array.from({ length: column.length }, (_, r) => r).filter((r) => !ids.has(column[r]))
    if (rows.length === column.length) return waiting
    const d = this.#context?.dimension ?? 0
    const wide = (source: Float64Array) =>
      Float64Array.from({ length: rows.length * d }, (_, i) => source[rows[Math.floor(i / d)] * d + (i % d)])
    const narrow = (source: Float64Array) => (source.length === 0 ? source : Float64Array.from(rows, (r) => source[r]))
    const { batch, contexts, frequencies } = waiting
    return {
      batch: {
        user: Int32Array.from(rows, (r) => batch.user[r]),
        item: Int32Array.from(rows, (r) => batch.item[r]),
        label: Float64Array.from(rows, (r) => batch.label[r]),
      },
      contexts: { user: wide(contexts.user), item: wide(contexts.item) },
      frequencies: { user: narrow(frequencies.user), item: narrow(frequencies.item) },
    }
  }

  changeFeatures(item: number): void {
    this.#indicators.changeFeatures(item)
  }

  get roomNeeded(): number {
    return this.model.inputs.item.table.count * roomPerItem(this.model)
  }

  publish(room: Room): Published {
    const items = Int32Array.from(this.model.inputs.item.table.ids())
    writeItems(this.model, items, room)
    const { ids, steps, rows } = packUsers(this.model, this.#changed)
    this.#changed.clear()
    const arrays = { ...this.model.parameters.copyValues(), userIds: ids, userSteps: steps, userRows: rows }
    return { items, arrays }
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
      bounds = this.#search.policy.scores(side, context)
    }
    const history = (this.#sizeLog?.of(side, id) ?? []).map(({ segment, step }) => ({
      segment,
      size: table.sizes[step],
    }))
    return { size: table.size(id), bytes: table.rowBytes(id), history, indicators: { frequency, diversity }, bounds }
  }

  save(state: State): void {
    state.set("segments", this.#segments)
    this.model.save(state.at("model"))
    this.#search?.policy.save?.(state.at("policy"))
    this.#indicators.save(state.at("indicators"))
    this.#idle.save(state.at("idle"))
    this.#recent?.save(state.at("recent"))
    this.#sizeLog?.save(state.at("sizeLog"))
    const waiting = this.#waiting
    state.set("waiting", waiting !== undefined)
    if (!waiting) return
    const at = state.at("waiting")
    at.put("user", Int32Array.from(waiting.batch.user))
    at.put("item", Int32Array.from(waiting.batch.item))
    at.put("label", Float64Array.from(waiting.batch.label))
    for (const side of SIDES) {
      at.put(`contexts.${side}`, waiting.contexts[side])
      at.put(`frequencies.${side}`, waiting.frequencies[side])
    }
  }

  load(state: State): void {
    this.#segments = state.get<number>("segments")
    this.model.load(state.at("model"))
    this.#search?.policy.load?.(state.at("policy"))
    this.#indicators.load(state.at("indicators"))
    this.#idle.load(state.at("idle"))
    this.#recent?.load(state.at("recent"))
    this.#sizeLog?.load(state.at("sizeLog"))
    this.#changed.clear()
    for (const id of this.model.inputs.user.table.ids()) this.#changed.add(id)
    this.#waiting = undefined
    if (!state.get("waiting")) return
    const at = state.at("waiting")
    const floats = (name: string) => at.take(name, Float64Array).slice()
    const ints = (name: string) => at.take(name, Int32Array).slice()
    this.#waiting = {
      batch: { user: ints("user"), item: ints("item"), label: floats("label") },
      contexts: { user: floats("contexts.user"), item: floats("contexts.item") },
      frequencies: { user: floats("frequencies.user"), item: floats("frequencies.item") },
    }
  }
}

/** Rows added per step: `count` at one. */
function addedAt(steps: number, step: number, count: number): Int32Array {
  const added = new Int32Array(steps)
  added[step] = count
  return added
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
