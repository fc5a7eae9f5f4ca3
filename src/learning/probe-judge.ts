/** Judges the arms of a rung by the probe of the paper (models/paper/probe.ts), a segment later, on all of its rows. */

import type { State } from "../kernels/state.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { Model } from "../models/paper/model.ts"
import { type ProbeSide, probe } from "../models/paper/probe.ts"
import type { Context } from "../policies/context.ts"
import type { Choices, PolicyScores, Round } from "../policies/policy.ts"
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
import type { SizedRows } from "./sized-rows.ts"
import { loadWaiting, saveWaiting, type Waiting, withoutIds } from "./waiting-segment.ts"

export class ProbeJudge implements Judge {
  readonly context: Context | undefined
  readonly needsRows = true
  readonly #rows: SizedRows<Model>
  readonly #search: SearchOptions
  #waiting: Waiting | undefined
  /** Rows of the waiting segment whose ids are decided on. */
  #deciding = 0

  constructor(rows: SizedRows<Model>, search: SearchOptions, context: Context | undefined) {
    this.#rows = rows
    this.#search = search
    this.context = context
  }

  learn(): Played {
    const result = nothingPlayed()
    if (!this.#waiting) return result
    const { policy, preset } = this.#search
    const { batch } = this.#waiting
    const asked = { user: this.#ask("user", batch), item: this.#ask("item", batch) }
    const tables = probe(this.#rows.model, { batch, rate: preset.probeRate, ...asked })
    for (const side of SIDES) {
      const round = this.#round(side, { rows: asked[side].rows, waiting: this.#waiting, losses: tables[side] })
      const { regret, played } = playRound(policy, side, round)
      result.regret[side] = regret
      result.played[side] = played
    }
    return result
  }

  /** Rows whose id can still grow, and where each tuned row is judged. */
  #ask(side: Side, batch: ModelBatch): ProbeSide {
    const ids = batch[side]
    const table = this.#rows.model.tables[side]
    const next = this.#search.preset.evaluate === "next" ? nextRows(ids) : undefined
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
    p: { rows: Int32Array; waiting: Waiting; losses: { keep: Float64Array; grow: Float64Array } },
  ): Round {
    const { rows, waiting, losses } = p
    const { preset } = this.#search
    const { sizes } = this.#rows.model.tables[side]
    const chosen = this.#choices(side, rows, waiting)
    const keepRewards = new Float64Array(rows.length)
    const growRewards = new Float64Array(rows.length)
    for (let l = 0; l < rows.length; l++) {
      const step = chosen.steps[l]
      const cost = preset.price * (sizes[step + 1] - sizes[step])
      growRewards[l] = losses.keep[l] - losses.grow[l] > cost ? 1 : 0
      keepRewards[l] = preset.keepReward === "complement" ? 1 - growRewards[l] : 0
    }
    return { ...chosen, keepLosses: losses.keep, growLosses: losses.grow, keepRewards, growRewards }
  }

  observe(segment: Segment, { labels, deciding }: { labels: Float64Array; deciding: number }): void {
    const { length } = segment
    const { context } = this
    const d = context?.dimension ?? 0
    const noted = context ? length : 0
    const columns = {
      userFrequency: new Float64Array(noted),
      itemFrequency: new Float64Array(noted),
      ind: new Float64Array(noted),
      pod: new Float64Array(noted),
    }
    const contexts = { user: new Float64Array(noted * d), item: new Float64Array(noted * d) }
    if (context) {
      const skip = { user: this.#atTop("user", segment.user), item: this.#atTop("item", segment.item) }
      this.#rows.indicators.observeBatch(segment, columns, skip)
      for (let l = 0; l < length; l++) {
        context.write(contexts.user, l * d, columns.userFrequency[l], columns.ind[l])
        context.write(contexts.item, l * d, columns.itemFrequency[l], columns.pod[l])
      }
    }
    this.#deciding = deciding
    this.#waiting = {
      // Copies: the segment's own memory may be used again once it is learned.
      batch: { user: segment.user.slice(), item: segment.item.slice(), label: labels },
      contexts,
      frequencies: { user: columns.userFrequency, item: columns.itemFrequency },
    }
  }

  /** Rows whose id is at the top size: nothing is left to decide there. */
  #atTop(side: Side, ids: Int32Array): Uint8Array {
    const table = this.#rows.model.tables[side]
    return Uint8Array.from(ids, (id) => (table.has(id) && table.step(id) === table.top ? 1 : 0))
  }

  /** Both sides are decided first: growth shares what a budget has left. */
  decide(): Record<Side, Decided> {
    const { model, limiter, segments } = this.#rows
    const decided = { user: { all: 0, grown: 0, shrunk: 0 }, item: { all: 0, grown: 0, shrunk: 0 } }
    if (!this.#waiting || segments < this.#search.policy.firstSegment) return decided
    const growing = { user: this.#growing("user", this.#waiting), item: this.#growing("item", this.#waiting) }
    const affordable = limiter.affordable({ user: growing.user.ids, item: growing.item.ids })
    for (const side of SIDES) {
      model.ladder(side).grow(affordable[side], this.#search.initial)
      for (const id of affordable[side]) {
        const scores = growing[side].scores.get(id)
        const step = model.tables[side].step(id)
        this.#rows.logSize(side, id, { step, why: whyGrown(scores), scores: toArmScores(scores) })
      }
      decided[side] = { all: growing[side].all, grown: affordable[side].length, shrunk: 0 }
    }
    return decided
  }

  /** Of the ids that can grow, how many they are and those the policy lets grow, each decided at its last deciding row. */
  #growing(side: Side, waiting: Waiting): { all: number; ids: number[]; scores: Map<number, PolicyScores> } {
    const { policy } = this.#search
    const table = this.#rows.model.tables[side]
    const last = new Map<number, number>()
    for (let l = 0; l < this.#deciding; l++) last.set(waiting.batch[side][l], l)
    const rows = [...last].filter(([id]) => table.step(id) < table.top).map(([, row]) => row)
    const choices = this.#choices(side, Int32Array.from(rows), waiting)
    const arms = policy.decide(side, choices)
    const ids = Array.from(choices.ids).filter((_, i) => arms[i] === 1)
    const scores = new Map<number, PolicyScores>()
    const d = this.context?.dimension ?? 0
    // Only the size log asks for them.
    if (this.#rows.sizeLog && policy.scores)
      for (let i = 0; i < choices.length; i++)
        if (arms[i] === 1)
          scores.set(choices.ids[i], policy.scores(side, choices.contexts.subarray(i * d, (i + 1) * d)))
    return { all: choices.length, ids, scores }
  }

  /** What the policy reads of the ids at some rows of a segment. */
  #choices(side: Side, rows: Int32Array, waiting: Waiting): Choices {
    const table = this.#rows.model.tables[side]
    const d = this.context?.dimension ?? 0
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

  train(_batch: ModelBatch, train: () => PassResult): PassResult {
    return train()
  }

  bounds(side: Side, id: number, { frequency, diversity }: { frequency: number; diversity: number }) {
    const table = this.#rows.model.tables[side]
    const { policy } = this.#search
    if (!this.context || !policy.scores || table.step(id) === table.top) return null
    const context = new Float64Array(this.context.dimension)
    this.context.write(context, 0, frequency, diversity)
    const { keep, grow } = policy.scores(side, context)
    return { keep, grow }
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.#search.policy.forget?.(side, ids)
    if (this.#waiting) this.#waiting = withoutIds(this.#waiting, side, ids)
  }

  save(state: State): void {
    saveWaiting(state.at("waiting"), this.#waiting)
  }

  load(state: State): void {
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
