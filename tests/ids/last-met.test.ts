/** How often and when ids were met, in 4 bytes an id. */

import { expect, test } from "vitest"
import { SmallCounts } from "../../src/ids/counts.ts"
import { LastMet } from "../../src/ids/last-met.ts"
import { RowNotes, SmallColumn } from "../../src/ids/small-numbers.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { EmbeddingTable } from "../../src/models/embedding-table.ts"

const columns = () => new LastMet({ user: new SmallColumn(), item: new SmallColumn() })

test("after a hundred thousand turns a pause is known to a sixteenth of one", () => {
  const random = new Random(1, "pauses")
  const lastMet = columns()
  for (let id = 0; id < 2000; id++) {
    const time = 100_000 * random.next()
    const pause = 2000 * random.next()
    lastMet.meet("user", id, time)
    expect(Math.abs(lastMet.idle("user", id, time + pause) - pause), `id ${id}`).toBeLessThanOrEqual(1 / 16)
    expect(Math.abs(lastMet.of("user", id, time + pause) - time), `id ${id}`).toBeLessThanOrEqual(1 / 16)
  }
})

test("an id that is looked at is never taken for one met of late, however long it is away; a row of before it was met is no pause", () => {
  const lastMet = columns()
  lastMet.meet("item", 4, 10)
  for (let time = 10; time < 20_000; time += 50) {
    lastMet.look("item", 4, time)
    expect(lastMet.idle("item", 4, time), `${time}`).toBeGreaterThanOrEqual(Math.min(time - 10, 2047) - 1 / 16)
  }
  lastMet.meet("item", 4, 30_000)
  expect(lastMet.idle("item", 4, 29_999)).toBe(0)
})

test("takes 2 bytes an id, and is saved and loaded", () => {
  const lastMet = columns()
  for (let id = 0; id < 1000; id++) lastMet.meet("user", id, 1 + id / 500)
  lastMet.meet("item", 9, 3)
  expect(lastMet.bytes).toBe(2 * 1010)
  lastMet.forget("user", [5])
  const state = new State()
  lastMet.save(state)
  const other = columns()
  other.load(state)
  for (const id of [0, 5, 999, 5000]) expect(other.idle("user", id, 7)).toBe(lastMet.idle("user", id, 7))
  expect([other.idle("item", 9, 7), other.bytes]).toEqual([4, lastMet.bytes])
})

test("counts are exact beyond 65,535, and saved and loaded", () => {
  const counts = new SmallCounts(new SmallColumn())
  for (let n = 1; n <= 140_000; n++) if (counts.add(3) !== n) throw new Error(`event ${n}: got ${counts.get(3)}`)
  counts.set(8, 65_536)
  counts.add(5)
  const state = new State()
  counts.save(state)
  const other = new SmallCounts(new SmallColumn())
  other.load(state)
  expect([3, 5, 8, 9].map((id) => other.get(id))).toEqual([140_000, 1, 65_536, 0])
  other.clear(8)
  expect(other.get(8)).toBe(0)
})

test("notes stand in rows: they go with them through sizes, places and snapshots, and are gone with them", () => {
  const bits = [8, 8, 8] as const
  const packing = { bits, whole: 0, head: 2, vectors: 1, seed: 1 }
  const make = () => new EmbeddingTable({ sizes: [2, 4, 18], moments: false, notes: true, deviation: 0, packing })
  const table = make()
  const [first, second] = [new RowNotes(table, 0), new RowNotes(table, 1)]
  const random = new Random(3, "notes")
  const known = new Map<number, [number, number]>()
  const check = (where: string, a = first, b = second) => {
    for (let id = 0; id < 50; id++)
      expect([a.get(id), b.get(id)], `${where}, id ${id}`).toEqual(known.get(id) ?? [0, 0])
  }
  for (let n = 0; n < 2000; n++) {
    const id = random.integer(50)
    const kind = random.integer(4)
    if (kind === 0 && table.has(id)) {
      table.free(id)
      known.delete(id)
    } else if (kind === 1 && table.has(id)) table.replace(id, random.integer(3), new Float32Array(18), 0)
    else {
      table.ensure(id)
      known.set(id, [n % 5 === 0 ? 65_535 : random.integer(65_536), random.integer(65_536)])
      if (kind === 2) table.open([id])
      first.set(id, known.get(id)?.[0] ?? 0)
      second.set(id, known.get(id)?.[1] ?? 0)
      const [a, b] = known.get(id) as [number, number]
      if (n % 3 === 0) known.set(id, [(a + 1) & 0xffff, b])
      if (n % 3 === 0) expect(first.add(id)).toBe((a + 1) & 0xffff)
      table.close({ changed: true })
    }
  }
  check("after 2,000 changes")
  const state = new State()
  table.save(state)
  const other = make()
  other.load(state)
  check("loaded", new RowNotes(other, 0), new RowNotes(other, 1))
})
