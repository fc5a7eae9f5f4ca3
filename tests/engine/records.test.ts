/** Records of the journal: what is written is read, to the bit, and nothing else. */

import { describe, expect, test } from "vitest"
import { EventRows } from "../../src/engine/event-rows.ts"
import {
  decodeRecord,
  type EventExtra,
  type EventsRecord,
  encodeRecord,
  eventsOf,
  GONE,
  type LogRecord,
  type OtherRecord,
  withoutRows,
} from "../../src/engine/records.ts"
import { Random } from "../../src/kernels/random.ts"

const RATINGS = [0, -0, 1, 5, 4.7, Number.NaN, 1e-40, 3.4e38, Number.POSITIVE_INFINITY]
const TIMES = [
  ...[0, -0, 1, 1.5, 1_700_000_000, 1_700_000_000.123, 1_700_000_000.1234567, 0.001, 0.0001, -1, -0.001, -86_400.5],
  ...[-1e15, 1e12, 999_999_999_999.999, 1e15, 2 ** 53, 1e300, -1e300, 5e-324, Number.POSITIVE_INFINITY, Number.NaN],
]
const TEXTS = ["like", "__proto__", "漢字 👩‍🚀", "\0", "", "x".repeat(4096)]

const pick = <T>(random: Random, pool: readonly T[]) => pool[random.integer(pool.length)]

function randomEvents(seed: number): EventsRecord {
  const random = new Random(seed, "records")
  const rows = random.integer(8) === 0 ? 0 : 1 + random.integer(300)
  // Often all alike, or all whole: each way of writing has its turn.
  const ratings = pick(random, [RATINGS, [5], [Number.NaN], [-0, 0], [4.5]])
  const times = pick(random, [TIMES, [1_700_000_000], [1_700_000_000, 1_600_000_000.25, -3], [0]])
  const index = () => (random.integer(10) === 0 ? GONE : random.integer(2 ** pick(random, [3, 10, 31])))
  const record = eventsOf(
    Array.from({ length: rows }, () => ({
      user: index(),
      item: index(),
      rating: pick(random, ratings),
      timestamp: pick(random, times),
    })),
  )
  const extras: EventExtra[] = []
  for (let row = 0; row < rows; row++) {
    if (random.integer(3) > 0) continue
    const extra: EventExtra = { row }
    if (random.integer(2) === 0) extra.key = Uint8Array.from({ length: 16 }, () => random.integer(256))
    if (random.integer(2) === 0) extra.type = pick(random, TEXTS)
    if (extra.type !== undefined && random.integer(2) === 0) extra.comment = pick(random, TEXTS)
    extras.push(extra)
  }
  return { ...record, extras }
}

const bits = (array: Float32Array | Float64Array) => {
  // Every NaN is the same to us.
  const copy = array.map((value) => (Number.isNaN(value) ? Number.NaN : value))
  return Buffer.from(copy.buffer).toString("hex")
}

function expectSame(found: LogRecord, record: EventsRecord, where: string): void {
  if (found.kind !== "events") throw new Error(`${where}: got ${found.kind}`)
  expect(found.user, where).toEqual(record.user)
  expect(found.item, where).toEqual(record.item)
  expect(bits(found.rating), where).toBe(bits(record.rating))
  expect(bits(found.timestamp), where).toBe(bits(record.timestamp))
  expect(found.extras, where).toEqual(record.extras)
}

const OTHERS: OtherRecord[] = [
  { kind: "segment", time: 1_700_000_000_123 },
  { kind: "tick", time: 0 },
  {
    kind: "names",
    names: [
      { side: "user", index: 0, name: "漢字 \u0000 👩‍🚀 \"'\\" },
      { side: "item", index: 2 ** 31, name: "__proto__" },
      { side: "user", index: 3, name: null },
    ],
  },
  {
    kind: "items",
    items: [
      { index: 1, item: { categories: ["a", "b"], hidden: true, features: [0.1, -1e300, 5e-324] } },
      { index: 2, item: null },
    ],
    features: [1],
  },
  { kind: "retract", rows: [{ user: 1, item: 2, type: "like" }], unmet: false },
  { kind: "notes", notes: [{ side: "user", id: "a", note: { labels: { x: [1, null] }, comment: "c" } }] },
  { kind: "notes", notes: [{ side: "item", id: null, note: null }] },
  { kind: "forget", user: null, former: [{ index: 4, before: 2 ** 40 }], hash: "abc" },
  { kind: "forget", user: 7, former: [], hash: null },
  { kind: "erased", positions: [1, 2 ** 40] },
  { kind: "limits", limits: { bytes: 5, shrinkAfter: undefined, leaveAfter: 1e13 } },
  { kind: "build", version: "0.1.0", learning: "2" },
  { kind: "left", user: [1], item: [2, 3], names: { user: [null], item: ["b", "c"] } },
]

describe("a record", () => {
  test("of events comes back to the bit", () => {
    for (let seed = 1; seed <= 400; seed++) {
      const record = randomEvents(seed)
      const bytes = encodeRecord(record)
      expectSame(decodeRecord(bytes, 0), record, `seed ${seed}`)
      expect(bytes.at(-1), "what a crash leaves unwritten is zero").not.toBe(0)
    }
  })

  test("of any other kind comes back", () => {
    for (const record of OTHERS) {
      const bytes = encodeRecord(record)
      expect(decodeRecord(bytes, 0)).toEqual(JSON.parse(JSON.stringify(record)))
      expect(bytes.at(-1)).not.toBe(0)
    }
  })

  test("takes few bytes where there is little to say", () => {
    const rows = Array.from({ length: 100 }, (_, n) => ({ user: n, item: n, rating: 5, timestamp: 1_700_000_000 + n }))
    expect(encodeRecord(eventsOf(rows)).length).toBeLessThan(100 * 5)
  })

  test("cut short or with more behind it is refused with its position", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const bytes = encodeRecord(randomEvents(seed))
      for (let length = 0; length < Math.min(bytes.length, 400); length++)
        expect(() => decodeRecord(bytes.subarray(0, length), 17), `seed ${seed}, ${length} bytes`).toThrow(
          /journal record 17: expected a readable one/,
        )
      expect(() => decodeRecord(Buffer.concat([bytes, Buffer.of(0)]), 17), `seed ${seed}`).toThrow(/record 17/)
    }
    for (const record of OTHERS) {
      const bytes = encodeRecord(record)
      for (let length = 0; length < bytes.length; length++)
        expect(() => decodeRecord(bytes.subarray(0, length), 17), record.kind).toThrow(/record 17/)
    }
  })

  test("with altered bytes gives a record or is refused as one, and never ends in another way", () => {
    const random = new Random(1, "altered records")
    for (let n = 0; n < 3000; n++) {
      const bytes = Buffer.from(encodeRecord(randomEvents(1 + (n % 20))))
      // Not the number of rows, which would only ask for memory.
      bytes[3 + random.integer(Math.max(1, bytes.length - 3))] = random.integer(256)
      try {
        expect(decodeRecord(bytes, 17).kind).toBe("events")
      } catch (error) {
        expect(error, `try ${n}`).toMatchObject({ code: "INVALID_DATA" })
      }
    }
    for (const bytes of [Buffer.of(0), Buffer.of(3, 1), Buffer.from([2, 0x7b])])
      expect(() => decodeRecord(bytes, 17)).toThrow(/record 17/)
  })
})

test("rows that go leave their keys, and nothing else", () => {
  const key = new Uint8Array(16).fill(9)
  const row = (user: number) => ({ user, item: 4, rating: 3, timestamp: 1_234_567_891 })
  const record = eventsOf(
    [row(1), row(2), row(1)],
    [
      { row: 0, key, type: "like", comment: "a secret" },
      { row: 1, key, type: "like", comment: "said" },
      { row: 2, type: "like" },
    ],
  )
  const left = withoutRows(record, (r) => record.user[r] === 1)
  const rows = new EventRows()
  rows.append(left)
  expect(rows.take()).toEqual(eventsOf([row(2)]))
  expect(left.extras).toEqual([
    { row: 0, key },
    { row: 1, key, type: "like", comment: "said" },
  ])
  expect(left.user).toEqual(Int32Array.of(GONE, 2, GONE))
  expect(Buffer.from(encodeRecord(left)).includes("secret")).toBe(false)
  expect([...left.timestamp]).toEqual([0, 1_234_567_891, 1_234_567_891])
  expectSame(decodeRecord(encodeRecord(left), 0), left, "without rows")
})
