import { expect, test } from "vitest"
import { DessError } from "../../src/errors.ts"
import { Random } from "../../src/kernels/random.ts"
import { emptyBatch } from "../../src/stream/columns.ts"
import { cutSegments, type SegmentOptions } from "../../src/stream/segments.ts"
import type { InteractionBatch, Segment } from "../../src/types.ts"

/** Rows 0 … length − 1 in batches of random length, some of them empty. */
function batchesOf(length: number, seed: number): InteractionBatch[] {
  const random = new Random(seed, "batches")
  const batches: InteractionBatch[] = []
  for (let start = 0; start < length; ) {
    const batch = emptyBatch(Math.min(random.integer(12), length - start))
    for (let i = 0; i < batch.length; i++) {
      batch.user[i] = start + i
      batch.item[i] = 2 * (start + i)
      batch.rating[i] = (start + i) / 2
      batch.timestamp[i] = 3 * (start + i)
    }
    start += batch.length
    batches.push(batch)
  }
  return batches
}

async function cut(
  batches: AsyncIterable<InteractionBatch> | Iterable<InteractionBatch>,
  options?: SegmentOptions,
): Promise<Segment[]> {
  const segments: Segment[] = []
  for await (const segment of cutSegments(batches, options)) segments.push(segment)
  return segments
}

test("every row comes once and in order, whatever the batches, for 100 seeds", async () => {
  for (let seed = 0; seed < 100; seed++) {
    const random = new Random(seed)
    const rows = random.integer(60)
    const length = 1 + random.integer(20)
    const segments = await cut(batchesOf(rows, seed), { length })
    expect(segments.map((segment) => segment.index)).toEqual([...segments.keys()])
    segments.forEach((segment, t) => {
      expect(segment.length, `seed ${seed}`).toBe(Math.min(length, rows - t * length))
      expect([segment.user, segment.item, segment.rating, segment.timestamp].map((c) => c.length)).toEqual(
        Array(4).fill(segment.length),
      )
    })
    const all = [...Array(rows).keys()]
    expect(segments.flatMap((segment) => [...segment.user])).toEqual(all)
    expect(segments.flatMap((segment) => [...segment.item])).toEqual(all.map((row) => 2 * row))
    expect(segments.flatMap((segment) => [...segment.rating])).toEqual(all.map((row) => row / 2))
    expect(segments.flatMap((segment) => [...segment.timestamp])).toEqual(all.map((row) => 3 * row))
  }
})

test("a segment is 500 rows, 400 of them for training, and the last is what is left", async () => {
  const segments = await cut(batchesOf(1204, 1))
  expect(segments.map(({ length, trainLength }) => [length, trainLength])).toEqual([
    [500, 400],
    [500, 400],
    [204, 163],
  ])
})

test("a segment of one row is for training", async () => {
  expect((await cut(batchesOf(1, 1)))[0].trainLength).toBe(1)
  expect((await cut(batchesOf(4, 1), { trainShare: 0 }))[0].trainLength).toBe(1)
  expect((await cut(batchesOf(100, 1), { trainShare: 0.29, length: 100 }))[0].trainLength).toBe(29)
})

test("batches may come asynchronously", async () => {
  async function* later() {
    yield* batchesOf(30, 2)
  }
  expect(await cut(later(), { length: 8 })).toEqual(await cut(batchesOf(30, 2), { length: 8 }))
})

test("a limit ends the stream, inside a segment or at its edge, and reads no further", async () => {
  for (const limit of [1, 7, 8, 9, 16, 29]) {
    let closed = false
    let given = 0
    function* counted() {
      try {
        for (const batch of batchesOf(1000, 3)) {
          given += batch.length
          yield batch
        }
      } finally {
        closed = true
      }
    }
    const segments = await cut(counted(), { length: 8, limit })
    expect(segments.flatMap((segment) => [...segment.user])).toEqual([...Array(limit).keys()])
    expect(closed).toBe(true)
    expect(given).toBeLessThan(limit + 12)
  }
})

test("segments do not share memory with the batches or with each other", async () => {
  const batches = batchesOf(40, 4)
  const segments = await cut(batches, { length: 8 })
  for (const batch of batches) batch.user.fill(-1)
  segments[0].user.fill(-2)
  expect([...segments[1].user]).toEqual([8, 9, 10, 11, 12, 13, 14, 15])
  expect(new Set(segments.map((segment) => segment.user.buffer)).size).toBe(segments.length)
})

test("an empty stream has no segments", async () => {
  expect(await cut([])).toEqual([])
})

test("bad options are refused before anything is read", () => {
  const attempt = (options: object) => () => cutSegments([], options)
  const refused = (message: string) => new DessError("INVALID_ARGUMENT", message)
  expect(attempt({ length: 0 })).toThrow(refused("segment length: expected a whole number, 1 or more, got 0"))
  expect(attempt({ length: 2.5 })).toThrow(refused("segment length: expected a whole number, 1 or more, got 2.5"))
  expect(attempt({ trainShare: 1.2 })).toThrow(refused("train share: expected a number from 0 to 1, got 1.2"))
  expect(attempt({ limit: -1 })).toThrow(refused("limit: expected a whole number, 1 or more, got -1"))
})
