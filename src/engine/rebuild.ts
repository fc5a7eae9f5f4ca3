/**
 * Makes a new directory from the journal of another: with another method, by another version, or where snapshots are
 * damaged. The events keep their order, times and segments; who leaves for idleness or room is decided again.
 */

import { existsSync, readdirSync, rmdirSync, rmSync } from "node:fs"
import { dirname, join, resolve, sep } from "node:path"
import { DessError, show } from "../errors.ts"
import { Names } from "../ids/names.ts"
import { SIDES, type Side } from "../types.ts"
import { openDirectory, recoverCreated } from "./directory.ts"
import { tryTo } from "./disk.ts"
import { FormerNames } from "./former-names.ts"
import type { JournalFiles, Placed } from "./journal-files.ts"
import { Recommender } from "./open.ts"
import { type FixedOptions, fixedOptions } from "./options.ts"
import {
  type EventExtra,
  type EventRow,
  encodeRecord,
  eventsOf,
  GONE,
  type LogRecord,
  type NamedIndex,
} from "./records.ts"
import type { Shown } from "./shown-items.ts"
import { openSource, type Source } from "./source.ts"
import { tryOptions } from "./try-options.ts"
import { createPause, giveWay } from "./turns.ts"
import type { RecommenderOptions, ReplayProgress } from "./types.ts"

/** Bytes of records that are written together. */
const WRITE_BYTES = 2 ** 20

export interface RebuildOptions {
  /** The directory whose journal is read, and the one that is made. */
  directory: string
  out: string
  /** What is to be other than in the old one. */
  options?: Omit<RecommenderOptions, "directory"> | undefined
  /** Mends a damaged journal of the old one first. */
  recover?: boolean | undefined
  onCopied?: ((events: number) => void) | undefined
  onReplay?: ((progress: ReplayProgress) => void) | undefined
}

export interface Rebuilt {
  events: number
  users: number
  items: number
  segments: number
  /** Rows that were erased, or whose names are gone. */
  dropped: number
  /** Whether the journal reached back to the first event and had no gap, and what was gone. */
  isWhole: boolean
  gone: string[]
  hash: string
}

export async function rebuild(p: RebuildOptions): Promise<Rebuilt> {
  const [from, out] = [resolve(p.directory), resolve(p.out)]
  if (!existsSync(from))
    throw new DessError("NOT_FOUND", `directory: expected a recommender's, got ${show(p.directory)}`)
  if (existsSync(out) && readdirSync(out).length > 0)
    throw new DessError("INVALID_ARGUMENT", `out: expected a new or empty directory, got ${show(p.out)}`)
  if (`${out}${sep}`.startsWith(`${from}${sep}`))
    throw new DessError("INVALID_ARGUMENT", `out: expected a directory outside the old one, got ${show(p.out)}`)
  // Options are refused before anything is made or mended.
  const known = recoverCreated(from)
  const options = { ...(known ? givenOptions(known) : {}), ...p.options }
  const created = fixedOptions(await tryOptions(options))
  const source = await openSource(from, p.recover === true)
  const missing = missingFolders(out)
  try {
    const dropped = await copyInto(out, { source, created, onCopied: p.onCopied }).finally(() => source.close())
    return { ...(await learn(out, p)), dropped, isWhole: source.isWhole, gone: source.gone }
  } catch (error) {
    tryTo(() => removeMade(out, missing))
    throw error
  }
}

/** A folder and those above it that do not exist, the innermost first. */
function missingFolders(path: string): string[] {
  return existsSync(path) || dirname(path) === path ? [] : [path, ...missingFolders(dirname(path))]
}

/** Empties a folder, and removes those that were missing. */
function removeMade(out: string, missing: readonly string[]): void {
  for (const name of readdirSync(out)) rmSync(join(out, name), { recursive: true, force: true })
  for (const folder of missing) rmdirSync(folder)
}

interface CopyOptions {
  source: Source
  created: FixedOptions
  onCopied: RebuildOptions["onCopied"]
}

/** Makes a directory with the records of a source; returns how many rows were dropped. */
async function copyInto(out: string, { source, created, onCopied }: CopyOptions): Promise<number> {
  const target = await openDirectory(out)
  try {
    await target.create(created)
    const copy = new Copy(source, target.files)
    await copy.run(onCopied)
    return copy.dropped
  } finally {
    await target.close()
  }
}

async function learn(out: string, p: RebuildOptions): Promise<Omit<Rebuilt, "dropped" | "isWhole" | "gone">> {
  const recommender = await Recommender.open({ ...p.options, directory: out, onReplay: p.onReplay })
  try {
    const hash = await (recommender as Recommender & { hash(): Promise<string> }).hash()
    const { events, users, items, segments } = recommender.status()
    return { events: events.accepted, users: users.known, items: items.known, segments, hash }
  } finally {
    await recommender.close()
  }
}

/** What a directory was created with, as it would be asked for. */
export function givenOptions({ features, likeThreshold, ...rest }: FixedOptions): RecommenderOptions {
  // It is kept on the scale 0 to 5 and asked for on that of the ratings.
  const threshold = (likeThreshold * rest.scale.max) / 5
  return { ...rest, likeThreshold: threshold, ...(features ? { features } : {}) }
}

/** Writes the records of one journal into another, with indices of its own. */
class Copy {
  readonly #source: Source
  readonly #files: JournalFiles
  readonly #names: Record<Side, Names> = { user: new Names(), item: new Names() }
  readonly #former = new FormerNames()
  /** Of the old journal, as far as it tells: who has an index here. */
  readonly #owners: Record<Side, Map<number, string>> = { user: new Map(), item: new Map() }
  #records: Uint8Array[] = []
  #bytes = 0
  #fresh: NamedIndex[] = []
  events = 0
  dropped = 0

  constructor(source: Source, files: JournalFiles) {
    this.#source = source
    this.#files = files
  }

  async run(onCopied: (events: number) => void = () => {}): Promise<void> {
    const source = this.#source
    const pause = createPause()
    // Whom indices stood for where the journal does not begin with their names.
    for (const { position, record } of source.records()) {
      if (record.kind === "left" || record.kind === "forget") this.#former.add(position, record)
      const turn = pause()
      if (turn) await turn
    }
    const put = [...(source.itemsAreRecorded ? [] : source.items())].flatMap(({ index, item }) => {
      const name = source.name("item", index)
      return name === undefined ? [] : [{ index: this.#index("item", name), item }]
    })
    if (put.length > 0) {
      const features = put.filter(({ item }) => item.features !== null).map(({ index }) => index)
      this.#write({ kind: "items", items: put, features })
    }
    for (const placed of source.records()) {
      this.#copy(placed)
      if (this.#bytes < WRITE_BYTES) continue
      await this.#flush()
      onCopied(this.events)
    }
    await this.#flush()
    onCopied(this.events)
  }

  #copy({ position, record }: Placed): void {
    if (record.kind === "events") this.#copyEvents(record, position)
    else if (record.kind === "segment") this.#write({ ...record, events: this.events })
    else if (["tick", "types", "source", "experiment"].includes(record.kind)) this.#write(record)
    else if (record.kind === "names")
      for (const { side, index, name } of record.names) {
        if (name !== null) this.#owners[side].set(index, name)
      }
    else if (record.kind === "items") {
      const named = record.items.flatMap(({ index, item }) => {
        const name = this.#nameOf("item", index, position)
        return name === undefined ? [] : [{ index: this.#index("item", name), item, old: index }]
      })
      const features = named.filter(({ old }) => record.features.includes(old)).map(({ index }) => index)
      const items = named.map(({ index, item }) => ({ index, item }))
      if (items.length > 0) this.#write({ kind: "items", items, features })
      const deleted = items.filter(({ item }) => item === null).map(({ index }) => index)
      if (deleted.length > 0) this.#delete(deleted)
    } else if (record.kind === "retract") {
      const rows = record.rows.flatMap(({ user, item, type }) => {
        const names = { user: this.#nameOf("user", user, position), item: this.#nameOf("item", item, position) }
        if (names.user === undefined || names.item === undefined) return []
        return [{ user: this.#index("user", names.user), item: this.#index("item", names.item), type }]
      })
      if (rows.length > 0) this.#write({ kind: "retract", rows, unmet: record.unmet })
    } else if (record.kind === "outcomes") {
      const shown = (record.shown ?? []).flatMap(([item, count]): Shown => {
        const name = this.#nameOf("item", item, position)
        return name === undefined ? [] : [[this.#index("item", name), count]]
      })
      this.#write({ kind: "outcomes", counts: record.counts, shown })
    } else if (record.kind === "notes") {
      const notes = record.notes.filter(({ id }) => id !== null)
      if (notes.length > 0) this.#write({ kind: "notes", notes })
    } else if (record.kind === "left")
      for (const side of SIDES) for (const index of record[side]) this.#owners[side].delete(index)
    else if (record.kind === "forget" && record.user !== null) this.#owners.user.delete(record.user)
  }

  #copyEvents(record: Extract<LogRecord, { kind: "events" }>, position: number): void {
    const rows: EventRow[] = []
    const extras: EventExtra[] = []
    const extraOf = new Map(record.extras.map((extra) => [extra.row, extra]))
    for (let r = 0; r < record.user.length; r++) {
      const user = record.user[r] === GONE ? undefined : this.#nameOf("user", record.user[r], position)
      const item = record.user[r] === GONE ? undefined : this.#nameOf("item", record.item[r], position)
      if (user === undefined || item === undefined) {
        this.dropped++
        continue
      }
      const extra = extraOf.get(r)
      if (extra) extras.push({ ...extra, row: rows.length })
      const { rating, timestamp, weight, stays } = record
      const kept = { rating: rating[r], timestamp: timestamp[r], weight: weight[r], stays: stays[r] }
      rows.push({ user: this.#index("user", user), item: this.#index("item", item), ...kept })
    }
    this.events += rows.length
    if (rows.length > 0) this.#write(eventsOf(rows, extras))
  }

  #delete(items: number[]): void {
    const names = items.map((index) => this.#names.item.name(index) ?? null)
    this.#write({ kind: "left", user: [], item: items, names: { user: [], item: names } })
    for (const index of items) {
      this.#names.item.drop(index)
      this.#names.item.recycle(index)
    }
  }

  /** The id of an index at a position; none where it was erased or is not known. */
  #nameOf(side: Side, index: number, position: number): string | undefined {
    const owner = this.#owners[side].get(index)
    if (owner !== undefined) return owner
    const former = this.#former.find(side, index, position)
    return former === undefined ? this.#source.name(side, index) : (former ?? undefined)
  }

  #index(side: Side, name: string): number {
    const known = this.#names[side].find(name)
    if (known !== undefined) return known
    const index = this.#names[side].add(name)
    this.#names[side].settle(1)
    this.#fresh.push({ side, index, name })
    return index
  }

  #write(record: LogRecord): void {
    if (this.#fresh.length > 0) {
      const names = this.#fresh
      this.#fresh = []
      this.#push({ kind: "names", names })
    }
    this.#push(record)
  }

  #push(record: LogRecord): void {
    const bytes = Uint8Array.from(encodeRecord(record))
    this.#records.push(bytes)
    this.#bytes += bytes.length
  }

  async #flush(): Promise<void> {
    await this.#files.append(this.#records)
    this.#records = []
    this.#bytes = 0
    await giveWay()
  }
}
