/**
 * Group commit: what is appended while a commit is on its way goes to disk together with the next one. A record counts
 * once it is on disk: then it is applied, in order, and the caller gets its answer. When the disk refuses, everything that
 * is not on disk is taken back as if it had never been asked for, writing is refused, and it is tried again every second.
 * Without files nothing waits.
 */

import { DessError } from "../errors.ts"
import type { JournalFiles, Placed } from "./journal-files.ts"
import { encodeRecord, type LogRecord } from "./records.ts"

/** Milliseconds between two tries to write again. */
const RETRY = 1000

export interface JournalHooks {
  /** Appends what has been gathered so far. */
  seal(): void
  /** Takes back everything that was not applied. */
  rollback(): void
  /** The disk takes writes again. */
  resumed(): void
  /** What is on disk could not be applied: only a start brings both together again. */
  broken?(cause: unknown): void
  /** Does whatever else must work before writing is taken up again. */
  beforeResuming?(): Promise<void>
}

interface Entry {
  /** Undefined: only to be done at its place. */
  bytes: Uint8Array | undefined
  apply: (position: number) => void
}

interface Waiting {
  resolve: () => void
  reject: (reason: unknown) => void
}

export class Journal {
  readonly #files: JournalFiles | undefined
  readonly #hooks: JournalHooks
  #entries: Entry[] = []
  #waiting: Waiting[] = []
  #running: Promise<void> | undefined
  /** Work that wants the files for itself; goes before the next commit. */
  readonly #alone: (() => Promise<void>)[] = []
  #refusal: DessError | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  /** Position the next record gets. */
  #next = 0

  constructor(files: JournalFiles | undefined, hooks: JournalHooks) {
    this.#files = files
    this.#hooks = hooks
    this.#next = files?.next ?? 0
  }

  /** Takes up where the files end. */
  begin(): void {
    this.#next = this.#files?.next ?? 0
  }

  /** Where the next record will stand. Seals what was gathered so far. */
  get position(): number {
    this.#hooks.seal()
    return this.#next
  }

  /** Why nothing is written just now. */
  get refusal(): DessError | undefined {
    return this.#refusal
  }

  /** Appends a record; it is applied when it is on disk. Nothing may be appended while writing is refused. */
  append(record: LogRecord, apply: (position: number) => void): void {
    this.#entries.push({ bytes: this.#files ? encodeRecord(record) : NOTHING, apply })
    this.#next++
    this.#start()
  }

  /** Does something once all that was appended so far is applied, before anything that comes after. */
  after(apply: (position: number) => void): void {
    this.#entries.push({ bytes: undefined, apply })
    this.#start()
  }

  /** The same for something that is waited for. */
  inOrder<T>(action: (position: number) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#hooks.seal()
      this.after((position) => action(position).then(resolve, reject))
      this.committed().catch(reject)
    })
  }

  /** Resolves when all that was gathered so far is on disk and applied. */
  committed(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#start()
    })
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => this.#goOn())
  }

  #goOn(): void {
    this.#running = undefined
    const work = this.#alone.shift()
    if (work) this.#running = work().finally(() => this.#goOn())
    else if (this.#waiting.length + this.#entries.length > 0) this.#start()
  }

  async #run(): Promise<void> {
    // Callers of the same turn go together.
    await Promise.resolve()
    if (this.#refusal) return this.#takeBack([], this.#refusal)
    this.#hooks.seal()
    const [entries, waiting] = [this.#entries, this.#waiting]
    this.#entries = []
    this.#waiting = []
    let position = this.#next - entries.filter(({ bytes }) => bytes).length
    try {
      await this.#files?.append(entries.flatMap(({ bytes }) => bytes ?? []))
    } catch (cause) {
      this.#refuse(cause, waiting)
      return
    }
    try {
      for (const { bytes, apply } of entries) apply(bytes ? position++ : position)
    } catch (cause) {
      for (const { reject } of waiting) reject(cause)
      this.#hooks.broken?.(cause)
      return
    }
    for (const { resolve } of waiting) resolve()
    // Where that fails the next commit is refused, and what is wrong is mended.
    if (this.#files?.isFull) await this.#files.roll().catch(() => {})
  }

  /** From here on nothing is written until the disk takes it again. What is on its way to the disk gets there first. */
  refuse(cause: unknown): Promise<void> {
    return this.alone(() => {
      if (!this.#refusal) this.#refuse(cause, [])
    })
  }

  #refuse(cause: unknown, waiting: readonly Waiting[]): void {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const refusal = new DessError(
      "CLOSED",
      `writing: expected a disk that takes it, got: ${reason}; nothing was taken, it is tried again by itself`,
      { cause },
    )
    this.#refusal = refusal
    this.#takeBack(waiting, refusal)
    this.#retrySoon()
  }

  #takeBack(others: readonly Waiting[], refusal: DessError): void {
    const waiting = [...others, ...this.#waiting]
    this.#entries = []
    this.#waiting = []
    this.#next = this.#files?.next ?? 0
    this.#hooks.rollback()
    for (const { reject } of waiting) reject(refusal)
  }

  #retrySoon(): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.retry().catch(() => this.#retrySoon())
    }, RETRY).unref()
  }

  /** Tries whether the disk takes writes again; rejects when it does not. */
  async retry(): Promise<void> {
    if (!this.#refusal) return
    await this.alone(async () => {
      await this.#files?.mend()
      await this.#hooks.beforeResuming?.()
    })
    this.#refusal = undefined
    this.#hooks.resumed()
  }

  /** Lets something work on the files alone, once the commit on its way has ended. */
  alone<T>(action: () => Promise<T> | T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#alone.push(async () => {
        try {
          resolve(await action())
        } catch (error) {
          reject(error)
        }
      })
      if (!this.#running) this.#goOn()
    })
  }

  /** Records from a position on; what is not on disk yet is not among them. */
  read(from: number): Iterable<Placed> {
    return this.#files?.read(from) ?? []
  }

  /** No more tries. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }
}

const NOTHING = new Uint8Array(0)
