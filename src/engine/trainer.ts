/** The training side: the loop of the experiments, fed with orders, publishing versions. Runs in a thread of its own. */

import { DessError } from "../errors.ts"
import type { Limits } from "../ids/idle.ts"
import { type Json, State, type StateArray } from "../kernels/state.ts"
import type { LearnerExplanation, LearnerStatus, LiveLearner } from "../learning/learner.ts"
import { liveOf, Run } from "../learning/loop.ts"
import type { RunOptions } from "../learning/options.ts"
import type { Published, SharedRegion } from "../learning/reader.ts"
import type { SegmentReport } from "../learning/report.ts"
import type { Outlook } from "../policies/outlook.ts"
import { type ItemFeatures, type Segment, SIDES, type Side } from "../types.ts"
import { emptyFeatures, setFeatures } from "./item-features.ts"
import { hashState } from "./safetensors.ts"
import { completeSnapshot, type FiledState } from "./snapshots.ts"

export interface TrainerOptions {
  run: RunOptions
  features: readonly string[] | undefined
  limits: Limits
  /** Events per segment. */
  segment: number
  publishDelay: number
  /** Whether one thread is left to others, except while the journal is replayed. */
  spareThread?: boolean
}

/** A state between threads. */
export interface StateMessage {
  arrays: Map<string, StateArray>
  values: Map<string, Json>
}

/** Messages to the trainer. Those with an `id` are answered. */
export type Order =
  | { kind: "load"; id: number; state: StateMessage }
  | { kind: "segment"; number: number; segment: Segment; replayed?: boolean }
  | { kind: "features"; items: number[]; values: (readonly number[] | null)[] }
  | { kind: "limits"; limits: Limits }
  | { kind: "forget"; id: number; side: Side; ids: number[] }
  /** Merges a guest's events into a user. */
  | { kind: "merge"; from: number; into: number }
  | { kind: "save"; id: number; path: string; filed: FiledState }
  /** Time goes on without events. */
  | { kind: "tick"; time: number }
  | { kind: "explain"; id: number; side: Side; index: number }
  | { kind: "publish"; id: number }
  | { kind: "hash"; id: number }
  | { kind: "region"; buffer: SharedArrayBuffer; at: number; length: number }

export interface Learned {
  kind: "learned"
  number: number
  report: SegmentReport | undefined
  failed: string | undefined
  /** What the policy thinks after it. */
  outlook: Outlook | undefined
  /** At this segment. */
  shrunk: Record<Side, number>
  left: Record<Side, number[]>
  standing: Standing
}

/** Ids that left at a segment. */
export type Leaving = Pick<Learned, "number" | "left">

/** Ids that left where time went on without events, or that were reported before a snapshot. */
export interface Aged extends Leaving {
  kind: "aged"
  standing: Standing
}

/** What is held, and the ids that lost a step of their size, or left, since the beginning. */
export interface Standing {
  held: LearnerStatus
  /** Bytes of what users have met, as the task keeps it. */
  metBytes: number
  totals: { shrunk: Record<Side, number>; left: Record<Side, number> }
}

/** Messages from the trainer. */
export type Answer =
  | { kind: "ready" }
  | Learned
  | Aged
  | { kind: "published"; through: number; published: Published; at: number; length: number }
  | { kind: "region"; length: number }
  | { kind: "done"; id: number; value: unknown }
  | { kind: "failed"; id: number | undefined; code: string; message: string }

/** Publishing takes at most this share of the thread's time. */
const PUBLISH_SHARE = 0.4
/** Segments whose leavings are part of a snapshot: those that may not have been reported when it is taken. */
const UNCONFIRMED = 16

export class Trainer {
  readonly #run: Run
  readonly #live: LiveLearner
  readonly #options: TrainerOptions
  readonly #say: (answer: Answer) => void
  /** Grows with the items; the learner sees the same object. */
  readonly #features: ItemFeatures | undefined
  readonly #totals: Standing["totals"] = { shrunk: { user: 0, item: 0 }, left: { user: 0, item: 0 } }
  #region: SharedRegion | undefined
  #through = 0
  #dirty = false
  #published = Number.NEGATIVE_INFINITY
  #cost = 0
  #timer: NodeJS.Timeout | undefined
  #wanted: number[] = []
  /** The last segments at which ids left. */
  #leavings: Leaving[] = []
  /** What is replayed is not published before it is asked for. */
  #isReplaying = false

  constructor(options: TrainerOptions, say: (answer: Answer) => void) {
    this.#options = options
    this.#say = say
    this.#features = emptyFeatures(options.features)
    this.#run = new Run(options.run, this.#features)
    this.#live = liveOf(this.#run.learner)
    this.#live.limit(options.limits, options.segment)
  }

  /** Carries out one order. */
  take(order: Order): void {
    const id = "id" in order ? order.id : undefined
    try {
      const value = this.#carryOut(order)
      if (id !== undefined && order.kind !== "publish") this.#say({ kind: "done", id, value })
    } catch (error) {
      const code = error instanceof DessError ? error.code : "CLOSED"
      this.#say({ kind: "failed", id, code, message: error instanceof Error ? error.message : String(error) })
    }
  }

  #carryOut(order: Order): unknown {
    switch (order.kind) {
      case "load":
        return this.#load(new State(order.state.arrays, order.state.values))
      case "segment":
        return this.#learn(order.number, order.segment, order.replayed)
      case "features":
        return this.#setFeatures(order.items, order.values)
      case "limits":
        // That they leave room for a segment was checked when they were set.
        return this.#live.limit(order.limits, 1)
      case "forget":
        this.#run.forget(order.side, new Set(order.ids))
        this.#dirty = true
        this.#publishSoon()
        return undefined
      case "merge":
        this.#run.merge(order.from, order.into)
        this.#dirty = true
        return this.#publishSoon()
      case "save":
        return this.#save(order)
      case "tick":
        return this.#advance(order.time)
      case "explain":
        return this.#live.explain(order.side, order.index) satisfies LearnerExplanation | undefined
      case "hash": {
        const state = new State()
        this.#write(state)
        return hashState(state)
      }
      case "region":
        this.#region = { floats: new Float32Array(order.buffer), at: order.at, length: order.length }
        return this.#publishSoon()
      case "publish":
        this.#wanted.push(order.id)
        return this.#dirty ? this.#publish() : this.#answerWanted()
    }
  }

  /** What is replayed was measured when it was new, and there are no reads meanwhile: it is learned with all threads. */
  #learn(number: number, segment: Segment, replayed = false): void {
    this.#live.alone = this.#options.spareThread === true && !replayed
    this.#isReplaying = replayed
    let report: SegmentReport | undefined
    let failed: string | undefined
    try {
      report = this.#run.step(segment, { unmeasured: replayed })
    } catch (error) {
      // A loss that is not finite: the segment was not learned. A replay fails the same way, so the state is the same.
      if (!(error instanceof DessError && error.code === "NUMERIC")) throw error
      failed = error.message
    }
    this.#through = number
    this.#dirty = true
    const { shrunk, left } = this.#countLeavings()
    const outlook = this.#run.learner.outlook?.()
    this.#say({ kind: "learned", number, report, failed, outlook, shrunk, left, standing: this.#standing() })
    this.#publishSoon()
  }

  #countLeavings() {
    const { shrunk, left } = this.#run
    for (const side of SIDES) {
      this.#totals.shrunk[side] += shrunk[side]
      this.#totals.left[side] += left[side].length
    }
    if (left.user.length + left.item.length > 0)
      this.#leavings = [...this.#leavings.slice(1 - UNCONFIRMED), { number: this.#through, left }]
    return { shrunk, left }
  }

  #advance(time: number): void {
    this.#run.advanceTime(time)
    const { shrunk, left } = this.#countLeavings()
    if (shrunk.user + shrunk.item + left.user.length + left.item.length === 0) return
    this.#dirty = true
    this.#say({ kind: "aged", number: this.#through, left, standing: this.#standing() })
    this.#publishSoon()
  }

  #standing(): Standing {
    return { held: this.#run.learner.status(), metBytes: this.#run.metBytes, totals: this.#totals }
  }

  #setFeatures(items: readonly number[], values: readonly (readonly number[] | null)[]): void {
    const features = this.#features
    if (!features) return
    setFeatures(features, items, values)
    for (const item of items) this.#live.changeFeatures(item)
  }

  #write(state: State): void {
    this.#run.save(state.at("run"))
    state.set("through", this.#through)
    const { shrunk, left } = this.#totals
    state.put("totals", Float64Array.of(shrunk.user, shrunk.item, left.user, left.item))
    if (!this.#features) return
    state.put("features.values", this.#features.values)
    state.put("features.present", this.#features.present)
  }

  #save({ path, filed }: Extract<Order, { kind: "save" }>): number {
    return completeSnapshot(path, filed, (state) => {
      this.#write(state)
      state.set("leavings", this.#leavings as unknown as Json)
    })
  }

  #load(state: State): void {
    if (this.#features) {
      this.#features.values = state.take("features.values", Float32Array).slice()
      this.#features.present = state.take("features.present", Uint8Array).slice()
    }
    this.#run.load(state.at("run"))
    this.#through = state.get<number>("through")
    const [shrunkUsers, shrunkItems, leftUsers, leftItems] = state.take("totals", Float64Array)
    this.#totals.shrunk = { user: shrunkUsers, item: shrunkItems }
    this.#totals.left = { user: leftUsers, item: leftItems }
    this.#leavings = state.has("leavings") ? (state.get("leavings") as unknown as Leaving[]) : []
    for (const leaving of this.#leavings) this.#say({ kind: "aged", ...leaving, standing: this.#standing() })
    this.#dirty = true
    this.#publishSoon()
  }

  /** Publishes now, or as soon as enough time has passed since the last version. */
  #publishSoon(): void {
    if (!this.#dirty || (this.#isReplaying && this.#wanted.length === 0)) return
    const pause = Math.max(this.#options.publishDelay, this.#cost / PUBLISH_SHARE)
    const rest = this.#published + pause - performance.now()
    // Asked at every order: a busy thread never gets to its timer.
    if (rest <= 0 || this.#wanted.length > 0) this.#publish()
    else
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined
        if (this.#dirty && !this.#isReplaying) this.#publish()
      }, rest)
  }

  #publish(): void {
    const needed = this.#live.floatsNeeded
    const region = this.#region
    // Without one: it comes when the reader has switched versions, or with the memory asked for.
    if (!region) return
    if (region.length < needed) {
      this.#region = undefined
      this.#say({ kind: "region", length: 2 * needed })
      return
    }
    const start = performance.now()
    const published = this.#live.publish(region)
    this.#region = undefined
    this.#dirty = false
    this.#published = performance.now()
    this.#cost = this.#published - start
    this.#say({ kind: "published", through: this.#through, published, at: region.at, length: region.length })
    this.#answerWanted()
  }

  #answerWanted(): void {
    for (const id of this.#wanted) this.#say({ kind: "done", id, value: this.#standing() })
    this.#wanted = []
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#run.close()
  }
}
