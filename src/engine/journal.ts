/**
 * Group commit: what is appended while a commit is on its way goes to disk together with the next one. Whatever has to
 * wait for the disk (answers to callers, orders to the trainer) is queued behind it, in order. Without a store nothing
 * waits.
 */

import { DessError } from "../errors.ts"
import { type EventRow, type EventsRecord, eventsOf, GONE, type LogRecord, withoutUser } from "./records.ts"
import { type Forgetting, noWrites, type Store, type Writes } from "./store.ts"

export class Journal {
  readonly #store: Store | undefined
  #next = 0
  #writes = noWrites()
  #rows: EventRow[] = []
  /** Records of the open segment that have been given a position. */
  #open: { position: number; record: EventsRecord }[] = []
  #after: (() => void)[] = []
  #waiting: { resolve: () => void; reject: (reason: unknown) => void }[] = []
  #running: Promise<void> | undefined
  #failure: DessError | undefined
  readonly #onFailure: (error: DessError) => void

  constructor(store: Store | undefined, onFailure: (error: DessError) => void) {
    this.#store = store
    this.#onFailure = onFailure
  }

  /** Where the next record will stand. Seals the events so far. */
  get position(): number {
    this.#seal()
    return this.#next
  }

  /** Takes up the open segment's records after a replay. */
  resume(open: { position: number; record: EventsRecord }[], next: number): void {
    this.#open = open
    this.#next = next
  }

  event(row: EventRow): void {
    this.#rows.push(row)
  }

  append(record: LogRecord): void {
    this.#seal()
    this.#writes.log.push({ position: this.#next++, record })
    if (record.kind === "segment") this.#open = []
  }

  #seal(): void {
    if (this.#rows.length === 0) return
    const record = eventsOf(this.#rows)
    this.#rows = []
    this.#open.push({ position: this.#next, record })
    this.#writes.log.push({ position: this.#next++, record })
  }

  /** Empties a user's rows in the open segment. */
  removeOpen(user: number): void {
    this.#seal()
    for (const entry of this.#open) {
      const without = withoutUser(entry.record, user)
      if (!without) continue
      entry.record = without.record
      this.#writes.log.push({ position: entry.position, record: without.record })
    }
  }

  /** Rows of the open segment that are left, in order. */
  openRows(): EventsRecord {
    this.#seal()
    const rows: EventRow[] = []
    for (const { record } of this.#open)
      for (let r = 0; r < record.user.length; r++)
        if (record.user[r] !== GONE)
          rows.push({
            user: record.user[r],
            item: record.item[r],
            rating: record.rating[r],
            timestamp: record.timestamp[r],
          })
    return eventsOf(rows)
  }

  change<K extends Exclude<keyof Writes, "log" | "forgetting">>(kind: K, change: Writes[K][number]): void {
    ;(this.#writes[kind] as Writes[K][number][]).push(change)
  }

  mark(forgetting: Forgetting): void {
    this.#writes.forgetting = forgetting
  }

  /** Runs something once all that was appended so far is on disk. */
  after(action: () => void): void {
    this.#after.push(action)
    this.#start()
  }

  /** Does something at this place: after all that was appended before it, before all that comes after. */
  inOrder<T>(action: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.after(() => action().then(resolve, reject))
      this.committed().catch(reject)
    })
  }

  /** Resolves when all that was appended so far is on disk. */
  committed(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      this.#start()
    })
  }

  #start(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      if (this.#waiting.length + this.#after.length > 0) this.#start()
    })
  }

  async #run(): Promise<void> {
    // Callers of the same turn go together.
    await Promise.resolve()
    this.#seal()
    const [writes, after, waiting] = [this.#writes, this.#after, this.#waiting]
    this.#writes = noWrites()
    this.#after = []
    this.#waiting = []
    try {
      if (this.#failure) throw this.#failure
      await this.#store?.write(writes)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      this.#failure ??= new DessError(
        "CLOSED",
        `journal: expected to be writable, got: ${reason}; nothing more is accepted`,
        { cause },
      )
      for (const { reject } of waiting) reject(this.#failure)
      this.#onFailure(this.#failure)
      return
    }
    for (const action of after) action()
    for (const { resolve } of waiting) resolve()
  }

  /** Waits for the disk, then lets something work on the store alone. */
  async alone<T>(action: () => Promise<T>): Promise<T> {
    await this.committed()
    while (this.#running) await this.#running
    const work = action()
    this.#running = work
      .then(
        () => {},
        () => {},
      )
      .finally(() => {
        this.#running = undefined
        if (this.#waiting.length + this.#after.length > 0) this.#start()
      })
    return work
  }
}
