/**
 * The learner of every method with a network: a model, and for those that search a size policy (method.md §3).
 * The contexts of a segment are taken once, when it arrives, row by row; they serve the decisions on its training part
 * now and the bandit's round on all of it at the next segment.
 */

import { type Context, createContext } from "../context/context.ts"
import { Indicators } from "../context/indicators.ts"
import type { Model, ModelBatch, PassResult } from "../models/model.ts"
import type { Choices, Round, SizePolicy } from "../search/policy.ts"
import type { Preset } from "../search/presets.ts"
import type { ItemFeatures, Segment, Side } from "../types.ts"
import type { Learner, LearnerStatus, Preparation, Ranker, SideStatus } from "./learner.ts"
import { type Outlook, outlookOf } from "./outlook.ts"
import { type ProbeSide, probe } from "./probe.ts"
import { Ranking } from "./ranking.ts"

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

export class Network implements Learner {
  readonly model: Model
  readonly #search: SearchOptions | undefined
  readonly #context: Context | undefined
  readonly #indicators: Indicators
  #waiting: Waiting | undefined
  #segments = 0

  constructor(model: Model, search?: SearchOptions) {
    this.model = model
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
      this.model.meet(segment)
      return { milliseconds: { policy: 0, growth: 0 } }
    }
    const start = performance.now()
    const preparation: Preparation = {
      regret: { user: 0, item: 0 },
      played: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
      decided: { user: { all: 0, grown: 0 }, item: { all: 0, grown: 0 } },
      milliseconds: { policy: 0, growth: 0 },
    }
    if (this.#waiting) this.#learn(search, this.#waiting, preparation)
    this.model.meet({ user: segment.user.subarray(0, deciding), item: segment.item.subarray(0, deciding) })
    const waiting = this.#observe(segment, labels)
    this.#waiting = waiting
    const acting = this.#segments >= search.policy.from
    const growing = {
      user: this.#decide("user", { search, waiting, deciding, acting, preparation }),
      item: this.#decide("item", { search, waiting, deciding, acting, preparation }),
    }
    const decided = performance.now()
    for (const side of ["user", "item"] as const) this.model.ladder(side).grow(growing[side], search.initial)
    // Ids first met in a test row are seen ids too, also where no test predicts them (top-k: cold items).
    this.model.meet(segment)
    preparation.milliseconds = { policy: decided - start, growth: performance.now() - decided }
    return preparation
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
    return this.model.train(batch)
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

  outlook(): Outlook | undefined {
    if (!this.#search || !this.#context) return undefined
    const largest = Math.sqrt(this.#search.features?.columns.length ?? 0)
    return outlookOf(this.#search.policy, this.#context, largest)
  }

  close(): void {
    this.model.kernels.close()
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
