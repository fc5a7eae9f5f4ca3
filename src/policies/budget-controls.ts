/**
 * Controls that hold given bytes of rows (method.md §8): after every segment they set sizes so that they fit.
 *
 *   random-grow   ids of the segment grow by chance, any ids shrink by chance, until the bytes are those of another run then
 *   prune-<kB>    ids of the segment grow; of all others the rungs with the smallest numbers, per byte, are cut
 *   sample-<kB>   a size is drawn for every id: one of two neighbours on the ladder, of which the expected bytes beyond
 *                 the smallest size are in proportion to the fourth root of how often the id was met, all together the budget
 *                 (in the manner of SCALL, CIKM '24)
 */

import { Random } from "../kernels/random.ts"
import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { type ArrangedRows, type Choices, playAll, type Round, type SizePolicy } from "./policy.ts"

/** Bytes of rows along a stream. */
export interface MemoryCurve extends Record<Side, readonly number[]> {
  interactions: readonly number[]
}

/** What a rule knows of the current segment: ids met that can grow, events so far, and two numbers it keeps. */
interface Now {
  met: Record<Side, Int32Array>
  events: number
  random: Random
  kept: Float64Array
}

export type SizeRule = (rows: Record<Side, ArrangedRows>, now: Now) => void

/** Plays "keep" throughout, and lets a rule set the sizes. */
export class BudgetControl implements SizePolicy {
  readonly context = "none"
  readonly firstSegment = 1
  readonly #rule: SizeRule
  readonly #now: Now

  constructor(rule: SizeRule, seed: number) {
    this.#rule = rule
    const met = { user: new Int32Array(0), item: new Int32Array(0) }
    this.#now = { met, events: 0, random: new Random(seed, "budget"), kept: new Float64Array(2) }
  }

  learn(_side: Side, round: Round): Uint8Array {
    return playAll(round.length, 0)
  }

  decide(side: Side, choices: Choices): Uint8Array {
    this.#now.met[side] = choices.ids.slice(0, choices.length)
    return playAll(choices.length, 0)
  }

  arrange(rows: Record<Side, ArrangedRows>, events: number): void {
    this.#now.events = events
    this.#rule(rows, this.#now)
  }

  save(state: State): void {
    this.#now.random.save(state)
    state.put("kept", this.#now.kept)
  }

  load(state: State): void {
    this.#now.random.load(state)
    this.#now.kept.set(state.take("kept", Float64Array))
  }
}

/** Equal memory at all times, random choices. */
export function followCurve(curve: MemoryCurve): SizeRule {
  return (rows, { met, events, random }) => {
    for (const side of SIDES) {
      const target = valueAt(curve.interactions, curve[side], events)
      const part = rows[side]
      const anyone = () => random.integer(part.reach)
      const growing = met[side]
      if (growing.length > 0) moveTo(part, { target, by: 1, pick: () => growing[random.integer(growing.length)] })
      moveTo(part, { target, by: 1, pick: anyone })
      moveTo(part, { target, by: -1, pick: anyone })
    }
  }
}

/** Tries at moving an id before there is thought to be none left to move, per id. */
const TRIES = 8

/** Moves ids a rung up, or down, as long as that brings the bytes nearer to the target. */
function moveTo(rows: ArrangedRows, p: { target: number; by: 1 | -1; pick: () => number }): void {
  const { costs } = rows
  let missing = p.target - rows.bytes
  for (let tries = TRIES * rows.reach; tries > 0 && missing * p.by > 0; tries--) {
    const id = p.pick()
    const step = rows.step(id)
    const next = step + p.by
    if (step < 0 || next < 0 || next >= costs.length) continue
    const change = costs[next] - costs[step]
    if (Math.abs(missing - change) >= Math.abs(missing) && change !== 0) continue
    rows.resize(id, next)
    missing -= change
  }
}

/** The curve between its points. */
function valueAt(places: readonly number[], values: readonly number[], place: number): number {
  const after = places.findIndex((one) => one >= place)
  if (after <= 0) return values[after < 0 ? values.length - 1 : 0] ?? 0
  const share = (place - places[after - 1]) / (places[after] - places[after - 1])
  return values[after - 1] + share * (values[after] - values[after - 1])
}

/** Cutting goes on to this share of the budget, so that it is not done at every segment. */
const PRUNED = 0.95

export function pruneTo(budget: number): SizeRule {
  return (rows, { met }) => {
    for (const side of SIDES)
      for (const id of met[side])
        if (rows[side].step(id) < rows[side].costs.length - 1) rows[side].resize(id, rows[side].step(id) + 1)
    const held = () => rows.user.bytes + rows.item.bytes
    const fresh = { user: new Set(met.user), item: new Set(met.item) }
    // Ids of this segment come last: what they have grown has learned nothing yet.
    for (const spared of [true, false])
      for (let pass = 0; pass < rows.user.costs.length && held() > budget; pass++)
        cutLightest(rows, { bytes: held() - PRUNED * budget, spare: (side, id) => spared && fresh[side].has(id) })
  }
}

/** Cuts the last rungs of ids, those of the least energy per byte first, until this many bytes are saved. */
function cutLightest(
  rows: Record<Side, ArrangedRows>,
  p: { bytes: number; spare: (side: Side, id: number) => boolean },
): void {
  const found: { side: Side; id: number; bytes: number; density: number }[] = []
  for (const side of SIDES) {
    const { reach, costs } = rows[side]
    for (let id = 0; id < reach; id++) {
      const step = rows[side].step(id)
      if (step <= 0 || p.spare(side, id)) continue
      const bytes = costs[step] - costs[step - 1]
      found.push({ side, id, bytes, density: bytes === 0 ? 0 : rows[side].energy(id) / bytes })
    }
  }
  found.sort((a, b) => a.density - b.density)
  let { bytes } = p
  for (const one of found) {
    if (bytes <= 0) break
    rows[one.side].resize(one.id, rows[one.side].step(one.id) - 1)
    bytes -= one.bytes
  }
}

/** Shares of the budget are recomputed whenever the events have grown by this factor. */
const RENEWED = 1.05

export function sampleWithin(budget: number, seed: number): SizeRule {
  return (rows, { met, events, kept }) => {
    const renew = events >= RENEWED * kept[0]
    if (renew) {
      kept[0] = events
      kept[1] = findShare(rows, budget)
    }
    for (const side of SIDES) {
      const part = rows[side]
      const draw = (id: number) => {
        if (part.step(id) < 0) return
        const step = drawStep(part.costs, bytesOf(part, id, kept[1]), new Random(seed, "size", side, id).next())
        if (step !== part.step(id)) part.resize(id, step)
      }
      if (renew) for (let id = 0; id < part.reach; id++) draw(id)
      else for (const id of met[side]) draw(id)
    }
  }
}

/** Expected bytes of an id, given a share. */
function bytesOf({ costs, frequency }: ArrangedRows, id: number, share: number): number {
  return Math.min(costs[costs.length - 1], costs[0] + share * Math.sqrt(Math.sqrt(frequency(id))))
}

/** The share with which all ids together are expected to take the budget. */
function findShare(rows: Record<Side, ArrangedRows>, budget: number): number {
  let [low, high] = [0, 4 * budget]
  for (let i = 0; i < 60; i++) {
    const share = (low + high) / 2
    let sum = 0
    for (const side of SIDES)
      for (let id = 0; id < rows[side].reach; id++) if (rows[side].step(id) >= 0) sum += bytesOf(rows[side], id, share)
    if (sum > budget) high = share
    else low = share
  }
  return low
}

/** One of the two steps about some bytes, so that they are the mean; `chance`: from 0 to 1. */
function drawStep(costs: readonly number[], bytes: number, chance: number): number {
  let low = 0
  while (low + 1 < costs.length && costs[low + 1] <= bytes) low++
  if (low + 1 === costs.length) return low
  return chance < (bytes - costs[low]) / (costs[low + 1] - costs[low]) ? low + 1 : low
}
