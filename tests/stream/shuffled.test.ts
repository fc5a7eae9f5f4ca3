import { expect, test } from "vitest"
import { shuffleStream } from "../../src/stream/shuffled.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"

function rowsOf(stream: ReturnType<typeof shuffleStream>): string[] {
  const rows: string[] = []
  for (const batch of stream.batches())
    for (let r = 0; r < batch.length; r++)
      rows.push(
        [stream.userName(batch.user[r]), stream.itemName(batch.item[r]), batch.rating[r], batch.timestamp[r]].join(" "),
      )
  return rows
}

test("a shuffled stream holds the same interactions in another order that its seed fixes", () => {
  const stream = synthetic({ interactions: 3000, seed: 4 })
  const [plain, shuffled] = [rowsOf(stream), rowsOf(shuffleStream(stream, 4))]
  expect(shuffled).not.toEqual(plain)
  expect([...shuffled].sort()).toEqual([...plain].sort())
  expect(rowsOf(shuffleStream(stream, 4))).toEqual(shuffled)
  expect(rowsOf(shuffleStream(stream, 5))).not.toEqual(shuffled)
})

test("every item keeps its features when its number changes", () => {
  const stream = synthetic({ interactions: 2000, seed: 2 })
  const shuffled = shuffleStream(stream, 2)
  const width = stream.features.columns.length
  const place = new Map(Array.from({ length: stream.items }, (_, i) => [stream.itemName(i), i]))
  for (let i = 0; i < shuffled.items; i++) {
    const was = place.get(shuffled.itemName(i)) ?? -1
    const row = (values: Float32Array, at: number) => [...values.subarray(at * width, (at + 1) * width)]
    expect(shuffled.features?.present[i]).toBe(stream.features.present[was])
    if (shuffled.features?.present[i])
      expect(row(shuffled.features.values, i)).toEqual(row(stream.features.values, was))
  }
})
