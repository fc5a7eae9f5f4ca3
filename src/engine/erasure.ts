/**
 * What has to go from the journal for users to be erased: their rows, their names where they came and left, and what was
 * noted of them. Rows of an index belong to a user from where its former owner left until that user leaves.
 */

import { hashName } from "./intake.ts"
import type { Placed } from "./journal-files.ts"
import { type ForgetRecord, type LogRecord, withoutRows } from "./records.ts"
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
export async function findTraces(
  records: Iterable<Placed>,
  erasures: ReadonlyMap<number, Omit<ForgetRecord, "kind">>,
): Promise<Traces> {
  const lives: Life[] = []
  // Who is erased twice has had some lives before both.
  const add = (life: Omit<Life, "from" | "rows">) => {
    if (!lives.some(({ index, to }) => index === life.index && to === life.to))
      lives.push({ ...life, from: 0, rows: 0 })
  }
  for (const [position, { user, former }] of erasures) {
    if (user !== null) add({ index: user, to: position, erasure: position })
    for (const { index, before } of former) add({ index, to: before, erasure: position })
  }
  /** Up to where a name is the erased user's; a user who comes back later stays. */
  const until = new Map<string, number>()
  for (const [position, { hash }] of erasures)
    if (hash !== null) until.set(hash, Math.max(position, until.get(hash) ?? 0))
  const ofIndex = groupByIndex(lives)
  // Asked of every row there is.
  const isAnyone = new Uint8Array(1 + lives.reduce((most, { index }) => Math.max(most, index), 0))
  for (const { index } of lives) isAnyone[index] = 1
  const lifeOf = (index: number, position: number) =>
    ofIndex.get(index)?.find(({ from, to }) => from <= position && position < to)
  const clean = ({ position, record }: Placed): LogRecord => {
    const isGone = (name: string | null) => name !== null && position < (until.get(hashName(name)) ?? 0)
    if (record.kind === "events") {
      const goes = (row: number) => lifeOf(record.user[row], position) !== undefined
      const isTouched = record.user.some((index, row) => isAnyone[index] === 1 && goes(row))
      return isTouched ? withoutRows(record, goes) : record
    }
    if (record.kind === "names") {
      // A guest whose history became the user's had another name.
      const isOwn = ({ index }: (typeof record.names)[number]) => lifeOf(index, position) !== undefined
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
      const kept = record.rows.filter(({ user }) => lifeOf(user, position) === undefined)
      return kept.length === record.rows.length ? record : { ...record, rows: kept }
    }
    return record
  }
  const touched: number[] = []
  const pause = createPause()
  for (const placed of records) {
    const { position, record } = placed
    const released = record.kind === "left" ? record.user : record.kind === "forget" ? [record.user ?? -1] : []
    // What was counted was somebody else's.
    for (const index of released)
      for (const life of ofIndex.get(index) ?? [])
        if (position < life.to) Object.assign(life, { from: position + 1, rows: 0 })
    if (record.kind === "events")
      for (const index of record.user)
        if (isAnyone[index] === 1) for (const life of ofIndex.get(index) ?? []) if (position < life.to) life.rows++
    // Lives only get shorter from here on: what is to change in the end is among these.
    if (clean(placed) !== record) touched.push(position)
    const turn = pause()
    if (turn) await turn
  }
  const rows = new Map<number, number>()
  for (const life of lives) rows.set(life.erasure, (rows.get(life.erasure) ?? 0) + life.rows)
  return { rows, touched, clean }
}

function groupByIndex(lives: readonly Life[]): Map<number, Life[]> {
  const groups = new Map<number, Life[]>()
  for (const life of lives) groups.set(life.index, [...(groups.get(life.index) ?? []), life])
  return groups
}
