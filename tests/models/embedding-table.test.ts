/** The embedding table against a plain map of arrays, under random operations; its memory against the stated rules and against the process. */

import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { describe, expect, test } from "vitest"
import { DessError, type ErrorCode } from "../../src/errors.ts"
import { Random } from "../../src/kernels/random.ts"
import { EmbeddingTable, readGuarded, type SharedTable, type TableOptions } from "../../src/models/embedding-table.ts"

type PlainOptions = Required<Omit<TableOptions, "packing" | "notes">>
type Precision = "single" | "double"

/** What the table's header says of memory: chunks of 2,048 numbers, or of the longest row. */
function chunkOf(step: number, { sizes, precision }: PlainOptions): { rows: number; bytes: number } {
  const stride = (size: number) => 3 * size + 2
  const numbers = Math.max(2048, stride(sizes[sizes.length - 1]))
  return { rows: Math.floor(numbers / stride(sizes[step])), bytes: numbers * (precision === "double" ? 8 : 4) }
}

/** Numbers and two moments, a step count and an owner. */
const rowBytes = (size: number, precision: Precision) => (3 * size + 2) * (precision === "double" ? 8 : 4)

interface PlainRow {
  step: number
  value: number[]
  first: number[]
  second: number[]
  steps: number
}

/** The table as anyone would write it first. */
class PlainTable {
  readonly rows = new Map<number, PlainRow>()
  readonly options: PlainOptions
  reach = 0

  constructor(options: PlainOptions) {
    this.options = options
  }

  round(x: number): number {
    return this.options.precision === "double" ? x : Math.fround(x)
  }

  place(id: number, step: number, value: number[]): void {
    const zeros = value.map(() => 0)
    this.rows.set(id, { step, value: value.map((x) => this.round(x)), first: zeros, second: [...zeros], steps: 0 })
  }

  draw(id: number, step: number): void {
    const random = new Random(this.options.seed, "row", id, step)
    this.place(
      id,
      step,
      Array.from({ length: this.options.sizes[step] }, () => this.options.deviation * random.normal()),
    )
  }

  ensure(id: number): void {
    if (this.rows.has(id)) return
    this.reach = Math.max(this.reach, id + 1)
    this.draw(id, this.options.start)
  }

  histogram(): number[] {
    const counts = this.options.sizes.map(() => 0)
    for (const { step } of this.rows.values()) counts[step]++
    return counts
  }
}

function readRow(table: EmbeddingTable, id: number): PlainRow {
  const size = table.size(id)
  const all = new Float64Array(3 * size + 2).fill(7)
  table.read(id, all, 1)
  table.readMoments(id, all, 1 + size)
  if (all[0] !== 7 || all[3 * size + 1] !== 7) expect.fail(`reading id ${id} wrote outside its place`)
  const part = (k: number) => [...all.subarray(1 + k * size, 1 + (k + 1) * size)]
  return { step: table.step(id), value: part(0), first: part(1), second: part(2), steps: table.steps(id) }
}

function checkRow(table: EmbeddingTable, plain: PlainTable, id: number, label: string): void {
  const want = plain.rows.get(id)
  if (!want) expect.fail(`${label}: id ${id} has a row and should have none`)
  const got = readRow(table, id)
  const same =
    got.step === want.step &&
    got.steps === want.steps &&
    (["value", "first", "second"] as const).every(
      (k) => got[k].length === want[k].length && got[k].every((x, i) => Object.is(x, want[k][i])),
    )
  if (!same) expect(got, `${label}: row of id ${id}`).toEqual(want)
}

function checkAll(table: EmbeddingTable, plain: PlainTable, label: string): void {
  expect([...table.ids()], `${label}: ids`).toEqual([...plain.rows.keys()].sort((a, b) => a - b))
  for (const id of plain.rows.keys()) checkRow(table, plain, id, label)
}

/** embeddingBytes and heldBytes, recomputed; at most one partial chunk a size. */
function checkBytes(table: EmbeddingTable, plain: PlainTable, label: string): void {
  const { sizes, precision } = plain.options
  const histogram = plain.histogram()
  const equal = (what: string, got: unknown, want: unknown) => {
    if (got !== want) expect.fail(`${label}: ${what} expected ${want}, got ${got}`)
  }
  equal("histogram", table.histogram().join(), histogram.join())
  equal("count", table.count, plain.rows.size)
  const numbers = histogram.reduce((sum, live, s) => sum + live * sizes[s], 0)
  equal("embeddingBytes", table.embeddingBytes, 4 * numbers)
  let held = 5 * plain.reach
  let needed = held
  let slack = 0
  histogram.forEach((live, s) => {
    const chunk = chunkOf(s, plain.options)
    held += Math.ceil(live / chunk.rows) * chunk.bytes
    needed += live * rowBytes(sizes[s], precision)
    // The end of every chunk that no row fits in, and the rows of one chunk.
    slack += chunk.bytes + Math.ceil(live / chunk.rows) * (chunk.bytes - chunk.rows * rowBytes(sizes[s], precision))
  })
  equal("heldBytes", table.heldBytes, held)
  equal("at most one chunk a size is held for free rows", table.heldBytes - needed <= slack, true)
}

function snapshot(table: EmbeddingTable): unknown {
  return {
    rows: [...table.ids()].map((id) => [id, readRow(table, id)]),
    histogram: table.histogram(),
    embeddingBytes: table.embeddingBytes,
    heldBytes: table.heldBytes,
  }
}

/** Asks for an error of our own whose message says what was expected and what came, and for an untouched table. */
function expectRefusal(act: () => unknown, code: ErrorCode, message: RegExp, table?: EmbeddingTable): void {
  const before = table && snapshot(table)
  let error: unknown
  try {
    act()
  } catch (caught) {
    error = caught
  }
  expect(error).toBeInstanceOf(DessError)
  expect((error as DessError).message).toMatch(message)
  expect((error as DessError).message).toMatch(/expected/)
  expect((error as DessError).code).toBe(code)
  if (table) expect(snapshot(table)).toEqual(before)
}

/** One random life of a table beside its plain twin. */
function live(seed: number, steps: number): void {
  const random = new Random(seed, "table test")
  const pick = <T>(values: readonly T[]): T => values[random.integer(values.length)]
  const sizes = pick([[2, 4, 8, 16], [0, 3, 260, 700], [1], [5, 900], [0, 1, 2, 3, 4, 5, 300]])
  const options: PlainOptions = {
    sizes,
    start: random.integer(sizes.length),
    seed: `life ${seed}`,
    deviation: pick([1, 0.1]),
    precision: pick(["single", "double"]),
    moments: true,
  }
  const table = new EmbeddingTable(options)
  const plain = new PlainTable(options)
  const ids = 1 + random.integer(150)
  const numbers = (size: number) => Float64Array.from({ length: size + 3 }, () => random.normal())
  for (let n = 0; n < steps; n++) {
    const label = `seed ${seed}, operation ${n}`
    const id = random.integer(ids)
    const row = plain.rows.get(id)
    const draining = Math.floor(n / 100) % 3 === 2
    const kind = row ? pick(draining ? ["free", "free", "write"] : ["write", "replace", "grow", "free"]) : "ensure"
    if (kind === "ensure" || !row) {
      table.ensure(id)
      plain.ensure(id)
    } else if (kind === "free") {
      table.free(id)
      plain.rows.delete(id)
    } else if (kind === "grow") {
      if (row.step === sizes.length - 1) continue
      table.growCold(id)
      plain.draw(id, row.step + 1)
    } else if (kind === "replace") {
      const step = random.integer(sizes.length)
      const source = numbers(sizes[step])
      table.replace(id, step, source, 2)
      plain.place(id, step, [...source.subarray(2, 2 + sizes[step])])
    } else {
      const size = sizes[row.step]
      const source = numbers(3 * size)
      table.write(id, source, 1, 1 + size)
      const part = (k: number) => Array.from(source.subarray(1 + k * size, 1 + (k + 1) * size), (x) => plain.round(x))
      Object.assign(row, { value: part(0), first: part(1), second: part(2), steps: row.steps + 1 })
    }
    if (table.has(id) !== plain.rows.has(id)) expect.fail(`${label}: id ${id} has a row: ${table.has(id)}`)
    if (plain.rows.has(id)) checkRow(table, plain, id, label)
    checkBytes(table, plain, label)
    if (n % 100 === 99) checkAll(table, plain, label)
  }
  checkAll(table, plain, `seed ${seed}, end`)
  for (const id of plain.rows.keys()) table.free(id)
  expect(table.embeddingBytes, `seed ${seed}, emptied`).toBe(0)
  expect(table.heldBytes, `seed ${seed}, emptied: only the id maps are held`).toBe(5 * plain.reach)
}

test("rows, moments, step counts and bytes stay those of a map of arrays through 16 random lives of 600 operations", () => {
  for (let seed = 1; seed <= 16; seed++) live(seed, 600)
})

describe("a new row", () => {
  test("is drawn from a stream of its id's own, whatever came before it", () => {
    const options = { sizes: [2, 4], seed: "s" }
    const [forward, backward] = [new EmbeddingTable(options), new EmbeddingTable(options)]
    for (let id = 0; id < 50; id++) forward.ensure(id)
    for (let id = 49; id >= 0; id--) backward.ensure(id)
    backward.free(7)
    backward.ensure(7)
    for (let id = 0; id < 50; id++) expect(readRow(backward, id)).toEqual(readRow(forward, id))
    expect(readRow(forward, 1).value).not.toEqual(readRow(forward, 2).value)
    const other = new EmbeddingTable({ ...options, seed: "t" })
    other.ensure(1)
    expect(readRow(other, 1).value).not.toEqual(readRow(forward, 1).value)
  })

  test("is drawn N(0, deviation²): mean within 0.01 and standard deviation within 1 % over 80 000 numbers", () => {
    for (const deviation of [1, 0.1]) {
      const table = new EmbeddingTable({ sizes: [8], deviation })
      const row = new Float64Array(8)
      let [sum, squares, fourth] = [0, 0, 0]
      for (let id = 0; id < 10_000; id++) {
        table.ensure(id)
        table.read(id, row, 0)
        for (const x of row) {
          const z = x / deviation
          sum += z
          squares += z * z
          fourth += z * z * z * z
        }
      }
      expect(Math.abs(sum / 80_000)).toBeLessThan(0.01)
      expect(Math.abs(Math.sqrt(squares / 80_000) - 1)).toBeLessThan(0.01)
      expect(Math.abs(fourth / 80_000 - 3)).toBeLessThan(0.15)
    }
  })

  test("takes the slot a freed row left: nothing more is held", () => {
    const table = new EmbeddingTable({ sizes: [2, 300] })
    for (let id = 0; id < 64; id++) {
      table.ensure(id)
      table.growCold(id)
    }
    const held = table.heldBytes
    for (let id = 0; id < 64; id += 2) {
      table.free(id)
      table.ensure(id)
      table.growCold(id)
      expect(table.heldBytes).toBe(held)
    }
  })
})

test.runIf(existsSync("/proc/self/status"))(
  "200 000 rows of mixed sizes take heldBytes within 5 % of a process, and rows of other sizes take the place of freed ones",
  () => {
    const script = fileURLToPath(new URL("../support/held-rows.mjs", import.meta.url))
    const printed = execFileSync(process.execPath, ["--expose-gc", "--max-semi-space-size=1", script], {
      encoding: "utf8",
    })
    const { filled, embeddingBytes, measured, freed, after, held } = JSON.parse(printed) as Record<string, number>
    expect(Math.abs(measured - filled) / filled, `measured ${measured}, heldBytes ${filled}`).toBeLessThan(0.05)
    expect(filled).toBeLessThan(1.1 * (3 * embeddingBytes + 8 * 200_000 + 5 * 200_000))
    expect(freed).toBeLessThan(0.25 * filled)
    // Freed places lie between others: a few per cent of them are no whole page.
    expect(after, `measured ${after}, heldBytes ${held}, ${filled} before`).toBeLessThan(1.2 * held)
  },
)

test("another thread's rows are read while they move, and never those of another id", async () => {
  const worker = new Worker(new URL("../support/moving-rows.mjs", import.meta.url), { execArgv: [] })
  try {
    const [source] = (await once(worker, "message")) as [SharedTable]
    const table = new EmbeddingTable({ sizes: [2, 4, 8], deviation: 0, moments: false })
    table.readFrom(source)
    const until = performance.now() + 1000
    let [read, absent] = [0, 0]
    for (let n = 0; performance.now() < until; n++) {
      const id = n % 1000
      const row = readGuarded(table, () => {
        if (!table.has(id)) return undefined
        const numbers = new Float32Array(table.size(id))
        table.read(id, numbers, 0)
        return numbers
      })
      if (row) read++
      else absent++
      // A row is full of 1 + its owner, whatever its size.
      if (row?.some((number) => number !== id + 1)) expect.fail(`row of id ${id}: ${row.join()}`)
    }
    expect([read > 1000, absent > 0]).toEqual([true, true])
  } finally {
    await worker.terminate()
  }
})

test("a table shared before it has a row shows the rows it gets afterwards", () => {
  const options = { sizes: [2, 4], start: 1, deviation: 1, moments: false }
  const table = new EmbeddingTable(options)
  const reader = new EmbeddingTable(options)
  reader.readFrom(table.share())
  expect(reader.has(0)).toBe(false)
  for (let id = 0; id < 2000; id++) {
    table.ensure(id)
    expect(readGuarded(reader, () => (reader.has(id) ? readRow(reader, id).value : undefined))).toEqual(
      readRow(table, id).value,
    )
  }
})

describe("memory of free chunks", () => {
  test.each(["packed", "single", "double"] as const)(
    "%s: is given back, and every row and note stays what it was",
    (kind) => {
      const sizes = [2, 30, 300]
      const packing = { bits: [8, 16, 32] as const, whole: 0, head: 1, vectors: 1, seed: 1 }
      const table = new EmbeddingTable({
        ...{ sizes, moments: false, notes: kind !== "double", precision: kind === "double" ? "double" : "single" },
        ...(kind === "packed" && { packing: { ...packing, bits: [...packing.bits] } }),
      })
      const random = new Random(3, kind)
      const row = new Float32Array(300)
      for (let id = 0; id < 400; id++) {
        table.ensure(id)
        const step = random.integer(3)
        table.replace(id, step, row.map(() => random.normal()).subarray(0, sizes[step]), 0)
        if (table.notes) table.setNote(id, 1, id)
      }
      for (let id = 0; id < 400; id++) if (id % 3 > 0) table.free(id)
      const all = () =>
        [...table.ids()].map((id) => {
          const out = table.precision === "double" ? new Float64Array(300) : new Float32Array(300)
          table.read(id, out, 0)
          return [id, table.step(id), table.notes ? table.note(id, 1) : id, ...out]
        })
      const [before, held, free] = [all(), table.heldBytes, table.freeBytes]
      expect(free).toBeGreaterThan(held / 2)
      table.giveBack(free / held + 1)
      expect(table.freeBytes, "too little to give back").toBe(free)
      table.giveBack()
      expect([table.freeBytes, table.heldBytes]).toEqual([0, held])
      expect(all()).toEqual(before)
      for (let id = 400; id < 900; id++) table.ensure(id)
      expect(all().slice(0, before.length), "rows that come stand elsewhere").toEqual(before)
    },
  )
})

describe("bad input", () => {
  const build = () => {
    const table = new EmbeddingTable({ sizes: [2, 4, 8] })
    for (const id of [0, 3, 5]) table.ensure(id)
    table.growCold(3)
    table.growCold(3)
    table.write(5, Float64Array.of(1, 2, 3, 4, 5, 6), 0, 2)
    return table
  }
  const room = new Float64Array(32)

  test("sizes that are not strictly increasing whole numbers are refused", () => {
    const bad = [[], [4, 2], [2, 2], [2, 4, 4], [-2, 4], [1.5, 4], [Number.NaN], [2, Number.POSITIVE_INFINITY], [0]]
    for (const sizes of bad) expectRefusal(() => new EmbeddingTable({ sizes }), "INVALID_ARGUMENT", /^sizes: .*got/)
  })

  test("a starting step that is none of the sizes is refused", () => {
    for (const start of [-1, 2, 0.5, Number.NaN])
      expectRefusal(() => new EmbeddingTable({ sizes: [2, 4], start }), "INVALID_ARGUMENT", /start: .*got/)
  })

  test("an id that is no whole number from 0 gets no row", () => {
    const table = build()
    for (const id of [-1, 1.5, 3.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31]) {
      expect(table.has(id), `${id}`).toBe(false)
      expectRefusal(() => table.ensure(id), "INVALID_ARGUMENT", /id: .*got/, table)
    }
  })

  test("an id that was never met, or was freed, is refused by everything that needs its row", () => {
    const table = build()
    table.free(0)
    for (const id of [0, 1, 4, 63, 64, 1e9, -1, 3.5, Number.NaN])
      for (const act of [
        () => table.step(id),
        () => table.size(id),
        () => table.steps(id),
        () => table.free(id),
        () => table.growCold(id),
        () => table.replace(id, 0, room, 0),
        () => table.read(id, room, 0),
        () => table.readMoments(id, room, 0),
        () => table.write(id, room, 0, 0),
      ])
        expectRefusal(act, "NOT_FOUND", /row: .*got/, table)
  })

  test("a grow past the top and a step outside the sizes are refused", () => {
    const table = build()
    expectRefusal(() => table.growCold(3), "INVALID_ARGUMENT", /id 3: .*top 8/, table)
    for (const step of [-1, 3, 0.5, Number.NaN])
      expectRefusal(() => table.replace(5, step, room, 0), "INVALID_ARGUMENT", /step: .*got/, table)
  })

  test("numbers that are not finite, or would not be in float32, or are missing, leave the row as it was", () => {
    const table = build()
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e39, -1e39])
      for (let place = 0; place < 4; place++) {
        const source = new Float64Array(4)
        source[place] = bad
        expectRefusal(() => table.replace(5, 1, source, 0), "NUMERIC", /id 5: .*got/, table)
      }
    expectRefusal(() => table.replace(5, 2, new Float64Array(7), 0), "NUMERIC", /id 5: .*got/, table)
    const double = new EmbeddingTable({ sizes: [1], precision: "double" })
    double.ensure(0)
    double.replace(0, 0, Float64Array.of(1e39), 0)
    expect(readRow(double, 0).value).toEqual([1e39])
  })
})
