/**
 * What lies between accepting and reading: orders on their way to the training thread, a few segments at a time so that
 * questions are answered soon, and the versions that come back.
 */

import type { DessError } from "../errors.ts"
import type { Kernels } from "../kernels/kernels.ts"
import { openKernels } from "../kernels/open.ts"
import { availableCores } from "../kernels/pool.ts"
import { createReader } from "../learning/create.ts"
import type { LearnerExplanation } from "../learning/learner.ts"
import type { FullRunOptions } from "../learning/options.ts"
import type { Reader, SharedRegion } from "../learning/reader.ts"
import type { Segment, Side } from "../types.ts"
import type { ReadModel } from "./reading.ts"
import { SegmentBuffer } from "./segment-buffer.ts"
import type { Aged, Learned, TrainerOptions } from "./trainer.ts"
import { type Question, type TrainerUpdate, TrainingThread } from "./training-thread.ts"

/** Segments given to the thread and not yet learned. */
const AHEAD = 4
/** Numbers in the first shared region; larger ones are asked for. */
const FIRST_REGION = 65_536
/** Versions whose freshness is remembered. */
const REMEMBERED = 1000

interface Waiting {
  number: number
  events: number
  /** When its first event was accepted, on the clock of `performance`; undefined in a replay. */
  accepted: number | undefined
  buffer: SegmentBuffer
}

export class Learning implements ReadModel {
  readonly reader: Reader
  readonly thread: TrainingThread
  readonly #kernels: Kernels
  readonly #onLearned: (learned: Learned, events: number) => void
  readonly #onAged: (aged: Aged) => void
  readonly #onEnd: (error: DessError) => void
  /** Called whenever a segment was learned. */
  #onProgress: (() => void) | undefined
  /** Buffers for handing over segments that are free now. */
  readonly #buffers: SegmentBuffer[] = []
  readonly #orders: { segment: boolean; send: () => void }[] = []
  #ahead = 0
  #ended = false
  /** Not yet learned, and learned but not yet published. */
  #waiting: Waiting[] = []
  #unpublished: Waiting[] = []
  #reading: SharedRegion | undefined
  readonly freshness: number[] = []

  constructor(p: {
    run: FullRunOptions
    trainer: TrainerOptions
    onLearned: (learned: Learned, events: number) => void
    onAged: (aged: Aged) => void
    onEnd: (error: DessError) => void
  }) {
    this.#onLearned = p.onLearned
    this.#onAged = p.onAged
    this.#onEnd = p.onEnd
    this.#kernels = openKernels({ shared: true, threads: Math.min(2, availableCores()) })
    try {
      this.reader = createReader(p.run, this.#kernels)
    } catch (error) {
      this.#kernels.close()
      throw error
    }
    this.thread = new TrainingThread(p.trainer, (update) => this.#receive(update))
  }

  /** From now on versions are published. */
  begin(): Promise<void> {
    this.#give(this.reader.reserve(FIRST_REGION))
    return this.ask({ kind: "publish" })
  }

  /** Sends a segment to be learned; the caller may reuse its columns at once. */
  learn(number: number, segment: Segment, accepted: number | undefined): void {
    const buffer = this.#buffers.pop() ?? new SegmentBuffer()
    const lent = buffer.lend(segment)
    this.#waiting.push({ number, events: segment.length, accepted, buffer })
    const replayed = accepted === undefined
    this.order(() => this.thread.tell({ kind: "segment", number, segment: lent, replayed }), true)
  }

  /** Sends something after everything ordered before. */
  order(send: () => void, segment = false): void {
    this.#orders.push({ segment, send })
    this.#pump()
  }

  /** Asks something after everything ordered before. */
  ask<T>(question: Question): Promise<T> {
    const answer = new Promise<T>((resolve, reject) => {
      this.order(() => this.thread.ask<T>(question).then(resolve, reject))
    })
    return this.thread.whileRunning(answer)
  }

  /** Asks the training thread at once; answered between two segments. */
  explain(side: Side, index: number): Promise<LearnerExplanation | undefined> {
    return this.thread.ask({ kind: "explain", side, index })
  }

  #pump(): void {
    for (;;) {
      const next = this.#orders[0]
      // After the thread has ended, questions are refused instead of waiting for ever.
      if (!next || (next.segment && this.#ahead >= AHEAD && !this.#ended)) return
      this.#orders.shift()
      if (next.segment) this.#ahead++
      next.send()
    }
  }

  #receive(update: TrainerUpdate): void {
    if (update.kind === "ended") {
      this.#ended = true
      this.#onProgress?.()
      this.#pump()
      this.#onEnd(update.error)
    } else if (update.kind === "region") this.#give(this.reader.reserve(update.length))
    else if (update.kind === "published") this.#goOver(update)
    else if (update.kind === "aged") this.#onAged(update)
    else {
      this.#ahead--
      const waiting = this.#waiting.shift()
      if (waiting) {
        this.#buffers.push(waiting.buffer)
        this.#unpublished.push(waiting)
      }
      this.#pump()
      this.#onLearned(update, waiting?.events ?? 0)
      this.#onProgress?.()
    }
  }

  /** Resolves when at most this many segments wait to be learned. */
  async untilBacklog(most: number, onProgress: () => void = () => {}): Promise<void> {
    while (this.#waiting.length > most && !this.#ended)
      await this.thread.whileRunning(
        new Promise<void>((resolve) => {
          this.#onProgress = () => {
            this.#onProgress = undefined
            onProgress()
            resolve()
          }
        }),
      )
  }

  /** Switches to the new version; the region read so far is free for the next one. */
  #goOver({ published, at, length, through }: Extract<TrainerUpdate, { kind: "published" }>): void {
    const before = this.#reading
    this.#reading = { floats: this.#kernels.floats as Float32Array, at, length }
    this.reader.apply(published, this.#reading)
    this.#noteFreshness(through)
    this.#give(before ?? this.reader.reserve(length))
  }

  #give(region: SharedRegion): void {
    const buffer = this.#kernels.floats.buffer as SharedArrayBuffer
    this.thread.tell({ kind: "region", buffer, at: region.at, length: region.length })
  }

  #noteFreshness(through: number): void {
    const now = performance.now()
    let slowest = -1
    while (this.#unpublished[0]?.number <= through) {
      const { accepted } = this.#unpublished.shift() as Waiting
      if (accepted !== undefined) slowest = Math.max(slowest, now - accepted)
    }
    if (slowest < 0) return
    this.freshness.push(slowest)
    if (this.freshness.length > REMEMBERED) this.freshness.shift()
  }

  /** Ends training in the middle of what it does. */
  async abandon(): Promise<void> {
    this.#orders.length = 0
    await this.thread.abandon()
  }

  async close(): Promise<void> {
    await this.thread.close()
    this.#kernels.close()
  }
}
