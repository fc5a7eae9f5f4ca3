/** Rows as events of the live recommender. What a recommender alone knows is checked where they are taken. */

import { type ColumnChoice, describeColumns, type Reading, readHeader } from "./header.ts"
import { NameTable } from "./names.ts"
import { type CheckedRow, checkRow, hasSignal, type Names, NONE, type RatingBlock } from "./ratings.ts"

export interface EventRow {
  user: string
  item: string
  rating?: number
  timestamp?: number
  key?: string
  type?: string
  weight?: number
}

type Row = Record<string, unknown>
type Where = () => string

/** Makes events of the rows of files. Texts of ids are kept as long as the reader's names are. */
export class EventMaker {
  readonly names: Names = { users: new NameTable(), items: new NameTable() }
  #users: string[] = []
  #items: string[] = []

  /** `type`: of an event that has none. */
  make(rows: RatingBlock, row: number, type?: string): EventRow {
    const user = rows.user[row]
    const item = rows.item[row]
    this.#users[user] ??= this.names.users.names.text(user)
    this.#items[item] ??= this.names.items.names.text(item)
    return eventOf({
      user: this.#users[user],
      item: this.#items[item],
      rating: rows.rating[row],
      timestamp: rows.timestamp[row],
      extras: type === undefined ? rows.extras[row] : { type, ...rows.extras[row] },
    })
  }

  /** Forgets ids when they are many; between two blocks. */
  trim(): void {
    if (this.names.users.names.count > MOST_NAMES) {
      this.names.users = new NameTable()
      this.#users = []
    }
    if (this.names.items.names.count > MOST_NAMES) {
      this.names.items = new NameTable()
      this.#items = []
    }
  }
}

const MOST_NAMES = 500_000

/** Ratings as the source has them: what scale they are on, the recommender knows. */
export const ANY_RATING = { min: 0, max: Number.MAX_VALUE }

/** Reads rows of loose values, as of a database; undefined for one that does not count. Remembers which columns are which. */
export function createEventReader(choice: ColumnChoice): {
  describe(row: Row): string
  /** Whose row it is, of what, and its type, where it has one. */
  identify(row: Row): unknown[]
  read(row: Row, where: Where): EventRow | undefined
} {
  const known = new Map<string, Reading>()
  const readingOf = (row: Row, where: Where): Reading => {
    const names = Object.keys(row)
    const shape = names.join("\n")
    const found = known.get(shape) ?? readHeader(names, { choice, live: true, where: where() }).reading
    known.set(shape, found)
    return found
  }
  return {
    describe: (row) => describeColumns(readingOf(row, () => "source")),
    identify(row) {
      const { user, item, type } = readingOf(row, () => "source").taken
      return [user, item, type].map((column) => (column === undefined ? undefined : row[column]))
    },
    read(row, where) {
      const reading = readingOf(row, where)
      const roles = Object.fromEntries(Object.entries(reading.taken).map(([role, name]) => [role, row[name]]))
      if (!hasSignal(roles, reading)) return undefined
      return eventOf(checkRow(roles, { scale: ANY_RATING, live: true, reading, where }))
    },
  }
}

function eventOf({ user, item, rating, timestamp, extras }: CheckedRow): EventRow {
  const event: EventRow = { user, item, ...extras }
  if (rating !== NONE) event.rating = rating
  if (timestamp !== NONE) event.timestamp = timestamp
  return event
}
