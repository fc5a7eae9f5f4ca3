/**
 * What has to go from the journal for users to be erased: their rows, their names where they came and left, and what was
 * noted of them. Rows of an index belong to a user from where its former owner left until that user leaves.
 */

import { type Erasure, hashName } from "./intake.ts"
import type { JournalFiles, Placed } from "./journal-files.ts"
import { type LogRecord, withoutRows } from "./records.ts"
import { createPause } from "./turns.ts"

/** Rows of an index between two positions. */
interface Life {
  index: number
  from: number
  to: number
  erasure: number
  rows: number
}

export interface Traces {
  /** By the position of the erasure's record: events that are taken out. */
  rows: Map<number, number>
  /** Positions of records that may have to change, in order. */
  touched: number[]
  /** The record without what is to go; the same where nothing is. */
  clean(placed: Placed): LogRecord
}

/** Finds what is to go. `erasures`: by the position of their records. */
export async function findTraces(records: Iterable<Placed>, erasures: ReadonlyMap<number, Erasure>): Promise<Traces> {
  const lives = new Lives(erasures)
  /** Up to where a name is the erased user's; a user who comes back later stays. */
  const until = new Map<string, number>()
  for (const [position, { hash }] of erasures)
    if (hash !== null) until.set(hash, Math.max(position, until.get(hash) ?? 0))
  const clean = ({ position, record }: Placed): LogRecord => {
    const isGone = (name: string | null) => name !== null && position < (until.get(hashName(name)) ?? 0)
    if (record.kind === "events") {
      const goes = (row: number) => lives.has(record.user[row], position)
      return record.user.some((_, row) => goes(row)) ? withoutRows(record, goes) : record
    }
    if (record.kind === "names") {
      // A guest whose history became the user's had another name.
      const isOwn = ({ index }: (typeof record.names)[number]) => lives.has(index, position)
      const goes = (one: (typeof record.names)[number]) => one.side === "user" && (isGone(one.name) || isOwn(one))
      if (!record.names.some(goes)) return record
      return { ...record, names: record.names.map((one) => (goes(one) ? { ...one, name: null } : one)) }
    }
    if (record.kind === "left") {
      if (!record.names.user.some(isGone)) return record
      const user = record.names.user.map((name) => (isGone(name) ? null : name))
      return { ...record, names: { ...record.names, user } }
    }
    if (record.kind === "notes") {
      const goes = (one: (typeof record.notes)[number]) => one.side === "user" && isGone(one.id)
      if (!record.notes.some(goes)) return record
      return { ...record, notes: record.notes.map((one) => (goes(one) ? { ...one, id: null, note: null } : one)) }
    }
    if (record.kind === "forget" && record.hash !== null && position <= (until.get(record.hash) ?? -1))
      return { ...record, former: [], hash: null }
    if (record.kind === "retract") {
      const kept = record.rows.filter(({ user }) => !lives.has(user, position))
      return kept.length === record.rows.length ? record : { ...record, rows: kept }
    }
    return record
  }
  const touched: number[] = []
  const pause = createPause()
  for (const placed of records) {
    lives.read(placed)
    // Lives only get shorter from here on: what is to change in the end is among these.
    if (clean(placed) !== placed.record) touched.push(placed.position)
    const turn = pause()
    if (turn) await turn
  }
  return { rows: lives.rows(), touched, clean }
}

/**
 * Where in the journal indices stood for users who are erased: from where a former owner left until that user did. Known
 * once the records were read in order.
 */
class Lives {
  readonly #all: Life[] = []
  readonly #ofIndex: ReadonlyMap<number, Life[]>
  /** Asked of every row there is. */
  readonly #isAnyone: Uint8Array

  constructor(erasures: ReadonlyMap<number, Erasure>) {
    for (const [position, { user, former }] of erasures) {
      if (user !== null) this.#add({ index: user, to: position, erasure: position })
      for (const { index, before } of former) this.#add({ index, to: before, erasure: position })
    }
    this.#ofIndex = groupByIndex(this.#all)
    this.#isAnyone = new Uint8Array(1 + this.#all.reduce((most, { index }) => Math.max(most, index), 0))
    for (const { index } of this.#all) this.#isAnyone[index] = 1
  }

  /** Who is erased twice has had some lives before both. */
  #add(life: Omit<Life, "from" | "rows">): void {
    if (!this.#all.some(({ index, to }) => index === life.index && to === life.to))
      this.#all.push({ ...life, from: 0, rows: 0 })
  }

  read({ position, record }: Placed): void {
    const released = record.kind === "left" ? record.user : record.kind === "forget" ? [record.user ?? -1] : []
    // What was counted was somebody else's.
    for (const index of released)
      for (const life of this.#ofIndex.get(index) ?? [])
        if (position < life.to) Object.assign(life, { from: position + 1, rows: 0 })
    if (record.kind !== "events") return
    for (const index of record.user)
      if (this.#isAnyone[index] === 1)
        for (const life of this.#ofIndex.get(index) ?? []) if (position < life.to) life.rows++
  }

  has(index: number, position: number): boolean {
    if (this.#isAnyone[index] !== 1) return false
    return this.#ofIndex.get(index)?.some(({ from, to }) => from <= position && position < to) === true
  }

  /** Events by erasure. */
  rows(): Map<number, number> {
    const rows = new Map<number, number>()
    for (const life of this.#all) rows.set(life.erasure, (rows.get(life.erasure) ?? 0) + life.rows)
    return rows
  }
}

/**
 * Brings what is pending up to the end of the journal, and finds whose erasure stands where a replay has yet to get to;
 * undefined where nobody's does.
 */
export async function findErasedAhead(
  files: JournalFiles,
  p: { from: number; pending: Map<number, Erasure>; signal: AbortSignal | undefined },
): Promise<ErasedAhead | undefined> {
  const { from, pending, signal } = p
  const erasures = new Map<number, Erasure>()
  for await (const { position, record } of files.readLeavings(from, signal))
    if (record.kind === "forget") {
      const { user, former, hash } = record
      for (const known of [erasures, pending]) known.set(position, { user, former, hash })
    } else if (record.kind === "erased") for (const position of record.positions) pending.delete(position)
  if (erasures.size === 0) return undefined
  const lives = new Lives(erasures)
  for await (const placed of files.readLeavings(from, signal)) lives.read(placed)
  return new ErasedAhead(from, erasures, lives)
}

/** Users whose erasure stands where the replay has yet to get to: until then nobody reads what is known of them. */
export class ErasedAhead {
  readonly #lives: Lives
  /** By the hash of a name: where its last erasure stands. */
  readonly #until = new Map<string, number>()
  /** Position of the next record to be replayed: until it is, all is as of the one before. */
  at: number

  constructor(from: number, erasures: ReadonlyMap<number, Erasure>, lives: Lives) {
    this.at = from
    this.#lives = lives
    for (const [position, { hash }] of erasures) if (hash !== null) this.#until.set(hash, position)
  }

  has(index: number): boolean {
    return this.#lives.has(index, this.at - 1)
  }

  hasName(name: string): boolean {
    return this.at <= (this.#until.get(hashName(name)) ?? -1)
  }
}

function groupByIndex(lives: readonly Life[]): Map<number, Life[]> {
  const groups = new Map<number, Life[]>()
  for (const life of lives) groups.set(life.index, [...(groups.get(life.index) ?? []), life])
  return groups
}
