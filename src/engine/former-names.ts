/**
 * Finds the name that an index in the journal stood for at a position. An index is reused after its id has left. So a row
 * belongs to the id that left first after it, or to the one that has the index now if none left.
 */

import { SIDES, type Side } from "../types.ts"
import type { JournalFiles, Placed } from "./journal-files.ts"
import { type EventsRecord, type ForgetRecord, GONE, type LeftRecord } from "./records.ts"
import { giveWay } from "./turns.ts"
import type { NamedEvent } from "./types.ts"

/** After this many milliseconds or records, other work gets a turn. */
const SLICE = 2
const PORTION = 500

/** Yields records a few at a time, so that neither a slow reader nor a long journal blocks the process. */
export async function* portions(records: Iterable<Placed>): AsyncGenerator<Placed[]> {
  let some: Placed[] = []
  let began = performance.now()
  for (const placed of records) {
    some.push(placed)
    if (some.length < PORTION && performance.now() - began < SLICE) continue
    yield some
    some = []
    await giveWay()
    began = performance.now()
  }
  yield some
}

export class FormerNames {
  /** By index, in order of leaving. */
  readonly #left: Record<Side, Map<number, { before: number; name: string | null }[]>> = {
    user: new Map(),
    item: new Map(),
  }

  /** Adds ids that left or were erased. */
  add(before: number, record: LeftRecord | ForgetRecord): void {
    if (record.kind === "forget") {
      if (record.user !== null) this.#add("user", record.user, { before, name: null })
      return
    }
    for (const side of SIDES)
      record[side].forEach((index, at) => {
        this.#add(side, index, { before, name: record.names[side][at] })
      })
  }

  #add(side: Side, index: number, one: { before: number; name: string | null }): void {
    const known = this.#left[side].get(index) ?? []
    const at = known.findLastIndex(({ before }) => before <= one.before)
    if (known[at]?.before !== one.before) known.splice(at + 1, 0, one)
    this.#left[side].set(index, known)
  }

  /** The name at a position of an id that left later; null for a forgotten one, undefined where none left. */
  find(side: Side, index: number, position: number): string | null | undefined {
    return this.#left[side].get(index)?.find(({ before }) => before > position)?.name
  }
}

/** The rows of a record that belong to an id. `now`: the present name of an index; `max`: of the scale of the ratings. */
export function nameEvents(
  { position, record }: { position: number; record: EventsRecord },
  p: { former: FormerNames; now: (side: Side, index: number) => string | undefined; max: number },
): NamedEvent[] {
  const nameOf = (side: Side, index: number) => {
    const name = p.former.find(side, index, position)
    return name === undefined ? p.now(side, index) : (name ?? undefined)
  }
  const found: NamedEvent[] = []
  const types = new Map(record.extras.map(({ row, type }) => [row, type]))
  for (let r = 0; r < record.user.length; r++) {
    if (record.user[r] === GONE) continue
    const [user, item] = [nameOf("user", record.user[r]), nameOf("item", record.item[r])]
    if (user === undefined || item === undefined) continue
    const rating = record.rating[r]
    const stars = Number.isNaN(rating) ? {} : { rating: reportedRating(rating, p.max) }
    const [type, weight] = [types.get(r), shortest(record.weight[r])]
    const kind = { ...(type !== undefined && { type }), ...(weight !== 1 && { weight }) }
    found.push({ user, item, ...stars, timestamp: record.timestamp[r], ...kind })
  }
  return found
}

/** The shortest decimal that is stored as the same float. */
function shortest(kept: number): number {
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(kept.toPrecision(digits))
    if (Math.fround(short) === kept) return short
  }
  return kept
}

/** The shortest decimal that is stored as the same float: 4.7, not 4.699999809265137. */
function reportedRating(kept: number, max: number): number {
  const rating = (kept * max) / 5
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(rating.toPrecision(digits))
    if (Math.fround((short * 5) / max) === kept) return short
  }
  return rating
}

/** The indices a user had before it left, as far back as the journal goes. */
export async function formerIndicesOf(files: JournalFiles, user: string): Promise<ForgetRecord["former"]> {
  const found: ForgetRecord["former"] = []
  for await (const { position, record } of files.readLeavings(files.first))
    if (record.kind === "left")
      record.user.forEach((index, at) => {
        if (record.names.user[at] === user) found.push({ index, before: position })
      })
  return found
}
