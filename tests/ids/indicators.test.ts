import { readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { DessError } from "../../src/errors.ts"
import type { FeatureMatrix } from "../../src/ids/feature-vectors.ts"
import { type IndicatorColumns, Indicators } from "../../src/ids/indicators.ts"
import { Random } from "../../src/kernels/random.ts"
import { checkIndicators } from "../support/golden-indicators.ts"

const golden = JSON.parse(readFileSync(new URL("../golden/indicators.json", import.meta.url), "utf8"))

interface Events {
  length: number
  user: Int32Array
  item: Int32Array
}

interface StreamOptions {
  seed: number
  events: number
  users: number
  items: number
  columns: number
  /** "binary" for genres, "real" for any numbers. */
  kind: "binary" | "real"
}

/** A stream with popular items, busy users, items without features and items that share a vector. */
function makeStream(options: StreamOptions): Events & { features: FeatureMatrix } {
  const { seed, events, users, items, columns, kind } = options
  const random = new Random(seed, "indicator test")
  const values = kind === "binary" ? new Float32Array(items * columns) : new Float64Array(items * columns)
  const present = new Uint8Array(items)
  for (let i = 0; i < items; i++) {
    present[i] = random.next() < 0.9 ? 1 : 0
    const twin = random.next() < 0.3 && i > 0 ? random.integer(i) : -1
    for (let c = 0; c < columns; c++) {
      const drawn = kind === "binary" ? (random.next() < 0.25 ? 1 : 0) : random.normal()
      values[i * columns + c] = twin < 0 ? drawn : values[twin * columns + c]
    }
  }
  const user = new Int32Array(events)
  const item = new Int32Array(events)
  let current = 0
  for (let l = 0; l < events; l++) {
    if (random.next() < 0.1) current = Math.floor(users * random.next() ** 2)
    user[l] = current
    item[l] = Math.floor(items * random.next() ** 3)
  }
  const names = Array.from({ length: columns }, (_, c) => `f${c}`)
  return { length: events, user, item, features: { columns: names, values, present } }
}

function makeColumns(length: number): IndicatorColumns {
  const column = () => new Float64Array(length)
  return { userFrequency: column(), itemFrequency: column(), ind: column(), pod: column() }
}

/** The definitions, word for word, from everything that has happened so far. */
function define(stream: Events & { features: FeatureMatrix }, last: number): { ind: number; pod: number } {
  const { features, user, item } = stream
  const columns = features.columns.length
  const vectors = (u: number): number[][] => {
    const rows: number[][] = []
    for (let l = 0; l <= last; l++) {
      if (user[l] !== u || features.present[item[l]] === 0) continue
      rows.push([...features.values.subarray(item[l] * columns, (item[l] + 1) * columns)])
    }
    return rows
  }
  const mean = (rows: number[][]) => rows[0].map((_, c) => rows.reduce((sum, row) => sum + row[c], 0) / rows.length)
  const spread = (rows: number[][]): number => {
    if (rows.length === 0) return 0
    const center = mean(rows)
    return rows.reduce((sum, row) => sum + Math.hypot(...row.map((x, c) => x - center[c])), 0) / rows.length
  }
  const raters: number[][] = []
  for (let l = 0; l <= last; l++) {
    if (item[l] !== item[last]) continue
    const rows = vectors(user[l])
    if (rows.length > 0) raters.push(mean(rows))
  }
  return { ind: spread(vectors(user[last])), pod: spread(raters) }
}

/** Ranks, equal values sharing their mean rank. */
function rank(values: Float64Array): Float64Array {
  const order = Uint32Array.from(values, (_, i) => i).sort((a, b) => values[a] - values[b])
  const ranks = new Float64Array(values.length)
  for (let from = 0; from < order.length; ) {
    let to = from
    while (to < order.length && values[order[to]] === values[order[from]]) to += 1
    for (let k = from; k < to; k++) ranks[order[k]] = (from + to - 1) / 2
    from = to
  }
  return ranks
}

function correlate(a: Float64Array, b: Float64Array): number {
  const mean = (x: Float64Array) => x.reduce((sum, value) => sum + value, 0) / x.length
  const [meanA, meanB] = [mean(a), mean(b)]
  let ab = 0
  let aa = 0
  let bb = 0
  for (let i = 0; i < a.length; i++) {
    ab += (a[i] - meanA) * (b[i] - meanB)
    aa += (a[i] - meanA) ** 2
    bb += (b[i] - meanB) ** 2
  }
  return ab / Math.sqrt(aa * bb)
}

describe("indicators", () => {
  it("agree with the golden case to 1e-8", () => {
    checkIndicators(golden)
  })

  it("are refused by the golden comparer when one value is wrong, so it can fail", () => {
    for (const name of ["userFrequency", "itemFrequency", "ind", "pod"]) {
      const wrong = structuredClone(golden)
      wrong.events[100][name] += 1e-6
      expect(() => checkIndicators(wrong), name).toThrow(`event 100 ${name}`)
    }
  })

  it("agree with their definitions on random streams, genres or any numbers, to 1e-9", () => {
    for (let seed = 1; seed <= 6; seed++) {
      const kind = seed % 2 === 0 ? "binary" : "real"
      const stream = makeStream({ seed, events: 120, users: 9, items: 14, columns: 5, kind })
      for (const exact of [true, false]) {
        const out = makeColumns(stream.length)
        new Indicators({ features: stream.features, exact }).observeBatch(stream, out)
        for (let l = 0; l < stream.length; l++) {
          const want = define(stream, l)
          const place = `seed ${seed}, event ${l}, exact ${exact}`
          expect(Math.abs(out.ind[l] - want.ind), `IND, ${place}`).toBeLessThan(1e-9)
          if (exact || out.itemFrequency[l] <= 32) {
            expect(Math.abs(out.pod[l] - want.pod), `POD, ${place}`).toBeLessThan(1e-9)
          }
        }
      }
    }
  })

  it("keep IND exact to 1e-9 with more distinct vectors than the table of inner products holds", () => {
    const stream = makeStream({ seed: 3, events: 6000, users: 12, items: 9000, columns: 6, kind: "real" })
    const [fast, exact] = [makeColumns(stream.length), makeColumns(stream.length)]
    const indicators = new Indicators({ features: stream.features })
    indicators.observeBatch(stream, fast)
    new Indicators({ features: stream.features, exact: true }).observeBatch(stream, exact)
    for (let l = 0; l < stream.length; l++)
      expect(Math.abs(fast.ind[l] - exact.ind[l]), `event ${l}`).toBeLessThan(1e-9)
  })

  it("estimate POD with rank correlation above 0.96 and mean relative error below 3 %, IND without error", () => {
    const stream = makeStream({ seed: 5, events: 20_000, users: 1500, items: 150, columns: 18, kind: "binary" })
    const [fast, exact] = [makeColumns(stream.length), makeColumns(stream.length)]
    new Indicators({ features: stream.features, reservoir: 256 }).observeBatch(stream, fast)
    new Indicators({ features: stream.features, exact: true }).observeBatch(stream, exact)
    let relative = 0
    let counted = 0
    let popular = 0
    for (let l = 0; l < stream.length; l++) {
      expect(Math.abs(fast.ind[l] - exact.ind[l]), `IND of event ${l}`).toBeLessThan(1e-12)
      if (exact.itemFrequency[l] > 256) popular += 1
      if (exact.pod[l] === 0) continue
      relative += Math.abs(fast.pod[l] - exact.pod[l]) / exact.pod[l]
      counted += 1
    }
    expect(popular).toBeGreaterThan(5000)
    expect(relative / counted).toBeLessThan(0.03)
    expect(relative / counted).toBeGreaterThan(0)
    expect(correlate(rank(fast.pod), rank(exact.pod))).toBeGreaterThan(0.96)
  })

  it("sample the raters of a popular item without bias, whatever the seed", () => {
    // The first half of the raters like one genre, the second half the other: POD of a fair sample is near 0.5·√2.
    const features = { columns: ["a", "b"], values: Float32Array.of(1, 0, 0, 1, 0, 0), present: Uint8Array.of(1, 1, 0) }
    let sum = 0
    const seeds = 20
    for (let seed = 1; seed <= seeds; seed++) {
      const indicators = new Indicators({ features, reservoir: 64, seed })
      for (let u = 0; u < 4000; u++) {
        indicators.observe(u, u < 1000 ? 0 : 1)
        indicators.observe(u, 2)
      }
      sum += indicators.diversity("item", 2)
    }
    // A quarter at one end, three quarters at the other: mean distance 2·¼·¾·√2.
    expect(sum / seeds).toBeGreaterThan(0.93 * 0.375 * Math.SQRT2)
    expect(sum / seeds).toBeLessThan(1.03 * 0.375 * Math.SQRT2)
  })

  it("give the same numbers for the same seed", () => {
    const stream = makeStream({ seed: 8, events: 3000, users: 200, items: 10, columns: 4, kind: "binary" })
    const runs = [1, 1, 2].map((seed) => {
      const out = makeColumns(stream.length)
      new Indicators({ features: stream.features, reservoir: 16, seed }).observeBatch(stream, out)
      return out
    })
    expect(runs[1]).toEqual(runs[0])
    expect(runs[2].pod).not.toEqual(runs[0].pod)
    expect(runs[2].ind).toEqual(runs[0].ind)
  })

  it("are the same one by one as in batches of any cut", () => {
    for (let seed = 1; seed <= 5; seed++) {
      const stream = makeStream({ seed, events: 700, users: 40, items: 30, columns: 4, kind: "real" })
      const whole = makeColumns(stream.length)
      new Indicators({ features: stream.features }).observeBatch(stream, whole)
      const one = new Indicators({ features: stream.features })
      const cut = new Indicators({ features: stream.features })
      const random = new Random(seed, "cuts")
      for (let from = 0; from < stream.length; ) {
        const length = Math.min(stream.length - from, 1 + random.integer(90))
        const part = makeColumns(length)
        cut.observeBatch({ length, user: stream.user.subarray(from), item: stream.item.subarray(from) }, part)
        for (let r = 0; r < length; r++) {
          const l = from + r
          one.observe(stream.user[l], stream.item[l])
          const place = `seed ${seed}, event ${l}`
          expect(part.ind[r], place).toBe(whole.ind[l])
          expect(part.pod[r], place).toBe(whole.pod[l])
          expect(one.frequency("user", stream.user[l]), place).toBe(whole.userFrequency[l])
          expect(one.frequency("item", stream.item[l]), place).toBe(whole.itemFrequency[l])
          expect(one.diversity("user", stream.user[l]), place).toBe(whole.ind[l])
          expect(one.diversity("item", stream.item[l]), place).toBe(whole.pod[l])
        }
        from += length
      }
    }
  })

  it("keep their state exact over rows whose diversity is skipped", () => {
    for (let seed = 1; seed <= 5; seed++) {
      const kind = seed % 2 === 0 ? "binary" : "real"
      const stream = makeStream({ seed, events: 800, users: 30, items: 40, columns: 5, kind })
      const random = new Random(seed, "masks")
      const user = Uint8Array.from({ length: stream.length }, () => (random.next() < 0.6 ? 1 : 0))
      const item = Uint8Array.from({ length: stream.length }, () => (random.next() < 0.6 ? 1 : 0))
      const [all, some] = [makeColumns(stream.length), makeColumns(stream.length)]
      new Indicators({ features: stream.features, exact: true }).observeBatch(stream, all)
      new Indicators({ features: stream.features }).observeBatch(stream, some, { user, item })
      for (let l = 0; l < stream.length; l++) {
        const place = `seed ${seed}, event ${l}`
        expect(some.userFrequency[l], place).toBe(all.userFrequency[l])
        expect(Math.abs(some.ind[l] - (user[l] === 1 ? 0 : all.ind[l])), `IND, ${place}`).toBeLessThan(1e-9)
        if (item[l] === 1 || all.itemFrequency[l] <= 32) {
          expect(Math.abs(some.pod[l] - (item[l] === 1 ? 0 : all.pod[l])), `POD, ${place}`).toBeLessThan(1e-9)
        }
      }
    }
  })

  it("leave items without features out of IND but give them a POD over raters with a mean", () => {
    const features = { columns: ["a", "b"], values: Float32Array.of(1, 0, 0, 1, 9, 9), present: Uint8Array.of(1, 1, 0) }
    for (const exact of [true, false]) {
      const indicators = new Indicators({ features, exact })
      indicators.observe(0, 0)
      indicators.observe(1, 1)
      indicators.observe(0, 2)
      indicators.observe(1, 2)
      indicators.observe(2, 2)
      indicators.observe(2, 7)
      expect(indicators.diversity("user", 0)).toBe(0)
      expect(indicators.diversity("user", 2)).toBe(0)
      expect(indicators.diversity("item", 2)).toBeCloseTo(Math.SQRT1_2, 12)
      expect(indicators.diversity("item", 7)).toBe(0)
      expect(indicators.frequency("item", 7)).toBe(1)
    }
  })

  it("count an all-zero vector as a vector, and a repeated pair twice", () => {
    const features = { columns: ["a"], values: Float32Array.of(0, 1), present: Uint8Array.of(1, 1) }
    const indicators = new Indicators({ features })
    indicators.observe(0, 0)
    indicators.observe(0, 1)
    expect(indicators.diversity("user", 0)).toBe(0.5)
    indicators.observe(0, 1)
    expect(indicators.diversity("user", 0)).toBeCloseTo((2 / 3 + 1 / 3 + 1 / 3) / 3, 12)
    expect(indicators.diversity("item", 1)).toBe(0)
  })

  it("take in features that come after the first event", () => {
    const features = { columns: ["a"], values: Float32Array.of(0, 1), present: Uint8Array.of(1, 0) }
    const indicators = new Indicators({ features })
    indicators.observe(0, 0)
    indicators.observe(0, 1)
    expect(indicators.diversity("user", 0)).toBe(0)
    features.present[1] = 1
    indicators.observe(0, 1)
    expect(indicators.diversity("user", 0)).toBe(0.5)
  })

  it("know only frequencies without features", () => {
    const indicators = new Indicators()
    const out = makeColumns(3)
    indicators.observeBatch({ length: 3, user: Int32Array.of(4, 4, 300), item: Int32Array.of(0, 900, 900) }, out)
    expect([...out.userFrequency]).toEqual([1, 2, 1])
    expect([...out.itemFrequency]).toEqual([1, 1, 2])
    expect([...out.ind, ...out.pod]).toEqual([0, 0, 0, 0, 0, 0])
    expect(indicators.frequency("user", 5000)).toBe(0)
    expect(indicators.diversity("item", 5000)).toBe(0)
  })

  it("hold memory by ids, not by events", () => {
    const stream = makeStream({ seed: 2, events: 30_000, users: 100, items: 60, columns: 6, kind: "binary" })
    const indicators = new Indicators({ features: stream.features })
    const out = makeColumns(stream.length)
    // A vector met for the second time takes its count along; after that nothing is added.
    indicators.observeBatch(stream, out)
    indicators.observeBatch(stream, out)
    const before = indicators.bytes
    indicators.observeBatch(stream, out)
    indicators.observeBatch(stream, out)
    expect(before).toBeGreaterThan(60 * 4)
    expect(indicators.bytes).toBe(before)
  })

  it("refuse bad ids, short columns, features that are no numbers and options outside their domain", () => {
    const indicators = new Indicators()
    for (const id of [-1, 0.5, Number.NaN, 2 ** 31]) {
      expect(() => indicators.observe(id, 0)).toThrow(/user index: expected a whole number from 0, got/)
      expect(() => indicators.observe(0, id)).toThrow(/item index/)
      expect(() => indicators.diversity("item", id)).toThrow(DessError)
    }
    const batch = { length: 2, user: Int32Array.of(0, -3), item: Int32Array.of(0, 0) }
    expect(() => indicators.observeBatch(batch, makeColumns(2))).toThrow(/user index.*got -3/)
    expect(() => indicators.observeBatch(batch, makeColumns(1))).toThrow(/expected 2 rows, got 1/)
    const short = { user: new Uint8Array(1) }
    expect(() => indicators.observeBatch(batch, makeColumns(2), short)).toThrow(/skippedUsers: expected 2 rows/)
    expect(() => new Indicators({ reservoir: 0 })).toThrow(/reservoir/)
    expect(() => new Indicators({ seed: Number.NaN })).toThrow(/seed/)
    const present = Uint8Array.of(1)
    expect(() => new Indicators({ features: { columns: [], values: new Float32Array(0), present } })).toThrow(/columns/)
    expect(() => new Indicators({ features: { columns: ["a"], values: new Float32Array(0), present } })).toThrow(
      /expected 1 rows of 1, got 0 numbers/,
    )
    const broken = new Indicators({ features: { columns: ["a"], values: Float32Array.of(Number.NaN), present } })
    expect(() => broken.observe(0, 0)).toThrow(/feature "a" of item 0: expected a finite number, got NaN/)
  })
})
