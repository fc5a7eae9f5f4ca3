/**
 * Snapshots of a directory, and what `forget` has to do on disk. Both belong to one place of the journal: what was
 * appended before it is in the snapshot, what comes after is not.
 */

import { rmSync, statSync } from "node:fs"
import { basename } from "node:path"
import { DessError, show } from "../errors.ts"
import { type Json, State } from "../kernels/state.ts"
import type { Limits } from "../run/idle.ts"
import type { Catalogue } from "./catalogue.ts"
import type { Journal } from "./journal.ts"
import type { Learning } from "./learning.ts"
import { type LogRecord, withoutName, withoutUser } from "./records.ts"
import { listSnapshots, readNewest, snapshotPath, syncFolder } from "./snapshots.ts"
import { type Forgetting, noWrites, type Store } from "./store.ts"
import type { SnapshotInfo } from "./types.ts"

/** What has happened so far. */
export interface Counts {
  segments: number
  accepted: number
}

/** Where the journal goes on, and what the tables were held to there; undefined where that was not noted. */
export interface Restored extends Counts {
  position: number
  limits: Limits | undefined
}

interface Engine extends Restored {
  time: number
  /** The id of the journal. */
  journal: string | undefined
}

/** A snapshot, the record it was taken before, and the events accepted by then. */
interface Taken extends SnapshotInfo {
  position: number
  accepted: number
  path: string
}

export interface ArchiveParts {
  directory: string
  keepJournal: boolean
  limits: Limits
  store: Store
  journal: Journal
  catalogue: Catalogue
  learning: Learning
}

export class Archive {
  readonly #parts: ArchiveParts
  /** Newest first, at most two. */
  #taken: Taken[] = []
  /** What was wrong with snapshots that were passed over at the start. */
  damaged: string[] = []

  constructor(parts: ArchiveParts) {
    this.#parts = parts
  }

  get newest(): Taken | undefined {
    return this.#taken[0]
  }

  /** Takes up the newest snapshot that can be read; says where the journal goes on. */
  async restore(): Promise<Restored> {
    const { directory, store, catalogue, learning } = this.#parts
    const { found, damaged } = readNewest(listSnapshots(directory))
    this.damaged = damaged
    if (!found) {
      const [first] = store.log(0, 1)
      // Nothing has been dropped from the journal yet: everything can be learned again.
      if (damaged.length === 0 || first?.position === 0) return { segments: 0, accepted: 0, position: 0, limits: {} }
      throw new DessError("INVALID_DATA", `snapshots: expected one that can be read, got ${show(damaged)}`)
    }
    const { state, file } = found
    const { segments, accepted, position, time, limits, journal } = state.get("engine") as unknown as Engine
    if (journal !== undefined && journal !== store.id)
      throw new DessError(
        "INVALID_DATA",
        `journal: expected ${show(journal)}, which ${show(basename(file.path))} was taken of, got ${show(store.id)}; bring back the journal that belongs to it`,
      )
    if (position > store.next)
      throw new DessError(
        "INVALID_DATA",
        `journal: expected record ${position - 1} or later, got ${store.next - 1} as the last: it is older than ${show(basename(file.path))}; bring back the one that belongs to it`,
      )
    catalogue.load(state.at("catalogue"))
    const { path } = file
    this.#taken = [{ segment: segments, position, time, accepted, path, bytes: statSync(path).size }]
    const arrays = new Map([...state.arrays].filter(([name]) => !name.startsWith("catalogue.")))
    await learning.ask({ kind: "load", state: { arrays, values: state.values } })
    return { segments, accepted, position, limits }
  }

  /**
   * Writes everything as of now; the open segment must be closed. The training state follows when the thread gets here.
   * Where nothing was learned since the newest it takes the place of it, unless the journal is to be `shorten`ed.
   */
  async take({ segments, accepted }: Counts, shorten = false): Promise<SnapshotInfo> {
    const { directory, store, journal, catalogue, learning, keepJournal, limits } = this.#parts
    const state = new State()
    catalogue.save(state.at("catalogue"))
    const [position, time] = [journal.position, Date.now()]
    state.set("engine", { segments, accepted, position, time, limits: limits as Json, journal: store.id })
    const path = snapshotPath(directory, position)
    const message = { arrays: state.arrays, values: state.values }
    const bytes = await journal.inOrder(() => learning.ask<number>({ kind: "save", path, directory, state: message }))
    const taken = { segment: segments, position, time, accepted, path, bytes }
    const isKept = (one: Taken) => one.path !== path && (shorten || one.segment !== segments)
    this.#taken = [taken, ...this.#taken.filter(isKept)].slice(0, 2)
    this.#removeOthers()
    // With one snapshot only, what led to it is kept: should it be damaged, everything can be learned again.
    if (!keepJournal && this.#taken.length > 1) await store.truncate(this.#taken[1].position)
    return { segment: segments, bytes, time }
  }

  /** Removes the files of snapshots that are not kept. */
  #removeOthers(): void {
    const { directory } = this.#parts
    const kept = new Set(this.#taken.map(({ path }) => path))
    const old = listSnapshots(directory).filter(({ path }) => !kept.has(path))
    for (const { path } of old) rmSync(path, { force: true })
    if (old.length > 0) syncFolder(directory)
  }

  /**
   * The rest of forgetting, once the user is gone from the training state: a snapshot without the user, then everything
   * older goes, and what was deleted is cut out of the file. Says what was removed.
   */
  async finishForgetting(user: Forgetting, counts: () => Counts): Promise<{ events: number; snapshots: number }> {
    const { directory, store, journal, keepJournal } = this.#parts
    await journal.committed()
    const events = this.#rowsOf(user).reduce((sum, { rows }) => sum + rows, 0)
    const snapshots = listSnapshots(directory).length
    await this.take(counts())
    this.#taken = this.#taken.slice(0, 1)
    this.#removeOthers()
    // Not before: until now a replay would have needed the records as they were.
    await journal.alone(async () => {
      if (keepJournal) await store.write({ ...noWrites(), log: this.#rowsOf(user) })
      else await store.truncate(this.#taken[0].position)
      await store.compact()
      await store.write({ ...noWrites(), forgetting: null })
    })
    return { events, snapshots }
  }

  /** The records that tell of a user, without the user: rows emptied, and the name of somebody who left. */
  #rowsOf({ index, lives }: Forgetting): { position: number; record: LogRecord; rows: number }[] {
    const indices = new Set([...lives.map((life) => life.index), ...(index === null ? [] : [index])])
    const told: { position: number; record: LogRecord; rows: number }[] = []
    /** Rows of whoever has an index of theirs. */
    const open = new Map<number, typeof told>([...indices].map((one) => [one, []]))
    for (const { position, record } of this.#parts.store.log(0)) {
      if (record.kind === "left") {
        let cleaned = record
        for (const one of record.user) {
          const rows = open.get(one)
          if (!rows) continue
          if (lives.some((life) => life.index === one && life.before === position)) {
            told.push(...rows)
            cleaned = withoutName(cleaned, one)
          }
          open.set(one, [])
        }
        if (cleaned !== record) told.push({ position, record: cleaned, rows: 0 })
      } else if (record.kind === "events")
        for (const [one, rows] of open) {
          const without = withoutUser(record, one)
          if (without) rows.push({ position, ...without })
        }
    }
    return index === null ? told : [...told, ...(open.get(index) ?? [])]
  }
}
