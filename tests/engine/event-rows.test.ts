import { expect, it } from "vitest"
import { EventRows } from "../../src/engine/event-rows.ts"
import { type EventRow, eventsOf } from "../../src/engine/records.ts"
import { Random } from "../../src/kernels/random.ts"

it("rows of events are those that were added and not taken out, however often the columns are used again", () => {
  for (let seed = 1; seed <= 10; seed++) {
    const random = new Random(seed, "event rows")
    const rows = new EventRows()
    let want: EventRow[] = []
    const next = () => ({ user: random.integer(50), item: random.integer(50), rating: random.integer(6), timestamp: 1 })
    for (let step = 0; step < 400; step++) {
      const what = random.next()
      const where = `seed ${seed}, step ${step}`
      if (what < 0.6) {
        const row = next()
        const at = rows.add()
        for (const name of ["user", "item", "rating", "timestamp"] as const) rows.at[name][at] = row[name]
        want.push(row)
      } else if (what < 0.9) {
        const some = Array.from({ length: random.integer(50) }, next)
        const record = eventsOf(some)
        some.forEach((_, r) => {
          if (random.next() < 0.2) record.user[r] = -1
        })
        rows.append(record)
        want.push(...some.filter((_, r) => record.user[r] !== -1))
      } else if (what < 0.95) {
        const { user } = rows.at
        const gone = want.filter((row) => row.user < 5).length
        expect(
          rows.remove((row) => user[row] < 5),
          where,
        ).toBe(gone)
        want = want.filter((row) => row.user >= 5)
      } else if (random.next() < 0.3) {
        expect(rows.take(), where).toEqual(eventsOf(want))
        want = []
      }
      expect(rows.length, where).toBe(want.length)
    }
    expect(rows.take(), `seed ${seed}`).toEqual(eventsOf(want))
  }
})
