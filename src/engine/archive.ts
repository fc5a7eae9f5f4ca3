/**
 * Snapshots of a directory, how much of the journal is kept, and what erasing users has to do on disk. A snapshot
 * belongs to one place of the journal: what was appended before it is in it, what comes after is not.
 */

import { statSync } from "node:fs"
import { basename } from "node:path"
import { DessError, show } from "../errors.ts"
import type { Limits } from "../ids/idle.ts"
import { type Json, State } from "../kernels/state.ts"
import { type Build, thisBuild } from "./build.ts"
import type { Catalogue } from "./catalogue.ts"
import type { Directory } from "./directory.ts"
import { diskError, isSystemError, removeFile, removeParts, syncFolder } from "./disk.ts"
import { findTraces } from "./erasure.ts"
import type { EventTypes } from "./event-types.ts"
import type { Count, ListCounts } from "./experiments.ts"
import type { Erasure, Intake } from "./intake.ts"
import type { Journal } from "./journal.ts"
import type { Learning } from "./learning.ts"
import type { Lookup } from "./lookup.ts"
import { idPrefix, noteKeyOf } from "./lookup-keys.ts"
import type { PastReports } from "./past-reports.ts"
import type { Shown } from "./shown-items.ts"
import { fileState, listSnapshots, readNewest, snapshotPath } from "./snapshots.ts"
import type { Leaving } from "./trainer.ts"
import type { KeptJournal, SnapshotInfo } from "./types.ts"

const ADVICE =
  "bring back what belongs to it from a copy, or open the directory with recover (--recover), which goes on without it"

/** What of the engine itself is in a snapshot. */
export interface EngineState {
  segments: number
  accepted: number
  /** Events of the journal; those before it was counted had as many as were accepted. */
  journalled?: number
  position: number
  time: number
  limits: Limits | undefined
  types?: EventTypes | undefined
  /** The id of the directory, and what it was created with. */
  journal: string
  created: Json
  build: Build | undefined
  mixed: Build | undefined
  /** What was gone when the directory was recovered, at any time. */
  gone: string[]
  /** Whether there was a lookup table. */
  lookup: boolean
  erasures: [number, Erasure][]
  /** What lists led to. */
  experiment?: { fingerprint: string; since: number; counts: Count[] } | undefined
  shown?: Shown | undefined
  /** How far sources of events were read. */
  sources?: [string, string][]
  /** The last reports, packed. */
  reports?: string
  /** Ids that left and whose names are not given up yet. */
  unreleased: Leaving[]
}

/** A snapshot, the record it was taken before, and the events accepted by then. */
interface Taken extends SnapshotInfo {
  position: number
  accepted: number
  path: string
}

/** What an erasure took from the disk. */
export interface Removed {
  events: number
  snapshots: number
}

export interface ArchiveParts {
  directory: Directory
  keepJournal: KeptJournal
  journal: Journal
  catalogue: Catalogue
  intake: Intake
  learning: Learning
  lookup(): Lookup | undefined
  counts: ListCounts
  reports: PastReports
}

export class Archive {
  readonly #parts: ArchiveParts
  /** Newest first, at most two. */
  #taken: Taken[] = []
  /** What was wrong with snapshots that were passed over at the start. */
  damaged: string[] = []
  /** Whether the snapshot that was taken up knew of a lookup table. */
  hadLookup = false

  constructor(parts: ArchiveParts) {
    this.#parts = parts
  }

  get newest(): Taken | undefined {
    return this.#taken[0]
  }

  /** Takes up the newest snapshot that can be read; says where the journal goes on. */
  async restore(): Promise<number> {
    const { directory } = this.#parts
    const { files } = directory
    const { found, damaged } = readNewest(listSnapshots(directory.path))
    this.damaged = damaged
    if (!found) {
      // Where nothing has been dropped from the journal yet, everything can be learned again.
      if (files.first > 0) this.#missing(0, damaged)
      return files.first
    }
    const { state, file } = found
    const engine = state.get("engine") as unknown as EngineState
    const { segments, accepted, position, time } = engine
    if (engine.journal !== directory.id)
      throw new DessError(
        "INVALID_DATA",
        `journal: expected ${show(engine.journal)}, which ${show(basename(file.path))} was taken of, got ${show(directory.id)}; bring back the journal that belongs to it`,
      )
    if (position > files.next) await this.#skipTo(position, basename(file.path))
    if (position < files.first) this.#missing(position, damaged)
    try {
      await this.#load(state, engine)
    } catch (cause) {
      throw isOfThisBuild(engine.build) || isSystemError(cause) ? cause : notOfThisBuild(engine.build, cause)
    }
    const { path } = file
    this.#taken = [{ segment: segments, position, time, accepted, path, bytes: statSync(path).size }]
    return Math.max(position, files.first)
  }

  async #load(state: State, engine: EngineState): Promise<void> {
    const { catalogue, intake, learning } = this.#parts
    const { segments, accepted } = engine
    catalogue.load(state.at("catalogue"))
    const lifetimes = state.at("catalogue").at("lifetimes")
    if (lifetimes.has("items")) intake.lifetimes.load(lifetimes)
    intake.segments = segments
    intake.accepted = accepted
    intake.journalled = engine.journalled ?? accepted
    intake.limits = engine.limits
    intake.types = engine.types
    intake.build = engine.build
    intake.mixed = engine.mixed
    intake.gone = engine.gone ?? []
    for (const [at, erasure] of engine.erasures) intake.erasures.set(at, erasure)
    if (engine.experiment) {
      const { counts, ...experiment } = engine.experiment
      intake.experiment = experiment
      this.#parts.counts.reset(experiment.since)
      this.#parts.counts.add(counts)
    }
    catalogue.shown.put(engine.shown ?? [])
    for (const [name, position] of engine.sources ?? []) intake.sources.set(name, position)
    intake.unreleased = engine.unreleased
    if (engine.reports) this.#parts.reports.load(engine.reports)
    this.hadLookup = engine.lookup
    const arrays = new Map([...state.arrays].filter(([name]) => !name.startsWith("catalogue.")))
    await learning.ask({ kind: "load", state: { arrays, values: state.values } })
  }

  /** Records from a position on are not in the journal any more, and in no snapshot that can be read. */
  #missing(position: number, damaged: readonly string[]): void {
    const { files, isRecovering, gone } = this.#parts.directory
    if (isRecovering) {
      gone.push(`journal: records ${position} to ${files.first - 1} are gone, and no snapshot has what they led to`)
      return
    }
    const why = damaged.length === 0 ? "a snapshot or records are missing" : `snapshots are damaged: ${show(damaged)}`
    throw new DessError(
      "INVALID_DATA",
      `journal: expected record ${position}, got ${files.first} as the first: ${why}; ${ADVICE}`,
    )
  }

  /** Goes on behind records that the journal has lost. */
  async #skipTo(position: number, known: string): Promise<void> {
    const { files, isRecovering, gone } = this.#parts.directory
    if (!isRecovering)
      throw new DessError(
        "INVALID_DATA",
        `journal: expected record ${position - 1} or later, got ${files.next - 1} as the last: it is older than ${show(known)}; ${ADVICE}`,
      )
    gone.push(`journal: records ${files.next} to ${position - 1} are gone; ${known} has what they led to`)
    await files.skipTo(position)
  }

  /**
   * Writes everything as of now; the open segment must be closed. The training state follows when the thread gets here.
   * Where nothing was learned since the newest it takes the place of it, unless the journal is to be `shorten`ed.
   */
  async take(shorten = false): Promise<SnapshotInfo> {
    const info = await this.#parts.journal.inOrder((position) => this.save(position, shorten))
    await this.#keep()
    return info
  }

  /** Writes a snapshot of what is applied, which is everything before a position. */
  async save(position: number, shorten = false): Promise<SnapshotInfo> {
    const { directory, catalogue, intake, learning, lookup, counts, reports } = this.#parts
    const { segments, accepted, journalled, limits, types, build, mixed } = intake
    const state = new State()
    catalogue.save(state.at("catalogue"))
    intake.lifetimes.save(state.at("catalogue").at("lifetimes"))
    const time = Date.now()
    const engine: EngineState = {
      ...{ segments, accepted, journalled, position, time, limits, types, build, mixed },
      journal: directory.id,
      created: directory.created as unknown as Json,
      lookup: lookup() !== undefined || this.hadLookup,
      erasures: [...intake.erasures].filter(([at]) => at < position),
      experiment: intake.experiment && { ...intake.experiment, counts: counts.save() },
      shown: catalogue.shown.all(),
      sources: [...intake.sources],
      reports: reports.save(),
      unreleased: [...intake.unreleased],
      gone: [...new Set([...intake.gone, ...directory.gone])],
    }
    state.set("engine", engine as unknown as Json)
    const path = snapshotPath(directory.path, position)
    // What the training thread adds follows when it gets here.
    const filed = fileState(`${path}.engine.part`, state)
    const bytes = await learning.ask<number>({ kind: "save", path, filed })
    const taken = { segment: segments, position, time, accepted, path, bytes }
    const isKept = (one: Taken) => one.path !== path && (shorten || one.segment !== segments)
    this.#taken = [taken, ...this.#taken.filter(isKept)].slice(0, 2)
    // Where that fails they go with the next.
    await this.#removeOthers().catch(() => {})
    return { segment: segments, bytes, time }
  }

  /** Brings the lookup table up to the newest snapshot, drops what of the journal is not kept, and packs the rest. */
  async #keep(): Promise<void> {
    const { directory, journal, keepJournal, lookup } = this.#parts
    const { files } = directory
    const [newest, older] = this.#taken
    await lookup()?.flush(newest.position)
    await journal.alone(() => files.roll())
    if (keepJournal === "all") await files.pack()
    else if (keepJournal === "none") await files.drop(newest.position)
    // With one snapshot only, what led to it is kept: should it be damaged, everything can be learned again.
    else if (older) await files.drop(older.position)
  }

  /** Removes the files of snapshots that are not kept. */
  async #removeOthers(): Promise<void> {
    const { path: directory } = this.#parts.directory
    const kept = new Set(this.#taken.map(({ path }) => path))
    const old = listSnapshots(directory).filter(({ path }) => !kept.has(path))
    try {
      for (const { path } of old) await removeFile(path)
      await syncFolder(directory)
    } catch (cause) {
      throw diskError("snapshots", cause)
    }
  }

  /**
   * Erases every user whose erasure is pending: a snapshot without them, then everything older goes, what tells of them
   * is taken out of the journal and the lookup table. Says what was removed, by the position of the erasure's record.
   */
  async erase(): Promise<Map<number, Removed>> {
    const { directory, journal, keepJournal, intake, lookup } = this.#parts
    const { files } = directory
    const snapshots = listSnapshots(directory.path).length
    await journal.committed()
    const erasures = new Map(intake.erasures)
    const traces = await findTraces(files.readUntilClosing(), erasures)
    // Events were taken meanwhile; those of an open segment would not be in the snapshot.
    intake.closeSegment()
    await journal.inOrder((position) => this.save(position))
    this.#taken = this.#taken.slice(0, 1)
    await this.#removeOthers()
    const [{ position }] = this.#taken
    await lookup()?.flush(position)
    // Not before: until now a replay would have needed the records as they were.
    await journal.alone(() => files.roll())
    if (keepJournal !== "all") await files.drop(position)
    await files.change(traces.touched, traces.clean)
    await lookup()?.erase([...erasures.values()].flatMap(prefixesOf))
    try {
      removeParts(directory.path)
    } catch (cause) {
      throw diskError("directory", cause)
    }
    intake.finishErasures([...erasures.keys()])
    await journal.committed()
    return new Map([...erasures.keys()].map((at) => [at, { events: traces.rows.get(at) ?? 0, snapshots }]))
  }
}

function isOfThisBuild(build: Build | undefined): boolean {
  return build?.learning === thisBuild().learning
}

function notOfThisBuild(build: Build | undefined, cause: unknown): DessError {
  const { version, learning } = thisBuild()
  const got = build ? `dess ${build.version} (learning ${build.learning})` : "an older dess"
  return new DessError(
    "UNSUPPORTED",
    `snapshot: expected one that dess ${version} (learning ${learning}) can go on from, got one of ${got} (${(cause as Error).message}); dess rebuild makes a state of this version from the journal`,
    { cause },
  )
}

/** What the keys of an erased user's rows in the lookup table begin with. */
function prefixesOf({ user, former, hash }: Erasure): string[] {
  const indices = [...(user === null ? [] : [user]), ...former.map(({ index }) => index)]
  return [...indices.map((index) => idPrefix("user", index)), ...(hash === null ? [] : [noteKeyOf("user", hash)])]
}
