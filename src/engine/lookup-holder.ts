/** The lookup table of a recommender: opened when something needs it, brought up to date from the journal. */

import { existsSync, readdirSync } from "node:fs"
import { DessError } from "../errors.ts"
import { keepAlive } from "./disk.ts"
import type { JournalFiles } from "./journal-files.ts"
import type { Lookup, LookupChange } from "./lookup.ts"
import type { LogRecord } from "./records.ts"
import { giveWay } from "./turns.ts"

/** Records looked at before others get a turn. */
const PORTION = 256

export interface LookupHolderOptions {
  /** Undefined: it is kept in memory. */
  directory: string | undefined
  mostKeys: number
  onFailure(error: Error): void
}

/** Where it is taken up: from which journal, and up to which position. */
interface TakingUp {
  files: JournalFiles
  position: number
  /** A snapshot knows of one. */
  wasThere: boolean
  recover: boolean
}

export class LookupHolder {
  readonly #options: LookupHolderOptions
  #lookup: Lookup | undefined
  #opening: Promise<void> | undefined
  /** Where it was needed and could not be opened: what it is told then. */
  #wanted: (() => number) | undefined
  /** Where it is there and could not be opened at the start. */
  #missing: (TakingUp & { failure: DessError }) | undefined
  /** What could not be brought back. */
  readonly damaged: string[] = []

  constructor(options: LookupHolderOptions) {
    this.#options = options
  }

  /** Undefined while nothing needs it. */
  get current(): Lookup | undefined {
    return this.#lookup
  }

  /** Opens it where it is not; a new one has everything before the position it is told. */
  ensure(position: () => number): Promise<void> {
    if (this.#missing) return Promise.reject(this.#missing.failure)
    if (this.#lookup) return Promise.resolve()
    this.#opening ??= this.#open()
      .then(async (lookup) => {
        try {
          if (lookup.applied === 0) await lookup.flush(position())
        } catch (cause) {
          await lookup.close().catch(() => {})
          throw cause
        }
        this.#lookup = lookup
        this.#wanted = undefined
      })
      .catch((cause) => {
        this.#wanted = position
        throw cause
      })
      .finally(() => {
        this.#opening = undefined
      })
    return this.#opening
  }

  async #open(): Promise<Lookup> {
    const { directory, mostKeys, onFailure } = this.#options
    if (directory === undefined) {
      const { MemoryLookup } = await import("./memory-lookup.ts")
      return new MemoryLookup({ mostKeys })
    }
    const { openLmdbLookup } = await import("./lmdb-lookup.ts")
    return keepAlive(openLmdbLookup(directory, { onFailure }))
  }

  /**
   * At a start: opens it where it is there, and adds what the journal has behind it, up to where the replay begins.
   * A damaged one is made again where the journal has everything, or where that is asked for.
   */
  async takeUp(p: TakingUp): Promise<void> {
    const { directory } = this.#options
    if (directory === undefined || !(p.wasThere || isThere(directory))) return
    try {
      await this.#takeUp(p)
    } catch (error) {
      if (!(error instanceof DessError && error.code === "UNAVAILABLE")) throw error
      // The rest can be read all the same; it is tried again before writing is taken up.
      this.#missing = { ...p, failure: error }
    }
  }

  /** Why it is there and cannot be opened. */
  get failure(): DessError | undefined {
    return this.#missing?.failure
  }

  /** For reading; refuses where it is there and cannot be opened. */
  get readable(): Lookup | undefined {
    if (this.#missing) throw this.#missing.failure
    return this.#lookup
  }

  async #takeUp(p: TakingUp): Promise<void> {
    const lookup = await this.#open().catch(async (error) => {
      const isDamaged = error instanceof DessError && error.code === "INVALID_DATA"
      if (!isDamaged || !(p.recover || p.files.first === 0)) throw error
      this.damaged.push(`${error.message}; it was made again from the journal`)
      const { removeOthers } = await import("./lookup-directory.ts")
      removeOthers(this.#options.directory as string)
      return this.#open()
    })
    try {
      await this.#bringUp(lookup, p)
    } catch (cause) {
      await lookup.close().catch(() => {})
      throw cause
    }
    this.#lookup = lookup
  }

  async #bringUp(lookup: Lookup, p: TakingUp): Promise<void> {
    if (lookup.applied > p.files.next) await this.#skipTo(lookup.applied, p)
    const from = Math.max(lookup.applied, p.files.first)
    if (p.wasThere && lookup.applied < p.files.first)
      this.damaged.push("lookup table: what was noted before the journal's first record is gone")
    let looked = 0
    let nextKey = lookup.nextKey
    for (const { position, record } of p.files.read(from)) {
      if (position >= p.position) break
      const changes = changesOf(record, () => nextKey++)
      if (changes.length > 0) lookup.add(changes, position)
      if (++looked % PORTION === 0) await giveWay()
    }
  }

  /** The journal has lost records that are in the table: none may take their positions. */
  async #skipTo(position: number, { files, recover }: { files: JournalFiles; recover: boolean }): Promise<void> {
    const what = `journal: expected record ${position - 1} or later, got ${files.next - 1} as the last: it is older than the lookup table`
    if (!recover)
      throw new DessError(
        "INVALID_DATA",
        `${what}; bring back what belongs to it from a copy, or open the directory with recover (--recover), which goes on without it`,
      )
    this.damaged.push(what)
    await files.skipTo(position)
  }

  async mend(): Promise<void> {
    const missing = this.#missing
    if (missing) {
      await this.#takeUp({ ...missing, position: missing.files.next })
      this.#missing = undefined
    }
    if (this.#wanted) await this.ensure(this.#wanted)
    const lookup = this.#lookup
    if (lookup && lookup.waiting > 0) await lookup.flush(lookup.applied)
  }

  /** Drops the oldest keys. */
  async trimKeys(): Promise<void> {
    const lookup = this.#lookup
    const before = (lookup?.nextKey ?? 0) - this.#options.mostKeys
    if (before > 0) await lookup?.dropKeys(before)
  }

  async close(): Promise<void> {
    await this.#opening?.catch(() => {})
    if (this.#lookup) await keepAlive(this.#lookup.close()).catch(() => {})
  }
}

function isThere(directory: string): boolean {
  return existsSync(directory) && readdirSync(directory).some((name) => /^lookup-\d+\.mdb$/.test(name))
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
  if (record.kind === "left")
    return (["user", "item"] as const).flatMap((side) =>
      record[side].map((index) => ({ kind: "dropFeedback", side, index }) as const),
    )
  if (record.kind === "forget" && record.user !== null)
    return [{ kind: "dropFeedback", side: "user", index: record.user }]
  return []
}
