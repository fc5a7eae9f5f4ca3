/** The lookup table of a recommender: opened when something needs it, brought up to date from the journal. */

import { DessError } from "../errors.ts"
import { SIDES } from "../types.ts"
import type { Directory } from "./directory.ts"
import { diskError } from "./disk.ts"
import { detailsOf } from "./item-entries.ts"
import { hasLookup, Lookup, type LookupChange, removeLookup } from "./lookup.ts"
import type { LogRecord } from "./records.ts"
import { createPause, refuseAborted } from "./turns.ts"

const ADVICE = "open the directory with recover (--recover), which makes it again from what the journal has"

export interface LookupHolderOptions {
  /** Undefined: it is kept in memory. */
  directory: Directory | undefined
  mostKeys: number
  /** The most that keys, feedback and notes may each take of the memory. */
  mostBytes: number | undefined
  onFailure(error: Error): void
}

interface TakeUpOptions {
  position: number
  wasThere: boolean
  signal?: AbortSignal | undefined
}

export class LookupHolder {
  readonly #options: LookupHolderOptions
  #lookup: Lookup | undefined
  #opening: Promise<void> | undefined
  /** Where it was needed and could not be begun: where it begins. */
  #wanted: (() => number) | undefined
  /** Why it is there and cannot be used, until it is mended; and one whose files are damaged. */
  #failure: DessError | undefined
  #broken: { lookup: Lookup | undefined; reason: string } | undefined
  /** What was damaged, and what could not be brought back. */
  readonly damaged: string[] = []

  constructor(options: LookupHolderOptions) {
    this.#options = options
  }

  /** Undefined while nothing needs it. */
  get current(): Lookup | undefined {
    return this.#lookup
  }

  /** Why it is there and cannot be used. */
  get failure(): DessError | undefined {
    return this.#failure
  }

  /** For reading; refuses where it is there and cannot be used. */
  get readable(): Lookup | undefined {
    if (this.#failure) throw this.#failure
    return this.#lookup
  }

  /** Begins one where there is none; it has everything before the position it is told. Waits until it has room for more. */
  ensure(position: () => number): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#lookup) return this.#lookup.untilRoom()
    this.#opening ??= this.#begin(position).finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #begin(position: () => number): Promise<void> {
    this.#wanted = position
    const lookup = this.#open()
    try {
      await lookup.flush(position())
    } catch (cause) {
      await lookup.close().catch(() => {})
      throw cause
    }
    this.#lookup = lookup
    this.#wanted = undefined
  }

  #open(): Lookup {
    const { directory, ...options } = this.#options
    return new Lookup({ ...options, directory: directory?.path, onDamage: (error) => this.#onDamage(error) })
  }

  /** Nothing is lost where the journal has everything, or where that is asked for. */
  get #canBeRemade(): boolean {
    const { files, isRecovering } = this.#options.directory as Directory
    return isRecovering || files.first === 0
  }

  /** Damage that is found by a reader: writing is refused until it is made again. */
  #onDamage({ message }: DessError): DessError {
    if (!this.#canBeRemade) return new DessError("INVALID_DATA", `${message}; ${ADVICE}`)
    if (this.#failure) return this.#failure
    const failure = new DessError("UNAVAILABLE", `${message}; it is being made again from the journal`)
    this.#failure = failure
    this.#broken = { lookup: this.#lookup, reason: message }
    this.#lookup = undefined
    this.#options.onFailure(failure)
    return failure
  }

  /**
   * At a start: opens it where it is there, and adds what the journal has behind it, up to where the replay begins.
   * `wasThere`: a snapshot knows of one.
   */
  async takeUp(p: TakeUpOptions): Promise<void> {
    const { directory } = this.#options
    if (!directory || !(p.wasThere || hasLookup(directory.path))) return
    try {
      await this.#takeUp(directory, p)
    } catch (error) {
      if (!(error instanceof DessError && error.code === "UNAVAILABLE")) throw error
      // The rest can be read all the same; it is tried again before writing is taken up.
      this.#failure = error
    }
  }

  async #takeUp(directory: Directory, p: TakeUpOptions): Promise<void> {
    let lookup: Lookup | undefined
    try {
      lookup = await this.#openOrRemake(directory)
      await this.#bringUp(lookup, directory, p)
    } catch (error) {
      await lookup?.close().catch(() => {})
      throw diskError("lookup table", error)
    }
    this.#lookup = lookup
  }

  async #openOrRemake(directory: Directory): Promise<Lookup> {
    try {
      const lookup = this.#open()
      if (directory.isRecovering) await lookup.checkAll()
      return lookup
    } catch (error) {
      if (!(error instanceof DessError && error.code === "INVALID_DATA")) throw error
      if (!this.#canBeRemade) throw new DessError("INVALID_DATA", `${error.message}; ${ADVICE}`, { cause: error })
      await this.#discard(directory, error.message)
      return this.#open()
    }
  }

  async #discard(directory: Directory, reason: string): Promise<void> {
    await removeLookup(directory.path)
    this.damaged.push(`${reason}; it was made again from the journal`)
  }

  async #bringUp(lookup: Lookup, directory: Directory, p: TakeUpOptions): Promise<void> {
    const { files } = directory
    if (lookup.applied > files.next) await this.#skipTo(lookup.applied, directory)
    if (p.wasThere && lookup.applied < files.first)
      this.damaged.push("lookup table: what was noted before the journal's first record is gone")
    const pause = createPause()
    let nextKey = lookup.nextKey
    for (const { position, record } of files.read(Math.max(lookup.applied, files.first))) {
      if (position >= p.position) break
      const changes = changesOf(record, () => nextKey++)
      if (changes.length > 0) {
        lookup.add(changes, position)
        await lookup.untilRoom()
      }
      const turn = pause()
      if (!turn) continue
      await turn
      refuseAborted(p.signal)
    }
  }

  /** The journal has lost records that are in the table: none may take their positions. */
  async #skipTo(position: number, { files, isRecovering }: Directory): Promise<void> {
    const what = `journal: expected record ${position - 1} or later, got ${files.next - 1} as the last: it is older than the lookup table`
    if (!isRecovering)
      throw new DessError(
        "INVALID_DATA",
        `${what}; bring back what belongs to it from a copy, or open the directory with recover (--recover), which goes on without it`,
      )
    this.damaged.push(what)
    await files.skipTo(position)
  }

  /** Makes it usable again where it is not; rejects where that fails. */
  async mend(): Promise<void> {
    const { directory } = this.#options
    if (this.#failure && directory) {
      if (this.#broken) {
        await this.#broken.lookup?.close().catch(() => {})
        await this.#discard(directory, this.#broken.reason)
        this.#broken = undefined
      }
      await this.#takeUp(directory, { position: directory.files.next, wasThere: true })
      this.#failure = undefined
    }
    if (this.#wanted) await this.ensure(this.#wanted)
    await this.#lookup?.flush(this.#lookup.applied)
  }

  /** Drops the oldest keys. */
  trimKeys(): void {
    const lookup = this.#lookup
    lookup?.dropKeys(lookup.nextKey - this.#options.mostKeys)
  }

  async close(): Promise<void> {
    await this.#opening?.catch(() => {})
    for (const lookup of [this.#lookup, this.#broken?.lookup]) await lookup?.close().catch(() => {})
  }
}

/** What a record changes in the table. */
export function changesOf(record: LogRecord, nextKey: () => number): LookupChange[] {
  if (record.kind === "events")
    return record.extras.flatMap(({ row, key, type, comment = "" }): LookupChange[] => {
      const [user, item, timestamp] = [record.user[row], record.item[row], record.timestamp[row]]
      return [
        ...(key ? [{ kind: "key", hash: key, order: nextKey() } as const] : []),
        ...(type === undefined ? [] : [{ kind: "feedback", user, item, type, entry: { timestamp, comment } } as const]),
      ]
    })
  if (record.kind === "retract") return record.rows.map((row) => ({ kind: "feedback", ...row, entry: null }))
  if (record.kind === "notes")
    return record.notes.flatMap(({ side, id, note }) => (id === null ? [] : { kind: "note", side, id, note }))
  if (record.kind === "items")
    return record.items.map(({ index, item }) => ({ kind: "details", item: index, details: detailsOf(item) }))
  if (record.kind === "left")
    return SIDES.flatMap((side) => record[side].map((index) => ({ kind: "dropFeedback", side, index }) as const))
  if (record.kind === "forget" && record.user !== null)
    return [{ kind: "dropFeedback", side: "user", index: record.user }]
  return []
}
