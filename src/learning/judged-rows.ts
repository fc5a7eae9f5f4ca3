/** The judged rows of a segment, waiting to be the next round of its policy. */

import type { State } from "../kernels/state.ts"
import { SIDES, type Side } from "../types.ts"
import { keeperOf } from "./waiting-segment.ts"

export interface Judged {
  ids: Record<Side, Int32Array>
  /** [rows×dimension] */
  contexts: Record<Side, Float64Array>
  frequencies: Record<Side, Float64Array>
  rates: Record<Side, Float64Array>
  /** Step held when the row was judged. */
  steps: Record<Side, Uint8Array>
  /** Losses with the numbers of a side cut to each size up to the one held [rows×sizes]. */
  losses: Record<Side, Float64Array>
  /** Which rows of the segment they are. */
  rows: Int32Array
  /** Rows judged so far, from the first. */
  trained: number
}

/** Rows of a segment to be judged, nothing known of them yet. */
export function emptyJudged(rows: Int32Array, p: { d: number; sizes: number }): Judged {
  const { length } = rows
  const pair = <T>(make: () => T): Record<Side, T> => ({ user: make(), item: make() })
  return {
    ids: pair(() => new Int32Array(length)),
    contexts: pair(() => new Float64Array(length * p.d)),
    frequencies: pair(() => new Float64Array(length)),
    rates: pair(() => new Float64Array(length)),
    steps: pair(() => new Uint8Array(length)),
    losses: pair(() => new Float64Array(length * p.sizes)),
    rows,
    trained: 0,
  }
}

const FLOATS = ["contexts", "frequencies", "rates", "losses"] as const

/** How many rows were judged, and on how many of them user and item both held each rung. */
export function heldOn(judged: Judged | undefined, rungs: number): { events: number; held: number[] } {
  const held = new Array<number>(rungs).fill(0)
  const events = judged?.trained ?? 0
  for (let l = 0; judged && l < events; l++) {
    const most = Math.min(judged.steps.user[l], judged.steps.item[l])
    for (let rung = 0; rung < most; rung++) held[rung]++
  }
  return { events, held }
}

/** The same without the rows of some ids. */
export function withoutRows(judged: Judged, side: Side, ids: ReadonlySet<number>): Judged {
  const keep = keeperOf(judged.ids[side], ids)
  if (!keep) return judged
  const { trained, rows, ...columns } = judged
  const kept = Object.entries(columns).map(([name, { user, item }]) => [name, { user: keep(user), item: keep(item) }])
  const trainedIds = judged.ids[side].subarray(0, trained)
  return { ...Object.fromEntries(kept), rows: keep(rows), trained: trainedIds.filter((id) => !ids.has(id)).length }
}

export function saveJudged(state: State, judged: Judged | undefined): void {
  state.set("there", judged !== undefined)
  if (!judged) return
  state.set("trained", judged.trained)
  state.put("rows", judged.rows)
  for (const side of SIDES) {
    state.put(`ids.${side}`, judged.ids[side])
    state.put(`steps.${side}`, judged.steps[side])
    for (const name of FLOATS) state.put(`${name}.${side}`, judged[name][side])
  }
}

export function loadJudged(state: State): Judged | undefined {
  if (!state.get("there")) return undefined
  const both = <T>(of: (name: Side) => T): Record<Side, T> => ({ user: of("user"), item: of("item") })
  const floats = (name: string) => both((side) => state.take(`${name}.${side}`, Float64Array).slice())
  return {
    ids: both((side) => state.take(`ids.${side}`, Int32Array).slice()),
    steps: both((side) => state.take(`steps.${side}`, Uint8Array).slice()),
    contexts: floats("contexts"),
    frequencies: floats("frequencies"),
    rates: floats("rates"),
    losses: floats("losses"),
    rows: state.take("rows", Int32Array).slice(),
    trained: state.get<number>("trained"),
  }
}
