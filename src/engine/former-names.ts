/**
 * Whom an index of the journal stood for at a place. An index whose owner left is given to another id, so a row is named
 * by the first leaving after it, or, where there is none, by who has the index now.
 */

import type { Side } from "../types.ts"
import { type EventsRecord, GONE, type LeftRecord, type LogRecord } from "./records.ts"
import type { Forgetting, Store } from "./store.ts"

/** Records looked at before others get a turn. */
const PORTION = 500

/** All records in order, a few hundred at a time, so that neither a slow reader nor a long journal holds anything up. */
export async function* portions(store: Pick<Store, "log">): AsyncGenerator<{ position: number; record: LogRecord }[]> {
  for (let from = 0; ; ) {
    const some = [...store.log(from, PORTION)]
    if (some.length === 0) return
    from = some[some.length - 1].position + 1
    yield some
    await new Promise((resolve) => setImmediate(resolve))
  }
}

export class FormerNames {
  /** By index, in order of leaving. */
  readonly #left: Record<Side, Map<number, { before: number; name: string | null }[]>> = {
    user: new Map(),
    item: new Map(),
  }

  /** Takes in who left; in order, each once. */
  add(before: number, record: LeftRecord): void {
    for (const side of ["user", "item"] as const)
      record[side].forEach((index, at) => {
        const known = this.#left[side].get(index) ?? []
        if (known.every((one) => one.before !== before)) known.push({ before, name: record.names[side][at] })
        this.#left[side].set(index, known)
      })
  }

  /** The name at a place of somebody who left later; null for one forgotten, undefined for nobody who left. */
  find(side: Side, index: number, position: number): string | null | undefined {
    return this.#left[side].get(index)?.find(({ before }) => before > position)?.name
  }
}

/** An event as it was told: names, and the rating on its own scale. */
export interface NamedEvent {
  user: string
  item: string
  rating?: number
  timestamp: number
}

/** The rows of a record that are somebody's. `now`: who has an index now; `max`: of the scale of the ratings. */
export function nameEvents(
  { position, record }: { position: number; record: EventsRecord },
  p: { former: FormerNames; now: (side: Side, index: number) => string | undefined; max: number },
): NamedEvent[] {
  const nameOf = (side: Side, index: number) => {
    const name = p.former.find(side, index, position)
    return name === undefined ? p.now(side, index) : (name ?? undefined)
  }
  const found: NamedEvent[] = []
  for (let r = 0; r < record.user.length; r++) {
    if (record.user[r] === GONE) continue
    const [user, item] = [nameOf("user", record.user[r]), nameOf("item", record.item[r])]
    if (user === undefined || item === undefined) continue
    const rating = record.rating[r]
    const stars = Number.isNaN(rating) ? {} : { rating: toldRating(rating, p.max) }
    found.push({ user, item, ...stars, timestamp: record.timestamp[r] })
  }
  return found
}

/** The shortest number that is kept as this one: 4.7, not 4.699999809265137. */
function toldRating(kept: number, max: number): number {
  const rating = (kept * max) / 5
  for (let digits = 1; digits < 10; digits++) {
    const short = Number(rating.toPrecision(digits))
    if (Math.fround((short * 5) / max) === kept) return short
  }
  return rating
}

/** The indices a user had before leaving, as far as the journal goes back. */
export async function livesOf(store: Store, user: string): Promise<Forgetting["lives"]> {
  const lives: Forgetting["lives"] = []
  for await (const some of portions(store))
    for (const { position, record } of some)
      if (record.kind === "left")
        record.user.forEach((index, at) => {
          if (record.names.user[at] === user) lives.push({ index, before: position })
        })
  return lives
}
