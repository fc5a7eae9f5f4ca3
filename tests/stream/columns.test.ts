import { describe, expect, test } from "vitest"
import { Random } from "../../src/kernels/random.ts"
import { type Columns, streamFromColumns } from "../../src/stream/columns.ts"
import { IdMap } from "../../src/stream/id-map.ts"
import { ColumnsBuilder, streamFromInteractions } from "../../src/stream/memory.ts"
import { shuffledOrder, timeOrder } from "../../src/stream/order.ts"
import type { Stream } from "../../src/stream/stream.ts"
import type { Interaction, InteractionBatch } from "../../src/types.ts"

/** All rows of a stream, with their outside names. */
function rowsOf(stream: Stream): unknown[] {
  const rows: unknown[] = []
  for (const batch of stream.batches() as Iterable<InteractionBatch>) {
    for (let i = 0; i < batch.length; i++) {
      const names = [stream.userName!(batch.user[i]), stream.itemName!(batch.item[i])]
      rows.push([...names, batch.rating[i], batch.timestamp[i]])
    }
  }
  return rows
}

function randomInteractions(seed: number, length: number): Interaction[] {
  const random = new Random(seed)
  return Array.from({ length }, () => ({
    user: `u${random.integer(20)}`,
    item: random.integer(30),
    rating: (1 + random.integer(10)) / 2,
    timestamp: random.integer(40),
  }))
}

describe("ids", () => {
  test("are numbered in order of first sight, and 7 is the same as '7'", () => {
    const ids = new IdMap()
    expect(["b", 7, "a", "7", "b", 0.5].map((id) => ids.index(id))).toEqual([0, 1, 2, 1, 0, 3])
    expect(ids.size).toBe(4)
    expect(ids.names).toEqual(["b", "7", "a", "0.5"])
    expect([ids.find(7), ids.find("c")]).toEqual([1, undefined])
    expect(ids.name(3)).toBe("0.5")
  })

  test("named like parts of an object are ids like any other", () => {
    const ids = new IdMap()
    const odd = ["__proto__", "constructor", "toString", "hasOwnProperty"]
    expect(odd.map((id) => ids.find(id))).toEqual(odd.map(() => undefined))
    expect(odd.map((id) => ids.index(id))).toEqual([0, 1, 2, 3])
    expect(ids.name(0)).toBe("__proto__")
  })

  test("an index without a name is refused", () => {
    const ids = new IdMap()
    expect(() => ids.name(0)).toThrow("id index: expected none, nothing was seen, got 0")
    ids.index("a")
    expect(() => ids.name(1)).toThrow("id index: expected a whole number from 0 to 0, got 1")
    expect(() => ids.name(-1)).toThrow("got -1")
  })
})

describe("order", () => {
  test("by time agrees with a stable sort, whole seconds or not, for 200 seeds", () => {
    for (let seed = 0; seed < 200; seed++) {
      const random = new Random(seed, "times")
      const scale = [10, 1e9, 1e-3, 4e9][seed % 4]
      const whole = seed % 8 < 4
      const times = Float64Array.from({ length: 1 + random.integer(300) }, () => {
        const time = random.next() * scale
        return whole ? Math.floor(time) : time
      })
      if (seed % 10 === 9) times[0] = -0
      // One far outlier leaves no bits to tell the others apart.
      if (seed % 10 === 8) times[0] = 1e15
      if (seed % 20 === 9) times[times.length - 1] = -5
      const expected = [...times.keys()].sort((a, b) => times[a] - times[b])
      expect([...(timeOrder(times) ?? times.keys())], `seed ${seed}`).toEqual(expected)
    }
  })

  test("by time is nothing for rows in order already", () => {
    expect(timeOrder(Float64Array.of(1, 1, 2, 3.5))).toBeUndefined()
    expect(timeOrder(new Float64Array(0))).toBeUndefined()
    expect(timeOrder(Float64Array.of(2, 1))).toEqual(Uint32Array.of(1, 0))
  })

  test("shuffled holds every row once, differs by seed and repeats by seed", () => {
    const order = shuffledOrder(1000, 1)
    expect([...order].sort((a, b) => a - b)).toEqual([...Array(1000).keys()])
    expect(shuffledOrder(1000, 1)).toEqual(order)
    expect(shuffledOrder(1000, 2)).not.toEqual(order)
  })

  test("shuffled is fair: each of three rows comes first in a third of the seeds", () => {
    const first = [0, 0, 0]
    for (let seed = 0; seed < 3000; seed++) first[shuffledOrder(3, seed)[0]]++
    for (const count of first) expect(Math.abs(count - 1000)).toBeLessThan(100)
  })
})

describe("a stream from memory", () => {
  test("keeps every interaction, in stable time order, for 30 seeds", () => {
    for (let seed = 0; seed < 30; seed++) {
      const interactions = randomInteractions(seed, 500)
      const stream = streamFromInteractions({ interactions })
      const expected = [...interactions].sort((a, b) => a.timestamp - b.timestamp)
      expect(rowsOf(stream), `seed ${seed}`).toEqual(
        expected.map(({ user, item, rating, timestamp }) => [user, String(item), rating, timestamp]),
      )
    }
  })

  test("numbers ids by first appearance after ordering", () => {
    const stream = streamFromInteractions({
      interactions: [
        { user: "late", item: 1, rating: 1, timestamp: 9 },
        { user: "early", item: 2, rating: 2, timestamp: 1 },
        { user: "late", item: "2", rating: 3, timestamp: 5 },
      ],
    })
    const [batch] = stream.batches()
    expect([...batch.user]).toEqual([0, 1, 1])
    expect([...batch.item]).toEqual([0, 0, 1])
    expect([stream.users, stream.items, stream.interactions]).toEqual([2, 2, 3])
    expect([stream.userName(0), stream.itemName(0)]).toEqual(["early", "2"])
    expect(() => stream.userName(2)).toThrow("user index: expected a whole number from 0 to 1, got 2")
  })

  test("shuffled holds the same rows in another order, by seed, and can be read twice", () => {
    const interactions = randomInteractions(1, 300)
    const shuffled = streamFromInteractions({ interactions, order: "shuffled", seed: 5 })
    const rows = rowsOf(shuffled)
    expect(rowsOf(shuffled)).toEqual(rows)
    expect(rowsOf(streamFromInteractions({ interactions, order: "shuffled", seed: 6 }))).not.toEqual(rows)
    const inTime = rowsOf(streamFromInteractions({ interactions }))
    expect(rows).not.toEqual(inTime)
    expect(rows.map(String).sort()).toEqual(inTime.map(String).sort())
  })

  test("with a limit knows only the ids of the first rows", () => {
    const interactions = randomInteractions(2, 300)
    const stream = streamFromInteractions({ interactions, limit: 10 })
    expect(rowsOf(stream)).toEqual(rowsOf(streamFromInteractions({ interactions })).slice(0, 10))
    expect(stream.interactions).toBe(10)
    expect(stream.users).toBeLessThanOrEqual(10)
  })

  test("of no interactions is an empty stream", () => {
    expect(rowsOf(streamFromInteractions({ interactions: [] }))).toEqual([])
  })

  test("says which interaction is bad", () => {
    const interactions = [...randomInteractions(3, 4), { user: 1, item: 2, rating: 12, timestamp: 0 }]
    expect(() => streamFromInteractions({ interactions, scale: { min: 0, max: 10 } })).toThrow(
      "interaction rating: expected a number from 0 to 10, got 12 (interaction 4)",
    )
  })

  test("lays features out by item index; a missing item has no entry, an all-zero one has", () => {
    const interactions = [3, 1, 2].map((item, i) => ({ user: 1, item, rating: 4, timestamp: i }))
    const rows = new Map<string | number, number[]>([
      [1, [0, 0]],
      ["3", [1, 0.5]],
      ["never met", [9, 9]],
    ])
    const asMap = streamFromInteractions({ interactions, features: { columns: ["a", "b"], rows } })
    const asRecord = streamFromInteractions({
      interactions,
      features: { columns: ["a", "b"], rows: { "1": [0, 0], "3": [1, 0.5] } },
    })
    for (const { features } of [asMap, asRecord]) {
      expect(features?.columns).toEqual(["a", "b"])
      expect([...features!.values]).toEqual([1, 0.5, 0, 0, 0, 0])
      expect([...features!.present]).toEqual([1, 1, 0])
    }
  })

  test("refuses features of another width or that are no numbers", () => {
    const interactions = randomInteractions(1, 3)
    const attempt = (row: number[]) => () =>
      streamFromInteractions({ interactions, features: { columns: ["a", "b"], rows: { x: row } } })
    expect(attempt([1])).toThrow('features of item "x": expected 2 numbers, got 1')
    expect(attempt([1, Number.NaN])).toThrow('features of item "x": expected finite numbers, got NaN')
  })
})

describe("a stream from columns", () => {
  const columns: Columns = {
    user: Int32Array.of(1, 0, 1),
    item: Int32Array.of(0, 0, 1),
    rating: Float32Array.of(1, 2, 3),
    timestamp: Float64Array.of(3, 1, 2),
    userNames: ["ann", "bob", "never"],
    itemNames: ["x", "y"],
  }

  test("leaves the columns as they are and counts only ids that occur", () => {
    const before = structuredClone(columns)
    const stream = streamFromColumns({ name: "three", columns })
    expect(rowsOf(stream)).toEqual([
      ["ann", "x", 2, 1],
      ["bob", "y", 3, 2],
      ["bob", "x", 1, 3],
    ])
    expect([stream.name, stream.users, stream.items]).toEqual(["three", 2, 2])
    expect(columns).toEqual(before)
  })

  test("comes in several batches when it is long", () => {
    const builder = new ColumnsBuilder()
    for (let i = 0; i < 70_000; i++) builder.add({ user: i % 7, item: i, rating: 3, timestamp: i })
    const lengths = [...streamFromColumns({ name: "long", columns: builder.columns() }).batches()].map(
      (batch) => batch.length,
    )
    expect(lengths).toEqual([65536, 4464])
  })

  const refusals: [string, Partial<Columns>, string][] = [
    ["columns of different lengths", { user: Int32Array.of(1) }, "of one length, got 1, 3, 3 and 3"],
    ["a user without a name", { userNames: ["ann"] }, "column user: expected a row of userNames, got 1 (row 0)"],
    ["an item below 0", { item: Int32Array.of(0, -1, 0) }, "column item: expected a row of itemNames, got -1 (row 1)"],
    [
      "a rating off the scale",
      { rating: Float32Array.of(1, 2, 9) },
      "column rating: expected a number from 0 to 5, got 9 (row 2)",
    ],
    [
      "a time that is no number",
      { timestamp: Float64Array.of(1, Number.NaN, 2) },
      "column timestamp: expected a finite number of seconds, 0 or more, got NaN (row 1)",
    ],
  ]

  test.each(refusals)("%s is refused", (_, change, message) => {
    expect(() => streamFromColumns({ name: "bad", columns: { ...columns, ...change } })).toThrow(message)
  })

  test("bad options are refused", () => {
    const attempt = (options: object) => () => streamFromColumns({ name: "bad", columns, ...options })
    expect(attempt({ order: "random" })).toThrow('order: expected "time" or "shuffled", got "random"')
    expect(attempt({ limit: 0 })).toThrow("limit: expected a whole number, 1 or more, got 0")
    expect(attempt({ limit: 1.5 })).toThrow("limit: expected a whole number, 1 or more, got 1.5")
    expect(attempt({ seed: "x" })).toThrow('seed: expected a whole number, got "x"')
  })
})
