/** The main thread's side of the training thread. */

import { getHeapStatistics } from "node:v8"
import { Worker } from "node:worker_threads"
import { DessError, type ErrorCode } from "../errors.ts"
import type { Answer, Order, TrainerOptions } from "./trainer.ts"

// From the sources, as tests run them, the thread runs the built program: not every Node can run TypeScript.
// Bundled or not, the program lies beside this module (tools/build-bundle.mjs).
const PROGRAM = new URL(
  import.meta.url.endsWith(".ts") ? "../../dist/engine/worker.js" : "./worker.js",
  import.meta.url,
)

/**
 * Rows lie outside of the heap, and what a segment leaves behind is collected soon: with a small young generation, and with
 * a limit for the old one the process took 14 MB less after 400,000 events than with the small young generation alone.
 */
const HEAP = {
  maxYoungGenerationSizeMb: 3,
  maxOldGenerationSizeMb: Math.min(1024, Math.floor(getHeapStatistics().heap_size_limit / (1024 * 1024))),
}

/** Messages that are not answers. */
export type TrainerUpdate = Exclude<Answer, { kind: "ready" | "done" | "failed" }> | { kind: "ended"; error: DessError }

type WithoutId<O> = O extends { id: number } ? Omit<O, "id"> : never

/** An order that is answered, without its number. */
export type Question = WithoutId<Order>

export class TrainingThread {
  readonly #worker: Worker
  readonly #onUpdate: (update: TrainerUpdate) => void
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (reason: unknown) => void }>()
  readonly #ready: Promise<void>
  #next = 1
  /** How many calls wait for it. */
  #holds = 0
  #ended: DessError | undefined

  constructor(options: TrainerOptions, onUpdate: (update: TrainerUpdate) => void) {
    this.#onUpdate = onUpdate
    // Without the process's own arguments: not all of them are allowed in a thread.
    this.#worker = new Worker(PROGRAM, { workerData: options, execArgv: [], resourceLimits: HEAP })
    this.#ready = new Promise((resolve, reject) => this.#waiting.set(0, { resolve: () => resolve(), reject }))
    this.#worker.on("message", (answer: Answer) => this.#receive(answer))
    this.#worker.on("error", (cause) => {
      const reason = cause instanceof Error ? cause.message : String(cause)
      this.#end(new DessError("CLOSED", `training: expected to go on, its thread ended: ${reason}`, { cause }))
    })
    this.#worker.on("exit", () =>
      this.#end(new DessError("CLOSED", "training: expected a running thread, it has ended")),
    )
  }

  /** Resolves when the thread takes orders. */
  ready(): Promise<void> {
    return this.whileRunning(this.#ready)
  }

  tell(order: Exclude<Order, { id: number }>, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(order, transfer)
  }

  /** Keeps the process alive until something is done. A thread that no call waits for does not: a program may end without closing. */
  async whileRunning<T>(work: Promise<T>): Promise<T> {
    if (this.#holds++ === 0) this.#worker.ref()
    try {
      return await work
    } finally {
      if (--this.#holds === 0) this.#worker.unref()
    }
  }

  ask<T>(order: Question): Promise<T> {
    const id = this.#next++
    const answer = new Promise<T>((resolve, reject) => {
      if (this.#ended) return reject(this.#ended)
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject })
      this.#worker.postMessage({ ...order, id } as Order)
    })
    return this.whileRunning(answer)
  }

  /** A thread that cannot start ends training, not the program: the package's files may have been replaced. */
  #receive(answer: Answer): void {
    try {
      this.#takeUp(answer)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      this.#end(
        new DessError("CLOSED", `training: expected an answer of this build, got one that cannot be used: ${reason}`, {
          cause,
        }),
      )
    }
  }

  #takeUp(answer: Answer): void {
    if (answer.kind === "ready") this.#settle(0)?.resolve(undefined)
    else if (answer.kind === "done") this.#settle(answer.id)?.resolve(answer.value)
    else if (answer.kind === "failed") {
      const error = new DessError(answer.code as ErrorCode, answer.message)
      const waiting = this.#settle(answer.id ?? 0)
      if (waiting) waiting.reject(error)
      else this.#end(error)
    } else this.#onUpdate(answer)
  }

  #settle(id: number) {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    return waiting
  }

  #end(error: DessError): void {
    if (this.#ended) return
    this.#ended = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
    this.#onUpdate({ kind: "ended", error })
  }

  /** Ends it at once, whatever it is doing. */
  async abandon(): Promise<void> {
    await this.#worker.terminate()
  }

  async close(): Promise<void> {
    this.#ended ??= new DessError("CLOSED", "recommender: expected an open one, it was closed")
    this.#worker.postMessage("close")
    const ended = new Promise<void>((resolve) => {
      this.#worker.once("exit", () => resolve())
      if (this.#worker.threadId === -1) resolve()
    })
    // Kept referenced until it ends: calls that wait for an answer need it.
    await this.whileRunning(ended)
  }
}
