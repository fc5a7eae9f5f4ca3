/** Learns again what the journal holds, no faster than it is learned, so that reading goes on and it can be stopped. */

import { DessError } from "../errors.ts"
import type { Intake } from "./intake.ts"
import { detailsOf } from "./item-entries.ts"
import type { JournalFiles } from "./journal-files.ts"
import type { Learning } from "./learning.ts"
import type { LookupHolder } from "./lookup-holder.ts"
import type { LogRecord } from "./records.ts"
import { giveWay } from "./turns.ts"
import type { ReplayProgress } from "./types.ts"

/** Segments that wait to be learned before one more is given: whoever stops waits for all of them. */
const MOST_AHEAD = 1
/** Milliseconds that keeping what is done may take. */
const PATIENCE = 400
/** Milliseconds between two reports, and the longest turn of the event loop. */
const REPORT = 200
const TURN = 10
/** Milliseconds before a disk that failed is tried again. */
const RETRY = 1000

export interface ReplayParts {
  files: JournalFiles
  /** Position of the first record to be learned. */
  from: number
  intake: Intake
  learning: Learning
  lookup: LookupHolder
  /** Events learned since the directory was created. */
  learned(): number
  /** Takes a snapshot of everything before a position, at the end of a segment. */
  snapshot(position: number): Promise<void>
  snapshotEvents: number
  /** Whether it waits for a disk that does not give what it should. */
  isPatient: boolean
  onProgress: ((progress: ReplayProgress) => void) | undefined
}

export class Replay {
  readonly #parts: ReplayParts
  readonly #started = performance.now()
  readonly #learnedBefore: number
  readonly #acceptedBefore: number
  #position: number
  #stopping = false
  #snapshotAt: number
  /** Why it does not go on just now. */
  failure: string | undefined
  /** What the caller's own function threw when it was told how far it is. */
  #thrown: { error: unknown } | undefined
  #isOver = false
  #hasLeft = false
  #leave: () => void = () => {}
  /** Resolves when it is to be stopped without keeping anything. */
  readonly #left: Promise<void>
  #finish: () => void = () => {}
  readonly #finished: Promise<void>

  constructor(parts: ReplayParts) {
    this.#parts = parts
    this.#position = parts.from
    this.#learnedBefore = parts.learned()
    this.#acceptedBefore = parts.intake.accepted
    this.#snapshotAt = parts.intake.accepted + parts.snapshotEvents
    this.#left = new Promise((resolve) => {
      this.#leave = () => {
        this.#hasLeft = true
        resolve()
      }
    })
    this.#finished = new Promise((resolve) => {
      this.#finish = resolve
    })
  }

  get progress(): ReplayProgress {
    const { files, from, intake, learned } = this.#parts
    const events = learned() - this.#learnedBefore
    const all = files.bytesFrom(from)
    const read = all === 0 ? 1 : 1 - files.bytesFrom(this.#position) / all
    const expected = (intake.accepted - this.#acceptedBefore) / Math.max(read, 1e-9)
    const share = expected === 0 ? read : Math.min(1, events / expected)
    const elapsed = performance.now() - this.#started
    return { events, share, elapsed, remaining: share === 0 ? null : (elapsed * (1 - share)) / share }
  }

  /** Replays everything; false when it was stopped before. */
  async run(): Promise<boolean> {
    try {
      return await this.#run()
    } finally {
      this.#isOver = true
      this.#finish()
    }
  }

  async #run(): Promise<boolean> {
    const { files, from, learning, isPatient } = this.#parts
    for (;;)
      try {
        if (await this.#goOn()) break
        return false
      } catch (error) {
        if (!isPatient || this.#stopping || !(error instanceof DessError && error.code === "UNAVAILABLE")) throw error
        this.failure = error.message
        await new Promise((resolve) => setTimeout(resolve, RETRY).unref())
        if (this.#stopping) return false
        this.failure = undefined
      }
    if (this.#position < files.next && files.next > from && !this.#stopping) this.#position = files.next
    await this.#unlessLeft(learning.untilBacklog(0, () => this.#report()))
    this.#report()
    this.#throwOwn()
    if (this.#stopping) throw new DessError("CLOSED", "recommender: expected an open one, it was closed")
    return true
  }

  /** Replays from where it is; false when it was stopped. */
  async #goOn(): Promise<boolean> {
    const { files, intake, learning, lookup } = this.#parts
    let turn = performance.now()
    let reported = turn
    for (const { position, record } of files.read(this.#position)) {
      if (needsLookup(record) && !lookup.failure) await lookup.ensure(() => position)
      intake.replay(record, position)
      this.#position = position + 1
      if (record.kind === "segment") {
        await this.#unlessLeft(learning.untilBacklog(MOST_AHEAD))
        if (this.#stopping) return this.#interrupt(position + 1)
        if (intake.accepted >= this.#snapshotAt) {
          await this.#unlessLeft(this.#parts.snapshot(position + 1))
          this.#snapshotAt = intake.accepted + this.#parts.snapshotEvents
        }
      }
      const now = performance.now()
      if (now - reported > REPORT) {
        this.#report()
        this.#throwOwn()
        reported = now
      }
      if (now - turn <= TURN) continue
      await giveWay()
      turn = performance.now()
    }
    return true
  }

  /** What the caller's function throws is thrown where it ends the replay, and `open` with it. */
  #report(): void {
    if (this.#thrown) return
    const fail = (error: unknown) => {
      this.#thrown ??= { error }
    }
    try {
      // The type allows functions that return a promise; nobody else hears of one that rejects.
      const told: unknown = this.#parts.onProgress?.(this.progress)
      if (told instanceof Promise) told.catch(fail)
    } catch (error) {
      fail(error)
    }
  }

  #throwOwn(): void {
    if (this.#thrown) throw this.#thrown.error
  }

  async #unlessLeft(work: Promise<void>): Promise<void> {
    await Promise.race([work, this.#left])
  }

  async #interrupt(position: number): Promise<boolean> {
    if (!this.#hasLeft) await this.#unlessLeft(this.#parts.snapshot(position))
    return false
  }

  /**
   * Stops at the end of the next segment, with a snapshot of what is done; at once where that, which takes about this many
   * milliseconds, does not come to an end soon: then what the training thread is doing is of no use any more. Says which.
   */
  async stop(snapshotMilliseconds: number): Promise<boolean> {
    if (this.#isOver) return true
    this.#stopping = true
    const timer = setTimeout(() => this.#leave(), snapshotMilliseconds < PATIENCE ? PATIENCE : 0)
    await this.#finished
    clearTimeout(timer)
    return !this.#hasLeft
  }
}

/** Whether a record has something for the lookup table. */
function needsLookup(record: LogRecord): boolean {
  if (record.kind === "events") return record.extras.length > 0
  return record.kind === "notes" || (record.kind === "items" && record.items.some(({ item }) => detailsOf(item)))
}
