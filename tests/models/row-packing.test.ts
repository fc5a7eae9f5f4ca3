/** Packed rows: what rounding does to numbers, and tables of mixed bits against a plain map. */

import { once } from "node:events"
import { Worker } from "node:worker_threads"
import { describe, expect, test } from "vitest"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { EmbeddingTable, readGuarded, type SharedTable, type TableOptions } from "../../src/models/embedding-table.ts"
import type { Bits, Lift } from "../../src/models/row-packing.ts"

const noise = new Random(5, "noise")
const NOISE = Float32Array.from({ length: 1024 + 64 }, () => 0.02 * noise.normal())
const LIFT: Lift = { numbers: NOISE, tail: (id) => (id * 37) % 1024 }
const [WHOLE, HEAD] = [3, 2]

/** Two vectors, the first relative to ε, behind three whole numbers and two others. */
function options(sizes: readonly number[], bits: readonly Bits[]): TableOptions {
  return {
    sizes: sizes.map((size) => WHOLE + HEAD + 2 * size),
    deviation: 0,
    moments: false,
    packing: { bits, whole: WHOLE, head: HEAD, vectors: 2, seed: 3, lift: LIFT },
  }
}

function drawRow(random: Random, size: number, deviation = 0.3): Float32Array {
  return Float32Array.from({ length: WHOLE + HEAD + 2 * size }, (_, k) => {
    if (k < WHOLE) return random.integer(0x1000000)
    return k < WHOLE + HEAD ? 0.4 + 50 * random.next() : deviation * random.normal()
  })
}

function read(table: EmbeddingTable, id: number): Float32Array {
  const row = new Float32Array(table.size(id))
  table.read(id, row, 0)
  return row
}

function put(table: EmbeddingTable, id: number, step: number, row: Float32Array): void {
  table.ensure(id)
  table.replace(id, step, row, 0)
}

/** Half a step of each number of a row that was packed to the nearest. */
function halfSteps(row: Float32Array, bits: Bits, id: number): number[] {
  const size = (row.length - WHOLE - HEAD) / 2
  const kept = Float64Array.from(row.subarray(WHOLE + HEAD), (number, k) =>
    k < size ? number - NOISE[LIFT.tail(id) + k] : number,
  )
  return Array.from(row, (number, k) => {
    if (k < WHOLE || bits === 32) return 0
    if (k < WHOLE + HEAD) return Math.abs(number) / 2048
    const vector = kept.subarray(k - WHOLE - HEAD < size ? 0 : size).subarray(0, size)
    const most = vector.reduce((longest, x) => Math.max(longest, Math.abs(x)), 0)
    // A power of two is up to twice too long, a bfloat16 a 256th.
    return (bits === 16 ? most / 32_767 : (most / 127) * 0.502) + 1e-8
  })
}

describe("rounding", () => {
  test.each([8, 16] as const)("%i bits move no number by more than half a step", (bits) => {
    const table = new EmbeddingTable(options([4, 16], [bits, bits]))
    for (let seed = 0; seed < 200; seed++) {
      const random = new Random(seed, "row")
      const row = drawRow(random, 16, 2 * random.next())
      put(table, seed, 1, row)
      const steps = halfSteps(row, bits, seed)
      read(table, seed).forEach((number, k) => {
        expect(Math.abs(number - row[k]), `seed ${seed}, number ${k}`).toBeLessThanOrEqual(steps[k])
      })
    }
  })

  test("what was unpacked is packed to the same numbers, and more bits or more numbers change none", () => {
    const table = new EmbeddingTable(options([4, 16, 16, 16, 32], [8, 8, 16, 32, 32]))
    for (let seed = 0; seed < 200; seed++) {
      const random = new Random(seed, "row")
      put(table, 0, 1, drawRow(random, 16))
      const packed = read(table, 0)
      for (const step of [1, 2, 2, 3, 2, 1]) {
        put(table, 0, step, packed)
        expect(read(table, 0), `seed ${seed}, step ${step}`).toEqual(packed)
      }
      // A row that grows holds what it was lifted with.
      put(table, 0, 0, drawRow(random, 4))
      const small = read(table, 0)
      const grown = new Float32Array(WHOLE + HEAD + 32)
      grown.set(small.subarray(0, WHOLE + HEAD + 4))
      for (let k = 4; k < 16; k++) grown[WHOLE + HEAD + k] = NOISE[LIFT.tail(0) + k]
      grown.set(small.subarray(WHOLE + HEAD + 4), WHOLE + HEAD + 16)
      put(table, 0, 1, grown)
      expect(read(table, 0), `seed ${seed}`).toEqual(grown)
    }
  })

  test.each([8, 16] as const)("after training %i bits are right on average, and a row only read stays", (bits) => {
    const table = new EmbeddingTable(options([8], [bits]))
    const [rows, size] = [4000, 8]
    const row = drawRow(new Random(1, "row"), size)
    const sums = new Float64Array(row.length)
    for (let id = 0; id < rows; id++) {
      put(table, id, 0, row)
      const before = read(table, id)
      table.open([id])
      table.close({ changed: false })
      expect(read(table, id)).toEqual(before)
      table.open([id])
      // ε differs from id to id, so that there is something to round.
      table.numbersOf(id).set(row, table.placeOf(id))
      table.close({ changed: true })
      read(table, id).forEach((number, k) => {
        sums[k] += number
      })
    }
    const steps = halfSteps(row, bits, 0)
    for (let k = WHOLE; k < row.length; k++) {
      // The largest number of a vector is rounded with its scale.
      const sd = (2 * steps[k]) / Math.sqrt(12 * rows)
      expect(Math.abs(sums[k] / rows - row[k]), `number ${k}`).toBeLessThan(6 * sd)
    }
  })
})

describe("a table of mixed bits", () => {
  const [sizes, bits] = [
    [0, 4, 8, 8, 8, 40],
    [8, 8, 8, 16, 32, 32],
  ] as const

  test("holds what a map holds, however rows come, grow, open and go; saved and loaded too", () => {
    for (let seed = 0; seed < 6; seed++) {
      const random = new Random(seed, "operations")
      let table = new EmbeddingTable(options(sizes, bits))
      const map = new Map<number, { step: number; row: Float32Array }>()
      for (let n = 0; n < 600; n++) {
        const id = random.integer(60)
        const kind = random.integer(10)
        const held = map.get(id)
        if (kind < 5) {
          const step = random.integer(sizes.length)
          put(table, id, step, drawRow(random, sizes[step]))
          map.set(id, { step, row: read(table, id) })
        } else if (kind < 6 && held) {
          table.free(id)
          map.delete(id)
        } else if (kind < 8) {
          const some = Int32Array.from({ length: 10 }, () => random.integer(70))
          const changed = random.integer(2) === 0
          table.open(some)
          for (const one of some) {
            const mine = map.get(one)
            if (!mine) continue
            const [numbers, at] = [table.numbersOf(one), table.placeOf(one)]
            expect(numbers.slice(at, at + mine.row.length), `seed ${seed}, ${n}`).toEqual(mine.row)
            expect(read(table, one)).toEqual(mine.row)
          }
          table.close({ changed })
          for (const one of some) if (changed && map.has(one)) map.set(one, { ...map.get(one)!, row: read(table, one) })
        } else if (kind < 9) {
          const state = new State()
          table.save(state)
          table = new EmbeddingTable(options(sizes, bits))
          table.load(state)
        }
        const [one, other] = [random.integer(60), map.get(id)]
        expect(table.has(one)).toBe(map.has(one))
        if (other) {
          expect(table.step(id)).toBe(other.step)
          expect(read(table, id), `seed ${seed}, operation ${n}`).toEqual(other.row)
          const whole = new Int32Array(WHOLE)
          table.readWhole(id, whole, WHOLE)
          expect([...whole]).toEqual([...other.row.subarray(0, WHOLE)])
          expect(table.headOf(id, WHOLE)).toBe(other.row[WHOLE])
        }
      }
      const histogram = sizes.map((_, step) => [...map.values()].filter((row) => row.step === step).length)
      expect(table.histogram()).toEqual(histogram)
      expect(table.liveBytes).toBeLessThanOrEqual(table.heldBytes)
      expect(table.liveBytes).toBe([...map.keys()].reduce((sum, id) => sum + table.rowBytes(id), 0))
    }
  })

  test("a product with a closed row is that of its numbers", () => {
    const table = new EmbeddingTable(options(sizes, bits))
    const random = new Random(1, "rows")
    for (let id = 0; id < 60; id++) {
      const step = id % 4
      put(table, id, step, drawRow(random, sizes[step]))
      const x = Float64Array.from({ length: 9 }, () => random.normal())
      const row = read(table, id)
      let sum = 0
      for (let k = 0; k < Math.min(sizes[step], 6); k++)
        sum += x[2 + k] * (row[WHOLE + HEAD + k] - NOISE[LIFT.tail(id) + k])
      expect(table.product(id, { numbers: x, at: 2, length: 6 })).toBeCloseTo(sum, 5)
    }
  })

  test("takes the bytes its layout says", () => {
    const table = new EmbeddingTable(options(sizes, bits))
    // An owner, two numbers of the head in 2 bytes, three whole ones in 3; a scale a vector; codes.
    const bytes = [0, 4, 8, 8, 8, 40].map((size, step) => {
      if (bits[step] === 32) return 4 * (1 + WHOLE + HEAD + 2 * size)
      return 4 + 4 * Math.ceil((2 * HEAD + 3 * WHOLE + (size > 0 ? 4 : 0) + (2 * size * bits[step]) / 8) / 4)
    })
    sizes.forEach((size, step) => {
      put(table, step, step, drawRow(new Random(step, "row"), size))
      expect(table.rowBytes(step)).toBe(bytes[step])
    })
  })

  test("rungs that fall are refused", () => {
    expect(() => new EmbeddingTable(options([4, 4], [8, 8]))).toThrow(/rungs: expected/)
    expect(() => new EmbeddingTable(options([4, 8], [16, 8]))).toThrow(/rungs: expected/)
    expect(() => new EmbeddingTable(options([4, 8], [8, 7 as Bits]))).toThrow(/rungs: expected/)
  })
})

/** Keeps rows of two kinds opening, changing, closing and moving; every row's numbers are all the same, and none needs rounding. */
const WRITER = `
import { parentPort, workerData } from "node:worker_threads"
const { EmbeddingTable } = await import(workerData.module)
const { sizes, bits } = workerData
const table = new EmbeddingTable({ sizes, deviation: 0, moments: false, packing: { bits, whole: 0, head: 1, vectors: 1, seed: 1 } })
const fill = (id, step, value) => { table.ensure(id); table.replace(id, step, new Float32Array(sizes[step]).fill(value), 0) }
for (let id = 0; id < 40; id++) fill(id, id % sizes.length, 127 / 128)
parentPort.postMessage(table.share())
let stop = false
parentPort.on("message", () => { stop = true })
let value = 127 / 128
const work = () => {
  for (let n = 0; n < 50; n++) {
    value = value === 127 / 128 ? 127 / 256 : 127 / 128
    const ids = Array.from({ length: 10 }, (_, i) => (n + 3 * i) % 40)
    for (const id of ids) fill(id, (id + n) % sizes.length, value)
    table.open(ids)
    table.close({ changed: true })
  }
  if (stop) process.exit(0)
  setImmediate(work)
}
work()
`

test("another thread reads rows whole while they are packed, opened and moved", async () => {
  const [sizes, bits] = [
    [5, 9, 9, 33],
    [8, 8, 16, 32],
  ] as const
  const module = new URL("../../dist/models/embedding-table.js", import.meta.url).href
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(WRITER)}`), {
    workerData: { module, sizes, bits },
  })
  const [shared] = (await once(worker, "message")) as [SharedTable]
  const packing = { bits, whole: 0, head: 1, vectors: 1, seed: 1 }
  const table = new EmbeddingTable({ sizes: [...sizes], deviation: 0, moments: false, packing })
  table.readFrom(shared)
  const row = new Float32Array(33)
  const seen = new Set<number>()
  for (let n = 0; n < 20_000; n++) {
    const id = n % 40
    const size = readGuarded(table, () => {
      if (!table.has(id)) return 0
      table.read(id, row, 0)
      return table.size(id)
    })
    const values = new Set(row.subarray(0, size))
    expect(values.size, `row ${[...values]}`).toBeLessThanOrEqual(1)
    for (const value of values) seen.add(value)
  }
  expect([...seen].sort()).toEqual([127 / 256, 127 / 128])
  worker.postMessage("stop")
  await once(worker, "exit")
})
